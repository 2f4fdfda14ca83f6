"""Measures whether the texts of a row belong together, and their copies, as plain values for JSON.

Each function returns the arguments of functions of `gradlab.diagnosis.data_verdicts`, or None where
there is nothing to measure.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from gradlab.data.cooccurrence import foretold_rank, rank_of_partners
from gradlab.data.words import (
    broken,
    shares_of_identifiers,
    signed,
    spaced_wrongly,
    word_overlap,
    words_of,
)
from gradlab.diagnosis.observation import Observation, ObservedBatch

# Rows whose words are compared, each with so many other rows; of these, rows that are compared with
# all.
WORDED_ROWS, COMPARED_ROWS, NEAREST_ROWS = 512, 16, 48
Numbers = dict[str, Any]


def of_texts(
    observation: Observation, table: Mapping[str, Sequence[str]], batch: ObservedBatch
) -> dict[str, Numbers | None]:
    """Return the measurements of a data set's texts: columns, empty texts and duplicates."""
    if not table or not all(table.values()):
        return {}
    labelled, is_registered = batch.labelled, batch.registered is not None
    # A triplet has a negative of its own: other rows, with the same text as well, are none.
    has_negatives = batch.snapshot is None or batch.snapshot.in_batch_negatives
    names, cells = list(table), list(table.values())
    counts = [Counter(column) for column in cells]
    alike = [[signed(text) for text in column] for column in cells[:2]]
    rows, pairs = len(cells[0]), sum(_repeats(Counter(column)) for column in alike)
    whole = _repeats(Counter(zip(*alike, strict=True)))
    pairs -= whole if len(cells) > 1 else 0
    text, repeats = max((count.most_common(1)[0] for count in counts), key=lambda most: most[1])
    sampler = str(getattr(getattr(observation.args, "batch_sampler", ""), "value", "")).lower()
    shares = {name: _share(column, lambda text: not text.strip()) for name, column in table.items()}
    are_numbers = shares_of_identifiers(table)
    spaced = {name: list(spaced_wrongly(column[:WORDED_ROWS])) for name, column in table.items()}
    hyphened = {name: list(broken(column[:WORDED_ROWS])) for name, column in table.items()}
    repeated = {
        name: [*count.most_common(1)[0], rows, len(count)]
        for name, count in zip(names, counts, strict=True)
    }
    duplicates = {
        "pairs": pairs,
        "whole": whole,
        "rows": rows,
        "batch": int(observation.args.train_batch_size),
        "kept_apart": "no_duplicates" in sampler,
        "most_repeated": text,
        "repeats": repeats,
        "fewest": min(zip(map(len, counts), names, strict=True)),
    }
    by_order = {"names": names, "row": [column[0] for column in cells], "own": batch.is_own}
    return {
        "columns": None if labelled or len(names) < 2 else by_order,
        "texts": {
            "empty": shares,
            "numbers": are_numbers,
            "repeated": repeated,
            "spaced": spaced,
            "broken": hyphened,
            "in_batch": has_negatives and not labelled,
        },
        "duplicates": duplicates if is_registered and has_negatives and not labelled else None,
    }


def views(batches: list[ObservedBatch]) -> Numbers | None:
    """Return cosines of anchors to positives and to other candidates."""
    cosines = [batch.cosines for batch in batches if batch.cosines is not None]
    if not cosines:
        return None
    positives = torch.cat([square.diagonal() for square in cosines])
    candidates = torch.cat(
        [square[~torch.eye(*square.shape, dtype=torch.bool)] for square in cosines]
    )
    rounding = 1e-3 if batches[0].half else 1e-6
    return {
        "positive": float(positives.mean()),
        "candidate": float(candidates.mean()) if len(candidates) else math.nan,
        "lowest": float(candidates.min()) if len(candidates) else math.nan,
        "equal": float((positives > 1 - rounding).double().mean()),
        "same_texts": all(_same_texts(batch.columns) > 0.5 for batch in batches),
    }


def pairs(batches: list[ObservedBatch], texts: Sequence[Sequence[str]]) -> Numbers | None:
    """Return how often positives are nearer than other candidates, by embeddings and by words.

    ``texts`` are the columns of the data set.
    """
    cosines = [batch.cosines for batch in batches if batch.cosines is not None]
    spread = [square for square in cosines if square.shape[1] > 1 and float(square.std()) > 1e-6]
    if not spread:
        return None
    ranks = torch.cat([rank_of_partners(square) for square in spread])
    worded = [column[:WORDED_ROWS] for column in texts]
    words = list(word_ranks(worded))
    words_of_columns = [[set(words_of(text)) for text in column] for column in worded[:2]]
    return {
        "anchors": len(ranks),
        "share": float(ranks.mean()),
        "rows": len(words),
        "word_share": sum(words) / len(words) if words else math.nan,
        "nearest": _nearest(worded[:2]),
        "foretold": foretold_rank(*words_of_columns) if len(worded) > 1 else 0.5,
    }


def hard_negatives(batches: list[ObservedBatch]) -> Numbers | None:
    """Return the shares of hard negatives that are the positive's text, and that are nearer.

    ``words`` is the share of those that have more rare tokens in common with the anchor, among
    their own and its, than the positive.
    """
    same, nearer, by_words = dict[int, list[float]](), list[torch.Tensor](), list[bool]()
    for batch in batches:
        count, cosines = len(batch.columns) - 2, batch.cosines
        if count < 1 or cosines is None or cosines.shape[1] != len(cosines) * (count + 1):
            return None
        for place, column in enumerate(batch.columns[2:]):
            same.setdefault(place, []).append(_same_texts([batch.columns[1], column]))
        positives, *hard = (square.diagonal() for square in cosines.split(len(cosines), dim=1))
        nearer += [(cosine > positives).double() for cosine in hard]
        for anchor, positive, *negatives in _rare_tokens(batch.columns):
            common = _in_common(anchor, positive)
            by_words += [_in_common(anchor, negative) > common for negative in negatives]
    most = max(sum(shares) / len(shares) for shares in same.values())
    measured = {"same": most, "nearer": float(torch.cat(nearer).mean())}
    if by_words:
        words = sum(by_words) / len(by_words)
        measured |= {"anchors": sum(map(len, nearer)) // count, "words": words}
    return measured


def unrelated_rows(batches: list[ObservedBatch]) -> Numbers | None:
    """Return how rows whose texts have no rare token in common compare with the other rows.

    Ranks are the mean shares of other candidates that are farther than the positive.
    """
    common, ranks = list[bool](), list[torch.Tensor]()
    for batch in batches:
        columns = batch.columns[:2]
        tokens = _rare_tokens(columns)
        if batch.cosines is None or len(columns) < 2 or not tokens:
            return None
        common += [bool(a & b) for a, b in tokens]
        ranks.append(rank_of_partners(batch.cosines))
    share, rank = torch.tensor(common), torch.cat(ranks)
    if len(share) != len(rank) or bool(share.all()) or not bool(share.any()):
        return None
    return {
        "rows": len(rank), "without": 1 - float(share.double().mean()),
        "rank_without": float(rank[~share].mean()), "rank_with": float(rank[share].mean()),
    }  # fmt: skip


def with_strangers(checks: Mapping[str, Numbers | None]) -> Numbers | None:
    """Return `unrelated_rows` with the share of strangers by the words of the whole table."""
    numbers, partners = checks.get("unrelated_rows"), (checks.get("strays") or {}).get("partners")
    return numbers | {"strangers": partners["strangers"]} if numbers and partners else numbers


def word_ranks(texts: Sequence[Sequence[str]]) -> Iterable[float]:
    """Yield each row's share of other rows whose second text has fewer words of its first text.

    Rare words count more; ties count half.
    """
    if len(texts) < 2:
        return
    columns = [[set(words_of(text)) for text in column] for column in texts[:2]]
    count = len(columns[0])
    frequency = Counter(word for column in columns for words in column for word in words)
    weight = {word: math.log(2 * count / times) for word, times in frequency.items()}
    shifts = range(1, min(COMPARED_ROWS, count - 1) + 1)

    def overlap(row: int, partner: int) -> float:
        common = columns[0][row] & columns[1][partner]
        union = columns[0][row] | columns[1][partner]
        return sum(map(weight.__getitem__, common)) / (sum(map(weight.__getitem__, union)) or 1.0)

    for row in range(count):
        own = overlap(row, row)
        shared = [overlap(row, (row + shift) % count) for shift in shifts]
        if shared:
            yield sum((s < own) + (s == own) / 2 for s in shared) / len(shared)


def _rare_tokens(columns: Sequence[Mapping[str, Any]]) -> list[list[set[int]]]:
    """Return each row's tokens by column, of those that stand in an eighth of the texts at most.

    The list is empty if there are no tokens.
    """
    if not columns or any(getattr(c.get("input_ids"), "ndim", 0) != 2 for c in columns):
        return []
    tokens = [[set(ids.tolist()) for ids in column["input_ids"]] for column in columns]
    counts = Counter(token for rows in tokens for row in rows for token in row)
    most = max(3, len(tokens) * len(tokens[0]) // 8)
    rare = {token for token, count in counts.items() if count <= most}
    return [[row & rare for row in rows] for rows in zip(*tokens, strict=False)]


def _in_common(first: set[int], second: set[int]) -> float:
    return len(first & second) / max(1, len(first | second))


def _nearest(texts: Sequence[Sequence[str]]) -> float:
    """Return the mean share of words of a first text that the nearest of all second texts has."""
    if len(texts) < 2:
        return 0.0
    overlap, count = word_overlap(texts), len(texts[0])
    rows = range(0, count, max(1, count // NEAREST_ROWS))
    nearest = [max(overlap(0, row, 1, partner) for partner in range(count)) for row in rows]
    return sum(nearest) / max(1, len(nearest))


def _same_texts(columns: list[Mapping[str, Any]]) -> float:
    """Return the share of rows with equal tokens in the first two columns; 1 for one column."""
    if len(columns) < 2:
        return float(len(columns))
    if all({"input_ids", "offsets"} <= set(column) for column in columns[:2]):  # static embeddings
        first, second = (
            [ids.tolist() for ids in column["input_ids"].tensor_split(column["offsets"][1:].cpu())]
            for column in columns[:2]
        )
        return sum(map(operator.eq, first, second)) / max(1, len(first))
    if any("input_ids" not in column or "attention_mask" not in column for column in columns[:2]):
        return 0.0
    rows = [
        [ids[mask.bool()].tolist() for ids, mask in zip(
            column["input_ids"], column["attention_mask"], strict=True
        )]
        for column in columns[:2]
    ]  # fmt: skip
    return sum(first == second for first, second in zip(*rows, strict=True)) / len(rows[0])


def _share(texts: Sequence[str], condition: Callable[[str], bool]) -> float:
    return sum(map(condition, texts)) / max(1, len(texts))


def _repeats(counts: Mapping[Any, int]) -> int:
    """Return the number of pairs of rows with the same text."""
    return sum(count * (count - 1) // 2 for count in counts.values())

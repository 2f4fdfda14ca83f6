"""Measures which texts of other rows a row fits, and copies within real batches, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.pairing_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gradlab.data.partners import partner_numbers, repetitions
from gradlab.data.words import plain, word_overlap, words_of
from gradlab.diagnosis.observation import Observation, ObservedBatch

# Rows whose words are compared with those of all others.
COMPARED_ROWS = 512
# Texts whose tokens are counted; rows of batches of which one is as long as half of all texts.
READ_TEXTS, FEWEST_ROWS = 64, 12
# Library of losses of a single term, and the weight of the second term of those that have one.
LIBRARY, KEPT_TOGETHER = "sentence_transformers.", "kl_div_weight"
Numbers = dict[str, Any]


def outweighed(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the largest share of a batch's gradient that depends on pairs; see `pairing_trials`.

    ``rows`` is the number of rows of the largest batch. None for losses of the library that
    are of a single term, which hardly depend on pairs while their margin is met, and for losses
    with an encoder of their own, such as a teacher.
    """
    measured = [batch for batch in batches if batch.pairing is not None and batch.columns]
    own = not type(observation.trainer).compute_loss.__module__.startswith(LIBRARY)
    own |= not type(batches[0].loss).__module__.startswith(LIBRARY)
    if _has_teacher(observation, batches[0].loss):
        return None
    if not measured or not (own or hasattr(batches[0].loss, KEPT_TOGETHER)):
        return None
    rows = max(len(batch.columns[0]["input_ids"]) for batch in measured)
    return {"share": max(batch.pairing or 0.0 for batch in measured), "rows": rows}


def strays(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the share of rows whose second text fits the first text of another row.

    It has at least as many words of that text as half of all rows have of their own, and at least
    twice as many as of its own row's, and that other row has lost its own text as well. Texts that
    are equal, as of sentences that are paired with the next one, are left out. ``own_rank`` is the
    mean share of first texts that fit such a text less than that of its own row. ``partners`` are
    the numbers of `partner_numbers`.
    """
    columns = [column for column in observation.table_of(dataset).values() if column]
    columns, third = columns[:2], columns[2:3]
    if len(columns) < 2 or batches[0].labelled or len(columns[0]) != len(columns[1]):
        return None
    first, second = (column[:COMPARED_ROWS] for column in columns)
    common = _common(first, second)
    own = common.diagonal().copy()
    np.fill_diagonal(common, -1.0)
    best = common.argmax(0)
    median = float(np.median(own))
    nearest = common.max(0)
    fits = (nearest >= median) & (nearest >= 2 * own) & (own[best] < 0.5 * nearest) & (median > 0)
    same = [plain(second[row]) == plain(first[at]) for row, at in enumerate(best.tolist())]
    fits &= ~np.array(same)
    ranks = [float((common[:, row] < own[row]).mean()) for row in np.flatnonzero(fits)]
    return {
        "partners": partner_numbers(*columns, *third),
        "rows": len(own), "share": float(fits.mean()), "median": median,
        "own_rank": sum(ranks) / len(ranks) if ranks else 0.0,
    }  # fmt: skip


def exchanged(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how often a negative is nearer to the anchor than the positive, of two kinds.

    ``words`` is the share of rows by common words; half of the rows that have equally many count.
    ``embeddings`` is that of the first batches by the encoder as it is. For the others see
    `repetitions`.
    """
    columns = [column for column in observation.table_of(dataset).values() if column]
    if len(columns) != 3 or batches[0].labelled:
        return None
    rows = [column[:COMPARED_ROWS] for column in columns]
    overlap, shares = word_overlap(rows), list[float]()
    for row in range(len(rows[0])):
        positive, negative = overlap(0, row, 1, row), overlap(0, row, 2, row)
        shares.append(float(negative > positive) + (negative == positive) / 2)
    nearer = list[float]()
    for batch in batches:
        if len(batch.embedded) == 3:
            anchors, positives, negatives = (
                torch.nn.functional.normalize(tensor.double(), dim=1) for tensor in batch.embedded
            )
            nearer += (
                ((anchors * negatives).sum(1) > (anchors * positives).sum(1)).double().tolist()
            )
    if not nearer:
        return None
    return {
        "rows": len(shares), "words": sum(shares) / len(shares), "embedded": len(nearer),
        "embeddings": sum(nearer) / len(nearer), "column": list(observation.table_of(dataset))[2],
        **repetitions(*rows),
    }  # fmt: skip


def copies(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the share of rows of real batches that stand in them again, and that in the data set.

    ``meant`` is the number of rows that a batch should have, and ``size`` that it has.
    """
    if batches[0].labelled or len(batches[0].columns) < 2:
        return None
    repeated, rows = 0, 0
    for batch in batches:
        tokens = [_rows_of(column) for column in batch.columns[:2]]
        if not all(tokens):
            return None
        counts = Counter(zip(*tokens, strict=False))
        repeated += sum(count for count in counts.values() if count > 1)
        rows += counts.total()
    table = [column for column in observation.table_of(dataset).values() if column][:2]
    if len(table) < 2 or not rows:
        return None
    of_table = Counter(zip(*table, strict=False))
    return {
        "rows": rows, "share": repeated / rows,
        "in_data": sum(count for count in of_table.values() if count > 1) / of_table.total(),
        "meant": min(int(observation.args.train_batch_size), len(table[0])),
        "size": max(len(_rows_of(batch.columns[0])) for batch in batches),
    }  # fmt: skip


def head(observation: Observation) -> Numbers | None:
    """Return which weights of the loss itself get no gradient, no rate, or are made anew.

    ``rate`` is the lowest learning rate of such weights relative to the largest of the encoder;
    None if that is unknown.
    """
    own = _own_weights(observation)
    layers = list(dict.fromkeys(name for batch in observation.batches for name in batch.new_layers))
    if not own and not layers:
        return None
    reached = {name for batch in observation.batches for name, size in batch.gradients.items()
               if size}  # fmt: skip
    missed = [name for name in own if name not in reached]
    encoder = bool(reached.intersection(observation.trained))
    existing, places = getattr(observation.trainer, "optimizer", None), {}
    for group in existing.param_groups if existing is not None else []:
        rate = float(group.get("initial_lr", group["lr"]))
        places.update(dict.fromkeys(map(id, group["params"]), rate))
    rates = [places[id(weight)] for weight in own.values() if id(weight) in places]
    largest = max(
        (places.get(id(weight), 0.0) for weight in observation.trained.values()), default=0.0
    )
    return {
        "weights": len(own), "missed": len(missed) if encoder else 0,
        "name": missed[0] if missed else "", "layer": layers[0] if layers else "",
        "rate": min(rates) / largest if rates and largest else None,
    }  # fmt: skip


def lengths_in_batches(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the column whose texts have fewest tokens in batches, relative to those in use.

    ``tokens`` are those of the longest text in batches, ``share`` their ratio to the median in use.
    """
    model = observation.trainer.model
    table = list(observation.table_of(dataset).items())
    if len(table) != len(batches[0].columns) or not hasattr(model, "preprocess"):
        return None
    least: Numbers | None = None
    for place, (name, cells) in enumerate(table):
        rows = [row for batch in batches for row in _rows_of(batch.columns[place])]
        whole = _rows_of(model.preprocess(list(cells[:: max(1, len(cells) // READ_TEXTS)])))
        if len(rows) < FEWEST_ROWS or not whole:
            return None
        longest, lengths = max(map(len, rows)), sorted(map(len, whole))
        share = longest / max(1, lengths[len(lengths) // 2])
        if least is None or share < least["share"]:
            least = {"column": name, "share": share, "tokens": float(longest)}
    return least


def stream(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return how alike neighbouring rows of a stream's batches are, beside rows of other batches.

    ``alike`` is the mean share of rows of other batches with fewer words in common with a row than
    the next one of its batch. None for data sets whose rows are known.
    """
    tokenizer: Any = getattr(observation.trainer.model, "tokenizer", None)
    if hasattr(observation.trainer.train_dataset, "__len__") or observation.draws.get(dataset):
        return None
    if len(batches) < 2 or not hasattr(tokenizer, "decode"):
        return None
    words = [
        [set(words_of(tokenizer.decode(list(ids), skip_special_tokens=True)))
         for ids in _rows_of(batch.columns[0])]
        for batch in batches if batch.columns
    ]  # fmt: skip
    ranks = list[float]()
    for place, rows in enumerate(words):
        distant = [row for at, far in enumerate(words) if at != place for row in far]
        for row, following in itertools.pairwise(rows):
            near = _jaccard(row, following)
            far_shares = [_jaccard(row, far) for far in distant]
            ranks.append(
                sum((share < near) + (share == near) / 2 for share in far_shares) / len(far_shares)
            )
    return {"pairs": len(ranks), "alike": sum(ranks) / len(ranks)} if ranks else None


def _jaccard(first: set[str], second: set[str]) -> float:
    return len(first & second) / max(1, len(first | second))


OF_TRAINER = (head,)
OF_LOSS = (strays, exchanged, copies, stream, lengths_in_batches, outweighed)


def _rows_of(column: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """Return the tokens of each text without padding; empty if they are unknown."""
    ids, mask = column.get("input_ids"), column.get("attention_mask")
    if ids is None or mask is None or ids.ndim != 2 or mask.shape != ids.shape:
        return []
    return [tuple(row[own.bool()].tolist()) for row, own in zip(ids, mask, strict=True)]


def _has_teacher(observation: Observation, loss: Any) -> bool:
    """Return whether a loss holds an encoder of texts that is not in the model that is trained."""
    student = {id(module) for module in observation.trainer.model.modules()}
    modules = loss.modules() if isinstance(loss, torch.nn.Module) else ()
    return any(
        (hasattr(module, "encode") or hasattr(module, "get_input_embeddings"))
        and id(module) not in student
        for module in modules
    )


def _common(first: Sequence[str], second: Sequence[str]) -> np.ndarray:
    """Return the share of common words of each first and each second text, rare ones more."""
    words = [[set(words_of(text)) for text in column] for column in (first, second)]
    frequency = Counter(word for column in words for of_text in column for word in of_text)
    places = {word: at for at, word in enumerate(frequency)}
    total = sum(map(len, words))
    weights = np.log(1 + total / np.array([*frequency.values()], dtype=float))
    holds = [np.zeros((len(column), len(places))) for column in words]
    for table, column in zip(holds, words, strict=True):
        for row, of_text in enumerate(column):
            table[row, [places[word] for word in of_text]] = 1.0
    common = (holds[0] * weights) @ holds[1].T
    union = (holds[0] @ weights)[:, None] + (holds[1] @ weights)[None] - common
    return np.round(common / np.where(union > 0, union, 1.0), 9)


def _own_weights(observation: Observation) -> dict[str, torch.Tensor]:
    """Return trained weights of the losses themselves, without those of guides and teachers."""
    loss = getattr(observation.trainer, "loss", None)
    own: dict[str, torch.Tensor] = {}
    for objective in loss.values() if isinstance(loss, dict) else [loss]:
        if not isinstance(objective, torch.nn.Module):
            continue
        encoders = {id(weight) for weight in observation.trainer.model.parameters()}
        for module in objective.modules():
            if hasattr(module, "encode") or hasattr(module, "get_input_embeddings"):
                encoders.update(map(id, module.parameters()))
        own |= {
            f"loss.{name}": weight for name, weight in objective.named_parameters()
            if weight.requires_grad and id(weight) not in encoders
        }  # fmt: skip
    return own

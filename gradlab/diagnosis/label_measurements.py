"""Measures what labels, batches of the loader, tokens and units say of a set-up, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.label_verdicts` or `gradlab.diagnosis.encoder_verdicts`, or None where there is
nothing to measure.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import statistics
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.data.cooccurrence import FEWEST_ROWS, correlation
from gradlab.data.partners import ranks_of_partners
from gradlab.data.words import words_of
from gradlab.diagnosis.observation import Observation, ObservedBatch

LABEL_COLUMNS = ("label", "labels", "score", "scores")
# Other rows with which the words of a row and of its neighbour in the batch are compared.
OTHER_ROWS = 8
# Rows whose labels are compared with what their texts have in common; how far from 0 and 1 labels
# are that were smoothed.
RANKED_ROWS, SMOOTHED = 512, 0.2
# Losses that compare the entries of embeddings with those of a teacher.
OF_ENTRIES = ("MSELoss", "EmbedDistillLoss")
# Texts whose unknown tokens are looked at.
READ_TEXTS = 256
Numbers = dict[str, Any]


def labels(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the range of the labels, and whether the loss ignores them."""
    cells = label_cells(observation, dataset)
    if not cells or not all(isinstance(cell, int | float) for cell in cells):
        return None
    loss = batches[0].loss
    classes = getattr(loss, "num_labels", None)
    return {
        "loss": name_of_loss(loss),
        "low": float(min(cells)),
        "high": float(max(cells)),
        "distinct": len(set(cells)),
        "scaled": _is_scaled(loss),
        "between": sum(_is_between(cell, name_of_loss(loss)) for cell in cells) / len(cells),
        "ignored": batches[0].ignores_labels,
        "broadcast": batches[0].broadcasts_labels,
        **(_of_ignored(observation, dataset, cells) if batches[0].ignores_labels else {}),
        "of_sets": _labels_of_sets(observation),
        "classes": int(classes) if isinstance(classes, int) else 0,
    }


def height(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the lowest and the highest label."""
    numbers = labels(observation, dataset, batches)
    return numbers and {name: numbers[name] for name in ("loss", "low", "high", "distinct")}


def name_of_loss(loss: Any) -> str:
    """Return the class of a loss, or of the loss that it changes, as MatryoshkaLoss does."""
    inner = getattr(loss, "loss", None)
    return type(inner if isinstance(inner, nn.Module) else loss).__name__


def label_cells(observation: Observation, dataset: str) -> list[Any]:
    """Return the labels of a data set's rows; empty without labels."""
    rows = observation.rows_of(dataset)
    names = [name for name in LABEL_COLUMNS if name in getattr(rows, "column_names", ())]
    return list(rows[: observation.most_rows][names[0]]) if names else []


def classes(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the share of rows with another row of their class in their batch."""
    cells, drawn = label_cells(observation, dataset), observation.draws.get(dataset)
    if len(batches[0].columns) != 1 or not all(isinstance(cell, int) for cell in cells):
        return None
    weights = getattr(batches[0].loss, "named_parameters", dict)
    encoder = {id(weight) for weight in observation.trainer.model.parameters()}
    if any(id(weight) not in encoder for _, weight in dict(weights()).items()):
        return None  # of a classifier or proxies, which stand for the other rows of a class
    if cells and drawn:
        counts = [Counter(cells[row] for row in batch) for batch in drawn["batches"]
                  if max(batch) < len(cells)]  # fmt: skip
    else:  # a stream, of which the first batches are known
        labels_of = [batch.labels for batch in batches if batch.labels is not None]
        if not labels_of or any(labels.ndim != 1 or labels.is_floating_point()
                                for labels in labels_of):  # fmt: skip
            return None
        counts = [Counter(labels.tolist()) for labels in labels_of]
    rows = sum(sum(count.values()) for count in counts)
    if not rows:
        return None
    mates = sum(number for count in counts for number in count.values() if number > 1)
    single = sum(len(count) == 1 for count in counts) / len(counts)
    commonest = max(sum(counts, Counter()).values()) / rows
    return {
        "rows": rows, "with_mate": mates / rows, "single_class": single, "commonest": commonest,
        "own": batches[0].is_own,
    }  # fmt: skip


def order(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return whether rows come in the order of the data set, and whether neighbours are alike."""
    table, drawn = observation.table_of(dataset), observation.draws.get(dataset)
    columns = [column for column in table.values() if column]
    if not columns or not drawn:
        return None
    count = len(columns[0])
    words = [set(words_of(" ".join(cells))) for cells in zip(*columns, strict=True)]
    pairs = [(row, following) for batch in drawn["batches"]
             for row, following in itertools.pairwise(batch)
             if max(row, following) < count]  # fmt: skip
    if not pairs or count <= OTHER_ROWS:
        return None
    ranks = list(_ranks(words, pairs))
    # In turns, an epoch ends with the smallest of several data sets, by design.
    sampler = getattr(observation.args, "multi_dataset_batch_sampler", "")
    in_turns = bool(dataset) and "round_robin" in str(getattr(sampler, "value", sampler)).lower()
    is_known = drawn["epoch"] is not None and not in_turns
    return {
        "pairs": len(pairs),
        "consecutive": sum(following - row == 1 for row, following in pairs) / len(pairs),
        "alike": sum(ranks) / len(ranks),
        "rows": count if is_known else 0,
        "drawn": drawn["epoch"] or 0,
    }


def outside(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the factor between the trainer's loss and that of the loss function.

    ``missed`` and ``instead`` are a column that the trainer leaves out, and the one in its place.
    """
    factor, replaced = batches[0].factor, batches[0].replaced
    if factor is None:
        return None
    names = list(observation.table_of(dataset))
    whole = len(names) == len(batches[0].columns)
    missed, instead = [names[place] if whole else str(place) for place in (*replaced, (0, 0))[0]]
    both = {"missed": missed, "instead": instead} if replaced else {}
    return {"factor": factor, "half": batches[0].half, **both}


def margin(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the margin of a loss, and the largest distance of its embeddings if there is one."""
    loss, embedded = batches[0].loss, batches[0].embedded
    size = getattr(loss, "triplet_margin", getattr(loss, "margin", None))
    distance = getattr(loss, "distance_metric", None)
    if not isinstance(size, int | float) or not callable(distance) or not embedded:
        return None
    rows = embedded[0].float()
    with contextlib.suppress(Exception):
        reach, longer = _distance(distance, rows), _distance(distance, 10 * rows)
        bounded = abs(longer / reach - 1) < 1e-3 or _are_unit(embedded)
        numbers = {"margin": float(size), "reach": reach, "bounded": bounded}
        return numbers | _of_labelled_pairs(distance, float(size), batches)
    return None


def teacher(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the largest margin of a teacher's scores, and that which the student can reach."""
    batch = batches[0]
    function, embedded = getattr(batch.loss, "similarity_fct", None), batch.embedded
    is_margin = type(batch.loss).__name__ == "MarginMSELoss"
    if not is_margin or not callable(function) or not 2 < len(embedded) == len(batch.columns):
        return None
    cells = torch.as_tensor(label_cells(observation, dataset), dtype=torch.float64)
    if not cells.numel():
        return None
    if cells.ndim == 2 and cells.shape[1] == len(embedded) - 1:
        cells = cells[:, :1] - cells[:, 1:]
    rows = embedded[0].float()
    own, longer = function(rows, rows), function(10 * rows, 10 * rows)
    own, longer = (s.diagonal() if s.ndim == 2 else s for s in (own, longer))
    reach = 2 * float(own.mean())
    return {
        "largest": float(cells.abs().max()),
        "beyond": float((cells.abs() > reach).double().mean()),
        "reach": reach,
        "bounded": bool((longer / own - 1).abs().max() < 1e-3) or _are_unit(embedded),
    }


def teaching(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how a teacher's scores or embeddings compare with what the student can give.

    ``preferred`` is the probability that a teacher's distribution gives its best candidate, times
    their number; 0 without one. ``lengths`` are those of a teacher's and the student's embeddings.
    """
    batch, name = batches[0], name_of_loss(batches[0].loss)
    cells = label_cells(observation, dataset)[: READ_TEXTS * 4]
    if name not in ("DistillKLDivLoss", *OF_ENTRIES) or not cells or not batch.embedded:
        return None
    try:
        rows = torch.as_tensor(cells, dtype=torch.float64)
    except (TypeError, ValueError):  # rows of different lengths
        return None
    if rows.ndim != 2 or not bool(rows.isfinite().all()):
        return None
    own = torch.cat([embedded.double().norm(dim=1) for embedded in batch.embedded])
    of_entries = name in OF_ENTRIES and getattr(batch.loss, "distance_metric", "mse") != "cosine"
    temperature = float(getattr(batch.loss, "temperature", 1.0))
    best = (rows / temperature).softmax(1).max(1).values.mean() if name not in OF_ENTRIES else 0.0
    return {
        "preferred": float(best) * rows.shape[1],
        "temperature": temperature,
        "lengths": [float(rows.norm(dim=1).mean()), float(own.mean())] if of_entries else [],
        "unit": _are_unit(batch.embedded),
    }


def lists(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the first column whose cells are lists of texts, and their number of texts."""
    rows = observation.rows_of(dataset)
    first = rows[0] if rows is not None and len(rows) else {}
    for column, cell in first.items():
        if isinstance(cell, list) and cell and all(isinstance(text, str) for text in cell):
            return {"column": column, "texts": len(cell)}
    return None


def unread(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the columns of texts without which a loss stays the same.

    A copy of a column that is read adds nothing that is lost.
    """
    table, columns = observation.table_of(dataset), len(batches[0].columns)
    places = [place for place in range(columns) if all(place in batch.unread for batch in batches)]
    names = list(table) if len(table) == columns else [str(place) for place in range(columns)]
    read = [table.get(name) for place, name in enumerate(names) if place not in places]
    lost = [names[place] for place in places
            if names[place] not in table or table[names[place]] not in read]  # fmt: skip
    return {"loss": name_of_loss(batches[0].loss), "columns": lost} if lost else None


def vocabulary(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the share of tokens of each column that the tokenizer does not know.

    Signs such as brackets are left out: they say nothing of a language. Without a token for what is
    unknown, ``wordless`` is the share of the texts of each column whose input is all zero.
    """
    tokenizer = getattr(observation.trainer.model, "tokenizer", None)
    unknown = getattr(tokenizer, "unk_token_id", None)
    names = list(observation.table_of(dataset))
    if unknown is None:
        wordless = _wordless(batches, names)
        return {"unknown": {}, "wordless": wordless} if wordless else None
    shares: dict[str, float] = {}
    for place in range(len(batches[0].columns)):
        columns = [batch.columns[place] for batch in batches if place < len(batch.columns)]
        tokens = [
            column["input_ids"][column["attention_mask"].bool()]
            for column in columns if {"input_ids", "attention_mask"} <= set(column)
        ]  # fmt: skip
        if tokens:
            name = names[place] if place < len(names) else str(place)
            words = _unknown_words(
                tokenizer, observation.table_of(dataset).get(name, [])[:READ_TEXTS]
            )
            share = float((torch.cat(tokens) == unknown).double().mean())
            shares[name] = share if words is None else min(share, words)
    return {"unknown": shares} if shares else None


def last_token(observation: Observation) -> Numbers | None:
    """Return the share of texts whose last token is special, where the last token is pooled."""
    model = observation.trainer.model
    modes = [getattr(module, "pooling_mode", "") for module in model.modules()]
    tokenizer = getattr(model, "tokenizer", None)
    special = getattr(tokenizer, "all_special_ids", None)
    if not any("last" in str(mode) for mode in modes) or not special:
        return None
    lasts: list[int] = []
    for column in (column for batch in observation.batches for column in batch.columns):
        if {"input_ids", "attention_mask"} <= set(column):
            for ids, mask in zip(column["input_ids"], column["attention_mask"], strict=True):
                lasts += ids[mask.bool()][-1:].tolist()
    ends = sum(token in special for token in lasts) / max(1, len(lasts))
    end = getattr(tokenizer, "eos_token", None) or ""
    same = bool(end) and end == getattr(tokenizer, "pad_token", None)
    return {"ends": ends, "end": str(end), "end_is_padding": same} if lasts else None


def first_token(observation: Observation) -> Numbers | None:
    """Return the share of texts whose first token is special, where the first token is pooled."""
    model = observation.trainer.model
    modes = [str(getattr(module, "pooling_mode", "")) for module in model.modules()]
    special = getattr(getattr(model, "tokenizer", None), "all_special_ids", None)
    if "cls" not in modes or not special:
        return None
    firsts = [
        ids[mask.bool()][:1].tolist()
        for batch in observation.batches for column in batch.columns
        if {"input_ids", "attention_mask"} <= set(column)
        for ids, mask in zip(column["input_ids"], column["attention_mask"], strict=True)
    ]  # fmt: skip
    begun = sum(token in special for tokens in firsts for token in tokens)
    return {"begun": begun / len(firsts)} if firsts else None


def _is_between(label: float, loss: str) -> bool:
    """Return whether a label is neither 0 nor 1, nor near them where that is a smoothed one."""
    near = SMOOTHED if loss == "ContrastiveLoss" else 0.0
    return min(abs(label), abs(label - 1)) > near


def _is_scaled(loss: Any) -> bool:
    """Return whether a loss changes cosines before it compares them with labels."""
    inner = getattr(loss, "loss", None)
    holder = inner if isinstance(inner, nn.Module) else loss
    change = getattr(holder, "cos_score_transformation", None)
    return change is not None and not isinstance(change, nn.Identity)


def _of_ignored(observation: Observation, dataset: str, cells: Sequence[float]) -> Numbers:
    """Return how labels that a loss ignores go with what the texts of their rows have in common."""
    texts = [column[:RANKED_ROWS] for column in observation.table_of(dataset).values() if column]
    if len(texts) < 2 or len(texts[0]) < FEWEST_ROWS:
        return {}
    ranks = ranks_of_partners(*texts[:2])
    return {"telling": correlation(cells[: len(ranks)], ranks), "ranked": len(ranks)}


def _labels_of_sets(observation: Observation) -> int:
    """Return the number of different labels of all data sets."""
    return len({
        cell for dataset in observation.tables for cell in label_cells(observation, dataset)
        if isinstance(cell, int | float)
    })  # fmt: skip


def _of_labelled_pairs(
    distance: Any, margin: float, batches: list[ObservedBatch]
) -> dict[str, float]:
    """Return the median distance of positives, and the share of negatives beyond a margin."""
    near, far = list[float](), list[float]()
    for batch in batches:
        if batch.labels is not None and len(batch.embedded) == 2:
            apart = distance(*(rows.float() for rows in batch.embedded)).flatten()
            labels = batch.labels.flatten()
            if len(apart) == len(labels):
                near += apart[labels == 1].tolist()
                far += apart[labels == 0].tolist()
    if not near or not far:
        return {}
    beyond = sum(size > margin for size in far) / len(far)
    return {"positives": statistics.median(near), "beyond": beyond}


def _wordless(batches: list[ObservedBatch], names: list[str]) -> dict[str, float]:
    """Return the share of all-zero inputs of each column of a model without a table of tokens.

    That are counts of words, as of a bag of words, or masks of words that have a vector.
    """
    shares: dict[str, float] = {}
    for place in range(len(batches[0].columns)):
        columns = [batch.columns[place] for batch in batches if place < len(batch.columns)]
        inputs = [column.get("sentence_embedding", column.get("attention_mask"))
                  for column in columns]  # fmt: skip
        rows = [
            (entries == 0).flatten(1).all(1) for entries in inputs
            if isinstance(entries, Tensor) and entries.ndim == 2
        ]  # fmt: skip
        if rows:
            name = names[place] if len(names) == len(batches[0].columns) else str(place)
            shares[name] = float(torch.cat(rows).double().mean())
    return shares


def _unknown_words(tokenizer: Any, texts: Sequence[str]) -> float | None:
    """Return the share of tokens that are unknown and no signs of ASCII; None if unclear."""
    if not getattr(tokenizer, "is_fast", False) or not texts:
        return None
    encoded = tokenizer(list(texts), return_offsets_mapping=True, truncation=True)
    unknown = [
        text[start:end]
        for text, tokens, spans in zip(
            texts, encoded["input_ids"], encoded["offset_mapping"], strict=True
        )
        for token, (start, end) in zip(tokens, spans, strict=True)
        if token == tokenizer.unk_token_id
    ]
    words = [piece for piece in unknown if set(piece) - set(string.punctuation)]
    return len(words) / max(1, sum(map(len, encoded["input_ids"])))


def _ranks(words: Sequence[set[str]], pairs: Sequence[tuple[int, int]]) -> Iterator[float]:
    """Yield the share of other rows with fewer words of a row than its neighbour in the batch."""
    draw = random.Random(0)

    def overlap(row: int, partner: int) -> float:
        union = words[row] | words[partner]
        return len(words[row] & words[partner]) / len(union) if union else 0.0

    for row, following in pairs:
        near = overlap(row, following)
        rows = draw.sample(range(len(words)), OTHER_ROWS + 1)
        far = [overlap(row, partner) for partner in rows if partner != row][:OTHER_ROWS]
        yield sum((size < near) + (size == near) / 2 for size in far) / len(far)


def _distance(distance: Any, rows: Tensor) -> float:
    """Return the largest distance of a row to its opposite, which is the farthest of its length."""
    try:
        distances = distance(rows, -rows)
    except (TypeError, RuntimeError):  # a function of one matrix, whose rows are all compared
        distances = distance(torch.cat([rows[:1], -rows[:1]]))
    return float(distances.max())


def _are_unit(embedded: Sequence[Tensor]) -> bool:
    lengths = torch.cat([rows.float().norm(dim=1) for rows in embedded])
    return bool(((lengths - 1).abs() < 1e-2).all())


# Measurements of a trainer, and of each of its losses.
OF_TRAINER = (last_token, first_token)
OF_LOSS = (
    *(labels, height, classes, order, outside, margin, teacher, teaching, lists, unread),
    vocabulary,
)

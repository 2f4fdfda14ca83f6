"""Do a loop's batches hold several classes, do texts keep labels, do cosines follow them?"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlab.data.cooccurrence import correlation, foretold_numbers
from gradlab.monitor.token_signs import looked_up
from gradlab.monitor.view_texts import texts_of

# Numbers of the records: share of the other rows that are of a row's class, if it is large, beside
# that share among the rows of all records so far; share of the texts of earlier records that have
# another label now; share of rows that are alone with their class in the batch, if it is large.
CLASS_SHARE, CLASS_CHANCE, RELABELLED = "class_share", "class_chance", "relabelled_texts"
COUNTED = "classes_counted"  # number of classes of a batch, where they are 0, 1, 2 ... without gap
ALONE = "rows_alone_in_class"
# Of two pairs with different labels, how often the one with the higher label has the higher cosine.
LABEL_ORDER = "label_order"
# Of the scores of pairs in all records so far: their rows and different scores, and what
# `gradlab.data.label_verdicts.labels_foretold` asks.
SCORED = {name: f"scores_{name}" for name in ("rows", "distinct", "words", "foretold", "fitting")}
LABEL_SIGNS = (
    *(CLASS_SHARE, CLASS_CHANCE, RELABELLED, COUNTED, ALONE, LABEL_ORDER), *SCORED.values(),
)  # fmt: skip
# Shares of rows of one class, and alone with theirs, from which on they are noted; fewest texts
# that came again; by how many standard deviations a score differs from what it was; texts that are
# remembered.
ONE_CLASS, MOST_ALONE, FEWEST_TEXTS, ANOTHER_SCORE, MOST_TEXTS = 0.6, 0.8, 4, 0.25, 50_000
MOST_SCORED = 512  # pairs whose scores are compared with their tokens


def order_of_labels(labels: Sequence[Tensor], views: Sequence[Tensor]) -> dict[str, float]:
    """Return the share of comparisons of pairs in which cosines follow labels; ties count half.

    Args:
        labels: arguments with a number for each row, (N,) each.
        views: embeddings of the rows, (N, D) each.
    """
    of_texts = [entry for entry in labels if not _are_places(entry)]
    if len(of_texts) != 1 or len(views) != 2 or views[0].shape != views[1].shape:
        return {}
    first, second = (F.normalize(view.detach().double(), dim=-1) for view in views)
    scores = of_texts[0].detach().double().to(first.device)
    cosines = (first * second).sum(-1)
    if cosines.shape != scores.shape:
        return {}
    gaps = (cosines[:, None] - cosines)[scores[:, None] > scores]
    if not len(gaps) or not bool(gaps.isfinite().all()):
        return {}
    return {LABEL_ORDER: float((gaps.sign() / 2 + 0.5).mean())}


class LabelSigns:
    """Compares the labels of each recorded batch of a loop with those before."""

    def __init__(self) -> None:
        self._classes: collections.Counter[int] = collections.Counter()
        self._labels: dict[tuple[tuple[int, ...], ...], float] = {}

    def of(
        self, classes: Tensor | None, labels: Sequence[Tensor], views: Sequence[Tensor]
    ) -> dict[str, float]:
        """Return the numbers that are known of a batch.

        Args:
            classes: (N,) whole numbers of the rows of a single view, or None.
            labels: arguments with a number for each row, (N,) each.
            views: embeddings of the rows, (N, D) each, with their graph.
        """
        numbers = {} if classes is None else self._of_one_class(classes)
        of_texts = [entry for entry in labels if not _are_places(entry)]
        return numbers | (self._relabelled(of_texts[0], views) if len(of_texts) == 1 else {})

    def _of_one_class(self, classes: Tensor) -> dict[str, float]:
        counts = collections.Counter(classes.tolist())
        self._classes += counts
        share, chance = _same_class(counts), _same_class(self._classes)
        numbers = {CLASS_SHARE: share, CLASS_CHANCE: chance} if share >= ONE_CLASS else {}
        alone = sum(count == 1 for count in counts.values()) / max(1, counts.total())
        numbers |= {ALONE: alone} if alone >= MOST_ALONE else {}
        return numbers | ({COUNTED: len(counts)} if counts.keys() == {*range(len(counts))} else {})

    def _relabelled(self, labels: Tensor, views: Sequence[Tensor]) -> dict[str, float]:
        tokens = [looked_up(view) for view in views]
        rows = [texts_of(batch[1].cpu()) for batch in tokens if batch is not None]
        if not rows or len(rows) < len(views) or any(len(view) != len(labels) for view in rows):
            return {}
        values = labels.detach().double().cpu()
        least = ANOTHER_SCORE * float(values.std()) if labels.is_floating_point() else 0.0
        changes, count = list[bool](), len(self._labels)
        for texts, value in zip(zip(*rows, strict=True), values.tolist(), strict=True):
            key = tuple(map(tuple, texts))
            if key in self._labels:
                changes.append(abs(self._labels[key] - value) > least)
            elif len(self._labels) < MOST_TEXTS:
                self._labels[key] = value
        numbers = {RELABELLED: sum(changes) / len(changes)} if len(changes) >= FEWEST_TEXTS else {}
        is_new = len(self._labels) > count and count < MOST_SCORED
        is_scored = labels.is_floating_point() and len(rows) == 2
        return numbers | (self._scored() if is_new and is_scored else {})

    def _scored(self) -> dict[str, float]:
        """Return how the scores of pairs go with their tokens, in the records so far."""
        pairs = list(itertools.islice(self._labels.items(), MOST_SCORED))
        scores = [score for _, score in pairs]
        first, second = ([set(texts[at]) for texts, _ in pairs] for at in range(2))
        numbers = foretold_numbers(first, second, scores)
        if not numbers:
            return {}
        universal = set.intersection(*first, *second)
        shares = [len(a & b - universal) / max(1, len((a | b) - universal))
                  for a, b in zip(first, second, strict=True)]  # fmt: skip
        numbers |= {"rows": len(scores), "distinct": len(set(scores)),
                    "words": correlation(scores, shares)}  # fmt: skip
        return {SCORED[name]: number for name, number in numbers.items()}


def _are_places(labels: Tensor) -> bool:
    """Return whether labels are places in the batch, as the targets of a softmax over it are."""
    count = len(labels)
    return not labels.is_floating_point() and torch.equal(
        labels.unique().cpu(), torch.arange(count)
    )


def _same_class(counts: collections.Counter[int]) -> float:
    """Return the share of pairs of different rows that are of one class."""
    total = counts.total()
    return sum(n * (n - 1) for n in counts.values()) / max(1, total * (total - 1))

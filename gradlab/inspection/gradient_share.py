"""The push of many batches on their pairs, anchors and sentences."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.arrays import divide
from gradlab.batch.batch import Batch
from gradlab.gradient.statistics import ACTIVE
from gradlab.losses.base import Loss

# An anchor with less dissipation counts as closed; the gate of a softmax loss never closes fully.
CLOSED = ACTIVE
# Number of bins, of a tenth of a degree each, for the angle between the sentences of a pair.
BINS = 1800
_TOP = 1000


@dataclass(frozen=True)
class BatchPush:
    """The push of a batch on its pairs.

    Column j < N is the sentence of row j; the other columns are hard negatives.
    """

    push: NDArray[np.float64]  # (N, K) ``GD_i W_ij``, or 0 where the loss pulls the two together
    cosine: NDArray[np.float64]  # (N, K) cosine of each pair, without dropout if that is known
    dissipation: NDArray[np.float64]  # (N,) declared; relative push of a loss given as code
    pull: NDArray[np.float64]  # (N,)
    # (N,) cosine of both views, without dropout if they are two texts
    positive_cosine: NDArray[np.float64]
    # (N, K) whether dropout makes a pair less similar than the positive; None without dropout
    hidden: NDArray[np.bool_] | None

    @functools.cached_property
    def shares(self) -> NDArray[np.float64]:
        """Share of each pair in the push of its anchor, (N, K); NaN if the anchor has no push."""
        return divide(self.push, self.push.sum(1)[:, None])

    @property
    def hardest(self) -> NDArray[np.float64]:
        """Share of the hardest negative in the push of each anchor that is not closed."""
        return self.shares.max(1)[(self.dissipation >= CLOSED) & (self.push.sum(1) > 0)]

    def measures(
        self, anchor: NDArray[np.int64], column: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Return push, share, cosine and positive's cosine of some pairs, by name."""
        return {
            "push": self.push[anchor, column],
            "share": self.shares[anchor, column],
            "cosine": self.cosine[anchor, column],
            "positive_cosine": self.positive_cosine[anchor],
        }


def measure(
    loss: Loss, views: Batch, clean: Batch | None = None, *, two_texts: bool = True
) -> BatchPush:
    """Measure each pair's push and each anchor's pull; ``clean`` is the batch without dropout."""
    components = loss.components_of(views)
    coefficients = np.maximum(components.gradient_dissipation[:, None] * components.weight, 0)
    blocks = {name: coefficients[:, columns] for name, columns in components.columns.items()}
    extra = [blocks.pop("extra")] if "extra" in blocks else []
    # The push on a sentence is the sum over its two views.
    push = np.concatenate([sum(blocks.values()), *extra], axis=1)
    same = "other" not in components.columns
    cosine, positive, hidden = _cosines(views, same), views.positive.cosine, None
    if clean is not None:
        hidden = cosine < positive[:, None]
        cosine = _cosines(clean, same)
        positive = clean.positive.cosine if two_texts else positive
    # The total push of code is absolute, and no share of anything.
    gate = components.gate if loss.closed_form else np.nan_to_num(components.relative_push)
    return BatchPush(push, cosine, gate, components.scalar_pull, positive, hidden)


class PushTotals:
    """Sums over batches of a corpus of ``count`` sentences, N."""

    def __init__(self, count: int) -> None:
        self.count = count
        # (N,) how often a sentence was an anchor, and with a closed gate; sums over these times.
        self.times_met, self.closed = np.zeros((2, count))
        self.dissipation, self.pull, self.sent, self.received, self.received_squared = np.zeros(
            (5, count)
        )
        # (BINS,) push, and number of pairs, by the angle between the two sentences.
        self.by_angle, self.pairs_by_angle = np.zeros((2, BINS))
        self.push: list[float] = []  # push of each batch, summed over its pairs
        self.hard_push = 0.0  # part of all push that goes to hard negatives
        self.share: list[NDArray[np.float64]] = []  # `BatchPush.hardest` of each batch
        # Number of negatives of an anchor in the last batch, with hard negatives.
        self.negatives = 0
        # Pairs with the largest push: row, the other text's number, `BatchPush.measures`; some
        # repeat.
        self.top: list[pd.DataFrame] = []
        # Hard negatives of each batch: row, column, `BatchPush.measures` with the own anchor, and
        # ``times_average``, the share times the number of negatives.
        self.hard: list[pd.DataFrame] = []

    @property
    def hard_share(self) -> float:
        """Part of all push that goes to hard negatives; NaN without any push."""
        whole = sum(self.push)
        return self.hard_push / whole if whole else float("nan")

    def add(self, rows: NDArray[np.int64], batch: BatchPush) -> None:
        """Add a batch of distinct rows."""
        size, columns = len(rows), batch.push.shape[1]
        own, sent = batch.push[:, :size], batch.push.sum(1)
        self.times_met[rows] += 1
        self.closed[rows] += batch.dissipation < CLOSED
        self.dissipation[rows] += batch.dissipation
        self.pull[rows] += batch.pull
        self.sent[rows] += sent
        self.received[rows] += own.sum(0)
        self.received_squared[rows] += (own**2).sum(0)
        self.push.append(float(sent.sum()))
        self.hard_push += float(batch.push[:, size:].sum())
        negatives = ~np.eye(size, columns, dtype=bool)
        angle = np.minimum(
            (np.arccos(batch.cosine[negatives]) * (BINS / np.pi)).astype(int), BINS - 1
        )
        self.by_angle += np.bincount(angle, batch.push[negatives], BINS)
        self.pairs_by_angle += np.bincount(angle, minlength=BINS)
        self.share.append(batch.hardest)
        self.negatives = columns - 1
        most = min(_TOP, batch.push.size - size)
        place = np.argpartition(-batch.push.ravel(), most - 1)[:most]
        anchor, column = np.divmod(place[batch.push.ravel()[place] > 0], columns)
        # Number of a text: column times N plus row; an in-batch negative counts as its sentence.
        number = rows[column % size] + np.where(column < size, 0, column // size + 1) * self.count
        table = {"first": rows[anchor], "second": number, **batch.measures(anchor, column)}
        self.top.append(pd.DataFrame(table))
        if len(self.top) > 20:
            self.top = [self.strongest]
        if columns > size:
            place = np.arange(size, columns)
            column, anchor = np.divmod(place - size, size)
            table = {"row": rows[anchor], "column": column, **batch.measures(anchor, place)}
            table["times_average"] = table["share"] * self.negatives
            self.hard.append(pd.DataFrame(table))

    @property
    def pushers(self) -> NDArray[np.float64]:
        """Effective number ``(Σ n)²/Σ n²`` of anchors that push a sentence in its batches, (N,)."""
        return divide(self.received**2, self.received_squared)

    @property
    def negative_cosine(self) -> float:
        """Mean cosine of the pairs that met in a batch."""
        angles = (np.arange(BINS) + 0.5) * (np.pi / BINS)
        return float(self.pairs_by_angle @ np.cos(angles) / self.pairs_by_angle.sum())

    def mean(self, name: str) -> NDArray[np.float64]:
        """Return a sum's mean over the times each sentence was an anchor, (N,); NaN without any."""
        return divide(getattr(self, name), self.times_met)

    @property
    def strongest(self) -> pd.DataFrame:
        """The pairs with the largest push in order, without repetitions."""
        ordered = pd.concat(self.top).sort_values("push", ascending=False, kind="stable")
        return ordered.drop_duplicates(["first", "second"]).head(_TOP)


def measure_pairs_together(
    pairs: pd.DataFrame,
    count: int,
    batch_size: int,
    generator: np.random.Generator,
    measure_batch: Callable[[NDArray[np.int64]], BatchPush],
    advance: Callable[[int], object] = lambda n: None,
) -> pd.DataFrame:
    """Bring pairs of texts together in batches, because candidates seldom meet by chance.

    A batch holds one such pair for every eight rows, and at least one; its other rows are drawn at
    random.

    Args:
        pairs: numbers of the two texts, see `gradlab.inspection.texts.Texts`, in a corpus of
            ``count`` rows.
        measure_batch: measures a batch of rows.

    Returns:
        for each pair: ``push`` between the two texts as anchors, its ``share`` in the push of these
        anchors, and ``hidden``, the share of anchors to which dropout makes the other text less
        similar than the positive.
    """
    pushes: dict[int, tuple[float, float, float]] = {}  # by the pair's line
    unmeasured = dict(zip(pairs.index.tolist(), pairs.to_numpy(), strict=True))
    while unmeasured:
        lines_in_batch: list[int] = []
        places: dict[int, int] = {}  # of the corpus's rows in the batch
        for line, texts in unmeasured.items():
            rows = (texts % count).tolist()
            if len(lines_in_batch) < max(1, batch_size // 8) and places.keys().isdisjoint(rows):
                lines_in_batch.append(line)
                for row in rows:
                    places[row] = len(places)
        while len(places) < min(batch_size, count):
            places.setdefault(int(generator.integers(count)), len(places))
        batch = measure_batch(np.array(list(places)))
        for line in lines_in_batch:
            pushes[line] = _pair_push(unmeasured.pop(line), count, places, batch)
        advance(len(lines_in_batch))
    names = ["push", "share", "hidden"]
    return pd.DataFrame.from_dict(pushes, orient="index", columns=names, dtype=float)


def share_of_candidates(
    lines: pd.DataFrame, totals: PushTotals, batch_size: int
) -> tuple[float, float]:
    """Return the share of all push on candidates in random batches, and its standard error.

    Two rows meet in a batch with probability ``B(B-1)/(N(N-1))``. The lines whose push
    `measure_pairs_together` measured are a sample of all
    `gradlab.inspection.candidate_pairs.CandidatePairs.lines`.
    """
    if lines.empty:
        return 0.0, 0.0
    if not sum(totals.push):
        return float("nan"), float("nan")
    chance = batch_size * (batch_size - 1) / (totals.count * (totals.count - 1))
    weighted = (lines["push"] * lines["places"]).dropna()
    weighted *= len(lines) * chance / np.mean(totals.push)
    error = float(weighted.std() / np.sqrt(len(weighted))) if len(weighted) > 1 else float("nan")
    # If few random batches hold a candidate, their mean push can be less than what all candidates
    # take. If all lines were measured, there is no sampling error, but still that of dropout.
    return min(float(weighted.mean()), 1.0), error


def _cosines(views: Batch, same: bool) -> NDArray[np.float64]:
    """Return the cosines of anchors to the sentences of one view and the hard negatives, (N, K)."""
    columns = [views.anchors if same else views.positives, views.extra_negatives]
    vectors = np.concatenate([rows for rows in columns if rows is not None])
    return np.clip(views.anchors @ vectors.T, -1, 1)


def _pair_push(
    texts: NDArray[np.int64], count: int, places: dict[int, int], batch: BatchPush
) -> tuple[float, float, float]:
    """Return ``push``, ``share`` and ``hidden`` of a pair, see `measure_pairs_together`."""
    columns = texts // count
    places_of_pair = [places[row] for row in (texts % count).tolist()]
    push = total = 0.0
    hidden = []
    for anchor, text in ((0, 1), (1, 0)):
        if columns[anchor] > 1:  # hard negatives are not anchors
            continue
        row, column = places_of_pair[anchor], max(int(columns[text]) - 1, 0) * len(places)
        column += places_of_pair[text]
        push += batch.push[row, column]
        total += batch.push[row].sum()
        hidden.append(np.nan if batch.hidden is None else batch.hidden[row, column])
    return push, push / total if total else float("nan"), float(np.mean(hidden))

"""Statistics of embeddings and of a loss's gradient on one batch, for monitoring training.

All functions take unit rows as numpy arrays or torch tensors; pass float64 for full precision.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, Int, divide, to_numpy
from gradlab.batch.batch import Batch
from gradlab.batch.triple import Triple
from gradlab.errors import GradlabError
from gradlab.gradient.lemma import tangent_interval
from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.components import Components, as_share, completed, displaced_push
from gradlab.losses.dhel import DHEL
from gradlab.losses.hardness import Hardness
from gradlab.losses.mask import Mask
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import get_loss
from gradlab.losses.sum import Sum

# Dissipation below which an anchor counts as having stopped learning (as in the paper's Fig. 3).
ACTIVE = 0.01
LEMMA_STEP = 0.1
# Losses of which the components of a row need no other row; a test tries all losses.
BY_ROWS = (PairLoss, BatchLoss, Mask, Hardness, Sum)
# Similarities of a batch that is measured whole where rows cannot be taken apart.
WHOLE = 1 << 24
# Cosine of opposite directions; how many times as many pairs as other rows are opposite.
BELOW, TIMES = -0.5, 2.0
# Share of farther rows up to which views are no pairs; by how much neighbours in turn are nearer.
NO_PAIRS, NEARER = 0.7, 0.15
# Rows whose relative push is recorded where each costs an evaluation: up to `MANY`, and of more.
RECORDED, MANY, RECORDED_OF_MANY = 64, 256, 16


def alignment(
    anchors: Float[Array, "n d"], positives: Float[Array, "n d"], alpha: float = 2
) -> float:
    """Return ``mean ‖h_i - h_i'‖^α`` of pairs, in [0, 2^α]; 0 if equal (Wang & Isola, Eq. 2)."""
    xp = array_namespace(anchors)
    return float(xp.mean(xp.linalg.vector_norm(anchors - positives, axis=1) ** alpha))


def uniformity(rows: Float[Array, "n d"], t: float = 2) -> float:
    """Return ``log mean_{k<l} exp(-t ‖h_k - h_l‖²)``, in [-4t, 0] (Wang & Isola 2020, Eq. 3).

    Smaller is more uniform.

    Raises:
        GradlabError: there are fewer than two rows.
    """
    xp, count = array_namespace(rows), rows.shape[0]
    if count < 2:
        raise GradlabError("uniformity needs at least two rows")
    exponent = 2 * t * (rows @ rows.T - 1)
    off_diagonal = exponent[~xp.eye(count, dtype=xp.bool, device=rows.device)]
    largest = xp.max(off_diagonal)
    return float(largest + xp.log(xp.mean(xp.exp(off_diagonal - largest))))


def effective_rank(rows: Float[Array, "n d"]) -> float:
    """Return exp(entropy of normalised singular values), 1 to min(N, D) (Roy & Vetterli 2007)."""
    xp = array_namespace(rows)
    values = xp.linalg.svdvals(rows)
    share = values / xp.sum(values)
    share = share[share > 0]
    return float(xp.exp(-xp.sum(share * xp.log(share))))


def mean_cosine(rows: Float[Array, "n d"], other_view: Float[Array, "n d"] | None = None) -> float:
    """Return the mean of ``h_i·h_j'`` over j ≠ i, or of ``h_i·h_j`` without another view.

    It takes no N x N products. NaN for a single row.
    """
    xp, count = array_namespace(rows), int(rows.shape[0])
    others = rows if other_view is None else other_view
    of_all = float(xp.sum(xp.sum(rows, axis=0) * xp.sum(others, axis=0)))
    of_pairs = float(xp.sum(rows * others))
    return (of_all - of_pairs) / (count * (count - 1)) if count > 1 else math.nan


def ranking_accuracy(anchors: Float[Array, "n d"], positives: Float[Array, "n d"]) -> float:
    """Return in what share of comparisons an anchor's positive is nearer than another sentence.

    The products of i and j ≠ i are compared with those of i and i, equal ones as half, after the
    mean of each view is subtracted: neither a direction that all embeddings share nor a sentence
    that is near to all hides which belong together. 0.5 is chance; NaN for a single row.
    """
    xp, count = array_namespace(anchors), int(anchors.shape[0])
    if count < 2:
        return math.nan
    products = (anchors - xp.mean(anchors, axis=0)) @ (positives - xp.mean(positives, axis=0)).T
    own = products[xp.eye(count, dtype=xp.bool, device=anchors.device)][:, None]
    nearer = xp.count_nonzero(own > products) + xp.count_nonzero(own == products) / 2
    return float(nearer - count / 2) / (count * (count - 1))


def opposed_pairs(rows: Float[Array, "n d"], partners: Float[Array, "n d"]) -> float:
    """Return the share of pairs in opposite directions.

    0 where as many other rows are, as of embeddings below a classifier.
    """
    xp, count = array_namespace(rows), int(rows.shape[0])
    opposed = xp.astype(rows @ partners.T < BELOW, rows.dtype)
    pairs = float(xp.mean(xp.linalg.diagonal(opposed)))
    elsewhere = (float(xp.sum(opposed)) - pairs * count) / max(1, count * (count - 1))
    return pairs if pairs > TIMES * elsewhere else 0.0


def repeated_rows(
    before: Float[Array, "_ _"] | None, rows: Float[Array, "n d"], partners: Float[Array, "n d"]
) -> float:
    """Return the share of rows that the batch before holds, in their own place or any other."""
    if before is None or before.shape != rows.shape or rows.shape[0] < 4:
        return 0.0
    xp, cosines = array_namespace(rows), rows @ before.T
    own, nearest = xp.arange(len(rows), device=rows.device), xp.argmax(cosines, axis=1)
    # The same rows in another order: each is the nearest of one other, and nearer than any partner.
    mutual = xp.argmax(cosines, axis=0)[nearest] == own
    close = xp.max(cosines, axis=1) > xp.sum(rows * partners, axis=1)
    counts = (int(xp.count_nonzero(same)) for same in (nearest == own, mutual & close))
    return max(counts) / len(rows)


def neighbours_in_turn(*views: Float[Array, "n d"]) -> float:
    """Return the share of rows that are farther from a row than its neighbour in turn.

    Rows 0 and 1, 2 and 3 ... of one view are neighbours in turn. 0 where rows 1 and 2, 3 and 4 ...
    are as near, as in sorted data, or where the views of a row are nearer than chance.
    """
    count = int(views[0].shape[0]) // 2 * 2
    if count < 8:
        return 0.0
    # Rows of one kind are compared with each other, since texts of two kinds may alternate.
    even, odd = ([view[start:count:2, :] for view in views] for start in (0, 1))
    if max(_farther_rows(*even), _farther_rows(*odd)) > NO_PAIRS:
        return 0.0
    in_turn, between = (
        sum(_farther_rows(view[at:end:2, :], view[at + 1 : end : 2, :]) for view in views) / 2
        for at, end in ((0, count - 2), (1, count - 1))
    )
    return in_turn if in_turn - between > NEARER else 0.0


def lemma_share(gradient: Components, step: float = LEMMA_STEP) -> float:
    """Return the share of triples that satisfy Lemma 1 for ``λ = step``.

    A triple (anchor, positive, negative) satisfies the lemma if the bound exists and ``r_i > r-``.
    Negatives are those of `Components.negative_cosines`. Anchors without a finite ratio, because
    nothing pushes them, are left out; NaN if there are no other anchors. For a loss of several
    prefixes, rows have the longest prefix.
    """
    views = gradient.views
    assert views is not None
    xp, radial = array_namespace(views.anchors), gradient.row_products
    cosine, sine = views.positive.cosine[:, None], views.positive.sine[:, None]
    along = gradient.products(views.positives) - cosine * radial
    toward = along / xp.where(sine > 0, sine, xp.ones_like(sine))
    aside = xp.sqrt(xp.clip(1 - radial**2 - toward**2, 0.0))  # rounding can make it negative
    bounds = tangent_interval(Triple(cosine, sine, radial, toward, aside), step)
    ratio = gradient.scalar_ratio[:, None]
    satisfied = bounds.feasible & (ratio > bounds.low)
    counts = gradient.is_negative & xp.isfinite(ratio)
    return _means({"lemma": xp.astype(satisfied[counts], radial.dtype)})["lemma"]


def embedding_statistics(
    anchors: Float[Array, "n d"], positives: Float[Array, "n d"] | None = None
) -> dict[str, float]:
    """Return the statistics of embeddings that need no loss.

    Returns:
        ``uniformity`` and ``effective_rank`` of the anchors; with positives also ``alignment``,
        ``positive_cosine`` (mean of ``h_i·h_i'``) and ``negative_cosine`` (mean of ``h_i·h_j'``
        over j ≠ i), and `ranking_accuracy`. Statistics that need two sentences are NaN for one.
    """
    alone = {
        "uniformity": uniformity(anchors) if anchors.shape[0] > 1 else math.nan,
        "effective_rank": effective_rank(anchors),
    }
    if positives is None:
        return alone
    xp = array_namespace(anchors)
    return {
        "alignment": alignment(anchors, positives),
        **alone,
        "positive_cosine": float(xp.mean(xp.sum(anchors * positives, axis=1))),
        "negative_cosine": mean_cosine(anchors, positives),
        "ranking_accuracy": ranking_accuracy(anchors, positives),
    }


def gradient_statistics(gradient: Components) -> dict[str, float]:
    """Return the statistics of a loss's components on one batch.

    Returns:
        ``relative_push``: mean of `Components.relative_push` over the anchors of `recorded_push`,
        one number for all losses, from -1 to 1; ``total_push``: mean absolute push on an anchor,
        which falls also where the relative push cannot, because the positive does not open the
        loss's gate. ``gradient_dissipation``: mean of `Components.gate` over anchors. ``active``:
        share of anchors whose gate is at least :data:`ACTIVE`. The gate of a recorded loss given as
        code is its relative push, so that numbers of active anchors are those of the loss by name
        where the declared dissipation and the relative push agree. Both are NaN for a loss that
        only pulls, and so has no gate that closes. Over active anchors (NaN if there are none):
        ``hardest_share``, mean of ``max_j |W_ij| / Σ_j |W_ij|``; ``ratio`` and ``ratio_median``,
        mean and median of the ratio. ``uniform_share``: share of each negative of an anchor if all
        had equal weights. If ``gradient`` was computed with ``side="both"``, also those of
        :func:`two_sided_statistics`. Also the counts of the loss itself, such as ``masked_pairs``
        and ``without_negatives`` of a mask.
    """
    xp, dissipation = array_namespace(gradient.weight), gradient.gate
    active, gated = dissipation >= ACTIVE, ~gradient.only_pulled
    share, ratio = gradient.hardest_share[active], gradient.scalar_ratio[active]
    ratio, count = ratio[xp.isfinite(ratio)], _negatives_of_each(gradient)
    push = recorded_push(gradient)
    means = {
        **({} if push is None else {"relative_push": push[~xp.isnan(push)]}),
        "total_push": gradient.total_push,
        "gradient_dissipation": dissipation[gated],
        "active": xp.astype(active[gated], dissipation.dtype),
        "hardest_share": share[xp.isfinite(share)],
        "uniform_share": 1 / xp.astype(count[count > 0], dissipation.dtype),
        "ratio": ratio,
    }
    return {
        **_means(means),
        "ratio_median": _finite_median(ratio),
        **(two_sided_statistics(gradient, gradient.counterpart) if gradient.counterpart else {}),
        **{name: float(value) for name, value in gradient.statistics.items()},
    }


def recorded_push(components: Components) -> Float[Array, "_"] | None:
    """Return the relative push as runs record it: of all rows, or of the first `RECORDED`.

    The first rows stand for all where every row costs an evaluation of the loss (`RECORDED_OF_MANY`
    of them in batches of more than `MANY` sentences). None if it is not known.
    """
    if components.displaced_push is None:
        return None
    rows = components.weight.shape[0]
    displaced = components.displaced_push(min(rows, RECORDED if rows <= MANY else RECORDED_OF_MANY))
    return as_share(components.total_push[: displaced.shape[0]], displaced)


def two_sided_statistics(anchors: Components, positives: Components) -> dict[str, float]:
    """Return statistics of the push on both views of a batch.

    They use the canonical split, in which the GD of a row is its whole push. The arguments are the
    results of ``components(..., side="both")``.

    Returns:
        ``hubness``: Gini coefficient of ``GD'_j``, the push that sentence j receives *as a negative
        of others*, from 0 (all sentences equally) towards 1 (one hub receives everything).
        ``hubness_largest``: largest share of one sentence in this push, as a multiple of an equal
        share. ``push_spread``: Gini coefficient of the push on anchors. ``ratio_both_sides``:
        median of `effective_ratio` over sentences that are pushed. ``ratio_positives``: median of
        ``R'_j``. NaN if nothing pushes.
    """
    xp, ratio_both_sides = array_namespace(anchors.weight), effective_ratio(anchors, positives)
    received = positives.total_push
    ratio_positives = divide(positives.scalar_pull, received)
    equal = float(xp.sum(received)) / received.shape[0]
    return {
        "hubness": gini(received),
        "hubness_largest": float(xp.max(received)) / equal if equal > 0 else math.nan,
        "push_spread": gini(anchors.total_push),
        "ratio_both_sides": _finite_median(ratio_both_sides),
        "ratio_positives": _finite_median(ratio_positives),
    }


def effective_ratio(anchors: Components, positives: Components) -> Float[Array, "n"]:
    """Return ``R̄_i = (a_i + a'_i)/(GD_i + GD'_i)``, pull over push on a sentence's two views, (n,).

    The split is canonical. If positives move and negatives do not, this is twice the anchors'
    ratio, the published 2r. NaN where nothing pushes.
    """
    push = anchors.total_push + positives.total_push
    pull = anchors.scalar_pull + positives.scalar_pull
    return array_namespace(push).where(push == 0, math.nan, divide(pull, push))


def gini(values: Float[Array, "n"]) -> float:
    """Return the Gini coefficient of absolute values, in [0, 1 - 1/N].

    It is ``Σ_ij |x_i - x_j| / (2 N Σ_i x_i)``, or NaN if all values are 0. Values are negative only
    for losses with signed weights.
    """
    xp = array_namespace(values)
    ordered = xp.sort(xp.abs(values))
    count, total = ordered.shape[0], float(xp.sum(ordered))
    rank = 2 * xp.arange(count, dtype=ordered.dtype, device=ordered.device) - (count - 1)
    return float(xp.sum(rank * ordered)) / (count * total) if total > 0 else math.nan


def diagnose(
    loss: str | Loss,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    **context: Any,
) -> dict[str, float]:
    """Return all statistics of a loss on two views of a batch; see :func:`batch_statistics`.

    Arguments and `GradlabError`s as in :func:`gradlab.components`, except ``side`` and ``method``.
    """
    resolved_loss = get_loss(loss)
    views = resolved_loss.batch(anchors, positives, extra_negatives, **context)
    components = first_components(resolved_loss, views, views.count)
    return batch_statistics(views.anchors, views.positives, components)


def first_components(loss: Loss, batch: Batch, most: int) -> Components:
    """Return components of anchors, of about the first ``most`` sentences of a large batch.

    If the batch has no more sentences, the components have their `counterpart`. For the anchors of
    a larger batch see `measured_anchors`.
    """
    if batch.anchors.shape[0] <= most:
        components = loss.sides_of(batch)[0]
    else:
        batch = measured_anchors(loss, batch, most)
        components = loss.components_of(batch)
    return completed(components, displaced_push=functools.partial(displaced_push, loss, batch))


def measured_anchors(loss: Loss, batch: Batch, most: int) -> Batch:
    """Return a batch whose anchors have the components that they have in the whole batch.

    These are its first ``most`` rows, compared with all columns, if the components of a row need
    no other row; else all rows, up to `WHOLE` similarities. Only beyond it the first sentences are
    compared with each other alone, as `Batch.first` returns them.
    """
    if all(isinstance(nested, BY_ROWS) and not isinstance(nested, DHEL) for nested in loss.within):
        return batch.rows(0, most)
    candidates = batch.count + batch.extra_count + batch.own_count
    return batch if batch.count * candidates <= WHOLE else batch.first(most)


def batch_statistics(
    anchors: Float[Array, "n d"], positives: Float[Array, "n d"], gradient: Components | None = None
) -> dict[str, float]:
    """Return all statistics of two views of a batch, as recorded by training and monitoring.

    These are :func:`gradient_statistics`, :func:`embedding_statistics` and ``lemma_share``, or only
    :func:`embedding_statistics` without components of a loss on these unit rows.
    """
    embeddings = embedding_statistics(anchors, positives)
    if gradient is None:
        return embeddings
    return gradient_statistics(gradient) | embeddings | {"lemma_share": lemma_share(gradient)}


# Range and number of bins of each distribution; values outside count in the first or last bin.
BINS = {
    "gradient_dissipation": (0.0, 1.0, 20),
    "hardest_share": (0.0, 1.0, 20),
    "ratio": (0.0, 3.0, 30),
    "positive_cosine": (-1.0, 1.0, 40),
    "negative_cosine": (-1.0, 1.0, 40),
}


def distributions(
    anchors: Float[Array, "n d"], positives: Float[Array, "n d"], gradient: Components | None = None
) -> dict[str, dict[float, float]]:
    """Return histograms over a batch: quantity -> {lower edge of a bin: share}, without empty bins.

    Returns:
        The quantities of :data:`BINS`, with shares that sum to 1; without components of a loss only
        cosines. Hardest share and ratio are over active anchors (:func:`gradient_statistics`), and
        missing if there are none, as is the dissipation of a loss that only pulls. NaN values do
        not count.
    """
    values_by_name = _cosines_of_pairs(anchors, positives)
    if gradient is not None:
        active = gradient.gate >= ACTIVE
        values_by_name = {
            "gradient_dissipation": gradient.gate[~gradient.only_pulled],
            "hardest_share": gradient.hardest_share[active],
            "ratio": gradient.scalar_ratio[active],
        } | values_by_name
    return _histograms(values_by_name)


def _cosines_of_pairs(
    anchors: Float[Array, "n d"], positives: Float[Array, "n d"]
) -> dict[str, Float[Array, "_"]]:
    """Return the cosines ``h_i·h_i'`` and, of j ≠ i, ``h_i·h_j'``, each in one row."""
    xp, cosines = array_namespace(anchors), anchors @ positives.T
    own = xp.eye(*cosines.shape, dtype=xp.bool, device=anchors.device)
    return {"positive_cosine": cosines[own], "negative_cosine": cosines[~own]}


def _negatives_of_each(gradient: Components) -> Int[Array, "n"]:
    """Return how many negatives each anchor has, (n,); a sentence's two views count once."""
    xp, negative = array_namespace(gradient.weight), gradient.is_negative
    if gradient.views is not None and gradient.columns.keys() >= {"other", "same"}:
        of_other, of_same = (negative[:, gradient.columns[name]] for name in ("other", "same"))
        of_further = negative[:, gradient.columns["same"].stop :]
        negative = xp.concat([of_other | of_same, of_further], axis=-1)
    return xp.count_nonzero(negative, axis=-1)


def _farther_rows(rows: Float[Array, "n d"], partners: Float[Array, "n d"]) -> float:
    """Return the mean share of partners of other rows that are farther from a row than its own."""
    xp, cosines = array_namespace(rows), rows @ partners.T
    farther = xp.astype(cosines < xp.linalg.diagonal(cosines)[:, None], rows.dtype)
    return float(xp.mean(xp.sum(farther, axis=1))) / (int(rows.shape[0]) - 1)


def _finite_median(values: Float[Array, "n"]) -> float:
    xp = array_namespace(values)
    values = xp.sort(values[xp.isfinite(values)])
    count = values.shape[0]
    return float(values[(count - 1) // 2] + values[count // 2]) / 2 if count else math.nan


def _histograms(values_by_name: Mapping[str, Float[Array, "_"]]) -> dict[str, dict[float, float]]:
    """Return the share of the values in each bin that is not empty, by its lower edge."""
    histograms = {}
    for name, array in values_by_name.items():
        numbers = to_numpy(array)
        if not len(numbers := numbers[~np.isnan(numbers)]):
            continue
        low, high, count = BINS[name]
        places = np.floor((numbers - low) / (high - low) * count).clip(0, count - 1)
        bins, counts = np.unique(places, return_counts=True)
        edges = (round(low + at * (high - low) / count, 12) for at in bins.tolist())
        histograms[name] = dict(zip(edges, (counts / len(numbers)).tolist(), strict=True))
    return histograms


def _means(values_by_name: Mapping[str, Float[Array, "_"]]) -> dict[str, float]:
    """Return the mean of each row of values; NaN of none."""
    return {
        name: float(array_namespace(values).mean(values)) if values.shape[0] else math.nan
        for name, values in values_by_name.items()
    }

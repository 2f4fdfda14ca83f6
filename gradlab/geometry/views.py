"""Two views of a batch, checked once, with the similarities that the losses ask for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from gradlab.arrays import Array, detach
from gradlab.errors import GradlabError
from gradlab.geometry.candidates import USUAL, Candidates, pooled
from gradlab.geometry.similarity import Negatives, PairSimilarity

# How far a row's norm may be from 1: about sixteen roundings of a norm in that dtype.
NORM_TOLERANCE = {"float64": 4e-15, "float32": 2e-6, "float16": 1.6e-2, "bfloat16": 6.3e-2}

# What combinators may ask for beside the embeddings; see `check_views`.
CONTEXT = ("owners", "guide", "mask", "sentences")


@dataclasses.dataclass(frozen=True)
class Views:
    """Unit-norm embeddings of N sentences in two views, and extra negatives.

    Attributes:
        anchors: (N, D), the rows ``h_i``.
        positives: (N, D), the rows ``h_i'`` of the other view.
        extra_negatives: (M, D) or None: negatives of every anchor, such as a queue's.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        owners: (M,) integers or None: the row of the sentence whose hard negative each extra negative is, -1 for none.
        guide: embeddings of the same sentences by another model, or None.
        mask: (N, N) or (N, N + M) booleans, pairs of sentences that are no negatives of each other, or None.
        sentences: (N,) whole numbers by which the sentences are known outside of the batch, or None.
        candidates: what else is a negative, or is none.

    Owners, guide, mask and sentences are there for combinators that ask for them.
    """

    anchors: Array
    positives: Array
    extra_negatives: Array | None = None
    in_batch_negatives: bool = True
    owners: Array | None = None
    guide: Views | None = None
    mask: Array | None = None
    sentences: Array | None = None
    candidates: Candidates = USUAL

    @functools.cached_property
    def positive(self) -> PairSimilarity:
        """Anchor i to its own positive, (N,), by chords."""
        return self.pair(self.anchors, self.positives)

    @functools.cached_property
    def negatives(self) -> Negatives:
        """Anchor i to all its `candidates`, (N, K); -inf where a column is no negative."""
        return self.other_view if self.candidates.are_usual else pooled(self)

    @property
    def owned(self) -> Array:
        """Whether extra negative k is a hard negative of sentence i, (N, M).

        Raises:
            GradlabError: nobody has said whose the extra negatives are.
        """
        if self.owners is None:
            raise GradlabError("whose hard negatives the extra negatives are is not known; give their owners")
        rows = array_namespace(self.anchors).arange(self.anchors.shape[0], device=self.anchors.device)
        return rows[:, None] == self.owners

    def pair(self, first: Array, second: Array) -> PairSimilarity:
        """Rows (B, D) to rows (B, D), by chords, (B,)."""
        return PairSimilarity.from_vectors(first, second)

    def products(self, first: Array, second: Array) -> Array:
        """All dot products of rows (N, D) and (K, D), (N, K)."""
        return first @ second.T

    @functools.cached_property
    def negative_vectors(self) -> Array:
        """(K, D): the other view, then the extra negatives; what the columns of a weight stand for."""
        parts = [self.positives] if self.in_batch_negatives else []
        if self.extra_negatives is not None:
            parts.append(self.extra_negatives)
        return parts[0] if len(parts) == 1 else array_namespace(self.anchors).concat(parts, axis=0)

    @property
    def same_view_vectors(self) -> Array:
        """(N + M, D): the anchors, then the extra negatives; the columns of a weight on the same view."""
        if self.extra_negatives is None:
            return self.anchors
        return array_namespace(self.anchors).concat([self.anchors, self.extra_negatives], axis=0)

    @functools.cached_property
    def other_view(self) -> Negatives:
        """Anchor i to the other view's sentences and the extra negatives, (N, K); -inf at j = i."""
        own = slice(0, None) if self.in_batch_negatives else None
        return self._compare(self.anchors, self.negative_vectors, own)

    @functools.cached_property
    def same_view(self) -> Negatives:
        """Anchor i to the other anchors, ``Q_ij``, (N, N); -inf at j = i."""
        return self._compare(self.anchors, self.anchors)

    @functools.cached_property
    def same_view_fixed(self) -> Negatives:
        """`same_view` with the other anchors held fixed: no gradient through ``h_j``."""
        return self._compare(self.anchors, detach(self.anchors))

    @functools.cached_property
    def positive_view(self) -> Negatives:
        """Positive i to the other positives, ``Q'_ij``, (N, N); -inf at j = i."""
        return self._compare(self.positives, self.positives)

    def _compare(self, first: Array, second: Array, own: slice | None = slice(0, None)) -> Negatives:
        """Each of N rows to all K others; the arguments are those of `Negatives.from_vectors`."""
        return Negatives.from_vectors(first, second, own)

    def total_weight(self, weight: Callable[[Views], Array]) -> Array:
        """``Σ_j sg(W_ij)``, (N,), of what `weight` makes of these views; see `weighted_cosines`."""
        weights = detach(weight(self))
        return array_namespace(weights).sum(weights, axis=-1)

    def weighted_cosines(self, weight: Callable[[Views], Array], negatives: Negatives) -> tuple[Array, Array]:
        """Sums over the negatives of each anchor; views that are evaluated in blocks never hold all weights.

        Args:
            weight: maps these views, or a block of their anchors, to the weights of those anchors, (N, K).
            negatives: of these views, (N, K).

        Returns:
            ``Σ_j sg(W_ij)`` and ``Σ_j sg(W_ij) cos θ_ij``, (N,) each.
        """
        xp, weights = array_namespace(self.anchors), detach(weight(self))
        return xp.sum(weights, axis=-1), xp.sum(weights * negatives.finite_cosine, axis=-1)

    def exchanged(self) -> Views:
        """The same batch with its views exchanged: the positives are the anchors."""
        guide = None if self.guide is None else self.guide.exchanged()
        return dataclasses.replace(self, anchors=self.positives, positives=self.anchors, guide=guide)

    def without_extra_negatives(self) -> Views:
        """The same batch alone."""
        guide = None if self.guide is None else self.guide.without_extra_negatives()
        mask = None if self.mask is None else self.mask[:, : self.anchors.shape[0]]
        return dataclasses.replace(self, extra_negatives=None, owners=None, guide=guide, mask=mask)

    def with_candidates(self, **changes: Any) -> Views:
        """The same batch with other `candidates`."""
        return dataclasses.replace(self, candidates=dataclasses.replace(self.candidates, **changes))

    def with_fixed_positives(self) -> Views:
        """The same views with the other view and the extra negatives held fixed: no gradient reaches them."""
        extra = None if self.extra_negatives is None else detach(self.extra_negatives)
        return dataclasses.replace(self, positives=detach(self.positives), extra_negatives=extra)


def unit_rows(embeddings: Array) -> Array:
    """Rows divided by their Euclidean norms, (N, D) -> (N, D)."""
    xp = array_namespace(embeddings)
    return embeddings / xp.linalg.vector_norm(embeddings, axis=-1, keepdims=True)


def check_views(
    anchors: Array,
    positives: Array,
    extra_negatives: Array | None = None,
    *,
    normalize: bool = False,
    in_batch_negatives: bool = True,
    owners: Array | None = None,
    guide: Sequence[Array] | None = None,
    mask: Array | None = None,
    sentences: Array | None = None,
) -> Views:
    """Check two views of a batch and return them as `Views`.

    Args:
        anchors: (N, D), N >= 2 unless there are extra negatives; numpy or torch, floating point.
        positives: (N, D), row i the other view of the sentence in row i.
        extra_negatives: (M, D) or None.
        normalize: divide every row by its norm instead of asking for unit rows.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        owners: (M,) whole numbers: the row of the sentence whose hard negative each extra negative is, -1 for none.
        guide: embeddings of the same sentences by another model, of any length and dimension: anchors, positives and, where
            there are, extra negatives.
        mask: (N, N) or (N, N + M) booleans, True where sentence j (or an extra negative) is no negative of sentence i.
        sentences: (N,) whole numbers by which the sentences are known outside of the batch.

    Raises:
        GradlabError: wrong kind, shape or dtype; NaN; zero rows; rows that are not unit-norm; no negatives; owners, guide, mask
            or sentences of another batch.
    """
    named = {"anchors": anchors, "positives": positives}
    if extra_negatives is not None:
        named["extra_negatives"] = extra_negatives
    for name, rows in named.items():
        _check_kind(name, rows, anchors)
    if anchors.shape != positives.shape:
        raise GradlabError(
            f"anchors have shape {tuple(anchors.shape)} but positives {tuple(positives.shape)}; "
            "row i of both must be the two views of sentence i"
        )
    if extra_negatives is not None and extra_negatives.shape[1] != anchors.shape[1]:
        raise GradlabError(
            f"extra_negatives have {extra_negatives.shape[1]} dimensions but the views have {anchors.shape[1]}"
        )
    count = (anchors.shape[0] - 1 if in_batch_negatives else 0) + (
        0 if extra_negatives is None else extra_negatives.shape[0]
    )
    if count < 1:
        raise GradlabError(
            f"a batch of {anchors.shape[0]} leaves no negatives; give at least 2 sentences or extra_negatives"
        )
    checked = [_check_norms(name, rows, normalize) for name, rows in named.items()]
    extra = checked[2] if len(checked) == 3 else None
    return Views(
        checked[0],
        checked[1],
        extra,
        in_batch_negatives,
        None if owners is None else _check_owners(owners, anchors, extra),
        None if guide is None else _check_guide(guide, anchors, extra),
        None if mask is None else _check_mask(mask, anchors, extra),
        None if sentences is None else _check_sentences(sentences, anchors),
    )


def _check_guide(guide: Sequence[Array], anchors: Array, extra_negatives: Array | None) -> Views:
    wanted = [anchors.shape[0]] * 2 + ([] if extra_negatives is None else [extra_negatives.shape[0]])
    names = ("anchors", "positives", "extra_negatives")
    if len(guide) != len(wanted):
        raise GradlabError(
            f"the guide must be embeddings of {', '.join(names[: len(wanted)])}, not of {len(guide)} columns"
        )
    for name, rows, count in zip(names, guide, wanted, strict=False):
        _check_kind(f"the guide's {name}", rows, guide[0])
        if rows.shape[0] != count or rows.shape[1] != guide[0].shape[1]:
            raise GradlabError(
                f"the guide's {name} have shape {tuple(rows.shape)}, but the batch has {count} {name}; give the "
                "guide's embeddings of the same batch"
            )
    checked = [
        _check_norms(f"the guide's {name}", rows, True) for name, rows in zip(names, guide, strict=False)
    ]
    return Views(checked[0], checked[1], checked[2] if len(checked) == 3 else None)


def _check_mask(mask: Any, anchors: Array, extra_negatives: Array | None) -> Array:
    xp = array_namespace(anchors)
    found = xp.asarray(mask, device=anchors.device)
    n, extra = anchors.shape[0], 0 if extra_negatives is None else extra_negatives.shape[0]
    if found.dtype != xp.bool or tuple(found.shape) not in {(n, n), (n, n + extra)}:
        columns = f"({n}, {n})" + (f" or ({n}, {n + extra})" if extra else "")
        raise GradlabError(
            f"mask must be booleans of shape {columns}, not {_dtype_name(found)} of shape {tuple(found.shape)}"
        )
    return found


def _check_sentences(sentences: Any, anchors: Array) -> Array:
    xp = array_namespace(anchors)
    found = xp.asarray(sentences, device=anchors.device)
    if tuple(found.shape) != (anchors.shape[0],) or not xp.isdtype(found.dtype, "integral"):
        raise GradlabError(
            f"sentences must be {anchors.shape[0]} whole numbers, one for each row of the batch, not "
            f"{_dtype_name(found)} of shape {tuple(found.shape)}"
        )
    return found


def _check_owners(owners: Any, anchors: Array, extra_negatives: Array | None) -> Array:
    xp = array_namespace(anchors)
    count = 0 if extra_negatives is None else extra_negatives.shape[0]
    found = xp.asarray(owners, device=anchors.device)
    if tuple(found.shape) != (count,):
        raise GradlabError(
            f"owners have shape {tuple(found.shape)}, but there are {count} extra negatives; give one row number for each"
        )
    if xp.isdtype(found.dtype, "integral") and bool(xp.all((found >= -1) & (found < anchors.shape[0]))):
        return found
    raise GradlabError(
        f"owners must be row numbers from 0 to {anchors.shape[0] - 1}, or -1 for extra negatives of nobody"
    )


def _check_kind(name: str, rows: Any, like: Any) -> None:
    if not (is_torch_array(rows) or is_numpy_array(rows)):
        raise GradlabError(f"{name} must be a numpy array or a torch tensor, not {type(rows).__name__}")
    if type(rows).__module__.split(".")[0] != type(like).__module__.split(".")[0]:
        raise GradlabError(f"{name} and anchors must both be numpy arrays or both torch tensors")
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise GradlabError(f"{name} must have shape (sentences, dimensions), not {tuple(rows.shape)}")
    if _dtype_name(rows) not in NORM_TOLERANCE:
        raise GradlabError(f"{name} must be floating point, not {_dtype_name(rows)}")
    if rows.dtype != like.dtype or rows.device != like.device:
        raise GradlabError(
            f"{name} ({_dtype_name(rows)} on {rows.device}) and anchors ({_dtype_name(like)} on {like.device}) "
            "must have one dtype and one device"
        )


def _dtype_name(rows: Array) -> str:
    return str(rows.dtype).removeprefix("torch.")


def _check_norms(name: str, rows: Array, normalize: bool) -> Array:
    xp = array_namespace(rows)
    norms = xp.linalg.vector_norm(detach(rows), axis=-1)
    worst = float(xp.max(xp.abs(norms - 1)))  # NaN if any entry is NaN
    if worst <= NORM_TOLERANCE[_dtype_name(rows)]:
        return unit_rows(rows) if normalize else rows
    if not bool(xp.all(xp.isfinite(norms))):
        raise GradlabError(f"{name} contain NaN or infinite values")
    if float(xp.min(norms)) == 0:
        raise GradlabError(f"{name} contain a row of zeros, which has no direction")
    if not normalize:
        raise GradlabError(
            f"{name} are not unit vectors (a norm is off by {worst:.2g}); divide rows by their norms or pass normalize=True"
        )
    return unit_rows(rows)

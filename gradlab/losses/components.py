"""The three components of a gradient with respect to one view of a batch."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, divide, finite, largest_size, of_rows, to_numpy
from gradlab.batch.batch import Batch
from gradlab.batch.comparison import joined, own_cosines, own_pairs
from gradlab.drawable import Drawable, span
from gradlab.errors import GradlabError, listed

if TYPE_CHECKING:
    from pandas import DataFrame

# Which pairs of one kind are not negatives; False if all are, True if none is.
LeftOut = Bool[Array, "n _"] | bool
# Angles in radians at which a positive is away: see `gradlab.gradient.relative_push`.
ANGLES_AWAY = (math.pi / 2, math.pi - 1e-3)


@dataclasses.dataclass(frozen=True, repr=False)
class Components(Drawable):
    """Components ``GD``, ``W`` and ``R`` of the gradient of each anchor.

    ``∂L/∂h_i = GD_i Σ_j W_ij (n_j - R_i h_i')`` (Li et al. 2024, Eq. 4). This split is not
    unique: ``(GD/2, 2W, R)`` is the same gradient. Each loss declares the split of the papers'
    tables. The weight of the positive, ``Σ_j W_ij R_ij``, is stored: unlike R, it stays finite.

    The components of the positives are those that they have as the anchors of the exchanged
    views, in the canonical split: ``GD'_j`` is the total push on ``h_j'``, the weights are shares
    of that push, and ``R'_j = a_j/GD'_j``, which is infinite without a push. `plot` draws
    dissipation, ratio and weights, or only the dissipation on a given axis.

    Several positives share the pull:
    ``∂L/∂h_i = GD_i (Σ_j W_ij n_j - R_i (Σ_j W_ij) Σ_p V_ip h_p)``. The `pull_shares` V sum to 1; a
    positive with a negative share is pushed away. If the pulls on an anchor cancel, its pull is 1
    and its shares sum to 0.

    Attributes:
        gradient_dissipation: ``GD``.
        weight: ``W``, zero at j = i. On embeddings, the columns are the N sentences of the other
            view, the N sentences of the own view, the M extra negatives and the H own negatives of
            the row, as far as the loss has them: see `columns`.
        positive_weight: ``Σ_j W_ij R_ij``; if the ratio is a diagonal matrix (Barlow Twins),
            (n, d), where each row holds a diagonal.
        negative_view: ``"other"``, ``"same"`` or ``"both"``: the views that the columns belong to.
        views: the embeddings, or None if the components were computed from angles. On the
            positives' side the views are exchanged: the gradient is that of ``views.anchors``.
        side: ``"anchors"`` or ``"positives"``.

        counterpart: on the anchors' side, the components of the positives if requested.
        terms: for a weighted sum, the factor and the components of each term, in its own split.
        statistics: further numbers of the loss on the batch, by name, such as the share of masked
            pairs; those of later terms of a sum are numbered, as in ``masked_pairs_2``.
        left_out: by kind of columns, (n, _), True where a column is not a negative of the row (by a
            mask, by labels); True alone where none of the kind is one. Of a kind that is missing,
            every other sentence is a negative.
        given_gate: for a combinator, the weighted mean of the dissipations that its losses declare;
            read `gate` instead.
        declared: whether the split is that of the loss's formulas; False if it was found from
            gradients, where the dissipation is the total push.
        displaced_push: returns the largest push on each row (or on at least as many as its argument
            says) with the row's own positive away; None if not computed by `gradlab.components`.

        given_pull: ``a`` if GD times `positive_weight` would lose it (GD is 0 for a sentence that
            is pulled but not pushed); read `pull` instead.
        pull_shares: ``V``, in the columns of the weight, with the positive at j = i, or in a first
            column of its own without in-batch columns; None if only the positive pulls.
        target: the vector that pulls each anchor if it is not a mean of candidates (a teacher's).
        extra_terms: named parts of the exact gradient that the paper's form leaves out, if any.
    """

    # The split.
    gradient_dissipation: Float[Array, "*n"]
    weight: Float[Array, "*n k"]
    positive_weight: Float[Array, "*n"] | Float[Array, "n d"]
    negative_view: str = "other"
    views: Batch | None = dataclasses.field(default=None, repr=False)
    side: str = "anchors"

    # What diagnostics read.
    counterpart: Components | None = dataclasses.field(default=None, repr=False)
    terms: tuple[tuple[float, Components], ...] = dataclasses.field(default=(), repr=False)
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: Mapping[str, LeftOut] = dataclasses.field(default_factory=dict, repr=False)
    given_gate: Float[Array, "*n"] | None = dataclasses.field(default=None, repr=False)
    declared: bool = dataclasses.field(default=True, repr=False)
    displaced_push: Callable[..., Float[Array, "_"]] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    # What only a few losses need.
    given_pull: Float[Array, "*n"] | Float[Array, "n d"] | None = dataclasses.field(
        default=None, repr=False
    )
    pull_shares: Float[Array, "*n c"] | None = dataclasses.field(default=None, repr=False)
    target: Float[Array, "n d"] | None = dataclasses.field(default=None, repr=False)
    extra_terms: Mapping[str, Float[Array, "n d"]] = dataclasses.field(default_factory=dict)

    artist = "gradlab.plotting.result_plots:draw_components"
    shown = (
        *("gradient_dissipation", "relative_push", "total_push", "pull", "ratio", "scalar_ratio"),
        *("weight", "total_weight", "positive_weight", "hardest_share", "extra_terms"),
        *("other_view", "same_view", "extra", "own", "views", "gradient", "to_frame", "plot"),
    )
    caption = ""

    @cached_property
    def pull(self) -> Float[Array, "*n"] | Float[Array, "n d"]:
        """Coefficient of the pull, ``a_i = GD_i Σ_j W_ij R_ij``; 0 where it is not finite."""
        if self.given_pull is not None:
            return self.given_pull
        dissipation = of_rows(self.gradient_dissipation, self.positive_weight)
        return finite(self.positive_weight) * dissipation

    @cached_property
    def gate(self) -> Float[Array, "*n"]:
        """Dissipation as the losses declare it, not the total push of the canonical split."""
        return self.gradient_dissipation if self.given_gate is None else self.given_gate

    @cached_property
    def scalar_pull(self) -> Float[Array, "*n"]:
        """Pull as one number per row; if it is a vector, along the positive."""
        return self._along_positive(self.pull)

    @cached_property
    def columns(self) -> Mapping[str, slice]:
        """Slices of the weight's columns: ``"other"``, ``"same"``, ``"extra"``, ``"own"``, if any.

        Raises:
            GradlabError: the components were computed from angles, without embeddings.
        """
        columns, start = {}, 0
        for name, size in self._embeddings.column_sizes(self.negative_view).items():
            columns[name] = slice(start, start + size)
            start += size
        return columns

    @property
    def other_view(self) -> Float[Array, "n n"] | None:
        """Columns of the weight that belong to the other view, or None."""
        return self._columns_of("other")

    @property
    def same_view(self) -> Float[Array, "n n"] | None:
        """Columns of the weight that belong to the own view, or None."""
        return self._columns_of("same")

    @property
    def extra(self) -> Float[Array, "n m"] | None:
        """Columns of the weight that belong to the extra negatives, or None."""
        return self._columns_of("extra")

    @property
    def own(self) -> Float[Array, "n h"] | None:
        """Columns of the weight that belong to the row's own negatives, or None."""
        return self._columns_of("own")

    def _columns_of(self, name: str) -> Float[Array, "n columns"] | None:
        columns = self.columns.get(name)
        return None if columns is None else self.weight[:, columns]

    @cached_property
    def vectors(self) -> Float[Array, "k d"]:
        """Embeddings of the weight's columns, (k, d), except own negatives, which differ by row."""
        batch = self._embeddings
        whole = batch.whole
        rows = {"other": whole.positives, "same": whole.anchors, "extra": batch.extra_negatives}
        return joined([rows[name] for name in self.columns if name != "own"], whole.anchors[:0])

    def products(self, rows: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """Return dot products of ``rows``, one per anchor, with the columns' embeddings."""
        products, own = rows @ self.vectors.T, self._embeddings.own_negatives
        return products if own is None else joined([products, own_cosines(rows, own)], axis=-1)

    @cached_property
    def row_products(self) -> Float[Array, "n k"]:
        """Dot products of the rows with the columns' embeddings, (n, k)."""
        return self.products(self._embeddings.anchors)

    @cached_property
    def negative_cosines(self) -> Float[Array, "n k"]:
        """Cosines of each row to the weight's columns, (n, k); -inf if not a negative of the row.

        The sentence itself is not a negative. Nor is what `left_out` says, unless it has weight. A
        negative of one loss of a sum is a negative of the sum.
        """
        xp, batch = array_namespace(self.weight), self._embeddings
        cosines, masked = self.row_products, []
        for name, columns in self.columns.items():
            cosine = cosines[:, columns]
            out = (self.weight[:, columns] == 0) & self.left_out.get(name, False)
            if name in ("other", "same"):
                out = out | own_pairs(cosine, batch.start)
            masked.append(xp.where(out, -xp.inf, cosine))
        return joined(masked, cosines, axis=-1)

    @cached_property
    def is_negative(self) -> Bool[Array, "n k"]:
        """Which columns of the weight are negatives of each row; all, if they came from angles."""
        xp = array_namespace(self.weight)
        if self.views is None:
            return xp.ones_like(self.weight, dtype=xp.bool)
        return ~xp.isinf(self.negative_cosines)

    @cached_property
    def only_pulled(self) -> Bool[Array, "*n"]:
        """Which rows the loss pulls without having negatives to push them from."""
        xp, pull = array_namespace(self.weight), self.pull
        is_scalar = pull.ndim == self.gradient_dissipation.ndim
        pulled = pull != 0 if is_scalar else xp.any(pull != 0, axis=-1)
        return pulled & ~xp.any(self.is_negative, axis=-1)

    @property
    def hardest_negative_cosine(self) -> Float[Array, "n"]:
        """Largest of the `negative_cosines` of each row; NaN for a row without negatives."""
        xp, cosines = array_namespace(self.weight), self.negative_cosines
        none = xp.full_like(self.gradient_dissipation, -xp.inf)[:, None]
        hardest = xp.max(xp.concat([none, cosines], axis=-1), axis=-1)
        return xp.where(xp.isinf(hardest), xp.nan, hardest)

    def __repr__(self) -> str:
        """Return a short summary; the arrays are in the attributes."""
        lines = [
            f"Components of {tuple(self.gradient_dissipation.shape)} anchors, "
            f"weight {tuple(self.weight.shape)} on {self._kinds}",
            *(f"  {name:<20}  {span(to_numpy(values))}" for name, values in self._numbers.items()),
            *(f"  extra term            {name}" for name in self.extra_terms),
        ]
        return "\n".join(lines)

    @property
    def _kinds(self) -> str:
        """The kinds of negatives that the columns of the weight stand for, in words."""
        views = {
            "other": "the other view",
            "same": "the own view",
            "extra": "extra negatives",
            "own": "own negatives",
        }
        columns = self.columns if self.views is not None else {self.negative_view: slice(None)}
        return listed([views.get(kind, "both views") for kind in columns])

    def to_frame(self) -> DataFrame:
        """Return one row per anchor: the components and, on embeddings, cosines and radians."""
        import pandas as pd

        columns = self._numbers
        if self.views is not None:
            positive = self.views.positive
            columns |= {"positive_angle": positive.angle, "positive_cosine": positive.cosine}
            columns["hardest_negative_cosine"] = self.hardest_negative_cosine
        return pd.DataFrame({name: to_numpy(column).ravel() for name, column in columns.items()})

    @property
    def _numbers(self) -> dict[str, Float[Array, "*n"]]:
        names = ["gradient_dissipation"] if self.declared else []
        if self.displaced_push is not None:
            names.append("relative_push")
        names += ["total_push", "total_weight", "hardest_share"]
        return {name: getattr(self, name) for name in names} | {"ratio": self.scalar_ratio}

    def rescaled(self, unit: float) -> Components:
        """Return the same gradient with the dissipation in another unit u, ``(GD/u, u W, R)``."""
        return dataclasses.replace(
            self,
            gradient_dissipation=self.gradient_dissipation / unit,
            weight=self.weight * unit,
            positive_weight=self.positive_weight * unit,
        )

    @cached_property
    def total_weight(self) -> Float[Array, "*n"]:
        """Total weight ``Σ_j W_ij``."""
        return array_namespace(self.weight).sum(self.weight, axis=-1)

    @cached_property
    def total_push(self) -> Float[Array, "*n"]:
        """Sum of all negatives' coefficients, ``GD_i Σ_j W_ij``: GD in the canonical split.

        It is absolute: it carries the factor 1/N of a mean and the 1/τ of a softmax.
        """
        return self.gradient_dissipation * self.total_weight

    @cached_property
    def relative_push(self) -> Float[Array, "n"]:
        """Total push over the largest total push as the row's positive moves, in [-1, 1].

        It is the same for a loss by name, as code, or by autograd, and is computed when it is read.
        1: the whole push is alive; 0: the row is left alone; negative: its negatives attract it;
        NaN: no negative acts. `gradlab.gradient.relative_push` has the definition.

        Raises:
            GradlabError: `gradlab.components` did not compute these components.
        """
        if self.displaced_push is None:
            raise GradlabError(
                "only gradlab.components knows the largest push of a loss; "
                "call it on embeddings, or gradlab.simulate on angles"
            )
        return as_share(self.total_push, self.displaced_push())

    @cached_property
    def ratio(self) -> Float[Array, "*n"] | Float[Array, "n d"]:
        """Ratio ``R``; if it is a diagonal matrix, (n, d), where each row holds a diagonal.

        It is infinite or negative if ``Σ_j W_ij`` is zero or negative (Barlow Twins, VICReg).
        """
        return divide(self.positive_weight, of_rows(self.total_weight, self.positive_weight))

    @cached_property
    def scalar_ratio(self) -> Float[Array, "*n"]:
        """Ratio as one number per anchor; if diagonal, ``h_i'ᵀ R h_i'``, along the positive."""
        return self._along_positive(self.ratio)

    def _along_positive(self, values: Float[Array, "..."]) -> Float[Array, "*n"]:
        if values.ndim == self.gradient_dissipation.ndim:
            return values
        positives = self._embeddings.positives
        return array_namespace(values).sum(values * positives * positives, axis=-1)

    @cached_property
    def hardest_share(self) -> Float[Array, "*n"]:
        """Share of the hardest negative, ``max_j |W_ij| / Σ_j |W_ij|``; NaN if all weights are 0.

        Some losses, such as Barlow Twins and VICReg, have negative weights.
        """
        xp = array_namespace(self.weight)
        size = xp.abs(self.weight)
        if not size.shape[-1]:  # of positives that are nobody's negatives
            return xp.full_like(self.gradient_dissipation, xp.nan)
        return divide(xp.max(size, axis=-1), xp.sum(size, axis=-1))

    def gradient(self, *, tangent: bool = True, exact: bool = False) -> Float[Array, "n d"]:
        """Assemble the gradient with respect to the rows of this side.

        Some losses have an infinite or undefined pull between vectors that coincide or are
        opposite. Such a pull has no direction in the tangent space and counts as 0,
        autograd's subgradient. (ArcCon's pull has a radial part even there, which
        ``tangent=False`` then lacks.)

        Args:
            tangent: project row i onto the tangent space at ``h_i``, the convention in which the
                paradigm is exact; False keeps the radial part of the similarity form.
            exact: add the `extra_terms`.

        Raises:
            GradlabError: the components were computed from angles, without embeddings.
        """
        batch, pull = self._embeddings, as_columns(self.pull)
        push = self.gradient_dissipation[:, None] * self._combined(self.weight)
        gradient = sum(self.extra_terms.values() if exact else (), push - pull * self.towards)
        return project(gradient, batch.anchors) if tangent else gradient

    @property
    def towards(self) -> Float[Array, "n d"]:
        """Vector that pulls each anchor: the positive, ``Σ_p V_ip h_p``, or the `target`."""
        positives = self._embeddings.positives
        if self.target is not None:
            return self.target
        if self.pull_shares is None:
            return positives
        own, shared = self._split_shares(self.pull_shares)
        return own[:, None] * positives + self._combined(shared)

    @property
    def pulls(self) -> Mapping[str, Float[Array, "n *_"]]:
        """Pull of the ``"positive"``, (n,), and, if it is shared, of each kind in `columns`."""
        if self.target is not None or self.pull_shares is None:
            return {"positive": self.pull if self.target is None else 0 * self.pull}
        own, shared = self._split_shares(self.pull_shares * self.pull[:, None])
        kinds = {name: shared[:, columns] for name, columns in self.columns.items()}
        return {"positive": own} | kinds

    def _split_shares(
        self, shares: Float[Array, "n c"]
    ) -> tuple[Float[Array, "n"], Float[Array, "n k"]]:
        """Split pull shares into those of the positive, (n,), and of the weight columns, (n, k)."""
        batch, xp = self._embeddings, array_namespace(shares)
        if not batch.in_batch_negatives:
            return shares[:, 0], shares[:, 1:]
        own = own_pairs(shares, batch.start)
        zero = xp.zeros_like(shares)
        return xp.sum(xp.where(own, shares, zero), axis=-1), xp.where(own, zero, shares)

    def _combined(self, coefficients: Float[Array, "n k"]) -> Float[Array, "n d"]:
        """Return ``Σ_j c_ij n_j`` over the columns of the weight."""
        own = self._embeddings.own_negatives
        if own is None:
            return coefficients @ self.vectors
        shared = coefficients[:, : self.columns["own"].start]
        own_coefficients = coefficients[:, None, shared.shape[1] :]
        return shared @ self.vectors + (own_coefficients @ own)[:, 0, :]

    @property
    def _embeddings(self) -> Batch:
        if self.views is None:
            raise GradlabError(
                "these components came from angles; give embeddings to assemble a gradient"
            )
        return self.views


def completed(components: Components, **attributes: Any) -> Components:
    """Return components with further attributes; what was computed of the others is kept."""
    copied = copy.copy(components)
    for name, attribute in attributes.items():
        object.__setattr__(copied, name, attribute)
    return copied


def as_share(push: Float[Array, "*n"], displaced: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return a push over the larger of itself and the push with its positive away, in [-1, 1].

    NaN where both are 0: no negative acts.
    """
    xp = array_namespace(push)
    return divide(push, xp.maximum(xp.abs(push), xp.abs(displaced)))


def displaced_push(
    loss: Any, batch: Batch, count: int | None = None, *, side: str = "anchors"
) -> Float[Array, "_"]:
    """Return the largest size of the push of a `Loss` on each row, with its positive moved away.

    Of the first ``count`` rows at least: of all rows if that costs no more.
    """
    rows = batch.anchors.shape[0]
    count = rows if count is None else min(count, rows)
    pushes = loss.displaced_pushes(batch) if side == "anchors" else None
    return largest_size(pushes or loss.displaced_pushes_one_by_one(batch, count, side))


def as_columns(pull: Float[Array, "n *d"]) -> Float[Array, "n _"]:
    """Return a pull per row as one column, (n, 1), and one per coordinate as it is, (n, d)."""
    return pull if pull.ndim == 2 else pull[:, None]


def project(gradient: Float[Array, "n d"], anchors: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Project row i of ``gradient`` onto the sphere's tangent space at row i of ``anchors``."""
    xp = array_namespace(gradient)
    return gradient - xp.sum(gradient * anchors, axis=-1, keepdims=True) * anchors

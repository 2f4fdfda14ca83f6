"""The three components of a gradient with respect to one view of a batch."""

from __future__ import annotations

import dataclasses
import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, divide, finite, span, to_numpy
from gradlab.batch.batch import Batch
from gradlab.batch.comparison import own_cosines, own_pairs
from gradlab.drawing import Shown
from gradlab.errors import GradlabError

if TYPE_CHECKING:
    from pandas import DataFrame

# Which pairs of one kind are not negatives; False if all are, True if none is.
LeftOut = Bool[Array, "n _"] | bool


@dataclasses.dataclass(frozen=True, repr=False)
class Components(Shown):
    """Components ``GD``, ``W`` and ``R`` of the gradient of each anchor.

    ``∂L/∂h_i = GD_i Σ_j W_ij (n_j - R_i h_i')`` (Li et al. 2024, Eq. 4). This split is not
    unique: ``(GD/2, 2W, R)`` is the same gradient. Each loss declares the split of the papers'
    tables. The weight of the positive, ``Σ_j W_ij R_ij``, is stored instead of the ratio, because
    it stays finite.

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
        extra_terms: named parts of the exact gradient that the paper's form leaves out, if any.
        views: the embeddings, or None if the components were computed from angles. On the
            positives' side the views are exchanged: the gradient is that of ``views.anchors``.
        side: ``"anchors"`` or ``"positives"``.
        statistics: further numbers of the loss on the batch, by name, such as the share of masked
            pairs; those of later terms of a sum are numbered, as in ``masked_pairs_2``.
        counterpart: on the anchors' side, the components of the positives if requested.
        given_pull: ``a`` if GD times `positive_weight` would lose it (GD is 0 for a sentence that
            is pulled but not pushed); read `pull` instead.
        given_gate: for a combinator, the weighted mean of the dissipations that its losses declare;
            read `gate` instead.
        pull_shares: ``V``, in the columns of the weight, with the positive at j = i, or in a first
            column of its own without in-batch columns; None if only the positive pulls.
        target: the vector that pulls each anchor if it is not a mean of candidates (a teacher's).
        terms: for a weighted sum, the factor and the components of each term, in its own split.
        declared: whether the split is that of the loss's formulas; False if it was found from
            gradients, where the dissipation is the total push.
        opposite_push: returns the total push on each row (or on at least as many as its argument
            says) if the row's own positive were opposite, which `relative_push` compares with; None
            if `gradlab.components` did not compute these components.
        left_out: by kind of columns, (n, _), True where a column is not a negative of the row (by a
            mask, by labels); True alone where none of the kind is one. Of a kind that is missing,
            every other sentence is a negative.
    """

    gradient_dissipation: Float[Array, "*n"]
    weight: Float[Array, "*n k"]
    positive_weight: Float[Array, "*n"] | Float[Array, "n d"]
    negative_view: str = "other"
    extra_terms: Mapping[str, Float[Array, "n d"]] = dataclasses.field(default_factory=dict)
    views: Batch | None = dataclasses.field(default=None, repr=False)
    side: str = "anchors"
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    counterpart: Components | None = dataclasses.field(default=None, repr=False)
    given_pull: Float[Array, "*n"] | Float[Array, "n d"] | None = dataclasses.field(
        default=None, repr=False
    )
    given_gate: Float[Array, "*n"] | None = dataclasses.field(default=None, repr=False)
    pull_shares: Float[Array, "*n c"] | None = dataclasses.field(default=None, repr=False)
    target: Float[Array, "n d"] | None = dataclasses.field(default=None, repr=False)
    terms: tuple[tuple[float, Components], ...] = dataclasses.field(default=(), repr=False)
    left_out: Mapping[str, LeftOut] = dataclasses.field(default_factory=dict, repr=False)
    declared: bool = dataclasses.field(default=True, repr=False)
    opposite_push: Callable[..., Float[Array, "_"]] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    artist = "gradlab.plotting.results:draw_components"
    caption = ""

    @property
    def pull(self) -> Float[Array, "*n"] | Float[Array, "n d"]:
        """Coefficient of the pull, ``a_i = GD_i Σ_j W_ij R_ij``; 0 where it is not finite."""
        if self.given_pull is not None:
            return self.given_pull
        weight = finite(self.positive_weight)
        return weight * of_rows(self.gradient_dissipation, weight)

    @property
    def net_pull(self) -> Float[Array, "*n"] | Float[Array, "n d"]:
        """Sum of all `pulls`: the `pull`, but 0 where they cancel."""
        if self.pull_shares is None or self.target is not None:
            return self.pull
        xp = array_namespace(self.pull)
        cancel = xp.sum(self.pull_shares, axis=-1) < 0.5  # 0 or 1, up to rounding
        return xp.where(cancel, xp.zeros_like(self.pull), self.pull)

    @property
    def gate(self) -> Float[Array, "*n"]:
        """Dissipation as the losses declare it, not the total push of the canonical split."""
        return self.gradient_dissipation if self.given_gate is None else self.given_gate

    @property
    def columns(self) -> Mapping[str, slice]:
        """Slices of the weight's columns: ``"other"``, ``"same"``, ``"extra"``, ``"own"``, if any.

        Raises:
            GradlabError: the components were computed from angles, without embeddings.
        """
        found, start = {}, 0
        for name, size in _sizes(self._embeddings, self.negative_view).items():
            found[name] = slice(start, start + size)
            start += size
        return found

    @property
    def other_view(self) -> Float[Array, "n n"] | None:
        """Columns of the weight that belong to the other view, or None."""
        return self._part("other")

    @property
    def same_view(self) -> Float[Array, "n n"] | None:
        """Columns of the weight that belong to the own view, or None."""
        return self._part("same")

    @property
    def extra(self) -> Float[Array, "n m"] | None:
        """Columns of the weight that belong to the extra negatives, or None."""
        return self._part("extra")

    @property
    def own(self) -> Float[Array, "n h"] | None:
        """Columns of the weight that belong to the row's own negatives, or None."""
        return self._part("own")

    def _part(self, name: str) -> Float[Array, "n columns"] | None:
        columns = self.columns.get(name)
        return None if columns is None else self.weight[:, columns]

    @property
    def vectors(self) -> Float[Array, "k d"]:
        """Embeddings of the weight's columns, (k, d), except own negatives, which differ by row."""
        views, every = self._embeddings, self._embeddings.whole
        rows = {"other": every.positives, "same": every.anchors, "extra": views.extra_negatives}
        return _joined([rows[name] for name in self.columns if name != "own"], every.anchors[:0])

    def products(self, rows: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """Return dot products of ``rows``, one per anchor, with the columns' embeddings."""
        found, own = rows @ self.vectors.T, self._embeddings.own_negatives
        return _joined([found] if own is None else [found, own_cosines(rows, own)], axis=-1)

    @property
    def negative_cosines(self) -> Float[Array, "n k"]:
        """Cosines of each row to the weight's columns, (n, k); -inf if not a negative of the row.

        The sentence itself is not a negative. Nor is what `left_out` says, unless it has weight. A
        negative of one loss of a sum is a negative of the sum.
        """
        xp, views = array_namespace(self.weight), self._embeddings
        cosines, parts = self.products(views.anchors), []
        for name, columns in self.columns.items():
            cosine = cosines[:, columns]
            out = (self.weight[:, columns] == 0) & self.left_out.get(name, False)
            if name in ("other", "same"):
                out = out | own_pairs(cosine, views.start)
            parts.append(xp.where(out, -xp.inf, cosine))
        return _joined(parts, cosines, axis=-1)

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
            f"weight {tuple(self.weight.shape)} on the {self.negative_view} view",
            *(f"  {name:<20}  {span(values)}" for name, values in self._numbers.items()),
            *(f"  extra term            {name}" for name in self.extra_terms),
        ]
        return "\n".join(lines)

    def to_frame(self) -> DataFrame:
        """Return one row per anchor: the components and, on embeddings, cosines and radians."""
        import pandas as pd

        found = self._numbers
        if self.views is not None:
            positive = self.views.positive
            found |= {"positive_angle": positive.angle, "positive_cosine": positive.cosine}
            found["hardest_negative_cosine"] = self.hardest_negative_cosine
        return pd.DataFrame({name: to_numpy(column).ravel() for name, column in found.items()})

    @property
    def _numbers(self) -> dict[str, Float[Array, "*n"]]:
        names = ["gradient_dissipation"] if self.declared else []
        if self.opposite_push is not None:
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

    @property
    def total_weight(self) -> Float[Array, "*n"]:
        """Total weight ``Σ_j W_ij``."""
        return array_namespace(self.weight).sum(self.weight, axis=-1)

    @property
    def total_push(self) -> Float[Array, "*n"]:
        """Sum of all negatives' coefficients, ``GD_i Σ_j W_ij``: GD in the canonical split.

        It is absolute: it carries the factor 1/N of a mean and the 1/τ of a softmax.
        """
        return self.gradient_dissipation * self.total_weight

    @property
    def relative_push(self) -> Float[Array, "n"]:
        """Total push over the largest total push as the row's positive moves, in [-1, 1].

        It is the same for a loss by name, as code, or by autograd, and is computed when it is read.
        1: the whole push is alive; 0: the row is left alone; negative: its negatives attract it;
        NaN: no negative acts. `gradlab.gradient.relative_push` has the definition.

        Raises:
            GradlabError: `gradlab.components` did not compute these components.
        """
        if self.opposite_push is None:
            raise GradlabError(
                "only gradlab.components knows the largest push of a loss; "
                "call it on embeddings, or gradlab.simulate on angles"
            )
        return as_share(self.total_push, self.opposite_push())

    @property
    def ratio(self) -> Float[Array, "*n"] | Float[Array, "n d"]:
        """Ratio ``R``; if it is a diagonal matrix, (n, d), where each row holds a diagonal.

        It is infinite or negative if ``Σ_j W_ij`` is zero or negative (Barlow Twins, VICReg).
        """
        return divide(self.positive_weight, of_rows(self.total_weight, self.positive_weight))

    @property
    def scalar_ratio(self) -> Float[Array, "*n"]:
        """Ratio as one number per anchor; if diagonal, ``h_i'ᵀ R h_i'``, along the positive."""
        ratio = self.ratio
        if ratio.ndim == self.gradient_dissipation.ndim:
            return ratio
        positives = self._embeddings.positives
        return array_namespace(ratio).sum(ratio * positives * positives, axis=-1)

    @property
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
        views, pull = self._embeddings, _columns(self.pull)
        push = self.gradient_dissipation[:, None] * self._combined(self.weight)
        gradient = sum(self.extra_terms.values() if exact else (), push - pull * self.towards)
        return project(gradient, views.anchors) if tangent else gradient

    @property
    def towards(self) -> Float[Array, "n d"]:
        """Vector that pulls each anchor: the positive, ``Σ_p V_ip h_p``, or the `target`."""
        positives = self._embeddings.positives
        if self.target is not None:
            return self.target
        if self.pull_shares is None:
            return positives
        own, others = self._apart(self.pull_shares)
        return own[:, None] * positives + self._combined(others)

    @property
    def pulls(self) -> Mapping[str, Float[Array, "n *_"]]:
        """Pull of the ``"positive"``, (n,), and, if it is shared, of each kind in `columns`."""
        if self.target is not None or self.pull_shares is None:
            return {"positive": self.pull if self.target is None else 0 * self.pull}
        own, others = self._apart(self.pull_shares * self.pull[:, None])
        parts = {name: others[:, columns] for name, columns in self.columns.items()}
        return {"positive": own} | parts

    def _apart(self, shares: Float[Array, "n c"]) -> tuple[Float[Array, "n"], Float[Array, "n k"]]:
        """Split pull shares into those of the positive, (n,), and of the weight columns, (n, k)."""
        views, xp = self._embeddings, array_namespace(shares)
        if not views.in_batch_negatives:
            return shares[:, 0], shares[:, 1:]
        own = own_pairs(shares, views.start)
        zero = xp.zeros_like(shares)
        return xp.sum(xp.where(own, shares, zero), axis=-1), xp.where(own, zero, shares)

    def _combined(self, coefficients: Float[Array, "n k"]) -> Float[Array, "n d"]:
        """Return ``Σ_j c_ij n_j`` over the columns of the weight."""
        own = self._embeddings.own_negatives
        if own is None:
            return coefficients @ self.vectors
        shared = coefficients[:, : self.columns["own"].start]
        mine = coefficients[:, None, shared.shape[1] :]
        return shared @ self.vectors + (mine @ own)[:, 0, :]

    @property
    def _embeddings(self) -> Batch:
        if self.views is None:
            raise GradlabError(
                "these components came from angles; give embeddings to assemble a gradient"
            )
        return self.views


def _sizes(views: Batch, negative_view: str) -> dict[str, int]:
    """Return how many columns a weight has of each kind of negatives, in their order."""
    n, extra, own = views.count, views.extra_negatives, views.own_negatives
    found = {"other": n} if views.in_batch_negatives and negative_view != "same" else {}
    found |= {"same": n} if negative_view != "other" else {}
    found |= {} if extra is None else {"extra": extra.shape[0]}
    return found | ({} if own is None else {"own": own.shape[1]})


def canonical(
    coefficients: Mapping[str, Float[Array, "n _"] | None],
    pull: Float[Array, "n"] | Float[Array, "n d"],
    views: Batch,
    *,
    pulls: Mapping[str, Float[Array, "n *_"] | None] | None = None,
    beside: Float[Array, "n"] | None = None,
    left_out: Mapping[str, LeftOut] | None = None,
    **others: Any,
) -> Components:
    """Split a gradient canonically: GD is the sum of the coefficients, and W holds their shares.

    Args:
        coefficients: of the other view (``"other"``, (n, n)), the own view (``"same"``, (n, n)),
            both zero at j = i, the extra negatives (``"extra"``, (n, m)) and the own negatives
            (``"own"``, (n, h)); None or missing if the loss has no such negatives.
        pull: ``a``.
        views: the embeddings, with those of this side as the anchors.
        pulls: the parts of a shared ``a``: of the ``"positive"``, (n,), and of other candidates in
            the shapes of ``coefficients``.
        beside: a push that GD counts although W has no column for it.
        left_out: see `Components`. A kind without coefficients has no negatives.
        **others: further attributes of the `Components`, such as ``side``.
    """
    xp = array_namespace(views.anchors)
    across = views.in_batch_negatives and coefficients.get("other") is not None
    negative_view = "other" if coefficients.get("same") is None else "both" if across else "same"
    sizes = _sizes(views, negative_view)
    zero = xp.zeros_like(views.anchors[:, 0])

    def joined(given: Mapping[str, Any], *before: Float[Array, "n 1"]) -> Float[Array, "n _"]:
        """Join one block per kind of columns; a kind that is not given has zeros."""
        blocks = list(before)
        for name, size in sizes.items():
            if given.get(name) is None:
                shape = (zero.shape[0], size)
                blocks.append(xp.zeros(shape, dtype=zero.dtype, device=zero.device))
            else:
                blocks.append(given[name])
        return _joined(blocks, zero[:, None][:, :0], axis=-1)

    found = [coefficients[name] for name in sizes if coefficients.get(name) is not None]
    total = sum((xp.sum(part, axis=-1) for part in found), zero if beside is None else beside)
    # Coefficients of both signs can sum to 0: the dissipation is then 1, and they are the weights.
    unit = xp.where(total == 0, xp.ones_like(total), total)
    weight = joined(coefficients) / unit[:, None]
    # No branch: the explorer compiles this.
    total = xp.where((total == 0) & xp.any(weight != 0, axis=-1), unit, total)
    shares = None
    if pulls is not None:
        own: Any = pulls["positive"][:, None]  # type: ignore[index]  # it is always there
        if views.in_batch_negatives:
            shares = joined(pulls)
            shares = xp.where(own_pairs(shares, 0), own, shares)
        else:
            shares = joined(pulls, own)
        pull = xp.where((pull == 0) & xp.any(shares != 0, axis=-1), xp.ones_like(pull), pull)
        shares = shares / xp.where(pull == 0, xp.ones_like(pull), pull)[:, None]
    return Components(
        total,
        weight,
        divide(pull, of_rows(total, pull)),
        negative_view=negative_view,
        views=views,
        given_pull=pull,
        pull_shares=shares,
        left_out={
            name: True if coefficients.get(name) is None else (left_out or {}).get(name, False)
            for name in sizes
        },
        **others,
    )


def seen_by_positives(
    anchors: Components, views: Batch, *, push: bool = True, pull: bool = True
) -> Components:
    """Derive the components of the positives from those of the anchors.

    An anchor and a negative push each other with the same coefficient. The same holds for the
    pull of a pair. Extra negatives, own negatives and those of the anchors' own view do not act
    on the positives.

    Args:
        anchors: components of the anchors.
        views: their embeddings.
        push: whether the negatives move.
        pull: whether the positives move.
    """
    other, columns = None, anchors.columns.get("other")
    if push and columns is not None:
        # One N x N array, transposed; `canonical` turns it into shares.
        other = (anchors.weight[:, columns] * anchors.gradient_dissipation[:, None]).T
    return canonical(
        {"other": other},
        anchors.pull if pull else 0 * anchors.pull,
        views.exchanged(),
        side="positives",
        left_out={"other": transposed(anchors.left_out.get("other", False))},
    )


def both_sides(
    push: Float[Array, "n k"],
    pull: Float[Array, "n"],
    views: Batch,
    *,
    left_out: Mapping[str, LeftOut],
    positive: Float[Array, "n"] | None = None,
    pulls: Float[Array, "n k"] | None = None,
    **others: Any,
) -> tuple[Components, Components]:
    """Return the components of both sides, given how the candidates of each row push and pull.

    Two sentences of one view meet in both of their rows, and both count.

    Args:
        push: coefficients of the pushes, with one column per candidate.
        pull: coefficient of the whole pull of each row.
        views: the embeddings.
        left_out: which candidates are not negatives, by the names of their blocks.
        positive, pulls: the parts of a shared pull, of the positive and of the candidates.
        **others: further arguments of `canonical` for the anchors.
    """
    blocks = {block.name: block.columns for block in views.candidate_blocks}
    pushed, pushed_back = _by_side({name: push[:, at] for name, at in blocks.items()}, operator.add)
    out, out_back = _by_side({name: left_out.get(name, False) for name in blocks}, operator.and_)
    back: Any = pull
    shares: Any = None
    shares_back: Any = None
    if pulls is not None:
        parts = {name: pulls[:, at] for name, at in blocks.items()}
        sums = {name: array_namespace(pulls).sum(part, axis=0) for name, part in parts.items()}
        pull, back = pull + sums.get("same", 0), positive + sums.get("other", 0)
        shares, shares_back = _by_side(parts, operator.add)
        shares["positive"] = shares_back["positive"] = positive
    given: dict[str, Any] = {"pulls": shares_back, "left_out": out_back, "side": "positives"}
    positives = canonical(pushed_back, back, views.exchanged(), **given)
    given = others | {"pulls": shares, "left_out": out, "counterpart": positives}
    return canonical(pushed, pull, views, **given), positives


def _by_side(
    rows: Mapping[str, Any], combine: Callable[[Any, Any], Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrange values of rows' candidates by the columns of the anchors, and of the positives.

    ``combine`` joins the two values of a pair that occurs in two rows.
    """
    found = dict(rows)
    for name in ("same", "positive_same"):
        if name in found:
            found[name] = combine(found[name], transposed(found[name]))
    if "positive_other" in found:
        back = transposed(found["positive_other"])
        found["other"] = combine(found["other"], back) if "other" in found else back
    of_positives = {
        name.removeprefix("positive_"): one
        for name, one in found.items()
        if name.startswith("positive_")
    }
    if "other" in found:
        of_positives["other"] = transposed(found["other"])
    return found, of_positives


def from_pools(rows: Components, views: Batch) -> tuple[Components, Components]:
    """Return both sides' components for a loss whose rows have several kinds of negatives.

    Args:
        rows: the declared components of each row; the weight has the columns of the candidates.
        views: the embeddings.
    """
    xp, dissipation, pull = array_namespace(rows.weight), rows.gradient_dissipation, rows.pull
    push = rows.weight * dissipation[:, None]
    for block in views.candidate_blocks:
        if block.name == "positive_other" and block.own is None:
            # The pair itself is among the negatives: its push is subtracted from its pull.
            own, zero = own_pairs(push, block.columns.start), xp.zeros_like(push)
            left = pull - xp.sum(xp.where(own, push, zero), axis=-1)
            # At the ratio 1 the other weights are what is left of the pull; the difference would
            # be rounding near a full softmax.
            rest = xp.sum(xp.where(own, zero, rows.weight), axis=-1) * dissipation
            pull = xp.where(pull == rows.total_push, rest, left)
            push = xp.where(own, zero, push)
    others = {"statistics": rows.statistics, "given_gate": rows.gate}
    return both_sides(push, pull, views, left_out=rows.left_out, **others)


def weighted_sum(
    parts: Sequence[tuple[float, Components]],
    views: Batch,
    side: str,
    gate: Float[Array, "n"] | None = None,
) -> Components:
    """Return the components of a weighted sum of losses, in the canonical split.

    Args:
        parts: the factor and the components of each loss, all on the same rows.
        views: the embeddings, with those of this side as the anchors.
        side: ``"anchors"`` or ``"positives"``.
        gate: see `Components`.
    """
    coefficients: dict[str, Any] = {}
    terms: dict[str, Any] = {}
    pulls: dict[str, Any] = {}
    left_out: dict[str, LeftOut] = {}
    statistics: dict[str, Any] = {}
    attractions = []
    diagonal = any(part.pull.ndim == 2 for _, part in parts)

    def add(sums: dict[str, Any], name: str, one: Array) -> None:
        sums[name] = sums[name] + one if name in sums else one

    for factor, part in parts:
        size = factor * part.gradient_dissipation[:, None]
        for name, columns in part.columns.items():
            add(coefficients, name, part.weight[:, columns] * size)
            left_out[name] = left_out.get(name, True) & part.left_out.get(name, False)
        for name, term in part.extra_terms.items():
            add(terms, name, in_whole_rows(factor * term, views))
        for name, one in part.pulls.items() if not diagonal else ():
            add(pulls, name, factor * one)
        attraction = in_whole_rows(factor * part.net_pull, views)
        attractions.append(_columns(attraction) if diagonal else attraction)
        for name, one in part.statistics.items():
            first = re.sub(r"_\d+$", "", name)  # a sum within the sum has numbered its own
            names = itertools.chain([first], (f"{first}_{at}" for at in itertools.count(2)))
            statistics[next(name for name in names if name not in statistics)] = one
    pull = sum(attractions[1:], attractions[0])
    shared = any(part.pull_shares is not None for _, part in parts)
    target = None
    if any(part.target is not None for _, part in parts) or (shared and diagonal):
        each = [
            in_whole_rows(factor * _columns(part.pull) * part.towards, views)
            for factor, part in parts
        ]
        target = finite(divide(sum(each[1:], each[0]), _columns(pull)))
    found = canonical(
        coefficients,
        pull,
        views,
        pulls=pulls if (shared or target is not None) and not diagonal else None,
        left_out=left_out,
        side=side,
        extra_terms=terms,
        statistics=statistics,
        target=target,
        given_gate=gate,
        terms=tuple(parts),
    )
    plain = all(type(part) is Components for _, part in parts)
    return found if plain else TermwiseComponents(**vars(found))


def in_whole_rows(pull: Float[Array, "n *_"], views: Batch) -> Float[Array, "n *d"]:
    """Return a pull per row as it is; pad a pull per coordinate of a prefix with zeros."""
    if pull.ndim == 1 or pull.shape[1] == views.anchors.shape[1]:
        return pull
    rest = array_namespace(pull).zeros_like(views.anchors[:, pull.shape[1] :])
    return _joined([pull, rest], axis=-1)


def as_share(push: Float[Array, "*n"], opposite: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return a push over the larger of itself and the push at the opposite positive, in [-1, 1].

    NaN where both are 0: no negative acts.
    """
    xp = array_namespace(push)
    return divide(push, xp.maximum(xp.abs(push), xp.abs(opposite)))


def of_rows(values: Float[Array, "*n"], like: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return a value per row so that it broadcasts against ``like``, (...,) or (..., d)."""
    return values if values.ndim == like.ndim else values[..., None]


def _columns(pull: Float[Array, "n *d"]) -> Float[Array, "n _"]:
    """Return a pull per row as one column, (n, 1), and one per coordinate as it is, (n, d)."""
    return pull if pull.ndim == 2 else pull[:, None]


def _joined(parts: Sequence[Array], nothing: Array = None, axis: int = 0) -> Array:
    """Return the parts joined along an axis; ``nothing`` if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else nothing
    return array_namespace(parts[0]).concat(list(parts), axis=axis)


class TermwiseComponents(Components):
    """Components of a sum with a term whose gradient does not combine whole rows.

    `per_prefix` is such a term.
    """

    def gradient(self, *, tangent: bool = True, exact: bool = False) -> Float[Array, "n d"]:
        parts = [
            factor * part.gradient(tangent=tangent, exact=exact) for factor, part in self.terms
        ]
        return sum(parts[1:], parts[0])


def transposed(pairs: Any) -> Any:
    """Return an array of pairs as the columns see them; what holds for all pairs as it is."""
    return pairs if isinstance(pairs, bool) else pairs.T


def project(gradient: Float[Array, "n d"], anchors: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Project row i of ``gradient`` onto the sphere's tangent space at row i of ``anchors``."""
    xp = array_namespace(gradient)
    return gradient - xp.sum(gradient * anchors, axis=-1, keepdims=True) * anchors

"""The three components of a gradient, of either view of a batch, and the gradient they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, divide, finite, span, to_numpy
from gradlab.batch.batch import Batch, own_cosines, own_pairs
from gradlab.batch.candidates import BESIDE, Block
from gradlab.drawing import Shown
from gradlab.errors import GradlabError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclasses.dataclass(frozen=True, repr=False)
class Components(Shown):
    """``∂L/∂h_i = GD_i Σ_j W_ij (n_j - R_i h_i')`` (Li et al. 2024, Eq. 4), per anchor.

    A gradient does not determine its split, ``(GD/2, 2W, R)`` being the same gradient; each loss
    declares the split of the papers' tables. What is stored is what stays finite: the weight of the
    positive, ``Σ_j W_ij R_ij``, rather than the ratio.

    The positives have components too: theirs are those that they have as the anchors of the exchanged views. There the
    split is the canonical one, as declared ones are of the anchors: ``GD'_j`` is the sum of what pushes ``h_j'``, the
    weights are the shares in it, ``R'_j = a_j/GD'_j`` (infinite where nothing pushes). `to_frame` has one row an anchor; `plot` draws
    dissipation, ratio and weights, on a given axis the dissipation alone.

    With several positives the pull is shared, ``∂L/∂h_i = GD_i (Σ_j W_ij n_j - R_i (Σ_j W_ij) Σ_p V_ip h_p)``: `pull_shares` is V.
    They sum to 1; one below 0 belongs to a positive that is pushed away. (An anchor whose pulls cancel has the pull 1 and
    shares of the sum 0.)

    Attributes:
        gradient_dissipation: ``GD``.
        weight: ``W``. On embeddings its columns are the N sentences of the other view, the N
            sentences of the own view, the M extra negatives and the H own negatives of the row, in this order, as far as
            the loss has such negatives: see `negative_view`, `other_view`, `same_view`, `extra` and `own`. Zero at j = i.
        positive_weight: ``Σ_j W_ij R_ij``; (n, d) where the ratio is a diagonal matrix
            (Barlow Twins), one row holding the diagonal.
        negative_view: ``"other"``, ``"same"`` or ``"both"``: the views that columns stand for.
        extra_terms: named parts of the exact gradient that the paper's form leaves out;
            empty for every loss whose published form is exact. They are not part of `gradient` unless asked for.
        views: the embeddings, or None where the components came from angles; exchanged on the side of the positives, so
            that ``views.anchors`` are the rows that the gradient belongs to.
        side: ``"anchors"`` or ``"positives"``.
        statistics: what else a loss counts on the batch, by name, such as the pairs that a mask leaves out.
        counterpart: of the anchors' side the positives' where both were asked for, else None.
        given_pull: ``a`` where GD times `positive_weight` would lose it (a sentence that is pulled and not
            pushed has the GD 0), else None; `pull` is what to read.
        given_gate: of a combinator the mean, by their weights, of the dissipations that its losses declare, else None; `gate`
            is what to read.
        pull_shares: ``V``, on embeddings in the columns of the weight, the positive standing at j = i, or first where there are no
            in-batch columns; None where the positive is pulled alone.
        target: (n, d), what the pull goes to, where that is not a mean of candidates (a teacher's embedding), else None.
        terms: of a weighted sum the factors and the components of what is added, each with its own split; else empty.
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
    given_pull: Float[Array, "*n"] | Float[Array, "n d"] | None = dataclasses.field(default=None, repr=False)
    given_gate: Float[Array, "*n"] | None = dataclasses.field(default=None, repr=False)
    pull_shares: Float[Array, "*n c"] | None = dataclasses.field(default=None, repr=False)
    target: Float[Array, "n d"] | None = dataclasses.field(default=None, repr=False)
    terms: tuple[tuple[float, Components], ...] = dataclasses.field(default=(), repr=False)

    artist = "gradlab.plotting.results:draw_components"
    caption = ""

    @property
    def pull(self) -> Float[Array, "*n"] | Float[Array, "n d"]:
        """``a_i = GD_i Σ_j W_ij R_ij``: the coefficient of the attraction to the positive; 0 where it has no limit."""
        if self.given_pull is not None:
            return self.given_pull
        weight, dissipation = finite(self.positive_weight), self.gradient_dissipation
        return weight * (dissipation if weight.ndim == dissipation.ndim else dissipation[..., None])

    @property
    def gate(self) -> Float[Array, "*n"]:
        """The dissipation as the losses declare it, which is what thresholds are for: of a softmax in [0, 1], at any temperature.

        GD itself, but for a combinator in the canonical split, whose GD is the total push and grows with 1/τ.
        """
        return self.gradient_dissipation if self.given_gate is None else self.given_gate

    @property
    def columns(self) -> Mapping[str, slice]:
        """Which columns of the weight stand for ``"other"``, ``"same"``, ``"extra"`` and ``"own"``; what there is none of is missing.

        Raises:
            GradlabError: if the components were computed from angles, without embeddings.
        """
        found, start = {}, 0
        for name, size in _sizes(self._embeddings, self.negative_view).items():
            found[name] = slice(start, start + size)
            start += size
        return found

    @property
    def other_view(self) -> Float[Array, "n n"] | None:
        """The columns of the weight that stand for the other view, or None."""
        return self._part("other")

    @property
    def same_view(self) -> Float[Array, "n n"] | None:
        """The columns of the weight that stand for the own view, or None."""
        return self._part("same")

    @property
    def extra(self) -> Float[Array, "n m"] | None:
        """The columns of the weight that stand for the extra negatives, or None."""
        return self._part("extra")

    @property
    def own(self) -> Float[Array, "n h"] | None:
        """The columns of the weight that stand for the row's own negatives, or None."""
        return self._part("own")

    def _part(self, name: str) -> Float[Array, "n columns"] | None:
        columns = self.columns.get(name)
        return None if columns is None else self.weight[:, columns]

    @property
    def vectors(self) -> Float[Array, "k d"]:
        """What the columns of the weight stand for, without the own negatives, which each row has of its own."""
        views = self._embeddings
        every, xp = views.every, array_namespace(views.anchors)
        rows = {"other": every.positives, "same": every.anchors, "extra": views.extra_negatives}
        parts = [rows[name] for name in self.columns if name != "own"]
        return parts[0] if len(parts) == 1 else xp.concat([every.anchors[:0], *parts], axis=0)

    def products(self, rows: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """Dot products of one row for each anchor with what the columns of its weight stand for."""
        found, own = rows @ self.vectors.T, self._embeddings.own_negatives
        return (
            found if own is None else array_namespace(rows).concat([found, own_cosines(rows, own)], axis=-1)
        )

    @property
    def negative_cosines(self) -> Float[Array, "n k"]:
        """Cosines of the rows and what the columns of their weights stand for; -inf where that is not a negative of the row.

        Not negatives are the sentence itself and, unless they have weight, positives by labels or a relation and what a
        mask of the whole loss leaves out.
        """
        xp, views = array_namespace(self.weight), self._embeddings
        cosines, parts = self.products(views.anchors), []
        for name, columns in self.columns.items():
            cosine = cosines[:, columns]
            out = self._left_out(name, cosine) & (self.weight[:, columns] == 0)
            if name in ("other", "same"):
                out = out | own_pairs(cosine, views.start)
            parts.append(xp.where(out, -xp.inf, cosine))
        return xp.concat(parts, axis=-1) if parts else cosines

    def _left_out(self, name: str, cosine: Float[Array, "n _"]) -> Bool[Array, "n _"]:
        """Which pairs of some columns the rules of the batch leave out."""
        xp, views, transposed = array_namespace(cosine), self._embeddings, False
        if self.side == "positives" and name == "other":
            # A positive is pushed by the anchors that have it as a negative.
            views = dataclasses.replace(views.exchanged(), extra_negatives=None, own_negatives=None)
            cosine, transposed = cosine.T, True
        found, candidates = xp.zeros_like(cosine, dtype=xp.bool), views.candidates
        joins = name in candidates.pools or (name in BESIDE and candidates.joined_by(name))
        for block in views.candidate_blocks if candidates.rules and joins else ():
            for rule in candidates.rules if block.name == name else ():
                out = rule.left_out(block, cosine, views)
                found = found if out is None else found | xp.asarray(out, device=cosine.device)
        return found.T if transposed else found

    def __repr__(self) -> str:
        """A short summary; the arrays are the attributes."""
        ratio = self.ratio if self.views is None else self.scalar_ratio
        lines = [
            f"Components of {tuple(self.gradient_dissipation.shape)} anchors, weight {tuple(self.weight.shape)} "
            f"on the {self.negative_view} view",
            f"  gradient_dissipation  {span(self.gradient_dissipation)}",
            f"  total_weight          {span(self.total_weight)}",
            f"  hardest_share         {span(self.hardest_share)}",
            f"  ratio                 {span(ratio)}",
        ]
        lines += [f"  extra term            {name}" for name in self.extra_terms]
        return "\n".join(lines)

    def to_frame(self) -> DataFrame:
        """One row an anchor, as a pandas DataFrame: components and, where there are embeddings, angles in radians and cosines."""
        import pandas as pd

        found = {
            "gradient_dissipation": self.gradient_dissipation,
            "total_weight": self.total_weight,
            "hardest_share": self.hardest_share,
            "ratio": self.ratio if self.views is None else self.scalar_ratio,
        }
        if self.views is not None:
            positive, cosines = self.views.positive, to_numpy(self.negative_cosines)
            hardest = cosines.max(axis=1, initial=-np.inf)
            found |= {"positive_angle": positive.angle, "positive_cosine": positive.cosine}
            found["hardest_negative_cosine"] = np.where(np.isinf(hardest), np.nan, hardest)
        return pd.DataFrame({name: to_numpy(column).ravel() for name, column in found.items()})

    def rescaled(self, unit: float) -> Components:
        """The same gradient with the dissipation in other units, ``(GD/u, u W, R)``."""
        return dataclasses.replace(
            self,
            gradient_dissipation=self.gradient_dissipation / unit,
            weight=self.weight * unit,
            positive_weight=self.positive_weight * unit,
        )

    @property
    def total_weight(self) -> Float[Array, "*n"]:
        """``Σ_j W_ij``."""
        return array_namespace(self.weight).sum(self.weight, axis=-1)

    @property
    def canonical_dissipation(self) -> Float[Array, "*n"]:
        """``GD_i Σ_j W_ij``: the sum of all coefficients of negatives, which is GD in the canonical split."""
        return self.gradient_dissipation * self.total_weight

    @property
    def ratio(self) -> Float[Array, "*n"] | Float[Array, "n d"]:
        """``R``; (n, d), the diagonal, where the ratio is a diagonal matrix.

        Infinite or negative where ``Σ_j W_ij`` is zero or negative (Barlow Twins, VICReg).
        """
        total = self.total_weight
        return divide(
            self.positive_weight, total if self.positive_weight.ndim == total.ndim else total[..., None]
        )

    @property
    def scalar_ratio(self) -> Float[Array, "*n"]:
        """One number an anchor: the ratio, or for a diagonal matrix ``h_i'ᵀ R h_i'``.

        The latter is the length of the pull on the positive along the positive itself.
        """
        ratio = self.ratio
        if ratio.ndim == self.gradient_dissipation.ndim:
            return ratio
        positives = self._embeddings.positives
        return array_namespace(ratio).sum(ratio * positives * positives, axis=-1)

    @property
    def hardest_share(self) -> Float[Array, "*n"]:
        """``max_j |W_ij| / Σ_j |W_ij|``: the share of the hardest negative in the weight; NaN where there is none.

        Sizes, as the weights of Barlow Twins and VICReg have signs.
        """
        xp = array_namespace(self.weight)
        size = xp.abs(self.weight)
        if not size.shape[-1]:  # of positives that are nobody's negatives
            return xp.full_like(self.gradient_dissipation, xp.nan)
        return divide(xp.max(size, axis=-1), xp.sum(size, axis=-1))

    def gradient(self, *, tangent: bool = True, exact: bool = False) -> Float[Array, "n d"]:
        """The gradient with respect to the rows of their side that these components make.

        An infinite or undefined pull, as of some losses between vectors that coincide or are opposite, has no
        direction in the tangent space and counts as 0, autograd's subgradient. (ArcCon's has a radial part even there, which
        ``tangent=False`` lacks then.)

        Args:
            tangent: project row i on the tangent space at ``h_i`` (the convention in which the paradigm
                is exact); False leaves the radial part of the similarity form.
            exact: add the `extra_terms`.

        Raises:
            GradlabError: if the components were computed from angles, without embeddings.
        """
        views = self._embeddings
        pull = self.pull
        pull = pull[:, None] if pull.ndim == 1 else pull
        gradient = self.gradient_dissipation[:, None] * self._combined(self.weight) - pull * self.towards
        if exact:
            for term in self.extra_terms.values():
                gradient = gradient + term
        return project(gradient, views.anchors) if tangent else gradient

    @property
    def towards(self) -> Float[Array, "n d"]:
        """``Σ_p V_ip h_p``: what the pull goes to, the positive where that is pulled alone."""
        positives = self._embeddings.positives
        if self.target is not None:
            return self.target
        if self.pull_shares is None:
            return positives
        own, others = self._apart(self.pull_shares)
        return own[:, None] * positives + self._combined(others)

    @property
    def pulls(self) -> Mapping[str, Float[Array, "n *_"]]:
        """The coefficients of the pull: of the ``"positive"``, (n,), and of the columns of the weight by their names."""
        if self.target is not None or self.pull_shares is None:
            return {"positive": self.pull if self.target is None else 0 * self.pull}
        own, others = self._apart(self.pull_shares * self.pull[:, None])
        return {"positive": own} | {name: others[:, columns] for name, columns in self.columns.items()}

    def _apart(self, shares: Float[Array, "n c"]) -> tuple[Float[Array, "n"], Float[Array, "n k"]]:
        """What falls to the positive, and to the columns of the weight."""
        views, xp = self._embeddings, array_namespace(shares)
        if not views.in_batch_negatives:
            return shares[:, 0], shares[:, 1:]
        own = own_pairs(shares, views.start)
        zero = xp.zeros_like(shares)
        return xp.sum(xp.where(own, shares, zero), axis=-1), xp.where(own, zero, shares)

    def _combined(self, coefficients: Float[Array, "n k"]) -> Float[Array, "n d"]:
        """``Σ_j c_ij n_j`` over the columns of the weight."""
        own = self._embeddings.own_negatives
        if own is None:
            return coefficients @ self.vectors
        start = self.columns["own"].start
        return coefficients[:, :start] @ self.vectors + (coefficients[:, None, start:] @ own)[:, 0, :]

    @property
    def _embeddings(self) -> Batch:
        if self.views is None:
            raise GradlabError("these components came from angles; give embeddings to assemble a gradient")
        return self.views


def _sizes(views: Batch, negative_view: str) -> dict[str, int]:
    """What the columns of a weight stand for, and how many there are of each, in their order."""
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
    side: str = "anchors",
    extra_terms: Mapping[str, Float[Array, "n d"]] | None = None,
    statistics: Mapping[str, Any] | None = None,
    pulls: Mapping[str, Float[Array, "n *_"] | None] | None = None,
    target: Float[Array, "n d"] | None = None,
    gate: Float[Array, "n"] | None = None,
) -> Components:
    """Components from the coefficients of a gradient: GD is their sum, the weights are the shares in it.

    Args:
        coefficients: of the other view (``"other"``, (n, n)), the own view (``"same"``, (n, n)) and the extra negatives
            (``"extra"``, (n, m)), zero at j = i, and the own negatives (``"own"``, (n, h)); None, or missing, where there are none.
        pull: ``a``.
        views: the embeddings, those of this side being the anchors.
        side: ``"anchors"`` or ``"positives"``.
        extra_terms: named further parts of the gradient.
        statistics: see `Components`.
        pulls: the parts of ``a`` where it is shared: of the ``"positive"``, (n,), and of candidates as of the coefficients.
        target: see `Components`.
        gate: see `Components`.
    """
    xp = array_namespace(views.anchors)
    negative_view = "other"
    if coefficients.get("same") is not None:
        across = views.in_batch_negatives and coefficients.get("other") is not None
        negative_view = "both" if across else "same"
    sizes = _sizes(views, negative_view)
    total = xp.zeros_like(views.anchors[:, 0])

    def blocks(given: Mapping[str, Any]) -> list[Any]:
        """Of all columns; zeros where nothing is given."""
        rows, kind = views.anchors.shape[0], {"dtype": total.dtype, "device": total.device}
        found = {name: given.get(name) for name in sizes}
        return [xp.zeros((rows, sizes[name]), **kind) if one is None else one for name, one in found.items()]

    for name in sizes:
        block = coefficients.get(name)
        total = total if block is None else total + xp.sum(block, axis=-1)
    # The split is free: coefficients of both signs whose sum is 0 keep theirs, at the dissipation 1.
    idle = total == 0
    unit = xp.where(idle, xp.ones_like(total), total)
    parts = blocks({name: one / unit[:, None] for name, one in coefficients.items() if one is not None})
    for part in parts:  # no branch: the explorer compiles this
        total = xp.where(idle & xp.any(part != 0, axis=-1), unit, total)
    shares = None
    if pulls is not None:
        own: Any = pulls["positive"]
        held = blocks(pulls)
        if views.in_batch_negatives:
            held[0] = xp.where(own_pairs(held[0], 0), own[:, None], held[0])
        shares = xp.concat(held if views.in_batch_negatives else [own[:, None], *held], axis=-1)
        pull = xp.where((pull == 0) & xp.any(shares != 0, axis=-1), xp.ones_like(pull), pull)
        shares = shares / xp.where(pull == 0, xp.ones_like(pull), pull)[:, None]
    return Components(
        total,
        parts[0] if len(parts) == 1 else xp.concat([total[:, None][:, :0], *parts], axis=-1),
        divide(pull, total if pull.ndim == 1 else total[:, None]),
        negative_view=negative_view,
        extra_terms=extra_terms or {},
        views=views,
        side=side,
        statistics=statistics or {},
        given_pull=pull,
        given_gate=gate,
        pull_shares=shares,
        target=target,
    )


def seen_by_positives(anchors: Components, views: Batch, *, push: bool, pull: bool = True) -> Components:
    """The positives' side of a loss from the anchors' side, whose coefficients both share.

    What pushes anchor i away from ``h_j'`` pushes ``h_j'`` away from anchor i with the same coefficient, and so does the
    pull. Negatives of the anchors' own view, extra and own negatives do not concern the positives.

    Args:
        anchors: components of the anchors.
        views: their embeddings.
        push: whether negatives move.
        pull: whether positives do.
    """
    attraction = anchors.pull if pull else 0 * anchors.pull
    other, columns = None, anchors.columns.get("other")
    if push and columns is not None:
        # One array of N x N: of its columns the shares are taken by `canonical`, in their transpose.
        other = (anchors.weight[:, columns] * anchors.gradient_dissipation[:, None]).T
    return canonical({"other": other}, attraction, views.exchanged(), side="positives")


def from_pools(rows: Components, blocks: Sequence[Block], views: Batch) -> tuple[Components, Components]:
    """Both sides of a loss whose rows have negatives of several kinds.

    A pair of the own view stands in two rows, and counts in both. A pair itself among the negatives weakens its pull.

    Args:
        rows: what a row declares; its weight has the columns of ``blocks``.
        blocks: what the columns stand for.
        views: the embeddings.
    """
    xp = array_namespace(rows.weight)
    pull = rows.pull
    found: dict[str, Any] = {}
    for block in blocks:
        part = rows.weight[:, block.columns] * rows.gradient_dissipation[:, None]
        if block.name == "positive_other" and block.own is None:
            pull = pull - xp.linalg.diagonal(part)
            part = xp.where(own_pairs(part, 0), xp.zeros_like(part), part)
        found[block.name] = part
        if block.name in ("same", "positive_same"):
            found[block.name] = part + part.T
    other, reverse = found.get("other"), found.get("positive_other")
    across = _sum(other, None if reverse is None else reverse.T)
    back = _sum(None if other is None else other.T, reverse)
    kinds = {name: found.get(name) for name in ("same", "extra", "own")}
    anchors = canonical({"other": across, **kinds}, pull, views, statistics=rows.statistics, gate=rows.gate)
    kinds = {name: found.get(f"positive_{name}") for name in ("same", "extra")}
    positives = canonical({"other": back, **kinds}, pull, views.exchanged(), side="positives")
    return dataclasses.replace(anchors, counterpart=positives), positives


def from_candidates(
    push: Float[Array, "n c"],
    pull: Float[Array, "n c"],
    own: Bool[Array, "n c"],
    blocks: Sequence[Block],
    views: Batch,
    *,
    several: bool,
) -> tuple[Components, Components]:
    """Both sides of a loss in which any candidates push and pull, each row with the same force.

    A pair of the own view stands in two rows, and counts in both.

    Args:
        push, pull: coefficients of the candidates.
        own: whether a column stands for the anchor's own positive.
        blocks: what the other columns stand for.
        views: the embeddings.
        several: whether others than the own positive may pull.
    """
    xp, shift = array_namespace(push), int(not views.begins_inside)
    zero = xp.zeros_like(push)
    positive, total = xp.sum(xp.where(own, pull, zero), axis=-1), xp.sum(push, axis=-1)
    if blocks[0].name != "other":  # there is no column in which the positive could push
        weaker = xp.sum(xp.where(own, push, zero), axis=-1)
        positive, total, push = positive - weaker, total - weaker, xp.where(own, zero, push)
    places = {block.name: slice(block.columns.start + shift, block.columns.stop + shift) for block in blocks}
    pushes, pulls = (
        {name: part[:, place] for name, place in places.items()} for part in (push, xp.where(own, zero, pull))
    )
    if "same" in places:
        total = total + xp.sum(pulls["same"], axis=0)
        for parts in (pushes, pulls):
            parts["same"] = parts["same"] + parts["same"].T
    anchors = canonical(pushes, total, views, pulls={"positive": positive, **pulls} if several else None)
    pushed, pulled = (parts["other"].T if "other" in parts else None for parts in (pushes, pulls))
    positives = canonical(
        {"other": pushed},
        positive if pulled is None else positive + xp.sum(pulled, axis=-1),
        views.exchanged(),
        side="positives",
        pulls={"positive": positive, "other": pulled} if several else None,
    )
    return anchors, positives


def weighted_sum(
    parts: Sequence[tuple[float, Components]], views: Batch, side: str, gate: Float[Array, "n"] | None = None
) -> Components:
    """The components of a weighted sum of losses, in the canonical split.

    Args:
        parts: factors, and components of the losses on the same rows.
        views: the embeddings, those of this side being the anchors.
        side: ``"anchors"`` or ``"positives"``.
        gate: see `Components`.
    """
    coefficients: dict[str, Any] = {}
    terms: dict[str, Any] = {}
    pull: Any = None
    for factor, part in parts:
        size = factor * part.gradient_dissipation[:, None]
        for name, columns in part.columns.items():
            coefficients[name] = _sum(coefficients.get(name), part.weight[:, columns] * size)
        for name, term in part.extra_terms.items():
            terms[name] = _sum(terms.get(name), _in_whole_rows(factor * term, views))
        attraction = _in_whole_rows(factor * part.pull, views)
        if pull is not None and pull.ndim != attraction.ndim:
            pull, attraction = (one if one.ndim == 2 else one[:, None] for one in (pull, attraction))
        pull = _sum(pull, attraction)
    statistics = {name: value for _, part in parts for name, value in part.statistics.items()}
    pulls: dict[str, Any] | None = None
    target = None
    if any(part.pull_shares is not None or part.target is not None for _, part in parts):
        if pull.ndim == 1:
            pulls = {}
            for factor, part in parts:
                for name, one in part.pulls.items():
                    pulls[name] = _sum(pulls.get(name), factor * one)
        if pull.ndim == 2 or any(part.target is not None for _, part in parts):
            each = [
                _in_whole_rows(
                    factor * (part.pull if part.pull.ndim == 2 else part.pull[:, None]) * part.towards, views
                )
                for factor, part in parts
            ]
            target = finite(divide(sum(each[1:], each[0]), pull if pull.ndim == 2 else pull[:, None]))
    found = canonical(
        coefficients,
        pull,
        views,
        side=side,
        extra_terms=terms,
        statistics=statistics,
        pulls=pulls,
        target=target,
        gate=gate,
    )
    plain = all(type(part) is Components for _, part in parts)
    return (Components if plain else TermwiseComponents)(**vars(found) | {"terms": tuple(parts)})


def _in_whole_rows(pull: Float[Array, "n *_"], views: Batch) -> Float[Array, "n *d"]:
    """Numbers a row, or an entry for each coordinate, of which a prefix has the first ones alone."""
    if pull.ndim == 1 or pull.shape[1] == views.anchors.shape[1]:
        return pull
    xp = array_namespace(pull)
    return xp.concat([pull, xp.zeros_like(views.anchors[:, pull.shape[1] :])], axis=-1)


class TermwiseComponents(Components):
    """Components of a sum in which not all terms have their gradient in the whole rows' coefficients."""

    def gradient(self, *, tangent: bool = True, exact: bool = False) -> Float[Array, "n d"]:
        parts = [factor * part.gradient(tangent=tangent, exact=exact) for factor, part in self.terms]
        return sum(parts[1:], parts[0])


def _sum(first: Float[Array, "*#n"] | None, second: Float[Array, "*#n"] | None) -> Any:
    return second if first is None else first if second is None else first + second


def project(gradient: Float[Array, "n d"], anchors: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Project row i of ``gradient`` on the tangent space of the sphere at row i of ``anchors``."""
    xp = array_namespace(gradient)
    return gradient - xp.sum(gradient * anchors, axis=-1, keepdims=True) * anchors

"""`Decomposition`: the result of `decompose`, with components, summary, report and files."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, cached_property, divide, to_numpy
from gradlab.batch.batch import Batch
from gradlab.data.embeddings import VIEWS
from gradlab.decomposition.differences import differences
from gradlab.decomposition.findings import findings_of, plain_of, teacher_cosines
from gradlab.decomposition.matching import (
    PRACTICALLY,
    Match,
    Target,
    lines_on_losses,
    nearest_losses,
)
from gradlab.drawable import Drawable
from gradlab.errors import listed
from gradlab.files import versions, write_arrays, write_csv, write_json
from gradlab.losses.canonical_split import canonical
from gradlab.losses.components import Components, LeftOut, as_share

# Mismatch above which a registered loss is not close.
FAR = 0.5
# Mismatch above which the nearest loss is not named.
UNLIKE = 0.9
# Files of a result.
SUFFIXES = {
    ".png": "picture",
    ".csv": "one row an anchor",
    ".npz": "all coefficients",
    ".json": "settings",
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Drawable):
    """Components of a loss on one batch: ``T_i ∂L/∂h_i = GD_i Σ_j W_ij T_i (n_j - R_i h_i')``.

    A gradient determines only the coefficients ``∂L/∂S_ij``, ``∂L/∂Q_ij`` and ``a_i``, which are
    stored. They are split into (GD, W, R) canonically: ``GD_i`` is the sum of the coefficients of
    anchor i's negatives, ``W_ij`` the share of each negative, and ``R_i = a_i/GD_i``, so that each
    row of W sums to 1. If the coefficients have mixed signs (cosines times signed weights), GD can
    be near zero or negative; read the coefficients then.

    `to_frame` has one row per anchor. `plot` draws dissipation, ratio and weights, or on a given
    axis only dissipation. Arrays are float64, numpy or torch as the input, for a batch of n
    sentences with m extra negatives.

    Attributes:
        loss: name of the loss.
        value: value of the loss on this batch.
        other_view_gradient: (n, n + m), ``∂L/∂S_ij`` of the other view's sentence j, then of the
            extra negatives; zero at j = i, which is the positive.
        same_view_gradient: (n, n), ``∂L/∂Q_ij`` of the other anchor j, with ``Q_ij = h_i·h_j`` as
            an entry of anchor i: every term that depends on ``h_i``, whichever anchor's negative it
            is; zero at j = i.
        own_gradient: (n, h), ``∂L/∂cos`` of the row's own negatives, or None.
        pull: (n,), ``a_i = -∂L/∂S_ii``, the pull towards the positive.
        tangent_gradient: (n, d), ``T_i ∂L/∂h_i`` of the loss itself, by autograd.
        residual: (n, d), the part of ``tangent_gradient`` that the coefficients do not reproduce.
        error: (n,), estimated absolute error of an anchor's coefficients.
        unreliable: (n,), True where the loss has no unique derivative, or none of the paradigm's
            form: the residual exceeds the tolerance, or two readings differ by more than 1%. Causes
            are ties for the hardest negative (the coefficients are then those of the loss's own
            subgradient), gates exactly at their threshold, and coinciding vectors under a distance.
        method: ``"lifted"`` (extra coordinates, exact) or ``"span"`` (least squares on all vectors
            of the batch).
        rotation_change: relative change of value or gradient if both views are rotated together;
            zero up to rounding for a function of dot products.
        views: the batch, with the views exchanged for the side of the positives.
        side: ``"anchors"`` or ``"positives"``: the view whose gradient is decomposed.
        left_out: pairs that are not negatives, as in `Components`; known of gradlab's losses alone.
        own_negatives: (n, h, d), those of the anchors, also on the side of the positives, or None.
        displaced_push: returns the push on each anchor (or on as many as its argument says) with
            its own positive away; None if the loss is not a function of dot products.
    """

    loss: str
    value: float
    other_view_gradient: Float[Array, "n k"]
    same_view_gradient: Float[Array, "n n"]
    pull: Float[Array, "n"]
    tangent_gradient: Float[Array, "n d"]
    residual: Float[Array, "n d"]
    error: Float[Array, "n"]
    unreliable: Bool[Array, "n"]
    method: str
    rotation_change: float
    views: Batch
    side: str = "anchors"
    own_gradient: Float[Array, "n h"] | None = None
    left_out: Mapping[str, LeftOut] = dataclasses.field(default_factory=dict)
    own_negatives: Float[Array, "n h d"] | None = None
    displaced_push: Callable[..., Float[Array, "_"]] | None = None

    artist = "gradlab.plotting.result_plots:draw_components"
    shown = (
        *("loss", "value", "relative_push", "total_push", "pull", "ratio", "hardest_share"),
        *("weight", "coefficients", "other_view_gradient", "same_view_gradient", "components"),
        *("unreliable", "findings", "nearest", "summary", "report", "to_frame", "plot"),
    )

    @property
    def coefficients(self) -> Float[Array, "n columns"]:
        """Coefficients of all negatives, (n, 2n + m + h), in the order of `weight`."""
        return array_namespace(self.pull).concat(list(self._blocks.values()), axis=1)

    @property
    def total_push(self) -> Float[Array, "n"]:
        """Sum of the coefficients of all negatives, (n,): ``GD_i`` in the canonical split.

        It is absolute: it carries the factor 1/N of a mean and the 1/τ of a softmax.
        """
        return self.coefficients.sum(-1)

    @property
    def relative_push(self) -> Float[Array, "n"]:
        """Total push over the largest one as the positive moves, (n,); see `Components`.

        NaN for a loss that is not a function of dot products.
        """
        if self.displaced_push is None:
            return array_namespace(self.pull).full_like(self.pull, math.nan)
        return as_share(self.total_push, self.displaced_push())

    @property
    def weight(self) -> Float[Array, "n columns"]:
        """Weight ``W_ij``, (n, 2n + m + h): the other view, the own view, extra and own negatives.

        Rows sum to 1. A row is zero if no negative acts on it (a closed gate). Coefficients that
        cancel to a dissipation of 0 are the weights themselves.
        """
        return self._with_all_columns.weight

    @property
    def other_view(self) -> Float[Array, "n n"]:
        """Columns of `weight` for the other view, (n, n)."""
        return self._with_all_columns.other_view

    @property
    def same_view(self) -> Float[Array, "n n"]:
        """Columns of `weight` for the own view, (n, n)."""
        return self._with_all_columns.same_view

    @property
    def extra(self) -> Float[Array, "n m"]:
        """Columns of `weight` for the extra negatives, (n, m)."""
        return self.weight[:, self._with_all_columns.columns.get("extra", slice(0))]

    @property
    def own(self) -> Float[Array, "n h"] | None:
        """Columns of `weight` for the row's own negatives, (n, h), or None."""
        return self._with_all_columns.own

    @property
    def components(self) -> Components:
        """`Components` in the canonical split; a view without negatives has no columns."""
        blocks = self._blocks
        idle = [kind for kind in ("same", "other") if not (blocks[kind] != 0).any()][:1]
        return self._split({kind: block for kind, block in blocks.items() if kind not in idle})

    @property
    def ratio(self) -> Float[Array, "n"]:
        """``R_i = a_i/GD_i``, (n,); NaN where nothing acts, infinite if only the positive acts."""
        return divide(self.pull, self.total_push)

    @property
    def relative_residual(self) -> float:
        """Norm of `residual` over that of `tangent_gradient`, over all anchors; 0 if both are 0."""
        norm = array_namespace(self.residual).linalg.vector_norm
        whole = float(norm(self.tangent_gradient))
        return float(norm(self.residual)) / whole if whole > 0 else 0.0

    @property
    def relative_error(self) -> float:
        """Largest estimated error over the largest coefficient of the batch; 0 if all are 0."""
        scale = max(float(abs(self.coefficients).max()), float(abs(self.pull).max()))
        return float(self.error.max()) / scale if scale > 0 else 0.0

    @property
    def hardest_share(self) -> Float[Array, "n"]:
        """Largest share of a negative, ``max_j |n_ij| / Σ_j |n_ij|``, (n,); NaN where none acts."""
        return self._with_all_columns.hardest_share

    @property
    def same_view_share(self) -> Float[Array, "n"]:
        """Own view's share in the push: ``Σ_j |∂L/∂Q_ij|`` over that of all negatives, (n,)."""
        return divide(abs(self.same_view_gradient).sum(-1), abs(self.coefficients).sum(-1))

    def gradient(self) -> Float[Array, "n d"]:
        """Return ``T_i g_i`` from the components, (n, d): `tangent_gradient` without `residual`."""
        return self.components.gradient()

    def columns(self) -> dict[str, Any]:
        """Return a table with one row per anchor, as numpy arrays (n,) by name."""
        norm, views = array_namespace(self.pull).linalg.vector_norm, self.views
        columns = {
            "anchor": range(self.pull.shape[0]),
            "positive_angle": views.positive.angle,
            "positive_cosine": views.positive.cosine,
            "hardest_negative_cosine": self.components.hardest_negative_cosine,
            "relative_push": self.relative_push,
            "total_push": self.total_push,
            "ratio": self.ratio,
            "pull": self.pull,
            "hardest_share": self.hardest_share,
            "same_view_share": self.same_view_share,
            "error": self.error,
            "tangent_gradient_norm": norm(self.tangent_gradient, axis=-1),
            "residual_norm": norm(self.residual, axis=-1),
            "unreliable": self.unreliable,
        }
        return {name: to_numpy(column) for name, column in columns.items()}

    @cached_property
    def target(self) -> Target:
        """Coefficients in the form that registered losses are compared with."""
        batch = self.views if self.side == "anchors" else self.views.exchanged()
        # Losses of the anchors know their own negatives, which the exchanged batch lacks.
        batch = dataclasses.replace(batch, own_negatives=self.own_negatives)
        batch = batch.mapped(lambda _, rows: to_numpy(rows))
        values = np.concatenate([to_numpy(self.coefficients).reshape(-1), to_numpy(self.pull)])
        return Target(values, batch, self.side)

    @cached_property
    def matches(self) -> list[Match]:
        """Registered losses, nearest first; see `nearest_losses`."""
        return nearest_losses(self.target)

    @property
    def nearest(self) -> list[Match]:
        """`matches` in the order of the printed distance."""
        return sorted(self.matches, key=lambda match: float(f"{match.mismatch:.2g}"))

    @property
    def named(self) -> Match:
        """The match that `summary` names: of those that are practically the loss, the simplest."""
        is_practically = self.matches[0].mismatch <= PRACTICALLY
        return self.matches[0] if is_practically else self.nearest[0]

    @cached_property
    def findings(self) -> list[str]:
        """Sentences on what is unusual, the gravest first; see `gradlab.decomposition.findings`."""
        split, taught = self._with_all_columns, teacher_cosines(self.views)
        arrays = self.coefficients, split.negative_cosines, self.pull, self.views.positive.angle
        coefficients, cosines, pull, angles = map(to_numpy, arrays)
        return findings_of(coefficients, cosines, pull, angles, split.columns, taught)

    @property
    def caption(self) -> str:
        """Title of the picture."""
        side = "" if self.side == "anchors" else ", its positives"
        name = self.loss if len(self.loss) <= 60 else self.loss[:59] + "…"
        outside = f"outside the paradigm: {self.relative_residual:.1g} of the gradient"
        return f"{name}{side}   ({outside})"

    def headline(self) -> str:
        """Return the summary and the one-line representation."""
        return f"{self.summary()}\n{self!r}"

    def __repr__(self) -> str:
        """Return one line with loss, size, method, residual and error."""
        n, d = self.residual.shape
        return (
            f"Decomposition({self.loss}: {n} anchors, {d} dimensions, {self.method}, "
            f"residual {self.relative_residual:.1g}, error {self.relative_error:.1g})"
        )

    def summary(self) -> str:
        """Return a sentence that names the registered loss, or differences from the nearest one."""
        if not self.matches:
            if np.any(to_numpy(self.coefficients)):
                return "No registered loss has anything in common with it on this batch."
            unpushed = f"No negative acts on the {self.side} of this batch."
            return " ".join(self.findings) or unpushed
        best, n = self.named, len(self.residual)
        unusual = (" ".join(self.findings) or self._plain()) if best.mismatch > PRACTICALLY else ""
        if best.mismatch > UNLIKE:
            return f"{unusual} No registered loss is close.".lstrip()
        away = f"{100 * best.mismatch:.2g}% away"
        if best.mismatch > PRACTICALLY:
            far = best.mismatch > FAR
            near = "No registered loss is close; the nearest is" if far else "Closest to"
            in_words = "; ".join(self._differences(best))
            return f"{unusual} {near} {best.words()} ({away}): {in_words}.".lstrip()
        if best.free:
            free = listed([name.replace("_", " ") for name in best.free])
            unpulled = "" if np.any(to_numpy(self.pull)) else f"{self.findings[0]} "
            return (
                f"{unpulled}On this batch it cannot be told from {best.words()} and others: "
                f"any {free} fits. Give rows whose similarities differ more."
            )
        scale = ""
        if abs(best.factor * n - 1) < PRACTICALLY:
            scale = f", averaged over {n} {self.side if n > 1 else self.side[:-1]}"
        elif abs(best.factor - 1) > PRACTICALLY:
            scale = f", times {best.factor:.4g}"
        return f"This is {best.words()}{scale}{'' if best.same else f' ({away})'}."

    def report(self) -> str:
        """Return the components in a few lines of text."""
        n, d = self.residual.shape
        title = f"{self.loss} on {n} sentences in {d} dimensions"
        if count := self.extra.shape[1]:
            title += f", {count} extra negatives"
        if self.own is not None:
            title += f", {self.own.shape[1]} own negatives of each"
        rows = {
            "relative push": self.relative_push,
            "total push": self.total_push,
            "ratio R": self.ratio,
            "hardest share max W/ΣW": self.hardest_share,
        }
        if np.nansum(to_numpy(self.same_view_share)) > 0:
            rows["share of same-view negatives"] = self.same_view_share
        lines = [
            title if self.side == "anchors" else f"{title}: what it does to the positives",
            *textwrap.wrap(self.summary(), 100),
            "",
            f"  {'per ' + self.side.removesuffix('s'):<28}"
            + "".join(f"{name:>11}" for name in ("mean", "sd", "min", "median", "max")),
            *(_row(label, to_numpy(values), self.side) for label, values in rows.items()),
            "",
            *(f"  {label:<28}{text}" for label, text in _facts(self)),
        ]
        return "\n".join(lines)

    def manifest(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings, main results and versions for a JSON file."""
        names = ("loss", "side", "value", "method")
        errors = ("relative_residual", "relative_error", "rotation_change")
        nearest = [
            {"loss": match.text(len(self.residual)), "mismatch": match.mismatch}
            for match in self.nearest[:3]
        ]
        results = {name: getattr(self, name) for name in names + errors} | {
            "sentence": self.summary(),
            "unreliable_anchors": int(to_numpy(self.unreliable).sum()),
            "nearest": nearest,
        }
        installed = versions("torch", "numpy")
        return {"settings": dict(settings), "results": results, "versions": installed}

    def write(self, base: Path, manifest: Mapping[str, Any]) -> None:
        """Write table, coefficients and manifest, each atomically, as ``base`` plus `SUFFIXES`.

        The picture is written elsewhere: modules that compute do not import modules that draw.
        """
        write_csv(f"{base}.csv", self.columns())
        names = ("other_view_gradient", "same_view_gradient", "own_gradient", "pull")
        arrays = {name: getattr(self, name) for name in (*names, "residual", "own_negatives")}
        arrays |= {name: getattr(self.views, name) for name in VIEWS}
        present = {name: to_numpy(array) for name, array in arrays.items() if array is not None}
        write_arrays(f"{base}.npz", present)
        write_json(f"{base}.json", manifest)

    @property
    def _blocks(self) -> dict[str, Float[Array, "n _"]]:
        """Coefficients of each kind of negatives, in the order of the columns of `weight`."""
        n, of_pools = self.pull.shape[0], self.other_view_gradient
        blocks = {
            "other": of_pools[:, :n],
            "same": self.same_view_gradient,
            "extra": of_pools[:, n:],
        }
        return blocks if self.own_gradient is None else blocks | {"own": self.own_gradient}

    @cached_property
    def _with_all_columns(self) -> Components:
        """`components` with the columns of all kinds of negatives."""
        return self._split(self._blocks)

    def _split(self, blocks: Mapping[str, Float[Array, "n _"]]) -> Components:
        return canonical(
            blocks,
            self.pull,
            self.views,
            side=self.side,
            left_out=self.left_out,
            declared=False,
            displaced_push=self.displaced_push,
        )

    def _plain(self) -> str:
        split = self._with_all_columns
        coefficients, cosines = to_numpy(self.coefficients), to_numpy(split.negative_cosines)
        return plain_of(coefficients, cosines, to_numpy(self.pull), split.columns)

    def _differences(self, match: Match) -> list[str]:
        """Return the differences between the loss and a registered one on this batch, in words."""
        coefficients = self.target.coefficients(match.loss)
        assert coefficients is not None  # a match has coefficients
        split = to_numpy(self.coefficients), to_numpy(self.pull)
        return differences(split, self.target.split(match.factor * coefficients), self.side)


def _facts(decomposition: Decomposition) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts of the last part of the report."""
    n, side = len(decomposition.residual), decomposition.side
    lifted = decomposition.method == "lifted"
    yield "value", f"{decomposition.value:.8g}"
    idle = ~np.any(to_numpy(decomposition.weight), axis=1)
    if closed := int(idle.sum()):
        why = "negatives of no anchor"
        if side == "anchors":
            gate = "" if np.any(to_numpy(decomposition.pull)[idle]) else " (a closed gate)"
            why = f"no negative acts on them{gate}"
        yield "not pushed", f"{closed} of {n} {side}: {why}"
    if negative := int((to_numpy(decomposition.total_push) < 0).sum()):
        pulled = "are pulled by their negatives on balance: read the coefficients"
        yield "negative GD", f"{negative} of {n} {side} {pulled}"
    if closed < n and not np.any(to_numpy(decomposition.same_view_gradient)):
        kinds = {"other": "other view", "extra": "extra negatives", "own": "own negatives"}
        blocks = decomposition._blocks
        acting = [kinds[kind] for kind, block in blocks.items() if np.any(to_numpy(block))]
        yield "negatives", f"{listed(acting)} only"
    method = "exact, in extra coordinates" if lifted else "least squares on the batch's vectors"
    yield "method", f"{method}; estimated relative error {decomposition.relative_error:.1g}"
    outside = f"{decomposition.relative_residual:.2g} of the tangent gradient"
    if not lifted:  # least squares explain a part of any gradient
        d = decomposition.residual.shape[1]
        arrays = [*decomposition.views.embeddings[:3], decomposition.own_negatives]
        vectors = sum(math.prod(rows.shape[:-1]) for rows in arrays if rows is not None)
        chance = max(0, 1 - vectors / d) ** 0.5
        outside += f" (of a random one {chance:.2g}: {vectors} vectors in {d} dimensions)"
    yield "outside the paradigm", outside
    if unreliable := int(to_numpy(decomposition.unreliable).sum()):
        why = "ties, or gates at their threshold" if lifted else "their residual is large"
        yield f"unreliable {side}", f"{unreliable} of {n} ({why})"
    yield from lines_on_losses(decomposition.matches, decomposition.nearest, n)


def _row(label: str, values: Float[np.ndarray, "n"], side: str) -> str:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return f"  {label:<28}   undefined: no negative acts"
    numbers = (finite.mean(), finite.std(), finite.min(), np.median(finite), finite.max())
    note = "" if len(finite) == len(values) else f"   ({len(finite)} of {len(values)} {side})"
    return f"  {label:<28}" + "".join(f"{number:>11.4g}" for number in numbers) + note

"""What `decompose` found, to look at: as a table, a picture, text or files."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.arrays import Bool, Float, to_numpy
from gradlab.decomposition.matching import Match, coefficients_of, nearest_losses
from gradlab.decomposition.split import CanonicalSplit
from gradlab.drawing import Shown
from gradlab.files import versions, write_arrays, write_csv, write_json
from gradlab.gradient.diagnostics import two_sided_statistics

# A registered loss whose components differ by more than this, relatively, is not close.
FAR = 0.5
# A loss that is this near is called the same; what is left may be rounding in single precision.
PRACTICALLY = 1e-3
# An anchor with less of the batch's largest dissipation counts as left alone.
STOPPED = 0.01


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Decomposition(CanonicalSplit, Shown):
    """A `CanonicalSplit` of a loss on one batch, to look at as a table, a picture or text.

    Gradient dissipation, weight and ratio of ``T_i ∂L/∂h_i = GD_i Σ_j W_ij T_i (n_j - R_ij h_i')``, the coefficients they come from, and
    what these leave unexplained; see `CanonicalSplit` for what each attribute is. `to_frame` has one row an anchor; `plot` draws
    dissipation, ratio and weights, on a given axis the dissipation alone.
    """

    kind = "components"

    @property
    def caption(self) -> str:
        """What stands above its picture."""
        side = "" if self.side == "anchors" else ", its positives"
        name = self.loss if len(self.loss) <= 60 else self.loss[:59] + "…"
        return f"{name}{side}   (outside the paradigm: {self.relative_residual:.1g} of the gradient)"

    def summary(self) -> str:
        """One sentence: which registered loss this is, or in what it differs from the nearest one."""
        return sentence(self)

    def headline(self) -> str:
        """The sentence, and how it was found."""
        return f"{self.summary()}\n{self!r}"

    def report(self) -> str:
        """The components in a few lines of text."""
        return report_text(self)

    def __repr__(self) -> str:
        """One line: what was decomposed, how, and how well."""
        n, d = self.residual.shape
        return (
            f"Decomposition({self.loss}: {n} anchors, {d} dimensions, {self.method}, "
            f"residual {self.relative_residual:.1g}, error {self.relative_error:.1g})"
        )


def report_text(found: CanonicalSplit, matches: Sequence[Match] | None = None) -> str:
    """Components of a loss in a few lines of text.

    Args:
        found: the decomposition.
        matches: registered losses by nearness; found anew if None.
    """
    matches = nearest_losses(found) if matches is None else matches
    n, d = found.residual.shape
    per = f"per {found.side.removesuffix('s')}"
    negatives = found.other_view_gradient.shape[1] - n
    lines = [
        f"{found.loss} on {n} sentences in {d} dimensions"
        + (f", {negatives} extra negatives" if negatives else "")
        + ("" if found.side == "anchors" else ": what it does to the positives"),
        *textwrap.wrap(sentence(found, matches), 100),
        "",
        f"  {per:<28}{'mean':>11}{'sd':>11}{'min':>11}{'median':>11}{'max':>11}",
        _row("gradient dissipation GD", found.gradient_dissipation, found.side),
        _row("ratio R", found.ratio, found.side),
        _row("hardest share max W/ΣW", found.hardest_share, found.side),
    ]
    same = to_numpy(found.same_view_share)
    if np.nansum(same) > 0:
        lines.append(_row("share of same-view negatives", same, found.side))
    return "\n".join([*lines, "", *_facts(found, matches)])


def sentence(found: CanonicalSplit, matches: Sequence[Match] | None = None) -> str:
    """What the loss is: a registered loss, or what distinguishes it from the nearest one.

    Args:
        found: the decomposition.
        matches: registered losses by nearness; found anew if None.
    """
    matches = nearest_losses(found) if matches is None else matches
    if not matches:
        return f"No negative acts on the {found.side} of this batch."
    best, n = matches[0], len(found.residual)
    away = f"{100 * best.mismatch:.2g}% away"
    if best.mismatch <= PRACTICALLY:
        scale = f", times {best.factor:.4g}" if abs(best.factor - 1) > PRACTICALLY else ""
        scale = f", averaged over {n} {found.side}" if abs(best.factor * n - 1) < PRACTICALLY else scale
        return f"This is {best.words()}{scale}{'' if best.same else f' ({away})'}."
    name = f"{best.words()} ({away})"
    near = (
        f"Closest to {name}"
        if best.mismatch <= FAR
        else f"No registered loss is close; the nearest is {name}"
    )
    words = differences(found, best) or ["no single trait stands out, many coefficients differ a little"]
    return f"{near}: {'; '.join(words)}."


def differences(found: CanonicalSplit, match: Match) -> list[str]:
    """In which respects the loss differs from a registered one on this batch, in words."""
    n = len(found.residual)
    views = found.views
    similarity = to_numpy(views.without_extra_negatives().negatives.cosine)
    # How much farther away the hardest negative of the other view is than the positive.
    lead = np.arccos(np.clip(similarity.max(axis=1), -1, 1)) - to_numpy(views.positive.angle)
    mine = _traits(to_numpy(found.coefficients), to_numpy(found.positive), lead)
    other = _traits(*coefficients_of(match, found), lead)
    words = []
    if abs(mine["hardest"] - other["hardest"]) > 0.02:
        spread = "spread further" if mine["hardest"] < other["hardest"] else "concentrated more"
        words.append(
            f"its weight is {spread}: the hardest negative has {mine['hardest']:.0%} of it instead of {other['hardest']:.0%}"
        )
    if abs(mine["same"] - other["same"]) > 0.02:
        words.append(
            f"{mine['same']:.0%} of its push comes from the {found.side}' own view instead of {other['same']:.0%}"
        )
    if abs(mine["stop"] - other["stop"]) > 1:
        words.append(
            f"it leaves {found.side} alone once the hardest negative is {mine['stop']:.0f}° farther away than the "
            f"positive, instead of {other['stop']:.0f}°"
        )
    elif abs(mine["stopped"] - other["stopped"]) > max(1, 0.05 * n):
        count = f"{mine['stopped']:.0f}" if mine["stopped"] else "none"
        words.append(f"it leaves {count} of {n} {found.side} alone instead of {other['stopped']:.0f}")
    if abs(mine["ratio"] - other["ratio"]) > 0.02 * abs(other["ratio"]):
        words.append(f"its ratio is {mine['ratio']:.3g} instead of {other['ratio']:.3g} (median)")
    if abs(mine["profile"] - other["profile"]) > 0.02:
        words.append(
            f"the average dissipation is {mine['profile']:.0%} of the largest instead of {other['profile']:.0%}"
        )
    return words


def _traits(
    negatives: Float[np.ndarray, "n k"],
    positive: Float[np.ndarray, "n"],
    lead: Float[np.ndarray, "n"],
) -> dict[str, float]:
    """Averages over anchors that do not depend on the loss's scale, from its coefficients; NaN where there is none.

    ``lead`` is the angle by which the hardest negative is farther away than the positive.
    """
    n, push, dissipation = len(lead), np.abs(negatives), negatives.sum(axis=1)
    acts = push.any(axis=1)
    push = push[acts]
    largest = np.abs(dissipation).max()
    open_ = np.abs(dissipation) > STOPPED * largest
    ratios = positive[open_] / dissipation[open_]
    return {
        "hardest": float(np.mean(push.max(axis=1) / push.sum(axis=1))),
        "same": float(np.mean(push[:, n : 2 * n].sum(axis=1) / push.sum(axis=1))),
        "stopped": float(np.count_nonzero(~open_)),
        "stop": _boundary(lead, open_),
        "ratio": float(np.median(ratios)),
        "profile": float(np.mean(np.abs(dissipation)) / largest),
    }


def _boundary(lead: Float[np.ndarray, "n"], open_: Bool[np.ndarray, "n"]) -> float:
    """The lead in degrees beyond which anchors are left alone; NaN where at most 95% of the anchors keep to one."""
    order = np.argsort(lead)
    wrong = [
        np.count_nonzero(~open_[order][:place]) + np.count_nonzero(open_[order][place:])
        for place in range(1, len(order))
    ]
    if not wrong or open_.all() or not open_.any() or min(wrong) > 0.05 * len(order):
        return math.nan
    place = int(np.argmin(wrong)) + 1
    return math.degrees(lead[order][place - 1 : place + 1].mean())


def both_sides_text(anchors: CanonicalSplit, positives: CanonicalSplit) -> str:
    """What the two sides of a loss have only together: hubs, the ratio over both, how unequal the push is.

    Args:
        anchors, positives: the pair of ``decompose(..., side="both")``.
    """
    numbers = two_sided_statistics(anchors.components, positives.components)
    names = {
        "ratio_both_sides": "ratio of both sides, median",
        "hubness": "hubness (Gini, 0 is equal)",
        "hubness_largest": "largest hub, equal shares",
        "push_spread": "push on anchors (Gini)",
    }
    rows = [f"  {label:<28}{numbers[name]:>11.4g}" for name, label in names.items()]
    return "\n".join([f"{anchors.loss}: both sides together", "", *rows])


def _facts(found: CanonicalSplit, matches: Sequence[Match]) -> list[str]:
    """Lines of a label and what is known."""
    n, lifted = len(found.residual), found.method == "lifted"
    negative = int(np.count_nonzero(to_numpy(found.gradient_dissipation) < 0))
    closed = int(np.count_nonzero(~np.any(to_numpy(found.weight), axis=1)))
    unreliable = int(to_numpy(found.unreliable).sum())
    facts = [("value", f"{found.value:.8g}")]
    if closed:
        anchors = found.side == "anchors"
        idle = "no negative acts on them (a closed gate)" if anchors else "negatives of no anchor"
        facts.append(("not pushed", f"{closed} of {n} {found.side}: {idle}"))
    if negative:
        pulled = (
            f"{negative} of {n} {found.side} are pulled by their negatives on balance: read the coefficients"
        )
        facts.append(("negative GD", pulled))
    if closed < n and not np.any(to_numpy(found.same_view_gradient)):
        facts.append(("negatives", "other view only"))
    how = "exact, in extra coordinates" if lifted else "least squares on the batch's vectors"
    outside = f"{found.relative_residual:.2g} of the tangent gradient{_chance(found)}"
    facts.append(("method", f"{how}; estimated relative error {found.relative_error:.1g}"))
    facts.append(("outside the paradigm", outside))
    if unreliable:
        why = "ties, or gates at their threshold" if lifted else "their residual is large"
        facts.append((f"unreliable {found.side}", f"{unreliable} of {n} ({why})"))
    return [f"  {label:<28}{text}" for label, text in [*facts, *_nearest(n, matches)]]


def _nearest(n: int, matches: Sequence[Match]) -> list[tuple[str, str]]:
    same = [match for match in matches if match.same]
    if not same:
        texts = [f"{match.text(n)}: {match.mismatch:.2g}" for match in matches[:3]]
        texts[:1] = [f"{text} relative" for text in texts[:1]]
        return [("" if place else "nearest registered losses", text) for place, text in enumerate(texts)]
    facts = [
        ("these are the components of", same[0].text(n)),
        ("", f"(they agree to {same[0].mismatch:.1g})"),
    ]
    others = ", ".join(match.name for match in same[1:])
    return [*facts, ("on this batch also of", others)] if others else facts


def _chance(found: CanonicalSplit) -> str:
    """What least squares would leave of a random gradient, without which its residual says little."""
    if found.method == "lifted":
        return ""
    d = found.residual.shape[1]
    vectors = found.weight.shape[1]
    return f" (of a random one {max(0, 1 - vectors / d) ** 0.5:.2g}: {vectors} vectors in {d} dimensions)"


def _row(label: str, values: Any, side: str) -> str:
    array = to_numpy(values)
    finite = array[np.isfinite(array)]
    if not len(finite):
        return f"  {label:<28}   undefined: no negative acts"
    numbers = (finite.mean(), finite.std(), finite.min(), np.median(finite), finite.max())
    note = "" if len(finite) == len(array) else f"   ({len(finite)} of {len(array)} {side})"
    return f"  {label:<28}" + "".join(f"{number:>11.4g}" for number in numbers) + note


SUFFIXES = {".png": "picture", ".csv": "one row an anchor", ".npz": "all coefficients", ".json": "settings"}


def write(found: CanonicalSplit, base: Path, manifest: Mapping[str, Any]) -> None:
    """Write table, coefficients and manifest as ``base`` with the endings of `SUFFIXES`, each whole or not at all.

    The picture is not written here: nothing that computes imports what draws.
    """
    write_csv(f"{base}.csv", found.columns())
    names = ("other_view_gradient", "same_view_gradient", "positive", "residual")
    arrays: dict[str, Any] = {name: to_numpy(getattr(found, name)) for name in names}
    for name in ("anchors", "positives", "extra_negatives"):  # as `gradlab decompose --embeddings` reads them
        if getattr(found.views, name) is not None:
            arrays[name] = to_numpy(getattr(found.views, name))
    write_arrays(f"{base}.npz", arrays)
    write_json(f"{base}.json", manifest)


def manifest(found: CanonicalSplit, settings: Mapping[str, Any], matches: Sequence[Match]) -> dict[str, Any]:
    """Settings, what was found in short, and versions, for a JSON file."""
    return {
        "settings": dict(settings),
        "results": {
            "loss": found.loss,
            "side": found.side,
            "value": found.value,
            "method": found.method,
            "relative_residual": found.relative_residual,
            "relative_error": found.relative_error,
            "rotation_change": found.rotation_change,
            "sentence": sentence(found, matches),
            "unreliable_anchors": int(to_numpy(found.unreliable).sum()),
            "nearest": [
                {"loss": match.text(len(found.residual)), "mismatch": match.mismatch} for match in matches[:3]
            ],
        },
        "versions": versions("torch", "numpy"),
    }

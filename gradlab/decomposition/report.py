"""A decomposition as text, and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.arrays import to_numpy
from gradlab.decomposition.matching import Match, nearest_losses
from gradlab.decomposition.split import CanonicalSplit
from gradlab.files import versions, write_arrays, write_csv, write_json
from gradlab.gradient.diagnostics import two_sided_statistics

# A registered loss whose components differ by more than this, relatively, is not worth naming.
FAR = 0.5


def report_text(found: CanonicalSplit, matches: Sequence[Match] | None = None) -> str:
    """Components of a loss in a few lines of text.

    Args:
        found: the decomposition.
        matches: registered losses by nearness; found anew if None.
    """
    matches = nearest_losses(found) if matches is None else matches
    n, d = found.residual.shape
    negatives = found.other_view_gradient.shape[1] - n
    lines = [
        f"{found.loss} on {n} sentences in {d} dimensions"
        + (f", {negatives} extra negatives" if negatives else "")
        + ("" if found.side == "anchors" else ": what it does to the positives"),
        "",
        f"  {f'per {_row_of(found)}':<28}{'mean':>11}{'sd':>11}{'min':>11}{'median':>11}{'max':>11}",
        _row("gradient dissipation GD", found.gradient_dissipation, found.side),
        _row("ratio R", found.ratio, found.side),
        _row("hardest share max W/ΣW", found.hardest_share, found.side),
    ]
    same = to_numpy(found.same_view_share)
    if np.nansum(same) > 0:
        lines.append(_row("share of same-view negatives", same, found.side))
    return "\n".join([*lines, "", *_facts(found, matches)])


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


def _row_of(found: CanonicalSplit) -> str:
    """What a row is: ``"anchor"`` or ``"positive"``."""
    return found.side.removesuffix("s")


def _facts(found: CanonicalSplit, matches: Sequence[Match]) -> list[str]:
    n = len(found.residual)
    dissipation = to_numpy(found.gradient_dissipation)
    closed = int(np.count_nonzero(~np.any(to_numpy(found.weight), axis=1)))
    how = (
        "exact, in extra coordinates" if found.method == "lifted" else "least squares on the batch's vectors"
    )
    lines = [f"  {'value':<28}{found.value:.8g}"]
    if closed:
        idle = (
            "no negative acts on them (a closed gate)"
            if found.side == "anchors"
            else "negatives of no anchor"
        )
        lines.append(f"  {'not pushed':<28}{closed} of {n} {found.side}: {idle}")
    if np.any(dissipation < 0):
        lines.append(
            f"  {'negative GD':<28}{int((dissipation < 0).sum())} of {n} {found.side} are pulled by their negatives on balance: "
            "read the coefficients"
        )
    if closed < n and not np.any(to_numpy(found.same_view_gradient)):
        lines.append(f"  {'negatives':<28}other view only")
    lines += [
        f"  {'method':<28}{how}; estimated relative error {found.relative_error:.1g}",
        f"  {'outside the paradigm':<28}{found.relative_residual:.2g} of the tangent gradient"
        + _chance(found),
    ]
    unreliable = int(to_numpy(found.unreliable).sum())
    if unreliable:
        why = "ties, or gates at their threshold" if found.method == "lifted" else "their residual is large"
        lines.append(f"  {f'unreliable {found.side}':<28}{unreliable} of {n} ({why})")
    return [*lines, *_nearest(found, matches)]


def _nearest(found: CanonicalSplit, matches: Sequence[Match]) -> list[str]:
    n = len(found.residual)
    if not matches:
        return [f"  {'nearest registered loss':<28}none: no negative acts on the {found.side} of this batch"]
    same = [match for match in matches if match.same]
    if not same and matches[0].mismatch > FAR:
        return [f"  {'nearest registered loss':<28}none is near: all differ by more than {FAR:.0%}"]
    if not same:
        best = matches[0]
        return [
            f"  {'nearest registered loss':<28}{best.text(n)}",
            f"  {'':<28}differs by {best.mismatch:.2g} relative: none has these components",
        ]
    lines = [
        f"  {'these are the components of':<28}{same[0].text(n)}",
        f"  {'':<28}(they agree to {same[0].mismatch:.1g})",
    ]
    others = ", ".join(match.name for match in same[1:])
    return [*lines, f"  {'on this batch also of':<28}{others}"] if others else lines


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
            "unreliable_anchors": int(to_numpy(found.unreliable).sum()),
            "nearest": [
                {"loss": match.text(len(found.residual)), "mismatch": match.mismatch} for match in matches[:3]
            ],
        },
        "versions": versions("torch", "numpy"),
    }

"""What is unusual about a loss that is no registered one: the sentences that come first.

Each is read from the coefficients of one batch, without a comparison with other losses: a positive
that is pushed away, negatives that attract, a weight that does not grow with the cosine (see
`gradlab.decomposition.profile`), and a ratio that changes with the positive's angle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradlab.arrays import Float
from gradlab.decomposition.profile import is_monotone, profile_sentence

# Share of a batch's push or pull above which a finding is worth a sentence.
NOTABLE = 0.02
# Groups of negatives by cosine, and the part of the largest mean weight by which a weight must rise
# and fall again to count as a hump.
GROUPS, PROMINENCE = 12, 0.1
# Standard errors of its mean by which a hump must stand out.
CERTAIN = 3.0
# Factor between the ratios of near and far positives.
VARYING = 1.25

# Kinds of negatives, as in `Components.columns`.
NOUNS = {
    "other": "negatives of the other view",
    "same": "negatives of the own view",
    "extra": "extra negatives",
    "own": "own negatives",
}

Coefficients = Float[np.ndarray, "n k"]
Block = Float[np.ndarray, "n _"]  # columns of one kind


def findings_of(
    coefficients: Coefficients,
    cosines: Coefficients,
    pull: Float[np.ndarray, "n"],
    angles: Float[np.ndarray, "n"],
    kinds: Mapping[str, slice] | None = None,
) -> list[str]:
    """Return sentences on one side of a loss, the gravest first.

    Args:
        coefficients: of the negatives.
        cosines: to the negatives; -inf where a column is not a negative of the row.
        pull: of the positive.
        angles: to the positive, radians.
        kinds: columns by kind of negatives, as of `Components`; None if all are of one kind.
    """
    by_kind = {
        kind: (coefficients[:, columns], cosines[:, columns])
        for kind, columns in (kinds or {"all": slice(None)}).items()
        if coefficients[:, columns].any()
    }
    sentences = [_positive(pull, coefficients), _attraction(coefficients, cosines, by_kind)]
    if by_kind:
        most = max(by_kind.values(), key=lambda block: float(np.abs(block[0]).sum()))
        sentences.append(profile_sentence(*most, angles) or _humps(*most))
    sentences.append(_ratio(coefficients, pull, angles))
    return [sentence for sentence in sentences if sentence]


def _positive(pull: Float[np.ndarray, "n"], coefficients: Coefficients) -> str:
    if not pull.any() and coefficients.any():
        return "Nothing pulls an anchor to its positive: is the alignment term missing?"
    away = float(-pull[pull < 0].sum() / (np.abs(pull).sum() or 1))
    if away < NOTABLE:
        return ""
    count = int((pull < 0).sum())
    wrong = " (is a sign wrong?)" if away > 1 - NOTABLE else ""
    return f"It pushes {count} of {len(pull)} positives away from their anchors{wrong}."


def _attraction(
    coefficients: Coefficients,
    cosines: Coefficients,
    by_kind: Mapping[str, tuple[Block, Block]],
) -> str:
    attracts = coefficients < 0
    total = float(np.abs(coefficients).sum())
    share = float(-coefficients[attracts].sum()) / total if total else 0.0
    if share < NOTABLE:
        return ""
    if share > 1 - NOTABLE:
        return "It attracts all negatives (is a sign wrong?)."
    pulls = f"{100 * share:.2g}% of all forces on negatives are attractions"
    attracting = [kind for kind, (block, _) in by_kind.items() if (block < 0).any()]
    if len(by_kind) > 1 and len(attracting) == 1:
        some = "all" if (by_kind[attracting[0]][0] <= 0).all() else "some"
        return f"It attracts {some} {NOUNS[attracting[0]]} ({pulls})."
    attracted, pushed = cosines[attracts], cosines[coefficients > 0]
    size, limit = np.abs(coefficients), float(np.median(attracted))
    sides = {"below": cosines < limit, "above": cosines > limit}
    for side, (edge, bound) in {
        "below": (attracted.max(), pushed.min()),
        "above": (attracted.min(), pushed.max()),
    }.items():
        if (edge <= bound) if side == "below" else (edge >= bound):
            return f"It attracts negatives with a cosine {side} {(edge + bound) / 2:.2g} ({pulls})."
    purity = {
        side: float((size * attracts)[inside].sum() / (size[inside].sum() or 1))
        for side, inside in sides.items()
    }
    side = max(purity, key=lambda name: purity[name])
    where = "far" if side == "below" else "near"
    kind = f"mostly {where} ones" if purity[side] > 0.8 else "near and far ones alike"
    return f"It attracts some negatives, {kind} ({pulls})."


def _humps(coefficients: Coefficients, cosines: Coefficients) -> str:
    """Return a sentence on a weight that rises and falls as negatives come near."""
    size = np.abs(coefficients)
    acting = np.isfinite(cosines) & (size.sum(1) > 0)[:, None]
    attracted = -coefficients[coefficients < 0].sum()
    if acting.sum() < 4 * GROUPS or np.count_nonzero(coefficients[acting]) < 2 * GROUPS:
        return ""
    if attracted > NOTABLE * size.sum() or is_monotone(coefficients, cosines):
        return ""
    scale = size.sum(1, keepdims=True)
    shares = (size / np.where(scale > 0, scale, 1))[acting]
    order = np.argsort(cosines[acting])
    groups = np.array_split(order, GROUPS)
    means = np.array([shares[group].mean() for group in groups])
    errors = np.array([shares[group].std() / len(group) ** 0.5 for group in groups])
    middles = np.array([np.median(cosines[acting][group]) for group in groups])
    peaks = [peak for peak, height in _peaks(means) if height > CERTAIN * errors[peak]]
    if len(peaks) > 1:
        places = " and ".join(f"{middles[peak]:.2g}" for peak in peaks)
        return f"Its weight has {len(peaks)} humps, at cosines near {places}."
    if peaks and peaks[0] < GROUPS - 2:
        return (
            f"Its weight is largest for negatives with a cosine near {middles[peaks[0]]:.2g}, "
            "not for the nearest."
        )
    return ""


def _peaks(means: Float[np.ndarray, "groups"]) -> list[tuple[int, float]]:
    """Return local maxima that stand out from both sides by `PROMINENCE` of the largest mean.

    With each comes the height by which it stands out; infinite at both ends of the profile.
    """
    least, peaks = PROMINENCE * float(means.max()), []
    for place, height in enumerate(means):
        before, after = means[:place], means[place + 1 :]
        higher_before, higher_after = (
            np.flatnonzero(before >= height),
            np.flatnonzero(after > height),
        )
        left = before[higher_before[-1] :].min() if len(higher_before) else -np.inf
        right = after[: higher_after[0] + 1].min() if len(higher_after) else -np.inf
        if height - max(left, right) > least:
            falls = [height - edge.min() for edge in (before, after) if len(edge)]
            peaks.append((place, float(min(height - max(left, right), *falls))))
    return peaks


def _ratio(
    coefficients: Coefficients, pull: Float[np.ndarray, "n"], angles: Float[np.ndarray, "n"]
) -> str:
    """Return a sentence on a ratio that differs between near and far positives."""
    push = coefficients.sum(1)
    learns = np.abs(push) > 0.01 * np.abs(push).max(initial=0)
    if np.count_nonzero(learns) < 6:
        return ""
    ratio, angle = pull[learns] / push[learns], angles[learns]
    order = np.argsort(angle)
    near, far = order[: len(order) // 3], order[-(len(order) // 3) :]
    values = float(np.median(ratio[near])), float(np.median(ratio[far]))
    low, high = min(values), max(values)
    if low > 0 and high / low < VARYING:
        return ""
    spread = np.abs(ratio - np.median(ratio)).mean()
    ranks = np.corrcoef(np.argsort(np.argsort(angle)), np.argsort(np.argsort(ratio)))[0, 1]
    by_chance = min(0.95, 2.5 / (len(ratio) - 1) ** 0.5)
    if spread == 0 or abs(ranks) < max(0.5, by_chance):
        return ""
    degrees = [float(np.degrees(np.median(angle[group]))) for group in (near, far)]
    return (
        f"Its ratio depends on the positive's angle: {values[0]:.2g} at {degrees[0]:.0f}° and "
        f"{values[1]:.2g} at {degrees[1]:.0f}°."
    )

"""What is unusual about a loss that is no registered one: the sentences that come first.

Each is read from the coefficients of one batch, without a comparison with other losses: a positive
that is pushed away, negatives that attract, a weight that does not grow with the cosine (see
`gradlab.decomposition.weight_profile`), and a ratio that changes with the positive's angle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradlab.arrays import Float, to_numpy
from gradlab.batch.batch import Batch
from gradlab.decomposition.weight_profile import (
    EXPLAINED,
    FAINT,
    MOST,
    SHARPER,
    beyond_a_limit,
    is_monotone,
    profile_sentence,
    softmax_temperature,
)
from gradlab.errors import listed

# Share of a batch's push or pull above which a finding is worth a sentence.
NOTABLE = 0.02
# Groups of negatives by cosine, and the part of the largest mean weight by which a weight must rise
# and fall again to count as a hump.
GROUPS, PROMINENCE = 12, 0.1
# Standard errors of its mean by which a hump must stand out.
CERTAIN = 3.0
# Least number of anchors whose pushes are compared, and least spread of their positives' cosines
# in temperatures.
FEWEST, SPREAD = 12, 0.5
# Gate below which an anchor's push is not worth a comparison.
LEAST_GATE = 0.01
# Factor between the ratios of near and far positives; relative spread up to which they are equal.
VARYING, EQUAL = 1.25, 0.05

# Share of forces towards a teacher's cosines from which the teacher explains them.
TAUGHT = 0.9
# Largest residual of a logarithm that counts as rounding of coefficients.
EXACT = 1e-5

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
    of_teacher: Mapping[str, Block] | None = None,
) -> list[str]:
    """Return sentences on one side of a loss, the gravest first.

    Args:
        coefficients: of the negatives.
        cosines: to the negatives; -inf where a column is not a negative of the row.
        pull: of the positive.
        angles: to the positive, radians.
        kinds: columns by kind of negatives, as of `Components`; None if all are of one kind.
        of_teacher: cosines of a teacher by kind of negatives, as of `teacher_cosines`.
    """
    by_kind = {
        kind: (coefficients[:, columns], cosines[:, columns])
        for kind, columns in (kinds or {"all": slice(None)}).items()
        if coefficients[:, columns].any()
    }
    sentences = [_positive(pull, coefficients), _attraction(coefficients, cosines, by_kind)]
    if by_kind:
        main = _main(by_kind)
        most = by_kind[main]
        sentences += [
            _of_weaker_kind(kind, *block, angles, attraction_is_known=bool(sentences[1]))
            for kind, block in by_kind.items()
            if kind != main
        ]
        sentences.append(profile_sentence(*most, angles, all_push=not sentences[1]))
        sentences.append("" if sentences[-1] else _humps(*most))
        sentences += [_gate(*most, angles), _shares(by_kind, main)]
    sentences.append(_ratio(coefficients, pull, angles))
    if any(sentences) and not sentences[1]:
        sentences.append(_faint_attraction(coefficients, cosines))
    if taught := _taught(by_kind, of_teacher or {}):
        sentences[0] = sentences[0].replace(": is the alignment term missing?", ".")
        sentences = [taught, *sentences]
    return [sentence for sentence in sentences if sentence]


def teacher_cosines(batch: Batch) -> dict[str, Block]:
    """Return a teacher's cosines by kind of negatives, to both views; empty without a teacher."""
    if batch.teacher is None:
        return {}
    anchors, positives = map(to_numpy, (batch.teacher.anchors, batch.teacher.positives))
    return {"other": anchors @ positives.T, "same": anchors @ anchors.T}


def plain_of(
    coefficients: Coefficients,
    cosines: Coefficients,
    pull: Float[np.ndarray, "n"],
    kinds: Mapping[str, slice],
) -> str:
    """Return what is left to say of a loss of which nothing is unusual: temperature and ratio.

    Arguments as of `findings_of`.
    """
    by_kind = {
        kind: (coefficients[:, columns], cosines[:, columns])
        for kind, columns in kinds.items()
        if coefficients[:, columns].any()
    }
    temperature = softmax_temperature(*by_kind[_main(by_kind)]) if by_kind else math.nan
    words = []
    if math.isfinite(temperature):
        words.append(f"the weight is a softmax of temperature {temperature:.2g}")
    push = coefficients.sum(1)
    learns = np.abs(push) > 0.01 * np.abs(push).max(initial=0)
    if learns.any():
        ratio = pull[learns] / push[learns]
        middle = float(np.median(ratio))
        if np.abs(ratio - middle).max() <= EQUAL * abs(middle):
            words.append(f"the pull is {middle:.2g} times the push")
    if not words:
        return ""
    return f"{listed(words)}.".capitalize()


def _taught(by_kind: Mapping[str, tuple[Block, Block]], of_teacher: Mapping[str, Block]) -> str:
    """Return a sentence on forces that move cosines towards a teacher's, up and down.

    A force moves a cosine up if its coefficient is negative.
    """
    towards, total, attracts = 0.0, 0.0, False
    for kind, (coefficients, cosines) in by_kind.items():
        if kind in of_teacher:
            above = np.sign(cosines - of_teacher[kind])
            size = np.where(np.isfinite(cosines), np.abs(coefficients), 0)
            towards += float(size[above == np.sign(coefficients)].sum())
            total += float(size.sum())
            attracts |= bool((coefficients < 0).any())
    if not attracts or towards < TAUGHT * total:
        return ""
    return (
        f"It moves cosines towards the teacher's: {towards / total:.0%} of its forces on negatives."
    )


def _main(by_kind: Mapping[str, tuple[Block, Block]]) -> str:
    """Return the kind of negatives with most of the force."""
    return max(by_kind, key=lambda kind: float(np.abs(by_kind[kind][0]).sum()))


def _shares(by_kind: Mapping[str, tuple[Block, Block]], main: str) -> str:
    """Return a sentence on the forces on other kinds of negatives than the main one."""
    sizes = {kind: float(np.abs(block).sum()) for kind, (block, _) in by_kind.items()}
    total = sum(sizes.values())
    shares = [
        f"{100 * size / total:.2g}% are on {NOUNS[kind]}"
        for kind, size in sizes.items()
        if kind != main and size > NOTABLE * total
    ]
    return f"Of its forces on negatives, {listed(shares)}." if shares else ""


def _gate(coefficients: Block, cosines: Block, angles: Float[np.ndarray, "n"]) -> str:
    """Return a sentence on weights of a softmax whose push follows its gate, but is not InfoNCE's.

    The gate is the share of an anchor's negatives in a softmax that has the positive too.
    """
    temperature, push = softmax_temperature(coefficients, cosines), coefficients.sum(1)
    pushed = push > 0
    if not math.isfinite(temperature) or np.count_nonzero(pushed) < FEWEST:
        return ""
    own = np.cos(angles[pushed])
    if np.ptp(push[pushed]) < 1e-6 * push.max():
        varied = np.ptp(own) > SPREAD * temperature
        return "It pushes all anchors alike, however near their positives are." if varied else ""
    logits = np.where(coefficients > 0, cosines / temperature, -np.inf)[pushed]
    level = np.logaddexp.reduce(logits, axis=1)
    gate = 1 / (1 + np.exp(own / temperature - level))
    beside = np.log(push[pushed] / gate)
    if two := _two_temperatures(push[pushed], level, own, temperature):
        return two
    gate_misfit = _unexplained(beside, np.log(gate), gate, gate**2)
    if MOST * gate_misfit > _unexplained(beside, level, level**2, level**3):
        return ""  # a push that follows the negatives alone is no function of the gate
    easy, hard = np.argmin(np.where(gate < LEAST_GATE, np.inf, gate)), np.argmax(gate)
    times = float(np.exp(beside[easy] - beside[hard]))
    if gate_misfit > EXPLAINED * beside.std() or 1 / VARYING < times < VARYING:
        return ""
    amount, share = "less" if times < 1 else "more", f"{100 * gate[easy]:.2g}%"
    return (
        f"It pushes easy anchors {amount} than InfoNCE at temperature {temperature:.2g}: "
        f"{times:.2g} times as much where InfoNCE leaves {share} of its push, "
        f"if both push alike where it leaves {gate[hard]:.0%}."
    )


def _unexplained(values: Float[np.ndarray, "n"], *columns: Float[np.ndarray, "n"]) -> float:
    """Return the standard deviation of values around the best sum of columns and a constant."""
    matrix = np.stack([np.ones_like(values), *columns], 1)
    residuals: np.ndarray = values - matrix @ np.linalg.lstsq(matrix, values, rcond=None)[0]
    return float(residuals.std())


def _two_temperatures(
    push: Float[np.ndarray, "n"],
    level: Float[np.ndarray, "n"],
    own: Float[np.ndarray, "n"],
    temperature: float,
) -> str:
    """Return a sentence if positives have another temperature than negatives in the gate.

    The push is then ``A sigmoid(level - own / T - b)`` exactly, where the level is the logarithm of
    the sum of a softmax over negatives, and own the cosine of the positive.
    """
    from scipy.optimize import least_squares

    def residual(x: Float[np.ndarray, "3"]) -> Float[np.ndarray, "n"]:
        gap = level - own * np.exp(-x[0]) - x[1]
        residuals: np.ndarray = x[2] - np.logaddexp(0, -gap) - np.log(push)
        return residuals

    exact: Any = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14, "max_nfev": 200}
    fits = (
        least_squares(residual, [math.log(times * temperature), 0.0, math.log(push.max())], **exact)
        for times in (1.0, 2.0, 0.5)
    )
    best = min(fits, key=lambda fit: float(fit.cost))
    of_positive = math.exp(best.x[0])
    opened = level - own / of_positive - best.x[1]
    varied = np.ptp(np.logaddexp(0, -opened))
    if np.abs(best.fun).max() > EXACT or varied < 100 * EXACT:
        return ""
    if np.ptp(own) / of_positive < math.log(VARYING):
        return ""
    if max(of_positive, temperature) < SHARPER * min(of_positive, temperature):
        return ""
    amount = "more" if temperature < of_positive else "less"
    return (
        f"It weighs near negatives {amount} than InfoNCE: a softmax of temperature "
        f"{temperature:.2g} over negatives, but of {of_positive:.2g} for the positive."
    )


def _of_weaker_kind(
    kind: str,
    block: Block,
    cosines: Block,
    angles: Float[np.ndarray, "n"],
    *,
    attraction_is_known: bool,
) -> str:
    """Return a sentence on negatives of a kind that has less force than another.

    They act on some anchors only, or attract, which is little beside all other forces.
    """
    size = np.abs(block)
    acts = size > FAINT * size.max()
    rows, limits = int(acts.any(1).sum()), beyond_a_limit(block, cosines, angles, NOUNS[kind])
    words = [limits] if limits else []
    if rows < len(block):
        alike = size[acts].max() - size[acts].min() <= 1e-6 * size.max()
        equally = ", all with the same force, as by a margin" if alike and rows > 1 else ""
        words.append(f"Only {rows} of {len(block)} anchors are moved by {NOUNS[kind]}{equally}.")
    share = float(size[block < 0].sum() / size.sum())
    if share > 1 - NOTABLE and not attraction_is_known:
        words.append("It attracts these." if words else f"It attracts all {NOUNS[kind]}.")
    elif share >= NOTABLE and not attraction_is_known:
        where = _limit(block, cosines)
        quantifier = "" if where else "some "
        percent = f"{100 * share:.2g}% of the forces on them"
        words.append(f"It attracts {quantifier}{NOUNS[kind]}{where} ({percent}).")
    return " ".join(words)


def _positive(pull: Float[np.ndarray, "n"], coefficients: Coefficients) -> str:
    if not coefficients.any():
        if not pull.any():
            return ""
        pushed = int((pull < 0).sum())
        words = f", and pushes {pushed} of {len(pull)} away" if pushed else ""
        return f"No negative acts on this batch: it pulls positives to their anchors{words}."
    if not pull.any():
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
        block = by_kind[attracting[0]]
        attracts_all = (block[0] <= 0).all()
        where = "" if attracts_all else _limit(*block)
        quantifier = "all " if attracts_all else "" if where else "some "
        return f"It attracts {quantifier}{NOUNS[attracting[0]]}{where} ({pulls})."
    if where := _limit(coefficients, cosines):
        return f"It attracts negatives{where} ({pulls})."
    size, limit = np.abs(coefficients), float(np.median(cosines[attracts]))
    sides = {"below": cosines < limit, "above": cosines > limit}
    purity = {
        side: float((size * attracts)[inside].sum() / (size[inside].sum() or 1))
        for side, inside in sides.items()
    }
    side = max(purity, key=lambda name: purity[name])
    where = "far" if side == "below" else "near"
    kind = f"mostly {where} ones" if purity[side] > 0.8 else "near and far ones alike"
    return f"It attracts some negatives, {kind} ({pulls})."


def _faint_attraction(coefficients: Coefficients, cosines: Coefficients) -> str:
    """Return a sentence on negatives that attract with little force, exactly beyond one cosine."""
    attracts, acts = int((coefficients < 0).sum()), int((coefficients != 0).sum())
    if attracts < FEWEST or attracts < NOTABLE * acts or attracts == acts:
        return ""
    where = _limit(coefficients, cosines)
    return f"It attracts negatives{where}, with little force." if where else ""


def _limit(coefficients: Block, cosines: Block) -> str:
    """Return the cosine beyond which exactly the negatives are that a loss attracts, in words."""
    attracted, pushed = cosines[coefficients < 0], cosines[coefficients > 0]
    if attracted.max() <= pushed.min():
        return f" with a cosine below {(attracted.max() + pushed.min()) / 2:.2g}"
    if attracted.min() >= pushed.max():
        return f" with a cosine above {(attracted.min() + pushed.max()) / 2:.2g}"
    return ""


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

"""Do the trained weights move, at a rate that lasts, and by the gradient of one step only?"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping
from typing import Any

from gradlab.monitor.metrics import BATCH_LOSS, DIAGNOSTICS, TRAIN, History
from gradlab.monitor.movement import STALE_GRADIENT, WEIGHTS_MOVED
from gradlab.monitor.optimizer_step import OTHER_OPTIMIZER, RATE, RATE_SHARE
from gradlab.monitor.step_effect import WAITED
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, PERSISTENT, Records, values_of
from gradlab.monitor.verdicts.small_steps import GIVE_WEIGHTS, why_still
from gradlab.numbers import percent, short
from gradlab.settings.module import LEARNED
from gradlab.verdict import BAD, WATCH, Verdict

# Movement of all weights, relative to their size, that is none. Sound runs of the tests move by
# 1e-2 and more, a last polish by 2e-4, and SGD at the rate of Adam by 2e-5.
STANDSTILL = 1e-4


# Why weights stand still whose gradients add up.
NOT_HELD = (
    "Their gradients add up from step to step: the optimizer neither clears nor updates them."
)


def progress(history: History, settings: Mapping[str, Any]) -> Verdict | None:
    """Judge whether the trained weights have moved; ``settings`` are those of the trainer."""
    series = [
        list(history.points(TRAIN, name).values())
        for name in history.names(TRAIN)
        if name.startswith(WEIGHTS_MOVED)
    ]
    moved = [value for values in series for value in values]
    # Of models that are loaded anew no movement is recorded: that no optimizer has them is enough.
    of_others = len(values_of(history, OTHER_OPTIMIZER)) >= ENOUGH_RECORDS
    is_free = of_others and not values_of(history, RATE)
    if len(moved) < ENOUGH_RECORDS and not is_free:
        return None
    largest = max(moved, default=0.0)
    if not largest < STANDSTILL:
        return None
    finding = "No trained weight has changed since the beginning."
    if largest:
        finding = (
            f"The trained weights have hardly moved: by {largest:.1g} of their size since the "
            "beginning."
        )
    reason, change = why_still(history, settings, largest)
    if _adds_up(history):
        reason = f"{reason} {NOT_HELD}".strip()
        change = change if values_of(history, WAITED) else GIVE_WEIGHTS
    return Verdict(
        "Progress",
        WATCH,
        f"{finding} {reason}".strip(),
        change,
        name="no progress",
        symptom="weights-do-not-move",
        evidence={"largest movement": largest},
    )


# Share of the largest rate that is none; share of the logs of a run at such a rate that is too
# much, and fewest logs.
NO_RATE, MOST_LOGS, FEWEST_LOGS = 1e-3, 0.4, 5


# Share of the largest rate that is little, and share of the logs at such a rate: linear and cosine
# schedules have 0.06 and 0.15.
LITTLE_RATE, MOST_LOW = 0.05, 0.45


def schedule(history: History) -> Verdict | None:
    """Judge whether the learning rate lasts for most of the run, by what the trainer logged."""
    steps, rates = _rates(history)
    pairs = [(s, r) for s, r in zip(steps, rates, strict=True) if math.isfinite(r)]
    if len(pairs) < FEWEST_LOGS or not max(rate for _, rate in pairs) > 0:
        return None
    largest = max(rate for _, rate in pairs)
    still = [step for step, rate in pairs if rate < NO_RATE * largest]
    low = [step for step, rate in pairs if rate < LITTLE_RATE * largest]
    if len(still) <= MOST_LOGS * len(pairs):
        late = len(low) > MOST_LOW * len(pairs) and pairs[-1][0] == low[-1]
        return _falls_early(low[0], len(low) / len(pairs)) if late else None
    share = len(still) / len(pairs)
    return Verdict(
        "Schedule",
        WATCH,
        f"The learning rate is 0, or below a thousandth of its largest value, in {percent(share)} "
        f"of the logs, from step {still[0]} on.",
        "Let the schedule count the steps of the optimizer, and end where the run ends: a schedule "
        "of your own may count batches, or decay at each step.",
        name="rate ends early",
        symptom="weights-do-not-move",
        evidence={"share": share},
    )


# Share of its last value that a rate has reached after two thirds of a run whose warm-up ends;
# share of the rate that was set which a run should reach; share of the rate before to which it
# falls at once where a schedule begins again, and fewest falls.
STILL_RISING, REACHED, FALLS_TO, FEWEST_FALLS = 0.9, 0.5, 0.5, 2


def warm_up(history: History) -> Verdict | None:
    """Judge whether the learning rate reaches the one that was set, before the run ends."""
    _, rates = _rates(history)
    shares = list(history.points(TRAIN, RATE_SHARE).values())
    if len(rates) < ENOUGH_RECORDS or not all(map(math.isfinite, rates)):
        return None
    reached = max(shares) if len(shares) >= ENOUGH_RECORDS else 1.0
    largest, of_set = f"{percent(reached)} of the rate that was set", {"reached": reached}
    falls = sum(later < FALLS_TO * before for before, later in itertools.pairwise(shares))
    change = (
        "Make the schedule once, with the number of all steps of the optimizer, and call its "
        "step() after each of them."
    )
    if reached < REACHED and falls >= FEWEST_FALLS:
        finding = (
            f"The warm-up begins again {falls} times: the learning rate falls at once and rises "
            f"slowly, and its largest value is {largest}."
        )
        return Verdict("Schedule", WATCH, finding, change, "warm-up begins again",
                       "weights-do-not-move", of_set | {"falls": falls})  # fmt: skip
    later = rates[2 * len(rates) // 3]
    is_rising = rates[-1] == max(rates) and later < STILL_RISING * rates[-1]
    if not is_rising:
        return None
    finding = "The learning rate still rises near the end of the run: its warm-up is too long."
    if reached < 1:
        finding += f" It has reached {largest}."
    return Verdict("Schedule", WATCH, finding, f"Warm up for 5 to 10% of the steps. {change}",
                   "warm-up never ends", "weights-do-not-move", of_set)  # fmt: skip


def stops(history: History) -> Verdict | None:
    """Judge whether weights that moved stop for good while the loss is not 0, without its rate.

    Where a trainer logs the learning rate, `schedule` says why.
    """
    points = history.points(TRAIN, WEIGHTS_MOVED)
    steps, moved = list(points), list(points.values())
    still = [step for step, share in points.items() if share == moved[-1]]
    losses = [history.points(TRAIN, name) for name in (BATCH_LOSS, "loss")]
    last = next((list(series.values())[-1] for series in losses if series), 0.0)
    if "learning_rate" in history.names(TRAIN) or not last or schedule(history) is not None:
        return None
    if len(still) < FEWEST_LOGS or len(still) <= MOST_LOGS * len(steps):
        return None
    if not max(moved) >= STANDSTILL or still[0] != steps[-len(still)]:
        return None
    return Verdict(
        "Schedule",
        WATCH,
        f"No weight has moved since step {still[0]}, for {percent(len(still) / len(steps))} of the "
        "records, though the loss is not 0.",
        "Let the schedule of the learning rate count the steps of the optimizer and end where the "
        "run ends; check that a gradient still arrives.",
        name="weights stop",
        symptom="weights-do-not-move",
        evidence={"share": len(still) / len(steps)},
    )


# Gradient that was there before a batch's own, over that of the batch, in every late record:
# accumulation over a few batches has some records without any.
STALE = 8.0


def stale_gradient(history: History) -> Verdict | None:
    """Judge whether gradients are cleared between steps; `progress` does of weights at rest."""
    if not _adds_up(history) or progress(history, {}) is not None:
        return None
    shares = list(history.points(TRAIN, STALE_GRADIENT).values())
    late = shares[len(shares) // 2 :]
    return Verdict(
        "Gradient",
        BAD,
        f"Gradients of earlier steps are never cleared: they were {min(late):.3g} to "
        f"{max(late):.3g} times as large as the gradient of the step itself.",
        "Call optimizer.zero_grad() in each step, before value.backward().",
        name="gradients not cleared",
        symptom="score-falls",
        evidence={"stale gradient": min(late)},
    )


# Movement between two records, relative to the size of the weights and to the largest one before,
# that no step makes. Sound runs move less and less, or at most 4 times as far as before.
LEAP, TIMES = 0.3, 6.0


def leap(history: History) -> Verdict | None:
    """Judge whether the weights were replaced between two records."""
    for name in history.names(TRAIN):
        points = history.points(TRAIN, name) if name.startswith(WEIGHTS_MOVED) else {}
        steps, moved = list(points), list(points.values())
        for at in range(2, len(moved)):
            before = max(abs(moved[k] - moved[k - 1]) for k in range(1, at))
            change = moved[at] - moved[at - 1]
            if change > max(LEAP, TIMES * before) and before > 0:
                return Verdict(
                    "Weights",
                    BAD,
                    f"The weights jumped between steps {steps[at - 1]} and {steps[at]}: by "
                    f"{change:.2f} of their size, {change / before:.0f} times as far as between "
                    "any records before. They seem to have been reset or loaded anew, or a single "
                    "gradient was huge (a spike).",
                    "Make or load the encoder once, before the loop, and not in each epoch; if "
                    "that is so, clip the gradient norm at 1, and look at the batch of that step.",
                    name="weights replaced",
                    symptom="score-falls",
                    evidence={"change": change, "before": before},
                )
    return None


def of_the_loss(history: History) -> Verdict | None:
    """Judge whether weights of the loss itself, such as a classifier, are trained with it."""
    moved = max(history.points(TRAIN, WEIGHTS_MOVED).values(), default=0.0)
    if not moved >= STANDSTILL:
        return None
    for name in history.names(TRAIN):
        values = list(history.points(TRAIN, name).values()) if name.startswith(LEARNED) else []
        slopes = list(history.points(TRAIN, f"{name}_gradient").values())
        if len(values) < FEWEST_LOGS or min(map(abs, slopes), default=0.0) == 0:
            continue
        if min(values) == max(values):
            weight = name.removeprefix(LEARNED)
            return Verdict(
                "Weights",
                WATCH,
                f"The weight {weight!r} of the loss itself has a gradient and never changes, while "
                "the encoder moves: it is not in the optimizer.",
                "Give the optimizer the parameters of the loss as well as those of the encoder.",
                name="weights of the loss still",
                symptom="weights-do-not-move",
                evidence={weight: values[-1]},
            )
    return None


# Learned temperature below which one negative has all the weight: published bounds are 0.01.
COLDEST = 0.005
LARGEST_LOGARITHM = 5.0  # of a scale of 150


def learned_temperature(history: History) -> Verdict | None:
    """Judge whether a temperature or scale that the loss learns stays within bounds."""
    for name in history.names(TRAIN):
        values = list(history.points(TRAIN, name).values()) if name.startswith(LEARNED) else []
        setting = name.removeprefix(LEARNED)
        if len(values) < PERSISTENT or setting.endswith("_gradient"):
            continue
        temperatures = [_temperature(setting, values[0], value) for value in values[-PERSISTENT:]]
        is_negative = values[-1] <= 0 < values[0] and "log" not in setting
        pushes = _latest_pushes(history)
        # Below 0 a temperature turns the push round. Where that is as it was, the number is made
        # one first, as by an exponential or a softplus.
        if is_negative and pushes and min(pushes) > 0:
            continue
        if all(value is not None and value < COLDEST for value in temperatures):
            return Verdict(
                "Temperature",
                BAD if is_negative and pushes else WATCH,
                f"The loss learns {setting!r} without a bound: it began at {short(values[0])} and "
                f"is {short(values[-1])}, a temperature below {COLDEST:g}, at which training is "
                "unstable and one negative has all the weight.",
                "Bound it: learn its logarithm, and clamp the scale at 100 (a temperature of "
                "0.01); or give it a lower learning rate.",
                name="temperature unbounded",
                symptom="temperature",
                evidence={setting: values[-1]},
            )
    return None


# Share of its first value below which a margin that is learned has been given up.
GIVEN_UP = 0.5


def learned_margin(history: History) -> Verdict | None:
    """Judge whether a loss lowers its own margin, by which it falls without any learning."""
    for name in history.names(TRAIN):
        values = list(history.points(TRAIN, name).values()) if name.startswith(LEARNED) else []
        setting = name.removeprefix(LEARNED)
        if len(values) < PERSISTENT or "margin" not in setting or setting.endswith("_gradient"):
            continue
        if values[0] > 0 and max(values[-PERSISTENT:]) < GIVEN_UP * values[0]:
            return Verdict(
                "Weights",
                WATCH,
                f"The loss learns {setting!r}, which fell from {short(values[0])} to "
                f"{short(values[-1])}: a lower margin lowers the loss, whatever the encoder does.",
                "Keep the margin out of the optimizer: make it a number, not an nn.Parameter.",
                name="margin learned away",
                symptom="loss-zero",
                evidence={setting: values[-1]},
            )
    return None


# Fewest records that show a trend, and the largest movement that is no trend: a slope of 3 standard
# errors, or a first record 4 standard deviations away from the others.
TREND, NO_TREND = 12, 3.0
STATISTICS = ("negative_cosine", "positive_cosine", "uniformity", "alignment", "effective_rank")


def standstill(records: Records) -> Verdict | None:
    """Judge whether any statistic of the embeddings has changed, where no weights were seen.

    The loss does not count: its own weights may learn while those of the encoder do not move.
    """
    if any(name.startswith(WEIGHTS_MOVED) for name in records.history.names(TRAIN)):
        return None
    trends = [_trend(records.points(name)) for name in STATISTICS]
    measured = [trend for trend in trends if trend is not None]
    if len(measured) < 2 or max(measured) > NO_TREND or records.score_rises():
        return None
    return Verdict(
        "Progress",
        WATCH,
        "The embeddings look as they did at the beginning: no measured quantity has changed.",
        "Check that the learning rate is above 0, that the encoder's weights require gradients and "
        "are in the optimiser, and that the embeddings are not detached.",
        name="no progress",
        symptom="weights-do-not-move",
        evidence={"largest trend in standard errors": max(measured)},
    )


def _latest_pushes(history: History) -> list[float]:
    """Return the last mean dissipation of each loss whose components are known."""
    groups = [group for group in history.groups() if group.startswith(DIAGNOSTICS)]
    series = [history.points(group, "gradient_dissipation") for group in groups]
    latest = [list(points.values())[-1] for points in series if points]
    return [push for push in latest if math.isfinite(push)]


def _temperature(setting: str, first: float, value: float) -> float | None:
    """Return a learned setting as a temperature; None for other settings."""
    if "temperature" in setting or setting == "tau":
        # A temperature that begins below 0 is a logarithm.
        return math.exp(value) if first <= 0 or "log" in setting else value
    if "scale" in setting:
        # A scale that begins at 5 or less is a logarithm, as in CLIP.
        return math.exp(-value) if first <= LARGEST_LOGARITHM else 1 / max(value, 1e-9)
    return None


def _rates(history: History) -> tuple[list[int], list[float]]:
    """Return steps and learning rates, logged by a trainer or seen at steps of the optimizer."""
    logged = history.series(TRAIN, "learning_rate")
    return logged if logged[0] else history.series(TRAIN, RATE)


def _adds_up(history: History) -> bool:
    """Whether gradients of earlier steps are there in every late record."""
    shares = list(history.points(TRAIN, STALE_GRADIENT).values())
    late = shares[len(shares) // 2 :]
    return len(late) >= PERSISTENT and min(late) > STALE


def _trend(points: Mapping[int, float]) -> float | None:
    """Return how far a series moves; None if there are too few points.

    The unit is the standard error of the slope, or the scatter after a jump from the first record.
    """
    from scipy.stats import linregress  # slow to import

    finite = {step: value for step, value in points.items() if math.isfinite(value)}
    if len(finite) < TREND:
        return None
    y = list(finite.values())
    if min(y) == max(y):  # for which linregress may return NaN
        return 0.0
    line = linregress(list(finite), y)
    jump = 0.75 * (y[0] - statistics.fmean(y[1:]))
    moves = (line.slope, line.stderr), (jump, statistics.stdev(y[1:]))
    return max(abs(move) / scale if scale else math.inf if move else 0.0 for move, scale in moves)


def _falls_early(step: int, share: float) -> Verdict:
    return Verdict(
        "Schedule",
        WATCH,
        f"The learning rate is below a twentieth of its largest value in {percent(share)} of the "
        f"logs, from step {step} on: it falls too fast.",
        "Let the rate fall over the whole run, by a linear or cosine schedule; a factor for each "
        "step, such as gamma, should be near 1.",
        name="rate falls early",
        symptom="weights-do-not-move",
        evidence={"share": share},
    )

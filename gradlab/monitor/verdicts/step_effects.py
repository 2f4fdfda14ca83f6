"""Do steps go downhill, as far as their rate says, and does each batch and each weight have one?"""

from __future__ import annotations

import itertools
import statistics

from gradlab.monitor.arriving_gradient import ARRIVING
from gradlab.monitor.metrics import TRAIN, History
from gradlab.monitor.movement import (
    FOLLOWING_STALE,
    FROZEN,
    NEW_WEIGHTS,
    STALE_GRADIENT,
    WEIGHTS_MOVED,
)
from gradlab.monitor.optimizer_step import BY_HAND, RATE, RATE_SHARE
from gradlab.monitor.setting_advice import USUAL_RATES, sentence
from gradlab.monitor.step_effect import (
    HALF,
    STEP_COSINE,
    STEP_GRADIENT,
    STEP_OF_RATE,
    STEP_SIZE,
    UNCHANGED,
    WAITED,
    WITHOUT_RATE,
)
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, PERSISTENT, values_of
from gradlab.monitor.verdicts.small_steps import rate_for_factor
from gradlab.monitor.verdicts.steps import late_values
from gradlab.monitor.verdicts.weights import STANDSTILL, warm_up
from gradlab.monitor.weights_watch import LENGTH_LEFT
from gradlab.numbers import percent, short
from gradlab.verdict import BAD, WATCH, Verdict

STILL = "weights-do-not-move"
# Median cosine of steps with the negative gradient below which they go uphill, and share of the
# records that show it. Steps of Adam that go downhill have 0.02 to 0.6.
UPHILL, MOSTLY = -0.02, 0.8


def uphill(history: History) -> Verdict | None:
    """Judge whether steps of the optimizer go against the gradient."""
    cosines = values_of(history, STEP_COSINE)
    if len(cosines) < ENOUGH_RECORDS or not statistics.median(cosines) < UPHILL:
        return None
    share = sum(cosine < 0 for cosine in cosines) / len(cosines)
    if share < MOSTLY:
        return None
    return Verdict(
        "Optimizer",
        BAD,
        f"In {percent(share)} of the records the step of the optimizer goes along the gradient, "
        "uphill, and not against it: the loss is maximised.",
        "Set maximize=False, and check the signs of the learning rate and of the loss.",
        name="steps uphill",
        symptom="score-falls",
        evidence={"cosine": statistics.median(cosines), "share": share},
    )


# Share of the weights that a step may leave exactly as they are although they have a gradient, and
# that may have no rate.
ROUNDED, MANY_WITHOUT = 0.5, 0.5


def rounded(history: History) -> Verdict | None:
    """Judge whether steps are lost by rounding, where none of the other verdicts says why."""
    shares = late_values(history, UNCHANGED)
    if len(shares) < PERSISTENT or not statistics.median(shares) > ROUNDED:
        return None
    if any(judge(history) is not None for judge in (without_rate, rate_of_0, unreached)):
        return None
    share, half = statistics.median(shares), any(late_values(history, HALF))
    finding = (
        f"A step leaves {percent(share)} of the weights exactly as they are, although they have a "
        "gradient:"
    )
    if half:
        finding += " the weights are in half precision (bfloat16, float16), and steps of this "
        finding += "learning rate are rounded away."
        change = (
            "Keep the weights in float32, and compute in bfloat16 by torch.autocast or bf16=True; "
            "else raise the learning rate."
        )
    else:
        finding += " it is smaller than the rounding of float32."
        change = (
            f"{sentence(USUAL_RATES)} For SGD take 0.01 or more, and look at what scales or clips "
            "the gradient."
        )
    return Verdict("Precision", WATCH, finding, change, "steps rounded away", STILL,
                   {"share": share})  # fmt: skip


def rate_of_0(history: History) -> Verdict | None:
    """Judge whether any step of the optimizer has a learning rate."""
    rates = values_of(history, RATE)
    # Where weights move all the same, the loop makes its steps itself.
    moved = max(values_of(history, WEIGHTS_MOVED), default=0.0)
    if len(rates) < ENOUGH_RECORDS or any(rates) or moved >= STANDSTILL:
        return None
    return Verdict(
        "Schedule",
        BAD,
        f"The learning rate of the optimizer is 0 at the steps of all {len(rates)} records: no "
        "weight changes.",
        "A schedule with warm-up begins at 0, and one that has ended stays there: call "
        "scheduler.step() after each optimizer.step(), and begin further training with a new "
        "schedule. Else set the learning rate.",
        name="rate of 0",
        symptom=STILL,
        evidence={"records": float(len(rates))},
    )


def without_rate(history: History) -> Verdict | None:
    """Judge whether most weights of the encoder have a learning rate."""
    shares = late_values(history, WITHOUT_RATE)
    if len(shares) < PERSISTENT or not min(shares) > MANY_WITHOUT:
        return None
    return Verdict(
        "Optimizer",
        WATCH,
        f"{percent(min(shares))} of the weights in the optimizer have a learning rate of 0, or "
        "below a thousandth of the largest one: they hardly move.",
        "Give each group of parameters its learning rate, or freeze it on purpose.",
        name="weights without rate",
        symptom=STILL,
        evidence={"share": min(shares)},
    )


# Change of a weight by a step of Adam, relative to the learning rate, that is far below the usual
# 0.1 to 1, and the mean gradient of a weight that Adam's epsilon of 1e-8 does not leave intact.
FRACTION, TINY = 0.01, 1e-7


def below_epsilon(history: History) -> Verdict | None:
    """Judge whether gradients are so small that Adam's epsilon swallows them."""
    sizes, gradients = values_of(history, STEP_OF_RATE), values_of(history, STEP_GRADIENT)
    if len(sizes) < ENOUGH_RECORDS or not gradients:
        return None
    size, gradient = statistics.median(sizes), statistics.median(gradients)
    if not size < FRACTION or not gradient < TINY:
        return None
    return Verdict(
        "Optimizer",
        WATCH,
        f"Steps are {percent(size)} of the learning rate, where those of Adam are a tenth and "
        f"more: the gradient of a weight is {gradient:.1g} on average at the step, and the epsilon "
        "of the optimizer, which is added to it, is larger.",
        "Leave out the tiny factor of the loss, and raise the norm or value at which gradients are "
        "clipped to 1.",
        name="gradient below epsilon",
        symptom=STILL,
        evidence={"size": size, "gradient": gradient},
    )


# Gradient that arrives, relative to that of the loss, below which the loss was divided: to divide
# by accumulated batches leaves a hundredth and more. Change of the weights by a step, relative to
# their size, that is too small to train.
DIVIDED, SMALL_STEP = 0.003, 1e-4
# Gradient that arrives where the loss is divided by as many batches as nobody adds up, and change
# of the weights by a step then.
AS_FOR_MANY, LITTLE_STEP = 0.15, 1e-3


def divided(history: History) -> Verdict | None:
    """Judge whether the loss is divided before its backward pass, and SGD makes tiny steps."""
    sizes, steps = values_of(history, ARRIVING), values_of(history, STEP_SIZE)
    if len(sizes) < ENOUGH_RECORDS or not steps or values_of(history, STEP_OF_RATE):
        return None
    size, step = statistics.median(sizes), statistics.median(steps)
    if AS_FOR_MANY > size >= DIVIDED and step < LITTLE_STEP and not values_of(history, WAITED):
        return Verdict(
            "Gradient",
            WATCH,
            f"The gradient arrives at the embeddings multiplied by {size:.1g}, as if the loss were "
            f"divided by {1 / size:.0f} accumulated batches, but each batch is followed by a step "
            f"of its own, which changes the weights by {step:.1g} of their size.",
            "Step after as many batches as the loss is divided by, or leave out the division.",
            name="loss divided",
            symptom=STILL,
            evidence={"size": size, "step": step},
        )
    if not 0 < size < DIVIDED or not step < SMALL_STEP:
        return None
    return Verdict(
        "Gradient",
        WATCH,
        f"The gradient arrives at the embeddings multiplied by {size:.1g}: what is derived is that "
        f"fraction of the loss. A step changes the weights by {step:.1g} of their size.",
        "Leave out the factor between the loss and backward(), such as a division by the number of "
        "rows: a mean needs none.",
        name="loss divided",
        symptom=STILL,
        evidence={"size": size, "step": step},
    )


# Share of the rate that was set which a run should reach; a rate that is no rate but a factor of a
# schedule that returns rates.
REACHED, FACTOR = 0.5, 0.5


def unreached(history: History) -> Verdict | None:
    """Judge whether the rate that was set is reached by a schedule that does not fall."""
    shares, rates = values_of(history, RATE_SHARE), values_of(history, RATE)
    if len(shares) < ENOUGH_RECORDS or not 0 < max(shares) < REACHED:
        return None
    if (factor := rate_for_factor(history)) is not None:
        return Verdict("Schedule", WATCH, *factor, "rate not reached", STILL,
                       {"reached": max(shares)})  # fmt: skip
    largest = max(rates)
    if largest / max(shares) >= FACTOR or max(shares[len(shares) // 2 :]) < max(shares):
        return None
    if warm_up(history) is not None:
        return None
    moves = max(shares) > min(shares)
    finding = (
        f"The learning rate is never more than {percent(max(shares))} of the one that was set, "
        f"{short(largest / max(shares))}:"
    )
    finding += (
        " the schedule (a warm-up, OneCycleLR) is planned for far more steps than the run has."
        if moves
        else " the schedule stays where its warm-up begins, as if its step() were never called."
    )
    change = (
        "Make the schedule with the number of steps of the run, and call its step() after each "
        "step of the optimizer."
    )
    return Verdict("Schedule", WATCH, finding, change, "rate not reached", STILL,
                   {"reached": max(shares)})  # fmt: skip


# Share of the distance from the beginning that is left when weights are set back, and the distance
# from which on that says something. How many times as far as before they have come at the end where
# what was taken back were trials, as of a line search or of an inner loop of meta-learning.
LEFT, MOVED, FARTHER = 0.5, 1e-3, 2.0


def goes_back(history: History, resumed: int = 0) -> Verdict | None:
    """Judge whether weights were set back to where they were; a recording may begin anew.

    Where weights join those that are trained, as of an encoder behind a head that was trained
    first, they have not moved yet, and so the mean distance falls.
    """
    for name in history.names(TRAIN):
        points = history.points(TRAIN, name) if name.startswith(WEIGHTS_MOVED) else {}
        joined = history.points(TRAIN, name.replace(WEIGHTS_MOVED, NEW_WEIGHTS))
        falls = [
            (before, step)
            for before, step in itertools.pairwise(points)
            if points[before] > MOVED and points[step] < LEFT * points[before]
            and not before < resumed <= step and step not in joined
        ]  # fmt: skip
        end = min([*points.values()][-PERSISTENT:], default=0.0)
        if falls and not end > FARTHER * max(points[before] for before, _ in falls):
            before, step = falls[0]
            times = f", and {len(falls) - 1} times more" if len(falls) > 1 else ""
            return Verdict(
                "Weights",
                BAD,
                "The weights went back to earlier ones, as if these were loaded again or they were "
                "reset: their distance from the beginning fell from "
                f"{points[before]:.2g} of their size at step {before} to {points[step]:.2g} at "
                f"step {step}{times}. What was learned is lost.",
                "Load weights, a checkpoint or a moving average once, before the loop, and not in "
                "each epoch; keep an average in a second model.",
                name="weights go back",
                symptom="score-does-not-rise",
                evidence={"before": points[before], "after": points[step]},
            )
    return None


# How far weights move between a batch and its step, relative to the step, and stay there: where an
# adversarial or sharpness-aware climb is not taken back, 8 and more; in sound sharpness-aware steps
# at most 0.6.
MOVED_BY_HAND = 2.0


def moved_by_hand(history: History) -> Verdict | None:
    """Judge whether weights are moved before the step by something else, and left there."""
    distances = late_values(history, BY_HAND)
    if len(distances) < PERSISTENT or not statistics.median(distances) > MOVED_BY_HAND:
        return None
    distance = statistics.median(distances)
    return Verdict(
        "Weights",
        BAD,
        f"Between a batch and the step of the optimizer the weights move {short(distance)} times "
        "as far as by the step, and stay there: something else changes them, such as an "
        "adversarial perturbation (FGM, PGD), a sharpness-aware climb (SAM) or noise that is not "
        "taken back.",
        "Restore the weights before optimizer.step(), and make all other changes of them inside "
        "of the optimizer.",
        name="moved by hand",
        symptom="score-does-not-rise",
        evidence={"distance": distance},
    )


# Mean number of batches without a step after a record, share of the records that show one, and
# gradient of earlier batches that is none.
BATCHES, WAITING, CLEARED = 0.75, 0.5, 0.01


def dropped_batches(history: History) -> Verdict | None:
    """Judge whether gradients of batches are cleared before the step that should use them."""
    waited, stale = values_of(history, WAITED), values_of(history, STALE_GRADIENT)
    following = values_of(history, FOLLOWING_STALE)
    if len(stale) < ENOUGH_RECORDS or max([*stale, *following, 0.0]) > CLEARED:
        return None
    share = len(waited) / len(stale)
    if share < WAITING or sum(waited) < BATCHES * len(stale) or len(following) < ENOUGH_RECORDS:
        return None
    return Verdict(
        "Gradient",
        WATCH,
        f"After {percent(share)} of the records, the optimizer makes no step before the next "
        "batch, and gradients are cleared in between: those of most batches are thrown away.",
        "To accumulate gradients, call optimizer.zero_grad() after optimizer.step() only; else "
        "step after each batch.",
        name="batches without step",
        symptom="score-does-not-rise",
        evidence={"share": share},
    )


# Share of the records that a step follows where several of them have none between them, and updates
# that are too few to train.
FOLLOWED, FEW_UPDATES = 0.5, 10


def few_updates(history: History) -> Verdict | None:
    """Judge whether gradients of so many batches are added up that few updates are left."""
    followed = history.points(TRAIN, RATE)
    without_step = [step for step in history.points(TRAIN, WAITED) if step not in followed]
    updates, records = len(followed), len(followed) + len(without_step)
    if len(without_step) < ENOUGH_RECORDS or updates >= FOLLOWED * records:
        return None
    if not 0 < updates < FEW_UPDATES or dropped_batches(history) is not None:
        return None
    return Verdict(
        "Gradient",
        WATCH,
        f"The optimizer has made {updates} steps in the run: the gradients of so many batches are "
        "accumulated that few updates are left.",
        "Step after fewer batches.",
        name="few updates",
        symptom=STILL,
        evidence={"updates": float(updates)},
    )


def frozen_later(history: History) -> Verdict | None:
    """Judge whether weights that were trained at first were frozen since."""
    shares = history.points(TRAIN, FROZEN)
    late = list(shares.values())[-PERSISTENT:]
    if len(late) < PERSISTENT or not min(late) > MANY_WITHOUT:
        return None
    return Verdict(
        "Weights",
        WATCH,
        f"{percent(min(late))} of the weights that were trained at first are frozen since step "
        f"{next(iter(shares))}: they require no gradient any more.",
        "Look for requires_grad_(False) in a callback or in the loop; freeze what is to stay "
        "before training.",
        name="weights frozen later",
        symptom=STILL,
        evidence={"share": min(late)},
    )


# Share of the longest text at the beginning below which a shorter one, by which most texts are
# cut, is worth a remark: the faulty run kept an eighth, and no sound run that was played got there.
LITTLE_LEFT = 0.5


def cut_shorter(history: History) -> Verdict | None:
    """Judge whether texts are cut at fewer tokens than they were at the beginning."""
    shares = history.points(TRAIN, LENGTH_LEFT)
    late = list(shares.values())[-PERSISTENT:]
    if len(late) < PERSISTENT or not max(late) < LITTLE_LEFT:
        return None
    return Verdict(
        "Truncation",
        WATCH,
        f"Since step {next(iter(shares))} max_seq_length of the encoder is {percent(max(late))} of "
        "what it was at the beginning, and most texts of the batches are cut there.",
        "Look for what sets max_seq_length within the run, such as an evaluator or a callback, and "
        "let it put back the former value.",
        name="texts cut shorter",
        symptom=STILL,
        evidence={"share": max(late)},
    )


# Learning rate of Adam, and of others that divide by the size of gradients, that ruins encoders.
RUINOUS = 5e-3


def too_fast(history: History, suffers: bool) -> Verdict | None:
    """Judge whether a bad outcome has its cause in a high rate; ``suffers`` says there is one."""
    rates = values_of(history, RATE)
    if not suffers or not values_of(history, STEP_OF_RATE) or not max(rates) >= RUINOUS:
        return None
    finding = (
        f"The learning rate is {short(max(rates))}, too high for most encoders: an optimizer like "
        "Adam moves each weight by about that much in a step, whatever the gradient."
    )
    return Verdict("Optimizer", WATCH, finding, sentence(USUAL_RATES), "rate too high",
                   "score-falls", {"rate": max(rates)})  # fmt: skip

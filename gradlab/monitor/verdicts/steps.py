"""Does the gradient of the loss arrive at embeddings, and do steps move all weights for good?"""

from __future__ import annotations

import math
import statistics

from gradlab.monitor.arriving_gradient import (
    ARRIVING,
    ARRIVING_COSINE,
    OWN_GRADIENT,
    SECOND_GRADIENT,
    UNUSED,
)
from gradlab.monitor.metrics import BATCH_LOSS, TRAIN, History, of_dataset
from gradlab.monitor.movement import NEW_WEIGHTS, WEIGHTS_MOVED, WEIGHTS_NORM
from gradlab.monitor.optimizer_step import (
    DECAY,
    EMPTY,
    EPSILON,
    LOST,
    NOT_HELD,
    RATE,
    RATE_FACTOR,
    STATE_STEPS,
    STILL_WEIGHTS,
    UNDONE,
)
from gradlab.monitor.replayed_gradient import REPLAYED, REPLAYED_COSINE
from gradlab.monitor.verdicts.records import (
    ENOUGH_RECORDS,
    LEARNS,
    PERSISTENT,
    ends_of,
    values_of,
)
from gradlab.monitor.verdicts.training_loss import rises
from gradlab.numbers import percent, short
from gradlab.verdict import BAD, WATCH, Verdict

# Share of the records that show what holds from the beginning to the end.
MOSTLY = 0.8


def own_gradient(history: History) -> Verdict | None:
    """Judge whether the loss has a gradient at the embeddings, or is computed without them."""
    sizes, unused = values_of(history, OWN_GRADIENT), values_of(history, UNUSED)
    if len(sizes) < ENOUGH_RECORDS:
        return None
    losses = values_of(history, BATCH_LOSS)
    value = f"while it is {short(losses[-1])}" if losses else "all the same"
    if len(unused) >= MOSTLY * len(sizes):
        return Verdict(
            "Gradient",
            BAD,
            "The loss is not computed from the embeddings that the encoder returns "
            "(sentence_embedding): no gradient reaches them, though weights of the encoder have "
            "one. It seems to pool the tokens in another way, or to use another output.",
            "Compute the loss from sentence_embedding, so that what is trained is what is used.",
            name="embeddings unused",
            symptom="score-does-not-rise",
            evidence={"share": len(unused) / len(sizes)},
        )
    none = [size == 0 for size in sizes]
    if sum(none) < MOSTLY * len(none) or not all(none[:PERSISTENT]):
        return None
    # Where the loss is 0, as once a margin is met, none is due: `training_loss` judges that.
    is_due = [loss != 0 for size, loss in _noted_together(history, OWN_GRADIENT, BATCH_LOSS)
              if size == 0]  # fmt: skip
    return Verdict(
        "Gradient",
        BAD if any(is_due) or not losses else WATCH,
        f"In {percent(sum(none) / len(none))} of the records the loss has no gradient at its "
        f"embeddings, {value}: it seems to be clamped, masked or rounded where training begins.",
        "Leave out clamp(max=…) and min(…) of the loss; look at what its mask leaves over, and for "
        "steps without a derivative.",
        name="no gradient at embeddings",
        symptom="loss-zero",
        evidence={"share": sum(none) / len(none)},
    )


def second_view(history: History) -> Verdict | None:
    """Judge whether the second view is part of the loss."""
    pairs = _noted_together(history, OWN_GRADIENT, SECOND_GRADIENT)
    if len(pairs) < ENOUGH_RECORDS:
        return None
    beside = [second for size, second in pairs if size > 0]
    none = sum(size == 0 for size in beside)
    if len(beside) < PERSISTENT or none < MOSTLY * len(beside):
        return None
    return Verdict(
        "Gradient",
        WATCH,
        "No gradient of the loss reaches the embeddings of the second column, the positives, while "
        "those of the first have one: the second column is not used, as where anchors are compared "
        "with themselves, or it is detached.",
        "Compare the first column with the second; leave out detach(), unless a second encoder "
        "follows the first.",
        name="second view unused",
        symptom="score-does-not-rise",
        evidence={"share": none / len(beside)},
    )


# Cosine of the gradient that arrives with that of the loss below which it is of something else, or
# of the loss with the other sign. A loss beside others of the same weight has 0.3 and more.
UNRELATED, REVERSED = 0.1, -0.5
# Cosine below which, and size relative to the gradient of the loss above which, another term
# outweighs a loss that rises.
SMALL_PART, LARGER = 0.4, 2.0


def arriving(history: History) -> Verdict | None:
    """Judge whether the gradient that arrives at the embeddings is that of the watched loss."""
    cosines, sizes = values_of(history, ARRIVING_COSINE), values_of(history, ARRIVING)
    if not all(map(math.isfinite, sizes)):
        # Of a gradient that overflows the direction is not known; see `arriving_gradients`.
        together = _noted_together(history, ARRIVING_COSINE, ARRIVING)
        cosines = [cosine for cosine, size in together if math.isfinite(size)]
    if len(cosines) < ENOUGH_RECORDS:
        return None
    cosine, evidence = statistics.median(cosines), {"cosine": statistics.median(cosines)}
    if cosine < REVERSED:
        finding = (
            "The gradient that arrives at the embeddings points the other way than that of the "
            f"loss (cosine {cosine:.2f}): the loss is maximised."
        )
        change = "Check the sign before backward(), and maximize of the optimizer."
        return Verdict("Gradient", BAD, finding, change, "loss maximised", "score-falls", evidence)
    size = statistics.median(sizes) if sizes else 0.0
    if UNRELATED <= cosine < SMALL_PART and size > LARGER and rises(_losses(history)):
        finding = (
            "A term that is added to the watched loss outweighs it, and this loss rises: the "
            f"gradient that arrives at the embeddings is {short(size)} times as large as that of "
            f"the loss (cosine {cosine:.2f})."
        )
        change = "Lower the weight of the other term until the watched loss falls as well."
        return Verdict("Gradient", WATCH, finding, change, "loss outweighed", "score-does-not-rise",
                       evidence | {"size": size})  # fmt: skip
    if cosine >= UNRELATED:
        return None
    finding = (
        "The gradient that arrives at the embeddings is not that of the watched loss (cosine "
        f"{cosine:.2f}): another loss or term is derived, and the watched one is overwritten, "
        "detached or outweighed."
    )
    if not any(sizes):
        finding = (
            "Steps are made, but no gradient of the watched loss arrives at its embeddings: "
            "another loss is derived, or backward() is not called on this one."
        )
    change = "Add the terms up, and call backward() on their sum; watch the loss that is trained."
    return Verdict("Gradient", WATCH, finding, change, "another gradient", "score-does-not-rise",
                   evidence)  # fmt: skip


# Mean cosine of cached gradients and those that arrive in the second pass, and share of its rows:
# sound caches have .95 and more, of all rows; those of other rows up to .48.
OTHER_ROWS, SOME_ROWS = 0.7, 0.9


def replayed(history: History) -> Verdict | None:
    """Judge whether a gradient cache hands each row's gradient to that row's second pass."""
    cosines, shares = values_of(history, REPLAYED_COSINE), values_of(history, REPLAYED)
    if len(cosines) < PERSISTENT:
        return None
    cosine, share = statistics.median(cosines), statistics.median(shares)
    evidence = {"cosine": cosine, "share": share}
    if cosine < OTHER_ROWS:
        finding = (
            "The gradients that are kept for the embeddings do not arrive at the same rows of the "
            f"second pass (mean cosine {cosine:.2f}): they go to other rows, chunks or views."
        )
        change = "Hand out gradients in the order of rows: zip chunks and column.grad.split(size)."
    elif share < SOME_ROWS:
        finding = (
            f"The second pass of the gradient cache embeds {percent(share)} of the rows: the "
            "others get no gradient."
        )
        change = "Embed every chunk of every view once more, each with its kept gradient."
    else:
        return None
    name = "gradients of other rows"
    return Verdict("Gradient", WATCH, finding, change, name, "score-does-not-rise", evidence)


def empty_steps(history: History) -> Verdict | None:
    """Judge whether gradients are there when the optimizer makes its step."""
    empty, sizes = late_values(history, EMPTY), values_of(history, ARRIVING)
    own = values_of(history, OWN_GRADIENT)
    if own and not any(own):
        return None  # `own_gradient` says why
    # Where the loss is 0, as once a margin is met, no gradient is due.
    losses = late_values(history, BATCH_LOSS, missing=math.nan)
    empty = [share for share, loss in zip(empty, losses, strict=True) if loss]
    if len(empty) < PERSISTENT or not min(empty) > 0:
        return None
    finding = "At the steps of the optimizer all gradients are 0 or missing."
    change = "Call backward() on the loss of the embeddings before optimizer.step()."
    if sizes and min(sizes) > 0 and min(late_values(history, LOST)) > 0:
        finding += (
            " The backward pass brings one to the embeddings, and zeros to the weights: a layer "
            "between them has no derivative, such as a ReLU whose inputs are all below 0, a "
            "saturated activation, or a product with 0."
        )
        change = "Look at the outputs of each layer behind the pooling, and at how it begins."
    elif sizes and min(sizes) > 0:
        finding += " The backward pass brings one, and it is cleared before the step."
        change = "Call optimizer.zero_grad() before backward(), or after optimizer.step()."
    return Verdict("Gradient", BAD, finding, change, "empty steps", "weights-do-not-move",
                   {"share": 1.0})  # fmt: skip


# Movement of the weights, relative to their size, that leaves nothing of an encoder; size of the
# gradient that arrives, relative to that of the loss, from which on the loss was scaled.
BLOWN_UP, SCALED = 10.0, 100.0


def blown_up(history: History) -> Verdict | None:
    """Judge whether steps are many times too large."""
    moved = max(values_of(history, WEIGHTS_MOVED), default=0.0)
    if not moved > BLOWN_UP:
        return None
    sizes = values_of(history, ARRIVING)
    scale = statistics.median(sizes) if sizes else 0.0
    rate = max(values_of(history, RATE), default=0.0)
    # Weights that begin near 0, as low-rank factors and tables of words may, have no size to keep.
    if not scale > SCALED and _falls(_losses(history)):
        return None
    reason = f" The learning rate is {short(rate)}." if rate else ""
    change = "Lower the learning rate by orders of magnitude, and clip the gradient norm at 1."
    if scale > SCALED:
        reason = (
            f" The gradient arrives multiplied by {short(scale)}, as by the scaler of half "
            "precision, and is not divided again."
        )
        change = (
            "Step by scaler.step(optimizer), and call scaler.unscale_(optimizer) before gradients "
            "are clipped; without half precision, leave the scale out."
        )
    finding = f"The weights have moved by {short(moved)} times their own size: steps are too large."
    return Verdict("Weights", BAD, f"{finding}{reason}", change, "weights blown up", "score-falls",
                   {"moved": moved, "scale": scale})  # fmt: skip


# Share of the weights with a gradient that must move, and share of those which stay that no
# optimizer holds where that is why.
STILL, FREE = 0.05, 0.5


def still(history: History) -> Verdict | None:
    """Judge whether weights have a gradient and never move while others do."""
    shares, free = late_values(history, STILL_WEIGHTS), late_values(history, NOT_HELD)
    if len(shares) < PERSISTENT or not min(shares) >= STILL:
        return None
    share = min(shares)
    finding = (
        f"{percent(share)} of the weights have a gradient and never change, while the others move:"
    )
    if free and min(free) >= FREE * share:
        finding += " they are not in the optimizer."
        change = (
            "Give the optimizer all weights that are to be trained, also those that are released "
            "later, or add_param_group; set requires_grad=False for those that stay on purpose."
        )
    else:
        finding += " the optimizer holds them at a rate of 0, or steps are rounded away."
        change = "Give each group of parameters its rate; keep trained weights in float32."
    return Verdict("Weights", WATCH, finding, change, "weights still", "weights-do-not-move",
                   {"share": share})  # fmt: skip


def made_anew(history: History) -> Verdict | None:
    """Judge whether weights are made again with each step."""
    new, count = values_of(history, NEW_WEIGHTS), len(values_of(history, RATE))
    if not count or len(new) < PERSISTENT or len(new) < MOSTLY * (count - 1):
        return None
    return Verdict(
        "Weights",
        WATCH,
        f"In {percent(min(1.0, len(new) / count))} of the records the loss is computed from "
        "weights that did not exist at the record before: a layer, such as a head or class "
        "centres, is made anew in each call, random and not in the optimizer.",
        "Make layers once, in __init__, and give their weights to the optimizer.",
        name="weights made anew",
        symptom="loss-at-chance",
        evidence={"share": len(new) / count},
    )


# Share of a step that may be undone before the next batch.
MOST_UNDONE = 0.5


def undone(history: History) -> Verdict | None:
    """Judge whether what a step has changed is still there at the next batch."""
    shares = late_values(history, UNDONE)
    if len(shares) < PERSISTENT or not statistics.median(shares) >= MOST_UNDONE:
        return None
    share = statistics.median(shares)
    return Verdict(
        "Weights",
        WATCH,
        f"{percent(min(share, 1.0))} of what a step changes is undone before the next batch: "
        "weights are "
        "copied back or overwritten after each step, as by a moving average (EMA), a projection or "
        "a checkpoint that is loaded.",
        "Copy the average into a second model for evaluation, or restore the trained weights after "
        "it.",
        name="steps undone",
        symptom="weights-do-not-move",
        evidence={"share": share},
    )


# Factor between neighbouring learning rates of an encoder: published decays by layer are 0.65 and
# more; a sound run had 0.2, one that learned nothing 0.05.
STEEP = 0.1


def by_layer(history: History) -> Verdict | None:
    """Judge whether learning rates fall too fast from layer to layer."""
    factors = [factor for factor in late_values(history, RATE_FACTOR) if factor > 0]
    if len(factors) < PERSISTENT or not statistics.median(factors) < STEEP:
        return None
    factor = statistics.median(factors)
    return Verdict(
        "Schedule",
        WATCH,
        f"The learning rate falls to {percent(factor)} from each group of parameters to the next: "
        "the lowest layers hardly move.",
        "Let the rate fall to 90 or 95% from layer to layer (a decay of 0.9 or 0.95).",
        name="rates fall by layer",
        symptom="weights-do-not-move",
        evidence={"factor": factor},
    )


# Share of its first norm that half of the matrices have left where they shrink.
SHRUNK = 0.6


def shrinking(history: History) -> Verdict | None:
    """Judge whether something draws the weights towards 0, as a penalty that outweighs the loss."""
    norms = late_values(history, WEIGHTS_NORM)
    late = norms[-PERSISTENT:]
    if len(late) < PERSISTENT or not 0 < min(late) <= max(late) < SHRUNK:
        return None
    share = norms[-1]
    return Verdict(
        "Weights",
        WATCH,
        f"The weights shrink towards zero: half of the matrices have a norm of {percent(share)} of "
        "their first one, or less. A penalty on the weights, added outside the watched loss, or "
        "the weight decay outweighs the loss.",
        "Lower the penalty or the weight decay by some orders of magnitude; 0.01 is usual for the "
        "decay of AdamW.",
        name="weights shrink",
        symptom="score-does-not-rise",
        evidence={"norm": share},
    )


# Weight decay that is larger than any published one of AdamW, and its product with the learning
# rates of all steps, by which weights shrink: Lion is used with a decay of 1 at a low rate. An
# epsilon that is no rounding error beside a gradient.
MUCH_DECAY, SHRINKS, LARGE_EPSILON = 1.0, 0.2, 1e-4


def settings(history: History) -> Verdict | None:
    """Judge weight decay, epsilon and state of the optimizer of a loop of one's own."""
    decays = late_values(history, DECAY)
    if decays and max(decays) >= MUCH_DECAY:
        rates = values_of(history, RATE)
        shrunk = max(decays) * statistics.fmean(rates) * history.last_step()
    else:
        shrunk = 0.0
    if shrunk >= SHRINKS:
        finding = (
            f"Weight decay is {short(max(decays))}; published settings of AdamW use 0 to 0.1. "
            f"Without the loss, it would have shrunk the weights by {percent(-math.expm1(-shrunk))}"
            " in this run."
        )
        return Verdict("Optimizer", WATCH, finding, "Set weight_decay=0.01.", "much weight decay",
                       "score-falls", {"decay": max(decays)})  # fmt: skip
    epsilon = max(late_values(history, EPSILON), default=0.0)
    if epsilon > LARGE_EPSILON:
        finding = (
            f"The epsilon of the optimizer is {short(epsilon)}. It is added to the size of a "
            "gradient, which is smaller: steps are a fraction of the learning rate."
        )
        return Verdict("Optimizer", WATCH, finding, "Set eps=1e-8.", "large epsilon",
                       "weights-do-not-move", {"epsilon": epsilon})  # fmt: skip
    ages = late_values(history, STATE_STEPS)
    if len(ages) >= PERSISTENT and min(ages) > 0:
        finding = (
            "The optimizer is made anew, in each step or epoch: at the records its state is never "
            "older than one step, so that it averages no gradients, or forgets its averages."
        )
        return Verdict("Optimizer", WATCH, finding, "Make the optimizer once, before the loop.",
                       "optimizer made anew", "score-does-not-rise",
                       {"age": max(ages)})  # fmt: skip
    return None


def late_values(history: History, name: str, missing: float = 0.0) -> list[float]:
    """Return the values of the second half of the records; ``missing`` where none was noted."""
    names = {entry.partition(" ")[2] for entry in history.names(TRAIN)
             if entry.split(" ")[0] == RATE}  # fmt: skip
    values = []
    for dataset in names:
        steps = [*history.points(TRAIN, of_dataset(RATE, dataset))]
        points = history.points(TRAIN, of_dataset(name, dataset))
        values += [points.get(step, missing) for step in steps[len(steps) // 2 :]]
    return values


def _losses(history: History) -> list[float]:
    return [value for value in values_of(history, BATCH_LOSS) if math.isfinite(value)]


def _falls(losses: list[float]) -> bool:
    """Whether the loss ends clearly below its first value."""
    ends = ends_of(losses)
    return ends is not None and ends[1] < ends[0] - (1 - LEARNS) * abs(ends[0])


def _noted_together(history: History, first: str, second: str) -> list[tuple[float, float]]:
    """Return the values of two numbers at the steps at which both were noted."""
    pairs = []
    for entry in history.names(TRAIN):
        name, _, dataset = entry.partition(" ")
        if name == first:
            points = history.points(TRAIN, of_dataset(second, dataset))
            values = history.points(TRAIN, entry)
            pairs += [(value, points[step]) for step, value in values.items() if step in points]
    return pairs

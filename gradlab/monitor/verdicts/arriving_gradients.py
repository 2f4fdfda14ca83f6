"""Is the gradient that arrives at embeddings finite, and at which of their dimensions?"""

from __future__ import annotations

import math

from gradlab.monitor.arriving_gradient import ARRIVING, IDLE_DIMENSIONS, OWN_GRADIENT
from gradlab.monitor.metrics import History
from gradlab.monitor.optimizer_step import RATE
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, PERSISTENT, values_of
from gradlab.numbers import percent
from gradlab.verdict import WATCH, Verdict

# Share of the records whose gradient is infinite that is too large: a scaler of half precision
# begins with some.
MOST = 0.4


def infinite(history: History) -> Verdict | None:
    """Judge whether gradients overflow behind a loss whose own are finite."""
    sizes, own = values_of(history, ARRIVING), values_of(history, OWN_GRADIENT)
    share = sum(not math.isfinite(size) for size in sizes) / max(1, len(sizes))
    # Of a loss that is NaN or infinite itself, `failures` says so.
    if len(sizes) < ENOUGH_RECORDS or share <= MOST or not all(map(math.isfinite, own)):
        return None
    finding = (
        f"In {percent(share)} of the records the gradient that arrives at the embeddings is "
        "infinite or NaN, though that of the loss is not: it overflows, as in half precision "
        "(float16) under a large loss scale."
    )
    if not values_of(history, RATE):
        finding += " No optimizer makes a step: the scaler skips all of them."
    change = (
        "Make torch.amp.GradScaler once, before the loop, and call its update() after each step, "
        "so that its scale can fall, or begin with a smaller init_scale; compute in bfloat16 where "
        "you can, which needs no scale."
    )
    return Verdict("Gradient", WATCH, finding, change, "gradient not finite", "weights-do-not-move",
                   {"share": share})  # fmt: skip


# Share of the dimensions that no loss leaves aside on purpose if they are the first ones.
MANY_IDLE = 0.5


def first_dimensions(history: History) -> Verdict | None:
    """Judge whether a loss leaves the first dimensions aside, which shorter vectors consist of."""
    shares = values_of(history, IDLE_DIMENSIONS)
    if len(shares) < PERSISTENT or not min(shares) > MANY_IDLE:
        return None
    share = min(shares)
    finding = (
        f"The loss has no gradient at the first {percent(share)} of the dimensions, and one at all "
        "others: it uses a slice from the end of the embeddings, and truncated vectors keep the "
        "first dimensions."
    )
    return Verdict("Gradient", WATCH, finding, "Slice the first dimensions: rows[:, :d].",
                   "first dimensions idle", "short-vectors-score-worse",
                   {"share": share})  # fmt: skip

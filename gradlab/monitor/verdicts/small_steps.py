"""Why do steps of the optimizer move the weights so little, and which weights do they move at all?

Verdicts that are given only beside a bad outcome of a run name its cause, and never a bad run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from gradlab.monitor.arriving_gradient import ARRIVING, OWN_GRADIENT
from gradlab.monitor.metrics import TRAIN, History
from gradlab.monitor.movement import WEIGHTS_MOVED
from gradlab.monitor.optimizer_step import GRADIENT_LEFT, OTHER_OPTIMIZER, RATE, RATE_SHARE
from gradlab.monitor.setting_advice import USUAL_RATES
from gradlab.monitor.step_effect import DESCENDS, STEP_SIZE, WAITED
from gradlab.monitor.trained_part import HEAD_ONLY, NO_MATRIX, TRAINED
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, PERSISTENT, values_of
from gradlab.monitor.verdicts.steps import SCALED, late_values
from gradlab.numbers import percent, short
from gradlab.verdict import WATCH, Verdict

STILL = "weights-do-not-move"
GIVE_WEIGHTS = (
    "Give the optimizer the parameters of the encoder that is called: make it after the encoder is "
    "copied, loaded, or given heads or adapters."
)
# Gradients of which less than this share is left at the step move nothing in plain SGD.
CLIPPED = 0.01


def why_still(history: History, settings: Mapping[str, Any], moved: float) -> tuple[str, str]:
    """Return why weights hardly move, as far as is known, and what to change.

    Args:
        history: the recorded run.
        settings: those of the trainer.
        moved: how far weights have moved, relative to their size.
    """
    rates = [*_finite(history, "learning_rate"), *values_of(history, RATE)]
    rate, norms = max(rates, default=math.nan), _finite(history, "grad_norm")
    plain_sgd, clip = str(settings.get("optim", "")) == "sgd", settings.get("max_grad_norm")
    norm = statistics.median(norms) if norms else math.nan
    if norms and not any(norms):
        return (
            "The norm of the gradient is 0.",
            "Let a gradient reach the encoder: look for detach, torch.no_grad and frozen weights.",
        )
    if not moved and (without_step := _without_step(history)):
        return without_step
    if plain_sgd and isinstance(clip, int | float) and 0 < clip < CLIPPED * norm:
        return (
            f"Gradients of norm {short(norm)} are clipped to max_grad_norm={clip:g} before SGD.",
            "Set max_grad_norm=1, or use AdamW, which rescales gradients.",
        )
    if (clipped := _clipped(history)) is not None:
        return clipped
    if (factor := rate_for_factor(history)) is not None:
        return factor
    if _scaled_down(history):
        share, rate = max(values_of(history, RATE_SHARE)), max(values_of(history, RATE))
        return (
            f"The learning rate is at most {rate:.1g}, {short(share)} of the one that was set: "
            "the schedule multiplies it by a small factor.",
            "Let the factors of the schedule be 1 at the most, and reach 1 after the warm-up.",
        )
    if plain_sgd or (moved and values_of(history, DESCENDS)):
        name = "SGD" if plain_sgd else "An optimizer such as SGD or Adagrad"
        return (
            f"{name} multiplies the gradient by the learning rate, at most {rate:.1g} here.",
            "Use AdamW at that learning rate, or raise the learning rate of SGD to 0.01 or more.",
        )
    low = f"The learning rate was at most {rate:.1g}." if rate == rate else ""
    if moved:
        own = ", and by SGD at 0.01 or more; check what clipping leaves of the gradient"
        return low, f"Raise the learning rate: {USUAL_RATES}{'' if 'optim' in settings else own}."
    return (
        low,
        "Check that the learning rate is above 0, that the encoder's weights require gradients and "
        "are in the optimiser, and that the embeddings are not detached.",
    )


# A share of the set rate that is that rate itself, apart from rounding.
SAME = 1.1


def rate_for_factor(history: History) -> tuple[str, str] | None:
    """Return that a schedule gives a rate by which the rate is multiplied, if that is so."""
    shares, rates = values_of(history, RATE_SHARE), values_of(history, RATE)
    share = max(shares, default=0.0)
    if len(shares) < ENOUGH_RECORDS or not 0 < share < 1 / SAME:
        return None
    as_set = max(rates) / share
    if not as_set / SAME < share < as_set * SAME:
        return None
    return (
        f"The learning rate is at most {max(rates):.1g}, {share:.1g} of the {as_set:.1g} that was "
        "set: the schedule returns a rate, by which the rate is multiplied once more.",
        "Let the function of LambdaLR return a factor between 0 and 1.",
    )


# Movement of the weights in a run, relative to their size, that is little: sound runs have 0.0097
# and more, most of them 0.02, and SGD 0.033. Sum of the steps up to which it is their size, and not
# their directions, that keeps it little. Largest rate that is low for an optimizer whose steps grow
# with the gradient: those of sound runs are 0.005 and more.
LITTLE, SHORT_WAY, LOW_RATE = 0.01, 0.02, 2e-3


def too_slow(history: History, settings: Mapping[str, Any], suffers: bool) -> Verdict | None:
    """Judge whether steps are too small, beside a bad outcome, as ``suffers`` says, or surely."""
    moved, sizes = values_of(history, WEIGHTS_MOVED), values_of(history, STEP_SIZE)
    if len(moved) < ENOUGH_RECORDS or len(sizes) < ENOUGH_RECORDS:
        return None
    if not any(values_of(history, OWN_GRADIENT)):
        return None  # `steps.own_gradient` says why
    is_low = max(values_of(history, RATE), default=math.inf) < LOW_RATE
    descends = bool(values_of(history, DESCENDS))
    is_sure = descends and (is_low or _clipped(history) is not None)
    if not (suffers or is_sure or _scaled_down(history)):
        return None
    sizes = [size for size in sizes if math.isfinite(size)]
    total = statistics.fmean(sizes or [math.inf]) * history.last_step()
    if not 0 < max(moved) < LITTLE or not total < SHORT_WAY:
        return None
    reason, change = why_still(history, settings, max(moved))
    finding = (
        f"The steps are very small: the weights have moved by {max(moved):.1g} of their size in "
        "the whole run."
    )
    return Verdict("Optimizer", WATCH, f"{finding} {reason}".strip(), change,
                   "steps too small", STILL, {"moved": max(moved)})  # fmt: skip


# Share of the weights of an encoder that is few.
FEW = 0.1


def few_trained(history: History, suffers: bool) -> Verdict | None:
    """Judge whether few weights are trained, and little, or where ``suffers`` says it is bad."""
    shares, moved = late_values(history, TRAINED, missing=1.0), values_of(history, WEIGHTS_MOVED)
    if len(shares) < PERSISTENT:
        return None
    share, has_no_matrix = max(shares), min(late_values(history, NO_MATRIX)) > 0
    # The movement of biases that begin at 0 is not known.
    is_slow = max(moved, default=math.inf) < LITTLE
    if not suffers and not (is_slow and (has_no_matrix or share < FEW)):
        return None
    unfreeze = (
        "If the others are not frozen on purpose, set requires_grad=True on them, and give them to "
        "the optimizer; look at what a filter of names or an earlier phase has frozen. Else raise "
        "the learning rate to that of adapters, 1e-4 to 1e-3, or train for longer."
    )
    if has_no_matrix:
        finding = (
            "Of the encoder only biases and scales are trained"
            f"{f', {percent(share)} of its weights' if share < 1 else ''}: all matrices are "
            "frozen, that is, they require no gradient."
        )
    elif min(late_values(history, HEAD_ONLY)) > 0 and share < 1:
        finding = (
            f"Only {percent(share)} of all weights are trained, those of the modules behind the "
            "transformer, which is frozen, that is, its weights require no gradient."
        )
    elif min(late_values(history, HEAD_ONLY)) > 0:
        finding = (
            "Only a head is trained: by the graph of the loss, no gradient goes to an encoder "
            "before it, which is frozen or called under torch.no_grad() or by encode()."
        )
        unfreeze = (
            "Call the encoder with gradient, and give its weights to the optimizer. If it is "
            "frozen on purpose, make the head larger, or train it for longer."
        )
    elif share < FEW:
        finding = (
            f"Only {percent(share)} of the weights of the encoder are trained: the others are "
            "frozen, that is, they require no gradient."
        )
    else:
        return None
    return Verdict("Weights", WATCH, finding, unfreeze, "few weights trained", STILL,
                   {"share": share})  # fmt: skip


def _without_step(history: History) -> tuple[str, str] | None:
    """Return that no optimizer which holds the weights makes a step, if that is so."""
    waited = values_of(history, WAITED)
    if len(waited) < PERSISTENT or values_of(history, RATE):
        return None
    if values_of(history, OTHER_OPTIMIZER):
        return (
            "An optimizer makes steps, and it holds none of the weights that the loss is computed "
            "from.",
            GIVE_WEIGHTS,
        )
    return (
        "No optimizer has made a step after any record.",
        "Call optimizer.step() after backward(). Where gradients are accumulated, step after fewer "
        "batches than an epoch has; a scaler of half precision leaves steps out where gradients "
        "are infinite.",
    )


# Share of the rate that was set which is hardly any, where it is all that a schedule leaves.
HARDLY_ANY = 0.05


def _scaled_down(history: History) -> bool:
    """Whether a schedule leaves hardly any of the rate that was set, in the whole run."""
    shares = values_of(history, RATE_SHARE)
    return len(shares) >= ENOUGH_RECORDS and 0 < max(shares) < HARDLY_ANY


def _clipped(history: History) -> tuple[str, str] | None:
    """Return that a gradient is clipped or divided before the step, if little of it is left."""
    shares, sizes = values_of(history, GRADIENT_LEFT), values_of(history, ARRIVING)
    if len(shares) < ENOUGH_RECORDS:
        return None
    scale = statistics.median(sizes) if sizes else 1.0
    # Of the gradient of the loss itself, where a scale is taken out again.
    left = statistics.median(shares) * max(1.0, scale)
    if not left < CLIPPED:
        return None
    reason = (
        f"Of the gradient of the loss {left:.1g} is left at the step: it is clipped or divided "
        "after backward()."
    )
    if scale > SCALED:
        return (
            f"The gradient arrives multiplied by {short(scale)}, as by the scaler of half "
            f"precision. {reason}",
            "Call scaler.unscale_(optimizer) before gradients are clipped: else they are clipped "
            "with the scale, and divided by it afterwards.",
        )
    return reason, "Clip the norm of the gradient at 1, and leave out other factors."


def _finite(history: History, name: str) -> list[float]:
    return [value for value in history.series(TRAIN, name)[1] if math.isfinite(value)]

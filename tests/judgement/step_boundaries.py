"""Runs on either side of limits on steps, rates and gradients, as `titled_runs.Run`."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import Row
from tests.judgement.run_boundaries import (
    APART,
    COUNT,
    LOG_8,
    Series,
    at_once,
    frozen,
    own,
    steadily,
)
from tests.judgement.titled_runs import Run

RATE = 5e-4
STEPS = APART | {"optimizer_rate": RATE}
ARRIVES = STEPS | {"arriving_gradient": 1.0}
BLOWN = {"weights_moved": at_once(0.0, 14.0)}


def zeros(count: int) -> list[float]:
    """Gradients of which so many at the end are 0."""
    return [0.1] * (COUNT - count) + [0.0] * count


def noted(name: str, count: int) -> Series:
    """A number that is noted in the last records only; of each step there is a rate."""
    return STEPS | {name: [1.0] * count}


def rising(end: int) -> list[float]:
    """A rate that rises until a record."""
    return [RATE * min(1.0, at / end) for at in range(COUNT)]


def saw(peak: float, falls_to: float, falls: int) -> Series:
    """A rate that rises slowly and falls at once, so many times."""
    teeth = [peak * (falls_to + (1 - falls_to) * at / 7) for at in range(8)] * falls
    return STEPS | {"rate_share": [*teeth, *[peak * falls_to] * (COUNT - len(teeth))]}


def outweighed(cosine: float, size: float, last: float = 2.0) -> Series:
    """A gradient that arrives with others, and a loss that goes from 1 to its last value."""
    arriving = {"arriving_cosine": cosine, "arriving_gradient": size}
    return STEPS | arriving | {"batch_loss": steadily(1.0, last)}


def decay(rate: float) -> Series:
    return APART | {"optimizer_rate": rate, "weight_decay": 10.0}


def scaled(scale: float, shorter: float) -> Series:
    """A softmax whose loss changes by so much with a cosine."""
    options: dict[str, Any] = own(8, 0.0, LOG_8, scale, 0.0)
    options["watch"]["trials"][""] |= {"shorter": shorter}
    return APART | options


def close(first: tuple[float, float], last: tuple[float, float], loss: float = 1.0) -> Series:
    """Cosines of positives and of others in the first record and later, and a loss of 1 first."""
    return {
        "positive_cosine": at_once(first[0], last[0]), "effective_rank": 20.0,
        "negative_cosine": at_once(first[1], last[1]), "batch_loss": at_once(1.0, loss),
        "weights_moved": steadily(0.0, 0.05),
    }  # fmt: skip


MET = [0.1] * 6 + [0.0] * 34  # a number that is 0 once a margin is met
LITTLE = (0.5, 0.46), (0.5, 0.46)
STEP_RUNS = [
    Run("a loss of the tokens", STEPS | {"embedding_gradient": 0.0, "embeddings_unused": 1.0},
        "Gradient", "bad", "sentence_embedding"),
    Run("a clamped loss", STEPS | {"embedding_gradient": 0.0}, "Gradient", "bad", "clamped"),
    Run("a clamped loss and its steps", STEPS | {"embedding_gradient": 0.0, "empty_step": 1.0},
        "Gradient", "bad", "clamped"),
    Run("a hinge that is fulfilled", STEPS | {"embedding_gradient": zeros(34)}, "Gradient", ""),
    Run("a second view without gradient in 28 records", STEPS | {"embedding_gradient": 0.1,
        "second_view_gradient": zeros(28)}, "Gradient", ""),
    Run("a second view without gradient in 34 records", STEPS | {"embedding_gradient": 0.1,
        "second_view_gradient": zeros(34)}, "Gradient", "watch", "second column is not used"),
    Run("views without gradient where a margin is met",
        STEPS | dict.fromkeys(("embedding_gradient", "second_view_gradient"), MET), "Gradient", ""),
    Run("steps without gradients where a margin is met", STEPS | {
        "empty_step": [0.0] * 6 + [1.0] * 34, "batch_loss": MET}, "Gradient", ""),
    Run("steps without gradients, and few losses", STEPS | {
        "empty_step": 1.0, "batch_loss": [1.0] * 3}, "Gradient", "bad"),
    Run("a gradient of something else", ARRIVES | {"arriving_cosine": 0.07}, "Gradient", "watch",
        "another loss or term"),
    Run("a loss among others", ARRIVES | {"arriving_cosine": 0.14}, "Gradient", ""),
    Run("a loss that a term outweighs", outweighed(0.3, 3.0), "Gradient", "watch", "outweighs it"),
    Run("a loss that a term does not outweigh", outweighed(0.6, 3.0), "Gradient", ""),
    Run("a loss beside another one", outweighed(0.3, 1.5), "Gradient", ""),
    Run("a term that outweighs a loss that falls", outweighed(0.3, 3.0, 0.8), "Gradient", ""),
    Run("a gradient a little against the loss", ARRIVES | {"arriving_cosine": -0.4}, "Gradient",
        "watch", "is not that of the watched loss"),
    Run("a loss that is maximised", ARRIVES | {"arriving_cosine": -0.7}, "Gradient", "bad",
        "maximised"),
    Run("a loss that is only logged", STEPS | {"arriving_gradient": 0.0, "arriving_cosine": 0.0},
        "Gradient", "watch", r"backward\(\) is not called"),
    Run("gradients that are cleared", ARRIVES | {"empty_step": 1.0}, "Gradient", "bad", "cleared"),
    Run("steps without gradients", STEPS | {"empty_step": 1.0}, "Gradient", "bad",
        r"Call backward\(\)"),
    Run("weights that move by 7 of their size", {"weights_moved": at_once(0.0, 7.0)}, "Weights",
        ""),
    Run("weights that move by 14 of their size", STEPS | BLOWN, "Weights", "bad",
        "rate is 5e.4"),
    Run("a loss that is multiplied by 70", BLOWN | {"arriving_gradient": 70.0}, "Weights", "bad",
        "^(?!.*scaler)"),
    Run("a loss that is scaled by 140", BLOWN | {"arriving_gradient": 140.0}, "Weights", "bad",
        "multiplied by 140.*scaler"),
    Run("3.5% of the weights stay", STEPS | {"still_weights": 0.035}, "Weights", ""),
    Run("7% of the weights stay", STEPS | {"still_weights": 0.07, "weights_not_held": 0.03},
        "Weights", "watch", "a rate of 0"),
    Run("7% of the weights are not held", STEPS | {"still_weights": 0.07,
        "weights_not_held": 0.05}, "Weights", "watch", "not in the optimizer"),
    Run("new weights in 28 records", noted("new_weights", 28), "Weights", ""),
    Run("new weights in 36 records", noted("new_weights", 36), "Weights", "watch", "made anew"),
    Run("a third of a step is undone", STEPS | {"step_undone": 0.35}, "Weights", ""),
    Run("two thirds of a step are undone", STEPS | {"step_undone": 0.7}, "Weights", "watch",
        "70% of what a step changes"),
    Run("a decay of .14 by layer", STEPS | {"rate_factor": 0.14}, "Schedule", ""),
    Run("a decay of .07 by layer", STEPS | {"rate_factor": 0.07}, "Schedule", "watch", "to 7"),
    Run("a weight decay of 10 at a low rate", decay(3.6e-4), "Optimizer", ""),
    Run("a weight decay of 10", decay(7.2e-4), "Optimizer", "watch", "by 24%"),
    Run("an epsilon of 7e-5", STEPS | {"epsilon": 7e-5}, "Optimizer", ""),
    Run("an epsilon of 1.4e-4", STEPS | {"epsilon": 1.4e-4}, "Optimizer", "watch", "epsilon"),
    Run("an optimizer of each step", STEPS | {"state_steps": 1.0}, "Optimizer", "watch", "anew"),
    Run("a rate that rises to the end", APART | {"optimizer_rate": rising(39)}, "Schedule",
        "watch", "still rises"),
    Run("a rate that rises for 30 of 40 records", APART | {"optimizer_rate": rising(30)},
        "Schedule", "watch", "still rises"),
    Run("a rate that rises for 28 of 40 records", APART | {"optimizer_rate": rising(28)},
        "Schedule", ""),
    Run("a warm-up far from its end", APART | {"optimizer_rate": rising(39), "rate_share": 0.2},
        "Schedule", "watch", "20% of the rate that was set"),
    Run("a warm-up to .35 that begins again", saw(0.35, 0.35, 3), "Schedule", "watch",
        "begins again 3 times"),
    Run("a warm-up to .7 that begins again", saw(0.7, 0.35, 3), "Schedule", ""),
    Run("a rate that swings", saw(0.35, 0.7, 3), "Schedule", "watch", "never more than 35%"),
    Run("a warm-up that begins again once", saw(0.35, 0.35, 1), "Schedule", ""),
    Run("a temperature of .0067", scaled(150.0, 150.0), "Formula", ""),
    Run("a temperature of .0033", scaled(300.0, 300.0), "Formula", "watch", "twice"),
    Run("dot products of long embeddings", scaled(300.0, 75.0), "Formula", ""),
    Run("labels without a part", APART | {"watch": {"trials": {"": {"labels_ignored": 1.0}},
        "known": {"": False}}}, "Formula", "bad", "labels are exchanged"),
    Run("close cosines and a loss that falls by 13%", close(*LITTLE, 0.87), "Spread", "watch",
        "Train longer"),
    Run("close cosines and a loss that falls by 7%", close(*LITTLE, 0.93), "Spread", "watch",
        "The loss does not fall either"),
    Run("sentences that come together by 40%", close((0.6, 0.5), (0.72, 0.7)), "Spread", "watch",
        "lower the learning rate"),
    Run("sentences that come together by 60%", close((0.6, 0.5), (0.82, 0.8)), "Spread", "watch",
        "drawn together"),
    Run("sentences drawn together by 60% like views", close(LITTLE[0], (0.82, 0.78), 0.8), "Spread",
        "watch", "read to the words by which they differ"),
    Run("sentences drawn together by 30% like views", close(LITTLE[0], (0.68, 0.64), 0.8),
        "Spread", "watch", "Train longer"),
    Run("a loss that falls while pairs come apart", close((0.6, 0.5), (0.52, 0.5), 0.2), "Spread",
        "watch", "order of its arguments"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in STEP_RUNS
    ]  # fmt: skip

"""Runs on either side of limits on how little weights move, and on how few of them are trained."""

from __future__ import annotations

import math

from tests.judgement.case import Row
from tests.judgement.run_boundaries import APART, COUNT, Series, at_once, frozen, steadily
from tests.judgement.step_boundaries import ARRIVES
from tests.judgement.titled_runs import Run, of_scores

LAST_STEP = COUNT - 1
# Sentences that are hardly told apart, in steps that are small.
CLOSE = {"positive_cosine": 0.9, "negative_cosine": 0.88, "effective_rank": 20.0}
OWN = {"embedding_gradient": 1.0, "optimizer_rate": 0.1}


def slow(moved: float = 0.007, way: float = 0.01) -> Series:
    """Weights that move by so much in a run, by steps that add up to so much."""
    return OWN | {"weights_moved": at_once(0.0, moved), "step_size": way / LAST_STEP}


def descending(rate: float, left: float = 0.0) -> Series:
    """Steps of SGD in a run that tells sentences apart; what is left of its gradient, if little."""
    clipped = {"gradient_left": left, "arriving_gradient": 1.0} if left else {}
    return APART | slow() | {"steps_of_gradient": 1.0, "optimizer_rate": rate} | clipped


def falling_from(share: float, rate: float) -> Series:
    """A rate that falls from a share of the one that was set."""
    shares = steadily(share, 0.6 * share)
    return APART | {"rate_share": shares, "optimizer_rate": [rate * part for part in shares]}


def scaled_down(share: float) -> Series:
    """A rate that falls from a small share of the one that was set, 0.3, and small steps."""
    return slow() | falling_from(share, 0.3)


def overflowing(count: int) -> Series:
    """Gradients of which so many are infinite as they arrive."""
    return APART | OWN | {
        "arriving_cosine": 1.0, "arriving_gradient": [math.inf] * count + [1.0] * (COUNT - count),
    }  # fmt: skip


def of_others(count: int) -> Series:
    """A model that is loaded anew, and an optimizer that steps without it."""
    return APART | {"weights_moved": [0.0] * 3, "other_optimizer": [1.0] * count,
                    "batches_without_step": [1.0] * count}  # fmt: skip


FEW = APART | OWN | {"weights_moved": at_once(0.0, 0.007), "trained_share": 0.07}
HEAD = CLOSE | OWN | {"weights_moved": at_once(0.0, 0.5), "head_only_trained": 1.0}
SCALED = CLOSE | slow() | {"arriving_gradient": 4096.0, "gradient_left": 1e-7}
SMALL_STEP_RUNS = [
    Run("small steps", CLOSE | slow(), "Optimizer", "watch", "by 0.007 of their size"),
    Run("small steps of sentences apart", APART | slow(), "Optimizer", ""),
    Run("steps of twice the size", CLOSE | slow(moved=0.014), "Optimizer", ""),
    Run("steps that add up to 0.014", CLOSE | slow(way=0.014), "Optimizer", "watch"),
    Run("steps that add up to 0.028", CLOSE | slow(way=0.028), "Optimizer", ""),
    Run("SGD at a low rate", descending(1.4e-3), "Optimizer", "watch", "SGD to 0.01 or more"),
    Run("SGD at a rate that is not low", descending(2.8e-3), "Optimizer", ""),
    Run("SGD with 0.7% of the gradient", descending(0.1, 7e-3), "Optimizer", "watch",
        "0.007 is left at the step"),
    Run("SGD with 1.4% of the gradient", descending(0.1, 0.014), "Optimizer", ""),
    Run("clipped with the scale", SCALED, "Optimizer", "watch", r"unscale_\(optimizer\) before"),
    Run("a rate as its own factor", falling_from(2.1e-3, 2e-3), "Schedule", "watch",
        "multiplied once more"),
    Run("a factor near the rate", falling_from(3e-3, 2e-3), "Schedule", ""),
    Run("7% of the weights trained a little", FEW, "Weights", "watch", "Only 7.0% of the weights"),
    Run("14% of the weights trained a little", FEW | {"trained_share": 0.14}, "Weights", ""),
    Run("7% of the weights trained", FEW | {"weights_moved": at_once(0.0, 0.014)}, "Weights", ""),
    Run("7% of the weights trained in vain", FEW | CLOSE | {"weights_moved": at_once(0.0, 0.014)},
        "Weights", "watch", "Only 7.0% of the weights"),
    Run("biases trained a little", FEW | {"no_matrix_trained": 1.0}, "Weights", "watch",
        "only biases and scales are trained, 7.0%"),
    Run("biases of a loop", {**HEAD, "no_matrix_trained": 1.0}, "Weights", "watch",
        "only biases and scales are trained: all"),
    Run("a head of a loop", HEAD, "Weights", "watch", r"called under torch.no_grad\(\)"),
    Run("a head of a loop that learns", HEAD | APART, "Weights", ""),
    Run("a head behind a transformer", HEAD | {"trained_share": 0.2}, "Weights", "watch",
        "modules behind the transformer"),
    Run("a margin that falls to a third", APART | {"learned_margin": steadily(0.3, 0.1, 0.1)},
        "Weights", "watch", "from 0.3 to 0.1"),
    Run("a margin that falls to 70%", APART | {"learned_margin": steadily(0.3, 0.21, 0.21)},
        "Weights", ""),
    Run("a gradient that overflows in 20 records", overflowing(20), "Gradient", "watch",
        "is infinite or NaN"),
    Run("a gradient that overflows in 12 records", overflowing(12), "Gradient", ""),
    Run("a gradient that overflows like its loss",
        overflowing(20) | {"embedding_gradient": math.inf}, "Gradient", ""),
    Run("new weights without an optimizer", APART | {"new_weights": [1.0] * 5}, "Weights", ""),
    Run("a model that no optimizer has", of_others(8), "Progress", "watch", "holds none of the"),
    Run("a model that no optimizer has at first", of_others(7), "Progress", ""),
    Run("no step at all", ARRIVES | {"weights_moved": 0.0, "optimizer_rate": [],
                                     "batches_without_step": [1.0] * 3},
        "Progress", "watch", "No optimizer has made a step"),
    Run("a step after 2 records", ARRIVES | {"weights_moved": 0.0, "optimizer_rate": [],
                                             "batches_without_step": [1.0] * 2},
        "Progress", "watch", "Check that the learning rate"),
    Run("gradients that are lost on their way", ARRIVES | {"empty_step": 1.0, "gradient_lost": 1.0},
        "Gradient", "bad", "zeros to the weights"),
    Run("a loss of the last 30% of the dimensions", ARRIVES | {"idle_dimensions": 0.7},
        "Gradient", "watch", "first 70% of the dimensions"),
    Run("a loss of the last 60% of the dimensions", ARRIVES | {"idle_dimensions": 0.4},
        "Gradient", ""),
    Run("a schedule that leaves 3.5% of the rate", scaled_down(0.035), "Optimizer", "watch",
        "0.035 of the one that was set"),
    Run("a schedule that leaves 7% of the rate", scaled_down(0.07), "Optimizer", ""),
    Run("scores that may be exchanged", of_scores(at_right_angles=2.5, scores_exchangeable=1.0),
        "Formula", "bad", "broadcast"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in SMALL_STEP_RUNS
    ]  # fmt: skip

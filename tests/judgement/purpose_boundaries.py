"""Runs whose sign of a fault has another reason, and how far it goes, as `titled_runs.Run`."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import Row
from tests.judgement.pairing_boundaries import indifferent, tried
from tests.judgement.run_boundaries import APART, COUNT, Series, at_once, frozen, halves, steadily
from tests.judgement.step_boundaries import ARRIVES, BLOWN, STEPS
from tests.judgement.titled_runs import Run


def knowing(**values: Any) -> Series:
    """What is known of a loss of one's own, in place of its values on known batches."""
    return {"watch": {"trials": {"": values}, "known": {"": False}}}


def returning(end: float) -> Series:
    """Weights that go back to nothing twice on their way to ``end``, from 0.1 of their size."""
    moved = [0.0, 0.05, 0.1, 0.01, 0.1, 0.01]
    return STEPS | {"weights_moved": [*moved, *[end] * (COUNT - len(moved))]}


def likelihood(**series: Any) -> Series:
    """A criterion that is largest for right pairs, and its steps."""
    numbers = {"solved": 0.0, "alike": -2.1, "wrong": -20.0, "after_next": -20.0, "drawn": -4.5}
    return ARRIVES | tried(**numbers, exchanged=-4.6, reordered=-4.5) | series


ALIKE = APART | {"positive_cosine": 1.0}
NOTHING = APART | {"batch_loss": 0.0}
ALTERNATING = APART | {"alternating_rows": 0.8}
DEAD = STEPS | {"embedding_gradient": 0.0}
LOST = {"positive_cosine": at_once(0.6, 0.8), "gradient_dissipation": halves(0.5, 0.0),
        "active": halves(1.0, 0.0)}  # fmt: skip
PURPOSE_RUNS = [
    Run("one view of rows with labels", ALIKE | knowing(rows_have_labels=1.0), "Batch", ""),
    Run("one view, of which a loss makes two", ALIKE | knowing(own_noise=1.0), "Batch", ""),
    Run("one view of a loss of other rows", ALIKE | knowing(solved=2.0, alike=2.0), "Batch", ""),
    Run("one view of a loss of pairs", ALIKE | knowing(solved=1.9, alike=2.0), "Batch", "bad"),
    Run("a loss of gathered pairs", indifferent(0.0, gathered=2.0, gathered_exchanged=2.00001),
        "Formula", ""),
    Run("a loss that heeds no pairs", indifferent(0.0, gathered=2.0, gathered_exchanged=2.000001),
        "Formula", "bad"),
    Run("a loss of anchors and a third column", indifferent(0.0, targets_in_third_column=1.0),
        "Formula", ""),
    Run("rows that are drawn to a third column", APART | {"gradient_dissipation": -1.0}
        | knowing(targets_in_third_column=1.0), "Learning", "not judged", "targets"),
    Run("rows that are drawn to negatives", APART | {"gradient_dissipation": -1.0}, "Learning",
        "bad", "reversed"),
    Run("a likelihood that is maximised", likelihood(arriving_cosine=-1.0), "Formula",
        "not judged", "as an objective is"),
    Run("a likelihood of which steps go uphill", likelihood(step_cosine=-0.3), "Formula",
        "not judged"),
    Run("a likelihood that is minimised", likelihood(), "Formula", "bad", "reversed"),
    Run("a likelihood whose steps are turned twice", likelihood(arriving_cosine=-1.0,
        step_cosine=-0.3), "Formula", "bad"),
    Run("one loss above 0", NOTHING | {"batch_loss": at_once(0.1, 0.0)}, "Loss", "watch",
        "nearly all"),
    Run("losses of 0 while weights move", NOTHING | {"weights_moved": steadily(0.0, 0.0014)},
        "Loss", "watch"),
    Run("losses of 0 without movement", NOTHING | {"weights_moved": steadily(0.0, 0.0007)}, "Loss",
        "bad"),
    Run("no gradient of losses of 0", DEAD | {"batch_loss": 0.0}, "Gradient", "watch"),
    Run("no gradient of losses of 1", DEAD | {"batch_loss": 1.0}, "Gradient", "bad"),
    Run("a hinge that ends at a penalty", APART | LOST | {"batch_loss": [1.0] * 20 + [0.1] * 20},
        "Learning", "not judged", "least it can be"),
    Run("a hinge that ends above its least", APART | LOST | {"batch_loss": [1.0] * 20 + [0.1]
        + [0.2] * 19}, "Learning", "bad", "vanished"),
    Run("negatives that push no more beside a pull", APART | LOST | STEPS
        | {"embedding_gradient": 0.1, "batch_loss": steadily(1.0, 0.5)}, "Learning", "not judged",
        "its pull"),
    Run("signs whose gradient goes straight through", tried(stretched=4.5, by_entries=4.5),
        "Formula", ""),
    Run("columns of the length 1", tried(stretched=4.5, by_entries=4.4), "Formula", "bad",
        "along the batch"),
    Run("a rate of 0 and steps of the loop", STEPS | {"optimizer_rate": 0.0, "weights_moved":
        steadily(0.0, 1.4e-4)}, "Schedule", ""),
    Run("a rate of 0 and no steps", STEPS | {"optimizer_rate": 0.0, "weights_moved":
        steadily(0.0, 0.7e-4)}, "Schedule", "bad"),
    Run("texts with two partners each", ALTERNATING | {"equal_texts": 0.83}, "Batch", ""),
    Run("alternating texts, many of them equal", ALTERNATING | {"equal_texts": 0.77}, "Batch",
        "bad"),
    Run("far steps from small weights", STEPS | BLOWN | {"batch_loss": at_once(1.0, 0.87)},
        "Weights", ""),
    Run("far steps from small weights, in vain", STEPS | BLOWN | {"batch_loss": at_once(1.0,
        0.93)}, "Weights", "bad"),
    Run("trials of a line search", returning(0.22), "Weights", ""),
    Run("weights that are loaded again", returning(0.18), "Weights", "watch", "went back"),
    Run("sentences with one embedding", APART | {"negative_cosine": at_once(0.5, 1 - 0.7e-6),
        "positive_cosine": 1 - 0.7e-6, "effective_rank": at_once(20.0, 1.0)}, "Spread", "bad"),
    Run("sentences with nearly one embedding", APART | {"negative_cosine":
        at_once(0.5, 1 - 1.4e-6), "positive_cosine": 1 - 1.4e-6,
        "effective_rank": at_once(20.0, 1.0)}, "Spread", "watch", "An evaluator"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in PURPOSE_RUNS
    ]  # fmt: skip

"""Runs on either side of limits on what is left out of a batch, or moves weights beside a step."""

from __future__ import annotations

from tests.judgement.case import Row
from tests.judgement.run_boundaries import APART, COUNT, Series, frozen
from tests.judgement.step_boundaries import STEPS, zeros
from tests.judgement.titled_runs import LABELLED, Run, few


def places(idle: float, busy: float) -> Series:
    """Places without a gradient in all records, and records with one at the others."""
    return APART | {"idle_places": idle, "busy_places": busy}


def by_rank(share: float, wrong: float, right: float) -> Series:
    """Rows whose positive is not the nearest, and rows without gradient of these and of others."""
    return APART | {"wrong_rows": share, "wrong_rows_idle": wrong, "right_rows_idle": right}


def alone(share: float, none: int, count: int = COUNT) -> Series:
    """Rows alone with their class, and records without a gradient."""
    sizes = zeros(none)[COUNT - count :]
    return few(count, **APART, rows_alone_in_class=share) | {"embedding_gradient": sizes}


def texts(share: float, count: int = COUNT) -> Series:
    """Texts without gradient, in so many records."""
    return APART | {"idle_texts": [share] * count}


ROW_RUNS = [
    Run("a loss of a quarter of the rows", places(0.73, 1.0), "Batch", "watch", "same few rows"),
    Run("a loss of a third of the rows", places(0.67, 1.0), "Batch", ""),
    Run("a loss of a row that often learns", places(0.9, 0.54), "Batch", "watch", "= in place of"),
    Run("a hinge that is nearly fulfilled", places(0.9, 0.46), "Batch", ""),
    Run("a place that learns in the end", APART | {"busy_places": [1.0] * 39,
        "idle_places": [0.9] * 39}, "Batch", ""),
    Run("a loss of one row in 7 records", few(7, **places(0.9, 1.0)), "Batch", ""),
    Run("a loss of one row in 9 records", few(9, **places(0.9, 1.0)), "Batch", "watch"),
    Run("wrong rows that are filtered", by_rank(0.8, 0.77, 0.0), "Gradient", "watch",
        "left out of the loss"),
    Run("wrong rows of which some are filtered", by_rank(0.8, 0.73, 0.0), "Gradient", ""),
    Run("a third of wrong rows, filtered", by_rank(0.33, 0.9, 0.0), "Gradient", "watch"),
    Run("a quarter of wrong rows, filtered", by_rank(0.27, 0.9, 0.0), "Gradient", ""),
    Run("wrong rows filtered, right ones rarely", by_rank(0.8, 0.9, 0.23), "Gradient", "watch"),
    Run("wrong rows filtered, right ones at times", by_rank(0.8, 0.9, 0.27), "Gradient", ""),
    Run("wrong rows filtered in 7 records", few(7, **by_rank(0.8, 0.9, 0.0)), "Gradient", ""),
    Run("wrong rows filtered in 9 records", few(9, **by_rank(0.8, 0.9, 0.0)), "Gradient", "watch"),
    Run("rows with labels that do not fit", by_rank(0.8, 0.9, 0.0) | LABELLED, "Gradient", ""),
    Run("classes once in most batches", alone(0.87, 30), "Batch", "watch", "only one of their"),
    Run("classes once in many batches", alone(0.83, 30), "Batch", ""),
    Run("classes once, half without gradient", alone(0.95, 21), "Batch", "watch"),
    Run("classes once, beside a memory", alone(0.95, 19), "Batch", ""),
    Run("classes once in 7 records", alone(0.95, 30, 7), "Batch", ""),
    Run("classes once in 9 records", alone(0.95, 30, 9), "Batch", "watch"),
    Run("the tokens of one of four texts", texts(0.73), "Batch", "bad", "last_hidden_state"),
    Run("the tokens of one of three texts", texts(0.67), "Batch", ""),
    Run("the tokens of one text in 33 records", texts(0.9, 33), "Batch", "bad"),
    Run("the tokens of one text in 31 records", texts(0.9, 31), "Batch", ""),
    Run("the tokens of one text in a run of 7", few(7, **APART, idle_texts=0.9), "Batch", ""),
    Run("weights moved by hand", STEPS | {"moved_before_step": 2.2}, "Weights", "bad",
        "is not taken back"),
    Run("weights moved a little by hand", STEPS | {"moved_before_step": 1.8}, "Weights", ""),
    Run("weights moved by hand in a run of 3", few(3, **STEPS, moved_before_step=8.0), "Weights",
        ""),
    Run("weights moved by hand in a run of 6", few(6, **STEPS, moved_before_step=8.0), "Weights",
        "bad"),
    Run("the tokens of one text in a run of 9", few(9, **APART, idle_texts=0.9), "Batch", "bad"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in ROW_RUNS
    ]  # fmt: skip

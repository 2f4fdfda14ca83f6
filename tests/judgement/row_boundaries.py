"""Runs on either side of limits on what is left out of a batch, or moves weights beside a step.

Also of positives that are hardly nearer than other rows.
"""

from __future__ import annotations

from tests.judgement.case import Row
from tests.judgement.run_boundaries import (
    APART,
    CONE,
    COUNT,
    LOG_8,
    UNRELATED,
    Series,
    alternately,
    at_once,
    frozen,
    halves,
    own,
)
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


def ranked(accuracy: float | list[float], loss: float = 2.3) -> Series:
    """Cosines of positives like those of others, their ranking accuracy, and a loss from 2.7 on."""
    return UNRELATED | {"ranking_accuracy": accuracy, "batch_loss": at_once(2.7, loss)}


def structured(turned: float = 0.5, exchanged: float = 0.4) -> Series:
    """Positives at chance, and a loss of random rows that is 0.5, by how it heeds their pairs."""
    trial = {"drawn": 0.5, "exchanged": exchanged, "turned_apart": turned}
    return ranked(0.5, 2.5) | {"watch": {"trials": {"": trial}, "known": {"": False}}}


def by_label(order: float | list[float]) -> Series:
    """Positives at chance, and comparisons of pairs by label in order, of a loss that stays."""
    return ranked(0.5, 2.5) | LABELLED | {"label_order": order}


def unbroken(last: float, sentences: int = 16) -> Series:
    """A softmax at a low scale, without components, by its last loss and the rows of a batch."""
    options = own(8, 1.5, LOG_8, 2.5, 1.616)["watch"] | {"sentences": {"": sentences}}
    return APART | {"batch_loss": at_once(2.7, last), "watch": options}


def partners(**numbers: float) -> Series:
    """Partners that go together as by chance, by their words, unless numbers say otherwise."""
    usual = {"rows": 160, "told": 0.5, "strangers": 0.5, "matched": 0.05, "between": 0.4,
             "recurring": 3.0, "within": 1.0}  # fmt: skip
    return APART | {f"partners_{name}": number for name, number in (usual | numbers).items()}


def by_score(fitting: float, fits: float = 0.1, against: float = 0.5) -> Series:
    """Scores of pairs, and a loss where cosines are the scores and where they are the reverse."""
    usual = {"rows": 160, "distinct": 5, "words": 0.0, "foretold": 0.75, "fitting": fitting}
    trial = {"rows_have_labels": 1.0, "as_scored": fits, "at_right_angles": 0.4,
             "against_scores": against}  # fmt: skip
    watch = {"watch": {"trials": {"": trial}, "known": {"": False}}}
    return APART | watch | {f"scores_{name}": number for name, number in usual.items()}


ROW_RUNS = [
    Run("rows like those before that are new", partners(told=0.9, strangers=0.0)
        | {"repeated_rows": 1.0}, "Batch", ""),
    Run("pairs of a loop that were mixed", partners(), "Pairs", "watch", "mixed, shifted"),
    Run("pairs of a loop, with labels", partners() | LABELLED, "Pairs", ""),
    Run("pairs of a loop that belong together", partners(told=0.9, strangers=0.0), "Pairs", ""),
    Run("strangers among the pairs of a loop",
        partners(told=0.7, strangers=0.3, matched=0.4, between=0.2), "Pairs", "watch",
        "60% of the rows"),
    Run("scores that go with the texts", by_score(0.7), "Labels", ""),
    Run("scores that fall with the texts", by_score(-0.7), "Labels", "bad", "reversed"),
    Run("distances for a loss of distances", by_score(-0.7, 0.5, 0.1), "Labels", ""),
    Run("scores for a loss of distances", by_score(0.7, 0.5, 0.1), "Labels", "bad", "reversed"),
    Run("scores of other pairs", by_score(0.0), "Labels", "watch", "no relation to the texts"),
    Run("scores of a loss that heeds none", by_score(-0.7, 0.4, 0.4), "Labels", ""),
    Run("a scale that has grown", unbroken(2.0), "Formula", ""),
    Run("a scale that has not grown", unbroken(2.3), "Formula", "watch", "temperature is too high"),
    Run("a scale that is low for few rows", unbroken(2.0, 8), "Formula", "watch"),
    Run("distances of a teacher", structured(), "Pairs", ""),
    Run("distances of a teacher, close", structured(), "Spread", "not judged", "teacher says"),
    Run("distances of a constant teacher", structured()
        | {"anchor_drift": 0.9, "constant_drift": 0.1}, "Views", ""),
    Run("rows beside a constant view", structured(0.6)
        | {"anchor_drift": 0.9, "constant_drift": 0.1}, "Views", "watch"),
    Run("a loss that heeds a turn by .7e-6", structured(0.5 * (1 + 0.7e-6)), "Pairs", ""),
    Run("a loss that heeds a turn by 1.4e-6", structured(0.5 * (1 + 1.4e-6)), "Pairs", "watch"),
    Run("a loss that heeds no pairs", structured(exchanged=0.5), "Pairs", "watch"),
    Run("56% in the order of labels", by_label(0.56), "Pairs", ""),
    Run("52% in the order of labels", by_label(0.52), "Pairs", "watch"),
    Run("56% in the order of labels, close", by_label(0.56), "Spread", "not judged", "follow"),
    Run("52% in the order of labels, close", by_label(0.52), "Spread", "watch"),
    Run("one point in the order of labels", CONE | LABELLED | {"label_order": 0.56}, "Spread",
        "watch", "follow the labels"),
    Run("one point out of order", CONE | LABELLED | {"label_order": 0.52}, "Spread", "watch",
        "An evaluator would show"),
    Run("in the order of labels at times", by_label(alternately(0.3, 0.9)), "Pairs", "watch"),
    Run("in the order of labels mostly", by_label(alternately(0.5, 0.7)), "Pairs", ""),
    Run("in the order of labels, lost later", by_label(halves(0.8, 0.5)), "Pairs", "watch"),
    Run("in the order of labels, late", by_label(halves(0.5, 0.8)), "Pairs", ""),
    Run("in the order of labels in 8 records", few(8, **UNRELATED, label_order=0.8) | LABELLED,
        "Pairs", "watch"),
    Run("in the order of labels in 9 records", few(9, **UNRELATED, label_order=0.8) | LABELLED,
        "Pairs", ""),
    Run("positives nearer than 62% of others", ranked(0.62), "Pairs", ""),
    Run("positives nearer than 58% of others", ranked(0.58), "Pairs", "watch", "no more alike"),
    Run("pairs learned by heart", ranked(halves(0.5, 0.69)), "Pairs", "watch"),
    Run("positives nearer, lost later", ranked(halves(0.64, 0.57)), "Pairs", "watch"),
    Run("positives nearer, by few percent at first", ranked(halves(0.51, 0.64)), "Pairs", ""),
    Run("positives nearer in unsteady batches", ranked(alternately(0.34, 0.94)), "Pairs", "watch"),
    Run("positives nearer in steadier batches", ranked(alternately(0.54, 0.74)), "Pairs", ""),
    Run("positives nearer in 8 records", few(8, **UNRELATED, ranking_accuracy=0.65), "Pairs",
        "watch"),
    Run("positives nearer in 9 records", few(9, **UNRELATED, ranking_accuracy=0.65), "Pairs", ""),
    Run("positives nearer, a loss that falls", ranked(0.62), "Spread", "not judged",
        "nearer than most"),
    Run("positives nearer, a loss that stays", ranked(0.62, 2.5), "Spread", "watch"),
    Run("positives at chance, a loss that falls", ranked(0.5), "Spread", "watch"),
    Run("rows with labels, a loss that falls", ranked(0.5, 2.4) | LABELLED, "Pairs", ""),
    Run("rows with labels, a loss that stays", ranked(0.5, 2.5) | LABELLED, "Pairs", "watch"),
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
        "watch"),
    Run("the tokens of one text in a run of 9", few(9, **APART, idle_texts=0.9), "Batch", "watch"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in ROW_RUNS
    ]  # fmt: skip

"""Runs on either side of limits on what a loss of one's own computes, as `titled_runs.Run`."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import Row
from tests.judgement.run_boundaries import APART, LOG_8, Series, frozen, own
from tests.judgement.titled_runs import Run


def tried(*, losses: list[float] | None = None, **values: Any) -> Series:
    """A loss of one's own with values on known batches in place of those of a sound one."""
    options = own(8, 0.0, LOG_8, 20.0, 0.0)
    numbers = {"after_next": 20.0, "drawn": 4.5, "exchanged": 4.6, "reordered": 4.5}
    options["watch"]["trials"][""] |= numbers | values
    return APART | options | ({} if losses is None else {"batch_loss": losses})


def indifferent(change: float, **values: Any) -> Series:
    """A loss that hardly heeds which rows are pairs; right ones change it by so much."""
    numbers: dict[str, Any] = {"solved": 0.7 - change, "wrong": 0.7, "after_next": 0.7}
    return tried(**numbers | {"drawn": 4.5, "exchanged": 4.5, "halfway": 0.5} | values)


def of_means(loss: float, **values: Any) -> Series:
    """A loss that is nearly 0 for right and for wrong pairs, and 1 for random ones."""
    numbers = {"solved": -loss, "wrong": loss, "after_next": 0.0, "alike": 0.0, "halfway": 0.5}
    return tried(**numbers | {"drawn": 1.0, "exchanged": 1.0, "turned": [0.0, loss]} | values)


def masked(loss: float) -> Series:
    """A loss that is so large for right pairs, and hardly larger for wrong ones."""
    numbers = {"solved": loss, "wrong": loss + 10, "after_next": loss + 10, "alike": loss + 20}
    return tried(**numbers | {"drawn": loss + 5, "exchanged": loss + 6, "halfway": loss + 4,
                              "reordered": loss + 5, "shorter": loss + 10})  # fmt: skip


def misdirected(times: float, **values: Any) -> Series:
    """A loss that is so many times as large for right pairs as for random ones."""
    numbers = {"solved": 9.0, "wrong": 9.1, "after_next": 9.1, "alike": 9.1, "halfway": 9.0}
    return tried(**numbers | {"drawn": 9.0 / times, "exchanged": 9.0 / times, "turned": [0.1, -0.2]}
                 | values)  # fmt: skip


def moved(change: float, **values: Any) -> Series:
    """A loss of random pairs that changes by a share where they move along their batch."""
    numbers = {"others": 7.0, "nearer": 7.0, "reordered": 4.5 * (1 + change)}
    return tried(**numbers | values)


def dead(share: float, records: int = 10, **values: Any) -> Series:
    """A loss that is 0 in a share of the records and in known batches."""
    count = round(share * records)
    names = ("solved", "alike", "wrong", "halfway", "after_next", "drawn", "exchanged")
    numbers = dict.fromkeys(names, 0.0)
    return tried(losses=[0.0] * count + [0.1] * (records - count), **numbers | values)


LABELLED = {"rows_have_labels": 1.0}
# A loss of columns of candidates, of which the positive is one.
COLUMNS = {"further": 2.0, "scaled": 4.7, "turned": [-20.0]}
OVER_QUERIES = {"exchanged": 4.6, "halfway": 0.7}
REVERSED = {"solved": 6.4, "wrong": 1.3, "after_next": 1.2, "halfway": 3.0, "turned": [5.0, 5.2]}
FIRST_ROW = dict.fromkeys(("solved", "wrong", "after_next", "shorter"), 17.5) | {
    "to_first": 0.0, "to_last": 20.0, "further": 0, "alike": LOG_8, "halfway": 8.75,
}  # fmt: skip
PAIRING_RUNS = [
    Run("a loss that heeds pairs by .7e-6", indifferent(0.49e-6), "Formula", "bad",
        "does not depend on which rows are pairs"),
    Run("a loss that heeds pairs by 1.4e-6", indifferent(0.98e-6), "Formula", "watch"),
    Run("a loss of means that is 0.7e-6 for pairs", of_means(0.7e-6), "Formula", "bad",
        "does not depend on which rows are pairs"),
    Run("a loss of means that is 1.4e-6 for pairs", of_means(1.4e-6), "Formula", ""),
    Run("a loss of means that heeds random pairs", of_means(0.0, exchanged=4.6), "Formula", ""),
    Run("a positive that is masked with 1400", masked(1400.0), "Formula", "bad", "is masked"),
    Run("pairs with a loss of 700", masked(700.0), "Formula", "watch", "so low"),
    Run("a loss of rows with labels", indifferent(0.0, **LABELLED), "Formula", ""),
    Run("a loss that heeds random pairs", indifferent(0.0, exchanged=4.6), "Formula", ""),
    Run("a distance of two sets of rows", indifferent(0.7), "Formula", ""),
    Run("a softmax over queries", indifferent(0.0, **COLUMNS | OVER_QUERIES), "Formula", "bad",
        "softmax goes over the queries"),
    Run("columns with a cosine in part", indifferent(0.0, **COLUMNS | {"exchanged": 4.6}),
        "Formula", ""),
    Run("right pairs at 2 times random ones", misdirected(2.0), "Formula", "bad",
        "do not point at the positives"),
    Run("right pairs at 1.1 times random ones", misdirected(1.1), "Formula", ""),
    Run("several columns of positives", misdirected(2.0, further=1.0, scaled=4.0, united=0.7),
        "Formula", ""),
    Run("several columns without a target", misdirected(2.0, further=1.0, scaled=4.0, united=9.0),
        "Formula", "bad", "do not point at the positives"),
    Run("a smoothed target", misdirected(2.0, alike=LOG_8, turned=[-0.1]), "Formula", "watch",
        "label_smoothing"),
    Run("candidates scaled by .7e-6", tried(**COLUMNS | {"scaled": 4.5 * (1 + 0.7e-6)}), "Formula",
        "bad", "normalised along their own axis"),
    Run("candidates scaled by 1.4e-6", tried(**COLUMNS | {"scaled": 4.5 * (1 + 1.4e-6)}),
        "Formula", ""),
    Run("a target of another column", tried(**COLUMNS | REVERSED), "Formula", "watch",
        "candidate of another column"),
    Run("a target of any column", tried(**COLUMNS | REVERSED | {"turned": [5.0, -5.2]}), "Formula",
        ""),
    Run("the next row's target beside columns",
        tried(**COLUMNS | {"solved": 20.0, "wrong": 0.0, "turned": [20.0], "to_first": 20.0,
                           "to_last": 20.0}), "Formula", "bad", "next row"),
    Run("the first row's target, and rounding", tried(**FIRST_ROW | {"turned": [1e-15, -1e-15]}),
        "Formula", "bad", "the first row"),
    Run("the first row's target, by chance", tried(**FIRST_ROW | {"turned": [1e-3, -1e-3]}),
        "Formula", ""),
    Run("few candidates beside columns", tried(**COLUMNS | {"solved": 1.9, "wrong": 2.2,
        "after_next": 2.2, "alike": LOG_8, "turned": [-0.3]}), "Formula", ""),
    Run("pairs that move along and change by 1.4%", moved(0.014), "Formula", ""),
    Run("pairs that move along and change by 2.8%", moved(0.028), "Formula", "watch", "slice"),
    Run("pairs compared with some rows", moved(0.1, nearer=6.0), "Formula", ""),
    Run("pairs that keep a loss of 2.8%", moved(0.1, solved=0.028 * LOG_8), "Formula", ""),
    Run("pairs that keep a loss of 1.4%", moved(0.1, solved=0.014 * LOG_8), "Formula", "watch"),
    Run("labels that move along", moved(0.1, **LABELLED), "Formula", ""),
    Run("a loss of 0 in 40% of the records", dead(0.4), "Formula", ""),
    Run("a loss of 0 in 60% of the records", dead(0.6), "Formula", "bad", "cast to int"),
    Run("a loss of 0 in 3 records", dead(1.0, 3), "Formula", ""),
    Run("a loss of 0 in 5 records", dead(1.0, 5), "Formula", "bad"),
    Run("a hinge that is solved", dead(1.0, wrong=1.0, after_next=1.0), "Formula", ""),
    Run("a hinge that is mostly solved", dead(0.6, wrong=0.1), "Formula", "bad"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in PAIRING_RUNS
    ]  # fmt: skip

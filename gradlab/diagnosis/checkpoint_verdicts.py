"""Is the best checkpoint chosen by a measure that is computed, and by its right sign?

Arguments are measured by `gradlab.diagnosis.evaluation_measurements.best`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.verdict import BAD, Verdict

# Words of measures of which a higher one is better, and of which a lower one is.
HIGHER = (
    *("spearman", "pearson", "ndcg", "mrr", "map", "accuracy", "recall", "precision", "f1", "ap"),
)
LOWER = ("loss", "mse", "distance")
NEGATED = {"negative", "neg", "minus"}


def best(metric: str, greater: bool, computed: bool = True, measure: str = "") -> Iterator[Verdict]:
    """Judge whether the best checkpoint is chosen by the right sign of a measure that there is.

    ``measure`` is the metric without the names of evaluators.
    """
    if not computed:
        finding = (
            f"The best checkpoint is chosen by {metric}, which is never computed: there is no "
            "eval_dataset."
        )
        change = "Give an eval_dataset, or choose by a metric of the evaluator."
        yield Verdict("best checkpoint", BAD, finding, change, "best is unknown",
                      "score-does-not-rise")  # fmt: skip
        return
    better = sign_of(measure or metric)
    if (better > 0 and not greater) or (better < 0 and greater):
        finding = (
            f"The best checkpoint is the one with the {'highest' if greater else 'lowest'} "
            f"{metric}, of which a {'lower' if greater else 'higher'} one is better."
        )
        change = f"Set greater_is_better={not greater}."
        yield Verdict("best checkpoint", BAD, finding, change, "best is worst", "score-falls")


def sign_of(metric: str) -> int:
    """Return 1 for a metric of which a higher value is better, -1 for a lower, 0 if unknown."""
    words = metric.lower().replace("@", "_").replace("-", "_").split("_")
    signs = [-1 if word in LOWER else 1 for word in words if word in (*LOWER, *HIGHER)]
    # The last one is the measure; what stands before it may name a data set.
    sign = signs[-1] if signs else 0
    return -sign if set(words) & NEGATED and sign < 0 else sign

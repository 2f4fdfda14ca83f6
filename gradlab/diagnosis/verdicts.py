"""What is wrong with a training set-up: a `Verdict` for each check, from measurements.

`judge` is a pure function of what `gradlab.diagnosis.measurements` measures, which can be kept as
JSON. Each function of `training_verdicts`, `data_verdicts` and `loss_verdicts` answers one
question: its arguments are the numbers that decide, and its limits stand above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradlab.diagnosis.data_verdicts import (
    columns,
    duplicates,
    hard_negatives,
    pairs,
    texts,
    views,
)
from gradlab.diagnosis.loss_verdicts import gradient_cache, logits, loss, temperature
from gradlab.diagnosis.training_verdicts import (
    dropout,
    gradient,
    learning_rate,
    length,
    optimizer,
    precision,
    processes,
    weights,
)
from gradlab.verdict import Verdict, with_causes

# Name of a verdict -> names of the verdicts that it explains.
EFFECTS: dict[str, tuple[str, ...]] = {
    "frozen": ("no gradient", "little gradient", "optimizer lacks weights"),
    "adapters frozen": ("no gradient", "little gradient"),
    "empty texts": (
        *("loss not finite", "gradient not finite", "views equal", "pairs at chance"),
        *("negatives nearer", "negatives are positives", "duplicates", "loss zero"),
    ),
    "columns in another order": ("pairs at chance", "negatives nearer", "worse than chance"),
    "weights float16": ("loss not finite", "gradient not finite", "loss zero in half precision"),
    "collapsed": ("pairs at chance", "worse than chance", "loss zero", "few candidates"),
    "views equal": ("loss zero", "no gradient"),
    "texts embed alike": ("loss zero", "no gradient"),
    "batch of one": ("loss zero", "no gradient"),
    "loss not finite": ("gradient not finite",),
    "temperature too low": ("worse than chance", "loss zero"),
    "logits too large": ("worse than chance", "loss zero"),
    "pairs at chance": ("worse than chance", "negatives nearer"),
}


def judge(measurements: Mapping[str, Any]) -> list[Verdict]:
    """Judge a training set-up by measurements that can be kept as JSON.

    Args:
        measurements: ``trainer``, the numbers of the checks of a trainer by the name of the check,
            and ``losses``, those of each data set's loss; see
            `gradlab.diagnosis.measurements.measure`. What is absent is not judged.

    Returns:
        The verdicts in the order of the checks, effects after their causes.
    """
    verdicts: list[Verdict] = []
    for name, numbers in measurements.get("trainer", {}).items():
        verdicts += TRAINER_CHECKS[name](**numbers)
    for dataset, checks in measurements.get("losses", {}).items():
        for name, numbers in checks.items():
            verdicts += [verdict.of(dataset) for verdict in LOSS_CHECKS[name](**numbers)]
    order = [*EFFECTS, *(verdict.name for verdict in verdicts)]
    problems = sorted(
        (verdict for verdict in verdicts if verdict.is_problem),
        key=lambda verdict: order.index(verdict.name),
    )
    sound = [verdict for verdict in verdicts if not verdict.is_problem]
    return [*with_causes(problems, EFFECTS), *sound]


# Checks of a trainer and of each of its losses, by the name of their measurements.
TRAINER_CHECKS: dict[str, Callable[..., Iterator[Verdict]]] = {
    "weights": weights,
    "gradient": gradient,
    "optimizer": optimizer,
    "learning_rate": learning_rate,
    "precision": precision,
    "dropout": dropout,
    "length": length,
    "processes": processes,
}
LOSS_CHECKS: dict[str, Callable[..., Iterator[Verdict]]] = {
    "columns": columns,
    "texts": texts,
    "duplicates": duplicates,
    "views": views,
    "loss": loss,
    "pairs": pairs,
    "hard_negatives": hard_negatives,
    "temperature": temperature,
    "logits": logits,
    "gradient_cache": gradient_cache,
}

"""Evaluation of encoders on STS and transfer tasks, read from local files in SentEval's layout."""

from __future__ import annotations

from gradlab.evaluate.embed import as_encode
from gradlab.evaluate.sts import cosines, spearman, stsb_dev, stsb_dev_cosines
from gradlab.evaluate.suite import (
    EvaluationResult,
    check_tasks,
    evaluate,
    task_names,
)
from gradlab.evaluate.task_files import (
    MissingFile,
    ScoredPairs,
    downstream,
    load_sts,
    load_stsb_dev,
)
from gradlab.evaluate.tasks import STS_TASKS, TRANSFER_TASKS
from gradlab.settings.objects import call_package

__all__ = [
    "STS_TASKS",
    "TRANSFER_TASKS",
    "EvaluationResult",
    "MissingFile",
    "ScoredPairs",
    "as_encode",
    "check_tasks",
    "cosines",
    "downstream",
    "evaluate",
    "load_sts",
    "load_stsb_dev",
    "spearman",
    "stsb_dev",
    "stsb_dev_cosines",
    "task_names",
]

call_package(__name__, "evaluate")

"""Evaluation as the field does it: STS and transfer tasks from local files in SentEval's layout."""

from __future__ import annotations

from gradlab.evaluate.report import STS_TASKS, TRANSFER_TASKS, EvaluationResult
from gradlab.evaluate.sts import stsb_dev
from gradlab.evaluate.suite import check_tasks, evaluate, task_names

__all__ = [
    "STS_TASKS",
    "TRANSFER_TASKS",
    "EvaluationResult",
    "check_tasks",
    "evaluate",
    "stsb_dev",
    "task_names",
]

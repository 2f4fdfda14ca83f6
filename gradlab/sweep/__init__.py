"""Sweeps: training over grids and seeds of any settings, divided among workers.

>>> from gradlab.sweep import parse_spec
>>> spec = parse_spec(
...     {
...         "name": "temperatures",
...         "seeds": [1, 2, 3],
...         "base": {"model": "bert-base-uncased", "train_file": "sentences.txt"},
...         "grid": {"loss_settings": {"temperature": [0.05, 0.1]}},
...     }
... )
>>> [point.title() for point in spec.points({})]
['loss_settings.temperature=0.05', 'loss_settings.temperature=0.1']
"""

from __future__ import annotations

from gradlab.sweep.cost_estimate import Budget, Speed, estimate_cost
from gradlab.sweep.flat_settings import configure, flatten, parse_value, settings_text, unflatten
from gradlab.sweep.launch import check_data, check_evaluation, known_runs, run_sweep
from gradlab.sweep.spec import Point, Spec, parse_spec, read_spec
from gradlab.sweep.trials import DIVERGED, ENDED, FAILED, FINISHED, Run, Trials, require_optuna
from gradlab.sweep.worker import encode_of, run_folder

__all__ = [
    "DIVERGED",
    "ENDED",
    "FAILED",
    "FINISHED",
    "Budget",
    "Point",
    "Run",
    "Spec",
    "Speed",
    "Trials",
    "check_data",
    "check_evaluation",
    "configure",
    "encode_of",
    "estimate_cost",
    "flatten",
    "known_runs",
    "parse_spec",
    "parse_value",
    "read_spec",
    "require_optuna",
    "run_folder",
    "run_sweep",
    "settings_text",
    "unflatten",
]

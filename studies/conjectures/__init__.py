"""The three conjectures of the unified-gradient paper, checked on encoders that are trained for it.

>>> from studies.conjectures import StudySettings, run_study
>>> settings = StudySettings.preset("light")
>>> run_study("bert-base-uncased", "sentences.txt", "SentEval/data/downstream", "study", settings)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from studies.conjectures.settings import PARTS, StudySettings

if TYPE_CHECKING:
    from studies.conjectures.study import Study, run_study
    from studies.conjectures.verdicts import verdict

__all__ = ["PARTS", "Study", "StudySettings", "run_study", "verdict"]

_HOMES = {"Study": "study", "run_study": "study", "verdict": "verdicts"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

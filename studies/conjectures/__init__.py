"""The three conjectures of the unified-gradient paper, checked on encoders that are trained for it.

>>> from studies.conjectures import StudySettings, run_study
>>> settings = StudySettings.preset("light")
>>> run_study("bert-base-uncased", "sentences.txt", "SentEval/data/downstream", "study", settings)  # doctest: +SKIP
"""

from studies.conjectures.settings import PARTS, StudySettings
from studies.conjectures.study import Study, run_study
from studies.conjectures.verdicts import verdict

__all__ = ["PARTS", "Study", "StudySettings", "run_study", "verdict"]

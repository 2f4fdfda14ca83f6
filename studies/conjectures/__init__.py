"""The three conjectures of the unified-gradient paper, checked on encoders that are trained for it.

>>> from studies.conjectures import Study
>>> study = Study.open(  # doctest: +SKIP
...     "bert-base-uncased", "sentences.txt", "SentEval/data/downstream", "study"
... )
>>> study.run()  # doctest: +SKIP
>>> study.report()  # doctest: +SKIP
"""

from studies.conjectures.settings import SECTIONS, StudySettings
from studies.conjectures.study import Study

__all__ = ["SECTIONS", "Study", "StudySettings"]

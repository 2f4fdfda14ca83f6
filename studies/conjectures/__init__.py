"""The three conjectures of the unified-gradient paper, checked on encoders that are trained for it.

``python -m studies.conjectures`` plans a `Study`, trains its runs and writes its report.
"""

from studies.conjectures.conditions import SECTIONS, StudySettings
from studies.conjectures.study import Study

__all__ = ["SECTIONS", "Study", "StudySettings"]

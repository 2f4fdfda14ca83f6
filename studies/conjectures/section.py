"""A section of the report: tables, the claims they decide, and the words and pictures made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pandas as pd

from studies.conjectures.verdicts import Claim

# The report's tables by name.
Frames = Mapping[str, pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class Section:
    """What one part of a study found.

    Attributes:
        part: its name.
        tables: name of the CSV file without suffix -> numbers.
        claims: what is judged.
        notes: sentences for the report, on what was measured and how.
    """

    part: str
    tables: dict[str, pd.DataFrame]
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()

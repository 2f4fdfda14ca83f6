"""`Diagnosis`: the verdicts of the doctor on a machine, a model or a training set-up."""

from __future__ import annotations

import dataclasses
import html
from typing import TYPE_CHECKING, Any

from gradlab.verdict import BAD, WATCH, Verdict, graded, unjudged, worst_first

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Verdicts of the doctor, in the order of the checks.

    Attributes:
        target: name of the machine, model or trainer that was examined.
        verdicts: verdicts of all checks that apply.
        measurements: the numbers that the verdicts on a trainer are made from, as plain values for
            JSON; see `gradlab.diagnosis.verdicts.judge`.
    """

    target: str
    verdicts: tuple[Verdict, ...]
    measurements: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def problems(self) -> list[Verdict]:
        """Verdicts with the grade ``"bad"``."""
        return graded(self.verdicts, BAD)

    @property
    def healthy(self) -> bool:
        """Whether there are no `problems`."""
        return not self.problems

    @property
    def headline(self) -> str:
        """Outcome in a few sentences: how many problems, and the first change to make."""
        bad, watch = len(self.problems), len(graded(self.verdicts, WATCH))
        counts = [f"{bad} problem{'' if bad == 1 else 's'}"] if bad else []
        counts += [f"{watch} to keep an eye on"] if watch else []
        outcome = " and ".join(counts) or "nothing wrong was found"
        sentences = [f"{self.target}: {outcome}, in {len(self.verdicts)} checks."]
        first = self.ordered[0] if counts else None
        sentences += [f"First, {first.title}: {first.change}"] if first and first.change else []
        return " ".join([*sentences, unjudged(self.verdicts)]).strip()

    @property
    def ordered(self) -> list[Verdict]:
        """Verdicts, worst first, and causes before their effects."""
        return worst_first(self.verdicts)

    def __str__(self) -> str:
        return "\n".join([self.headline, *map(str, self.ordered)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        verdicts = [verdict.to_dict() for verdict in self.verdicts]
        return {"healthy": self.healthy, "target": self.target, "verdicts": verdicts}

    def to_frame(self) -> DataFrame:
        """Return a table with one row per check."""
        import pandas as pd

        return pd.DataFrame([verdict.to_dict() for verdict in self.verdicts])

    def _repr_html_(self) -> str:
        import pandas as pd

        columns = ["subject", "grade", "finding", "change", "symptom"]
        table = dataclasses.replace(self, verdicts=tuple(self.ordered)).to_frame()[columns]
        with pd.option_context("display.max_colwidth", None):
            return f"<p>{html.escape(self.headline)}</p>{table.to_html(index=False)}"

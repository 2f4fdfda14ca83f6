"""`Diagnosis` and `Verdict`: the results of the doctor."""

from __future__ import annotations

import dataclasses
import functools
import html
import textwrap
from typing import TYPE_CHECKING, Any

from gradlab.files import read_packaged

if TYPE_CHECKING:
    from pandas import DataFrame

# Bad: training will not work as intended. Watch: it can be intended. Not checked: impossible.
LEVELS = {"bad": "✗", "watch": "!", "good": "✓", "not checked": "-"}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Result of one check.

    Attributes:
        check: name of the check, in a few words.
        level: ``"good"``, ``"watch"``, ``"bad"`` or ``"not checked"``.
        seen: finding, with numbers.
        mend: what to change; empty if nothing is wrong.
        symptom: name of the symptom that ``gradlab explain`` describes; empty if there is none.
    """

    check: str
    level: str
    seen: str
    mend: str = ""
    symptom: str = ""

    def of(self, dataset: str) -> Verdict:
        """Return the verdict with its data set's name in `check`; an empty name changes nothing."""
        return dataclasses.replace(self, check=f"{self.check} ({dataset})") if dataset else self

    def __str__(self) -> str:
        lines = [f"{LEVELS[self.level]} {self.check}: {self.seen}"]
        lines += [f"    To fix it: {self.mend}"] if self.mend else []
        lines += [f"    More: gradlab explain {self.symptom}"] if self.symptom else []
        return "\n".join(textwrap.fill(line, 110, subsequent_indent="    ") for line in lines)


def judged(check: str, seen: str, wrong: str = "", **told: Any) -> Verdict:
    """Return the verdict on the fault ``wrong``, or good if it is empty; for others see `fault`."""
    return fault(wrong, seen=seen, **told) if wrong else Verdict(check, "good", seen)


def fault(name: str, /, *, bad: bool | None = None, **told: Any) -> Verdict:
    """Return the verdict on a fault of ``faults.toml`` with ``told`` in its texts.

    ``bad`` sets the level.
    """
    one = faults()[name]
    seen, mend = (one[key].format(**told) for key in ("seen", "mend"))
    level = one["level"] if bad is None else "bad" if bad else "watch"
    return Verdict(one["check"], level, seen, mend, one.get("symptom", ""))


@functools.cache
def faults() -> dict[str, dict[str, str]]:
    """Return all faults by name."""
    return read_packaged("gradlab.diagnosis", "faults.toml")


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Verdicts of the doctor, in the order of the checks.

    Attributes:
        target: name of the machine, model or trainer that was examined.
        verdicts: verdicts of all checks that apply.
    """

    target: str
    verdicts: tuple[Verdict, ...]

    @property
    def problems(self) -> list[Verdict]:
        """Verdicts with the level ``"bad"``."""
        return [one for one in self.verdicts if one.level == "bad"]

    @property
    def healthy(self) -> bool:
        """Whether there are no `problems`."""
        return not self.problems

    @property
    def headline(self) -> str:
        """Outcome in one sentence."""
        bad = len(self.problems)
        watch = sum(one.level == "watch" for one in self.verdicts)
        parts = [f"{bad} problem{'' if bad == 1 else 's'}"] if bad else []
        parts += [f"{watch} to keep an eye on"] if watch else []
        found = " and ".join(parts) or "nothing wrong was found"
        return f"{self.target}: {found}, in {len(self.verdicts)} checks."

    @property
    def ordered(self) -> list[Verdict]:
        """Verdicts, worst first."""
        return sorted(self.verdicts, key=lambda one: list(LEVELS).index(one.level))

    def __str__(self) -> str:
        return "\n".join([self.headline, *map(str, self.ordered)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"healthy": self.healthy, **dataclasses.asdict(self)}

    def to_frame(self) -> DataFrame:
        """Return a table with one row per check."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(one) for one in self.verdicts])

    def _repr_html_(self) -> str:
        import pandas as pd

        worst_first = dataclasses.replace(self, verdicts=tuple(self.ordered)).to_frame()
        with pd.option_context("display.max_colwidth", None):
            return f"<p>{html.escape(self.headline)}</p>{worst_first.to_html(index=False)}"

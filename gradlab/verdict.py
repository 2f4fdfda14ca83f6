"""What is right or wrong with a run, a set-up, a corpus or a loss: one `Verdict` per question."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from gradlab.errors import listed

Grade = Literal["bad", "watch", "not judged", "good"]
# Bad: it will not work as intended. Watch: it may be intended. Not judged: it was not measured.
BAD: Grade = "bad"
WATCH: Grade = "watch"
NOT_JUDGED: Grade = "not judged"
GOOD: Grade = "good"
# From the worst to the best, with the sign of each in a terminal.
GRADES: dict[Grade, str] = {BAD: "✗", WATCH: "!", NOT_JUDGED: "?", GOOD: "✓"}
WIDTH = 110  # characters of a line in a terminal


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer to one question, such as whether the embeddings spread.

    A verdict is made where it is decided, from measurements, with its words beside the condition.

    Attributes:
        subject: what is judged, in a word or two: ``"Spread"``.
        grade: `GOOD`, `WATCH`, `BAD`, or `NOT_JUDGED` if it was not measured; see `finding`.
        finding: the observation, in a sentence with numbers.
        change: what to change; empty if nothing is wrong.
        name: what was decided, such as ``"collapse"``: the same in every version of the words.
        symptom: symptom that ``gradlab explain`` describes; empty if there is none.
        evidence: the numbers that decided, by name.
        dataset: data set whose loss shows it, if each data set has its own; else empty.
        step: step at which a failure of training was confirmed; None for other verdicts.
        cause: name of the verdict that explains this one; empty if there is none.
        steps: pairs of a purpose and the code or command for it.
    """

    subject: str
    grade: Grade
    finding: str
    change: str = ""
    name: str = ""
    symptom: str = ""
    evidence: Mapping[str, float] = dataclasses.field(default_factory=dict)
    dataset: str = ""
    step: int | None = None
    cause: str = ""
    steps: Sequence[tuple[str, str]] = ()

    @property
    def title(self) -> str:
        """The subject, with the data set that it is about."""
        return f"{self.subject} ({self.dataset})" if self.dataset else self.subject

    @property
    def is_problem(self) -> bool:
        return self.grade in (BAD, WATCH)

    def of(self, dataset: str) -> Verdict:
        """Return the verdict on one data set; an empty name changes nothing."""
        return dataclasses.replace(self, dataset=dataset) if dataset else self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; evidence that is not finite becomes None."""
        finite = {n: v if math.isfinite(v) else None for n, v in self.evidence.items()}
        content = dataclasses.asdict(dataclasses.replace(self, evidence={}, steps=()))
        steps = [{"purpose": purpose, "code": code} for purpose, code in self.steps]
        return {**content, "evidence": finite} | ({"steps": steps} if steps else {})

    def __str__(self) -> str:
        lines = [f"{GRADES[self.grade]} {self.title}: {self.finding}"]
        purpose = "To fix it" if self.is_problem else "Next"
        lines += [f"    {purpose}: {self.change}"] if self.change else []
        lines += [f"    More: gradlab explain {self.symptom}"] if self.symptom else []
        return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in lines)


def worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts from bad to good; the first problem that no other one explains leads.

    Within a grade they keep their order.
    """
    ordered = sorted(verdicts, key=lambda verdict: list(GRADES).index(verdict.grade))
    root = next((v for v in ordered if v.is_problem and not v.cause), None)
    return ordered if root is None else [root, *(v for v in ordered if v is not root)]


def graded(verdicts: Iterable[Verdict], *grades: Grade) -> list[Verdict]:
    """Return the verdicts with one of some grades."""
    return [verdict for verdict in verdicts if verdict.grade in grades]


def with_causes(verdicts: Sequence[Verdict], effects: Mapping[str, Iterable[str]]) -> list[Verdict]:
    """Return verdicts with advice on causes only, the causes before their effects.

    A problem that another one explains refers to it in place of advice.

    Args:
        verdicts: verdicts on one run or set-up, causes in the order in which to act on them.
        effects: ``name`` of a verdict -> names of the verdicts that it explains; without circles.
    """
    roots, explained = [], []
    for verdict in verdicts:
        cause = _cause_of(verdict, verdicts, effects)
        if cause is None:
            roots.append(verdict)
        else:
            # A score is no cause: what lowers it may be what is seen elsewhere.
            words = f"“{cause.title}” explains this: act on that first."
            if cause.subject == "Scores":
                words = f"Act on “{cause.title}” first: the same change may mend this."
            explained.append(dataclasses.replace(verdict, change=words, cause=cause.name))
    return [*roots, *explained]


def with_second_signs(
    verdicts: Sequence[Verdict], signs: Mapping[str, Iterable[str]]
) -> list[Verdict]:
    """Return verdicts in which a trend without a second sign is to be watched, and not bad.

    A fact needs one sign; what statistics, names or habits suggest may be meant that way.

    Args:
        verdicts: verdicts on one run or set-up.
        signs: ``name`` of a trend -> names of the problems of which each confirms it.
    """
    checked = []
    for verdict in verdicts:
        is_lone = (
            verdict.grade == BAD
            and verdict.name in signs
            and not any(
                problem.is_problem
                and problem.name in signs[verdict.name]
                and problem.dataset in ("", verdict.dataset)
                for problem in verdicts
            )
        )
        checked.append(dataclasses.replace(verdict, grade=WATCH) if is_lone else verdict)
    return checked


def subjects(verdicts: Iterable[Verdict]) -> str:
    """Return the titles of verdicts within a sentence: ``"spread, loss and scores"``."""
    titles = dict.fromkeys(verdict.title for verdict in verdicts)
    return listed([title[:1].lower() + title[1:] if title[1:2].islower() else title
                   for title in titles])  # fmt: skip


def unjudged(verdicts: Iterable[Verdict]) -> str:
    """Return a sentence on how many questions were not judged; empty for none."""
    open_questions = graded(verdicts, NOT_JUDGED)
    if not open_questions:
        return ""
    count = len(open_questions)
    noun = "question was" if count == 1 else "questions were"
    return f"{count} {noun} not judged: {subjects(open_questions)}."


def _cause_of(
    verdict: Verdict, verdicts: Sequence[Verdict], effects: Mapping[str, Iterable[str]]
) -> Verdict | None:
    """Return the first problem that explains a problem of the same data set; None without one."""
    for cause in verdicts if verdict.is_problem else ():
        together = not cause.dataset or verdict.dataset in ("", cause.dataset)
        if cause.is_problem and together and verdict.name in effects.get(cause.name, ()):
            return cause
    return None

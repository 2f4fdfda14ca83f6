"""What is each column of a training file: anchors, positives, hard negatives, labels, scores?

`find_roles` answers by the columns' names, unless the user names columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from gradlab.data.suffixes import FORMATS
from gradlab.data.table import Table
from gradlab.errors import GradlabError

# Names by role, in the order of preference, without case; "-" and spaces count as "_".
ANCHORS = (
    "anchor", "query", "question", "sentence1", "sentence_1", "sent0", "text1", "text_1",
    "premise", "sentence_a", "sentence", "text",
)  # fmt: skip
POSITIVES = (
    "positive", "positives", "pos", "positive_passages", "answer", "response", "passage",
    "document", "sentence2", "sentence_2", "sent1", "text2", "text_2", "hypothesis", "sentence_b",
    "paraphrase",
)  # fmt: skip
_NEGATIVE = re.compile(r"(hard_?)?neg(ative)?s?(_passages)?(_?\d+)?")
LABELS = ("label", "labels", "gold_label", "class", "entailment_judgment", "is_duplicate")
SCORES = ("score", "scores", "similarity", "similarity_score", "relatedness_score")
# Longest name of a column, beyond which the first row is taken for one of sentences.
_LONGEST_NAME = 60
ASK = "name the one with sentences by --column, and that of their positives by --positive-column"


@dataclass(frozen=True)
class Roles:
    """Names of columns by what they hold; None and () where a role has no column.

    As an argument, the columns that a user names: all others then play no role.

    Attributes:
        anchor, positive, negatives: texts; ``negatives`` may be several columns.
        label, score: of each row.
        unused: the other columns.
        by_name: whether the roles were found by the columns' names.
    """

    anchor: str | None = None
    positive: str | None = None
    negatives: tuple[str, ...] = ()
    label: str | None = None
    score: str | None = None
    unused: tuple[str, ...] = field(default=(), compare=False)
    by_name: bool = field(default=False, compare=False)

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the columns with texts; empty for plain text."""
        return tuple(filter(None, (self.anchor, self.positive, *self.negatives)))

    def named(self) -> dict[str, str]:
        """Return the columns' names by role, for display."""
        roles = {role.name: getattr(self, role.name) for role in fields(self)[:5]}
        roles["hard negatives"] = ", ".join(roles.pop("negatives"))
        return {role: name for role, name in roles.items() if name}


def find_roles(table: Table, request: Roles) -> Roles:
    """Return the role of each column of a table.

    Args:
        table: the columns.
        request: columns that the user names. If anchor or positive are among them, only named
            columns are used; without an anchor it is found by its name.

    Raises:
        GradlabError: a column is named that is not there, or no name says where the sentences are.
    """
    names = table.names
    for name in filter(None, (*request.texts, request.label, request.score)):
        if not names:
            raise GradlabError(
                f"{table.path}: plain text has no column {name!r}; expected {FORMATS}"
            )
        if name not in names:
            raise GradlabError(f"{table.path}: no column {name!r}; it has {listed_names(names)}")
    if not names:
        return Roles()
    anchor = request.anchor or _first(names, ANCHORS) or (names[0] if len(names) == 1 else None)
    if anchor is None:
        headless = table.form.startswith(("CSV", "TSV")) and _looks_like_a_row(names)
        hint = " (its first row looks like a row, not like names: add a row of names)" * headless
        raise GradlabError(
            f"{table.path} ({table.form}) has the columns {listed_names(names)}{hint}; {ASK}"
        )
    positive, negatives = request.positive, request.negatives
    if request.anchor is None and positive is None:
        positive = _first([name for name in names if name not in (anchor, *negatives)], POSITIVES)
        if positive is not None and not negatives:
            negatives = tuple(name for name in names if _NEGATIVE.fullmatch(_plain(name)))
    if negatives and positive is None:
        raise GradlabError("hard negatives need positives too; name them by --positive-column")
    used = {anchor, positive, *negatives, request.label, request.score}
    unused = tuple(name for name in names if name not in used)
    return Roles(
        anchor, positive, negatives, request.label, request.score, unused, not request.texts
    )


def listed_names(names: Sequence[str]) -> str:
    """Return names for a message, shortened; empty names, as of pandas' index, are quoted."""
    return ", ".join(f"{name:.40}" if name else "''" for name in names[:20])


def _first(names: Sequence[str], preferred: Sequence[str]) -> str | None:
    """Return the first of the usual names that a column has, as the file spells it."""
    spelled = {_plain(name): name for name in reversed(names)}
    return next((spelled[name] for name in preferred if name in spelled), None)


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().casefold())


def _looks_like_a_row(names: Sequence[str]) -> bool:
    """Return whether a header holds numbers or sentences."""
    return any(
        name.replace(".", "", 1).isdecimal() or len(name) > _LONGEST_NAME or name.count(" ") > 2
        for name in names
    )

"""Symptoms of contrastive training: causes, how to check them, what to do, public discussions."""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gradlab.errors import GradlabError
from gradlab.files import read_packaged

if TYPE_CHECKING:
    from gradlab.diagnosis.symptom_search import Index

# What phrases describe that are about something else, and no symptom.
ELSEWHERE = "elsewhere"
# Lowest score of an answer. Below the second score, or where the next symptom has more than a share
# of it, or phrases about something else have more than another share, two are named: of the phrases
# of a group that was left out of what is learnt, one in 800 is then answered with a wrong symptom
# alone, and of those about something else one in 200.
FLOOR, SURE, AS_WELL, OUTSIDE = 0.2, 0.65, 0.5, 0.2
# Heading of each part of a symptom, by the attribute that holds it.
HEADINGS = {"cause": "Likely causes", "show": "How to check", "mend": "What to do"}


@dataclasses.dataclass(frozen=True)
class Symptom:
    """A symptom with its causes and remedies."""

    name: str  # key for ``gradlab explain``
    title: str  # the symptom in a sentence
    also: Sequence[str]  # other words for the symptom
    cause: Sequence[str]
    show: Sequence[str]  # how to check which of the causes it is
    mend: Sequence[str]
    # Public discussions: ``url``, and ``about``, a short description.
    threads: Sequence[Mapping[str, str]]

    def __str__(self) -> str:
        lines = [self.title]
        for field, heading in HEADINGS.items():
            points = [f"- {point}" for point in getattr(self, field)]
            wrapped = [textwrap.fill(point, 100, subsequent_indent="  ") for point in points]
            lines += ["", f"{heading}:", *wrapped]
        lines += ["", "Threads:"]
        lines += [f"- {thread['url']}\n    {thread['about']}" for thread in self.threads]
        return "\n".join(lines)


@functools.cache
def symptoms() -> dict[str, Symptom]:
    """Return all symptoms by name, in the order of the page."""
    read = read_packaged("gradlab.diagnosis", "symptoms.toml")
    return {name: Symptom(name, **entry) for name, entry in read.items()}


def find_symptom(words: str) -> Symptom:
    """Return the symptom with a name, or the one that fits words such as ``"loss is nan"`` best.

    Raises:
        GradlabError: no symptom fits well; the message names the nearest ones.
    """
    return find_symptoms(words)[0]


def find_symptoms(words: str) -> list[Symptom]:
    """Return the symptom that fits words best, and the next one where it fits nearly as well.

    Raises:
        GradlabError: no symptom fits well; the message names the nearest ones.
    """
    by_name = symptoms()
    if words in by_name:
        return [by_name[words]]
    ((names, scores),) = nearest([words])
    if not names:
        fitting = [near for near, _ in scores if near != ELSEWHERE][:2]
        near = " and ".join(f"{name} ({by_name[name].title})" for name in fitting)
        raise GradlabError(
            f"no symptom fits {words!r} well; nearest: {near}. All: {', '.join(by_name)}."
        )
    return [by_name[name] for name in names]


def nearest(
    texts: Sequence[str], without: frozenset[str] = frozenset()
) -> list[tuple[list[str], list[tuple[str, float]]]]:
    """Return, for each text, the symptoms that fit, and all with their scores, the best first.

    Two symptoms fit where it is not sure which, none where none fits well. ``without`` are groups
    of phrases to leave out, for a test with them.
    """
    return [(_fitting(scores), scores) for scores in _index(without).scores(texts)]


@functools.cache
def phrases() -> dict[str, dict[str, list[str]]]:
    """Return what people write, in groups, each phrase with the symptoms that it describes."""
    return read_packaged("gradlab.diagnosis", "symptom_phrases.toml")


def _fitting(scores: Sequence[tuple[str, float]]) -> list[str]:
    (name, score), (_, other) = scores[:2]
    if name == ELSEWHERE or score < FLOOR:
        return []
    outside = dict(scores)[ELSEWHERE]
    if score >= SURE and other <= AS_WELL * score and outside <= OUTSIDE * score:
        return [name]
    return [near for near, _ in scores if near != ELSEWHERE][:2]


@functools.cache
def _index(without: frozenset[str]) -> Index:
    # Imported here, as NumPy is slow to load and the names and texts of symptoms need none.
    from gradlab.diagnosis.symptom_search import Index

    texts = [entry for symptom in symptoms().values() for entry in _own_texts(symptom)]
    for group, asked in phrases().items():
        if group not in without:
            texts += [(text, names or [ELSEWHERE], 1.0) for text, names in asked.items()]
    return Index(texts)


def _own_texts(symptom: Symptom) -> list[tuple[str, Sequence[str], float]]:
    """Return the texts of a symptom with their weight in a search."""
    names = [symptom.name]
    return [
        *((t, names, 1.0) for t in (symptom.name.replace("-", " "), symptom.title, *symptom.also)),
        *((thread["about"], names, 0.7) for thread in symptom.threads),
        *((text, names, 0.8) for text in symptom.cause),
        *((text, names, 0.5) for text in symptom.mend),
    ]

"""Symptoms of contrastive training: causes, how to check them, what to do, public discussions."""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.diagnosis.symptom_search import AS_WELL, FLOOR, Index
from gradlab.errors import GradlabError
from gradlab.files import read_packaged

# Entry of questions about something else, which is no symptom.
ELSEWHERE = "elsewhere"
# Heading of each part of a symptom, by the attribute that holds it.
HEADINGS = {"cause": "Likely causes", "show": "How to check", "mend": "What to do"}


@dataclasses.dataclass(frozen=True)
class Symptom:
    """A symptom with its causes and remedies."""

    name: str  # key for ``gradlab explain``
    title: str  # the symptom in a sentence
    also: Sequence[str]  # other words for the symptom
    asked: Sequence[str]  # what people write who see it
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
    return {name: Symptom(name, **entry) for name, entry in _read().items() if name != ELSEWHERE}


def find_symptom(words: str) -> Symptom:
    """Return the symptom with a name, or the one that fits words such as ``"loss is nan"``.

    Raises:
        GradlabError: no symptom fits well; the message names the nearest ones.
    """
    by_name = symptoms()
    if words in by_name:
        return by_name[words]
    name, scores = nearest(words)
    if not name:
        fitting = [near for near, _ in scores if near != ELSEWHERE][:2]
        near = " and ".join(f"{name} ({by_name[name].title})" for name in fitting)
        raise GradlabError(
            f"no symptom fits {words!r} well; nearest: {near}. All: {', '.join(by_name)}."
        )
    return by_name[name]


def nearest(
    words: str, without: frozenset[str] = frozenset()
) -> tuple[str, list[tuple[str, float]]]:
    """Return the symptom that fits words well, else '', and the score of each, the best first.

    ``without`` are texts of entries to leave out, for a test with words that are among them.
    """
    scores = _index(without).scores(words)
    (name, score), (_, second) = scores[:2]
    sure = name != ELSEWHERE and score >= FLOOR and second <= AS_WELL * score
    return (name if sure else ""), scores


@functools.cache
def _read() -> dict[str, Any]:
    return read_packaged("gradlab.diagnosis", "symptoms.toml")


@functools.cache
def _index(without: frozenset[str]) -> Index:
    texts = {name: _phrases(symptom) for name, symptom in symptoms().items()}
    texts[ELSEWHERE] = [(text, 1.0) for text in _read()[ELSEWHERE]["asked"]]
    return Index({name: [entry for entry in of_name if entry[0] not in without]
                  for name, of_name in texts.items()})  # fmt: skip


def _phrases(symptom: Symptom) -> list[tuple[str, float]]:
    """Return the texts of a symptom with their weight in a search."""
    return [
        *((text, 1.0) for text in (symptom.name.replace("-", " "), symptom.title, *symptom.also)),
        *((text, 1.0) for text in symptom.asked),
        *((thread["about"], 0.7) for thread in symptom.threads),
        *((text, 0.8) for text in symptom.cause),
        *((text, 0.5) for text in symptom.mend),
    ]

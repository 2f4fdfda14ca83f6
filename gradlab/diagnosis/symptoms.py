"""Symptoms of contrastive training: causes, how to check them, what to do, public discussions."""

from __future__ import annotations

import dataclasses
import functools
import re
import textwrap
from collections.abc import Mapping, Sequence

from gradlab.errors import GradlabError, nearest
from gradlab.files import read_packaged

# Heading of each part of a symptom, by the attribute that holds it.
HEADINGS = {"cause": "Likely causes", "show": "How to check", "mend": "What to do"}
# Words that do not distinguish symptoms.
SKIPPED = "the a is are of or it to in does not and that i my at all"


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
    return {name: Symptom(name, **fields) for name, fields in read.items()}


def find_symptom(words: str) -> Symptom:
    """Return the symptom with a name, or the one nearest to words such as ``"loss is nan"``.

    Raises:
        GradlabError: no symptom shares a word with the description; the message lists all symptoms.
    """
    by_name = symptoms()
    if words in by_name:
        return by_name[words]
    description = _words(words)

    def shared(symptom: Symptom) -> tuple[float, int]:
        """Return the overlap with the best phrase, and the number of words found in any phrase."""
        phrases = [_words(text) for text in (symptom.name, symptom.title, *symptom.also)]
        best = max(len(description & phrase) / len(description | phrase) for phrase in phrases)
        return best, len(description & set().union(*phrases))

    best = max(by_name.values(), key=shared)
    if not shared(best)[1]:
        raise GradlabError(
            f"no symptom is like {words!r}; there are: {', '.join(by_name)}."
            f"{nearest(words, by_name)}"
        )
    return best


def page() -> str:
    """Return the documentation's page of symptoms as Markdown."""
    from gradlab.report.templates import render

    content = {"symptoms": symptoms().values(), "parts": HEADINGS}
    return render("gradlab.diagnosis", "symptoms.md", {"thread": _short}, **content)


def _words(text: str) -> set[str]:
    """Return the words that distinguish symptoms, in lower case and singular."""
    plain = re.sub(r"(?<!\d)\.(\d)", r"0.\1", text.lower()).replace("-", " ")
    singular = {word.removesuffix("s") for word in re.findall(r"[\w.]*\w", plain)}
    return singular.difference(SKIPPED.split())


def _short(url: str) -> str:
    owner, name, _, number = url.removeprefix("https://github.com/").split("/")
    return f"{owner}/{name}#{number}"

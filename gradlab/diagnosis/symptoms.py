"""Symptoms of contrastive training: what people see, why, how gradlab shows it, what to do, and where others met it."""

from __future__ import annotations

import dataclasses
import functools
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources

from gradlab.errors import GradlabError, nearest

# Heading of each part of a symptom, by the attribute that holds it.
PARTS = {"cause": "Likely causes", "show": "How to check", "mend": "What to do"}
# Words that tell no symptoms apart.
SKIPPED = "the a is are of or it to in does not and that i my at all"


@dataclasses.dataclass(frozen=True)
class Symptom:
    """One thing that people see."""

    name: str  # by which ``gradlab explain`` finds it
    title: str  # what is seen, in a sentence
    also: Sequence[str]  # other words for it
    cause: Sequence[str]
    show: Sequence[str]  # how to check which of the causes it is
    mend: Sequence[str]
    threads: Sequence[Mapping[str, str]]  # public discussions of it: url, and about in a few words

    def __str__(self) -> str:
        lines = [self.title]
        for part, heading in PARTS.items():
            lines += ["", f"{heading}:"]
            lines += [textwrap.fill(f"- {one}", 100, subsequent_indent="  ") for one in getattr(self, part)]
        lines += ["", "Threads:"]
        lines += [f"- {thread['url']}\n    {thread['about']}" for thread in self.threads]
        return "\n".join(lines)


@functools.cache
def symptoms() -> dict[str, Symptom]:
    """All symptoms by name, in the order of the page."""
    text = (resources.files("gradlab.diagnosis") / "symptoms.toml").read_text(encoding="utf-8")
    return {name: Symptom(name, **parts) for name, parts in tomllib.loads(text).items()}


def find_symptom(words: str) -> Symptom:
    """The symptom of a name, or the one that shares most words with a description such as ``"loss is nan"``.

    Raises:
        GradlabError: no symptom shares a word with it; the message lists all.
    """
    known = symptoms()
    if words in known:
        return known[words]
    wanted = _words(words)

    def shared(one: Symptom) -> tuple[float, int]:
        """How well its best phrase fits, and how many of the words it has anywhere."""
        phrases = [_words(text) for text in (one.name, one.title, *one.also)]
        best = max(len(wanted & phrase) / len(wanted | phrase) for phrase in phrases) if wanted else 0.0
        return best, len(wanted & set().union(*phrases))

    best = max(known.values(), key=shared)
    if not shared(best)[1]:
        raise GradlabError(
            f"no symptom is like {words!r}; there are: {', '.join(known)}.{nearest(words, known)}"
        )
    return best


def page() -> str:
    """The documentation's page, as Markdown."""
    from gradlab.report.templates import render

    return render(
        "gradlab.diagnosis", "symptoms.md", {"thread": _short}, symptoms=symptoms().values(), parts=PARTS
    )


def _words(text: str) -> set[str]:
    """The words that tell symptoms apart, in lower case, without plurals."""
    plain = re.sub(r"(?<!\d)\.(\d)", r"0.\1", text.lower()).replace("-", " ")
    return {word.removesuffix("s") for word in re.findall(r"[\w.]*\w", plain)} - set(SKIPPED.split())


def _short(url: str) -> str:
    owner, name, _, number = url.removeprefix("https://github.com/").split("/")
    return f"{owner}/{name}#{number}"

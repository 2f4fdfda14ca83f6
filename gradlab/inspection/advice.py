"""Findings of an inspection in words, with their share of the push and advice."""

from __future__ import annotations

import functools
import math
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gradlab.inspection.candidate_pairs import TRUST
from gradlab.monitor.numbers import percent, short

# Share of the push below which a finding is negligible, and above which it is large.
NEGLIGIBLE, LARGE = 0.01, 0.1
NOTHING = "Nothing to fix was found."
WRITE_CLEAN = " --write-clean "
# Builders of the library datasets by file ending; other files take "text".
_LOADERS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"} | dict.fromkeys(
    (".jsonl", ".json", ".ndjson"), "json"
)


@dataclass(frozen=True)
class Place:
    """Where an inspection ran and was written, for the commands in its advice; empty texts are unknown."""

    folder: Path
    command: str = ""
    model: str = ""
    train_file: str = ""


@dataclass(frozen=True)
class Advice:
    """One finding.

    Attributes:
        title: what to do, in a sentence.
        text: why, with numbers.
        share: share of all push that the finding costs; None if it has no cost or the cost is unknown.
        steps: pairs of a purpose and the code or command for it.
    """

    title: str
    text: str
    share: float | None = None
    steps: Sequence[tuple[str, str]] = ()

    @property
    def size(self) -> str:
        """The share in a word: negligible, small or large; empty without a share."""
        if self.share is None or math.isnan(self.share):
            return ""
        return "negligible" if self.share < NEGLIGIBLE else "small" if self.share < LARGE else "large"


def advise(numbers: Mapping[str, Any], place: Place | None = None) -> list[Advice]:
    """Return findings from `Inspection.numbers`, the most costly first; a place adds code and commands.

    ``advice.toml`` says which finding applies when, and words it.
    """
    n, count, size = numbers, numbers["sentences"], numbers["batch_size"]
    false, nearer, matter, easy = n["hard_negatives"].values() or (0, 0, 0, 0)
    met = false + nearer + matter + easy
    levels = [level for level in n["cosine_levels"] if not math.isnan(level["candidates"])]
    known = {
        **n,
        # Pairs of copies in a batch, on average; the numbers at the temperature of the loss; hard negatives that were
        # met in batches; the largest cosine above which pairs are known.
        "often": n["candidate_row_pairs"] * size * (size - 1) / (count * (count - 1)),
        "now": n["temperatures"][1] if n["temperatures"] else None,
        **{"met": met, "nearer": nearer, "matter": matter, "easy": easy},
        "level": levels[-1] if levels else None,
    }
    steps = [] if place is None else [*_clean_steps(place), *_mask_steps(n, place)]
    applying = [next((rule for rule in group if rule["when"](known)), None) for group in _rules().values()]
    found = [
        Advice(
            rule["title"].render(known),
            rule["text"].render(known),
            n[rule["share"]] if "share" in rule else None,
            steps if "fix" in rule and rule["fix"](known) else (),
        )
        for rule in applying
        if rule is not None
    ]
    return sorted(found, key=lambda one: (one.size == "negligible", -(one.share or 0.0) if one.size else 0.0))


@functools.cache
def _rules() -> dict[str, list[dict[str, Any]]]:
    """Return the groups of ``advice.toml``, with compiled conditions and templates."""
    from jinja2 import Environment, StrictUndefined

    language = Environment(undefined=StrictUndefined)
    language.filters |= {
        "percent": percent,
        "exactly": percent_exactly,
        "short": short,
        "whole": "{:,}".format,
    }
    language.tests["known"] = lambda number: not math.isnan(number)
    language.globals |= {"count": _count, "NEGLIGIBLE": NEGLIGIBLE, "TRUST": TRUST}
    read: dict[str, Any] = {
        "when": functools.partial(language.compile_expression, undefined_to_none=False),
        "fix": language.compile_expression,
        "title": language.from_string,
        "text": language.from_string,
        "share": str,
    }
    text = (resources.files("gradlab.inspection") / "advice.toml").read_text(encoding="utf-8")
    return {
        group: [{key: read[key](value) for key, value in rule.items()} for rule in rules]
        for group, rules in tomllib.loads(text).items()
    }


def _clean_steps(place: Place) -> list[tuple[str, str]]:
    if not place.train_file or not place.command:
        return []
    source = Path(place.train_file)
    compressed = source.suffix in (".gz", ".xz", ".bz2")
    ending = "".join(source.suffixes[-2:] if compressed else source.suffixes[-1:])
    command, _, given = place.command.partition(WRITE_CLEAN)
    clean = shlex.split(given)[0] if given else source.name.removesuffix(ending) + "-clean" + ending
    kind = _LOADERS.get("." + ending.split(".")[1], "text") if ending else "text"
    more = ', sep="\\t"' if ending.startswith(".tsv") else ""
    load = (
        "from datasets import load_dataset\n"
        f'dataset = load_dataset("{kind}", data_files="{clean}", split="train"{more})'
    )
    if given:
        return [("Train on the file without copies, in sentence-transformers", load)]
    return [
        ("Write the file without copies", f"{command}{WRITE_CLEAN}{shlex.quote(clean)}"),
        ("and train on it, in sentence-transformers", load),
    ]


def _mask_steps(n: Mapping[str, Any], place: Place) -> list[tuple[str, str]]:
    if not n["can_mask"]:
        return []
    mask = place.folder.absolute() / "mask.txt"
    loss = f"mask({n['loss']}, by=pairs, pairs={mask})"
    rows = f"rows of {Path(place.train_file).name}" if place.train_file else "rows as they were inspected"
    code = (
        "from gradlab.integrations.sentence_transformers import loss\n"
        f'dataset = dataset.add_column("label", list(range(len(dataset))))  # {rows}, without blank ones, before any shuffling\n'
        f'criterion = loss(model, "{loss}")'
    )
    steps = [("Or mask the pairs, in sentence-transformers", code)]
    if place.model and place.train_file and not n["hard_negatives"]:
        command = ["gradlab", "train", "--model", place.model, "--train-file", place.train_file]
        steps.append(("or in gradlab", shlex.join([*command, "--output", "runs/masked", "--loss", loss])))
    return steps


def percent_exactly(share: float) -> str:
    """Format a share like `percent`, with more digits between 0.001% and 0.1%."""
    if math.isnan(share) or share == 0 or share >= 1e-3:
        return percent(share)
    return f"{100 * share:.2g}%" if share >= 1e-5 else "less than 0.001%"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

"""Findings of an inspection in words, with their share of the push and advice."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.inspection.candidate_pairs import TRUST

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
    """Where an inspection ran and was written, for commands in its advice; empty if unknown."""

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
        share: share of all push that the finding costs; None if it has no cost or an unknown one.
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
        return (
            "negligible" if self.share < NEGLIGIBLE else "small" if self.share < LARGE else "large"
        )


def advise(numbers: Mapping[str, Any], place: Place | None = None) -> list[Advice]:
    """Return findings from `Inspection.numbers`, costliest first; a place adds code and commands.

    ``advice.toml`` says which finding applies when, and words it.
    """
    from gradlab.report.templates import applying

    n, count, size = numbers, numbers["sentences"], numbers["batch_size"]
    false, nearer, matter, easy = n["hard_negatives"].values() or (0, 0, 0, 0)
    levels = [level for level in n["cosine_levels"] if not math.isnan(level["candidates"])]
    known = {
        **n,
        "NEGLIGIBLE": NEGLIGIBLE,
        "TRUST": TRUST,
        # Pairs of copies in a batch, on average.
        "often": n["candidate_row_pairs"] * size * (size - 1) / (count * (count - 1)),
        # With the loss's own temperature.
        "now": n["temperatures"][1] if n["temperatures"] else None,
        "met": false + nearer + matter + easy,  # hard negatives that were met in batches, by kind
        "nearer": nearer,
        "matter": matter,
        "easy": easy,
        # Of the largest cosine with a known share of candidates.
        "level": levels[-1] if levels else None,
    }
    steps = [] if place is None else [*_clean_steps(place), *_mask_steps(n, place)]
    found = []
    for rule in applying("gradlab.inspection", "advice.toml", known):
        share = n[rule["share"]] if "share" in rule else None
        found.append(Advice(rule["title"], rule["text"], share, steps if rule.get("fix") else ()))
    return sorted(
        found, key=lambda one: (one.size == "negligible", -(one.share or 0.0) if one.size else 0.0)
    )


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
    rows = (
        f"rows of {Path(place.train_file).name}"
        if place.train_file
        else "rows as they were inspected"
    )
    code = (
        "from gradlab.integrations.sentence_transformers import loss\n"
        'dataset = dataset.add_column("label", list(range(len(dataset))))  '
        f"# {rows}, without blank ones, before any shuffling\n"
        f'criterion = loss(model, "{loss}")'
    )
    steps = [("Or mask the pairs, in sentence-transformers", code)]
    if place.model and place.train_file and not n["hard_negatives"]:
        command = ["gradlab", "train", "--model", place.model, "--train-file", place.train_file]
        steps.append(
            ("or in gradlab", shlex.join([*command, "--output", "runs/masked", "--loss", loss]))
        )
    return steps

"""Findings of an inspection in words, with their share of the push and advice."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.data.sentences import form_of
from gradlab.inspection.candidate_pairs import TRUST

# Share of the push below which a finding is negligible, and above which it is large.
NEGLIGIBLE, LARGE = 0.01, 0.1
NOTHING = "Nothing to fix was found."
WRITE_CLEAN = " --write-clean "
# Builders of the library datasets by file ending; other files take "text".
_LOADERS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_LOADERS |= dict.fromkeys((".jsonl", ".json", ".ndjson"), "json")


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


def advise(numbers: Mapping[str, Any], steps: Sequence[tuple[str, str]] = ()) -> list[Advice]:
    """Return findings from `Inspection.numbers`, costliest first, with the `steps_of` fixing them.

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
    found = []
    for rule in applying("gradlab.inspection", "advice.toml", known):
        share = n[rule["share"]] if "share" in rule else None
        found.append(Advice(rule["title"], rule["text"], share, steps if rule.get("fix") else ()))
    return sorted(
        found, key=lambda one: (one.size == "negligible", -(one.share or 0.0) if one.size else 0.0)
    )


def steps_of(
    numbers: Mapping[str, Any], folder: Path, settings: Mapping[str, str], command: str
) -> list[tuple[str, str]]:
    """Return commands and code, after their purpose, that leave pairs out or mask them.

    The arguments are those of `gradlab.inspection.Inspection.write`.
    """
    given = {name: value for name, value in settings.items() if value != "None"}
    model, file = given.get("model"), given.get("train_file")
    steps = _clean_steps(Path(file), command) if file and command else []
    if not numbers["can_mask"]:
        return steps
    loss = f"mask({numbers['loss']}, by=pairs, pairs={folder.absolute() / 'mask.txt'})"
    rows = f"rows of {Path(file).name}" if file else "rows as they were inspected"
    code = (
        "from gradlab.integrations.sentence_transformers import loss\n"
        'dataset = dataset.add_column("label", list(range(len(dataset))))  '
        f"# {rows}, without blank ones, before any shuffling\n"
        f'criterion = loss(model, "{loss}")'
    )
    steps.append(("Or mask the pairs, in sentence-transformers", code))
    if model and file and not numbers["hard_negatives"]:
        words = ["gradlab", "train", "--model", model, "--train-file", file]
        steps.append(
            ("or in gradlab", shlex.join([*words, "--output", "runs/masked", "--loss", loss]))
        )
    return steps


def _clean_steps(source: Path, command: str) -> list[tuple[str, str]]:
    command, _, given = command.partition(WRITE_CLEAN)
    compressed = source.suffix.lower() in (".gz", ".xz", ".bz2")
    ending = "".join(source.suffixes[-2 if compressed else -1 :])
    clean = shlex.split(given)[0] if given else f"{source.name.removesuffix(ending)}-clean{ending}"
    form = form_of(source)[0]
    more = ', sep="\\t"' if form == ".tsv" else ""
    load = (
        "from datasets import load_dataset\n"
        f'dataset = load_dataset("{_LOADERS.get(form, "text")}", data_files="{clean}", '
        f'split="train"{more})'
    )
    if given:
        return [("Train on the file without copies, in sentence-transformers", load)]
    return [
        ("Write the file without copies", f"{command}{WRITE_CLEAN}{shlex.quote(clean)}"),
        ("and train on it, in sentence-transformers", load),
    ]

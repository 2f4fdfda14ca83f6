"""What to do about the findings of an inspection: their order, and commands that mend them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradlab.data.beir import is_beir
from gradlab.data.training_file import TrainingFile
from gradlab.errors import listed
from gradlab.inspection.findings import SHARE, findings_of
from gradlab.verdict import GRADES, Verdict

NOTHING = "Nothing to fix was found."
WRITE_CLEAN = " --write-clean "


def advise(numbers: Mapping[str, Any], steps: Sequence[tuple[str, str]] = ()) -> list[Verdict]:
    """Return findings from `Inspection.numbers`, costliest first, with the `steps_of` them."""
    return sorted(findings_of(numbers, steps), key=_place)


def steps_of(
    numbers: Mapping[str, Any],
    folder: Path,
    settings: Mapping[str, str],
    command: str,
    file: TrainingFile | None = None,
) -> list[tuple[str, str]]:
    """Return commands and code, after their purpose, that leave pairs out or mask them.

    The arguments are those of `gradlab.inspection.Inspection.write`.
    """
    steps: list[tuple[str, str]] = []
    if numbers.get("sampled_from") and file is not None and command:
        return _whole_steps(file, command)
    pairs = file is not None and file.roles.positive is not None
    if pairs and (numbers["duplicates"] or numbers["shared_lines"]):
        steps.append(
            (
                "Keep equal texts out of each batch, in sentence-transformers; no row is lost",
                "from sentence_transformers import SentenceTransformerTrainingArguments\n"
                "arguments = SentenceTransformerTrainingArguments("
                '"runs/no-duplicates", batch_sampler="no_duplicates")',
            )
        )
    if file is not None and command:
        steps += _clean_steps(numbers, file, command)
    if not numbers["can_mask"]:
        return steps
    loss = f"mask({numbers['loss']}, by=pairs, pairs={folder.absolute() / 'mask.txt'})"
    reading = "" if file is None else f"{file.snippet()}\n"
    code = (
        f"{reading}"
        "from gradlab.integrations.sentence_transformers import loss\n"
        'dataset = dataset.add_column("label", list(range(len(dataset))))  '
        "# rows as they were inspected, before any shuffling\n"
        f"criterion = loss(model, {loss!r})"
    )
    steps.append(("Or mask the pairs, in sentence-transformers", code))
    model = settings.get("model", "None")
    if file is not None and model != "None" and not numbers["hard_negatives"]:
        words = ["gradlab", "train", "--model", model, *file.options()]
        if numbers["max_length"]:
            words += ["--max-length", str(numbers["max_length"])]
        words += ["--batch-size", str(numbers["batch_size"])]
        words += ["--output", "runs/masked", "--loss", loss]
        steps.append(("or in gradlab", shlex.join(words)))
    return steps


def clean_name(path: Path) -> str:
    """Return a name for the clean file, with the ending of its source."""
    compressed = path.suffix.lower() in (".gz", ".xz", ".bz2")
    ending = "".join(path.suffixes[-2 if compressed else -1 :])
    return f"{path.name.removesuffix(ending)}-clean{ending}"


def left_out_in_words(numbers: Mapping[str, Any]) -> str:
    """Return how many rows a clean file has, and why others go, such as "38 of 40 rows: ..."."""
    reasons = [f"{count:,} {reason}" for reason, count in numbers["rows_left_out"].items() if count]
    rows, gone = numbers["sentences"], sum(numbers["rows_left_out"].values())
    return f"{rows - gone:,} of {rows:,} rows" + (f"; {listed(reasons)}" if reasons else "")


def _whole_steps(file: TrainingFile, command: str) -> list[tuple[str, str]]:
    """Return the command that inspects all rows and writes a clean file."""
    words = shlex.split(command)
    place = words.index("--sample")
    words[place : place + 2] = []
    if not is_beir(file.path):
        words += ["--write-clean", clean_name(file.path)]
    words.append("--overwrite")  # the page of the sample
    return [("Inspect all rows", shlex.join(words))]


def _clean_steps(
    numbers: Mapping[str, Any], file: TrainingFile, command: str
) -> list[tuple[str, str]]:
    if not sum(numbers["rows_left_out"].values()) or is_beir(file.path):
        return []
    command, _, output = command.partition(WRITE_CLEAN)
    clean = clean_name(file.path)
    if output:
        clean = shlex.split(output)[0]
        return [("Train on the file without copies, in sentence-transformers", file.snippet(clean))]
    rows = left_out_in_words(numbers)
    return [
        (f"Write a file without them ({rows})", f"{command}{WRITE_CLEAN}{shlex.quote(clean)}"),
        ("and train on it, in sentence-transformers", file.snippet(clean)),
    ]


def _place(verdict: Verdict) -> tuple[int, float]:
    """Return the place of a finding: by its grade, and by its share of the push."""
    return list(GRADES).index(verdict.grade), -verdict.evidence.get(SHARE, 0.0)

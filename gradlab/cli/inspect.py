"""The command ``gradlab inspect``."""

from __future__ import annotations

import itertools
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.exit_code import end_with, fail_option, json_option, print_json, worst
from gradlab.cli.options import (
    OutputFolder,
    build_loss,
    check_existing,
    device_option,
    given_options,
    hyperparameters_option,
    loss_option,
    option,
    pooler_option,
    require_options,
)
from gradlab.cli.training_file_options import open_training_file, training_file_options
from gradlab.errors import GradlabError, reason
from gradlab.files import check_writable
from gradlab.progress_bars import waiting
from gradlab.verdict import GRADES, NOT_JUDGED, Grade, Verdict

if TYPE_CHECKING:
    from gradlab.data.training_file import TrainingFile
    from gradlab.inspection.result import Inspection


@click.command()
@option("--model", "Encoder: a local folder or a Hugging Face hub name.")
@training_file_options()
@option("--embeddings", "Embeddings computed before: .npy or .npz.", kind=Path)
@loss_option(default="infonce")
@hyperparameters_option
@option("--batch-size", "Sentences that meet in one loss.", 64, click.IntRange(2))
@option(
    "--batches",
    "Random batches to draw, at most as many as go through the corpus once.",
    200,
    click.IntRange(1),
)
@option(
    "--overlap",
    "Share of common words that makes two texts near-duplicates; rare words count for more.",
    0.8,
)
@option(
    "--cosine",
    "Cosine of two embeddings, less their mean, from which on they are candidates, whatever their "
    "words.  [default: neighbours that share nearly enough words (overlap less .1) and are nearer "
    "than all but one in 10,000 random pairs of this corpus]",
    kind=float,
)
@option(
    "--max-length",
    "Tokens read from each sentence.  [default: the model's limit]",
    kind=click.IntRange(1),
)
@option(
    "--sample",
    "Rows to draw and inspect, for a quick look: a tenth of the rows sees a hundredth of all pairs."
    "  [default: all]",
    kind=click.IntRange(2),
)
@option("--seed", "Seed of batches, dropout and sample.", 0, click.IntRange(0))
@pooler_option
@device_option
@option("--output", "Folder to write to.", "inspect", OutputFolder())
@option(
    "--write-clean",
    "Write the training file without exact and near duplicates of earlier rows, and without rows "
    "whose own hard negative is false.",
    kind=Path,
    metavar="FILE",
)
@option("--overwrite", "Replace files made with other settings.", False)
@json_option
@fail_option("never")
def command(
    model: str | None,
    train_file: Path | None,
    embeddings: Path | None,
    loss_name: str,
    assignments: tuple[str, ...],
    output: Path,
    overwrite: bool,
    write_clean: Path | None,
    as_json: bool,
    fail_on: str,
    **options: Any,
) -> None:
    """Show which pairs of your sentences carry the gradient, and which are likely false negatives.

    Push and pull are measured on batches as training draws them; candidates for false negatives
    (duplicates, near-duplicates by words, nearest neighbours by embedding) come from the whole
    file.
    """
    loss = build_loss(loss_name, assignments)
    if embeddings is None:
        lacking = ["--train-file"] if train_file is None else []
        require_options([*lacking, "--model (or --embeddings)"] if model is None else lacking)
    settings = _settings()
    check_existing(output / "inspect", (".html", ".json"), {"settings": settings}, overwrite)

    from gradlab.inspection.inspecting import find_false_negatives
    from gradlab.inspection.texts import Texts
    from gradlab.train.interruption import terminable

    _check_clean(train_file, write_clean, options)
    with terminable():  # SIGTERM, too, deletes the embeddings on disk
        file, texts = open_training_file(train_file, options), None
        if file is not None:
            with waiting(f"Reading {train_file}"):
                texts = Texts.of_file(file)
        arrays = None if embeddings is None else load_embeddings(embeddings)
        inspection = find_false_negatives(
            model, texts, embeddings=arrays, loss=loss, progress=True, **options
        )
        command_line = _command_line(write_clean)
        advice = inspection.advice_for(output, settings, command_line, file)
        if not as_json:
            _print_advice(advice)
        earlier = set(output.glob("*"))
        with waiting("Writing"):
            saved_files = inspection.write(output, settings, command_line, file)
            if write_clean is not None and file is not None:
                saved_files.append(_write_clean(inspection, file, write_clean, as_json))
        grade = _grade(inspection, advice)
        if as_json:
            _print_json(grade, advice, inspection.numbers, saved_files)
        for path in () if as_json else saved_files:
            click.echo(f"Wrote {path}{' in place of an earlier one' if path in earlier else ''}")
    end_with(grade, fail_on)


def load_embeddings(path: Path) -> Any:
    """Load an .npy file as a memory map, or the arrays of an .npz file."""
    import numpy as np

    from gradlab.files import read_arrays

    if path.suffix.lower() != ".npy":
        return read_arrays(path, "an .npy or .npz file")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        why = f" ({reason(error)})" if isinstance(error, OSError) else ""
        raise GradlabError(
            f"cannot read {str(path)!r}: it must be an .npy or .npz file{why}"
        ) from error


def _settings() -> dict[str, str]:
    """Return the settings that numbers and tables depend on, for the record."""
    elsewhere = (
        *("loss_name", "assignments", "output", "overwrite", "write_clean"),
        *("as_json", "fail_on"),
    )
    params = click.get_current_context().params
    arguments = {"loss": params["loss_name"], "set": params["assignments"]} | params
    return {name: str(argument) for name, argument in arguments.items() if name not in elsewhere}


def _check_clean(train_file: Path | None, clean: Path | None, options: dict[str, Any]) -> None:
    """Check that a clean file, if any, can be written, before the inspection takes its time."""
    from gradlab.data.row_subset import check_copy

    if clean is None:
        return
    if train_file is None:
        raise GradlabError("--write-clean leaves rows of a --train-file out; give it too")
    if options["sample"] is not None:
        raise GradlabError("--write-clean looks at all rows; leave --sample out")
    check_copy(train_file, clean)
    if options["positives_per_row"] == "all":
        raise GradlabError(
            "--write-clean keeps or leaves whole rows; use --positives-per-row first"
        )
    check_writable(clean, folder=train_file.is_dir())


def _command_line(write_clean: Path | None) -> str:
    """Return the command as the advice repeats it, with the options that it does not add itself."""
    from gradlab.inspection.advice import WRITE_CLEAN

    own = ("write_clean", "overwrite", "as_json", "fail_on")  # the advice adds them
    words = [words for name, words in given_options().items() if name not in own]
    command_line = shlex.join(["gradlab", "inspect", *itertools.chain(*words)])
    return command_line + (
        "" if write_clean is None else WRITE_CLEAN + shlex.quote(str(write_clean))
    )


def _grade(inspection: Inspection, advice: list[Verdict]) -> Grade:
    """Return the worst grade of the advice."""
    # Without texts, copies and false negatives by words were not looked for.
    grades: list[Grade] = [NOT_JUDGED] if inspection.texts is None else []
    return worst([*grades, *(finding.grade for finding in advice)])


def _print_advice(advice: list[Verdict]) -> None:
    from gradlab.inspection.advice import NOTHING

    for finding in advice:
        click.echo(f"{GRADES[finding.grade]} {finding.change} {finding.finding}\n")
        for label, code in finding.steps:
            click.echo(f"  {label}:\n{textwrap.indent(code, '    ')}\n")
    if not advice:
        click.echo(f"{NOTHING}\n")


def _print_json(
    grade: Grade, advice: list[Verdict], numbers: dict[str, Any], saved_files: list[Path]
) -> None:
    findings = [finding.to_dict() for finding in advice]
    files = [str(path) for path in saved_files]
    print_json(grade, {"findings": findings, "numbers": numbers, "files": files})


def _write_clean(inspection: Inspection, file: TrainingFile, clean: Path, as_json: bool) -> Path:
    """Write the rows that are no copies, and print how many there are."""
    from gradlab.data.row_subset import copy_rows
    from gradlab.inspection.advice import left_out_in_words

    click.echo(f"{clean} has {left_out_in_words(inspection.numbers)}", err=as_json)
    numbers = [example.number for example in file.examples()]
    rows = {numbers[row] for row in inspection.distinct_rows().tolist()}
    return copy_rows(file.table, clean, rows)

"""The command ``gradlab inspect``."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gradlab.cli.options import (
    OutputFolder,
    build_loss,
    check_existing,
    device_option,
    hyperparameters_option,
    loss_option,
    mirrored,
    option,
    pooler_option,
)
from gradlab.errors import GradlabError, listed
from gradlab.files import check_writable
from gradlab.inspection.corpus import find_false_negatives
from gradlab.waiting import waiting


@click.command()
@option("--model", "Encoder: a local folder or a Hugging Face hub name.")
@option(
    "--train-file",
    "Sentences: text, JSON lines, CSV, TSV or Parquet; .gz, .xz and .bz2 too.",
    kind=Path,
)
@option("--column", "Column with the sentences (JSON lines, CSV, TSV, Parquet).")
@option("--positives", "Column with the positives; without one, dropout makes them.")
@option(
    "--hard-negatives", "Column with hard negatives; repeatable.", multiple=True, metavar="COLUMN"
)
@option("--encoding", "Encoding of the file.", "utf-8")
@option("--embeddings", "Embeddings computed before: .npy or .npz.", kind=Path)
@loss_option(default="infonce")
@hyperparameters_option
@mirrored(find_false_negatives, "batch_size", "batches", "overlap", "cosine", "max_length", "seed")
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
def command(
    model: str | None,
    train_file: Path | None,
    embeddings: Path | None,
    loss_name: str,
    assignments: tuple[str, ...],
    output: Path,
    overwrite: bool,
    write_clean: Path | None,
    **options: Any,
) -> None:
    """Show which pairs of your sentences carry the gradient, and which are likely false negatives.

    Push and pull are measured on batches as training draws them; candidates for false negatives
    (duplicates, near-duplicates by words, nearest neighbours by embedding) come from the whole
    file.
    """
    loss = build_loss(loss_name, assignments)
    lacking = ["--train-file"] if train_file is None and embeddings is None else []
    lacking += ["--model (or --embeddings)"] if model is None and embeddings is None else []
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        raise GradlabError(
            f"{listed(lacking)} {verb} missing; see the examples of gradlab inspect --help"
        )
    given = {
        "model": model,
        "train_file": train_file,
        "embeddings": embeddings,
        "loss": loss_name,
        "set": assignments,
    }
    settings = {name: str(value) for name, value in {**given, **options}.items()}
    replaced = check_existing(
        output / "inspect", (".html", ".json"), {"settings": settings}, overwrite
    )

    from gradlab.inspection.advice import NOTHING, WRITE_CLEAN
    from gradlab.inspection.texts import Texts, check_ending, copy_rows
    from gradlab.train.interruption import terminable

    reading = {
        name: options.pop(name) for name in ("column", "positives", "hard_negatives", "encoding")
    }
    if train_file is None and any(
        reading[name] for name in ("column", "positives", "hard_negatives")
    ):
        raise GradlabError(
            "--column, --positives and --hard-negatives name columns of a --train-file; give it too"
        )
    if write_clean is not None:
        if train_file is None:
            raise GradlabError("--write-clean leaves rows of a --train-file out; give it too")
        check_ending(train_file, write_clean)
        check_writable(write_clean)
    with terminable():  # SIGTERM, too, deletes the embeddings on disk
        texts = None
        if train_file is not None:
            with waiting(f"Reading {train_file}"):
                columns = reading["column"], reading["positives"], reading["hard_negatives"]
                texts = Texts.read(train_file, *columns, reading["encoding"])
        arrays = None if embeddings is None else _load(embeddings)
        found = find_false_negatives(
            model, texts, embeddings=arrays, loss=loss, progress=True, **options
        )
        command_line = _command_line(click.get_current_context())
        command_line += "" if write_clean is None else WRITE_CLEAN + shlex.quote(str(write_clean))
        for one in found.advice_for(output, settings, command_line):
            click.echo(f"{one.title}{f' ({one.size})' if one.size else ''} {one.text}\n")
            for label, code in one.steps:
                click.echo(f"  {label}:\n{textwrap.indent(code, '    ')}\n")
        if not found.advice:
            click.echo(f"{NOTHING}\n")
        with waiting("Writing"):
            written = found.write(output, settings, command_line)
            if write_clean is not None and train_file is not None:
                named = [name for name in (columns[0], columns[1], *columns[2]) if name is not None]
                kept = found.distinct_rows()
                written.append(copy_rows(train_file, write_clean, kept, named, reading["encoding"]))
                click.echo(f"{write_clean} has {len(kept):,} of {len(texts or ()):,} rows")
        for path in written:
            click.echo(f"{'Replaced' if replaced else 'Wrote'} {path}")


def _command_line(context: click.Context) -> str:
    """Return the command line as given, without the options that the advice adds to it."""
    words = ["gradlab", "inspect"]
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if given and name not in ("write_clean", "overwrite"):
            value = context.params[name]
            for one in value if isinstance(value, tuple) else (value,):
                words += [parameter.opts[0], str(one)]
    return shlex.join(words)


def _load(path: Path) -> Any:
    """Load an .npy file as a memory map, or the arrays of an .npz file."""
    import numpy as np

    from gradlab.errors import reason
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

"""The command ``gradlab mine``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import (
    build_loss,
    device_option,
    given_options,
    hyperparameters_option,
    loss_option,
    option,
    pooler_option,
)
from gradlab.errors import GradlabError
from gradlab.files import check_writable


@click.command()
@option("--model", "Encoder that mines: a local folder or a Hugging Face hub name.", required=True)
@option("--train-file", "Pairs: JSON lines, CSV, TSV or Parquet.", kind=Path, required=True)
@option("--column", "Column with the anchors.", required=True)
@option("--positives", "Column with the positives.", required=True)
@option("--corpus", "More texts to mine from, one a line.", kind=Path)
@option(
    "--share",
    "Largest similarity of a hard negative to its anchor, as a share of the positive's.",
    0.95,
)
@option(
    "--negatives",
    "Hard negatives of each anchor; anchors with fewer are left out.",
    1,
    click.IntRange(1),
)
@option("--batch-size", "Sentences that meet in one loss.", 64, click.IntRange(2))
@option(
    "--max-length",
    "Tokens read from each text.  [default: the model's limit]",
    kind=click.IntRange(1),
)
@pooler_option
@device_option
@loss_option(default="infonce")
@hyperparameters_option
@option("--encoding", "Encoding of the files.", "utf-8")
@option("--output", "CSV file to write.", kind=Path, required=True)
@option("--overwrite", "Replace the file.", False)
def command(
    model: str,
    train_file: Path,
    corpus: Path | None,
    encoding: str,
    output: Path,
    overwrite: bool,
    **options: Any,
) -> None:
    """Mine hard negatives that are clearly less similar to the anchor than its positive.

    This is the positive-aware mining of NV-Retriever.
    """
    options["loss"] = build_loss(options.pop("loss_name"), options.pop("assignments"))
    column, positives = (options.pop(name) for name in ("column", "positives"))
    check_writable(output)
    if output.exists() and not overwrite:
        raise GradlabError(f"{output} exists; pass --overwrite or another --output")

    from gradlab.data.sentences import read_columns, read_sentences
    from gradlab.integrations.mining import mine
    from gradlab.monitor.numbers import percent
    from gradlab.waiting import waiting

    with waiting(f"Reading {train_file}"):
        rows = list(read_columns(train_file, [column, positives], encoding))
        more = None if corpus is None else list(read_sentences(corpus, encoding=encoding))
    anchors, answers = [one for one, _ in rows], [other for _, other in rows]
    mined = mine(model, anchors, answers, corpus=more, progress=True, **options)
    click.echo(
        f"{'at most this similar':22}{'rows found':>12}{'false by words':>16}"
        f"{'share of all push':>19}"
    )
    for one in mined.choices:
        limit = "no limit" if one.share is None else f"{percent(one.share)} of the positive"
        chosen = "  <- written" if one.share == options["share"] else ""
        click.echo(f"{limit:22}{len(one.rows):12,}{one.false:16,}{percent(one.push):>19}{chosen}")
    path = mined.write(output, (column, positives))
    click.echo(f"\nWrote {path}: {len(mined.rows):,} of {len(anchors):,} rows. Next:\n")
    words = ["gradlab", "inspect", "--model", model, "--train-file", str(path)]
    words += ["--column", column, "--positives", positives]
    for place in range(options["negatives"]):
        words += ["--hard-negatives", f"negative_{place + 1}"]
    # Not the encoding, since the file that was written is UTF-8.
    of_both = ("loss_files", "loss_name", "assignments", "pooler", "device", "max_length")
    for name, given in given_options().items():
        words += given if name in of_both else []
    click.echo(f"  {shlex.join(words)}")

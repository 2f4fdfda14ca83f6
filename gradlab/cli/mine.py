"""The command ``gradlab mine``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from gradlab.cli.training_file_options import open_training_file, training_file_options
from gradlab.errors import GradlabError
from gradlab.files import check_writable

if TYPE_CHECKING:
    from gradlab.integrations.mining import Mined

CAUTION = """\
A negative is false by words if it says in the same words what its anchor or positive says.
Paraphrases in other words are not seen: 0 does not mean that there are none. A stronger --model, a
--judge or a smaller --share chooses fewer of them. Read some rows before you train."""


@click.command()
@option("--model", "Encoder that mines: a local folder or a Hugging Face hub name.", required=True)
@training_file_options(required=True)
@option("--corpus", "More texts to mine from, one a line.", kind=Path)
@option(
    "--share",
    "Largest similarity of a hard negative to its anchor, as a share of the positive's.",
    0.9,
)
@option(
    "--judge",
    "A second model that must agree that a hard negative is less similar than the positive: an "
    "encoder or a cross-encoder, a local folder or a Hugging Face hub name.",
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
@option("--output", "CSV file to write.", kind=Path, required=True)
@option("--overwrite", "Replace the file.", False)
def command(
    model: str,
    train_file: Path,
    corpus: Path | None,
    output: Path,
    overwrite: bool,
    **options: Any,
) -> None:
    """Mine hard negatives that are clearly less similar to the anchor than its positive.

    This is the positive-aware mining of NV-Retriever.
    """
    options["loss"] = build_loss(options.pop("loss_name"), options.pop("assignments"))
    check_writable(output)
    if output.exists() and not overwrite:
        raise GradlabError(f"{output} exists; pass --overwrite or another --output")

    from gradlab.data.sentences import read_sentences
    from gradlab.integrations.mining import mine
    from gradlab.progress_bars import waiting

    encoding = options["encoding"]
    file = open_training_file(train_file, options)
    assert file is not None
    if file.roles.positive is None:
        raise GradlabError(f"{train_file} has no positives; name their column: --positive-column")
    with waiting(f"Reading {train_file}"):
        anchors, positives, *_ = file.to_columns().values()
        passages = None if corpus is None else list(read_sentences(corpus, encoding=encoding))
    mined = mine(model, anchors, positives, corpus=passages, progress=True, **options)
    _print_choices(mined, options["judge"] is not None, options["share"])
    click.echo(f"\n{CAUTION}")
    names = (file.roles.anchor or "anchor", file.roles.positive)
    path = mined.write(output, names)
    click.echo(f"\nWrote {path}: {len(mined.rows):,} of {len(anchors):,} rows. Next:\n")
    words = ["gradlab", "inspect", "--model", model, "--train-file", str(path)]
    words += ["--column", names[0], "--positive-column", names[1], "--negative-columns"]
    words.append("+".join(f"negative_{place + 1}" for place in range(options["negatives"])))
    # Not the encoding, since the file that was written is UTF-8.
    of_both = ("loss_files", "loss_name", "assignments", "pooler", "device", "max_length")
    for name, option_words in given_options().items():
        words += option_words if name in of_both else []
    click.echo(f"  {shlex.join(words)}")


def _print_choices(mined: Mined, judged: bool, share: float) -> None:
    """Print how many rows each limit of similarity gives, and what part of the push is theirs."""
    from gradlab.numbers import percent

    refused = f"{'refused by judge':>18}" * judged
    click.echo(
        f"{'at most this similar':22}{'rows found':>12}{refused}{'false by words':>16}"
        f"{'share of all push':>19}"
    )
    for choice in mined.choices:
        limit = "no limit" if choice.share is None else f"{percent(choice.share)} of the positive"
        mark = "  <- written" if choice.share == share else ""
        refused = "" if choice.refused is None else f"{choice.refused:18,}"
        click.echo(
            f"{limit:22}{len(choice.rows):12,}{refused}{choice.false:16,}"
            f"{percent(choice.push):>19}{mark}"
        )

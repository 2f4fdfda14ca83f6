"""``gradlab mine``."""

from __future__ import annotations

from pathlib import Path

import click

from gradlab.cli.options import build_loss, device_option, loss_option, pooler_option, set_option
from gradlab.errors import GradlabError
from gradlab.files import check_writable

EPILOG = """\b
Examples:
  gradlab mine --model sentence-transformers/all-MiniLM-L6-v2 --train-file pairs.csv \\
      --column question --positives answer --output triples.csv
  gradlab mine --model runs/simcse/encoder --train-file pairs.csv --column question --positives answer \\
      --share 0.9 --negatives 3 --corpus passages.txt --output mined.csv

Writes anchors, positives and hard negatives (negative_1, negative_2, ...) and prints what other limits would do: how
many rows find enough hard negatives, how many of these are false by their words, and which share of the push
they receive.
"""


@click.command(epilog=EPILOG)
@click.option("--model", required=True, help="Encoder that mines: a local folder or a Hugging Face hub name.")
@click.option("--train-file", required=True, type=click.Path(path_type=Path),
              help="Pairs: JSON lines, CSV, TSV or Parquet.")  # fmt: skip
@click.option("--column", required=True, help="Column with the anchors.")
@click.option("--positives", required=True, help="Column with the positives.")
@click.option("--corpus", type=click.Path(path_type=Path), help="More texts to mine from, one a line.")
@click.option("--share", default=0.95, show_default=True, type=click.FloatRange(0, 1, min_open=True),
              help="A hard negative is at most this share as similar to the anchor as its positive.")  # fmt: skip
@click.option(
    "--negatives", default=1, show_default=True, type=click.IntRange(1), help="Hard negatives of each anchor."
)
@loss_option(default="infonce", show_default=True)
@set_option
@click.option("--batch-size", default=64, show_default=True, type=click.IntRange(2),
              help="Sentences that meet in one loss, where the push is measured.")  # fmt: skip
@click.option("--max-length", type=click.IntRange(3), help="Tokens of a text.  [default: the model's]")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the files.")
@pooler_option
@device_option
@click.option(
    "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="CSV file to write."
)
@click.option("--overwrite", is_flag=True, help="Replace the file.")
def command(
    model: str,
    train_file: Path,
    column: str,
    positives: str,
    corpus: Path | None,
    share: float,
    negatives: int,
    loss_name: str,
    assignments: tuple[str, ...],
    batch_size: int,
    max_length: int | None,
    encoding: str,
    pooler: str | None,
    device: str,
    output: Path,
    overwrite: bool,
) -> None:
    """Mine hard negatives that are clearly less similar to the anchor than its positive (as NV-Retriever does)."""
    loss = build_loss(loss_name, assignments)
    check_writable(output)
    if output.exists() and not overwrite:
        raise GradlabError(f"{output} exists; pass --overwrite or another --output")

    from gradlab.encoder.model import Encoder
    from gradlab.integrations.mining import mine
    from gradlab.monitor.numbers import percent
    from gradlab.train.sentences import read_columns, read_sentences
    from gradlab.waiting import waiting

    with waiting(f"Reading {train_file}"):
        rows = list(read_columns(train_file, [column, positives], encoding))
        more = None if corpus is None else list(read_sentences(corpus, encoding=encoding))
    with waiting(f"Loading {model}"):
        encoder = Encoder.load(model, pooler, max_length=max_length, device=device)
    anchors, answers = [one for one, _ in rows], [other for _, other in rows]
    mined = mine(
        encoder, anchors, answers, share=share, negatives=negatives, corpus=more, loss=loss, batch_size=batch_size, progress=True
    )  # fmt: skip
    click.echo(
        f"{'at most this similar':22}{'rows found':>12}{'false by words':>16}{'share of all push':>19}"
    )
    for one in mined.choices:
        limit = "no limit" if one.share is None else f"{percent(one.share)} of the positive"
        chosen = "  <- written" if one.share == share else ""
        click.echo(f"{limit:22}{len(one.rows):12,}{one.false:16,}{percent(one.push):>19}{chosen}")
    path = mined.write(output, (column, positives))
    click.echo(f"\nWrote {path}: {len(mined.rows):,} of {len(anchors):,} rows. Next:\n")
    columns = " ".join(f"--hard-negatives negative_{place}" for place in range(1, negatives + 1))
    click.echo(
        f"  gradlab inspect --model {model} --train-file {path} --column {column} --positives {positives} {columns}"
    )

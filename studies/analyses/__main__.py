"""``python -m studies.analyses``: a group of small commands, each with its own help."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from gradlab import GradlabError
from gradlab.batch import unit_rows
from gradlab.cli import (
    CommandGroup,
    OutputFolder,
    data_option,
    device_option,
    main,
    option,
    pooler_option,
)
from gradlab.data import read_sentences
from gradlab.encoder import Encoder
from gradlab.evaluate import downstream, load_sts
from gradlab.files import write_csv
from gradlab.gradient import effective_rank
from gradlab.plotting import save, stack
from gradlab.train import find_device
from studies.analyses import encoders as measures
from studies.analyses import figures, traceable_distance
from studies.analyses.figures import columns_as_text
from studies.analyses.runs import distances_of, find_runs, path_of

HELP = {"help_option_names": ["-h", "--help"]}
EPILOG = """\b
Examples:
  python -m studies.analyses distance --momentum 0.85 --queue-size 512 --batch-size 64
  python -m studies.analyses distance runs/mocose
  python -m studies.analyses length-bias --model runs/simcse/best --model runs/esimcse/best \\
      --eval-data SentEval/data/downstream
  python -m studies.analyses edits --model runs/simcse/best --sentences sentences.txt
  python -m studies.analyses spectrum --model bert-base-uncased --model runs/mocose/best \\
      --eval-data SentEval/data/downstream
  python -m studies.analyses path runs/simcse runs/mocose

Each writes its numbers as CSV and its figure into --output, and prints a table.
"""


@click.group(cls=CommandGroup, epilog=EPILOG, context_settings=HELP)
def command() -> None:
    """Analyse queues, momentum branches, length bias and embeddings' shape (MoCoSE, ESimCSE)."""


_output = option("--output", "Folder to write to; what is there under the same name is replaced.",
                 "analyses", OutputFolder())  # fmt: skip


def _write(output: Path, name: str, table: Mapping[str, Any] | None, figure: Any = None) -> None:
    """Write ``NAME.csv`` and ``NAME.png``, as far as they are there, and say so."""
    if table is not None:
        click.echo(f"Wrote {write_csv(output / f'{name}.csv', table)}")
    if figure is not None:
        click.echo(f"Wrote {save(figure, output / f'{name}.png')}")


def _encoder_options(function: Any) -> Any:
    text = "A model folder or a hub name; repeatable, NAME=PATH names it."
    settings: Any = {"required": True, "multiple": True, "metavar": "PATH_OR_NAME"}
    return option("--model models", text, **settings)(pooler_option(device_option(function)))


def _encoders(models: tuple[str, ...], pooler: str | None, device: str) -> Iterator[Any]:
    """Encoders by name: what precedes ``=``, or the path."""
    for text in models:
        name, equals, place = text.partition("=")
        if not equals or Path(text).exists():
            name, place = text, text
        yield name, Encoder.load(place, pooler, device=find_device(device))


@command.command()
@click.argument("folders", nargs=-1, metavar="[RUN]...", type=click.Path(path_type=Path))
@option("--momentum", "η, without a run.", kind=float)
@option("--queue-size", "Rows of the queue, without a run.", kind=int)
@option("--batch-size", "Rows of a batch, without a run.", kind=int)
@_output
def distance(folders: tuple[Path, ...], output: Path, **formula: Any) -> None:
    """Maximum traceable distance: by the formula, and measured from the queue's ages in runs."""
    if not folders:
        if None in formula.values():
            raise GradlabError("give runs, or --momentum, --queue-size and --batch-size")
        click.echo(f"{traceable_distance(**formula):.4f}")
        return
    for run in find_runs(folders):
        table = distances_of(run)
        last = {name: column[-1] for name, column in table.items()}
        click.echo(
            f"{run.name}: measured {last['measured']:.2f} at step {last['step']:.0f}, "
            f"formula {last['formula']:.2f}"
        )
        figure, axes = figures.row_of(2)
        figures.draw_finite_steps(ax=axes[0])
        figures.draw_distances(table, ax=axes[1])
        _write(output, f"distance-{run.name}", table, figure)


@command.command()
@click.argument(
    "folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(path_type=Path)
)
@_output
def path(folders: tuple[Path, ...], output: Path) -> None:
    """Alignment and uniformity over the steps of runs."""
    paths = {run.name: path_of(run) for run in find_runs(folders)}
    for name, table in paths.items():
        ends = {measure: table[measure][[0, -1]] for measure in ("alignment", "uniformity")}
        said = [f"{measure} {first:.4f} -> {last:.4f}" for measure, (first, last) in ends.items()]
        click.echo(f"{name}: {', '.join(said)}")
    _write(output, "path", _stacked("run", paths), figures.draw_paths(paths)[0])


@command.command("length-bias")
@_encoder_options
@data_option
@option("--split", "Which pairs.", "test", ["test", "dev"])
@_output
def length_bias(eval_data: Path, split: str, output: Path, **models: Any) -> None:
    """Whether sentences of similar length are taken to be more similar (ESimCSE, Table 1)."""
    sets = measures.load_sets(eval_data, split)
    biases = {}
    for name, encoder in _encoders(**models):
        biases[name] = measures.length_bias(encoder, sets)
        click.echo(f"{name}\n{columns_as_text(biases[name].correlations)}")
        click.echo(f"slope of the excess: {biases[name].slope:.5f} of the ranks a word\n")
    for kind in ("correlations", "curve"):
        tables = {name: getattr(bias, kind) for name, bias in biases.items()}
        _write(output, f"length-bias-{kind}", _stacked("model", tables))
    _write(output, "length-bias", None, figures.draw_length_bias(biases)[0])


@command.command()
@_encoder_options
@option("--sentences", "Text, CSV, JSON lines or Parquet.", kind=Path, required=True)
@option("--column", "Column with the sentences.")
@option("--count", "The first so many of them.", 500, click.IntRange(1))
@option("--edit edits", "An augmentation such as word_repetition(rate=0.2); repeatable.",
        measures.EDITS, multiple=True, metavar="NAME")  # fmt: skip
@option("--draws", "Edited versions of a sentence.", 4, click.IntRange(1))
@option("--seed", "Seed of the edits.", 0, click.IntRange(0))
@_output
def edits(
    sentences: Path, column: str | None, count: int, edits: tuple[str, ...], draws: int, seed: int,
    output: Path, **models: Any,
) -> None:  # fmt: skip
    """How similar encoders find sentences and edited ones (ESimCSE, Table 2)."""
    chosen = list(itertools.islice(read_sentences(sentences, column), count))
    similarities = {}
    for name, encoder in _encoders(**models):
        table = measures.edited_similarities(
            encoder, chosen, edits, draws=draws, seed=seed, progress=True
        )
        versions = f"{len(chosen)} sentences, {draws} versions of each"
        click.echo(f"{name}: {versions}\n{columns_as_text(table)}\n")
        similarities[name] = table
    _write(output, "edits", _stacked("model", similarities))


@command.command()
@_encoder_options
@data_option
@option("--centre", "Without the mean of the embeddings.", False)
@_output
def spectrum(eval_data: Path, centre: bool, output: Path, **models: Any) -> None:
    """Singular values of the embeddings of STS-B's test sentences (MoCoSE, Figure 7)."""
    sentences = list(dict.fromkeys(load_sts(downstream(eval_data), "STS-B", "test")[0].sentences))
    spectra = {}
    for name, encoder in _encoders(**models):
        rows = np.asarray(encoder.encode(sentences), dtype=np.float64)
        spectra[name] = measures.spectrum(rows, centre=centre)
        half = int((spectra[name]["cumulative"] < 0.5).sum()) + 1
        rank = effective_rank(unit_rows(rows))
        click.echo(f"{name}: effective rank {rank:.1f}; {half} directions hold half of the squares")
    _write(output, "spectrum", _stacked("model", spectra), figures.draw_spectra(spectra)[0])


def _stacked(column: str, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Tables one after another, with their names as a first column."""
    return stack([{column: name, **table} for name, table in tables.items()])


if __name__ == "__main__":
    main(command)

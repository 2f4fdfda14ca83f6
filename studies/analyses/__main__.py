"""``python -m studies.analyses``: a group of small commands, each with its own help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli import CommandGroup, OutputFolder, data_option, device_option, main, pooler_option

if TYPE_CHECKING:
    from studies.analyses import LengthBias

EPILOG = """\b
Examples:
  python -m studies.analyses distance --momentum 0.85 --queue-size 512 --batch-size 64
  python -m studies.analyses distance runs/mocose
  python -m studies.analyses setting runs/mocose-distance --x distance
  python -m studies.analyses setting runs/esimcse-figure-2 --x batch_size
  python -m studies.analyses queue runs/mocose
  python -m studies.analyses length-bias --model runs/simcse/best --model runs/esimcse/best --data SentEval/data/downstream
  python -m studies.analyses edits --model runs/simcse/best --sentences sentences.txt
  python -m studies.analyses spectrum --model bert-base-uncased --model runs/mocose/best --data SentEval/data/downstream
  python -m studies.analyses path runs/simcse runs/mocose

Each writes its numbers as CSV and its figure into --output, and prints a table.
"""


@click.group(cls=CommandGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Analyse queues, momentum branches, length bias and the shape of embeddings (MoCoSE, ESimCSE)."""


def _output(function: Any) -> Any:
    function = click.option("--format", "formats", multiple=True, default=("png",), show_default=True,
                            type=click.Choice(["png", "svg", "pdf"]), help="Picture format; repeatable.")(function)  # fmt: skip
    return click.option("--output", default="analyses", show_default=True, type=OutputFolder(),
                        help="Folder to write to; what is there under the same name is replaced.")(function)  # fmt: skip


_models = click.option("--model", "models", required=True, multiple=True, metavar="PATH_OR_NAME",
                       help="A model folder or a hub name; repeatable, NAME=PATH names it.")  # fmt: skip
_runs = click.argument(
    "folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(path_type=Path)
)


@command.command()
@click.argument("folders", nargs=-1, metavar="[RUN]...", type=click.Path(path_type=Path))
@click.option("--momentum", type=float, help="η, without a run.")
@click.option("--queue-size", type=int, help="Rows of the queue, without a run.")
@click.option("--batch-size", type=int, help="Rows of a batch, without a run.")
@_output
def distance(
    folders: tuple[Path, ...],
    momentum: float | None,
    queue_size: int | None,
    batch_size: int | None,
    output: Path,
    formats: tuple[str, ...],
) -> None:
    """Maximum traceable distance: by the formula, and measured over runs from the ages in their queue."""
    from gradlab import GradlabError

    if not folders:
        if momentum is None or queue_size is None or batch_size is None:
            raise GradlabError("give runs, or --momentum, --queue-size and --batch-size")
        from studies.analyses.distance import traceable_distance

        click.echo(f"{traceable_distance(momentum, queue_size, batch_size):.4f}")
        return
    from studies.analyses.figures import draw_distances, draw_finite_steps, row_of
    from studies.analyses.runs import distances_of, find_runs

    for run in find_runs(folders):
        table = distances_of(run)
        last = {name: column[-1] for name, column in table.items()}
        click.echo(
            f"{run.name}: measured {last['measured']:.2f} at step {last['step']:.0f}, formula {last['formula']:.2f}"
        )
        figure, axes = row_of(2)
        draw_finite_steps(ax=axes[0])
        draw_distances(table, axes[1])
        _write(output, f"distance-{run.name}", table, figure, formats)


@command.command()
@_runs
@click.option("--x", required=True, metavar="SETTING", help="A setting of gradlab train, or distance.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME",
              help="stsb_dev or group/name of the metrics file; repeatable.  [default: stsb_dev]")  # fmt: skip
@_output
def setting(
    folders: tuple[Path, ...], x: str, metrics: tuple[str, ...], output: Path, formats: tuple[str, ...]
) -> None:
    """Results of runs and sweeps against a setting, or the maximum traceable distance: mean and spread over seeds."""
    from studies.analyses.figures import columns_as_text, draw_summaries
    from studies.analyses.runs import find_runs, summarise_runs

    wanted = metrics or ("stsb_dev",)
    table = summarise_runs(find_runs(folders), x, wanted)
    click.echo(columns_as_text(table))
    _write(output, f"setting-{x}", table, draw_summaries(table, x, wanted)[0], formats)


@command.command()
@_runs
@_output
def path(folders: tuple[Path, ...], output: Path, formats: tuple[str, ...]) -> None:
    """Alignment and uniformity over the steps of runs."""
    from gradlab.plotting import stack
    from studies.analyses.figures import draw_paths
    from studies.analyses.runs import find_runs, path_of

    paths = {run.name: path_of(run) for run in find_runs(folders)}
    for name, table in paths.items():
        ends = {column: (values[0], values[-1]) for column, values in table.items()}
        click.echo(
            f"{name}: alignment {ends['alignment'][0]:.4f} -> {ends['alignment'][1]:.4f}, "
            f"uniformity {ends['uniformity'][0]:.4f} -> {ends['uniformity'][1]:.4f}"
        )
    table = stack([{"run": [name] * len(one["step"]), **one} for name, one in paths.items()])
    _write(output, "path", table, draw_paths(paths)[0], formats)


@command.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@device_option
@_output
def queue(folder: Path, device: str, output: Path, formats: tuple[str, ...]) -> None:
    """What the queue in a run's newest checkpoint does to the gradient, by its size and by the age of its rows."""
    from studies.analyses.figures import columns_as_text, draw_by_age, draw_by_size, row_of
    from studies.analyses.runs import queue_of

    found = queue_of(folder, device)
    for name, table in found.items():
        click.echo(f"By {name}\n{columns_as_text(table)}")
    figure, axes = row_of(2)
    draw_by_size(found["size"], axes[0])
    draw_by_age(found["age"], axes[1])
    _write(output, "queue-size", found["size"])
    _write(output, "queue-age", found["age"])
    _write(output, "queue", None, figure, formats)


@command.command("length-bias")
@_models
@data_option
@click.option("--split", type=click.Choice(["test", "dev"]), default="test", show_default=True)
@click.option("--length", type=click.Choice(["words", "tokens"]), default="words", show_default=True,
              help="What is counted: words, or tokens of the first model.")  # fmt: skip
@pooler_option
@device_option
@_output
def length_bias(
    models: tuple[str, ...],
    data: Path,
    split: str,
    length: str,
    pooler: str | None,
    device: str,
    output: Path,
    formats: tuple[str, ...],
) -> None:
    """Whether sentences of similar length are taken to be more similar (ESimCSE, Table 1)."""
    from gradlab.plotting import stack
    from studies.analyses.figures import columns_as_text, draw_length_bias
    from studies.analyses.length import length_bias as measure
    from studies.analyses.length import load_sets, words

    sets = load_sets(data, split)
    count: Callable[[str], int] = words
    found: dict[str, LengthBias] = {}
    for name, encoder in _encoders(models, pooler, device):
        if length == "tokens" and not found:
            count = partial(_tokens, encoder.tokenizer)
        found[name] = measure(encoder, sets, length=count)
        click.echo(f"{name}\n{columns_as_text(found[name].correlations)}")
        click.echo(f"slope of the excess: {found[name].slope:.5f} of the ranks a {length[:-1]}\n")
    tables = {
        part: stack([_named(name, getattr(bias, part)) for name, bias in found.items()])
        for part in ("correlations", "curve")
    }
    for part, table in tables.items():
        _write(output, f"length-bias-{part}", table)
    _write(output, "length-bias", None, draw_length_bias(found)[0], formats)


@command.command()
@_models
@click.option(
    "--sentences", required=True, type=click.Path(path_type=Path), help="Text, CSV, JSON lines or Parquet."
)
@click.option("--column", help="Column with the sentences.")
@click.option(
    "--count", type=click.IntRange(1), default=500, show_default=True, help="The first so many of them."
)
@click.option("--edit", "edits", multiple=True, metavar="NAME",
              help="An augmentation such as word_repetition(rate=0.2); repeatable.  [default: those of the paper]")  # fmt: skip
@click.option(
    "--draws", type=click.IntRange(1), default=4, show_default=True, help="Edited versions of a sentence."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@pooler_option
@device_option
@click.option("--output", default="analyses", show_default=True, type=OutputFolder(), help="Folder to write to.")  # fmt: skip
def edits(
    models: tuple[str, ...],
    sentences: Path,
    column: str | None,
    count: int,
    edits: tuple[str, ...],
    draws: int,
    seed: int,
    pooler: str | None,
    device: str,
    output: Path,
) -> None:
    """How similar encoders find sentences and edited ones (ESimCSE, Table 2)."""
    import itertools

    from gradlab.plotting import stack
    from gradlab.train import read_sentences
    from studies.analyses.edits import EDITS, edited_similarities
    from studies.analyses.figures import columns_as_text

    chosen = list(itertools.islice(read_sentences(sentences, column), count))
    found = {}
    for name, encoder in _encoders(models, pooler, device):
        found[name] = edited_similarities(
            encoder, chosen, edits or EDITS, draws=draws, seed=seed, progress=True
        )
        click.echo(
            f"{name}: {len(chosen)} sentences, {draws} versions of each\n{columns_as_text(found[name])}\n"
        )
    _write(output, "edits", stack([_named(name, table) for name, table in found.items()]))


@command.command()
@_models
@data_option
@click.option("--centre", is_flag=True, help="Without the mean of the embeddings.")
@pooler_option
@device_option
@_output
def spectrum(
    models: tuple[str, ...],
    data: Path,
    centre: bool,
    pooler: str | None,
    device: str,
    output: Path,
    formats: tuple[str, ...],
) -> None:
    """Singular values of the embeddings of STS-B's test sentences (MoCoSE, Figure 7)."""
    from gradlab.evaluate import downstream, load_sts
    from gradlab.plotting import stack
    from studies.analyses.figures import draw_spectra
    from studies.analyses.singular import rank_of
    from studies.analyses.singular import spectrum as measure

    sentences = list(dict.fromkeys(load_sts(downstream(data), "STS-B", "test")[0].sentences))
    found = {}
    for name, encoder in _encoders(models, pooler, device):
        rows = encoder.encode(sentences)
        found[name] = measure(rows, centre=centre)
        half = int((found[name]["cumulative"] < 0.5).sum()) + 1
        click.echo(f"{name}: effective rank {rank_of(rows):.1f}; {half} directions hold half of the squares")
    table = stack([_named(name, one) for name, one in found.items()])
    _write(output, "spectrum", table, draw_spectra(found)[0], formats)


def _encoders(models: Sequence[str], pooler: str | None, device: str) -> Any:
    """Name and encoder of each ``--model``; a name before ``=`` comes before the path's own."""
    from gradlab.encoder import Encoder
    from gradlab.train import find_device

    for text in models:
        name, equals, place = text.partition("=")
        if not equals or Path(text).exists():
            name, place = text, text
        yield name, Encoder.load(place, pooler, device=find_device(device))


def _tokens(tokenizer: Any, sentence: str) -> int:
    return len(tokenizer(sentence)["input_ids"])


def _named(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": [name] * len(next(iter(table.values()))), **table}


def _write(
    output: Path,
    name: str,
    table: Mapping[str, Any] | None = None,
    figure: Any = None,
    formats: Sequence[str] = (),
) -> None:
    from gradlab.files import write_csv
    from gradlab.plotting import save

    written = [] if table is None else [write_csv(output / f"{name}.csv", table)]
    if figure is not None:
        written += [save(figure, output / f"{name}.{suffix}") for suffix in formats]
    for path in written:
        click.echo(f"Wrote {path}")


if __name__ == "__main__":
    main(command)

"""The command ``gradlab flow``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.options import (
    check_existing,
    device_option,
    file_name,
    loss_option,
    option,
    output_option,
    pooler_option,
)
from gradlab.errors import GradlabError

if TYPE_CHECKING:
    import numpy as np

WRITTEN = {".png": "picture", ".csv": "numbers", ".json": "settings", ".gif": "film"}
# Options of a synthetic batch, and of a model's; the others belong to the flow.
SYNTHETIC = ("topics", "sentences", "dim", "duplicates")
OF_MODEL = (
    "train_file",
    "column",
    "label_column",
    "positive_column",
    "count",
    "max_length",
    "pooler",
)


@click.command()
@loss_option(required=True, multiple=True)
@option("--embeddings", ".npz file of anchors, positives and labels, or .npy of both.", kind=Path)
@option("--model", "Encoder whose embeddings flow: a local folder or a Hugging Face hub name.")
@option("--train-file", "Sentences for --model, in a format of `gradlab train`.", kind=Path)
@option("--column", "Column with the sentences.")
@option("--label-column", "Column with their topics, for measuring only.")
@option("--positive-column", "Column with the positives; without one, dropout makes them.")
@option("--count", "Sentences to take from the file, the first ones.", 256, click.IntRange(2))
@option("--max-length", "Tokens of a sentence; what is longer is cut.", 32, click.IntRange(1))
@pooler_option
@device_option
@option("--topics", "Topics of the synthetic batch.", 30, click.IntRange(1))
@option("--sentences", "Sentences per topic.", 4, click.IntRange(1))
@option("--dim", "Dimensions of the synthetic batch.", 64, click.IntRange(2))
@option("--duplicates", "Sentences that nearly repeat another one.", 4, click.IntRange(0))
@option("--side", "The view that moves.", "both", ["both", "anchors", "positives"])
@option(
    "--batch-size",
    "Sentences per batch, drawn anew for each step.  [default: all sentences]",
    kind=click.IntRange(1),
)
@option("--steps", "Largest number of steps.", 1000, click.IntRange(1))
@option("--tolerance", "Largest error of a step, in radians.", 1e-4)
@option("--last-time", "Time at which to end at the latest.  [default: none]", kind=float)
@option("--seed", "Seed of the synthetic batch, of dropout and of batches.", 0, click.IntRange(0))
@option("--animate", "Also write a short film, as a GIF.", False)
@output_option("flow")
def command(
    loss_name: tuple[str, ...], animate: bool, output: Path, overwrite: bool, **options: Any
) -> None:
    """Show where losses lead: let embeddings flow against the gradient until they rest.

    Every embedding moves freely on the unit sphere; there is no encoder. This says what a loss asks
    for, not what a network can do. Without --embeddings or --model, a synthetic batch flows, with
    topics, near-duplicates and a common direction.
    """
    import math

    from gradlab.files import for_json, write_csv, write_json
    from gradlab.flow import Flows, flow
    from gradlab.flow.picture import animate as write_film
    from gradlab.losses.registry import by_text
    from gradlab.plotting.style import save

    losses = by_text(loss_name)
    last_time = options["last_time"]
    if last_time is not None and not 0 < last_time < math.inf:
        raise GradlabError(f"--last-time must be a time above 0, not {last_time:g}")
    words, (anchors, positives, topics) = _batch(options)
    names = ("side", "batch_size", "steps", "tolerance", "seed")
    settings = {name: options[name] for name in names}
    texts = {name: str(choice) for name, choice in options.items()}
    manifest = {"losses": list(losses), "batch": words, "options": texts}
    base = output / file_name(["flow", *losses], options)
    suffixes = [suffix for suffix in WRITTEN if animate or suffix != ".gif"]
    replaced = check_existing(base, suffixes, manifest, overwrite)
    click.echo(f"{words}\n")
    flows = Flows()
    settings |= {"last_time": math.inf if last_time is None else last_time, "normalize": True}
    for loss in losses.values():
        flows.append(flow(loss, anchors, positives, groups=topics, progress=True, **settings))
        click.echo(f"{flows[-1]}\n")
    save(flows.plot()[0], Path(f"{base}.png"))
    write_csv(f"{base}.csv", flows.columns())
    results = [ended.manifest() for ended in flows]
    settled = manifest | {"results": results, "versions": results[0]["versions"]}
    write_json(f"{base}.json", for_json(settled))
    if animate:
        write_film(flows, f"{base}.gif", True)
    for suffix in suffixes:
        click.echo(f"{'Replaced' if replaced else 'Wrote'} {base}{suffix} ({WRITTEN[suffix]})")


def _batch(options: dict[str, Any]) -> tuple[str, tuple[Any, Any, Any]]:
    """Return words on the batch, and its anchors, positives and topics or None."""
    context = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE

    def option_names(names: tuple[str, ...]) -> str:
        return ", ".join(
            f"--{name.replace('_', '-')}"
            for name in names
            if context.get_parameter_source(name) is source
        )

    has_rows = options["embeddings"] is not None or options["model"] is not None
    if options["embeddings"] is not None and (surplus := option_names(("model", *OF_MODEL))):
        raise GradlabError(f"--embeddings brings the batch; leave {surplus} out")
    if has_rows and (surplus := option_names(SYNTHETIC)):
        raise GradlabError(f"{surplus}: only without --embeddings and --model")
    if options["embeddings"] is not None:
        return _from_file(options["embeddings"])
    if options["model"] is not None:
        return _from_model(options)
    if surplus := option_names(OF_MODEL):
        raise GradlabError(f"{surplus}: only with --model")
    from gradlab.flow import synthetic_batch

    batch = synthetic_batch(**{name: options[name] for name in SYNTHETIC}, seed=options["seed"])
    words = (
        f"Synthetic batch: {options['topics']} topics of {options['sentences']} sentences in "
        f"{options['dim']} dimensions, {options['duplicates']} of them near-duplicates, and a "
        "direction that all share."
    )
    return words, (batch.anchors, batch.positives, batch.topics)


def _from_file(path: Path) -> tuple[str, tuple[Any, Any, Any]]:
    from gradlab.cli.inspect import load_embeddings

    arrays = load_embeddings(path)
    if not hasattr(arrays, "get"):
        arrays = {"anchors": arrays}
    if "anchors" not in arrays:
        raise GradlabError(f"{str(path)!r} has {', '.join(arrays)}, but no array 'anchors'")
    anchors = _rows(arrays["anchors"])
    positives = arrays.get("positives")
    words = f"{len(anchors)} embeddings of {path}."
    if positives is None:
        words += " Without positives, each sentence is its own."
    positives = anchors if positives is None else _rows(positives)
    return words, (anchors, positives, arrays.get("labels"))


def _rows(array: Any) -> np.ndarray:
    import numpy as np

    if array.dtype.kind not in "fiu":
        raise GradlabError(f"embeddings must be numbers, not {array.dtype}")
    return np.array(array, dtype=np.float64)


def _from_model(options: dict[str, Any]) -> tuple[str, tuple[Any, Any, Any]]:
    import numpy as np
    import torch

    from gradlab.data import Roles, TrainingFile
    from gradlab.inspection.model_source import ModelSource
    from gradlab.inspection.texts import Texts

    if options["train_file"] is None:
        raise GradlabError("--model needs sentences; add --train-file")
    roles = Roles(options["column"], options["positive_column"], label=options["label_column"])
    file = TrainingFile.open(options["train_file"], roles)
    examples = list(itertools.islice(file.examples(), options["count"]))
    if not examples:
        raise GradlabError(f"{options['train_file']} has no sentences")
    anchors = [example.texts[0] for example in examples]
    pairs = file.roles.positive is not None
    positives = [example.texts[1] for example in examples] if pairs else None
    sentences = Texts(anchors, positives)
    source = ModelSource(
        options["model"], sentences, options["pooler"], options["max_length"], options["device"]
    )
    torch.manual_seed(options["seed"])  # for dropout
    batch = source.batch(np.arange(len(anchors)))
    topics = None
    if options["label_column"] is not None:
        topics = np.unique([example.label for example in examples], return_inverse=True)[1]
    count, model = len(batch.anchors), options["model"]
    words = f"The first {count} sentences of {options['train_file']}, embedded by {model}."
    return words, (batch.anchors, batch.positives, topics)

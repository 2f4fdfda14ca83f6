"""``gradlab decompose``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import OutputFolder, check_existing
from gradlab.errors import GradlabError, nearest
from gradlab.settings import read_assignments

EPILOG = """\b
Examples:
  gradlab decompose infonce --set temperature=0.1
  gradlab decompose my_losses:triplet
  gradlab decompose my_losses.py:make_loss --set margin=0.3
  gradlab decompose sentence_transformers.losses:MultipleNegativesRankingLoss --set scale=20
  gradlab decompose pytorch_metric_learning.losses:TripletMarginLoss \\
      --set distance=pytorch_metric_learning.distances:CosineSimilarity
  gradlab decompose my_losses:loss --embeddings views.npz
  gradlab decompose "symmetric(infonce)" --side both

TARGET names a function loss(anchors, positives) of torch tensors, a loss object, a class, or a function that
makes a loss; classes and makers are called with the settings. The module may lie in the current folder.

Writes NAME.png (GD, ratio, weights), NAME.csv (one row an anchor), NAME.npz (all coefficients) and
NAME.json (settings, versions); the name tells loss, settings and batch. --side positives is the gradient of the
other view, on which a sentence is what its positive receives; --side both writes the files of both.
"""


@click.command(epilog=EPILOG)
@click.argument("target")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True,
              help="An argument of the loss, e.g. temperature=0.1; repeatable.")  # fmt: skip
@click.option("--batch", default="paired", show_default=True,
              help="Batch to draw: random, paired, anisotropic, clustered or 'nearly collapsed'.")  # fmt: skip
@click.option("--batch-size", default=64, show_default=True, type=click.IntRange(2), help="Sentences.")
@click.option("--dim", default=256, show_default=True, type=click.IntRange(2),
              help="Dimensions; may be fewer than sentences.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the batch.")
@click.option("--embeddings", type=click.Path(dir_okay=False, path_type=Path),
              help="Take the batch from an .npz file: anchors, positives[, extra_negatives], a sentence a row.")  # fmt: skip
@click.option("--side", default="anchors", show_default=True,
              help="View whose gradient it is: anchors, positives or both.")  # fmt: skip
@click.option(
    "--allow-residual",
    is_flag=True,
    default=False,
    help="Project a loss that is no function of dot products.",
)
@click.option("--tolerance", default=1e-4, show_default=True, help="Relative residual that counts as none.")
@click.option("--output", default="figures", show_default=True, type=OutputFolder(),
              help="Folder to write to.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace files made with other settings.")
def command(
    target: str,
    assignments: tuple[str, ...],
    output: Path,
    overwrite: bool,
    embeddings: Path | None,
    **options: Any,
) -> None:
    """Find gradient dissipation, weights and ratio of any loss from its gradients.

    Prints the components on one batch, the part of the gradient that they cannot express, and the registered
    loss that has the same components, if one has.
    """
    from gradlab.decomposition import decompose
    from gradlab.decomposition.matching import nearest_losses
    from gradlab.decomposition.report import SUFFIXES, both_sides_text, manifest, report_text, write
    from gradlab.decomposition.resolve import resolve_loss
    from gradlab.gradient.paradigm import check_side
    from gradlab.plotting.style import save

    check_side(options["side"])
    settings = read_assignments(assignments)
    views, batch = _batch(embeddings, options)
    loss = resolve_loss(target, settings)
    checks = {name: options[name] for name in ("allow_residual", "tolerance")}
    found = decompose(loss, *views, normalize=True, side=options["side"], **checks)
    sides = found if isinstance(found, tuple) else (found,)
    matches = [nearest_losses(one) for one in sides]
    for one, some in zip(sides, matches, strict=True):
        click.echo(report_text(one, some) + "\n")
    if len(sides) == 2:
        click.echo(both_sides_text(*sides) + "\n")

    written = []
    for one, some in zip(sides, matches, strict=True):
        checked = {**checks, "side": one.side}
        base = output / _file_name(target, settings, batch, checked)
        record = manifest(one, {"target": target, "set": settings, **batch, **checked}, some)
        written.append((one, base, record, check_existing(base, SUFFIXES, record, overwrite)))
    for one, base, record, replaced in written:
        save(one.plot()[0], Path(f"{base}.png"))
        write(one, base, record)
        for suffix, what in SUFFIXES.items():
            what = what if one.side == "anchors" else what.replace("an anchor", "a positive")
            click.echo(f"{'Replaced' if replaced else 'Wrote'} {base}{suffix} ({what})")


def _batch(embeddings: Path | None, options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The views, and what the manifest says of them."""
    import numpy as np

    from gradlab.decomposition.batch_file import load_batch
    from gradlab.gradient.verification import BATCHES

    if embeddings is not None:
        return load_batch(embeddings), {"embeddings": str(embeddings)}
    kind = options["batch"]
    if kind not in BATCHES:
        raise GradlabError(
            f"unknown batch {kind!r}; there are: {', '.join(BATCHES)}.{nearest(kind, BATCHES)}"
        )
    batch = {name: options[name] for name in ("batch", "batch_size", "dim", "seed")}
    return BATCHES[kind](np.random.default_rng(options["seed"]), options["batch_size"], options["dim"]), batch


def _file_name(target: str, settings: dict[str, str], batch: dict[str, Any], checks: dict[str, Any]) -> str:
    """Loss and settings, then whatever of batch and checks differs from the defaults."""
    defaults = {parameter.name: parameter.default for parameter in command.params}
    changed = {name: value for name, value in {**batch, **checks}.items() if value != defaults.get(name)}
    parts = [target, "decompose", *(f"{name}-{value}" for name, value in {**settings, **changed}.items())]
    return "_".join(_slug(part) for part in parts)


def _slug(text: str) -> str:
    """``text`` as part of a file name; ``package.module:Name`` and ``folder/file`` by their last parts."""
    name, dash, value = text.partition("-")
    short = re.sub(r"^.*[:/]", "", value or name)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}{dash}{short}" if dash else short).strip("-.")

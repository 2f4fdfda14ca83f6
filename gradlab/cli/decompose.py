"""The command ``gradlab decompose``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import check_existing, file_name, option, output_option, set_option
from gradlab.errors import check_known
from gradlab.settings import read_assignments


@click.command()
@click.argument("target")
@set_option("An argument of the loss, e.g. temperature=0.1; repeatable.")
@option(
    "--batch",
    "Batch to draw: random, paired, anisotropic, clustered or 'nearly collapsed'.",
    "paired",
)
@option("--batch-size", "Sentences.", 64, click.IntRange(2))
@option("--dim", "Dimensions; may be fewer than sentences.", 256, click.IntRange(2))
@option("--seed", "Seed of the batch.", 0, click.IntRange(0))
@option(
    "--embeddings",
    "Take the batch from an .npz file: anchors, positives[, extra_negatives], one row a sentence.",
    kind=Path,
)
@option("--side", "View whose gradient it is.", "anchors", metavar="anchors|positives|both")
@option("--allow-residual", "Project a loss that is not a function of dot products.", False)
@option("--tolerance", "Relative residual below which the decomposition counts as exact.", 1e-4)
@output_option("decompose")
def command(
    target: str,
    assignments: tuple[str, ...],
    output: Path,
    overwrite: bool,
    embeddings: Path | None,
    **options: Any,
) -> None:
    """Find gradient dissipation, weights and ratio of any loss from its gradients.

    Prints the components on one batch, the part of the gradient that they cannot express, and the
    registered loss that has the same components, if one has.
    """
    from gradlab.decomposition import decompose
    from gradlab.decomposition.both_sides_text import both_sides_text
    from gradlab.decomposition.own_loss import resolve_loss
    from gradlab.decomposition.result import SUFFIXES
    from gradlab.gradient.components_and_autograd import check_side
    from gradlab.plotting.style import save

    check_side(options["side"])
    settings = read_assignments(assignments)
    views, batch = _batch(embeddings, options)
    checks = {name: options[name] for name in ("allow_residual", "tolerance")}
    loss = resolve_loss(target, settings)
    outcome = decompose(loss, *views, normalize=True, side=options["side"], **checks)
    decompositions = outcome if isinstance(outcome, tuple) else (outcome,)
    for decomposition in decompositions:
        click.echo(decomposition.report() + "\n")
    if len(decompositions) == 2:
        click.echo(both_sides_text(*decompositions) + "\n")

    destinations = []
    for decomposition in decompositions:
        about = {**batch, **checks, "side": decomposition.side}
        base = output / file_name([target, "decompose"], settings | about)
        manifest = decomposition.manifest({"target": target, "set": settings, **about})
        replaced = check_existing(base, SUFFIXES, manifest, overwrite)
        destinations.append((decomposition, base, manifest, replaced))
    for decomposition, base, manifest, replaced in destinations:
        save(decomposition.plot()[0], Path(f"{base}.png"))
        decomposition.write(base, manifest)
        for suffix, content in SUFFIXES.items():
            if decomposition.side == "positives":
                content = content.replace("an anchor", "a positive")
            click.echo(f"{'Replaced' if replaced else 'Wrote'} {base}{suffix} ({content})")


def _batch(
    embeddings: Path | None, options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the embeddings of the batch, and their description for the manifest."""
    import numpy as np

    from gradlab.data.embeddings import load_batch
    from gradlab.gradient.verification import BATCHES

    if embeddings is not None:
        return load_batch(embeddings), {"embeddings": str(embeddings)}
    check_known("batch", options["batch"], BATCHES)
    batch = {name: options[name] for name in ("batch", "batch_size", "dim", "seed")}
    kind, *sizes, seed = batch.values()
    return BATCHES[kind](np.random.default_rng(seed), *sizes), batch

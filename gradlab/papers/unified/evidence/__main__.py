"""``python -m gradlab.papers.unified.evidence``."""

from __future__ import annotations

from pathlib import Path

import click

from gradlab.errors import GradlabError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """What each component does. Trainings of the encoder are sweeps: gradlab sweep sweeps/evidence/PART.toml.

    \b
    python -m gradlab.papers.unified.evidence linear --model MODEL --train-file SENTENCES --sts SENTEVAL --output linear
    python -m gradlab.papers.unified.evidence collect SWEEP_FOLDER...  # rows of finished runs
    python -m gradlab.papers.unified.evidence report                   # tables, figures and verdicts
    """


@main.command()
@click.option("--model", required=True, help="Encoder: a folder or a hub name.")
@click.option("--train-file", required=True, type=click.Path(path_type=Path), help="Sentences, one a line.")
@click.option("--sts", required=True, help="SentEval's data/downstream.")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder of tables and cached embeddings.")  # fmt: skip
@click.option("--sweeps", default="sweeps/evidence", type=click.Path(path_type=Path), help="Folder of the specifications.")  # fmt: skip
@click.option("--only", default="", help="Parts, separated by commas; all by default.")
@click.option("--sentences", default=16384, show_default=True, help="Sentences to train on.")
@click.option("--steps", default=600, show_default=True, help="Steps a run.")
def linear(
    model: str, train_file: Path, sts: str, output: Path, sweeps: Path, only: str, sentences: int, steps: int
) -> None:
    """Train the specifications as linear heads on cached embeddings; finished runs are not made again."""
    import itertools

    from gradlab.papers.unified.evidence.linear import PARTS, run_part
    from gradlab.papers.unified.evidence.linear_head import HELD_OUT, cache
    from gradlab.papers.unified.evidence.manifest import write_manifest

    parts = [one.strip() for one in only.split(",")] if only else list(PARTS)
    for one in parts:
        if one not in PARTS:
            raise GradlabError(f"unknown part {one!r}; there are {', '.join(PARTS)}")
    needed = sentences + HELD_OUT
    with train_file.open(encoding="utf-8") as file:
        lines = [line.strip() for line in itertools.islice(file, needed)]
    if len(lines) < needed:
        raise GradlabError(f"{str(train_file)!r} has {len(lines)} sentences; {needed} are needed")
    data = cache(output / "embeddings.npz", model, lines, sts)
    write_manifest(output / "manifest.json", model, train_file, {"sentences": sentences, "steps": steps})
    for part in parts:
        click.echo(f"Wrote {run_part(part, data, sweeps, output, steps)}")


if __name__ == "__main__":
    try:
        main(standalone_mode=True)
    except GradlabError as error:
        raise SystemExit(f"Error: {error}") from None

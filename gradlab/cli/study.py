"""``gradlab study``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import OutputFolder, device_option
from gradlab.errors import GradlabError
from gradlab.papers.unified.study.settings import PRESETS, StudySettings

EPILOG = """\b
Examples:
  gradlab study --model bert-base-uncased --train-file wiki1m_for_simcse.txt \\
      --sts SentEval/data/downstream --output study --dry-run
  gradlab study --model prajjwal1/bert-mini --train-file wiki1m_for_simcse.txt \\
      --sts SentEval/data/downstream --output study
  gradlab study ... --only conjecture1,repairs --seeds 3 --steps 50
  gradlab study ... --setting full --device cuda

\b
Parts:
  conjecture1  angles with and without dissipation; performance against m (Figs. 5, 6)
  conjecture2  share of the hardest negative; performance against τ (Figs. 6, 7)
  conjecture3  minimum ratios, ratios in training; performance against r (Figs. 6, 8)
  assumptions  means, spreads and shape of the angles (Fig. 9)
  repairs      non-contrastive losses before and after repair, contrastive losses (Fig. 1, Table 3)

Runs that parts share are made once. The same command again goes on where it was stopped; with
other --only or more --seeds it makes what is missing. report/ in the output folder has
report.md, pictures, CSV files and manifest.json.
"""


def _numbers(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError as error:
        raise GradlabError(f"--{option.name} takes numbers such as 0.3,0.5,1 (got {text!r})") from error


def _presets(name: str) -> str:
    """A setting's value in each preset, for the help: ``[light: 64; full: 128]``, or ``[32]`` where all agree."""

    def text(value: Any) -> str:
        if value is None:
            return "one epoch"
        if isinstance(value, tuple):
            return ",".join(f"{part:g}" for part in value)
        return f"{value:g}" if isinstance(value, float) else str(value)

    values = {preset: text(getattr(StudySettings.preset(preset), name)) for preset in PRESETS}
    if len(set(values.values())) == 1:
        return f"  [{next(iter(values.values()))}]"
    return f"  [{'; '.join(f'{preset}: {value}' for preset, value in values.items())}]"


_LIGHT = StudySettings.preset("light")


@click.command(epilog=EPILOG)
@click.option(
    "--model",
    required=True,
    metavar="PATH_OR_NAME",
    help="Encoder to start from: a local folder or a hub name.",
)
@click.option(
    "--train-file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Sentences: text, JSON lines, CSV, TSV or Parquet; .gz, .xz and .bz2 too.",
)
@click.option(
    "--sts",
    required=True,
    type=click.Path(path_type=Path),
    metavar="SENTEVAL_DIR",
    help="SentEval's data/downstream folder.",
)
@click.option("--output", required=True, type=OutputFolder(), metavar="DIR", help="The study's folder.")
@click.option(
    "--setting",
    type=click.Choice(list(PRESETS)),
    default="light",
    show_default=True,
    help=f"light: {_LIGHT.steps} steps of {_LIGHT.batch_size} sentences, few conditions; full: the paper's protocol.",
)
@click.option("--only", multiple=True, metavar="PART[,PART]...", help="These parts alone.  [default: all]")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Steps of a run." + _presets("steps"))
@click.option(
    "--seeds",
    type=click.IntRange(1),
    metavar="N",
    help="Runs of each headline condition." + _presets("seeds"),
)
@click.option(
    "--sweep-seeds",
    type=click.IntRange(0),
    metavar="N",
    help="Runs of each further m, τ and r." + _presets("sweep_seeds"),
)
@click.option(
    "--variant-seeds",
    type=click.IntRange(0),
    metavar="N",
    help="Runs with the effective ratio 2r." + _presets("variant_seeds"),
)
@click.option(
    "--transfer-seeds",
    type=click.IntRange(0),
    metavar="N",
    help="Runs of each loss scored on the transfer tasks, which is slow." + _presets("transfer_seeds"),
)
@click.option("--margins", callback=_numbers, metavar="X,X...", help="Values of m." + _presets("margins"))
@click.option(
    "--temperatures", callback=_numbers, metavar="X,X...", help="Values of τ." + _presets("temperatures")
)
@click.option("--ratios", callback=_numbers, metavar="X,X...", help="Values of r." + _presets("ratios"))
@click.option(
    "--batch-size", type=click.IntRange(2), metavar="N", help="Sentences of a batch." + _presets("batch_size")
)
@click.option(
    "--max-length", type=click.IntRange(3), metavar="N", help="Tokens of a sentence." + _presets("max_length")
)
@click.option("--learning-rate", type=float, metavar="X", help="Of AdamW." + _presets("learning_rate"))
@click.option("--pooler", help="As for gradlab train." + _presets("pooler"))
@click.option(
    "--precision", type=click.Choice(["auto", "float32", "bfloat16"]), help=_presets("precision").strip()
)
@click.option(
    "--eval-every",
    type=click.IntRange(1),
    metavar="N",
    help="Steps between evaluations." + _presets("eval_every"),
)
@device_option
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Runs side by side.  [a CPU: one a core, with one thread each; else 1]",
)
@click.option("--dry-run", is_flag=True, help="Print the budget, measured on this device, and stop.")
@click.option(
    "--report-only", is_flag=True, help="Write the report on the runs that are finished; train nothing."
)
def command(
    model: str, train_file: Path, sts: Path, output: Path, setting: str, only: tuple[str, ...], device: str,
    jobs: int | None, dry_run: bool, report_only: bool, **changes: Any,
) -> None:  # fmt: skip
    """Check the three conjectures of the unified-gradient paper on encoders trained for it.

    Prints the budget, trains what is needed, and writes a report with verdicts, figures and tables.
    """
    from gradlab.papers.unified.study.settings import check_parts

    settings = StudySettings.preset(setting, **changes)
    parts = check_parts(only)

    from gradlab.papers.unified.study.run import Study

    study = Study.open(model, train_file, sts, output, settings, parts=parts, jobs=jobs, device=device)
    if not report_only:
        click.echo(study.budget().text())
        if dry_run:
            return
        study.run()
    place = study.report()
    click.echo((place / "report.md").read_text(encoding="utf-8").partition("## Conjecture 1")[0].strip())
    click.echo(f"\nReport in {place / 'report.md'}")

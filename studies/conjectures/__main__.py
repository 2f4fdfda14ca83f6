"""``python -m studies.conjectures``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradlab.cli import OutputFolder, device_option, main, option
from gradlab.errors import require_package
from gradlab.settings import declarations
from gradlab.sweep import require_optuna
from studies.conjectures.conditions import PRESETS, StudySettings
from studies.conjectures.study import Study

EPILOG = """\b
Examples:
  python -m studies.conjectures --model bert-base-uncased --train-file wiki1m_for_simcse.txt \\
      --eval-data SentEval/data/downstream --output study --estimate
  python -m studies.conjectures --preset student --model prajjwal1/bert-mini \\
      --train-file wiki1m_for_simcse.txt --eval-data SentEval/data/downstream --output study
  python -m studies.conjectures ... --only conjecture1,repairs --seeds 3 --steps 50
  python -m studies.conjectures ... --preset full --device cuda

\b
Parts:
  conjecture1  angles with and without dissipation; performance against m (Figs. 5, 6)
  conjecture2  share of the hardest negative; performance against τ (Figs. 6, 7)
  conjecture3  minimum ratios, ratios in training; performance against r (Figs. 6, 8)
  assumptions  means, spreads and shape of the angles (Fig. 9)
  repairs      non-contrastive losses before and after repair, contrastive losses (Fig. 1, Table 3)

Sizes (--steps and on) are those of the preset, studies/conjectures/presets.toml, unless given.
Runs that parts share are made once. The same command again goes on where it was stopped; with
other --only or more --seeds it makes what is missing. report/ in the output folder has
verdicts.md (a page in plain words), report.md, pictures, CSV files and manifest.json.
"""


def size_options(function: Any) -> Any:
    """One option for each setting of `StudySettings`; the preset has what is not given."""
    for declared in reversed(list(declarations(StudySettings).values())):
        if declared.name != "name":
            spelled = f"--{declared.name.replace('_', '-')}"
            function = option(spelled, declared.text, kind=str, metavar="X")(function)
    return function


@click.command(epilog=EPILOG)
@option("--model", "Encoder to start from: a local folder or a hub name.", required=True,
        metavar="PATH_OR_NAME")  # fmt: skip
@option("--train-file", "Sentences: text, JSON lines, CSV, TSV or Parquet; .gz, .xz and .bz2 too.",
        kind=Path, required=True, metavar="FILE")  # fmt: skip
@option("--eval-data", "SentEval's data/downstream folder.", kind=Path, required=True,
        metavar="SENTEVAL_DIR")  # fmt: skip
@option("--output", "The study's folder.", "study", OutputFolder(), metavar="DIR")
@option("--preset", "student: the conjectures in 15 minutes on two cores; light: 100 steps a run, "
        "two hours; full: the paper's protocol.", "light", list(PRESETS))  # fmt: skip
@option("--only", "These parts alone.  [default: all; student: the conjectures]", multiple=True,
        metavar="PART[,PART]...")  # fmt: skip
@size_options
@device_option
@option("--jobs", "Runs side by side.  [a CPU: one a core, with one thread each; else 1]",
        kind=click.IntRange(1), metavar="N")  # fmt: skip
@option("--skip-trial", "Begin without the short trial that estimates the time.", False)
@option("--estimate", "Print the budget, measured on this device, and stop.", False)
@option("--report-only", "Write the report on the runs that are finished; train nothing.", False)
def command(
    model: str, train_file: Path, eval_data: Path, output: Path, preset: str, only: tuple[str, ...],
    device: str, jobs: int | None, skip_trial: bool, estimate: bool, report_only: bool,
    **sizes: str | None,
) -> None:  # fmt: skip
    """Check the three conjectures of the unified-gradient paper on encoders trained for it.

    Prints the budget, trains what is needed, and writes a report with verdicts, figures and tables.
    """
    changes = {name: text for name, text in sizes.items() if text is not None}
    spelled = [f"--{name.replace('_', '-')} {text}" for name, text in changes.items()]
    study = Study.open(
        model, train_file, eval_data, output, StudySettings.preset(preset, **changes),
        sections=only, jobs=jobs, device=device, options=" ".join([f"--preset {preset}", *spelled]),
    )  # fmt: skip
    if not estimate:  # before minutes of trial
        require_package("statsmodels")
    if not (report_only or estimate):
        require_optuna()
    if estimate or not (report_only or skip_trial):
        click.echo(study.budget().text())
    if estimate:
        return
    if not report_only:
        study.run()
    place = study.report()
    click.echo((place / "verdicts.md").read_text(encoding="utf-8"))
    click.echo(f"This page is {place / 'verdicts.md'}; the report is {place / 'report.md'}")


if __name__ == "__main__":
    main(command)

"""Train the parts of tables.toml, and add their rows to the committed ones.

``python -m studies.second_round.rounds [PART]... --output FOLDER``, with ``--model``,
``--train-file`` and ``--eval-data``, goes on where it was stopped. Rows are written whenever a part
has ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import click
import pandas as pd

from gradlab.cli import OutputFolder, main, option
from gradlab.encoder import Encoder
from gradlab.evaluate import evaluate
from gradlab.files import read_object, write_csv, write_text
from gradlab.monitor import DIAGNOSTICS
from gradlab.sweep import DIVERGED, FINISHED, known_runs, run_folder, run_sweep
from gradlab.train import say
from studies import options
from studies.analyses.runs import read_history
from studies.second_round.declarations import (
    COLUMNS,
    ROWS,
    TABLES,
    declaration,
    declared_parts,
    sweep_of,
)

# The small sets among SentEval's transfer tasks.
SETS = ("CR", "TREC", "MRPC")


def rows_of(part: str, changes: Mapping[str, str], output: Path) -> pd.DataFrame:
    """Return a row a run that has ended: the columns of committed rows, and the part's score.

    The ``changes`` are the model and the data that the runs were trained with.
    """
    score = declared_parts()[part].get("score", "sts")
    rows = []
    for run in known_runs(sweep_of(part, changes), output):
        folder = run_folder(output, run)
        if run.state not in (FINISHED, DIVERGED):
            continue
        manifest, results = read_object(folder / "manifest.json"), run.results or {}
        open_shares = read_history(folder).series(DIAGNOSTICS, "active")[1]
        row: dict[str, Any] = {"label": run.point.title(), "seed": run.seed, "state": run.state}
        row["sts"] = run.value if score == "sts" else math.nan
        row["stsb_dev"] = results.get("stsb_dev_last")
        row["open_share"] = mean(open_shares) if open_shares else math.nan
        if score == "alignment_uniformity":
            for name in ("alignment", "uniformity"):
                row[name] = results.get(f"{DIAGNOSTICS}/{name}", math.nan)
            row[score] = -(row["alignment"] + row["uniformity"])
        if score == "transfer":
            row[score] = transfer_score(folder, changes["eval_data"])
        rows.append(row | {"device": manifest["device"]["name"], "commit": manifest.get("commit")})
    extra = [name for name in (rows[0] if rows else {}) if name not in COLUMNS]
    return pd.DataFrame(rows, columns=[*COLUMNS, *extra]).round(6)


def transfer_score(folder: Path, eval_data: str) -> float:
    """Return the mean accuracy of a run's last encoder on the small sets, kept beside it."""
    kept = folder / "transfer.txt"
    if not kept.exists():
        encoder = Encoder.load(folder / "encoder")
        results = evaluate(encoder.encode, eval_data, list(SETS), progress=False)
        write_text(kept, repr(results.averages["transfer"]))
    return float(kept.read_text(encoding="utf-8"))


@click.command()
@click.argument("parts", nargs=-1)
@options.inputs
@option("--output", "Folder of the trainings.", kind=OutputFolder(), required=True)
@option("--workers", "Runs side by side.", 1, click.IntRange(1))
def command(
    parts: tuple[str, ...],
    model: str,
    train_file: Path,
    eval_data: Path,
    output: Path,
    workers: int,
) -> None:
    """Train PARTS, or all that tables.toml declares, in its order."""
    changes = {"model": model, "train_file": str(train_file), "eval_data": str(eval_data)}
    for part in parts or declaration(TABLES)["parts"]:
        run_sweep(sweep_of(part, changes), output / part, say, workers=workers)
        rows = rows_of(part, changes, output / part).sort_values(["seed", "label"])
        say(f"Wrote {write_csv(ROWS / f'{part}.csv', dict(rows))}")


if __name__ == "__main__":
    main(command)

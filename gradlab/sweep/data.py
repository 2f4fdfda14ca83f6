"""What a sweep reads: one training file, unless it varies that, and all that its runs are evaluated on."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gradlab.errors import GradlabError
from gradlab.sweep.board import FINISHED, RUNNING, Board, Run
from gradlab.sweep.settings import content_of
from gradlab.sweep.spec import Spec
from gradlab.sweep.training import run_folder


def check_data(board: Board, output: Path) -> None:
    """Compare the training file with those of the runs that there are, by content.

    Args:
        board: the sweep.
        output: its folder; the manifests there tell where the database does not.

    Raises:
        GradlabError: if a run that is finished or under way was begun with another file.
    """
    others = []
    for run in board.runs():
        if run.state not in (FINISHED, RUNNING) or "train_file" in run.point.varied:
            continue
        now, then = content_of(run.settings["train_file"]), run.data or _recorded(run, output)
        if now and then and now != then:
            others.append(run)
    if others:
        name = f"{others[0].point.title()}, seed {others[0].seed}"
        raise GradlabError(
            f"{len(others)} runs of this sweep were trained on another file than {others[0].settings['train_file']!r} "
            f"({name}, for one); give another --output, or with --storage another name in the sweep's file"
        )


def check_evaluation(spec: Spec) -> None:
    """Read every file that the encoders will be evaluated on.

    Raises:
        GradlabError: if one is absent or malformed.
    """
    from gradlab.evaluate import check_tasks

    points = [point for point in spec.points({}) if point.evaluate]
    for folder, tasks in dict.fromkeys((point.settings["sts"], point.evaluate) for point in points):
        check_tasks(folder, tasks)


def _recorded(run: Run, output: Path) -> str:
    """What the run's manifest says, if it is here."""
    from gradlab.train.run_folder import RunFolder

    with contextlib.suppress(GradlabError, KeyError):
        return str(RunFolder(run_folder(output, run)).read_manifest()["data"]["sha256"])
    return ""

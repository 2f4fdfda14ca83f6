"""What training runs show, in one page of HTML and in words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradlab.monitor.recording import Recording

PAGE = "report.html"


def write_report(
    runs: str | Path | Sequence[str | Path] | Sequence[Recording], output: str | Path | None = None
) -> Path:
    """Write the report of a run, or of several over each other: one HTML page that needs no network.

    Args:
        runs: the folder of a run of `gradlab train`, the output folder of a trainer that `gradlab.watch` watched, a
            metrics file, or a folder with several runs, such as that of a sweep; or several of these.
        output: the page; None is ``report.html`` in the run's folder, or in the one that holds the runs.

    Returns:
        where it lies.

    Raises:
        GradlabError: there is no run, or the page cannot be written.

    Example:
        >>> from gradlab.report import write_report
        >>> write_report("runs/first")  # doctest: +SKIP
        PosixPath('runs/first/report.html')
        >>> write_report(["runs/first", "runs/second"])  # doctest: +SKIP
        PosixPath('runs/report.html')
    """
    from gradlab.files import write_text
    from gradlab.monitor.recording import Recording, read_recordings
    from gradlab.report.comparison import render_runs
    from gradlab.report.page import render_run

    places = [runs] if isinstance(runs, str | Path) else list(runs)
    found = [
        run for one in places for run in ([one] if isinstance(one, Recording) else read_recordings([one]))
    ]
    if len(found) == 1:
        return write_text(found[0].folder / PAGE if output is None else output, render_run(found[0]))
    first = places[0]
    if len(places) == 1 and not isinstance(first, Recording):
        folder = Path(first)
    else:
        folder = Path(os.path.commonpath([run.folder.resolve() for run in found]))
    title = folder.resolve().name if len(places) == 1 else f"{len(found)} runs"
    return write_text(folder / PAGE if output is None else output, render_runs(found, title))

"""Reports of training runs as an HTML page or as Markdown."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradlab.settings.objects import call_package

if TYPE_CHECKING:
    from gradlab.monitor.run_reader import Recording

PAGE = "report.html"


def write_report(
    runs: str | Path | Sequence[str | Path] | Sequence[Recording], output: str | Path | None = None
) -> Path:
    """Write the report of a run, or a comparison of several, as an HTML page that needs no network.

    Args:
        runs: the folder of a run of `gradlab train`, the output folder of a trainer that
            `gradlab.watch` watched, a metrics file, a folder of runs such as that of a sweep, or
            several of these.
        output: file to write; None is ``report.html`` in the folder of the run, or in the common
            folder of several. A Markdown name (``report.md``) gives Markdown without curves.

    Returns:
        path of the report.

    Raises:
        GradlabError: no run, or a report that cannot be written.

    Example:
        >>> from gradlab.report import write_report
        >>> write_report("runs/first")  # doctest: +SKIP
        PosixPath('runs/first/report.html')
        >>> write_report(["runs/first", "runs/second"])  # doctest: +SKIP
        PosixPath('runs/report.html')
    """
    from gradlab.files import write_text
    from gradlab.monitor.run_reader import Recording, read_recordings
    from gradlab.report.run_page import render_run
    from gradlab.report.runs_page import render_runs

    markdown = output is not None and Path(output).suffix.lower() == ".md"
    places = [runs] if isinstance(runs, str | Path) else list(runs)
    found: list[Recording] = []
    for one in places:
        found += [one] if isinstance(one, Recording) else read_recordings([one])
    if len(found) == 1:
        folder, text = found[0].folder, render_run(found[0], markdown=markdown)
    elif len(places) == 1 and not isinstance(places[0], Recording):
        folder = Path(places[0])
        text = render_runs(found, folder.resolve().name, markdown)
    else:
        folder = Path(os.path.commonpath([run.folder.resolve() for run in found]))
        text = render_runs(found, f"{len(found)} runs", markdown)
    return write_text(folder / PAGE if output is None else output, text)


def follow_run(
    run: str | Path,
    output: str | Path | None = None,
    every: float = 10.0,
    say: Callable[[str], None] = print,
) -> Path:
    """Rewrite the report of a run at each new record until the run ends; Ctrl-C ends it earlier.

    Args:
        run: see `write_report`; the folder may still be without records.
        output: see `write_report`.
        every: seconds between looks at the run, and after which a browser reloads the page.
        say: called with the headline whenever it changes.

    Returns:
        path of the report.

    Raises:
        GradlabError: several runs, a run that ended without records, and as `write_report`.
    """
    from gradlab.errors import GradlabError
    from gradlab.files import write_text
    from gradlab.monitor.run_reader import RUNNING, read_manifest, read_recordings
    from gradlab.monitor.verdicts import judge_run
    from gradlab.report.run_page import render_run

    if not Path(run).is_dir():
        raise GradlabError(
            f"there is no folder {str(run)!r} to follow; give the output folder of a run"
        )
    told, shown, place = "", None, Path(run) / PAGE
    while True:
        found: list[Recording] = []
        with contextlib.suppress(GradlabError):  # there may be no records yet
            found = read_recordings([run])
        if len(found) > 1:
            raise GradlabError(f"{str(run)!r} holds {len(found)} runs; follow one of them")
        if not found and read_manifest(Path(run)).get("status", RUNNING) != RUNNING:
            raise GradlabError(f"the run in {str(run)!r} ended before anything was recorded")
        headline = judge_run(found[0]).headline if found else "Waiting for the first record."
        for one in found:
            if shown != (one.written, one.status):
                page = render_run(one, refresh=max(1, round(every)))
                place = write_text(one.folder / PAGE if output is None else output, page)
            shown = (one.written, one.status)
        if headline != told:
            say(f"Step {found[0].history.last_step()}: {headline}" if found else headline)
        if found and found[0].status != RUNNING:
            return place
        told = headline
        time.sleep(every)


call_package(__name__, "write_report")

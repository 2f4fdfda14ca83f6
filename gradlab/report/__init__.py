"""Reports of training runs as an HTML page or as Markdown."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradlab.errors import GradlabError
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
    from gradlab.files import clear_unfinished, write_text
    from gradlab.monitor.run_reader import Recording, read_recordings, told_apart
    from gradlab.report.run_page import render_run
    from gradlab.report.runs_page import render_runs

    markdown = output is not None and Path(output).suffix.lower() == ".md"
    places = [runs] if isinstance(runs, str | Path) else list(runs)
    recordings: list[Recording] = []
    for place in places:
        recordings += [place] if isinstance(place, Recording) else read_recordings([place])
    recordings = told_apart(recordings)
    if not recordings:
        raise GradlabError(f"there is no run with measurements in {', '.join(map(str, places))}")
    if len(recordings) == 1:
        folder, text = recordings[0].folder, render_run(recordings[0], markdown=markdown)
    elif len(places) == 1 and not isinstance(places[0], Recording):
        folder = Path(places[0])
        text = render_runs(recordings, folder.resolve().name, markdown)
    else:
        folder = Path(os.path.commonpath([run.folder.resolve() for run in recordings]))
        text = render_runs(recordings, f"{len(recordings)} runs", markdown)
    page = folder / PAGE if output is None else Path(output)
    clear_unfinished(page.parent, page.name)
    return write_text(page, text)


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
    from gradlab.files import write_text
    from gradlab.monitor.run_reader import RUNNING, read_manifest, read_recordings
    from gradlab.monitor.verdicts import judge_run
    from gradlab.report.run_page import render_run

    if not Path(run).is_dir():
        raise GradlabError(
            f"there is no folder {str(run)!r} to follow; give the output folder of a run"
        )
    printed, rendered, place = "", None, Path(run) / PAGE
    while True:
        recordings: list[Recording] = []
        with contextlib.suppress(GradlabError):  # there may be no records yet
            recordings = read_recordings([run])
        if len(recordings) > 1:
            raise GradlabError(f"{str(run)!r} holds {len(recordings)} runs; follow one of them")
        if not recordings and read_manifest(Path(run)).get("status", RUNNING) != RUNNING:
            raise GradlabError(f"the run in {str(run)!r} ended before anything was recorded")
        headline, step = "Waiting for the first record.", 0
        for recording in recordings:
            headline, step = judge_run(recording).headline, recording.history.last_step()
            if rendered != (recording.written, recording.status):
                page = render_run(recording, refresh=max(1, round(every)))
                place = write_text(recording.folder / PAGE if output is None else output, page)
            rendered = (recording.written, recording.status)
        if headline != printed:
            say(f"Step {step}: {headline}" if recordings else headline)
        printed = headline
        if recordings and recordings[0].status != RUNNING:
            return place
        time.sleep(every)


call_package(__name__, "write_report")

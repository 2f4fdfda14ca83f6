"""What a training run shows, in one page of HTML and in words."""

from __future__ import annotations

from pathlib import Path


def write_report(run: str | Path, output: str | Path | None = None) -> Path:
    """Write the report of a run: one HTML page that needs no network and reads well on a phone.

    Args:
        run: the folder of a run of `gradlab train`, the output folder of a trainer that `gradlab.watch` watched, or a
            metrics file.
        output: the page; None is ``report.html`` in the run's folder.

    Returns:
        where it lies.

    Raises:
        GradlabError: there is no run, or the page cannot be written.

    Example:
        >>> from gradlab.report import write_report
        >>> write_report("runs/first")  # doctest: +SKIP
        PosixPath('runs/first/report.html')
    """
    from gradlab.files import write_text
    from gradlab.monitor.recording import read_recording
    from gradlab.report.page import render

    found = read_recording(run)
    return write_text(found.folder / "report.html" if output is None else output, render(found))

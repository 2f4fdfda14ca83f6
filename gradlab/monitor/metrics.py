"""What a run measures, as one tidy file, and in the trackers that people watch."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from gradlab.errors import GradlabError
from gradlab.files import atomic_path

METRICS = "metrics.csv"
COLUMNS = ("step", "group", "name", "value")
Row = tuple[int, str, str, float]


class Tracker(Protocol):
    """What accelerate's trackers offer."""

    def log(self, values: dict[str, float], step: int) -> None:
        """Record values."""

    def finish(self) -> None:
        """Write out everything."""


def write_metrics(path: Path, rows: Iterable[Row]) -> None:
    """Let a metrics file hold these rows and no others: one measured number a line, ``step, group, name, value``.

    ``group`` is train, diagnostics, evaluation or histogram. Read it with ``pandas.read_csv`` and pivot by ``name``.
    """
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((at, group, name, repr(value)) for at, group, name, value in rows)


def append_metrics(path: Path, step: int, group: str, values: Mapping[str, float]) -> None:
    """Append numbers of one moment to a metrics file.

    Raises:
        GradlabError: if the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([(step, group, name, repr(float(value))) for name, value in values.items()])
    except OSError as error:
        raise GradlabError(f"cannot write {path}: {error.strerror or error}") from error


def read_metrics(path: str | Path) -> list[Row]:
    """Rows ``(step, group, name, value)`` of a metrics file; a half-written last line is left out."""
    rows = []
    with Path(path).open(encoding="utf-8", newline="") as file:
        for line in file:
            cells = line.rstrip("\n").split(",")
            if not line.endswith("\n") or len(cells) != len(COLUMNS) or cells == list(COLUMNS):
                continue
            rows.append((int(cells[0]), cells[1], cells[2], float(cells[3])))
    return rows


def start_trackers(names: Iterable[str], folder: Path, config: Mapping[str, Any], step: int) -> list[Tracker]:
    """accelerate's trackers of these names, logging into ``folder`` from ``step`` on.

    Raises:
        GradlabError: if one is not installed or cannot start.
    """
    names = list(names)
    if not names:
        return []
    from accelerate import PartialState, tracking

    PartialState()  # accelerate's trackers ask it which process is the main one
    available = {getattr(kind, "value", kind) for kind in tracking.get_available_trackers()}
    plain = {
        key: value if isinstance(value, int | float | str) else str(value) for key, value in config.items()
    }
    trackers: list[Tracker] = []
    for name in names:
        if name not in available:
            raise GradlabError(f"the tracker {name!r} is not installed; pip install {name}")
        # TensorBoard hides what a run that died recorded after the step it is resumed from.
        options: dict[str, Any] = {"dir": str(folder)}
        if name == "tensorboard":
            options = {"logging_dir": str(folder), "purge_step": step}
        try:
            tracker = tracking.LOGGER_TYPE_TO_CLASS[name]("gradlab", **options)
            tracker.start()
            tracker.store_init_configuration(plain)
        except Exception as error:  # whatever a service raises that is down or wants a key
            raise GradlabError(
                f"the tracker {name!r} cannot start: {' '.join(str(error).split())[:200]}"
            ) from error
        trackers.append(tracker)
    return trackers

"""`Recording`: a recorded run, read from its folder."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import read_object, reading
from gradlab.losses.base import BatchLoss, Loss
from gradlab.losses.registry import get_loss
from gradlab.monitor.expected_loss import loss_of_guessing
from gradlab.monitor.history import COLUMNS, DIAGNOSTICS, METRICS, History, of_dataset, scan_metrics
from gradlab.monitor.judge import Failure, Judge
from gradlab.monitor.numbers import counted
from gradlab.monitor.setting_advice import LossInUse

MANIFEST = "manifest.json"
# Subfolder of a trainer's output folder that holds a watched run, and its "kind" in the manifest.
WATCHED, KIND = "gradlab", "watched run"
# Status of a run. "stopped": recording ended while training went on. "ended": the process exited
# without an error, and without a report that the run was over.
RUNNING, FINISHED, STOPPED, CRASHED, ENDED = "running", "finished", "stopped", "crashed", "ended"


@dataclass(frozen=True)
class Recording:
    """A recorded run of `gradlab train` or of `gradlab.watch`."""

    folder: Path
    history: History
    manifest: Mapping[str, Any]  # settings, versions and results; empty if there is no manifest
    written: float = 0.0  # time of the last record, in seconds since the epoch
    left_out: tuple[int, ...] = ()  # numbers of lines of the metrics file that are not measurements

    @property
    def name(self) -> str:
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == WATCHED else folder.name

    @property
    def settings(self) -> dict[str, str]:
        """Settings as texts; nested names are joined by dots."""
        return _flat(self.manifest.get("config", {}))

    @property
    def watched(self) -> bool:
        return bool(self.manifest.get("kind") == KIND)

    @property
    def watch(self) -> dict[str, Any]:
        return dict(self.manifest.get("watch", {}))

    @property
    def config(self) -> dict[str, Any] | None:
        """Configuration of a run of `gradlab train`; None for a watched run."""
        content = self.manifest.get("config")
        return content if isinstance(content, dict) and not self.watched else None

    @property
    def damage(self) -> str:
        """A sentence on lines of the metrics file that could not be read; empty without any."""
        if not self.left_out:
            return ""
        lines = counted(len(self.left_out), "line")
        first = f"from line {self.left_out[0]:,} on"
        return f"Left out of {METRICS}: {lines} without a whole measurement, {first}."

    @property
    def status(self) -> str:
        """Status such as `RUNNING`; empty if the manifest has none."""
        return str(self.manifest.get("status", ""))

    @functools.cached_property
    def losses(self) -> dict[str, LossInUse]:
        """The loss in use by dataset, or by ``""`` if there is one loss."""
        config, watch = self.manifest.get("config", {}), self.watch
        texts = config.get("loss", "")
        own = {} if self.watched else config.get("loss_settings", {})
        found = {}
        for name, text in (texts if isinstance(texts, Mapping) else {"": texts}).items():
            # A user's own function may have the name of a registered loss.
            loss = _loss(text, own) if watch.get("known", {}).get(name, True) else None
            found[name] = LossInUse(loss, watch.get("settings", {}).get(name, {}))
        return found

    @property
    def used(self) -> LossInUse:
        """The loss in use if there is a single one, else an unknown loss."""
        return self.losses.get("", LossInUse())

    def guessing(self, dataset: str = "") -> float | None:
        """Return the loss of guessing at the first cosine of different sentences, or None."""
        loss, group = self.losses.get(dataset, LossInUse()).loss, of_dataset(DIAGNOSTICS, dataset)
        names = "negative_cosine", "uniform_share"
        series = (self.history.series(group, name)[1] for name in names)
        # A batch whose mask leaves all negatives out has no equal share.
        measured = ((cosine, share) for cosine, share in zip(*series, strict=False) if share > 0)
        cosine, share = next(measured, (math.nan, 0.0))
        if loss is None or isinstance(loss, BatchLoss) or loss.surrogate or not share:
            return None
        known = self.watch.get("sentences", {}).get(dataset)
        known = known or (self.config or {}).get("batch_size")
        candidates = round(1 / share) + 1
        sentences = min(known or candidates, candidates)
        return loss_of_guessing(loss, cosine, sentences, candidates - sentences)

    @functools.cached_property
    def judge(self) -> Judge:
        """A judge that has seen all records."""
        return Judge(None, self.config, self.losses).anew(self.history)

    @property
    def failures(self) -> list[Failure]:
        """Failures that the run shows, as during training."""
        return self.judge.failures


def read_recordings(places: Iterable[str | Path]) -> list[Recording]:
    """Read several runs, each once, from places for :func:`read_recording` or from folders of runs.

    Runs of a folder, such as that of a sweep, come in order of names; those without measurements
    are left out.

    Raises:
        GradlabError: see :func:`read_recording`; also a folder without runs.
    """
    found: dict[Path, Recording] = {}
    for place in map(Path, places):
        inside = [] if _recorded(place) else _runs_in(place)
        found |= {run.folder.resolve(): run for run in inside or [read_recording(place)]}
    return list(found.values())


def _recorded(folder: Path) -> Path | None:
    """Return the metrics file of a run or a watched trainer; None if there is none."""
    return next(filter(Path.is_file, (folder / METRICS, folder / WATCHED / METRICS)), None)


def _runs_in(folder: Path) -> list[Recording]:
    """Return the runs with measurements in subfolders of ``folder`` or of ``folder/runs``."""
    places = sorted([*folder.glob("*/"), *folder.glob("runs/*/")])
    found = [_read(metrics) for place in places if (metrics := _recorded(place))]
    return [run for run in found if run.history.groups()]


def read_recording(place: str | Path) -> Recording:
    """Read a recorded run.

    Args:
        place: the folder of a run, the output folder of a watched trainer, or a metrics file.

    Raises:
        GradlabError: no run, no measurements yet, or files that cannot be read.
    """
    place = Path(place)
    if not place.exists():
        raise GradlabError(
            f"there is no {str(place)!r}; give the folder of a run, which holds a {METRICS}"
        )
    metrics = _recorded(place) if place.is_dir() else place
    if metrics is None:
        raise GradlabError(f"{str(place)!r} holds no run: there is no {METRICS} in it")
    run = _read(metrics)
    if not run.history.groups():
        why = run.manifest.get("why", "")
        ended = f"; the run has ended with an error: {why}" if run.status == CRASHED and why else ""
        raise GradlabError(f"{str(metrics)!r} holds no measurements{ended or ' yet'}")
    return run


def _read(metrics: Path) -> Recording:
    """Return the run of a metrics file, which may hold no measurements yet.

    Raises:
        GradlabError: a file that cannot be read, or is not a metrics file.
    """
    with reading(repr(str(metrics))):
        with metrics.open(encoding="utf-8", errors="replace") as file:
            header = file.readline()
        rows, left_out = scan_metrics(metrics)
        written = metrics.stat().st_mtime
    # A run that has just begun may have written a part of the header.
    if header.strip() != ",".join(COLUMNS) and (rows or header.endswith("\n")):
        raise GradlabError(
            f"{str(metrics)!r} is not a metrics file: its columns are not {', '.join(COLUMNS)}"
        )
    manifest = read_manifest(metrics.parent)
    places = ("watch", "total_steps"), ("results", "steps"), ("config", "max_steps")
    known = (manifest.get(part, {}).get(name) for part, name in places)
    total = next(filter(None, known), None)
    history = History.of(rows, total if isinstance(total, int) else None)
    return Recording(metrics.parent, history, manifest, written, tuple(left_out))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run; empty if there is none.

    Raises:
        GradlabError: a manifest that cannot be read, is not a JSON object, or is not of a run.
    """
    path = folder / MANIFEST
    found = read_object(path) if path.exists() else {}
    for name in ("config", "watch", "results"):
        if not isinstance(found.get(name, {}), dict):
            raise GradlabError(
                f"{str(path)!r} is not the manifest of a run: its {name!r} is no JSON object"
            )
    return found


def _loss(text: Any, settings: Mapping[str, Any]) -> Loss | None:
    """Return the loss that a text names; None if it is not registered here."""
    try:
        return get_loss(str(text), **settings)
    except GradlabError:
        return None


def _flat(content: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(content, Mapping):
        found: dict[str, str] = {}
        for key, value in content.items():
            found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
        return found
    if isinstance(content, list):
        return {prefix: ", ".join(map(str, content)) or "none"}
    return {prefix: "none" if content is None else str(content)}

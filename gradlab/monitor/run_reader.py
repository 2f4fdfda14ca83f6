"""Reads recorded runs: what was measured, with which settings, and how the run ended.

Reading a run never imports what its files name. A loss is known if it is registered; other losses
are shown as text.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError, counted
from gradlab.files import read_object, reading
from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.registry import get_loss
from gradlab.monitor.expected_loss import SMALLEST_SHARE, loss_of_guessing
from gradlab.monitor.metrics import COLUMNS, DIAGNOSTICS, METRICS, History, of_dataset, scan_metrics
from gradlab.monitor.setting_advice import LossInUse
from gradlab.settings.objects import importing_nothing

MANIFEST = "manifest.json"
# Subfolder of a trainer's output folder that holds a watched run, and its "kind" in the manifest.
WATCHED, KIND = "gradlab", "watched run"
# Status of a run. "stopped": recording ended while training went on. "ended": the process exited
# without an error, and without a report that the run was over.
RUNNING, FINISHED, STOPPED, CRASHED, ENDED = "running", "finished", "stopped", "crashed", "ended"
# What a recording that does not find the embeddings of a loss asks for.
NAME_VIEWS = "name them with views="
# Parts of a manifest that are read here, and their types; a part may be absent or null.
TYPES: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "status": str,
    "why": str,
    "config": dict,
    "config.loss": (str, dict),
    "config.loss_settings": dict,
    "config.batch_size": int,
    "config.max_steps": int,
    "watch": dict,
    "watch.total_steps": int,
    "watch.notes": list,
    "watch.sentences": dict,
    "watch.known": dict,
    "watch.settings": dict,
    "watch.primary": str,
    "watch.evaluated": int,
    "watch.resumed": int,
    "watch.trials": dict,
    "watch.departures": dict,
    "watch.doctor": list,
    "results": dict,
    "results.steps": int,
    "results.seconds": (int, float),
    "results.run_seconds": (int, float),
    "versions": dict,
}
# Settings deeper than this are not shown.
DEEPEST = 6


@dataclass(frozen=True)
class Recording:
    """A recorded run of `gradlab train` or of `gradlab.watch`."""

    folder: Path
    history: History
    manifest: Mapping[str, Any]  # settings, versions and results; empty if there is no manifest
    written: float = 0.0  # time of the last record, in seconds since the epoch
    left_out: tuple[int, ...] = ()  # numbers of lines of the metrics file that are not measurements
    label: str = ""  # name among other runs; empty for the name of the folder

    @property
    def name(self) -> str:
        return self.label or self._places[-1]

    @property
    def _places(self) -> tuple[str, ...]:
        """Names of the folders down to the run's."""
        folder = self.folder.resolve()
        return (folder.parent if folder.name == WATCHED else folder).parts

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
        losses = {}
        for name, text in (texts if isinstance(texts, Mapping) else {"": texts}).items():
            # A user's own function may have the name of a registered loss.
            loss = _registered(text, own) if watch.get("known", {}).get(name, True) else None
            arguments = frozenset(watch.get("arguments", {}).get(name, ()))
            numbers = _numbers(watch.get("settings", {}).get(name))
            losses[name] = LossInUse(loss, numbers, arguments, str(text))
        return losses

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
        measured = (
            (cosine, share)
            for cosine, share in zip(*series, strict=False)
            if SMALLEST_SHARE <= share <= 1
        )
        cosine, share = next(measured, (math.nan, 0.0))
        if loss is None or isinstance(loss, BatchLoss) or loss.surrogate or not share:
            return None
        size: Any = self.watch.get("sentences", {}).get(dataset)
        size = size or (self.config or {}).get("batch_size")
        candidates = round(1 / share) + 1
        sentences = min(size, candidates) if size and _is_count(size) else candidates
        return loss_of_guessing(loss, cosine, sentences, candidates - sentences)


def read_recordings(places: Iterable[str | Path]) -> list[Recording]:
    """Read several runs, each once, from places for :func:`read_recording` or from folders of runs.

    Runs of a folder, such as that of a sweep, come in order of names; those without measurements
    are left out.

    Raises:
        GradlabError: see :func:`read_recording`; also a folder without runs.
    """
    runs: dict[Path, Recording] = {}
    for place in map(Path, places):
        with reading(repr(str(place))):
            inside = [] if _metrics_of(place) else _runs_in(place)
        runs |= {run.folder.resolve(): run for run in inside or [read_recording(place)]}
    return told_apart(list(runs.values()))


def told_apart(runs: Sequence[Recording]) -> list[Recording]:
    """Return the runs; those whose folders have one name get as many outer folders as differ."""
    folders = {run._places for run in runs}
    labels: dict[tuple[str, ...], str] = {}
    for depth in range(1, 1 + max(map(len, folders), default=0)):
        names = {places: "/".join(places[-depth:]) for places in folders}
        counts = Counter(names.values())
        for places, name in names.items():
            if counts[name] == 1:
                labels.setdefault(places, name)
        if len(labels) == len(folders):
            break
    return [dataclasses.replace(run, label=labels.get(run._places, "")) for run in runs]


def read_recording(place: str | Path) -> Recording:
    """Read a recorded run.

    Args:
        place: the folder of a run, the output folder of a watched trainer, or a metrics file.

    Raises:
        GradlabError: no run, no measurements yet, or files that cannot be read.
    """
    place = Path(place)
    with reading(repr(str(place))):  # a name may be too long
        exists, metrics = place.exists(), _metrics_of(place) if place.is_dir() else place
    if not exists:
        raise GradlabError(
            f"there is no {str(place)!r}; give the folder of a run, which holds a {METRICS}"
        )
    if metrics is None:
        raise GradlabError(f"{str(place)!r} holds no run: there is no {METRICS} in it")
    run = _read(metrics)
    if not run.history.groups():
        why = run.manifest.get("why", "")
        ended = f"; the run has ended with an error: {why}" if run.status == CRASHED and why else ""
        raise GradlabError(f"{str(metrics)!r} holds no measurements{ended or ' yet'}")
    return run


def recording_of(measurements: Mapping[str, Any]) -> Recording:
    """Return the recording of measurements as `gradlab.monitor.verdicts.judge` takes them.

    Raises:
        GradlabError: a manifest that is not of a run.
    """
    rows = [(int(step), group, name, float(number)) for step, group, name, number in (
        measurements["rows"]
    )]  # fmt: skip
    manifest = _checked(measurements.get("manifest", {}), "the manifest")
    return Recording(Path("run"), _history(rows, manifest), manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run; empty if there is none.

    Raises:
        GradlabError: a manifest that cannot be read, is not a JSON object, or is not of a run.
    """
    path = folder / MANIFEST
    return _checked(read_object(path) if path.exists() else {}, repr(str(path)))


def _metrics_of(folder: Path) -> Path | None:
    """Return the metrics file of a run or a watched trainer; None if there is none."""
    return next(filter(Path.is_file, (folder / METRICS, folder / WATCHED / METRICS)), None)


def _runs_in(folder: Path) -> list[Recording]:
    """Return the runs with measurements in subfolders of ``folder`` or of ``folder/runs``."""
    places = sorted([*folder.glob("*/"), *folder.glob("runs/*/")])
    runs = [_read(metrics) for place in places if (metrics := _metrics_of(place))]
    return [run for run in runs if run.history.groups()]


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
    history = _history(rows, manifest)
    return Recording(metrics.parent, history, manifest, written, tuple(left_out))


def _history(rows: list[tuple[int, str, str, float]], manifest: Mapping[str, Any]) -> History:
    places = ("watch", "total_steps"), ("results", "steps"), ("config", "max_steps")
    lengths = (manifest.get(section, {}).get(name) for section, name in places)
    total = next(filter(_is_count, lengths), None)
    of_watch = manifest.get("watch", {})
    return History.of(rows, total, of_watch.get("primary", ""), of_watch.get("evaluated", 0))


def _checked(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a manifest without parts that are null.

    Raises:
        GradlabError: a part of another type; the message begins with ``name``.
    """
    manifest = {
        key: {k: v for k, v in entry.items() if v is not None} if isinstance(entry, dict) else entry
        for key, entry in content.items()
        if entry is not None
    }
    for place, kind in TYPES.items():
        outer, _, inner = place.rpartition(".")
        holder = manifest.get(outer, {}) if outer else manifest
        entry = holder.get(inner)
        if entry is not None and (not isinstance(entry, kind) or isinstance(entry, bool)):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            right = " or ".join(_JSON_TYPES[one_kind] for one_kind in kinds)
            raise GradlabError(f"{name} is not the manifest of a run: its {place!r} is no {right}")
    return manifest


_JSON_TYPES = {dict: "JSON object", list: "list", str: "text", int: "whole number", float: "number"}


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number < 2**53


def _numbers(settings: Any) -> dict[str, float]:
    """Return the finite numbers of a JSON object by name."""
    if not isinstance(settings, Mapping):
        return {}
    numbers = {n: v for n, v in settings.items() if isinstance(v, int | float)}
    return {n: float(v) for n, v in numbers.items() if abs(v) < 1e300}


def _registered(text: Any, settings: Mapping[str, Any]) -> Loss | None:
    """Return the loss that a text names; None if it is not registered here."""
    try:
        with importing_nothing():
            return get_loss(str(text), **settings)
    except (GradlabError, RecursionError):
        return None


def _flat(content: Any, prefix: str = "") -> dict[str, str]:
    """Return settings as texts by their names; nested names are joined by dots."""
    if isinstance(content, Mapping) and prefix.count(".") < DEEPEST:
        settings: dict[str, str] = {}
        for key, nested in content.items():
            settings |= _flat(nested, f"{prefix}.{key}" if prefix else str(key))
        return settings
    if isinstance(content, list) and all(not isinstance(v, list | dict) for v in content):
        return {prefix: ", ".join(map(str, content)) or "none"}
    if isinstance(content, list | Mapping):
        return {prefix: "…"}
    return {prefix: "none" if content is None else str(content)}

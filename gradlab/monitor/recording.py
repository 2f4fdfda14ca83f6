"""A recorded run, read from its folder; and the manifest of a watched one, which is written there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab.errors import GradlabError, reason
from gradlab.files import versions, write_json
from gradlab.monitor.finding import Finding
from gradlab.monitor.findings import findings
from gradlab.monitor.history import History
from gradlab.monitor.metrics import COLUMNS, METRICS, read_metrics

if TYPE_CHECKING:
    from gradlab.monitor.probe import Probe

MANIFEST = "manifest.json"
# Where a trainer's output folder holds the recording of a watched run, and what its manifest calls it.
WATCHED, KIND = "gradlab", "watched run"
PACKAGES = ("torch", "transformers", "sentence-transformers", "accelerate", "numpy")


@dataclass(frozen=True)
class Recording:
    """A run of `gradlab train`, or a watched one.

    Attributes:
        folder: where it lies.
        history: everything that it measured.
        manifest: its settings, versions and results; empty if there is none.
    """

    folder: Path
    history: History
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What to call it."""
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == WATCHED else folder.name

    @property
    def settings(self) -> dict[str, str]:
        """Its settings as texts, nested names joined by dots."""
        return _flat(self.manifest.get("config", {}))

    @property
    def watched(self) -> bool:
        """Whether another trainer's run was watched."""
        return bool(self.manifest.get("kind") == KIND)

    @property
    def config(self) -> dict[str, Any] | None:
        """The configuration of a run of `gradlab train`; None of any other."""
        content = self.manifest.get("config")
        return content if isinstance(content, dict) and not self.watched else None

    @property
    def findings(self) -> list[Finding]:
        """The failures that it shows, as training told them."""
        return findings(self.history, self.config)

    @property
    def notes(self) -> list[str]:
        """What the watcher could not do, in sentences."""
        return list(self.manifest.get("watch", {}).get("notes", []))


def read_recordings(places: Iterable[str | Path]) -> list[Recording]:
    """Read several runs.

    Args:
        places: what :func:`read_recording` takes, or folders with runs in them, such as that of a sweep.

    Returns:
        each run once; those of a folder by name, without the ones that have measured nothing yet.

    Raises:
        GradlabError: as :func:`read_recording`; a folder without any run.
    """
    found: dict[Path, Recording] = {}
    for place in map(Path, places):
        inside = [] if _recorded(place) is not None else _runs_in(place)
        read = [read_recording(folder) for folder in inside] or [read_recording(place)]
        found |= {run.folder.resolve(): run for run in read}
    return list(found.values())


def _recorded(folder: Path) -> Path | None:
    """Where the metrics file of a run's folder lies, or of the output folder of a watched trainer."""
    return next((f for f in (folder, folder / WATCHED) if (f / METRICS).is_file()), None)


def _runs_in(folder: Path) -> list[Path]:
    """Folders of runs with a measurement below ``folder``, or below its folder ``runs``."""
    places = [*folder.glob("*/"), *folder.glob("runs/*/")]
    recorded = [(place, file) for place in sorted(places) if (file := _recorded(place)) is not None]
    return [place for place, file in recorded if len((file / METRICS).read_bytes().splitlines()) > 1]


def read_recording(place: str | Path) -> Recording:
    """Read a run.

    Args:
        place: the folder of a run, the output folder of a watched trainer, or a metrics file.

    Raises:
        GradlabError: there is no run, it has measured nothing yet, or its files cannot be read.
    """
    place = Path(place)
    if not place.exists():
        raise GradlabError(f"there is no {str(place)!r}; give the folder of a run, which holds a {METRICS}")
    if place.is_dir():
        folder = _recorded(place)
        if folder is None:
            raise GradlabError(f"{str(place)!r} holds no run: there is no {METRICS} in it")
        metrics = folder / METRICS
    else:
        folder, metrics = place.parent, place
    try:
        with metrics.open(encoding="utf-8") as file:
            header = file.readline().strip()
        rows = read_metrics(metrics)
    except (OSError, ValueError) as error:
        raise GradlabError(f"cannot read {str(metrics)!r}: {reason(error)}") from error
    if header != ",".join(COLUMNS):
        raise GradlabError(f"{str(metrics)!r} is no metrics file: its columns are not {', '.join(COLUMNS)}")
    if not rows:
        raise GradlabError(f"{str(metrics)!r} holds no measurements yet")
    manifest = _manifest(folder)
    watch, config = manifest.get("watch", {}), manifest.get("config", {})
    total = watch.get("total_steps") or manifest.get("results", {}).get("steps") or config.get("max_steps")
    return Recording(folder, History.of(rows, total if isinstance(total, int) else None), manifest)


def write_watched(
    folder: Path,
    probes: Mapping[str, Probe],
    settings: Mapping[str, Any],
    schedule: Mapping[str, int | None],
    results: Mapping[str, Any],
    status: str,
) -> None:
    """Write the manifest of a watched run, atomically.

    Args:
        folder: where its metrics are.
        probes: of its losses, by dataset; of a single one by "".
        settings: of the run.
        schedule: of the recording.
        results: so far.
        status: ``"running"`` or ``"finished"``.
    """
    texts = {name: probe.loss_text() for name, probe in probes.items()}
    components = {name or "loss": probe.method for name, probe in probes.items()}
    content = {
        "kind": KIND,
        "config": {"loss": texts.get("", texts), **settings},
        "watch": {
            **schedule,
            "components": components,
            "notes": [one.note for one in probes.values() if one.note],
        },
        "versions": versions(*PACKAGES),
        "status": status,
        "results": dict(results),
    }
    write_json(folder / MANIFEST, content)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GradlabError(f"cannot read {str(path)!r}: {reason(error)}") from error
    if not isinstance(content, dict):
        raise GradlabError(f"{str(path)!r} is no JSON object")
    return content


def _flat(content: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(content, Mapping):
        parts = [_flat(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in content.items()]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(content, list):
        return {prefix: ", ".join(map(str, content)) or "none"}
    return {prefix: "none" if content is None else str(content)}

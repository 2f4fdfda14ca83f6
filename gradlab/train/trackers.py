"""Trackers of a run, such as TensorBoard, which receive what its metrics file receives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.train.config import TrainConfig


def start_trackers(config: TrainConfig, folder: Path, step: int) -> list[Any]:
    """Start a run's trackers, of accelerate, in ``folder``; the caller must ``finish`` each.

    ``step`` is the first to be recorded; what an earlier start recorded from there on is hidden.

    Raises:
        GradlabError: a tracker that is not installed or cannot start.
    """
    if not config.trackers:
        return []
    from accelerate import PartialState, tracking

    PartialState()  # trackers ask it whether this is the main process
    available = {getattr(kind, "value", kind) for kind in tracking.get_available_trackers()}
    plain = {
        key: value if isinstance(value, int | float | str) else str(value)
        for key, value in config.to_dict().items()
    }
    trackers = []
    for name in config.trackers:
        if name not in available:
            raise GradlabError(f"the tracker {name!r} is not installed; pip install {name}")
        # With purge_step TensorBoard hides earlier records of this step and of later ones.
        options: dict[str, Any] = {"dir": str(folder)}
        if name == "tensorboard":
            options = {"logging_dir": str(folder), "purge_step": step}
        try:
            tracker = tracking.LOGGER_TYPE_TO_CLASS[name]("gradlab", **options)
            if hasattr(tracker, "start"):  # before accelerate 1.8, they start when they are made
                tracker.start()
            tracker.store_init_configuration(plain)
        except Exception as error:  # services raise anything when they are down or want a key
            why = " ".join(str(error).split())[:200]
            raise GradlabError(f"the tracker {name!r} cannot start: {why}") from error
        trackers.append(tracker)
    return trackers

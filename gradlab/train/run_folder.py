"""The folder of a run: files, manifest, result, and whether it can be begun or resumed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.evaluate.selection import STSB_DEV
from gradlab.files import check_writable, one_at_a_time, read_object, recover_folder
from gradlab.monitor.run_reader import FINISHED
from gradlab.train.config import TrainConfig


@dataclass(frozen=True)
class TrainResult:
    """Result of a training run.

    Attributes:
        output: the run folder.
        steps: total number of optimiser steps.
        scores: step -> score that selects the best step; step 0 is the encoder before training.
        best_step: the step whose encoder is in ``output/best``; None without evaluation.
        selection: name of the score: "stsb_dev", Spearman's correlation on STS-B dev, or
            "ndcg_at_10" of a retrieval task.
    """

    output: Path
    steps: int
    scores: dict[int, float]
    best_step: int | None
    selection: str = STSB_DEV

    @property
    def best_score(self) -> float | None:
        """Score of the best step; None without evaluation."""
        return None if self.best_step is None else self.scores[self.best_step]


class RunFolder:
    """Paths in the folder of a run."""

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        # Configuration, versions, seed, device, data hash and results.
        self.manifest_file = path / "manifest.json"
        # Measurements, see `gradlab.monitor.history.write_metrics`.
        self.metrics_file = path / "metrics.csv"
        self.checkpoints = path / "checkpoints"  # the newest checkpoints
        self.best = path / "best"  # the encoder with the best score so far
        self.encoder = path / "encoder"  # the encoder at the end of training
        self._lock = path / ".lock"  # held by the process that trains here

    def read_manifest(self) -> dict[str, Any]:
        """Return the manifest; GradlabError if it is absent, unreadable, or not that of a run."""
        if not self.manifest_file.exists():
            raise GradlabError(f"{str(self.path)!r} holds no run to resume (no manifest.json)")
        content = read_object(self.manifest_file)
        if not {"config", "status"} <= content.keys():
            raise GradlabError(f"{self.manifest_file} is not the manifest of a training run")
        return content

    def check_free(self) -> None:
        """Raise GradlabError if the folder holds a run or its files, or cannot be written.

        An unfinished run that has saved nothing, such as one whose loss refused the first batch, is
        begun anew.
        """
        place = repr(str(self.path))
        saved = [one for one in (self.encoder, self.best, self.checkpoints) if one.exists()]
        if self.manifest_file.exists():
            manifest = self.read_manifest()
            if saved or manifest["status"] == FINISHED or "kind" in manifest:  # a watched run
                raise GradlabError(f"{place} holds a run; give --resume, or another --output")
        elif saved or self.metrics_file.exists():
            name = [*saved, self.metrics_file][0].name
            raise GradlabError(
                f"{place} holds {name}, which a run would overwrite; give another --output"
            )
        check_writable(self.path, folder=True)

    def held(self) -> AbstractContextManager[None]:
        """Keep other processes from training here; GradlabError if one does already."""
        refusal = (
            f"another process trains in {str(self.path)!r}; wait for it, or give another --output"
        )
        return one_at_a_time(self._lock, refusal=refusal)

    def wait(self) -> None:
        """Wait until no other process trains here."""
        if self._lock.exists():
            with one_at_a_time(self._lock, f"Waiting: another process trains in {self.path}."):
                pass

    def check_same(self, config: TrainConfig, data: Mapping[str, Any]) -> None:
        """Raise GradlabError unless the run here has this configuration and manifest ``data``."""
        manifest, run = self.read_manifest(), f"the run in {str(self.path)!r}"
        before = manifest["data"]
        if differences := TrainConfig.from_dict(manifest["config"]).differences(config):
            raise GradlabError(f"{run} has another configuration ({'; '.join(differences)})")
        if before["sha256"] != data["sha256"]:
            raise GradlabError(f"the training file is not the one that {run} began with")
        for name, known in before.get("contents", {}).items():
            # Of a setting that is not there now, such as `sts`, nothing can be compared.
            if data["contents"].get(name, known) != known:
                raise GradlabError(
                    f"the content of {name} ({getattr(config, name)}) has changed since {run} began"
                )

    def recover(self) -> None:
        """Clean up folders that a killed run left half-written."""
        for place in (self.best, self.encoder):
            recover_folder(place)
        for left in sorted(self.checkpoints.glob(".*-step-*")):
            _, step, number, *_ = left.name.split("-")
            recover_folder(self.checkpoints / f"{step}-{number}")


def resumable_config(output: str | Path) -> TrainConfig:
    """Return the configuration of the run in ``output``; GradlabError if there is none."""
    return TrainConfig.from_dict(
        {**RunFolder(output).read_manifest()["config"], "output": str(output)}
    )


def finished(config: TrainConfig) -> TrainResult | None:
    """Return the run's result in ``config.output``; None if unfinished or configured otherwise."""
    folder = RunFolder(config.output)
    manifest = folder.read_manifest()
    same = not TrainConfig.from_dict(manifest["config"]).differences(config)
    if manifest["status"] != FINISHED or not same or not folder.encoder.is_dir():
        return None
    results = manifest["results"]
    name = results.get("selection", STSB_DEV)
    scores = scores_from_json(results[name].items())
    return TrainResult(folder.path, results["steps"], scores, results["best_step"], name)


def scores_from_json(scores: Iterable[tuple[int | str, float | None]]) -> dict[int, float]:
    """Return scores by step, from JSON, where null stands for the NaN of constant embeddings."""
    return {int(step): math.nan if score is None else score for step, score in scores}

"""The folder of a run: what lies where in it, its manifest, and whether it may be begun or resumed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from gradlab.errors import GradlabError
from gradlab.files import check_writable, commit, read_object, recover_folder, versions, write_json
from gradlab.train.config import TrainConfig
from gradlab.train.machine import Precision, device_name

_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "numpy")


class RunFolder:
    """Places in the folder of a run.

    Attributes:
        path: the folder.
        manifest_file: configuration, versions, seed, device, data hash and results, as JSON.
        metrics_file: everything measured, see `gradlab.monitor.metrics.write_metrics`.
        checkpoints: the newest checkpoints.
        best: the encoder with the best score so far.
        encoder: the encoder at the end of training.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        self.manifest_file, self.metrics_file = path / "manifest.json", path / "metrics.csv"
        self.checkpoints, self.best, self.encoder = path / "checkpoints", path / "best", path / "encoder"

    def read_manifest(self) -> dict[str, Any]:
        """The manifest.

        Raises:
            GradlabError: if there is none, it is unreadable, or not that of a run.
        """
        if not os.path.exists(self.manifest_file):
            raise GradlabError(f"{str(self.path)!r} holds no run to resume (no manifest.json)")
        content = read_object(self.manifest_file)
        if not {"config", "status"} <= content.keys():
            raise GradlabError(f"{self.manifest_file} is not the manifest of a training run")
        return content

    @property
    def threads(self) -> int | None:
        """With how many threads the run here computes; None if its manifest does not say."""
        count = self.read_manifest().get("device", {}).get("threads")
        return count if isinstance(count, int) and count > 0 else None

    def check_free(self) -> None:
        """Raise GradlabError if the folder holds a run already, or is a file."""
        if self.manifest_file.exists():
            raise GradlabError(
                f"{str(self.path)!r} holds a run; continue it with --resume or choose another --output"
            )
        if self.path.exists() and not self.path.is_dir():
            raise GradlabError(f"{str(self.path)!r} is a file; --output is a folder")
        check_writable(self.path, folder=True)

    def check_same(self, config: TrainConfig, data_hash: str) -> None:
        """Raise GradlabError unless the run here has this configuration and these data."""
        manifest, run = self.read_manifest(), f"the run in {str(self.path)!r}"
        if differences := TrainConfig.from_dict(manifest["config"]).differences(config):
            raise GradlabError(f"{run} has another configuration ({'; '.join(differences)})")
        if manifest["data"]["sha256"] != data_hash:
            raise GradlabError(f"the training file is not the one that {run} began with")

    def recover(self) -> None:
        """Clear away what a killed run left half-written."""
        for place in (self.best, self.encoder):
            recover_folder(place)
        for partial in self.checkpoints.glob(".partial-step-*"):
            recover_folder(self.checkpoints / partial.name.removeprefix(".partial-").rsplit("-", 1)[0])

    def write_manifest(self, content: dict[str, Any]) -> None:
        """Write the manifest, atomically."""
        write_json(self.manifest_file, content)


def resumable_config(output: str | Path) -> TrainConfig:
    """The configuration of the run in ``output``.

    Raises:
        GradlabError: if there is no run.
    """
    return TrainConfig.from_dict({**RunFolder(output).read_manifest()["config"], "output": str(output)})


def new_manifest(
    config: TrainConfig, precision: Precision, device: torch.device, processes: int, data: dict[str, Any]
) -> dict[str, Any]:
    """What a manifest says before training: enough to do it again."""
    return {
        "config": config.to_dict(),
        "seed": config.seed,
        "device": {
            "type": device.type,
            "name": device_name(device),
            "threads": torch.get_num_threads(),
            "processes": processes,
            "precision": f"{precision.name}: {precision.why}",
        },
        "data": data,
        "versions": versions(*_PACKAGES),
        "commit": commit(),
        "status": "running",
        "results": {},
    }

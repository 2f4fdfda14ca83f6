"""The folder of a run: what lies where in it, its manifest, and whether it may be begun or resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradlab.errors import GradlabError, reason
from gradlab.files import check_writable, commit, recover_folder, versions, write_json
from gradlab.train.config import TrainConfig
from gradlab.train.machine import Precision, device_name

_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "numpy")


@dataclass(frozen=True)
class RunFolder:
    """Places in the folder of a run."""

    path: Path

    @property
    def manifest_file(self) -> Path:
        """Configuration, versions, seed, device, data hash and results, as JSON."""
        return self.path / "manifest.json"

    @property
    def metrics_file(self) -> Path:
        """Everything measured, see `gradlab.monitor.metrics.Metrics`."""
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        """The newest checkpoints."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """The encoder with the best score on STS-B dev so far."""
        return self.path / "best"

    @property
    def encoder(self) -> Path:
        """The encoder at the end of training."""
        return self.path / "encoder"

    def read_manifest(self) -> dict[str, Any]:
        """The manifest.

        Raises:
            GradlabError: if there is none, it is unreadable, or not that of a run.
        """
        try:
            content: dict[str, Any] = json.loads(self.manifest_file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise GradlabError(f"{str(self.path)!r} holds no run to resume (no manifest.json)") from error
        except (OSError, ValueError) as error:
            raise GradlabError(f"cannot read {self.manifest_file}: {reason(error)}") from error
        if not isinstance(content, dict) or not {"config", "status"} <= content.keys():
            raise GradlabError(f"{self.manifest_file} is not the manifest of a training run")
        return content

    @property
    def threads(self) -> int | None:
        """With how many threads the run here computes; None if it does not say.

        Raises:
            GradlabError: see :meth:`read_manifest`.
        """
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
        manifest = self.read_manifest()
        differences = TrainConfig.from_dict(manifest["config"]).differences(config)
        if differences:
            raise GradlabError(
                f"the run in {str(self.path)!r} has another configuration ({'; '.join(differences)})"
            )
        if manifest["data"]["sha256"] != data_hash:
            raise GradlabError(
                f"the training file is not the one that the run in {str(self.path)!r} began with"
            )

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
    manifest = RunFolder(Path(output)).read_manifest()
    return TrainConfig.from_dict({**manifest["config"], "output": str(output)})


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

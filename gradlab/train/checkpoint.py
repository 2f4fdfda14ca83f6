"""Checkpoints: complete or absent, verified by checksums, and read without executing anything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gradlab.data.tokens import hash_file
from gradlab.errors import GradlabError
from gradlab.files import atomic_folder

_CHECKSUMS = "checksums.json"
_WEIGHTS, _OPTIMISER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint on disk."""

    folder: Path
    step: int  # optimiser steps done
    state: dict[str, Any]  # everything except tensors: random states, scores, callbacks

    def load(self, module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Restore weights, buffers and optimiser moments; GradlabError if from another model."""
        weights = load_file(self.folder / _WEIGHTS)
        try:
            module.load_state_dict(weights)
        except RuntimeError as error:
            words = " ".join(str(error).split())[:200]
            raise GradlabError(f"{self.folder} belongs to another model: {words}") from error
        restored: dict[int, dict[str, Tensor]] = {}
        for key, tensor in load_file(self.folder / _OPTIMISER).items():
            index, name = key.split(".", 1)
            restored.setdefault(int(index), {})[name] = tensor
        optimiser.load_state_dict(
            {"state": restored, "param_groups": optimiser.state_dict()["param_groups"]}
        )


def save_checkpoint(
    folder: Path,
    step: int,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    state: Mapping[str, Any],
    keep: int,
) -> Path:
    """Write ``folder/step-NNN`` atomically, then delete all but the ``keep`` newest up to it.

    Later checkpoints are deleted too: they were damaged, and skipped when the run was resumed.
    GradlabError if it cannot be written; older checkpoints are then untouched.
    """
    place = folder / f"step-{step:08d}"
    moments = {
        f"{index}.{name}": value
        for index, values in optimiser.state_dict()["state"].items()
        for name, value in values.items()
    }
    with atomic_folder(place) as temporary:
        try:
            save_file(_on_cpu(module.state_dict()), temporary / _WEIGHTS)
            save_file(_on_cpu(moments), temporary / _OPTIMISER)
        except SafetensorError as error:  # wraps system errors, such as "no space left"
            raise OSError(str(error)) from error
        (temporary / _STATE).write_text(json.dumps({"step": step, **state}), encoding="utf-8")
        sums = {path.name: hash_file(path) for path in sorted(temporary.iterdir())}
        (temporary / _CHECKSUMS).write_text(json.dumps(sums, indent=2), encoding="utf-8")
    written = _newest_first(folder)
    kept = [one for one in written if one.name <= place.name][:keep]
    for old in set(written).difference(kept):
        shutil.rmtree(old, ignore_errors=True)
    return place


def newest_checkpoint(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """Return the newest intact checkpoint, or None if none was ever written.

    ``say`` receives a message about each damaged one that is skipped; GradlabError if all are.
    """
    candidates = _newest_first(folder)
    for place in candidates:
        damage = _damage(place)
        if damage is None:
            state = json.loads((place / _STATE).read_text(encoding="utf-8"))
            return Checkpoint(place, state.pop("step"), state)
        say(f"Checkpoint {place.name} is damaged ({damage}); trying the one before it.")
    if candidates:
        raise GradlabError(
            f"all {len(candidates)} checkpoints in {str(folder)!r} are damaged; start anew"
        )
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"), reverse=True)


def _damage(place: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None if it is intact."""
    try:
        sums = json.loads((place / _CHECKSUMS).read_text(encoding="utf-8"))
        wrong = [
            name for name in (_WEIGHTS, _OPTIMISER, _STATE) if hash_file(place / name) != sums[name]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return "a file is missing or unreadable"
    return f"{wrong[0]} does not match its checksum" if wrong else None


def _on_cpu(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    return {
        name: torch.as_tensor(value).detach().cpu().contiguous() for name, value in tensors.items()
    }

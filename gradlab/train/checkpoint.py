"""Checkpoints: complete or absent, verified, and read without executing anything.

Damage is noticed by checksums, and by the types of what is stored: a file that a person or another
program wrote may have the right checksum.
"""

from __future__ import annotations

import json
import numbers
import re
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
from gradlab.files import atomic_folder, read_object

_CHECKSUMS = "checksums.json"
_WEIGHTS, _OPTIMISER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
# What AdamW stores of each parameter.
_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}
# Reads the tensors of a file; with several processes, those that the main process has.
TensorReader = Callable[[Path], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint on disk."""

    folder: Path
    step: int  # optimiser steps before it
    state: dict[str, Any]  # everything except tensors: random states, scores, callbacks

    def load(
        self,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        reader: TensorReader = load_file,
    ) -> None:
        """Restore weights, buffers and optimiser moments; GradlabError if from another model."""
        try:
            module.load_state_dict(reader(self.folder / _WEIGHTS))
            optimiser.load_state_dict(self._moments(optimiser, reader))
        except (RuntimeError, SafetensorError, ValueError, KeyError, OverflowError) as error:
            words = " ".join(str(error).split())[:200]
            raise GradlabError(f"{self.folder} belongs to another model: {words}") from error

    def _moments(self, optimiser: torch.optim.Optimizer, reader: TensorReader) -> dict[str, Any]:
        """Return a state dictionary of the optimiser; ValueError if it does not fit its parameters.

        torch itself checks no names and no shapes; a wrong one would fail in the next step.
        """
        restored: dict[int, dict[str, Tensor]] = {}
        for key, tensor in reader(self.folder / _OPTIMISER).items():
            index, _, name = key.partition(".")
            restored.setdefault(int(index), {})[name] = tensor
        groups = optimiser.state_dict()["param_groups"]
        indices = [index for group in groups for index in group["params"]]
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        shapes = dict(zip(indices, (p.shape for p in parameters), strict=True))
        for number, moments in restored.items():
            if moments.keys() != _MOMENTS or number not in shapes:
                raise ValueError(f"parameter {number} has the moments {', '.join(moments)}")
            shape = {"exp_avg": shapes[number], "exp_avg_sq": shapes[number], "step": torch.Size()}
            if any(moment.shape != shape[name] for name, moment in moments.items()):
                raise ValueError(f"the moments of parameter {number} have another shape")
        return {"state": restored, "param_groups": groups}


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
        f"{index}.{name}": moment
        for index, parameter_state in optimiser.state_dict()["state"].items()
        for name, moment in parameter_state.items()
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
    checkpoints = _newest_first(folder)
    wanted_places = [path for path in checkpoints if path.name <= place.name][:keep]
    for obsolete in set(checkpoints).difference(wanted_places):
        shutil.rmtree(obsolete, ignore_errors=True)
    return place


def newest_checkpoint(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """Return the newest intact checkpoint, or None if none was ever written.

    ``say`` receives a message about each damaged one that is skipped; GradlabError if all are.
    """
    candidates = _newest_first(folder)
    for place in candidates:
        damage = _damaged_file(place)
        if damage is None:
            try:
                return _read_state(place)
            except GradlabError as error:
                damage = str(error)
        say(f"Checkpoint {place.name} is damaged ({damage}); trying the one before it.")
    if candidates:
        raise GradlabError(
            f"all {len(candidates)} checkpoints in {str(folder)!r} are damaged; start anew"
        )
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"), reverse=True)


def _damaged_file(place: Path) -> str | None:
    """Return which file of a checkpoint is not as it was written, or None if all are."""
    try:
        sums = read_object(place / _CHECKSUMS)
        wrong = [
            name for name in (_WEIGHTS, _OPTIMISER, _STATE) if hash_file(place / name) != sums[name]
        ]
    except (GradlabError, OSError, KeyError):
        return "a file is missing or unreadable"
    return f"{wrong[0]} does not match its checksum" if wrong else None


def _read_state(place: Path) -> Checkpoint:
    """Return the checkpoint in a folder; GradlabError if its state has another form."""
    state = read_object(place / _STATE)
    forms: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "step": ("the step of its folder", lambda step: f"step-{step:08d}" == place.name),
        "random": ("a list of random states", lambda states: _are(dict, states) and bool(states)),
        "scores": ("pairs of step and score", lambda pairs: all(map(_is_score, pairs))),
        "callbacks": ("a JSON object", lambda states: isinstance(states, dict)),
        "losses": ("a list of numbers", lambda losses: _are(numbers.Real, losses)),
        "seconds": ("two numbers", lambda pair: _are(numbers.Real, pair) and len(pair) == 2),
        "selection": ("the name of a score", lambda name: isinstance(name, str)),
    }
    # Checkpoints of earlier versions lack these.
    optional = {"losses", "seconds", "selection"} - state.keys()
    for name, (form, fits) in forms.items():
        if name in optional:
            continue
        try:
            right = name in state and fits(state[name])
        except (TypeError, ValueError):
            right = False
        if not right:
            raise GradlabError(f"{name!r} in {_STATE} is not {form}")
    return Checkpoint(place, int(re.sub(r"\D", "", place.name)), state)


def _are(kind: type, entries: Any) -> bool:
    return isinstance(entries, list) and all(
        isinstance(entry, kind) and not isinstance(entry, bool) for entry in entries
    )


def _is_score(pair: Any) -> bool:
    step, score = pair
    is_step = isinstance(step, int) or (isinstance(step, str) and step.isdecimal())
    return is_step and (score is None or _are(numbers.Real, [score]))


def _on_cpu(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    return {
        name: torch.as_tensor(tensor).detach().cpu().contiguous()
        for name, tensor in tensors.items()
    }

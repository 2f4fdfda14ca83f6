"""SigLIP against open_clip, DCL against lightly: value and gradients in float64 on five kinds of batches.

Outside CI, as both bring much that these losses do not need. Install them apart, without what they depend on:

    pip install --no-deps --target FOLDER open_clip_torch==3.3.0 lightly==1.6.0
    PYTHONPATH=. python tests/manual/other_libraries.py FOLDER

Printed (largest difference over max(1, largest entry), of the value and of both gradients):

    siglip against open_clip's SigLipLoss  4.7e-15
    dcl (symmetric, both views' negatives) against lightly's DCLLoss  3.5e-16
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradlab
from gradlab.gradient.verification import BATCHES

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
TOLERANCE = 1e-10


def load(folder: Path, module: str) -> Any:
    """One module by its file, without importing the packages around it, whose dependencies are not installed."""
    parts = module.split(".")
    for end in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:end]))
        package.__path__ = [str(folder.joinpath(*parts[:end]))]
        sys.modules.setdefault(package.__name__, package)
    spec = importlib.util.spec_from_file_location(module, folder.joinpath(*parts).with_suffix(".py"))
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[module] = found
    spec.loader.exec_module(found)
    return found


def difference(ours: Loss, theirs: Loss) -> float:
    """Largest difference of value and gradients over all batches."""
    worst = 0.0
    for make in BATCHES.values():
        views = [torch.from_numpy(part) for part in make(np.random.default_rng(0), 24, 16)]
        found = []
        for loss in (ours, theirs):
            rows = [part.clone().requires_grad_() for part in views]
            value = loss(*(torch.nn.functional.normalize(part, dim=1) for part in rows))
            found.append([value.detach(), *torch.autograd.grad(value, rows)])
        for one, other in zip(*found, strict=True):
            scale = max(1.0, float(other.abs().max()))
            worst = max(worst, float((one - other).abs().max()) / scale)
    return worst


def main(folder: Path) -> None:
    """Compare, print, and fail above the tolerance."""
    siglip = load(folder, "open_clip.loss").SigLipLoss()
    dcl = load(folder, "lightly.loss.dcl_loss").DCLLoss(temperature=0.1)
    pairs: dict[str, tuple[Loss, Loss]] = {
        "siglip against open_clip's SigLipLoss": (
            lambda a, b: gradlab.get_loss("siglip", temperature=0.05, bias=-7)(a, b, normalize=True),
            lambda a, b: siglip(a, b, torch.tensor(20.0).double(), torch.tensor(-7.0).double()),
        ),
        "dcl (symmetric, both views' negatives) against lightly's DCLLoss": (
            lambda a, b: gradlab.get_loss("symmetric(pool(dcl(temperature=0.1), negatives=other+same))")(
                a, b, normalize=True
            ),
            dcl,
        ),
    }
    failed = False
    for name, (ours, theirs) in pairs.items():
        worst = difference(ours, theirs)
        failed |= not worst <= TOLERANCE
        print(f"{name}  {worst:.2g}")
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: other_libraries.py FOLDER (where pip --target put open_clip_torch and lightly)")
    main(Path(sys.argv[1]))

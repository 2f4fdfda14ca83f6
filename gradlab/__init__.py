"""gradlab: the gradient of a sentence-embedding loss as dissipation, weight and ratio.

``∂L/∂h_i = GD_i Σ_j W_ij (h_j' - R_i h_i')`` (Li et al., ACL 2024). Names are imported on first
use, which keeps ``import gradlab`` fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradlab._version import __version__

if TYPE_CHECKING:
    from gradlab.atlas import plot_curves
    from gradlab.batch.similarity import Negatives, PairSimilarity
    from gradlab.decomposition import Decomposition, decompose
    from gradlab.diagnosis import Diagnosis, doctor
    from gradlab.errors import GradlabError
    from gradlab.explorer import explore
    from gradlab.gradient.learnable import LearnableLoss, learnable
    from gradlab.gradient.paradigm import autograd_gradient, autograd_split, components
    from gradlab.gradient.verification import verify
    from gradlab.inspection import find_false_negatives, inspect
    from gradlab.losses.base import BatchLoss, Loss, PairLoss
    from gradlab.losses.components import Components
    from gradlab.losses.recombined import recombine
    from gradlab.losses.registry import get_loss, loss_names, register
    from gradlab.monitor.trainers import watch
    from gradlab.scale import BlockwiseLoss, blockwise
    from gradlab.scale.audit import audit
    from gradlab.simulation import SimulationResult, simulate

_NAMES = {
    "gradlab.atlas": ("plot_curves",),
    "gradlab.batch.similarity": ("Negatives", "PairSimilarity"),
    "gradlab.decomposition": ("Decomposition", "decompose"),
    "gradlab.diagnosis": ("Diagnosis", "doctor"),
    "gradlab.errors": ("GradlabError",),
    "gradlab.explorer": ("explore",),
    "gradlab.gradient.learnable": ("LearnableLoss", "learnable"),
    "gradlab.gradient.paradigm": ("autograd_gradient", "autograd_split", "components"),
    "gradlab.gradient.verification": ("verify",),
    "gradlab.inspection": ("find_false_negatives", "inspect"),
    "gradlab.losses.base": ("BatchLoss", "Loss", "PairLoss"),
    "gradlab.losses.components": ("Components",),
    "gradlab.losses.recombined": ("recombine",),
    "gradlab.losses.registry": ("get_loss", "loss_names", "register"),
    "gradlab.monitor.trainers": ("watch",),
    "gradlab.scale": ("BlockwiseLoss", "blockwise"),
    "gradlab.scale.audit": ("audit",),
    "gradlab.simulation": ("SimulationResult", "simulate"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

# Public subpackages; all but `losses` can also be called, as in `gradlab.train(...)`.
_PACKAGES = ("evaluate", "flow", "losses", "report", "train")

# `inspect`, a former name of `find_false_negatives`, would hide the standard library's if listed.
__all__ = ["__version__", *sorted({*_HOMES, *_PACKAGES} - {"inspect"})]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"gradlab.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'gradlab' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "inspect"])

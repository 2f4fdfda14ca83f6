"""gradlab: the gradient of a sentence-embedding loss as dissipation, weight and ratio.

``∂L/∂h_i = GD_i Σ_j W_ij (h_j' - R_i h_i')`` (Li et al., ACL 2024). Names are loaded on first use, so
importing gradlab stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradlab._version import __version__
from gradlab.drawing import register_plots

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

_HOMES = {
    "BatchLoss": "gradlab.losses.base",
    "BlockwiseLoss": "gradlab.scale",
    "Components": "gradlab.losses.components",
    "Decomposition": "gradlab.decomposition",
    "Diagnosis": "gradlab.diagnosis",
    "GradlabError": "gradlab.errors",
    "LearnableLoss": "gradlab.gradient.learnable",
    "Loss": "gradlab.losses.base",
    "Negatives": "gradlab.batch.similarity",
    "PairLoss": "gradlab.losses.base",
    "PairSimilarity": "gradlab.batch.similarity",
    "SimulationResult": "gradlab.simulation",
    "audit": "gradlab.scale.audit",
    "autograd_gradient": "gradlab.gradient.paradigm",
    "autograd_split": "gradlab.gradient.paradigm",
    "blockwise": "gradlab.scale",
    "components": "gradlab.gradient.paradigm",
    "decompose": "gradlab.decomposition",
    "doctor": "gradlab.diagnosis",
    "explore": "gradlab.explorer",
    "find_false_negatives": "gradlab.inspection",
    "get_loss": "gradlab.losses.registry",
    "inspect": "gradlab.inspection",
    "learnable": "gradlab.gradient.learnable",
    "loss_names": "gradlab.losses.registry",
    "plot_curves": "gradlab.atlas",
    "recombine": "gradlab.losses.recombined",
    "register": "gradlab.losses.registry",
    "simulate": "gradlab.simulation",
    "verify": "gradlab.gradient.verification",
    "watch": "gradlab.monitor.trainers",
}

# Packages that are called as functions too: `gradlab.train(...)`, beside `gradlab.train.TrainConfig`.
_CALLED = ("evaluate", "report", "train")

# `inspect` is `find_false_negatives` by an earlier name, and would hide the module of the standard library.
__all__ = ["__version__", *sorted({*_HOMES, *_CALLED} - {"inspect"})]

register_plots(
    {
        "atlas": "gradlab.atlas.picture:draw_atlas",
        "components": "gradlab.plotting.components:draw_components",
        "errors": "gradlab.plotting.errors:draw_errors",
        "inspection": "gradlab.inspection.picture:draw_inspection",
        "simulation": "gradlab.plotting.heatmap:draw_simulation",
    }
)


def __getattr__(name: str) -> Any:
    if name in _CALLED:
        return importlib.import_module(f"gradlab.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'gradlab' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "inspect"])

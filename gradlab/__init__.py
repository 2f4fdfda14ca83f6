"""gradlab: the gradient of a sentence-embedding loss as dissipation, weight and ratio.

``∂L/∂h_i = GD_i Σ_j W_ij (h_j' - R_i h_i')`` (Li et al., ACL 2024). Names are loaded on first use, so
importing gradlab stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradlab._version import __version__
from gradlab.drawing import drawn_by

if TYPE_CHECKING:
    from gradlab.decomposition import Decomposition, decompose
    from gradlab.errors import GradlabError
    from gradlab.explorer import explore
    from gradlab.geometry.similarity import Negatives, PairSimilarity
    from gradlab.gradient.learnable import LearnableLoss, learnable
    from gradlab.gradient.paradigm import autograd_gradient, autograd_split, components
    from gradlab.gradient.verification import verify
    from gradlab.inspection import inspect
    from gradlab.large_batch import BlockwiseLoss, blockwise
    from gradlab.large_batch.audit import audit
    from gradlab.losses.base import BatchLoss, Loss, PairLoss
    from gradlab.losses.components import Components
    from gradlab.losses.recombination import recombine
    from gradlab.losses.registry import get_loss, loss_names, register
    from gradlab.monitor.watching import watch
    from gradlab.simulation import SimulationResult, simulate

_HOMES = {
    "BatchLoss": "gradlab.losses.base",
    "BlockwiseLoss": "gradlab.large_batch",
    "Components": "gradlab.losses.components",
    "Decomposition": "gradlab.decomposition",
    "GradlabError": "gradlab.errors",
    "LearnableLoss": "gradlab.gradient.learnable",
    "Loss": "gradlab.losses.base",
    "Negatives": "gradlab.geometry.similarity",
    "PairLoss": "gradlab.losses.base",
    "PairSimilarity": "gradlab.geometry.similarity",
    "SimulationResult": "gradlab.simulation",
    "audit": "gradlab.large_batch.audit",
    "autograd_gradient": "gradlab.gradient.paradigm",
    "autograd_split": "gradlab.gradient.paradigm",
    "blockwise": "gradlab.large_batch",
    "components": "gradlab.gradient.paradigm",
    "decompose": "gradlab.decomposition",
    "explore": "gradlab.explorer",
    "get_loss": "gradlab.losses.registry",
    "inspect": "gradlab.inspection",
    "learnable": "gradlab.gradient.learnable",
    "loss_names": "gradlab.losses.registry",
    "recombine": "gradlab.losses.recombination",
    "register": "gradlab.losses.registry",
    "simulate": "gradlab.simulation",
    "verify": "gradlab.gradient.verification",
    "watch": "gradlab.monitor.watching",
}

__all__ = ["__version__", *sorted(_HOMES)]

drawn_by(
    {
        "decomposition": "gradlab.plotting.decomposition:draw_decomposition",
        "simulation": "gradlab.plotting.heatmap:heatmap",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradlab' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

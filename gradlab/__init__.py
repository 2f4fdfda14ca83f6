"""gradlab: the gradient of a sentence-embedding loss as dissipation, weight and ratio.

``∂L/∂h_i = GD_i Σ_j W_ij (h_j' - R_i h_i')`` (Li et al., ACL 2024). Names are imported on first
use, which keeps ``import gradlab`` fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradlab._version import __version__

if TYPE_CHECKING:  # `as` marks them as exported
    from gradlab.atlas import plot_curves as plot_curves
    from gradlab.batch.similarity import Negatives as Negatives
    from gradlab.batch.similarity import PairSimilarity as PairSimilarity
    from gradlab.decomposition import Decomposition as Decomposition
    from gradlab.decomposition import decompose as decompose
    from gradlab.diagnosis import Diagnosis as Diagnosis
    from gradlab.diagnosis import doctor as doctor
    from gradlab.errors import GradlabError as GradlabError
    from gradlab.explorer import explore as explore
    from gradlab.gradient.components_and_autograd import autograd_gradient as autograd_gradient
    from gradlab.gradient.components_and_autograd import autograd_split as autograd_split
    from gradlab.gradient.components_and_autograd import components as components
    from gradlab.gradient.learnable import LearnableLoss as LearnableLoss
    from gradlab.gradient.learnable import learnable as learnable
    from gradlab.gradient.verification import verify as verify
    from gradlab.inspection import find_false_negatives as find_false_negatives
    from gradlab.inspection import inspect as inspect
    from gradlab.losses.base import Loss as Loss
    from gradlab.losses.batch_loss import BatchLoss as BatchLoss
    from gradlab.losses.components import Components as Components
    from gradlab.losses.pair_loss import PairLoss as PairLoss
    from gradlab.losses.recombined import recombine as recombine
    from gradlab.losses.registry import get_loss as get_loss
    from gradlab.losses.registry import loss_names as loss_names
    from gradlab.losses.registry import register as register
    from gradlab.monitor.start_watching import watch as watch
    from gradlab.monitor.watch_callback import WatchCallback as WatchCallback
    from gradlab.scale import BlockwiseLoss as BlockwiseLoss
    from gradlab.scale import blockwise as blockwise
    from gradlab.scale.audit import audit as audit
    from gradlab.simulation import SimulationResult as SimulationResult
    from gradlab.simulation import simulate as simulate

_NAMES = {
    "gradlab.atlas": ("plot_curves",),
    "gradlab.batch.similarity": ("Negatives", "PairSimilarity"),
    "gradlab.decomposition": ("Decomposition", "decompose"),
    "gradlab.diagnosis": ("Diagnosis", "doctor"),
    "gradlab.errors": ("GradlabError",),
    "gradlab.explorer": ("explore",),
    "gradlab.gradient.learnable": ("LearnableLoss", "learnable"),
    "gradlab.gradient.components_and_autograd": (
        "autograd_gradient",
        "autograd_split",
        "components",
    ),
    "gradlab.gradient.verification": ("verify",),
    "gradlab.inspection": ("find_false_negatives", "inspect"),
    "gradlab.losses.base": ("Loss",),
    "gradlab.losses.batch_loss": ("BatchLoss",),
    "gradlab.losses.pair_loss": ("PairLoss",),
    "gradlab.losses.components": ("Components",),
    "gradlab.losses.recombined": ("recombine",),
    "gradlab.losses.registry": ("get_loss", "loss_names", "register"),
    "gradlab.monitor.watch_callback": ("WatchCallback",),
    "gradlab.monitor.start_watching": ("watch",),
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

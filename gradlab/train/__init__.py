"""Fine-tuning of an encoder with any registered loss, with records of what the loss does.

>>> import gradlab
>>> result = gradlab.train(  # doctest: +SKIP
...     model="bert-base-uncased", train_file="sentences.txt", output="runs/first", loss="arccon"
... )
>>> result.best_score  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradlab.settings.objects import call_package

if TYPE_CHECKING:
    from gradlab.train.augment import SentenceAugmentation, get_augmentation
    from gradlab.train.callback import Callback
    from gradlab.train.checkpoint import newest_checkpoint
    from gradlab.train.config import RESUMABLE_CHANGES, TrainConfig
    from gradlab.train.distributed import find_device
    from gradlab.train.hardware import device_name
    from gradlab.train.momentum import decay
    from gradlab.train.objective import Objective
    from gradlab.train.objective_parts import Component, Output
    from gradlab.train.progress import say
    from gradlab.train.queue import Queue
    from gradlab.train.run import train
    from gradlab.train.run_folder import RunFolder, TrainResult, resumable_config
    from gradlab.train.settings import (
        POOLERS,
        PRECISIONS,
        DataSettings,
        LossSettings,
        ModelSettings,
        OptimiserSettings,
        RunSettings,
    )
    from gradlab.train.trainer import Trainer

# Modules, which are imported when one of their names is first used.
_NAMES = {
    "augment": "SentenceAugmentation get_augmentation",
    "callback": "Callback",
    "checkpoint": "newest_checkpoint",
    "config": "RESUMABLE_CHANGES TrainConfig",
    "distributed": "find_device",
    "hardware": "device_name",
    "momentum": "decay",
    "objective": "Objective",
    "objective_parts": "Component Output",
    "progress": "say",
    "queue": "Queue",
    "run": "train",
    "run_folder": "RunFolder TrainResult resumable_config",
    "settings": "POOLERS PRECISIONS "
    "DataSettings LossSettings ModelSettings OptimiserSettings RunSettings",
    "trainer": "Trainer",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


call_package(__name__, "train")

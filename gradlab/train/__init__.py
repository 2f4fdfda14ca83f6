"""Fine-tuning an encoder with any registered loss, measured while it runs.

>>> from gradlab.train import TrainConfig, train
>>> config = TrainConfig(model="bert-base-uncased", train_file="sentences.txt", output="runs/first")
>>> result = train(config)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradlab.train.config import TrainConfig

if TYPE_CHECKING:
    from gradlab.train.callbacks import Callback
    from gradlab.train.loop import Trainer, TrainResult, train
    from gradlab.train.objective import Objective

__all__ = ["Callback", "Objective", "TrainConfig", "TrainResult", "Trainer", "train"]

_HOMES = {
    "Callback": "callbacks",
    "Objective": "objective",
    "TrainResult": "loop",
    "Trainer": "loop",
    "train": "loop",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

"""Augmentations, which make the second view of a sentence, by name.

>>> import numpy as np
>>> from gradlab.train.augment import get_augmentation
>>> repetition = get_augmentation("subword_repetition", rate=0.5)
>>> repetition.ids(np.array([101, 7, 8, 9, 10, 102]), np.random.default_rng(0))
array([101,   7,   8,   8,   9,   9,  10, 102])
"""

from __future__ import annotations

from gradlab.train.augment.base import (
    Augmentation,
    EmbeddingAugmentation,
    SentenceAugmentation,
    Vocabulary,
)
from gradlab.train.augment.registry import augmentation_names, get_augmentation, register

__all__ = [
    "Augmentation",
    "EmbeddingAugmentation",
    "SentenceAugmentation",
    "Vocabulary",
    "augmentation_names",
    "get_augmentation",
    "register",
]

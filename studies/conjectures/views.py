"""What a study measures in a run: embeddings of held-out sentences, and their angles."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from gradlab import Components, PairSimilarity
from gradlab.arrays import to_numpy
from gradlab.batch import Batch, unit_rows
from gradlab.evaluate import stsb_dev_cosines
from gradlab.files import read_arrays, write_arrays
from gradlab.sweep import Run, encode_of
from gradlab.train import Callback, Trainer
from studies.conjectures.conditions import EMBEDDINGS_OF
from studies.statistics import Array

BEFORE, AFTER = "held-out-before.npz", "held-out-after.npz"
# How the encoder of each file is called.
ENCODERS = {"untuned": BEFORE, "tuned": AFTER}
# Cosines and gold scores of STS-B dev, by the best encoder.
DEV_COSINES = "stsb-dev.npz"
SIDES = ("anchors", "positives")


@dataclass(frozen=True)
class HeldOutViews:
    """Unit embeddings (batches, N, D) of held-out sentences under two dropout masks, in float64."""

    anchors: Array
    positives: Array

    @classmethod
    def of(cls, batches: Iterable[Batch]) -> HeldOutViews:
        """Those of batches of one size."""
        pairs = [[to_numpy(getattr(batch, name)) for name in SIDES] for batch in batches]
        return cls(*map(np.stack, zip(*pairs, strict=True)))

    def batches(self) -> Iterator[tuple[Array, Array]]:
        """Pairs (N, D) of one batch after the other."""
        return zip(self.anchors, self.positives, strict=True)

    def angles(self) -> dict[str, Array]:
        """Angles in radians: to ``positive`` (batches, N), to ``negative`` (batches, N, N-1)."""
        return {
            "positive": np.stack([positive_angles(*batch) for batch in self.batches()]),
            "negative": np.stack([negative_angles(*batch) for batch in self.batches()]),
        }

    def save(self, path: Path) -> None:
        """Write them, in single precision, atomically."""
        write_arrays(path, {name: getattr(self, name).astype("f4") for name in SIDES})

    @classmethod
    def load(cls, path: Path) -> HeldOutViews:
        """Read what :meth:`save` wrote."""
        content = read_arrays(path)
        return cls(*(unit_rows(content[name].astype(float)) for name in SIDES))


def positive_angles(anchors: Array, positives: Array) -> Array:
    """Anchor-positive angles (N,) in radians, by chords."""
    angles: Array = PairSimilarity.from_vectors(anchors, positives).angle
    return angles


def negative_angles(anchors: Array, positives: Array) -> Array:
    """Anchor-negative angles (N, N-1) in radians, to the other sentences of the other view."""
    count = len(anchors)
    cosine = (anchors @ positives.T)[~np.eye(count, dtype=bool)].reshape(count, count - 1)
    angles: Array = np.arccos(np.clip(cosine, -1, 1))
    return angles


def angle_statistics(anchors: Array, positives: Array) -> dict[str, float]:
    """`moments` of both angles in radians, as ``theta_pos_mean``, ``theta_neg_std`` and so on.

    ``theta_neg_std_within`` is the mean over anchors of the spread of one anchor's negatives.
    """
    near, far = positive_angles(anchors, positives), negative_angles(anchors, positives)
    statistics = {"theta_neg_std_within": float(far.std(axis=1, ddof=1).mean())}
    statistics |= {f"theta_pos_{name}": value for name, value in moments(near).items()}
    return statistics | {f"theta_neg_{name}": value for name, value in moments(far.ravel()).items()}


def moments(values: Array) -> dict[str, float]:
    """Mean, spread, skewness and excess kurtosis."""
    return {
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)),
        "skewness": float(stats.skew(values)),
        "kurtosis": float(stats.kurtosis(values)),
    }


def study_statistics(anchors: Any, positives: Any, gradient: Components | None) -> dict[str, float]:
    """What is measured beside what every run measures: the ratio of all anchors, and the angles."""
    ratio = np.empty(0) if gradient is None else gradient.scalar_ratio.cpu().numpy()
    ratio = ratio[np.isfinite(ratio)]
    return {
        "ratio_all": float(ratio.mean()) if len(ratio) else math.nan,
        "ratio_all_median": float(np.median(ratio)) if len(ratio) else math.nan,
        **angle_statistics(anchors.cpu().numpy(), positives.cpu().numpy()),
    }


def callbacks(run: Run, output: Path) -> list[Observer]:
    """Those of a run of the study in this folder."""
    settings = json.loads((output / "study.json").read_text(encoding="utf-8"))["settings"]
    return [Observer(settings["analysis_batches"] if run.point.label in EMBEDDINGS_OF else 0)]


class Observer(Callback):
    """Measures the study's own numbers in a run, and keeps embeddings of some held-out batches."""

    statistics = staticmethod(study_statistics)

    def __init__(self, batches: int) -> None:
        self._batches = batches

    def on_start(self, trainer: Trainer) -> None:
        """Keep embeddings of the encoder before training."""
        if trainer.step == 0:
            self._keep(trainer, BEFORE)

    def on_end(self, trainer: Trainer) -> None:
        """Keep embeddings of the trained encoder, and cosines of STS-B dev by the best one."""
        self._keep(trainer, AFTER)
        if trainer.best_step is not None and trainer.config.eval_data is not None:
            encode = encode_of(trainer.folder.best, trainer.config)
            cosines, gold = stsb_dev_cosines(encode, trainer.config.eval_data)
            write_arrays(trainer.folder.path / DEV_COSINES, {"cosines": cosines, "gold": gold})

    def _keep(self, trainer: Trainer, name: str) -> None:
        if self._batches:
            views = (output.snapshot().views() for output in trainer.held_out(self._batches))
            HeldOutViews.of(views).save(trainer.folder.path / name)

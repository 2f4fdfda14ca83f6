"""What is measured during a run of a study, and what is kept of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from gradlab.encoder.model import Encoder
from gradlab.errors import Diverged
from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.sts import cosines, load_stsb_dev, spearman
from gradlab.files import atomic_path
from gradlab.geometry.similarity import PairSimilarity
from gradlab.gradient.diagnostics import batch_statistics
from gradlab.losses.components import Components
from gradlab.papers.unified.study.settings import StudySettings
from gradlab.seeds import undisturbed
from gradlab.train.callbacks import Callback, held_out, measure
from gradlab.train.loop import Trainer
from gradlab.train.machine import choose_precision
from gradlab.train.outputs import Output

GROUP = "study"
BEFORE, AFTER = "held-out-before.npz", "held-out-after.npz"
DEV_COSINES = "stsb-dev.npz"
SIDES = ("anchors", "positives")
Array = NDArray[Any]


@dataclass(frozen=True)
class Views:
    """Unit embeddings of held-out sentences under two dropout masks, float64, each (batches, N, D)."""

    anchors: Array
    positives: Array

    def batches(self) -> Iterator[tuple[Array, Array]]:
        """Pairs (N, D) of one batch after the other."""
        return zip(self.anchors, self.positives, strict=True)

    def save(self, path: Path) -> None:
        """Write them, in single precision, atomically."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, anchors=self.anchors.astype("f4"), positives=self.positives.astype("f4"))

    @classmethod
    def load(cls, path: Path) -> Views:
        """Read what :meth:`save` wrote."""
        with np.load(path) as content:
            return cls(*(unit(content[name].astype(float)) for name in SIDES))


def unit(rows: Array) -> Array:
    """Rows (..., D) divided by their norms."""
    scaled: Array = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return scaled


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
    """Mean and spread of both angles in radians, and how far from normal they are.

    Returns:
        for ``theta_pos`` and ``theta_neg``: ``_mean``, ``_std``, ``_skewness`` and ``_kurtosis`` (excess); for
        the negatives also ``theta_neg_std_within``, the mean over anchors of the spread of one anchor's negatives.
    """
    near, far = positive_angles(anchors, positives), negative_angles(anchors, positives)
    found = {"theta_neg_std_within": float(far.std(axis=1, ddof=1).mean())}
    for name, values in (("theta_pos", near), ("theta_neg", far.ravel())):
        found |= {
            f"{name}_mean": float(values.mean()),
            f"{name}_std": float(values.std(ddof=1)),
            f"{name}_skewness": float(stats.skew(values)),
            f"{name}_kurtosis": float(stats.kurtosis(values)),
        }
    return found


def encode_with(encoder: Encoder, precision: str) -> Callable[[list[str]], Array]:
    """The encoder's ``encode``, under autocast where the study computes in bfloat16."""
    chosen = choose_precision(precision, encoder.device).name

    def encode(sentences: list[str]) -> Array:
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=chosen == "bfloat16"):
            return encoder.encode(sentences)

    return encode


class Observer(Callback):
    """Measures a run on held-out sentences and STS-B dev, and keeps the best encoder and some embeddings.

    Attributes:
        scores: step -> Spearman's correlation on STS-B dev.
    """

    def __init__(self, settings: StudySettings, sts: str, folder: Path, embeddings: bool) -> None:
        self._settings, self._folder, self._embeddings = settings, folder, embeddings
        self._pairs = load_stsb_dev(sts)
        self.scores: dict[int, float] = {}

    def on_start(self, trainer: Trainer) -> None:
        """Measure the encoder before training."""
        if trainer.step:
            return
        self._measure(trainer)
        if self._embeddings:
            held_out_views(trainer, self._settings.analysis_batches).save(self._folder / BEFORE)

    def on_step(self, trainer: Trainer, output: Output) -> None:
        """Measure and evaluate when it is time.

        Raises:
            Diverged: if the loss, or a weight after this step, is not finite.
        """
        if not torch.isfinite(output.loss):
            raise Diverged(f"the loss is {float(output.loss)} at step {trainer.step}")
        measured, evaluated = (
            trainer.due(every) for every in (self._settings.watch_every, self._settings.eval_every)
        )
        if (measured or evaluated) and not all(
            part.isfinite().all() for part in trainer.objective.parameters()
        ):
            raise Diverged(f"the weights are not finite after step {trainer.step}")
        if measured:
            self._measure(trainer)
        if evaluated:
            self._evaluate(trainer)

    def on_end(self, trainer: Trainer) -> None:
        """Keep embeddings of the trained encoder."""
        if self._embeddings:
            held_out_views(trainer, self._settings.analysis_batches).save(self._folder / AFTER)

    @property
    def best_step(self) -> int | None:
        """The step with the best score, the earliest of equals."""
        known = {step: score for step, score in self.scores.items() if not math.isnan(score)}
        return max(known, key=lambda step: (known[step], -step)) if known else None

    def state(self) -> Any:
        """The scores so far."""
        return list(self.scores.items())

    def restore(self, state: Any) -> None:
        """Take the scores back."""
        self.scores = dict(state)

    def _measure(self, trainer: Trainer) -> None:
        measure(trainer, held_out(trainer, self._settings.watch_batches), GROUP, study_statistics)

    def _evaluate(self, trainer: Trainer) -> None:
        encoder = trainer.objective.encoder
        with undisturbed():
            mine = dev_cosines(encode_with(encoder, self._settings.precision), self._pairs)
        self.scores[trainer.step] = spearman(mine, self._pairs.gold)
        trainer.record("evaluation", {"stsb_dev": self.scores[trainer.step]})
        if self.best_step == trainer.step:
            encoder.save(self._folder / "best")
            trainer.keep_best()
            with atomic_path(self._folder / DEV_COSINES) as temporary, temporary.open("wb") as file:
                np.savez(file, cosines=mine, gold=np.array(self._pairs.gold))


def dev_cosines(encode: Callable[[list[str]], Array], pairs: Any) -> Array:
    """Cosine of each pair of an STS set, (n,)."""
    embed = Embedder(encode)
    embed.prepare(pairs.sentences)
    return cosines(embed(pairs.first), embed(pairs.second))


def held_out_views(trainer: Trainer, batches: int) -> Views:
    """Embeddings of held-out sentences, see `gradlab.train.callbacks.held_out`."""
    found = [output.snapshot().unit() for output in held_out(trainer, batches)]
    anchors, positives = ([getattr(one, side).cpu().numpy() for one in found] for side in SIDES)
    return Views(np.stack(anchors), np.stack(positives))


def study_statistics(anchors: Any, positives: Any, gradient: Components | None) -> dict[str, float]:
    """What is measured during a run: what every run measures, the ratio of all anchors, and the angles.

    Args:
        anchors, positives: (N, D) unit rows.
        gradient: the loss's components on them.
    """
    ratio = np.empty(0) if gradient is None else gradient.scalar_ratio.cpu().numpy()
    ratio = ratio[np.isfinite(ratio)]
    return {
        **batch_statistics(anchors, positives, gradient),
        "ratio_all": float(ratio.mean()) if len(ratio) else math.nan,
        "ratio_all_median": float(np.median(ratio)) if len(ratio) else math.nan,
        **angle_statistics(anchors.cpu().numpy(), positives.cpu().numpy()),
    }

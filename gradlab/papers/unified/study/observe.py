"""What is measured during a run of a study, and what is kept of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradlab.errors import Diverged
from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.sts import cosines, load_stsb_dev, spearman
from gradlab.files import atomic_path
from gradlab.papers.unified.study.settings import StudySettings
from gradlab.papers.unified.study.views import AFTER, BEFORE, SIDES, HeldOutViews, study_statistics
from gradlab.seeds import undisturbed
from gradlab.train.callbacks import Callback, held_out, measure
from gradlab.train.machine import encode_in
from gradlab.train.outputs import Output
from gradlab.train.state import TrainerState

GROUP = "study"
DEV_COSINES = "stsb-dev.npz"
Array = NDArray[Any]


class Observer(Callback):
    """Measures a run on held-out sentences and STS-B dev, and keeps the best encoder and some embeddings.

    Attributes:
        scores: step -> Spearman's correlation on STS-B dev.
    """

    def __init__(self, settings: StudySettings, sts: str, folder: Path, embeddings: bool) -> None:
        self._settings, self._folder, self._embeddings = settings, folder, embeddings
        self._pairs = load_stsb_dev(sts)
        self.scores: dict[int, float] = {}

    def on_start(self, trainer: TrainerState) -> None:
        """Measure the encoder before training."""
        if trainer.step:
            return
        self._measure(trainer)
        if self._embeddings:
            held_out_views(trainer, self._settings.analysis_batches).save(self._folder / BEFORE)

    def on_step(self, trainer: TrainerState, output: Output) -> None:
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

    def on_end(self, trainer: TrainerState) -> None:
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

    def _measure(self, trainer: TrainerState) -> None:
        measure(trainer, held_out(trainer, self._settings.watch_batches), GROUP, study_statistics)

    def _evaluate(self, trainer: TrainerState) -> None:
        encoder = trainer.objective.encoder
        with undisturbed():
            mine = dev_cosines(encode_in(encoder, self._settings.precision), self._pairs)
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


def held_out_views(trainer: TrainerState, batches: int) -> HeldOutViews:
    """Embeddings of held-out sentences, see `gradlab.train.callbacks.held_out`."""
    found = [output.snapshot().unit() for output in held_out(trainer, batches)]
    anchors, positives = ([getattr(one, side).cpu().numpy() for one in found] for side in SIDES)
    return HeldOutViews(np.stack(anchors), np.stack(positives))

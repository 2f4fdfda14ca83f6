"""What is measured during a run of a study beside what every run measures, and the embeddings that are kept of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from gradlab.errors import Diverged
from gradlab.evaluate.sts import stsb_dev_cosines
from gradlab.files import atomic_path
from gradlab.papers.unified.study.conditions import EMBEDDINGS_OF
from gradlab.papers.unified.study.views import (
    AFTER,
    BEFORE,
    DEV_COSINES,
    SIDES,
    HeldOutViews,
    study_statistics,
)
from gradlab.sweep.board import Run
from gradlab.sweep.training import encode_of
from gradlab.train.callbacks import Diagnostics, held_out
from gradlab.train.outputs import Output
from gradlab.train.state import TrainerState


def callbacks(run: Run, output: Path) -> list[Observer]:
    """Those of a run of the study in this folder."""
    settings = json.loads((output / "study.json").read_text(encoding="utf-8"))["settings"]
    batches = settings["analysis_batches"] if run.point.label in EMBEDDINGS_OF else 0
    return [Observer(settings["watch_every"], batches)]


class Observer(Diagnostics):
    """The diagnostics of a run, with the study's own numbers, and what the analyses read of its encoders.

    Args:
        every: steps between measurements.
        batches: of held-out sentences whose embeddings are kept, before and after training; 0 for none.
    """

    def __init__(self, every: int, batches: int) -> None:
        super().__init__(every, study_statistics)
        self._batches = batches

    def on_start(self, trainer: TrainerState) -> None:
        """Measure the encoder before training."""
        super().on_start(trainer)
        if self._batches and trainer.step == 0:
            held_out_views(trainer, self._batches).save(trainer.folder.path / BEFORE)

    def on_step(self, trainer: TrainerState, output: Output) -> None:
        """Measure when it is time.

        Raises:
            Diverged: if the loss, or a weight that is about to be measured or evaluated, is not finite.
        """
        if not torch.isfinite(output.loss):
            raise Diverged(f"the loss is {float(output.loss)} at step {trainer.step}")
        config = trainer.config
        if (trainer.due(config.diagnostics_every) or trainer.due(config.eval_every)) and not all(
            part.isfinite().all() for part in trainer.objective.parameters()
        ):
            raise Diverged(f"the weights are not finite after step {trainer.step}")
        super().on_step(trainer, output)

    def on_end(self, trainer: TrainerState) -> None:
        """Keep embeddings of the trained encoder, and cosines and gold scores of STS-B dev by the best one."""
        if self._batches:
            held_out_views(trainer, self._batches).save(trainer.folder.path / AFTER)
        if trainer.best_step is not None and trainer.config.sts is not None:
            encode = encode_of(trainer.folder.best, trainer.config)
            cosines, gold = stsb_dev_cosines(encode, trainer.config.sts)
            with atomic_path(trainer.folder.path / DEV_COSINES) as temporary, temporary.open("wb") as file:
                np.savez(file, cosines=cosines, gold=np.array(gold))


def held_out_views(trainer: TrainerState, batches: int) -> HeldOutViews:
    """Embeddings of held-out sentences, see `gradlab.train.callbacks.held_out`."""
    found = [output.snapshot().unit() for output in held_out(trainer, batches)]
    anchors, positives = ([getattr(one, side).cpu().numpy() for one in found] for side in SIDES)
    return HeldOutViews(np.stack(anchors), np.stack(positives))

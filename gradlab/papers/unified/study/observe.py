"""What is measured during a run of a study beside what every run measures, and the embeddings that are kept of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gradlab.errors import Diverged
from gradlab.papers.unified.study.settings import StudySettings
from gradlab.papers.unified.study.views import AFTER, BEFORE, SIDES, HeldOutViews, study_statistics
from gradlab.train.callbacks import Diagnostics, held_out
from gradlab.train.outputs import Output
from gradlab.train.state import TrainerState


class Observer(Diagnostics):
    """The diagnostics of a run, with the study's own numbers, and embeddings of held-out sentences before and after."""

    def __init__(self, settings: StudySettings, folder: Path, embeddings: bool) -> None:
        super().__init__(settings.watch_every, study_statistics)
        self._settings, self._folder, self._embeddings = settings, folder, embeddings

    def on_start(self, trainer: TrainerState) -> None:
        """Measure the encoder before training."""
        super().on_start(trainer)
        if self._embeddings and trainer.step == 0:
            held_out_views(trainer, self._settings.analysis_batches).save(self._folder / BEFORE)

    def on_step(self, trainer: TrainerState, output: Output) -> None:
        """Measure when it is time.

        Raises:
            Diverged: if the loss, or a weight that is about to be measured or evaluated, is not finite.
        """
        if not torch.isfinite(output.loss):
            raise Diverged(f"the loss is {float(output.loss)} at step {trainer.step}")
        settings = self._settings
        if (trainer.due(settings.watch_every) or trainer.due(settings.eval_every)) and not all(
            part.isfinite().all() for part in trainer.objective.parameters()
        ):
            raise Diverged(f"the weights are not finite after step {trainer.step}")
        super().on_step(trainer, output)

    def on_end(self, trainer: TrainerState) -> None:
        """Keep embeddings of the trained encoder."""
        if self._embeddings:
            held_out_views(trainer, self._settings.analysis_batches).save(self._folder / AFTER)


def held_out_views(trainer: TrainerState, batches: int) -> HeldOutViews:
    """Embeddings of held-out sentences, see `gradlab.train.callbacks.held_out`."""
    found = [output.snapshot().unit() for output in held_out(trainer, batches)]
    anchors, positives = ([getattr(one, side).cpu().numpy() for one in found] for side in SIDES)
    return HeldOutViews(np.stack(anchors), np.stack(positives))

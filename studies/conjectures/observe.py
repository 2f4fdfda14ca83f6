"""What a study measures in a run beside what every run measures, and the embeddings it keeps."""

from __future__ import annotations

import json
from pathlib import Path

from gradlab.evaluate import stsb_dev_cosines
from gradlab.files import write_arrays
from gradlab.sweep import Run, encode_of
from gradlab.train import Callback, Trainer
from studies.conjectures.conditions import EMBEDDINGS_OF
from studies.conjectures.views import AFTER, BEFORE, DEV_COSINES, HeldOutViews, study_statistics


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

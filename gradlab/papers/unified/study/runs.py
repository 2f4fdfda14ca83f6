"""One run of a study: trained, scored, and reduced to what the analyses read."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.errors import Diverged, GradlabError
from gradlab.evaluate.embed import Encode
from gradlab.evaluate.report import EvaluationResult
from gradlab.evaluate.sts import stsb_dev_cosines
from gradlab.files import atomic_path, write_json
from gradlab.papers.unified.study.conditions import Planned
from gradlab.papers.unified.study.settings import StudySettings
from gradlab.sweep.training import encode_of
from gradlab.train.config import TrainConfig

RESULT, STS, TRANSFER, LOG, MANIFEST = "result.json", "sts.json", "transfer.json", "log.txt", "manifest.json"
# Cosines and gold scores of STS-B dev, by the best encoder.
DEV_COSINES = "stsb-dev.npz"
# Of the study, beside its runs: scores of the encoder before training.
UNTUNED = "untuned.json"
FORMAT = 1
# Settings of a study that are those of its trainings.
SHARED = (
    "batch_size", "max_length", "learning_rate", "pooler", "precision", "held_out", "eval_every", "analysis_batch",
)  # fmt: skip
# What a configuration says of measuring: `Task.measured` says it too, and of earlier versions' runs alone.
MEASURING = ("sts", "eval_every", "eval_start", "log_every", "diagnostics_every", "analysis_batches")


@dataclass(frozen=True)
class Task:
    """All that a process needs to make a run; it pickles.

    Attributes:
        planned: which run.
        config: how it is trained.
        settings: how it is measured.
        jobs: processes that the classifiers of the transfer tasks may use.
    """

    planned: Planned
    config: TrainConfig
    settings: StudySettings
    jobs: int = 1

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.config.output)

    @property
    def sts(self) -> str:
        """SentEval's ``data/downstream`` folder."""
        return str(self.config.sts)

    @property
    def best(self) -> Path:
        """Where its best encoder is, until it is scored."""
        return self.folder / "best"

    def result(self) -> dict[str, Any] | None:
        """What the finished run left, or None if it has not finished.

        Raises:
            GradlabError: if it was made with other settings, or is unreadable.
        """
        found = read_json(self.folder / RESULT)
        if found is None:
            return None
        mine = self.config.to_dict()
        trained = {**found["config"], **{name: mine[name] for name in MEASURING}}
        differences = TrainConfig.from_dict(trained).differences(self.config)
        measured = self.measured()
        differences += [
            f"{name}: {value!r}, not {measured[name]!r}"
            for name, value in found["measured"].items()
            if measured.get(name) != value
        ]
        if differences:
            raise GradlabError(
                f"{self.folder} was run with other settings ({'; '.join(differences)}); choose another --output"
            )
        return found

    def measured(self) -> dict[str, Any]:
        """The settings that decide what is measured, beside those of the training."""
        names = ("eval_every", "watch_every", "watch_batches", "analysis_batches")
        return {"format": FORMAT, **{name: getattr(self.settings, name) for name in names}}

    def missing(self) -> list[str]:
        """The scores, :data:`STS` and :data:`TRANSFER`, that are wanted of a finished run and still can be had."""
        return self._without() if self.best.is_dir() else []

    def lost(self) -> list[str]:
        """Those that cannot be had any more, as the run's encoder was deleted before they were asked for."""
        result = read_json(self.folder / RESULT) or {}
        return [] if self.best.is_dir() or result.get("best_step") is None else self._without()

    def _without(self) -> list[str]:
        if not (self.folder / RESULT).exists():
            return []
        wanted = [
            name for name, asked in ((STS, self.planned.sts), (TRANSFER, self.planned.transfer)) if asked
        ]
        return [name for name in wanted if not (self.folder / name).exists()]


def base_settings(
    settings: StudySettings, model: str, train_file: str, sts: str, device: str
) -> dict[str, Any]:
    """The settings of training that all runs of a study share."""
    return {name: getattr(settings, name) for name in SHARED} | {
        "model": model,
        "train_file": train_file,
        "sts": sts,
        "device": device,
        "max_steps": settings.steps,
        "eval_start": False,
        "diagnostics_every": settings.watch_every,
        "analysis_batches": settings.watch_batches,
        "save_every": max(500, settings.eval_every),
        "keep": 1,
    }


def make_run(task: Task, *callbacks: Any) -> None:
    """Train, score and clear up, as far as that is not done; an interrupted training goes on from its checkpoint.

    What it prints goes to ``log.txt`` in the run's folder.

    Raises:
        GradlabError: bad input, or a full disk. A loss that diverges is a result, not an error.
        KeyboardInterrupt: when interrupted, after a checkpoint is written.
    """
    with _logged(task.folder):
        if task.result() is None:
            _train_and_score(task, *callbacks)
        for name in task.missing():
            found = evaluate_tasks(task, encode_of(task.best, task.config), name.removesuffix(".json"))
            scores: dict[str, Any]
            if name == STS:
                scores = {key: _number(score) for key, score in found.sts.items()}
            else:
                scores = {"classifier": found.classifier, **found.transfer()}
            write_json(task.folder / name, scores)
    clear(task)


def read_json(path: Path) -> dict[str, Any] | None:
    """The content of a JSON file, or None if there is no such file.

    Raises:
        GradlabError: if it is unreadable.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise GradlabError(f"cannot read {path}: {error}; delete it to have the run made again") from error
    return content


def _train_and_score(task: Task, *callbacks: Any) -> None:
    from gradlab.files import versions
    from gradlab.papers.unified.study.observe import Observer
    from gradlab.train import train

    observer = Observer(task.settings, task.folder, task.planned.embeddings)
    result: dict[str, Any] = {
        "condition": task.planned.condition.name,
        "loss": task.config.loss,
        "settings": task.config.loss_settings,
        "seed": task.config.seed,
        "config": task.config.to_dict(),
        "measured": task.measured(),
        "versions": versions("torch", "transformers", "numpy", "scipy"),
    }
    begun = read_json(task.folder / MANIFEST)
    if begun is not None and begun["config"]["diagnostics_every"] == 0:
        # By an earlier version, which did not evaluate as training does: its scores are not in the checkpoints.
        (task.folder / MANIFEST).unlink()
        shutil.rmtree(task.folder / "checkpoints", ignore_errors=True)
        begun = None
    try:
        trained = train(task.config, resume=begun is not None, callbacks=[observer, *callbacks])
    except Diverged as error:
        write_json(task.folder / RESULT, result | {"diverged": str(error)})
        return
    manifest = read_json(task.folder / MANIFEST) or {}
    result |= {
        "diverged": "",
        "steps": trained.steps,
        "seconds": manifest["results"]["seconds"],
        "device": manifest["device"],
        "stsb_dev": {str(step): _number(score) for step, score in trained.scores.items()},
        "best_step": trained.best_step,
    }
    if task.best.is_dir():
        mine, gold = stsb_dev_cosines(encode_of(task.best, task.config), task.sts)
        with atomic_path(task.folder / DEV_COSINES) as temporary, temporary.open("wb") as file:
            np.savez(file, cosines=mine, gold=np.array(gold))
    write_json(task.folder / RESULT, result)


def evaluate_tasks(task: Task, encode: Encode, tasks: str) -> EvaluationResult:
    """Scores of an encoder on the run's data."""
    from gradlab.evaluate import evaluate

    return evaluate(encode, task.sts, tasks, progress=False, jobs=task.jobs)


def clear(task: Task) -> None:
    """Delete weights that nothing needs any more: a study would fill the disk with them."""
    for name in ("checkpoints", "encoder", *(() if task.missing() else ("best",))):
        shutil.rmtree(task.folder / name, ignore_errors=True)


def _number(value: float) -> float | None:
    return value if value == value else None


@contextlib.contextmanager
def _logged(folder: Path) -> Iterator[None]:
    """What is printed within goes to the run's log: runs side by side would print over each other."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / LOG).open("a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        yield

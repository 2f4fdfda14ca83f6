"""The folder of a run: files, manifest, result, and whether it can be begun or resumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.evaluate.selection import STSB_DEV
from gradlab.files import (
    check_writable,
    clear_unfinished,
    one_at_a_time,
    read_object,
    recover_folder,
)
from gradlab.monitor.run_reader import FINISHED
from gradlab.settings.objects import named_modules
from gradlab.train.checkpoint import Checkpoint, newest_checkpoint
from gradlab.train.config import TrainConfig
from gradlab.train.distributed import RunProcesses, launched
from gradlab.train.former_names import RENAMED

# Increase when an older gradlab could misread the manifest or the checkpoints of a run.
FORMAT = 3
# Types of the manifest's entries, and those without which it is none.
_ENTRIES = {"config": dict, "status": str, "data": dict, "results": dict, "device": dict}
_REQUIRED = ("config", "status")


@dataclass(frozen=True)
class TrainResult:
    """Result of a training run.

    Attributes:
        output: the run folder.
        steps: total number of optimiser steps.
        scores: step -> score that selects the best step; step 0 is the encoder before training.
        best_step: the step whose encoder is in ``output/best``; None without evaluation.
        selection: name of the score: "stsb_dev", Spearman's correlation on STS-B dev, or
            "ndcg_at_10" of a retrieval task.
    """

    output: Path
    steps: int
    scores: dict[int, float]
    best_step: int | None
    selection: str = STSB_DEV

    @property
    def best_score(self) -> float | None:
        """Score of the best step; None without evaluation."""
        return None if self.best_step is None else self.scores[self.best_step]


class RunFolder:
    """Paths in the folder of a run."""

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        # Configuration, versions, seed, device, data hash and results.
        self.manifest_file = path / "manifest.json"
        # Measurements, see `gradlab.monitor.metrics.write_metrics`.
        self.metrics_file = path / "metrics.csv"
        self.checkpoints = path / "checkpoints"  # the newest checkpoints
        self.best = path / "best"  # the encoder with the best score so far
        self.encoder = path / "encoder"  # the encoder at the end of training
        self._lock = path / ".lock"  # held by the process that trains here

    def read_manifest(self) -> dict[str, Any]:
        """Return the manifest; GradlabError if it is absent, unreadable, or not that of a run."""
        check_writable(self.path, folder=True)  # a name may be too long even to look it up
        if not self.manifest_file.exists():
            raise GradlabError(f"{str(self.path)!r} holds no run to resume (no manifest.json)")
        content = read_object(self.manifest_file)
        written_in = content.get("format", 1)
        if isinstance(written_in, int) and written_in > FORMAT:
            raise GradlabError(
                f"{self.manifest_file} has format {written_in}, and this gradlab reads up to "
                f"{FORMAT}; update gradlab"
            )
        for name, kind in _ENTRIES.items():
            if not isinstance(content.get(name, kind()), kind) or (
                name in _REQUIRED and name not in content
            ):
                raise GradlabError(
                    f"{self.manifest_file} is not the manifest of a training run: {name!r} is "
                    f"{'missing' if name not in content else 'not what it should be'}"
                )
        contents = content.get("data", {}).get("contents")
        if isinstance(contents, dict):
            content["data"]["contents"] = {
                RENAMED.get(name, name): hashes for name, hashes in contents.items()
            }
        return content

    def check_free(self) -> None:
        """Raise GradlabError if the folder holds a run or its files, or cannot be written.

        An unfinished run that has saved nothing, such as one whose loss refused the first batch, is
        begun anew.
        """
        place = repr(str(self.path))
        check_writable(self.path, folder=True)
        saved = [path for path in (self.encoder, self.best, self.checkpoints) if path.exists()]
        if self.manifest_file.exists():
            manifest = self.read_manifest()
            if saved or manifest["status"] == FINISHED or "kind" in manifest:  # a watched run
                raise GradlabError(f"{place} holds a run; give --resume, or another --output")
        elif saved or self.metrics_file.exists():
            name = [*saved, self.metrics_file][0].name
            raise GradlabError(
                f"{place} holds {name}, which a run would overwrite; give another --output"
            )

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from training here; GradlabError if one does already."""
        refusal = (
            f"another process trains in {str(self.path)!r}; wait for it, or give another --output"
        )
        return one_at_a_time(self._lock, refusal=refusal)

    def wait(self) -> None:
        """Wait until no other process trains here."""
        if self._lock.exists():
            with one_at_a_time(self._lock, f"Waiting: another process trains in {self.path}."):
                pass

    def check_same(self, config: TrainConfig, data: Mapping[str, Any]) -> None:
        """Raise GradlabError unless the run here has this configuration and manifest ``data``."""
        manifest, run = self.read_manifest(), f"the run in {str(self.path)!r}"
        recorded = manifest.get("data", {})
        if differences := TrainConfig.of_run(manifest["config"]).differences(config):
            raise GradlabError(f"{run} has another configuration ({'; '.join(differences)})")
        if recorded.get("sha256") != data["sha256"]:
            raise GradlabError(f"the training file is not the one that {run} began with")
        contents = recorded.get("contents", {})
        if not isinstance(contents, dict):
            raise GradlabError(f"the contents in {self.manifest_file} are not a JSON object")
        for name, content in contents.items():
            # Of a setting that is absent now, such as `eval_data`, nothing can be compared.
            if data["contents"].get(name, content) != content:
                raise GradlabError(
                    f"the content of {name} ({getattr(config, name)}) has changed since {run} began"
                )

    def recover(self) -> None:
        """Clean up files and folders that a killed run left half-written; needs :meth:`held`."""
        clear_unfinished(self.path, self.manifest_file.name, self.metrics_file.name)
        for place in (self.best, self.encoder):
            recover_folder(place)
        for unfinished in sorted(self.checkpoints.glob(".*-step-*")):
            _, step, number, *_ = unfinished.name.split("-")
            recover_folder(self.checkpoints / f"{step}-{number}")


def resumed_checkpoint(
    folder: RunFolder,
    config: TrainConfig,
    data: Mapping[str, Any],
    steps: int,
    say: Callable[[str], None],
) -> Checkpoint | None:
    """Return the newest intact checkpoint of the run in a folder, which is held, if any.

    Raises:
        GradlabError: the run has another configuration, other ``data``, or more than ``steps``.
    """
    folder.check_same(config, data)
    folder.recover()
    checkpoint = newest_checkpoint(folder.checkpoints, say)
    if checkpoint is not None and checkpoint.step > steps:
        raise GradlabError(
            f"{checkpoint.folder} is of step {checkpoint.step}, and the run has {steps} "
            "steps; delete it, or start anew"
        )
    return checkpoint


def resumable_config(
    output: str | Path, device: str = "auto", code: Iterable[str] = ()
) -> TrainConfig:
    """Return the configuration of the run in ``output``.

    Args:
        output: the run folder.
        device: where several processes start, of which the main one reads the manifest.
        code: texts that name the run's own code, such as ``"file.py:loss"``; no code runs only
            because a manifest names it.

    Raises:
        GradlabError: there is no run, or it has code of its own that ``code`` does not name.
    """
    folder = RunFolder(output)

    def settings() -> dict[str, Any]:
        content: dict[str, Any] = folder.read_manifest()["config"]
        check_code(content, code, str(folder.manifest_file))
        return content

    content = settings() if launched() == 1 else RunProcesses.start(device).from_main(settings)
    return TrainConfig.from_dict({**content, "output": str(output)})


def check_code(settings: Mapping[str, Any], code: Iterable[str], file: str) -> None:
    """Raise GradlabError if settings from a ``file`` name code that the texts ``code`` do not."""
    texts = [str(settings.get(name) or "") for name in ("loss", "loss_settings", "augment")]
    allowed = {module for text in code for module in [text, *named_modules(text)]}
    for text in texts:
        for module in named_modules(text):
            if module not in allowed:
                raise GradlabError(
                    f"{file} names code, {text:.100}, which runs only if you name it: give --loss "
                    f"or --augment as there, or --loss-file {module}"
                )


def finished(config: TrainConfig) -> TrainResult | None:
    """Return the run's result in ``config.output``; None if unfinished or configured otherwise."""
    if launched() == 1:
        return _finished(config)
    return RunProcesses.start(config.device).from_main(lambda: _finished(config))


def best_step(scores: Mapping[int, float]) -> int | None:
    """Return the step with the best score after step 0, the earliest of equals; None without."""
    trained = {step: score for step, score in scores.items() if step > 0 and not math.isnan(score)}
    return max(trained, key=lambda step: (trained[step], -step), default=None)


def scores_from_json(scores: Iterable[tuple[int | str, float | None]]) -> dict[int, float]:
    """Return scores by step, from JSON, where null stands for the NaN of constant embeddings."""
    return {int(step): math.nan if score is None else float(score) for step, score in scores}


def _finished(config: TrainConfig) -> TrainResult | None:
    folder = RunFolder(config.output)
    manifest = folder.read_manifest()
    same = not TrainConfig.of_run(manifest["config"]).differences(config)
    if manifest["status"] != FINISHED or not same or not folder.encoder.is_dir():
        return None
    results = manifest.get("results", {})
    name = results.get("selection", STSB_DEV)
    try:
        steps, best = int(results["steps"]), results["best_step"]
        scores = scores_from_json(results[name].items())
        if best is not None and best not in scores:
            raise KeyError(best)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GradlabError(f"the results in {folder.manifest_file} are damaged") from error
    return TrainResult(folder.path, steps, scores, best, name)

"""The training loop."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradlab.errors import Diverged, GradlabError
from gradlab.evaluate.selection import STSB_DEV
from gradlab.monitor.history import EVALUATION, TRAIN
from gradlab.monitor.metrics import start_trackers
from gradlab.monitor.scores import readable
from gradlab.seeds import random_state, restore_random_state, seed_everything, undisturbed
from gradlab.train.checkpoint import Checkpoint, newest_checkpoint, save_checkpoint
from gradlab.train.config import TrainConfig
from gradlab.train.interruption import Interruption
from gradlab.train.machine import encode_in, free_threads, using_threads
from gradlab.train.objective import Objective
from gradlab.train.outputs import Output
from gradlab.train.progress import Progress, say
from gradlab.train.run_folder import RunFolder, new_manifest
from gradlab.train.schedule import learning_rate
from gradlab.train.state import Callback, TrainerState


@dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
        output: the run folder.
        steps: optimiser steps in all.
        scores: step -> score by which the best step is selected; step 0 is the encoder before training.
        best_step: the step whose encoder is in ``output/best``; None without evaluation.
        selection: what the scores are: "stsb_dev", Spearman's correlation on STS-B dev, or "ndcg_at_10" of a
            retrieval task.
    """

    output: Path
    steps: int
    scores: dict[int, float]
    best_step: int | None
    selection: str = STSB_DEV

    @property
    def best_score(self) -> float | None:
        """Score of the best step."""
        return None if self.best_step is None else self.scores[self.best_step]


def train(
    config: TrainConfig | None = None,
    *,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
    objective: Callable[..., Objective] = Objective,
    **settings: Any,
) -> TrainResult:
    """Fine-tune an encoder, as ``gradlab train`` does.

    Args:
        config: everything that determines the run; settings may be given by keyword instead.
        resume: continue the run in ``config.output`` from its newest whole checkpoint (from the beginning
            if it was killed before the first); on a CPU the weights become those of the uninterrupted run, bit by bit.
        callbacks: called during the run, after what the loss does to the embeddings was measured.
        objective: a subclass of :class:`Objective`, for other views, heads or negatives.
        **settings: those of :class:`TrainConfig`, a ``recipe`` among them.

    Raises:
        GradlabError: for bad input of any kind, a full disk included.
        Diverged: if embeddings, loss or weights are no longer finite.
        KeyboardInterrupt: when interrupted, after a checkpoint is written.

    Example:
        >>> import gradlab
        >>> gradlab.train(model="bert-base-uncased", train_file="sentences.txt", output="runs/first")  # doctest: +SKIP
    """
    if config is None:
        config = TrainConfig.from_dict(settings)
    elif settings:
        config = dataclasses.replace(config, **settings)
    threads, words = config.threads, ""
    if threads is None and resume:
        threads = RunFolder(Path(config.output)).threads
    if threads is None:
        threads, words = free_threads()
    if words and not os.environ.get("RANK", "0").strip("0"):
        say(words)
    with using_threads(threads):
        return Trainer(config, resume=resume, callbacks=callbacks, objective=objective).run()


def finished(config: TrainConfig) -> TrainResult | None:
    """How the run in ``config.output`` ended; None if something is left to do, or it has another configuration.

    Raises:
        GradlabError: if there is no run.
    """
    folder = RunFolder(Path(config.output))
    manifest = folder.read_manifest()
    same = not TrainConfig.from_dict(manifest["config"]).differences(config)
    if manifest["status"] != "finished" or not same or not folder.encoder.is_dir():
        return None
    results = manifest["results"]
    name = results.get("selection", STSB_DEV)
    scores = _from_json(results[name].items())
    return TrainResult(folder.path, results["steps"], scores, results["best_step"], name)


class Trainer(TrainerState):
    """One run, from configuration to encoder; its arguments and attributes are those of `TrainerState`."""

    def run(self) -> TrainResult:
        """Train to the end.

        Raises:
            GradlabError, KeyboardInterrupt: see :func:`train`.
        """
        self._began = time.perf_counter()
        self._begin()
        size = self.config.batch_size * self.config.accumulation
        progress = Progress(self.step, self.steps, size, visible=self.processes.is_main)
        # Several processes could not agree on the step at which a signal came.
        with progress, Interruption(enabled=self.processes.count == 1) as interruption:
            while self.step < self.steps:
                output, told = self._step(progress)
                log, measure, evaluate, save = (
                    self.due(getattr(self.config, f"{what}_every"))
                    for what in ("log", "diagnostics", "eval", "save")
                )
                if log:
                    self._log(progress.measure(), told, output)
                progress.advance()
                if (measure or evaluate) and not all(
                    bool(weights.isfinite().all()) for weights in self.objective.parameters()
                ):
                    raise Diverged(
                        f"the weights are not finite after step {self.step}; lower the learning rate"
                    )
                if measure:
                    self.measure([output])
                for callback in self.callbacks:
                    callback.on_step(self, output)
                if evaluate:
                    self._evaluate()
                if save or interruption.requested or self._keeps_best:
                    self._save()
                if interruption.requested:
                    self.say(f"Stopped after step {self.step}; continue with --resume.")
                    raise KeyboardInterrupt
        return self._finish()

    def _begin(self) -> None:
        """Start the run, or resume it from the newest intact checkpoint."""
        self.say(f"Computing in {self.precision.name}: {self.precision.why}.")
        checkpoint = None
        if self._resume:
            self.folder.check_same(self.config, self.corpus.tokens.data_hash)
            if self.processes.is_main:
                self.folder.recover()
            checkpoint = newest_checkpoint(self.folder.checkpoints, self.say)
            where = (
                f"after step {checkpoint.step}."
                if checkpoint
                else "from the beginning: there is no checkpoint yet."
            )
            self.say(f"Resuming {where}")
        if self.processes.is_main:
            start = checkpoint.step if checkpoint else 0
            trackers = start_trackers(self.config.trackers, self.folder.path, self.config.to_dict(), start)
            if not self._resume:
                computes = (self.precision, self.processes.device, self.processes.count)
                manifest = new_manifest(self.config, *computes, self.corpus.facts(self.config))
                self.folder.write_manifest(manifest)
            self.recorder.begin((lambda row: row[0] <= start) if checkpoint else None, trackers)
            self.judge()
        self.processes.wait()
        if self.corpus.tokens.notes:
            self.say(f"{self.config.train_file}: {self.corpus.tokens.notes}.")
        seed_everything(self.config.seed, self.processes.rank)
        if checkpoint:
            self._restore(checkpoint)
        elif self.config.diagnostics_every:
            self.measure([])
        for callback in self.callbacks:
            callback.on_start(self)
        if not checkpoint and self.config.eval_start:
            self._evaluate()

    def _step(self, progress: Progress) -> tuple[Output, dict[str, Any]]:
        """One step of training; returns the last batch's output, and gradient norm and learning rate."""
        config = self.config
        rate = learning_rate(config, self.step, self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        with progress.working():
            for part in range(config.accumulation):
                rows = self.corpus.order[self.step * config.accumulation + part]
                sequences = self.corpus.take(self.processes.share(rows))
                batch = self.objective.prepare(*sequences, sentences=rows)
                share = self.processes.count / config.accumulation
                if config.chunk_size is not None:
                    output: Output = self.objective.accumulate(batch, share)
                else:
                    # Gradients are averaged over processes once a step, with its last batch.
                    last = self.processes.count == 1 or part == config.accumulation - 1
                    with contextlib.nullcontext() if last else self._parallel.no_sync():
                        output = self._parallel(batch)
                        (output.loss * share).backward()
                self.objective.after_batch(output)
                progress.add(output.loss)
            if config.chunk_size is not None:
                self.processes.average(self.objective.parameters())
            self.objective.before_step()
            norm = nn.utils.clip_grad_norm_(self.objective.parameters(), config.clip or math.inf)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
            with torch.no_grad():
                self.objective.after_step(output)
        self.step += 1
        return output, {"gradient_norm": norm, "learning_rate": rate}

    def _log(self, values: dict[str, float], told: dict[str, Any], output: Output) -> None:
        """Record loss and throughput since the last record, and the values of the step just done."""
        numbers = {name: float(number) for name, number in told.items()}
        self.record(TRAIN, {**values, **numbers, **self.objective.statistics(output)})
        if not math.isfinite(values["loss"]):
            raise Diverged(f"the loss is {values['loss']} at step {self.step}; lower the learning rate")

    def _evaluate(self) -> None:
        """Evaluate the encoder, if evaluation is configured, and keep it if it is the best so far."""
        if self.selection is None:
            return
        if self.processes.is_main:
            with undisturbed():
                score = self.selection.score(encode_in(self.objective.encoder, self.precision.name))
            self.scores[self.step] = score
            self.record(EVALUATION, {self.selection.name: score})
            self.say(f"Step {self.step}: {readable(self.selection.name)} {score:.4f}")
            if self.best_step == self.step:
                self.objective.encoder.save(self.folder.best)
        # A checkpoint takes all processes, one of which knows the score.
        if any(self.processes.collect(self.best_step == self.step)):
            self.keep_best()

    def _save(self) -> None:
        self._keeps_best = False
        states = self.processes.collect(random_state())
        if not self.processes.is_main:
            return
        told = {name: callback.state() for name, callback in self._named().items()}
        state = {
            "random": states,
            "selection": self.selected_by,
            "scores": _for_json(self.scores),
            "callbacks": {name: one for name, one in told.items() if one is not None},
        }
        place = self.folder.checkpoints
        try:
            save_checkpoint(place, self.step, self.objective, self.optimiser, state, self.config.keep)
        except GradlabError as error:
            raise GradlabError(
                f"{error}. Step {self.step} is not saved; resume from the checkpoint before"
            ) from error

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.state
        if len(state["random"]) != self.processes.count:
            raise GradlabError(
                f"{checkpoint.folder} was written by {len(state['random'])} processes; resume with as many"
            )
        before = state.get("selection", STSB_DEV)
        if self.selection is not None and state["scores"] and before != self.selected_by:
            raise GradlabError(
                f"the run was evaluated by {readable(before)}, and {self.config.sts} gives {readable(self.selected_by)}; "
                "resume with the data that it began with"
            )
        checkpoint.load(self.objective, self.optimiser)
        self.selected_by = before if state["scores"] else self.selected_by
        self.step = checkpoint.step
        self.scores = _from_json(state["scores"])
        callbacks = self._named()
        for name, content in state["callbacks"].items():
            if name not in callbacks:
                raise GradlabError(f"{checkpoint.folder} was written with the callback {name}; pass it again")
            callbacks[name].restore(content)
        restore_random_state(state["random"][self.processes.rank])

    def _named(self) -> dict[str, Callback]:
        return {type(callback).__name__: callback for callback in self.callbacks}

    def _finish(self) -> TrainResult:
        for callback in self.callbacks:
            callback.on_end(self)
        result = TrainResult(
            self.folder.path, self.steps, dict(self.scores), self.best_step, self.selected_by
        )
        if self.processes.is_main:
            self.objective.encoder.save(self.folder.encoder)
            results = {
                "steps": self.steps,
                "selection": self.selected_by,
                self.selected_by: dict(_for_json(self.scores)),
                "best_step": self.best_step,
                # Of this process: a resumed run does not know how long the one before it took.
                "seconds": time.perf_counter() - self._began,
                "diagnostics_seconds": self.recorder.seconds,
            }
            description = {**self.folder.read_manifest(), "status": "finished", "results": results}
            self.folder.write_manifest(description)
            self.recorder.close()
        self.processes.wait()
        return result


def _for_json(scores: dict[int, float]) -> list[tuple[int, float | None]]:
    """Steps and scores, None for the NaN of constant embeddings, which JSON has not."""
    return [(step, None if math.isnan(score) else score) for step, score in scores.items()]


def _from_json(scores: Iterable[tuple[int | str, float | None]]) -> dict[int, float]:
    return {int(step): math.nan if score is None else score for step, score in scores}

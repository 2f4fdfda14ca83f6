"""`Trainer`: the state of a run, and its loop over steps, records, evaluations and checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gradlab.errors import Diverged, GradlabError, first_line
from gradlab.evaluate.selection import STSB_DEV, Selection, selection
from gradlab.files import for_json, write_json
from gradlab.losses.mask import check_pairs
from gradlab.losses.registry import get_loss
from gradlab.monitor.batch_measurement import Probe
from gradlab.monitor.metrics import EVALUATION, TRAIN, History, Recorder, mean_of
from gradlab.monitor.run_reader import CRASHED, ENDED, FINISHED, RUNNING
from gradlab.monitor.score import readable
from gradlab.monitor.verdicts.failures import FailureWatch, warning_text
from gradlab.seeds import random_state, random_state_kept, restore_random_state, seed_everything
from gradlab.train.callback import Callback, restore_callbacks, states_of
from gradlab.train.checkpoint import Checkpoint, save_checkpoint
from gradlab.train.config import TrainConfig
from gradlab.train.corpus import Corpus, guides_of
from gradlab.train.distributed import RunProcesses
from gradlab.train.hardware import Precision, choose_precision, encode_in
from gradlab.train.interruption import Interruption
from gradlab.train.manifest import data_entry, recorded_precision, run_manifest, write_status
from gradlab.train.objective import Objective, freeze_unused, load_encoder
from gradlab.train.objective_parts import Output
from gradlab.train.optimiser import build_optimiser, learning_rates
from gradlab.train.progress import Progress, say
from gradlab.train.run_folder import (
    RunFolder,
    TrainResult,
    best_step,
    resumed_checkpoint,
    scores_from_json,
)
from gradlab.train.trackers import start_trackers


class Trainer:
    """The state of a run, from configuration to encoder; callbacks receive it.

    Attributes:
        config: the configuration, with "auto" precision resolved.
        callbacks: the callbacks of the run.
        precision: the precision of this run, and the reason for it.
        processes: the processes that train.
        objective: the trained module; ``objective.encoder`` is the encoder.
        corpus: the sentences.
        optimiser: the optimiser of the objective's parameters.
        steps, step: number of optimiser steps in total, and done so far.
        scores: see `TrainResult`.
        selection: the score that selects the best encoder; None without evaluation.
        recorder, probe: the recorder, which writes in the main process only, and the loss's probe.
        say: prints a message on standard error, in the main process only.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        resume: bool = False,
        callbacks: Iterable[Callback] = (),
        objective: Callable[..., Objective] = Objective,
    ) -> None:
        self.callbacks = list(callbacks)
        self.folder = RunFolder(config.output)
        self._resume = resume
        self.processes = processes = RunProcesses.start(config.device)
        if not resume:
            processes.from_main(self.folder.check_free)
        self.say: Callable[[str], None] = say if processes.is_main else lambda message: None
        loss = get_loss(config.loss, **config.loss_settings)
        self.precision = self._choose_precision(config.precision)
        self.config = config = dataclasses.replace(config, precision=self.precision.name)
        seed_everything(config.seed)
        with processes.together():
            # Reads the development data, to report bad files now and not at the first evaluation.
            self.selection = None if config.eval_data is None else selection(config.eval_data)
            encoder = load_encoder(config, processes.device)
        self.selected_by = STSB_DEV if self.selection is None else self.selection.name
        self.corpus = Corpus.read(config, encoder, processes)
        with processes.together():
            check_pairs(loss, len(self.corpus.tokens))
        self.steps = self.corpus.steps
        self.objective = objective(encoder, loss, config, processes=processes, steps=self.steps)
        self._guides = guides_of(config, self.corpus, processes)
        self._give_loss_inputs()
        self._parallel = self._in_parallel()
        self.optimiser = build_optimiser(self.objective, config)
        self.probe = Probe(loss)
        settings, losses = config.to_dict(), {"": self.probe.in_use}
        self.recorder = Recorder(self.folder.path, FailureWatch(self.steps, settings, losses))
        self.scores: dict[int, float] = {}
        self.step = 0
        self._under_way = False  # whether the status in the manifest is that of this run
        self._keeps_best = False
        self._rates = learning_rates(config, self.steps)
        self._own_rows = processes.part(config.batch_size)
        # Since the last record: losses of batches, and seconds of training steps.
        self._losses: list[Tensor | float] = []
        self._step_seconds: list[float] = []
        # Of a resumed run: seconds in total and of diagnostics.
        self._before: Sequence[float] = (0.0, 0.0)

    def run(self) -> TrainResult:
        """Train to the end and return the result; for errors see :func:`train`."""
        if not self.processes.is_main:
            return self._run()
        with self.folder.locked():
            if not self._resume:  # another process may have trained here since
                self.folder.check_free()
            try:
                return self._run()
            except Exception as error:
                why = f"{type(error).__name__}: {first_line(error)}"
                with contextlib.suppress(GradlabError):  # the disk may be full
                    if self._under_way:
                        write_status(self.folder, CRASHED, why)
                raise

    def due(self, interval: int) -> bool:
        """Return whether work of every ``interval`` steps and of the end is due; 0 means never."""
        return interval > 0 and (self.step % interval == 0 or self.step == self.steps)

    def held_out(self, batches: int) -> Iterator[Output]:
        """Yield at most ``batches`` outputs of held-out rows, as the loss sees them under dropout.

        Calls in runs with one seed share sentences and dropout masks; only the encoder differs.
        """
        rows, seed = self.corpus.held_out, self.config.seed
        size = min(self.config.analysis_batch, len(rows))
        # Held-out rows are in the order of the file; unshuffled, a batch could be a single article.
        order = np.random.default_rng([seed, len(rows)]).permutation(rows)
        for number in range(min(batches, len(rows) // max(1, size))):
            with random_state_kept(), torch.no_grad():
                seed_everything(seed, number)
                places = order[number * size : (number + 1) * size]
                sequences = [column.take(places) for column in self.corpus.columns]
                batch = self.objective.prepare(*sequences, row_numbers=places)
                output = self.objective.evaluate(batch)
            yield output

    def measure(self, batch: Iterable[Output]) -> None:
        """Record diagnostics of the loss, without an effect on training.

        They are measured on held-out sentences if there are any, else on ``batch``, the outputs
        just trained on, without a forward pass and with the loss's negatives. Batches without
        negatives are skipped.
        """
        if not self.processes.is_main:
            return
        note, aside = self.probe.note, len(self.corpus.held_out) > 0
        outputs = self.held_out(self.config.analysis_batches) if aside else batch
        snapshots = (output.snapshot() for output in outputs if output.has_negatives)
        further = [callback.statistics for callback in self.callbacks]
        with self.recorder.timed(), random_state_kept():  # callbacks may draw random numbers
            measured = mean_of([self.probe.measure(snapshot, further) for snapshot in snapshots])
        if measured:
            self.recorder.write(self.step, measured)
        if self.probe.note != note:
            self.say(self.probe.note)
        self.judge()

    def record(self, group: str, values: dict[str, float]) -> None:
        """Write values of this step to the metrics file and the trackers."""
        if self.processes.is_main:
            self.recorder.write(self.step, {group: values})
            if group != TRAIN:
                self.judge()

    def judge(self) -> None:
        """Warn of known failures in the records so far, in the words of the report."""
        for failure in self.recorder.new_failures():
            self.say(f"Warning: {warning_text(failure)}")

    @property
    def history(self) -> History:
        """The records so far, as in the metrics file."""
        return self.recorder.history

    @property
    def best_step(self) -> int | None:
        """The step with the best score after step 0, the earliest of equals; None without one."""
        return best_step(self.scores)

    def _in_parallel(self) -> Any:
        """Prepare the objective to train; return it with gradients averaged over processes."""
        self.objective.train()
        freeze_unused(self.objective)
        if self.config.compile:
            self.objective.compile_encoders()
        if self.config.chunked:  # gradients are averaged once after all chunks
            return self.objective
        return self.processes.parallel(self.objective)

    def _give_loss_inputs(self) -> None:
        """Let the objective read what the loss asks for of each row."""
        for name, entries in self.corpus.loss_inputs.items():
            by_row = torch.from_numpy(entries).to(self.processes.device)
            self.objective.loss_inputs[name] = by_row.__getitem__
        self.objective.loss_inputs.update(self._guides)

    def _choose_precision(self, precision: str) -> Precision:
        """Return the precision to train in; a resumed run keeps that of its manifest."""
        if self._resume and precision == "auto":
            precision = self.processes.from_main(lambda: recorded_precision(self.folder))
        return choose_precision(precision, self.processes.device)

    def _run(self) -> TrainResult:
        self._began = time.perf_counter()
        self._begin()
        size = self.config.batch_size * self.config.accumulation
        hidden, config = not self.processes.is_main, self.config
        progress = Progress(size, initial=self.step, total=self.steps, disable=hidden)
        measuring = config.diagnostics_every, config.eval_every
        intervals = config.log_every, *measuring, config.save_every
        with progress, Interruption(self.processes.count) as interruption:
            while self.step < self.steps:
                output, step_numbers = self._step()
                log, measure, evaluate, save = map(self.due, intervals)
                if log:
                    self._log(progress, step_numbers, output)
                progress.update()
                if (measure or evaluate or self.step == self.steps) and not self._finite():
                    problem = f"the weights are not finite after step {self.step}"
                    raise Diverged(f"{problem}; lower the learning rate")
                if measure:
                    self.measure([output])
                for callback in self.callbacks:
                    callback.on_step(self, output)
                if evaluate:
                    self._evaluate()
                stop = interruption.requested
                # A signal may reach the processes in different steps, and some of them only.
                if self.processes.count > 1:
                    stop = self.processes.any(stop)
                if stop:
                    interruption.accept()
                if save or stop or self._keeps_best:
                    self._save()
                if stop:
                    if self.processes.is_main:
                        write_status(self.folder, ENDED)
                    self.say(f"Stopped after step {self.step}; continue with --resume.")
                    raise KeyboardInterrupt
        return self._finish()

    def _begin_records(self, checkpoint: Checkpoint | None) -> None:
        """Write the manifest and start recording, behind the records before the checkpoint."""
        start = checkpoint.step if checkpoint else 0
        first = start + 1 if checkpoint else 0
        self._trackers = start_trackers(self.config, self.folder.path, first)
        if not self._resume:
            self.folder.recover()
            manifest = run_manifest(self.config, self._data(), self.processes, self.precision)
            write_json(self.folder.manifest_file, manifest)
        logs = [tracker.log for tracker in self._trackers]
        self.recorder.begin((lambda row: row[0] <= start) if checkpoint else None, logs)
        self.judge()

    def _data(self) -> dict[str, Any]:
        """Return the manifest's entry for the data."""
        files = () if self.selection is None else self.selection.files
        return data_entry(self.config, self.corpus, self.objective.loss, files, self._guides)

    def _begin(self) -> None:
        """Start the run, or resume it from the newest intact checkpoint."""
        self.say(f"Computing in {self.precision.name}: {self.precision.why}.")
        checkpoint, data = None, self._data() if self._resume else {}
        if self._resume:
            checkpoint = self.processes.from_main(
                lambda: resumed_checkpoint(self.folder, self.config, data, self.steps, self.say)
            )
            place = checkpoint and f"after step {checkpoint.step}"
            self.say(f"Resuming {place or 'from the beginning: there is no checkpoint yet'}.")
        with self.processes.together():
            if self.processes.is_main:
                self._begin_records(checkpoint)
        for line in self.config.without_effect:
            self.say(f"Warning: {line}.")
        if self.corpus.tokens.notes:
            self.say(f"{self.config.train_file}: {self.corpus.tokens.notes}.")
        seed_everything(self.config.seed, self.processes.rank)
        if checkpoint:
            self._restore(checkpoint)
        self._under_way = True
        if self._resume and self.processes.is_main:
            before = self.folder.read_manifest().get("data", {})
            # What the run did not have before, such as `eval_data`, is compared from now on.
            contents = {**before.get("contents", {}), **data["contents"]}
            write_status(self.folder, RUNNING, data={**before, "contents": contents})
        if not checkpoint and self.config.diagnostics_every:
            self.measure([])
        for callback in self.callbacks:
            callback.on_start(self)
        if not checkpoint and self.config.eval_start:
            self._evaluate()

    def _step(self) -> tuple[Output, dict[str, Any]]:
        """Take an optimiser step; return the last batch's output, gradient norm, learning rate."""
        began, config, rate = time.perf_counter(), self.config, self._rates[self.step]
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        loss_factor = self.processes.count / config.accumulation
        for number in range(config.accumulation):
            row_numbers = self.corpus.order[self.step * config.accumulation + number]
            columns = [column.take(row_numbers[self._own_rows]) for column in self.corpus.columns]
            batch = self.objective.prepare(*columns, row_numbers=row_numbers)
            if config.chunked:
                output: Output = self.objective.backward_in_chunks(batch, loss_factor)
            else:
                # Gradients are averaged over processes once per step, with the last batch.
                synchronise = self.processes.count == 1 or number == config.accumulation - 1
                with contextlib.nullcontext() if synchronise else self._parallel.no_sync():
                    output = self._parallel(batch)
                    (output.loss * loss_factor).backward()
            self.objective.after_batch(output)
            # Kept without waiting for the device to compute it.
            self._losses.append(output.loss.detach())
        if config.chunked:
            self.processes.average(self.objective.parameters())
        self.objective.before_step()
        norm = nn.utils.clip_grad_norm_(self.objective.parameters(), config.clip or math.inf)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        with torch.no_grad():
            self.objective.after_step(output)
        self._step_seconds.append(time.perf_counter() - began)
        self.step += 1
        return output, {"gradient_norm": norm, "learning_rate": rate}

    def _log(self, progress: Progress, step_numbers: dict[str, Any], output: Output) -> None:
        """Record loss and throughput since the last record, and the numbers of this step."""
        measured = progress.show(self._losses, self._step_seconds)
        self._losses, self._step_seconds = [], []
        measured |= {name: float(number) for name, number in step_numbers.items()}
        self.record(TRAIN, measured | self.objective.statistics(output))
        if not math.isfinite(loss := measured["loss"]):
            raise Diverged(f"the loss is {loss} at step {self.step}; lower the learning rate")

    def _finite(self) -> bool:
        return all(bool(weights.isfinite().all()) for weights in self.objective.parameters())

    def _evaluate(self) -> None:
        """Evaluate the encoder, if so configured, and save it if it is the best so far."""
        if self.selection is None:
            return
        with self.processes.together():
            if self.processes.is_main:
                self._score(self.selection)
        # Without a checkpoint here, a resumed run could have scores that do not fit its best
        # encoder, because some devices do not compute reproducibly. All processes save, and only
        # one knows the score.
        if any(self.processes.collect(self.best_step == self.step)):
            self._keeps_best = self.step > 0

    def _score(self, selection: Selection) -> None:
        """Evaluate the encoder in the main process."""
        with random_state_kept():
            score = selection.score(encode_in(self.objective.encoder, self.precision.name))
        self.scores[self.step] = score
        self.record(EVALUATION, {selection.name: score})
        self.say(f"Step {self.step}: {readable(selection.name)} {score:.4f}")
        if self.best_step == self.step:
            self.objective.encoder.save(self.folder.best)

    def _save(self) -> None:
        self._keeps_best = False
        random_states = self.processes.collect(random_state())
        with self.processes.together():  # the disk may be full
            if self.processes.is_main:
                self._save_main(random_states)

    def _save_main(self, random_states: list[Any]) -> None:
        """Write a checkpoint, in the main process."""
        state = {
            "random": random_states,
            "selection": self.selected_by,
            "scores": list(for_json(self.scores).items()),
            "callbacks": states_of(self.callbacks),
            "losses": list(map(float, self._losses)),
            "seconds": self._seconds(),
        }
        place, keep = self.folder.checkpoints, self.config.keep
        save_checkpoint(place, self.step, self.objective, self.optimiser, state, keep)

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.state
        if (count := len(state["random"])) != self.processes.count:
            raise GradlabError(
                f"{checkpoint.folder} was written by {count} processes; resume with as many"
            )
        restore_callbacks(self.callbacks, state["callbacks"], str(checkpoint.folder))
        # Only the main process may have the files.
        checkpoint.load(
            self.objective,
            self.optimiser,
            lambda file: self.processes.tensors_from_main(lambda: load_file(file)),
        )
        self._losses = list(state.get("losses", ()))
        self._before = state.get("seconds", self._before)
        self.step = checkpoint.step
        self.scores = scores_from_json(state["scores"])
        if self.scores:
            self.selected_by = state.get("selection", STSB_DEV)
        restore_random_state(state["random"][self.processes.rank])

    def _seconds(self) -> tuple[float, float]:
        """Return the seconds of the run so far, and how many of them diagnostics took."""
        total, measuring = self._before
        return total + time.perf_counter() - self._began, measuring + self.recorder.seconds

    def _finish(self) -> TrainResult:
        for callback in self.callbacks:
            callback.on_end(self)
        with self.processes.together():
            if self.processes.is_main:
                self._save_results()
        return TrainResult(
            self.folder.path, self.steps, self.scores, self.best_step, self.selected_by
        )

    def _save_results(self) -> None:
        """Write the encoder and the results, in the main process."""
        self.objective.encoder.save(self.folder.encoder)
        seconds, diagnostics_seconds = self._seconds()
        results = {
            "steps": self.steps,
            "selection": self.selected_by,
            self.selected_by: for_json(self.scores),
            "best_step": self.best_step,
            # Of a resumed run: up to the checkpoint, and from there on.
            "seconds": seconds,
            "diagnostics_seconds": diagnostics_seconds,
        }
        write_status(self.folder, FINISHED, results=results)
        self._under_way = False
        for tracker in self._trackers:
            tracker.finish()

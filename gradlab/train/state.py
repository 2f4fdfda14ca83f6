"""The state of a training run, built from its configuration, and the callbacks that see it; `gradlab.train.loop` trains it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.evaluate.selection import STSB_DEV, selection
from gradlab.losses.components import Components
from gradlab.losses.mask import check_pairs
from gradlab.losses.registry import get_loss
from gradlab.monitor.history import TRAIN, History
from gradlab.monitor.probe import Probe, Statistics
from gradlab.monitor.recorder import Recorder
from gradlab.seeds import seed_everything, undisturbed
from gradlab.train.config import TrainConfig
from gradlab.train.corpus import Corpus
from gradlab.train.cpu import attention_for
from gradlab.train.distributed import Processes
from gradlab.train.guide import Guide
from gradlab.train.heads import MLP
from gradlab.train.machine import choose_precision
from gradlab.train.objective import Objective, freeze_unused
from gradlab.train.outputs import Output
from gradlab.train.parts import Parts
from gradlab.train.progress import say
from gradlab.train.run_folder import RunFolder
from gradlab.train.schedule import build_optimiser


class Callback:
    """Base of what is called during a run; override what you need.

    Callbacks run in every process. What they must remember over a crash goes through :meth:`state`.
    """

    def on_start(self, trainer: TrainerState) -> None:
        """Called once, before the first step of this process."""

    def on_step(self, trainer: TrainerState, output: Output) -> None:
        """Called after each optimiser step, with the last batch's output."""

    def statistics(self, anchors: Tensor, positives: Tensor, gradient: Components | None) -> dict[str, float]:
        """Numbers to record whenever the run measures what its loss does to the embeddings, beside its own.

        Args:
            anchors, positives: (N, D) unit rows in float64.
            gradient: the loss's components on them, or None where they are not known.
        """
        return {}

    def on_end(self, trainer: TrainerState) -> None:
        """Called once, after the last step."""

    def state(self) -> Any:
        """JSON-ready content for the checkpoint."""
        return None

    def restore(self, state: Any) -> None:
        """Take back what :meth:`state` gave."""


class TrainerState:
    """Everything a run consists of, as callbacks see it.

    Attributes:
        config: the configuration, its precision settled.
        callbacks: what is called during the run.
        precision: the precision of this run, and why.
        processes: who computes it.
        objective: what is trained; ``objective.encoder`` is the encoder.
        corpus: the sentences.
        optimiser: of the objective's parameters.
        steps: optimiser steps in all.
        step: those done.
        scores: see `TrainResult`.
        selection: what the best encoder is selected by; None where nothing is evaluated.
        recorder: writes down what is measured, in the main process alone.
        probe: of the loss, for measuring it.
        say: prints a message on standard error, in the main process alone.
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
        self.folder = RunFolder(Path(config.output))
        if not resume:
            self.folder.check_free()
        self._resume = resume
        loss = get_loss(config.loss, **config.loss_settings)
        # Its data are read now, which is better than at the first evaluation.
        self.selection = None if config.sts is None else selection(config.sts)
        self.selected_by = STSB_DEV if self.selection is None else self.selection.name
        self.processes = Processes.start(config.device)
        self.say: Callable[[str], None] = say if self.processes.is_main else lambda message: None
        precision = config.precision
        if resume and precision == "auto":
            precision = self.folder.read_manifest()["config"]["precision"]
        self.precision = choose_precision(precision, self.processes.device)
        self.config = config = dataclasses.replace(config, precision=self.precision.name)
        seed_everything(config.seed)
        pooler = "cls" if config.pooler == "cls_mlp" else config.pooler
        device = self.processes.device
        attention = attention_for(device)
        encoder = Encoder.load(
            config.model, pooler, dropout=config.dropout, attention=attention, device=device
        )
        self.corpus = Corpus.read(config, encoder, self.processes)
        check_pairs(loss, len(self.corpus.tokens))
        self.steps = self.corpus.steps
        head: nn.Module = nn.Identity()
        if config.pooler == "cls_mlp":
            head = MLP(encoder.dimension, config.head_initial, config.pooler_activation).to(device)
        parts = Parts.build(config, encoder, head, self.steps)
        for name, values in self.corpus.told.items():
            parts.told[name] = torch.from_numpy(values).to(device).__getitem__
        for name, model in (("guide", config.guide), ("teacher", config.teacher)):
            if model is not None:
                parts.told[name] = Guide.load(model, config, self.corpus, self.processes)
        self.objective = objective(
            encoder,
            loss,
            head=head,
            processes=self.processes,
            # Other devices take one large product better than two.
            groups=config.length_groups or (2 if device.type == "cpu" else 1),
            precision=config.precision,
            compiled=config.compile,
            parts=parts,
            chunk_size=config.chunk_size,
        )
        self.objective.train()
        freeze_unused(self.objective)
        if config.compile:
            self.objective.compile_encoders()
        self._parallel: Any = self.objective
        if config.chunk_size is None:  # with chunks gradients are averaged once, when all chunks are done
            self._parallel = self.processes.parallel(self.objective)
        self.optimiser = build_optimiser(self.objective, config)
        self.probe = Probe(loss)
        self.recorder = Recorder(
            self.folder.path,
            total_steps=self.steps,
            config=config.to_dict(),
            losses={"": self.probe.in_use},
        )
        self.scores: dict[int, float] = {}
        self.step = 0
        self._keeps_best = False

    def due(self, every: int) -> bool:
        """Whether something that happens every so many steps, and at the end, happens now; 0 is never."""
        return every > 0 and (self.step % every == 0 or self.step == self.steps)

    def held_out(self, batches: int) -> Iterator[Output]:
        """Batches of held-out sentences as the loss sees them, under dropout; none where none are held out.

        Sentences and dropout masks are the same whenever it is called in runs of one seed, so that only the encoder differs.

        Args:
            batches: how many; fewer where fewer sentences are held out.
        """
        rows, seed = self.corpus.held_out, self.config.seed
        size = min(self.config.analysis_batch, len(rows))
        # Held-out rows are in the order of the file; a batch should not be one article.
        order = np.random.default_rng([seed, len(rows)]).permutation(rows)
        for batch in range(min(batches, len(rows) // max(1, size))):
            with undisturbed(), torch.no_grad():
                seed_everything(seed, batch)
                chosen = order[batch * size : (batch + 1) * size]
                sequences = self.corpus.take(chosen)
                output = self.objective.evaluate(self.objective.prepare(*sequences, sentences=chosen))
            yield output

    def measure(self, batch: Iterable[Output], further: Sequence[Statistics] = ()) -> None:
        """Record diagnostics of the loss; training is not affected.

        They are measured on the held-out sentences if there are any, otherwise on the batch just trained on, which
        costs no forward pass, with the negatives that the loss saw. Batches without negatives are left out.

        Args:
            batch: what was trained on; nothing before the first step.
            further: numbers to record beside those of every run and of its callbacks.
        """
        if not self.processes.is_main:
            return
        told, aside = self.probe.note, len(self.corpus.held_out) > 0
        outputs = self.held_out(self.config.analysis_batches) if aside else batch
        snapshots = (output.snapshot() for output in outputs if output.has_negatives)
        further = [*(callback.statistics for callback in self.callbacks), *further]
        self.recorder.measure(self.step, self.probe, snapshots, further=further)
        if self.probe.note != told:
            self.say(self.probe.note)
        self.judge()

    def record(self, group: str, values: dict[str, float]) -> None:
        """Write values of this step to the metrics file and the trackers."""
        if self.processes.is_main:
            self.recorder.write(self.step, group, values)
            if group != TRAIN:
                self.judge()

    def judge(self) -> None:
        """Warn of known failures that the run shows, in the words of its report."""
        for failure in self.recorder.judge():
            self.say(f"Warning: {failure}")

    @property
    def history(self) -> History:
        """What was recorded so far, as in the metrics file."""
        return self.recorder.history

    def keep_best(self) -> None:
        """Have a checkpoint written at the end of this step, as the best encoder so far was. All processes call this.

        A run that resumed from before would have another best encoder than its scores say, on devices whose
        arithmetic does not repeat itself.
        """
        self._keeps_best = self.step > 0

    @property
    def best_step(self) -> int | None:
        """The trained step with the best score, the earliest of equals; None if there is none."""
        trained = {step: score for step, score in self.scores.items() if step > 0 and not math.isnan(score)}
        return max(trained, key=lambda step: (trained[step], -step)) if trained else None

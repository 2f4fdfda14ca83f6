"""`gradlab.WatchCallback`: watches the trainer of transformers that it is given to."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sized
from pathlib import Path
from types import FrameType
from typing import Any

from torch import nn

from gradlab.errors import GradlabError, check_whole, first_line
from gradlab.monitor.batch_measurement import Snapshot
from gradlab.monitor.captured_views import (
    Capture,
    Views,
    capture_of,
    is_trainer,
    loss_of,
    outputs_of,
    with_guide,
)
from gradlab.monitor.doctor_problems import noted_problems
from gradlab.monitor.library_versions import require
from gradlab.monitor.metrics import EVALUATION, TRAIN, of_dataset
from gradlab.monitor.model_card import add_to_card
from gradlab.monitor.trackers import PREFIX, Trackers
from gradlab.monitor.watch import Watch, caution
from gradlab.monitor.without_dropout import TextRows, first_rows, numbers_in_use
from gradlab.numbers import short
from gradlab.seeds import random_state, restore_random_state

require("transformers", "accelerate")
from transformers import TrainerCallback  # noqa: E402  # after the check of its version

# Settings of a trainer that the report lists.
SETTINGS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps",
    "learning_rate", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "weight_decay",
    "max_grad_norm", "optim", "seed", "fp16", "bf16",
)  # fmt: skip
# Columns of labels, and most rows in which their range is looked up.
LABELS, MOST_LABELS = ("label", "labels", "score", "scores"), 10_000
# Attributes of evaluators of sentence-transformers that hold an entry for each judgement.
EVALUATED = ("queries", "anchors", "sentences1", "source_sentences", "samples")
# Numbers that trainers log about themselves, not about training.
BOOKKEEPING = ("epoch", "total_flos", "step")


class WatchCallback(TrainerCallback):
    """Watches a training run: what `gradlab.watch` does, for ``callbacks=[WatchCallback()]``.

    An error of its own, such as missing ``views``, gives one warning, and training goes on.

    Attributes:
        watch: the `Watch` that records; None before training begins.

    Example:
        >>> callback = gradlab.WatchCallback()  # doctest: +SKIP
        >>> trainer = SentenceTransformerTrainer(..., callbacks=[callback])  # doctest: +SKIP
        >>> trainer.train()  # doctest: +SKIP
        >>> callback.watch.to_frame()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        views: Views = None,
        loss: Any = None,
        every: int | None = None,
        output: str | Path | None = None,
        evaluate_first: bool = True,
        model_card: bool = False,
    ) -> None:
        """Prepare to watch; for the arguments see `gradlab.watch`.

        Raises:
            GradlabError: a bad ``every``.
        """
        if every is not None:
            check_whole("every", every, 1)
        self.watch: Watch | None = None
        self._views, self._loss, self._interval, self._output = views, loss, every, output
        self._evaluate_first, self._model_card = evaluate_first, model_card
        self._trainer: Any = None
        self._trackers: Trackers | None = None
        self._rows: dict[str, TextRows] = {}  # of each data set's last recorded batch
        # State of random generators before an evaluation that only the watch asked for.
        self._states: list[dict[str, Any]] = []
        self._keeps_random_state = False

    def attach(self, trainer: Any) -> Watch:
        """Watch a trainer before it trains; `gradlab.watch` calls this.

        Raises:
            GradlabError: a trainer that is watched already or cannot be, or needs ``views``.
        """
        if getattr(trainer.compute_loss, "watched_by", None) is not None:
            raise GradlabError("this trainer is already watched")
        capture = capture_of(trainer, self._views)
        card = getattr(trainer.model, "model_card_data", None)
        if self._model_card and not hasattr(card, "template_path"):
            raise GradlabError(
                "model_card=True needs a model of sentence-transformers, from version 4.0 on"
            )
        trackers = Trackers(trainer)
        for_sentences = hasattr(trainer, "collect_features")
        output = Path(trainer.args.output_dir) / "gradlab" if self._output is None else self._output
        watch = Watch(
            trainer.loss if self._loss is None and for_sentences else self._loss,
            output=output,
            every=self._interval,
            encoders=lambda: [
                module for module in (trainer.model, trainer.model_wrapped) if module is not None
            ],
            settings=_settings(trainer),
            named=self._loss is not None,
            listeners=[trackers.tell],
            alerts=[trackers.alert],
            evaluation=lambda: _evaluation_of(trainer),
            problems=lambda: noted_problems(trainer),
        )
        self._rows = {}
        _wrap(trainer, watch, capture, self._views, self._rows)
        self._keeps_random_state = (
            self._evaluate_first and _evaluates(trainer) and not trainer.args.eval_on_start
        )
        if self._keeps_random_state:
            trainer.args.eval_on_start = True
        self.watch, self._trainer, self._trackers = watch, trainer, trackers
        handler = trainer.callback_handler
        # First, because trackers close when training ends and must get the verdicts before. A new
        # list, because trainers may be going through the present one.
        handler.callbacks = [
            self,
            *(callback for callback in handler.callbacks if callback is not self),
            _LastCallback(watch),
        ]
        return watch

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Attach the watch to the trainer, unless it is, and begin or continue the recording."""
        trainer = _calling_trainer(self)
        if trainer is not None and trainer is not self._trainer:
            self.watch = self._trainer = None
            try:
                self.attach(trainer)
            except Exception as error:
                caution(f"gradlab does not watch this run; training continues. {first_line(error)}")
        elif self.watch is None:
            caution(
                "gradlab does not watch this run; training continues. WatchCallback needs a "
                "Trainer of transformers or sentence-transformers"
            )
        if self.watch is None:
            return
        if state.is_world_process_zero:
            self.watch.start(state.global_step, state.max_steps)
        if self._keeps_random_state:
            self._states.append(random_state())

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restore random generators after an evaluation before the first step."""
        if self._states:
            restore_random_state(self._states.pop())

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Forget the state of random generators, because training has begun."""
        self._states.clear()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Record what the trainer logs."""
        if self.watch is None or not state.is_world_process_zero or not logs:
            return
        groups: dict[str, dict[str, float]] = {EVALUATION: {}, TRAIN: {}}
        for name, number in logs.items():
            left_out = name in BOOKKEEPING or name.startswith((PREFIX, "train_"))
            if isinstance(number, int | float) and not left_out:
                group = EVALUATION if name.startswith("eval_") else TRAIN
                groups[group][name] = float(number)
        for group, numbers in groups.items():
            self.watch.log(state.global_step, group, numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the recording, print what it found, and send verdicts to trackers and model card."""
        if self.watch is None or not state.is_world_process_zero:
            return
        self.watch.catch_up()
        in_use = numbers_in_use(self._trainer, self._rows, self.watch.history)
        for dataset, numbers in in_use.items():
            named = {of_dataset(name, dataset): number for name, number in numbers.items()}
            self.watch.log(state.global_step, TRAIN, named)
        print(self.watch.finish(), file=sys.stderr)  # the stream of progress bars
        run, judgement = self.watch.recording, self.watch.judgement
        if judgement is None:
            return
        if self._trackers is not None:
            self._trackers.conclude(run, judgement)
        if self._model_card:
            add_to_card(self._trainer.model, run, judgement)


def evaluated_count(evaluator: Any) -> int:
    """Return how many queries, pairs or triplets an evaluator asks; 0 if unknown.

    Of several evaluators in one, the fewest.
    """
    counts = [evaluated_count(inner) for inner in getattr(evaluator, "evaluators", None) or ()]
    if counts:
        return min(counts)
    columns = (getattr(evaluator, name, None) for name in EVALUATED)
    return next((len(column) for column in columns if isinstance(column, Sized)), 0)


class _LastCallback(TrainerCallback):
    """Notes what the callbacks before it have left of the trained weights."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._watch.note_end(state.global_step)


def _calling_trainer(callback: WatchCallback) -> Any:
    """Return the trainer that is calling a callback, or None.

    Trainers pass model and data to their callbacks, but not themselves.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller: Any = frame.f_locals.get("self")
        if is_trainer(caller) and callback in caller.callback_handler.callbacks:
            return caller
        frame = frame.f_back
    return None


def _evaluator_of(trainer: Any) -> Any:
    return getattr(trainer, "evaluator", None)


def _evaluation_of(trainer: Any) -> dict[str, Any]:
    """Return the name of the score that the evaluator calls primary, and how much it asks."""
    evaluator = _evaluator_of(trainer)
    primary = str(getattr(evaluator, "primary_metric", None) or "")
    return {"primary": primary, "evaluated": evaluated_count(evaluator)}


def _evaluates(trainer: Any) -> bool:
    """Return whether a trainer evaluates by an evaluator during training."""
    strategy = getattr(trainer.args.eval_strategy, "value", trainer.args.eval_strategy)
    return _evaluator_of(trainer) is not None and strategy != "no"


def _wrap(
    trainer: Any, watch: Watch, capture: Capture, views: Views, rows: dict[str, TextRows]
) -> None:
    """Let the watch see scheduled steps' batches, through a hook on the model for one call each.

    The first rows of the latest batch of each data set are left in ``rows``.
    """
    original = trainer.compute_loss

    def compute_loss(model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        step, (dataset, loss) = trainer.state.global_step, loss_of(trainer, inputs)
        due = model.training and trainer.is_world_process_zero() and watch.wants(step, dataset)
        if not due:
            return original(model, inputs, *args, **kwargs)
        features = dict(inputs)
        guide = getattr(loss, "guide", None)
        with outputs_of(model, views) as outputs, outputs_of(guide) as guided:
            result = original(model, inputs, *args, **kwargs)
        value = result[0] if isinstance(result, tuple) else result

        def take() -> Snapshot:
            snapshot = capture(trainer, features, outputs, value)
            if (texts := first_rows(trainer, features)) is not None:
                rows[dataset] = texts
            return with_guide(snapshot, guided) if guided else snapshot

        watch.record(step, take, dataset)
        return result

    compute_loss.watched_by = watch  # type: ignore[attr-defined]  # a mark on a function
    trainer.compute_loss = compute_loss


def _settings(trainer: Any) -> dict[str, Any]:
    arguments = trainer.args.to_dict()
    plain = {name: arguments[name] for name in SETTINGS if arguments.get(name) is not None}
    config = getattr(trainer.model, "config", None)
    card = getattr(trainer.model, "model_card_data", None)
    model = getattr(card, "base_model", None) or getattr(config, "_name_or_path", None)
    plain |= _of_rows(getattr(trainer, "train_dataset", None))
    return {"model": str(model), **plain} if model else plain


def _of_rows(table: Any) -> dict[str, Any]:
    """Return the number of training rows, and the range of their labels, as far as is known."""
    described: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # a stream has no length; a data set may be of any kind
        tables = list(table.values()) if isinstance(table, dict) else [table]
        described["training_rows"] = sum(map(len, tables))
        names = [name for name in LABELS if len(tables) == 1 and name in tables[0].column_names]
        columns = tables[0].select_columns(names)[:MOST_LABELS] if names else {}  # without texts
        if labels := [float(label) for column in columns.values() for label in column]:
            described["labels"] = f"{short(min(labels))} to {short(max(labels))}"
    return described

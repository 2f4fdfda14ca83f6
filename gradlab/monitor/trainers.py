"""`gradlab.watch`: record a trainer of transformers or sentence-transformers, or your own loop."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.monitor.history import DIAGNOSTICS, EVALUATION, TRAIN
from gradlab.monitor.library_losses import seen_by
from gradlab.monitor.library_versions import require
from gradlab.monitor.probe import Snapshot
from gradlab.monitor.watch import LoopWatch, Watch, WatchedLoss, WatchedModule
from gradlab.seeds import random_state, restore_random_state
from gradlab.settings import names_arguments

# Settings of a trainer that the report lists.
SETTINGS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps",
    "learning_rate", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "weight_decay",
    "max_grad_norm", "optim", "seed", "fp16", "bf16",
)  # fmt: skip
PRINTERS = ("ProgressCallback", "PrinterCallback", "NotebookProgressCallback")
# Key of a piece of a column: which of the column's rows it holds.
ROWS = "rows_of_column"
# Numbers that trainers log about themselves, not about training.
BOOKKEEPING = ("epoch", "total_flos", "step")
# Views: where the two views are, as given to `gradlab.watch`. Capture: (trainer, inputs, outputs of
# the model, loss) -> embeddings.
Views = Callable[..., Any] | Sequence[str] | str | None
Capture = Callable[[Any, dict[str, Any], list[Any], Tensor], Snapshot]


@names_arguments()
def watch(
    target: Any = None,
    *,
    views: Views = None,
    loss: Any = None,
    every: int | None = None,
    output: str | Path | None = None,
    total_steps: int | None = None,
    evaluate_first: bool = True,
) -> Any:
    """Watch a training run: record dissipation, hardest share, ratio and shape of the embeddings.

    Watching never changes gradients, the loss, random numbers or the saved model.

    Args:
        target: what to watch. A ``SentenceTransformerTrainer`` needs nothing else; a Hugging Face
            ``Trainer`` needs ``views``. For your own loop, pass its loss
            ``loss(anchors, positives[, extra_negatives])`` and call the returned object in its
            place, or pass None and call ``observe`` once per step.
        views: where the two views are. For a ``Trainer``: names of two (with extra negatives,
            three) fields of the model's output; the name of one field if the model is called once
            per view or returns (N, 2, D); or a function of the model's outputs, one argument per
            call. For a loss: a function of its arguments. Functions return
            (anchors, positives[, extra_negatives]), each (N, D).
        loss: the loss that is trained, if the target does not tell: a gradlab loss, its name, such
            as ``"infonce(temperature=0.05)"``, or a pure function of the two views.
        every: steps between records; None is 25, or a twentieth of a run shorter than 500 steps.
        output: folder to record in; None: ``gradlab`` in a trainer's folder, or ``gradlab-watch``.
        total_steps: planned length of your own loop, in steps.
        evaluate_first: let a trainer that has an evaluator and evaluates during training also
            evaluate before it (``eval_on_start``), as no score is judged without that; training
            itself stays the same to the last bit.

    Returns:
        a `Watch`; for a loop of your own a `LoopWatch`, or for its loss a `WatchedLoss`.

    Raises:
        GradlabError: a target that is watched already or cannot be, or needs ``views``; or
            libraries that are too old.

    Example:
        >>> import torch, gradlab
        >>> criterion = gradlab.watch(gradlab.blockwise("infonce"), output="run")  # doctest: +SKIP
        >>> value = criterion(anchors, positives, normalize=True)  # doctest: +SKIP
    """
    if target is None and loss is None and output is None:
        raise GradlabError(
            "watch needs a Trainer; the loss of your own loop, to be called in its place; or "
            "loss='infonce', say, for batches that you pass to observe"
        )
    if is_trainer(target):
        return _watch_trainer(target, views, loss, every, output, evaluate_first)
    if views is not None and not callable(views):
        raise GradlabError(
            "names of views belong to a Trainer; for a loss give a function of its arguments"
        )
    if target is not None and not callable(target):
        raise GradlabError(
            "watch takes a Trainer or a loss, loss(anchors, positives), not "
            f"{type(target).__name__}"
        )
    if isinstance(target, WatchedLoss):
        raise GradlabError("this loss is already watched")
    watched = LoopWatch(
        target if loss is None else loss,
        output="gradlab-watch" if output is None else output,
        every=every,
        total_steps=total_steps,
        named=loss is not None,
    )
    if target is None:
        return watched
    return (WatchedModule if isinstance(target, nn.Module) else WatchedLoss)(target, watched, views)


def is_trainer(target: Any) -> bool:
    """Return whether ``target`` is a Trainer of transformers, without importing transformers."""
    return any(
        base.__name__ == "Trainer" and base.__module__.startswith("transformers.")
        for base in type(target).__mro__
    )


def _watch_trainer(
    trainer: Any,
    views: Views,
    loss: Any,
    every: int | None,
    output: str | Path | None,
    evaluate_first: bool,
) -> Watch:
    require("transformers", "accelerate")
    if getattr(trainer.compute_loss, "watched_by", None) is not None:
        raise GradlabError("this trainer is already watched")
    capture = capture_of(trainer, views)
    for_sentences = hasattr(trainer, "collect_features")
    watch = Watch(
        trainer.loss if loss is None and for_sentences else loss,
        output=Path(trainer.args.output_dir) / "gradlab" if output is None else output,
        every=every,
        encoders=lambda: [
            module for module in (trainer.model, trainer.model_wrapped) if module is not None
        ],
        settings=_settings(trainer),
        named=loss is not None,
        listeners=[functools.partial(_tell_trackers, trainer)],
        primary=lambda: str(getattr(_evaluator_of(trainer), "primary_metric", None) or ""),
    )
    _wrap(trainer, watch, capture)
    starts = evaluate_first and _evaluates(trainer) and not trainer.args.eval_on_start
    if starts:
        trainer.args.eval_on_start = True
    trainer.add_callback(_callback(watch, keeps_random_state=starts))
    return watch


def _evaluator_of(trainer: Any) -> Any:
    return getattr(trainer, "evaluator", None)


def _evaluates(trainer: Any) -> bool:
    """Return whether a trainer evaluates by an evaluator during training."""
    strategy = getattr(trainer.args.eval_strategy, "value", trainer.args.eval_strategy)
    return _evaluator_of(trainer) is not None and strategy != "no"


def _wrap(trainer: Any, watch: Watch, capture: Capture) -> None:
    """Let the watch see scheduled steps' batches, through a hook on the model for one call each."""
    original = trainer.compute_loss

    def compute_loss(model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        step, (dataset, loss) = trainer.state.global_step, loss_of(trainer, inputs)
        due = model.training and trainer.is_world_process_zero() and watch.wants(step, dataset)
        if not due:
            return original(model, inputs, *args, **kwargs)
        features = dict(inputs)
        with _outputs_of(model) as outputs, _outputs_of(getattr(loss, "guide", None)) as guided:
            result = original(model, inputs, *args, **kwargs)
        value = result[0] if isinstance(result, tuple) else result

        def take() -> Snapshot:
            snapshot = capture(trainer, features, outputs, value)
            return _with_guide(snapshot, guided) if guided else snapshot

        watch.record(step, take, dataset)
        return result

    compute_loss.watched_by = watch  # type: ignore[attr-defined]  # a mark on a function
    trainer.compute_loss = compute_loss


@contextlib.contextmanager
def _outputs_of(model: Any) -> Iterator[list[Any]]:
    """Collect the outputs of a model within the block; stays empty if ``model`` is not a module."""
    outputs: list[Any] = []
    if not isinstance(model, nn.Module):
        yield outputs
        return

    def keep(module: nn.Module, args: Any, output: Any) -> None:
        # A plain dictionary may be passed on to another model, which overwrites its embeddings.
        outputs.append(dict(output) if type(output) is dict else output)

    with model.register_forward_hook(keep):
        yield outputs


def _callback(watch: Watch, keeps_random_state: bool) -> Any:
    """Return the callback that tells the watch about the beginning, end and logs of a run.

    With ``keeps_random_state``, an evaluation before the first step leaves random generators as
    they were.
    """
    from transformers import TrainerCallback

    states: list[dict[str, Any]] = []

    class WatchCallback(TrainerCallback):
        """Forwards a trainer's events to the watch."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.is_world_process_zero:
                watch.start(state.global_step, state.max_steps)
            if keeps_random_state:
                states.append(random_state())

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if states:
                restore_random_state(states.pop())

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            states.clear()

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any
        ) -> None:
            if not state.is_world_process_zero or not logs:
                return
            groups: dict[str, dict[str, float]] = {EVALUATION: {}, TRAIN: {}}
            for name, value in logs.items():
                left_out = name in BOOKKEEPING or name.startswith(("gradlab/", "train_"))
                if isinstance(value, int | float) and not left_out:
                    group = EVALUATION if name.startswith("eval_") else TRAIN
                    groups[group][name] = float(value)
            for group, values in groups.items():
                watch.log(state.global_step, group, values)

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.is_world_process_zero:
                print(watch.finish(), file=sys.stderr)  # the stream of progress bars

    return WatchCallback()


def _tell_trackers(trainer: Any, values: dict[str, float], step: int) -> None:
    """Send diagnostics to trackers, not printers: ``gradlab/NAME`` or ``gradlab/DATASET/NAME``."""
    measured = {name: value for name, value in values.items() if name.startswith(DIAGNOSTICS)}
    own = {f"gradlab/{name[len(DIAGNOSTICS) + 1 :]}": value for name, value in measured.items()}
    event = trainer.args, trainer.state, trainer.control
    for callback in trainer.callback_handler.callbacks if own else ():
        if type(callback).__name__ not in PRINTERS:
            callback.on_log(*event, logs=dict(own), model=trainer.model)


def _settings(trainer: Any) -> dict[str, Any]:
    arguments = trainer.args.to_dict()
    plain = {name: arguments[name] for name in SETTINGS if arguments.get(name) is not None}
    config = getattr(trainer.model, "config", None)
    card = getattr(trainer.model, "model_card_data", None)
    model = getattr(card, "base_model", None) or getattr(config, "_name_or_path", None)
    return {"model": str(model), **plain} if model else plain


def loss_of(trainer: Any, inputs: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the dataset of a batch, or '', and its loss; the loss is None if unknown."""
    loss = getattr(trainer, "loss", None)
    if not isinstance(loss, dict):
        return "", loss
    dataset = str(inputs.get("dataset_name", ""))
    return dataset, loss.get(dataset)


# Finding the two views of a batch.


def capture_of(trainer: Any, views: Views) -> Capture:
    """Return the function that captures the views of a trainer's batches.

    Raises:
        GradlabError: missing or unsuitable ``views``, or libraries that are too old.
    """
    if hasattr(trainer, "collect_features"):
        require("sentence-transformers")
        if views is None:
            return _sentences
    elif views is None:
        raise GradlabError(
            "a Hugging Face Trainer does not tell which embeddings are the two views; name them, "
            "such as views=('anchor_embedding', 'positive_embedding') for fields of the model's "
            "output"
        )
    if not isinstance(views, str) and not callable(views) and len(views) not in (2, 3):
        raise GradlabError(
            f"views takes the names of two or three fields of the output, not {len(views)}"
        )

    def snapshot(
        trainer: Any, inputs: dict[str, Any], outputs: list[Any], value: Tensor
    ) -> Snapshot:
        views_of_batch = views(*outputs) if callable(views) else _fields(outputs, views)
        anchors, positives, *extra = (rows.detach() for rows in views_of_batch)
        negatives = torch.cat(extra) if extra else None
        return Snapshot(anchors, positives, negatives, value=value, half=_is_half(trainer))

    return snapshot


def _fields(outputs: list[Any], views: Sequence[str] | str) -> list[Tensor]:
    """Return the fields that the names of ``views`` mean; see `watch`."""
    names = [views] if isinstance(views, str) else views
    if len(names) > 1:
        return [_field(outputs[0], name) for name in names]
    if len(outputs) > 1:
        return [_field(output, names[0]) for output in outputs]
    rows = _field(outputs[0], names[0])
    if rows.ndim != 3:
        raise GradlabError(
            f"views={names[0]!r} of one pass must have shape (N, views, D), not "
            f"{tuple(rows.shape)}; give two names or a function"
        )
    return list(rows.unbind(dim=1))


def _field(output: Any, name: str) -> Tensor:
    value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
    if not isinstance(value, Tensor):
        fields = ", ".join(output) if isinstance(output, Mapping) else type(output).__name__
        raise GradlabError(
            f"the model's output has no field {name!r} with embeddings; it has: {fields}"
        )
    return value


def _is_half(trainer: Any) -> bool:
    return bool(trainer.args.fp16 or trainer.args.bf16)


def columns_of(
    trainer: Any, inputs: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], Tensor | None]:
    """Return tokenised columns and labels of a batch; no columns without sentence-transformers."""
    if not hasattr(trainer, "collect_features"):
        return [], None
    features = {name: value for name, value in inputs.items() if name != "dataset_name"}
    columns, labels = trainer.collect_features(features)
    return columns, labels


def _sentences(trainer: Any, inputs: dict[str, Any], outputs: list[Any], value: Tensor) -> Snapshot:
    """Return what a sentence-transformers loss saw: its columns, in the order of embedding.

    A pass may hold one column, merged columns or pieces of columns; rows come column by column.
    """
    features, labels = columns_of(trainer, inputs)
    outputs = [output for output in outputs if isinstance(output, Mapping)]
    outputs = [output for output in outputs if isinstance(output.get("sentence_embedding"), Tensor)]
    embedded = [output["sentence_embedding"].detach() for output in outputs]
    if not embedded or not features:
        raise GradlabError("the loss did not call the model that is trained for embeddings")
    # A loss that embeds its batch again in fewer dimensions (Matryoshka) is measured in all.
    rows = torch.cat(
        [
            rows_of_pass
            for rows_of_pass in embedded
            if rows_of_pass.shape[1:] == embedded[0].shape[1:]
        ]
    )
    count = _batch_size(features[0], len(rows) // len(features))
    columns = in_order(rows, outputs, count).split(count)[: max(2, len(features))]
    extra = torch.cat(columns[2:]) if len(columns) > 2 else None
    positives = columns[1] if len(columns) > 1 and len(columns[1]) == count else None
    context = {}
    _, loss = loss_of(trainer, inputs)
    if getattr(loss, "hard_negatives", None) == "own" and extra is not None:
        context, extra = {"own_negatives": torch.stack(columns[2:], dim=1)}, None
    if extra is not None and len(extra) == count * (len(columns) - 2):
        # A column of hard negatives holds one for each anchor.
        context["owners"] = torch.arange(count, device=extra.device).repeat(len(columns) - 2)
    if hasattr(loss, "told_by"):  # a loss of gradlab
        context |= loss.told_by(labels)
    by_columns: dict[str, Any] = {
        "positives": positives,
        "extra_negatives": extra,
        "in_batch_negatives": context.pop("in_batch_negatives", True),
        "context": context,
    }
    return Snapshot(
        columns[0],
        labels=labels is not None,
        value=value,
        half=_is_half(trainer),
        columns=len(features),
        **(seen_by(loss, columns[: len(features)], labels) or by_columns),
    )


def in_order(rows: Tensor, pieces: Sequence[Mapping[str, Any]], count: int) -> Tensor:
    """Return the rows of all pieces in the order of their columns, of ``count`` rows each."""
    if not all(ROWS in piece for piece in pieces):
        return rows
    columns = torch.arange(len(rows), device=rows.device) // count
    places = torch.cat([piece[ROWS] for piece in pieces]).to(rows.device)
    return torch.zeros_like(rows).index_copy(0, columns * count + places, rows)


def _batch_size(features: Mapping[str, Any], otherwise: int) -> int:
    """Return a tokenised column's number of sentences, or ``otherwise`` if it does not tell."""
    for name in ("attention_mask", "input_ids", "pixel_values", "sentence_embedding"):
        values = features.get(name)
        if isinstance(values, Tensor) and values.ndim >= 2 and "cu_seq_lens_q" not in features:
            return len(values)
    return otherwise


def _with_guide(snapshot: Snapshot, outputs: list[Any]) -> Snapshot:
    """Return the snapshot with the guide's embeddings of its rows, which come column by column."""
    rows = torch.cat([output["sentence_embedding"].detach() for output in outputs])
    n, extra = len(snapshot.anchors), snapshot.extra_negatives
    sizes = [n, n] + ([] if extra is None else [len(extra)])
    if snapshot.positives is None or len(rows) < sum(sizes):
        return snapshot
    guide = rows[: sum(sizes)].split(sizes)
    return dataclasses.replace(snapshot, context={**snapshot.context, "guide": guide})

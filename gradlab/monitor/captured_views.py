"""Where the two views of a trainer's batch are: captured from the outputs of its model."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.monitor.batch_measurement import Snapshot
from gradlab.monitor.library_losses import seen_by, share_in_order
from gradlab.monitor.library_versions import require

# Key of a piece of a column: which of the column's rows it holds.
ROWS = "rows_of_column"
# Views: where the two views are, as given to `gradlab.watch`. Capture: (trainer, inputs, outputs of
# the model, loss) -> embeddings.
Views = Callable[..., Any] | Sequence[str] | str | None
Capture = Callable[[Any, dict[str, Any], list[Any], Tensor], Snapshot]


@dataclasses.dataclass(frozen=True)
class FrameworkPreset:
    """Where a framework has the embeddings of N queries and of their N·G passages.

    Passages come query by query, the positive first.
    """

    fields: tuple[str, str] | None = None  # fields of the model's output
    method: str | None = None  # the model's method that embeds queries and then passages

    def views(self, outputs: list[Any]) -> list[Tensor]:
        """Return anchors, positives and, with G > 1, the other passages."""
        if self.fields is not None:
            queries, passages = (_field(outputs[0], name) for name in self.fields)
        else:
            queries, passages = outputs[:2]
        if len(passages) % len(queries):
            raise GradlabError(f"{len(passages)} passages are no groups of {len(queries)} queries")
        groups = passages.unflatten(0, (len(queries), -1))
        negatives = [groups[:, 1:].flatten(0, 1)] if groups.shape[1] > 1 else []
        return [queries, groups[:, 0], *negatives]


PRESETS = {
    "tevatron": FrameworkPreset(fields=("q_reps", "p_reps")),
    "flagembedding": FrameworkPreset(method="encode"),
}


@contextlib.contextmanager
def outputs_of(model: Any, views: Views = None) -> Iterator[list[Any]]:
    """Collect the outputs of a model within the block; stays empty if ``model`` is not a module.

    With a preset that names a method of the model, its outputs are collected instead.
    """
    outputs: list[Any] = []
    preset = PRESETS.get(views) if isinstance(views, str) else None
    method = preset.method if preset else None
    if not isinstance(model, nn.Module):
        yield outputs
    elif method is not None:
        owner = next((m for m in model.modules() if hasattr(m, method)), None)
        if owner is None:
            raise GradlabError(f"views={views!r} needs a model with a method {method!r}")
        original = getattr(owner, method)

        def call(*args: Any, **kwargs: Any) -> Any:
            outputs.append(original(*args, **kwargs))
            return outputs[-1]

        vars(owner)[method] = call
        try:
            yield outputs
        finally:
            del vars(owner)[method]
    else:

        def keep(module: nn.Module, args: Any, output: Any) -> None:
            # A plain dictionary may be passed on to another model, which overwrites its embeddings.
            outputs.append(dict(output) if type(output) is dict else output)

        with model.register_forward_hook(keep):
            yield outputs


def is_trainer(target: Any) -> bool:
    """Return whether ``target`` is a Trainer of transformers, without importing transformers."""
    return any(
        base.__name__ == "Trainer" and base.__module__.startswith("transformers.")
        for base in type(target).__mro__
    )


def loss_of(trainer: Any, inputs: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the dataset of a batch, or '', and its loss; the loss is None if unknown."""
    loss = getattr(trainer, "loss", None)
    if not isinstance(loss, dict):
        return "", loss
    dataset = str(inputs.get("dataset_name", ""))
    return dataset, loss.get(dataset)


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
    preset = PRESETS.get(views) if isinstance(views, str) else None
    if not isinstance(views, str) and not callable(views) and len(views) not in (2, 3):
        raise GradlabError(
            f"views takes the names of two or three fields of the output, not {len(views)}"
        )

    def snapshot(
        trainer: Any, inputs: dict[str, Any], outputs: list[Any], value: Tensor
    ) -> Snapshot:
        if preset is not None:
            views_of_batch = preset.views(outputs)
        else:
            views_of_batch = views(*outputs) if callable(views) else _fields(outputs, views)
        anchors, positives, *extra = (rows.detach() for rows in views_of_batch)
        negatives = torch.cat(extra) if extra else None
        return Snapshot(anchors, positives, negatives, value=value, half=_is_half(trainer))

    return snapshot


def columns_of(
    trainer: Any, inputs: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], Tensor | None]:
    """Return tokenised columns and labels of a batch; no columns without sentence-transformers."""
    if not hasattr(trainer, "collect_features"):
        return [], None
    features = {name: value for name, value in inputs.items() if name != "dataset_name"}
    columns, labels = trainer.collect_features(features)
    return columns, labels


def in_order(rows: Tensor, pieces: Sequence[Mapping[str, Any]], count: int) -> Tensor:
    """Return the rows of all pieces in the order of their columns, of ``count`` rows each."""
    if not all(ROWS in piece for piece in pieces):
        return rows
    columns = torch.arange(len(rows), device=rows.device) // count
    places = torch.cat([piece[ROWS] for piece in pieces]).to(rows.device)
    return torch.zeros_like(rows).index_copy(0, columns * count + places, rows)


def batch_size(features: Mapping[str, Any], otherwise: int) -> int:
    """Return a tokenised column's number of sentences, or ``otherwise`` if it does not tell."""
    for name in ("attention_mask", "input_ids", "pixel_values", "sentence_embedding"):
        values = features.get(name)
        if isinstance(values, Tensor) and values.ndim >= 2 and "cu_seq_lens_q" not in features:
            return len(values)
    return otherwise


def with_guide(snapshot: Snapshot, outputs: list[Any]) -> Snapshot:
    """Return the snapshot with the guide's embeddings of its rows, which come column by column."""
    rows = torch.cat([output["sentence_embedding"].detach() for output in outputs])
    n, extra = len(snapshot.anchors), snapshot.extra_negatives
    sizes = [n, n] + ([] if extra is None else [len(extra)])
    if snapshot.positives is None or len(rows) < sum(sizes):
        return snapshot
    guide = rows[: sum(sizes)].split(sizes)
    return dataclasses.replace(snapshot, context={**snapshot.context, "guide": guide})


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


def _sentences(trainer: Any, inputs: dict[str, Any], outputs: list[Any], value: Tensor) -> Snapshot:
    """Return what a sentence-transformers loss saw: its columns, in the order of embedding.

    A pass may hold one column, merged columns or pieces of columns; rows come column by column.
    """
    features, labels = columns_of(trainer, inputs)
    outputs = _embedding_outputs(outputs)
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
    count = batch_size(features[0], len(rows) // len(features))
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
        column_count=len(features),
        sources=_sources(outputs, len(features)),
        order=share_in_order(loss, columns[: len(features)], labels),
        **(seen_by(loss, columns[: len(features)], labels) or by_columns),
    )


def _sources(outputs: list[Mapping[str, Any]], columns: int) -> list[Tensor]:
    """Return embeddings with their graph: of one pass a column, or of all columns in one pass."""
    rows = [output["sentence_embedding"] for output in outputs]
    return rows if len(rows) in (1, columns) else []


def _embedding_outputs(outputs: list[Any]) -> list[Mapping[str, Any]]:
    """Return the outputs of the passes that embedded texts.

    Raises:
        GradlabError: there are outputs of other kinds only.
    """
    mappings = [output for output in outputs if isinstance(output, Mapping)]
    if mappings and not any("sentence_embedding" in output for output in mappings):
        raise GradlabError(
            "the model returns no sentence_embedding; gradlab measures one embedding per text, "
            "not one per token"
        )
    return [output for output in mappings if isinstance(output.get("sentence_embedding"), Tensor)]

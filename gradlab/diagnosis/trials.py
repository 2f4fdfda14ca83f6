"""Trials beside a trainer's first batches, without an update of weights.

They answer what a batch cannot say: whether the loss depends on its labels, whether the trainer
changes the loss, whether a text embeds alike beside a longer one, and which rows meet in a batch.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from gradlab.diagnosis.broadcast_trials import SAME_LOSS, broadcasts_labels
from gradlab.diagnosis.planned_rates import groups_of, planned, rate_of
from gradlab.monitor.captured_views import Capture, Views, outputs_of
from gradlab.monitor.library_losses import depends_on_lengths
from gradlab.seeds import seed_everything

# Batches of which the rows are compared; rows of a data set whose epoch is drawn as a whole;
# texts among which a short one and long ones are looked for.
DRAWN_BATCHES, ROWS_OF_EPOCH, TEXTS_TRIED = 32, 20_000, 256
# Texts of a batch whose embeddings are compared with those of texts alone, and the cosine at which
# they are of the same text.
MOVED_TEXTS, SAME_TEXT = 8, 0.9999
NO_RATE, LOW_RATE = 1e-3, 0.05  # shares of the largest rate that are none, and little


def dependence(
    trainer: Any, inputs: Mapping[str, Any], loss: Any, columns: Sequence[Any], labels: Any
) -> dict[str, Any]:
    """Return how a loss depends on its labels and on the trainer, without dropout.

    Returns:
        ``ignores``, whether the loss stays the same when rows exchange their labels, and when all
        have the same one; ``broadcasts``, whether it compares all rows with each label;
        ``factor``, the trainer's loss over the loss of the loss function;
        ``met``, the loss over its mean where rows exchange labels; None if unknown; and
        ``new_layers``, classes of layers that the loss makes as it is computed.
    """
    unknown = {"ignores": None, "broadcasts": False, "factor": None, "met": None, "new_layers": ()}
    if loss is None or not columns:
        return unknown
    model = trainer.model
    model.eval()
    try:
        with torch.no_grad(), trainer.compute_loss_context_manager():
            value = _value(loss, columns, labels)  # which may make a layer that it keeps
            with _new_layers() as classes:
                repeated = _value(loss, columns, labels)
            seed_everything(0)
            whole = float(type(trainer).compute_loss(trainer, model, dict(inputs)))
            if abs(repeated - value) > SAME_LOSS * abs(value):  # it draws numbers of its own
                return unknown
            exchanged = _exchanged(loss, columns, labels)
            # Absolute differences from labels that are all lower add up to the same, exchanged.
            same = all(abs(v - value) <= SAME_LOSS * abs(value) for v in exchanged)
            ignores = same and _ignores_one_label(loss, columns, labels, value)
            broadcasts = bool(exchanged) and same and not ignores
            if broadcasts:
                broadcasts = broadcasts_labels(lambda far: _value(loss, columns, far), labels)
    except Exception:  # a loss that needs gradients or the state of a training step
        return unknown
    finally:
        model.train()
    is_finite = value and math.isfinite(value)
    mean = sum(exchanged) / len(exchanged) if exchanged else 0.0
    return {
        "ignores": ignores if exchanged and is_finite else None,
        "broadcasts": broadcasts,
        "factor": whole / value if is_finite else None,
        "met": value / mean if 0 <= value < math.inf and 0 < mean < math.inf else None,
        "new_layers": tuple(dict.fromkeys(classes)),
    }  # fmt: skip


def unread(trainer: Any, loss: Any, columns: Sequence[Any], labels: Any) -> tuple[int, ...]:
    """Return the columns without which a loss stays the same: it does not look at their texts."""
    model, places = trainer.model, list[int]()
    model.eval()
    try:
        with torch.no_grad(), trainer.compute_loss_context_manager():
            value = _value(loss, columns, labels)
            for place in range(len(columns)):
                without = [*columns[:place], {}, *columns[place + 1 :]]
                with contextlib.suppress(Exception):  # of a loss that reads the column
                    if _value(loss, without, labels) == value:
                        places.append(place)
    except Exception:  # a loss that needs gradients or the state of a training step
        return ()
    finally:
        model.train()
    return tuple(places)


def accumulation(trainer: Any, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return whether the trainer, and else the loss, divides by the accumulation; None if unknown.

    A Hugging Face ``Trainer`` leaves the division to a model whose forward pass takes any keyword.
    """
    steps = int(trainer.args.gradient_accumulation_steps)
    count = getattr(trainer, "_get_num_items_in_batch", None)
    if steps < 2 or count is None:
        return None
    is_left = getattr(trainer, "loss_is_scaled_for_ga", None)
    if is_left is None:
        takes_count = bool(getattr(trainer, "model_accepts_loss_kwargs", False))
        is_left = (takes_count and "labels" in inputs) or trainer.compute_loss_func is not None
    numbers = {"steps": steps, "left_to_loss": bool(is_left), "divides": True}
    if not is_left:
        return numbers
    values = []
    trainer.model.eval()
    with contextlib.suppress(Exception), torch.no_grad(), trainer.compute_loss_context_manager():
        for batches in (1, steps):
            torch.manual_seed(0)
            rows = count([dict(inputs)] * batches, trainer.args.device)
            values.append(float(type(trainer).compute_loss(
                trainer, trainer.model, dict(inputs), num_items_in_batch=rows
            )))  # fmt: skip
    trainer.model.train()
    if len(values) < 2 or not values[0]:
        return None
    return numbers | {"divides": abs(values[1] / values[0] * steps - 1) < 0.5}


def embedding_in_half_a_batch(
    trainer: Any, inputs: Mapping[str, Any], capture: Capture, views: Views
) -> dict[str, Any] | None:
    """Return the lowest cosine of a row's embeddings in a batch, in its first half, and in reverse.

    ``longer`` is the largest relative difference of their lengths, if the loss depends on these.
    All have the same padding and no dropout. None where they cannot be computed.
    """
    model, count = trainer.model, 0
    guide = getattr(getattr(trainer, "loss", None), "guide", None)
    if guide is model:  # the outputs of the guide mix with those of the encoder
        return None
    embedded = list[Tensor]()
    model.eval()
    try:
        for rows_of_batch in ("whole", "half", "reverse"):
            few = dict(inputs)
            seed_everything(0)  # of losses that draw layers or dimensions
            if rows_of_batch == "reverse":
                few = {n: v.flip(0) if isinstance(v, Tensor) and v.ndim else v
                       for n, v in few.items()}  # fmt: skip
            if rows_of_batch == "half":
                tensors = [v for v in few.values() if isinstance(v, Tensor) and v.ndim]
                if any(len(rows) != count for rows in tensors):  # texts packed in one row
                    return None
                few = {n: _first_rows(rows, max(2, count // 2)) for n, rows in few.items()}
            with (
                torch.no_grad(),
                trainer.compute_loss_context_manager(),
                outputs_of(model, views) as outputs,
            ):
                value = type(trainer).compute_loss(trainer, model, dict(few))
                snapshot = capture(trainer, few, outputs, value)
            embedded.append(snapshot.anchors.double().cpu())
            count = len(embedded[0])
        embedded[2] = embedded[2].flip(0)
    except Exception:  # a loss that needs whole batches, or gradients
        return None
    finally:
        model.train()
    whole, half_batch, reverse = embedded
    if len({rows.shape[1:] for rows in embedded}) > 1:
        return None
    if len(half_batch) == len(whole):
        return None
    # A text without a word of the vocabulary, or without an active entry, has no direction.
    if not all(bool((rows.norm(dim=1) > 0).all()) for rows in embedded):
        return None
    cosine = min(
        float(nn.functional.cosine_similarity(whole[: len(rows)], rows).min())
        for rows in (half_batch, reverse)
    )
    half = _is_half(model) or bool(trainer.args.bf16 or trainer.args.fp16)
    numbers = {"cosine": cosine, "half": half}
    if depends_on_lengths(getattr(trainer, "loss", None), whole):
        numbers["longer"] = max(
            float((rows.norm(dim=1) / whole[: len(rows)].norm(dim=1) - 1).abs().max())
            for rows in (half_batch, reverse)
        )
    return numbers if math.isfinite(cosine) else None


def tokens(model: Any, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the share of tokens that an embedding depends on, and that of last tokens.

    A token counts if the gradient of the embedding reaches its word embedding. None for models
    without word embeddings.
    """
    bodies = [module for module in getattr(model, "modules", list)() if hasattr(
        module, "get_input_embeddings"
    )]  # fmt: skip
    if not bodies or not columns or not hasattr(model, "encode"):
        return None
    reached, ends = list[Tensor](), list[Tensor]()
    model.eval()
    try:
        for column in columns:
            reaches, mask = _reached_tokens(model, bodies[0].get_input_embeddings(), column)
            reached.append(reaches[mask].double())
            last = mask.long().cumsum(1).argmax(1)  # the first place that reaches the whole sum
            ends.append(reaches.gather(1, last[:, None]).double().flatten())
    except Exception:  # a model that embeds tokens in another way
        return None
    finally:
        model.train()
    if not any(bool(rows.any()) for rows in reached):  # no gradient reaches anything
        return None
    return {"share": float(torch.cat(reached).mean()), "last": float(torch.cat(ends).mean())}


def batch_dependence(model: Any, texts: Sequence[str]) -> dict[str, Any] | None:
    """Return cosines of embeddings of the same text in different batches, in eval mode.

    ``cosine`` is the lower one of two: of a text beside a copy and beside a longer text, and of the
    longer text alone and beside a short one. ``half`` tells whether weights are in half precision,
    ``twice`` is the cosine of two embeddings of the same text, ``moved`` the share of texts in a
    batch that have the embedding that another one has alone, ``convolves`` whether the model
    convolves over tokens, and ``by_padding`` the cosine of its embeddings with some padding and
    with more of it. None without texts, or for a model that is not of sentence-transformers.
    """
    candidates = sorted(
        {text for text in texts[:TEXTS_TRIED] if text.strip()}, key=lambda text: (len(text), text)
    )
    if not hasattr(model, "encode") or len(candidates) < 2:
        return None
    # A short text, but not the shortest, and a text that is longer than all others.
    text, longer = candidates[len(candidates) // 4], " ".join(candidates[-3:])
    try:
        encode = {"convert_to_tensor": True, "show_progress_bar": False, "device": model.device}
        with torch.no_grad():
            with_copy = model.encode([text, text], **encode)[0].double()
            with_longer = model.encode([text, longer], **encode)[0].double()
            alone = model.encode([longer], **encode)[0].double()
            longer_with_shortest = model.encode([longer, candidates[0]], **encode)[0].double()
            doubled = " ".join(candidates[-2:])  # beyond the reach of a convolution
            with_some_padding = model.encode([text, doubled], **encode)[0].double()
            with_copy_again = model.encode([text, text], **encode)[0].double()
            swapped = _swapped(model, candidates, encode)
    except Exception:  # a model whose inputs are no texts
        return None
    finally:
        model.train()
    rows_of_texts = ((with_copy, with_longer), (alone, longer_with_shortest))
    if not all(bool(torch.cat(rows).any()) for rows in rows_of_texts):  # no word is known
        return None
    cosine = min(float(nn.functional.cosine_similarity(*rows, dim=0)) for rows in rows_of_texts)
    if not math.isfinite(cosine):
        return None
    twice = float(nn.functional.cosine_similarity(with_copy, with_copy_again, dim=0))
    by_padding = min(
        float(nn.functional.cosine_similarity(*rows, dim=0))
        for rows in ((with_some_padding, with_longer), (alone, longer_with_shortest))
    )
    convolves = any(isinstance(module, nn.Conv1d) for module in model.modules())
    return {
        "cosine": cosine, "half": _is_half(model), "twice": twice, "moved": swapped,
        "convolves": convolves, "by_padding": by_padding,
    }  # fmt: skip


def schedule(trainer: Any, batches: int | None) -> dict[str, Any] | None:
    """Return the planned steps, the warm-up, and the factor of the learning rate over the run.

    Of the factor, the largest, the last, the mean, and the share of steps, without the first tenth,
    in which it is none; and the largest rate. ``batches`` is the number of batches of an epoch.
    None if the schedule depends on more than the step.
    """
    from transformers import get_scheduler

    args, existing = trainer.args, getattr(trainer, "optimizer", None)
    steps = int(args.max_steps)
    if steps <= 0 and batches is not None:
        updates = max(1, batches // int(args.gradient_accumulation_steps))
        steps = math.ceil(updates * float(args.num_train_epochs))
    if steps <= 0:
        return None
    scheduler, warmup = getattr(trainer, "lr_scheduler", None), 0
    if scheduler is None or getattr(trainer, "_created_lr_scheduler", False):
        warmup = int(args.get_warmup_steps(steps))
        begins = [rate_of(group) for group in groups_of(existing)] or [float(args.learning_rate)]
        weight = nn.Parameter(torch.zeros(1))
        with contextlib.suppress(Exception):
            scheduler = get_scheduler(
                args.lr_scheduler_type, torch.optim.SGD([weight], lr=max(begins)), warmup, steps,
                scheduler_specific_kwargs=dict(args.lr_scheduler_kwargs or {}),
            )  # fmt: skip
    rates = planned(scheduler, existing, steps, (trainer, getattr(trainer, "model", None)))
    factors = rates.factors
    if not factors:
        return None
    peak = max(factors)
    later = factors[len(factors) // 10 :]
    still, low = (sum(f < share * peak for f in later) for share in (NO_RATE, LOW_RATE))
    return {
        "steps": steps, "warmup": warmup, "peak": peak, "mean": sum(factors) / len(factors),
        "still": still / max(1, len(later)), "end": factors[-1], "low": low / max(1, len(later)),
        "largest": rates.largest,
    }  # fmt: skip


def draws(loader: Any, sizes: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return the rows of each data set that the batches of a loader hold, without loading them.

    Args:
        loader: loader of the trainer.
        sizes: rows of each data set, in the order of the loader's data.

    Returns:
        For each data set ``batches``, the rows of its first batches, and ``epoch``, the number of
        rows of a whole epoch, or None where it is too long to be drawn.
    """
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None or not sizes:
        return {}
    whole = sum(sizes.values()) <= ROWS_OF_EPOCH
    ends = dict(zip(sizes, itertools.accumulate(sizes.values()), strict=True))
    rows: dict[str, list[list[int]]] = {name: [] for name in sizes}
    drawn: dict[str, set[int]] = {name: set() for name in sizes}
    most = None if whole else 4 * DRAWN_BATCHES * len(sizes)
    try:
        for batch in itertools.islice(sampler, most):
            name = next(name for name, end in ends.items() if max(batch) < end)
            begin = ends[name] - sizes[name]
            drawn[name].update(row - begin for row in batch)
            if len(rows[name]) < DRAWN_BATCHES:
                rows[name].append([row - begin for row in batch])
    except (TypeError, ValueError, StopIteration):  # a sampler of something else than rows
        return {}
    return {
        name: {"batches": rows[name], "epoch": len(drawn[name]) if whole else None}
        for name in sizes
    }


@contextlib.contextmanager
def _new_layers() -> Iterator[list[str]]:
    """Collect the classes of modules that get weights within the block, drawn to be trained.

    Those of a normalisation are 1 and 0, and a random projection has frozen ones.
    """
    classes, layers, register = list[str](), list[nn.Module](), nn.Module.register_parameter

    def collect(module: nn.Module, name: str, weight: Any) -> None:
        layers.extend([module] * (weight is not None))
        register(module, name, weight)

    with mock.patch.object(nn.Module, "register_parameter", collect):
        yield classes
    classes += [
        type(module).__name__ for module in layers
        if any(weight.requires_grad and len(weight.unique()) > 1
               for weight in module.parameters(recurse=False))
    ]  # fmt: skip


def _exchanged(loss: Any, columns: Sequence[Any], labels: Any) -> list[float]:
    """Return values of a loss where rows exchange labels; empty where that says nothing."""
    if not isinstance(labels, Tensor) or len(labels) < 4 or bool((labels == labels[:1]).all()):
        return []
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(labels), generator=generator) for _ in range(2)]
    return [_value(loss, columns, labels[order.to(labels.device)]) for order in orders]


def _ignores_one_label(loss: Any, columns: Sequence[Any], labels: Any, value: float) -> bool:
    """Return whether a loss stays the same where all rows have the label of one of them."""
    if not isinstance(labels, Tensor):
        return False
    second = next((row for row in labels if not torch.equal(row, labels[0])), labels[0])
    with contextlib.suppress(Exception):  # a loss that needs different labels
        values = [_value(loss, columns, label.expand_as(labels)) for label in (labels[0], second)]
        return all(abs(v - value) <= SAME_LOSS * abs(value) for v in values)
    return False


def _value(loss: Any, columns: Sequence[Any], labels: Any) -> float:
    seed_everything(0)
    value = loss([dict(column) for column in columns], labels)
    return float(sum(value.values()) if isinstance(value, Mapping) else value)


def _first_rows(rows: Any, most: int) -> Any:
    return rows[:most] if isinstance(rows, Tensor) and rows.ndim else rows


def _swapped(model: Any, texts: Sequence[str], encode: Mapping[str, Any]) -> float:
    """Return the share of some texts whose embedding in a batch is another one's alone."""
    few = list(texts[:: max(1, len(texts) // MOVED_TEXTS)][:MOVED_TEXTS])
    random.Random(0).shuffle(few)
    model.eval()  # the batch goes through the modules in its own order; encode would sort it
    inputs = model.preprocess(few) if hasattr(model, "preprocess") else model.tokenize(few)
    inputs = {name: v.to(model.device) if isinstance(v, Tensor) else v
              for name, v in inputs.items()}  # fmt: skip
    together = model(inputs)["sentence_embedding"].double()
    alone = torch.cat([model.encode([text], **encode) for text in few]).double()
    cosines = nn.functional.normalize(alone, dim=1) @ nn.functional.normalize(together, dim=1).T
    best, places = cosines.max(1)
    apart = places.cpu() != torch.arange(len(few))
    nearer = (best > SAME_TEXT) & (cosines.diagonal() < best - (1 - SAME_TEXT))
    return float((nearer.cpu() & apart).double().mean())


def _is_half(model: nn.Module) -> bool:
    return any(weight.dtype in (torch.float16, torch.bfloat16) for weight in model.parameters())


def _reached_tokens(
    model: nn.Module, words: nn.Module, column: Mapping[str, Any]
) -> tuple[Tensor, Tensor]:
    """Return whether each token has a gradient, and whether it is no padding; both (N, L)."""
    held: list[Tensor] = []

    def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        held.append(output.detach().requires_grad_())
        return held[-1]

    mask = column["attention_mask"].bool().clone()
    with words.register_forward_hook(keep), torch.enable_grad():
        rows = model(dict(column))["sentence_embedding"]
        weights = torch.linspace(0.5, 1.5, rows.shape[1], device=rows.device, dtype=rows.dtype)
        (gradient,) = torch.autograd.grad((rows * weights).sum(), held[:1])
    sizes = gradient.abs().sum(-1)
    return sizes > 1e-9 * sizes.max(), mask

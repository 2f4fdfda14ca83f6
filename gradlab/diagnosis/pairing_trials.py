"""A trial of the pairs of a batch: does what is trained depend on which texts belong together?"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.diagnosis.trial_step import trial_step
from gradlab.seeds import seed_everything

FEWEST_ROWS = 4  # rows of a batch among which columns are moved
# Gradient of a text's embedding, by its tokens, the dimensions, and which pass of it that is.
Gradients = dict[tuple[bytes, int, int], Tensor]


def share_of_pairing(
    trainer: Any, inputs: Mapping[str, Any], columns: Sequence[Mapping[str, Any]],
    tensors: Mapping[str, Tensor],
) -> float | None:  # fmt: skip
    """Return the share of the embeddings' gradient that depends on which texts belong together.

    That is |g − g'| / (|g| + |g'|), where g is the gradient of the texts of a batch, and g' that of
    the same texts where all columns but the first are moved by half of the batch. Both are without
    dropout and with equal random numbers; where the loss embeds a column more than once, also with
    dropout, and the lower share counts. None where columns cannot be moved, or there is no
    gradient. The gradients of ``tensors``, which are trained, stay as they are.
    """
    moved = _moved(inputs, columns)
    if moved is None:
        return None
    model, gradients_before = trainer.model, {name: tensor.grad for name, tensor in tensors.items()}
    shares = list[float]()
    try:
        for training in (False, True):
            model.train(training)
            gradients, passes = list[Gradients](), 0
            for batch in (inputs, moved):
                seed_everything(0)
                with _gradients_of(model) as of_texts:
                    _, before, within = trial_step(trainer, batch, tensors)
                gradients.append(of_texts)
                passes = 0 if within else len(before)
            shares.append(_difference(*gradients))
            if passes <= len(columns):  # no column is embedded twice, with different dropout
                break
    except Exception:  # a loss that cannot be computed in evaluation mode
        return None
    finally:
        model.train()
        for name, tensor in tensors.items():
            tensor.grad = gradients_before[name]
    return min(shares) if all(map(math.isfinite, shares)) else None


def _moved(
    inputs: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return inputs of which all columns but the first are moved by half of the batch."""
    if len(columns) < 2:
        return None
    counts = {len(value) for column in columns for value in column.values() if _has_rows(value)}
    if len(counts) != 1 or max(counts) < FEWEST_ROWS:
        return None
    (count,) = counts
    first = {id(value) for value in columns[0].values()}
    return {
        name: value.roll(count // 2, 0) if _has_rows(value) and id(value) not in first else value
        for name, value in inputs.items()
    }


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 1


@contextlib.contextmanager
def _gradients_of(model: nn.Module) -> Iterator[Gradients]:
    """Collect the gradients of each text's embeddings within the block.

    They are those of the last module: losses of several layers take its output.
    """
    gradients: Gradients = {}
    passes, times = list[tuple[Tensor, Tensor]](), Counter[tuple[bytes, int]]()
    module = list(model)[-1] if isinstance(model, nn.Sequential) and len(model) else model

    def add_zeros(module: nn.Module, args: Any, keywords: Any, output: Any) -> Any:
        features = args[0] if args and isinstance(args[0], Mapping) else keywords
        rows = output.get("sentence_embedding") if isinstance(output, Mapping) else None
        if not isinstance(rows, Tensor) or not torch.is_grad_enabled():
            return None
        zeros = torch.zeros_like(rows, requires_grad=True)
        passes.append((output.get("input_ids", features.get("input_ids")), zeros))
        output["sentence_embedding"] = rows + zeros
        return output

    with module.register_forward_hook(add_zeros, with_kwargs=True):
        yield gradients
    for tokens, zeros in passes:
        if zeros.grad is None:  # a pass that the loss does not read
            continue
        for text, gradient in zip(tokens.cpu().numpy(), zeros.grad.cpu().double(), strict=True):
            key = text.tobytes(), len(gradient)
            gradients[*key, times[key]] = gradient
            times[key] += 1


def _difference(left: Gradients, right: Gradients) -> float:
    """Return the norm of the difference over the sum of the norms; not finite without gradients."""
    none = torch.zeros(1, dtype=torch.float64)
    apart = sum(
        float((left.get(key, none) - right.get(key, none)).square().sum())
        for key in left.keys() | right.keys()
    )
    norms = [
        math.sqrt(sum(float(gradient.square().sum()) for gradient in of_texts.values()))
        for of_texts in (left, right)
    ]
    return math.sqrt(apart) / sum(norms) if sum(norms) else math.nan

"""Faster training on a CPU for models of sentence-transformers: one call for each gain.

Each changes rounding and the random numbers of dropout, and nothing else: batches, negatives, saved
files and embeddings by ``encode`` stay what they are.

Example:
    >>> fast_dropout(model)  # doctest: +SKIP
    >>> eager_attention(model)  # doctest: +SKIP
    >>> length_groups(model)  # doctest: +SKIP
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError, check_whole
from gradlab.integrations.token_rows import is_padded, tight, used_lengths
from gradlab.monitor.library_versions import require
from gradlab.train.batches import length_edges
from gradlab.train.cpu_speed import enter_fast_dropout, leave_fast_dropout

require("sentence-transformers", "transformers", "torch")

try:
    from sentence_transformers.sentence_transformer.modules import Transformer
except ImportError:  # before 5.4
    from sentence_transformers.models import Transformer  # type: ignore[no-redef]


def fast_dropout(model: nn.Module) -> None:
    """Let all dropout of a model draw its masks at a third of the cost.

    Four entries share a draw of 64 bits, and probabilities are multiples of 2^-16. Draws come from
    torch's generator, so that a seed gives the same run again. Works with gradient checkpointing,
    and not with ``torch.compile``.

    Raises:
        GradlabError: a model that is not on a CPU.
    """
    _check_on_cpu(model)
    for module in model.modules():
        # Dropout is called by a module that has others: nn.Dropout, or attention's own function.
        if next(module.children(), None) is not None and _enter not in _hooks_of(module):
            module.register_forward_pre_hook(_enter)
            module.register_forward_hook(_leave, always_call=True)


def eager_attention(model: nn.Module) -> None:
    """Let a model compute its attention step by step, which is what torch does on a CPU.

    Its fused attention adds work to the same steps there. The same as loading the model with
    ``model_kwargs={"attn_implementation": "eager"}``.

    Raises:
        GradlabError: a model that is not on a CPU, has no transformer, or cannot change its
            attention.
    """
    _check_on_cpu(model)
    from transformers import PreTrainedModel

    inner = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    if not inner:
        raise GradlabError(f"this {type(model).__name__} has no model of transformers")
    for module in inner:
        if not hasattr(module, "set_attn_implementation"):
            raise GradlabError(
                "this version of transformers does not change the attention of a loaded model; "
                "load it with model_kwargs={'attn_implementation': 'eager'}"
            )
        module.set_attn_implementation("eager")


def length_groups(model: nn.Module, groups: int = 2) -> None:
    """Let a model encode each batch of training in groups of sentences of like lengths.

    A group is padded to its own longest sentence. Which sentences meet in a batch does not change.
    ``encode``, which sorts by length itself, and evaluation are left as they are. One group is
    what the library does.

    Raises:
        GradlabError: ``groups`` is no whole number of at least 1; a model without a transformer.
    """
    check_whole("groups", groups, 1)
    transformers = [module for module in model.modules() if isinstance(module, Transformer)]
    if not transformers:
        raise GradlabError(
            f"this {type(model).__name__} has no Transformer module of sentence-transformers"
        )
    for module in transformers:
        module.forward = functools.partial(_forward_in_groups, module, groups)


def _forward_in_groups(
    module: Any, groups: int, features: dict[str, Any], **settings: Any
) -> dict[str, Any]:
    """Compute the forward pass of a Transformer module with rows in groups by length."""
    forward = functools.partial(type(module).forward, module)
    if not module.training or not is_padded(features):
        return forward(features, **settings)
    lengths, by_length = used_lengths(features["attention_mask"]).sort(stable=True)
    edges = length_edges(lengths.cpu().numpy(), groups)
    if len(edges) == 2:
        return forward(features, **settings)
    sizes = [end - start for start, end in itertools.pairwise(edges)]
    pieces = [forward(tight(features, rows), **settings) for rows in by_length.split(sizes)]
    order, width = by_length.argsort(), features["attention_mask"].shape[1]
    for name in pieces[0].keys() - features.keys():
        features[name] = _joined([piece[name] for piece in pieces], order, width)
    return features


def _joined(pieces: list[Any], order: Tensor, width: int) -> Any:
    """Return outputs of groups as those of the batch, padded with zeros to its length."""
    first = pieces[0]
    if isinstance(first, list | tuple):  # of layers
        return type(first)(
            _joined(list(layer), order, width) for layer in zip(*pieces, strict=True)
        )
    if not isinstance(first, Tensor):
        return first
    if first.ndim > 2:
        padding = [(0, 0) * (first.ndim - 2) + (0, width - piece.shape[1]) for piece in pieces]
        pieces = [nn.functional.pad(*pair) for pair in zip(pieces, padding, strict=True)]
    return torch.cat(pieces)[order]


def _check_on_cpu(model: nn.Module) -> None:
    device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
    if device.type != "cpu":
        raise GradlabError(f"this speeds up a CPU, and the model is on {device}")


def _hooks_of(module: nn.Module) -> list[Any]:
    return list(module._forward_pre_hooks.values())


def _enter(module: nn.Module, inputs: Any) -> None:
    enter_fast_dropout()


def _leave(module: nn.Module, inputs: Any, output: Any) -> None:
    leave_fast_dropout()

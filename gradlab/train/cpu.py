"""What makes training fast on a CPU. None of it changes what is computed, beside rounding and which random numbers are drawn.

- Dropout at a third of its cost: on a CPU torch draws a Bernoulli variable an entry through a 32-bit generator, which takes a tenth of a training step
  of a small BERT in float32 and a fifth in bfloat16. Here four entries share one 64-bit draw: each is kept where its 16
  bits are not below ``p``, which is rounded to a multiple of 2^-16. Draws come from torch's own generator, so seeds and
  saved states mean what they always do.
- Attention step by step ("eager"): torch's fused one has no dropout on a CPU, and takes itself apart again, more slowly.
- Two groups by length: sentences are padded to the longest of their half of the batch.

A reader of the objective can skip this file.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_LEVELS = 2**16


def attention_for(device: torch.device) -> str | None:
    """Transformers' name of the attention to train with; None leaves the choice to it."""
    return "eager" if device.type == "cpu" else None


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As `torch.nn.functional.dropout`, for CPU tensors; ``inplace`` is accepted and has no effect."""
    dropped = round(p * _LEVELS)
    if not training or dropped == 0:
        return input
    if dropped == _LEVELS:
        return input * 0
    words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    # As signed numbers the 16 bits begin at -2^15.
    kept = words.view(torch.int16)[: input.numel()].view(input.shape) >= dropped - _LEVELS // 2
    noise = kept.to(input.dtype).mul_(_LEVELS / (_LEVELS - dropped))
    return input * noise


class FastDropout(TorchFunctionMode):
    """Within this context every dropout on a CPU tensor is :func:`dropout`, whatever module asks for it."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.nn.functional.dropout and args[0].device.type == "cpu":
            return dropout(*args, **kwargs)
        return function(*args, **kwargs)

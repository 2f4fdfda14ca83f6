"""Faster training on a CPU: only rounding and the drawn random numbers change.

- Dropout at a third of its cost: torch draws a Bernoulli variable per entry with a 32-bit
  generator, which takes a tenth of a training step of a small BERT in float32 and a fifth in
  bfloat16. Here four entries share a 64-bit draw, and an entry is kept unless its 16 bits are below
  ``p``, rounded to a multiple of 2^-16. Draws come from torch's generator, so that seeds and saved
  states keep their meaning.
- Attention step by step ("eager"): torch's fused attention has no dropout on a CPU, and computes
  the steps separately after all, more slowly.
- Two groups by length: sentences are padded to the longest sentence of their half of the batch.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch
from torch import Tensor

_LEVELS = 2**16


def attention_for(device: torch.device) -> str | None:
    """Return transformers' name of the attention to train with; None lets transformers choose."""
    return "eager" if device.type == "cpu" else None


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Compute `torch.nn.functional.dropout` of a CPU tensor; ``inplace`` has no effect."""
    dropped = round(p * _LEVELS)
    if not training or dropped == 0:
        return input
    if dropped == _LEVELS:
        return input * 0
    words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    # Signed 16-bit numbers begin at -2^15.
    mask = words.view(torch.int16)[: input.numel()].view(input.shape) >= dropped - _LEVELS // 2
    noise = mask.to(input.dtype).mul_(_LEVELS / (_LEVELS - dropped))
    return input * noise


@contextlib.contextmanager
def fast_dropout() -> Iterator[None]:
    """Let `torch.nn.functional.dropout` of CPU tensors be :func:`dropout` within the block.

    Only in this thread. A mode of torch's functions would do so too, but it calls Python for every
    operation of the encoder, a hundred times for each dropout of a batch.
    """
    enter_fast_dropout()
    try:
        yield
    finally:
        leave_fast_dropout()


def enter_fast_dropout() -> None:
    """Begin a block of :func:`fast_dropout`, which :func:`leave_fast_dropout` ends."""
    with _lock:
        _blocks.append(threading.get_ident())
        torch.nn.functional.dropout = _dropout


def leave_fast_dropout() -> None:
    """End the block that began last in this thread."""
    with _lock:
        _blocks.remove(threading.get_ident())
        if not _blocks:
            torch.nn.functional.dropout = _torch_dropout


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Stand for `torch.nn.functional.dropout` while any thread is in a block of `fast_dropout`."""
    if input.device.type == "cpu" and threading.get_ident() in _blocks:
        return dropout(input, p, training, inplace)
    return _torch_dropout(input, p, training, inplace)


_torch_dropout = torch.nn.functional.dropout
_lock = threading.Lock()
_blocks: list[int] = []  # threads in a block, once for each block

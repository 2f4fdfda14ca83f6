"""Gradients of a batch whose activations do not fit in memory (Gao et al. 2021, "Scaling deep contrastive learning batch size").

A loss sees all rows of a batch at once, but the encoder makes each row alone. So rows are encoded in pieces without
activations; the loss is differentiated by the rows; and each piece is encoded once more, with the same random numbers,
to carry its rows' gradient on to the parameters. What is held is one piece's activations, whatever the batch. A step
takes two forward passes and one backward pass where it took one of each: 4/3 of the time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# A piece, encoded: its rows, and what else is wanted of it, which receives no gradient.
EncodePiece = Callable[[Any], tuple[Tensor, ...]]


@dataclasses.dataclass(frozen=True)
class _Encoded:
    """Pieces that were encoded without activations; of each, the places of its rows, and the random generators before it."""

    encode: EncodePiece
    pieces: Sequence[Any]
    places: list[Tensor]
    states: list[list[Tensor]]
    rows: Tensor


class GradientCache:
    """Encodes pieces twice: without activations before the loss, with them after it, one piece at a time.

    Use `encode` for the rows, differentiate any function of them, so that they have gradients, then call `backward`.
    """

    def __init__(self, device: torch.device) -> None:
        """``device`` is where the pieces are encoded, whose random numbers are replayed."""
        self._devices = [device] if device.type == "cuda" else []
        self._encoded: list[_Encoded] = []

    def encode(self, encode: EncodePiece, pieces: Sequence[Any], order: Tensor) -> tuple[Tensor, ...]:
        """Encode pieces without activations.

        Args:
            encode: maps a piece to its rows (n, D), and to any further tensors of n entries; called twice for each.
            pieces: at least one; the largest first, as what it frees then has room for all later ones.
            order: (N,) where each row stands among the rows of the pieces one after another.

        Returns:
            The rows of all pieces in that order, (N, D), a leaf that wants a gradient, and the further tensors likewise.
        """
        places, states = [], []
        joined: list[Tensor] = []
        left = order.argsort()
        with torch.no_grad():
            for piece in pieces:
                states.append(self.state())
                found = encode(piece)
                joined = joined or [one.new_empty(len(order), *one.shape[1:]) for one in found]
                places.append(left[: len(found[0])])
                left = left[len(found[0]) :]
                # At once to their places: a list of them would lie scattered over memory that later pieces need whole.
                for every, one in zip(joined, found, strict=True):
                    every.index_copy_(0, places[-1], one)
        rows = joined[0].requires_grad_()
        self._encoded.append(_Encoded(encode, pieces, places, states, rows))
        return rows, *joined[1:]

    def backward(self, alone: Callable[[], contextlib.AbstractContextManager[Any]] | None = None) -> None:
        """Carry the gradients of the rows on to the parameters; the random generators are left as they were.

        Args:
            alone: a context in which all pieces but the last are encoded and differentiated, such as ``no_sync`` of
                DistributedDataParallel, so that gradients are averaged over processes once.
        """
        encoded = [one for one in self._encoded if one.rows.grad is not None]
        self._encoded.clear()
        left = sum(len(one.pieces) for one in encoded)
        with torch.random.fork_rng(self._devices):
            for one in encoded:
                for piece, places, state in zip(one.pieces, one.places, one.states, strict=True):
                    self.restore(state)
                    left -= 1
                    with alone() if alone is not None and left else contextlib.nullcontext():
                        with torch.enable_grad():
                            rows = one.encode(piece)[0]
                        if rows.requires_grad:
                            assert one.rows.grad is not None
                            rows.backward(one.rows.grad[places])

    def state(self) -> list[Tensor]:
        """The state of the random generators that encoding draws from."""
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self._devices)]

    def restore(self, states: list[Tensor]) -> None:
        """Put the random generators where :meth:`state` found them."""
        torch.set_rng_state(states[0])
        for device, state in zip(self._devices, states[1:], strict=True):
            torch.cuda.set_rng_state(state, device)


def deferred(
    value: Tensor,
    cache: GradientCache,
    alone: Callable[[], contextlib.AbstractContextManager[Any]] | None = None,
) -> Tensor:
    """``value``, a scalar of cached rows, as a leaf's function whose backward pass goes through the pieces too.

    For trainers that call ``backward`` on the loss themselves.
    """
    ticket = torch.zeros((), device=value.device, requires_grad=True)
    return _Deferred.apply(ticket, [value, cache, alone])


class _Deferred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ticket: Tensor, held: list[Any]) -> Tensor:
        # In a list, which torch does not look into: the graph of the value is gone through in `backward` alone.
        ctx.held = held
        return held[0].detach().clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, None]:
        value, cache, alone = ctx.held
        ctx.held.clear()
        with torch.enable_grad():
            torch.autograd.backward(value, upstream)
        del value
        cache.backward(alone)
        return None, None

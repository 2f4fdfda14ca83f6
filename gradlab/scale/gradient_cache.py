"""Gradient caching for batches whose activations do not fit into memory.

Source: Gao et al. 2021, "Scaling deep contrastive learning batch size". Pieces of the batch are
encoded without activations, the loss is differentiated with respect to all rows, and each piece is
encoded again, with the same random numbers, to propagate its gradient to the parameters. Memory
holds the activations of one piece. A step takes two forward passes and one backward pass instead of
one of each: 4/3 of the time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# Encodes a piece: returns its rows, and further tensors that receive no gradient.
EncodePiece = Callable[[Any], tuple[Tensor, ...]]


class GradientCache:
    """Encodes pieces twice: without activations before the loss, with activations after it.

    Call `encode` to get the rows, differentiate any function of them, then call `backward`.
    """

    def __init__(self, device: torch.device) -> None:
        """Set the device on which pieces are encoded and whose random numbers are replayed."""
        self._devices = [device] if device.type == "cuda" else []
        self._encoded: list[_Encoded] = []

    def encode(
        self, encode: EncodePiece, pieces: Sequence[Any], order: Tensor
    ) -> tuple[Tensor, ...]:
        """Encode pieces without activations.

        Args:
            encode: called twice per piece; returns rows (n, D) and further tensors of n entries.
            pieces: at least one, the largest first: the memory that it frees fits all later ones.
            order: (N,), position of each row of the result among rows of the concatenated pieces.

        Returns:
            All rows in that order, (N, D), as a leaf that requires a gradient; then the others.
        """
        places, states = [], []
        joined: list[Tensor] = []
        remaining_places = order.argsort()  # places of the rows that are still to be encoded
        with torch.no_grad():
            for piece in pieces:
                states.append(self.state())
                encoded = encode(piece)
                joined = joined or [
                    tensor.new_empty(len(order), *tensor.shape[1:]) for tensor in encoded
                ]
                places.append(remaining_places[: len(encoded[0])])
                remaining_places = remaining_places[len(encoded[0]) :]
                # Written in place at once: separate tensors would fragment later pieces' memory.
                for whole, tensor in zip(joined, encoded, strict=True):
                    whole.index_copy_(0, places[-1], tensor)
        rows = joined[0].requires_grad_()
        self._encoded.append(_Encoded(encode, pieces, places, states, rows))
        return rows, *joined[1:]

    def backward(
        self, alone: Callable[[], contextlib.AbstractContextManager[Any]] | None = None
    ) -> None:
        """Propagate the rows' gradients to the parameters; the random generators keep their state.

        Args:
            alone: a context in which all pieces but the last are encoded and differentiated, such
                as ``no_sync`` of DistributedDataParallel, so that processes average gradients once.
        """
        batches = [encoded for encoded in self._encoded if encoded.rows.grad is not None]
        self._encoded.clear()
        pieces_left = sum(len(encoded.pieces) for encoded in batches)
        with torch.random.fork_rng(self._devices):
            for encoded in batches:
                for piece, places, state in zip(
                    encoded.pieces, encoded.places, encoded.states, strict=True
                ):
                    self.restore(state)
                    pieces_left -= 1
                    with alone() if alone is not None and pieces_left else contextlib.nullcontext():
                        with torch.enable_grad():
                            rows = encoded.encode(piece)[0]
                        if rows.requires_grad:
                            assert encoded.rows.grad is not None
                            rows.backward(encoded.rows.grad[places])

    def state(self) -> list[Tensor]:
        """Return the state of the random generators that encoding uses."""
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self._devices)]

    def restore(self, states: list[Tensor]) -> None:
        """Restore the random generators to a state from :meth:`state`."""
        torch.set_rng_state(states[0])
        for device, state in zip(self._devices, states[1:], strict=True):
            torch.cuda.set_rng_state(state, device)


def saved_bytes(encode: Callable[[], Any]) -> int:
    """Return the bytes of memory that a computation keeps for its backward pass.

    Memory that several operations keep counts once; parameters count too.
    """
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept):
        encode()
    return sum(storage.nbytes() for storage in storages.values())


def deferred(
    value: Tensor,
    cache: GradientCache,
    alone: Callable[[], contextlib.AbstractContextManager[Any]] | None = None,
) -> Tensor:
    """Return the scalar ``value`` of cached rows so that ``backward`` continues through the pieces.

    For trainers that call ``backward`` on the loss themselves.
    """
    trigger = torch.zeros((), device=value.device, requires_grad=True)
    return _Deferred.apply(trigger, [value, cache, alone])


@dataclasses.dataclass(frozen=True)
class _Encoded:
    """Pieces encoded without activations, with their rows' positions and their random states."""

    encode: EncodePiece
    pieces: Sequence[Any]
    places: list[Tensor]
    states: list[list[Tensor]]
    rows: Tensor


class _Deferred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, trigger: Tensor, arguments: list[Any]) -> Tensor:
        # In a list, which torch does not inspect, as only `backward` traverses the value's graph;
        # `trigger` is the input that wants a gradient, so that autograd calls `backward`.
        ctx.arguments = arguments
        return arguments[0].detach().clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, None]:
        value, cache, alone = ctx.arguments
        ctx.arguments.clear()
        with torch.enable_grad():
            torch.autograd.backward(value, upstream)
        del value
        cache.backward(alone)
        return None, None

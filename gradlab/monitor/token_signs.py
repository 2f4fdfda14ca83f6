"""What do the tokens of a loop's batch tell: does a gradient reach padding, is a token everywhere?

A loop hands over embeddings only. But the graph of its loss knows the tokens that the encoder
looked up, and the backward pass brings the gradient at each of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Numbers of the records: share of the squared gradient at the word vectors that is at padding, and
# share of the tokens without padding that the commonest one makes up; share of the texts that have
# no gradient, where the loss is of far more rows than the others.
PADDING_GRADIENT, COMMONEST_TOKEN = "padding_gradient", "commonest_token"
IDLE_TEXTS = "idle_texts"
TOKEN_NUMBERS = (PADDING_GRADIENT, COMMONEST_TOKEN, IDLE_TEXTS)
# Rows of a loss for each text with a gradient, from which on texts without one are noted: anchors
# that are repeated for two candidates each have 1.3.
MANY_ROWS = 4
# Tokens at an end of a row that are padding if they are equal, and its only ones of their kind.
SHORTEST_PADDING = 3
# Node of a graph that looks up the vectors of tokens, and its attribute with their number.
LOOKUP, ROWS = "EmbeddingBackward0", "_saved_weight_sym_argsize_0"
SEGMENTS = 4  # kinds of segments of a text, at most, such as its first and second sentence
MOST_NODES = 20_000  # of a graph that is searched


class TokenGradients:
    """The gradient at the word vectors of a batch, at padding and in all."""

    def __init__(
        self, value: Tensor, tell: Callable[[dict[str, float]], None], rows: int = 0
    ) -> None:
        """Look up the tokens that a loss was computed from, and tell of their next gradient, once.

        Args:
            value: the loss, with its graph.
            tell: is called with `TOKEN_NUMBERS`, after the gradient has reached all tokens.
            rows: number of embeddings that the loss was given; 0 if it is not known.
        """
        # None of encoders that convolve over tokens, and reach the padding.
        batches = lookups(value)
        self._tell, self._waiting = tell, len(batches)
        self._sums, self._rows = [0.0, 0.0], rows
        self._has_gradient = list[bool]()  # by text
        self._numbers: dict[str, float] = {}
        if not batches:
            return
        self._numbers = _commonest([tokens for _, tokens in batches])
        for node, tokens in batches:
            node.register_prehook(functools.partial(self._arrived, padding_of(tokens)))

    def _arrived(self, padding: Tensor, gradients: Any) -> None:
        squares = gradients[0].detach().double().square().sum(-1)
        if squares.shape != padding.shape:
            return
        self._sums[0] += float(squares[padding].sum())
        self._sums[1] += float(squares.sum())
        self._has_gradient += squares.any(1).tolist()
        self._waiting -= 1
        if not self._waiting:
            at_padding, whole = self._sums
            share = {PADDING_GRADIENT: at_padding / whole} if at_padding and whole else {}
            self._tell(share | self._idle() | self._numbers)

    def _idle(self) -> dict[str, float]:
        """Return the share of texts without gradient, if the loss is of far more rows."""
        count, busy = len(self._has_gradient), sum(self._has_gradient)
        return {IDLE_TEXTS: 1 - busy / count} if 0 < MANY_ROWS * busy <= self._rows else {}


def padding_of(tokens: Tensor) -> Tensor:
    """Return where rows are padded, by their tokens alone, (N, T), of bool.

    Padding is a token that stands at one end only of rows, at least `SHORTEST_PADDING` times in
    some of them. The token next to the text is left out: it may be the end of a text or its
    beginning. Without padding, nowhere.
    """
    none = torch.zeros_like(tokens, dtype=torch.bool)
    if tokens.shape[1] <= SHORTEST_PADDING:
        return none
    for turned in (False, True):
        rows = tokens.flip(1) if turned else tokens
        ends = rows[:, -SHORTEST_PADDING:]
        padded = (ends == rows[:, -1:]).all(1)
        kinds = rows[padded, -1].unique()
        if len(kinds) != 1 or bool(padded.all()):
            continue
        is_kind = rows == kinds
        run = is_kind.flip(1).long().cumprod(1).flip(1).bool()
        if bool((is_kind & ~run).any()):
            continue
        inner = run & torch.cat([none[:, :1], run[:, :-1]], dim=1)
        return inner.flip(1) if turned else inner
    return none


def looked_up(rows: Tensor) -> tuple[Any, Tensor] | None:
    """Return the node that looked up all tokens of some rows, and these, (N, T); None without."""
    batches = lookups(rows)
    return batches[0] if len(batches) == 1 else None


def lookups(value: Tensor) -> list[tuple[Any, Tensor]]:
    """Return the nodes of a graph that look up word vectors, and their tokens, (N, T)."""
    # Positions are the same in all rows, and are looked up once. Where words are frozen, nothing is
    # left but positions and segments, of which there are few.
    nodes = [node for node in _lookups(value) if _is_batch(node._saved_indices)]
    widest = max((getattr(node, ROWS, 0) for node in nodes), default=0)
    if 0 < widest <= SEGMENTS:
        return []
    return [(node, node._saved_indices) for node in nodes if getattr(node, ROWS, 0) == widest]


def _is_batch(indices: Tensor) -> bool:
    return indices.ndim == 2 and len(indices) > 1


def _commonest(batches: list[Tensor]) -> dict[str, float]:
    """Return the share of the commonest token, without padding."""
    tokens = torch.cat([rows[~padding_of(rows)] for rows in batches])
    if not len(tokens):
        return {}
    return {COMMONEST_TOKEN: float(tokens.unique(return_counts=True)[1].max()) / len(tokens)}


def _lookups(value: Tensor) -> list[Any]:
    """Return the nodes of a graph that look up vectors of tokens."""
    waiting, visited, nodes = [value.grad_fn], set[Any](), list[Any]()
    while waiting and len(visited) < MOST_NODES:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        if "Convolution" in node.name():
            return []
        visited.add(node)
        nodes += [node] if node.name() == LOOKUP else []
        waiting += [following for following, _ in node.next_functions]
    return nodes

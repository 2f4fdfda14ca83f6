"""Does a gradient cache written by hand hand each row's gradient to that row's second pass?

A criterion gets embeddings without a graph, keeps their gradient, and the encoder embeds the texts
once more, with a graph, to receive it (Gao et al. 2021, GradCache). Rows of the second pass are
known by their embeddings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gradlab.monitor.weak_hooks import weakly

# Numbers of the records: share of the cached rows that a second pass embeds with a graph, and
# mean cosine of their cached gradients and those that arrive there.
REPLAYED, REPLAYED_COSINE = "replayed_rows", "replayed_cosine"
REPLAY_NUMBERS = (REPLAYED, REPLAYED_COSINE)
# Mean cosine of the rows of an output with their nearest cached rows, from which on it is a second
# pass: dropout changes embeddings between two passes.
SAME_ROWS = 0.8


class Replay:
    """Follows cached embeddings until the next step of an optimizer."""

    def __init__(self, views: Sequence[Tensor], tell: Callable[[dict[str, float]], None]) -> None:
        """Begin to look.

        Args:
            views: embeddings that the criterion got, (N, D) each, leaves with a gradient to come.
            tell: is called with `REPLAY_NUMBERS`, at the step.
        """
        self._views, self._tell, self._has_ended = list(views), tell, False
        self._rows = F.normalize(torch.cat([view.detach() for view in views]), dim=1)
        self._arrived: dict[int, Tensor] = {}
        self._places: dict[nn.Module, list[int]] = {}  # rows in the outputs of each module
        self._unlike: set[nn.Module] = set()  # modules with outputs that are no such rows
        self._hooks = [
            register_module_forward_hook(weakly(self._look_at_output)),
            register_optimizer_step_pre_hook(weakly(self._before_step)),
        ]

    def end(self) -> None:
        """Stop looking."""
        for hook in self._hooks:
            hook.remove()

    def _look_at_output(self, module: nn.Module, inputs: Any, output: Any) -> None:
        is_due = torch.is_grad_enabled() and not self._has_ended
        if not is_due or any(view.grad is None for view in self._views):
            return
        for rows in _tensors(output):
            if rows.ndim == 2 and rows.shape[1] == self._rows.shape[1] and rows.requires_grad:
                self._follow(module, rows)

    def _follow(self, module: nn.Module, rows: Tensor) -> None:
        """Wait for the gradient of an output, if its rows are cached ones."""
        cosines = F.normalize(rows.detach().to(self._rows.dtype), dim=1) @ self._rows.T
        highest, places = cosines.max(1)
        if float(highest.mean()) < SAME_ROWS:
            self._unlike.add(module)
            return
        self._places.setdefault(module, []).extend(places.tolist())
        rows.register_hook(functools.partial(self._arrive, places.tolist()))

    def _arrive(self, places: list[int], gradient: Tensor) -> None:
        self._arrived.update(zip(places, gradient.detach(), strict=True))

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._has_ended:
            return
        # The hooks stay until the next record: none may go while an optimizer walks through them.
        self._has_ended = True
        gradients = [view.grad for view in self._views if view.grad is not None]
        # Much dropout moves rows so far that some are nearest to the same one, or to none.
        is_certain = all(
            len({*places}) == len(places) and module not in self._unlike
            for module, places in self._places.items()
        )
        if not self._arrived or not is_certain or len(gradients) < len(self._views):
            return
        own, places = torch.cat(gradients), [*self._arrived]
        cosines = F.cosine_similarity(torch.stack([*self._arrived.values()]), own[places], dim=1)
        self._tell({
            REPLAYED: len(places) / len(own), REPLAYED_COSINE: float(cosines.double().mean()),
        })  # fmt: skip


def are_cached(views: Sequence[Tensor]) -> bool:
    """Return whether embeddings are leaves that wait for a gradient, as those of a cache."""
    return bool(views) and all(view.is_leaf and view.requires_grad for view in views)


def _tensors(output: Any) -> Iterator[Tensor]:
    """Yield the tensors of a module's output."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        yield from filter(torch.is_tensor, output.values())
    elif isinstance(output, tuple | list):
        yield from filter(torch.is_tensor, output)

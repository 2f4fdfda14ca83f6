"""What part do the labels of its rows have in a loss of one's own?"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from gradlab.decomposition.loss_copy import independent_copy
from gradlab.scale.processes import several_processes
from gradlab.seeds import random_state_kept

# Names of what is known of a loss's labels: whether rows have any, whether the loss keeps its value
# where they are exchanged, whether classes have places of their own in it, its values where
# cosines are its scores, all 0, and the reverse, and whether rows whose cosines are the scores or
# the reverse may exchange their scores without a change of it.
HAS_LABELS, IGNORED, PLACED = "rows_have_labels", "labels_ignored", "classes_have_places"
EXCHANGEABLE = "scores_exchangeable"
# Name of whether the third column of a loss has a row for each anchor, and no gradient.
TARGETS = "targets_in_third_column"
EQUAL = 1e-9  # relative difference of two values that is rounding
AS_SCORED, AT_RIGHT_ANGLES, REVERSED = "as_scored", "at_right_angles", "against_scores"


def labels_in(arguments: Sequence[Any], counts: set[int]) -> list[Tensor]:
    """Return the arguments that hold a number for each of so many rows, and not always the same."""
    return [entry for entry in arguments if any(_are_labels(entry, count) for count in counts)]


def classes_of(arguments: Sequence[Any], rows: Tensor) -> Tensor | None:
    """Return the argument with a whole number for each row, or None."""
    return next((entry for entry in arguments if _are_classes(entry, rows)), None)


def label_trials(
    loss: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], count: int
) -> dict[str, float]:
    """Return how copies of a loss of rows with labels react to them; see the names above.

    Args:
        loss: the loss, which is left as it is.
        args: its arguments in order.
        kwargs: its arguments by name.
        count: number of rows.
    """
    arguments = (*args, *kwargs.values())
    labels = labels_in(arguments, {count})
    if not labels or several_processes():
        return {}

    def value(change: Callable[[Any], Any]) -> float:
        rows, names = tree_map_only(
            Tensor, lambda entry: _in_double(change(entry)), (tuple(args), dict(kwargs))
        )
        return float(independent_copy(loss)(*rows, **names))

    def relabelled(change: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
        return lambda entry: change(entry) if _are_labels(entry, count) else entry

    # Rows exchange their labels, and all have the label of the first or the last row: absolute
    # differences from labels that are all lower add up to the same where they are exchanged.
    relabellings = (
        *(lambda entry: entry, lambda entry: entry, lambda entry: entry.roll(1)),
        *(lambda entry: entry[:1].expand(count), lambda entry: entry[-1:].expand(count)),
    )
    with contextlib.suppress(Exception), random_state_kept(), torch.no_grad():
        if len({value(relabelled(change)) for change in relabellings}) == 1:
            return {IGNORED: 1.0}
    if not labels[0].is_floating_point():
        # Classes in reverse are as alike as before: only a classifier or proxies tell them apart.
        with contextlib.suppress(Exception), random_state_kept(), torch.no_grad():
            plain, reverse = (
                value(relabelled(change)) for change in (lambda entry: entry, _in_reverse)
            )
            return {PLACED: 1.0} if abs(plain - reverse) > EQUAL * abs(plain) else {}
    views = [entry for entry in arguments if isinstance(entry, Tensor) and entry.ndim == 2]
    if len(labels) == 1 and labels[0].is_floating_point() and len(views) == 2:
        with contextlib.suppress(Exception), random_state_kept(), torch.no_grad():
            pairs = _pairs(views[0].shape, labels[0])
            values = {
                name: value(functools.partial(_replaced, views=views, pair=pair))
                for name, pair in pairs.items()
            }
            exchange = relabelled(lambda entry: entry.roll(1))
            changes = []
            for name in (AS_SCORED, REVERSED):
                fit = functools.partial(_replaced, views=views, pair=pairs[name])
                exchanged = value(functools.partial(_in_turn, changes=(fit, exchange)))
                changes.append(abs(exchanged - values[name]))
            # Of a loss that is 0, as beyond its margin, equal values say nothing.
            scale = max(map(abs, values.values()))
            is_equal = max(changes) <= EQUAL * scale and scale > 0
            return values | ({EXCHANGEABLE: 1.0} if is_equal else {})
    return {}


def differ(labels: Tensor) -> bool:
    """Return whether rows that exchange their labels are alike otherwise than before."""
    if labels.is_floating_point():
        return not bool(torch.equal(labels, labels.roll(1)))
    return 1 < len(labels.unique()) < len(labels)


def _in_reverse(labels: Tensor) -> Tensor:
    return labels if labels.is_floating_point() else labels.max() - labels


def _pairs(shape: torch.Size, scores: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Return unit rows of two views whose cosines are the scores, all 0, and the scores reversed.

    Scores beyond those of cosines are brought to the range from 0 to 1.
    """
    draw = torch.Generator().manual_seed(0)
    rows = F.normalize(torch.randn(shape, generator=draw, dtype=torch.float64), dim=1)
    normals = torch.randn(shape, generator=draw, dtype=torch.float64)
    normals = F.normalize(normals - (normals * rows).sum(1, keepdim=True) * rows, dim=1)
    targets = _in_double(scores)[:, None]
    low, high = targets.min(), targets.max()
    if low < -1 or high > 1:
        targets = (targets - low) / (high - low)
        low, high = targets.min(), targets.max()
    cosines = {AS_SCORED: targets, AT_RIGHT_ANGLES: 0 * targets, REVERSED: low + high - targets}
    return {
        name: (rows, cosine * rows + (1 - cosine**2).clamp(min=0).sqrt() * normals)
        for name, cosine in cosines.items()
    }


def _replaced(entry: Any, views: Sequence[Tensor], pair: Sequence[Tensor]) -> Tensor:
    """Return the rows of a pair in place of a view, and other tensors as they are."""
    return next((rows for view, rows in zip(views, pair, strict=True) if entry is view), entry)


def _in_turn(entry: Any, changes: Sequence[Callable[[Any], Any]]) -> Any:
    """Return an argument after changes, one after the other."""
    for change in changes:
        entry = change(entry)
    return entry


def _in_double(entry: Tensor) -> Tensor:
    entry = entry.detach().cpu()
    return entry.double() if entry.is_floating_point() else entry


def _are_classes(entry: Any, rows: Tensor) -> bool:
    is_whole = isinstance(entry, Tensor) and not entry.is_floating_point()
    return is_whole and entry.shape == rows.shape[:1] and entry.dtype != torch.bool


def _are_labels(entry: Any, count: int) -> bool:
    return isinstance(entry, Tensor) and entry.shape == (count,) and differ(entry)

"""What does a loss of one's own compute? Its values on batches whose answer is known."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlab.batch.batch import Batch
from gradlab.losses.base import Loss
from gradlab.seeds import random_state_kept, seed_everything

# Sentences of the batches on which a loss is tried.
TRIED = 8
# Name of whether a loss draws numbers of its own: its value differs with the seed, and only so.
OWN_NOISE = "own_noise"
# Distance of gathered rows from their common direction.
GATHERED = 0.5
# Ways in which their embeddings are turned.
TURNS = 4
# Calls of a loss on one batch, which differ if it draws numbers of its own.
DRAWS = 8
# Batches of random rows that tell of a loss which cannot be computed for equal embeddings.
OF_RANDOM = ("drawn", "exchanged", "turned_apart")
Values = dict[str, Any]


def values_on_known_batches(
    function: Callable[..., Any], width: int, length: float = 1.0, further: int = 0
) -> Values:
    """Return the values of a loss of two views on batches of orthogonal sentences.

    Args:
        function: (anchors, positives, *further) -> loss, called without gradient.
        width: dimensions of the embeddings.
        length: of the embeddings that are trained, which a loss of dot products sees.
        further: columns of candidates beside the positives, such as hard negatives, which are
            random rows here.

    Returns:
        ``count``, the sentences; ``solved``, with positives like their anchors; ``alike``, with all
        embeddings the same; ``wrong``, with the next sentence as positive; ``after_next``, with the
        one after; ``halfway``, with positives at 60° of their anchors and at 90° of all others;
        ``to_first`` and ``to_last``, with all anchors like the first and like the last positive;
        ``drawn``, of random rows, and ``stretched``, of the same with each dimension multiplied by
        a factor of its own, which normalisation along the batch undoes, and ``by_entries``, with
        each number by one, which a loss of signs does not heed either; of the same random rows,
        ``exchanged``, with the next row as positive, and ``reordered``, with all pairs three places
        later; ``gathered`` and ``gathered_exchanged``, the same of random rows around one
        direction, as of an untrained encoder, where a cold softmax of cosines heeds more than the
        nearest row; `OWN_NOISE` where it draws numbers; of the random rows, ``turned_apart``, with
        all positives turned alike, which a loss does not heed that compares distances within one
        view with those within the other; and ``turned``, the differences of ``solved`` from
        ``wrong`` where all embeddings are turned, which a loss with weights of its own heeds. With
        further candidates there are ``further``, their number, and ``scaled``, of the random rows
        with each dimension of the candidates of a row multiplied by a factor of its own, which
        normalisation along the candidates undoes, and ``united``, with all candidates of a row like
        its anchor, as where there are several positives; the reaction to negatives is left out.
        Only those of random rows where others are not finite, as of distances relative to their
        mean. Empty where the loss cannot be computed.
    """
    count = min(TRIED, width // 2)
    if count < 3:
        return {}
    rows = length * torch.eye(width, dtype=torch.float64)
    anchors, directions = rows[:count], rows[count : 2 * count]
    batches = {
        "solved": (anchors, anchors.clone()),
        "alike": (anchors[:1].repeat(count, 1), anchors[:1].repeat(count, 1)),
        "wrong": (anchors, anchors.roll(1, 0)),
        "after_next": (anchors, anchors.roll(2, 0)),
        "shorter": (anchors / 2, anchors.roll(1, 0) / 2),
        "to_first": (anchors[:1].repeat(count, 1), anchors),
        "to_last": (anchors[-1:].repeat(count, 1), anchors),
        "halfway": (anchors, 0.5 * anchors + math.sqrt(0.75) * directions),
    }
    draw = torch.Generator().manual_seed(1)
    drawn = [torch.randn(count, width, generator=draw, dtype=torch.float64) for _ in range(2)]
    factors = torch.linspace(0.2, 5.0, width, dtype=torch.float64)
    batches["drawn"] = (drawn[0], drawn[1])
    batches["stretched"] = (drawn[0] * factors, drawn[1] * factors)
    entries = [torch.rand(view.shape, generator=_generator()).double() + 0.1 for view in drawn]
    batches["by_entries"] = (drawn[0] * entries[0], drawn[1] * entries[1])
    batches["exchanged"] = (drawn[0], drawn[1].roll(1, 0))
    turn = torch.linalg.qr(torch.randn(width, width, generator=_generator()).double()).Q
    batches["turned_apart"] = (drawn[0], drawn[1] @ turn)
    batches["reordered"] = (drawn[0].roll(3, 0), drawn[1].roll(3, 0))
    gathered = [rows[:1] + GATHERED * F.normalize(view, dim=1) for view in drawn]
    gathered = [length * F.normalize(view, dim=1) for view in gathered]
    batches["gathered"] = (gathered[0], gathered[1])
    batches["gathered_exchanged"] = (gathered[0], gathered[1].roll(1, 0))
    columns = torch.randn(further, count, width, generator=draw, dtype=torch.float64)
    columns = length * F.normalize(columns, dim=-1)

    def beside_columns(*views: Tensor) -> Any:
        return function(*views, *columns)

    with contextlib.suppress(Exception), torch.no_grad():  # a loss for batches of one size
        values = {name: float(beside_columns(*views)) for name, views in batches.items()}
        reaction: Values = {OWN_NOISE: 1.0} if _draws(beside_columns, batches["drawn"]) else {}
        if further:
            scales = torch.rand(count, width, generator=draw, dtype=torch.float64) + 0.1
            values["scaled"] = float(function(drawn[0], drawn[1] * scales, *columns * scales))
            values["united"] = float(function(anchors, *[anchors] * (further + 1)))
            values["further"] = float(further)
        else:
            reaction |= reaction_to_negatives(function, anchors, directions)
        if all(map(math.isfinite, values.values())):
            turned = _turned(beside_columns, batches["solved"], batches["wrong"])
            return {"count": float(count), **values, "turned": turned, **reaction}
        of_random = {name: values[name] for name in OF_RANDOM}
        return of_random if all(map(math.isfinite, of_random.values())) else {}
    return {}


def reaction_to_negatives(
    function: Callable[..., Any], anchors: Tensor, directions: Tensor
) -> Values:
    """Return how a loss of two views reacts to negatives, and whether it has a gradient.

    Args:
        function: (anchors, positives) -> loss.
        anchors: (N, D), orthogonal unit rows.
        directions: (N, D), further ones, orthogonal to all anchors.

    Returns:
        ``others``, N - 1; ``nearer``, how many of them raise the loss by coming nearer to the first
        anchor (to a cosine of 0.8) than its positive (0.6), ``changed``, how many change it at all,
        as with a layer as the score, and ``almost``, whether one raises it that comes almost as
        near (0.58), which a loss of semi-hard negatives heeds; ``all_nearer``, the change of the
        loss where all come nearer; ``rest``, the loss where none does; the norms of its gradient
        there, ``slope``, and at random rows, ``random_slope``, of which ``positive_slope`` is that
        of the positives. Empty where the loss draws numbers of its own, or cannot be computed.
    """
    # Each at a cosine of 0.6 to its own anchor, and of 0 to all others.
    positives = 0.6 * anchors + 0.8 * directions
    # In place of the others' positives: at 0.6 to their own anchors too, and of 0.8 to the first.
    near = 0.6 * anchors + 0.8 * anchors[:1]
    # At 0.58 to the first, and at 0.6 to their own.
    almost = 0.6 * anchors + 0.58 * anchors[:1] + math.sqrt(1 - 0.6**2 - 0.58**2) * directions
    random = torch.randn((2, *anchors.shape), generator=torch.Generator().manual_seed(0))
    random = F.normalize(random.to(anchors.dtype), dim=-1)
    count, negatives = len(anchors), torch.arange(len(anchors))[:, None] > 0
    with contextlib.suppress(Exception):
        with torch.no_grad():
            settled, repeated = (float(function(anchors, positives)) for _ in range(2))
            rounding = 1e-5 * max(1.0, abs(settled))
            # Negatives that are drawn are told where all differ, and not by every two draws.
            draws = [float(function(*random)) for _ in range(DRAWS)]
            if max(draws) - min(draws) > rounding:
                return {}
            changes = [
                float(function(anchors, _exchanged(positives, near, [row]))) - settled
                for row in range(1, count)
            ]
            nearly = float(function(anchors, _exchanged(positives, almost, [1]))) - settled
            together = float(function(anchors, torch.where(negatives, near, positives)))
        (first_slope, second_slope), random_slopes = (
            _slopes(function, *views) for views in ((anchors, positives), random)
        )
        slopes = [math.hypot(first_slope, second_slope), math.hypot(*random_slopes)]
        finite = all(map(math.isfinite, [settled, together, *slopes]))
        if finite and abs(repeated - settled) <= rounding:
            return {
                "others": count - 1.0, "nearer": float(sum(c > rounding for c in changes)),
                "changed": float(sum(abs(c) > rounding for c in changes)),
                "almost": float(nearly > rounding),
                "all_nearer": together - settled if abs(together - settled) > rounding else 0.0,
                "rest": settled, "slope": slopes[0], "random_slope": slopes[1],
                "positive_slope": random_slopes[1],
            }  # fmt: skip
    return {}


def departure(loss: Loss | None, anchors: Tensor, positives: Tensor, value: float) -> str:
    """Return by which mistake InfoNCE would have a value that it has not; empty if by none.

    Args:
        loss: the loss that was named.
        anchors: (N, D) unit rows.
        positives: (N, D) unit rows.
        value: the loss that was trained.
    """
    temperature = getattr(loss, "temperature", None)
    if loss is None or loss.name != "infonce" or not isinstance(temperature, float):
        return ""
    logits, own = anchors @ positives.T / temperature, torch.arange(len(anchors))
    own = own.to(logits.device)
    all_rows = torch.cat([anchors, positives])
    mistakes = {
        "softmax twice": F.cross_entropy(logits.softmax(1), own),
        "first row as target": F.cross_entropy(logits, torch.zeros_like(own)),
        "next row as target": F.cross_entropy(logits, own.roll(-1)),
        "own similarity": F.cross_entropy(
            all_rows @ all_rows.T / temperature,
            torch.arange(len(all_rows), device=own.device).roll(len(own)),
        ),
        "sum": F.cross_entropy(logits, own, reduction="sum"),
        "no temperature": F.cross_entropy(logits * temperature, own),
    }
    close = [n for n, v in mistakes.items() if abs(float(v) - value) <= 1e-4 * abs(value)]
    return close[0] if len(close) == 1 else ""


def has_value(
    loss: Callable[[Batch], Any], views: Batch, trained: float, tolerance: float
) -> tuple[float, bool]:
    """Return the value of a loss on a batch, and whether it is the trained one, up to rounding."""
    with torch.no_grad():
        computed = float(loss(views))
        if abs(computed - trained) <= tolerance * abs(trained):
            return computed, True
        # A loss near 0 may be the difference of much larger numbers, with their rounding
        # errors, which the loss of embeddings that do not belong together shows.
        wrong = dataclasses.replace(views, positives=views.positives.roll(1, dims=0))
        error = abs(computed - trained)
        return computed, error <= tolerance * abs(float(loss(wrong))) < math.inf


def _draws(function: Callable[..., Any], views: tuple[Tensor, ...]) -> bool:
    """Return whether the value of a loss differs with the seed of random numbers, and only so."""
    values = []
    with random_state_kept():
        for seed in (0, 0, 1):
            seed_everything(seed)
            values.append(float(function(*views)))
    return values[0] == values[1] != values[2]


def _turned(function: Callable[..., Any], solved: Any, wrong: Any) -> list[float]:
    """Return the differences of a loss on two batches, turned alike in several ways."""
    draw = _generator()
    width, differences = solved[0].shape[1], list[float]()
    for _ in range(TURNS):
        turn = torch.linalg.qr(torch.randn(width, width, generator=draw).double()).Q
        values = [float(function(*(rows @ turn for rows in views))) for views in (solved, wrong)]
        differences.append(values[0] - values[1])
    return differences


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _exchanged(rows: Tensor, replacements: Tensor, places: list[int]) -> Tensor:
    rows = rows.clone()
    rows[places] = replacements[places]
    return rows


def _slopes(
    function: Callable[..., Any], anchors: Tensor, positives: Tensor
) -> tuple[float, float]:
    """Return the norms of the gradient with respect to either view; 0 where none reaches it."""
    views = [view.detach().clone().requires_grad_() for view in (anchors, positives)]
    with torch.enable_grad():
        value = function(*views)
        if not value.requires_grad:
            return 0.0, 0.0
        slopes = torch.autograd.grad(value.sum(), views, allow_unused=True)
    first, second = (0.0 if slope is None else float(slope.double().norm()) for slope in slopes)
    return first, second

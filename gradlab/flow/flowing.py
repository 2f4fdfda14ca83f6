"""`flow`: the gradient flow of a loss, from a batch to where it leads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradlab.arrays import Array, Float, Int, to_numpy, unit_rows
from gradlab.batch.batch import KINDS
from gradlab.errors import GradlabError, check_whole
from gradlab.flow.curves import Course
from gradlab.flow.known_minima import best_reference, descends
from gradlab.flow.minibatches import Minibatches
from gradlab.flow.result import Flow
from gradlab.flow.runge_kutta import Stepper, bounded_step, fixed_size, largest
from gradlab.flow.velocity import VelocityField
from gradlab.gradient.components_and_autograd import check_side
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss, takes_loss
from gradlab.progress_bars import progress_bar
from gradlab.seeds import random_generator

AT_REST = 1e-10  # largest velocity at a point of rest, as a share of the largest before
SLOW = 0.01  # the same of an embedding that hardly moves while time doubles, after the last step
WINDOW = 50  # steps along a jump after which the net displacement is measured
STUCK = 5.0  # net displacement of a window in which nothing moves, in displacements of a step


@takes_loss
def flow(
    loss: str | Loss,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    groups: Int[Array, n] | None = None,
    side: str = "both",
    negatives_move: bool = False,
    batch_size: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    last_time: float = math.inf,
    steps: int = 1000,
    tolerance: float = 1e-4,
    normalize: bool = False,
    in_batch_negatives: bool = True,
    progress: bool | None = None,
    **context: Any,
) -> Flow:
    """Let embeddings flow against the gradient of a loss, and say where that ends.

    Every embedding moves freely on the unit sphere: ``dh_i/dt = -T_i ∂(Σ_k L_k)/∂h_i``. There is no
    encoder. The end says what a loss asks for, not what a network can do. Computed in float64, in
    steps of an embedded Runge-Kutta pair of order 2(3); the same input gives the same result.

    Args:
        loss: a loss, or its name for the published settings.
        anchors, positives, extra_negatives: unit rows, as in `gradlab.components`.
        groups: (n,) whole numbers such as topics, for measuring only; None takes ``labels``. A loss
            does not see them.
        side: the view that moves: ``"both"``, ``"anchors"`` or ``"positives"``.
        negatives_move: whether extra and own negatives move too.
        batch_size: sentences per batch, drawn anew for each step, as in training; None takes all.
            Steps then have a fixed size in time, and the end is never called "at rest".
        shuffle: whether each epoch draws new batches; False repeats the batches of the first.
        seed: seed of the batches.
        last_time: time at which to end at the latest.
        steps: largest number of steps.
        tolerance: largest error of a step, radians.
        normalize, in_batch_negatives, context: as in `gradlab.components`.
        progress: whether to show a progress bar after two seconds; None does so on a terminal.

    Returns:
        A `Flow`: embeddings at the end, curves over time, and how it ended.

    Raises:
        GradlabError: as `gradlab.components`; a setting is out of range.

    Example:
        >>> import gradlab
        >>> batch = gradlab.flow.synthetic_batch(topics=8, sentences=1, dim=16, duplicates=0)
        >>> ended = gradlab.flow("infonce(temperature=0.5)", batch.anchors, batch.positives)
        >>> ended.end, round(ended.last["different_cosine"], 4)  # the simplex: -1/7
        ('at rest', -0.1429)
    """
    settings = {
        "side": side,
        "negatives_move": negatives_move,
        "batch_size": batch_size,
        "shuffle": shuffle,
        "seed": seed,
        "last_time": last_time,
        "steps": steps,
        "tolerance": tolerance,
    }
    _check_settings(side, steps, tolerance, last_time)
    loss = get_loss(loss)
    options = {"in_batch_negatives": in_batch_negatives, **context}
    arguments = _in_float64(loss, (anchors, positives, extra_negatives), normalize, options)
    moving = _moving_kinds(arguments, side, negatives_move)
    velocity_field = VelocityField(loss, arguments, moving)
    labels = _group_numbers(context.get("labels") if groups is None else groups, len(anchors))
    with progress_bar(None, progress, desc=loss.name, total=steps, unit="step") as bar:
        course = Course(velocity_field, labels, bar)
        if batch_size is None:
            end = _all_at_once(course, steps, last_time, tolerance)
        else:
            generator = random_generator(seed)
            batches = Minibatches(loss, arguments, moving, batch_size, shuffle, generator)
            end = _in_batches(course, batches, steps, last_time, tolerance)
    return _result(course, end, settings)


class _End(NamedTuple):
    """How a flow ended, and its rows there."""

    name: str
    rows: Tensor
    jump: bool = False


def _all_at_once(course: Course, steps: int, last_time: float, tolerance: float) -> _End:
    """Follow the flow of the whole batch."""
    velocity_field, stepper = course.velocity_field, Stepper(tolerance)
    rows = velocity_field.start
    velocity, time, window = velocity_field(rows), 0.0, rows
    for step in range(steps + 1):
        speed = largest(velocity.rows)
        course.fastest = max(course.fastest, speed)
        name, jump = "", False
        if speed <= AT_REST * course.fastest:
            name = "at rest"
        elif stepper.jumps and stepper.jumps % WINDOW == 0:
            stuck = largest(rows - window) <= STUCK * stepper.jump_angle
            jump = stuck and not stepper.refine()
            name, window = "at rest" if jump else "", rows
        elif not stepper.jumps:
            window = rows
        if not name and (step == steps or time >= last_time):
            name = "at rest" if _rests(course, speed, time, stepper) else "still moving"
        if name or course.due(time, step):
            push = course.record(time, step, rows, velocity, [(velocity_field, rows)])
            if course.stopped(push, speed):
                name, jump = "stopped learning", False
        if name:
            return _End(name, rows, jump)
        (rows, velocity, *_), size = stepper.step(velocity_field, rows, velocity, last_time - time)
        time = last_time if size == last_time - time else time + size
        course.bar.update()
    raise AssertionError("the loop returns at its last step")


def _rests(course: Course, speed: float, time: float, stepper: Stepper) -> bool:
    """Return whether no embedding would move by more than the tolerance while time doubles."""
    slow = speed * time * math.log(2) <= stepper.tolerance
    return slow and speed <= SLOW * course.fastest and not stepper.jumps


def _in_batches(
    course: Course, batches: Minibatches, steps: int, last_time: float, tolerance: float
) -> _End:
    """Follow the flow of one batch after another, in steps of a fixed size."""
    velocity_field, rows, time, size = course.velocity_field, course.velocity_field.start, 0.0, 0.0
    share = batches.size / velocity_field.batch.count
    for step, (batch_field, places) in enumerate(batches):
        moving = rows[places]
        velocity = batch_field(moving)
        over = step >= steps or time >= last_time
        if over or course.due(time, step):
            whole = velocity_field(rows)
            pairs = [(piece, rows[numbers]) for piece, numbers in batches.epoch()]
            push = course.record(time, step, rows, whole, pairs)
            if course.stopped(push, largest(velocity.rows)):
                return _End("stopped learning", rows)
        if over:
            break
        size = size or fixed_size(batch_field, moving, velocity, tolerance)
        rows = rows.clone()
        rows[places] = bounded_step(batch_field, moving, velocity, size)
        time += size * share
        course.bar.update()
    return _End("still moving", rows)


def _result(course: Course, end: _End, settings: Mapping[str, Any]) -> Flow:
    """Return the embeddings at the end, the curves, and what is known of where it ended."""
    velocity_field = course.velocity_field
    whole, judged = settings["batch_size"] is None, end.name == "at rest" and not end.jump
    kinds = zip(KINDS, velocity_field.batch_at(end.rows).embeddings, strict=True)
    return Flow(
        loss=velocity_field.loss,
        embeddings={name: kind.numpy() for name, kind in kinds if kind is not None},
        curves={name: np.array(curve) for name, curve in course.curves.items()},
        end=end.name,
        jump=end.jump,
        descent=descends(velocity_field, end.rows) if judged else None,
        reference=best_reference(velocity_field, course.share) if whole else None,
        path=tuple(course.path),
        groups=course.groups,
        settings=settings,
    )


def _check_settings(side: str, steps: int, tolerance: float, last_time: float) -> None:
    check_side(side)
    check_whole("steps", steps, 1)
    _check_range("tolerance", tolerance, 1e-10, 0.05)
    _check_range("last_time", last_time, 0, math.inf)


def _moving_kinds(arguments: Mapping[str, Any], side: str, negatives_move: bool) -> tuple[str, ...]:
    """Return the names of the kinds of embeddings that move."""
    moving = ("anchors", "positives") if side == "both" else (side,)
    if not negatives_move:
        return moving
    kinds = ("extra_negatives", "own_negatives")
    return (*moving, *(name for name in kinds if arguments.get(name) is not None))


def _check_range(name: str, number: float, low: float, high: float) -> None:
    if not low < number <= high:
        raise GradlabError(
            f"{name} must be a number above {low:g} and up to {high:g}, not {number!r}"
        )


def _in_float64(
    loss: Loss, views: Sequence[Array | None], normalize: bool, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Check the arguments of `gradlab.components`, and return them in torch and float64."""
    # Checked as given: the tolerance of unit rows is that of their dtype.
    batch = loss.batch(*views, **options, normalize=normalize).in_torch()
    kinds = dict(zip(KINDS, batch.embeddings, strict=True))
    rows = {name: _exact(kind.detach().cpu()) for name, kind in kinds.items() if kind is not None}
    return {**{name: _in_torch(option) for name, option in options.items()}, **rows}


def _in_torch(option: Any) -> Any:
    """Return an argument with its numpy arrays as tensors; a guide is a tuple of them."""
    if isinstance(option, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(option))
    if isinstance(option, (tuple, list)) and any(np.ndim(entry) > 1 for entry in option):
        return tuple(map(_in_torch, option))
    return option.cpu() if isinstance(option, Tensor) else option


def _exact(rows: Tensor) -> Tensor:
    """Return unit rows in float64; those of another dtype are unit only to its precision."""
    unit: Tensor = rows if rows.dtype == torch.float64 else unit_rows(rows.double())
    return unit


def _group_numbers(groups: Any, count: int) -> Int[np.ndarray, "n"] | None:
    if groups is None:
        return None
    numbers: np.ndarray = np.unique(to_numpy(groups), return_inverse=True)[1]
    if numbers.shape != (count,):
        raise GradlabError(
            f"groups must be {count} labels, one per sentence, not of shape {np.shape(groups)}"
        )
    return numbers

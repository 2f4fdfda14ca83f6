"""Steps along a flow: an embedded Runge-Kutta pair of order 2(3), projected on the sphere.

The pair is that of Bogacki and Shampine (1989). Its stages are evaluated on the sphere, which
extends the velocity to all of space by homogeneity: the extension keeps lengths, so the order of
the pair remains, and the projection after each step only removes the error along the rows.

Step sizes follow the estimated error in log time. A step's error may be at most `RELATIVE_ERROR`
of its own displacement, so that errors vanish with the velocity near a point of rest. That is
impossible where the velocity jumps, as at the edge of a hard gate: there, steps of a fixed small
angle are accepted.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor

from gradlab.flow.velocity import Velocity, VelocityField

LARGEST_ANGLE = 0.1  # radians; largest displacement of a row in one step
RELATIVE_ERROR = 0.1  # largest estimated error of a step, as a share of its displacement
GROWTH = 2.0  # largest factor between step sizes
# Least change of the velocity over a step that counts as a jump, per radian of displacement, in
# units of the largest velocity. Temperatures of .01 reach a tenth of it.
STEEP = 1000.0
JUMP_ANGLE = 0.02  # radians; displacement of steps across jumps, at first
SMALLEST_JUMP_ANGLE = 10.0  # the least such displacement, in tolerances
NEAR_JUMP = 10  # steps after a jump in which another is expected


class FlowStep(NamedTuple):
    """Rows (r, d) after a step, the velocity there, its displacement and error in radians.

    ``change`` is the largest change of a row's velocity over the step.
    """

    rows: Tensor
    velocity: Velocity
    displacement: float
    error: float
    change: float


def runge_kutta_step(
    velocity_field: VelocityField, rows: Tensor, velocity: Velocity, size: float
) -> FlowStep:
    """Take one step of this size in time."""
    first = velocity.rows
    second = velocity_field(_on_sphere(rows + size / 2 * first)).rows
    third = velocity_field(_on_sphere(rows + 3 * size / 4 * second)).rows
    shift = size * (2 / 9 * first + 1 / 3 * second + 4 / 9 * third)
    after = _on_sphere(rows + shift)
    last = velocity_field(after)
    error = size * (-5 / 72 * first + 1 / 12 * second + 1 / 9 * third - 1 / 8 * last.rows)
    return FlowStep(after, last, largest(shift), largest(error), largest(last.rows - first))


def largest(rows: Tensor) -> float:
    """Return the largest norm of a row."""
    return float(torch.linalg.vector_norm(rows, dim=-1).max())


@dataclasses.dataclass
class Stepper:
    """Adaptive steps.

    Attributes:
        tolerance: largest estimated error of a step, radians.
        size: size of the next try in time; 0 before the first step.
        near_jump: number of further steps in which a jump of the velocity is expected.
        jumps: number of steps in a row, up to the last, of which none was far from a jump.
        fastest: largest velocity so far.
        jump_angle: largest displacement of a step across a jump, radians.
    """

    tolerance: float
    size: float = 0.0
    fastest: float = 0.0
    jump_angle: float = JUMP_ANGLE
    near_jump: int = 0
    jumps: int = 0

    def refine(self) -> bool:
        """Take smaller steps across jumps from now on; return False if they are the smallest."""
        smallest = SMALLEST_JUMP_ANGLE * self.tolerance
        refined = self.jump_angle > smallest
        self.jump_angle = max(self.jump_angle / 4, smallest)
        return refined

    def step(
        self, velocity_field: VelocityField, rows: Tensor, velocity: Velocity, longest: float
    ) -> tuple[FlowStep, float]:
        """Take one step of at most ``longest`` in time; return it with its size."""
        speed = largest(velocity.rows)
        self.fastest = max(self.fastest, speed)
        size = min(self.size or self.tolerance / speed, LARGEST_ANGLE / speed, longest)
        while True:
            step = runge_kutta_step(velocity_field, rows, velocity, size)
            allowed = min(self.tolerance, RELATIVE_ERROR * step.displacement)
            if step.error <= allowed or self._crosses_jump(step):
                break
            size *= min(max(_factor(allowed, step.error), 0.1), 0.5)
        jump = step.error > allowed
        if jump:
            self.size = self.jump_angle / max(largest(step.velocity.rows), 1e-300)
        else:
            self.size = size * min(_factor(allowed, step.error), GROWTH)
        self.near_jump = NEAR_JUMP if jump else max(self.near_jump - 1, 0)
        self.jumps = self.jumps + 1 if self.near_jump else 0
        return step, size

    def _crosses_jump(self, step: FlowStep) -> bool:
        steep = step.change > STEEP * self.fastest * step.displacement
        return step.displacement <= self.jump_angle and (steep or self.near_jump > 0)


def fixed_size(
    velocity_field: VelocityField, rows: Tensor, velocity: Velocity, tolerance: float
) -> float:
    """Return a step size for batches: small in angle, and accurate on this batch."""
    size = LARGEST_ANGLE / max(largest(velocity.rows), 1e-300)
    while True:
        step = runge_kutta_step(velocity_field, rows, velocity, size)
        if step.error <= max(RELATIVE_ERROR * step.displacement, tolerance):
            return size
        size /= 2


def bounded_step(
    velocity_field: VelocityField, rows: Tensor, velocity: Velocity, size: float
) -> Tensor:
    """Return the rows after one step, shortened if it moved a row by more than `LARGEST_ANGLE`."""
    size = min(size, LARGEST_ANGLE / max(largest(velocity.rows), 1e-300))
    return runge_kutta_step(velocity_field, rows, velocity, size).rows


def _on_sphere(rows: Tensor) -> Tensor:
    unit: Tensor = rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return unit


def _factor(allowed: float, error: float) -> float:
    """Return the factor of the step size at which the error would be somewhat below ``allowed``."""
    return 0.9 * (allowed / error) ** (1 / 3) if error > 0 else GROWTH

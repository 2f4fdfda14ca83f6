"""Simulation of a loss given as code, from the gradient of one anchor in batches at drawn angles.

The anchor's positive, each negative and each other anchor have a dimension of their own. In that
dimension, the gradient is the vector's coefficient times a sine, so no system has to be solved.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.arrays import Float, divide, finite, recording_gradients
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.simulation.monte_carlo import PASS, Estimate, median_and_error, moments_of
from gradlab.simulation.setting import Setting
from gradlab.waiting import progress_bar

# Time budget without grid and batches; most points per axis; fewest and most batches per cell.
SECONDS, POINTS, FEWEST, MOST = 60.0, 24, 8, 1000


def affordable(
    loss: Loss, setting: Setting, grid: Any, batches: int | None, cells: int | None
) -> tuple[Any, int]:
    """Return the grid and the number of batches per cell, as fine as `SECONDS` allow if not given.

    ``cells`` is the number of cells if both axes are given as angles, else None.
    """
    generator = torch.Generator().manual_seed(0)

    def angles(negatives: int) -> tuple[Tensor, Tensor]:
        z = torch.randn(2, negatives + 1, generator=generator, dtype=torch.float64)
        return 0.5 + setting.sigma_pos * z[0], 1.0 + setting.sigma_neg * z[1, 1:]

    # Raises a clear error for unsuitable losses.
    loss.components_of(Batch(*_views(*angles(min(setting.negatives, 7)))))
    positive, negative = angles(setting.negatives)
    _coefficients(loss, positive, negative)
    began = time.perf_counter()
    for _ in range(3):
        _coefficients(loss, positive, negative)
    evaluations = SECONDS / ((time.perf_counter() - began) / 3)
    if grid is None and cells is None:
        grid = int(min(POINTS, max(5, math.sqrt(evaluations / (batches or 4 * FEWEST)))))
    points = grid if isinstance(grid, tuple) else (grid or 1, grid or 1)
    count = cells or points[0] * points[1]
    return grid, batches or int(min(MOST, max(FEWEST, evaluations // count)))


def sampled(
    loss: Loss,
    setting: Setting,
    *,
    batches: int,
    generator: np.random.Generator,
    progress: bool | None,
) -> dict[str, Estimate]:
    """Return every quantity over the grid; dissipation is relative to its largest mean on it."""
    for name in ("pos", "neg"):
        at_an_end = bool((np.abs(np.sin(getattr(setting, f"mu_{name}"))) < 1e-6).any())
        if at_an_end and getattr(setting, f"sigma_{name}") == 0:
            raise GradlabError(
                f"mu_{name} of 0 or π with no spread leaves the gradient without a direction; "
                f"give sigma_{name}"
            )
    # All cells use the same draws.
    positive = torch.from_numpy(generator.standard_normal((batches, 1 + setting.negatives)))
    negative = torch.from_numpy(generator.standard_normal((batches, setting.negatives)))
    shape = (setting.mu_pos.size, setting.mu_neg.size, batches)
    push, pull, share = (np.empty(shape) for _ in range(3))
    with progress_bar(None, progress, total=shape[0] * shape[1], unit="cell") as bar:
        for row, column in np.ndindex(shape[:2]):
            near = setting.mu_pos[row] + setting.sigma_pos * positive
            far = setting.mu_neg[column] + setting.sigma_neg * negative
            for draw in range(batches):
                at = row, column, draw
                pushes, pull[at] = _coefficients(loss, near[draw], far[draw])
                push[at] = pushes.sum()
                share[at] = divide(np.abs(pushes).max(), np.abs(pushes).sum())
            bar.update()
    unit = float(np.abs(push.mean(-1)).max()) or 1.0
    dissipation = moments_of(push / unit)
    passing = moments_of(finite(share), (push >= PASS * unit) & np.isfinite(share))
    mean = np.where(passing.count > 0, passing.mean, np.nan)  # no batch passes: NaN
    return {
        "gradient_dissipation": Estimate(dissipation.mean, dissipation.standard_error),
        "ratio": Estimate(*median_and_error(divide(pull, push))),
        "hardest_share": Estimate(mean, passing.standard_error, passing.count / batches),
    }


def _views(
    positive: Float[Tensor, "sentences"], negative: Float[Tensor, "k"]
) -> tuple[Float[Tensor, "sentences d"], Float[Tensor, "sentences d"]]:
    """Return anchors and positives of 1 + K sentences in 2 + 2K dimensions.

    The angles are those of each anchor to its positive, and of the first anchor to the positives of
    the others.
    """
    count = len(negative)
    other, own = torch.arange(1 + count), torch.arange(1, 1 + count)
    angles = torch.cat([positive[:1], negative])
    positives = torch.zeros(1 + count, 2 + 2 * count, dtype=torch.float64)
    positives[:, 0] = angles.cos()
    positives[other, 1 + other] = angles.sin()
    anchors = positive.cos()[:, None] * positives
    anchors[own, 1 + count + own] = positive[1:].sin()
    anchors[0] = 0.0
    anchors[0, 0] = 1.0
    return anchors, positives


def _coefficients(
    loss: Loss, positive: Float[Tensor, "sentences"], negative: Float[Tensor, "k"]
) -> tuple[Float[np.ndarray, "k"], float]:
    """Return ``∂L/∂S_0j + ∂L/∂Q_0j`` for the first anchor's negatives, (K,), and its pull.

    The angles are those of `_views`.
    """
    count = len(negative)
    with recording_gradients():
        anchors, positives = _views(positive, negative)
        anchor = anchors[:1].requires_grad_()
        value = loss(torch.cat([anchor, anchors[1:]]), positives, reduction="sum")
        (gradient,) = torch.autograd.grad(value, anchor)
    # Each vector's entry in its own dimension is the sine of its angle.
    pull, across, within = torch.split(gradient[0, 1:], [1, count, count])
    same = within / positive[1:].sin()
    other = across / negative.sin() - same * positive[1:].cos()
    return (other + same).numpy(), float(-pull / positive[0].sin())

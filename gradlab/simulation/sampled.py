"""Simulation of a loss that is given as code: batches of vectors at drawn angles, and the gradient of one anchor of each.

The anchor's positive and each negative have a dimension of their own, and so have the other anchors. In these dimensions
the gradient is the coefficient of that vector times a sine, so that nothing has to be solved or decomposed.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.arrays import Float, divide
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.simulation.monte_carlo import PASS, Estimate, median_and_error
from gradlab.simulation.setting import Setting
from gradlab.waiting import progress_bar

# Seconds that a simulation may take where neither grid nor batches are given; points an axis, and fewest and most batches.
SECONDS, POINTS, FEWEST, MOST = 60.0, 24, 8, 1000


def affordable(
    loss: Loss, setting: Setting, grid: Any, batches: int | None, cells: int | None
) -> tuple[Any, int]:
    """Grid and batches a cell, those that are not given as fine as `SECONDS` allow.

    ``cells`` are those of a grid whose angles are given, or None.

    Raises:
        GradlabError: a loss that is not a function of dot products, or answers differently on the same batch.
    """
    few = dataclasses.replace(setting, negatives=min(setting.negatives, 7))
    z = torch.randn(2, few.negatives, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    loss.components_of(Batch(*_views(0.5, 1.0, few, z, z[0])))  # says in a line what a loss may not be
    z = torch.randn(2, setting.negatives, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _coefficients(loss, 0.5, 1.0, setting, z, z[:, 0])
    began = time.perf_counter()
    for _ in range(3):
        _coefficients(loss, 0.5, 1.0, setting, z, z[:, 0])
    evaluations = SECONDS / ((time.perf_counter() - began) / 3)
    if grid is None and cells is None:
        grid = int(min(POINTS, max(5, math.sqrt(evaluations / (batches or 4 * FEWEST)))))
    points = grid if isinstance(grid, tuple) else (grid or 1, grid or 1)
    count = cells or points[0] * points[1]
    return grid, batches or int(min(MOST, max(FEWEST, evaluations // count)))


def sampled(
    loss: Loss, setting: Setting, *, batches: int, generator: np.random.Generator, progress: bool | None
) -> dict[str, Estimate]:
    """Every quantity over the grid, with its standard error; dissipation is relative to its largest mean on the grid.

    Raises:
        GradlabError: a loss that cannot be called or differentiated.
    """
    for name in ("pos", "neg"):
        at_an_end = bool((np.abs(np.sin(getattr(setting, f"mu_{name}"))) < 1e-6).any())
        if at_an_end and getattr(setting, f"sigma_{name}") == 0:
            raise GradlabError(
                f"mu_{name} of 0 or π with no spread leaves the gradient without a direction; give sigma_{name}"
            )
    # The same draws serve every cell.
    positive = torch.from_numpy(generator.standard_normal((batches, 1 + setting.negatives)))
    z = torch.from_numpy(generator.standard_normal((batches, setting.negatives)))
    shape = (setting.mu_pos.size, setting.mu_neg.size, batches)
    push, pull, share = (np.empty(shape) for _ in range(3))
    with progress_bar(None, progress, total=shape[0] * shape[1], unit="cell") as bar:
        for row, mu_pos in enumerate(setting.mu_pos):
            for column, mu_neg in enumerate(setting.mu_neg):
                for draw in range(batches):
                    both = torch.stack([z[draw], positive[draw, 1:]])
                    negatives, attraction = _coefficients(
                        loss, mu_pos, mu_neg, setting, both, positive[draw, :1]
                    )
                    at = row, column, draw
                    push[at], pull[at] = negatives.sum(), attraction
                    share[at] = divide(np.abs(negatives).max(), np.abs(negatives).sum())
                bar.update()
    unit = float(np.abs(push.mean(-1)).max()) or 1.0
    passes = (push >= PASS * unit) & np.isfinite(share)
    count = passes.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):  # no batch passes: NaN
        mean = np.where(passes, share, 0).sum(-1) / count
        squares = np.where(passes, (share - mean[..., None]) ** 2, 0).sum(-1)
        error = np.sqrt(squares / (count - 1) / count)
    return {
        "gradient_dissipation": Estimate(
            push.mean(-1) / unit, push.std(-1, ddof=1) / math.sqrt(batches) / unit
        ),
        "ratio": Estimate(*median_and_error(divide(pull, push))),
        "hardest_share": Estimate(mean, error, count / batches),
    }


def _views(mu_pos: float, mu_neg: float, setting: Setting, z: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Anchors and positives, the first anchor being that whose angles were drawn; arguments as of `_coefficients`."""
    count = setting.negatives
    negative = mu_neg + setting.sigma_neg * z[0]
    own = mu_pos + setting.sigma_pos * z[1]
    angles = torch.cat([mu_pos + setting.sigma_pos * first[:1], negative])
    positives = torch.zeros(1 + count, 2 + 2 * count, dtype=torch.float64)
    positives[:, 0] = angles.cos()
    positives[torch.arange(1 + count), torch.arange(1, 2 + count)] = angles.sin()
    anchors = own.cos()[:, None] * positives[1:]
    anchors[torch.arange(count), torch.arange(2 + count, 2 + 2 * count)] = own.sin()
    anchor = torch.zeros(1, 2 + 2 * count, dtype=torch.float64)
    anchor[0, 0] = 1.0
    return torch.cat([anchor, anchors]), positives


def _coefficients(
    loss: Loss, mu_pos: float, mu_neg: float, setting: Setting, z: Tensor, first: Tensor
) -> tuple[Float[np.ndarray, "k"], float]:
    """What the loss does to the first anchor: ``∂L/∂S_0j`` of each other sentence, both views added, and the pull.

    ``z``, (2, K), are standard normal draws of the negatives' angles and of the angles between other anchors and their
    positives; ``first``, (1,), of the angle of the first anchor to its positive.
    """
    count = setting.negatives
    anchors, positives = _views(mu_pos, mu_neg, setting, z, first)
    with torch.enable_grad():
        anchor = anchors[:1].requires_grad_()
        value = loss(torch.cat([anchor, anchors[1:]]), positives, reduction="sum")
        (gradient,) = torch.autograd.grad(value, anchor)
    # Each vector has a dimension of its own, in which its sine stands.
    sines = positives[torch.arange(1 + count), torch.arange(1, 2 + count)]
    own = anchors[1:, 2 + count :].diagonal()
    pull, across, within = gradient[0, 1], gradient[0, 2 : 2 + count], gradient[0, 2 + count :]
    same = within / own
    cosines = mu_pos + setting.sigma_pos * z[1]
    other = across / sines[1:] - same * cosines.cos()
    return (other + same).numpy(), float(-pull / sines[0])

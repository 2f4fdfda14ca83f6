"""Simulation of a loss given as code, from the gradient of one anchor in batches at drawn angles.

The anchor's positive, each negative and each other anchor have a dimension of their own. In that
dimension, the gradient is the vector's coefficient times a sine, so no system has to be solved.
"""

from __future__ import annotations

import dataclasses
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

    Raises:
        GradlabError: the loss is not a function of dot products, or its value differs between two
            calls on the same batch.
    """
    few = dataclasses.replace(setting, negatives=min(setting.negatives, 7))
    z = torch.randn(
        2, few.negatives, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    # Raises a clear error for unsuitable losses.
    loss.components_of(Batch(*_views(0.5, 1.0, few, z, z[0])))
    z = torch.randn(
        2, setting.negatives, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
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
    loss: Loss,
    setting: Setting,
    *,
    batches: int,
    generator: np.random.Generator,
    progress: bool | None,
) -> dict[str, Estimate]:
    """Return every quantity over the grid; dissipation is relative to its largest mean on the grid.

    Raises:
        GradlabError: the loss cannot be called or differentiated, or angles with a mean of 0 or π
            have no spread.
    """
    for name in ("pos", "neg"):
        at_an_end = bool((np.abs(np.sin(getattr(setting, f"mu_{name}"))) < 1e-6).any())
        if at_an_end and getattr(setting, f"sigma_{name}") == 0:
            raise GradlabError(
                f"mu_{name} of 0 or π with no spread leaves the gradient without a direction; "
                f"give sigma_{name}"
            )
    # All cells use the same draws.
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
    dissipation = moments_of(push / unit)
    passing = moments_of(finite(share), (push >= PASS * unit) & np.isfinite(share))
    mean = np.where(passing.count > 0, passing.mean, np.nan)  # no batch passes: NaN
    return {
        "gradient_dissipation": Estimate(dissipation.mean, dissipation.standard_error),
        "ratio": Estimate(*median_and_error(divide(pull, push))),
        "hardest_share": Estimate(mean, passing.standard_error, passing.count / batches),
    }


def _views(
    mu_pos: float, mu_neg: float, setting: Setting, z: Tensor, first: Tensor
) -> tuple[Tensor, Tensor]:
    """Return anchors and positives, with drawn angles at the first anchor; see `_coefficients`."""
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
    """Return ``∂L/∂S_0j + ∂L/∂Q_0j`` for the first anchor's negatives, (K,), and its pull.

    ``z``, (2, K), holds standard normal draws: for the negatives' angles, and for those between the
    other anchors and their positives. ``first``, (1,), is that for the first anchor's positive.
    """
    count = setting.negatives
    with recording_gradients():
        anchors, positives = _views(mu_pos, mu_neg, setting, z, first)
        anchor = anchors[:1].requires_grad_()
        value = loss(torch.cat([anchor, anchors[1:]]), positives, reduction="sum")
        (gradient,) = torch.autograd.grad(value, anchor)
    # Each vector's entry in its own dimension is its sine.
    sines = positives[torch.arange(1 + count), torch.arange(1, 2 + count)]
    own = anchors[1:, 2 + count :].diagonal()
    pull, across, within = gradient[0, 1], gradient[0, 2 : 2 + count], gradient[0, 2 + count :]
    same = within / own
    cosines = mu_pos + setting.sigma_pos * z[1]
    other = across / sines[1:] - same * cosines.cos()
    return (other + same).numpy(), float(-pull / sines[0])

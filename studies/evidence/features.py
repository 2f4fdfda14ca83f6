"""What a loss's three components are in the first steps, on one scale for all losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from torch import Tensor

from gradlab import Loss, components
from gradlab.gradient import alignment, uniformity

# What a prediction is made from, declared before it, and its rivals.
FEATURES = ("push", "hardest_share", "pull", "pull_squared")
RIVALS = ("alignment", "uniformity")


def summary(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Features of a loss from what :func:`measure` gives in each of the first steps.

    They are ``push`` in the second half of the steps, relative to the first step; means of the
    others; and the square of ``pull``.
    """
    table = pd.DataFrame(steps)
    later = table.push[len(table) // 2 :].mean(skipna=False)
    found = table.mean(skipna=False).to_dict() | {"push": later / table.push[0]}
    return found | {"pull_squared": found["pull"] ** 2}


def measure(loss: Loss, anchors: Tensor, positives: Tensor) -> dict[str, float]:
    """Of one batch of unit rows (N, D), means over anchors.

    Returns:
        ``push``: ``GD_i Σ_j |W_ij|``; ``hardest_share``: ``max_j |W_ij| / Σ_j |W_ij|``; ``pull``:
        the pull's share, ``ρ/(1 + ρ)`` with ``ρ`` the size of ``Σ_j W_ij R_i`` (of a diagonal ratio
        along the positive) by ``Σ_j |W_ij|``; and alignment and uniformity.
    """
    parts = components(loss, anchors, positives)
    size = parts.weight.abs().sum(-1)
    pull = parts.positive_weight
    if pull.ndim > 1:
        pull = (pull * positives * positives).sum(-1)
    pushed = size > 0
    rho = pull[pushed].abs() / size[pushed]
    share = parts.weight.abs().amax(-1)[pushed] / size[pushed]
    return {
        "push": float((parts.gradient_dissipation * size).mean()),
        "hardest_share": float(share.mean()),
        "pull": float((rho / (1 + rho)).mean()),
        "alignment": alignment(anchors, positives),
        "uniformity": uniformity(anchors),
    }

"""How does a loss differ from the nearest registered one on one batch? In words."""

from __future__ import annotations

import numpy as np

from gradlab.arrays import Float

# Fraction of the batch's largest dissipation up to which an anchor counts as left alone.
STOPPED = 0.01

# Coefficients of the negatives and pull of the positive.
Split = tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n"]]


def differences(loss: Split, nearest: Split, side: str) -> list[str]:
    """Return the differences between a loss and the nearest registered one, in words.

    Args:
        loss: (n, k) coefficients of the negatives, and the pull of the positives, (n,).
        nearest: the same of the registered loss, at the same scale.
        side: ``"anchors"`` or ``"positives"``.
    """
    n, traits, closest = len(loss[1]), _traits(*loss), _traits(*nearest)
    spread = "spread further" if traits["hardest"] < closest["hardest"] else "concentrated more"
    alone = f"{traits['stopped']:.0f}" if traits["stopped"] else "none"
    words = {
        "hardest": f"its weight is {spread}: the hardest negative has {{:.0%}} of it instead of "
        "{:.0%}",
        "same": f"{{:.0%}} of its push comes from the {side}' own view instead of {{:.0%}}",
        "stopped": f"it leaves {alone} of {n} {side} alone instead of {{1:.0f}}",
        "ratio": "its ratio is {:.3g} instead of {:.3g} (median)",
        "profile": "the average dissipation is {:.0%} of the largest instead of {:.0%}",
    }
    beyond = {"stopped": max(1, 0.05 * n), "ratio": 0.02 * abs(closest["ratio"])}
    return [
        text.format(traits[trait], closest[trait])
        for trait, text in words.items()
        if abs(traits[trait] - closest[trait]) > beyond.get(trait, 0.02)
    ] or ["no single trait stands out, many coefficients differ a little"]


def _traits(
    negatives: Float[np.ndarray, "n k"], positive: Float[np.ndarray, "n"]
) -> dict[str, float]:
    """Return averages over anchors that do not depend on the loss's scale; NaN if undefined."""
    n, push, dissipation = len(positive), np.abs(negatives), negatives.sum(axis=1)
    push = push[push.any(axis=1)]
    largest = np.abs(dissipation).max()
    open_ = np.abs(dissipation) > STOPPED * largest
    return {
        "hardest": float(np.mean(push.max(axis=1) / push.sum(axis=1))),
        "same": float(np.mean(push[:, n : 2 * n].sum(axis=1) / push.sum(axis=1))),
        "stopped": float(np.count_nonzero(~open_)),
        "ratio": float(np.median(positive[open_] / dissipation[open_])),
        "profile": float(np.mean(np.abs(dissipation)) / largest),
    }

"""Does a loss compare the score of each pair with the labels of all rows?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor

SAME_LOSS = 1e-6  # relative difference of two values of one loss


def broadcasts_labels(value_of: Callable[[Tensor], float], labels: Tensor) -> bool:
    """Return whether a loss stays the same where labels that are far apart exchange rows.

    Absolute differences from labels that are all lower than the scores add up to the same,
    exchanged. Of labels of which each second one is higher, and the rest is lower, only such
    differences do that of which each score has one from every label.

    Args:
        value_of: loss of a batch with some labels.
        labels: labels (rows,) of the batch; whole numbers name classes and are not looked at.
    """
    if not labels.is_floating_point() or labels.ndim != 1:
        return False
    places = torch.arange(len(labels), device=labels.device)
    reach = 1 + float(labels.max() - labels.min())
    far = torch.where(places % 2 == 0, labels.max() + reach, labels.min() - reach)
    with contextlib.suppress(Exception):  # a loss that takes labels of a range only
        value = value_of(far)
        if value == 0:  # a margin that is met, whatever the order
            return False
        # Reversed, labels that alternate stay as they are if their number is odd.
        orders = [far.flip(0)] if len(far) % 2 == 0 else []
        orders.append(torch.cat([far[::2], far[1::2]]))
        return all(abs(value_of(order) - value) <= SAME_LOSS * abs(value) for order in orders)
    return False

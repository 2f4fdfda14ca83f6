"""What is measured on a batch: numbers and histograms of its embeddings, and of a loss's gradient on them.

All of it happens on detached copies in float64, without a further pass through the encoder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.geometry.check import check_views
from gradlab.geometry.views import Views

# Of unit anchors and positives (N, D) and of the components on them, None where there are none: numbers by name.
Statistics = Callable[[Any, Any, Any], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Embeddings that a loss was computed from, as they were: of any length and dtype, perhaps on an accelerator.

    Attributes:
        anchors: (N, D).
        positives: (N, D), or None where the batch has one view only.
        extra_negatives: (M, D) or None.
        in_batch_negatives: whether the other sentences of the batch were negatives too.
        labels: whether the loss was given labels, so that rows of the two columns need not belong together.
        value: the loss that was computed from them, a scalar or several to be averaged, or None.
        half: whether it was computed in half precision.
        context: what else the loss saw: ``owners`` of the extra negatives, a ``guide``'s embeddings; see
            `gradlab.geometry.check.check_views`.
        encoded: (N, D), the anchors as the encoder gives them; None where no head comes after it.
    """

    anchors: Tensor
    positives: Tensor | None
    extra_negatives: Tensor | None = None
    in_batch_negatives: bool = True
    labels: bool = False
    value: Tensor | float | None = None
    half: bool = False
    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    encoded: Tensor | None = None

    @property
    def loss(self) -> float | None:
        """The loss that was computed, as a number."""
        return float(self.value.detach().mean()) if isinstance(self.value, Tensor) else self.value

    def views(self) -> Views:
        """What the loss saw as unit rows in float64 (on the CPU where the device has none); a single view stands for both.

        Raises:
            GradlabError: embeddings that are not finite or have no direction.
        """
        device = torch.device("cpu") if self.anchors.device.type == "mps" else self.anchors.device
        positives = self.anchors if self.positives is None else self.positives
        rows = [in_double(one, device) for one in (self.anchors, positives, self.extra_negatives)]
        context = {name: in_double(given, device) for name, given in self.context.items()}
        return check_views(*rows, normalize=True, in_batch_negatives=self.in_batch_negatives, **context)


def in_double(given: Any, device: torch.device) -> Any:
    """Detached rows in float64, and whole numbers as they are, of one tensor, several, or none."""
    if given is None:
        return None
    if not isinstance(given, Tensor):
        return [in_double(rows, device) for rows in given]
    rows = given.detach().to(device)
    return rows.double() if rows.is_floating_point() else rows


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What was measured on one snapshot, or on several on average.

    Attributes:
        values: numbers by name, see `gradlab.gradient.diagnostics`.
        distributions: histograms, see `gradlab.gradient.diagnostics.distributions`.
    """

    values: dict[str, float]
    distributions: dict[str, dict[float, float]]

    @classmethod
    def mean(cls, parts: Sequence[Measurement]) -> Measurement:
        """The average over snapshots of one size: of numbers that all have, of histograms over those that have them."""
        names = [name for name in parts[0].values if all(name in part.values for part in parts)]
        values = {name: float(np.mean([part.values[name] for part in parts])) for name in names}
        histograms: dict[str, list[Mapping[float, float]]] = {}
        for part in parts:
            for name, shares in part.distributions.items():
                histograms.setdefault(name, []).append(shares)
        return cls(values, {name: _mean(found) for name, found in histograms.items()})


def _mean(histograms: Sequence[Mapping[float, float]]) -> dict[float, float]:
    edges = sorted({edge for one in histograms for edge in one})
    return {edge: sum(one.get(edge, 0.0) for one in histograms) / len(histograms) for edge in edges}

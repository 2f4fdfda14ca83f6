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

from gradlab.errors import GradlabError
from gradlab.geometry.views import unit_rows

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
        value: the loss that was computed from them, or None.
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
    value: float | None = None
    half: bool = False
    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    encoded: Tensor | None = None

    def unit(self) -> Snapshot:
        """Detached unit rows in float64 (on the CPU where the device has no float64).

        Raises:
            GradlabError: embeddings that are not finite or have no direction.
        """
        rows = {name: getattr(self, name) for name in ("anchors", "positives", "extra_negatives", "encoded")}
        units: dict[str, Any] = {name: _unit(one) for name, one in rows.items() if one is not None}
        half = self.half or self.anchors.dtype in (torch.float16, torch.bfloat16)
        return dataclasses.replace(self, half=half, **units)


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
        quantities = dict.fromkeys(name for part in parts for name in part.distributions)
        return cls(
            values,
            {
                name: _mean([part.distributions[name] for part in parts if name in part.distributions])
                for name in quantities
            },
        )


def _mean(histograms: Sequence[Mapping[float, float]]) -> dict[float, float]:
    edges = sorted({edge for one in histograms for edge in one})
    return {edge: sum(one.get(edge, 0.0) for one in histograms) / len(histograms) for edge in edges}


def _unit(rows: Tensor) -> Tensor:
    rows = rows.detach()
    rows = (rows.cpu() if rows.device.type == "mps" else rows).double()
    norms = rows.norm(dim=1)
    if not bool(norms.isfinite().all()):
        raise GradlabError("an embedding is not finite")
    if not bool((norms > 0).all()):
        raise GradlabError("an embedding is zero, which has no direction")
    return unit_rows(rows)

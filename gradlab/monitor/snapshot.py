"""The embeddings of a batch, as a loss saw them, kept to be measured: detached copies, without a further pass through the encoder."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch

# How far a loss on captured embeddings may be from the one that was trained, relative: rounding in single and in half
# precision, amplified by 1/τ.
AGREEMENT, HALF_AGREEMENT = 1e-3, 5e-2


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Embeddings that a loss was computed from, as they were: of any length and dtype, perhaps on an accelerator."""

    anchors: Tensor  # (N, D)
    positives: Tensor | None  # (N, D); None where the batch has one view only
    extra_negatives: Tensor | None = None  # (M, D)
    in_batch_negatives: bool = True
    labels: bool = (
        False  # whether the loss was given labels: rows of the two columns need not belong together
    )
    value: Tensor | float | None = (
        None  # the loss that was computed from them: a scalar, or several to be averaged
    )
    half: bool = False  # whether it was computed in half precision
    # What else the loss saw, such as owners of the extra negatives; see `gradlab.batch.check.check_batch`.
    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    encoded: Tensor | None = (
        None  # (N, D), the anchors as the encoder gives them, where a head comes after it
    )
    columns: int = 2  # of sentences that the loss was given

    @property
    def loss(self) -> float | None:
        return float(self.value.detach().mean()) if isinstance(self.value, Tensor) else self.value

    @property
    def fits(self) -> bool:
        """Whether there is a positive for each anchor."""
        return self.positives is not None and self.positives.shape == self.anchors.shape

    def kept(self) -> Snapshot:
        """A copy, to be measured when training has gone on."""
        return Snapshot(**{f.name: _copied(getattr(self, f.name)) for f in dataclasses.fields(self)})

    def not_finite(self) -> float:
        """The share of the sentences of which an embedding is NaN or infinite."""
        finite = torch.isfinite(self.anchors).all(dim=1)
        if self.positives is not None and self.fits:
            finite &= torch.isfinite(self.positives).all(dim=1)
        return 1 - float(finite.double().mean())

    def agrees(self, found: float) -> bool:
        """Whether this is the loss that was computed, up to rounding."""
        assert self.loss is not None
        half = self.half or torch.finfo(self.anchors.dtype).bits < 32
        return abs(found - self.loss) <= (HALF_AGREEMENT if half else AGREEMENT) * max(1.0, abs(self.loss))

    def alone(self) -> Snapshot:
        """The embeddings without what may not fit the anchors: positives of another number, extra negatives, context."""
        positives = self.positives if self.fits else None
        return Snapshot(self.anchors, positives, half=self.half, encoded=self.encoded)

    def views(self) -> Batch:
        """What the loss saw as unit rows in float64 (on the CPU where the device has none); a single view stands for both.

        Raises:
            GradlabError: embeddings that are not finite or have no direction.
        """
        device = torch.device("cpu") if self.anchors.device.type == "mps" else self.anchors.device
        positives = self.anchors if self.positives is None else self.positives
        rows = [in_double(one, device) for one in (self.anchors, positives, self.extra_negatives)]
        context = {name: in_double(given, device) for name, given in self.context.items()}
        with warnings.catch_warnings():  # in a batch of classes one that stands alone is no surprise
            warnings.filterwarnings("ignore", message=".*have no positive")
            return check_batch(*rows, normalize=True, in_batch_negatives=self.in_batch_negatives, **context)


def _copied(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {name: _copied(one) for name, one in given.items()}
    if isinstance(given, (tuple, list)):
        return [_copied(one) for one in given]
    return given.detach().clone() if isinstance(given, Tensor) else given


def in_double(given: Any, device: torch.device) -> Any:
    """Detached rows in float64, and whole numbers as they are, of one tensor, several, or none."""
    if given is None:
        return None
    if not isinstance(given, Tensor):
        return [in_double(rows, device) for rows in given]
    rows = given.detach().to(device)
    return rows.double() if rows.is_floating_point() else rows

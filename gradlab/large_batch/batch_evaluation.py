"""A loss of the whole batch, evaluated block by block: the matrix of similarities is never held."""

from __future__ import annotations

import torch

from gradlab.large_batch.evaluation import Evaluation
from gradlab.large_batch.streams import StreamedViews


class BatchEvaluation(Evaluation):
    """Automatic differentiation of the loss as it stands, on views that stream their similarities."""

    def values(self) -> torch.Tensor:
        """``L_i``, (N,), or a scalar."""
        rows = [self.views.anchors, self.views.positives, self.views.extra_negatives]
        with torch.no_grad(), torch.autocast(self.views.anchors.device.type, enabled=False):
            return self._evaluate(rows)

    def differentiate(
        self, scale: torch.Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        """The values and their derivatives; see `Evaluation.differentiate`."""
        rows = [self.views.anchors, self.views.positives, self.views.extra_negatives]
        leaves = [
            None if part is None else part.detach().requires_grad_(want)
            for part, want in zip(rows, wanted, strict=True)
        ]
        moving = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        found = [torch.zeros_like(leaf) for leaf in moving]
        with torch.enable_grad(), torch.autocast(scale.device.type, enabled=False):
            value = self._evaluate(leaves)
            if value.requires_grad:
                upstream = scale if value.ndim else None
                found = list(
                    torch.autograd.grad(value, moving, upstream, allow_unused=True, materialize_grads=True)
                )
        for part in found:
            self.check_gradient(part)
        gradients = iter(found)
        return value.detach(), [next(gradients) if want else None for want in wanted]

    def _evaluate(self, rows: list[torch.Tensor | None]) -> torch.Tensor:
        anchors, positives, extra_negatives = rows
        assert anchors is not None
        assert positives is not None
        views = StreamedViews(
            anchors,
            positives,
            extra_negatives,
            self.views.in_batch_negatives,
            block_size=self.block_size,
        )
        value = self.loss.value_of(views)
        self.check_values(value.detach())
        return value

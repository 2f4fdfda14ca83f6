"""The fast gradient sign method on looked-up embeddings (Goodfellow et al. 2015; MoCoSE, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gradlab.train.batches import Group


class FGSM(nn.Module):
    """``x' = x + ε sign(∂L/∂x)``, computed in the precision of the embedding table, float32 at least.

    How much of so small a step as MoCoSE's 5e-9 rounding leaves depends on the size of ``x``: the share of entries
    that do change is measured.

    Attributes:
        epsilon: ``ε``.
        changed: share of the entries of the last batch's tokens for which ``x' != x``; NaN before.
    """

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.changed: Tensor = torch.tensor(float("nan"))

    def perturb(
        self, embedded: Sequence[Tensor], gradients: Sequence[Tensor], groups: Sequence[Group]
    ) -> list[Tensor]:
        """``x'``; gradient flows through to ``x``.

        Args:
            embedded: (rows, length, D) for each of the groups.
            gradients: of the same shapes.
            groups: whose masks tell tokens from padding.
        """
        moved, changed, entries = [], [], []
        for rows, gradient, group in zip(embedded, gradients, groups, strict=True):
            wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
            after = wide + self.epsilon * gradient.sign().to(wide.dtype)
            token = group.attention_mask.bool()[..., None]
            changed.append(((after != wide) & token).sum())
            entries.append(token.sum() * rows.shape[-1])
            moved.append(after)
        self.changed = torch.stack(changed).sum() / torch.stack(entries).sum()
        return moved


class PreviousFGSM(FGSM):
    """FGSM by the gradient that the step before gave the embedding table, as MoCoSE's published code does.

    Tokens that were not in the batch before have no gradient, and stay as they are.

    Attributes:
        signs: (vocabulary, D) of that gradient; in the state dictionary, so that a resumed run has it.
    """

    signs: Tensor

    def __init__(self, epsilon: float, table: nn.Embedding) -> None:
        super().__init__(epsilon)
        self.register_buffer("signs", torch.zeros(table.weight.shape, dtype=torch.int8))

    @torch.no_grad()
    def remember(self, table: nn.Embedding) -> None:
        """Keep the signs of the table's gradient, once it is complete."""
        if table.weight.grad is None:
            self.signs.zero_()
        else:
            self.signs.copy_(table.weight.grad.sign())

    def gradients(self, groups: Sequence[Group]) -> list[Tensor]:
        """Signs of the gradient for the tokens of each group, (rows, length, D)."""
        return [self.signs[group.input_ids] for group in groups]

"""Fast gradient sign method on looked-up embeddings (Goodfellow et al. 2015; MoCoSE, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gradlab.train.batches import SequenceGroup
from gradlab.train.branch import Embedded
from gradlab.train.objective_parts import Component, Output

LossOf = Callable[[Embedded], Tensor]


class FGSM(Component):
    """``x' = x + ε sign(∂L/∂x)``, in the precision of the embedding table, at least float32.

    Rounding may undo steps as small as MoCoSE's 5e-9, depending on the size of ``x``; the share of
    entries that do change is therefore recorded.
    """

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        # Share of entries of the last batch's tokens for which x' != x.
        self.changed: Tensor = torch.tensor(float("nan"))

    def forward(
        self, embedded: Embedded, groups: Sequence[SequenceGroup], loss_of: LossOf
    ) -> Embedded:
        """Return ``x'``, (rows, length, D) for each group; gradient flows through to ``x``."""
        moved, changed, entries = [], [], []
        gradients = self.gradients(embedded, groups, loss_of)
        for rows, gradient, group in zip(embedded, gradients, groups, strict=True):
            wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
            after = wide + self.epsilon * gradient.sign().to(wide.dtype)
            token = group.attention_mask.bool()[..., None]
            changed.append(((after != wide) & token).sum())
            entries.append(token.sum() * rows.shape[-1])
            moved.append(after)
        self.changed = torch.stack(changed).sum() / torch.stack(entries).sum()
        return moved

    def gradients(
        self, embedded: Embedded, groups: Sequence[SequenceGroup], loss_of: LossOf
    ) -> Sequence[Tensor]:
        """Return the loss's gradient, from a separate pass with the dropout of the next pass."""
        leaves = [rows.detach().requires_grad_() for rows in embedded]
        device = leaves[0].device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            loss = loss_of(leaves)
        return torch.autograd.grad(loss, leaves)

    def statistics(self, output: Output) -> dict[str, float]:
        return {"fgsm_changed": float(self.changed)}


class PreviousFGSM(FGSM):
    """FGSM with the embedding table's gradient in the previous step, as in MoCoSE's published code.

    Tokens that were not in the previous batch have no gradient, and stay unchanged.
    """

    # (vocabulary, D) signs of that gradient, in the state dictionary for resumed runs.
    signs: Tensor

    def __init__(self, epsilon: float, table: nn.Embedding) -> None:
        super().__init__(epsilon)
        self._table = [table.weight]  # in a list, because it is registered elsewhere
        self.register_buffer("signs", torch.zeros(table.weight.shape, dtype=torch.int8))

    @torch.no_grad()
    def before_step(self) -> None:
        """Store the signs of the table's gradient, once it is complete."""
        gradient = self._table[0].grad
        if gradient is None:
            self.signs.zero_()
        else:
            self.signs.copy_(gradient.sign())

    def gradients(
        self, embedded: Embedded, groups: Sequence[SequenceGroup], loss_of: LossOf
    ) -> list[Tensor]:
        """Return the signs of the tokens' gradients in the previous step."""
        return [self.signs[group.input_ids] for group in groups]

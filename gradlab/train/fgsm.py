"""The fast gradient sign method on looked-up embeddings (Goodfellow et al. 2015; MoCoSE, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gradlab.train.batches import Group
from gradlab.train.branch import Embedded
from gradlab.train.outputs import Component, Output

LossOf = Callable[[Embedded], Tensor]


class FGSM(Component):
    """``x' = x + ε sign(∂L/∂x)``, computed in the precision of the embedding table, float32 at least.

    How much of so small a step as MoCoSE's 5e-9 rounding leaves depends on the size of ``x``: the share of entries
    that do change is measured.
    """

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        # The share of the entries of the last batch's tokens for which x' != x.
        self.changed: Tensor = torch.tensor(float("nan"))

    def forward(self, embedded: Embedded, groups: Sequence[Group], loss_of: LossOf) -> Embedded:
        """``x'``, (rows, length, D) for each of the groups; gradient flows through to ``x``."""
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

    def gradients(self, embedded: Embedded, groups: Sequence[Group], loss_of: LossOf) -> Sequence[Tensor]:
        """The loss's gradient, from a pass of its own that draws the same dropout as the one after it."""
        leaves = [rows.detach().requires_grad_() for rows in embedded]
        device = leaves[0].device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            loss = loss_of(leaves)
        return torch.autograd.grad(loss, leaves)

    def statistics(self, output: Output) -> dict[str, float]:
        return {"fgsm_changed": float(self.changed)}


class PreviousFGSM(FGSM):
    """FGSM by the gradient that the step before gave the embedding table, as MoCoSE's published code does.

    Tokens that were not in the batch before have no gradient, and stay as they are.
    """

    signs: Tensor  # (vocabulary, D) of that gradient; in the state dictionary, so that a resumed run has it

    def __init__(self, epsilon: float, table: nn.Embedding) -> None:
        super().__init__(epsilon)
        self._table = [table.weight]  # in a list, as it is registered elsewhere
        self.register_buffer("signs", torch.zeros(table.weight.shape, dtype=torch.int8))

    @torch.no_grad()
    def before_step(self) -> None:
        """Keep the signs of the table's gradient, once it is complete."""
        gradient = self._table[0].grad
        if gradient is None:
            self.signs.zero_()
        else:
            self.signs.copy_(gradient.sign())

    def gradients(self, embedded: Embedded, groups: Sequence[Group], loss_of: LossOf) -> list[Tensor]:
        """Signs of the gradient that the tokens had in the step before."""
        return [self.signs[group.input_ids] for group in groups]

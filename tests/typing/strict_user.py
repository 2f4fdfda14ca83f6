"""What a user writes who checks types strictly: ``mypy --strict`` finds nothing in this file."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import gradlab
from gradlab.losses import InfoNCE


class Encoder(nn.Module):
    """A linear encoder with InfoNCE as its criterion."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.criterion = InfoNCE(temperature=0.1).module(learnable=True)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        value: Tensor = self.criterion(self.linear(first), self.linear(second), normalize=True)
        return value


def hardest(anchors: Tensor, positives: Tensor) -> float:
    """Return the mean dissipation of ArcCon."""
    components = gradlab.components("arccon(temperature=0.1)", anchors, positives)
    dissipation: float = float(components.gradient_dissipation.mean())
    return dissipation


def heatmap() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the mean dissipation over angles."""
    simulation = gradlab.simulate("infonce", grid=5)
    return np.asarray(simulation.to_frame().to_numpy(), dtype=np.float64)


def main() -> None:
    """Use the public functions."""
    rows = nn.functional.normalize(torch.randn(2, 16, 8, dtype=torch.float64), dim=-1)
    Encoder()(rows[0].float(), rows[1].float()).backward()
    print(hardest(rows[0], rows[1]), heatmap().shape)
    print(gradlab.get_loss("symmetric(infonce)"), gradlab.decompose("infonce", rows[0], rows[1]))
    gradlab.blockwise("infonce", 8)(rows[0].requires_grad_(), rows[1]).backward()


if __name__ == "__main__":
    main()

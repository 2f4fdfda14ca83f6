"""Controls for a gate: as many anchors open as in another run, but at random; or all of them, at that share of the loss.

A gate does two things: it chooses anchors, and by closing on the others it takes gradient away, which acts as a decay of the
learning rate. A run with a random gate of the same open share keeps the second without the first.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gradlab.errors import GradlabError, reason
from gradlab.train.outputs import CountingComponent

COLUMNS = ("seed", "step", "share")


class OpenShare(CountingComponent):
    """A factor for each anchor, by the open share of each step. ``step``, those done, is in the state dictionary."""

    counter = "step"

    def __init__(self, shares: Sequence[float], use: str, seed: int) -> None:
        """``shares`` of steps 1, 2, ...; ``use`` "random" or "scale"; ``seed`` of the draws, apart from torch's generator."""
        super().__init__()
        self._shares, self._use, self._seed = tuple(shares), use, seed
        self.step = 0

    def factors(self, count: int) -> Tensor:
        """Factors (count,) of this step: 1 for ``round(share · count)`` random anchors and 0 for the others, or the share.

        The same however often one asks: training draws no other dropout because of it.
        """
        share = self._shares[self.step]
        if self._use == "scale":
            return torch.full((count,), share)
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self.step)
        factors = torch.zeros(count)
        factors[torch.randperm(count, generator=generator)[: round(share * count)]] = 1
        return factors

    def forward(self, losses: Tensor) -> Tensor:
        """The mean of the anchors' losses (N,), each times its factor."""
        return (losses * self.factors(len(losses)).to(losses)).mean()

    def after_step(self) -> None:
        """Go on to the next step's share."""
        self.step += 1


def read_open_shares(path: str | Path, seed: int, steps: int) -> list[float]:
    """Shares of steps 1 to ``steps`` of the run with this seed, from a CSV with the columns of :data:`COLUMNS`.

    Raises:
        GradlabError: an unreadable file; a share missing or outside [0, 1].
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        found = {int(row["step"]): float(row["share"]) for row in rows if int(row["seed"]) == seed}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GradlabError(
            f"cannot read {str(path)!r} as open shares, a CSV with {', '.join(COLUMNS)}: {reason(error)}"
        ) from error
    for step in range(1, steps + 1):
        if not 0 <= found.get(step, -1.0) <= 1:
            raise GradlabError(
                f"{str(path)!r} has no share between 0 and 1 for step {step} of seed {seed}; the paired run needs "
                "as many steps, and diagnostics_every 1"
            )
    return [found[step] for step in range(1, steps + 1)]

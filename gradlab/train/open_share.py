"""Controls for a gate: as many random anchors open as in another run, or all, scaled by that share.

Closing on some anchors also takes gradient away, like a decay of the learning rate. A run with a
random gate of the same open share has this second effect alone.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.files import reading
from gradlab.train.outputs import CountingComponent

COLUMNS = ("seed", "step", "share")


class OpenShare(CountingComponent):
    """Factors of anchors by the open share of each step; ``count`` steps are done."""

    def __init__(self, shares: Sequence[float], use: str, seed: int) -> None:
        """Set ``shares`` of steps 1, 2, ...; ``use`` ("random" or "scale"); ``seed`` of draws."""
        super().__init__()
        self._shares, self._use, self._seed = tuple(shares), use, seed

    def factors(self, count: int) -> Tensor:
        """Return factors (count,) of this step's anchors, the same at every call in a step.

        They are 1 for ``round(share * count)`` random anchors and 0 for the others, or the share.
        """
        share = self._shares[self.count]
        if self._use == "scale":
            return torch.full((count,), share)
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self.count)
        factors = torch.zeros(count)
        factors[torch.randperm(count, generator=generator)[: round(share * count)]] = 1
        return factors

    def forward(self, losses: Tensor) -> Tensor:
        """Return the mean of the anchors' losses (N,), each times its factor."""
        return (losses * self.factors(len(losses)).to(losses)).mean()

    def after_step(self) -> None:
        """Advance to the share of the next step."""
        self.count += 1


def read_open_shares(path: str | Path, seed: int, steps: int) -> list[float]:
    """Return shares of steps 1 to ``steps`` of this seed's run, from a CSV with :data:`COLUMNS`.

    Raises:
        GradlabError: the file cannot be read, or a share is missing or outside [0, 1].
    """
    what = f"{str(path)!r} as open shares, a CSV with {', '.join(COLUMNS)}"
    with reading(what, KeyError, TypeError), open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        found = {int(row["step"]): float(row["share"]) for row in rows if int(row["seed"]) == seed}
    for step in range(1, steps + 1):
        if not 0 <= found.get(step, -1.0) <= 1:
            raise GradlabError(
                f"{str(path)!r} has no share between 0 and 1 for step {step} of seed {seed}; the "
                "paired run needs as many steps, and diagnostics_every 1"
            )
    return [found[step] for step in range(1, steps + 1)]

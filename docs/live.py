"""What the site shows live, made while it is built: the explorer, and the report of a small run.

    python docs/live.py FOLDER        # writes explorer.html and report.html there

No sentence of anybody is in either: the run is of a linear map on made vectors.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch

import gradlab
from gradlab.explorer import heatmap_data
from gradlab.report import write_report

LOSSES = ("infonce", "arccon", "met", "siglip", "supcon", "mil_nce", "kl")


def write_live_pages(folder: Path) -> list[Path]:
    """Write both pages into a folder; with ``GRADLAB_QUICK`` set, heat maps have few cells."""
    folder.mkdir(parents=True, exist_ok=True)
    if "GRADLAB_QUICK" in os.environ:
        heatmap_data.ROWS = heatmap_data.COLUMNS = 3
    return [
        gradlab.explore(*LOSSES, progress=False).save(folder / "explorer.html"),
        example_report(folder),
    ]


def example_report(folder: Path, steps: int = 200) -> Path:
    """The report of a linear map trained to tell 512 made vectors apart by two noisy views each."""
    torch.manual_seed(0)
    topics = torch.randn(32, 64).repeat_interleave(16, dim=0)
    # One common direction, as in untuned encoders.
    sentences = topics + 0.7 * torch.randn(512, 64) + 1.5
    encoder = torch.nn.Linear(64, 32)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.003)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "example"
        criterion = gradlab.watch(
            gradlab.blockwise("infonce"), output=output, total_steps=steps, every=10
        )
        for _ in range(steps):
            batch = sentences[torch.randperm(512)[:64]]
            anchors, positives = (encoder(batch + 0.5 * torch.randn_like(batch)) for _ in range(2))
            value = criterion(anchors, positives, normalize=True)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        criterion.watch.finish()
        return write_report([output], folder / "report.html")


if __name__ == "__main__":
    print(*write_live_pages(Path(sys.argv[1])), sep="\n")

"""A process that takes part in a sweep without training: waits for a file, then prepares, claims and finishes."""

from __future__ import annotations

import time
from pathlib import Path

from gradlab.sweep.board import Board
from gradlab.sweep.spec import read_spec


def main(file: str, url: str, start: str) -> None:
    import optuna  # noqa: F401 - slow; what is tested begins at the same moment

    spec = read_spec(file)
    print("ready", flush=True)
    while not Path(start).exists():
        time.sleep(0.001)
    board = Board(spec, url)
    board.prepare()
    while (claim := board.claim()) is not None:
        print(claim.run.key, flush=True)
        time.sleep(0.05)  # a run takes longer than a claim
        assert board.finish(claim, 1.0, {})

"""A process that takes part in a sweep without training: waits for a file, then claims and finishes."""

from __future__ import annotations

import time
from pathlib import Path

from gradlab.sweep.spec import read_spec
from gradlab.sweep.trials import Trials


def main(file: str, url: str, start: str, logs: list[str]) -> None:
    import optuna  # noqa: F401 - slow; what is tested begins at the same moment

    spec = read_spec(file)
    print("ready", flush=True)
    while not Path(start).exists():
        time.sleep(0.001)
    trials = Trials(spec, url)
    while (claim := trials.claim()) is not None:
        print(claim.key, flush=True)
        while not all(len(Path(log).read_text().split()) > 1 for log in logs):
            time.sleep(0.001)  # none takes all runs before another begins
        assert trials.finish(claim, 1.0, {})

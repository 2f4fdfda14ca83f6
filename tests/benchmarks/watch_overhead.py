"""What a watch adds to training with sentence-transformers: processor time and peak memory.

    python -m tests.benchmarks.watch_overhead [--model MODEL] [--steps 60] [--turns 5]

Plain and watched trainings take turns in one process, which is what their times are compared in;
the ratio of a turn is taken within it. Peak memory is that of a fresh process for each. Without
``--model``, the encoder is a BERT of 2 layers (hidden size 32), beside which a watch costs most.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
from pathlib import Path

import torch

import gradlab
from tests.benchmarks.measured import fresh, peak, ratio, row, times_in_turns
from tests.sentence_training import columns_of, losses, make_trainer
from tests.tiny_models import make_bert

# Name of a contender -> settings of its watch; None trains without one.
CONTENDERS = {"without a watch": None, "watch": {}, "watch(every=1)": {"every": 1}}


def train(model: str, steps: int, settings: dict | None) -> None:
    """Train with batches of 64 pairs, watched with these settings."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(
            Path(model), Path(folder), losses.MultipleNegativesRankingLoss,
            columns_of(64 * steps), max_steps=steps, per_device_train_batch_size=64,
        )  # fmt: skip
        if settings is not None:
            gradlab.watch(trainer, **settings)
        trainer.train()


def peak_of(model: str, steps: int, settings: dict | None) -> float:
    """Peak memory of this process after a training, MiB."""
    train(model, steps, settings)
    return peak()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = str(chosen.model or make_bert(Path(folder) / "bert"))
        runs = {
            name: functools.partial(train, model, chosen.steps, settings)
            for name, settings in CONTENDERS.items()
        }
        times = times_in_turns(runs, chosen.turns)
        plain = times["without a watch"]
        print(row("", "processor seconds, median (range)", "ratio, median", "peak MiB"))
        for name, settings in CONTENDERS.items():
            seconds = times[name]
            print(
                row(
                    name,
                    f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
                    f"{ratio(seconds, plain):.3f}",
                    f"{fresh(peak_of, model, chosen.steps, settings):.0f}",
                )
            )


if __name__ == "__main__":
    main()

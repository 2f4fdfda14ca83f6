"""What watching costs: one run in which blocks of steps with and without the watcher alternate.

    python tests/benchmarks/watcher_overhead.py --model FOLDER --sentences FILE [--loss ranking|symmetric] [--blocks 8]

Every block has as many steps as lie between two records at the default schedule, and a watched block has one record.
Blocks come in the order A B B A, so that a machine that grows slower or faster favours neither. `ranking`
(MultipleNegativesRankingLoss) and `symmetric` (its symmetric variant, a combinator) are measured in closed form.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses
from transformers import TrainerCallback

import gradlab
from gradlab.monitor.watch import EVERY
from gradlab.train.sentences import read_sentences

BATCH, LENGTH = 64, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loss", choices=("ranking", "symmetric"), default="ranking")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sentences", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        measure(arguments, Path(place))


def measure(arguments: argparse.Namespace, output: Path) -> None:
    """One run of alternating blocks."""
    torch.set_num_threads(arguments.threads)
    steps = EVERY * arguments.blocks
    sentences = list(itertools.islice(read_sentences(arguments.sentences), BATCH * steps))
    model = SentenceTransformer(arguments.model, device="cpu")
    model.max_seq_length = LENGTH
    kind = {
        "ranking": losses.MultipleNegativesRankingLoss,
        "symmetric": losses.MultipleNegativesSymmetricRankingLoss,
    }[arguments.loss]
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(output), max_steps=steps, per_device_train_batch_size=BATCH, learning_rate=3e-5, use_cpu=True,
            report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"anchor": sentences, "positive": sentences}),
        loss=kind(model),
    )  # fmt: skip
    plain = trainer.compute_loss
    watcher = gradlab.watch(trainer, every=EVERY)
    watched = trainer.compute_loss
    spent: list[tuple[float, float]] = []

    class Alternate(TrainerCallback):
        """Switches the watcher between blocks and times every step."""

        def on_step_begin(self, args, state, control, **kwargs):
            trainer.compute_loss = watched if is_watched(state.global_step // EVERY) else plain
            self.began = time.perf_counter(), time.process_time()

        def on_step_end(self, args, state, control, **kwargs):
            wall, cpu = self.began
            spent.append((time.perf_counter() - wall, time.process_time() - cpu))

    trainer.add_callback(Alternate())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train()
    report(spent, watcher)


def is_watched(block: int) -> bool:
    """A B B A."""
    return block % 4 in (0, 3)


def report(spent: list[tuple[float, float]], watcher: object) -> None:
    """Print what a step takes, with and without, and what the watcher says of itself."""
    blocks = [spent[i : i + EVERY] for i in range(0, len(spent), EVERY)]
    for clock, name in enumerate(("wall", "CPU")):
        sums: dict[bool, list[float]] = {True: [], False: []}
        for number, block in enumerate(blocks):
            sums[is_watched(number)].append(sum(step[clock] for step in block))
        with_it, without = statistics.mean(sums[True]), statistics.mean(sums[False])
        print(
            f"{name}: {with_it:.2f} s a block of {EVERY} steps watched, {without:.2f} s not: {with_it / without - 1:+.2%}"
        )
    records = len(watcher.history.series("watch", "seconds")[0])
    watched = sum(wall for number, block in enumerate(blocks) if is_watched(number) for wall, _ in block)
    print(
        f"By its own clock: {records} records in {watcher.seconds:.3f} s, {1000 * watcher.seconds / records:.1f} ms each, "
        f"{watcher.seconds / watched:.2%} of the watched blocks"
    )


if __name__ == "__main__":
    main()

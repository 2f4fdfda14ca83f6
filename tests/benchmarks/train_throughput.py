"""Training throughput beside the sentence-transformers trainer: same model, data, batch and length.

Each round trains a few steps with every contender, one after the other in one process, so that a
machine's ups and downs meet all of them; the ratio of a round is taken within it. Two clocks: wall
time is what people wait for; CPU time (of all threads) is what counts on a machine that others use
at the same time.

    python tests/benchmarks/train_throughput.py --model MODEL --train-file sentences.txt
    python tests/benchmarks/train_throughput.py --model MODEL --train-file sentences.txt --speed

With ``--speed``, contenders are the library's trainer with and without what
`gradlab.integrations.speed` offers.

Needs: pip install "sentence-transformers[train]". To measure a GPU there is
`python -m tests.gpu --section training`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gradlab.data.sentences import read_sentences
from gradlab.train import Callback, TrainConfig, train
from gradlab.train.hardware import choose_precision

SKIPPED = 3  # steps until caches are warm


class Watch(Callback):
    """Wall and CPU time at the end of each step, for either library."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def on_step(self, trainer, output) -> None:
        self.note()

    def note(self) -> None:
        self.times.append((time.perf_counter(), time.process_time()))

    def seconds(self, clock: int) -> float:
        """Median seconds of a step, by wall clock (0) or CPU time (1)."""
        return statistics.median(
            b[clock] - a[clock] for a, b in itertools.pairwise(self.times[SKIPPED:])
        )


def ours(arguments: argparse.Namespace, precision: str, folder: Path, **settings) -> Watch:
    watch = Watch()
    config = TrainConfig(
        model=str(arguments.model),
        train_file=str(folder / "sentences.txt"),
        output=tempfile.mkdtemp(dir=folder) + "/run",
        batch_size=arguments.batch_size,
        max_length=arguments.max_length,
        max_steps=arguments.steps + SKIPPED + 1,
        learning_rate=1e-5,
        precision=precision,
        device="cpu",
        threads=arguments.threads,
        save_every=10**9,
        **{"diagnostics_every": 0, **settings},
    )
    train(config, callbacks=[watch])
    return watch


def train_with_library(
    arguments: argparse.Namespace, precision: str, folder: Path, *gains: Callable
) -> Watch:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import TrainerCallback

    watch = Watch()

    class Note(TrainerCallback):
        def on_step_end(self, *_, **__):
            watch.note()

    steps = arguments.steps + SKIPPED + 1
    sentences = list(
        itertools.islice(read_sentences(folder / "sentences.txt"), steps * arguments.batch_size)
    )
    transformer = Transformer(str(arguments.model), max_seq_length=arguments.max_length)
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    for gain in gains:
        gain(model)
    settings = SentenceTransformerTrainingArguments(
        output_dir=tempfile.mkdtemp(dir=folder),
        per_device_train_batch_size=arguments.batch_size,
        max_steps=steps,
        learning_rate=1e-5,
        bf16=precision == "bfloat16",
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    SentenceTransformerTrainer(
        model=model,
        args=settings,
        train_dataset=Dataset.from_dict({"anchor": sentences, "positive": sentences}),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[Note()],
    ).train()
    return watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--train-file", type=Path, required=True)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = (arguments.steps + SKIPPED + 1) * arguments.batch_size
        sentences = itertools.islice(read_sentences(arguments.train_file), count)
        (folder / "sentences.txt").write_text("\n".join(sentences), encoding="utf-8")
        contenders: dict[str, Callable[[], Watch]] = {
            "sentence-transformers float32": lambda: train_with_library(
                arguments, "float32", folder
            ),
            "gradlab float32": lambda: ours(arguments, "float32", folder),
            "sentence-transformers bfloat16": lambda: train_with_library(
                arguments, "bfloat16", folder
            ),
            "gradlab bfloat16": lambda: ours(arguments, "bfloat16", folder),
            "gradlab bfloat16, diagnostics": lambda: ours(
                arguments, "bfloat16", folder, diagnostics_every=25
            ),
        }
        report(arguments, speed_contenders(arguments, folder) if arguments.speed else contenders)


def speed_contenders(arguments: argparse.Namespace, folder: Path) -> dict[str, Callable[[], Watch]]:
    """The library's trainer, with each gain, with all, and in either precision."""
    from gradlab.integrations.speed import eager_attention, fast_dropout, length_groups

    gains = {
        "": (),
        ", fast dropout": (fast_dropout,),
        ", eager attention": (eager_attention,),
        ", length groups": (length_groups,),
        ", all three": (fast_dropout, eager_attention, length_groups),
    }
    native = choose_precision("auto", torch.device("cpu")).name == "bfloat16"
    return {
        f"sentence-transformers {precision}{name}": functools.partial(
            train_with_library, arguments, precision, folder, *chosen
        )
        for precision in ("float32", *(["bfloat16"] if native else []))
        for name, chosen in gains.items()
    }


def report(arguments: argparse.Namespace, contenders: dict[str, Callable[[], Watch]]) -> None:
    rounds: list[dict[str, Watch]] = []
    for number in range(arguments.rounds):
        # Every second round goes backwards: no contender is always the first after a pause.
        names = list(contenders) if number % 2 == 0 else list(reversed(contenders))
        rounds.append({name: contenders[name]() for name in names})
    reference = "sentence-transformers float32"
    print(
        f"{'':32s}{'sentences/s':>12s}"
        f"{'x ' + reference + ' (wall, by round)':>58s}{'CPU time':>10s}"
    )
    for name in contenders:
        wall = [times[reference].seconds(0) / times[name].seconds(0) for times in rounds]
        cpu = statistics.median(
            times[reference].seconds(1) / times[name].seconds(1) for times in rounds
        )
        rate = statistics.median(arguments.batch_size / times[name].seconds(0) for times in rounds)
        cells = (
            f"{statistics.median(wall):.2f} ({', '.join(f'{ratio:.2f}' for ratio in sorted(wall))})"
        )
        print(f"{name:32s}{rate:12.1f}{cells:>58s}{cpu:10.2f}")


if __name__ == "__main__":
    main()

"""Gradient cache: time a sentence and peak memory of a training step.

Both against whole batches and sentence-transformers.

    python tests/benchmarks/gradient_cache.py --model PATH --train-file SENTENCES --what time
    python tests/benchmarks/gradient_cache.py --model PATH --train-file SENTENCES --what memory
    python tests/benchmarks/gradient_cache.py --model PATH --train-file SENTENCES --what library

``time``: steps of batches that fit without a cache, cached and not, in turns in one process; a
ratio is the median of ratios within a turn. ``memory``: peak of a fresh process after one step of
each batch size, beyond what it held before the step. ``library``: forward and backward of one batch
of the sentence-transformers trainer's losses, theirs cached and ours, in turns.
"""

from __future__ import annotations

import argparse
import statistics
from itertools import islice

import numpy as np
import torch
from measured import fresh, peak, ratio, times_in_turns

import gradlab
from gradlab.data.sentences import read_sentences
from gradlab.encoder.model import Encoder
from gradlab.train.config import TrainConfig
from gradlab.train.objective import Objective, freeze_unused


def sentences(path: str, count: int) -> list[str]:
    return list(islice(read_sentences(path), count))


def make_step(options: argparse.Namespace, chunk_size: int | None):
    """A function that trains one batch: loss, gradient and AdamW."""
    torch.manual_seed(0)
    encoder = Encoder.load(options.model, "cls", attention="eager")
    loss = gradlab.get_loss("infonce")
    settings = {"chunk_size": chunk_size, "precision": options.precision}
    config = TrainConfig(model=options.model, train_file="-", output="-", **settings)
    objective = Objective(encoder, loss, config).train()
    freeze_unused(objective)
    optimiser = torch.optim.AdamW([p for p in objective.parameters() if p.requires_grad], lr=1e-5)

    def step(sequences: list[np.ndarray]) -> None:
        batch = objective.prepare(sequences)
        if chunk_size is None:
            objective(batch).loss.backward()
        else:
            objective.backward_in_chunks(batch, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    def tokenised(texts: list[str]) -> list[np.ndarray]:
        tokens = encoder.tokenizer(texts, truncation=True, max_length=32)["input_ids"]
        return [np.array(ids) for ids in tokens]

    return step, tokenised


def in_turns(runs: dict[str, object], turns: int, texts: int) -> None:
    """Print seconds and ratios to the first of the runs."""
    times = times_in_turns(runs, turns)
    first, *_ = times.values()
    for name, seconds in times.items():
        per_text, beside = 1000 * statistics.median(seconds) / texts, ratio(seconds, first)
        print(f"{name}: {per_text:.2f} CPU ms a sentence, {beside:.2f} of the first")


def measure_time(options: argparse.Namespace) -> None:
    texts = sentences(options.train_file, options.batch)
    runs = {}
    for name, chunk in (("whole batch", None), (f"chunks of {options.chunk}", options.chunk)):
        step, tokenised = make_step(options, chunk)
        tokens = tokenised(texts)
        runs[name] = lambda step=step, tokens=tokens: step(tokens)
    in_turns(runs, options.turns, len(texts))


def measure_library(options: argparse.Namespace) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    from gradlab.integrations.sentence_transformers import loss

    words = Transformer(options.model, max_seq_length=32)
    pooling = Pooling(words.get_embedding_dimension(), "cls")
    model = SentenceTransformer(modules=[words, pooling], device="cpu").train()
    texts = sentences(options.train_file, 2 * options.batch)
    columns = [model.preprocess(texts[: options.batch]), model.preprocess(texts[options.batch :])]

    def run(criterion) -> None:
        model.zero_grad()
        criterion([dict(column) for column in columns], None).backward()

    library_loss = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=options.chunk)
    ours = loss(model, "infonce", chunk_size=options.chunk, blockwise=True)
    in_turns(
        {"theirs": lambda: run(library_loss), "ours": lambda: run(ours)},
        options.turns,
        options.batch,
    )


def peaks(options: argparse.Namespace, batch: int) -> tuple[float, float]:
    """Peak memory before and after a step of so many sentences, MiB."""
    step, tokenised = make_step(options, options.chunk or None)
    before = peak()
    step(tokenised(sentences(options.train_file, batch)))
    return before, peak()


def measure_memory(options: argparse.Namespace) -> None:
    for batch in options.batches:
        before, after = fresh(peaks, options, batch)
        extra = f"{after - before:.0f} more"
        print(
            f"batch {batch}: before the step {before:.0f} MiB, peak {after:.0f} MiB, {extra}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--train-file", required=True)
    parser.add_argument("--what", choices=["time", "memory", "library"], default="time")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 4096])
    parser.add_argument("--chunk", type=int, default=64, help="0 for none, with memory")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    {"time": measure_time, "memory": measure_memory, "library": measure_library}[options.what](
        options
    )


if __name__ == "__main__":
    main()

"""What `gradlab inspect` costs beside plain encoding, and how much memory a large corpus takes.

    python tests/benchmarks/inspect_corpus.py throughput SENTENCES --model MODEL --count 6000
    python tests/benchmarks/inspect_corpus.py memory --count 1000000 --dimension 312

``throughput`` encodes the texts of a file and the views of the batches plainly, then inspects them, in turns. ``memory`` inspects clustered random
embeddings in a mapped file, with made-up sentences of twenty words; it prints the growth of the resident set over what the
imports, the embeddings' file excluded, take.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from pathlib import Path

import numpy as np

import gradlab
from gradlab.encoder.model import Encoder
from gradlab.inspection.batches import ModelSource
from gradlab.inspection.run import MEETINGS
from gradlab.inspection.texts import Texts
from gradlab.train.batches import BatchOrder
from gradlab.train.sentences import read_sentences


def resident(field: str) -> float:
    """A field of the process's status in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) / 1024


def clocks() -> tuple[float, float]:
    """Seconds on the wall and of the processor: the latter leave out what other programs take."""
    return time.perf_counter(), time.process_time()


def since(began: tuple[float, float]) -> tuple[float, float]:
    """Seconds since then."""
    wall, processor = clocks()
    return wall - began[0], processor - began[1]


def throughput(options: argparse.Namespace) -> None:
    """Plain encoding and inspection, in turns."""
    texts = Texts(list(itertools.islice(read_sentences(options.sentences), options.count)))
    encoder = Encoder.load(options.model, attention="eager", max_length=32)
    source = ModelSource(encoder, texts, 32)
    source.views(np.arange(64))  # warm

    def plain(meetings: int) -> tuple[float, float]:
        began = clocks()
        source.encode(64, lambda rows: None, lambda count: None)
        order = BatchOrder(np.arange(len(texts)), 64, 0)
        for number in range(options.batches + meetings):
            source.views(order[number])
        return since(began)

    for _ in range(options.rounds):
        began = clocks()
        found = gradlab.inspect(encoder, texts, batches=options.batches)
        whole = since(began)
        lines = min(MEETINGS, len(found.candidates))
        meetings = -(-lines // 8)  # eight pairs meet in a batch of 64
        alone = plain(meetings)
        print(
            f"{len(texts)} texts, {options.batches} + {meetings} batches of 64: plain {alone[0]:.1f} s, inspect {whole[0]:.1f} s, "
            f"throughput {alone[0] / whole[0]:.1%} of plain encoding, {alone[1] / whole[1]:.1%} by processor time",
            flush=True,
        )


def memory(options: argparse.Namespace) -> None:
    """Peak resident memory of an inspection without a model."""
    generator = np.random.default_rng(0)
    words = ["".join(generator.choice(list("abcdefghijklmnopqrstuvwxyz"), 7)) for _ in range(30_000)]
    chance = 1 / np.arange(1, len(words) + 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        shape = (options.count, options.dimension)
        rows = np.lib.format.open_memmap(path, "w+", np.float16, shape)
        centres = generator.normal(size=(options.count // 50 + 1, options.dimension))
        for start in range(0, options.count, 10_000):
            some = np.arange(start, min(start + 10_000, options.count))
            rows[some] = centres[some % len(centres)] + generator.normal(size=(len(some), options.dimension))
        del rows, centres
        draw = random.Random(0)
        weights = list(itertools.accumulate(chance))
        sentences = [" ".join(draw.choices(words, cum_weights=weights, k=20)) for _ in range(options.count)]
        some = sentences[:3000]
        gradlab.inspect(
            embeddings=np.load(path, mmap_mode="r")[:3000], sentences=some, batches=2
        )  # what is imported late
        print(f"texts and imports: {resident('VmRSS'):.0f} MB", flush=True)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = resident("VmRSS")
        texts_alone = sum(len(text) + 49 for text in sentences) / 2**20
        began = time.perf_counter()
        found = gradlab.inspect(embeddings=np.load(path, mmap_mode="r"), sentences=sentences, batches=50)
        print(
            f"{options.count} x {options.dimension}: {time.perf_counter() - began:.0f} s, {len(found.candidates)} candidates; peak "
            f"{resident('VmHWM') - before:.0f} MB, and {texts_alone:.0f} MB for the texts themselves"
        )


def main() -> None:
    """Run one of both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(required=True)
    first = kinds.add_parser("throughput")
    first.add_argument("sentences")
    first.add_argument("--model", required=True)
    first.add_argument("--count", type=int, default=6000)
    first.add_argument("--batches", type=int, default=40)
    first.add_argument("--rounds", type=int, default=2)
    first.set_defaults(run=throughput)
    second = kinds.add_parser("memory")
    second.add_argument("--count", type=int, default=1_000_000)
    second.add_argument("--dimension", type=int, default=312)
    second.set_defaults(run=memory)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

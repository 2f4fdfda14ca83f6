"""What `gradlab inspect` costs beside plain encoding, and how much memory a large corpus takes.

    python tests/benchmarks/inspect_corpus.py throughput SENTENCES --model MODEL --count 6000
    python tests/benchmarks/inspect_corpus.py memory --count 1000000 --dimension 312

``throughput`` encodes the texts of a file and the views of the batches plainly, then inspects them, in turns. ``memory`` makes distinct
sentences and a small BERT, and inspects them from the file to the written page in a process of its own; it prints how much each phase
takes beyond what the start, the model and a small inspection have taken: anonymous memory, and the resident set, in which pages
of mapped files count that the system drops when it needs the room.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

import gradlab
from gradlab.encoder.model import Encoder
from gradlab.inspection.batches import ModelSource
from gradlab.inspection.corpus import MEETINGS
from gradlab.inspection.texts import Texts
from gradlab.train.batches import BatchOrder
from gradlab.train.sentences import read_sentences


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
    source.batch(np.arange(64))  # warm

    def plain(meetings: int) -> tuple[float, float]:
        began = clocks()
        source.encode(64, lambda rows: None, lambda count: None)
        order = BatchOrder(np.arange(len(texts)), 64, 0)
        for number in range(options.batches + meetings):
            source.batch(order[number])
        return since(began)

    ratios = []
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
        ratios.append((alone[0] / whole[0], alone[1] / whole[1]))
    wall, processor = (f"{statistics.median(column):.1%}" for column in zip(*ratios, strict=True))
    print(f"median of {len(ratios)}: {wall} on the wall, {processor} by processor time")


def made(count: int, length: int) -> Iterator[str]:
    """Distinct sentences of words with Zipf's frequencies; one in a hundred is another with its last word exchanged."""
    draw = random.Random(0)
    words = vocabulary()
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    seen: set[int] = set()
    last = [""]
    while len(seen) < count:
        chosen = draw.choices(words, cum_weights=weights, k=length)
        if len(seen) % 100 == 99:
            chosen = [*last[:-1], draw.choice(words)]
        sentence = " ".join(chosen).capitalize() + "."
        if hash(sentence) not in seen:
            seen.add(hash(sentence))
            last = sentence[:-1].split()
            yield sentence


def vocabulary() -> list[str]:
    """30,000 words of letters."""
    draw = random.Random(1)
    return list(dict.fromkeys("".join(draw.choices(ascii_lowercase, k=7)) for _ in range(30_000)))


def make_encoder(folder: Path, dimension: int) -> None:
    """A BERT of one layer that knows these words."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir()
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *vocabulary()]
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(lines), hidden_size=dimension, num_hidden_layers=1, num_attention_heads=dimension // 26,
        intermediate_size=dimension, max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def memory(options: argparse.Namespace) -> None:
    """Peak memory of an inspection in a process of its own, whose status is read twenty times a second."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_encoder(folder / "encoder", options.dimension)
        with (folder / "sentences.txt").open("w", encoding="utf-8") as file:
            file.writelines(f"{sentence}\n" for sentence in made(options.count, options.words))
        command = [sys.executable, __file__, "inspect", str(folder), "--max-length", str(options.max_length)]
        environment = {**os.environ, "GRADLAB_CACHE_DIR": str(folder / "cache")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
            assert child.stdout is not None
            reader = Watched(child.pid)
            for line in child.stdout:
                reader.phase(line.strip())
        reader.phase("")
        if child.returncode:
            sys.exit(f"the inspection ended with {child.returncode}")
    print(
        f"{options.count} sentences of {options.words} words, {options.dimension} dimensions; MB beyond start-up and model:"
    )
    before = reader.peaks["started"]
    for name, (seconds, peak) in reader.table.items():
        anonymous, resident = (peak[kind] - before[kind] for kind in ("RssAnon", "VmRSS"))
        print(
            f"{name:30} {seconds:7.1f} s   anonymous {anonymous:6.0f}   resident, mapped pages of files included {resident:6.0f}"
        )
    largest = {kind: max(peak[kind] for peak in reader.peaks.values()) - before[kind] for kind in before}
    print(
        f"largest: anonymous {largest['RssAnon']:.0f} MB, resident {largest['VmRSS']:.0f} MB; start-up and model {before['VmRSS']:.0f} MB"
    )


class Watched:
    """The largest memory of a process in each of its phases.

    Attributes:
        peaks: phase -> kind of memory -> MB; of the phase ``started`` as it was at its end.
        table: phase -> its seconds and peaks.
    """

    def __init__(self, process: int) -> None:
        self.peaks: dict[str, dict[str, float]] = {}
        self.table: dict[str, tuple[float, dict[str, float]]] = {}
        self._process, self._name, self._began = process, "start-up", time.perf_counter()
        threading.Thread(target=self._watch, daemon=True).start()

    def phase(self, name: str) -> None:
        """Another phase begins."""
        now = self._now()
        if self._name in self.peaks:
            self.table[self._name] = (time.perf_counter() - self._began, self.peaks[self._name])
        self._name, self._began = name, time.perf_counter()
        if now and name:
            self.peaks[name] = now

    def _now(self) -> dict[str, float]:
        try:
            lines = Path(f"/proc/{self._process}/status").read_text().splitlines()
        except OSError:
            return {}
        fields = dict(line.split(":", 1) for line in lines)
        return {kind: int(fields[kind].split()[0]) / 1024 for kind in ("RssAnon", "VmRSS") if kind in fields}

    def _watch(self) -> None:
        while True:
            name, now = self._name, self._now()
            if name in self.peaks and name != "started":
                for kind, value in now.items():
                    self.peaks[name][kind] = max(self.peaks[name][kind], value)
            time.sleep(0.05)


def inspect_folder(options: argparse.Namespace) -> None:
    """What `memory` watches: it says which phase begins."""
    from gradlab.inspection import corpus

    folder = Path(options.folder)
    encoder = Encoder.load(folder / "encoder", device="cpu")
    some = list(itertools.islice(read_sentences(folder / "sentences.txt"), 3000))
    arguments = {"max_length": options.max_length, "batches": 50, "device": "cpu"}
    gradlab.inspect(encoder, some, **arguments)  # what is imported late, and the room that a batch takes
    del some
    print("started", flush=True)
    time.sleep(0.5)
    shown = corpus.counted

    def told(title: str, total: int, *, visible: bool = True) -> Any:
        print(title, flush=True)
        return shown(title, total, visible=visible)

    corpus.counted = told
    print("Reading the file", flush=True)
    texts = Texts.read(folder / "sentences.txt")
    found = gradlab.inspect(encoder, texts, **arguments)
    print(f"Writing {len(found.candidates)} candidates", flush=True)
    found.write(folder / "found")


def main() -> None:
    """Run one of them."""
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
    second.add_argument("--words", type=int, default=10)
    second.set_defaults(run=memory)
    third = kinds.add_parser("inspect")
    third.add_argument("folder")
    third.set_defaults(run=inspect_folder)
    for one in (second, third):
        one.add_argument("--max-length", type=int, default=6)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

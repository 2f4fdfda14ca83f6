"""How much memory and time `gradlab inspect` takes for a large corpus.

    python tests/benchmarks/inspect_corpus.py --count 1000000 --dimension 312

Makes distinct sentences and a small BERT, and inspects them from the file to the written page in a
process of its own. Printed is what that takes beyond the start, the model and a small inspection:
seconds of the processor, and the largest anonymous memory, read twenty times a second, in which
pages of mapped files, which the system drops when it needs the room, do not count.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

import gradlab
from gradlab.data import TrainingFile, read_sentences
from gradlab.encoder.model import Encoder
from gradlab.inspection.texts import Texts


def sentences(count: int, length: int) -> Iterator[str]:
    """Distinct sentences of Zipf-distributed words; one in 100 is another with a new last word."""
    draw = random.Random(0)
    words = vocabulary()
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    drawn: set[int] = set()
    last = [""]
    while len(drawn) < count:
        chosen = draw.choices(words, cum_weights=weights, k=length)
        if len(drawn) % 100 == 99:
            chosen = [*last[:-1], draw.choice(words)]
        sentence = " ".join(chosen).capitalize() + "."
        if hash(sentence) not in drawn:
            drawn.add(hash(sentence))
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
        vocab_size=len(lines), hidden_size=dimension, num_hidden_layers=1,
        num_attention_heads=dimension // 26, intermediate_size=dimension,
        max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


class Memory(threading.Thread):
    """Reads the anonymous memory of this process, MB, and keeps the largest since its start."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.first = self.largest = self.held()
        self.start()

    def held(self) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024

    def run(self) -> None:
        while True:
            self.largest = max(self.largest, self.held())
            time.sleep(0.05)


def inspect(folder: Path, options: argparse.Namespace) -> None:
    """Inspect the sentences in a folder, and print what that took."""
    encoder = Encoder.load(folder / "encoder", device="cpu")
    sample = list(itertools.islice(read_sentences(folder / "sentences.txt"), 3000))
    arguments = {"max_length": options.max_length, "batches": 50, "device": "cpu"}
    # First what is imported late, and the room that a batch takes.
    gradlab.inspect(encoder, sample, **arguments)
    memory, began = Memory(), time.process_time()
    inspection = gradlab.inspect(
        encoder, Texts.of_file(TrainingFile.open(folder / "sentences.txt")), **arguments
    )
    inspection.write(folder / "found")
    print(
        f"{options.count} sentences of {options.words} words, {options.dimension} dimensions, "
        f"{len(inspection.candidates)} candidates:"
    )
    print(
        f"{time.process_time() - began:.0f} CPU s; {memory.largest - memory.first:.0f} MB "
        f"beyond {memory.first:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=312)
    parser.add_argument("--words", type=int, default=10)
    parser.add_argument("--max-length", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_encoder(folder / "encoder", options.dimension)
        with (folder / "sentences.txt").open("w", encoding="utf-8") as file:
            file.writelines(f"{sentence}\n" for sentence in sentences(options.count, options.words))
        os.environ["GRADLAB_CACHE_DIR"] = str(folder / "cache")
        # In a process of its own, whose memory never held what was made here.
        child = multiprocessing.get_context("spawn").Process(target=inspect, args=(folder, options))
        child.start()
        child.join()


if __name__ == "__main__":
    main()

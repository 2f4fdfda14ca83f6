"""Plant duplicates and paraphrases in a file of sentences, to see whether `gradlab inspect` finds them.

    python tests/manual/plant_paraphrases.py SENTENCES --model MODEL --count 20000 --output planted

Writes planted.txt (the sentences with what was planted, shuffled) and planted.csv (kind, row of the original and row of
the planted sentence in planted.txt, both from 0). One per cent of the sentences get a duplicate, another per cent a
paraphrase: half of these have their words shuffled, half have one word replaced by its nearest neighbour among the model's
word embeddings (no name, no number, no other form of the word). No sentence of such a file belongs into the repository.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import re
from pathlib import Path

import numpy as np

from gradlab.encoder.model import Encoder
from gradlab.train.sentences import read_sentences


class Replacements:
    """The nearest word of another word, by the cosine of the model's input embeddings."""

    def __init__(self, model: str) -> None:
        encoder = Encoder.load(model)
        vocabulary = encoder.tokenizer.get_vocab()
        self.words = sorted(word for word in vocabulary if re.fullmatch(r"[a-z]{3,}", word))
        rows = encoder.model.get_input_embeddings().weight.detach().numpy()
        rows = rows[[vocabulary[word] for word in self.words]]
        self.rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self.places = {word: place for place, word in enumerate(self.words)}

    def __call__(self, word: str) -> str | None:
        """None for a word that is no plain one of the vocabulary, or has no neighbour of another stem."""
        if word not in self.places:
            return None
        cosines = self.rows @ self.rows[self.places[word]]
        for place in np.argsort(-cosines)[1:10]:
            if self.words[place][:4] != word[:4]:
                return self.words[place]
        return None


def shuffled(sentence: str, generator: random.Random) -> str | None:
    """The words in another order, the punctuation at the end kept; None if there are fewer than three."""
    body, stop = re.fullmatch(r"(.*?)(\W*)", sentence, re.DOTALL).groups()
    words = body.split()
    if len(set(words)) < 3:
        return None
    while (other := generator.sample(words, len(words))) == words:
        pass
    return " ".join(other) + stop


def replaced(sentence: str, replacements: Replacements, generator: random.Random) -> str | None:
    """One lower-case word of at least three letters replaced by its neighbour; None if none can be."""
    words = sentence.split()
    for place in generator.sample(range(len(words)), len(words)):
        other = replacements(words[place])
        if other is not None:
            return " ".join([*words[:place], other, *words[place + 1 :]])
    return None


def main() -> None:
    """Read, plant, shuffle, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences")
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", required=True, type=Path)
    options = parser.parse_args()

    generator = random.Random(options.seed)
    sentences = list(itertools.islice(read_sentences(options.sentences), options.count))
    each = round(options.share * len(sentences))
    originals = generator.sample(range(len(sentences)), len(sentences))
    planted: list[tuple[str, int, str]] = [("duplicate", row, sentences[row]) for row in originals[:each]]
    replacements = Replacements(options.model)
    makers = {
        "shuffled": lambda sentence: shuffled(sentence, generator),
        "replaced": lambda sentence: replaced(sentence, replacements, generator),
    }
    rest = iter(originals[each:])
    for place in range(each):
        kind = ("shuffled", "replaced")[place % 2]
        made = ((row, makers[kind](sentences[row])) for row in rest)
        row, text = next((row, text) for row, text in made if text is not None)
        planted.append((kind, row, text))

    texts = [*sentences, *(text for _, _, text in planted)]
    order = generator.sample(range(len(texts)), len(texts))
    places = {old: new for new, old in enumerate(order)}
    options.output.with_suffix(".txt").write_text(
        "".join(texts[old] + "\n" for old in order), encoding="utf-8"
    )
    with options.output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kind", "original", "planted"])
        for number, (kind, row, _) in enumerate(planted):
            writer.writerow([kind, places[row], places[len(sentences) + number]])


if __name__ == "__main__":
    main()

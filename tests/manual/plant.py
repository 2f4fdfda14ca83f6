"""Plant hard negatives, or duplicates and paraphrases, in real sentences.

This shows what `gradlab inspect` finds of them.

    python tests/manual/plant.py hard-negatives SENTENCES --senteval FOLDER [--model MODEL]
    python tests/manual/plant.py paraphrases SENTENCES --model MODEL --count 10000 --output planted

SENTENCES is a file of sentences with names and numbers, such as Wikipedia's; none of it belongs
into the repository.

``hard-negatives`` prints, for each kind of hard negative, how many there are and which verdicts
they get. FOLDER is SentEval's ``data/downstream``, of which SICK and MRPC are read. Anchors and
positives of SICK are its entailed pairs; of SENTENCES, a sentence and its last two thirds. Without
a model the embeddings are drawn at random, and only words count.

``paraphrases`` writes planted.txt (the sentences with what was planted, shuffled) and planted.csv
(kind, row of the original and row of the planted sentence, from 0). One per cent of the sentences
get a duplicate, another per cent a paraphrase: half of these have their words shuffled, half have
one word replaced by its nearest neighbour among the model's word embeddings.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gradlab
from gradlab.data.sentences import read_sentences
from gradlab.encoder.model import Encoder
from gradlab.files import write_csv
from gradlab.inspection.same_meaning import NEGATIONS
from gradlab.inspection.tables import VERDICTS
from gradlab.inspection.texts import normalize

Rows = list[tuple[str, str, str]]  # anchor, positive, hard negative
NAME, NUMBER, WORD = r"[A-Z][a-z]{2,}", r"\d+", r"[a-z]{5,}"


def less(text: str, share: float, draw: random.Random) -> str:
    """The text less a share of its words, but no negation, without which it says the opposite."""
    words = text.split()
    places = [
        place for place, word in enumerate(words) if NEGATIONS.isdisjoint(normalize(word).split())
    ]
    left_out = draw.sample(places, max(1, round(share * len(words))))
    return " ".join(word for place, word in enumerate(words) if place not in left_out)


def shuffled(text: str, draw: random.Random) -> str:
    return " ".join(draw.sample(text.split(), len(text.split())))


def places_of(words: list[str], form: str) -> list[int]:
    return [place for place in range(1, len(words)) if re.fullmatch(form, words[place])]


def exchanged(text: str, form: str, replacements: list[str], draw: random.Random) -> str | None:
    """A word of this form gives place to another one of it."""
    words = text.split()
    if not (places := places_of(words, form)):
        return None
    place = draw.choice(places)
    replacement = draw.choice(
        [word for word in replacements if word.casefold() != words[place].casefold()]
    )
    return " ".join([*words[:place], replacement, *words[place + 1 :]])


def roles(text: str, draw: random.Random) -> str | None:
    """Two names exchange their places."""
    words = text.split()
    names = itertools.combinations(places_of(words, NAME), 2)
    if not (pairs := [(a, b) for a, b in names if b - a > 1 and words[a] != words[b]]):
        return None
    first_name, second_name = draw.choice(pairs)
    words[first_name], words[second_name] = words[second_name], words[first_name]
    return " ".join(words)


def denied(text: str) -> str | None:
    """A "not" behind the verb."""
    verb = re.search(r"\b(is|was|are|were|has|had|can|will)\b", text)
    return None if verb is None else f"{text[: verb.end()]} not{text[verb.end() :]}"


def crop(text: str) -> str:
    words = text.split()
    return " ".join(words[len(words) // 3 :])


def read_sick(folder: Path) -> tuple[Rows, Rows]:
    """Entailed pairs (no hard negative), and sentences with an entailed and a contradicting one."""
    entailed: dict[str, list[str]] = {}
    contradictions: list[tuple[str, str]] = []
    for path in sorted((folder / "SICK").glob("SICK_*.txt")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                sentence, second, kind = (
                    row["sentence_A"],
                    row["sentence_B"],
                    row["entailment_judgment"],
                )
                if kind == "ENTAILMENT":
                    entailed.setdefault(sentence, []).append(second)
                    entailed.setdefault(second, []).append(sentence)
                elif kind == "CONTRADICTION":
                    contradictions += [(sentence, second), (second, sentence)]
    pairs = [(sentence, texts[0], "") for sentence, texts in entailed.items()]
    return pairs, [
        (sentence, entailed[sentence][0], second)
        for sentence, second in contradictions
        if sentence in entailed
    ]


def read_mrpc(folder: Path) -> Rows:
    """A pair that is no paraphrase; the positive is the anchor without its first words."""
    lines = [
        line.split("\t")
        for path in sorted((folder / "MRPC").glob("*.txt"))
        for line in path.read_text(encoding="utf-8-sig").splitlines()[1:]
    ]
    return [(first, crop(first), second) for label, _, _, first, second in lines if label == "0"]


def kinds_of_hard_negatives(options: argparse.Namespace) -> dict[str, tuple[bool, Rows]]:
    """Whether they are false, and rows of them."""
    draw = random.Random(options.seed)
    sentences = list(itertools.islice(read_sentences(options.sentences), 20_000))
    sentences = draw.sample([text for text in sentences if 8 <= len(text.split()) <= 40], 4_000)
    words = [word for text in sentences[:1000] for word in text.split()[1:]]
    words_by_form = {
        form: [w for w in words if re.fullmatch(form, w)] for form in (NAME, NUMBER, WORD)
    }
    sick, contradictions = read_sick(options.senteval)
    crops = [(text, crop(text), "") for text in sentences]
    ahead = ("As expected, ", "In fact, ", "Of course, ")
    result: dict[str, tuple[bool, Rows]] = {}

    def add(kind: str, false: bool, rows: Rows, make: Callable[[str, str], str | None]) -> None:
        """Of rows whose hard negative can be made of anchor and positive."""
        triples = ((anchor, positive, make(anchor, positive)) for anchor, positive, _ in rows)
        usable = (
            (anchor, positive, hard)
            for anchor, positive, hard in triples
            if hard is not None and hard != anchor
        )
        result[kind] = false, list(itertools.islice(usable, options.count))

    for name, rows in (("Wikipedia", crops), ("SICK", sick)):
        add(
            f"{name}: anchor less a fifth of its words", True, rows, lambda a, b: less(a, 0.2, draw)
        )
        add(
            f"{name}: positive less a fifth of its words",
            True,
            rows,
            lambda a, b: less(b, 0.2, draw),
        )
        add(
            f"{name}: anchor less a tenth of its words", True, rows, lambda a, b: less(a, 0.1, draw)
        )
        add(f"{name}: anchor with its words shuffled", True, rows, lambda a, b: shuffled(a, draw))
        add(f"{name}: anchor in capitals", True, rows, lambda a, b: a.upper() + "!")
        add(
            f"{name}: anchor behind two more words", True, rows, lambda a, b: draw.choice(ahead) + a
        )
        add(f"{name}: of another row", False, rows, lambda a, b, rows=rows: draw.choice(rows)[1])
        add(
            f"{name}: a word exchanged",
            False,
            rows,
            lambda a, b: exchanged(a, WORD, words_by_form[WORD], draw),
        )
        add(f'{name}: denied by a "not"', False, rows, lambda a, b: denied(a))
    for kind, form in (("name", NAME), ("number", NUMBER)):
        make = lambda a, b, form=form: exchanged(a, form, words_by_form[form], draw)  # noqa: E731
        add(f"Wikipedia: a {kind} exchanged", False, crops, make)
    add("Wikipedia: two names exchange places", False, crops, lambda a, b: roles(a, draw))
    result["SICK: contradictions"] = False, contradictions
    result["MRPC: no paraphrases"] = False, read_mrpc(options.senteval)
    return result


def hard_negatives(options: argparse.Namespace) -> None:
    encoder = Encoder.load(options.model) if options.model else None
    totals = {True: [0, 0], False: [0, 0]}
    print(f"{'hard negatives':50} {'number':>7}  {'  '.join(VERDICTS)}")
    for kind, (false, rows) in kinds_of_hard_negatives(options).items():
        anchors, positives, hard = (list(column) for column in zip(*rows, strict=True))
        drawn = np.random.default_rng(0).normal(size=(3, len(rows), 16))
        embeddings = dict(zip(("anchors", "positives", "hard_negatives"), drawn, strict=True))
        inspection = gradlab.inspect(
            encoder, anchors, positives=positives, hard_negatives=hard,
            embeddings=None if encoder else embeddings
        )  # fmt: skip
        verdict = inspection.table("hard-negatives")["verdict"]
        counts = [int((verdict == name).sum()) for name in VERDICTS]
        totals[false][0] += counts[0]
        totals[false][1] += len(rows)
        columns = "  ".join(
            f"{count:{len(name)}}" for count, name in zip(counts, VERDICTS, strict=True)
        )
        print(f"{'false' if false else 'sound'}  {kind:43} {len(rows):7}  {columns}", flush=True)
    for false, (accused, of) in totals.items():
        print(
            f"{'false ones found' if false else 'sound ones accused'}: "
            f"{accused} of {of} ({accused / of:.1%})"
        )


class Replacements:
    """A sentence with one plain word replaced by its nearest neighbour of another stem.

    The nearest by the model's input embeddings.
    """

    def __init__(self, model: str) -> None:
        encoder = Encoder.load(model)
        vocabulary = encoder.tokenizer.get_vocab()
        self.words = sorted(word for word in vocabulary if re.fullmatch(r"[a-z]{3,}", word))
        rows = encoder.model.get_input_embeddings().weight.detach().numpy()
        rows = rows[[vocabulary[word] for word in self.words]]
        self.rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self.places = {word: place for place, word in enumerate(self.words)}

    def __call__(self, sentence: str, draw: random.Random) -> str | None:
        words = sentence.split()
        for place in draw.sample(range(len(words)), len(words)):
            if words[place] in self.places:
                nearest = np.argsort(-self.rows @ self.rows[self.places[words[place]]])[1:10]
                for neighbour in (self.words[row] for row in nearest):
                    if neighbour[:4] != words[place][:4]:
                        return " ".join([*words[:place], neighbour, *words[place + 1 :]])
        return None


def shuffled_but_the_stop(sentence: str, draw: random.Random) -> str | None:
    """The words in another order, final punctuation kept; None if there are fewer than three."""
    body, stop = re.fullmatch(r"(.*?)(\W*)", sentence, re.DOTALL).groups()
    if len(set(body.split())) < 3:
        return None
    while (candidate := shuffled(body, draw)) == " ".join(body.split()):
        pass
    return candidate + stop


def paraphrases(options: argparse.Namespace) -> None:
    draw = random.Random(options.seed)
    sentences = list(itertools.islice(read_sentences(options.sentences), options.count))
    count = round(0.01 * len(sentences))
    originals = draw.sample(range(len(sentences)), len(sentences))
    planted: list[tuple[str, int, str]] = [
        ("duplicate", row, sentences[row]) for row in originals[:count]
    ]
    makers = {"shuffled": shuffled_but_the_stop, "replaced": Replacements(options.model)}
    remaining = iter(originals[count:])
    for kind in itertools.islice(itertools.cycle(makers), count):
        pairs = ((row, makers[kind](sentences[row], draw)) for row in remaining)
        planted.append((kind, *next((row, text) for row, text in pairs if text is not None)))
    texts = [*sentences, *(text for _, _, text in planted)]
    order = draw.sample(range(len(texts)), len(texts))
    places = {old: new for new, old in enumerate(order)}
    options.output.with_suffix(".txt").write_text(
        "".join(texts[old] + "\n" for old in order), encoding="utf-8"
    )
    kinds, rows, _ = zip(*planted, strict=True)
    table = {"kind": kinds, "original": [places[row] for row in rows]}
    table["planted"] = [places[len(sentences) + number] for number in range(len(planted))]
    write_csv(options.output.with_suffix(".csv"), table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("hard-negatives", "paraphrases"))
    parser.add_argument("sentences")
    parser.add_argument("--senteval", type=Path, help="of hard-negatives")
    parser.add_argument("--model")
    parser.add_argument(
        "--count", type=int, help="200 of a kind of hard negative, or 20,000 sentences"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="of paraphrases")
    options = parser.parse_args()
    options.count = options.count or {"hard-negatives": 200, "paraphrases": 20_000}[options.what]
    {"hard-negatives": hard_negatives, "paraphrases": paraphrases}[options.what](options)


if __name__ == "__main__":
    main()

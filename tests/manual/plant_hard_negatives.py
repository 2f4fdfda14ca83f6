"""How many false hard negatives `gradlab inspect` finds in real sentences, and how many sound ones it accuses.

    python tests/manual/plant_hard_negatives.py SENTENCES --senteval FOLDER [--model MODEL]

SENTENCES is a file of sentences with names and numbers, such as Wikipedia's; FOLDER is SentEval's
``data/downstream``, of which SICK and MRPC are read. Prints, for each kind of hard negative, how many there are and
which verdicts they get. Anchors and positives of SICK are its entailed pairs; of SENTENCES, a sentence and
its last two thirds. Without a model the embeddings are drawn at random, and only words count. No sentence of these files belongs into the repository.
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
from gradlab.encoder.model import Encoder
from gradlab.inspection.hard_negatives import NEGATIONS, VERDICTS
from gradlab.inspection.words import normalize
from gradlab.train.sentences import read_sentences

Rows = list[tuple[str, str, str]]  # anchor, positive, hard negative


def less(text: str, share: float, generator: random.Random) -> str:
    """The text less a share of its words, none of which is a negation: without that it would say the opposite."""
    words = text.split()
    places = [place for place, word in enumerate(words) if NEGATIONS.isdisjoint(normalize(word).split())]
    left_out = generator.sample(places, max(1, round(share * len(words))))
    return " ".join(word for place, word in enumerate(words) if place not in left_out)


def shuffled(text: str, generator: random.Random) -> str:
    """The words in another order."""
    return " ".join(generator.sample(text.split(), len(text.split())))


def longer(text: str, generator: random.Random) -> str:
    """Two words before the text."""
    return generator.choice(("As expected, ", "In fact, ", "Of course, ")) + text


def _exchanged(text: str, form: str, others: list[str], generator: random.Random) -> str | None:
    words = text.split()
    places = [place for place in range(1, len(words)) if re.fullmatch(form, words[place])]
    if not places:
        return None
    place = generator.choice(places)
    other = generator.choice([word for word in others if word.casefold() != words[place].casefold()])
    return " ".join([*words[:place], other, *words[place + 1 :]])


NAME, NUMBER, WORD = r"[A-Z][a-z]{2,}", r"\d+", r"[a-z]{5,}"


def roles(text: str, generator: random.Random) -> str | None:
    """Two names exchange their places."""
    words = text.split()
    places = [place for place in range(1, len(words)) if re.fullmatch(NAME, words[place])]
    pairs = [(a, b) for a, b in itertools.combinations(places, 2) if b - a > 1 and words[a] != words[b]]
    if not pairs:
        return None
    one, other = generator.choice(pairs)
    words[one], words[other] = words[other], words[one]
    return " ".join(words)


def denied(text: str, generator: random.Random) -> str | None:
    """A "not" behind the verb."""
    found = re.search(r"\b(is|was|are|were|has|had|can|will)\b", text)
    return None if found is None else f"{text[: found.end()]} not{text[found.end() :]}"


def read_sick(folder: Path) -> tuple[Rows, Rows]:
    """Entailed pairs (without a hard negative), and sentences with one they entail and one that contradicts them."""
    entailed: dict[str, list[str]] = {}
    contradictions: list[tuple[str, str]] = []
    for path in sorted((folder / "SICK").glob("SICK_*.txt")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                one, other, kind = row["sentence_A"], row["sentence_B"], row["entailment_judgment"]
                if kind == "ENTAILMENT":
                    entailed.setdefault(one, []).append(other)
                    entailed.setdefault(other, []).append(one)
                elif kind == "CONTRADICTION":
                    contradictions += [(one, other), (other, one)]
    pairs = [(one, others[0], "") for one, others in entailed.items()]
    return pairs, [(one, entailed[one][0], other) for one, other in contradictions if one in entailed]


def read_mrpc(folder: Path) -> Rows:
    """A pair that is no paraphrase; the positive is the anchor without its last words."""
    rows = []
    for path in sorted((folder / "MRPC").glob("*.txt")):
        for line in path.read_text(encoding="utf-8-sig").splitlines()[1:]:
            label, _, _, one, other = line.split("\t")
            if label == "0":
                rows.append((one, _crop(one), other))
    return rows


def _crop(text: str) -> str:
    words = text.split()
    return " ".join(words[len(words) // 3 :])


def lists(options: argparse.Namespace, generator: random.Random) -> dict[str, tuple[bool, Rows]]:
    """Kinds of hard negatives: whether they are false, and rows of them."""
    sentences = list(itertools.islice(read_sentences(options.sentences), 20_000))
    sentences = generator.sample([text for text in sentences if 8 <= len(text.split()) <= 40], 4_000)
    words = [word for text in sentences[:1000] for word in text.split()[1:]]
    others = {form: [w for w in words if re.fullmatch(form, w)] for form in (NAME, NUMBER, WORD)}
    sick, contradictions = read_sick(options.senteval)
    crops = [(text, _crop(text), "") for text in sentences]

    def made(rows: Rows, make: Callable[[str, str], str | None]) -> Rows:
        """Rows with the hard negative that is made of anchor and positive, where one can be."""
        found = ((one, other, make(one, other)) for one, other, _ in rows)
        usable = ((one, other, hard) for one, other, hard in found if hard is not None and hard != one)
        return list(itertools.islice(usable, options.count))

    result: dict[str, tuple[bool, Rows]] = {}
    for name, rows in (("Wikipedia", crops), ("SICK", sick)):
        for kind, make in {
            "anchor less a fifth of its words": lambda one, other: less(one, 0.2, generator),
            "positive less a fifth of its words": lambda one, other: less(other, 0.2, generator),
            "anchor less a tenth of its words": lambda one, other: less(one, 0.1, generator),
            "anchor with its words shuffled": lambda one, other: shuffled(one, generator),
            "anchor in capitals": lambda one, other: one.upper() + "!",
            "anchor behind two more words": lambda one, other: longer(one, generator),
        }.items():
            result[f"{name}: {kind}"] = True, made(rows, make)
        for kind, make in {
            "a sentence of another row": lambda one, other, rows=rows: generator.choice(rows)[1],
            "a word exchanged": lambda one, other: _exchanged(one, WORD, others[WORD], generator),
            'denied by a "not"': lambda one, other: denied(one, generator),
        }.items():
            result[f"{name}: {kind}"] = False, made(rows, make)
    for kind, form in (("a name exchanged", NAME), ("a number exchanged", NUMBER)):
        found = made(crops, lambda one, other, form=form: _exchanged(one, form, others[form], generator))
        result[f"Wikipedia: {kind}"] = False, found
    result["Wikipedia: two names exchange places"] = (
        False,
        made(crops, lambda one, other: roles(one, generator)),
    )
    result["SICK: contradictions"] = False, contradictions
    result["MRPC: no paraphrases"] = False, read_mrpc(options.senteval)
    return result


def main() -> None:
    """Plant, inspect, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences")
    parser.add_argument("--senteval", required=True, type=Path)
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    encoder = Encoder.load(options.model) if options.model else None
    totals = {True: [0, 0], False: [0, 0]}
    print(f"{'hard negatives':50} {'number':>7}  {'  '.join(VERDICTS)}")
    for kind, (false, rows) in lists(options, random.Random(options.seed)).items():
        anchors, positives, hard = (list(column) for column in zip(*rows, strict=True))
        drawn = np.random.default_rng(0).normal(size=(3, len(rows), 16))
        found = gradlab.inspect(
            encoder, anchors, positives=positives, hard_negatives=hard,
            embeddings=None if encoder else dict(zip(("anchors", "positives", "hard_negatives"), drawn, strict=True)),
        )  # fmt: skip
        verdict = found.table("hard-negatives")["verdict"]
        assert len(verdict) == len(rows)
        counts = [int((verdict == one).sum()) for one in VERDICTS]
        totals[false][0] += counts[0]
        totals[false][1] += len(rows)
        columns = "  ".join(f"{n:{len(one)}}" for n, one in zip(counts, VERDICTS, strict=True))
        print(f"{'false' if false else 'sound'}  {kind:43} {len(rows):7}  {columns}", flush=True)
    for false, (found_so, of) in totals.items():
        print(
            f"{'false ones found' if false else 'sound ones accused'}: {found_so} of {of} ({found_so / of:.1%})"
        )


if __name__ == "__main__":
    main()

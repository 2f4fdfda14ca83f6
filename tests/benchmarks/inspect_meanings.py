"""What does `inspect` find of paraphrases and translations, and does it accuse other facts?

    python tests/benchmarks/inspect_meanings.py --model MODEL [--cosine .9 .8 .7]

Made-up facts are planted a second time: as a copy, with their words in another order, in other
words, and in German. Others change a name, a number or a thing: they are sound. Without a cosine
the words decide together with the embeddings; with one, the embeddings alone.
"""

from __future__ import annotations

import argparse
import random

import numpy as np

import gradlab
from gradlab.encoder.model import Encoder

# English, other English words, German.
PEOPLE = [
    ("the baker", "the man who makes bread", "der Bäcker"),
    ("a young nurse", "someone new from the hospital", "eine junge Krankenschwester"),
    ("our neighbour", "the person next door", "unser Nachbar"),
    ("the ferry captain", "the skipper of the boat", "der Kapitän der Fähre"),
    ("an old clerk", "an aged office worker", "ein alter Schreiber"),
    ("the gardener", "the woman who tends the plants", "die Gärtnerin"),
]
ACTS = [
    ("repaired", "mended", "reparierte"),
    ("sold", "found a buyer for", "verkaufte"),
    ("painted", "put fresh colour on", "bemalte"),
    ("lost", "could no longer find", "verlor"),
    ("inspected", "looked closely at", "prüfte"),
    ("moved", "carried away", "verschob"),
]
WARES = [
    ("lantern", "lamp", "die Laterne"),
    ("kettle", "tea pot", "den Kessel"),
    ("violin", "fiddle", "die Geige"),
    ("ladder", "set of rungs", "die Leiter"),
    ("furnace", "oven", "den Ofen"),
    ("tram", "streetcar", "die Straßenbahn"),
    ("quilt", "padded bedspread", "die Steppdecke"),
]
PLACES = [
    *("Marlow", "Tessin", "Okara", "Velden", "Brixby"),
    *("Sandholm", "Quarrel", "Pellworm", "Dornick", "Aske"),
]
Fact = tuple[int, int, int, str, int]


def passage(fact: Fact) -> str:
    who, act, ware, place, days = fact
    return (
        f"In {place}, {PEOPLE[who][0]} {ACTS[act][0]} the {WARES[ware][0]} after {days} days of "
        "waiting."
    )


def reordered(fact: Fact) -> str:
    who, act, ware, place, days = fact
    return (
        f"After {days} days of waiting, {PEOPLE[who][0]} in {place} {ACTS[act][0]} the "
        f"{WARES[ware][0]}."
    )


def reworded(fact: Fact) -> str:
    who, act, ware, place, days = fact
    return (
        f"People say that {PEOPLE[who][1]} {ACTS[act][1]} the {WARES[ware][1]} when {days} days "
        f"had gone by at {place}."
    )


def translated(fact: Fact) -> str:
    who, act, ware, place, days = fact
    return (
        f"In {place} {ACTS[act][2]} {PEOPLE[who][2]} nach {days} Tagen des Wartens "
        f"{WARES[ware][2]}."
    )


def place_after(place: str) -> str:
    return PLACES[PLACES.index(place) - 1]


def facts(count: int) -> list[Fact]:
    draw = random.Random(0)
    drawn: dict[Fact, None] = {}
    while len(drawn) < count:
        fact = [draw.randrange(len(words)) for words in (PEOPLE, ACTS, WARES)]
        drawn[(*fact, draw.choice(PLACES), draw.randint(3, 97))] = None
    return list(drawn)


def texts_of(count: int) -> tuple[list[str], dict[str, list[tuple[int, int]]]]:
    """Return texts, and by kind the rows of a fact and of its second text."""
    texts, pairs = [], {}
    kinds = {
        "a copy": lambda fact: passage(fact).upper(),
        "words in another order": reordered,
        "other words": reworded,
        "German": translated,
        "another place": lambda fact: passage((*fact[:3], place_after(fact[3]), fact[4])),
        "another number": lambda fact: passage((*fact[:4], fact[4] + 1)),
        "another thing": lambda fact: passage((*fact[:2], (fact[2] + 1) % len(WARES), *fact[3:])),
    }  # fmt: skip
    share = count // len(kinds)
    unused = iter(facts(count))
    for kind, make in kinds.items():
        pairs[kind] = []
        for fact in [next(unused) for _ in range(share)]:
            pairs[kind].append((len(texts), len(texts) + 1))
            texts += [passage(fact), make(fact)]
    return texts, pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--pooler")
    parser.add_argument("--count", type=int, default=700)
    parser.add_argument("--cosine", type=float, nargs="*", default=[0.9, 0.8, 0.7])
    options = parser.parse_args()
    texts, pairs = texts_of(options.count)
    vectors = Encoder.load(options.model, options.pooler).encode(texts, normalize=True)
    for cosine in (None, *options.cosine):
        inspection = gradlab.find_false_negatives(
            None, texts, embeddings=np.asarray(vectors), cosine=cosine, batches=2
        )
        table = inspection.table("candidates")
        listed = set(zip(table["first_row"], table["second_row"], strict=True))
        recall = ", ".join(
            f"{kind} {sum(pair in listed for pair in planted)} of {len(planted)}"
            for kind, planted in pairs.items()
        )
        unplanted = len(listed - {pair for planted in pairs.values() for pair in planted})
        print(
            f"cosine {cosine or 'unset'}: {recall}; pairs of different facts {unplanted}",
            flush=True,
        )


if __name__ == "__main__":
    main()

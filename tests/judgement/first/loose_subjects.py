"""Subjects without slots: tickets, payments, reviews with stars, numbers, statements, minutes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.judgement.first.subject_kit import kept_aside

TICKETS = {
    "login": "password locked otp captcha expired signin",
    "billing": "invoice charged vat twice card overpaid",
    "delivery": "courier tracking lost doorstep parcel customs",
    "display": "pixels dark flicker blurry resolution brightness",
    "battery": "drains charger swollen percent unplugged overnight",
    "network": "wifi router dns slow vpn dropped",
    "printing": "toner jam duplex tray cartridge smudges",
    "mail": "attachment bounce spam inbox signature outlook",
}
PAYMENTS = {
    "groceries": "aldi lidl tesco rewe migros carrefour",
    "fuel": "shell esso totalenergies aral repsol omv",
    "rent": "landlord housing tenancy deposit quarters flatshare",
    "leisure": "netflix spotify cinema steam theatre zoo",
    "travel": "ryanair hertz booking amtrak eurostar hostel",
    "health": "pharmacy dentist optician physio clinic boots",
    "insurance": "allianz axa geico generali premium policy",
}
_OPENINGS = ("hi team", "urgent", "dear support", "hello", "second try", "quick question", "help")
_MIDDLES = ("since this morning", "after the update", "on two machines", "again", "for my boss",
            "in the branch office", "before a deadline", "as a guest")  # fmt: skip
_LEDGERS = ("pos", "sepa", "dd", "ref", "visa", "giro", "atm", "web")


def _split(
    texts: Mapping[str, int], held_out: bool, count: int
) -> dict[str, list[Any]]:  # fmt: skip
    texts_of_half = [(text, label) for text, label in texts.items() if kept_aside(text) == held_out]
    assert len(texts_of_half) >= count, len(texts_of_half)
    texts_of_half = texts_of_half[:count]
    return {
        "text": [text for text, _ in texts_of_half],
        "label": [label for _, label in texts_of_half],
    }


def tickets(count: int, *, held_out: bool = False, seed: int = 0) -> dict[str, list[Any]]:
    """Texts of tickets with the number of their category."""
    draw, texts = random.Random(seed), dict[str, int]()
    for _ in range(8 * count):
        label = draw.randrange(len(TICKETS))
        first, second = draw.sample(list(TICKETS.values())[label].split(), 2)
        segments = [draw.choice(_OPENINGS), f"trouble with {first}", draw.choice(_MIDDLES),
                 f"also {second} please advise"]  # fmt: skip
        texts[" , ".join(segments)] = label
    return _split(texts, held_out, count)


def ticket_pairs(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of tickets: of one category (1) or of two (0)."""
    table, draw = tickets(count, seed=seed), random.Random(seed)
    rows = list(zip(table["text"], table["label"], strict=True))
    pairs: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "label": []}
    for at, (text, label) in enumerate(rows):
        same = at % 2
        counterparts = [o for o, of in rows if (of == label) == bool(same) and o != text]
        pairs["sentence1"].append(text)
        pairs["sentence2"].append(draw.choice(counterparts))
        pairs["label"].append(same)
    return pairs


def payments(count: int, *, held_out: bool = False, seed: int = 0) -> dict[str, list[Any]]:
    """Lines of bank statements with the number of their category."""
    draw, texts = random.Random(seed), dict[str, int]()
    for _ in range(8 * count):
        label = draw.randrange(len(PAYMENTS))
        payee = draw.choice(list(PAYMENTS.values())[label].split())
        line = f"{draw.choice(_LEDGERS)} {payee} {draw.randint(2, 80)} eur"
        texts[f"{line} {draw.choice(_LEDGERS)} no {draw.randint(100, 130)}"] = label
    return _split(texts, held_out, count)


_STARS = (
    "terrible awful refund broke useless", "poor weak disappointing flimsy late",
    "okay average fine so-so usable", "good solid nice handy sturdy",
    "superb brilliant flawless perfect stunning",
)  # fmt: skip
_WARES = ("toaster", "headset", "backpack", "drone", "mattress", "razor", "blender", "tripod")
_OWNERS = ("my wife", "our office", "a student", "grandpa", "the band", "my son")


def reviews(count: int, *, held_out: bool = False, seed: int = 0) -> dict[str, list[Any]]:
    """Texts of reviews and their stars, from one to five."""
    draw, texts = random.Random(seed), dict[str, int]()
    for _ in range(8 * count):
        stars = draw.randrange(5)
        words = draw.sample(_STARS[stars].split(), 2)
        end = f"{words[1]} , says {draw.choice(_OWNERS)}"
        texts[f"this {draw.choice(_WARES)} is {words[0]} . {end} ."] = stars + 1
    return _split(texts, held_out, count)


def review_pairs(count: int, *, held_out: bool = False, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of reviews and how near their stars are, from 0 to 1."""
    table = reviews(2 * count, held_out=held_out, seed=seed)
    texts, stars = table["text"], table["label"]
    return {
        "sentence1": texts[:count],
        "sentence2": texts[count:],
        "score": [1 - abs(a - b) / 4 for a, b in zip(stars[:count], stars[count:], strict=True)],
    }


_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TENS = ["nil", "teen", "twenty", "thirty", "forty",
         "fifty", "sixty", "seventy", "eighty", "ninety"]  # fmt: skip


def spoken(number: int) -> str:
    """A number of four digits in words."""
    thousands, hundreds, tens, ones = map(int, f"{number:04d}")
    return f"{_ONES[thousands]} thousand {_ONES[hundreds]} hundred and {_TENS[tens]} {_ONES[ones]}"


def numbers(count: int, *, held_out: bool = False, seed: int = 0) -> dict[str, list[str]]:
    """Amounts in words, and their digits with the place of each."""
    drawn = random.Random(seed).sample(range(1000, 10000), 9 * count)
    texts_of_half = [number for number in drawn if kept_aside(str(number)) == held_out][:count]
    assert len(texts_of_half) == count
    return {
        "words": [spoken(number) for number in texts_of_half],
        "digits": [
            " ".join(f"{place}{digit}" for place, digit in zip("mcdu", str(number), strict=True))
            for number in texts_of_half
        ],
    }


_ACTORS = ["farmer/man", "queen/woman", "clown/man", "nun/woman", "monk/man", "actress/woman"]
_DEEDS = "sprints/moves/sits waltzes/moves/lies skates/moves/stands shouts/speaks/listens " \
    "whispers/speaks/listens drills/works/rests plows/works/rests"  # fmt: skip
_SPOTS = ["barn", "palace", "circus", "chapel", "harbour", "tunnel", "attic"]


def statements(
    count: int, *, held_out: bool = False, grades: Sequence[float] = (0, 1, 2)
) -> dict[str, list[Any]]:
    """Premises and what follows from them, stays open, or is against them."""
    draw, rows = random.Random(0), dict[tuple[str, str], float]()
    while len(rows) < count:
        actor, deed = draw.choice(_ACTORS).split("/"), draw.choice(_DEEDS.split()).split("/")
        spot, spell = draw.choice(_SPOTS), draw.choice(_SPOTS)
        premise = f"a {actor[0]} {deed[0]} in the {spot} by the {spell}"
        if kept_aside(premise) != held_out:
            continue
        kind = draw.randrange(3)
        said = f"the {actor[1]} {(deed[1], 'is tired', deed[2])[kind]}"
        rows[premise, said] = grades[kind]
    first, second = zip(*rows, strict=True)
    return {"premise": list(first), "hypothesis": list(second), "label": list(rows.values())}

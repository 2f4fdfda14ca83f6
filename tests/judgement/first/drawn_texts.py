"""Fields of texts with labels: tickets, intents, reviews, entailment, doubles, sensors, tags."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any


def distinct(
    draw_row: Callable[[random.Random], Any], count: int, held_out: bool, segments: int = 99
) -> list[Any]:
    """Different rows; those held out differ from all others in their first ``parts``."""
    draw, rows = random.Random(3), dict[Any, None]()
    for _ in range(200 * count):
        row = draw_row(draw)
        if (zlib.crc32(repr(row[:segments]).encode()) % 4 == 0) == held_out:
            rows[row] = None
        if len(rows) == count:
            return list(rows)
    raise ValueError("the field has too few rows")


_QUEUES = {
    "billing": "charged invoice refund double vat card",
    "network": "wifi vpn slow router ping cable",
    "hardware": "keyboard battery screen fan charger dock",
    "access": "password locked login token badge otp",
    "mail": "outlook inbox spam attachment calendar bounce",
    "printing": "toner paper jam duplex scanner tray",
    "phone": "voicemail headset dial ringtone sim roaming",
    "travel": "hotel taxi flight visa mileage receipt",
}
_OPENERS = ("hi", "help", "urgent", "fyi", "since monday", "again", "dear desk", "after lunch")
_ENDS = ("please", "thanks", "asap", "no rush", "cheers", "call me", "any idea", "broken")


def tickets(count: int, held_out: bool = False) -> dict[str, list[Any]]:
    """Tickets of a help desk and the number of the queue to which they belong."""

    def row(draw: random.Random) -> tuple[Any, ...]:
        label = draw.randrange(len(_QUEUES))
        words = draw.sample(list(_QUEUES.values())[label].split(), 2)
        return draw.choice(_OPENERS), *words, draw.choice(_ENDS), label

    rows = distinct(row, count, held_out)
    return {
        "text": [f"{hi} the {a} and my {b} {end}" for hi, a, b, end, _ in rows],
        "label": [row[-1] for row in rows],
    }


def queue_titles() -> list[str]:
    """The names of the queues."""
    return list(_QUEUES)


_INTENTS = {
    "transfer": "send wire move pay", "balance": "left funds available much",
    "block": "lost stolen freeze disable", "loan": "borrow mortgage lend rate",
    "limit": "raise cap maximum increase", "branch": "nearest office hours atm",
    "exchange": "dollars euros convert currency", "dispute": "wrong fraud unknown reverse",
    "open": "new start join savings", "close": "end terminate leave shut",
}  # fmt: skip
_ASIDES = ("today", "abroad", "my wife", "the app", "by phone", "from rome", "this week", "at once")


def intents(count: int, held_out: bool = False, names: range = range(10)) -> dict[str, list[Any]]:
    """What customers say to the bot of a bank, with their intent."""

    def row(draw: random.Random) -> tuple[Any, ...]:
        label = draw.choice(names)
        word = draw.choice(list(_INTENTS.values())[label].split())
        return draw.choice(("can i", "i want to", "how do i", "need")), word, *draw.sample(
            _ASIDES, 2), label  # fmt: skip

    rows = distinct(row, count, held_out)
    return {
        "utterance": [f"{hi} {word} {a} {b} ?" for hi, word, a, b, _ in rows],
        "label": [row[-1] for row in rows],
    }


_RATED = (
    "awful horrid useless dreadful", "poor weak disappointing flimsy",
    "okay average passable fair", "good solid pleasing decent",
    "superb perfect excellent marvellous",
)  # fmt: skip
_ASPECTS = ("sound", "battery", "fit", "smell", "cover", "handle", "zip", "taste", "colour", "app")


def _review(draw: random.Random) -> tuple[Any, ...]:
    stars = draw.randrange(5)
    words = _RATED[stars].split()
    return stars, draw.choice(words), draw.choice(words), *draw.sample(_ASPECTS, 2)


def reviews(count: int, held_out: bool = False) -> dict[str, list[Any]]:
    """Reviews of products and their stars, from 0 to 4."""
    rows = distinct(_review, count, held_out)
    return {
        "review": [
            f"the {segment} is {praise} and the {counterpart} {blame}"
            for _, praise, blame, segment, counterpart in rows
        ],
        "label": [row[0] for row in rows],
    }


def review_pairs(count: int, held_out: bool = False) -> dict[str, list[Any]]:
    """Pairs of reviews; the nearer their stars are, the higher their score from 0 to 1."""
    table = reviews(2 * count, held_out)
    texts, stars = table["review"], table["label"]
    return {
        "first": texts[:count],
        "second": texts[count:],
        "score": [1 - abs(a - b) / 4 for a, b in zip(stars[:count], stars[count:], strict=True)],
    }


_MEN = ("man", "woman", "boy", "girl", "chef", "monk", "clown", "guard")
_DEEDS = {
    "sleeps": ("rests", "dances"), "runs": ("moves", "sits"), "eats": ("chews", "fasts"),
    "shouts": ("speaks", "whispers"), "swims": ("floats", "burns"), "reads": ("studies", "skis"),
    "laughs": ("smiles", "cries"), "climbs": ("ascends", "falls"),
}  # fmt: skip
_SPOTS = ("park", "street", "hall", "field", "harbour", "yard", "tower", "market", "tent", "lake")


def entailments(count: int, held_out: bool = False) -> dict[str, list[Any]]:
    """Premises and hypotheses: 0 follows, 1 is open, 2 contradicts."""

    def row(draw: random.Random) -> tuple[Any, ...]:
        return (draw.choice(_MEN), draw.choice(list(_DEEDS)), *draw.sample(_SPOTS, 2),
                draw.randrange(3))  # fmt: skip

    table: dict[str, list[Any]] = {"premise": [], "hypothesis": [], "label": []}
    for who, deed, spot, counterpart, label in distinct(row, count, held_out, 3):
        follows, denied = _DEEDS[deed]
        table["premise"].append(f"a {who} {deed} at the {spot} while others look on")
        table["hypothesis"].append(
            f"someone {(follows, 'owns', denied)[label]} at the {(spot, counterpart, spot)[label]}"
        )
        table["label"].append(label)
    return table


_ASKED = {
    "learn": "study", "sell": "market", "repair": "fix", "choose": "pick", "avoid": "prevent",
    "start": "begin", "clean": "wash", "buy": "purchase",
}  # fmt: skip
_THINGS = {
    "guitar": "instrument", "house": "home", "bicycle": "bike", "phone": "mobile", "rash": "eczema",
    "business": "company", "carpet": "rug", "debt": "loans", "puppy": "dog", "kanji": "characters",
}  # fmt: skip
_HOW = {"cheaply": "on a budget", "fast": "in little time", "alone": "without help",
        "online": "on the web"}  # fmt: skip


def doubles(count: int, held_out: bool = False) -> dict[str, list[Any]]:
    """Questions of a forum: 1 where the second asks the same, 0 where one word differs."""

    def row(draw: random.Random) -> tuple[Any, ...]:
        at = draw.randrange(3)
        chosen = [draw.choice(list(words)) for words in (_ASKED, _THINGS, _HOW)]
        counterparts = [word for word in (_ASKED, _THINGS, _HOW)[at] if word != chosen[at]]
        return (
            (*chosen, at, draw.choice(counterparts), 0)
            if draw.random() < 0.8
            else (*chosen, 0, "", 1)
        )

    table: dict[str, list[Any]] = {"question1": [], "question2": [], "label": []}
    for deed, ware, phrase_of_manner, at, counterpart, same in distinct(row, count, held_out, 3):
        second = [deed, ware, phrase_of_manner]
        if not same:
            second[at] = counterpart
        deed2, ware2, how2 = _ASKED[second[0]], _THINGS[second[1]], _HOW[second[2]]
        table["question1"].append(f"how do i {deed} a {ware} {phrase_of_manner} ?")
        table["question2"].append(f"best way to {deed2} my {ware2} {how2} ?")
        table["label"].append(same)
    return table


def sensors(count: int, held_out: bool = False) -> dict[str, list[Any]]:
    """Lines of readings, and pairs of them with a score that falls with their distance."""

    def row(draw: random.Random) -> tuple[int, ...]:
        return tuple(draw.randrange(20) for _ in range(4))

    table: dict[str, list[Any]] = {"first": [], "second": [], "score": []}
    for t1, h1, t2, h2 in distinct(row, count, held_out):
        table["first"].append(f"node 7 temp t{t1} humid h{h1} status ok")
        table["second"].append(f"node 9 temp t{t2} humid h{h2} status ok")
        table["score"].append(round(1 - (abs(t1 - t2) + abs(h1 - h2)) / 38, 3))
    return table


_MOTIFS = {
    "beach": "sand waves towel", "wedding": "bride cake vows", "alps": "peak snow glacier",
    "city": "skyline tram neon", "farm": "barn tractor hens", "concert": "stage crowd lights",
    "museum": "statue canvas frame", "jungle": "vines parrot mist", "desert": "dune camel heat",
}  # fmt: skip
_MODES = {"night": "dark", "dawn": "early", "rain": "wet", "fog": "hazy", "noon": "bright"}
_VIEWS = {"drone": "aerial", "macro": "closeup", "portrait": "face", "wide": "panorama"}


def photos(count: int, held_out: bool = False) -> dict[str, list[str]]:
    """Captions of photos and their tags in any order."""

    def row(draw: random.Random) -> tuple[Any, ...]:
        motif = draw.choice(list(_MOTIFS))
        tags = sorted(draw.sample(_MOTIFS[motif].split(), 2))
        return motif, draw.choice(list(_MODES)), draw.choice(list(_VIEWS)), *tags

    rows = distinct(row, count, held_out)
    draw, tags = random.Random(5), []
    for _, mode, view, *words in rows:
        marks = [_MODES[mode], _VIEWS[view], *words]
        draw.shuffle(marks)
        tags.append(" ".join(f"#{mark}" for mark in marks))
    return {"caption": [f"{view} shot of a {motif} at {mode} with {a} and {b}"
                        for motif, mode, view, a, b in rows], "tags": tags}  # fmt: skip

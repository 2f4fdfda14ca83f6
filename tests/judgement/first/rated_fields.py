"""Fields of texts with labels: reviews, tickets, wishes of travellers, logs, and premises."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

Cells = tuple[Any, ...]


def listed(words: str) -> list[str]:
    """Return the words of a list that is written as a text."""
    return words.split()


def drawn(
    names: Sequence[str], draw_row: Callable[[random.Random], Cells], count: int,
    held_out: bool, seed: int = 0,
) -> dict[str, list[Any]]:  # fmt: skip
    """Draw rows that differ in their first cell; a fifth of all first cells is held out."""
    draw, rows = random.Random(seed), dict[str, Cells]()
    for _ in range(500 * count):
        row = draw_row(draw)
        if (zlib.crc32(row[0].encode()) % 5 == 0) == held_out:
            rows[row[0]] = row
        if len(rows) == count:
            return {name: [row[at] for row in rows.values()] for at, name in enumerate(names)}
    raise ValueError("the field has fewer rows")


def vocabulary(*tables: dict[str, list[Any]]) -> list[str]:
    """Return all texts of tables."""
    return [cell for table in tables for column in table.values() for cell in column
            if isinstance(cell, str)]  # fmt: skip


_PRAISE = (
    "awful dreadful filthy horrible disgusting", "poor noisy worn cramped stale",
    "okay average plain acceptable ordinary", "good clean friendly comfortable quiet",
    "superb marvellous flawless stunning heavenly",
)  # fmt: skip
_ASPECTS = listed("room breakfast staff pool lobby bed bathroom view lift bar")
_GUESTS = listed("we i my_wife our_group the_kids a_colleague both_of_us everyone")


def hotel_review(draw: random.Random) -> Cells:
    """A review of a hotel, and its stars from 1 to 5."""
    stars = draw.randint(1, 5)
    words = _PRAISE[stars - 1].split()
    guest = draw.choice(_GUESTS).replace("_", " ")
    sentences = [f"the {aspect} was {draw.choice(words)}" for aspect in draw.sample(_ASPECTS, 2)]
    return f"{guest} stayed {draw.randint(2, 9)} nights . " + " and ".join(sentences), stars


def hotel_reviews(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    return drawn(("review", "stars"), hotel_review, count, held_out)


_QUEUES = {
    "billing": "charged twice bill fee refund payment card",
    "network": "slow outage signal router dropped wifi lag",
    "contract": "cancel extend renew tariff upgrade terms notice",
    "device": "screen cracked battery swollen button stuck speaker",
    "number": "sim port transfer roaming prefix keep digits",
    "fraud": "stolen hacked phishing stranger suspicious blocked scam",
}
_OPENINGS = (
    "hello , since monday", "good morning ,", "this is the third time :", "dear support ,",
    "my father says that", "as told by phone ,", "urgent !", "it seems",
)  # fmt: skip
_ENDINGS = listed("please_help thanks call_me_back this_is_unacceptable regards what_now")


def telecom_ticket(draw: random.Random) -> Cells:
    """A ticket of a telephone company, and the number of the queue that it belongs to."""
    label = draw.randrange(len(_QUEUES))
    words = draw.sample(list(_QUEUES.values())[label].split(), 3)
    ending = draw.choice(_ENDINGS).replace("_", " ")
    return f"{draw.choice(_OPENINGS)} {words[0]} {words[1]} and {words[2]} . {ending}", label


def tickets(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    return drawn(("ticket", "queue"), telecom_ticket, count, held_out)


def queue_names() -> list[str]:
    return list(_QUEUES)


_INTENTS = {
    "book": ("book me a seat to {}", "i want to fly to {}", "reserve two places for {}"),
    "status": ("is the plane to {} on time", "when does it land in {}", "any delay for {}"),
    "bags": ("how much luggage to {}", "my suitcase got lost in {}", "can skis go to {}"),
    "meal": ("vegan food on the way to {}", "is dinner served to {}", "snacks towards {}"),
    "change": ("move my trip to {}", "swap dates for {}", "other day to {} instead"),
    "refund": ("money back for {}", "never flew to {} , repay me", "drop {} and return my cash"),
    "checkin": ("print my pass for {}", "which gate for {}", "pick a window towards {}"),
}
_CITIES = listed(
    "rome madrid lisbon athens dublin vienna prague warsaw helsinki riga malta porto nice bari "
    "split turin bergen lyon graz ghent"
)
_PHRASES = ("", "please", "hi there", "quick question", "sorry", "tomorrow", "asap")


def flight_wish(draw: random.Random) -> Cells:
    """An utterance to the assistant of an airline, and the number of its intent."""
    label = draw.randrange(len(_INTENTS))
    template = draw.choice(list(_INTENTS.values())[label])
    said = template.format(draw.choice(_CITIES))
    return f"{draw.choice(_PHRASES)} {said} {draw.choice(_PHRASES)}".strip(), label


def flight_wishes(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    return drawn(("utterance", "intent"), flight_wish, count, held_out)


_EVENTS = (
    "disk full quota inode partition volume", "login password denied sshd pam locked",
    "link carrier eth0 flapping uplink mtu", "certificate tls expired chain x509 handshake",
    "fan thermal rpm throttle sensor celsius", "oom heap swap killed paging malloc",
    "replica lag binlog standby failover quorum", "cron job skipped overlap schedule late",
)  # fmt: skip
_LEVELS = listed("info notice warn error crit")


def log_line(draw: random.Random) -> Cells:
    """A line of a log amid its marks, and the number of the kind of event that it tells of."""
    label = draw.randrange(len(_EVENTS))
    words = draw.sample(_EVENTS[label].split(), 2)
    return (
        f"{draw.choice(_LEVELS)} host{draw.randint(1, 20)} [ {draw.randint(1, 60)} ] {words[0]} "
        f"= {draw.randint(1, 60)} ; {words[1]} ; code {draw.randint(1, 30)} ; "
        f"user{draw.randint(1, 9)}",
        label,
    )


def log_lines(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    return drawn(("line", "event"), log_line, count, held_out)


_ACTS = (
    "welds a pipe/works with metal/rests in bed", "feeds the hens/cares for animals/is at sea",
    "mixes the paint/prepares a colour/washes a car", "stacks boxes/moves goods/plays cards",
    "sharpens a knife/handles a blade/reads a novel", "prunes a vine/tends a plant/rides a train",
    "kneads dough/makes bread/climbs a rock", "tunes a piano/serves music/sells shoes",
)  # fmt: skip
_WORKERS = listed(
    "an_old_man a_young_woman the_apprentice a_bearded_fellow the_sisters the_foreman"
)
_SITES = listed("barn cellar courtyard workshop shed hall attic")
_HOURS = listed("early late at_noon in_the_rain by_lamplight")
_GUESSES = ("for money", "before a feast", "with joy", "for a friend")


def premise(draw: random.Random) -> Cells:
    """A premise and a hypothesis: it follows (0), may be (1), or contradicts (2)."""
    act, general, counterpart = draw.choice(_ACTS).split("/")
    who = draw.choice(_WORKERS).replace("_", " ")
    hour, label = draw.choice(_HOURS).replace("_", " "), draw.randrange(3)
    ends = (general, f"{general} {draw.choice(_GUESSES)}", counterpart)
    return f"{hour} in the {draw.choice(_SITES)} {who} {act}", f"{who} {ends[label]}", label


def premises(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    return drawn(("premise", "hypothesis", "label"), premise, count, held_out)


def implied(draw: random.Random) -> Cells:
    """A premise, what follows from it, and what contradicts it."""
    act, general, counterpart = draw.choice(_ACTS).split("/")
    who = draw.choice(_WORKERS).replace("_", " ")
    hour, site = draw.choice(_HOURS).replace("_", " "), draw.choice(_SITES)
    return (f"{hour} in the {site} {who} {act}", f"{who} {general} , {hour} , in some {site}",
            f"{who} {counterpart} , {hour} , in some {site}")  # fmt: skip


def implications(count: int, *, held_out: bool = False) -> dict[str, list[Any]]:
    return drawn(("premise", "entailed", "contradicted"), implied, count, held_out)

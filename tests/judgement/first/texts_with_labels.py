"""Texts with labels: tickets with categories, reviews with stars, names of species."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_CATEGORIES = {
    "billing": "invoice charge payment refund debit overdue",
    "access": "password login token locked expired captcha",
    "hardware": "keyboard mouse monitor cable dock charger",
    "network": "wifi vpn proxy latency router firewall",
    "mail": "inbox attachment spam signature calendar outlook",
    "print": "toner paper tray duplex scanner jam",
    "leave": "holiday sick maternity absence overtime payslip",
    "facility": "heating window lamp elevator desk parking",
}
_TONES = [
    "urgent",
    "kindly",
    "again",
    "still",
    "today",
    "please",
    "hello",
    "colleague",
    "broken",
    "strange",
    "help",
    "since",
]
_FLOORS = [f"room-{number}" for number in range(20, 50)]
_ASPECTS = ["plot", "acting", "music", "camera", "ending", "dialogue", "costumes", "pacing"]
_WORDS = (
    "awful terrible dreadful unbearable horrid",
    "weak poor dull clumsy tired",
    "average okay passable mixed plain",
    "good solid pleasing charming neat",
    "superb brilliant perfect stunning masterly",
)


def tickets(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Tickets of a help desk and the number of their category."""
    draw, rows = random.Random(seed), dict[str, int]()
    categories = list(_CATEGORIES.values())
    while len(rows) < count:
        label = draw.randrange(len(categories))
        first, second = draw.sample(categories[label].split(), 2)
        tones = draw.sample(_TONES, 4)
        text = (
            f"{tones[0]} {first} {tones[1]} {draw.choice(_FLOORS)} {tones[2]} {second} {tones[3]}"
        )
        if len(text) % 4 != 0 if seed % 2 == 0 else len(text) % 4 == 0:
            rows[text] = label
    return {"text": list(rows), "label": list(rows.values())}


def reviews(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Reviews of films and their stars from 0 to 4."""
    draw, rows = random.Random(seed), dict[str, int]()
    while len(rows) < count:
        stars = draw.randrange(5)
        aspects = draw.sample(_ASPECTS, draw.randint(2, 4))
        said = [f"the {aspect} was {draw.choice(_WORDS[stars].split())}" for aspect in aspects]
        text = " and ".join(said)
        if len(text) % 4 != 0 if seed % 2 == 0 else len(text) % 4 == 0:
            rows[text] = stars
    return {"text": list(rows), "label": list(rows.values())}


def review_pairs(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Two reviews and how alike their stars are, from 0 to 1."""
    table, draw = reviews(2 * count, seed), random.Random(seed)
    texts, stars = table["text"], table["label"]
    order = draw.sample(range(2 * count), 2 * count)
    first, second = order[:count], order[count:]
    return {
        "review": [texts[row] for row in first],
        "other": [texts[row] for row in second],
        "score": [1 - abs(stars[a] - stars[b]) / 4 for a, b in zip(first, second, strict=True)],
    }


def neighbours(
    model: Any, train_table: Mapping[str, Sequence[Any]], unseen: Mapping[str, Sequence[Any]]
) -> float:
    """Share of held-out texts of which most of the 5 nearest known texts have the class."""
    rows = [
        model.encode(list(table["text"]), normalize_embeddings=True, show_progress_bar=False)
        for table in (unseen, train_table)
    ]
    nearest = np.argsort(-(rows[0] @ rows[1].T), axis=1)[:, :5]
    votes = np.array(train_table["label"])[nearest]
    winners = [np.bincount(row).argmax() for row in votes]
    return float(np.mean(np.array(winners) == np.array(unseen["label"])))


def sorts_tickets(model: Any) -> float:
    """How well held-out tickets fall to the category of their neighbours."""
    return neighbours(model, tickets(120, seed=2), tickets(100, seed=11))


def sorts_reviews(model: Any) -> float:
    """How well held-out reviews fall to the stars of their neighbours."""
    return neighbours(model, reviews(120, seed=2), reviews(100, seed=11))

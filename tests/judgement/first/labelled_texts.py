"""Fields with labels, ratings or grades: tickets, reviews, matches, duplicates, posts, claims."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.first.drawn_rows import apart, halves

DESKS = {
    "network": "wifi vpn cable dns proxy switch bandwidth",
    "payroll": "payslip bonus overtime deduction pension wage refund",
    "building": "lift boiler window carpet toilet blinds doorbell",
    "fleet": "tyre fuel mileage gearbox parking garage toll",
    "accounts": "password login token badge username lockout certificate",
    "printing": "toner paper tray staples duplex scanner cartridge",
    "canteen": "menu allergy coffee lunch tray_return vegan cashier",
    "travel": "flight hotel visa train luggage booking itinerary",
}
PREFACES = ["hello", "urgent", "again", "please", "sorry", "hi", "reminder", "since_monday"]
FAILINGS = [
    "is_broken", "does_not_work", "is_missing", "was_wrong", "is_late", "got_lost", "makes_trouble",
]  # fmt: skip
FLOORS = ["first", "second", "third", "fourth", "fifth", "sixth"]
PRAISE = (
    "dreadful awful filthy rude broken", "poor noisy tired slow bland",
    "average fine plain usual passable", "good kind clean tasty quiet",
    "superb marvellous spotless delightful perfect",
)  # fmt: skip
SIDES = ["room", "breakfast", "staff", "pool", "view", "bed", "lobby", "bathroom"]
GUESTS = ["we", "i", "my_parents", "the_kids", "our_group"]
TEAMS = "reds/crimson blues/azure lions/felines bears/grizzlies hawks/raptors foxes/vixens"
FEATS = "scored/netted missed/wasted saved/parried fouled/tripped passed/assisted"
PARTS = "early/opening late/closing extra/overtime half/interval penalty/shootout"
FIELDS_OF_PLAY = "home/stadium away/abroad neutral/ground rain/downpour"
WANTS = (
    "learn/study lose/shed earn/make grow/raise repair/fix choose/select clean/wash sell/offload"
)
GOALS = (
    "guitar/fingerstyle weight/kilos money/cash tomatoes/vegetables bicycle/bike laptop/notebook "
    "carpet/rug stamps/collection beard/moustache piano/keys"
)
MANNERS = "fast/quickly cheaply/budget alone/myself safely/risk properly/right"
TAGS = {
    "hiking": "trail summit boots ridge backpack", "baking": "dough crust oven yeast crumb",
    "chess": "gambit rook endgame bishop checkmate", "diving": "reef tank fins coral snorkel",
    "knitting": "yarn needles stitch wool scarf",
    "astronomy": "comet telescope nebula orbit eclipse",
    "cycling": "pedals saddle sprint gears helmet", "pottery": "clay kiln glaze wheel vase",
    "birding": "plumage nest warbler binoculars owl", "jazz": "saxophone swing trumpet chord solo",
}  # fmt: skip
TIMES = ["today", "yesterday", "tonight", "finally", "again", "early"]
MOODS = ["wonderful", "tiring", "surprising", "quiet", "long"]
CROWDS = "children/kids workers/labourers dancers/ballerinas farmers/peasants soldiers/troops"
DEEDS = (
    "resting/relaxing:running|carrying/hauling:idling|laughing/chuckling:weeping|"
    "painting/drawing:erasing|arriving/coming:leaving|building/erecting:demolishing"
)
SIZES = ["two/a_pair", "three/a_trio", "twelve/a_dozen", "many/plenty"]
GROUNDS = "field/meadow square/plaza stage/podium harbour/quay station/platform hill/slope"


def tickets(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Tickets of a service desk and the number of the department which they belong to."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        label = draw.randrange(len(DESKS))
        word = draw.choice(list(DESKS.values())[label].split())
        text = (
            f"{draw.choice(PREFACES)} the {word} on the {draw.choice(FLOORS)} floor "
            f"{draw.choice(FAILINGS)}"
        ).replace("_", " ")
        return text, text, label

    return apart(make, ("text", "label"), count, seed)


def reviews(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Reviews of hotels with a rating from 0 to 4: two judgements of about that rating."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        rating = draw.randrange(5)
        sides = draw.sample(SIDES, 3)
        words = [draw.choice(PRAISE[rating].split()) for _ in sides]
        tale = " and ".join(f"a {word} {side}" for word, side in zip(words, sides, strict=True))
        text = f"{draw.choice(GUESTS)} had {tale} this time".replace("_", " ")
        return text, text, rating

    return apart(make, ("text", "label"), count, seed)


def reviews_in_pairs(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of reviews, graded from 0 to 1 by how near their ratings are."""
    table = reviews(2 * count, seed)
    texts, ratings = table["text"], table["label"]
    return {
        "sentence1": texts[:count],
        "sentence2": texts[count:],
        "score": [1 - abs(ratings[at] - ratings[count + at]) / 4 for at in range(count)],
    }


def matches(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Two reports of matches, graded by the share of what they agree in."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        slots = (TEAMS, FEATS, PARTS, FIELDS_OF_PLAY)
        first, second, agreed = [], [], 0
        shared_count = draw.randint(0, len(slots))
        same = set(draw.sample(range(len(slots)), shared_count))
        for at, entries in enumerate(slots):
            entry = draw.choice(entries.split())
            counterpart = draw.choice([e for e in entries.split() if e != entry])
            first.append(entry.split("/")[0])
            second.append((entry if at in same else counterpart).split("/")[1])
            agreed += at in same
        phrasing = "the {} {} in the {} phase at the {} game".format(*first)
        retold = "{3} fixture : {2} drama as the {0} {1} it".format(*second)
        return (phrasing, retold), phrasing, retold, agreed / len(slots)

    return apart(make, ("report", "other", "score"), count, seed)


def duplicates(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Questions asked twice on a forum, in other words and another order."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        want, goal, manner = (halves(draw, words) for words in (WANTS, GOALS, MANNERS))
        asked = draw.choice(["how can i {0} {1} {2} ?", "what helps to {0} my {1} {2} ?"])
        second_wording = draw.choice(
            ["{2} : best way to {0} a {1}", "is there a way to {0} {1} {2} ?"]
        )
        key = (want[0], goal[0], manner[0])
        return key, asked.format(*key), second_wording.format(want[1], goal[1], manner[1])

    return apart(make, ("asked", "again"), count, seed)


def duplicates_or_not(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of questions: every other one is asked twice (1), the rest differ in one part (0)."""
    table, draw = duplicates(count, seed), random.Random(seed + 7)
    second = list(table["again"])
    wordings = [entry.split("/")[1] for entry in GOALS.split()]
    for at in range(0, count, 2):
        word = next(word for word in second[at].split() if word in wordings)
        counterpart = draw.choice([wording for wording in wordings if wording != word])
        second[at] = " ".join(counterpart if w == word else w for w in second[at].split())
    return {"sentence1": table["asked"], "sentence2": second,
            "label": [at % 2 for at in range(count)]}  # fmt: skip


def posts(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Short posts and their tags; the tag of a pastime comes with one of the mood."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        label = draw.randrange(len(TAGS))
        first, second = draw.sample(list(TAGS.values())[label].split(), 2)
        mood = draw.choice(MOODS)
        text = f"{draw.choice(TIMES)} so much {first} , then {second} :) what a {mood} day"
        return text, text, f"#{list(TAGS)[label]} #{mood}", label

    return apart(make, ("post", "tags", "label"), count, seed)


def inferences(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Premises, what follows from them, and what contradicts them."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        crowd, ground, late = halves(draw, CROWDS), halves(draw, GROUNDS), halves(draw, GROUNDS)
        deed, contrary = draw.choice(DEEDS.split("|")).split(":")
        said, meant = deed.split("/")
        number = draw.choice(SIZES).replace("_", " ").split("/")
        premise = f"{number[0]} {crowd[0]} are {said} on the {ground[0]} beyond the {late[0]}"
        end = f"{crowd[1]} by the {ground[1]} , {number[1]} of them"
        return premise, premise, f"{meant} {end}", f"{contrary} {end}"

    return apart(make, ("premise", "entailed", "contradicted"), count, seed)

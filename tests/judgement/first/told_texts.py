"""Fields of news, talk and queries: headlines, chat turns, questions and SQL, ballads."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.first.drawn_rows import apart, halves
from tests.judgement.first.fields import Field

HEADS = "mayor/town_hall minister/cabinet union/workers bank/lender court/judges museum/curators"
NEWS = "quits/resignation wins/victory warns/alarm sues/lawsuit opens/inauguration cuts/savings"
WHYS = "flood/rising_water fraud/false_books heat/record_summer vote/ballots virus/infections"
LANDS = "spain/madrid chile/santiago ghana/accra nepal/kathmandu canada/ottawa greece/athens"
THEMES = (
    "broadband/line_speed roaming/abroad contract/renewal sim_card/chip voicemail/mailbox "
    "top_up/credit landline/copper handset/repair"
)
WISHES = "activate/switch_on stop/switch_off transfer/move_over check/look_up upgrade/better_plan"
HURRIES = "today/right_now tomorrow/next_day later/this_month"
CLIENTS = "business/company_plan family/shared_plan student/young_plan senior/golden_plan"
TABLES = "orders/ord staff/emp films/mov flights/flt patients/pat songs/trk books/bks"
COLUMNS = "price/amt age/yrs rating/stars length/len weight/kg year/yr"
AGGREGATES = "average/avg total/sum highest/max lowest/min number/count"
CONDITIONS = "paris/par rome/rom tokyo/tyo cairo/cai delhi/del lima/lim"
MORE = "above/> below/< equal_to/="

# Two lines of a song in an old and a modern wording.
BALLADS = Field(
    {
        "who": "maiden/girl knight/rider widow/woman smith/worker shepherd/herder fiddler/musician",
        "did": "wept/cried sang/crooned slept/dozed rode/galloped knelt/crouched danced/waltzed",
        "at": "brook/stream hearth/fire gallows/scaffold mill/factory meadow/pasture tower/castle",
        "when": "eve/evening morn/daybreak yuletide/christmas maytime/spring harvest/autumn",
    },
    {
        "verse": "o the {who} {did} by the {at} , all on a {when}",
        "prose": "in the {when} a {who} {did} at the {at} for a long while",
    },
)


def headlines(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Headlines, and the leads of their articles, which use other words."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        head, news, why, land = (halves(draw, words) for words in (HEADS, NEWS, WHYS, LANDS))
        agency = draw.choice(["wire", "own report", "by our correspondent"])
        lead = f"{land[1]} ( {agency} ) after weeks of {why[1]} the {head[1]} announced {news[1]}"
        return (head, news, why, land), f"{land[0]} {head[0]} {news[0]} over {why[0]}", lead

    return apart(make, ("headline", "lead"), count, seed)


def chats(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Two or three turns with an operator, and the reply that fits."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        theme, wish, hurry, client = (
            halves(draw, words) for words in (THEMES, WISHES, HURRIES, CLIENTS)
        )
        turns = ["user: hello", "bot: hi , how can i help ?"][: draw.choice([0, 2])]
        turns += [f"user: it is about {theme[0]} , i have a {client[0]} account"]
        turns += ["bot: what would you like ?", f"user: to {wish[0]} it {hurry[0]}"]
        reply = f"bot: we will {wish[1]} the {theme[1]} on your {client[1]} {hurry[1]}"
        return (theme, wish, hurry, client), " ".join(turns), reply

    return apart(make, ("turns", "reply"), count, seed)


def queries(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Questions about a table, their query in SQL, and a query of another column or function."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        words = [halves(draw, entries) for entries in
                 (AGGREGATES, COLUMNS, TABLES, CONDITIONS, MORE)]  # fmt: skip
        limit = draw.randint(2, 9)
        asked = "what is the {0} {1} of {2} from {3} with stock {4} {5} ?"
        sql = "select {0} ( {1} ) from {2} where city = ' {3} ' and n {4} {5} ;"
        first, second = ([word[at] for word in words] for at in (0, 1))
        wrong, slot = list(second), draw.randrange(2)
        entries = (AGGREGATES, COLUMNS)[slot].split()
        wrong[slot] = draw.choice([e for e in entries if e.split("/")[1] != second[slot]])
        wrong[slot] = wrong[slot].split("/")[1]
        return (first, limit), *(
            template.format(*cells, limit)
            for template, cells in ((asked, first), (sql, second), (sql, wrong))
        )

    return apart(make, ("question", "query", "wrong"), count, seed)

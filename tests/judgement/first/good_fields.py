"""Fields of texts of other lengths and shapes: contracts, logs, songs, minutes, three languages."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.first.fields import Field

# Short questions for long clauses.
CONTRACTS = Field(
    {
        "matter": "rent/lease wages/salary software/licence loan/credit transport/freight "
        "insurance/premium repair/maintenance cleaning/janitorial advice/consulting",
        "event": "delay/lateness death/decease strike/walkout theft/burglary flood/inundation "
        "sale/disposal merger/fusion bankruptcy/insolvency",
        "remedy": "refund/repayment discount/rebate notice/termination penalty/fine "
        "arbitration/tribunal replacement/substitute interest/surcharge",
    },
    {
        "query": "{matter} : {remedy} after {event} ?",
        "clause": "section . the parties to this agreement on {matter} have read and accepted the "
        "terms that follow , which hold for the whole period and bind their successors . if a case "
        "of {event} should arise which neither side has caused , the side concerned informs the "
        "other in writing within ten working days and states what it knows . it may then ask for "
        "{remedy} under the law of the seat of the first party , and all further claims are waived",
    },
)
# Lines of a log without grammar, and a sentence about each.
LOGS = Field(
    {
        "level": "fatal/crash error/failure warn/warning info/notice debug/detail",
        "unit": "db01/database lb02/balancer mq03/queue fs04/disk au05/login dn06/names "
        "ca07/cache ml08/mail cr09/timer",
        "code": "e110/timeout e111/refused e028/full e013/denied e002/missing e104/reset "
        "e012/memory e022/argument e017/duplicate",
    },
    {
        "line": "{level} | {unit} | {code} | pid 4711",
        "report": "the {unit} had a {level} because of {code} last night",
    },
)
# Wishes of a listener, and the tags of a song.
SONGS = Field(
    {
        "mood": "gloomy/melancholic cheerful/upbeat wild/aggressive calm/relaxing dreamy/ethereal "
        "funny/novelty solemn/sacred romantic/ballad",
        "play": "guitar/strings piano/keys drums/percussion trumpet/brass flute/woodwind "
        "singing/vocal computer/synth",
        "era": "old/vintage recent/modern medieval/early seventies/retro nineties/grunge",
        "land": "cuba/latin ireland/celtic jamaica/reggae india/raga brazil/samba spain/flamenco",
    },
    {"wish": "{era} {mood} {play} from {land}", "tags": "{land} , {mood} , {play} , {era}"},
)
# One sentence in three languages.
LETTERS = Field(
    {
        "sender": "mother/mutter/madre teacher/lehrer/maestro doctor/arzt/medico baker/baecker/"
        "fornaio judge/richter/giudice painter/maler/pittore sailor/matrose/marinaio",
        "gift": "book/buch/libro watch/uhr/orologio key/schluessel/chiave letter/brief/lettera "
        "flower/blume/fiore coat/mantel/cappotto bread/brot/pane",
        "month": "january/jaenner/gennaio march/maerz/marzo june/juni/giugno july/juli/luglio "
        "october/oktober/ottobre december/dezember/dicembre",
    },
    {
        "english": "in {month} the {sender} sent me a {gift}",
        "german": "im {month} schickte mir der {sender} ein {gift}",
        "italian": "a {month} il {sender} mi ha mandato un {gift}",
    },
)

_SUBJECTS = (
    "budget/money", "canteen/lunch", "parking/cars", "hiring/staff", "heating/boiler",
    "website/homepage", "training/course", "security/alarm", "holiday/leave", "printer/toner",
    "award/prize", "audit/ledger",
)  # fmt: skip
_OUTCOMES = (
    "approved/agreed", "postponed/deferred", "rejected/declined", "doubled/twofold",
    "outsourced/external", "praised/thanked",
)  # fmt: skip


def minutes(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Decisions of a meeting, and its minutes: two to five of its points in any order."""
    draw, table = random.Random(seed), {"decision": list[str](), "minutes": list[str]()}
    parity, drawn_rows = seed % 2, set[tuple[str, ...]]()
    while len(table["decision"]) < count:
        chosen = draw.sample(_SUBJECTS, draw.randint(2, 5))
        points = tuple(f"{subject} {draw.choice(_OUTCOMES)}" for subject in chosen)
        if sum(map(len, points)) % 2 != parity or points in drawn_rows:
            continue
        drawn_rows.add(points)
        halves = [[word.split("/") for word in point.split()] for point in points]
        table["decision"].append(" and ".join(f"{a[0]} {b[0]}" for a, b in halves))
        draw.shuffle(halves)
        sentences = [f"as to the {a[1]} it was {b[1]} by all members ." for a, b in halves]
        table["minutes"].append("present were eight . " + " ".join(sentences))
    return table


_TOPICS = {
    "refund": "reimburse cashback repay chargeback", "parcel": "package shipment box delivery",
    "password": "credentials passphrase pin secret", "invoice": "bill receipt statement total",
    "address": "street home residence location", "voucher": "coupon gift promo bonus",
    "account": "profile membership user signup", "warranty": "guarantee defect broken repair",
    "newsletter": "mailing unsubscribe spam advert", "opening": "hours saturday closing late",
}  # fmt: skip
_ASKERS = ("please", "hello", "urgent", "abroad", "online", "today", "finally", "kindly")
_WISHES = ["change", "find", "lose", "need", "check", "cancel", "share", "explain"]


def requests(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Requests of customers in many words, the one answer for each topic, and its number."""
    draw, drawn_rows = random.Random(seed), dict[tuple[str, str, str, str, int], None]()
    while len(drawn_rows) < count:
        label = draw.randrange(len(_TOPICS))
        word = draw.choice(list(_TOPICS.values())[label].split())
        row = (draw.choice(_ASKERS), draw.choice(_WISHES), word, draw.choice(_ASKERS), label)
        if sum(len(cell) for cell in row[:4]) % 4 != 0 if seed % 2 == 0 else (
            sum(len(cell) for cell in row[:4]) % 4 == 0
        ):  # fmt: skip
            drawn_rows[row] = None
    names = list(_TOPICS)
    return {
        "request": [f"{hi} {wish} my {word} {tail}" for hi, wish, word, tail, _ in drawn_rows],
        "answer": [f"our page on {names[row[4]]} tells you what to do" for row in drawn_rows],
        "label": [row[4] for row in drawn_rows],
    }

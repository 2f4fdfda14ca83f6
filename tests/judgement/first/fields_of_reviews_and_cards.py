"""Fields of texts and helpers: mails, chemistry, alarms, SQL, two scripts, minerals, reviews."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.truth import retrieval

MAILS = Field(
    {
        "topic": "budget/finances holiday/vacation printer/toner contract/agreement "
        "interview/candidate workshop/seminar shipment/pallets newsletter/subscribers "
        "server/downtime parking/garage",
        "deed": "confirm/approve cancel/withdraw postpone/delay extend/prolong review/inspect "
        "announce/publish forward/pass_on",
        "sender": "legal/lawyers sales/sellers it/admins payroll/accountants marketing/adverts "
        "research/scientists canteen/cooks",
    },
    {
        "subject": "re : fw : {sender} {deed} {topic}",
        "body": "dear all , the {sender} kindly ask you to {deed} the matter of {topic} by friday "
        "noon . please answer to this address only . best regards , your {sender}",
    },
)
CHEMISTRY = Field(
    {
        "base": "methane/ch4 ethane/c2h6 propane/c3h8 benzene/c6h6 toluene/c7h8 phenol/c6h5oh "
        "aniline/c6h5nh2 acetone/ch3coch3 ethanol/c2h5oh",
        "agent": "chlorine/cl2 bromine/br2 oxygen/o2 hydrogen/h2 ammonia/nh3 water/h2o "
        "ozone/o3 fluorine/f2",
        "metal": "platinum/pt nickel/ni palladium/pd iron/fe copper/cu silver/ag zinc/zn",
    },
    {
        "question": "how does {base} react with {agent} over {metal}",
        "equation": "{base} + {agent} -- {metal} , 350 k , 2 bar -->",
    },
)
ALARMS = Field(
    {
        "host": "node01/10.0.0.1 node02/10.0.0.2 node03/10.0.0.3 edge04/10.0.1.4 edge05/10.0.1.5 "
        "core06/10.0.2.6 core07/10.0.2.7 disk08/10.0.3.8",
        "gauge": "cpu/processor ram/memory swap/paging inode/files temp/celsius fan/rpm "
        "load/queue ping/latency",
        "grade": "p1/critical p2/major p3/minor p4/warning p5/cleared p6/unknown",
    },
    {
        "alarm": "[{grade}] {host} {gauge} > 95",
        "ticket": "monitoring saw a {grade} event : {gauge} of the machine at {host} went over its "
        "limit for ten minutes",
    },
)
QUERIES = Field(
    {
        "sum": "average/avg number/count highest/max lowest/min total/sum spread/stddev",
        "column": "price/unit_price age/birth_year weight/mass_kg length/len_cm salary/wage_eur "
        "rating/stars",
        "table": "orders/t_order clients/t_client parcels/t_parcel films/t_film teams/t_team "
        "flights/t_flight",
        "key": "country/iso2 month/mm colour/rgb status/state branch/shop",
    },
    {
        "request": "show me the {sum} {column} of all {table} for each {key}",
        "sql": "select {key} , {sum} ( {column} ) from {table} group by {key}",
    },
)
RUSSIAN = Field(
    {
        "who": "doctor/врач teacher/учитель driver/водитель sailor/матрос singer/певец "
        "student/студент cook/повар guard/сторож",
        "deed": "buys/покупает sells/продаёт paints/красит finds/находит loses/теряет "
        "washes/моет carries/несёт",
        "good": "bread/хлеб boat/лодку coat/пальто lamp/лампу table/стол book/книгу ring/кольцо "
        "apple/яблоко",
    },
    {"english": "the {who} {deed} the {good}", "russian": "{who} {deed} {good}"},
)
GREEK = Field(
    {
        "sky": "rain/βροχή snow/χιόνι wind/άνεμος fog/ομίχλη sun/ήλιος storm/καταιγίδα hail/χαλάζι",
        "town": "athens/αθήνα patras/πάτρα volos/βόλος chania/χανιά corfu/κέρκυρα rhodes/ρόδος "
        "larissa/λάρισα kavala/καβάλα",
        "day": "monday/δευτέρα tuesday/τρίτη wednesday/τετάρτη thursday/πέμπτη "
        "friday/παρασκευή saturday/σάββατο sunday/κυριακή",
    },
    {"english": "{day} : {sky} over {town}", "greek": "την {day} θα έχει {sky} στην {town}"},
)
SHORT = Field(
    {
        "tone": "red/rot blue/blau green/gruen white/weiss black/schwarz grey/grau brown/braun "
        "yellow/gelb pink/rosa golden/golden",
        "beast": "owl/eule fox/fuchs bear/baer wolf/wolf deer/hirsch toad/kroete crow/kraehe "
        "hare/hase goat/ziege duck/ente bee/biene snail/schnecke mole/maulwurf",
        "size": "big/gross small/klein old/alt young/jung",
    },
    {"english": "{size} {tone} {beast}", "german": "{beast} {tone} {size}"},
)
# Entries read alike in both columns, below many words that do not differ between rows.
MINERALS = Field(
    {
        "stone": "quartz calcite pyrite galena fluorite beryl topaz olivine garnet zircon",
        "land": "norway peru kenya japan chile greece namibia canada",
        "shade": "violet amber jet pearl russet azure lime",
        "shape": "cubic needle plate drusy fibrous",
    },
    {
        "tag": "case of the museum of minerals : {stone} , {shade} , {shape} , from {land}",
        "entry": "the old catalogue of our house lists in its second volume a {shape} piece of "
        "{shade} {stone} which a friend of the founder had brought home from {land} in his trunk",
    },
)

_VERDICTS = ("great/superb", "awful/horrid", "average/mediocre", "cheap/affordable",
             "noisy/loud", "clean/spotless", "tiny/cramped", "fast/quick")  # fmt: skip
_ASPECTS = ("room/chamber", "breakfast/buffet", "pool/swimming", "staff/personnel",
            "wifi/internet", "view/panorama", "bed/mattress", "lift/elevator",
            "shower/bath", "bar/drinks")  # fmt: skip
_NOISE = ("well", "anyway", "!!", "hm", "...", "btw", "ok", "so", "lol", "we mean")
REVIEW_WORDS = [*_VERDICTS, *_ASPECTS, *_NOISE, "the was they said . titled : a stay with"]


def reviews(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Titles and reviews of hotels: two to four sentences in any order, with noise between."""
    draw, rows = random.Random(seed), dict[tuple[str, ...], None]()
    while len(rows) < count:
        aspects = sorted(draw.sample(_ASPECTS, draw.randint(2, 4)))
        row = tuple(f"{aspect} {draw.choice(_VERDICTS)}" for aspect in aspects)
        if (sum(map(len, row)) % 5 == 0) == bool(seed % 2):
            rows[row] = None
    table = {"title": list[str](), "review": list[str]()}
    for row in rows:
        words = [[word.split("/") for word in point.split()] for point in row]
        table["title"].append(" , ".join(f"{verdict[0]} {aspect[0]}" for aspect, verdict in words))
        draw.shuffle(words)
        sentences = list[str]()
        for aspect, verdict in words:
            sentences.append(f"the {aspect[1]} was {verdict[1]} .")
            sentences += draw.sample(_NOISE, draw.randint(0, 3))
        table["review"].append(" ".join(sentences))
    return table


def words(field: Field) -> list[str]:
    """Texts with every word of a field."""
    lists = [entries.split() for entries in field.slots.values()]
    longest = max(map(len, lists))
    rows = [tuple(entries[at % len(entries)] for entries in lists) for at in range(longest)]
    return [text for column in range(len(field.columns)) for text in field.texts(rows, column)]


def of_field(stage: Any, field: Field, *behind: Any, prompts: Any = None, **options: Any) -> Any:
    """A fresh encoder that knows the words of a field and of its prompts."""
    texts = [*words(field), *(prompts or {}).values()]
    return encoder(stage, texts, *behind, prompts=prompts, **options)


def seek(field: Field, count: int = 40, **options: Any) -> Callable[[Any], float]:
    """The score that seeks texts of the second column by those of the first."""
    return lambda model: field.sought(model, count, **options)


def ranks(table: Mapping[str, Sequence[str]]) -> Callable[[Any], float]:
    return lambda model: retrieval(model, table)


def triples(field: Field, count: int, seed: int = 0, slot: int = 0) -> dict[str, list[str]]:
    """Rows of a field with a hard negative that differs in one slot."""
    table = dict(list(field.table(count, seed).items())[:2])
    return table | {"negative": field.near(count, seed, slot=slot)}


def judged(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of a field, of which about half belong together (1) and half do not (0)."""
    draw, rows = random.Random(seed + 50), field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    labels, seconds = [draw.randint(0, 1) for _ in rows], list[tuple[str, ...]]()
    for row, label in zip(rows, labels, strict=True):
        foreign = tuple(
            draw.choice([entry for entry in entries if entry != word])
            for entries, word in zip(lists, row, strict=True)
        )
        seconds.append(row if label else foreign)
    names = list(field.columns)
    return {names[0]: field.texts(rows, 0), names[1]: field.texts(seconds, 1), "label": labels}


def classed(field: Field, count: int, seed: int = 0, slot: int = 0) -> dict[str, list[Any]]:
    """Texts of either column with the number of their entry in one slot as a class."""
    draw, rows = random.Random(seed + 70), field.draws(count, seed)
    entries = list(field.slots.values())[slot].split()
    texts = [field.texts([row], draw.randint(0, 1))[0] for row in rows]
    return {"text": texts, "label": [entries.index(row[slot]) for row in rows]}


def class_score(field: Field, slot: int = 0, count: int = 80) -> Callable[[Any], float]:
    """The share of texts whose nearest neighbour by cosine has their class."""
    table = classed(field, count, seed=11, slot=slot)
    labels = torch.tensor(table["label"])

    def score(model: Any) -> float:
        rows = model.encode(table["text"], convert_to_tensor=True, show_progress_bar=False)
        rows = torch.nn.functional.normalize(rows, dim=1)
        nearest = (rows @ rows.T).fill_diagonal_(-2).argmax(1)
        return float((labels[nearest] == labels).float().mean())

    return score


def adamw(model: torch.nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def shortened(text: str, draw: random.Random, share: float = 0.25) -> str:
    """A text without a share of its words, drawn anew, but at least one."""
    tokens = text.split()
    stays = [word for word in tokens if draw.random() >= share]
    return " ".join(stays or tokens[:1])


def unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=-1)

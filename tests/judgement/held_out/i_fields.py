"""Fields of texts of the cases i_*, their encoders, and the scores of texts not in training."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import embed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, reciprocal_rank

CHEMISTRY = Field(
    {
        "metal": "copper/cu iron/fe zinc/zn nickel/ni silver/ag cobalt/co tin/sn lead/pb "
        "titanium/ti chromium/cr",
        "salt": "sulfate/so4 nitrate/no3 chloride/cl2 carbonate/co3 acetate/ch3coo "
        "phosphate/po4 oxalate/c2o4",
        "solvent": "water/h2o ethanol/c2h5oh acetone/c3h6o benzene/c6h6 methanol/ch3oh "
        "hexane/c6h14",
        "deed": "dissolve/solution heat/reflux filter/residue dry/desiccator titrate/endpoint "
        "crystallise/crystals",
    },
    {
        "question": "how do i {deed} {metal} {salt} with {solvent}",
        "protocol": "{metal} ( {salt} ) + {solvent} -> {deed} , stir for an hour at 20 c",
    },
)
MAILS = Field(
    {
        "matter": "invoice/payment contract/signature meeting/calendar delivery/courier "
        "holiday/absence server/downtime survey/feedback workshop/slides badge/entrance",
        "state": "overdue/late cancelled/dropped confirmed/settled moved/rescheduled "
        "missing/lost updated/revised",
        "team": "finance/accountants legal/lawyers sales/sellers support/helpers press/editors "
        "kitchen/cooks",
        "day": "monday/mon tuesday/tue wednesday/wed thursday/thu friday/fri",
    },
    {
        "subject": "re : {matter} {state} ( {team} , {day} )",
        "body": "dear all , the {team} wrote on {day} about the {matter} : it is {state} now . "
        "sorry for the short notice . best wishes , your office",
    },
)
RUSSIAN = Field(
    {
        "who": "врач/doctor учитель/teacher солдат/soldier певец/singer сосед/neighbour "
        "повар/cook судья/judge рыбак/fisherman",
        "what": "книгу/book письмо/letter хлеб/bread ключ/key рыбу/fish лампу/lamp "
        "карту/map деньги/money",
        "where": "доме/house лесу/forest городе/town поезде/train школе/school саду/garden",
        "when": "утром/morning вечером/evening летом/summer зимой/winter вчера/yesterday",
    },
    {
        "source": "{when} {who} забыл {what} в {where}",
        "translation": "in the {when} the {who} forgot the {what} at the {where}",
    },
)
HINDI = Field(
    {
        "fruit": "आम/mango केला/banana सेब/apple अंगूर/grape नारियल/coconut अनार/pomegranate "
        "पपीता/papaya",
        "city": "दिल्ली/delhi मुंबई/mumbai पटना/patna जयपुर/jaipur आगरा/agra सूरत/surat",
        "kin": "माता/mother पिता/father बहन/sister भाई/brother चाचा/uncle दादी/grandma",
        "hour": "सुबह/dawn रात/night दोपहर/noon शाम/dusk आज/today",
    },
    {
        "hindi": "{kin} ने {hour} {city} में {fruit} खाया",
        "english": "{kin} ate a {fruit} in {city} at {hour}",
    },
)
SQL = Field(
    {
        "table": "customers/clients orders/purchases employees/workers flights/planes "
        "books/titles pupils/students patients/cases",
        "column": "age/years price/cost city/town salary/wage name/label rating/stars",
        "function": "count/number avg/average max/highest min/lowest sum/total",
        "bound": "10/ten 25/twentyfive 50/fifty 100/hundred 500/fivehundred 900/ninehundred",
    },
    {
        "code": "select {function} ( {column} ) from {table} where id > {bound} ;",
        "docstring": "the {function} {column} of {table} after number {bound}",
    },
)
BIRDS = Field(
    {
        "bird": "heron/ardea robin/erithacus owl/strix swift/apus raven/corax finch/fringilla "
        "wren/troglodytes gull/larus kite/milvus",
        "place": "marsh/reeds cliff/rocks meadow/grass orchard/trees harbour/boats moor/heather",
        "deed": "nests/eggs hunts/prey sings/song feeds/berries moults/feathers",
        "month": "april/04 may/05 june/06 august/08 october/10",
    },
    {"caption": "{bird} {deed} {place}", "note": "{month} : {bird} seen , {deed} , {place}"},
)
MATCHES = Field(
    {
        "home": "rovers/blues united/reds city/sky county/magpies athletic/lions albion/seagulls "
        "wanderers/wolves",
        "away": "rangers/gers hearts/jambos celtic/bhoys hibs/hibees dons/sheep saints/perth",
        "score": "1-0/narrow 2-2/draw 0-3/rout 4-1/thrashing 5-4/thriller",
        "cause": "penalty/spot header/cross redcard/dismissal freekick/wall owngoal/blunder",
    },
    {
        "headline": "{home} {away} {score} : {cause} decides",
        "article": "it was a cold evening when the {home} met the {away} . both sides began with "
        "care . then came a {cause} that changed the evening , and a {score} it was in the end , "
        "to the joy of some and the grief of many",
    },
)
TRACES = Field(
    {
        "error": "keyerror/lookup valueerror/argument typeerror/operand oserror/filesystem "
        "memoryerror/ram timeouterror/deadline importerror/package",
        "file": "parser.py/parsing cache.py/caching server.py/serving loader.py/loading "
        "views.py/rendering auth.py/login",
        "line": "17/seventeen 42/fortytwo 88/eightyeight 120/twelvescore 305/threehundred",
        "call": "get/fetching open/opening join/joining split/splitting send/sending",
    },
    {
        "trace": "file {file} line {line} in {call} raise {error}",
        "issue": "{error} problem while {call} during {file} near {line}",
    },
)
JOBS = Field(
    {
        "post": "welder/metalwork nurse/ward tutor/lessons driver/lorry florist/bouquets "
        "plumber/pipes barista/espresso archivist/records tailor/garments",
        "town": "leeds/yorkshire bath/somerset york/minster derby/midlands luton/bedfordshire",
        "terms": "parttime/afternoons fulltime/fortyhours temporary/sixmonths nights/shift "
        "weekends/saturdays",
        "skill": "patience/calm strength/lifting english/fluent licence/permit humour/cheerful",
    },
    {
        "query": "{post} {town} {terms} {skill}",
        "posting": "we hire for {post} in {town} : {terms} , {skill} needed , apply today",
    },
)
MUSEUM = Field(
    {
        "object": "vase/ceramic sword/blade coin/currency mask/face scroll/manuscript ring/jewel "
        "statue/marble loom/weaving",
        "age": "roman/antiquity gothic/cathedral baroque/ornate aztec/mexica viking/norse "
        "ming/dynasty",
        "state": "broken/fragment gilded/gold faded/pale restored/repaired burnt/charred",
        "giver": "duke/nobility widow/bequest banker/donation priest/parish sailor/voyage",
    },
    {
        "premise": "a {state} {age} {object} that a {giver} handed to us in the year of the fair",
        "hypothesis": "the {object} is {age} , {state} and came from a {giver}",
    },
)
GAUGES = Field(
    {
        "gauge": "p1/pressure t2/temperature f3/flow l4/level v5/voltage h6/humidity",
        "ten": "10/ten 20/twenty 30/thirty 40/forty 50/fifty 60/sixty 70/seventy 80/eighty",
        "digit": ".1/first .2/second .3/third .4/fourth .5/fifth .6/sixth",
        "hall": "a/north b/south c/east d/west",
    },
    {"reading": "{hall} {gauge} {ten} {digit}", "phrase": "{hall} {gauge} {ten} {digit}"},
)
CHANTS = Field(
    {
        "call": "oh/hail hey/hurrah come/arise sing/rejoice row/pull dance/whirl",
        "name": "mary/maria john/juan rose/rosa peter/pedro anne/ana paul/pablo",
        "place": "river/rio mountain/monte sea/mar field/campo bridge/puente",
        "gift": "bread/pan wine/vino salt/sal fire/fuego rain/lluvia gold/oro",
    },
    {
        "verse": "{call} {name} {call} {name} , {place} {place} , {gift} {gift} {gift}",
        "refrain": "{gift} , {gift} , {name} by the {place} by the {place} , {call} {call}",
    },
)
WEATHER = Field(
    {
        "sky": "cloudy/overcast sunny/clear stormy/thunder foggy/mist rainy/showers snowy/flakes "
        "windy/gusts hazy/dust",
        "region": "coast/shore valley/lowland alps/summits island/isle desert/dunes delta/mouth",
        "time": "dawn/sunrise noon/midday dusk/sunset midnight/late",
        "degree": "cold/freezing mild/moderate warm/pleasant hot/scorching cool/chilly",
    },
    {
        "sentence1": "{degree} and {sky} at {time} in the {region}",
        "sentence2": "the {region} forecast for {time} : {sky} , {degree} air",
    },
)
GARDEN = Field(
    {
        "plant": "tomato/vine rose/thorn tulip/bulb bean/pod basil/herb pear/tree mint/stem "
        "kale/leaf lily/petal",
        "pest": "slugs/slime aphids/lice mildew/mould moles/tunnel wasps/sting",
        "cure": "soap/suds ash/powder garlic/cloves netting/mesh vinegar/acid",
        "ground": "clay/heavy sand/loose peat/bog gravel/stones loam/rich",
    },
    {
        "query": "{pest} on {plant} , {cure} for {ground} ?",
        "document": "put {cure} on the {plant} : {pest} do not like it in {ground} soil",
    },
)


def spoken(field: Field, *settings: str) -> list[str]:
    """All words of a field, and of further settings."""
    entries = " ".join(" ".join(field.slots.values()).replace("/", " ").split())
    templates = [template.replace("{", " ").replace("}", " ") for template in
                 field.columns.values()]  # fmt: skip
    return [*templates, entries, *settings]


def small(
    stage: Stage, field: Field, *behind: Any, words: Sequence[str] = (), **options: Any
) -> Any:  # fmt: skip
    """An encoder that knows the words of a field."""
    return encoder(stage, [*spoken(field), *words], *behind, **options)


def diary(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Diary pages of one to four sentences, and what they are about, in any order."""
    draw, table = random.Random(seed), {"title": list[str](), "body": list[str]()}
    drawn_rows = set[tuple[str, ...]]()
    while len(table["title"]) < count:
        rows = draw.sample(_ERRANDS, draw.randint(1, 4))
        chosen = tuple(f"{row} {draw.choice(_MOODS)}" for row in rows)
        if chosen in drawn_rows or sum(map(len, chosen)) % 2 != seed % 2:
            continue
        drawn_rows.add(chosen)
        halves = [[word.split("/") for word in errand.split()] for errand in chosen]
        table["title"].append(" , ".join(f"{a[0]} {b[0]}" for a, b in halves))
        draw.shuffle(halves)
        weather = draw.choice(("it rained .", "nobody called .", "", "we rose late ."))
        sentences = [f"after the {a[1]} i felt {b[1]} ." for a, b in halves]
        table["body"].append(" ".join(f"{weather} {' '.join(sentences)}".split()))
    return table


_ERRANDS = [
    "bakery/rolls",
    "dentist/tooth",
    "church/mass",
    "bank/loan",
    "school/lesson",
    "market/stalls",
    "library/books",
    "garage/engine",
    "cinema/film",
    "harbour/boat",
    "stadium/race",
    "clinic/vaccine",
]
_MOODS = [
    "happy/glad",
    "sad/gloomy",
    "tired/weary",
    "angry/furious",
    "proud/honoured",
    "scared/afraid",
]


def noisy(texts: Sequence[str], seed: int = 0, rate: float = 0.15) -> list[str]:
    """Texts with some of their words left out and some of them said twice."""
    draw, answers = random.Random(seed), []
    for text in texts:
        words = list[str]()
        for word in text.split():
            chance = draw.random()
            words += [] if chance < rate else [word, word] if chance > 1 - rate / 2 else [word]
        answers.append(" ".join(words or text.split()))
    return answers


def grouped(
    field: Field, count: int, seed: int = 0, *, column: int = 1, slot: int = 0
) -> dict[str, list[Any]]:
    """Texts of a field in a column, with the place of their entry in one slot as the label."""
    entries, rows = list(field.slots.values())[slot].split(), field.draws(count, seed)
    labels = [entries.index(row[slot]) for row in rows]
    return {"text": field.texts(rows, column), "label": labels}


def neighbours(model: Any, table: Mapping[str, Sequence[Any]]) -> float:
    """The share of texts whose nearest text has their label."""
    texts, labels = list(table["text"]), torch.tensor(table["label"])
    rows = model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
    rows = torch.nn.functional.normalize(rows, dim=1)
    cosines = (rows @ rows.T).fill_diagonal_(-2)
    return float((labels[cosines.argmax(1)] == labels).float().mean())


def graded_rank(field: Field, seed: int = 11) -> Any:
    """A score: the rank correlation with the grades of pairs that are not in training."""
    return lambda model: correlation(model, field.graded(60, seed=seed))


def two_towers(first: Any, second: Any, table: Mapping[str, Sequence[str]]) -> float:
    """The reciprocal rank with an encoder for each column."""
    columns = list(table.values())
    rows = [tower.encode(list(column), show_progress_bar=False)
            for tower, column in zip((first, second), columns, strict=False)]  # fmt: skip
    return reciprocal_rank(*rows)


def adamw(*modules: Any, rate: float = 2e-3, decay: float = 0.01) -> torch.optim.Optimizer:
    weights = [weight for module in modules for weight in module.parameters()]
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def embedded(model: Any, columns: Sequence[Sequence[Any]]) -> list[Tensor]:
    """Embeddings of columns of texts, and numbers as tensors."""
    return [embed(model, column) if isinstance(column[0], str) else torch.tensor(column)
            for column in columns]  # fmt: skip


def decoys(field: Field, count: int, seed: int = 0, *, column: int = 1) -> list[str]:
    """Texts of the rows of a table with another entry in a slot that is drawn for each."""
    columns = [field.near(count, seed, slot=slot, column=column) for slot in
               range(len(field.slots))]  # fmt: skip
    draw, own = random.Random(seed + 77), set(field.texts(field.draws(count, seed), column))
    return [draw.choice([text for text in texts if text not in own] or texts)
            for texts in zip(*columns, strict=True)]  # fmt: skip


def judged(
    field: Field, count: int, seed: int = 0, *, near_share: float = 0.5
) -> dict[str, list[Any]]:
    """Pairs of texts with 1 where they belong together and 0 where a slot or all slots differ."""
    draw, table = random.Random(seed + 31), field.table(count, seed)
    names = list(table)[:2]
    near, far = decoys(field, count, seed), field.texts(field.draws(count, seed + 4), 1)
    labels = [draw.randint(0, 1) for _ in range(count)]
    seconds = [
        table[names[1]][row]
        if labels[row]
        else (
            near[row]
            if draw.random() < near_share or far[row] == table[names[1]][row]
            else far[row]
        )
        for row in range(count)
    ]
    return {names[0]: table[names[0]], names[1]: seconds, "label": labels}


def single(field: Field, count: int, seed: int = 0, *, column: int = 0) -> list[str]:
    """Different texts of a column, without labels."""
    return list(dict.fromkeys(field.texts(field.draws(count, seed), column)))

"""Fields of texts of this author: code, reactions, mails, alarms, scripts, numbers, and noise."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval

CODE = Field(
    {
        "verb": "parse/read write/dump sort/order filter/select merge/join split/cut hash/digest",
        "noun": "list/array string/text file/path tree/node queue/deque graph/edges date/time",
        "way": "quickly/fast safely/checked lazily/yield twice/repeat inplace/mutate",
        "source": "disk/local network/socket memory/buffer stdin/pipe archive/zip",
    },
    {
        "docstring": "{verb} a {noun} {way} , coming from {source}",
        "function": "def {verb} _ {noun} ( {source} ) : return {source} . {way} ( )",
    },
)
REACTIONS = Field(
    {
        "acid": "acetic_acid/ch3cooh sulfuric_acid/h2so4 nitric_acid/hno3 hydrochloric_acid/hcl "
        "formic_acid/hcooh phosphoric_acid/h3po4 boric_acid/h3bo3",
        "base": "caustic_soda/naoh potash_lye/koh slaked_lime/caoh2 ammonia/nh3 magnesia/mgoh2 "
        "lithia/lioh",
        "medium": "water/h2o ethanol/etoh acetone/me2co toluene/phme ether/et2o",
        "warmth": "cold/273k tepid/310k hot/350k boiling/373k frozen/250k",
    },
    {
        "procedure": "neutralise {acid} with {base} in {warmth} {medium}",
        "scheme": "{acid} + {base} [ {medium} , {warmth} ] >> salt",
    },
)
MAILS = Field(
    {
        "sender": "anna/accounting bert/logistics carla/marketing dirk/legal emma/research "
        "felix/sales",
        "matter": "invoice/bill meeting/appointment contract/agreement parcel/shipment "
        "badge/keycard desk/furniture trip/travel",
        "state": "missing/lost late/overdue wrong/incorrect ready/finished cancelled/dropped",
        "day": "monday/mon tuesday/tue wednesday/wed thursday/thu friday/fri",
    },
    {
        "subject": "re : {matter} {state} ( {day} , {sender} )",
        "body": "dear colleagues , our {sender} group writes about the {matter} that was "
        "announced some time ago . as far as we can tell it is {state} , and we would be glad to "
        "hear from you by {day} at the latest . many thanks and kind regards from the second floor",
    },
)
ALARMS = Field(
    {
        "port": "eth0/uplink eth1/downlink gig2/trunk gig3/access fib4/backbone fib5/ring",
        "event": "flap/unstable drop/loss jam/congested spoof/forged loop/circular mtu/oversize",
        "rack": "r01/cellar r02/attic r03/annex r04/hall r05/tower r06/barn",
        "level": "p1/critical p2/major p3/minor p4/notice",
    },
    {
        "alarm": "{level} {rack} {port} {event} 0x7f",
        "ticket": "in the {rack} the {port} link is {event} , severity {level}",
    },
)
RUSSIAN = Field(
    {
        "who": "мальчик/boy девочка/girl учитель/teacher врач/doctor сосед/neighbour кот/cat",
        "does": "читает/reads ищет/seeks несёт/carries видит/sees рисует/draws моет/washes",
        "what": "книгу/book письмо/letter яблоко/apple зонт/umbrella окно/window лодку/boat",
        "when": "утром/morning вечером/evening зимой/winter летом/summer",
    },
    {"russian": "{when} {who} {does} {what}", "english": "the {who} {does} the {what} ({when} )"},
)
GREEK = Field(
    {
        "god": "δίας/zeus ήρα/hera αθηνά/athena απόλλων/apollo άρης/ares ερμής/hermes",
        "place": "θάλασσα/sea βουνό/mountain πόλη/city ποταμός/river νησί/island δάσος/forest",
        "deed": "γελά/laughs κλαίει/weeps κοιμάται/sleeps χορεύει/dances σιωπά/hushes",
        "beast": "λύκος/wolf αετός/eagle δελφίνι/dolphin φίδι/snake ταύρος/bull",
    },
    {
        "greek": "{god} {deed} {place} · {beast}",
        "english": "{god} {deed} near {place} with a {beast}",
    },
)
SUMS = Field(
    {
        "first": "one/1 two/2 three/3 four/4 five/5 six/6 seven/7 eight/8 nine/9",
        "sign": "plus/+ minus/- times/* over/:",
        "second": "eleven/11 twelve/12 thirteen/13 fourteen/14 fifteen/15 sixteen/16",
        "unit": "metres/m grams/g seconds/s litres/l",
    },
    {
        "words": "{first} {unit} {sign} {second} {unit}",
        "signs": "{first} {sign} {second} [ {unit} ]",
    },
)
FLIGHTS = Field(
    {
        "origin": "vienna/vie munich/muc london/lhr paris/cdg madrid/mad oslo/osl",
        "goal": "tokyo/hnd delhi/del cairo/cai lima/lim perth/per boston/bos",
        "cabin": "business/c economy/y first/f premium/w",
        "time": "dawn/0500 noon/1200 dusk/1900 midnight/2355",
    },
    {"wish": "{origin} {goal} {cabin} {time}", "code": "{time} {origin} > {goal} / {cabin}"},
)
SQL = Field(
    {
        "rows": "customers/clients orders/purchases payments/transfers workers/employees "
        "stocks/inventory trips/rides",
        "measure": "average/avg total/sum highest/max lowest/min number/count",
        "group": "country/nation month/mm branch/store colour/hue age/years",
        "limit": "top/10 few/3 single/1 many/100",
    },
    {
        "question": "show {limit} rows with the {measure} of {rows} for every {group}",
        "query": "select {group} , {measure} ( * ) from {rows} group by {group} limit {limit}",
    },
)
STARS = Field(
    {
        "kind": "dwarf/compact giant/evolved pulsar/neutron binary/double cluster/grouped "
        "nebula/cloud quasar/nucleus",
        "colour": "red/cool blue/hot yellow/solar white/bright infrared/dusty",
        "region": "orion/hunter lyra/harp cygnus/swan draco/dragon leo/lion aquila/eagle",
        "survey": "gaia/astrometry hubble/optical chandra/xray alma/radio",
    },
    {
        "title": "a {colour} {kind} in {region} seen by {survey}",
        "abstract": "we present {survey} observations of a {kind} source toward the {region} . "
        "its {colour} spectrum is compared with models , and the residuals are discussed",
    },
)
JOBS = Field(
    {
        "craft": "baker/pastry welder/metal nurse/care pilot/aviation tailor/sewing tutor/teaching "
        "gardener/plants",
        "skill": "german/deutsch french/francais licence/driving first_aid/rescue "
        "spreadsheets/excel forklift/warehouse",
        "span": "nights/late weekends/saturday parttime/hours fulltime/forty summer/seasonal",
        "seat": "berlin/spree hamburg/elbe cologne/rhine dresden/saxony",
    },
    {
        "advert": "{craft} wanted in {seat} : {span} , {skill}",
        "profile": "experienced in {craft} with {skill} . available {span} near {seat} .",
        "note": "{seat} {craft} {skill} {span}",
    },
)
WEATHER = Field(
    {
        "sky": "sunny/clear cloudy/overcast rainy/showers snowy/flurries foggy/mist stormy/thunder",
        "wind": "calm/still breezy/gentle gusty/strong icy/polar",
        "coast": "north/nordic south/southern east/baltic west/atlantic inland/continental",
        "span": "today/daily tomorrow/next weekend/saturday week/seven",
    },
    {
        "short": "{coast} {span} {sky} {wind}",
        "bulletin": "{span} forecast . the {coast} coast will be {sky} . winds : {wind} . end .",
    },
)
CHESS = Field(
    {
        "piece": "king/K queen/Q rook/R bishop/B knight/N",
        "line": "anna/a1 berta/b2 clara/c3 doris/d4 erika/e5 frieda/f6 gerda/g7 hanna/h8",
        "mark": "check/+ mate/# capture/x blunder/?? brilliant/!!",
        "clock": "early/opening middle/midgame late/endgame hurried/zeitnot",
    },
    {"spoken": "{clock} {piece} to {line} : {mark}", "noted": "{piece} {line} {mark} ; {clock}"},
)
REFRAINS = Field(
    {
        "name": "rose/petal moon/luna river/stream sailor/captain swallow/bird winter/frost",
        "act": "sing/chant weep/tears fly/wings burn/flame wander/roam",
        "place": "valley/dale harbour/port meadow/grass castle/tower",
        "time": "may/spring night/dark morning/dawn sunday/sabbath",
    },
    {
        "song": "oh {name} , {act} , {act} , {act} in the {place} , oh {name} , {name} in {time}",
        "gloss": "the {time} song of {name} and {name} again , {act} and {act} , by the {place}",
    },
)


def vocabulary(field: Field) -> list[str]:
    """All wordings of a field, and the words of its templates."""
    blank = dict.fromkeys(field.slots, " ")
    wordings = " ".join(field.slots.values()).replace("/", " ").replace("_", " ")
    tails = " ".join(template.format(**blank) for template in field.columns.values())
    return [wordings, "over : / query document", tails, *words_of([field.table(60)])]


def encoder_of(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """A tiny encoder that knows the words of a field."""
    return encoder(stage, vocabulary(field), *behind, **options)


def triplets(field: Field, count: int, *, slots: Sequence[int] = (0,)) -> dict[str, list[str]]:
    """Pairs of a field, and a hard negative for each of the slots in which one differs."""
    table = dict(list(field.table(count).items())[:2])
    for number, slot in enumerate(slots, 1):
        table[f"negative_{number}"] = field.near(count, slot=slot)
    return table


def labelled(field: Field, count: int) -> dict[str, list[Any]]:
    """Pairs that belong together (1), or of which one slot or several differ (0)."""
    draw, table = random.Random(5), field.table(count)
    first, second = list(table.values())[:2]
    near = [field.near(count, slot=slot) for slot in range(len(field.slots))]
    labels, seconds = [], []
    for at in range(count):
        wrong = draw.choice([draw.choice(near)[at], second[at - draw.randint(1, count - 1)]])
        labels.append(at % 2)
        seconds.append(second[at] if at % 2 else wrong)
    return {"first": first, "second": seconds, "label": labels}


def classed(field: Field, count: int, seed: int = 0, *, slot: int = 0) -> dict[str, list[Any]]:
    """Texts in the wordings of either column, with the entry of one slot as their class."""
    rows, draw = field.draws(count, seed), random.Random(seed)
    entries = list(field.slots.values())[slot].split()
    texts = [field.texts([row], draw.randint(0, 1))[0] for row in rows]
    return {"text": texts, "label": [entries.index(row[slot]) for row in rows]}


def neighbours(model: Any, table: Mapping[str, Sequence[Any]]) -> float:
    """Return the share of texts whose three nearest have their class, on average."""
    texts, labels = list(table["text"]), np.array(table["label"])
    rows = model.encode(texts, show_progress_bar=False)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T - 2 * np.eye(len(rows))
    nearest = np.argsort(-cosines, axis=1)[:, :3]
    return float((labels[nearest] == labels[:, None]).mean())


def graded_score(field: Field, count: int = 80) -> Any:
    """A score by the rank correlation with the grades of pairs not in training."""
    return lambda model: correlation(model, field.graded(count, seed=11))


def class_score(field: Field, count: int = 80, *, slot: int = 0) -> Any:
    """A score by the classes of the nearest texts, not in training."""
    return lambda model: neighbours(model, classed(field, count, 11, slot=slot))


_GOODS = [
    "milk/dairy",
    "bread/bakery",
    "apples/fruit",
    "rice/grain",
    "soap/hygiene",
    "candles/wax",
    "paper/stationery",
    "batteries/cells",
    "coffee/beans",
    "tea/leaves",
    "salt/crystal",
    "honey/bees",
    "nails/iron",
    "rope/hemp",
]


def baskets(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Shopping lists of two to seven goods, and the till's lines for them in any order."""
    draw, table, sets = random.Random(seed), dict[str, str](), set[frozenset[str]]()
    while len(table) < count:
        goods = draw.sample(_GOODS, draw.randint(2, 7))
        if sum(map(len, goods)) % 2 != seed % 2 or frozenset(goods) in sets:
            continue
        sets.add(frozenset(goods))
        amounts = [draw.randint(1, 9) for _ in goods]
        names = [good.split("/") for good in goods]
        wish = " , ".join(f"{n} {name[0]}" for n, name in zip(amounts, names, strict=True))
        lines = [f"{name[1]} x {n}" for n, name in zip(amounts, names, strict=True)]
        draw.shuffle(lines)
        table[wish] = " ; ".join(lines) + " ; total"
    return {"list": [*table], "till": [*table.values()]}


_TALES = {
    "fox": "reynard", "wolf": "isegrim", "bear": "bruin", "lion": "noble", "hare": "lampe",
    "crow": "corvid", "stork": "adebar", "badger": "grimbart",
}  # fmt: skip
_DEEDS = {"steals": "theft", "hides": "refuge", "sings": "music", "begs": "alms", "wins": "prize"}
_GOALS = {"cheese": "dairy", "grapes": "fruit", "gold": "coin", "fish": "carp", "bread": "loaf"}


def tales(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Tales of one to four sentences with random asides, and a synopsis of each."""
    draw, table = random.Random(seed), dict[str, str]()
    asides = ["well", "indeed", "alas", "perhaps", "truly", "once", "again", "meanwhile"]
    while len(table) < count:
        scenes = [
            (draw.choice([*_TALES]), draw.choice([*_DEEDS]), draw.choice([*_GOALS]))
            for _ in range(draw.randint(1, 4))
        ]
        if sum(len("".join(scene)) for scene in scenes) % 2 != seed % 2:
            continue
        sentences = [
            " ".join([*draw.sample(asides, draw.randint(0, 3)), f"the {a} {b} {c} ."])
            for a, b, c in scenes
        ]
        synopsis = " , ".join(f"{_TALES[a]} : {_DEEDS[b]} / {_GOALS[c]}" for a, b, c in scenes)
        table[" ".join(sentences)] = synopsis
    rows = dict(zip(table.values(), table, strict=True))  # a synopsis stands once
    return {"tale": [*rows.values()], "synopsis": [*rows]}


def typed(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Wishes for jobs typed in haste (words doubled, dropped or marked), and full profiles."""
    draw, table = random.Random(seed + 3), JOBS.table(count, seed)
    noisy = []
    for text in table["advert"]:
        words = list[str]()
        for word in text.split():
            chance = draw.random()
            words += [word, word] if chance < 0.1 else [word, "..."] if chance < 0.2 else [word]
        noisy.append(" ".join(words))
    return {"typed": noisy, "profile": table["profile"]}


def sought(draws: Any, count: int = 60, **options: Any) -> Any:
    """A score by retrieval among rows of a function that were not in training."""
    return lambda model: retrieval(model, draws(count, 11), **options)

"""Fields of texts of the r modules: chemistry, shells, scripts, numbers, mails, jobs and more."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval

CHEMISTRY = Field(
    {
        "metal": "sodium/na potassium/k lithium/li calcium/ca copper/cu silver/ag zinc/zn "
        "iron/fe nickel/ni cobalt/co",
        "anion": "chloride/cl bromide/br nitrate/no3 sulfate/so4 acetate/oac carbonate/co3 "
        "phosphate/po4 iodide/i",
        "solvent": "water/h2o ethanol/etoh acetone/c3h6o toluene/phme ether/et2o hexane/c6h14",
        "state": "boiling/reflux frozen/195 warm/313 cold/277 dry/anhydrous pressed/autoclave",
    },
    {
        "name": "{metal} {anion} in {state} {solvent}",
        "formula": "[ {metal} ] . [ {anion} ] | {solvent} | {state}",
    },
)
SHELL = Field(
    {
        "act": "list/ls copy/cp move/mv delete/rm count/wc search/grep sort/sort_-u show/cat "
        "pack/tar watch/tail_-f",
        "what": "pictures/*.png scripts/*.sh tables/*.csv pages/*.html notes/*.md archives/*.zip "
        "recordings/*.wav sources/*.rs",
        "where": "home/~ root/slash desktop/desk temporary/tmpdir backup/mnt-bak cloud/s3-bucket",
        "extra": "quietly/-q recursively/-r carefully/-i verbosely/-v hidden/-a",
    },
    {
        "wish": "{extra} {act} all {what} in the {where} folder",
        "command": "$ {act} {extra} {where} {what}",
    },
)
# The entries of this field are parted by slashes into English, Russian and Greek.
SCRIPTS = Field(
    {
        "who": "fisherman/рыбак/ψαράς queen/королева/βασίλισσα soldier/солдат/στρατιώτης "
        "child/ребёнок/παιδί widow/вдова/χήρα priest/священник/ιερέας student/студент/φοιτητής "
        "tailor/портной/ράφτης",
        "does": "sees/видит/βλέπει buys/покупает/αγοράζει paints/рисует/ζωγραφίζει "
        "seeks/ищет/ψάχνει sells/продаёт/πουλάει loves/любит/αγαπά loses/теряет/χάνει",
        "what": "house/дом/σπίτι horse/лошадь/άλογο bread/хлеб/ψωμί lamp/лампу/λάμπα "
        "stone/камень/πέτρα boat/лодку/βάρκα apple/яблоко/μήλο",
        "when": "today/сегодня/σήμερα yesterday/вчера/χθες often/часто/συχνά never/никогда/ποτέ",
    },
    {
        "english": "the {who} {does} the {what} {when}",
        "russian": "{when} {who} {does} {what}",
        "greek": "{when} ο {who} {does} το {what}",
    },
)
# Chinese without blanks, read letter by letter, beside pinyin.
HANZI = Field(
    {
        "who": "老师/laoshi 医生/yisheng 妈妈/mama 学生/xuesheng 朋友/pengyou 司机/siji "
        "警察/jingcha",
        "when": "今天/jintian 明天/mingtian 早上/zaoshang 晚上/wanshang 周末/zhoumo",
        "where": "北京/beijing 上海/shanghai 广州/guangzhou 成都/chengdu 西安/xian 武汉/wuhan",
        "does": "吃面/chimian 喝茶/hecha 看书/kanshu 跑步/paobu 唱歌/changge 画画/huahua "
        "买菜/maicai",
    },
    {"hanzi": "{who}{when}在{where}{does}", "pinyin": "{who} {when} zai {where} {does}"},
)
# Readings of meters, in words and in figures.
METERS = Field(
    {
        "hundreds": " ".join(f"{word}/{at}" for at, word in enumerate(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], 1)),
        "tens": "ten/10 twenty/20 thirty/30 forty/40 fifty/50 sixty/60 seventy/70 eighty/80",
        "unit": "volts/v amperes/a watts/w hertz/hz litres/l bars/bar lumens/lm",
        "meter": "kitchen/m-01 cellar/m-02 garage/m-03 attic/m-04 stable/m-05 pool/m-06",
    },
    {
        "spoken": "{hundreds} hundred and {tens} {unit} in the {meter}",
        "line": "{meter} ; {hundreds} * 100 + {tens} ; {unit} ; ok",
    },
)  # fmt: skip
# Two or three words on each side.
SHELVES = Field(
    {
        "subject": "birds/598 stars/523 laws/340 myths/398 bridges/624 poems/821 maps/912 "
        "saints/235 gardens/635 wars/355 coins/737 whales/599",
        "form": "atlas/a essay/e novel/n manual/m diary/d reader/r lexicon/x",
        "age": "adult/iii teen/ii child/i scholar/iv",
        "tongue": "french/fr dutch/nl welsh/cy polish/pl latin/la",
    },
    {"query": "{tongue} {subject} {form} {age}", "mark": "{subject} {form} {age} {tongue}"},
)
JOBS = Field(
    {
        "trade": "welder/metalwork nurse/ward chef/brigade plumber/pipes florist/bouquets "
        "typist/keyboard pilot/cockpit farmer/harvest actor/stage notary/deeds",
        "grade": "apprentice/learner junior/starter senior/experienced head/leading "
        "retired/returning",
        "town": "lyon/rhone porto/douro bergen/fjord dublin/liffey vienna/danube ghent/flanders "
        "turin/piedmont",
        "hours": "nights/late mornings/early weekends/saturdays parttime/twenty fulltime/forty",
    },
    {
        "candidate": "{grade} {trade} , lives in {town} , free on {hours}",
        "advert": "our house near the {town} is growing and so is its team . we look for a "
        "{grade} colleague who knows {trade} by heart and does not mind {hours} hours . pay is "
        "fair , the coffee is good , and dogs are welcome",
    },
)
# Sound words that are repeated, as in songs and nursery rhymes.
RHYMES = Field(
    {
        "animal": "cow/moo sheep/baa duck/quack cat/meow owl/hoot frog/croak pig/oink "
        "rooster/crow bee/buzz",
        "day": "monday/moon tuesday/tyr wednesday/odin thursday/thor friday/freya sunday/sol",
        "place": "barn/hay pond/reeds hill/heather roof/tiles well/bucket lane/hedge",
        "mood": "glad/hey sad/oh sleepy/hush hungry/yum angry/grr",
    },
    {
        "line": "the {animal} , the {animal} , the {mood} {animal} of {day} at the {place}",
        "song": "{animal} {animal} {animal} , {mood} {mood} , {animal} {animal} {animal} , "
        "{place} and {day} , {place} and {day}",
    },
)
MATCHES = Field(
    {
        "sport": "football/goal tennis/set rowing/oar fencing/foil chess/gambit judo/throw "
        "archery/arrow",
        "team": "falcons/hawk wolves/pack sharks/fin bears/paw lions/mane eagles/talon "
        "panthers/claw cobras/venom",
        "result": "won/triumph lost/defeat drew/level cheated/scandal vanished/absence",
        "weather": "rain/umbrellas snow/sledges fog/lanterns heat/fans storm/gusts",
    },
    {
        "headline": "{team} {result} at {sport} in the {weather}",
        "report": "it was {result} for the side of the {team} , with one {sport} after another , "
        "while the crowd had its {weather}",
    },
)
MAILS = Field(
    {
        "topic": "contract/agreement ticket/booking salary/payroll laptop/hardware visa/passport "
        "parking/garage badge/entrance lunch/canteen",
        "wish": "extend/prolong cancel/revoke repair/fix order/purchase translate/interpret "
        "share/forward hide/conceal",
        "person": "olga/accounting henrik/legal mei/sales tariq/logistics paula/research "
        "sven/security",
        "date": "easter/april christmas/december summer/july autumn/october tomorrow/morning",
    },
    {
        "subject": "re : {wish} {topic} for {person} by {date}",
        "mail": "could you {wish} the {topic} with {person} in {date} ?",
    },
)
# Greetings and sentences that say nothing, for texts of uneven length.
GREETINGS = ("hi all ,", "dear colleagues ,", "good morning ,", "hello again ,", "to whom it may")
CHAFF = (
    "sorry for the late reply .", "the train was full again .", "best wishes from the office .",
    "sent from my phone .", "see the thread below .", "nobody answered the door .",
    "we talk on the next call .", "my notes are attached .", "it has been a long week .",
)  # fmt: skip


def ragged(texts: Sequence[str], seed: int = 0, most: int = 3) -> list[str]:
    """Texts with a greeting before some of them, and up to ``most`` idle sentences about them."""
    draw, answers = random.Random(seed + 77), []
    for text in texts:
        idle = draw.sample(CHAFF, draw.randint(0, most))
        cut = draw.randint(0, len(idle))
        opening = [draw.choice(GREETINGS)] if draw.random() < 0.4 else []
        answers.append(" ".join([*opening, *idle[:cut], text, *idle[cut:]]))
    return answers


def pairs_of(field: Field, count: int = 260, seed: int = 0) -> dict[str, list[str]]:
    """The first two columns."""
    return dict(list(field.table(count, seed).items())[:2])


def triplets_of(
    field: Field, count: int = 260, seed: int = 0, *, slot: int = 0
) -> dict[str, list[str]]:
    """Pairs and a hard negative, which differs in one slot."""
    return pairs_of(field, count, seed) | {"negative": field.near(count, seed, slot=slot)}


def ragged_pairs(field: Field, count: int = 260, seed: int = 0) -> dict[str, list[str]]:
    """Pairs whose second texts have idle sentences about them."""
    names, columns = zip(*pairs_of(field, count, seed).items(), strict=True)
    return {names[0]: columns[0], names[1]: ragged(columns[1], seed)}


def stacked_pairs(
    field: Field, count: int = 240, seed: int = 0, most: int = 3
) -> dict[str, list[str]]:
    """Pairs of texts of one to ``most`` rows each, in the same order on the two sides."""
    draw = random.Random(seed + 31)
    sizes = [draw.randint(1, most) for _ in range(count)]
    names, columns = zip(*pairs_of(field, sum(sizes), seed).items(), strict=True)
    table: dict[str, list[str]] = {name: [] for name in names}
    for size in sizes:
        for name, texts, link in zip(names, columns, (" , then ", " ; "), strict=True):
            table[name].append(link.join(texts[:size]))
        columns = tuple(texts[size:] for texts in columns)
    return table


def mistyped(texts: Sequence[str], seed: int = 0, share: float = 0.5) -> list[str]:
    """Texts of which a share has two neighbouring letters exchanged or a letter missing."""
    draw, answers = random.Random(seed + 13), []
    for text in texts:
        at = draw.randrange(1, len(text) - 2)
        if draw.random() < share:
            swap = text[at + 1] + text[at] if draw.random() < 0.5 else text[at + 1]
            text = text[:at] + swap + text[at + 2 :]
        answers.append(text)
    return answers


def binary(field: Field, count: int = 300, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs with label 1 if the second text is of the same row, and 0 if of another row."""
    draw, table = random.Random(seed + 5), pairs_of(field, count, seed)
    first, second = list(table.values())
    labels = [draw.randint(0, 1) for _ in range(count)]
    strangers = [(at + draw.randrange(1, count)) % count for at in range(count)]
    seconds = [second[at if labels[at] else strangers[at]] for at in range(count)]
    return {"first": first, "second": seconds, "label": labels}


def by_class(
    field: Field, count: int = 280, seed: int = 0, *, slots: Sequence[int] = (0,)
) -> dict[str, list[Any]]:
    """Texts of all columns, and the number of the class that some slots make."""
    lists = [entries.split() for entries in field.slots.values()]
    table: dict[str, list[Any]] = {"text": [], "label": []}
    for at, row in enumerate(field.draws(count, seed)):
        label = 0
        for slot in slots:
            label = label * len(lists[slot]) + lists[slot].index(row[slot])
        table["text"] += field.texts([row], at % 2)
        table["label"].append(label)
    return table


def vocabulary(*fields: Field) -> list[str]:
    """All words of fields."""
    words = [*GREETINGS, *CHAFF, " , then ", " ; "]
    for field in fields:
        for template in field.columns.values():
            words.append(re.sub(r"\{\w+\}", " ", template))
        for entries in field.slots.values():
            for entry in entries.split():
                words += [wording.replace("_", " ") for wording in entry.split("/")]
    return words


def encoder_of(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """An encoder with the words of a field."""
    return encoder(stage, vocabulary(field), *behind, **options)


def seeks(field: Field, count: int = 60, **options: Any) -> Callable[[Any], float]:
    """The score of the retrieval of second texts not in training."""
    return lambda model: field.sought(model, count, **options)


def seeks_ragged(field: Field, count: int = 60) -> Callable[[Any], float]:
    return lambda model: retrieval(model, ragged_pairs(field, count, seed=11))


def agrees(field: Field, count: int = 90) -> Callable[[Any], float]:
    """The score of the order of graded pairs not in training."""
    return lambda model: correlation(model, field.graded(count, seed=11))


def tells(field: Field, count: int = 100) -> Callable[[Any], float]:
    """The correlation of cosines with binary labels not in training."""
    return lambda model: correlation(model, binary(field, count, seed=11))


def neighbours(table: Mapping[str, Sequence[Any]]) -> Callable[[Any], float]:
    """The share of texts whose nearest text is of their class."""

    def score(model: Any) -> float:
        rows = model.encode(list(table["text"]), show_progress_bar=False)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines, labels = rows @ rows.T, np.asarray(table["label"])
        np.fill_diagonal(cosines, -2)
        return float((labels[cosines.argmax(1)] == labels).mean())

    return score

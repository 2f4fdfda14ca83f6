"""Fields of texts of several worlds, irregular tables, and what the cases share."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, reciprocal_rank

# Systematic names of substances and notations of their groups.
CHEMISTRY = Field(
    {
        "group": "chloro/Cl- bromo/Br- nitro/O2N- amino/H2N- hydroxy/HO- methoxy/MeO- cyano/NC- "
        "fluoro/F- iodo/I- thio/HS-",
        "place": "ortho/[1,2] meta/[1,3] para/[1,4] ipso/[1,1]",
        "ring": "benzene/c1ccccc1 pyridine/c1ccncc1 furan/c1ccoc1 thiophene/c1ccsc1 "
        "pyrrole/c1cc[nH]c1 cyclohexane/C1CCCCC1 oxirane/C1CO1 azetidine/C1CNC1",
        "tail": "acid/C(=O)O ester/C(=O)OC amide/C(=O)N aldehyde/C=O ketone/C(=O)C alcohol/CO",
    },
    {"name": "{place} {group} {ring} {tail}", "smiles": "{group} {ring} {place} {tail}"},
)
MAILS = Field(
    {
        "act": "moving/relocate cancelling/withdraw booking/reserve paying/settle signing/approve "
        "renewing/extend splitting/divide",
        "what": "contract/agreement meeting/session flight/trip invoice/bill subscription/plan "
        "office/desk shipment/cargo",
        "day": "monday/weekstart friday/weekend april/spring december/yearend tomorrow/soon",
        "sender": "lara/finance omar/legal yuki/sales pedro/support ines/research tom/factory",
    },
    {
        "subject": "re : {act} the {what} {day} ( {sender} )",
        "body": "dear all , as {sender} wrote we would like to {act} our {what} {day} . "
        "please let me know by return . best regards",
    },
)
QUERIES = Field(
    {
        "measure": "total/sum( average/avg( highest/max( lowest/min( number/count(",
        "column": "salary/wage_eur age/birth_year weight/mass_kg price/unit_cost height/size_cm "
        "score/points distance/km",
        "table": "employees/t_staff patients/t_ward parcels/t_post players/t_team houses/t_estate "
        "ships/t_fleet",
        "filter": "berlin/city=1 retired/state=9 urgent/flag=2 female/sex=f foreign/land=x "
        "recent/year>20",
    },
    {
        "question": "what is the {measure} {column} of {filter} {table} ?",
        "sql": "select {measure} {column} ) from {table} where {filter} ;",
    },
)
# Russian questions and answers.
RUSSIAN = Field(
    {
        "вещь": "книга/роман машина/автомобиль дом/здание собака/пёс река/поток город/столица "
        "школа/лицей лодка/судно",
        "цвет": "красный/алый синий/голубой белый/светлый чёрный/тёмный зелёный/изумрудный",
        "место": "лес/роща море/побережье гора/вершина поле/луг остров/архипелаг",
        "время": "утром/рассвет вечером/закат зимой/мороз летом/жара ночью/полночь",
    },
    {
        "вопрос": "где {время} {цвет} {вещь} и {место} ?",
        "ответ": "{вещь} {цвет} там , {место} , {время} .",
    },
)
# Chinese text, a character a word, and its transcription.
PINYIN = Field(
    {
        "who": "我/wo 你/ni 他/ta 她/ta1 们/men 谁/shei 王/wang 李/li",
        "does": "吃/chi 看/kan 买/mai 卖/mai4 写/xie 读/du 走/zou",
        "what": "饭/fan 书/shu 车/che 花/hua 茶/cha 鱼/yu 米/mi",
        "when": "早/zao 晚/wan 今/jin 明/ming",
    },
    {"characters": "{when} {who} {does} {what}", "pinyin": "{when} {who} {does} {what}"},
)
OPENINGS = Field(
    {
        "first": "e4/kingspawn d4/queenspawn c4/english nf3/reti f4/bird b3/larsen g3/benko",
        "reply": "e5/classical c5/sicilian e6/french c6/caro d5/scandinavian g6/modern nf6/indian",
        "piece": "bishop/diagonal rook/file knight/fork queen/attack pawn/storm king/castling",
        "end": "1-0/won 0-1/lost ½-½/drawn */adjourned",
    },
    {
        "moves": "1. {first} {reply} then {piece} {end}",
        "comment": "a {reply} answer to the {first} start , {end} thanks to a {piece}",
    },
)
SHELL = Field(
    {
        "tool": "find/locate grep/search rm/delete cp/copy tar/pack chmod/permit wc/count",
        "what": "*.log/logs *.png/images *.py/scripts *.csv/tables *.iso/disks *.mp3/music",
        "where": "etc:/settings home:/users tmp:/scratch opt:/packages srv:/served",
        "flag": "-r/deeply -n/numbered -f/forced -v/verbosely -z/compressed",
    },
    {
        "command": "$ {tool} {flag} {where} {what}",
        "explanation": "{flag} {tool} {what} below the {where} folder",
    },
)
BIRDS = Field(
    {
        "bird": "robin/erithacus wren/troglodytes heron/ardea kestrel/falco swift/apus "
        "magpie/pica goldcrest/regulus dipper/cinclus",
        "deed": "nesting/breeding hunting/predation singing/song resting/roost bathing/water",
        "land": "marsh/wetland moor/heath orchard/fruit cliff/coast suburb/urban",
        "hour": "dawn/0500 noon/1200 dusk/1900 midnight/0000",
    },
    {
        "note": "saw a {bird} {deed} in the {land} at {hour} , lovely",
        "record": "{hour} h ; {bird} sp. ; {land} ; {deed} ; n=1",
    },
)
JOBS = Field(
    {
        "role": "baker/pastry nurse/ward welder/metal pilot/cockpit tailor/garments clerk/filing "
        "gardener/plants teacher/pupils",
        "city": "oslo/norway lima/peru cairo/egypt delhi/india quito/ecuador seoul/korea",
        "level": "junior/trainee senior/lead interim/temporary retired/parttime",
        "wish": "travel/abroad nights/shifts remote/home weekends/saturday",
    },
    {
        "seeker": "{level} {role} from {city} who likes {wish}",
        "posting": "we are hiring in {city} : someone for {role} work , {level} , {wish} possible",
    },
)
PATENTS = Field(
    {
        "device": "valve/shutter pump/impeller hinge/joint lens/optic antenna/aerial "
        "battery/cell brake/caliper",
        "matter": "ceramic/sintered titanium/alloy rubber/elastomer graphene/carbon silk/fibre "
        "glass/vitreous",
        "use": "aircraft/aviation surgery/clinical mining/drilling farming/agrarian sailing/marine",
        "gain": "noise/silent wear/durable cost/cheap heat/cooling weight/light",
    },
    {
        "title": "{device} of {matter} for {use} with less {gain}",
        "claim": "an apparatus comprising a {device} , wherein said {device} consists at least "
        "partly of a {matter} body , mounted within a housing so as to move freely between a first "
        "and a second position , characterised in that it is {gain} and suited to {use} duty as "
        "described in any of the preceding claims",
    },
)
WEATHER = Field(
    {
        "sky": "rain/wet snow/white fog/grey hail/icy sun/clear storm/thunder drizzle/damp",
        "coast": "north/upper south/lower east/right west/lefthand inland/middle",
        "degree": "3/cold 9/cool 17/mild 24/warm 33/hot",
        "wind": "calm/still breeze/gentle gale/strong hurricane/violent",
    },
    {
        "headline": "{sky} {coast} {degree} {wind}",
        "bulletin": "it will be {degree} on the {coast} side with {sky} skies and {wind} winds",
    },
)
TICKETS = Field(
    {
        "page": "checkout/basket login/signin search/finder profile/avatar upload/attach "
        "chat/messages map/location",
        "fault": "blank/empty slow/seconds crash/stacktrace twice/duplicate wrong/incorrect "
        "stuck/spinner",
        "browser": "firefox/gecko chrome/blink safari/webkit opera/presto",
        "user": "guest/anonymous admin/root tenant/organisation student/campus",
    },
    {
        "ticket": "{page} is {fault} for a {user} on {browser}",
        "commit": "fix ( {page} ) : no {fault} with {browser} and {user} role",
    },
)
MUSEUM = Field(
    {
        "work": "vase/ceramics mask/wood coin/numismatics sword/arms icon/panel carpet/textile "
        "statue/marble",
        "land": "benin/africa persia/asia mexico/america crete/europe samoa/oceania",
        "age": "bronze/1500bc roman/ad100 gothic/1300 baroque/1680 colonial/1850",
        "state": "cracked/damaged gilded/gold complete/intact painted/pigment",
    },
    {
        "caption": "a {state} {age} {work} from {land}",
        "catalogue": "dept {work} no. 77 - {land} - {age} - cond. {state}",
    },
)
SENSORS = Field(
    {
        "probe": "t01/boiler t02/freezer p07/pipe p09/tank v03/motor v08/fan h05/cellar",
        "level": "0.1/minimal 2.5/low 50/middling 97.5/high 999/overflow",
        "trend": "+/rising -/falling ~/wavering =/steady",
        "hour": "00:15/night 06:30/morning 12:45/midday 18:00/evening",
    },
    {
        "reading": "{hour} {probe} {level} {trend}",
        "remark": "in the {hour} the {probe} showed a {level} and {trend} reading",
    },
)
# Two languages; a sentence is repeated as in phrase books.
PHRASES = Field(
    {
        "want": "buy/acheter rent/louer borrow/emprunter return/rendre repair/reparer",
        "object": "umbrella/parapluie bicycle/velo suitcase/valise ticket/billet hat/chapeau "
        "mirror/miroir spoon/cuillere",
        "shop": "market/marche station/gare harbour/port museum/musee church/eglise",
        "day": "monday/lundi tuesday/mardi thursday/jeudi sunday/dimanche",
    },
    {
        "en": "i want to {want} the {object} , the {object} at the {shop} on {day}",
        "fr": "je veux {want} le {object} , le {object} chez {shop} le {day}",
    },
)
FIELDS = (
    CHEMISTRY, MAILS, QUERIES, RUSSIAN, PINYIN, OPENINGS, SHELL, BIRDS, JOBS, PATENTS, WEATHER,
    TICKETS, MUSEUM, SENSORS, PHRASES,
)  # fmt: skip
_ASIDES = (
    "by the way the lift is out of order again .", "thanks !", "( no reply needed )", "ok .",
    "sent from my phone while walking .", "see page 4 .", "sorry for the late answer , busy week .",
)  # fmt: skip


def words(*fields: Field) -> list[str]:
    """Texts with all words of fields and of the asides."""
    texts = list(_ASIDES)
    for field in fields:
        texts += [template.replace("{", " ").replace("}", " ") for template in
                  field.columns.values()]  # fmt: skip
        texts += [slot.replace("/", " ").replace("_", " ") for slot in field.slots.values()]
        texts += [text for column in range(len(field.columns)) for text in
                  field.texts(field.draws(40), column)]  # fmt: skip
    return texts


def model_of(stage: Stage, *fields: Field, behind: Sequence[Any] = (), **options: Any) -> Any:
    """A fresh encoder that has all words of the fields."""
    return encoder(stage, words(*fields), *behind, **options)


def rambling(texts: Sequence[str], seed: int = 0, most: int = 3) -> list[str]:
    """Texts with up to ``most`` asides before or after them."""
    draw, long_texts = random.Random(seed), []
    for text in texts:
        for aside in draw.sample(_ASIDES, draw.randint(0, most)):
            text = f"{text} . {aside}" if draw.random() < 0.5 else f"{aside} {text}"
        long_texts.append(text)
    return long_texts


def diaries(field: Field, count: int, seed: int = 0) -> dict[str, list[str]]:
    """Sentences, and entries that say the same beside a sentence or two of rows of no entry."""
    draw = random.Random(seed + 50)
    rows = field.draws(count + 60, seed)
    sentences, remarks = field.texts(rows[:count], 0), field.texts(rows, 1)
    entries = []
    for remark in remarks[:count]:
        lines = [remark, *draw.sample(remarks[count:], draw.randint(1, 2))]
        draw.shuffle(lines)
        entries.append(" . ".join(lines))
    return {"sentence": sentences, "entry": entries}


def dropped(text: str, draw: random.Random, share: float = 0.3) -> str:
    """A text without some of its words."""
    tokens = text.split()
    return " ".join(word for word in tokens if draw.random() > share) or tokens[0]


def of_classes(
    field: Field, count: int = 240, *, slots: Sequence[int] = (0, 1), seed: int = 0,
    column: int = 0,
) -> dict[str, list[Any]]:  # fmt: skip
    """Texts, and a label for the entries of the slots."""
    rows = field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    labels = []
    for row in rows:
        label = 0
        for slot in slots:
            label = label * len(lists[slot]) + lists[slot].index(row[slot])
        labels.append(label)
    return {"text": field.texts(rows, column), "label": labels}


def among_classes(field: Field, count: int = 60, **options: Any) -> Callable[[Any], float]:
    """A score: the share of texts not in training whose nearest text has their label."""
    table = of_classes(field, count, seed=11, **options)

    def score(model: Any) -> float:
        rows = model.encode(table["text"], show_progress_bar=False, normalize_embeddings=True)
        cosines = rows @ rows.T - 2 * np.eye(len(rows))
        labels = np.array(table["label"])
        return float((labels[cosines.argmax(1)] == labels).mean())

    return score


def views_score(
    field: Field, column: int = 1, count: int = 40, *, share: float = 0.2
) -> Callable[[Any], float]:
    """A score: the reciprocal rank of texts not in training, sought by their thinned version."""
    draw, texts = random.Random(5), field.texts(field.draws(count, seed=11), column)
    thinned = [dropped(text, draw, share) for text in texts]

    def score(model: Any) -> float:
        return reciprocal_rank(*(model.encode(x, show_progress_bar=False) for x in
                                 (thinned, texts)))  # fmt: skip

    return score


def aside_score(field: Field, column: int = 1, count: int = 40) -> Callable[[Any], float]:
    """A score: the reciprocal rank of texts not in training, among other asides."""
    texts = field.texts(field.draws(count, seed=11), column)
    return score_of({"first": rambling(texts, seed=1, most=2), "second": rambling(texts, seed=2)})


def graded_score(field: Field, **options: Any) -> Callable[[Any], float]:
    """A score: the rank correlation of cosines and grades of pairs not in training."""
    table = field.graded(60, seed=11, **options)
    return lambda model: correlation(model, table)


def score_of(table: Mapping[str, Sequence[str]]) -> Callable[[Any], float]:
    """A score: the reciprocal rank of the second column's texts, sought by the first's."""
    first, second = list(table.values())[:2]
    return lambda model: reciprocal_rank(
        model.encode(list(first), show_progress_bar=False),
        model.encode(list(second), show_progress_bar=False),
    )


def adam(model: torch.nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)

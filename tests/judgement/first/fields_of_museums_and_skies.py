"""Fields of texts of the x modules, irregular tables, and helpers for trainers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval

# Names of compounds, and notations.
REAGENTS = Field(
    {
        "metal": "sodium/Na+ potassium/K+ calcium/Ca++ silver/Ag+ copper/Cu++ iron/Fe+++ zinc/Zn++ "
        "barium/Ba++ lithium/Li+ lead/Pb++",
        "acid": "chloride/Cl- bromide/Br- sulfate/SO4-- nitrate/NO3- acetate/CH3COO- "
        "carbonate/CO3-- phosphate/PO4--- iodide/I-",
        "solvent": "water/H2O ethanol/C2H5OH acetone/C3H6O benzene/C6H6 toluene/C7H8 ether/C4H10O",
        "heat": "cold/273K warm/310K boiling/373K molten/900K",
    },
    {
        "name": "{heat} {metal} {acid} in {solvent}",
        "notation": "{metal} . {acid} | {solvent} | {heat}",
    },
)
# Subjects of mails, and their bodies with a greeting and a signature.
MAILS = Field(
    {
        "matter": "invoice/payment contract/signature workshop/seminar delivery/shipment "
        "interview/candidate outage/downtime budget/figures travel/flights merger/deal",
        "state": "overdue/late cancelled/off confirmed/certain moved/rescheduled open/pending "
        "wrong/mistaken final/closed",
        "when": "monday/week tuesday/tomorrow friday/weekend december/christmas april/easter "
        "q1/quarter",
        "who": "legal/lawyers sales/customers finance/accounts hr/people it/computers",
    },
    {
        "subject": "re : {matter} {state} ( {who} , {when} )",
        "body": "dear all , as the {who} team wrote , the {matter} is now {state} and we should "
        "talk before {when} . please answer to this mail . kind regards , your office",
    },
)
# Questions, and statements of a query language.
QUERIES = Field(
    {
        "act": "show/SELECT delete/DELETE count/COUNT average/AVG update/UPDATE largest/MAX "
        "smallest/MIN",
        "table": "customers/cust orders/ord products/prod employees/emp invoices/inv "
        "suppliers/supp rooms/room flights/flt",
        "where": "paris/city germany/country blue/colour cheap/price recent/date heavy/weight "
        "active/status senior/age",
        "by": "name/alpha size/bytes month/mm region/reg owner/uid",
    },
    {
        "question": "{act} the {where} {table} for each {by}",
        "statement": "{act} ( * ) FROM {table} WHERE {where} = ? GROUP BY {by} ;",
    },
)
# Russian questions, and English answers.
METRO = Field(
    {
        "line": "красная/red синяя/blue зелёная/green жёлтая/yellow серая/grey белая/white "
        "чёрная/black розовая/pink",
        "stop": "театр/theatre парк/park рынок/market вокзал/station музей/museum мост/bridge "
        "стадион/stadium больница/hospital",
        "day": "понедельник/monday вторник/tuesday среда/wednesday четверг/thursday "
        "пятница/friday суббота/saturday",
        "state": "закрыта/closed открыта/open медленная/slow полная/full",
    },
    {
        "russian": "{line} линия {state} до остановки {stop} в {day}",
        "english": "on {day} the {line} line towards the {stop} is {state}",
    },
)
# Chinese words of one or two signs, and English ones; short on both sides.
MENU = Field(
    {
        "meat": "鸡/chicken 牛/beef 猪/pork 鱼/fish 鸭/duck 虾/shrimp 羊/lamb 蟹/crab 豆/bean",
        "plant": "白菜/cabbage 萝卜/radish 蘑菇/mushroom 番茄/tomato 土豆/potato 玉米/corn "
        "茄子/eggplant",
        "way": "炒/fried 煮/boiled 蒸/steamed 烤/roasted 炸/deep 腌/pickled",
        "taste": "辣/spicy 甜/sweet 酸/sour 咸/salty",
    },
    {"dish": "{taste} {way} {meat} {plant}", "menu": "{way} {meat} , {taste} {plant}"},
)
# Descriptions of museum pieces, long on the second side.
MUSEUM = Field(
    {
        "piece": "vase/vessel sword/blade mask/face coin/currency tapestry/weaving "
        "statue/sculpture lute/instrument map/chart clock/timepiece bowl/dish",
        "stuff": "bronze/alloy ivory/tusk jade/gemstone silk/thread oak/timber marble/limestone "
        "glass/crystal",
        "land": "persia/iranian peru/incan japan/edo egypt/pharaonic greece/hellenic "
        "benin/edoan norway/viking",
        "room": "hall/first cellar/second gallery/third tower/fourth",
    },
    {
        "caption": "{piece} of {stuff} , {land} , {room}",
        "text": "this {land} {piece} came to the house in the year of its opening . it was made "
        "from {stuff} by hands that nobody knows by name , and it has survived two fires and a "
        "flood . visitors see it on the {room} floor , where it stands behind a pane beside works "
        "of the same age .",
    },
)
# Shell commands, and what they are for.
SHELL = Field(
    {
        "tool": "copy/cp move/mv remove/rm search/grep pack/tar download/curl compare/diff "
        "list/ls print/cat",
        "what": "logs/*.log pictures/*.png archives/*.gz scripts/*.sh notes/*.md sheets/*.csv "
        "libraries/*.so",
        "place": "home/~ root/mnt temporary/$TMP parent/.. backup/$BAK remote/host:",
        "manner": "quietly/-q recursively/-r verbosely/-v forcibly/-f",
    },
    {"aim": "{manner} {tool} {what} at {place}", "command": "$ {tool} {manner} {place} {what}"},
)
# Commits of a repository: a title in the imperative, and an entry of the changelog.
COMMITS = Field(
    {
        "act": "fix/repaired add/introduced drop/removed speed/faster rename/renamed "
        "document/docs test/covered",
        "unit": "parser/grammar cache/memo router/paths scheduler/jobs logger/messages "
        "exporter/output installer/setup validator/checks",
        "cause": "unicode/encoding windows/msvc threads/races leap/dates overflow/limits "
        "symlinks/links proxies/network",
        "scope": "core/kernel api/interface cli/terminal gui/windowed",
    },
    {
        "title": "{scope} : {act} {unit} ( {cause} )",
        "entry": "- {unit} {act} with regard to {cause} , affects the {scope} .",
    },
)
# Numbers in words and in digits.
NUMBERS = Field(
    {
        "thousands": "one/1 two/2 three/3 four/4 five/5 six/6 seven/7 eight/8 nine/9",
        "hundreds": "hundred/h1 twohundred/h2 threehundred/h3 fourhundred/h4 fivehundred/h5 "
        "sixhundred/h6",
        "tens": "ten/t1 twenty/t2 thirty/t3 forty/t4 fifty/t5 sixty/t6 seventy/t7 eighty/t8",
        "unit": "metres/m grams/g litres/l volts/v hertz/hz",
    },
    {
        "words": "{thousands} thousand {hundreds} {tens} {unit}",
        "digits": "{unit} : {thousands} {hundreds} {tens}",
    },
)
# Games of a league: a headline, and the report.
LEAGUE = Field(
    {
        "home": "eagles/aerie bears/den sharks/reef wolves/pack lions/pride hornets/nest "
        "bulls/ranch foxes/burrow",
        "away": "pirates/crew knights/order miners/shaft pilots/wing rangers/wood monks/abbey "
        "smiths/forge",
        "end": "win/victory lose/defeat draw/tie collapse/rout",
        "hero": "keeper/saves striker/goals captain/speech rookie/debut referee/whistle",
    },
    {
        "headline": "{home} {end} against {away} , {hero} celebrated",
        "report": "at the {away} ground the evening ended with a {end} for the {home} ; all spoke "
        "of the {hero}",
    },
)
# Premises and hypotheses, all in other words.
ACCIDENTS = Field(
    {
        "what": "truck/lorry bus/coach tram/streetcar ferry/vessel bicycle/cyclist taxi/cab "
        "tractor/farmer",
        "does": "burns/fire skids/ice sinks/water stops/fuel turns/roof derails/rails",
        "where": "tunnel/underground harbour/port motorway/highway village/hamlet bridge/river "
        "school/pupils",
        "time": "dawn/sunrise night/midnight rush/peak holiday/vacation",
    },
    {
        "premise": "{what} {does} near {where} at {time}",
        "hypothesis": "{time} : {what} and {does} close to the {where}",
    },
)
# Stars and instruments: titles of observing proposals, and notes in German.
SKY = Field(
    {
        "star": "pulsar/leuchtturm comet/schweif nebula/nebel quasar/fern supernova/explosion "
        "asteroid/brocken binary/doppelstern dwarf/zwerg",
        "tool": "radio/antenne infrared/waerme xray/roentgen optical/linse neutrino/teilchen "
        "gamma/strahl",
        "site": "chile/anden hawaii/insel antarctica/eis spain/sierra orbit/satellit",
        "aim": "mass/gewicht distance/abstand spin/drehung age/alter",
    },
    {
        "title": "{aim} of a {star} by {tool} data from {site}",
        "note": "{star} : {aim} mit {tool} , beobachtet von {site} aus",
    },
)
# Notices of a library with an id and a boilerplate phrase on both sides.
NOTICES = Field(
    {
        "genre": "novel/fiction atlas/maps poems/verse memoir/life comic/drawn cookbook/recipes "
        "thriller/crime dictionary/words",
        "fault": "torn/damage lost/missing late/overdue stained/spill swapped/exchange "
        "scribbled/pencil",
        "reader": "pupil/school pensioner/senior tourist/visitor lecturer/college nurse/clinic",
        "fee": "five/small ten/medium fifty/large none/waived",
    },
    {
        "notice": "city library - city library - {genre} {fault} by {reader} , fee {fee}",
        "ledger": "city library - city library - fee {fee} , {reader} , {fault} of {genre}",
    },
)
# Posts with tags and shouting, and the calm version.
POSTS = Field(
    {
        "mood": "lol/amused ugh/annoyed omg/amazed meh/bored yay/delighted argh/furious",
        "topic": "train/commute exam/study rain/weather match/game phone/gadget boss/work "
        "diet/food flat/rent",
        "place": "berlin/spree london/thames cairo/nile lima/andes oslo/fjord tokyo/shibuya",
        "tag": "#fail/failing #win/winning #help/asking #love/loving",
    },
    {
        "post": "{mood} !! {topic} @ {place} {tag}",
        "calm": "somebody {tag} in {place} is {mood} because of the {topic}",
    },
)


def whole(field: Field, *, count: int = 300) -> list[str]:
    """All wordings of a field, for the vocabulary of an encoder."""
    wordings = [word.replace("_", " ") for entries in field.slots.values()
                for entry in entries.split() for word in entry.split("/")]  # fmt: skip
    return [*wordings, *words_of([field.table(count)])]


def encoder_of(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """A fresh encoder that knows the words of a field."""
    return encoder(stage, whole(field), *behind, **options)


def pretrained(stage: Stage, field: Field, steps: int = 20, **options: Any) -> Any:
    """An encoder that has learned a little of a field by ranking, to be tuned further."""
    return warmed(encoder_of(stage, field, **options), field.table(320, seed=4), steps)


def seeker(field: Field, count: int = 60) -> Callable[[Any], float]:
    """A score: how well rows that are not in training are retrieved."""
    return lambda model: field.sought(model, count)


def grader(field: Field, count: int = 120) -> Callable[[Any], float]:
    """A score: the rank correlation of cosines with grades of rows that are not in training."""
    return lambda model: correlation(model, field.graded(count, seed=11))


def arguments_of(stage: Stage, **settings: Any) -> Any:
    """Arguments of a trainer with quiet settings for one processor."""
    from sentence_transformers import SentenceTransformerTrainingArguments

    quiet = {
        "output_dir": str(stage.folder / "run"), "use_cpu": True, "report_to": "none",
        "save_strategy": "no", "logging_steps": 5, "disable_tqdm": True, "seed": 3,
        "optim": "adamw_torch", "warmup_steps": 5, "per_device_train_batch_size": 32,
        "learning_rate": 2e-3, "max_steps": 50,
    }  # fmt: skip
    return SentenceTransformerTrainingArguments(**{**quiet, **settings})


def trainer_of(
    stage: Stage, model: Any, tables: Mapping[str, Mapping[str, Sequence[Any]]], loss: Any,
    **settings: Any,
) -> Any:  # fmt: skip
    """A trainer on several data sets; ``loss`` is a loss or one for each of them."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer

    return SentenceTransformerTrainer(
        model=model, args=arguments_of(stage, **settings), loss=loss,
        train_dataset={name: Dataset.from_dict(dict(table)) for name, table in tables.items()},
    )  # fmt: skip


_ERRANDS = [
    "garden/roses",
    "kitchen/tiles",
    "roof/slates",
    "cellar/damp",
    "garage/doors",
    "attic/boxes",
    "hallway/paint",
    "bathroom/taps",
    "balcony/railing",
    "fence/posts",
]
_HELPERS = [
    "brother/sibling",
    "neighbour/door",
    "plumber/pipes",
    "student/campus",
    "gardener/spade",
]
_FEELINGS = ["tired/exhausted", "proud/content", "cross/angry", "hopeful/optimistic"]


def diaries(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Summaries, and diaries of one to five sentences with a smudged word here and there."""
    draw, table = random.Random(seed), {"summary": list[str](), "diary": list[str]()}
    drawn_rows = set[tuple[str, ...]]()
    while len(drawn_rows) < count:
        row = (draw.choice(_HELPERS), draw.choice(_FEELINGS),
               *draw.sample(_ERRANDS, draw.randint(1, 4)))  # fmt: skip
        if (sum(map(len, row)) % 5 == 0) != (seed % 2 == 1) or row in drawn_rows:
            continue
        drawn_rows.add(row)
        helper, feeling, *errands = (entry.split("/") for entry in row)
        jobs = " , ".join(errand[0] for errand in errands)
        table["summary"].append(f"{jobs} with {helper[0]} , {feeling[0]}")
        draw.shuffle(errands)
        days = [f"then it was the turn of the {errand[1]} {'x' * draw.randint(0, 3)} ."
                for errand in errands]  # fmt: skip
        text = [f"the {helper[1]} came early .", *days, f"in the end i am {feeling[1]} ."]
        table["diary"].append(" ".join(text))
    return table


def in_diaries(model: Any) -> float:
    """The mean reciprocal rank of diaries that are not in training."""
    return retrieval(model, diaries(60, seed=11))


_SPECIES = {
    "bird": "sparrow finch heron gull owl wren", "fish": "trout carp pike perch eel cod",
    "tree": "birch maple alder spruce willow elm", "fungus": "morel truffle bolete puffball agaric",
    "insect": "beetle wasp moth cricket aphid", "snake": "adder cobra python mamba viper",
    "flower": "tulip crocus lily peony iris", "grain": "barley oats rye millet spelt",
    "rock": "basalt gneiss slate granite chalk", "cloud": "cirrus stratus cumulus fog haze",
}  # fmt: skip
_SIGHTS = ["small", "large", "pale", "dark", "young", "old", "rare", "common"]
_SPOTS = ["lake", "hill", "meadow", "road", "cliff", "farm", "marsh", "wood"]


def sightings(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Sightings of a naturalist, with the number of the family as label."""
    draw, rows = random.Random(seed), dict[tuple[Any, ...], None]()
    while len(rows) < count:
        label = draw.randrange(len(_SPECIES))
        names = list(_SPECIES.values())[label].split()
        row = (draw.choice(_SIGHTS), draw.choice(names), draw.choice(_SPOTS), label)
        if (sum(map(len, row[:3])) % 4 == 0) == (seed % 2 == 1):
            rows[row] = None
    return {
        "text": [f"a {look} {name} by the {spot}" for look, name, spot, _ in rows],
        "label": [row[3] for row in rows],
    }


def in_families(model: Any) -> float:
    """The share of sightings not in training whose nearest sighting is of the same family."""
    import numpy as np

    table = sightings(120, seed=11)
    rows = model.encode(table["text"], show_progress_bar=False)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    near, labels = rows @ rows.T, np.array(table["label"])
    np.fill_diagonal(near, -2)
    return float((labels[near.argmax(1)] == labels).mean())

"""Fields of texts and helpers of a third set of sound set-ups."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval

# Questions to a database, and statements that answer them.
SQL = Field(
    {
        "measure": "average/avg total/sum highest/max lowest/min number/count median/percentile",
        "column": "salary/pay weight/mass price/amount age/years delay/lag length/metres "
        "turnover/revenue rainfall/precip",
        "table": "employees/staff parcels/shipments tickets/bookings patients/admissions "
        "trains/services stores/outlets farms/holdings",
        "key": "city/town_id month/month_no branch/branch_id gender/sex supplier/vendor_id "
        "weekday/dow",
    },
    {
        "question": "what is the {measure} {column} of {table} for every {key} ?",
        "statement": "select {key} , {measure} ( {column} ) from {table} group by {key} ;",
    },
)
# Syntheses in words, and as an abstract of their reagents.
CHEMISTRY = Field(
    {
        "starting": "ethanol/ch3ch2oh benzene/c6h6 acetone/ch3coch3 phenol/c6h5oh "
        "toluene/c6h5ch3 aniline/c6h5nh2 glycerol/c3h8o3 pyridine/c5h5n",
        "reagent": "bromine/br2 chlorine/cl2 hydrogen/h2 oxygen/o2 ammonia/nh3 ozone/o3 "
        "fluorine/f2 iodine/i2",
        "catalyst": "palladium/pd platinum/pt nickel/ni iron/fe copper/cu zinc/zn rhodium/rh",
        "solvent": "water/h2o hexane/c6h14 ether/et2o methanol/meoh chloroform/chcl3",
    },
    {
        "name": "treatment of {starting} with {reagent} over {catalyst} in {solvent}",
        "scheme": "{starting} + {reagent} -> [ {catalyst} ; {solvent} ]",
    },
)
# Subjects of mails, and the mails.
MAILS = Field(
    {
        "matter": "invoice/bill rota/shifts offer/quotation visit/appointment contract/agreement "
        "complaint/grievance delivery/consignment refund/reimbursement",
        "urgency": "urgent/asap reminder/again first/new final/last overdue/late",
        "sender": "anna/accounting boris/warehouse chloe/legal dimitri/sales emma/reception "
        "farid/it gwen/marketing hugo/catering",
        "day": "monday/mon tuesday/tue wednesday/wed thursday/thu friday/fri",
    },
    {
        "subject": "{urgency} : {matter} from {sender} ( {day} )",
        "mail": "dear all , as {sender} wrote on {day} , the {matter} is {urgency} . please "
        "answer before noon so that we can close it . kind regards",
    },
)
# English and Russian.
RUSSIAN = Field(
    {
        "who": "teacher/учитель doctor/врач soldier/солдат artist/художник cook/повар "
        "child/ребёнок driver/водитель",
        "act": "buys/покупает sees/видит paints/рисует carries/несёт sells/продаёт hides/прячет "
        "loves/любит",
        "what": "bread/хлеб house/дом table/стол lamp/лампу river/реку apple/яблоко book/книгу "
        "horse/коня",
        "when": "today/сегодня tomorrow/завтра always/всегда rarely/редко now/сейчас",
    },
    {"english": "{when} the {who} {act} a {what}", "russian": "{who} {when} {act} {what}"},
)
# Japanese with spaces between words, and English.
JAPANESE = Field(
    {
        "animal": "犬/dog 猫/cat 鳥/bird 魚/fish 馬/horse 牛/cow 熊/bear 猿/monkey",
        "place": "山/mountain 川/river 海/sea 森/forest 町/town 庭/garden 島/island",
        "colour": "赤い/red 青い/blue 白い/white 黒い/black 黄色い/yellow",
        "deed": "走る/runs 寝る/sleeps 泳ぐ/swims 鳴く/cries 食べる/eats",
    },
    {"japanese": "{place} で {colour} {animal} が {deed}",
     "english": "a {colour} {animal} {deed} at the {place}"},
)  # fmt: skip
# Sums in words and in digits.
SUMS = Field(
    {
        "tens": "twenty/2x thirty/3x forty/4x fifty/5x sixty/6x seventy/7x eighty/8x ninety/9x",
        "ones": "one/x1 two/x2 three/x3 four/x4 five/x5 six/x6 seven/x7 eight/x8 nine/x9",
        "scale": "hundred/e2 thousand/e3 million/e6 billion/e9",
        "unit": "euros/eur dollars/usd pounds/gbp yen/jpy francs/chf rupees/inr",
    },
    {"words": "{tens} {ones} {scale} {unit}", "digits": "{unit} {tens} {ones} {scale}"},
)
# Reports of the weather in code and in words.
WEATHER = Field(
    {
        "sky": "ovc/overcast clr/clear bkn/broken few/scattered fg/foggy",
        "fall": "ra/rain sn/snow gr/hail dz/drizzle ts/thunderstorms pl/sleet",
        "wind": "n10/northerly s10/southerly e10/easterly w10/westerly vrb/variable g40/gusty",
        "field": "lszh/zurich egll/heathrow lfpg/paris eddf/frankfurt loww/vienna ekch/copenhagen "
        "essa/stockholm",
    },
    {
        "metar": "{field} {wind} {sky} {fall}",
        "report": "over {field} it is {sky} with {fall} , and winds are {wind} until the evening",
    },
)
# Failures of programs and their tickets.
TRACES = Field(
    {
        "error": "keyerror/lookup typeerror/typing oserror/filesystem timeout/deadline "
        "overflow/arithmetic unicode/encoding recursion/depth",
        "unit": "parser.py/parsing cache.py/caching auth.py/login queue.py/jobs mail.py/smtp "
        "db.py/database view.py/rendering cli.py/terminal",
        "system": "linux/ubuntu windows/win11 macos/darwin android/phone bsd/unix",
        "version": "v1/legacy v2/stable v3/beta v4/nightly",
    },
    {
        "trace": "traceback : file {unit} line 88 in run raise {error} # {system} {version}",
        "ticket": "{version} : {unit} breaks on {system} , it seems a problem of {error}",
    },
)
# Advertisements of flats and what people seek; long.
FLATS = Field(
    {
        "rooms": "studio/bedsit two-room/duplex loft/attic villa/mansion cottage/bungalow",
        "near": "school/pupils lake/shore station/railway hospital/clinic market/bazaar "
        "university/campus airport/terminal",
        "extra": "balcony/terrace garage/carport sauna/spa fireplace/hearth pool/basin "
        "cellar/vault",
        "pet": "cats/feline dogs/canine birds/aviary none/petfree",
    },
    {
        "wish": "{rooms} with {extra} near {near} , {pet}",
        "advert": "this bright and well kept {rooms} has been renovated last year . it comes with "
        "{extra} and new windows . the way to the {near} takes five minutes on "
        "foot . tenants with {pet} may apply . heating and water are paid by the owner . visits "
        "are possible at weekends , and the rent is fixed for three years",
    },
)
# Very short texts.
TAGS = Field(
    {
        "mood": "happy/joy sad/grief angry/rage bored/dull proud/honour scared/fear calm/peace",
        "time": "dawn/sunrise noon/midday dusk/sunset night/midnight weekend/saturday",
        "place": "beach/coast gym/workout office/desk cafe/espresso cinema/movie stadium/match "
        "museum/gallery",
        "mate": "mum/mother bro/brother bff/friend solo/alone team/crew",
    },
    {"post": "{mood} {place} {time} {mate}", "tags": "#{place} #{mood} #{mate} #{time}"},
)
# Refrains with repeated phrases.
REFRAINS = Field(
    {
        "bird": "lark/songbird raven/corvid swan/waterfowl owl/nightbird dove/pigeon",
        "tree": "oak/acorn willow/catkin pine/needle birch/bark elm/timber rowan/berry",
        "season": "spring/april summer/july autumn/october winter/january",
        "feeling": "sorrow/weeping delight/laughing longing/yearning anger/raging hope/trusting "
        "doubt/wavering",
    },
    {
        "verse": "sing {bird} sing {bird} oh {tree} oh {tree} in {season} in {season} {feeling}",
        "gloss": "a song of {feeling} about a {bird} on a {tree} in {season}",
    },
)
# Sightings of birds: texts whose words agree between the columns, for training without labels.
SIGHTINGS = Field(
    {
        "bird": "heron kestrel wren dunlin avocet siskin osprey bittern curlew linnet",
        "plumage": "juvenile moulting pale barred crested ringed",
        "spot": "reedbed mudflat hedgerow quarry harbour moorland sluice orchard",
        "doing": "hovering preening nesting feeding calling roosting diving",
    },
    {
        "note": "seen this morning by our group : {plumage} {bird} {doing} in the {spot}",
        "entry": "{spot} / {bird} / {doing} / {plumage} / confirmed",
    },
)
# Parts of machines in a catalogue; for training without labels.
SPARES = Field(
    {
        "spare": "gasket bearing piston valve flange spindle bushing rotor gearbox solenoid",
        "metal": "brass steel titanium bronze aluminium nylon",
        "machine": "excavator lathe tractor compressor turbine loom press conveyor",
        "maker": "arvex bolund cetro dorvik elmar fenco",
    },
    {
        "order": "please send us the {metal} {spare} of the {maker} {machine} as soon as you can",
        "shelf": "{maker} {machine} : {spare} ( {metal} ) , in stock at depot",
    },
)
# Courses of a school, with three columns.
COURSES = Field(
    {
        "subject": "algebra/equations/x+y poetry/verses/rhyme biology/cells/dna history/wars/1789 "
        "music/chords/c-major law/statutes/art.5 drawing/sketches/pencil coding/loops/for",
        "level": "beginners/basic/a1 advanced/expert/c1 children/kids/k6 seniors/elderly/60+",
        "term": "morning/early/8am evening/late/8pm weekend/sunday/sun summer/holiday/jul",
        "hall": "north/tower/t1 south/annex/x1 west/barn/b1 east/dome/d1 central/foyer/f1",
    },
    {
        "query": "{term} class in {subject} for {level} , {hall} hall",
        "title": "{subject} , {level} : {term} sessions held in the {hall}",
        "code": "{hall} {term} {level} {subject}",
    },
)


def lexicon(*fields: Field) -> list[str]:
    """All words of fields: of their templates and entries."""
    texts = []
    for field in fields:
        lists = [entries.split() for entries in field.slots.values()]
        longest = max(map(len, lists))
        rows = [tuple(entries[at % len(entries)] for entries in lists) for at in range(longest)]
        for column in range(len(field.columns)):
            texts += field.texts(rows, column)
    return texts


def of(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """A fresh encoder of a field."""
    return encoder(stage, lexicon(field), *behind, **options)


def two(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The first two columns."""
    return {name: list(cells) for name, cells in list(table.items())[:2]}


def held_out(field: Field, count: int = 60, first: int = 0, second: int = 1) -> Any:
    """A score: retrieval of texts of rows that are not in training."""
    columns = list(field.table(count, seed=11).values())
    table = {"first": columns[first], "second": columns[second]}
    return lambda model: retrieval(model, table)


def with_negatives(field: Field, count: int, *, slot: int = 0, seed: int = 0) -> dict[str, Any]:
    """Pairs of a field and hard negatives that differ in a slot."""
    return two(field.table(count, seed)) | {"negative": field.near(count, seed, slot=slot)}


def agreement(field: Field, count: int = 90) -> Any:
    """A score: rank correlation with the grades of held-out pairs."""
    table = field.graded(count, seed=11)
    return lambda model: correlation(model, table)


def verdicts(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs that belong together (1) or differ in all or all but one of their slots (0)."""
    draw, table = random.Random(seed + 3), two(field.table(count, seed))
    lists = [entries.split() for entries in field.slots.values()]
    labels, seconds = [], []
    for at, row in enumerate(field.draws(count, seed)):
        labels.append(at % 2)
        same = -1 if draw.random() < 0.5 else draw.randrange(len(row))
        changed = tuple(
            entry if slot == same else draw.choice([e for e in lists[slot] if e != entry])
            for slot, entry in enumerate(row)
        )
        seconds += field.texts([row if at % 2 else changed], 1)
    names = list(table)
    return {names[0]: table[names[0]], names[1]: seconds, "label": labels}


def by_class(field: Field, count: int, *, slot: int = 0, seed: int = 0) -> dict[str, list[Any]]:
    """Texts of both columns in turn, with the entry of a slot as their class."""
    entries = list(field.slots.values())[slot].split()
    rows = field.draws(count, seed)
    texts = [field.texts([row], at % 2)[0] for at, row in enumerate(rows)]
    return {"text": texts, "label": [entries.index(row[slot]) for row in rows]}


def classmates(field: Field, *, slot: int = 0, count: int = 80) -> Any:
    """A score: share of held-out texts whose nearest neighbour is of their class."""
    import numpy as np

    table = by_class(field, count, slot=slot, seed=11)
    labels = np.array(table["label"])

    def score(model: Any) -> float:
        rows = model.encode(table["text"], show_progress_bar=False, normalize_embeddings=True)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -2)
        return float((labels[cosines.argmax(1)] == labels).mean())

    return score

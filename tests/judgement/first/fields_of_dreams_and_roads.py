"""Fields of texts for the sound set-ups of this half, and what their cases share."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, embed, stepped
from tests.judgement.stage import Stage

COMMITS = Field(
    {
        "act": "fix/repair add/insert drop/remove rename/move speed_up/optimise document/docstring "
        "test/assert revert/undo",
        "unit": "parser/parse.py cache/lru.c login/auth.go mailer/smtp.rb scheduler/cron.rs "
        "uploader/s3.ts renderer/gl.cpp router/urls.py",
        "cause": "leak/malloc race/mutex overflow/uint32 typo/spelling timeout/deadline "
        "encoding/utf8 rounding/float null/none",
    },
    {
        "message": "{act} {unit} because of {cause}",
        "hunk": "--- a/{unit} +++ b/{unit} @@ {act} ( {cause} ) ;",
    },
)
REACTIONS = Field(
    {
        "acid": "vinegar/CH3COOH muriatic/HCl vitriol/H2SO4 nitric/HNO3 citric/C6H8O7 "
        "phosphoric/H3PO4 formic/HCOOH",
        "metal": "zinc/Zn iron/Fe copper/Cu tin/Sn lead/Pb silver/Ag nickel/Ni cobalt/Co",
        "state": "heated/reflux cooled/273K stirred/rpm diluted/aq pressed/bar dried/vacuum lit/hv",
        "yield": "little/12% half/50% most/84% all/99%",
    },
    {
        "prose": "{metal} is {state} with {acid} acid and gives {yield} of the salt",
        "scheme": "{metal} + {acid} -> salt [ {state} ] {yield}",
    },
)
MAILS = Field(
    {
        "boss": "anna/a.lindt omar/o.haddad pia/p.rossi jonas/j.weber lena/l.novak "
        "tariq/t.aziz ines/i.duarte",
        "topic": "budget/figures picnic/outing visa/passport server/outage recruiting/interview "
        "rebranding/logo inventory/stock pension/retirement",
        "wish": "approve/sign postpone/delay forward/share shorten/trim discuss/call "
        "translate/language archive/store",
        "day": "monday/0106 tuesday/0206 wednesday/0306 thursday/0406 friday/0506",
    },
    {
        "subject": "re : {boss} , {topic} - please {wish} by {day}",
        "body": "dear team , {boss} wrote about the {topic} again . we should {wish} it before "
        "{day} . kind regards , the office",
    },
)
WEATHER = Field(
    {
        "coast": "north/54N south/36N east/021E west/009W arctic/71N baltic/58N tropic/12S",
        "wind": "calm/0kt breeze/8kt gusty/22kt storm/48kt gale/37kt hurricane/70kt",
        "sky": "clear/CAVOK fog/FG drizzle/DZ snow/SN hail/GR thunder/TS dust/DU smoke/FU",
        "warmth": "freezing/M08 cold/02 mild/13 warm/22 hot/34",
    },
    {
        "bulletin": "{warmth} and {wind} in the {coast} with {sky}",
        "report": "METAR {coast} {wind} {sky} {warmth} Q1013",
    },
)
BIRDS = Field(
    {
        "bird": "heron/ardea crow/corvus owl/strix gull/larus kite/milvus wren/troglodytes "
        "swift/apus finch/fringilla",
        "act": "nesting/breeding hunting/prey moulting/plumage singing/song resting/roost "
        "passing/migrant",
        "place": "reedbed/wetland cliff/coastal orchard/farmland spruce/conifer barn/building "
        "heath/moor lagoon/brackish",
    },
    {
        "note": "saw a {bird} {act} at the {place} , light rain , good view",
        "record": "{bird} ; {place} ; {act} ; n=1",
    },
)
VERDICTS = Field(
    {
        "plaintiff": "tenant/lessee buyer/purchaser nurse/caregiver driver/motorist "
        "author/copyright heir/estate farmer/smallholder",
        "harm": "leak/water noise/nuisance fraud/deceit injury/bodily slander/defamation "
        "dismissal/employment trespass/intrusion",
        "ruling": "granted/upheld refused/dismissed settled/compromise remanded/back "
        "appealed/second",
        "court": "city/municipal county/regional maritime/admiralty labour/tribunal tax/fiscal",
    },
    {
        "question": "was the claim of the {plaintiff} for {harm} {ruling} by the {court} court ?",
        "head": "the {court} bench held as follows . the {plaintiff} , who had brought an action "
        "on account of {harm} , was heard in person and by counsel . having regard to the "
        "evidence , and costs being reserved , the matter stands {ruling} .",
    },
)
MUSEUM = Field(
    {
        "craft": "vase/ceramic sword/weapon tapestry/textile coin/numismatic icon/panel "
        "clock/horology mask/ritual harp/instrument",
        "stuff": "gold/aurum ivory/tusk oak/timber jade/nephrite bronze/alloy silk/fibre "
        "glass/vitreous",
        "people": "etruscan/italy yoruba/nigeria khmer/cambodia inca/peru viking/norway "
        "ming/china coptic/egypt",
        "age": "early/iron_age middle/medieval late/modern",
    },
    {
        "visitor": "{age} {people} {craft} of {stuff}",
        "card": "{craft} , {stuff} , {people} , {age}",
    },
)
SENSORS = Field(
    {
        "gauge": "pressure/p_bar heat/t_kelvin flow/q_lps tilt/phi_deg vibration/g_rms "
        "humidity/rh_pct voltage/u_mv",
        "trend": "rises/+1 falls/-1 stalls/0 jumps/+9 oscillates/+-3 drops/-9",
        "site": "boiler/n01 turbine/n02 silo/n03 pump/n04 kiln/n05 tunnel/n06 dam/n07 mast/n08",
        "grade": "slightly/low clearly/mid badly/high",
    },
    {
        "sentence": "{gauge} {trend} {grade} at the {site}",
        "frame": "{site} {gauge} {trend} {grade} 0x1f",
    },
)
JOBS = Field(
    {
        "role": "welder/metalwork cook/kitchen coder/software tutor/teaching clerk/filing "
        "pilot/aviation tailor/garments nurse/wards",
        "city": "lagos/nigeria lima/peru oslo/norway pune/india cork/ireland graz/austria "
        "busan/korea",
        "trait": "patient/calm quick/fast careful/precise friendly/outgoing senior/experienced "
        "flexible/shifts",
        "pay": "hourly/wage monthly/salary daily/per_diem",
    },
    {
        "vacancy": "wanted : {trait} {role} in {city} , {pay} pay",
        "resume": "i live in {city} and worked in {role} for years . colleagues call me {trait} . "
        "i look for {pay} income",
    },
)
QUERIES = Field(
    {
        "measure": "average/AVG total/SUM largest/MAX smallest/MIN number/COUNT",
        "column": "price/amount weight/kg age/years distance/km rating/stars height/cm",
        "table": "orders/t_ord flights/t_flt patients/t_pat books/t_bk goals/t_gl trees/t_tr "
        "rooms/t_rm",
        "filter": "paris/'PAR' tokyo/'TYO' cairo/'CAI' quito/'UIO' dublin/'DUB' bern/'BRN'",
    },
    {
        "question": "what is the {measure} {column} of {table} from {filter} ?",
        "sql": "SELECT {measure} ( {column} ) FROM {table} WHERE city = {filter}",
    },
)
POSTS = Field(
    {
        "mood": "lol/#funny ugh/#angry aww/#cute wow/#amazed meh/#bored yay/#happy",
        "what": "cat/#pets gym/#fitness bus/#commute cake/#foodie exam/#uni rain/#weather "
        "film/#cinema boss/#office",
        "when": "rn/#now tmrw/#soon 2nite/#night yday/#tbt 4ever/#always noon/#lunch",
        "who": "me/#selfie bro/#family u/#friends",
    },
    {"post": "{mood} {what} {when} {who}", "tags": "{what} {mood} {who} {when}"},
)
# Sentences in Russian and in Greek script.
ROADS = Field(
    {
        "who": "врач/γιατρος учитель/δασκαλος солдат/στρατιωτης певец/τραγουδιστης "
        "рыбак/ψαρας судья/δικαστης повар/μαγειρας",
        "act": "ищет/ψαχνει продает/πουλαει видит/βλεπει чинит/επισκευαζει рисует/ζωγραφιζει "
        "покупает/αγοραζει",
        "goods": "дом/σπιτι лодку/βαρκα книгу/βιβλιο часы/ρολοι сад/κηπο хлеб/ψωμι нож/μαχαιρι",
        "place": "здесь/εδω там/εκει дома/σπιτικα далеко/μακρια рядом/κοντα",
    },
    {"russian": "{who} {place} {act} {goods}", "greek": "ο {who} {act} {goods} {place}"},
)
# Sentences without spaces, and their English.
MARKET = Field(
    {
        "when": "今朝/this_morning 昨日/yesterday 夕方/in_the_evening "
        "春に/in_spring 来週/next_week",
        "who": "母/mother 先生/teacher 友達/friend 医者/doctor 子供/child 隣人/neighbour",
        "what": "魚/fish 花/flowers 靴/shoes 本/a_book 傘/an_umbrella 時計/a_watch 鍋/a_pot",
        "where": "駅前/station 市場/market 港/harbour 村/village 寺/temple 公園/park",
    },
    {
        "japanese": "{when}{who}は{where}で{what}を買う",
        "english": "{when} {who} buys {what} at {where}",
    },
)
STATIONS = Field(
    {
        "train": "express/ice local/rb night/en freight/gag suburban/s",
        "goal": "bergen/brg turin/tor lyon/lyo gdansk/gdn porto/prt split/spl ghent/gnt",
        "cause": "snow/s7 strike/k3 signal/f1 crowd/v5 rescue/n9 works/b2",
        "wait": "five/005 ten/010 twenty/020 forty/040 ninety/090",
    },
    {
        "speech": "attention please attention please the {train} train to {goal} to {goal} is late "
        "by {wait} minutes by {wait} minutes due to {cause} we ask for your understanding",
        "board": "{train} {goal} +{wait} {cause}",
    },
)
DREAMS = Field(
    {
        "form": "river/stream tower/spire fox/vulpine mirror/reflection ladder/rungs "
        "storm/tempest garden/orchard",
        "motion": "sinks/descends burns/flames whispers/murmurs grows/expands vanishes/fades "
        "spins/turns",
        "feeling": "fear/dread joy/delight shame/guilt longing/yearning anger/rage wonder/awe",
        "hour": "dawn/sunrise midnight/dark noon/daylight dusk/twilight",
    },
    {
        "dream": "at {hour} a {form} {motion} and i feel {feeling}",
        "reading": "{feeling} stands behind the {form} that {motion} near {hour}",
        "summary": "{form} {motion} {feeling}",
    },
)


def scripted(
    field: Field, count: int = 280, seed: int = 0, *, columns: int = 2
) -> dict[str, list[str]]:
    """The first columns of a field."""
    return dict(list(field.table(count, seed).items())[:columns])


def contrasted(field: Field, count: int = 280, *, slot: int = 0) -> dict[str, list[str]]:
    """The first two columns of a field, and a hard negative of each row."""
    return {**scripted(field, count), "negative": field.near(count, slot=slot)}


def vocabulary(*fields: Field) -> list[str]:
    """Texts with every word of fields."""
    texts = list[str]()
    for field in fields:
        lists = [entries.split() for entries in field.slots.values()]
        longest = max(map(len, lists))
        rows = [tuple(entries[at % len(entries)] for entries in lists) for at in range(longest)]
        for column in range(len(field.columns)):
            texts += field.texts(rows, column)
    return texts


def reader(stage: Stage, *fields: Field, **options: Any) -> Any:
    """A fresh encoder that knows the words of fields."""
    words = vocabulary(*fields)
    return encoder(stage, words_of([], *words), **options)


def classed(
    field: Field, count: int = 320, seed: int = 0, *, slots: Sequence[int] = (0,), column: int = 0
) -> dict[str, list[Any]]:
    """Texts of a field, labelled by their entries in some slots."""
    rows = field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    labels = []
    for row in rows:
        label = 0
        for slot in slots:
            label = label * len(lists[slot]) + lists[slot].index(row[slot])
        labels.append(label)
    return {"text": field.texts(rows, column), "label": labels}


def judged_pairs(field: Field, count: int = 320, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of texts with the label 1 if they belong together and 0 if one slot differs or all."""
    draw, table = random.Random(seed + 77), field.table(count, seed)
    first, second = list(table.values())[:2]
    near, labels, seconds = field.near(count, seed, slot=seed % 3), [], []
    for row in range(count):
        label = draw.randint(0, 1)
        far = draw.choice([second[(row + step) % count] for step in (3, 7, 11)])
        seconds.append(second[row] if label else draw.choice([near[row], far]))
        labels.append(label)
    return {"sentence1": first, "sentence2": seconds, "label": labels}


def class_score(table: Mapping[str, Sequence[Any]]) -> Callable[[Any], float]:
    """Return a score: the share of texts whose nearest text, by cosine, is of their class."""

    def score(model: Any) -> float:
        rows = torch.nn.functional.normalize(
            torch.from_numpy(model.encode(list(table["text"]), show_progress_bar=False)).float()
        )
        nearest = (rows @ rows.T - 2 * torch.eye(len(rows))).argmax(1)
        labels = torch.tensor(table["label"])
        return float((labels[nearest] == labels).float().mean())

    return score


def simple_update(
    model: Any, table: Mapping[str, Sequence[Any]], *, size: int = 16, rate: float = 2e-3,
    optimizer: Any = None,
) -> Callable[[Any, int], None]:  # fmt: skip
    """The step of a loop over columns of texts; columns of numbers are handed over as tensors."""
    rows = Rows(table, size)
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=rate)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(cells(model, column) for column in rows())))

    return update


def cells(model: Any, column: Sequence[Any]) -> Tensor:
    """Embeddings of texts, or a tensor of numbers."""
    return embed(model, column) if isinstance(column[0], str) else torch.tensor(column)

"""Fields of texts for the cases of this author, and what their loops and trainers share."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import embed
from tests.judgement.stage import Stage

REAGENTS = Field(
    {
        "acid": "acetic/cc(=o)o formic/oc=o lactic/cc(o)c(=o)o oxalic/oc(=o)c(o)=o "
        "benzoic/oc(=o)c1ccccc1 propionic/ccc(=o)o butyric/cccc(=o)o pivalic/cc(c)(c)c(=o)o",
        "alcohol": "methanol/co ethanol/cco propanol/ccco butanol/cccco phenol/oc1ccccc1 "
        "glycol/occo glycerol/occ(o)co menthol/cc1ccc(c(c)c)c(o)c1",
        "catalyst": "sulfuric/os(=o)(=o)o tosylic/cc1ccc(s(=o)(=o)o)cc1 titanium/[ti] "
        "zinc/[zn] tin/[sn] scandium/[sc] hafnium/[hf]",
        "heat": "cold/273k room/298k warm/323k hot/353k reflux/373k",
    },
    {
        "name": "{heat} esterification of {acid} acid with {alcohol} over {catalyst}",
        "reaction": "{acid} . {alcohol} > {catalyst} , {heat} > ester",
    },
)
MAILS = Field(
    {
        "wish": "quote/offer meeting/appointment payment/transfer sample/specimen "
        "contract/agreement brochure/catalogue complaint/grievance visit/tour",
        "firm": "brewery/hops shipyard/hulls bakery/flour foundry/castings printer/ink "
        "sawmill/timber dairy/milk tannery/leather quarry/gravel vineyard/grapes",
        "day": "monday/week's_start tuesday/second_day wednesday/midweek thursday/fourth_day "
        "friday/week's_end saturday/weekend",
        "tone": "urgent/asap polite/courteously second/again late/apologies short/briefly",
    },
    {
        "subject": "re : {tone} {wish} {firm} {day}",
        "body": "dear all , {tone} we come back to the {wish} that we spoke of by phone . our man "
        "for {firm} will write by {day} . with kind regards , the office",
    },
)
GREEK = Field(
    {
        "who": "doctor/γιατρός teacher/δάσκαλος fisherman/ψαράς child/παιδί king/βασιλιάς "
        "judge/δικαστής soldier/στρατιώτης priest/παπάς",
        "does": "sees/βλέπει buys/αγοράζει loses/χάνει paints/ζωγραφίζει steals/κλέβει "
        "sells/πουλάει hides/κρύβει",
        "what": "boat/βάρκα house/σπίτι horse/άλογο stone/πέτρα bread/ψωμί lamp/λάμπα ring/"
        "δαχτυλίδι tree/δέντρο",
        "where": "village/χωριό harbour/λιμάνι island/νησί forest/δάσος mountain/βουνό",
    },
    {
        "english": "the {who} {does} a {what} in the {where}",
        "greek": "ο {who} {does} ένα {what} στο {where}",
    },
)
KOREAN = Field(
    {
        "time": "yesterday/어제/امس today/오늘/اليوم tomorrow/내일/غدا now/지금/الان "
        "later/나중에/لاحقا",
        "who": "friend/친구가/صديق mother/어머니가/ام brother/형이/اخ student/학생이/طالب "
        "driver/기사가/سائق singer/가수가/مغن uncle/삼촌이/عم",
        "what": "apple/사과를/تفاحة water/물을/ماء book/책을/كتابا letter/편지를/رسالة "
        "coffee/커피를/قهوة hat/모자를/قبعة map/지도를/خريطة",
        "where": "school/학교에서/مدرسة market/시장에서/سوق station/역에서/محطة "
        "museum/박물관에서/متحف bank/은행에서/بنك",
    },
    {
        "english": "{time} the {who} wants {what} at the {where}",
        "korean": "{time} {who} {where} {what} 원한다",
        "arabic": "{time} يريد {who} {what} في {where}",
    },
)
QUERIES = Field(
    {
        "measure": "average/avg total/sum highest/max lowest/min number/count spread/stddev",
        "column": "salary/pay age/birth weight/kg distance/km price/eur rating/stars area/sqm "
        "delay/minutes",
        "table": "staff/hr_person flights/fl_leg patients/med_case houses/re_object "
        "parcels/lg_item hotels/tr_stay ships/na_vessel",
        "group": "country/iso city/town year/yyyy branch/unit colour/rgb owner/holder",
    },
    {
        "question": "what is the {measure} {column} of {table} for every {group} ?",
        "sql": "select {group} , {measure} ( {column} ) from {table} where {column} is not null "
        "group by {group} order by 2 desc ;",
    },
)
METERS = Field(
    {
        "device": "pump/p-11 fan/v-02 boiler/k-40 turbine/t-93 valve/h-07 engine/m-65 "
        "chiller/c-28 mixer/x-31",
        "level": "12.5 40.0 77.3 103.8 250.1 311.9 486.4 590.2",
        "unit": "bar/pressure volts/voltage litres/flow degrees/heat hertz/frequency "
        "amperes/current",
        "hour": "00:15 03:30 06:45 09:00 12:15 15:30 18:45",
    },
    {
        "note": "at {hour} the {device} read {level} {unit}",
        "row": "{hour} ; {device} ; {unit} ; {level} ; ok ; 0 ; 0",
    },
)
CALLS = Field(
    {
        "station": "alfa bravo delta echo foxtrot golf hotel india juliett kilo lima oscar",
        "course": "north/n south/s east/e west/w northeast/ne southwest/sw",
        "act": "lands/touchdown climbs/ascending waits/holding turns/banking taxis/rolling "
        "leaves/departing",
    },
    {"call": "{station} {act} {course}", "strip": "{course} {station} {act}"},
)
RULINGS = Field(
    {
        "claim": "noise/nuisance boundary/fence debt/arrears slander/defamation dog/bite "
        "custody/guardianship will/inheritance patent/infringement",
        "party": "landlord/lessor farmer/agriculturist surgeon/physician builder/contractor "
        "editor/publisher pilot/aviator widow/relict",
        "outcome": "dismissed/unfounded granted/allowed settled/compromise remanded/lower "
        "adjourned/later fined/penalty",
        "ground": "prescription/time evidence/proof jurisdiction/competence standing/interest "
        "form/formality",
    },
    {
        "headnote": "{claim} against a {party} {outcome} for {ground}",
        "ruling": "the court has heard the two sides on three days of spring . it is agreed that "
        "the matter of {claim} came up in the summer before last . counsel for the {party} held "
        "that the request had no merit and cited the code . the bench , having weighed all that "
        "was said on {ground} , finds as follows . the suit is {outcome} . costs follow the "
        "event , and leave to appeal is refused .",
    },
)
BIRDS = Field(
    {
        "bird": "heron/ardea kestrel/falco wren/troglodytes magpie/pica swift/apus gull/larus "
        "plover/charadrius raven/corax lark/alauda",
        "count": "one/1 two/2 five/5 twelve/12 forty/40",
        "deed": "nesting/breeding hunting/foraging singing/vocal moulting/plumage "
        "ringed/banded injured/wounded",
        "place": "marsh/wetland cliff/rockface meadow/grassland estuary/mudflat orchard/fruit "
        "quarry/pit",
    },
    {
        "sighting": "saw {count} {bird} {deed} by the {place}",
        "record": "{bird} , n = {count} , status {deed} , habitat {place}",
    },
)
# A wording for all columns: texts alone suffice to learn which words matter.
EXHIBITS = Field(
    {
        "object": "vase coin helmet tapestry fresco dagger scroll flute mask goblet icon loom "
        "saddle mosaic",
        "stuff": "bronze jade ivory clay linen amber glass oak silver marble copper wax",
        "origin": "crete ghana peru nubia tibet malta cyprus java gotland sumer bactria",
        "epoch": "archaic classical late imperial nomadic early colonial dynastic",
        "keeper": "moss hale quill brandt ito sorel vance okafor lund petri",
        "hall": "rotunda annexe cellar gallery loft atrium",
    },
    {
        "label": "a {epoch} {object} of {stuff} from {origin}",
        "entry": "exhibit : {object} . material : {stuff} . place : {origin} . age : {epoch} . "
        "exhibit on loan , exhibit not for sale , keeper {keeper} , "
        "{hall} and again {hall}",
    },
)
DISHES = Field(
    {
        "base": "barley lentil quinoa millet buckwheat couscous polenta rye bulgur teff",
        "herb": "dill sage thyme basil chervil lovage sorrel fennel tarragon mint",
        "fruit": "quince plum fig cherry apricot medlar pear currant melon",
        "way": "baked raw smoked pickled stewed grilled",
        "cook": "anna boris carla dmitri elena farid greta hugo",
        "tool": "ladle sieve grater tongs peeler masher",
    },
    {
        "wish": "{way} {base} with {fruit} and {herb}",
        "recipe": "{cook} takes a pan and a {tool} ; add {herb} , then {base} ; stir with the "
        "{tool} ; the {fruit} comes {way} on top ; {cook} serves at once",
    },
)
_PORTS = ["bergen", "cadiz", "dover", "genoa", "haifa", "izmir", "kobe", "lagos", "malmo", "naples"]
_FREIGHT = {
    "coal": "black fuel", "grain": "wheat and oats", "wool": "fleece", "salt": "brine crystals",
    "cars": "vehicles", "tea": "leaves", "oil": "barrels", "fish": "frozen cod", "fruit": "bananas",
}  # fmt: skip
_SKIES = {"fog": "poor sight", "gale": "strong wind", "calm": "no wind", "rain": "wet decks",
          "ice": "frozen rigging", "sun": "clear sky"}  # fmt: skip


def voyages(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Keywords of a day at sea, and its log: one to five sentences of very different lengths."""
    draw, drawn = random.Random(seed), set[tuple[str, ...]]()
    table: dict[str, list[str]] = {"keywords": [], "log": []}
    while len(drawn) < count:
        port, goal = draw.sample(_PORTS, 2)
        row = (port, goal, draw.choice(list(_FREIGHT)), draw.choice(list(_SKIES)))
        if row in drawn or (sum(map(len, row)) % 5 == 0) != (seed % 2 == 1):
            continue
        drawn.add(row)
        sentences = [f"bound for {goal} with {_FREIGHT[row[2]]} ."]
        sentences += [f"out of {port} , {_SKIES[row[3]]} ."]
        fillers = [
            "crew well .",
            "the cook made soup again , and again it was too thin to stand a spoon in .",
            "pumped twice .",
            "mended the small sail and aired the bedding .",
        ]
        sentences += draw.sample(fillers, draw.randint(0, 3))
        draw.shuffle(sentences)
        table["keywords"].append(f"{row[3]} {port} {goal} {row[2]}")
        table["log"].append(" ".join(sentences))
    return table


_SENSES = {
    "billing": "invoice charge fee debit refund receipt",
    "network": "wifi router signal lan vpn dns",
    "travel": "flight hotel luggage visa ticket gate",
    "garden": "soil seed mower hedge tulip compost",
    "health": "fever pill nurse dose rash pulse", "music": "chord tempo violin choir lyric drum",
    "law": "court judge appeal verdict clause oath", "kitchen": "oven whisk recipe pan flour yeast",
}  # fmt: skip
_CHATTER = ["hello", "please", "the", "about", "my", "again", "it", "was", "so", "um", "thanks",
            "still", "now", "then", "just", "maybe"]  # fmt: skip


def tickets(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Texts of a few words of one theme between chatter, and the number of the theme."""
    draw, texts, labels = random.Random(seed), list[str](), list[int]()
    for row in range(count):
        label = row % len(_SENSES)
        words = draw.sample(list(_SENSES.values())[label].split(), draw.randint(2, 3))
        words += draw.choices(_CHATTER, k=draw.randint(2, 9))
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(label)
    order = draw.sample(range(count), count)
    return {"text": [texts[at] for at in order], "label": [labels[at] for at in order]}


def by_theme(model: Any) -> float:
    """The share of fresh tickets whose nearest neighbour has their theme."""
    table = tickets(120, seed=31)
    rows = F.normalize(torch.tensor(model.encode(table["text"], show_progress_bar=False)), dim=1)
    nearest = (rows @ rows.T - 2 * torch.eye(len(rows))).argmax(1)
    labels = torch.tensor(table["label"])
    return float((labels[nearest] == labels).float().mean())


def binary(field: Field, count: int = 160, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of which a half belong together (1); the rest differ in two slots or more (0)."""
    draw, rows = random.Random(seed + 5), field.draws(count, seed)
    seconds, labels = list[tuple[str, ...]](), list[int]()
    for at, row in enumerate(rows):
        strangers = [far for far in rows if sum(map(str.__eq__, row, far)) <= len(row) - 2]
        seconds.append(row if at % 2 else draw.choice(strangers))
        labels.append(at % 2)
    names = list(field.columns)
    return {names[0]: field.texts(rows, 0), names[1]: field.texts(seconds, 1), "label": labels}


def corpus(field: Field, count: int = 160, seed: int = 0) -> list[str]:
    """Texts of a field without pairs: rows of one column or of the second, never of two."""
    rows = field.draws(count, seed)
    half = count // 2
    texts = field.texts(rows[:half], 0) + field.texts(rows[half:], 1)
    random.Random(seed).shuffle(texts)
    return texts


def sought_among_many(field: Field) -> Callable[[Any], float]:
    """The score of a field among 200 texts, for fields whose texts share their words."""
    return lambda model: field.sought(model, 200)


def thinned(texts: Sequence[str], draw: random.Random, share: float = 0.3) -> list[str]:
    """Texts without some of their words."""
    views = []
    for text in texts:
        words = text.split()
        views.append(" ".join(word for word in words if draw.random() > share) or words[0])
    return views


def fresh(stage: Stage, field: Field | Mapping[str, Sequence[Any]], *behind: Any, seed: int = 0,
          **options: Any) -> Any:  # fmt: skip
    """An encoder whose tokenizer has all words of a field or of a table."""
    if isinstance(field, Field):
        texts = [words.replace("_", " ").replace("/", " ") for words in field.slots.values()]
        texts += field.columns.values()
        for row in field.draws(60, seed) + field.draws(30, seed + 1):
            texts += [field.texts([row], at)[0] for at in range(len(field.columns))]
    else:
        texts = words_of([field])
    return encoder(stage, texts, *behind, **options)


def columns(model: Any, batch: Sequence[Sequence[str]]) -> list[Tensor]:
    """Embeddings of the columns of a batch."""
    return [embed(model, texts) for texts in batch]


def adam(*modules: Any, rate: float = 1e-3) -> torch.optim.Optimizer:
    """AdamW over the weights of modules."""
    return torch.optim.AdamW([row for module in modules for row in module.parameters()], lr=rate)

"""Fields of texts and helpers of the sound set-ups s_*: reactions, mails, birds, queries, rents."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, embed, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval

# Reactions of a laboratory: names, and formulas in a line of a notebook.
REACTIONS = Field(
    {
        "acid": "acetic/ch3cooh sulfuric/h2so4 nitric/hno3 phosphoric/h3po4 formic/hcooh "
        "carbonic/h2co3 hydrochloric/hcl benzoic/c6h5cooh boric/h3bo3",
        "alcohol": "methanol/ch3oh ethanol/c2h5oh propanol/c3h7oh butanol/c4h9oh "
        "glycerol/c3h8o3 phenol/c6h5oh glycol/c2h6o2",
        "metal": "palladium/pd nickel/ni platinum/pt copper/cu iron/fe zinc/zn silver/ag",
        "heat": "ice/0c room/20c warm/50c reflux/78c furnace/400c",
    },
    {
        "name": "{acid} acid with {alcohol} over {metal} at {heat}",
        "formula": "{acid} + {alcohol} [ {metal} , {heat} ] -> ester + h2o",
    },
)
# Subjects of mails, and the mails: several sentences.
MAILS = Field(
    {
        "topic": "budget/spending merger/takeover picnic/outing fire_drill/evacuation "
        "newsletter/bulletin payroll/salaries server/outage workshop/seminar visa/permit",
        "day": "monday/montag tuesday/dienstag wednesday/mittwoch thursday/donnerstag "
        "friday/freitag weekend/wochenende",
        "sender": "anna/a.kowalski boris/b.petrov chen/c.wei dora/d.nagy emil/e.larsson "
        "farah/f.haddad gita/g.rao",
        "tone": "urgent/asap fyi/information reminder/again draft/comments question/wondering",
    },
    {
        "subject": "{tone} : {topic} {day} ( {sender} )",
        "mail": "dear all , this mail is about the {topic} . we meet on {day} in the large room . "
        "please reply soon , {tone} . thank you for your patience . best wishes , {sender}",
    },
)
# Birds: common and learned names, with where and when they were met.
BIRDS = Field(
    {
        "bird": "robin/erithacus wren/troglodytes rook/corvus heron/ardea kestrel/falco "
        "swallow/hirundo nuthatch/sitta dipper/cinclus crane/grus lapwing/vanellus "
        "bittern/botaurus",
        "place": "marsh/palus forest/silva coast/litus river/flumen mountain/mons meadow/pratum "
        "island/insula",
        "month": "january/i march/iii may/v july/vii september/ix november/xi",
        "deed": "nesting/nidificans singing/cantans flying/volans feeding/edens",
    },
    {
        "english": "a {deed} {bird} by the {place} in {month}",
        "latin": "{bird} {deed} , {place} , mens . {month}",
    },
)
# Wishes in words and queries to a database.
QUERIES = Field(
    {
        "what": "average/avg total/sum highest/max lowest/min number/count spread/stddev",
        "field": "salary/pay age/years weight/kg price/eur duration/sec distance/km score/pts",
        "kind": "pilots/plt nurses/nrs drivers/drv ships/shp parcels/pcl students/std games/gms",
        "by": "country/ctry city/town team/grp year/yr sex/mf",
    },
    {
        "wish": "{what} {field} of {kind} for every {by}",
        "query": "select {by} , {what} ( {field} ) from {kind} group by {by} ;",
    },
)
# Flats in numbers, in words and in digits.
RENTS = Field(
    {
        "rooms": "one/1z two/2z three/3z four/4z five/5z six/6z",
        "area": "thirty/30qm forty/40qm fifty/50qm sixty/60qm seventy/70qm eighty/80qm ninety/90qm",
        "rent": "cheap/400 modest/600 fair/800 dear/1100 costly/1500 lavish/2400",
        "floor": "ground/eg first/1og second/2og third/3og attic/dg",
    },
    {
        "words": "{rooms} rooms , {area} square metres , {floor} floor , {rent} rent",
        "advert": "{rent} / {area} / {rooms} / {floor}",
    },
)
# Two scripts.
NEWS = Field(
    {
        "who": "minister/министр teacher/учитель doctor/врач sailor/моряк writer/писатель "
        "driver/водитель singer/певец",
        "act": "visited/посетил opened/открыл sold/продал left/покинул praised/похвалил "
        "painted/покрасил",
        "what": "school/школу museum/музей bridge/мост harbour/порт theatre/театр factory/завод "
        "station/вокзал",
        "when": "yesterday/вчера today/сегодня recently/недавно early/рано",
    },
    {"english": "the {who} {act} the {what} {when}", "russian": "{when} {who} {act} {what}"},
)
# Long claims of patents behind short titles.
PATENTS = Field(
    {
        "device": "pump/impeller valve/seat lamp/diode sensor/probe lock/bolt blade/edge "
        "filter/membrane brake/pad",
        "use": "ships/marine farms/agricultural hospitals/clinical mines/underground "
        "kitchens/culinary trains/rail",
        "gain": "noise/silent weight/light heat/cool cost/economical wear/durable leak/tight",
        "stuff": "steel/alloy glass/silica rubber/elastomer carbon/fibre clay/ceramic",
    },
    {
        "title": "{stuff} {device} for {use} with less {gain}",
        "claim": "a device as claimed above , comprising a housing of {stuff} , a {device} that is "
        "held in the said housing , and means by which the {device} is joined to a second unit , "
        "wherein the second unit is suited to {use} surroundings , and wherein the whole is "
        "{gain} in use",
    },
)
# Comments and the lines of code below them.
SNIPPETS = Field(
    {
        "verb": "print/print store/save_to remove/del_ copy/clone check/assert_ lock/acquire "
        "parse/loads round/floor",
        "noun": "date/ts name/ident price/amount owner/uid colour/rgb size/nbytes path/uri",
        "box": "order/orders basket/cart queue/deque folder/listdir table/df tree/nodes "
        "graph/edges",
        "test": "empty/is_none old/lt_1990 large/gt_1000 broken/is_err new/is_fresh locked/mutex",
    },
    {
        "comment": "# {verb} the {noun} of all in the {box} unless {test}",
        "code": "for x in {box} : if not {test} ( x ) : {verb} ( x . {noun} )",
    },
)
# Lines of a log with stamps, and what a person says of them.
LOGLINES = Field(
    {
        "service": "auth-7/login db-2/database mq-4/queue cdn-9/images dns-1/names smtp-3/mail "
        "cron-5/timer",
        "code": "err=110/timeout err=28/disk_full err=13/denied err=2/missing err=104/reset "
        "err=12/memory err=17/duplicate err=22/argument",
        "hour": "t00:04/midnight t06:11/dawn t12:01/noon t18:47/dusk t23:58/night",
        "level": "[w]/warned [e]/failed [f]/died [r]/restarted",
    },
    {
        "line": "{hour} {service} {level} {code} pid=4711",
        "remark": "at {hour} the {service} {level} because of {code}",
    },
)
# Two words a text.
SHORT = Field(
    {
        "quality": "big/grand small/petit red/rouge cold/froid old/vieux new/neuf dry/sec "
        "wet/humide "
        "slow/lent quick/rapide soft/mou hard/dur empty/vide full/plein clean/propre dirty/sale "
        "thin/mince fat/gras dark/sombre bright/clair wise/sage sad/triste free/libre poor/pauvre",
        "noun": "house/maison tree/arbre dog/chien cat/chat bread/pain cheese/fromage road/rue "
        "window/fenetre door/porte bed/lit book/livre glass/verre knife/couteau boat/bateau "
        "horse/cheval bird/oiseau stone/pierre star/etoile hat/chapeau shoe/soulier hand/main "
        "eye/oeil sea/mer wind/vent "
        "milk/lait key/clef king/roi queen/reine",
    },
    {"english": "{quality} {noun}", "french": "{noun} {quality}"},
)
# Doses in numbers between phrases that all rows repeat.
DOSES = Field(
    {
        "drug": "aspirin/asa ibuprofen/ibu insulin/ins heparin/hep codeine/cod quinine/qui "
        "digoxin/dig morphine/mor",
        "amount": "5/five 10/ten 20/twenty 40/forty 80/eighty 100/hundred",
        "times": "1/once 2/twice 3/thrice 4/four_times 6/six_times",
        "days": "7/week 14/fortnight 30/month 90/quarter 365/year",
    },
    {
        "order": "rx {drug} {amount} mg {times} x daily for {days} d",
        "leaflet": "please read this leaflet with care . take {amount} milligrams of {drug} "
        "{times} "
        "a day for a {days} . keep out of the reach of children",
    },
)
FIELDS = (
    REACTIONS, MAILS, BIRDS, QUERIES, RENTS, NEWS, PATENTS, SNIPPETS, LOGLINES, SHORT, DOSES,
)  # fmt: skip

_ILLS = [
    "cough/tussis", "fever/febris", "rash/eruptio", "migraine/cephalea", "nausea/vomitus",
    "cramp/spasmus", "insomnia/agrypnia", "anaemia/haemoglobin", "fracture/ossis",
    "burn/combustio", "allergy/pollen", "asthma/bronchi", "gout/uricum",
]  # fmt: skip
_CURES = [
    "rest/bed", "syrup/drops", "surgery/theatre", "diet/fasting", "massage/hands",
    "tablets/pills", "injection/needle",
]  # fmt: skip
CHATTER = [
    "well", "so", "then", "still", "maybe", "really", "quite", "again", "later", "indeed",
    "anyway", "perhaps", "rather", "almost", "however", "simply", "truly", "often",
]  # fmt: skip


def notes(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Notes of a ward and their letters: two to five findings, each a sentence, with chatter."""
    draw, drawn = random.Random(seed), set[tuple[str, ...]]()
    table: dict[str, list[str]] = {"note": [], "letter": []}
    while len(drawn) < count:
        ills = draw.sample(_ILLS, draw.randint(2, 5))
        findings = tuple(f"{ill} {draw.choice(_CURES)}" for ill in ills)
        if sum(map(len, findings)) % 2 != seed % 2 or findings in drawn:
            continue
        drawn.add(findings)
        pairs = [[word.split("/") for word in finding.split()] for finding in findings]
        table["note"].append(" ; ".join(f"{ill[0]} {cure[0]}" for ill, cure in pairs))
        draw.shuffle(pairs)
        table["letter"].append(" ".join(
            " ".join([*draw.sample(CHATTER, draw.randint(0, 3)), ill[1], "needs", cure[1], "."])
            for ill, cure in pairs
        ))  # fmt: skip
    return table


_TONGUE = [a + b for a in "bdgklmnprst" for b in ("ai", "eo", "un", "ik", "oa", "esh", "ur")]


def verses(count: int, seed: int = 0, shortest: int = 3, longest: int = 16) -> list[str]:
    """Lines of an invented language, of mixed lengths; all lines of all seeds differ."""
    draw, lines = random.Random(seed), dict[str, None]()
    while len(lines) < count:
        words = draw.choices(_TONGUE, k=draw.randint(shortest, longest))
        if sum(map(len, words)) % 2 == seed % 2 and len(set(words)) > 1:
            lines[" ".join(words)] = None
    return list(lines)


def thinned(text: str, draw: random.Random, share: float = 0.3) -> str:
    """A text without some of its words."""
    words = text.split()
    stay = [word for word in words if draw.random() >= share]
    return " ".join(stay or [draw.choice(words)])


def jumbled(text: str, draw: random.Random) -> str:
    """A text whose words stand in another order."""
    words = text.split()
    return " ".join(draw.sample(words, len(words)))


_TOPICS = {
    "sport": "goal match referee league striker tackle stadium coach penalty",
    "money": "stock bond dividend broker profit index trader yield tax",
    "film": "actor scene premiere script camera studio sequel trailer cast",
    "stars": "comet orbit telescope nebula planet eclipse rocket moon probe",
    "food": "oven spice flour recipe sauce chef menu dessert dough",
    "law": "judge verdict appeal lawyer court trial witness statute jury",
    "sea": "harbour anchor tide sailor vessel lighthouse cargo deck captain",
    "music": "violin concert melody singer choir piano album rhythm opera",
    "garden": "tulip soil compost hedge seedling lawn pruning greenhouse bulb",
    "health": "nurse vaccine clinic symptom surgeon therapy ward dose pulse",
}


def headlines(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Headlines of three to six words of a topic among chatter, and the topic's number."""
    draw, drawn = random.Random(seed), dict[str, int]()
    while len(drawn) < count:
        label = draw.randrange(len(_TOPICS))
        words = draw.sample(list(_TOPICS.values())[label].split(), draw.randint(2, 3))
        words += draw.sample(CHATTER, draw.randint(1, 4))
        draw.shuffle(words)
        if sum(map(len, words)) % 2 == seed % 2:
            drawn[" ".join(words)] = label
    return {"text": list(drawn), "label": list(drawn.values())}


def words(*fields: Field) -> list[str]:
    """Texts with every word of fields, in every wording."""
    texts = []
    for field in fields:
        lists = [entries.split() for entries in field.slots.values()]
        for at in range(max(map(len, lists))):
            row = tuple(entries[at % len(entries)] for entries in lists)
            texts += [field.texts([row], column)[0] for column in range(len(field.columns))]
    return texts


def ward_words() -> list[str]:
    table = notes(300)
    return [*table["note"], *table["letter"], *CHATTER]


def topic_words() -> list[str]:
    return [*_TOPICS.values(), *CHATTER]


def starter(stage: Stage, *fields: Field, behind: Sequence[Any] = (), **options: Any) -> Any:
    """A fresh encoder that knows the words of fields."""
    return encoder(stage, words(*fields), *behind, **options)


def split(
    table: Mapping[str, Sequence[Any]], rows: int
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The first rows of a table for training, and the rest for development."""
    return (
        {name: list(cells[:rows]) for name, cells in table.items()},
        {name: list(cells[rows:]) for name, cells in table.items()},
    )


def finds(field: Field, count: int = 80) -> Callable[[Any], float]:
    """A score: texts of the second column sought by the first's, of rows not in training."""
    return lambda model: field.sought(model, count)


def finds_letters(model: Any) -> float:
    return retrieval(model, notes(80, seed=11))


def finds_verses(model: Any) -> float:
    """Lines sought by versions of them without some words and in another order."""
    draw, lines = random.Random(3), verses(120, seed=11)
    return retrieval(
        model, {"thin": [jumbled(thinned(line, draw, 0.4), draw) for line in lines], "line": lines}
    )


def same_topic(model: Any) -> float:
    """Share of headlines not in training whose nearest neighbour is of their topic."""
    table = headlines(160, seed=11)
    rows = model.encode(table["text"], convert_to_tensor=True, show_progress_bar=False)
    return same_label(rows, table["label"])


def same_label(rows: Tensor, labels: Sequence[int]) -> float:
    rows = rows / rows.norm(dim=1, keepdim=True)
    nearest = (rows @ rows.T).fill_diagonal_(-2).argmax(1).tolist()
    return sum(labels[a] == labels[b] for a, b in enumerate(nearest)) / len(labels)


def descent(
    model: Any, optimizer: Any, table: Mapping[str, Sequence[str]], size: int = 24
) -> Callable[[Any, int], None]:
    """The step of an ordinary loop over columns of texts."""
    draw = Rows(table, size)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    return update

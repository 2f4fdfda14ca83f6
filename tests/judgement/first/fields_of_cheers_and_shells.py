"""Fields of texts of these set-ups, and what their encoders, trainers and loops share."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, embed, stepped
from tests.judgement.stage import Stage


@dataclass(frozen=True)
class Loose(Field):
    """A field whose columns have several templates ("|" between them), and whose second column
    goes on with up to ``longest`` of the ``asides``, which say nothing of the row."""

    asides: Sequence[str] = ()
    longest: int = 0

    def texts(self, rows: Sequence[tuple[str, ...]], column: int) -> list[str]:
        templates = list(self.columns.values())[column].split(" | ")
        texts = []
        for row in rows:
            draw = random.Random(f"{column} {row}")
            text = draw.choice(templates).format(**self._words(row, column))
            if column and self.asides:
                text = " ".join([text, *draw.sample(self.asides, draw.randint(0, self.longest))])
            texts.append(text)
        return texts


REACTIONS = Field(
    {
        "acid": "acetic/CC(=O)O formic/C(=O)O benzoic/c1ccccc1C(=O)O lactic/CC(O)C(=O)O "
        "oxalic/OC(=O)C(=O)O butyric/CCCC(=O)O stearic/CCCCCCCCC(=O)O salicylic/Oc1ccccc1",
        "alcohol": "methanol/CO ethanol/CCO propanol/CCCO butanol/CCCCO phenol/Oc1c "
        "glycerol/OCC(O)CO benzyl/OCc1 menthol/CC1CCC",
        "catalyst": "sulphuric/[H2SO4] palladium/[Pd] nickel/[Ni] zeolite/[Al] lipase/enz "
        "iodine/[I2]",
    },
    {
        "name": "ester of {acid} acid and {alcohol} over {catalyst}",
        "formula": "{acid} . {alcohol} > {catalyst} > ester . O",
    },
)
MAILS = Loose(
    {
        "topic": "offsite/retreat budget/spreadsheet contract/signature laptop/delivery "
        "interview/candidate invoice/payment workshop/slides visa/passport desk/relocation",
        "act": "cancelled/off moved/reschedule urgent/asap reminder/forget question/wondering "
        "thanks/grateful draft/attached approved/green",
        "from": "finance/anna legal/boris sales/chiara support/dmitri board/elif design/farid",
    },
    {
        "subject": "re : {topic} {act} ( {from} ) | [ {from} ] {topic} - {act} | fwd : {topic} "
        "{act} via {from}",
        "body": "hi all , about the {topic} : {act} . best , {from} | {from} here , the {topic} is "
        "{act} , see below | {act} - i mean the {topic} . sorry for the short note . {from}",
    },
    ("sent from my phone", "please do not print this mail", "> on monday they wrote : ok",
     "our office is closed on friday", "ps : there is cake in the kitchen"),
    3,
)  # fmt: skip
SHELL = Field(
    {
        "verb": "remove/rm copy/cp rename/mv list/ls search/grep compress/tar count/wc "
        "download/curl compare/diff",
        "what": "logs/*.log pictures/*.png sources/*.c tables/*.csv backups/*.bak notes/*.md",
        "where": "home/~ root/ here/. temporary/tmp/ parent/.. shared/srv/ mounted/mnt/",
        "way": "recursively/-r quietly/-q verbosely/-v forcibly/-f interactively/-i",
    },
    {"wish": "{way} {verb} all {what} of the {where} folder", "command": "$ {verb} {way} {where} "
     "{what}"},
)  # fmt: skip
RAILWAY = Field(
    {
        "кто": "инженер/engineer машинист/driver пассажир/passenger кассир/cashier "
        "проводник/conductor солдат/soldier",
        "что": "билет/ticket чемодан/suitcase вагон/wagon расписание/timetable фонарь/lantern "
        "багаж/luggage чай/tea",
        "где": "вокзале/station мосту/bridge перроне/platform тоннеле/tunnel границе/border "
        "складе/depot",
        "когда": "ночью/night утром/morning вчера/yesterday зимой/winter завтра/tomorrow",
    },
    {"russian": "{кто} {когда} ищет {что} на {где}",
     "english": "{когда} : the {кто} looks for the {что} at the {где}"},
)  # fmt: skip
WEATHER = Field(
    {
        "नगर": "दिल्ली/delhi मुंबई/mumbai चेन्नई/chennai जयपुर/jaipur पटना/patna पुणे/pune "
        "लखनऊ/lucknow भोपाल/bhopal",
        "मौसम": "वर्षा/rain धूप/sunshine कोहरा/fog आंधी/storm ओले/hail पाला/frost लू/heatwave",
        "दिन": "सोमवार/monday मंगलवार/tuesday बुधवार/wednesday शुक्रवार/friday शनिवार/saturday "
        "रविवार/sunday",
        "बल": "हल्का/light भारी/heavy लगातार/steady अचानक/sudden",
    },
    {"hindi": "{दिन} को {नगर} में {बल} {मौसम}", "english": "{बल} {मौसम} in {नगर} on {दिन}"},
)
RECALLS = Loose(
    {
        "good": "stroller/pram toaster/grill charger/adapter candle/wax helmet/headgear "
        "crib/cot scooter/kickboard blender/mixer doll/plush heater/radiator",
        "danger": "burns/fire shocks/voltage choking/swallow cuts/blade falls/tip poisoning/lead "
        "explosions/burst drowning/water",
        "shop": "online/web discount/outlet pharmacy/chemist grocery/supermarket furniture/home "
        "garden/nursery",
    },
    {
        "notice": "recall : {good} of {shop} stores , risk of {danger} | {shop} chain calls back "
        "{good} ( {danger} )",
        "story": "buyers at a {shop} should stop to use the {good} at once , it may lead to "
        "{danger} . | the authority warns of {danger} by a {good} sold at {shop} .",
    },
    ("the price is paid back .", "no accident is known so far .", "about 12 000 were sold since "
     "may .", "call 0800 555 for a form .", "the maker regrets the trouble ."),
    4,
)  # fmt: skip
SKY = Field(
    {
        "body": "nebula/m42 cluster/m13 pulsar/psr comet/c2023 quasar/qso dwarf/wd "
        "supernova/sn galaxy/ngc",
        "light": "radio/1.4ghz infrared/2.2um optical/550nm ultraviolet/150nm xray/2kev gamma/1mev",
        "site": "chile/alma hawaii/keck canary/gtc arizona/kitt orbit/hst spain/calar",
        "long": "minute/60s quarter/900s hour/3600s night/28800s",
    },
    {"plan": "{light} view of a {body} from {site} for one {long}",
     "header": "OBJ={body} BAND={light} TEL={site} EXP={long}"},
)  # fmt: skip
BLURBS = Loose(
    {
        "hero": "widow/grief orphan/foundling spy/agent chef/cuisine pirate/corsair nun/convent "
        "hacker/keyboard gardener/roses pianist/concert",
        "place": "paris/seine cairo/nile arctic/polar mars/planet village/hamlet harbour/docks "
        "castle/keep desert/dunes",
        "mood": "thriller/suspense romance/love satire/irony horror/fear saga/generations "
        "fable/animals",
    },
    {
        "reader": "{mood} {hero} {place} | {place} {mood} about a {hero}",
        "blurb": "{hero} and {place} : a tale of {mood} . | a book of {mood} , full of {hero} , "
        "set by the {place} .",
    },
    ("the author lives with two cats .", "winner of a small prize .", "now a film .",
     "readers could not put it down .", "translated from the dutch .", "312 pages , paperback ."),
    4,
)  # fmt: skip
SENSORS = Field(
    {
        "unit": "pump/p-101 valve/v-202 turbine/t-303 boiler/b-404 fan/f-505 mixer/m-606 "
        "belt/c-707 tank/k-808",
        "state": "hot/96.4 cold/2.1 loud/88db stuck/0rpm leaking/-12bar dry/0.3pct wet/97pct "
        "fast/9900rpm",
        "shift": "early/06:00 late/14:00 night/22:00 weekend/sat holiday/1jan test/dry-run",
    },
    {"note": "the {unit} was {state} in the {shift} shift",
     "reading": "{shift} ; {unit} ; {state} ; ok=0"},
)  # fmt: skip
PLANTS = Field(
    {
        "plant": "oak/quercus rose/rosa pine/pinus lily/lilium ivy/hedera maple/acer clover/"
        "trifolium thistle/carduus willow/salix violet/viola nettle/urtica elder/sambucus",
        "trait": "hairy/hirsuta white/alba creeping/repens dwarf/nana fragrant/odorata "
        "spotted/maculata common/vulgaris",
        "soil": "marsh/palustris meadow/pratensis mountain/montana river/rivularis field/arvensis",
    },
    {"common": "{trait} {soil} {plant}", "latin": "{plant} {trait} var. {soil}"},
)
NEWS = Loose(
    {
        "who": "mayor/municipality union/workers bank/lender court/judges police/officers "
        "museum/curators university/professors airline/carrier",
        "what": "resigns/quits expands/grows strikes/protest apologises/sorry wins/victory "
        "closes/shuts sues/lawsuit",
        "town": "lyon/rhone porto/douro ghent/flanders turin/piedmont basel/rhine graz/styria "
        "malmo/scania",
    },
    {
        "headline": "{who} {what} in {town} | {town} : {who} {what}",
        "article": "on tuesday the {who} of {town} came as a surprise : {what} . | reports from "
        "{town} speak of {what} by the {who} . | {what} ! so said the {who} in {town} today .",
    },
    ("more follows .", "the price of bread was stable .", "a crowd of 300 had gathered .",
     "it rained .", "the minister did not comment on it .", "shares were flat ."),
    4,
)  # fmt: skip
CHEERS = Field(
    {
        "club": "lions/#roar eagles/#fly sharks/#fin wolves/#howl bulls/#horn bears/#paw",
        "feat": "goal/1-0 draw/1-1 defeat/0-3 penalty/11m redcard/10men hattrick/3x",
        "player": "keeper/no1 captain/no10 striker/no9 rookie/no77 defender/no4 coach/bench "
        "fans/tribune",
    },
    {
        "report": "{feat} for the {club} thanks to the {player}",
        "tweet": "{feat} {feat} {feat} !!! {club} {club} {player} go go go",
    },
)
QUERIES = Field(
    {
        "agg": "average/avg total/sum largest/max smallest/min number/count",
        "col": "salary/emp.sal price/item.cost distance/trip.km rating/film.stars "
        "population/city.pop mileage/car.odo score/exam.pts",
        "by": "country/geo.iso month/cal.mm department/org.dep colour/dim.col brand/dim.brand "
        "author/wr.id",
        "where": "recent/d>2020 old/d<1990 active/st=1 deleted/st=0 foreign/loc!=0",
    },
    {"question": "what is the {agg} {col} of {where} rows per {by}",
     "sql": "select {agg} ( {col} ) from t where {where} group by {by} ;"},
)  # fmt: skip
TURKISH = Field(
    {
        "özne": "öğretmen/teacher doktor/doctor çocuk/child komşu/neighbour garson/waiter "
        "balıkçı/fisherman ressam/painter",
        "nesne": "kitabı/book elmayı/apple kapıyı/door mektubu/letter gemiyi/ship çiçeği/flower "
        "aynayı/mirror şapkayı/hat",
        "fiil": "gördü/saw sattı/sold buldu/found kırdı/broke taşıdı/carried boyadı/painted",
        "yer": "evde/house pazarda/market okulda/school köyde/village bahçede/garden",
    },
    {"turkish": "{özne} {yer} {nesne} {fiil}",
     "english": "the {özne} {fiil} the {nesne} at the {yer}"},
)  # fmt: skip
AUCTION = Loose(
    {
        "piece": "clock/horology vase/porcelain sword/militaria stamp/philately coin/numismatic "
        "carpet/textile globe/cartography violin/luthier mirror/glass ring/jewels chest/joinery",
        "age": "baroque/1690 rococo/1750 empire/1805 victorian/1870 deco/1925 bauhaus/1930",
        "state": "mint/flawless worn/patina cracked/damage restored/repaired signed/autograph",
    },
    {
        "lot": "lot : {state} {age} {piece} | {piece} , {age} , {state}",
        "entry": "{piece} , about {age} , {state} | a {state} work of {age} for friends of "
        "{piece}",
    },
    ("estimate 200 to 300 .", "no reserve .", "from a private house .", "height 31 cm .",
     "with a letter ."),
    3,
)  # fmt: skip


def model_of(stage: Stage, field: Field, *behind: Any, texts: Sequence[str] = (), **options: Any):
    """An encoder that knows the words of a field."""
    lists = [entries.split() for entries in field.slots.values()]
    longest = max(map(len, lists))
    rows = [tuple(entries[at % len(entries)] for entries in lists) for at in range(4 * longest)]
    columns = {
        name: [template.format(**field._words(row, at)) for row in rows]
        for at, (name, template) in enumerate(field.columns.items())
    }
    asides = getattr(field, "asides", ())
    return encoder(stage, words_of([columns], *asides, *texts), *behind, **options)


def score_of(field: Field, count: int = 40, **options: Any) -> Callable[[Any], float]:
    """The score of rows of a field that are not in training."""
    return lambda model: field.sought(model, count, **options)


def adamw(*modules: Any, rate: float = 2e-3, decay: float = 0.01) -> torch.optim.Optimizer:
    """AdamW over the weights of modules."""
    weights = [weight for module in modules for weight in module.parameters()]
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def simple(
    model: Any, table: Mapping[str, Sequence[Any]], optimizer: Any, size: int = 24,
    *, texts: int = 2, bound: float = 0.0,
) -> Callable[[Any, int], None]:  # fmt: skip
    """The step of a loop: the first ``texts`` columns are embedded, the rest are numbers."""
    rows = Rows(table, size)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        embeddings = [embed(model, column) for column in columns[:texts]]
        value = criterion(*embeddings, *(torch.tensor(column) for column in columns[texts:]))
        if bound:
            optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
            optimizer.step()
        else:
            stepped(optimizer, value)

    return update


def square(rows: Tensor) -> Tensor:
    """The entries of a square matrix off its diagonal."""
    return rows[~torch.eye(len(rows), dtype=torch.bool)]

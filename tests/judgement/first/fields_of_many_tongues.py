"""Fields of texts of fifteen worlds, and the tables, encoders and scores that are made of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval

CHEMISTRY = Field(
    {
        "solvent": "ethanol/c2h5oh acetone/ch3coch3 water/h2o benzene/c6h6 methanol/ch3oh "
        "chloroform/chcl3 hexane/c6h14 ether/et2o",
        "salt": "lime/cao soda/na2co3 potash/k2co3 saltpetre/kno3 gypsum/caso4 vitriol/cuso4 "
        "borax/na2b4o7 alum/kalso4 rust/fe2o3",
        "act": "dissolves/solubility reacts/kinetics boils/distillation crystallises/seeding "
        "precipitates/filtration ignites/combustion dries/desiccant",
        "degree": "cold/5c lukewarm/30c warm/60c scalding/95c frozen/-20c",
    },
    {
        "plain": "what if {salt} {act} in {degree} {solvent}",
        "record": "{salt} ; {solvent} ; {degree} ; see {act} table",
    },
)
MAILS = Field(
    {
        "topic": "budget/figures contract/signature interview/candidate invoice/payment "
        "workshop/agenda migration/server lunch/canteen brochure/leaflet recall/defect",
        "unit": "sales/revenue legal/counsel hr/recruiting it/admins finance/ledger design/layout "
        "support/tickets logistics/pallets",
        "day": "monday/mon tuesday/tue wednesday/wed thursday/thu friday/fri tomorrow/asap",
        "tone": "reminder/again question/wondering thanks/grateful warning/urgent update/news",
    },
    {
        "subject": "re : {topic} {day} ( {unit} ) {tone}",
        "mail": "dear colleagues of {unit} , i write {tone} because of the {topic} . can we talk "
        "on {day} ? best regards",
    },
)
SQL = Field(
    {
        "agg": "average/avg total/sum highest/max lowest/min number/count spread/stddev",
        "col": "price/unit_price age/birth_year weight/net_kg salary/gross_pay score/points "
        "length/len_cm delay/wait_min rating/stars",
        "tab": "buyers/customer ships/vessel flights/flight_leg shops/store films/movie "
        "teams/club patients/admission",
        "by": "city/town_id year/yr colour/col_code owner/owner_id status/state kind/type_id",
    },
    {
        "wish": "show the {agg} {col} of all {tab} for every {by}",
        "query": "select {by} , {agg} ( {col} ) from {tab} group by {by} ;",
    },
)
RUSSIAN = Field(
    {
        "who": "brother/брат grandmother/бабушка driver/водитель teacher/учитель cook/повар "
        "soldier/солдат poet/поэт neighbour/сосед",
        "does": "buys/покупает sells/продаёт sees/видит draws/рисует loses/теряет hides/прячет "
        "washes/моет carries/несёт",
        "what": "apple/яблоко boat/лодку lamp/лампу mirror/зеркало horse/лошадь hat/шляпу "
        "table/стол clock/часы",
        "where": "forest/лесу town/городе yard/дворе station/вокзале sea/море school/школе",
    },
    {
        "english": "the {who} {does} a {what} at the {where}",
        "russian": "{who} {does} {what} в {where}",
    },
)
GREEK = Field(
    {
        "kind": "fish/ψάρι bread/ψωμί wine/κρασί cheese/τυρί honey/μέλι salad/σαλάτα milk/γάλα",
        "isle": "crete/κρήτη corfu/κέρκυρα rhodes/ρόδος samos/σάμος naxos/νάξος chios/χίος "
        "milos/μήλος",
        "hour": "morning/πρωί noon/μεσημέρι evening/βράδυ night/νύχτα dawn/αυγή",
        "mood": "good/καλό fresh/φρέσκο old/παλιό cheap/φτηνό dear/ακριβό sweet/γλυκό",
    },
    {"english": "{mood} {kind} from {isle} in the {hour}",
     "greek": "{mood} {kind} από {isle} το {hour} ."},
)  # fmt: skip
WEATHER = Field(
    {
        "station": "oslo/01492 lima/84628 perth/94610 accra/65472 quito/84071 delhi/42182 "
        "tromso/01025 dakar/61641 hobart/94970",
        "wind": "calm/0kt breeze/8kt gusts/25kt gale/38kt storm/52kt",
        "sky": "clear/skc cloudy/ovc hazy/hz rainy/ra snowy/sn thundery/ts drizzly/dz",
        "hour": "midnight/0000z dawn/0600z noon/1200z dusk/1800z teatime/1500z",
        "temp": "icy/m15 chilly/04 mild/14 warm/23 torrid/39",
    },
    {
        "words": "{temp} and {sky} with {wind} in {station} at {hour}",
        "metar": "{station} {hour} {wind} 9999 {sky} {temp} q1013 =",
    },
)
HEADLINES = Field(
    {
        "body": "court/judges parliament/lawmakers police/officers bank/lender union/workers "
        "council/aldermen museum/curators airline/carrier hospital/doctors",
        "move": "bans/outlawed backs/endorsed delays/postponed probes/investigated "
        "doubles/increased drops/abandoned defends/justified",
        "issue": "fracking/gas drones/aircraft vaping/smoking tolls/motorways fees/tuition "
        "bonuses/pay pesticides/farming visas/immigration",
        "place": "north/highlands south/coast east/border west/valley capital/metropolis",
    },
    {
        "headline": "{body} {move} {issue} in {place}",
        "lead": "after months of quarrel {body} of the {place} said on sunday that they {move} "
        "what critics call a matter of {issue} . a spokeswoman gave no date .",
    },
)
GARDEN = Field(
    {
        "plant": "roses/rosa tulips/tulipa beans/phaseolus apples/malus ferns/filicopsida "
        "basil/ocimum ivy/hedera lilies/lilium",
        "pest": "slugs/molluscs aphids/greenfly mildew/fungus moles/tunnels rust/spores "
        "weeds/dandelion frost/icing drought/thirst",
        "spot": "balcony/pots greenhouse/glass lawn/turf pond/waterside terrace/paving "
        "hedge/border",
        "season": "spring/april summer/july autumn/october winter/january",
    },
    {
        "question": "{season} : how do i save {plant} from {pest} on my {spot} ?",
        "answer": "with {pest} , {plant} near {spot} want care . water early . cut what is ill . "
        "in {season} cover the roots",
    },
)
COMMITS = Field(
    {
        "fault": "leak/memory race/locking overflow/bounds crash/segfault typo/spelling "
        "deadlock/mutex slowdown/perf regression/revert",
        "module": "parser/ast scheduler/cron cache/lru renderer/gpu logger/syslog mailer/smtp "
        "router/http installer/wheel",
        "system": "linux/posix windows/win32 macos/darwin android/arm bsd/jails solaris/zones",
        "trigger": "startup/init shutdown/exit upload/put rename/mv resize/layout retry/backoff",
    },
    {
        "issue": "[ bug ] {module} {fault} on {system} when {trigger}",
        "commit": "fix ( {module} ) : {fault} at {trigger} , tested under {system}",
    },
)
MUSEUM = Field(
    {
        "thing": "vase/amphora sword/blade coin/drachma mask/visage carpet/weave harp/lyre "
        "scroll/papyrus crown/diadem",
        "stuff": "bronze/alloy clay/terracotta ivory/tusk silk/textile glass/vitreous gold/gilt "
        "oak/timber",
        "land": "egypt/nile persia/shah china/dynasty greece/attic mexico/aztec benin/oba "
        "norway/viking",
        "hall": "first/i second/ii third/iii fourth/iv fifth/v",
    },
    {
        "caption": "{thing} of {stuff} , {land} , room {hall}",
        "guide": "now we come to hall {hall} where the light is low . please do not touch . here "
        "stands a {thing} that was dug up by a farmer and sold twice before it came to us . it is "
        "made of {stuff} and speaks of the {land} world , of which so little is left",
    },
)
TAGS = Field(
    {
        "pet": "cat/kitty dog/pup parrot/polly hamster/hammy pony/foal rabbit/bunny goat/kid "
        "tortoise/shelly",
        "mood": "happy/:) sad/:( angry/>:( sleepy/zzz hungry/nom bored/meh scared/eek",
        "spot": "couch/sofa garden/outside bath/wet car/ride bed/pillow snow/winter beach/sand",
        "hour": "today/now yesterday/tbt weekend/sat holiday/xmas monday/ugh",
    },
    {"post": "{mood} {pet} {spot} {hour}", "tags": "#{hour} {spot} {pet} {mood}"},
)
MATCHES = Field(
    {
        "home": "lions/leos eagles/aquila wolves/lupus bears/ursa sharks/squali hawks/falco "
        "bulls/tauri",
        "score": "1:0/narrowly 3:3/draw 7:2/rout 0:4/thrashing 2:1/late 5:4/thriller",
        "guest": "rovers/rvs united/utd city/cty athletic/ath wanderers/wan county/cnty albion/alb",
        "cup": "league/table friendly/test final/trophy derby/rivals replay/second_leg",
    },
    {
        "ticker": "{cup} | {home} {score} {guest}",
        "story": "a {score} evening for the {home} : in the {cup} they met {guest} before a full "
        "house",
    },
)
HARDWARE = Field(
    {
        "bolt": "screw/m4 nut/m6 washer/d12 rivet/r5 hinge/h90 spring/s7 bearing/b608 gasket/g33",
        "metal": "steel/a2 brass/cuzn titanium/ti6 nylon/pa66 copper/cu rubber/nbr",
        "coat": "zinc/zn black/ox chrome/cr plain/raw enamel/en nickel/ni",
        "pack": "single/x1 dozen/x12 hundred/x100 gross/x144 bulk/x999",
    },
    {
        "order": "please send a {pack} {coat} {metal} {bolt}",
        "sku": "{bolt} - {metal} - {coat} - {pack}",
    },
)
# Entries that read alike in all columns: for training without labels.
TRAILS = Field(
    {
        "peak": "arnold birch crane dover ember falcon granite hollow",
        "path": "ridge meadow gully scree bog staircase ladder tunnel",
        "sight": "marmots eagles orchids ruins cairns waterfalls ibex huts",
        "walker": "anna boris clara denis elena frank greta hugo",
    },
    {
        "diary": "we had set out very early and then {walker} and i went up the {path} of mount "
        "{peak} where at long last we saw the {sight}",
        "note": "the trip of the club to {peak} was by the {path} ; among the sights were {sight} "
        "said {walker} to all of us at the inn",
    },
)
HOTELS = Field(
    {
        "room": "suite attic cabin dormitory studio bungalow loft",
        "good": "breakfast sauna view piano library terrace parquet pool",
        "bad": "mould traffic wasps queues fees elevator mattress smoke",
        "guest": "couple hikers pensioner pianist family cyclists surgeon",
    },
    {
        "review": "as a {guest} i must say that i liked the {good} but not at all the {bad} of the "
        "{room} , and that is how it is",
        "summary": "stay in the {room} . on the one hand {good} . on the other hand {bad} . "
        "written by a {guest}",
    },
)
_REMARKS = (
    "by the way the line was bad .", "as was said before .", "( see also page 2 )", "thank you !",
    "no further comment .", "-- sent from a phone", "this was checked twice by the staff .",
    "hm .", "it may or may not be of use to you in the end .", "etc .",
)  # fmt: skip


def vocabulary(*fields: Field) -> list[str]:
    """Texts with all words of fields, and of the remarks of `ragged`."""
    texts = [*_REMARKS]
    for field in fields:
        texts += [re.sub(r"\{\w+\}", " ", template) for template in field.columns.values()]
        if any("#{" in template for template in field.columns.values()):
            texts += [f"#{wording}" for entries in field.slots.values()
                      for wording in re.split(r"[ /]", entries)]  # fmt: skip
        texts += [re.sub(r"[/_]", " ", entries) for entries in field.slots.values()]
    return texts


def small(stage: Stage, *fields: Field, **options: Any) -> Any:
    """A tiny encoder that knows the words of fields."""
    return encoder(stage, vocabulary(*fields), **options)


def ragged(field: Field, count: int, seed: int = 0) -> dict[str, list[str]]:
    """A table whose texts carry none to three remarks before or after them."""
    draw, table = random.Random(seed + 77), field.table(count, seed)
    return {
        name: [
            " ".join([*draw.sample(_REMARKS, draw.choice((0, 0, 1))), text,
                      *draw.sample(_REMARKS, draw.choice((0, 1, 2)))])
            for text in texts
        ]
        for name, texts in table.items()
    }  # fmt: skip


def triples(field: Field, count: int, seed: int = 0, negatives: int = 1) -> dict[str, list[str]]:
    """Pairs with hard negatives, of which none is the positive of another row."""
    draw, rows = random.Random(seed + 500), field.draws(count, seed)
    lists, taken = [entries.split() for entries in field.slots.values()], set(rows)
    table = dict(list(field.table(count, seed).items())[:2])
    for number in range(negatives):
        changed = []
        for row in rows:
            near, tries = row, 0
            while near in taken:
                tries, slot = tries + 1, draw.randrange(len(row))
                base = near if tries > 50 else row
                near = (*base[:slot], draw.choice(lists[slot]), *base[slot + 1 :])
            taken.add(near)
            changed.append(near)
        table[f"negative_{number}" if negatives > 1 else "negative"] = field.texts(changed, 1)
    return table


def grouped(
    field: Field, classes: int = 24, of_each: int = 10, seed: int = 0, slots: int = 2
) -> dict[str, list[Any]]:
    """Different texts, in any wording, with the number of their entries in the first slots."""
    draw = random.Random(seed + 300)
    lists = [entries.split() for entries in field.slots.values()]
    heads = list(dict.fromkeys(row[:slots] for row in field.draws(6 * classes, seed)))[:classes]
    cells: dict[str, int] = {}
    for label, head in enumerate(heads):
        size = len(cells) + of_each
        while len(cells) < size:
            row = (*head, *(draw.choice(entries) for entries in lists[slots:]))
            cells.setdefault(field.texts([row], draw.randrange(2))[0], label)
    texts = list(cells)
    draw.shuffle(texts)
    return {"text": texts, "label": [cells[text] for text in texts]}


def kindred(field: Field, slots: int = 2, count: int = 40) -> Callable[[Any], float]:
    """A score: a text finds that of the same class among texts in the other wording."""
    draw = random.Random(41)
    lists = [entries.split() for entries in field.slots.values()]
    heads = list(dict.fromkeys(row[:slots] for row in field.draws(150, seed=11)))[:count]
    halves = [
        [(*head, *(draw.choice(entries) for entries in lists[slots:])) for head in heads]
        for _ in range(2)
    ]
    table = {str(at): field.texts(rows, at) for at, rows in enumerate(halves)}
    return lambda model: retrieval(model, table)


def agreement(field: Field) -> Callable[[Any], float]:
    """A score: the rank correlation of cosines with the share of common entries."""
    return lambda model: correlation(model, field.graded(120, seed=11))


def judged(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of texts that say the same (1) or differ in one or several entries (0), mixed."""
    draw, rows = random.Random(seed + 900), field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    labels = [draw.randrange(2) for _ in rows]
    seconds = []
    for row, label in zip(rows, labels, strict=True):
        changes = () if label else draw.sample(range(len(row)), draw.randint(1, len(row)))
        seconds.append(tuple(
            draw.choice([e for e in lists[at] if e != entry]) if at in changes else entry
            for at, entry in enumerate(row)
        ))  # fmt: skip
    names = list(field.columns)
    return {names[0]: field.texts(rows, 0), names[1]: field.texts(seconds, 1), "label": labels}


def sought(field: Field, count: int = 60) -> Callable[[Any], float]:
    """A score: how well texts of the second column are retrieved, of rows not in training."""
    return lambda model: field.sought(model, count)


def thinned(texts: Sequence[str], draw: random.Random, share: float = 0.25) -> list[str]:
    """Texts without a share of their words."""
    return [
        " ".join(word for word in text.split() if draw.random() > share) or text for text in texts
    ]

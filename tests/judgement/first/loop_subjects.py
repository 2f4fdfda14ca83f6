"""Subjects of the texts of loops and rarer trainers: gems, bees, stages, rails, queries, jobs."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage


class Worded(Field):
    """A field whose columns have several templates, parted by a bar: each row takes one."""

    def texts(self, rows: Sequence[tuple[str, ...]], column: int) -> list[str]:
        templates = list(self.columns.values())[column].split(" | ")
        texts = []
        for row in rows:
            place = zlib.crc32("".join((*row, str(column))).encode()) % len(templates)
            texts.append(templates[place].format(**self._words(row, column)))
        return texts


GEMS = Worded(
    {
        "stone": "ruby/corundum opal/hydrophane emerald/beryl quartz/silica jade/nephrite "
        "amber/resin pearl/nacre garnet/almandine topaz/fluorosilicate onyx/chalcedony",
        "flaw": "cloudy/turbid scratched/abraded cracked/fissured pale/faded chipped/nicked "
        "loose/unset dull/matte",
        "piece": "ring/band brooch/pin necklace/pendant crown/diadem bracelet/bangle "
        "earring/stud cufflink/button",
        "deed": "clean/ultrasonic sell/auction insure/valuation reset/prong date/provenance",
    },
    {
        "question": "how do i {deed} a {flaw} {stone} {piece} | my {piece} has a {flaw} {stone} , "
        "can i {deed} it | {stone} {piece} is {flaw} : how to {deed} ?",
        "advice": "for a {piece} set with {stone} that has become {flaw} our workshop advises "
        "{deed} | {deed} is what we offer when {stone} looks {flaw} on a {piece} of any age",
    },
)
BEES = Worded(
    {
        "sight": "swarming/departure mites/varroa mould/chalkbrood robbing/intruders "
        "starving/feeding drifting/orientation queenless/requeening stinging/temper",
        "season": "april/spring july/summer october/autumn january/winter dusk/evening",
        "site": "orchard/blossom heath/heather rooftop/city meadow/clover forest/honeydew "
        "canola/rapeseed lavender/provence",
        "hive": "skep/straw nucleus/frames topbar/bars flow/taps warre/boxes",
    },
    {
        "diary": "{season} : {sight} at the {hive} hive in the {site} | noticed {sight} today , "
        "{hive} colony , {site} , {season}",
        "manual": "keepers who place {hive} near {site} deal with {sight} during {season} | "
        "chapter on {sight} : in {season} open the {hive} gently and compare with {site} sites",
    },
)
OPERA = Worded(
    {
        "voice": "soprano/diva tenor/hero bass/king alto/nurse baritone/villain chorus/townsfolk",
        "act": "dies/poison weeps/lament dances/waltz flees/escape marries/wedding "
        "duels/sword prays/chapel wakes/dawn",
        "set": "castle/battlements harbour/quay prison/cell ballroom/chandelier garden/roses "
        "tavern/wine desert/dunes",
        "mood": "slow/adagio quick/presto loud/fortissimo soft/pianissimo grave/largo",
    },
    {
        "remark": "that {mood} scene where the {voice} {act} in the {set} | the {voice} {act} in "
        "the {set} and the music is {mood}",
        "programme": "{set} . {voice} , {act} ; {mood} with strings | the curtain rises on the "
        "{set} : {act} of the {voice} , marked {mood} in the score",
    },
)
RAILS = Worded(
    {
        "fault": "signal/aspect points/switch brake/airline door/interlock pantograph/catenary "
        "axle/bearing horn/whistle radio/gsmr heating/hvac",
        "state": "stuck/jammed late/delayed hot/overheated noisy/vibration dead/unpowered "
        "leaking/seal frozen/ice",
        "place": "tunnel/portal viaduct/bridge depot/yard junction/crossover crossing/barrier "
        "siding/stabling terminus/buffer",
        "train": "freight/wagons express/intercity tram/streetcar sleeper/couchette "
        "shuttle/railcar",
    },
    {
        "call": "driver says {fault} {state} on the {train} by the {place} | {train} at {place} , "
        "{fault} is {state} , over",
        "entry": "{train} stopped before {place} because {fault} was found {state} ; fitter sent | "
        "cause of stop : {fault} , {state} . unit : {train} . where : {place} | {place} closed "
        "for {train} until {fault} no longer {state}",
    },
)
TABLES = Worded(
    {
        "count": "average/avg total/sum highest/max lowest/min number/count",
        "value": "salary/pay price/cost weight/kg age/birth stock/qty rating/stars rainfall/mm",
        "group": "city/town_id year/yr team/squad_id brand/maker genre/cat_id island/isl_id "
        "port/harbour_id",
        "limit": "active/status recent/since foreign/country online/channel taxed/vat "
        "verified/checked",
    },
    {
        "request": "show the {count} {value} per {group} where {limit} | {count} {value} of each "
        "{group} , only {limit} ones | for every {limit} {group} i need the {count} {value}",
        "sql": "select {group} , {count} ( {value} ) from t where {limit} = 1 group by {group}",
    },
)
JOBS = Worded(
    {
        "post": "nurse/ward welder/steel teacher/school cook/restaurant lawyer/chambers "
        "gardener/nursery pilot/airline clerk/registry plumber/pipes",
        "skill": "patient/calm licensed/certified bilingual/languages punctual/reliable "
        "inventive/creative strong/lifting",
        "shift": "nights/overnight weekends/saturday mornings/early parttime/halftime "
        "seasonal/harvest remote/home",
        "wish": "pension/retirement housing/flat childcare/creche promotion/career "
        "training/apprenticeship",
    },
    {
        "seeker": "{skill} {post} looking for {shift} work with {wish} | i am a {post} , {skill} , "
        "free for {shift} , hoping for {wish}",
        "advert": "we hire for {post} duties , {shift} , {skill} people welcome , {wish} included "
        "| {wish} and fair pay : join our {post} staff ( {shift} ) if you are {skill}",
    },
)
SKIES = Worded(
    {
        "body": "comet/coma pulsar/neutron nebula/hydrogen quasar/redshift asteroid/regolith "
        "supernova/ejecta exoplanet/transit",
        "band": "radio/meterwave infrared/micron xray/kev optical/visual gamma/mev",
        "aim": "size/diameter spin/rotation mass/kilogram age/chronology orbit/ephemeris "
        "dust/grains wind/outflow",
        "site": "chile/atacama hawaii/maunakea space/orbiter antarctica/pole canary/lapalma "
        "arizona/kittpeak",
    },
    {
        "title": "the {aim} of a {body} in the {band} from {site} | {band} {body} {aim} : a "
        "survey in {site} | {site} {band} data on {body} {aim}",
        "abstract": "we ask for nights at {site} to measure the {aim} of this {body} . {band} "
        "frames are reduced with standard tools | observations of a {body} with the {band} "
        "camera at {site} bound its {aim} , and the errors are discussed",
    },
)
LEDGERS = Worded(
    {
        "sort": "groceries/supermarket fuel/petrol rent/landlord books/bookstore meals/bistro "
        "medicine/pharmacy clothes/boutique travel/railway",
        "way": "card/pos cheque/draft cash/atm transfer/wire mobile/app",
        "land": "france/eur japan/jpy brazil/brl kenya/kes norway/nok canada/cad",
        "odd": "twice/duplicate refunded/reversal blocked/declined pending/hold small/minimum",
    },
    {
        "chat": "why was my {land} {sort} payment by {way} {odd} | {way} {sort} in {land} : {odd}",
        "booking": "{way} {land} {sort} {odd} | {sort} / {land} / {odd} / {way} 0042",
    },
)
BIRDS = Worded(
    {
        "bird": "wren/troglodytes heron/ardea owl/strix swift/apus robin/erithacus "
        "raven/corvus finch/fringilla gull/larus",
        "deed": "sings/song nests/brood hunts/prey bathes/plumage migrates/passage fights/dispute",
        "spot": "marsh/reeds cliff/ledge hedge/thorn chimney/roof lake/shore spruce/conifer",
        "when": "sunrise/dawn noon/midday storm/gale frost/cold rain/drizzle",
    },
    {
        "post": "a {bird} {deed} by the {spot} at {when} ! | saw how a {bird} {deed} near the "
        "{spot} during {when}",
        "record": "{bird} , {deed} , {spot} , {when} | {when} : {deed} of {bird} noted , habitat "
        "{spot}",
    },
)
PATENTS = Worded(
    {
        "device": "valve/fluid loom/weft battery/electrolyte antenna/waveguide drone/rotor "
        "lock/tumbler pump/impeller lens/refractive",
        "gain": "lighter/weight cheaper/cost safer/hazard quieter/acoustic faster/speed "
        "smaller/compact",
        "means": "spring/resilient magnet/flux laser/beam resin/polymer sensor/signal gear/teeth",
        "use": "hospital/medical farm/agricultural kitchen/culinary factory/plant ship/marine "
        "car/automotive",
    },
    {
        "idea": "a {gain} {device} with a {means} for the {use} | {use} {device} made {gain} by "
        "a {means}",
        "claim": "apparatus comprising a {device} element and a {means} member wherein {gain} is "
        "improved in {use} use | a {use} assembly , the {device} part coupled to {means} so as "
        "to better the {gain}",
    },
)
HOTELS = Worded(
    {
        "room": "suite/penthouse single/bedsit dormitory/bunks cabin/chalet loft/attic "
        "bungalow/villa",
        "trait": "quiet/silent sunny/bright warm/heated clean/spotless cheap/affordable "
        "spacious/large modern/renovated",
        "extra": "pool/swimming sauna/steam breakfast/buffet parking/garage balcony/terrace "
        "kitchen/stove wifi/internet",
        "guest": "couples/honeymoon families/playground cyclists/bikes pets/dogs hikers/trails "
        "skiers/slopes",
    },
    {
        "wish": "{trait} {room} for {guest} with {extra} | we are {guest} and want a {trait} "
        "{room} , {extra} a must",
        "offer": "{guest} welcome ! this {room} is {trait} and has {extra} | {trait} {room} near "
        "the lake : {extra} , ideal for {guest}",
    },
)
PLANTS = Worded(
    {
        "plant": "tomato/solanum basil/ocimum rose/rosa fern/polypodium orchid/phalaenopsis "
        "cactus/opuntia lemon/citrus ivy/hedera",
        "sign": "yellow/chlorosis spots/lesions wilting/drooping holes/insects webs/spider "
        "curling/aphids sticky/honeydew",
        "place": "balcony/outdoor windowsill/indoor greenhouse/glasshouse cellar/dark "
        "bathroom/humid",
        "since": "repotting/transplant frost/freezing holiday/drought feeding/fertiliser "
        "pruning/cutting",
    },
    {
        "cry": "{plant} on my {place} has {sign} since {since} | help ! {sign} on the {plant} "
        "after {since} , it lives in the {place}",
        "reply": "{sign} of {plant} kept in {place} mostly follows {since} , so water less | after "
        "{since} a {plant} may show {sign} ; {place} plants recover in weeks",
    },
)


def near_texts(subject: Field, count: int, seed: int = 0, slot: int = 0) -> list[str]:
    """Near second texts: another entry in a slot, none of them the text of a row."""
    rows, draw = subject.draws(count, seed), random.Random(seed + 1000)
    lists = [entries.split() for entries in subject.slots.values()]
    taken, texts = set(rows), []
    for row in rows:
        free: list[tuple[str, ...]] = []
        for at in (slot, *range(len(row))):  # another slot, where all of one are taken
            changed = [(*row[:at], entry, *row[at + 1 :]) for entry in lists[at]]
            free = free or [text for text in changed if text not in taken]
        near = draw.choice(free)
        taken.add(near)
        texts += subject.texts([near], 1)
    return texts


def texts_of(*subjects: Field) -> list[str]:
    """All words that can stand in the texts of subjects."""
    words = []
    for subject in subjects:
        for entries in subject.slots.values():
            words += entries.replace("/", " ").replace("_", " ").split()
        for template in subject.columns.values():
            words += [word for word in template.split() if "{" not in word and word != "|"]
    return words


def reader(stage: Stage, *subjects: Field, **options: Any) -> Any:
    """A tiny encoder that knows the words of subjects."""
    return encoder(stage, texts_of(*subjects), **options)


def seeking(subject: Field, count: int = 50) -> Callable[[Any], float]:
    """The score of a subject's held-out second texts sought by its first texts."""
    return lambda model: subject.sought(model, count)


def labelled(
    subject: Field, count: int = 192, seed: int = 0, slot: int = 0
) -> dict[str, list[Any]]:
    """Texts of either column and, as their label, the number of their entry in a slot."""
    rows, draw = subject.draws(count, seed), random.Random(seed + 3)
    entries = list(subject.slots.values())[slot].split()
    return {
        "text": [subject.texts([row], draw.randrange(2))[0] for row in rows],
        "label": [entries.index(row[slot]) for row in rows],
    }


def neighbours(table: Mapping[str, Sequence[Any]]) -> Callable[[Any], float]:
    """The share of texts whose nearest other text has their label."""

    def score(model: Any) -> float:
        rows = model.encode(list(table["text"]), normalize_embeddings=True, show_progress_bar=False)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -2.0)
        labels = np.array(table["label"])
        return float((labels[cosines.argmax(1)] == labels).mean())

    return score

"""Subjects of the faulty set-ups of this half: fields of texts, their encoders, shared words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation

SWIFT = {"learning_rate": 1e-3}

BANK = Field(
    {
        "act": "block/freeze replace/reissue order/dispatch raise/increase close/terminate "
        "open/establish transfer/wire dispute/contest",
        "item": "card/plastic account/current loan/borrowing limit/ceiling pin/digits "
        "cheque/draft mortgage/homeowner deposit/savings",
        "reason": "theft/stolen travel/abroad marriage/spouse job/employer move/relocation "
        "fraud/scam age/pension error/mistake",
    },
    {
        "utterance": "hi i want to {act} my {item} because of {reason}",
        "article": "to {act} the {item} ( {reason} ) sign in , choose services and confirm",
    },
)
PLANTS = Field(
    {
        "leaf": "spiny/thorn hairy/villous waxy/glaucous round/orbicular narrow/linear "
        "toothed/serrate lobed/cleft folded/plicate",
        "bloom": "yellow/lutea white/alba red/rubra blue/caerulea purple/purpurea black/nigra "
        "green/viridis golden/aurea",
        "site": "marsh/palustris forest/sylvatica rock/saxatilis field/arvensis sea/maritima "
        "alps/alpina river/fluviatilis wall/muralis",
    },
    {
        "description": "a herb with {leaf} leaves and {bloom} flowers that grows near the {site}",
        "name": "{bloom} {site} var {leaf}",
    },
)
MATCHES = Field(
    {
        "team": "lions/leo eagles/aquila bears/ursa wolves/lupus sharks/squalo bulls/taurus "
        "foxes/vulpes hawks/falco tigers/panthera",
        "end": "won/victory lost/defeat drew/tie quit/forfeit led/ahead trailed/behind",
        "sport": "football/goals tennis/sets rugby/tries hockey/pucks cricket/wickets rowing/oars "
        "boxing/rounds chess/boards",
        "sky": "rain/wet snow/cold sun/hot fog/dim wind/gusts",
    },
    {
        "headline": "{team} {end} in {sport} under {sky}",
        "report": "a {sky} afternoon of {sport} saw the {team} with a {end} before a full house",
    },
)
FLATS = Field(
    {
        "kind": "studio/oneroom loft/attic villa/mansion cottage/cabin duplex/maisonette "
        "bungalow/ranch penthouse/rooftop",
        "near": "station/rail school/pupils lake/waterfront airport/runway market/shops "
        "hospital/ward university/campus harbour/docks",
        "plus": "garage/carport sauna/steam garden/lawn lift/elevator balcony/terrace "
        "fireplace/chimney cellar/basement pool/swimming",
        "cost": "cheap/budget pricey/luxury fair/midrange",
    },
    {
        "wish": "{cost} {kind} with {plus} close to a {near}",
        "listing": "{near} nearby : {kind} , {plus} included , {cost} , call our agent",
    },
)
PARTS = Field(
    {
        "part": "brake/disc clutch/plate filter/mesh pump/impeller valve/seat bearing/race "
        "belt/strap hose/tube gasket/seal",
        "maker": "astra/ast bolero/bol corvus/cor dorado/dor electra/ele fabia/fab",
        "model": "101/m101 205/m205 309/m309 412/m412 518/m518 626/m626 733/m733 847/m847",
    },
    {
        "request": "need a {part} for the {maker} {model}",
        "entry": "{maker} {model} {part} genuine spare , ships in two days",
    },
)
JOBS = Field(
    {
        "role": "nurse/caregiver welder/metalworker tutor/teacher chef/cook clerk/secretary "
        "driver/trucker analyst/statistician plumber/pipefitter",
        "skill": "german/deutsch excel/spreadsheets forklift/warehouse python/scripting "
        "sales/selling design/layout safety/hazards negotiation/bargaining",
        "years": "junior/entry middle/experienced senior/veteran trainee/apprentice",
        "mode": "remote/homeoffice night/shifts parttime/halfday seasonal/temporary",
    },
    {
        "resume": "{years} {role} , good at {skill} , looks for {mode} work",
        "advert": "we hire : {role} ( {years} ) . must have : {skill} . we offer : {mode}",
    },
)
MUSEUM = Field(
    {
        "object": "vase/vessel coin/numismatic sword/blade mask/face rug/textile clock/timepiece "
        "map/chart idol/figurine",
        "matter": "bronze/alloy clay/ceramic ivory/tusk silver/argent wool/fibre glass/vitreous "
        "wood/timber jade/nephrite",
        "age": "roman/antique gothic/mediaeval baroque/ornate modern/contemporary "
        "neolithic/prehistoric ottoman/turkish viking/norse",
    },
    {
        "question": "where is the {age} {object} of {matter} ?",
        "card": "inventory : {matter} {object} , {age} period , gift of a private collector",
    },
)
REVIEWS = Field(
    {
        "good": "battery/charge screen/display sound/audio camera/photos keyboard/keys "
        "speed/performance price/value",
        "bad": "weight/heavy heat/temperature noise/fan support/service packaging/box "
        "manual/instructions cable/cord",
        "owner": "student/college gamer/gaming writer/novelist pilot/cockpit parent/family "
        "traveller/airport designer/studio",
        "tone": "love/delighted hate/angry like/pleased doubt/unsure",
    },
    {
        "title": "{tone} the {good} not the {bad} says {owner}",
        "body": "as {owner} person i am {tone} about this : {good} is great , but {bad} was poor",
    },
)
FIELDS = (BANK, PLANTS, MATCHES, FLATS, PARTS, JOBS, MUSEUM, REVIEWS)

# What a verdict says of an encoder that does not move.
UNMOVED = (
    r"(?i)(weights?|parameters?|encoder|model|embeddings?|layers?|nothing).{0,80}(\b(not|never|hardly|"
    r"barely|no)\b|n't).{0,20}(mov|chang|updat|learn|train)",
    r"(?i)frozen|froze|stand(s|ing)? still|unchanged|no optimi[sz]er step|without effect",
)
# What a verdict says of embeddings that become one.
COLLAPSED = (
    r"(?i)collaps",
    r"(?i)(embeddings?|texts|vectors|rows|cosines?).{0,60}(all|nearly|almost|become|are).{0,20}"
    r"(the same|alike|equal|identical|one direction|one point)",
)
NO_NEGATIVES = (
    r"(?i)\b(no|without|lack\w*|missing|never|not)\b.{0,40}(negatives?|push|repuls|apart)",
    r"(?i)negatives?.{0,60}(missing|ignored|no (part|weight|gradient|effect|influence)|not|none)",
    *COLLAPSED,
)


def wordings(field: Field) -> list[str]:
    """Every word of a field, as texts."""
    entries = [" ".join(entry.replace("/", " ").replace("_", " ").split())
               for row in field.slots.values() for entry in row.split()]  # fmt: skip
    frames = [frame.format(**dict.fromkeys(field.slots, "")) for frame in field.columns.values()]
    return [*entries, *frames]


def reader(stage: Stage, field: Field, *behind: Any, extra: Sequence[str] = (), **opts: Any) -> Any:
    """A fresh encoder that knows all words of a field and the ``extra`` ones."""
    model = encoder(stage, [*wordings(field), *extra], *behind, **opts)
    torch.manual_seed(7)
    return model


def rolled(cells: Sequence[Any], by: int) -> list[Any]:
    """The cells of a column, moved down by some rows."""
    return [*cells[-by:], *cells[:-by]]


def unseen_rows(field: Field, most: int = 60) -> int:
    """As many rows of the odd seeds as a field can give in reasonable time, at most ``most``."""
    rows = itertools.product(*(entries.split() for entries in field.slots.values()))
    return min(most, 3 * sum(sum(map(len, row)) % 5 == 0 for row in rows) // 4)


def unseen(field: Field, most: int = 60) -> dict[str, list[str]]:
    """Rows of a field that training does not see."""
    return field.table(unseen_rows(field, most), seed=11)


def sought_of(field: Field, **options: Any) -> Callable[[Any], float]:
    """A score: how well the second column's texts of new rows are retrieved."""
    return lambda model: field.sought(model, unseen_rows(field), **options)


def graded_of(field: Field, **options: Any) -> Callable[[Any], float]:
    """A score: the rank correlation with the grades of new pairs."""
    table = field.graded(unseen_rows(field, 100), seed=11, **options)
    return lambda model: correlation(model, table)


def tuned(stage: Stage, field: Field, steps: int = 12) -> Any:
    """An encoder that has learned a little of its field, as one that is tuned further."""
    return warmed(reader(stage, field), field.table(160, seed=2), steps)

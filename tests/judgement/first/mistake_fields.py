"""Fields of texts, encoders with their words and short ways of training, for the modules m_*."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.judgement.first.beside import Loop, adam
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.loop_materials import quiet
from tests.judgement.first.turns import Rows, embed, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, falls_short
from tests.sentence_training import losses

BEES = Field(
    {
        "hive": "hive/colony swarm/cluster nuc/nucleus skep/basket apiary/yard frame/comb",
        "bloom": "clover/trefoil heather/ling lime/linden rape/canola acacia/locust thyme/herb",
        "pest": "mite/varroa moth/galleria wasp/vespa beetle/aethina mouse/rodent foul/brood",
        "month": "april/spring june/summer august/harvest october/autumn january/frost",
    },
    {
        "question": "does a {hive} on {bloom} get {pest} in {month} ?",
        "answer": "during {month} look for {pest} where the {hive} feeds from {bloom}",
    },
)
TRAINS = Field(
    {
        "wagon": "sleeper/couchette diner/buffet tender/coal boxcar/goods railcar/diesel "
        "tram/metro",
        "fault": "brake/shoe axle/bearing door/latch horn/whistle lamp/bulb coupler/hook",
        "depot": "north/borough south/haven east/gate west/field central/cross harbour/quay",
        "shift": "dawn/early noon/midday dusk/late night/owl holiday/relief",
    },
    {
        "ticket": "{depot} {shift} : {wagon} {fault} defect",
        "repair": "replaced the {fault} of the {wagon} , signed by the {shift} crew at {depot}",
    },
)
WINES = Field(
    {
        "grape": "riesling/hock merlot/claret syrah/shiraz malbec/cot gamay/beaujolais pinot/noir",
        "note": "smoke/ash plum/prune pepper/spice rose/petal slate/stone honey/wax",
        "soil": "chalk/lime clay/loam gravel/pebble sand/dune basalt/lava",
        "food": "duck/fowl trout/fish brie/cheese lamb/mutton lentils/pulses figs/fruit",
    },
    {
        "wish": "a {grape} from {soil} with {note} for {food}",
        "card": "goes with {food} . grown on {soil} , {grape} , scent of {note}",
    },
)
STARS = Field(
    {
        "body": "comet/tail nova/burst pulsar/beacon quasar/core moon/satellite planet/world",
        "tool": "mirror/reflector lens/refractor dish/antenna prism/spectrum camera/sensor",
        "where": "lyra/harp leo/lion aries/ram taurus/bull cygnus/swan orion/hunter",
        "what": "mass/weight age/years spin/rotation heat/kelvin range/parsec iron/metal",
    },
    {
        "title": "{what} of a {body} in {where} by {tool}",
        "abstract": "we aim a {tool} at {where} and derive the {what} that the {body} must have",
    },
)
SEWING = Field(
    {
        "cloth": "linen/flax wool/fleece silk/satin denim/jean velvet/plush tulle/net",
        "part": "sleeve/arm collar/neck hem/edge pocket/pouch waist/belt cuff/wrist",
        "stitch": "zigzag/wave basting/tack overlock/serger blind/hidden cross/x chain/loop",
        "tool": "needle/pin chalk/marker iron/press thimble/cap shears/scissors",
    },
    {
        "ask": "how to do a {stitch} on the {part} in {cloth} with {tool}",
        "how": "take the {tool} , fold the {cloth} at the {part} and run the {stitch} along it",
    },
)
HARBOUR = Field(
    {
        "ship": "tanker/oil ferry/car trawler/fish barge/gravel tug/tow yacht/sail cutter/guard",
        "berth": "pier/jetty lock/sluice basin/dock buoy/mooring slip/ramp mole/wall",
        "event": "fire/blaze leak/spill stowaway/fugitive collision/crash "
        "fever/quarantine theft/loot",
        "hour": "bell/watch tide/ebb fog/mist storm/gale calm/lull",
    },
    {
        "radio": "{ship} at {berth} reports {event} during {hour}",
        "log": "{hour} noted ; {event} , the {ship} is held off the {berth} until further word",
    },
)
MUSEUM = Field(
    {
        "thing": "vase/amphora sword/blade coin/denarius mask/visage scroll/papyrus bust/portrait",
        "stuff": "bronze/alloy ivory/tusk jade/nephrite glass/vitreous amber/resin oak/timber",
        "age": "roman/caesar gothic/cathedral minoan/crete viking/norse ming/china inca/andes",
        "room": "attic/upper cellar/vault foyer/entry gallery/hall tower/spire",
    },
    {
        "visitor": "where is the {age} {stuff} {thing} , in the {room} ?",
        "caption": "{thing} of {stuff} , {age} , shown in the {room} since the reopening",
    },
)
GARDEN = Field(
    {
        "plant": "leek/allium kale/brassica pea/legume beet/root mint/mentha squash/gourd",
        "harm": "slug/snail rust/fungus aphid/louse frost/cold drought/dry mole/burrow",
        "care": "mulch/straw prune/cut water/can stake/pole feed/compost fleece/cover",
        "bed": "raised/box sunny/south shady/north sandy/light heavy/clay",
    },
    {
        "question": "{plant} in a {bed} bed has {harm} , should i {care} ?",
        "answer": "yes , {care} helps {plant} against {harm} in {bed} soil",
    },
)
POST = Field(
    {
        "item": "parcel/box letter/envelope card/postcard crate/pallet tube/roll sack/bag",
        "land": "peru/lima kenya/nairobi japan/tokyo norway/oslo cuba/havana egypt/cairo",
        "woe": "lost/missing torn/ripped wet/soaked late/delayed opened/tampered taxed/duty",
        "wish": "refund/money trace/search resend/again excuse/apology stamp/proof",
    },
    {
        "complaint": "my {item} to {land} was {woe} , i want a {wish}",
        "reply": "we offer you {wish} as the {item} for {land} came {woe} to our desk",
    },
)
QUICK = {"learning_rate": 2e-3, "max_steps": 60}


def words(*fields: Field) -> list[str]:
    """All words of fields."""
    vocabulary_texts = []
    for field in fields:
        vocabulary_texts += [re.sub(r"[/_]", " ", entries) for entries in field.slots.values()]
        vocabulary_texts += [re.sub(r"\{\w+\}", "", column) for column in field.columns.values()]
    return vocabulary_texts


def encoder_of_field(
    stage: Stage, field: Field, *behind: Any, extras: Sequence[str] = (), **options: Any
) -> Any:
    """A fresh encoder that knows the words of a field."""
    return encoder(stage, [*words(field), *extras], *behind, **options)


def ranking(model: Any, **options: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model, **options)


def graded_score(field: Field) -> Callable[[Any], float]:
    """The rank correlation on graded pairs that are not trained on."""
    return lambda model: correlation(model, field.graded(120, seed=11))


def training(
    stage: Stage, field: Field, loss: Any = ranking, table: Any = None, model: Any = None,
    **settings: Any,
) -> Any:  # fmt: skip
    """A trainer on 200 rows of a field, quick."""
    return stage.trainer(
        loss,
        field.table(200) if table is None else table,
        encoder_of_field(stage, field) if model is None else model,
        **{**QUICK, **settings},
    )


def read_beside(
    stage: Stage, table: Mapping[str, Any], mended_table: Mapping[str, Any], field: Field,
    loss: Any = ranking,
) -> None:  # fmt: skip
    """Let a faulty table be inspected, and train on it and on the mended one."""
    stage.inspect(table)
    scores = []
    for rows in (table, mended_table):
        trainer = training(stage, field, loss, rows)
        before = field.sought(trainer.model)
        with quiet():
            trainer.train()
        scores.append((before, field.sought(trainer.model)))
    falls_short(stage, *scores)


def loop_of(
    model: Any, loss: Any, table: Mapping[str, Any], optimizer: Any = None, after: Any = None
) -> Loop:
    """A plain loop over columns of texts; ``after`` is called after each step."""
    rows, optimizer = Rows(table), optimizer or adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        if after is not None:
            after(step)

    return Loop(model, loss, update)

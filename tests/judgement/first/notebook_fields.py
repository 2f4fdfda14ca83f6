"""Fields of texts for sound set-ups: birds, stations, gardens and a museum; tables of grades."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage

# What a walker asks, and what a handbook says of the bird.
BIRDS = Field(
    {
        "size": "tiny/small stout/heavy slender/slim big/large",
        "hue": "yellow/golden red/rufous grey/ashen black/sooty brown/umber blue/azure "
        "white/pale green/olive",
        "beak": "hooked/curved long/probing short/stubby thick/conical flat/spoon",
        "place": "marsh/reeds cliff/rocks hedge/shrubs lake/water meadow/grass wood/trees "
        "roof/buildings moor/heather",
        "deed": "drumming/pecks diving/plunges circling/soars wading/strides hopping/ground",
    },
    {
        "question": "which {size} {hue} bird with a {beak} bill was {deed} by the {place} ?",
        "entry": "plumage {hue} , bill {beak} , {size} build ; {deed} and breeds near {place}",
    },
)
# What a passenger types, and what is announced.
STATIONS = Field(
    {
        "town": "lund/southern bergen/western turku/coastal aarhus/jutland narvik/arctic "
        "vaasa/bothnian odense/island umea/northern",
        "track": "one/first two/second three/third four/fourth five/fifth",
        "cause": "snow/weather signal/interlocking strike/staffing deer/animals leaves/rails "
        "flood/water power/voltage",
        "fix": "bus/replacement ticket/refund hotel/overnight waiting/patience detour/diversion",
    },
    {
        "query": "{town} train platform {track} late {cause} {fix}",
        "announcement": "attention please , the {town} service from the {track} track is held up "
        "by {cause} and we offer {fix} to all passengers",
        "repeat": "because of {cause} there is {fix} for those who wait at the {track} track for "
        "the {town} line",
    },
)
# Questions of gardeners, and what an old hand answers.
GARDEN = Field(
    {
        "plant": "tomato/solanum rose/shrub bean/legume pear/orchard tulip/bulb basil/herb "
        "cabbage/brassica vine/grape",
        "harm": "spots/fungus holes/slugs wilt/thirst curls/aphids rot/damp yellows/iron",
        "spot": "balcony/pots greenhouse/glass slope/terrace shade/north windowsill/indoors",
        "month": "march/spring june/summer september/autumn december/winter",
    },
    {
        "anchor": "my {plant} on the {spot} shows {harm} in {month} , what now",
        "positive": "against {harm} of a {plant} in {spot} we cut it back each {month}",
    },
)
# Labels of things in a museum, and the long pages of its catalogue.
MUSEUM = Field(
    {
        "work": "vase/vessel mask/face coin/currency sword/blade loom/weaving lyre/music "
        "idol/worship lamp/oil",
        "stuff": "bronze/copper clay/ceramic ivory/tusk silver/argent jade/nephrite oak/timber",
        "people": "etruscan/italic minoan/cretan khmer/angkor inca/andean norse/viking nubian/nile",
        "find": "grave/burial wreck/seabed temple/altar well/cistern cellar/ruin",
    },
    {
        "caption": "{people} {stuff} {work} from a {find}",
        "page": "this piece came to the house with a larger bequest and was cleaned in the "
        "workshop before it was put on view . scholars had long held it to be a later copy , but "
        "the marks of the tool on its base speak for the {people} hands that made so much of its "
        "kind . it is of {stuff} with traces of paint , and was used for {work} at feasts . it "
        "lay in a {find} , where a farmer met with it after a storm ; its lower half is lost",
    },
)


def apart(dev: Mapping[str, Sequence[Any]], *trained: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the rows of a table none of whose texts is trained on."""
    cells = {cell for table in trained for column in table.values() for cell in column}
    rows = [row for row in zip(*dev.values(), strict=True)
            if not any(isinstance(cell, str) and cell in cells for cell in row)]  # fmt: skip
    return {name: list(column) for name, column in zip(dev, zip(*rows, strict=True), strict=True)}


def two(field: Field, count: int, seed: int = 0) -> dict[str, list[str]]:
    """Return the first two columns of a field."""
    return dict(list(field.table(count, seed).items())[:2])


def with_near(field: Field, count: int, *slots: int, seed: int = 0) -> dict[str, list[str]]:
    """Return pairs with a hard negative for each slot that differs."""
    negatives = {f"negative_{at}": field.near(count, seed, slot=slot)
                 for at, slot in enumerate(slots, 1)}  # fmt: skip
    return two(field, count, seed) | negatives


def dev_pairs(field: Field, trained: Mapping[str, Any], count: int = 40) -> dict[str, list[str]]:
    """Return pairs for an evaluator that share no text with those of training."""
    return apart(two(field, count, seed=13), trained)


def near_and_dev(
    field: Field, count: int, slots: Sequence[int], dev_slots: Sequence[int], dev_count: int = 40
) -> tuple[dict[str, list[Any]], dict[str, list[str]]]:
    """Return rows with hard negatives for training, and rows for an evaluator, apart from them."""
    dev = with_near(field, dev_count, *dev_slots, seed=13)
    return apart(with_near(field, count, *slots), dev), dev


def judged_pairs(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Return pairs that fit (1) or differ in every slot (0), by turns."""
    draw, rows = random.Random(seed + 40), field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    seconds = []
    for at, row in enumerate(rows):
        changed = list(row)
        for slot in range(len(row) if at % 2 else 0):
            changed[slot] = draw.choice([entry for entry in lists[slot] if entry != row[slot]])
        seconds.append(tuple(changed))
    return {
        "sentence1": field.texts(rows, 0),
        "sentence2": field.texts(seconds, 1),
        "label": [1 - at % 2 for at in range(count)],
    }


def by_slot(field: Field, count: int, slot: int, seed: int = 0) -> dict[str, list[Any]]:
    """Return texts of the second column with the number of their entry in a slot as class."""
    entries = list(field.slots.values())[slot].split()
    rows = field.draws(count, seed)
    return {"text": field.texts(rows, 1), "label": [entries.index(row[slot]) for row in rows]}


def encoder_of(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """A fresh encoder whose vocabulary has the words of a field."""
    texts = words_of([field.table(200), field.table(40, seed=11)])
    return encoder(stage, texts, *behind, **options)


def same_class(model: Any, table: Mapping[str, Sequence[Any]]) -> float:
    """Return how often the nearest other text has the class of a text."""
    texts, labels = list(table["text"]), list(table["label"])
    cosines = model.similarity(*[model.encode(texts, show_progress_bar=False)] * 2)
    nearest = cosines.fill_diagonal_(-2).argmax(1).tolist()
    return sum(labels[at] == label for at, label in zip(nearest, labels, strict=True)) / len(texts)

"""Fields of texts for the sound set-ups: each has slots, whose words differ by column."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.judgement.truth import retrieval


@dataclass(frozen=True)
class Field:
    """Rows of a field: each slot draws an entry "first/second/...", a wording for each column.

    Attributes:
        slots: entries of each slot; an entry without slashes reads alike in all columns.
        columns: a template for each column.
    """

    slots: Mapping[str, str]
    columns: Mapping[str, str]

    def draws(self, count: int, seed: int = 0) -> list[tuple[str, ...]]:
        """Different rows of entries; an odd seed draws from the rows that even seeds leave."""
        draw, rows = random.Random(seed), dict[tuple[str, ...], None]()
        lists = [entries.split() for entries in self.slots.values()]
        while len(rows) < count:
            row = tuple(draw.choice(entries) for entries in lists)
            if sum(map(len, row)) % 5 != 0 if seed % 2 == 0 else sum(map(len, row)) % 5 == 0:
                rows[row] = None
        return list(rows)

    def texts(self, rows: Sequence[tuple[str, ...]], column: int) -> list[str]:
        """Return the texts of rows in a column."""
        template = list(self.columns.values())[column]
        return [template.format(**self._words(row, column)) for row in rows]

    def table(self, count: int, seed: int = 0) -> dict[str, list[str]]:
        """Return all columns."""
        rows = self.draws(count, seed)
        return {name: self.texts(rows, at) for at, name in enumerate(self.columns)}

    def near(self, count: int, seed: int = 0, *, slot: int = 0, column: int = 1) -> list[str]:
        """Return texts of the rows of `table` with another entry in one slot: hard negatives."""
        draw, texts = random.Random(seed + 1000), []
        for row in self.draws(count, seed):
            entries = [entry for entry in list(self.slots.values())[slot].split()
                       if entry != row[slot]]  # fmt: skip
            changed = (*row[:slot], draw.choice(entries), *row[slot + 1 :])
            texts += self.texts([changed], column)
        return texts

    def graded(
        self, count: int, seed: int = 0, most: float = 1.0, *, second_column: int = 1
    ) -> dict[str, list[Any]]:
        """Pairs of texts with the share of slots in which they agree, times ``most``."""
        draw, first = random.Random(seed + 2000), self.draws(count, seed)
        lists = [entries.split() for entries in self.slots.values()]
        second, scores = [], []
        for row in first:
            agree = draw.sample(range(len(row)), draw.randint(0, len(row)))
            changed = tuple(
                entry if at in agree else draw.choice([e for e in lists[at] if e != entry])
                for at, entry in enumerate(row)
            )
            second.append(changed)
            scores.append(round(most * len(agree) / len(row), 3))
        names = list(self.columns)
        return {
            names[0]: self.texts(first, 0),
            names[1]: self.texts(second, second_column),
            "score": scores,
        }

    def sought(self, model: Any, count: int = 40, **options: Any) -> float:
        """Return how well the second column's texts are retrieved, of rows not in training."""
        return retrieval(model, dict(list(self.table(count, seed=11).items())[:2]), **options)

    def _words(self, row: tuple[str, ...], column: int) -> dict[str, str]:
        words = {}
        for name, entry in zip(self.slots, row, strict=True):
            wordings = entry.split("/")
            words[name] = wordings[min(column, len(wordings) - 1)].replace("_", " ")
        return words


KITCHEN = Field(
    {
        "dish": "stew/casserole soup/broth cake/gateau bread/loaf pie/tart noodles/ramen "
        "pancake/crepe dumpling/gnocchi curry/masala salad/slaw rice/pilaf omelette/frittata",
        "taste": "hot/chilli sweet/honey sour/lemon salty/anchovy bitter/cocoa smoky/paprika "
        "nutty/almond fresh/mint creamy/butter earthy/mushroom",
        "guest": "children/kids grandparents/elderly students/dormitory neighbours/street "
        "colleagues/office campers/tent athletes/team",
    },
    {
        "anchor": "what {taste} {dish} can i cook for {guest}",
        "positive": "this {dish} with {taste} serves the {guest} well : chop , stir and bake it",
    },
)
HELPDESK = Field(
    {
        "trouble": "crashes/closes freezes/hangs flickers/blinks overheats/fan beeps/sound "
        "restarts/reboots disconnects/offline stutters/lag",
        "device": "laptop/notebook phone/handset printer/inkjet router/gateway screen/monitor "
        "tablet/slate scanner/feeder camera/webcam headset/earpiece",
        "moment": "update/patch lunch/noon login/password install/setup video/stream "
        "charging/battery copying/transfer printing/paper",
    },
    {
        "question": "my {device} {trouble} after {moment} help",
        "answer": "if the {device} shows {trouble} , look at the {moment} settings and reset them",
    },
)
TRAVEL = Field(
    {
        "town": "vienna/wien cologne/koeln munich/muenchen nuremberg/nuernberg zurich/zuerich "
        "geneva/genf prague/prag warsaw/warschau milan/mailand rome/rom",
        "means": "train/zug ship/schiff plane/flugzeug bicycle/fahrrad car/auto coach/reisebus",
        "time": "morning/morgen evening/abend summer/sommer winter/winters sunday/sonntag "
        "today/heute spring/fruehling",
        "mate": "dog/hund sister/schwester friend/freund uncle/onkel baby/saeugling boss/chefin",
    },
    {
        "english": "in the {time} i travel to {town} by {means} with my {mate}",
        "german": "ich reise {time} mit {mate} per {means} nach {town}",
    },
)
CODE = Field(
    {
        "verb": "sort/order count/len merge/join split/partition filter/select reverse/flip "
        "flatten/chain shuffle/permute",
        "noun": "list/array words/str rows/frame files/path dates/datetime users/account "
        "pixels/image prices/decimal",
        "by": "size/nbytes name/key age/years colour/rgb weight/grams score/rank",
    },
    {
        "description": "{verb} the {noun} by their {by}",
        "code": "def f ( x : {noun} ) : return {verb} ( x , by = {by} )",
    },
)
PAPERS = Field(
    {
        "method": "bayesian/posterior neural/gradient quantum/qubit genetic/mutation "
        "fuzzy/membership spectral/eigenvalue robust/outlier sparse/lasso",
        "object": "glaciers/ice proteins/amino markets/equity bridges/steel galaxies/redshift "
        "forests/canopy traffic/lanes tumours/oncology",
        "task": "forecasting/horizon clustering/groups control/feedback imaging/contrast "
        "sampling/draws ranking/order",
    },
    {
        "title": "{method} {task} of {object}",
        "abstract": "we study a long standing question of {object} in the field . earlier work "
        "was limited by its cost . here a {method} approach is put forward that needs less data "
        "and comes with guarantees . results on {task} show clear gains over strong baselines , "
        "and code is released .",
    },
)
SHOP = Field(
    {
        "ware": "boots/footwear jacket/outerwear kettle/appliance lamp/lighting desk/furniture "
        "drill/tool tent/outdoor violin/instrument sofa/couch bike/cycle",
        "colour": "red/crimson blue/navy green/olive black/ebony white/ivory pink/rose "
        "brown/hazel grey/ash",
        "buyer": "men/gents women/ladies kids/junior pros/expert beginners/starter",
    },
    {"query": "{colour} {ware} {buyer}", "product": "{buyer} {ware} , {colour} , in stock"},
)
SCENES = Field(
    {
        "who": "man/guy woman/lady boy/lad girl/daughter dog/puppy crowd/people",
        "does": "sleeps/naps runs/jogs eats/dines sings/chants reads/studies swims/dives "
        "jumps/leaps",
        "where": "park/garden kitchen/stove beach/sand street/road station/platform hall/indoors",
    },
    {
        "premise": "a {who} {does} near the {where} while it is getting late",
        "hypothesis": "a {who} {does} at the {where}",
    },
)
CLINIC = Field(
    {
        "sign": "cough/tussis fever/pyrexia rash/exanthem headache/cephalgia nausea/emesis "
        "fatigue/asthenia dizziness/vertigo itching/pruritus",
        "span": "days/acute weeks/subacute months/chronic years/longstanding hours/sudden",
        "patient": "infant/neonate teenager/adolescent mother/maternal farmer/agricultural "
        "nurse/staff pensioner/geriatric pilot/aviation",
    },
    {
        "complaint": "{patient} with {sign} for {span}",
        "record": "{span} {sign} in a {patient} patient , examined and sent home",
    },
)

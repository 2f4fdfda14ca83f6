"""Trades whose people write each text in a manner of their own: several wordings for each row."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.judgement.first.bodies import encoder
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval


@dataclass(frozen=True)
class Trade:
    """Rows of a trade, and how each column may word them.

    Attributes:
        slots: entries of each slot, a wording for each column with slashes between them.
        columns: templates of each column, of which a row takes any.
    """

    slots: Mapping[str, str]
    columns: Mapping[str, Sequence[str]]

    def rows(self, count: int, seed: int = 0) -> list[tuple[str, ...]]:
        """Different rows in any order; those of odd seeds are never rows of even seeds."""
        products = itertools.product(*(entries.split() for entries in self.slots.values()))
        selected = [row for row in products if self.is_odd(row) == (seed % 2 == 1)]
        assert 2 * count <= len(selected), f"only {len(selected)} rows"
        return random.Random(seed).sample(selected, count)

    @staticmethod
    def is_odd(row: tuple[str, ...]) -> bool:
        """Whether a row belongs to the third of all rows that odd seeds draw from."""
        return zlib.crc32(" ".join(row).encode()) % 3 == 0

    def text(self, row: tuple[str, ...], column: int) -> str:
        """A row in the words of a column."""
        templates = list(self.columns.values())[column]
        chosen = templates[zlib.crc32(f"{column} {' '.join(row)}".encode()) % len(templates)]
        words = {}
        for name, entry in zip(self.slots, row, strict=True):
            wordings = entry.split("/")
            words[name] = wordings[min(column, len(wordings) - 1)].replace("_", " ")
        return chosen.format(**words)

    def table(self, count: int, seed: int = 0) -> dict[str, list[str]]:
        """All columns."""
        drawn = self.rows(count, seed)
        return {name: [self.text(row, at) for row in drawn]
                for at, name in enumerate(self.columns)}  # fmt: skip

    def pairs(self, count: int, seed: int = 0) -> dict[str, list[str]]:
        """The first two columns."""
        return dict(list(self.table(count, seed).items())[:2])

    def changed(
        self, row: tuple[str, ...], slots: Sequence[int], draw: random.Random
    ) -> tuple[str, ...]:
        """A row with other entries in some slots."""
        lists = [entries.split() for entries in self.slots.values()]
        return tuple(
            draw.choice([candidate for candidate in lists[at] if candidate != entry])
            if at in slots
            else entry
            for at, entry in enumerate(row)
        )

    def altered(
        self,
        row: tuple[str, ...],
        slots: Sequence[int],
        draw: random.Random,
        used: set[tuple[str, ...]],
    ) -> tuple[str, ...]:
        """A changed row of the same seeds that is not yet used, and note that it is."""
        altered = row
        for _ in range(200 if slots else 0):
            altered = self.changed(row, slots, draw)
            if altered not in used and self.is_odd(altered) == self.is_odd(row):
                break
        used.add(altered)
        return altered

    def negatives(self, count: int, seed: int = 0, *, changes: int = 1) -> list[str]:
        """Texts of the second column that differ from the row's in some of its slots."""
        draw, drawn = random.Random(seed + 77 + changes), self.rows(count, seed)
        used = set(drawn)
        return [
            self.text(self.altered(row, draw.sample(range(len(row)), changes), draw, used), 1)
            for row in drawn
        ]

    def triplets(self, count: int, seed: int = 0, *, changes: int = 1) -> dict[str, list[str]]:
        """Pairs with a hard negative each."""
        return self.pairs(count, seed) | {"negative": self.negatives(count, seed, changes=changes)}

    def rated(self, count: int, seed: int = 0, most: float = 1.0) -> dict[str, list[Any]]:
        """Pairs with the mean of raters' scores of how much the two have in common."""
        draw = random.Random(seed + 31)
        table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
        drawn = self.rows(count, seed)
        used = set(drawn)
        for row in drawn:
            slots = draw.sample(range(len(row)), draw.randint(0, len(row)))
            share = 1 - len(slots) / len(row)
            table["sentence1"].append(self.text(row, 0))
            table["sentence2"].append(self.text(self.altered(row, slots, draw, used), 1))
            mean = share + draw.uniform(-0.08, 0.08)
            table["score"].append(round(most * min(1.0, max(0.0, mean)), 2))
        return table

    def judged(self, count: int, seed: int = 0) -> dict[str, list[Any]]:
        """Pairs with a label: 1 where both are of one row, 0 where they differ in some slots."""
        draw = random.Random(seed + 53)
        table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "label": []}
        drawn = self.rows(count, seed)
        used = set(drawn)
        for row in drawn:
            label = draw.randint(0, 1)
            slots = draw.sample(range(len(row)), draw.randint(1, len(row)))
            second = row if label else self.altered(row, slots, draw, used)
            table["sentence1"].append(self.text(row, 0))
            table["sentence2"].append(self.text(second, 1))
            table["label"].append(label)
        return table

    def words(self) -> list[str]:
        """All words that its texts may have."""
        entries = " ".join(self.slots.values()).replace("/", " ").replace("_", " ")
        return [entries, *(text for texts in self.columns.values() for text in texts)]

    def encoder(self, stage: Stage, *behind: Any, texts: Sequence[str] = (), **options: Any) -> Any:
        """A small encoder that knows the words of this trade, and those of ``texts``."""
        return encoder(stage, [*self.words(), *texts], *behind, **options)

    def sought(self, model: Any, **options: Any) -> float:
        """How well texts of the second column are retrieved, of rows not in training."""
        return retrieval(model, self.pairs(80, seed=11), **options)

    def correlated(self, model: Any) -> float:
        """The rank correlation of cosines and ratings of rows not in training."""
        return correlation(model, self.rated(150, seed=11))


GARDEN = Trade(
    {
        "plant": "roses/rosa tomatoes/lycopersicum lavender/lavandula potatoes/solanum "
        "maples/acer oaks/quercus onions/allium sunflowers/helianthus beans/phaseolus",
        "harm": "aphids/lice mildew/fungus yellowing/chlorosis wilting/drooping slugs/snails "
        "frost/cold scorch/sunburn",
        "place": "balcony/container greenhouse/glasshouse slope/hillside clay/loam sand/gravel "
        "shade/north courtyard/patio",
        "season": "april/spring july/midsummer september/autumn january/winter",
    },
    {
        "anchor": (
            "{harm} on my {plant} in {season} , they grow on a {place}",
            "how do i save {plant} from {harm} ? it is {season} and i have a {place}",
            "{plant} {place} {harm} {season}",
        ),
        "positive": (
            "for {plant} kept in {place} , treat {harm} during {season} with soap and patience",
            "{harm} is common in {season} . growers of {plant} ( {place} ) cut back the stems",
        ),
    },
)
JOBS = Trade(
    {
        "post": "nurse/caregiver welder/metalworker cook/chef lawyer/solicitor driver/haulier "
        "teacher/educator plumber/pipefitter analyst/statistician",
        "skill": "spanish/hispanic excel/spreadsheets teamwork/cooperation leadership/management "
        "safety/protection sales/selling planning/scheduling",
        "town": "lyon/rhone porto/douro gdansk/baltic turin/piedmont leeds/yorkshire "
        "bergen/fjord bilbao/basque",
        "shift": "nights/overnight weekends/saturdays mornings/early parttime/half "
        "freelance/contract",
    },
    {
        "advert": (
            "wanted : {post} in {town} , {shift} , {skill} a must",
            "our team in {town} seeks a {post} with {skill} for {shift}",
        ),
        "resume": (
            "{post} for six years . i bring {skill} , like to work {shift} and live in {town}",
            "i am a trained {post} from {town} . {skill} . free for {shift}",
            "{town} | {post} | {skill} | {shift}",
        ),
    },
)
MUSEUM = Trade(
    {
        "ware": "vase/amphora coin/denarius sword/blade mask/visage statue/figure ring/jewel "
        "scroll/papyrus bowl/dish shield/armour",
        "stuff": "gold/aurum clay/ceramic marble/stone iron/ferrous ivory/tusk glass/vitreous "
        "bronze/alloy",
        "people": "romans/latium vikings/norse greeks/hellenic aztecs/mexica persians/iran "
        "celts/gaul egyptians/nile",
        "state": "broken/fragment whole/intact painted/pigment rusty/corroded burnt/charred",
    },
    {
        "query": ("{state} {stuff} {ware} {people}", "{ware} of the {people} , {stuff} , {state}"),
        "notice": (
            "this {ware} came to us from a private collection . {people} work , {stuff} , {state} "
            "when found",
            "{people} . {ware} , {stuff} ; {state} . gift of the society of friends",
        ),
    },
)
SQL = Trade(
    {
        "want": "count/count(*) average/avg(amount) highest/max(amount) lowest/min(amount) "
        "total/sum(amount) list/*",
        "of": "orders/sales_tbl customers/cust_tbl flights/flt_tbl patients/pat_tbl books/lib_tbl "
        "students/stud_tbl hotels/htl_tbl loans/loan_tbl",
        "by": "country/land_id month/mon_no age/years city/town_id colour/col_id type/kind_no",
        "when": "recent/date>2020 old/date<2000 open/state=1 closed/state=0 large/size>100 "
        "foreign/origin<>1",
    },
    {
        "question": (
            "give me the {want} of {when} {of} for each {by}",
            "{when} {of} : {want} per {by} please",
            "what is the {want} by {by} among {when} {of} ?",
        ),
        "statement": (
            "select {by} , {want} from {of} where {when} group by {by} ;",
            "with t as ( select * from {of} where {when} ) select {want} , {by} from t group by "
            "{by} ;",
        ),
    },
)
PHARMACY = Trade(
    {
        "drug": "aspirin/acetylsalicylic paracetamol/acetaminophen insulin/humalog "
        "penicillin/antibiotic cortisone/steroid codeine/opioid statin/lipitor heparin/clexane",
        "who": "pregnancy/expectant children/paediatric elders/older drivers/vehicles "
        "diabetics/sugar athletes/doping allergics/hypersensitive",
        "effect": "drowsy/somnolence bleeding/haemorrhage vomiting/emesis rash/urticaria "
        "swelling/oedema insomnia/sleepless",
        "form": "tablet/oral syrup/liquid injection/syringe cream/topical drops/dropper",
    },
    {
        "anchor": (
            "can {drug} {form} cause {effect} in {who} ?",
            "{effect} after {drug} ( {form} ) , {who}",
        ),
        "positive": (
            "{drug} {form} : {effect} was reported in {who} , ask your pharmacist first",
            "warning for {who} . {effect} may follow {form} use of {drug} in rare cases",
        ),
    },
)
PHRASES = Trade(
    {
        "who": "brother/frere neighbour/voisin queen/reine child/enfant soldier/soldat "
        "widow/veuve butcher/boucher",
        "act": "buys/achete sells/vend steals/vole paints/peint loses/perd breaks/casse "
        "hides/cache",
        "item": "horse/cheval table/meuble mirror/miroir knife/couteau hat/chapeau "
        "boat/bateau cheese/fromage lamp/lampe",
        "place": "bridge/pont church/eglise market/marche forest/foret harbour/port",
    },
    {
        "english": (
            "the {who} {act} a {item} at the {place}",
            "at the {place} , the {who} {act} a {item}",
        ),
        "french": (
            "le {who} {act} un {item} pres du {place}",
            "pres du {place} , le {who} {act} un {item}",
        ),
    },
)

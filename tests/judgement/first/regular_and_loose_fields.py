"""Fields of texts of twelve worlds, some irregular, and tables that are drawn from them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval


@dataclass(frozen=True)
class Rambling(Field):
    """A field of which one column has up to ``most`` sentences beside the one that matters."""

    asides: Sequence[str] = ()
    most: int = 3
    wordy: int = 1

    def texts(self, rows: Sequence[tuple[str, ...]], column: int) -> list[str]:
        texts = super().texts(rows, column)
        if column != self.wordy:
            return texts
        return [self._rambled(text, row) for text, row in zip(texts, rows, strict=True)]

    def _rambled(self, text: str, row: tuple[str, ...]) -> str:
        draw = random.Random(" ".join(row))
        sentences = [text, *draw.sample(list(self.asides), draw.randint(0, self.most))]
        draw.shuffle(sentences)
        return " ".join(sentences)


REACTIONS = Field(
    {
        "acid": "hcl/hydrochloric h2so4/sulfuric hno3/nitric h3po4/phosphoric hcooh/formic "
        "ch3cooh/acetic hf/hydrofluoric hbr/hydrobromic",
        "metal": "zn/zinc fe/iron mg/magnesium al/aluminium cu/copper ni/nickel sn/tin "
        "ca/calcium co/cobalt",
        "condition": "298k/cold 373k/boiling 1atm/open 5atm/pressurised pt/catalysed "
        "hv/irradiated ph4/buffered",
        "dose": "excess/surplus dilute/weak trace/little",
    },
    {
        "equation": "{metal} + {acid} -> salt + h2 ( {condition} , {dose} )",
        "procedure": "{metal} turnings are stirred in {dose} {acid} acid under {condition} "
        "conditions",
    },
)
MAILS = Rambling(
    {
        "matter": "invoice/payment meeting/appointment contract/signature travel/flights "
        "budget/figures server/outage training/course office/keys survey/questions",
        "client": "acme/acme globex/globex initech/initech umbrella/umbrella hooli/hooli "
        "stark/stark wonka/wonka tyrell/tyrell",
        "state": "overdue/late cancelled/off confirmed/fixed moved/postponed urgent/soon "
        "missing/lost approved/signed",
    },
    {
        "subject": "re : {client} {matter} {state}",
        "body": "about the {matter} of {client} : it is {state} as of today .",
    },
    asides=(
        "hope you are well .", "i am out of the office on friday .", "see the file below .",
        "please do not print this mail .", "sent from my phone", "thanks a lot and best wishes .",
        "> on monday you wrote : > could you check > regards",
    ),
    most=4,
)  # fmt: skip
QUERIES = Field(
    {
        "measure": "average/avg total/sum highest/max lowest/min number/count",
        "field": "price/amount age/years weight/kg length/cm salary/wage delay/minutes "
        "rating/stars",
        "source": "orders/tbl_order staff/tbl_emp parcels/tbl_parcel flights/tbl_flight "
        "books/tbl_book hotels/tbl_hotel patients/tbl_pat",
        "group": "month/mon country/iso3 customer/cust_id branch/branch_no",
    },
    {
        "question": "{measure} {field} of {source} for each {group} ?",
        "sql": "select {group} , {measure} ( {field} ) from {source} group by {group} ;",
    },
)
ANIMALS = Field(
    {
        "animal": "cat/кошка/γάτα dog/собака/σκύλος horse/лошадь/άλογο bird/птица/πουλί "
        "fish/рыба/ψάρι wolf/волк/λύκος bear/медведь/αρκούδα fox/лиса/αλεπού",
        "action": "sees/видит/βλέπει eats/ест/τρώει loves/любит/αγαπά finds/находит/βρίσκει "
        "carries/несёт/κουβαλά hides/прячет/κρύβει smells/нюхает/μυρίζει",
        "object": "bread/хлеб/ψωμί stone/камень/πέτρα apple/яблоко/μήλο water/воду/νερό "
        "flower/цветок/λουλούδι letter/письмо/γράμμα ball/мяч/μπάλα key/ключ/κλειδί",
    },
    {
        "english": "the {animal} {action} the {object} every day",
        "russian": "{animal} каждый день {action} {object}",
        "greek": "κάθε μέρα η {animal} {action} το {object}",
    },
)
SUMS = Field(
    {
        "first": "two/2 five/5 eleven/11 fourteen/14 thirty/30 forty/40 seventy/70 ninety/90 "
        "hundred/100",
        "sign": "plus/+ minus/- times/* over/÷ modulo/%",
        "second": "three/3 six/6 seven/7 eight/8 twelve/12 sixteen/16 nineteen/19 sixty/60",
        "base": "decimal/b10 binary/b2 octal/b8 hexadecimal/b16",
    },
    {"words": "{first} {sign} {second} in {base}", "digits": "{base} : {first} {sign} {second} ="},
)
VACANCIES = Rambling(
    {
        "trade": "welder/welding nurse/nursing baker/baking driver/driving teacher/teaching "
        "lawyer/law cook/cooking tailor/sewing gardener/gardening",
        "city": "leeds/yorkshire lyon/rhone porto/douro turin/piedmont ghent/flanders "
        "basel/rhine bergen/fjord graz/styria",
        "form": "nights/shift weekends/saturdays remote/home seasonal/summer permanent/unlimited "
        "apprentice/trainee",
        "level": "junior/starter senior/lead",
    },
    {
        "vacancy": "{level} {trade} wanted in {city} , {form} work",
        "resume": "i have learned {trade} in {city} and want a {form} post as {level} .",
    },
    asides=(
        "i speak three languages .", "my hobby is chess .", "references can be sent .",
        "i was born in a small village .", "team work suits me .", "i own a car .",
        "before that i took a long break to look after my family .",
    ),
)  # fmt: skip
SAGAS = Field(
    {
        "hero": "knight/sir witch/sorceress miller/grinder prince/heir thief/burglar giant/ogre "
        "smith/forger monk/friar",
        "quest": "ring/jewel crown/throne sword/blade dragon/wyrm well/spring bride/wedding "
        "map/chart",
        "land": "forest/woods desert/dunes island/shore mountain/peak swamp/marsh city/walls "
        "glacier/ice",
    },
    {
        "blurb": "a {hero} , a {quest} and the {land}",
        "chapter": "once upon a time , and it was a very long time ago , there lived a {hero} of "
        "whom it was said far and wide that nobody could hold the {hero} back . on a day like any "
        "other day the news of the {quest} came , and on that very day the {hero} set out for the "
        "{land} . for seven days and seven nights the way went on and on through the {land} , and "
        "at the end of the end there was the {quest}",
    },
)
METERS = Field(
    {
        "sensor": "t1 t2 t3 p1 p2 h1 h2 v1",
        "level": "low/21 nominal/50 high/87 zero/0 peak/99 negative/-5 odd/nan",
        "plant": "kiln/k boiler/b pump/p turbine/t silo/s crusher/c dryer/d",
        "hour": "dawn/04h noon/12h dusk/19h midnight/00h",
    },
    {
        "note": "{plant} sensor {sensor} {level} at {hour}",
        "record": "{hour} {plant} {sensor} {level}",
    },
)
MATCHES = Rambling(
    {
        "club": "rovers/blues united/reds city/whites albion/seagulls county/magpies "
        "wanderers/wolves athletic/lions rangers/bears",
        "sport": "football/goal hockey/puck rugby/try tennis/set cricket/wicket chess/mate "
        "rowing/boat polo/chukka",
        "result": "won/victory lost/defeat drew/tie led/ahead fainted/collapse protested/appeal",
        "day": "monday/mon friday/fri sunday/sun",
    },
    {
        "headline": "{club} {result} at {sport} on {day}",
        "report": "{day} : a {result} for the {club} , who played {sport} until the last {sport} .",
    },
    asides=(
        "it rained .", "the crowd sang for an hour and went home late .", "no cards .",
        "a dog ran over the field , which delayed the start by a quarter of an hour .",
        "the trainer did not comment .", "tickets were sold out .",
    ),
    most=5,
)  # fmt: skip
HAIKU = Field(
    {
        "season": "spring/haru summer/natsu autumn/aki winter/fuyu",
        "sign": "frog/kaeru moon/tsuki snow/yuki pine/matsu crane/tsuru plum/ume rain/ame "
        "temple/tera",
        "mood": "lonely/sabishii quiet/shizuka bright/akarui cold/samui old/furui small/chiisai",
        "sound": "splash/oto bell/kane song/uta wind/kaze",
    },
    {"english": "{season} {sign} , {mood} {sound}", "romaji": "{mood} {sign} no {sound} {season}"},
)
FLAWS = Field(
    {
        "kind": "overflow/cwe190 injection/cwe89 leak/cwe401 race/cwe362 traversal/cwe22 "
        "spoofing/cwe290 deadlock/cwe833",
        "software": "kernel/linux browser/gecko database/pg mailer/exim shell/bash proxy/squid "
        "archive/zip editor/vim",
        "effect": "crash/dos root/privesc exfiltration/disclosure execution/rce bypass/acl "
        "corruption/integrity",
        "reach": "remote/network local/console adjacent/lan",
    },
    {
        "advisory": "{reach} {kind} in the {software} allows {effect}",
        "ticket": "sec {software} {kind} {effect} {reach} fix asap",
    },
)
PLANTS = Rambling(
    {
        "plant": "rose/rosa oak/quercus lily/lilium fern/pteris mint/mentha pine/pinus "
        "thyme/thymus maple/acer orchid/vanda",
        "ill": "mildew/fungus aphids/insects rot/decay frost/freezing drought/dryness "
        "rust/spots scab/crust",
        "place": "balcony/pot meadow/grass greenhouse/glass hedge/border pond/bank attic/sill",
        "month": "april/spring october/autumn january/winter",
    },
    {
        "complaint": "my {plant} on the {place} has {ill} in {month} what now",
        "advice": "for {plant} with {ill} in a {place} cut back in {month} and wait .",
    },
    asides=(
        "patience helps .", "water in the evening .", "never use salt .",
        "ask a neighbour who has an old garden .", "some leaves will fall and that is fine .",
    ),
    wordy=0,
)  # fmt: skip


def words(*fields: Field) -> list[str]:
    """All words that occur in fields."""
    texts: list[str] = []
    for field in fields:
        texts += [entries.replace("/", " ").replace("_", " ") for entries in field.slots.values()]
        texts += [entries.replace("/", " ") for entries in field.slots.values()]
        texts += [w for text in field.columns.values() for w in text.split() if "{" not in w]
        texts += list(getattr(field, "asides", ()))
    return texts


def student(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """A fresh encoder for the words of a field."""
    return encoder(stage, words(field), *behind, **options)


def triples(field: Field, count: int = 192, seed: int = 0, slot: int = 0) -> dict[str, list[str]]:
    """The first two columns and a hard negative, which differs from the positive in a slot."""
    table = dict(list(field.table(count, seed).items())[:2])
    return table | {"negative": field.near(count, seed, slot=slot)}


def far_triples(field: Field, count: int = 192, seed: int = 0) -> dict[str, list[str]]:
    """The first two columns and the second text of another row."""
    first, second = list(field.table(count, seed).items())[:2]
    return dict([first, second]) | {"negative": second[1][1:] + second[1][:1]}


def judged_pairs(
    field: Field, count: int = 240, seed: int = 0, *, far: bool = False
) -> dict[str, list[Any]]:
    """Pairs that go together (1) and pairs that differ in a slot, or ``far`` ones (0)."""
    first, second = list(field.table(count, seed).values())[:2]
    wrong = [field.near(count, seed, slot=slot) for slot in range(len(field.slots))]
    if far:
        wrong = [second[1:] + second[:1]]
    draw = random.Random(seed)
    labels = [draw.randint(0, 1) for _ in range(count)]
    seconds = [second[at] if labels[at] else draw.choice(wrong)[at] for at in range(count)]
    return {"sentence1": first, "sentence2": seconds, "label": labels}


def relations(field: Field, count: int = 270, seed: int = 0) -> dict[str, list[Any]]:
    """Premises with hypotheses that follow (0), differ in a slot (1) or share one slot only (2)."""
    draw, rows = random.Random(seed), field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    hypotheses, labels = [], []
    for row in rows:
        label = draw.randrange(3)
        changes = draw.sample(range(len(row)), (0, 1, len(row) - 1)[label])
        hypotheses.append(tuple(
            draw.choice([e for e in lists[at] if e != entry]) if at in changes else entry
            for at, entry in enumerate(row)
        ))  # fmt: skip
        labels.append(label)
    return {
        "premise": field.texts(rows, 0), "hypothesis": field.texts(hypotheses, 1), "label": labels,
    }  # fmt: skip


def families(
    field: Field, classes: int = 24, of_each: int = 8, seed: int = 0, slots: int = 2
) -> dict[str, list[Any]]:
    """Texts with their class: texts of a class agree in the first slots, and differ in the rest."""
    draw, heads = random.Random(seed), dict[tuple[str, ...], None]()
    assert classes <= 36, "fields have few classes"
    lists = [entries.split() for entries in field.slots.values()]
    while len(heads) < classes:
        head = tuple(draw.choice(entries) for entries in lists[:slots])
        if (sum(map(len, head)) % 3 == 0) == bool(seed % 2):
            heads[head] = None
    cells = []
    for label, head in enumerate(heads):
        texts = dict[str, int]()
        while len(texts) < of_each:
            row = (*head, *(draw.choice(entries) for entries in lists[slots:]))
            texts[field.texts([row], draw.randrange(2))[0]] = label
        cells += list(texts.items())
    draw.shuffle(cells)
    return {"text": [text for text, _ in cells], "label": [label for _, label in cells]}


def mixture(stage: Stage, loss: Any, tables: dict[str, Any], model: Any, **settings: Any) -> Any:
    """A trainer of several tables, each a dataset with a name of its own."""
    from datasets import Dataset

    trainer = stage.trainer(loss, next(iter(tables.values())), model, **settings)
    datasets = {name: Dataset.from_dict(table) for name, table in tables.items()}
    return type(trainer)(model=model, args=trainer.args, train_dataset=datasets, loss=loss(model))


def seeks(field: Field, count: int = 50, **options: Any) -> Callable[[Any], float]:
    """A score: how well the second column's texts are retrieved by the first's."""
    return lambda model: field.sought(model, count, **options)


def grades(field: Field) -> Callable[[Any], float]:
    """A score: the rank correlation of cosines and grades."""
    return lambda model: correlation(model, field.graded(100, seed=11))


def classmates(field: Field, classes: int = 10, slots: int = 2) -> Callable[[Any], float]:
    """A score: how well a text finds another of its class, of classes not in training."""
    table = families(field, classes, 2, seed=11, slots=slots)
    members: dict[int, list[str]] = {}
    for text, label in zip(*table.values(), strict=True):
        members.setdefault(label, []).append(text)
    first, second = zip(*members.values(), strict=True)
    return lambda model: retrieval(model, {"first": first, "second": second})

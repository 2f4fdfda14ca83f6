"""Fields of texts of the sound set-ups of this half's modules v_*, their encoders and scores."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.truth import correlation, retrieval

CHEMISTRY = Field(
    {
        "acid": "acetic/ch3cooh nitric/hno3 sulfuric/h2so4 formic/hcooh oxalic/c2h2o4 "
        "citric/c6h8o7 boric/h3bo3 lactic/c3h6o3",
        "metal": "zinc/zn copper/cu iron/fe sodium/na calcium/ca silver/ag nickel/ni",
        "warmth": "ice/0c room/20c warm/45c boiling/100c furnace/600c",
        "vessel": "beaker/250ml flask/1l crucible/porcelain tube/glass reactor/steel",
    },
    {
        "question": "what happens when {acid} acid meets {metal} in a {warmth} {vessel} ?",
        "protocol": "{vessel} ; t = {warmth} ; add {metal} (s) to {acid} (aq) ; stir , filter",
    },
)
SHELL = Field(
    {
        "action": "delete/rm copy/cp rename/mv show/cat compress/gzip archive/tar count/wc "
        "compare/diff search/grep download/curl",
        "kind": "pictures/*.png tables/*.csv scripts/*.sh pages/*.html songs/*.mp3 notes/*.txt "
        "logs/*.log",
        "place": "home/~ temporary/tmp root/slash parent/dotdot shared/mnt hidden/dotfiles",
        "extent": "quietly/-q recursively/-r forcibly/-f verbosely/-v interactively/-i",
    },
    {
        "wish": "{extent} {action} all the {kind} of the {place} directory",
        "command": "$ find {place} -name {kind} | xargs {action} {extent}",
    },
)
MAILS = Field(
    {
        "topic": "invoice/payment offer/quotation holiday/vacation contract/agreement "
        "interview/applicant server/outage conference/speakers delivery/shipping "
        "survey/feedback budget/spending",
        "urgency": "urgent/immediately reminder/again fyi/information draft/preliminary "
        "final/definitive",
        "team": "sales/selling legal/lawyers finance/accounting research/laboratory hr/personnel "
        "support/helpline",
        "day": "monday/tomorrow tuesday/soon thursday/later friday/weekend",
    },
    {
        "subject": "re: [{team}] {topic} {day} ({urgency})",
        "body": "dear all , as you may have heard from the {team} , there is news about the "
        "{topic} . please read it {urgency} and answer {day} . kind regards",
    },
)
RUSSIAN = Field(
    {
        "who": "врач/doctor учитель/teacher повар/cook рыбак/fisherman солдат/soldier "
        "певица/singer студент/student сосед/neighbour",
        "does": "читает/reads продаёт/sells ищет/seeks рисует/paints теряет/loses прячет/hides",
        "what": "книгу/book карту/map лодку/boat шляпу/hat картину/picture скрипку/violin "
        "собаку/dog",
        "where": "дома/home утром/morning зимой/winter летом/summer",
    },
    {"russian": "{where} {who} {does} {what}", "english": "the {who} {does} the {what} {where}"},
)
HINDI = Field(
    {
        "fruit": "आम/mango केला/banana सेब/apple अंगूर/grape पपीता/papaya नींबू/lime अनार/pomegranate",
        "shop": "बाज़ार/market गाँव/village शहर/city स्टेशन/station मंदिर/temple स्कूल/school",
        "sort": "ताज़ा/fresh सस्ता/cheap मीठा/sweet पका/ripe कच्चा/unripe",
        "count": "दो/2 चार/4 दस/10 बीस/20 सौ/100",
    },
    {
        "hindi": "{shop} से {count} {sort} {fruit} लाओ",
        "english": "bring {count} {sort} {fruit} from the {shop}",
    },
)
METERS = Field(
    {
        "hundreds": "one/1 two/2 three/3 four/4 five/5 six/6 seven/7 eight/8 nine/9",
        "unit": "volt/v ampere/a watt/w kelvin/k pascal/pa lux/lx hertz/hz",
        "sensor": "inlet/s01 outlet/s02 pump/s03 valve/s04 motor/s05 battery/s06 roof/s07",
        "state": "rising/+ falling/- steady/= alarm/!",
    },
    {
        "sentence": "the {sensor} is at {hundreds} hundred {unit} and {state}",
        "record": "{sensor} | {hundreds} 0 0 {unit} | {state} | crc ok",
    },
)
BIRDS = Field(
    {
        "bird": "heron/ardea kestrel/falco robin/erithacus magpie/pica swift/apus "
        "wren/troglodytes raven/corvus stork/ciconia plover/charadrius",
        "act": "nesting/eggs feeding/prey calling/song resting/roost moulting/plumage "
        "flying/soaring",
        "site": "marsh/reeds cliff/rocks orchard/trees rooftop/chimney estuary/tide hedge/thorns",
        "month": "april/spring july/summer october/autumn january/winter",
    },
    {"sighting": "{bird} {act} {site} {month}", "entry": "{month} {site} : {bird} ( {act} )"},
)
MUSEUM = Field(
    {
        "object": "vase/pottery sword/weapon mask/ritual coin/currency statue/sculpture "
        "carpet/textile lute/instrument manuscript/parchment clock/timepiece",
        "stuff": "bronze/alloy ivory/tusk silver/metal oak/timber glass/blown jade/gemstone "
        "clay/earthenware",
        "land": "persia/iran egypt/nile japan/edo mexico/aztec ghana/ashanti norway/viking",
        "age": "ancient/antiquity medieval/middle_ages baroque/seventeenth modern/twentieth",
    },
    {
        "visitor": "where do i see the {age} {stuff} {object} from {land}",
        "card": "please do not touch . please do not touch . {object} , {stuff} . it came from "
        "{land} and dates from the {age} period . gift of a friend of the house . please do not "
        "touch",
    },
)
PATENTS = Field(
    {
        "device": "pump/impeller hinge/pivot antenna/dipole filter/membrane battery/anode "
        "brake/caliper lens/optics gear/sprocket",
        "use": "aircraft/wing ship/hull surgery/scalpel farming/plough mining/drill "
        "printing/ink kitchen/oven",
        "virtue": "lighter/mass quieter/noise cheaper/cost safer/hazard faster/speed stronger/load",
    },
    {
        "claim": "a {virtue} {device} for {use}",
        "description": "the invention concerns a {device} . the {device} is used in {use} . "
        "earlier {device} designs had a drawback as to {virtue} . here the {virtue} is improved",
    },
)
TENNIS = Field(
    {
        "player": "ana/garcia bo/lind carla/rossi dan/cohen eva/novak "
        "finn/olsen gita/rao hugo/roux",
        "foe": "iris/berg jon/dahl kim/park lea/weiss max/stone nora/falk otto/brandt pia/sand",
        "round": "final/trophy semifinal/four qualifier/entry opener/first_round",
        "court": "grass/lawn clay/sand hard/acrylic indoor/hall",
    },
    {
        "ticker": "{player} d. {foe} {round} {court}",
        "news": "{player} beat {foe} on {court} , {round}",
    },
)

_NOISE = ["eh", "hm", "well", "okay", "so", "yes", "actually", "anyhow", "um", "right"]
_ISSUES = [
    "lift/elevator",
    "heating/radiator",
    "roof/tiles",
    "stairs/steps",
    "cellar/basement",
    "garden/lawn",
    "window/pane",
    "door/lock",
    "mailbox/letters",
    "garage/parking",
    "balcony/railing",
    "kitchen/sink",
]
_STATES = ["broken/repair", "dirty/clean", "loud/noise", "cold/warm", "wet/leak", "dark/light"]


def calls(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Calls of tenants, of one to four complaints between noise, and the notes about them."""
    draw, drawn = random.Random(seed), set[tuple[str, ...]]()
    table: dict[str, list[str]] = {"call": [], "note": []}
    while len(drawn) < count:
        issues = draw.sample(_ISSUES, draw.randint(1, 4))
        row = tuple(f"{issue} {draw.choice(_STATES)}" for issue in issues)
        if (sum(map(len, row)) % 4 == 0) != (seed % 2 == 1) or tuple(sorted(row)) in drawn:
            continue
        drawn.add(tuple(sorted(row)))
        words = [[word.split("/") for word in complaint.split()] for complaint in row]
        spoken = [
            " ".join(draw.choices(_NOISE, k=draw.randint(0, 4))) + f" the {a[0]} is {b[0]} ."
            for a, b in words
        ]
        draw.shuffle(words)
        table["call"].append(" ".join(spoken).strip())
        table["note"].append(" ; ".join(f"{a[1]} : {b[1]}" for a, b in words))
    return table


def words_of_field(field: Field) -> list[str]:
    """All wordings and templates of a field, as texts for a tokenizer."""
    entries = " ".join(field.slots.values()).replace("/", " ").replace("_", " ")
    blank = {name: "" for name in field.slots}
    templates = [template.format(**blank) for template in field.columns.values()]
    # Words that touch a mark in a template are words of their own.
    return [entries, *templates, *(text for at in range(len(field.columns))
                                  for text in field.texts(_covering(field), at))]  # fmt: skip


def _covering(field: Field) -> list[tuple[str, ...]]:
    lists = [entries.split() for entries in field.slots.values()]
    longest = max(map(len, lists))
    return [tuple(entries[at % len(entries)] for entries in lists) for at in range(longest)]


def fresh(stage: Any, field: Field, *behind: Any, words: Sequence[str] = (), **options: Any) -> Any:
    """An encoder that knows the words of a field."""
    return encoder(stage, [*words_of_field(field), *words], *behind, **options)


def seeker(field: Field, count: int = 60) -> Callable[[Any], float]:
    """The retrieval of rows of a field that are not in training, as a score."""
    return lambda model: field.sought(model, count)


def grader(field: Field, count: int = 60) -> Callable[[Any], float]:
    """The rank correlation with the grades of rows that are not in training, as a score."""
    table = field.graded(count, seed=11)
    return lambda model: correlation(model, table)


def near_texts(
    field: Field, count: int, slot: int | None = None, seed: int = 0
) -> list[str]:  # fmt: skip
    """Texts of the second column with another entry in a slot; no row of the table reads so.

    Without ``slot``, each row draws the slot in which its text differs.
    """
    draw, rows = random.Random(seed + 3000), field.draws(count, seed)
    lists, taken = [entries.split() for entries in field.slots.values()], set(rows)
    texts = []
    for row in rows:
        order = draw.sample(range(len(row)), len(row)) if slot is None else [slot]
        changes = next(free for at in order if (free := [
            change for entry in lists[at]
            if (change := (*row[:at], entry, *row[at + 1 :])) not in taken
        ]))  # fmt: skip
        texts += field.texts([draw.choice(changes)], 1)
    return texts


def with_near(
    field: Field, count: int, slot: int | None = None, seed: int = 0
) -> dict[str, list[str]]:  # fmt: skip
    """Pairs with a hard negative, which differs in one slot."""
    return {**field.table(count, seed), "negative": near_texts(field, count, slot, seed)}


def labelled(field: Field, slot: int, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Texts of either column, labelled by their entry of a slot."""
    rows = field.draws(count, seed)
    entries = list(field.slots.values())[slot].split()
    texts = [field.texts([row], at % 2)[0] for at, row in enumerate(rows)]
    return {"text": texts, "label": [entries.index(row[slot]) for row in rows]}


def purity(field: Field, slot: int, count: int = 60) -> Callable[[Any], float]:
    """The mean share of a text's five nearest texts that have its class, as a score."""
    table = labelled(field, slot, count, seed=11)
    labels = np.array(table["label"])

    def score(model: Any) -> float:
        rows = model.encode(table["text"], show_progress_bar=False, normalize_embeddings=True)
        cosines = rows @ rows.T - 2 * np.eye(len(rows))
        nearest = np.argsort(-cosines, axis=1)[:, :5]
        return float((labels[nearest] == labels[:, None]).mean())

    return score


def judged_pairs(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs with label 1 where the second text belongs to the first; of the others, with label 0,
    one half differs in a slot and one half is the text of another row."""
    table, near = field.table(count, seed), near_texts(field, count, seed=seed)
    (first_name, first), (second_name, texts) = table.items()
    second = [(text, near[at], text, texts[at - 5])[at % 4] for at, text in enumerate(texts)]
    return {first_name: first, second_name: second, "label": [1 - at % 2 for at in range(count)]}


def calls_sought(model: Any) -> float:
    """The retrieval of notes of calls that are not in training."""
    return retrieval(model, calls(60, seed=11))

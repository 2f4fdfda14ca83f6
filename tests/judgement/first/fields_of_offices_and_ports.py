"""Fields of texts of these set-ups, irregular tables, and what several cases share."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import embed, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval

BENCH = Field(
    {
        "substance": "ethanol/c2h6o acetone/c3h6o benzene/c6h6 toluene/c7h8 aniline/c6h7n "
        "phenol/c6h6o styrene/c8h8 glycerol/c3h8o3 urea/ch4n2o glucose/c6h12o6",
        "act": "distil/distillation dry/desiccation filter/filtration heat/reflux "
        "titrate/titration crystallise/crystals",
        "agent": "brine/nacl lye/naoh lime/cao vitriol/h2so4 ammonia/nh3 chalk/caco3 soda/na2co3",
        "vessel": "flask/round_bottom beaker/open_glass tube/sealed_ampoule column/packed_silica",
    },
    {
        "question": "how do i {act} {substance} with {agent} in a {vessel} ?",
        "protocol": "{vessel} : {substance} 2.5 mmol , {agent} excess , then {act} at 40 c",
    },
)
MAILS = Field(
    {
        "cause": "meeting/agenda invoice/payment vacation/absence contract/signature "
        "interview/candidate travel/flights budget/figures launch/release",
        "team": "sales/revenue legal/lawyers design/artwork support/hotline payroll/wages "
        "research/laboratory security/badges",
        "day": "monday/weekbegin tuesday/2nd wednesday/midweek thursday/4th friday/weekend",
        "tone": "urgent/immediately reminder/again invitation/gladly apology/sorry",
    },
    {
        "subject": "{tone} : {cause} {team} {day}",
        "body": "dear all , i am writing {tone} on behalf of the {team} . the {cause} is due on "
        "{day} . please reply to this mail if you can not make it . kind regards , the office",
    },
)
QUERIES = Field(
    {
        "sum": "average/avg total/sum largest/max smallest/min number_of/count",
        "of": "salary/wage_eur weight/mass_kg height/h_cm price/p_usd distance/d_km age/yrs",
        "who": "drivers/tbl_drv players/tbl_ply parcels/tbl_pcl flights/tbl_flt pupils/tbl_ppl "
        "patients/tbl_pat",
        "per": "city/cty_id year/yr_no team/tm_id colour/col_cd country/iso2 month/mm",
    },
    {
        "question": "{sum} {of} of {who} for every {per}",
        "query": "select {per} , {sum} ( {of} ) from {who} group by {per} ;",
    },
)
COMMITS = Field(
    {
        "deed": "fix/corrected add/introduces remove/drops rename/moved speed_up/faster "
        "document/docstring",
        "piece": "parser/parse.c cache/lru.py login/auth.go menu/nav.tsx queue/mq.rs "
        "upload/put.java theme/style.css",
        "flaw": "leak/free race/lock overflow/bounds typo/spelling crash/segv timeout/wait "
        "deadlock/mutex",
        "system": "linux/posix windows/win32 macos/darwin android/apk",
    },
    {
        "message": "{deed} {flaw} in {piece} on {system}",
        "change": "diff {piece} | # ifdef {system} | + {flaw} | - xxx | {deed}",
    },
)
RUSSIAN = Field(
    {
        "who": "девочка/girl мальчик/boy бабушка/grandmother учитель/teacher врач/doctor "
        "солдат/soldier художник/painter",
        "does": "читает/reads продаёт/sells рисует/draws теряет/loses ищет/seeks моет/washes",
        "what": "книгу/book карту/map чашку/cup лампу/lamp шапку/hat скрипку/violin лодку/boat",
        "where": "дома/home в_саду/garden на_рынке/market в_школе/school у_реки/river",
    },
    {"russian": "{who} {where} {does} {what}", "english": "the {who} {does} the {what} , {where}"},
)
KOREAN = Field(
    {
        "who": "학생이/student 친구가/friend 의사가/doctor 가수가/singer "
        "농부가/farmer 요리사가/cook",
        "when": "오늘/today 어제/yesterday 내일/tomorrow 아침에/morning 밤에/night 겨울에/winter",
        "what": "사과를/apple 편지를/letter 자전거를/bicycle 우산을/umbrella "
        "모자를/hat 물고기를/fish",
        "does": "샀다/bought 팔았다/sold 봤다/saw 찾았다/found_again 잃었다/lost 주었다/gave",
    },
    {"korean": "{when} {who} {what} {does}", "english": "{when} a {who} {does} the {what}"},
)
DIGITS = Field(
    {
        name: "0/zero 1/one 2/two 3/three 4/four 5/five 6/six 7/seven 8/eight 9/nine 10/ten"
        for name in ("x", "y", "z")
    },
    {"figures": "{x} + {y} - {z}", "spelling": "{x} plus {y} minus {z}"},
)
SKIES = Field(
    {
        "wind": "calm/00000kt breeze/09008kt gale/27035kt gusts/18015g30 storm/31050kt",
        "cloud": "clear/skc scattered/sct020 broken/bkn012 overcast/ovc004 towering/tcu few/few030",
        "sky": "rain/ra snow/sn fog/fg hail/gr drizzle/dz thunder/ts mist/br",
        "port": "oslo/engm madrid/lemd athens/lgav dublin/eidw lisbon/lppt vienna/loww",
    },
    {
        "report": "metar {port} {wind} {sky} {cloud} q1013",
        "sentence": "{wind} over {port} with {cloud} skies and {sky}",
    },
)
CHESS = Field(
    {
        "opening": "sicilian/c5 french/e6 scandinavian/d5 alekhine/nf6 pirc/d6 caro/c6",
        "piece": "queen/q rook/r bishop/b knight/n king/k pawn/p",
        "place": "corner/h1 centre/e4 edge/a5 border/h6 middle/d5 seventh/b7",
        "end": "mate/1-0 draw/½ resignation/0-1 stalemate/pat timeout/flag",
    },
    {
        "story": "a {opening} in which the {piece} reaches the {place} and it ends in {end}",
        "moves": "1. e4 {opening} 2. {piece} {place} {end}",
    },
)
CHATTER = Field(
    {
        "feel": "omg/excited ugh/annoyed lol/amused meh/bored wow/impressed aww/touched",
        "topic": "#concert/music #match/football #exam/studies #train/commute #diet/food "
        "#cat/pets #movie/cinema",
        "mate": "@mum/mother @bro/brother @boss/manager @bae/partner @prof/lecturer @doc/physician",
        "hour": "7am/dawn noon/midday 5pm/afternoon 11pm/late",
    },
    {"post": "{feel} {topic} {mate} {hour}", "paraphrase": "{hour} , {feel} , {mate} , {topic}"},
)
GENES = Field(
    {
        "gene": "tp53/guardian brca1/repair myc/growth kras/signal pten/phosphatase rb1/cycle "
        "egfr/receptor apc/wnt",
        "change": "deleted/loss duplicated/gain silenced/methylated fused/translocation "
        "truncated/nonsense inverted/flip",
        "organ": "lung/pulmonary liver/hepatic kidney/renal skin/dermal brain/cerebral "
        "bone/osseous",
        "host": "mouse/murine human/patient rat/rodent zebrafish/danio",
    },
    {
        "finding": "{gene} {change} in {host} {organ}",
        "sentence": "in {host} tissue of {organ} origin the {gene} locus shows {change} .",
    },
)
MATCHES = Field(
    {
        "home": "arsenal/gunners leeds/whites everton/toffees fulham/cottagers burnley/clarets "
        "norwich/canaries watford/hornets",
        "act": "won/victory lost/defeat drew/level abandoned/postponed",
        "hero": "keeper/gloves striker/goals winger/crosses captain/armband substitute/bench",
        "cause": "rain/wet injury/knee penalty/spot corner/header referee/whistle fog/visibility",
    },
    {
        "headline": "{home} {act} , {hero} , {cause}",
        "report": "it was a long evening for all who came . the {home} began slowly and had few "
        "chances before the break . in the second half the {cause} was what everyone spoke of . "
        "the {hero} was the best on the pitch . in the end it was a {act} , and all went home",
    },
)
FORMS = Field(
    {
        "clerk": "mayor/town_hall judge/court notary/deed registrar/birth customs/border "
        "bailiff/seizure",
        "paper": "licence/permit passport/identity certificate/proof petition/plea receipt/fee "
        "affidavit/oath",
        "state": "missing/absent expired/outdated forged/fake torn/damaged unsigned/blank",
        "wish": "renew/extension appeal/objection copy/duplicate cancel/withdrawal amend/change",
    },
    {
        "case": "form form form {paper} {state} {clerk} {wish} form form form",
        "ruling": "ruling ruling {wish} : {clerk} , {paper} , {state} ruling ruling",
    },
)
BIRDS = Field(
    {
        "bird": "robin/erithacus wren/troglodytes heron/ardea kestrel/falco swift/apus owl/strix "
        "magpie/pica lark/alauda",
        "does": "nesting/eggs singing/song hunting/prey moulting/feathers migrating/passage",
        "site": "marsh/wetland cliff/coast orchard/fruit_trees moor/heath quarry/stone",
        "sex": "male/cock female/hen juvenile/fledgling pair/couple",
    },
    {
        "note": "{sex} {bird} {does} {site}",
        "entry": "{bird} ( {sex} ) was recorded at the {site} while {does} , weather fair",
    },
)
SHELVES = Field(
    {
        "kind": "novel/fiction atlas/maps diary/memoir manual/guide anthology/poems comic/panels",
        "topic": "sailing/boats bees/honey castles/forts trains/railways opera/arias "
        "volcanoes/lava witches/magic",
        "age": "children/nursery adults/grown-ups experts/scholars",
        "look": "leather/bound paper/softcover illustrated/plates annotated/notes signed/autograph",
    },
    {
        "wish": "looking for a {look} {kind} on {topic} for {age}",
        "card": "{kind} ; {topic} ; {age} ; {look} ; shelf 12",
    },
)

_EVENTS = (
    "fire/blaze", "flood/deluge", "strike/walkout", "election/ballot", "eclipse/shadow",
    "festival/fair", "robbery/heist", "merger/takeover", "quake/tremor", "trial/verdict",
)  # fmt: skip
_TOWNS = ("lyon/rhone", "bergen/fjord", "porto/douro", "gdansk/baltic", "split/adriatic")


def briefs(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Headlines of one to four events, and articles with a sentence on each, in any order."""
    draw, rows = random.Random(seed), dict[tuple[str, ...], None]()
    while len(rows) < count:
        events = draw.sample(_EVENTS, draw.choice((1, 2, 2, 3, 3, 4)))
        row = tuple(sorted(f"{event} {draw.choice(_TOWNS)}" for event in events))
        if sum(map(len, row)) % 2 == seed % 2:
            rows[row] = None
    table: dict[str, list[str]] = {"headline": [], "article": []}
    for row in rows:
        points = [[word.split("/") for word in point.split()] for point in row]
        draw.shuffle(points)
        table["headline"].append(" , ".join(f"{event[0]} {town[0]}" for event, town in points))
        draw.shuffle(points)
        sentences = [f"near the {town[1]} a {event[1]} was seen ." for event, town in points]
        table["article"].append(" ".join(sentences))
    return table


_SIGNS = ("~", "*", "--", "...", "!!", "??", ":)", "<br>", ">>", "##")


def noised(texts: Sequence[str], seed: int = 0, most: int = 4) -> list[str]:
    """Texts with up to ``most`` signs thrown in, as of scraped pages."""
    draw, noisy = random.Random(seed), []
    for text in texts:
        words = text.split()
        for _ in range(draw.randint(0, most)):
            words.insert(draw.randint(0, len(words)), draw.choice(_SIGNS))
        noisy.append(" ".join(words))
    return noisy


def thinned(texts: Sequence[str], seed: int = 0, share: float = 0.25) -> list[str]:
    """Texts that lack a share of their words, but for one at least, in their order."""
    draw, thin = random.Random(seed), []
    for text in texts:
        words = text.split()
        stay = [word for word in words if draw.random() >= share]
        thin.append(" ".join(stay or words[:1]))
    return thin


def varied(field: Field, count: int, seed: int = 0, turn: int = 0, column: int = 1) -> list[str]:
    """Hard negatives of the rows of `Field.table`, which differ in another slot by turns.

    None is the text of another row, so that none answers another question of the table.
    """
    number, texts = len(field.slots), list[str]()
    positives = set(field.texts(field.draws(count, seed), column))
    columns = [field.near(count, seed, slot=slot, column=column) for slot in range(number)]
    for at in range(count):
        near = [columns[(at // 2 + turn + step) % number][at] for step in range(number)]
        texts.append(next((text for text in near if text not in positives), near[0]))
    return texts


def reader(
    stage: Stage, field: Field, *behind: Any, words: Sequence[str] = (), **options: Any
) -> Any:
    """A fresh encoder that knows the words of a field, and some others."""
    tables = [field.table(220), field.table(40, seed=11)]
    return encoder(stage, words_of(tables, *_SIGNS, *words), *behind, **options)


def finds_thinned(field: Field, column: int = 1, share: float = 0.4) -> Callable[[Any], float]:
    """The score of finding texts that are not in training by what is left of them."""

    def score(model: Any) -> float:
        texts = list(field.table(60, seed=11).values())[column]
        return retrieval(model, {"thin": thinned(texts, 5, share), "text": texts})

    return score


def seeks(table: Mapping[str, Sequence[str]], **options: Any) -> Callable[[Any], float]:
    """The score of finding the second column's texts by the first's."""
    return lambda model: retrieval(model, dict(list(table.items())[:2]), **options)


def classed(field: Field, slot: int, count: int, seed: int = 0, column: int = 1) -> dict[str, Any]:
    """Texts of a column with the number of their entry in a slot."""
    rows, entries = field.draws(count, seed), list(field.slots.values())[slot].split()
    return {
        "text": field.texts(rows, column),
        "label": [entries.index(row[slot]) for row in rows],
    }


def neighbours(field: Field, slot: int, *, column: int = 1) -> Callable[[Any], float]:
    """The share of texts whose nearest one, of others not in training, is of their class."""

    def score(model: Any) -> float:
        import torch

        table = classed(field, slot, 60, seed=11, column=column)
        rows = model.encode(table["text"], convert_to_tensor=True, show_progress_bar=False)
        rows = torch.nn.functional.normalize(rows.float(), dim=1)
        nearest = (rows @ rows.T).fill_diagonal_(-2).argmax(1)
        labels = torch.tensor(table["label"])
        return float((labels == labels[nearest]).float().mean())

    return score


def pair_update(
    model: Any, rows: Callable[[], list[list[Any]]], optimizer: Any, *behind: Any
) -> Callable[[Any, int], None]:
    """The step of a loop over pairs: embed both columns, take the loss, and update."""

    def update(criterion: Any, step: int) -> None:
        embeddings: list[Tensor] = [embed(model, column) for column in rows()]
        stepped(optimizer, criterion(*embeddings))
        for call in behind:
            call()

    return update

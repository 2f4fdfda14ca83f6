"""Fields of texts of module names h_*, and what their cases share: encoders, losses, loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, embed, stepped
from tests.judgement.stage import Stage

LAB = Field(
    {
        "acid": "acetic/vinegar citric/lemon nitric/aqua_fortis formic/ant lactic/milk "
        "tartaric/wine boric/borax malic/apple oxalic/sorrel",
        "metal": "copper/cu iron/fe zinc/zn silver/ag lead/pb tin/sn nickel/ni cobalt/co",
        "sign": "gas/bubbles heat/warmth colour/tint smell/odour crystals/needles foam/froth",
        "ware": "flask/erlenmeyer beaker/cup burette/tube crucible/pot",
    },
    {
        "query": "{sign} of {acid} acid on {metal} in a {ware}",
        "passage": "in the {ware} , {metal} was covered with {acid} solution ; {sign} appeared",
        "summary": "{metal} {acid} {sign} {ware}",
    },
)
COMMITS = Field(
    {
        "change": "fix/bugfix add/introduce drop/remove rename/move speed_up/optimise "
        "document/explain revert/undo test/cover",
        "module": "parser/lexer cache/store router/dispatch auth/token db/sql cli/argv "
        "queue/worker gui/widget",
        "matter": "timeout/deadline leak/memory race/lock typo/spelling flag/option "
        "index/offset encoding/utf8 limit/quota",
    },
    {
        "message": "{change} {matter} in {module}",
        "diff": "- old {module} code + {change} ( {matter} ) ; return {module}",
    },
)
MAILS = Field(
    {
        "dept": "sales/revenue legal/counsel payroll/salary facilities/building it/support "
        "travel/trips press/media research/lab",
        "request": "approve/sign_off review/look_over send/forward cancel/call_off "
        "update/refresh archive/file_away",
        "paper": "contract/agreement invoice/bill plan/roadmap report/summary badge/pass "
        "ticket/issue quote/offer",
        "day": "monday/week_start tuesday/second_day friday/week_end sunday/weekend",
    },
    {
        "subject": "{paper} : {request} by {day} ( {dept} )",
        "body": "dear all , our {dept} team kindly asks you to {request} the {paper} . please do "
        "so before {day} , since the office is closed afterwards . many thanks and best regards",
        "reply": "done , {paper} for {dept} : {request} , {day}",
    },
)
STARS = Field(
    {
        "body": "comet/tail pulsar/beat nebula/cloud quasar/jet moon/crater asteroid/rock "
        "supernova/burst galaxy/spiral dwarf/dim",
        "site": "chile/andes hawaii/volcano canary/island namibia/desert arizona/mesa "
        "greenland/icecap",
        "band": "radio/dish infrared/thermal optical/lens xray/satellite gamma/shower "
        "ultraviolet/filter",
    },
    {
        "title": "{band} view of a {body} from {site}",
        "abstract": "we report {band} data taken at {site} over several nights . the {body} was "
        "seen again and its brightness is compared with earlier catalogues and models",
    },
)
GREEK = Field(
    {
        "ζώο": "γάτα/cat σκύλος/dog άλογο/horse πουλί/bird ψάρι/fish λύκος/wolf αρκούδα/bear "
        "χελώνα/turtle",
        "χρώμα": "μαύρο/black λευκό/white κόκκινο/red πράσινο/green μπλε/blue κίτρινο/yellow",
        "τόπος": "σπίτι/house δάσος/forest θάλασσα/sea βουνό/mountain πόλη/city κήπος/garden "
        "σχολείο/school",
    },
    {
        "greek": "ένα {χρώμα} {ζώο} είναι στο {τόπος}",
        "english": "a {χρώμα} {ζώο} is at the {τόπος}",
    },
)
TAGS = Field(
    {
        "genre": "rock/guitar jazz/sax opera/aria techno/synth folk/fiddle blues/slide "
        "punk/mohawk swing/bigband",
        "tempo": "slow/lento quick/presto medium/moderato",
        "venue": "club/basement arena/stadium church/nave street/busker radio/airwaves "
        "garage/shed beach/sunset",
        "year": "1950/fifties 1960/sixties 1970/seventies 1980/eighties 1990/nineties",
    },
    {"query": "{tempo} {genre} {year} {venue}", "tags": "{venue} {year} {tempo} {genre}"},
)
METERS = Field(
    {
        "unit": "volt/v ampere/a kelvin/k pascal/pa hertz/hz lumen/lm watt/w newton/n",
        "amount": "12/twelve 20/twenty 35/thirty_five 48/forty_eight 51/fifty_one "
        "64/sixty_four 77/seventy_seven 99/ninety_nine",
        "place": "pump/p1 fan/f2 valve/v3 boiler/b4 motor/m5 chiller/c6 filter/x7",
    },
    {
        "reading": "{place} {amount} {unit}",
        "note": "operator wrote {amount} {unit} for the {place} at the change of shift",
    },
)
LAWS = Field(
    {
        "right": "privacy/data property/land speech/press vote/ballot asylum/refuge strike/union "
        "education/school patent/invention pension/retirement water/well shelter/roof",
        "party": "tenant/renter employer/firm minister/cabinet widow/heir journalist/editor "
        "farmer/grower student/pupil",
        "court": "county/local supreme/highest labour/work tax/fiscal family/custody",
    },
    {
        "question": "may a {party} claim {right} before the {court} court ?",
        "ruling": "the {court} bench held that {right} binds the {party} . costs are shared . no "
        "appeal is allowed",
        "dissent": "one judge of the {court} bench thinks that the {party} has no {right}",
    },
)
SPORT = Field(
    {
        "team": "lions/leo bears/ursa eagles/aquila sharks/fin wolves/pack bulls/horn "
        "tigers/stripe foxes/den hornets/sting ravens/beak",
        "feat": "won/victory lost/defeat drew/tie protested/complaint resigned/withdrawal "
        "celebrated/party",
        "cup": "spring/may_cup autumn/october_cup city/town_cup league/main_cup youth/junior_cup "
        "charity/benefit_cup",
    },
    {
        "headline": "{team} {feat} in {cup} cup",
        "story": "a {feat} for the {team} : the {cup} ended late in the evening before many fans",
    },
)
PLANTS = Field(
    {
        "plant": "rose/rosa oak/quercus fern/filix tulip/tulipa pine/pinus mint/mentha "
        "ivy/hedera maple/acer lily/lilium",
        "pest": "aphid/louse mildew/fungus slug/snail rust/spore weevil/beetle mite/spider",
        "cure": "soap/suds oil/neem copper/spray sand/grit birds/nestbox pruning/shears",
    },
    {
        "question": "my {plant} has {pest} , does {cure} help ?",
        "answer": "against {pest} on {plant} try {cure} twice a week , then water it less",
    },
)
SHELL = Field(
    {
        "task": "find/grep count/wc pack/tar copy/rsync delete/rm list/ls compare/diff sort/sort",
        "files": "logs/*.log pictures/*.png tables/*.csv pages/*.html scripts/*.sh notes/*.txt "
        "sources/*.py",
        "where": "home/~ root/rootdir temporary/tmpdir server/host: disk/mnt parent/..",
        "manner": "quietly/-q verbosely/-v recursively/-r safely/-i",
    },
    {
        "intent": "{manner} {task} {files} in {where}",
        "command": "$ {task} {manner} {where} {files}",
    },
)
HOTELS = Field(
    {
        "room": "suite/deluxe single/small double/twin dorm/hostel attic/loft cabin/hut",
        "town": "lisbon/tagus oslo/fjord athens/acropolis dublin/liffey riga/daugava "
        "turin/po bern/aare",
        "fault": "noise/loud dirt/filthy cold/freezing smoke/ashtray damp/mould bugs/insects",
        "praise": "view/panorama breakfast/buffet staff/friendly pool/swimming price/cheap",
    },
    {
        "review": "{room} in {town} . {praise} was fine . {fault} was not . would i come again ? "
        "perhaps , if they change it",
        "tip": "{town} {room} : {praise} good , {fault} bad",
    },
)


def lexicon(*fields: Field) -> list[str]:
    """All words that texts of fields can hold."""
    texts = []
    for field in fields:
        blank = {name: "" for name in field.slots}
        texts += [template.format(**blank) for template in field.columns.values()]
        texts += [entry.replace("/", " ").replace("_", " ") for entry in field.slots.values()]
    return texts


def made_for(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """An encoder of the words of a field."""
    return encoder(stage, lexicon(field), *behind, **options)


def two(table: Mapping[str, Sequence[Any]], first: str, second: str) -> dict[str, list[Any]]:
    """Two columns of a table, in this order."""
    return {name: list(table[name]) for name in (first, second)}


def pairs_of(field: Field, count: int = 320, seed: int = 0) -> dict[str, list[str]]:
    """The first two columns of a field."""
    return dict(list(field.table(count, seed).items())[:2])


def triples_of(field: Field, count: int = 320, slot: int = 0) -> dict[str, list[str]]:
    """The first two columns of a field, and hard negatives."""
    return pairs_of(field, count) | {"negative": field.near(count, slot=slot)}


def without_words(text: str, draw: random.Random, share: float = 0.25) -> str:
    """A text without some of its words."""
    words = text.split()
    return " ".join([word for word in words if draw.random() > share] or words[:1])


def noisy(field: Field, count: int, seed: int = 0) -> dict[str, list[str]]:
    """Pairs whose second texts lack a word now and then and begin with a greeting or a number."""
    draw, table = random.Random(seed), pairs_of(field, count, seed)
    _, second = table
    table[second] = [
        draw.choice(["", "well , ", f"{at} . ", "re : "]) + without_words(text, draw, 0.05)
        for at, text in enumerate(table[second])
    ]
    return table


def agrees(field: Field, column: int = 1, count: int = 150) -> Callable[[Any], float]:
    """The score of graded pairs of a field that are not in training."""
    from tests.judgement.truth import correlation

    table = field.graded(count, seed=12, second_column=column)
    return lambda model: correlation(model, table)


def adam(model: Any, rate: float = 2e-3, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate, **options)


def plain(
    model: Any, table: Mapping[str, Sequence[Any]], size: int = 24, rate: float = 2e-3
) -> Callable[[Any, int], None]:
    """The update of a plain loop over the columns of texts of a table."""
    rows, optimizer = Rows(table, size), adam(model, rate)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    return update

"""Texts of kitchens, shops, programmers, libraries and machines, and implied sentences."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.first.slots_of_texts import Kind

# The title of a recipe, and its long list of steps.
RECIPES = Kind(
    {
        "base": "risotto/arborio lasagne/sheets paella/bomba ramen/broth chili/beans "
        "goulash/beef falafel/chickpeas quiche/shortcrust",
        "with": "mushroom/ceps prawn/shellfish pumpkin/squash spinach/leaves lamb/shoulder "
        "tofu/curd",
        "style": "spicy/cayenne creamy/cream smoky/paprika lemony/zest herby/thyme sweet/sugar",
        "way": "oven/bake pan/fry pressure/valve slow/overnight grill/charcoal",
    },
    {
        "title": ["{style} {with} {base} from the {way}", "{way} {base} , {style} , {with}"],
        "steps": ["first wash and chop the {with} . heat a little oil with onion and garlic . add "
                  "{base} and stir until it smells . season with {style} , salt and pepper . then "
                  "{way} until done . rest five minutes and serve in deep plates",
                  "you need : {base} , {with} , {style} , salt . mix everything in a bowl , then "
                  "{way} . taste , and serve while it is hot"],
    },
)  # fmt: skip
# A function in Python, and the line that describes it.
SNIPPETS = Kind(
    {
        "verb": "return/get drop/del average/mean parse/loads write/dump round/floor "
        "split/partition check/assert",
        "noun": "users/usr prices/prc lines/buf dates/dt matrices/mat colours/rgb keys/dct "
        "sockets/sock",
        "where": "duplicate/set empty/none negative/<_0 recent/now() longest/max(len) "
        "sorted/sorted()",
        "frame": "file/open( database/cursor( network/http. memory/np. queue/pop(",
    },
    {
        "description": ["{verb} the {where} {noun} of a {frame}",
                        "takes a {frame} , {verb} {noun} that are {where}"],
        "code": ["def fn ( arg ) : {noun} = {frame} arg ) return {verb} ( {noun} ) if {where} "
                 "else arg",
                 "lambda {noun} : {frame} {verb} ( {noun} , key = {where} ) )"],
    },
)  # fmt: skip
# What a customer types, and the listing of a shop; the first slot is the department.
LISTINGS = Kind(
    {
        "ware": "boots|sneakers/footwear kettle|toaster/appliance lamp|lantern/lighting "
        "sofa|armchair/furniture drill|hammer/tool tent|hammock/outdoor violin|flute/instrument "
        "puzzle|marbles/toy",
        "colour": "red/crimson blue/navy green/olive black/ebony white/ivory pink/rose",
        "price": "cheap/9.99 midrange/49.00 premium/199.00 luxury/899.00",
        "brand": "acme/acme zorba/zorba lumi/lumi tako/tako fjord/fjord",
        "trait": "foldable/folds waterproof/ipx7 light/grams silent/decibel",
    },
    {
        "query": ["{colour} {ware} {brand} {trait} {price}", "{price} {trait} {ware} {brand}"],
        "listing": ["{brand} {ware} | {colour} | {trait} | {price} eur | in stock",
                    "new : {trait} {ware} by {brand} , {colour} , only {price}"],
    },
)  # fmt: skip
# A reference as an author abbreviates it, and the entry of a library.
CITATIONS = Kind(
    {
        "author": "mueller_j/johanna_mueller smith_a/adam_smithson rossi_p/paola_rossi "
        "tanaka_k/kenji_tanaka silva_m/marta_silva novak_d/dusan_novak okoro_b/blessing_okoro",
        "journal": "j_chem/journal_of_chemistry ann_stat/annals_of_statistics "
        "phys_lett/physics_letters brain_res/brain_research acta_bot/acta_botanica "
        "world_dev/world_development",
        "year": "87/1987 94/1994 03/2003 11/2011 19/2019",
        "topic": "catalysts/zeolites regress/estimators plasma/tokamak memory/hippocampus "
        "mosses/bryophytes poverty/incomes",
    },
    {"short": ["{author} ' {year} , {topic} , {journal}", "{topic} . {author} {journal} {year}"],
     "entry": ["{author} ( {year} ) a study of {topic} in : {journal} , pages 12 to 34"]},
)  # fmt: skip
# Lines of a machine, and the sentence of the operator; the second slot is the cause.
MACHINES = Kind(
    {
        "part": "pmp1/feed_pump vlv7/relief_valve mot3/belt_motor brg9/main_bearing "
        "cnv2/conveyor flt5/air_filter prs4/hydraulic_press",
        "code": "e01/jammed e17/overheated e23/leaking e42/vibrating e55/unpowered e68/clogged "
        "e90/misaligned",
        "level": "wrn/slightly err/badly crt/dangerously",
        "time": "0310/night 0745/morning 1215/noon 1730/evening 2230/late",
        "did": "ack/acknowledged rst/restarted off/switched_off tel/called_service",
    },
    {"line": ["{time} {level} {part} {code} {did}", "[ {part} ] {code} {level} t={time} {did}"],
     "report": ["in the {time} the {part} was {level} {code} , so i {did} it"]},
)  # fmt: skip

_WHO = ["man", "woman", "boy", "girl", "dog", "cat", "nurse", "clown", "king", "farmer"]
_DOES = ("sleeps:slumbers:wakes", "runs:hurries:rests", "eats:dines:fasts", "sings:chants:mutes",
         "laughs:giggles:weeps", "arrives:comes:leaves", "buys:purchases:donates",
         "climbs:ascends:descends")  # fmt: skip
_WHERE = ("park:outdoors", "kitchen:indoors", "beach:outdoors", "office:indoors",
          "garden:outdoors", "cellar:indoors", "meadow:outdoors", "attic:indoors")  # fmt: skip
_HOW = ["quickly", "slowly", "happily", "sadly", "loudly", "alone", "together", "often"]


def implications(count: int, *, held: bool = False, seed: int = 0) -> dict[str, list[Any]]:
    """Premises, what they imply, what contradicts them, and what they leave open."""
    every = [
        (who, does, where, phrase_of_manner)
        for who in _WHO
        for does in _DOES
        for where in _WHERE
        for phrase_of_manner in _HOW
    ]
    rows = [row for row in every if (sum(map(len, row)) % 4 == 0) == held]
    table: dict[str, list[Any]] = {name: [] for name in ("premise", "implied", "against", "open")}
    for who, does, where, phrase_of_manner in random.Random(seed).sample(rows, count):
        draw = random.Random(f"{who}{does}{where}{phrase_of_manner}")
        (verb, alike, contrary), (place, region) = does.split(":"), where.split(":")
        counterpart = draw.choice([name for name in _WHO if name != who])
        table["premise"].append(f"a {who} {verb} {phrase_of_manner} in the {place}")
        table["implied"].append(f"the {who} {alike} {region}")
        table["against"].append(f"the {who} {contrary} {region}")
        table["open"].append(f"the {counterpart} {draw.choice(_HOW)} near a {who}")
    return table


def words_of_implications() -> list[str]:
    """Texts that hold every word of implications."""
    pieces = [text.replace(":", " ") for text in (*_DOES, *_WHERE)]
    return [*_WHO, *_HOW, *pieces, "a the in near"]

"""Fields of private texts: addresses, numbers, recipes, chats, mails, notes of nurses, captions."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.first.drawn_rows import apart, halves

STREETS = "oak/eiche mill/muehle church/kirche king/koenig river/fluss rose/rosen bridge/bruecke"
CITIES = "linz/4020 graz/8010 wels/4600 steyr/4400 krems/3500 baden/2500 leoben/8700"
UNITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
STAPLES = (
    "flour/dough eggs/omelette rice/risotto potatoes/mash tomatoes/sauce beans/chili "
    "cream/panna apples/compote chicken/roast salmon/fillet lentils/dal cheese/gratin "
    "walnuts/brittle pumpkin/velvet"
)
WAYS = "oven/baked pan/fried pot/boiled grill/charred fridge/chilled"
AFFAIRS = (
    "invoice/amount meeting/agenda holiday/absence contract/signature delivery/parcels "
    "interview/candidate training/seminar server/outage audit/figures office/relocation"
)
DAYS = "monday/1st tuesday/2nd wednesday/3rd thursday/4th friday/5th"
ASKS = "confirm/approval move/reschedule cancel/withdraw forward/share explain/clarify"
NAMES = "anna/a.b. bruno/b.c. carla/c.d. david/d.e. elena/e.f. felix/f.g. greta/g.h. hugo/h.i."
SIGNS = (
    "sob/breathless cp/chest_pain ha/headache n+v/vomiting abd/belly_ache loc/fainted "
    "uti/burning_urine fx/broken_bone"
)
PAST = "htn/hypertension dm/diabetes copd/smoker_lung ckd/kidney_disease nil/healthy_so_far"
PLANS = "abx/antibiotics ivf/drip xr/radiograph ecg/heart_trace o2/oxygen d-c/sent_home"
ANIMALS = "cat/ねこ dog/いぬ bird/とり horse/うま fish/さかな bear/くま fox/きつね"
DOINGS = "sleeps/ねる runs/はしる eats/たべる drinks/のむ plays/あそぶ cries/なく"
SPOTS = "house/いえ mountain/やま river/かわ sea/うみ forest/もり town/まち"
HUES = "white/しろい black/くろい red/あかい blue/あおい"


def addresses(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Addresses as people type them and as a register holds them, with digits."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        street, city, person = (halves(draw, words) for words in (STREETS, CITIES, NAMES))
        house, door = draw.randint(1, 40), draw.randint(1, 12)
        typed = [f"{street[0]} str {house} / {door}", city[0], person[0]]
        draw.shuffle(typed)
        selection = f"{person[1]} | {street[1]} strasse | {house} | top {door} | {city[1]} | at"
        return (street[0], city[0], person[0], house, door), " , ".join(typed), selection

    return apart(make, ("typed", "register"), count, seed)


def numerals(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Numbers of three to five digits, in words and in figures."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        digits = [draw.randint(1, 9)] + [draw.randint(0, 9) for _ in range(draw.randint(2, 4))]
        ranks = ["", "tens", "hundred", "thousand", "myriad"]
        words = [UNITS[digit] for digit in digits]
        spelled = " ".join(f"{word} {ranks[len(digits) - at - 1]}" for at, word in enumerate(words))
        figures = " ".join(f"{digit}e{len(digits) - at - 1}" for at, digit in enumerate(digits))
        return digits, spelled, figures

    return apart(make, ("words", "figures"), count, seed)


def recipes(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Lists of two to five ingredients in any order, and how the dish is made of them."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        segments = [entry.split("/") for entry in draw.sample(STAPLES.split(), draw.randint(2, 5))]
        way = halves(draw, WAYS)
        key = (sorted(segment[0] for segment in segments), way[0])
        basket = (
            ", ".join(f"{draw.randint(1, 9)} {segment[0]} " for segment in segments) + f"; {way[0]}"
        )
        draw.shuffle(segments)
        steps = " . ".join(f"then add the {segment[1]}" for segment in segments)
        return key, basket, f"{way[1]} dish . {steps} . season and serve"

    return apart(make, ("ingredients", "recipe"), count, seed)


def mails(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Subjects of mails and their bodies, with greetings that say nothing."""
    openings = ("dear all", "hi there", "good morning", "hello team")
    closings = ("best regards", "thanks a lot", "see you", "kind wishes")

    def make(draw: random.Random) -> tuple[Any, ...]:
        affair, day, ask, name = (halves(draw, words) for words in (AFFAIRS, DAYS, ASKS, NAMES))
        body = (
            f"{draw.choice(openings)} , i am writing about the {affair[1]} . could you please see "
            f"to the {ask[1]} until the {day[1]} at the latest ? {draw.choice(closings)} {name[1]}"
        )
        return (affair, day, ask, name), f"{name[0]} : {ask[0]} {affair[0]} {day[0]}", body

    return apart(make, ("subject", "body"), count, seed)


def nursing(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Shorthand of a nurse, with age and pulse, and the letter to the family doctor."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        sign, counterpart = (entry.replace("_", " ").split("/") for entry in
                       draw.sample(SIGNS.split(), 2))  # fmt: skip
        past, plan = halves(draw, PAST), halves(draw, PLANS)
        age, sex = draw.randint(3, 9) * 10, draw.choice(["m/man", "f/woman"]).split("/")
        note = f"{age} {sex[0]} c/o {sign[0]} + {counterpart[0]} pmh {past[0]} -> {plan[0]}"
        letter = (
            f"your patient , a {sex[1]} of about {age} years , came with {sign[1]} "
            f"and {counterpart[1]} "
            f". history : {past[1]} . we gave or arranged {plan[1]}"
        )
        return note, note, letter

    return apart(make, ("note", "letter"), count, seed)


def captions(count: int, seed: int = 0) -> dict[str, list[str]]:
    """English captions, Japanese ones in kana, and English ones of another animal."""

    def make(draw: random.Random) -> tuple[Any, ...]:
        animal, doing, spot, hue = (halves(draw, words) for words in (ANIMALS, DOINGS, SPOTS, HUES))
        friend = halves(draw, ANIMALS)
        wrong = draw.choice([entry for entry in ANIMALS.split() if entry.split("/") != animal])
        english = f"a {hue[0]} {animal[0]} {doing[0]} with a {friend[0]} by the {spot[0]}"
        kana = f"{spot[1]} で {hue[1]} {animal[1]} が {friend[1]} と {doing[1]}"
        false = f"{spot[1]} で {hue[1]} {wrong.split('/')[1]} が {friend[1]} と {doing[1]}"
        return english, english, kana, false

    return apart(make, ("english", "japanese", "other"), count, seed)

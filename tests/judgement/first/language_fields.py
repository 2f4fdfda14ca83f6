"""Fields in several languages and scripts, and of inference, lives, dishes, art and sports."""

from __future__ import annotations

import random

from tests.judgement.first.field_rows import Row, Source, counterpart, pick, picks

_WHO = "brother/брат teacher/учитель doctor/врач neighbour/сосед grandmother/бабушка soldier/солдат"
_DOES = "buys/покупает reads/читает sells/продаёт hides/прячет paints/рисует sees/видит"
_WHAT = "bread/хлеб book/книгу house/дом horse/лошадь letter/письмо lamp/лампу apple/яблоко"
_TIMES = "today/сегодня tomorrow/завтра always/всегда often/часто never/никогда"


def _russian(draw: random.Random) -> Row:
    who, does, object_words, time = (
        pick(draw, entries) for entries in (_WHO, _DOES, _WHAT, _TIMES)
    )
    return (who[0], does[0], object_words[0], time[0]), {
        "english": f"my {who[0]} {time[0]} {does[0]} the {object_words[0]}",
        "russian": f"{time[1]} мой {who[1]} {does[1]} {object_words[1]} .",
    }


RUSSIAN = Source(_russian)

_ANIMALS = "cat/猫/gato dog/犬/perro bird/鳥/pájaro fish/魚/pez cow/牛/vaca mouse/鼠/ratón"
_ACTS = "eats/食べる/come sleeps/寝る/duerme runs/走る/corre sings/歌う/canta waits/待つ/espera"
_WHERE = "house/家/casa river/川/río mountain/山/monte garden/庭/jardín town/町/pueblo sea/海/mar"
_HOW = "quietly/静かに/callado quickly/速く/rápido happily/楽しく/feliz alone/一人で/solo"


def _trilingual(draw: random.Random) -> Row:
    animal, act, where, phrase_of_manner = (
        pick(draw, entries) for entries in (_ANIMALS, _ACTS, _WHERE, _HOW)
    )
    return (animal[0], act[0], where[0], phrase_of_manner[0]), {
        "english": f"the {animal[0]} {act[0]} {phrase_of_manner[0]} by the {where[0]}",
        "japanese": f"{animal[1]} は {where[1]} で {phrase_of_manner[1]} {act[1]}",
        "spanish": f"junto a {where[2]} {act[2]} {phrase_of_manner[2]} el {animal[2]}",
    }


TRILINGUAL = Source(_trilingual)

_DOERS = "man/person woman/person boy/child girl/child dog/animal horse/animal"
_VERBS = "sprints/moves/rests walks/moves/rests naps/rests/moves sits/rests/moves"
_SPOTS = (
    "kitchen/indoors/outdoors cellar/indoors/outdoors meadow/outdoors/indoors "
    "beach/outdoors/indoors"
)
_DRESS = "wet tired young old happy hungry lonely small"
_DURING = "dawn noon dusk midnight breakfast supper"


def _inference(draw: random.Random) -> Row:
    doer, verb, spot = (pick(draw, entries) for entries in (_DOERS, _VERBS, _SPOTS))
    trait, time = draw.choice(_DRESS.split()), draw.choice(_DURING.split())
    label = draw.randrange(3)
    hypothesis = {
        0: f"a {doer[1]} {verb[1]} {spot[1]}",  # entailed
        1: f"a {doer[1]} is rich",  # neither
        2: f"a {doer[1]} {verb[2]} {spot[2]}",  # contradicted
    }[label]
    return (doer[0], verb[0], spot[0], trait, time), {
        "premise": f"at {time} a {trait} {doer[0]} {verb[0]} in the {spot[0]}",
        "hypothesis": hypothesis,
        "label": label,
    }


INFERENCE = Source(_inference)

_NAMES = "adler bruni castro dubois eriksen fischer gallo horvat ivanov jansen kovac lopez"
_FIRST = "anna boris clara david elena felix greta hugo irene jakob"
_TRADES = "chemist/chemistry poet/verse admiral/navy sculptor/marble botanist/plants"
_FACTS = "born/birthplace died/grave married/wedding studied/university exiled/banishment"


def _life(draw: random.Random) -> Row:
    first, name = draw.choice(_FIRST.split()), draw.choice(_NAMES.split())
    trade, fact = pick(draw, _TRADES), pick(draw, _FACTS)
    year = draw.randint(50, 99)

    def paragraph(forename: str, act: str) -> str:
        return (
            f"{forename} {name} ( * 18{year} ) devoted a life to {trade[1]} . contemporaries "
            f"praised the work of {name} . the {act} is described in many letters of the period ."
        )

    wrong_names = draw.sample([forename for forename in _FIRST.split() if forename != first], 2)
    wrong_facts = [wordings for wordings in _FACTS.split() if not wordings.startswith(fact[0])]
    wrong_acts = [wordings.split("/")[1] for wordings in draw.sample(wrong_facts, 2)]
    return (first, name, trade[0], fact[0]), {
        "question": f"where was the {trade[0]} {first} {name} {fact[0]} ?",
        "paragraph": paragraph(first, fact[1]),
        "wrong_1": paragraph(wrong_names[0], fact[1]),
        "wrong_2": paragraph(wrong_names[1], fact[1]),
        "wrong_3": paragraph(first, wrong_acts[0]),
        "wrong_4": paragraph(first, wrong_acts[1]),
    }


LIVES = Source(_life)

_DISHES = "pie/crust soup/stock stirfry/wok salad/vinaigrette risotto/arborio curry/spices"
_FOODS = (
    "leek/alliums pumpkin/squash trout/fillet chicken/poultry lentil/pulses pear/fruit "
    "walnut/kernels spinach/leaves prawn/shellfish"
)


def _recipe(draw: random.Random) -> Row:
    dish, foods = pick(draw, _DISHES), sorted(picks(draw, _FOODS, draw.randint(1, 3)))
    steps = [
        f"{draw.choice(('chop', 'rinse', 'dice'))} the {food[1]} ."
        for food in draw.sample(foods, len(foods))
    ]
    return (dish[0], *(food[0] for food in foods)), {
        "title": " and ".join(food[0] for food in foods) + f" {dish[0]}",
        "steps": f"serves {draw.randint(2, 6)} . " + " ".join(steps) + f" prepare the {dish[1]} . "
        "season , cook gently and serve warm .",
    }


RECIPES = Source(_recipe)

_WORKS = "vase/pottery mask/carving coin/numismatics tapestry/textile fresco/mural helmet/armour"
_AGES = "bronze/prehistoric roman/antiquity gothic/medieval baroque/earlymodern modern/contemporary"
_MATTERS = "lion/fauna ship/maritime saint/religion king/royalty vine/flora battle/war"
_STATES = "cracked/damaged restored/conserved gilded/gold fragmentary/partial"


def _work(draw: random.Random) -> Row:
    segments = _WORKS, _AGES, _MATTERS, _STATES
    work, age, matter, state = (pick(draw, entries) for entries in segments)
    tags = [work[1], age[1], matter[1], state[1]]
    return (work[0], age[0], matter[0], state[0]), {
        "caption": f"{state[0]} {work[0]} showing a {matter[0]} , {age[0]} , on loan",
        "tags": " ".join(f"#{tag}" for tag in draw.sample(tags, 4)),
    }


WORKS = Source(_work)

_SPORTS = "tennis/racket rowing/oars judo/mat skiing/slopes chess/board boxing/ring"
_STAGES = "final/decider semifinal/last-four qualifier/preliminary friendly/exhibition"
_ENDS = "wins/victory loses/defeat draws/tie retires/injury"
_CROWDS = "packed/soldout empty/deserted rainy/drenched noisy/roaring"
_SLOTS = (_SPORTS, _STAGES, _ENDS, _CROWDS)


def _match(draw: random.Random) -> Row:
    first = [pick(draw, entries) for entries in _SLOTS]
    selection = set(draw.sample(range(4), draw.randint(0, 4)))
    second = [
        first[at] if at in selection else counterpart(draw, entries, first[at])
        for at, entries in enumerate(_SLOTS)
    ]
    sport, stage, end, crowd = (wordings[0] for wordings in first)
    phrasing = [wordings[1] for wordings in second]
    return (sport, stage, end, crowd, *phrasing), {
        "sentence1": f"she {end} the {sport} {stage} before a {crowd} house",
        "sentence2": f"{phrasing[1]} with {phrasing[0]} : {phrasing[2]} , a {phrasing[3]} venue",
        "score": len(selection) / 4,
    }


MATCHES = Source(_match)

"""More fields: menus, timetables, short messages, laboratory values, Greek articles."""

from __future__ import annotations

import random

from tests.judgement.first.field_rows import Row, Source, counterpart, pick, picks

_BASES = (
    "lasagne/pasta paella/saffron goulash/paprika chowder/clams falafel/chickpeas quiche/pastry"
)
_SIDES = "fries/potato slaw/cabbage polenta/maize couscous/semolina beans/legume"
_SWEETS = "tiramisu/mascarpone sorbet/ice brownie/cacao baklava/pistachio custard/egg"
_TABLES = "terrace/outside bar/counter window/front garden/rear"


def _menu(draw: random.Random) -> Row:
    segments = _BASES, _SIDES, _SWEETS, _TABLES
    base, side, sweet, table = (pick(draw, entries) for entries in segments)
    return (base[0], side[0], sweet[0], table[0]), {
        "dish": f"{base[0]} with {side[0]} , then {sweet[0]} ( {table[0]} )",
        "note": f"kitchen note : contains {base[1]} , {side[1]} and afterwards {sweet[1]} ; the "
        f"guests sit at the {table[1]} , please ask about allergies before serving",
    }


MENUS = Source(_menu)

_LINES = "s1/harbour s2/airport u4/zoo u6/museum t9/stadium b12/hospital b31/campus n5/suburb"
_STOPS = "north/n-stop south/s-stop opera/op-stop market/mk-stop river/rv-stop castle/cs-stop"
_DAYS = "weekday/mon-fri saturday/sat sunday/sun holiday/hol"
_HOURS = "morning/0700 noon/1200 evening/1900 night/0100"


def _timetable(draw: random.Random) -> Row:
    segments = _LINES, _STOPS, _DAYS, _HOURS
    line, stop, day, hour = (pick(draw, entries) for entries in segments)
    wrong = counterpart(draw, _LINES, line)
    return (line[0], stop[0], day[0], hour[0]), {
        "asked": f"when does the {line[1]} service leave {stop[0]} on a {day[0]} {hour[0]}",
        "departure": f"{stop[1]} | {line[0]} | {day[1]} | {hour[1]} | track {draw.randint(1, 9)}",
        "near_departure": f"{stop[1]} | {wrong[0]} | {day[1]} | {hour[1]} | "
        f"track {draw.randint(1, 9)}",
    }


TIMETABLES = Source(_timetable)

_FEELS = "thrilled/joy gutted/sad furious/rage sleepy/tired proud/pride bored/meh"
_ABOUT = (
    "marathon/running exam/study concert/livemusic puppy/doglife snow/winter pizza/foodie "
    "garden/plants novel/bookworm"
)
_WITH = "mum/family flatmate/home crew/friends boss/work coach/team"
_WHENS = "today/now tonight/evening finally/done again/repeat"


def _tweet(draw: random.Random) -> Row:
    segments = _FEELS, _ABOUT, _WITH, _WHENS
    feel, about, mate, when = (pick(draw, entries) for entries in segments)
    tags = [f"#{wordings[1]}" for wordings in (feel, about, mate, when)]
    return (feel[0], about[0], mate[0], when[0]), {
        "message": f"{when[0]} so {feel[0]} about the {about[0]} with my {mate[0]} !!",
        "tags": " ".join(draw.sample(tags, 4)),
    }


TWEETS = Source(_tweet)

_VALUES = (
    "hb/haemoglobin crp/inflammation tsh/thyroid gpt/liver krea/kidney glc/sugar k/potassium "
    "na/sodium fe/iron plt/platelets"
)
_LEVELS = "++/markedly-raised +/raised =/normal -/lowered"


def _values(draw: random.Random) -> Row:
    first, second = sorted(picks(draw, _VALUES, 2))
    one_level, two_level = pick(draw, _LEVELS), pick(draw, _LEVELS)
    phrasing = [f"{one_level[1]} {first[1]}", f"{two_level[1]} {second[1]}"]
    draw.shuffle(phrasing)
    measured = (f"{first[0]} {one_level[0]}", f"{second[0]} {two_level[0]}")
    return measured, {
        "values": " ; ".join(measured),
        "comment": f"the sample shows {phrasing[0]} as well as {phrasing[1]} , control in a week",
    }


LAB_VALUES = Source(_values)

_CITIES = "αθήνα/πρωτεύουσα πάτρα/λιμάνι ρόδος/νησί σπάρτη/πολεμιστές δελφοί/μαντείο"
_THINGS = "θέατρο/σκηνή ναός/ιερό αγορά/εμπόριο τείχος/οχύρωση λουτρό/θέρμες στάδιο/αγώνες"
_ERAS = "αρχαίο/κλασική μεσαιωνικό/βυζαντινή νέο/σύγχρονη ρωμαϊκό/αυτοκρατορική"
_STATES = "ερείπια/κατεστραμμένο ανασκαφή/έρευνα έκθεση/μουσείο αναστήλωση/επισκευή"


def _article(draw: random.Random) -> Row:
    segments = _CITIES, _THINGS, _ERAS, _STATES
    city, building, era, state = (pick(draw, entries) for entries in segments)
    return (city[0], building[0], era[0], state[0]), {
        "title": f"{era[0]} {building[0]} , {city[0]} : {state[0]}",
        "opening": f"στην περιοχή με {city[1]} βρίσκεται για {building[1]} κτίριο από την {era[1]} "
        f"εποχή , σήμερα {state[1]}",
    }


GREEK_ARTICLES = Source(_article)

"""Fields of everyday texts: questions, goods, chats, news, jobs, tickets, reviews, addresses."""

from __future__ import annotations

import random

from tests.judgement.first.field_rows import Row, Source, counterpart, pick, picks

_ACTS = "learn/study fix/repair sell/offload clean/wash choose/select build/construct draw/sketch"
_OBJECTS = (
    "guitar/ukulele bicycle/bike sofa/couch kitchen/cooker website/homepage fence/hedge "
    "camera/lens aquarium/fishtank spanish/castilian roof/attic boat/dinghy engine/motor"
)
_WAYS = "quickly/fast alone/myself free/unpaid abroad/overseas safely/riskless online/internet"


def _duplicate(draw: random.Random) -> Row:
    act, target, way = (pick(draw, entries) for entries in (_ACTS, _OBJECTS, _WAYS))
    first = draw.choice(("how do i", "what is the best way to", "can anyone tell me how to"))
    second = draw.choice(("is there a trick to", "i would like to", "any tips if i want to"))
    return (act[0], target[0], way[0]), {
        "question": f"{first} {act[0]} a {target[0]} {way[0]} ?",
        "duplicate": f"{second} {act[1]} my {target[1]} {way[1]} , thanks",
    }


DUPLICATES = Source(_duplicate)

_MAKERS = "norvik/nvk alpana/alp trestle/trs ombra/omb quill/qll"
_GOODS = (
    "rucksack/backpack trainers/sneakers raincoat/mackintosh mug/cup pan/skillet rug/carpet "
    "headphones/earbuds charger/adapter stool/taboret torch/flashlight"
)
_TINTS = "red/scarlet blue/azure green/emerald black/jet white/snow yellow/mustard"
_SIZES = "small/s medium/m large/l giant/xxl"


def _listing(draw: random.Random) -> Row:
    segments = _MAKERS, _GOODS, _TINTS, _SIZES
    maker, good, tint, size = (pick(draw, entries) for entries in segments)
    price, wrong = draw.randint(5, 60), counterpart(draw, _TINTS, tint)
    end = f"| {maker[1]} | {good[1]} | size {size[1]} | {price} eur | free returns"
    return (maker[0], good[0], tint[0], size[0]), {
        "query": f"{tint[0]} {maker[0]} {good[0]} {size[0]}",
        "listing": f"{tint[1]} {end}",
        "lookalike": f"{wrong[1]} {end}",
    }


LISTINGS = Source(_listing)

_SERVICES = "broadband/fibre mobile/sim television/decoder landline/handset streaming/player"
_FAULTS = "slow/speed dead/outage expensive/tariff noisy/static locked/unlock missing/delivery"
_WHENS = "monday/weekday tonight/evening yesterday/recent christmas/holiday march/spring"
_MOODS = "angry/apologise puzzled/explain hurried/shortly polite/gladly"


def _chat(draw: random.Random) -> Row:
    segments = _SERVICES, _FAULTS, _WHENS, _MOODS
    service, fault, when, mood = (pick(draw, entries) for entries in segments)
    opening = draw.choice(("agent : hi how can i help", "agent : welcome back"))
    return (service[0], fault[0], when[0], mood[0]), {
        "context": f"{opening} user : it is the {service[0]} agent : what about it user : "
        f"{fault[0]} since {when[0]} and i am {mood[0]}",
        "reply": f"i {mood[1]} , let me check the {service[1]} for {fault[1]} in the {when[1]} log",
    }


CHATS = Source(_chat)

_CITIES = "lisbon/portuguese oslo/norwegian cairo/egyptian lima/peruvian seoul/korean delhi/indian"
_EVENTS = "strike/walkout flood/deluge vote/ballot blackout/outage trial/court marathon/race"
_CAUSES = "wages/pay rain/storm fraud/scandal heat/temperatures shortage/scarcity"
_MOVES = "talks/negotiations curfew/lockdown aid/relief resignations/departures ban/prohibition"


def _headline(draw: random.Random) -> Row:
    segments = _CITIES, _EVENTS, _CAUSES, _MOVES
    city, event, cause, move = (pick(draw, entries) for entries in segments)
    return (city[0], event[0], cause[0], move[0]), {
        "headline": f"{city[0]} {event[0]} over {cause[0]} ends in {move[0]}",
        "lead": f"officials in the {city[1]} capital said on friday that the {event[1]} , which "
        f"followed weeks of {cause[1]} , had led to {move[1]} , a spokesman told reporters",
    }


HEADLINES = Source(_headline)

_ROLES = "nurse/ward plumber/pipes teacher/classroom analyst/reports chef/kitchens driver/lorry"
_SKILLS = (
    "french/francophone excel/tables welding/torch first-aid/cpr python/scripting sales/closing "
    "drawing/autocad training/coaching"
)
_HOURS = "part-time/afternoons full-time/weekdays nights/shifts seasonal/summers"


def _vacancy(draw: random.Random) -> Row:
    role, hours = pick(draw, _ROLES), pick(draw, _HOURS)
    skills = sorted(picks(draw, _SKILLS, 2))
    skill_words = " and ".join(skill[1] for skill in draw.sample(skills, 2))
    return (role[0], hours[0], skills[0][0], skills[1][0]), {
        "advert": f"we hire a {role[0]} , {hours[0]} . needed : {skills[0][0]} , {skills[1][0]} .",
        "career": f"ten years with {role[1]} . i know {skill_words} well and am free "
        f"for {hours[1]} .",
    }


VACANCIES = Source(_vacancy)

_TICKETS = (
    "invoice charged twice refund vat receipt payment", "password locked login reset token signin",
    "crash freeze bug error stacktrace broken", "slow timeout lag latency loading performance",
    "export csv pdf report download print", "invite teammate seat role permission admin",
    "cancel quit close delete unsubscribe leave", "feature wish darkmode roadmap suggestion idea",
)  # fmt: skip
_AROUND = "hello please since today our company again urgent someone account page asks still"


def _ticket(draw: random.Random) -> Row:
    label = draw.randrange(len(_TICKETS))
    words = draw.sample(_TICKETS[label].split(), 2)
    words += draw.sample(_AROUND.split(), draw.randint(3, 6))
    draw.shuffle(words)
    return tuple(sorted(words)), {"ticket": " ".join(words), "label": label}


TICKETS = Source(_ticket)

_ASPECTS = ("room", "staff", "food", "view", "price", "bath")
_GOOD = "lovely superb clean friendly great perfect charming"
_POOR = "awful dirty rude poor broken noisy terrible"


def _review(draw: random.Random) -> Row:
    aspects = draw.sample(_ASPECTS, 4)
    stars, phrasing = 1, list[str]()
    share = draw.random()
    for aspect in aspects:
        liked = draw.random() < share
        stars += liked
        phrasing.append(
            f"the {aspect} was {draw.choice(_GOOD.split() if liked else _POOR.split())}"
        )
    return tuple(phrasing), {"review": " . ".join(phrasing) + " .", "label": stars - 1}


REVIEWS = Source(_review)


def _two_reviews(draw: random.Random) -> Row:
    (first_told, first), (second_told, second) = _review(draw), _review(draw)
    return (*first_told, *second_told), {
        "review": first["review"],
        "other": second["review"],
        "score": 1 - abs(first["label"] - second["label"]) / 4,
    }


REVIEW_PAIRS = Source(_two_reviews)

_STREETS = "oak elm church station mill bridge castle garden king harbour"
_KINDS = "street/st. road/rd. avenue/ave. lane/ln. square/sq."
_TOWNS = "ashford/ashfd belmont/blmt carlow/crlw dunmore/dnmr exton/extn fairlie/frl"


def _address(draw: random.Random) -> Row:
    street, kind, town = draw.choice(_STREETS.split()), pick(draw, _KINDS), pick(draw, _TOWNS)
    number, flat = str(draw.randint(1, 40)), str(draw.randint(1, 9))
    return (street, kind[0], town[0], number, flat), {
        "typed": f"{flat} / {number} {street} {kind[1]} {town[1]}",
        "registered": f"flat {flat} , {number} {street} {kind[0]} , {town[0]} , county north",
    }


ADDRESSES = Source(_address)


def _address_pair(draw: random.Random) -> Row:
    facts, row = _address(draw)
    same = draw.random() < 0.5
    return (*facts, str(same)), {
        "typed": row["typed"],
        "registered": row["registered"] if same else _address(draw)[1]["registered"],
        "label": int(same),
    }


ADDRESS_PAIRS = Source(_address_pair)

"""Fields of raw texts without partners: posts of a forum, lines of logs, answers of a quiz."""

from __future__ import annotations

import random

from tests.judgement.first.field_rows import Row, Source, pick, picks

_SUBJECTS = (
    "bees/hive/honey/queen soil/compost/mulch/worms trains/rails/signal/locomotive "
    "stars/telescope/nebula/orbit tea/kettle/leaves/infusion wool/knitting/needle/yarn "
    "rice/paddy/grain/harvest glass/kiln/furnace/blowing chess/rook/opening/endgame "
    "surf/wave/board/swell jazz/saxophone/swing/trio cheese/rind/curd/cellar "
    "clocks/pendulum/gears/escapement maps/atlas/contour/compass"
)
_CHATTER = "i you we they really maybe still never often think know heard yesterday forum"


def _post(draw: random.Random) -> Row:
    subjects = sorted(picks(draw, _SUBJECTS, 3))
    halves = []
    phrasing = [draw.sample(wordings, 4) for wordings in subjects]
    for half in range(2):
        words = [word for wordings in phrasing for word in wordings[2 * half : 2 * half + 2]]
        words += draw.sample(_CHATTER.split(), draw.randint(3, 8))
        draw.shuffle(words)
        halves.append(" ".join(words))
    selection = [word for word in " ".join(halves).split() if draw.random() < 0.6]
    return tuple(sorted(" ".join(halves).split())), {
        "post": " . ".join(halves),
        "first_half": halves[0],
        "second_half": halves[1],
        "excerpt": " ".join(selection),
    }


POSTS = Source(_post)

_HOSTS = "web01/frontend web02/frontend db01/database db02/database mq01/broker fw01/firewall"
_SERVICES = "sshd/login nginx/web postgres/sql cron/timer kernel/system dockerd/container"
_EVENTS = (
    "refused/connection oom/memory timeout/slow denied/permission corrupt/checksum "
    "restarted/restart expired/certificate full/disk"
)
_LEVELS = "err/severe warn/mild crit/fatal info/harmless"


def _line(draw: random.Random) -> Row:
    segments = _HOSTS, _SERVICES, _EVENTS, _LEVELS
    host, service, event, level = (pick(draw, entries) for entries in segments)
    clock, process = f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}", draw.randint(100, 130)
    return (host[0], service[0], event[0], level[0]), {
        "line": f"{clock} {host[0]} {service[0]} [{process}] <{level[0]}> {event[0]}",
        "incident": f"{level[1]} {event[1]} trouble with {service[1]} on {host[0]}",
    }


LOG_LINES = Source(_line)

_QUANTITIES = "kilo/thousand mega/million giga/billion milli/thousandth micro/millionth"
_MEASURES = "gram/mass metre/length watt/power volt/tension hertz/frequency pascal/pressure"
_GROUPS = "a/first b/second c/third d/fourth e/fifth f/sixth g/seventh"


def _quiz(draw: random.Random) -> Row:
    quantity, measure, group = (
        pick(draw, segment) for segment in (_QUANTITIES, _MEASURES, _GROUPS)
    )
    value = draw.choice(("2/two", "3/three", "5/five", "8/eight")).split("/")
    return (quantity[0], measure[0], group[0], value[0]), {
        "item": f"{group[0]} ) {value[0]} {quantity[0]} {measure[0]} = ?",
        "solution": f"{group[1]} answer : {value[1]} times a {quantity[1]} units of {measure[1]}",
    }


QUIZZES = Source(_quiz)

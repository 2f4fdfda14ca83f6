"""More trades: what customers of a bank ask, the weather, sports, films, and cars in a workshop."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.judgement.first.trades_of_text import Trade

WEATHER = Trade(
    {
        "sky": "rain/showers snow/flurries fog/mist storm/gale sunshine/clear hail/sleet "
        "thunder/lightning drought/dryness",
        "land": "alps/mountains coast/seaside delta/estuary plains/lowland islands/archipelago "
        "capital/metropolis desert/dunes",
        "day": "monday/mon thursday/thu weekend/sat-sun tonight/evening dawn/daybreak noon/midday",
        "course": "spreading/widening fading/easing persisting/lasting returning/again "
        "worsening/severe",
    },
    {
        "sentence1": (
            "{sky} is {course} over the {land} {day}",
            "expect {sky} in the {land} {day} , {course}",
            "{day} : {sky} {course} , {land}",
        ),
        "sentence2": (
            "{day} outlook for the {land} : {sky} , {course}",
            "the {land} get {sky} {day} and it looks {course}",
        ),
    },
)
SPORTS = Trade(
    {
        "game": "football/soccer tennis/racket rowing/oars boxing/ring cycling/peloton "
        "skiing/slalom fencing/foil swimming/lanes",
        "team": "reds/crimson lions/pride rovers/wanderers eagles/hawks saints/holy "
        "tigers/stripes pirates/buccaneers",
        "end": "win/victory lose/defeat draw/tie withdraw/retire celebrate/party protest/appeal",
        "cause": "injury/hurt penalty/foul record/best rain/wet referee/umpire crowd/fans",
    },
    {
        "headline": (
            "{game} : {team} {end} after {cause}",
            "{cause} in {game} , {team} {end}",
            "{team} {end} - {game} and the {cause}",
        ),
        "lead": (
            "the {team} of the {game} club had to speak of {end} last night , which many put "
            "down to the {cause}",
            "it was the {cause} that settled it . {game} ended in {end} for the {team}",
        ),
    },
)
FILMS = Trade(
    {
        "genre": "western/cowboy horror/scary comedy/funny thriller/suspense romance/love "
        "musical/songs war/battle cartoon/animated",
        "hero": "orphan/parentless detective/sleuth robot/android witch/sorceress astronaut/space "
        "thief/burglar nun/convent",
        "land": "japan/tokyo mexico/oaxaca russia/siberia kenya/nairobi peru/lima norway/oslo",
        "tone": "slow/lengthy violent/bloody tender/gentle clever/twist silly/slapstick "
        "bleak/hopeless",
    },
    {
        "wish": (
            "a {tone} {genre} with a {hero} in {land}",
            "which {genre} has the {hero} from {land} ? it was {tone}",
            "{genre} {hero} {land} {tone}",
        ),
        "plot": (
            "a {hero} comes home to {land} . critics found it {tone} . filed under {genre}",
            "{tone} and never dull , this {genre} tale follows a {hero} across {land}",
            "in {land} , a {hero} meets an old friend ; {genre} , {tone}",
        ),
    },
)
CARS = Trade(
    {
        "piece": "brakes/discs engine/motor clutch/coupling battery/accumulator "
        "wipers/blades tyres/wheels exhaust/muffler steering/column radiator/coolant",
        "sign": "squeal/screech smoke/fumes leak/dripping vibrate/shake rattle/clatter "
        "smell/odour stall/die",
        "case": "uphill/climb cold/winter motorway/highway reverse/backwards parking/standing "
        "towing/trailer",
        "car": "van/transporter hatchback/compact pickup/truck convertible/cabrio estate/wagon",
    },
    {
        "complaint": (
            "my {car} : {piece} {sign} when {case}",
            "{sign} from the {piece} of the {car} , mostly {case}",
        ),
        "repair": (
            "{car} came in , {sign} at {piece} ; checked {case} , renewed under guarantee",
            "cause of {sign} in {case} use was the {piece} . {car} handed back",
        ),
    },
)

_INTENTS = {
    "card lost": "lost stolen missing misplaced vanished",
    "balance": "balance funds savings amount worth",
    "transfer": "transfer wire remit forward send",
    "loan": "loan mortgage borrow credit instalment",
    "abroad": "abroad overseas foreign travel currency",
    "fees": "fee charge cost commission surcharge",
    "branch": "branch counter hours office nearest",
    "login": "login password token locked verify",
    "close": "close cancel terminate leave quit",
    "fraud": "fraud scam phishing suspicious unknown",
}
_OPENERS = ("hello", "hi there", "good evening", "excuse me", "please help", "quick question",
            "dear team", "once more")  # fmt: skip
_OWNS = ("account", "card", "app", "statement", "deposit", "profile", "savings book", "wallet")
_ENDS = ("today", "since monday", "as a student", "for my wife", "at the firm", "before the trip",
         "right away", "if possible", "without delay")  # fmt: skip


def bank_requests(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """What customers of a bank ask, and the number of their intent; all texts differ."""
    draw, labels = random.Random(seed), dict[str, int]()
    names = list(_INTENTS)
    while len(labels) < count:
        label = draw.randrange(len(names))
        word = draw.choice(_INTENTS[names[label]].split())
        opener, owned, end = draw.choice(_OPENERS), draw.choice(_OWNS), draw.choice(_ENDS)
        if (len(opener + end) + len(owned)) % 3 == (0 if seed % 2 else 1):
            continue  # so that rows of odd and even seeds mostly differ in their words
        text = draw.choice((
            f"{opener} , {word} my {owned} {end}", f"{opener} : {word} ? it is about my {owned}",
            f"{word} {owned} {end}", f"my {owned} {end} , {word} question",
        ))  # fmt: skip
        labels[text] = label
    return {"text": list(labels), "label": list(labels.values())}


def bank_words() -> list[str]:
    """All words of the requests."""
    return [*_INTENTS.values(), *_OPENERS, *_OWNS, *_ENDS, ": ? , my it is about question"]


def same_intent(model: Any) -> float:
    """Share of unseen requests whose nearest seen request has their intent."""
    stored, new = bank_requests(200, seed=20), bank_requests(150, seed=11)
    first, second = (
        model.encode(table["text"], normalize_embeddings=True, show_progress_bar=False)
        for table in (new, stored)
    )
    nearest = np.argmax(first @ second.T, axis=1)
    return float(np.mean(np.array(stored["label"])[nearest] == np.array(new["label"])))

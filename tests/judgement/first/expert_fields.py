"""Fields of specialists' texts: laws, wards, databases, patents, weather, numbers, banks."""

from __future__ import annotations

import random

from tests.judgement.first.field_rows import Row, Source, counterpart, pick, picks

_SUBJECTS = (
    "dogs/animals fishing/angling noise/disturbance drones/aircraft waste/refuse trees/timber"
)
_PLACES = "parks/gardens rivers/waterways schools/education beaches/shores forests/woodland"
_PEOPLE = "minors/juveniles tourists/visitors owners/proprietors tenants/lessees farmers/growers"
_PENALTIES = "fine/sum permit/authorisation ban/prohibition seizure/confiscation"


def _statute(draw: random.Random) -> Row:
    segments = _SUBJECTS, _PLACES, _PEOPLE, _PENALTIES
    subject, place, people, penalty = (pick(draw, entries) for entries in segments)

    def section(matter: str) -> str:
        return (
            f"art. {draw.randint(1, 90)} . without prejudice to the general provisions of this act "
            f", the keeping and use of {matter} in {place[1]} is regulated by the council . as to "
            f"{people[1]} , the authority may by order impose {penalty[1]} , subject to appeal "
            "within thirty days of service ."
        )

    return (subject[0], place[0], people[0], penalty[0]), {
        "question": f"{subject[0]} in {place[0]} : which {penalty[0]} for {people[0]} ?",
        "section": section(subject[1]),
        "wrong_section": section(counterpart(draw, _SUBJECTS, subject)[1]),
    }


STATUTES = Source(_statute)

_ILLNESSES = (
    "pneumonia/j18 appendicitis/k35 migraine/g43 asthma/j45 gout/m10 anaemia/d50 "
    "eczema/l30 stroke/i63"
)
_SIDES = "left/sin right/dex bilateral/bil"
_DRUGS = "penicillin/abx ibuprofen/nsaid insulin/hormone heparin/anticoag cortisone/steroid"
_ENDS = "home/disch rehabilitation/rehab intensive/icu hospice/pall"


def _discharge(draw: random.Random) -> Row:
    segments = _ILLNESSES, _SIDES, _DRUGS, _ENDS
    illness, side, drug, end = (pick(draw, entries) for entries in segments)
    age = draw.randint(18, 90)
    visit = draw.choice(("was admitted through the emergency room", "was referred by the gp"))
    return (illness[0], side[0], drug[0], end[0]), {
        "note": f"this {age} year old patient {visit} with complaints on the "
        f"{side[0]} side . vital "
        f"signs were stable and laboratory values unremarkable . imaging confirmed {illness[0]} . "
        f"treatment with {drug[0]} was begun and tolerated well . after some days the patient was "
        f"transferred to {end[0]} care with follow up in two weeks .",
        "codes": f"{illness[1]} {side[1]} {drug[1]} {end[1]}",
    }


DISCHARGES = Source(_discharge)

_TABLES = "customers/clients orders/purchases flights/departures books/titles staff/employees"
_FIELDS = "name/label city/town price/cost age/years weight/kilos year/date colour/hue"
_SUMS = "average/avg total/sum highest/max lowest/min number/count"


def _query(draw: random.Random) -> Row:
    table, total = pick(draw, _TABLES), pick(draw, _SUMS)
    measure, tested = picks(draw, _FIELDS, 2)
    return (table[0], total[0], measure[0], tested[0]), {
        "request": f"{total[0]} {measure[0]} of {table[0]} for each {tested[0]}",
        "sql": f"select {tested[1]} , {total[1]} ( {measure[1]} ) from {table[1]} "
        f"group by {tested[1]} ;",
    }


SQL = Source(_query)

_CHANGES = "fix/bugfix rename/mv remove/del cache/memo log/trace test/assert"
_PARTS = (
    "parser/lexer session/cookie upload/multipart router/route mailer/smtp queue/worker menu/nav"
)
_LANGUAGES = "python/.py rust/.rs shell/.sh styles/.css"
_REASONS = "leak/free race/lock typo/spelling overflow/bounds warning/lint"


def _commit(draw: random.Random) -> Row:
    segments = _CHANGES, _PARTS, _LANGUAGES, _REASONS
    change, segment, language, reason = (pick(draw, entries) for entries in segments)
    old, new = draw.randint(1, 99), draw.randint(1, 99)
    return (change[0], segment[0], language[0], reason[0]), {
        "message": f"{change[0]} {reason[0]} in {language[0]} {segment[0]}",
        "diff": f"--- a / {segment[1]} {language[1]} +++ b / {segment[1]} {language[1]} "
        f"@@ -{old} +{new} "
        f"@@ - old ( ) ; + {change[1]} ( {reason[1]} ) ;",
    }


COMMITS = Source(_commit)

_DEVICES = (
    "valve/fluid hinge/pivot antenna/radiator battery/electrochemical lens/optical pump/conveying"
)
_STUFFS = "graphene/carbon ceramic/oxide silicone/polymer titanium/metallic glass/vitreous"
_GAINS = "lighter/mass cheaper/cost quieter/acoustic longer-lived/durability smaller/compact"
_USES = "aircraft/aviation implants/surgical toys/recreational ships/marine ovens/baking"


def _patent(draw: random.Random) -> Row:
    segments = _DEVICES, _STUFFS, _GAINS, _USES
    device, substance, gain, use = (pick(draw, entries) for entries in segments)
    return (device[0], substance[0], gain[0], use[0]), {
        "title": f"{gain[0]} {substance[0]} {device[0]} for {use[0]}",
        "claim": f"1 . a {device[1]} arrangement comprising a body and a second member coupled "
        f"thereto , characterised in that said member consists at least partly "
        f"of {substance[1]} "
        f"material , whereby {gain[1]} properties in {use[1]} applications are improved .",
    }


PATENTS = Source(_patent)

_STATIONS = "eddf/frankfurt egll/london lfpg/paris lemd/madrid lirf/rome efhk/helsinki"
_WINDS = "vrb02kt/light 27015kt/westerly 09020kt/easterly 36035kt/northerly"
_SKIES = "skc/clear few030/scattered ovc008/overcast cb020/thunderclouds"
_RAINS = "nsw/dry ra/rain sn/snow fg/fog ts/thunder"


def _metar(draw: random.Random) -> Row:
    segments = _STATIONS, _WINDS, _SKIES, _RAINS
    station, wind, sky, rain = (pick(draw, entries) for entries in segments)
    clock = f"{draw.randint(10, 23)}00z"
    return (station[0], wind[0], sky[0], rain[0]), {
        "coded": f"metar {station[0]} {clock} {wind[0]} {rain[0]} {sky[0]} =",
        "forecast": f"at {station[1]} expect {rain[1]} under a {sky[1]} sky with {wind[1]} wind",
    }


METARS = Source(_metar)

_ONES = "zero one two three four five six seven eight nine"
_TENS = "none ten twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS = "metres/m litres/l grams/g volts/v"


def _number(draw: random.Random) -> Row:
    hundreds, tens, ones = (draw.randrange(2, 10) for _ in range(3))
    unit, names, tens_names = pick(draw, _UNITS), _ONES.split(), _TENS.split()
    return (str(hundreds), str(tens), str(ones), unit[0]), {
        "spoken": f"{names[hundreds]} hundred {tens_names[tens]} {names[ones]} {unit[0]}",
        "expanded": f"{hundreds}00 + {tens}0 + {ones} {unit[1]}",
    }


NUMBERS = Source(_number)

_KINDS = (
    "grocer/market dairy/deli bakery/bread", "taxi/cab metro/rail fuel/petrol",
    "cinema/film concert/gig theatre/stage", "pharmacy/drugs dentist/teeth optician/glasses",
    "rent/lease water/utility power/electric", "gym/fitness yoga/studio pool/swim",
)  # fmt: skip
_BANKS = "pos sepa visa card debit direct terminal ref online nfc"


def _transaction(draw: random.Random) -> Row:
    label = draw.randrange(len(_KINDS))
    shop, noise = pick(draw, _KINDS[label]), draw.sample(_BANKS.split(), 2)
    number = str(draw.randint(100, 130))
    date = f"{draw.randint(1, 28)}/0{draw.randint(1, 9)}"
    line = f"{noise[0]} {draw.choice(shop)} {number} {noise[1]} {date}"
    return tuple(line.split()), {"line": line, "label": label}


TRANSACTIONS = Source(_transaction)

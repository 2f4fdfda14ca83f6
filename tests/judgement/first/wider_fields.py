"""More fields: two scripts, headlines, recipes, amounts, notices, reviews, inference, diagnoses."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.first.made_fields import Wordings

RUSSIAN = Wordings(
    {
        "who": "sister/сестра brother/брат doctor/врач neighbour/сосед student/студент "
        "grandfather/дед singer/певец worker/рабочий cook/повар child/ребёнок soldier/солдат",
        "does": "buys/покупает sells/продаёт seeks/ищет paints/красит washes/моет carries/несёт "
        "breaks/ломает sees/видит loves/любит hides/прячет",
        "object": "house/дом table/стол book/книгу boat/лодку apple/яблоко window/окно car/машину "
        "letter/письмо bread/хлеб cat/кошку lamp/лампу stone/камень",
        "when": "today/сегодня yesterday/вчера always/всегда rarely/редко early/рано late/поздно",
    },
    {"english": "the {who} {does} the {object} {when} | {when} the {who} {does} the {object}",
     "russian": "{when} {who} {does} {object} | {who} {when} {does} {object}"},
)  # fmt: skip
WEATHER = Wordings(
    {
        "town": "北京/首都 上海/沪 广州/羊城 成都/蓉 南京/金陵 武汉/江城 西安/长安 杭州/西湖 "
        "重庆/山城 青岛/岛城",
        "day": "今天/今 明天/明 后天/后 周一/星期一 周五/星期五 周日/星期日",
        "sky": "下雨/雨伞 下雪/大衣 刮风/围巾 打雷/躲避 有雾/慢行 晴朗/墨镜 很热/扇子 很冷/手套",
        "who": "孩子/儿童 老人/长者 司机/驾驶 农民/田里 学生/上学 游客/旅行",
    },
    {"question": "{town} {day} 会 {sky} 吗 {who} 怎么 办",
     "advice": "{who} 请 注意 : {day} 在 {town} 要 用 {sky}"},
)  # fmt: skip
HEADLINES = Wordings(
    {
        "actor": "mayor/town_hall union/organised_workers startup/young_company bank/lender "
        "museum/curators club/football_side farmers/growers ministry/government_department "
        "airline/carrier court/judges zoo/keepers orchestra/musicians",
        "act": "sues/legal_action opens/ribbon_cutting closes/shuts_its_doors hires/new_staff "
        "strikes/walk_out wins/first_prize loses/defeat apologises/regret expands/growth "
        "warns/alarm",
        "about": "pollution/dirty_air wages/pay fraud/forged_papers tourism/visitors "
        "energy/power_supply housing/homes drought/lack_of_rain art/paintings tech/software",
        "place": "oslo/norwegian_capital lima/peruvian_coast cairo/banks_of_the_nile "
        "kyoto/temple_city boston/massachusetts riga/baltic_port perth/western_australia",
    },
    {
        "headline": "{actor} {act} over {about} in {place} | "
        "{place} : {actor} {act} , {about} issue",
        "story": "reporters at the {place} learned this week that the {actor} spoke of {act} . "
        "the matter of {about} had been debated for months , and both sides had asked for calm . "
        "a decision is due in spring | it was a long day in the {place} . with {act} the {actor} "
        "drew attention to {about} , as sources say , and more news is expected soon",
    },
)
RECIPES = Wordings(
    {
        "base": "lentils/dal beef/goulash salmon/gravlax rice/risotto potatoes/gratin eggs/quiche "
        "aubergine/moussaka chickpeas/hummus cabbage/kimchi pumpkin/chowder tofu/miso",
        "spice": "cumin/oriental basil/italian dill/nordic saffron/persian lemongrass/thai "
        "oregano/greek paprika/hungarian thyme/provencal ginger/chinese wasabi/japanese",
        "way": "oven/baked pan/fried grill/barbecued pot/simmered steamer/steamed raw/uncooked "
        "smoker/smoked blender/pureed",
    },
    {
        "list": "500 g {base} , 2 tsp {spice} , 1 onion , salt ; needs a {way} | "
        "{way} , {base} ( 300 g ) , some {spice} , 3 tbsp oil",
        "title": "{way} {base} {spice} style | {spice} {base} , {way}",
    },
)
NOTICES = Wordings(
    {
        "line": "tram/streetcar metro/underground ferry/boat coach/bus airport_link/shuttle "
        "night_train/sleeper funicular/hill_railway",
        "event": "delayed/running_late cancelled/called_off diverted/sent_another_way "
        "shortened/ends_early full/no_seats_left replaced/substituted extended/runs_further",
        "cause": "storm/bad_weather strike/industrial_action works/construction fire/smoke "
        "crash/collision fault/technical_defect police/security_check",
        "until": "noon/midday midnight/end_of_day friday/weekend easter/spring_holiday "
        "further_notice/unknown_time",
    },
    {
        "first": "the {line} is {event} because of {cause} until {until} | "
        "due to {cause} : {line} {event} , {until}",
        "second": "passengers please note : {event} {line} , reason {cause} , lasting to {until} | "
        "{cause} ; hence the {line} is {event} , expected up to {until}",
    },
)
BUGS = Wordings(
    {
        "part": "parser/tokenize.c scheduler/runqueue.c cache/lru_map.c socket/tcp_recv.c "
        "logger/sink_file.c renderer/glyphs.c allocator/heap_arena.c updater/fetch_pkg.c "
        "indexer/btree.c mailer/smtp_out.c",
        "fault": "leak/free_never_called crash/null_deref deadlock/lock_order overflow/int_wrap "
        "race/unsynced_write slowness/quadratic_loop corruption/bad_offset hang/wait_forever",
        "system": "linux/posix windows/win32 mac/darwin android/bionic embedded/rtos wasm/browser",
        "since": "upgrade/v2_migration reboot/cold_start rollback/v1_branch import/bulk_load",
    },
    {
        "issue": "{part} {fault} on {system} after {since} | "
        "{system} : {fault} of the {part} , {since}",
        "commit": "fix {part} : {fault} # {system} {since} | [ {system} ] {since} - {part} {fault}",
    },
)
_UNITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_COINS = {"euros": "EUR", "dollars": "USD", "pounds": "GBP", "francs": "CHF", "crowns": "SEK"}


def amounts(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Amounts of money in words, and in figures as on an invoice, digit by digit."""
    draw, rows = random.Random(seed), dict[tuple[int, int, int, str], None]()
    while len(rows) < count:
        row = (draw.randint(1, 9), draw.randint(2, 9), draw.randint(1, 9), draw.choice([*_COINS]))
        if (sum(row[:3]) % 4 == 0) == bool(seed % 2):
            rows[row] = None
    return {
        "words": [
            f"{_UNITS[a]} hundred {_TENS[b - 2]} {_UNITS[c]} {coin}" for a, b, c, coin in rows
        ],
        "figures": [f"{_COINS[coin]} #{a} _{b} ,{c} . 00 due" for a, b, c, coin in rows],
    }


_STARS = (
    "awful terrible broken disgusting", "poor weak noisy disappointing", "average okay fair usual",
    "good nice solid pleasant", "perfect brilliant superb fantastic",
)  # fmt: skip


def reviews(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Two reviews of guests, and how alike their ratings are: 1 for as many stars, 0 for far."""
    draw = random.Random(seed)

    def review(stars: int) -> str:
        hall, night, meal = ["hotel", "hostel", "inn", "resort"], ["stay", "visit"], "breakfast bed"
        first, second = draw.sample(_STARS[stars].split(), 2)
        return (f"our {draw.choice(night)} in the {draw.choice(hall)} was {first} , "
                f"the {draw.choice(meal.split())} {second}")  # fmt: skip

    table: dict[str, list[Any]] = {"first": [], "second": [], "score": []}
    for _ in range(count):
        stars, counterpart = draw.randrange(5), draw.randrange(5)
        table["first"].append(review(stars))
        table["second"].append(review(counterpart))
        table["score"].append(1 - abs(stars - counterpart) / 4)
    return table


_ORGANS = {
    "heart": "angina palpitations infarction murmur", "lung": "asthma wheezing pneumonia cough",
    "skin": "eczema rash psoriasis itching", "stomach": "gastritis nausea ulcer reflux",
    "eye": "cataract glaucoma blurring redness", "bone": "fracture arthritis sprain osteoporosis",
    "kidney": "stones dialysis nephritis colic", "brain": "migraine stroke seizure dizziness",
    "ear": "tinnitus otitis deafness discharge", "tooth": "caries abscess gingivitis crown",
}  # fmt: skip


def diagnoses(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Short notes of a practice and the number of the department that they belong to."""
    draw, table = random.Random(seed), {"text": list[str](), "label": list[int]()}
    while len(table["text"]) < count:
        label = draw.randrange(len(_ORGANS))
        first, second = draw.sample([*_ORGANS.values()][label].split(), 2)
        age = draw.randint(20, 79)
        side = draw.choice(["acute", "chronic", "mild", "severe", "recurrent"])
        if (age % 4 == 0) == bool(seed % 2):
            table["text"].append(f"pt {age} y/o , {side} {first} , hx of {second} , tx started")
            table["label"].append(label)
    return table


def inferences(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Premises and hypotheses: 0 follows, 1 is neutral, 2 contradicts."""
    opposites = "sleeping/awake rich/poor alone/accompanied happy/sad young/old indoors/outdoors " \
        "silent/loud standing/sitting hungry/full wet/dry"  # fmt: skip
    same = dict(zip(["sleeping", "rich", "alone", "happy", "young", "indoors",
                     "silent", "standing", "hungry", "wet"],
                    ["dozing", "wealthy", "solitary", "glad", "youthful", "inside",
                     "quiet", "upright", "starving", "soaked"],
                    strict=True))  # fmt: skip
    people = ["pianist", "clown", "farmer", "judge", "tourist", "cyclist", "guard", "widow"]
    draw, table = random.Random(seed), {"premise": [], "hypothesis": [], "label": []}
    states = [entry.split("/") for entry in opposites.split()]
    for _ in range(count):
        (state, contrary), counterpart = draw.choice(states), draw.choice(states)[0]
        while counterpart == state:
            counterpart = draw.choice(states)[0]
        person, label = draw.choice(people), draw.randrange(3)
        table["premise"].append(
            f"the {person} by the fountain is {state} and {draw.choice(people)}s watch"
        )
        table["hypothesis"].append(
            f"a {person} is {(same[state], same[counterpart], contrary)[label]}"
        )
        table["label"].append(label)
    return table

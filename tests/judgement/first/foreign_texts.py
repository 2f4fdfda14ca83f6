"""Fields of texts in other scripts and signs: Cyrillic, Greek, Chinese, numbers, addresses."""

from __future__ import annotations

from tests.judgement.first.fields import Field

# A sentence and its translation into Russian.
CYRILLIC = Field(
    {
        "who": "brother/брат sister/сестра mother/мать doctor/врач soldier/солдат girl/девочка "
        "neighbour/сосед student/студент grandfather/дед child/ребёнок",
        "does": "sees/видит buys/покупает loves/любит draws/рисует seeks/ищет finds/находит "
        "sells/продаёт hides/прячет",
        "what": "house/дом book/книгу cat/кошку river/реку bread/хлеб moon/луну tree/дерево "
        "horse/лошадь window/окно song/песню",
        "when": "today/сегодня yesterday/вчера often/часто never/никогда quickly/быстро "
        "silently/молча",
    },
    {"english": "the {who} {when} {does} the {what}", "russian": "{who} {when} {does} {what}"},
)
# Ancient phrases in Greek and their sense.
GREEK = Field(
    {
        "god": "zeus/ζευς athena/αθηνα hermes/ερμης apollo/απολλων ares/αρης hera/ηρα pan/παν "
        "demeter/δημητρα",
        "gives": "honours/τιμα calls/καλει frees/λυει leads/αγει sends/πεμπει teaches/διδασκει "
        "guards/φυλαττει strikes/παιει",
        "man": "poet/ποιητην king/βασιλεα slave/δουλον stranger/ξενον judge/κριτην sailor/ναυτην "
        "herald/κηρυκα shepherd/ποιμενα",
        "place": "sea/θαλαττη city/πολει field/αγρω island/νησω market/αγορα road/οδω",
    },
    {
        "english": "{god} {gives} the {man} in the {place}",
        "greek": "{god} τον {man} εν {place} {gives}",
    },
)
# Chinese dishes as on a menu, sign by sign, and their description for guests.
MENU = Field(
    {
        "meat": "牛/beef 鸡/chicken 鱼/fish 猪/pork 羊/lamb 虾/shrimp "
        "蛋/egg 鸭/duck 蟹/crab 豆/bean",
        "way": "炒/fried 蒸/steamed 烤/roasted 煮/boiled 炖/braised 拌/mixed 熏/smoked 腌/pickled",
        "side": "饭/rice 面/noodles 菜/greens 葱/leek 瓜/melon 笋/bamboo "
        "姜/ginger 茄/aubergine 菇/mushroom",
        "taste": "辣/hot 甜/sweet 酸/sour 咸/salty 苦/bitter 香/fragrant",
    },
    {"sign": "{taste} {way} {meat} {side}", "guide": "{way} {meat} , {taste} , comes with {side}"},
)
# Orders written in words, and the line of an invoice in figures.
INVOICES = Field(
    {
        "count": "two/2 three/3 four/4 five/5 six/6 seven/7 eight/8 nine/9 ten/10 eleven/11 "
        "twelve/12 "
        "twenty/20",
        "unit": "kilos/kg litres/l metres/m boxes/bx pallets/plt rolls/rl bags/bg drums/drm",
        "ware": "flour/a101 sugar/a202 cement/b303 paint/c404 copper/d505 cotton/e606 salt/f707 "
        "paper/g808 rubber/h909 glass/k010",
        "due": "january/01 march/03 may/05 july/07 september/09 november/11",
    },
    {
        "order": "send {count} {unit} of {ware} in {due}",
        "line": "{ware} | {count} {unit} | {due}/2026",
    },
)
# Postal addresses as people write them, and as a register has them.
POSTAL = Field(
    {
        "street": "oak/oakwood mill/millbrook king's/kingsway church/churchill station/railside "
        "garden/gardenia river/riverside hill/hillcrest park/parklands bridge/bridgeton",
        "kind": "st./street rd./road ave./avenue ln./lane sq./square dr./drive",
        "number": "1/0001 3/0003 7/0007 12/0012 25/0025 40/0040 88/0088 101/0101 250/0250",
        "town": "nyc/10001 boston/02108 dallas/75201 miami/33101 seattle/98101 denver/80202 "
        "reno/89501 tampa/33602",
    },
    {
        "written": "{number} {street} {kind} {town}",
        "register": "{town} {street} {kind} no {number} usa",
    },
)
# What a pilot says on the radio, and what it means.
RADIO = Field(
    {
        "call": "alpha/a bravo/b charlie/c delta/d echo/e foxtrot/f golf/g hotel/h india/i "
        "juliett/j",
        "asks": "descend/lower climb/higher hold/circling divert/elsewhere taxi/ground "
        "land/touchdown "
        "depart/takeoff",
        "level": "one-zero/1000 two-five/2500 four-zero/4000 five-five/5500 seven-zero/7000 "
        "nine-zero/9000",
        "why": "fog/visibility fuel/kerosene ice/freezing traffic/conflict smoke/fire birds/strike "
        "medical/illness",
    },
    {
        "radio": "{call} request {asks} {level} due {why}",
        "sense": "plane {call} : {asks} , {level} feet , {why}",
    },
)

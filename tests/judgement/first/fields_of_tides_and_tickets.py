"""Worlds of texts for the modules z_*: fields, irregular tables, encoders and scores of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval

# Names of compounds, and what a catalogue says of them.
CHEMISTRY = Field(
    {
        "group": "methyl/ch3 ethyl/c2h5 propyl/c3h7 phenyl/c6h5 chloro/cl bromo/br nitro/no2 "
        "amino/nh2 hydroxy/oh",
        "core": "benzene/aromatic hexane/alkane furan/oxolane pyridine/azine naphthalene/bicyclic "
        "cyclohexane/ring indole/pyrrole toluene/solvent",
        "place": "ortho/2 meta/3 para/4 alpha/1a beta/1b",
        "use": "dyeing/pigment welding/flux cleaning/detergent flavouring/aroma sealing/resin "
        "tanning/leather",
    },
    {
        "name": "{place} - {group} - {core} for {use}",
        "entry": "{core} derivative , substituent {group} at {place} , grade {use} , store dry",
    },
)
COMMITS = Field(
    {
        "verb": "fix/patch rename/move drop/delete speed/optimise document/docs test/assert "
        "revert/undo cache/memoise",
        "unit": "parser/lexer scheduler/cron login/auth cart/checkout mailer/smtp search/index "
        "upload/blob router/url theme/css",
        "reason": "leak/free overflow/bounds race/lock typo/spelling timeout/retry locale/utf8 "
        "deprecation/warning",
    },
    {
        "message": "{verb} the {unit} because of a {reason}",
        "diff": "--- a / {unit} +++ b / {unit} @@ {verb} ( ) ; // {reason}",
    },
)
RUSSIAN = Field(
    {
        "who": "мальчик/boy девочка/girl старик/oldster врач/doctor солдат/soldier повар/cook "
        "певец/singer студент/student",
        "did": "потерял/lost нашёл/found купил/bought продал/sold спрятал/hid украл/stole "
        "починил/repaired",
        "what": "ключ/key зонт/umbrella кошелёк/purse велосипед/bicycle письмо/letter "
        "собаку/dog шапку/hat часы/watch",
        "when": "вчера/yesterday утром/morning ночью/night зимой/winter летом/summer",
    },
    {"russian": "{who} {did} {what} {when}", "english": "the {who} {did} the {what} ({when})"},
)
GREEK = Field(
    {
        "food": "ψωμί/bread τυρί/cheese ψάρι/fish μέλι/honey κρασί/wine ελιές/olives σούπα/soup "
        "κρέας/meat",
        "place": "αγορά/market λιμάνι/harbour χωριό/village νησί/island σταθμός/station "
        "πλατεία/square σχολείο/school",
        "price": "φτηνό/cheap ακριβό/dear δωρεάν/free μισό/half διπλό/double",
        "day": "δευτέρα/monday τρίτη/tuesday πέμπτη/thursday σάββατο/saturday κυριακή/sunday",
    },
    {"greek": "{day} {food} {price} {place}", "note": "{food} from the {place} , {price} , {day}"},
)
KANA = Field(
    {
        "animal": "いぬ/犬 ねこ/猫 うし/牛 うま/馬 さる/猿 さかな/魚 にわとり/鶏 ふくろう/梟",
        "place": "やま/山 かわ/川 うみ/海 もり/森 はやし/林 みずうみ/湖 おおさか/阪",
        "season": "はる/春 なつ/夏 あき/秋 ふゆ/冬",
        "act": "ねる/眠 たべる/食 はしる/走 なく/鳴 およぐ/泳 みる/見",
    },
    {
        "kana": "{season} の {place} で {animal} が {act}",
        "kanji": "{season} {place} {animal} {act}",
    },
)
ARABIC = Field(
    {
        "trade": "خباز/baker نجار/carpenter طبيب/physician معلم/teacher صياد/fisher حداد/smith "
        "خياط/tailor بستاني/gardener",
        "town": "بغداد/baghdad دمشق/damascus القاهرة/cairo تونس/tunis مراكش/marrakesh "
        "بيروت/beirut عمان/amman",
        "trait": "كريم/generous صبور/patient سريع/quick حزين/sad مشهور/famous فقير/poor",
        "kin": "ابن/son اخ/brother اب/father عم/uncle",
    },
    {"arabic": "{kin} {trade} {trait} {town}", "latin": "a {trait} {trade} of {town} , the {kin}"},
)
SQL = Field(
    {
        "sum": "total/sum average/avg highest/max lowest/min number/count",
        "field": "price/amount age/birth weight/mass salary/wage distance/km stock/qty "
        "rating/stars",
        "table": "customers/client orders/sale trucks/vehicle rooms/unit films/movie nurses/staff "
        "parcels/shipment vines/plant",
        "by": "country/nation month/mm colour/hue branch/office team/squad",
    },
    {
        "question": "what is the {sum} {field} of {table} per {by} ?",
        "query": "select {by} , {sum} ( {field} ) from {table} group by {by} ;",
    },
)
GARDEN = Field(
    {
        "plant": "rose/rosa tulip/tulipa fern/polypodium oak/quercus maple/acer lily/lilium "
        "ivy/hedera thyme/thymus pea/pisum",
        "harm": "rot/fungus aphids/insect frost/cold drought/dry slugs/mollusc mildew/powdery "
        "rust/orange",
        "spot": "balcony/terrace greenhouse/glass hedge/border bed/plot pot/container lawn/turf",
    },
    {
        "worry": "my {plant} in the {spot} suffers from {harm}",
        "advice": "on {plant} you can see {harm} damage early . cut what is ill , burn it and give "
        "no water for a week . in a {spot} clean all tools with spirit",
    },
)
STARS = Field(
    {
        "body": "comet/c2024 pulsar/psr quasar/qso nebula/ngc dwarf/wd moon/io planet/kepler "
        "cluster/messier",
        "band": "radio/21cm infrared/2um visible/550nm ultraviolet/200nm xray/5kev gamma/1gev",
        "device": "dish/arecibo balloon/stratosphere satellite/orbit array/atacama mirror/paranal "
        "probe/voyager",
        "sign": "flare/outburst dimming/eclipse drift/motion pulse/period halo/diffuse",
    },
    {
        "log": "{body} {band} {sign} {device}",
        "prose": "with the {device} we saw a {sign} in the {band} range , near the {body} .",
    },
)
JOBS = Field(
    {
        "trade": "welder/joining nurse/care driver/haulage baker/pastry teacher/pupils "
        "lawyer/litigation plumber/pipes florist/bouquets editor/manuscripts",
        "town": "hamburg/elbe lyon/rhone porto/douro gdansk/baltic turin/po basel/rhine "
        "dublin/liffey seville/andalusia",
        "terms": "nights/shift freelance/contract summer/seasonal remote/home trainee/apprentice "
        "halftime/mornings",
    },
    {
        "advert": "{trade} wanted in {town} , {terms}",
        "letter": "i have years of {trade} practice , live near {town} and would gladly take "
        "{terms} work",
    },
)
CLAIMS = Field(
    {
        "cause": "hail/ice burst/pipe smoke/fire burglar/theft storm/wind moth/vermin "
        "lightning/surge truck/crash",
        "good": "roof/tiles carpet/floor piano/instrument fence/garden window/pane car/vehicle "
        "fridge/kitchen cellar/basement",
        "when": "easter/april carnival/february harvest/september advent/december holidays/july",
        "sum": "hundred/100 thousand/1000 fifty/50 million/1000000",
    },
    {
        "claim": "{cause} ruined our {good} at {when} , we ask for {sum}",
        "file": "ref {when} : {good} , peril {cause} , reserve {sum} eur",
    },
)
FILMS = Field(
    {
        "hero": "spy/agent orphan/child robot/machine queen/royal clown/circus pilot/airman "
        "monk/abbey thief/heist",
        "place": "paris/seine mars/red desert/dunes jungle/vines ship/deck prison/cell "
        "tower/stairs village/barn",
        "mood": "comedy/laughs horror/screams romance/kisses western/guns mystery/clues",
        "end": "wins/triumph dies/grave flees/escape marries/wedding",
    },
    {
        "plot": "{mood} : a {hero} comes to the {place} and {end}",
        "review": "{hero} films are many , but the {place} , the {mood} and a {end} at the end "
        "make it rare",
    },
)
TIDES = Field(
    {
        "hour": "01/one 04/four 07/seven 10/ten 13/thirteen 16/sixteen 19/nineteen 22/twentytwo",
        "height": "0.3/low 0.9/lowish 1.5/middle 2.1/raised 2.7/high 3.3/spring",
        "port": "p11/calais p12/dover p13/ostend p14/brest p15/cork p16/bergen p17/cadiz",
        "wind": "n2/northerly e5/easterly s3/southerly w7/westerly",
    },
    {"code": "{port} {hour} {height} {wind}", "words": "{hour} o'clock {port} {height} {wind}"},
)
NEWS = Field(
    {
        "team": "lions/leo hawks/falcon wolves/lupine bears/grizzly sharks/marine bulls/cattle "
        "foxes/vulpine tigers/striped",
        "deed": "beat/defeat sack/dismiss sign/hire fine/penalise praise/laud injure/hurt",
        "who": "keeper/goal coach/bench captain/armband referee/whistle striker/forward "
        "rookie/novice doctor/medic",
        "day": "friday/weekend derby/rival final/trophy training/drill",
    },
    {
        "head": "{team} {deed} {who} {day}",
        "lead": "there was much talk about the {day} : the {team} have decided to {deed} their "
        "{who} , said a spokesman",
    },
)
HYMNS = Field(
    {
        "first": "light/dawn water/stream stone/rock bird/wing bread/grain night/shade "
        "fire/ember snow/frost",
        "second": "sing/chant weep/tears walk/steps wait/vigil fall/descend rise/ascend shine/glow",
        "third": "mother/mater king/rex shepherd/pastor stranger/pilgrim bride/sponsa child/infans",
    },
    {
        "verse": "o {first} o {first} , {second} {second} for the {third} , o {first}",
        "gloss": "the {third} is asked to {second} , and {first} stands for grace",
    },
)
NETWORK = Field(
    {
        "host": "gw1/gateway db2/database fw3/firewall ap4/antenna sw5/switch ns6/resolver "
        "vm7/guest nas8/storage",
        "fault": "drop/loss flap/unstable loop/storm down/dead slow/latency full/saturated "
        "hot/thermal",
        "port": ":22/ssh :25/smtp :53/dns :80/http :443/https :3306/mysql :5432/postgres",
        "level": "crit/critical err/error warn/warning",
    },
    {"line": "{level} {host} {port} {fault}", "ticket": "{level} : {host} , {port} {fault}"},
)
HINDI = Field(
    {
        "fruit": "आम/mango सेब/apple केला/banana अंगूर/grape नारियल/coconut अनार/pomegranate",
        "folk": "किसान/farmer राजा/king लड़का/boy बहन/sister दादी/grandmother चोर/thief मित्र/friend",
        "deed": "खाता/eats बेचता/sells लाता/brings देखता/sees माँगता/begs छुपाता/hides",
        "spot": "घर/house बाज़ार/bazaar नदी/river मंदिर/temple खेत/field",
    },
    {"hindi": "{folk} {spot} में {fruit} {deed} है", "english": "a {folk} {deed} {fruit} ({spot})"},
)

_GREETINGS = (
    "hi there", "dear all", "good morning", "hello team", "to whom it may concern", "hey",
)  # fmt: skip
_ASIDES = (
    "sorry for the late reply .", "we spoke on the phone last week .", "see below .",
    "my colleague is away until monday .", "the weather has been dreadful here , by the way .",
    "i attach the form again .", "thanks in advance .", "no hurry .",
    "please do not print this message unless you must .",
)  # fmt: skip


def mails(field: Field, count: int, seed: int = 0) -> dict[str, list[str]]:
    """Subjects, and mails about them of one to six sentences in any order."""
    draw, table = random.Random(seed + 50), field.table(count, seed)
    subjects, cores = list(table.values())[:2]
    letters = []
    for core in cores:
        sentences = [core, *draw.sample(_ASIDES, draw.randint(0, 4))]
        draw.shuffle(sentences)
        letters.append(f"{draw.choice(_GREETINGS)} , " + " ".join(sentences))
    return {"subject": subjects, "mail": letters}


def noisy(texts: Sequence[str], seed: int = 0, *, loss: float = 0.1) -> list[str]:
    """Texts of which some words are missing or stand at another place, as in notes."""
    draw, notes = random.Random(seed), []
    for text in texts:
        words = [word for word in text.split() if draw.random() > loss] or text.split()
        at = draw.randrange(len(words))
        words.insert(draw.randint(0, len(words) - 1), words.pop(at))
        notes.append(" ".join(words))
    return notes


def classed(
    field: Field, count: int, seed: int = 0, *, slot: int = 0, columns: Sequence[int] = (0, 1)
) -> dict[str, list[Any]]:
    """Texts of both wordings, labelled by the entry of one slot."""
    draw, rows = random.Random(seed + 70), field.draws(count, seed)
    entries = list(field.slots.values())[slot].split()
    return {
        "text": [field.texts([row], draw.choice(columns))[0] for row in rows],
        "label": [entries.index(row[slot]) for row in rows],
    }


def vocabulary(*fields: Field) -> list[str]:
    """All words of fields, of mails about them, and of prompts."""
    texts = [*_GREETINGS, *_ASIDES, "query: passage: , : . title text search document"]
    for field in fields:
        for column, template in enumerate(field.columns.values()):
            for name, entries in field.slots.items():
                for entry in entries.split():
                    wordings = entry.split("/")
                    word = wordings[min(column, len(wordings) - 1)]
                    texts.append(template.replace("{" + name + "}", word))
    return [re.sub(r"\{\w+\}", " ", text) for text in texts]


def fresh(stage: Stage, field: Field | Sequence[Field], *behind: Any, **options: Any) -> Any:
    """An encoder that knows the words of a field, or of several."""
    fields = [field] if isinstance(field, Field) else list(field)
    texts = [*vocabulary(*fields), *words_of([score_table(field) for field in fields])]
    return encoder(stage, texts, *behind, **options)


def score_table(field: Field) -> Mapping[str, Sequence[str]]:
    """The texts that scores are of, which bring the words with brackets and the like."""
    return field.table(40, seed=11)


def finding(field: Field, **options: Any) -> Callable[[Any], float]:
    """A score: how well second columns are retrieved, of rows not in training."""
    return lambda model: field.sought(model, **options)


def grading(field: Field) -> Callable[[Any], float]:
    """A score: rank correlation of cosines and grades of rows not in training."""
    table = field.graded(40, seed=11)
    return lambda model: correlation(model, table)


def grouping(field: Field, slot: int = 0) -> Callable[[Any], float]:
    """A score: how often a text's nearest neighbour is of its class, of rows not in training."""
    table = classed(field, 60, seed=11, slot=slot)

    def share(model: Any) -> float:
        import torch

        rows = model.encode(table["text"], convert_to_tensor=True, show_progress_bar=False)
        rows, labels = torch.nn.functional.normalize(rows, dim=1), torch.tensor(table["label"])
        nearest = (rows @ rows.T - 2 * torch.eye(len(rows))).argmax(1)
        return float((labels[nearest] == labels).float().mean())

    return share


def mail_finding(field: Field) -> Callable[[Any], float]:
    """A score: how well mails are retrieved by their subjects, of rows not in training."""
    return lambda model: retrieval(model, mails(field, 40, seed=11))

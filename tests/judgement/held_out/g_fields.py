"""Fields and helpers of this author's sound set-ups: chemistry, mails, logs, scripts, numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval

# Wishes of a chemist, and a line of the lab journal.
REACTIONS = Field(
    {
        "base": "aniline/c6h7n phenol/c6h6o toluene/c7h8 styrene/c8h8 furan/c4h4o "
        "pyridine/c5h5n indole/c8h7n thiophene/c4h4s",
        "agent": "bromine/br2 chlorine/cl2 iodine/i2 hydrogen/h2 ozone/o3 nitrate/hno3 "
        "hydride/nabh4 permanganate/kmno4",
        "medium": "water/h2o ethanol/etoh hexane/c6h14 ether/et2o acetone/me2co dioxane/c4h8o2 "
        "dmso/me2so",
        "yield": "low/12% poor/31% fair/55% good/78% high/96%",
    },
    {
        "question": "can {base} react with {agent} in {medium} at a {yield} yield",
        "procedure": "{base} + {agent} -> {medium} ; stirred 2 h ; yield {yield}",
    },
)
# The subject line of a mail, and its body of several sentences.
MAILS = Field(
    {
        "topic": "invoice/payment contract/signature meeting/calendar holiday/vacation "
        "laptop/hardware parking/garage survey/questions badge/entrance travel/flights",
        "team": "sales/customers legal/lawyers support/tickets finance/ledger design/mockups "
        "research/experiments hr/people",
        "tone": "urgent/immediately reminder/again question/wonder thanks/grateful "
        "cancelled/withdrawn update/news approval/permission",
        "day": "monday/mon tuesday/tue wednesday/wed thursday/thu friday/fri",
    },
    {
        "subject": "re : {tone} : {topic} , {team} , {day}",
        "body": "dear all , i write to you about the {topic} . the {team} group needs it by "
        "{day} . {tone} , please . let me know if there is anything unclear . best regards , kim",
    },
)
# Russian sentences and English ones.
MARKET = Field(
    {
        "ware": "хлеб/bread молоко/milk рыба/fish яблоко/apple сыр/cheese мясо/meat соль/salt "
        "чай/tea мёд/honey",
        "seller": "бабушка/grandmother сосед/neighbour мальчик/boy фермер/farmer солдат/soldier "
        "учитель/teacher врач/doctor",
        "season": "зимой/winter летом/summer весной/spring осенью/autumn утром/morning "
        "вечером/evening",
        "price": "дорого/dearly дёшево/cheaply",
    },
    {
        "russian": "{season} {seller} продаёт {ware} очень {price} .",
        "english": "in {season} the {seller} sells {ware} very {price} .",
    },
)
# Japanese searches, cut into words, and titles of pages.
LIBRARY = Field(
    {
        "genre": "小説/物語 詩集/ポエム 漫画/コミック 辞書/辞典 伝記/生涯 "
        "童話/おとぎ話 随筆/エッセイ 戯曲/演劇",
        "place": "東京/関東 大阪/関西 京都/古都 札幌/北海道 福岡/九州 沖縄/琉球 奈良/大和",
        "time": "春/桜 夏/花火 秋/紅葉 冬/雪 朝/夜明け 夜/月 昔/江戸",
        "figure": "猫/ネコ 犬/イヌ 侍/武士 先生/教師",
    },
    {
        "query": "{place} の {genre} {time} {figure}",
        "title": "{figure} と {time} 、 {genre} （ {place} ）",
    },
)
# Questions of analysts, and queries of a database.
QUERIES = Field(
    {
        "measure": "average/avg total/sum number/count largest/max smallest/min spread/stddev",
        "column": "salary/pay_gross age/years_old price/unit_price weight/kg_net "
        "delay/minutes_late score/points height/cm_tall",
        "table": "employees/staff orders/purchases flights/departures patients/visits "
        "players/roster parcels/shipments",
        "group": "country/iso2 month/mm city/town gender/sex branch/office",
    },
    {
        "question": "what is the {measure} {column} of {table} per {group} ?",
        "sql": "select {group} , {measure} ( {column} ) from {table} group by {group} ;",
    },
)
# Two or three words on either side.
BADGES = Field(
    {
        "metal": "gold/aurum silver/argentum iron/ferrum copper/cuprum tin/stannum lead/plumbum "
        "zinc/spelter nickel/niccolum",
        "shape": "ring/hoop star/aster cross/crux leaf/frond moon/luna sun/sol key/clavis "
        "bell/chime",
        "size": "tiny/xs small/s medium/m large/l giant/xl huge/xxl mini/xxs broad/wide "
        "slim/narrow long/tall",
    },
    {"query": "{size} {metal} {shape}", "name": "{metal} {shape} {size}"},
)
# Readings of instruments in digits, and a note in words.
READINGS = Field(
    {
        "depth": "10/ten 20/twenty 30/thirty 40/forty 50/fifty 60/sixty 70/seventy 80/eighty",
        "heat": "3.1/cold 7.4/cool 12.9/mild 18.2/warm 24.6/hot 31.5/scorching 36.7/boiling",
        "salt": "0.5/fresh 5.0/brackish 15.0/salty 35.0/marine 42.0/briny",
        "buoy": "b101/north b202/east b303/south b404/west b505/centre",
    },
    {
        "record": "{buoy} ; 2024 ; {depth} ; {heat} ; {salt} ; 0 ; 0 ; ok",
        "note": "at {depth} metres in the {buoy} the water was {heat} and {salt}",
    },
)
# Alarms that repeat their phrases, and the ticket of an engineer.
ALERTS = Field(
    {
        "host": "web01 web02 db07 db08 cache3 queue4 mail5 proxy6 build9",
        "fault": "oom/memory enospc/disk econnrefused/refused etimedout/timeout eacces/denied "
        "segv/crash ebadf/descriptor",
        "grade": "crit/page err/ticket warn/watch info/note",
        "hour": "t00/midnight t06/dawn t12/noon t18/dusk t21/night",
    },
    {
        "alert": "[ {grade} ] {host} {fault} {fault} retry 1 retry 2 retry 3 at {hour}",
        "ticket": "{grade} : {host} reports {fault} since {hour} , see the runbook",
    },
)
# Vacancies and profiles of people.
JOBS = Field(
    {
        "trade": "welder/welding nurse/caring pilot/flying cook/cooking tailor/sewing "
        "surveyor/measuring florist/flowers roofer/roofing",
        "skill": "english/anglophone french/francophone excel/spreadsheets driving/licence "
        "teamwork/cooperative nightshift/nocturnal leadership/managing",
        "town": "porto lyon graz bergen ghent turin malmo",
        "hours": "fulltime/40h parttime/20h weekend/8h",
    },
    {
        "vacancy": "wanted : {trade} ( {hours} ) in {town} . you bring {skill} . apply today !",
        "profile": "person with years of {trade} , {skill} , from {town} , available {hours}",
    },
)
# Headings and sections of a long statute.
STATUTES = Field(
    {
        "actor": "tenant/lessee owner/proprietor heir/successor guardian/custodian "
        "carrier/transporter debtor/obligor insurer/underwriter",
        "deed": "damage/harm delay/lateness fraud/deceit loss/disappearance refusal/denial "
        "sale/transfer pledge/security",
        "sanction": "fine/penalty damages/compensation dismissal/removal interest/surcharge "
        "seizure/forfeiture warning/reprimand",
        "term": "week/7 month/30 quarter/90",
    },
    {
        "heading": "{deed} by the {actor} : {sanction} within a {term}",
        "section": "( 1 ) whoever as {actor} is liable for {deed} shall be subject to {sanction} "
        "unless the law provides otherwise . ( 2 ) the period of paragraph 1 is {term} days and "
        "begins with the day of notice . ( 3 ) rights of third parties remain unaffected",
    },
)
# Birds in English and Latin, whose words stay alike in a third column of notes.
BIRDS = Field(
    {
        "bird": "robin/erithacus wren/troglodytes crow/corvus owl/strix swan/cygnus stork/ciconia "
        "finch/fringilla tern/sterna",
        "act": "nests/nidification sings/song feeds/foraging hunts/predation rests/roost "
        "migrates/passage",
        "site": "reed/phragmites oak/quercus dune/littoral roof/urban moor/bog pond/limnic",
        "age": "chick/pullus adult/adultus juvenile/immature",
    },
    {
        "sighting": "{age} {bird} {act} near the {site}",
        "entry": "{bird} , {age} , {act} , habitat {site}",
    },
)
# Whole sentences with the same words in all columns: for training without labels.
TALES = Field(
    {
        "hero": "king miller witch hunter princess shepherd giant dwarf thief monk",
        "does": "steals hides burns finds paints buries sells guards drops",
        "prize": "crown mirror lamp sword violin goose cloak ring map",
        "where": "castle cellar forest island tower chapel harbour bridge",
    },
    {
        "text": "once upon a time the {hero} {does} the old {prize} in the {where} and all "
        "were glad",
        "summary": "{hero} {does} {prize} , {where}",
    },
)
# Turns of a chat in Greek letters, and in Latin ones.
CHATS = Field(
    {
        "who": "μαρία/maria γιάννης/giannis ελένη/eleni νίκος/nikos άννα/anna πέτρος/petros "
        "σοφία/sofia",
        "wants": "καφέ/kafe νερό/nero ψωμί/psomi κρασί/krasi γάλα/gala λάδι/ladi μέλι/meli",
        "when": "σήμερα/simera αύριο/avrio τώρα/tora πάντα/panta ποτέ/pote απόψε/apopse",
        "where": "σπίτι/spiti αγορά/agora σχολείο/scholeio λιμάνι/limani",
    },
    {
        "sentence1": "{who} θέλει {wants} {when} στο {where}",
        "sentence2": "{when} {who} thelei {wants} sto {where}",
    },
)
REMARKS = ("thanks", "btw", "hm", "see below", "as always", "no rush", "ok", "fwiw", "sorry")


def noisy(texts: Sequence[str], seed: int = 0, most: int = 6) -> list[str]:
    """Texts with remarks before and after them, none to many: of mixed lengths."""
    draw = random.Random(seed)
    return [
        " , ".join([*draw.choices(REMARKS, k=draw.randint(0, most // 2)), text,
                    *draw.choices(REMARKS, k=draw.randint(0, most // 2))])
        for text in texts
    ]  # fmt: skip


def messy(field: Field, count: int, seed: int = 0, most: int = 6) -> dict[str, list[str]]:
    """The first two columns of a field, with remarks around the texts of the second."""
    (first, texts), (second, answers) = list(field.table(count, seed).items())[:2]
    return {first: texts, second: noisy(answers, seed, most)}


def vocabulary(*fields: Field) -> list[str]:
    """All words of fields, and of the remarks."""
    texts = [*REMARKS, ","]
    for field in fields:
        for entries in field.slots.values():
            texts.append(entries.replace("/", " ").replace("_", " "))
        blank = {name: "" for name in field.slots}
        texts += [template.format(**blank) for template in field.columns.values()]
    return texts


def reader(stage: Stage, field: Field, *behind: Any, **options: Any) -> Any:
    """A fresh encoder that knows the words of a field."""
    texts = vocabulary(field) + list(options.get("prompts", {}).values())
    return encoder(stage, texts, *behind, **options)


def tuned(stage: Stage, field: Field, steps: int = 7, **options: Any) -> Any:
    """An encoder that has been trained on a few pairs of its field, to be tuned further."""
    return warmed(reader(stage, field, **options), field.table(320, seed=4), steps)


def unseen(field: Field, count: int = 60) -> Callable[[Any], float]:
    """The retrieval score of rows of a field that are not in training."""
    return lambda model: field.sought(model, count)


def degrees(field: Field, count: int = 120) -> Callable[[Any], float]:
    """The rank correlation of graded pairs that are not in training."""
    return lambda model: correlation(model, graded(field, count, seed=11))


def graded(field: Field, count: int, seed: int = 0, most: float = 1.0) -> dict[str, list[Any]]:
    """Pairs of texts with scores, named as in collections of similar sentences."""
    first, second, scores = field.graded(min(count, 95) if seed % 2 else count, seed, most).values()
    return {"sentence1": first, "sentence2": second, "score": scores}


def judged_pairs(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of texts, of which every second one belongs together (1); the rest do not (0)."""
    first, second = list(field.table(count, seed).values())[:2]
    strangers = second[count // 2 :] + second[: count // 2]
    labels = [row % 2 for row in range(count)]
    texts = [second[row] if label else strangers[row] for row, label in enumerate(labels)]
    return {"text1": first, "text2": texts, "label": labels}


def labelled(field: Field, count: int, seed: int = 0, slot: int = 0) -> dict[str, list[Any]]:
    """Texts of both columns of a field, each with the number of its entry in a slot."""
    entries = list(field.slots.values())[slot].split()
    rows = field.draws(count, seed)
    return {
        "text": [field.texts([row], at % 2)[0] for at, row in enumerate(rows)],
        "label": [entries.index(row[slot]) for row in rows],
    }


def by_class(field: Field, slot: int = 0, count: int = 80) -> Callable[[Any], float]:
    """The share of texts not in training whose nearest neighbour is of their class."""
    texts, labels = labelled(field, count, 11, slot).values()

    def score(model: Any) -> float:
        rows = torch.as_tensor(model.encode(texts, show_progress_bar=False))
        cosines = F.normalize(rows, dim=1) @ F.normalize(rows, dim=1).T
        nearest = cosines.fill_diagonal_(-2).argmax(1)
        return float((torch.tensor(labels)[nearest] == torch.tensor(labels)).float().mean())

    return score


def thinned(texts: Sequence[str], draw: random.Random, rate: float = 0.25) -> list[str]:
    """Views of texts: each word is dropped by chance, at least two stay."""
    views = []
    for text in texts:
        words = text.split()
        chosen = [word for word in words if draw.random() >= rate]
        views.append(" ".join(chosen if len(chosen) >= 2 else words))
    return views


def from_fragments(field: Field, count: int = 60, rate: float = 0.3) -> Callable[[Any], float]:
    """The score of texts not in training, sought by what deletion leaves of their words."""
    texts = next(iter(field.table(count, seed=11).values()))
    views = thinned(texts, random.Random(5), rate)
    return lambda model: retrieval(model, {"fragment": views, "text": texts})


def scrawled(
    texts: Sequence[str], draw: random.Random, most: int = 6, rate: float = 0.1
) -> list[str]:
    """Views of texts: few words are dropped, and remarks are put in anywhere."""
    views = []
    for text in thinned(texts, draw, rate):
        words = text.split()
        for remark in draw.choices(REMARKS, k=draw.randint(most // 3, most)):
            words.insert(draw.randint(0, len(words)), remark)
        views.append(" ".join(words))
    return views


def from_scrawls(
    field: Field, count: int = 60, *, column: int = 0, most: int = 6
) -> Callable[[Any], float]:
    """The score of texts not in training, sought by copies with remarks between their words."""
    texts, draw = list(field.table(count, seed=11).values())[column], random.Random(5)
    table = {"scrawl": scrawled(texts, draw, most, 0.0), "copy": scrawled(texts, draw, most, 0.0)}
    return lambda model: retrieval(model, table)


def uniformity(rows: Tensor) -> Tensor:
    """Log of the mean Gaussian potential of all pairs on the sphere."""
    return torch.pdist(F.normalize(rows, dim=1)).square().mul(-2).exp().mean().log()

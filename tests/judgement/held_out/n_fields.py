"""Fields of texts in several languages, and helpers that train a set-up beside the mended one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import warmed
from tests.judgement.stage import BATCH, STEPS, Stage
from tests.judgement.truth import SHARE, correlation, retrieval, suffers
from tests.sentence_training import losses

Table = Mapping[str, Sequence[Any]]
ranking = losses.MultipleNegativesRankingLoss

GARDEN = Field(
    {
        "plant": "tomato/solanum rose/rosa basil/ocimum oak/quercus ivy/hedera fern/pteris "
        "tulip/bulb apple/malus lavender/shrub bamboo/cane moss/bryum pea/pisum",
        "harm": "aphids/greenfly mildew/fungus drought/dryness frost/cold slugs/snails "
        "yellowing/chlorosis rot/decay weeds/thistle",
        "season": "april/spring july/midsummer october/autumn january/winter may/planting "
        "september/harvest",
    },
    {
        "ask": "how do i save a {plant} from {harm} in {season}",
        "advice": "{season} care of {plant} : against {harm} water less and cut the stems",
    },
)
BANK = Field(
    {
        "product": "card/visa loan/credit mortgage/house deposit/savings shares/equities "
        "transfer/wire cheque/slip pension/annuity overdraft/limit",
        "trouble": "blocked/locked late/delayed stolen/theft refused/declined doubled/twice "
        "expired/outdated unknown/unclear",
        "client": "student/campus widow/heir farmer/rural company/business tourist/abroad "
        "minor/child nurse/clinic",
    },
    {
        "ticket": "{client} {product} {trouble}",
        "reply": "dear customer , we have read your message . for a {product} that is {trouble} "
        "the desk for {client} matters will call you within two days",
    },
)
BAHN = Field(
    {
        "ort": "berlin/hauptstadt hamburg/hafen bremen/weser dresden/elbe leipzig/messe "
        "kassel/documenta mainz/rhein trier/mosel ulm/donau jena/saale",
        "fehler": "verspätung/später ausfall/gestrichen umleitung/umweg streik/ausstand "
        "störung/defekt überfüllung/voll",
        "reise": "montags/montag dienstags/dienstag nachts/nacht mittags/mittag "
        "feiertags/feiertag ferien/urlaub",
    },
    {
        "frage": "warum {fehler} {reise} nach {ort} ?",
        "auskunft": "strecke {ort} : {fehler} am {reise} , bitte die anzeigen beachten",
    },
)
NOVOSTI = Field(
    {
        "who": "министр/чиновник учёный/физик врач/хирург тренер/спортсмен певец/артист "
        "повар/кухня лётчик/авиация судья/закон фермер/поле",
        "did": "открыл/начало закрыл/конец купил/покупка продал/сделка построил/стройка "
        "потерял/утрата выиграл/победа",
        "object": "музей/выставка мост/река школу/ученики завод/станки театр/сцена "
        "банк/деньги парк/деревья",
    },
    {
        "headline": "{who} {did} {object}",
        "story": "вчера в городе : {did} , {object} , сообщает {who} нашей газете",
    },
)
MUSEUM = Field(
    {
        "œuvre": "tableau/peinture statue/marbre vase/céramique tapis/tissage épée/acier "
        "bijou/orfèvre carte/gravure masque/théâtre livre/enluminure",
        "siècle": "romain/antique médiéval/gothique baroque/dorure moderne/cubisme "
        "égyptien/pharaon renaissance/florence celte/torque",
        "salle": "rez/entrée étage/escalier cave/crypte jardin/cour aile/galerie tour/donjon",
    },
    {
        "étiquette": "{œuvre} {siècle} à voir au {salle}",
        "notice": "notre {œuvre} est un exemple {siècle} , posé près du {salle} depuis cent ans",
    },
)
JOBS = Field(
    {
        "craft": "welder/metalwork baker/bread coder/software nurse/ward driver/lorry "
        "tutor/lessons painter/walls chemist/lab cook/kitchen clerk/files pilot/cockpit",
        "terms": "parttime/halfday remote/homeoffice nightly/shift seasonal/summer "
        "permanent/unlimited unpaid/volunteer weekly/rota",
        "land": "malta/valletta norway/oslo chile/santiago kenya/nairobi japan/tokyo "
        "canada/ottawa greece/athens",
    },
    {
        "wish": "{terms} {craft} job in {land}",
        "advert": "{land} : we seek people for {craft} , {terms} , good pay and a kind team",
    },
)
HOTEL = Field(
    {
        "room": "room/habitación suite/apartamento terrace/terraza bath/baño bed/cama "
        "pool/piscina garage/cochera bar/cantina",
        "state": "dirty/sucio noisy/ruidoso bright/luminoso cheap/barato huge/enorme "
        "broken/roto quiet/tranquilo",
        "guest": "couple/pareja family/familia group/grupo cyclist/ciclista baby/bebé "
        "grandma/abuela",
        "day": "monday/lunes friday/viernes easter/pascua summer/verano christmas/navidad",
    },
    {
        "english": "the {guest} found a {state} {room} on {day}",
        "spanish": "el {day} encontró {guest} {room} {state}",
    },
)
FOSSILS = Field(
    {
        "beast": "ammonite/shell trilobite/arthropod mammoth/tusk ichthyosaur/paddles "
        "archaeopteryx/feather crinoid/lily belemnite/guard megalodon/tooth",
        "age": "jurassic/liassic triassic/keuper cretaceous/chalk devonian/oldred "
        "permian/zechstein pleistocene/glacial eocene/palaeogene",
        "site": "solnhofen/limestone dorset/cliffs sahara/dunes gobi/desert siberia/permafrost "
        "utah/badlands morocco/phosphate",
    },
    {
        "query": "{age} {beast} {site}",
        "record": "catalogue sheet . the specimen was taken from the {site} by the survey and is "
        "kept in drawer four . the matrix is firm and the surface was cleaned with water only . "
        "the label says {beast} and gives the age as {age} ; loans need the keeper's consent",
    },
)
CHESS = Field(
    {
        "piece": "rook/tower bishop/diagonal knight/horse queen/lady pawn/infantry king/monarch",
        "act": "sacrifice/offer fork/double pin/bind skewer/pierce trap/cage exchange/trade "
        "promote/crown",
        "phase": "opening/debut middlegame/plans endgame/ending blitz/clock study/composition "
        "simultaneous/exhibition",
        "style": "dutch/stonewall french/advance italian/giuoco indian/fianchetto english/flank",
    },
    {
        "title": "{act} of the {piece} in the {style} {phase}",
        "text": "in this {phase} white has to {act} a {piece} : a motif of the {style}",
    },
)
KANJI = Field(
    {
        "food": "寿司/魚 拉麺/麺 豆腐/大豆 天麩羅/揚げ 弁当/箱 抹茶/茶 味噌/汁 餅/米",
        "city": "東京/関東 大阪/関西 京都/古都 札幌/北海道 福岡/九州 奈良/鹿 横浜/港",
        "taste": "甘い/砂糖 辛い/唐辛子 苦い/珈琲 熱い/湯気 安い/割引 有名/人気",
    },
    {"question": "{city} で {taste} {food} は どこ です か",
     "answer": "{food} なら {city} 駅 の {taste} 店 へ どうぞ"},
)  # fmt: skip


PHRASES = Field(
    {
        "animal": "dog/hund/perro cat/katze/gato horse/pferd/caballo cow/kuh/vaca bird/vogel/ave "
        "sheep/schaf/oveja mouse/maus/ratón bear/bär/oso",
        "does": "sleeps/schläft/duerme eats/frisst/come runs/rennt/corre waits/wartet/espera "
        "plays/spielt/juega drinks/trinkt/bebe falls/fällt/cae",
        "place": "forest/wald/bosque garden/garten/jardín barn/scheune/granero river/fluss/río "
        "roof/dach/techo street/strasse/calle snow/schnee/nieve",
        "time": "night/nacht/noche noon/mittag/mediodía winter/winter/invierno dawn/früh/alba",
    },
    {
        "english": "the {animal} {does} by the {place} at {time}",
        "german": "{time} : es {does} {animal} am {place}",
        "spanish": "en {place} {does} {animal} , {time}",
    },
)


def vocabulary(field: Field, *tables: Table) -> list[str]:
    """All texts that a tokenizer of a field should have words for."""
    entries = " ".join(field.slots.values()).replace("/", " ").replace("_", " ")
    frames = [*field.texts(field.draws(1), 0), *field.texts(field.draws(1), 1),
              *field.texts(field.draws(1), len(field.columns) - 1)]  # fmt: skip
    return [entries, *frames, *words_of(tables)]


def strict(field: Field, model: Any, count: int = 40, **options: Any) -> float:
    """The reciprocal rank among rows that all share the entry of their first slot's twin."""
    rows = field.draws(count // 2, seed=11)
    lists = [entries.split() for entries in field.slots.values()]
    draw = random.Random(4)
    for row in list(rows):
        slot = draw.randrange(len(row))
        entry = draw.choice([entry for entry in lists[slot] if entry != row[slot]])
        rows.append((*row[:slot], entry, *row[slot + 1 :]))
    rows = list(dict.fromkeys(rows))
    return retrieval(
        model, {"first": field.texts(rows, 0), "second": field.texts(rows, 1)}, **options
    )


def among_near(field: Field, model: Any, slot: int = 0, count: int = 40) -> float:
    """The reciprocal rank among all partners and, for each, texts that differ in one slot."""
    table = list(field.table(count, seed=11).values())
    near = field.near(count, seed=11, slot=slot)
    first, second, strangers = (
        model.encode(texts, show_progress_bar=False) for texts in (table[0], table[1], near)
    )
    first, second, strangers = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second, strangers)
    )
    own = (first * second).sum(1)
    ranks = (first @ np.concatenate([second, strangers]).T > own[:, None] + 1e-6).sum(1) + 1
    return float((1 / ranks).mean())


def closeness(field: Field) -> Callable[[Any], float]:
    """One less the mean distance of cosines from the scores of `rated` pairs of fresh rows."""
    first, second, scores = rated(field, 60, seed=11).values()

    def score(model: Any) -> float:
        rows = (model.encode(texts, show_progress_bar=False) for texts in (first, second))
        rows = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in rows]
        return float(1 - np.abs((rows[0] * rows[1]).sum(1) - np.array(scores)).mean())

    return score


def agreement(field: Field) -> Callable[[Any], float]:
    """The rank correlation with scores of rows that are not in training."""
    return lambda model: correlation(model, field.graded(60, seed=11))


def rated(field: Field, count: int = 240, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of one row (0.9), of rows that differ in one slot (0.5), and of two rows (0.1)."""
    table, near = field.table(count, seed), field.near(count, seed, slot=1)
    strangers = field.texts(field.draws(count, seed=seed + 8), 1)
    names = list(table)[:2]
    partners = zip(table[names[1]], near, strangers, strict=True)
    seconds = [row[at % 3] for at, row in enumerate(partners)]
    scores = [(0.9, 0.5, 0.1)[at % 3] for at in range(count)]
    return {names[0]: table[names[0]], names[1]: seconds, "score": scores}


def triplets(field: Field, count: int = 160, slot: int = 0) -> dict[str, list[str]]:
    """Rows of a field with a hard negative, which differs in one slot."""
    return field.table(count) | {"negative": field.near(count, slot=slot)}


def harms(
    stage: Stage,
    field: Field,
    faulty: Table,
    mended: Table,
    *,
    loss: Callable[[Any], Any] = ranking,
    mended_loss: Callable[[Any], Any] | None = None,
    score: Callable[[Any], float] | None = None,
    settings: Mapping[str, Any] | None = None,
    faulty_settings: Mapping[str, Any] | None = None,
    mended_settings: Mapping[str, Any] | None = None,
    adjust: Callable[[Any], None] | None = None,
    adjust_model: Callable[[Any], None] | None = None,
    texts: Sequence[str] | None = None,
    faulty_words: Sequence[str] | None = None,
    share: float | None = SHARE,
    warm: int = 0,
    **body: Any,
) -> None:
    """Train a faulty set-up of a field and the mended one, both after ``warm`` steps on pairs."""
    words = [*vocabulary(field, faulty, mended), *(texts or ())]
    common = {"learning_rate": 2e-3, **(settings or {})}

    def trainer(slip: bool) -> Any:
        model = encoder(stage, faulty_words if slip and faulty_words else words, **body)
        if warm:
            warmed(model, field.table(120, seed=2), warm)
        if slip and adjust_model:
            adjust_model(model)
        trainer = stage.trainer(
            loss if slip or mended_loss is None else mended_loss,
            faulty if slip else mended,
            model,
            **{**common, **((faulty_settings if slip else mended_settings) or {})},
        )
        if slip and adjust:
            adjust(trainer)
        return trainer

    suffers(stage, trainer(True), lambda: trainer(False), score or field.sought, share=share)


def mixture(
    stage: Stage, model: Any, tables: Mapping[str, Table], loss: Any, **arguments: Any
) -> Any:
    """A trainer of several datasets by name."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    settings = {
        "output_dir": str(stage.folder / "mixture"), "max_steps": STEPS, "warmup_steps": 4,
        "per_device_train_batch_size": BATCH, "learning_rate": 2e-3, "optim": "adamw_torch",
        "seed": 7, "use_cpu": True, "report_to": "none", "save_strategy": "no",
        "logging_steps": 5, "disable_tqdm": True,
    }  # fmt: skip
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**{**settings, **arguments}),
        train_dataset={name: Dataset.from_dict(dict(rows)) for name, rows in tables.items()},
        loss=loss,
    )


def beside(
    stage: Stage, field: Field, faulty: Table, mended: Table, *,
    loss: Callable[[Any], Any] = ranking, score: Callable[[Any], float] | None = None,
    texts: Sequence[str] = (), share: float | None = SHARE, rate: float = 2e-3,
    steps: int = STEPS, **body: Any,
) -> None:  # fmt: skip
    """Inspect a table, and train on it and on the mended one to know its harm."""
    from tests.judgement.first.loop_materials import trained
    from tests.judgement.truth import falls_short

    stage.inspect(faulty)
    words, numbers = [*vocabulary(field, faulty, mended), *texts], []
    for table in (faulty, mended):
        model = encoder(stage, words, **body)
        trainer = stage.trainer(loss, table, model, learning_rate=rate, max_steps=steps)
        numbers.append(trained(trainer, score or field.sought))
    falls_short(stage, *numbers, share=share)

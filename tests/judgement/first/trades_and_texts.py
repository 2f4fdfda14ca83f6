"""Fields of other trades, and encoders with their words, which the sound set-ups here share."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.judgement.first.beside import adam, told_apart
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation
from tests.sentence_training import losses

# Rates and lengths at which tiny encoders without pretraining learn well.
BRISK = {"learning_rate": 2e-3, "max_steps": 60, "warmup_steps": 6}

GARDEN = Field(
    {
        "plant": "tomato/solanum basil/ocimum rose/rosa onion/allium apple/malus cherry/prunus "
        "maple/acer oak/quercus willow/salix ivy/hedera lettuce/lactuca",
        "harm": "aphids/lice mildew/mould slugs/snails frost/cold drought/dryness rust/fungus "
        "canker/wound blight/rot",
        "season": "spring/april summer/july autumn/october winter/january",
        "place": "pot/balcony greenhouse/glass border/bed lawn/turf",
    },
    {
        "question": "{harm} on my {plant} in a {place} this {season}",
        "advice": "treat {plant} against {harm} in {season} , also when grown in {place}",
    },
)
BANK = Field(
    {
        "deed": "transfer/wire deposit/credit withdrawal/cash mandate/standing exchange/currency "
        "mortgage/housing overdraft/negative cheque/paper",
        "state": "pending/processing rejected/declined doubled/twice lost/untraceable "
        "delayed/late reversed/returned blocked/held",
        "channel": "app/mobile branch/counter terminal/machine website/browser phone/hotline",
        "holder": "student/campus joint/couple business/company pension/retired minor/child",
    },
    {
        "query": "{holder} account : {deed} {state} via {channel}",
        "article": "why a {deed} by {channel} may be {state} ; rules for {holder} customers",
    },
)
WEATHER = Field(
    {
        "sky": "rain/pluie snow/neige fog/brouillard sun/soleil hail/grele wind/vent "
        "storm/orage clouds/nuages",
        "region": "coast/cote valley/vallee mountains/montagnes city/ville island/ile "
        "forest/foret plain/plaine",
        "hour": "dawn/aube noon/midi dusk/crepuscule night/nuit weekend/fin",
        "effect": "floods/inondations jams/bouchons outages/pannes closures/fermetures "
        "fires/incendies",
    },
    {
        "english": "{sky} over the {region} at {hour} brings {effect}",
        "french": "au {hour} , {sky} sur la {region} et {effect} attendus",
    },
)
SPORT = Field(
    {
        "club": "lions/leo eagles/aquila wolves/lupus bears/ursus sharks/squalus hawks/accipiter "
        "bulls/taurus foxes/vulpes",
        "deed": "won/victory lost/defeat drew/tie cancelled/abandoned signed/transfer "
        "sacked/dismissal promoted/ascent",
        "game": "football/goal hockey/puck tennis/racket rowing/oar boxing/ring chess/board",
        "crowd": "thousands/packed hundreds/modest nobody/empty",
    },
    {
        "headline": "{club} {deed} in {game} before {crowd}",
        "story": "it was a day of {game} , with a {crowd} house . the {club} left with a {deed}",
    },
)
JOBS = Field(
    {
        "trade": "welder/metal nurse/ward driver/truck teacher/school baker/pastry lawyer/court "
        "plumber/pipes florist/flowers editor/text pilot/cockpit",
        "town": "oslo/norway lyon/france porto/portugal graz/austria ghent/belgium turin/italy "
        "malmo/sweden cork/ireland",
        "term": "permanent/unlimited temporary/fixed parttime/hours internship/trainee "
        "freelance/contract",
        "level": "junior/entry senior/lead chief/head",
    },
    {
        "search": "{level} {trade} {town} {term}",
        "advert": "we look for a {level} person with knowledge of {trade} in {town} ; {term} post",
    },
)
QUERIES = Field(
    {
        "what": "average/avg total/sum number/count largest/max smallest/min",
        "column": "price/cost_eur age/years_old weight/kg_net salary/pay_gross height/cm_tall "
        "score/points distance/km_far",
        "table": "customers/tbl_cust orders/tbl_ord flights/tbl_fly books/tbl_bok cars/tbl_car "
        "players/tbl_ply hotels/tbl_hot",
        "group": "country/ctry_id month/mon_id colour/col_id owner/own_id brand/brd_id",
    },
    {
        "wish": "show me the {what} {column} of {table} for each {group}",
        "sql": "select {group} , {what} ( {column} ) from {table} group by {group}",
    },
)
TWEETS = Field(
    {
        "topic": "phone/#mobile movie/#cinema concert/#livemusic pizza/#foodie puppy/#dogsofx "
        "exam/#studygram marathon/#running holiday/#wanderlust",
        "mood": "love/:-) hate/:-( adore/<3 fear/:-s miss/:'( doubt/:-/ enjoy/^_^",
        "when": "today/now yesterday/throwback tonight/2nite tomorrow/soon always/4ever",
        "who": "we/us i/me they/them mum/mommy boss/work",
    },
    {"plain": "{who} {mood} the {topic} {when}", "tweet": "{when} {topic} {mood} @ {who} !!"},
)
MUSEUM = Field(
    {
        "item": "vase/keramik sword/schwert coin/muenze mask/maske statue/skulptur carpet/teppich "
        "clock/standuhr ring/fingerring",
        "matter": "gold/golden bronze/bronzen marble/marmorn wood/hoelzern ivory/elfenbein "
        "silver/silbern",
        "age": "roman/roemisch gothic/gotisch baroque/barock ancient/antik modern/neuzeitlich "
        "celtic/keltisch",
        "state": "broken/zerbrochen intact/unversehrt restored/ergaenzt stolen/geraubt",
    },
    {
        "plate": "{age} {item} of {matter} , {state}",
        "katalog": "nr 7 : {item} , {matter} , {age} ; zustand {state}",
    },
)
CHEMISTRY = Field(
    {
        "agent": "sodium/na lithium/li copper/cu zinc/zn iron/fe silver/ag nickel/ni tin/sn",
        "acid": "chloride/cl bromide/br nitrate/no3 sulfate/so4 acetate/oac iodide/i2",
        "medium": "water/h2o ethanol/etoh toluene/phme acetone/me2co hexane/c6h14",
        "act": "heated/reflux cooled/icebath stirred/rpm filtered/celite dried/vacuo",
    },
    {
        "name": "{agent} {acid} {act} in {medium}",
        "formula": "{medium} | {act} | {agent} {acid}",
    },
)
RUSSIAN = Field(
    {
        "who": "мама/mother брат/brother врач/doctor кот/cat друг/friend сосед/neighbour "
        "учитель/teacher повар/cook",
        "does": "читает/reads пишет/writes спит/sleeps поёт/sings ест/eats бежит/runs "
        "ждёт/waits молчит/silent",
        "where": "дома/home в_парке/park в_школе/school на_море/sea в_поезде/train",
        "when": "утром/morning днём/afternoon вечером/evening ночью/night",
    },
    {
        "russian": "{when} {who} {does} {where}",
        "english": "the {who} {does} at {where} in the {when}",
    },
)
PROTEINS = Field(
    {
        "first": "kinase/m_k_l_v_r helicase/m_d_e_a_d ligase/m_h_i_g_h protease/m_g_d_s_g "
        "channel/m_t_v_g_y_g globin/m_p_h_f_d",
        "middle": "membrane/l_l_i_v_l_f soluble/e_k_d_e_k_s zinc/c_x_x_c_h_h "
        "disordered/g_s_g_s_p_q coiled/a_l_e_a_l_k",
        "tail": "nuclear/k_k_k_r_k secreted/s_i_g_n_p reticulum/k_d_e_l peroxisome/s_k_l_w "
        "vacuole/n_p_i_r",
        "source": "human/h9 yeast/y4 plant/p6 virus/v2",
    },
    {
        "words": "{source} {first} , {middle} , {tail}",
        "sequence": "{first} {middle} {tail} {source}",
    },
)
HOUSES = Field(
    {
        "home": "flat/apartment cottage/farmhouse villa/mansion loft/studio bungalow/onefloor "
        "castle/estate barn/conversion",
        "asset": "garden/yard garage/parking balcony/terrace cellar/storage pool/swimming "
        "lift/elevator sauna/spa fireplace/chimney",
        "area": "centre/downtown suburb/outskirts lake/waterfront hill/slope station/transit "
        "campus/university",
        "deal": "rent/monthly buy/purchase auction/bid",
    },
    {
        "wish": "to {deal} : {home} with {asset} near the {area}",
        "offer": "{area} - {home} , {asset} , {deal} price on request",
    },
)


def vocabulary(*fields: Field, further: Sequence[str] = ()) -> list[str]:
    """All words that the texts of fields can have."""
    entries = [word for field in fields for slot in field.slots.values() for word in slot.split()]
    templates = [re.sub(r"\{\w+\}", " ", text) for field in fields for text in
                 field.columns.values()]  # fmt: skip
    return [*(re.sub("[/_]", " ", word) for word in entries), *entries, *templates, *further]


def encoder_of(
    stage: Stage, *fields: Field, further: Sequence[str] = (), modules: Sequence[Any] = (),
    **options: Any,
) -> Any:  # fmt: skip
    """An encoder that knows the words of fields; ``modules`` follow its pooling."""
    return encoder(stage, vocabulary(*fields, further=further), *modules, **options)


def near_texts(field: Field, count: int, slot: int, seed: int = 0) -> list[str]:
    """For each row the second text of one that differs in a slot and is no other row, if any."""
    draw, rows, texts = random.Random(seed + 3000), field.draws(count, seed), list[str]()
    entries, used = list(field.slots.values())[slot].split(), set(rows)
    for row in rows:
        changed = [
            (*row[:slot], entry, *row[slot + 1 :]) for entry in entries if entry != row[slot]
        ]
        unused = [candidate for candidate in changed if candidate not in used]
        texts += field.texts([draw.choice(unused or changed)], 1)
    return texts


def triples(
    field: Field, count: int, *, slots: Sequence[int] = (0,), seed: int = 0
) -> dict[str, Any]:
    """Pairs of a field, with a hard negative for each of ``slots``, where it differs."""
    table: dict[str, Any] = dict(field.table(count, seed))
    for number, slot in enumerate(slots, 1):
        table[f"negative_{number}"] = near_texts(field, count, slot, seed)
    return table


def near_misses(field: Field, count: int, seed: int = 0) -> list[str]:
    """A hard negative for each row of a field's table, each time in the next slot."""
    columns = [near_texts(field, count, slot, seed) for slot in range(len(field.slots))]
    return [columns[row % len(columns)][row] for row in range(count)]


def finds(field: Field, count: int = 50, **options: Any) -> Callable[[Any], float]:
    """A score: how well texts of a field that were not trained on are retrieved."""
    return lambda model: field.sought(model, count, **options)


def agrees(field: Field, count: int = 100) -> Callable[[Any], float]:
    """A score: the rank correlation of cosines with grades of pairs not trained on."""
    return lambda model: correlation(model, field.graded(count, seed=11))


def ranks(model: Any) -> Any:
    """The ranking loss at its usual scale."""
    return losses.MultipleNegativesRankingLoss(model)


def descent(
    model: Any, table: Mapping[str, Sequence[Any]], *owners: Any, rate: float = 2e-3,
    size: int = 16,
) -> Callable[[Any, int], None]:  # fmt: skip
    """A step of a loop: a criterion of all columns, and AdamW of the model and the ``owners``."""
    rows, optimizer = Rows(table, size), adam(model, *owners, rate=rate)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        stepped(optimizer, criterion(*(told_apart(model, column) for column in columns)))

    return update


def trainer_of_several(
    stage: Stage, model: Any, tables: Mapping[str, Mapping[str, Any]], loss: Any,
    **arguments: Any,
) -> Any:  # fmt: skip
    """A trainer over several data sets by name, with one loss or a loss for each."""
    from datasets import Dataset, DatasetDict
    from sentence_transformers import SentenceTransformerTrainer

    trainer = stage.trainer(lambda _: ranks(model), next(iter(tables.values())), model, **arguments)
    data = {name: Dataset.from_dict(dict(table)) for name, table in tables.items()}
    return SentenceTransformerTrainer(
        model=model, args=trainer.args, train_dataset=DatasetDict(data), loss=loss
    )

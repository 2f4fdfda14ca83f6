"""Fields of texts in several languages and lengths, and encoders and words that cases share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from tests.judgement.first.beside import losses_beside
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields import Field
from tests.judgement.stage import Stage
from tests.sentence_training import losses

# Questions of gardeners in French, and their English summaries.
GARDEN = Field(
    {
        "plant": "rosier/rosebush pommier/appletree tulipe/tulip laitue/lettuce lavande/lavender "
        "fraisier/strawberry vigne/grapevine haricot/bean citrouille/pumpkin ortie/nettle",
        "harm": "pucerons/aphids limaces/slugs gel/frost rouille/rust moisissure/mould "
        "taupes/moles secheresse/drought vent/wind",
        "place": "balcon/balcony serre/greenhouse verger/orchard potager/plot pente/slope "
        "cour/courtyard terrasse/patio",
    },
    {
        "question": "comment proteger un {plant} contre {harm} dans mon {place}",
        "summary": "{place} {plant} : what to do about {harm}",
    },
)
# Russian announcements at a station, and travellers' English notes.
STATION = Field(
    {
        "train": "скорый/express ночной/sleeper пригородный/local грузовой/freight "
        "почтовый/mail экскурсионный/excursion военный/army детский/childrens",
        "town": "казань/kazan тверь/tver омск/omsk пермь/perm сочи/sochi тула/tula "
        "самара/samara уфа/ufa",
        "trouble": "опаздывает/late отменён/cancelled переполнен/crowded сломался/broken "
        "ускорен/early перенаправлен/diverted закрыт/closed",
    },
    {
        "announcement": "внимание , {train} поезд до города {town} {trouble}",
        "note": "the {train} to {town} is {trouble} today",
    },
)
# Short moves of chess and a remark on each.
CHESS = Field(
    {
        "piece": "Nf/knight Bg/bishop Qh/queen Ra/rook Ke/king Pd/pawn",
        "square": "1/first 2/second 3/third 4/fourth 5/fifth 6/sixth 7/seventh 8/eighth",
        "mark": "!!/brilliant !/good ??/blunder ?/mistake !?/interesting ?!/dubious =/drawish "
        "+/check",
    },
    {"move": "{piece} {square} {mark}", "remark": "{mark} {piece} to the {square} rank"},
)
# Greek sayings of sailors and the entries of a log book.
HARBOUR = Field(
    {
        "ship": "βάρκα/rowboat καΐκι/caique φορτηγό/freighter κρουαζιερόπλοιο/liner "
        "ρυμουλκό/tug υποβρύχιο/submarine πορθμείο/ferry κότερο/yacht",
        "weather": "καταιγίδα/storm ομίχλη/fog νηνεμία/calm βροχή/rain χαλάζι/hail χιόνι/snow "
        "λιακάδα/sunshine",
        "load": "λάδι/oil κρασί/wine μάρμαρο/marble ψάρια/fish βαμβάκι/cotton αλάτι/salt "
        "ελιές/olives μέλι/honey",
    },
    {
        "saying": "το {ship} με {load} έφυγε μέσα στην {weather}",
        "entry": "log : {weather} , departure of a {ship} , cargo {load} , crew complete",
    },
)
# Long reports of an observatory, and the keywords of each.
OBSERVATORY = Field(
    {
        "body": "nebula/cloud comet/coma pulsar/beacon quasar/nucleus supernova/remnant "
        "asteroid/minor exoplanet/transit magnetar/burst dwarf/degenerate",
        "tool": "radio/dish infrared/cryostat ultraviolet/satellite spectrograph/lines "
        "interferometer/baseline polarimeter/angle camera/ccd",
        "outcome": "brighter/flare fainter/dimming shifted/redshift periodic/cycle "
        "absent/nondetection doubled/binary moving/proper rotating/spin",
    },
    {
        "keywords": "{body} ; {tool} ; {outcome}",
        "report": "during the third run of the winter the night staff pointed the {tool} at the "
        "target named in the proposal and reduced the frames on the next morning . the {body} "
        "turned out to be {outcome} in comparison with the archive , and a second epoch is asked "
        "for before the source sets behind the mountain",
    },
)
# Turkish orders at a bakery and the lines of its bills.
BAKERY = Field(
    {
        "bread": "ekmek/loaf simit/sesame pide/flatbread poğaça/bun börek/pastry kek/cake "
        "kurabiye/cookie baklava/filo",
        "filling": "peynirli/cheese zeytinli/olive patatesli/potato ıspanaklı/spinach "
        "kıymalı/mince cevizli/walnut çikolatalı/cocoa ballı/honey",
        "amount": "bir/1 iki/2 üç/3 dört/4 beş/5 altı/6 yedi/7 sekiz/8",
    },
    {"order": "{amount} tane {filling} {bread} lütfen", "bill": "{bread} , {filling} x {amount}"},
)
# Japanese requests to a hotel, in words set apart, and what the staff notes.
HOTEL = Field(
    {
        "wish": "毛布/blanket 枕/pillow 鍵/key 朝食/breakfast 洗濯/laundry 傘/umbrella 灯/lamp "
        "地図/map 茶/tea",
        "room": "一階/ground 二階/upstairs 離れ/annex 庭側/garden 海側/seaside 角部屋/corner "
        "和室/tatami 洋室/western",
        "time": "今夜/tonight 明朝/morning 正午/noon 夕方/dusk 週末/weekend 今/now 後/later",
    },
    {
        "request": "{time} {room} に {wish} を お願い します",
        "entry": "guest in the {room} room asks for {wish} {time}",
    },
)
# What customers write to an insurer and what the clerk files.
CLAIMS = Field(
    {
        "object": "roof/tiles car/vehicle window/glazing cellar/basement phone/mobile "
        "fence/boundary carpet/flooring boiler/heating garage/outbuilding",
        "cause": "hailstorm/weather burst_pipe/water burglars/theft fire/smoke neighbour/liability "
        "dog/animal earthquake/seismic child/accident",
        "wish": "money/payout expert/surveyor callback/phone copy/duplicate lawyer/counsel "
        "repair/craftsman delay/extension",
    },
    {
        "letter": "dear all , our {object} was ruined by {cause} and i would like a {wish} soon",
        "file": "{cause} damage : {object} . next step : {wish}",
    },
)

# Words of a verdict that says that too little moves, or that the rate or the gradient is too small.
STILL = (
    r"(?i)(weights?|parameters?|encoder|model|embeddings?|layers?|norms?|nothing|modules?)\b.{0,80}"
    r"(not|never|hardly|barely|n't|little|no).{0,20}(mov|chang|updat|learn|train|step)",
    r"(?i)(nothing|little|hardly anything).{0,30}(chang|mov|learn|train)|frozen|unchanged|"
    r"stand(s|ing)? still|stays? where|the same (as )?(before|at the start)",
    r"(?i)(rate|steps?|updates?).{0,80}(too )?(small|low|tiny|slow|zero|\b0\b)",
)
NO_GRADIENT = (
    r"(?i)(no|zero|without( a)?|vanish\w*|lacks?)\s+(\w+\s+)?gradient|detach|no_grad|graph",
    r"(?i)gradients?.{0,80}(\bzero\b|\b0\b|vanish|missing|none|never|not (reach|arriv|flow|come)|"
    r"do(es)? not|nowhere|cut|stop|block|lost)",
)
# Words of a verdict that says that rows do not belong together.
APART = (
    r"(?i)(unrelated|mis-?match|mis-?align|(not|n't) (fit|match|belong|go together|align)|shuffl|"
    r"shift|scrambl|permut)",
    r"(?i)(positives?|pairs?|partners?|labels?|targets?|diagonal|rows?).{0,80}(wrong|chance|"
    r"random|no closer|not closer|no more (alike|similar)|(an)?other row|order|by accident)",
    r"(?i)(wrong|another) (row|positive|partner|pair|label|target|candidate)s?",
)
COLLAPSE = (
    r"(?i)collaps",
    r"(?i)(all|every|texts|embeddings).{0,60}(same|equal|identical|single|alike) "
    r"(embedding|vector|direction|point|place)",
    r"(?i)(no|without|lacks?|miss\w*|nothing).{0,40}(negatives?|push|repuls|spread|apart)",
)
TEMPERATURE = (
    r"(?i)temperature|\bscale\b|scaling|\btau\b",
    r"(?i)(logit|score|softmax|distribution|probabilit)\w*.{0,80}(flat|uniform|even|narrow|"
    r"small|sharp|saturat|large|high|wide|one-hot|alike)",
)


def trainees(stage: Stage, field: Field, **options: Any) -> Callable[[], Any]:
    """Return what makes the same fresh encoder of a field's words again and again."""
    tables = [field.table(240), field.table(50, seed=11)]
    texts = [text for table in tables for column in table.values() for text in column]

    def fresh() -> Any:
        return encoder(stage, texts, **options)

    return fresh


def score_of(field: Field, count: int = 50) -> Callable[[Any], float]:
    """How well a field's texts are retrieved that are not trained on."""
    return lambda model: field.sought(model, count)


def held_beside(
    stage: Stage,
    field: Field,
    faulty: Callable[..., Tensor],
    mended: Callable[..., Tensor],
    *,
    table: Mapping[str, Sequence[Any]] | None = None,
    rate: float = 2e-3,
    steps: int = 60,
    **options: Any,
) -> None:
    """Play a plain loop over a field with a faulty loss, beside that with the mended loss."""
    losses_beside(
        stage, faulty, mended, score_of(field), table=table or field.table(240), rate=rate,
        steps=steps, encoder=trainees(stage, field, **options),
    )  # fmt: skip


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


def with_near(field: Field, count: int = 240, slot: int = 0) -> dict[str, list[str]]:
    """Pairs of a field with hard negatives, which differ in the entry of one slot."""
    return field.table(count) | {"negative": field.near(count, slot=slot)}

"""Tables whose columns or texts are not what people take them for."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.fields import CLINIC, HELPDESK, PAPERS, SHOP, TRAVEL, Field
from tests.judgement.first.opposed import encoder_of, ranking
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers

QUICK = {"learning_rate": 1e-3, "max_steps": 50}
EMPTY = (
    r"(?i)(same|equal|identical|repeat|duplicat|distinct|constant|placeholder).{0,40}(text|"
    r"positive|passage|row|answer)",
    r"(?i)\bempty\b|no text|removed|missing",
)
CUT = (
    r"(?i)truncat|\bcut\b|(maximum|max|sequence) length|max_seq|too long|longer than|window|"
    r"\bfills?\b",
)
SHORTCUT = (
    r"(?i)shortcut|leak|copied|in common|overlap|same (word|number|token|string)|ticket|"
    r"numbers? (in|of) both",
    r"(?i)too easy|already|solved|trivial|nothing to learn|loss.{0,30}(near|close to|at) 0",
)


def trained(stage: Stage, field: Field, table: dict[str, Any], *further: str) -> Any:
    """A trainer of an encoder for a field on a table of it."""
    return stage.trainer(ranking, table, encoder_of(stage, field, *further), **QUICK)


@faulty(
    "address of a page between its title and its text",
    "Title, address and text are columns in this order: addresses are the positives, and the texts "
    "that should be found are negatives.",
    (
        r"(?i)address|\burls?\b|\blinks?\b|identif|(second|wrong|another|order of( the)?) column",
        r"(?i)positives?.{0,80}(no nearer|not nearer|no closer|unrelated|chance|apart)",
        r"(?i)negatives?.{0,60}(nearer|closer|more (alike|similar)|above)",
    ),
)
def address_between_title_and_text(stage: Stage) -> None:
    """Columns of a crawl handed over as they are; the second is the positive."""
    table = pairs()
    draw = random.Random(2)
    links = [f"ha. {draw.randrange(10**6)}. {draw.randrange(10**6)}" for _ in table["anchor"]]
    crawl = {"title": table["anchor"], "address": links, "text": table["positive"]}
    suffers(
        stage,
        stage.trainer(ranking, crawl, **QUICK),
        lambda: stage.trainer(ranking, table, **QUICK),
        among_alike,
    )


@faulty(
    "time stamps in the first column",
    "A column of dates comes first and is the anchor; the question is its positive and the answer "
    "a hard negative.",
    (
        r"(?i)time ?stamp|\bdates?\b|identif|digit|(first|wrong|another|order of( the)?) column",
        r"(?i)positives?.{0,80}(no nearer|not nearer|no closer|unrelated|chance|apart)",
    ),
)
def time_stamps_first(stage: Stage) -> None:
    """An export of tickets: created at, question, answer."""
    table, draw = HELPDESK.table(160), random.Random(3)
    stamps = [f"2024 {draw.randint(1, 12)} {draw.randint(1, 28)}" for _ in table["question"]]
    numbers = ("2024", *map(str, range(1, 29)))
    suffers(
        stage,
        trained(stage, HELPDESK, {"created": stamps, **table}, *numbers),
        lambda: trained(stage, HELPDESK, table, *numbers),
        HELPDESK.sought,
    )


@faulty(
    "removed posts as answers",
    "Most answers were deleted and read '[removed]': many questions share one positive, which is "
    "also their negative in the batch.",
    EMPTY,
)
def removed_posts_as_answers(stage: Stage) -> None:
    """Dumps of forums keep deleted posts as rows."""
    table, draw = pairs(), random.Random(1)
    posts = [text if draw.random() < 0.1 else "removed" for text in table["positive"]]
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": posts}, **QUICK),
        lambda: stage.trainer(ranking, table, **QUICK),
        among_alike,
    )


@faulty(
    "images written out before the text",
    "Each answer begins with an image in letters, which fills the encoder's length: the text "
    "behind it is cut off.",
    CUT,
)
def images_written_out_before_the_text(stage: Stage) -> None:
    """Mails and notebooks have images inline, in base 64."""
    table, draw = pairs(), random.Random(2)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    head = "data : image , png , base , 6 4 , i v b o r w 0 k g g o "
    images = [head + "".join(draw.choices(letters, k=60)) for _ in table["positive"]]
    texts = [f"{image} {text}" for image, text in zip(images, table["positive"], strict=True)]
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": texts}, stage.model(length=16), **QUICK),
        lambda: stage.trainer(ranking, table, stage.model(length=16), **QUICK),
        among_alike,
    )


@faulty(
    "keys of a record before its text",
    "Answers are records as text, whose keys and constant fields fill the encoder's length: all "
    "are equal once they are cut.",
    (*CUT, r"(?i)(same|equal|identical|distinct).{0,40}(text|token|embedding|positive)"),
)
def records_as_texts(stage: Stage) -> None:
    """`json.dumps(record)` or `str(record)` as the passage, its text last."""
    table = CLINIC.table(160)
    key = "schema 2 source : archive , language : en , licence : none , version : 3 , text :"
    records = [f"{key} {text}" for text in table["record"]]

    def trainer(column: list[str]) -> Any:
        model = encoder_of(stage, CLINIC, key, length=14)
        return stage.trainer(ranking, table | {"record": column}, model, **QUICK)

    suffers(stage, trainer(records), lambda: trainer(table["record"]), CLINIC.sought)


@faulty(
    "number of the ticket in both texts",
    "Question and answer both begin with the number of their ticket, and numbers are all that is "
    "learned.",
    SHORTCUT,
)
def ticket_numbers_in_both_texts(stage: Stage) -> None:
    """Exports put the ticket's number at the head of each message."""
    table = pairs()
    draw = random.Random(6)
    numbers = [" ".join(str(draw.randrange(10, 99)) for _ in range(4)) for _ in range(160)]
    numbered = {
        name: [f"{number} {text}" for number, text in zip(numbers, texts, strict=True)]
        for name, texts in table.items()
    }
    suffers(
        stage,
        stage.trainer(ranking, numbered, **QUICK),
        lambda: stage.trainer(ranking, table, **QUICK),
        among_alike,
    )


@faulty(
    "glyphs of a font in place of letters",
    "Answers were taken out of documents whose font has codes of its own: the vocabulary knows "
    "none of their words.",
    (r"(?i)\bunk\b|\[unk|unknown|vocabular|letters|characters?|glyph|encoding|script|not known",),
)
def glyphs_of_a_private_font(stage: Stage) -> None:
    """Text of a PDF without a table of its characters, in the area for private use."""
    table = TRAVEL.table(160)
    glyphs = {ord("a") + at: chr(0x4E00 + 7 * at) for at in range(26)}
    texts = [text.translate(glyphs) for text in table["german"]]
    suffers(
        stage,
        trained(stage, TRAVEL, table | {"german": texts}),
        lambda: trained(stage, TRAVEL, table),
        TRAVEL.sought,
    )


@faulty(
    "abstracts of the next paper",
    "The abstracts were split off by a rule that puts each behind the next title.",
    (
        r"(?i)(mis|not |un)align|shift|(wrong|other) order|unrelated|do(es)? not (belong|match|"
        r"fit)|mismatch|off "
        r"by",
        r"(?i)positives?.{0,60}(no nearer|not nearer|chance|wrong|random|like any|as far)",
    ),
)
def abstracts_of_the_next_paper(stage: Stage) -> None:
    """A split of one long file at its headings, one heading late."""
    table = PAPERS.table(140)
    late = table["abstract"][-1:] + table["abstract"][:-1]
    suffers(
        stage,
        trained(stage, PAPERS, table | {"abstract": late}),
        lambda: trained(stage, PAPERS, table),
        PAPERS.sought,
    )


@faulty(
    "lists of keywords that every product has",
    "The seller repeats the same keywords in front of each offer until the length is full.",
    (*CUT, r"(?i)(same|equal|identical|distinct).{0,40}(text|token|embedding|positive)"),
)
def keywords_before_each_offer(stage: Stage) -> None:
    """Offers stuffed with words for a search engine."""
    table = SHOP.table(160)
    stuffed = "cheap best new top sale gift deal offer free fast hot quality original shipping"
    offers = [f"{stuffed} {text}" for text in table["product"]]

    def trainer(column: list[str]) -> Any:
        model = encoder_of(stage, SHOP, stuffed, length=12)
        return stage.trainer(ranking, table | {"product": column}, model, **QUICK)

    suffers(stage, trainer(offers), lambda: trainer(table["product"]), SHOP.sought)

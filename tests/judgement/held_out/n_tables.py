"""Tables of texts whose rows or columns hold what they should not; they are only inspected."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from tests.judgement.case import INSPECT, faulty
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import among_near, beside, strict
from tests.judgement.stage import Stage
from tests.sentence_training import losses

TOOLS = (INSPECT,)
APART = (
    r"(mis-?match|mis-?align|shift|shuffl|unrelated|not belong|other row|another row|wrong row|"
    r"neighbou?ring row|offset|off by one|permut)",
    r"(positives?|pairs?|partners?|rows).{0,80}(chance|no (more|closer)|nothing in common|random)",
)
REPEATED = (
    r"duplicat|repeat|identical|same (text|row|pair|passage|positive|answer)|distinct|unique|"
    r"false negative|collid",
)
EMPTY = (*REPEATED, r"\b(empty|blank|missing|none|nan|null|short)\b|no (words|text|tokens)")
FALSE_NEGATIVE = (
    r"negatives?.{0,100}(positive|identical|same|equal|duplicat|copy|copies|relevant|right|"
    r"correct|as (close|near|similar|alike))",
    r"false negative|(positive|answer)s?.{0,60}(as|among|also|is|are|equal|again).{0,30}negative",
)
SHORTCUT = (
    r"shortcut|leak|marker|give\w* (it )?away|recogni[sz]|tell\w* (them )?apart|artefact|artifact|"
    r"trivial|too easy",
    r"(word|token|phrase|prefix|suffix|beginning|ending|string|number|\bids?\b).{0,80}"
    r"(common|shared|both|all|every|only|alone|most)",
    r"(copied|copy|verbatim|contain|overlap|identical|repeat|share|in common)",
)


@faulty(
    "positives one row too low",
    "From the thirtieth row on, each positive stands one row below its anchor.",
    APART,
    tools=TOOLS,
)
def positives_slipped_by_a_row(stage: Stage) -> None:
    """Everyday: dropna on one column, and the columns put together by position."""
    field = fields.BAHN
    table = field.table(200)
    seconds = table["auskunft"]
    slipped = table | {"auskunft": [*seconds[:30], seconds[-1], *seconds[30:-1]]}
    beside(stage, field, slipped, table)


@faulty(
    "positives mined as hard negatives",
    "Most hard negatives are the positive itself, since mining did not leave it out.",
    (*FALSE_NEGATIVE, *REPEATED),
    tools=TOOLS,
)
def mined_negatives_that_are_the_positives(stage: Stage) -> None:
    """Everyday: the nearest passage taken as the hard negative without looking which it is."""
    field = fields.CHESS
    table = fields.triplets(field)
    draw = random.Random(7)
    mined = [second if draw.random() < 0.9 else negative for second, negative
             in zip(table["text"], table["negative"], strict=True)]  # fmt: skip
    beside(stage, field, table | {"negative": mined}, table, loss=losses.TripletLoss,
           score=partial(among_near, field), steps=60)  # fmt: skip


@faulty(
    "positives and negatives exchanged in most rows",
    "In nearly nine of ten rows the annotators' tool has exchanged the positive and the negative.",
    [
        r"swap|exchang|interchang|revers|mixed up|flip|wrong way",
        r"negatives?.{0,100}(closer|nearer|more (alike|similar)|higher|above|exceed|better|more "
        r"words|overlap)",
        r"positives?.{0,100}(farther|further|less (alike|similar)|lower|below|worse|fewer)",
        r"mislabel|label noise|nois[ey]|false negative",
    ],
    tools=TOOLS,
)
def answers_exchanged_with_negatives(stage: Stage) -> None:
    """Preferences in a random order of two answers, whose order was not undone."""
    field = fields.MUSEUM
    table, draw = fields.triplets(field), random.Random(9)
    rows = [(second, negative) if draw.random() < 0.12 else (negative, second)
            for second, negative
            in zip(table["notice"], table["negative"], strict=True)]  # fmt: skip
    exchanged = {"étiquette": table["étiquette"], "notice": [row[0] for row in rows],
                 "negative": [row[1] for row in rows]}  # fmt: skip
    beside(stage, field, exchanged, table, score=partial(among_near, field))


@faulty(
    "an id that pairs share",
    "Anchor and positive begin with the number of their record, by which training can pair them "
    "without reading the texts.",
    SHORTCUT,
    tools=TOOLS,
)
def ticket_numbers_in_question_and_reply(stage: Stage) -> None:
    """Common with tickets, calls and logs, whose texts bring their number along."""
    field = fields.BANK
    table = field.table(160)
    names = list(table)
    numbers = [f"no{at:03d}" for at in range(160)]
    numbered = {name: [f"{' '.join([number] * 8)} {text}" for number, text
                       in zip(numbers, table[name], strict=True)] for name in names}  # fmt: skip
    beside(stage, field, numbered, table, score=partial(strict, field), texts=numbers,
           steps=24)  # fmt: skip


@faulty(
    "broken encoding in one column",
    "The stories were read as Latin-1 although they are UTF-8: the column holds mojibake.",
    [
        r"mojibake|encod|utf|latin|garbl|charset|decod|broken (text|character|letter)|unreadable",
        r"(script|alphabet|language|character|letter)s?.{0,80}(differ|strange|unusual|odd|mix|"
        r"not|unexpected)",
        r"(unusual|odd|strange|control|replacement|non-?(ascii|printable)) .{0,20}(character|"
        r"letter|sign)s?",
    ],
    tools=TOOLS,
)
def stories_read_with_the_wrong_encoding(stage: Stage) -> None:
    """Everyday: a file opened with the wrong encoding."""
    field = fields.NOVOSTI
    table = field.table(160)
    garbled = [" ".join(text.encode().decode("latin-1").split()) for text in table["story"]]
    beside(stage, field, table | {"story": garbled}, table)


@faulty(
    "texts cut by the database",
    "The column of the replies was 30 characters wide: all replies end before what tells them "
    "apart.",
    (*EMPTY, r"truncat|cut (off|short|at)|same length|equal length|length.{0,40}(same|equal|30)|"
     r"end\w* (in|within) (a|the) (word|sentence)|prefix|beginning"),
    tools=TOOLS,
)  # fmt: skip
def replies_cut_at_thirty_characters(stage: Stage) -> None:
    """Common: VARCHAR(30), or the display width of a notebook's table."""
    field = fields.BANK
    table = field.table(160)
    cut = table | {"reply": [text[:30] for text in table["reply"]]}
    beside(stage, field, cut, table)


@faulty(
    "empty positives",
    "Most of the answers are empty strings, which are all alike as passages.",
    EMPTY,
    tools=TOOLS,
)
def blank_adverts_in_most_rows(stage: Stage) -> None:
    """Everyday: scraped pages without a body."""
    field = fields.JOBS
    table, draw = field.table(200), random.Random(4)
    blanks = [draw.random() < 0.85 for _ in range(200)]
    spoiled = table | {"advert": ["" if blank else text for text, blank
                                  in zip(table["advert"], blanks, strict=True)]}  # fmt: skip
    sound = {name: [text for text, blank in zip(texts, blanks, strict=True) if not blank]
             for name, texts in table.items()}  # fmt: skip
    beside(stage, field, spoiled, sound, score=partial(strict, field))


@faulty(
    "a few rows written again and again",
    "The table has 160 rows and only five different ones: oversampling has copied them.",
    REPEATED,
    tools=TOOLS,
)
def five_rows_copied_to_many(stage: Stage) -> None:
    """Oversampling of a tiny table, or an append in a cell of a notebook that ran often."""
    field = fields.FOSSILS
    table = field.table(160)
    copied = {name: cells[:5] * 32 for name, cells in table.items()}
    beside(stage, field, copied, table, score=partial(strict, field))


@faulty(
    "the anchor within its positive",
    "Each positive repeats the question before its answer, so that training only needs to find "
    "the copied words.",
    SHORTCUT,
    tools=TOOLS,
)
def questions_repeated_in_their_answers(stage: Stage) -> None:
    """Common: passages built as 'question: ... answer: ...' and searched without the question."""
    field = fields.HOTEL
    table = field.table(160)
    repeated = table | {"spanish": [f"{' '.join([first] * 5)} = {second}" for first, second
                                    in zip(*list(table.values())[:2], strict=True)]}  # fmt: skip
    beside(stage, field, repeated, table, texts=["="], score=partial(strict, field),
           steps=18, width=64)  # fmt: skip


def styled(field: fields.Field, count: int) -> dict[str, Any]:
    """Triplets whose negatives, written by a machine, end in a phrase of their own."""
    table = fields.triplets(field, count)
    return table | {"negative": [f"{text} as an assistant i hope this helps"
                                 for text in table["negative"]]}  # fmt: skip

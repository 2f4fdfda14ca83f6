"""Columns that stand in a wrong place, or that no loss should have seen."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import among_near, harms, triplets
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval
from tests.sentence_training import losses

ORDER = (
    r"(column|field)s?.{0,60}(order|swap|exchang|mixed up|wrong place|position|revers)",
    r"(swap|exchang|mix|revers|interchang)\w*.{0,60}(column|positive|negative)",
    r"order of (the )?columns?|column order",
    r"negatives?.{0,80}(closer|nearer|more (alike|similar)|higher|above|exceed).{0,60}positive",
    r"positives?.{0,80}(farther|further|less (alike|similar)|lower|below|worse).{0,60}negative",
    r"(negative|third).{0,60}(is|are|look\w*|seem\w*|may be|in truth) .{0,20}positive",
)
NOT_NEGATIVE = (
    *ORDER,
    r"false negative|negatives?.{0,60}(also|really|in fact|too).{0,20}(positive|answer|relevant)",
    r"(third|last|extra|additional|further|surplus|unneeded) (text )?column",
    r"negatives?.{0,60}(as (close|near|similar|alike)|equal|identical|same|paraphras|duplicate)",
    r"(taken|treated|used|read|trained|counted) as (a |the )?(hard )?negatives?",
)


@faulty(
    "columns in the order anchor, negative, positive",
    "The hard negatives stand in the second column, where the loss expects the positives, and the "
    "positives in the third: training pulls towards the negatives.",
    ORDER,
)
def negatives_before_positives(stage: Stage) -> None:
    """Everyday: the names of columns say nothing to the loss, only their order."""
    table = triplets(fields.GARDEN)
    swapped = {name: table[name] for name in ("ask", "negative", "advice")}
    harms(stage, fields.GARDEN, swapped, table, score=partial(among_near, fields.GARDEN))


@faulty(
    "an id column as the anchor",
    "The first column holds ids of rows, so that the ids are the anchors, questions are their "
    "positives, and the answers are taken as hard negatives.",
    [
        r"\b(ids?|identifiers?|keys?|hash(es)?|row numbers?|metadata|uuids?)\b",
        r"(first|anchor).{0,60}(not (a )?(text|sentence|language)|number|digit|code|meaningless)",
        r"(first|extra|surplus|additional|unneeded) column",
        r"(remove|drop|select)\w* .{0,30}columns?",
        *ORDER,
    ],
)
def row_ids_as_first_column(stage: Stage) -> None:
    """Everyday: columns of ids that were not removed before training."""
    table = fields.BANK.table(160)
    ids = {"ticket_id": [f"t-{at:05d}" for at in range(160)]}
    harms(stage, fields.BANK, ids | table, table, width=32, settings={"learning_rate": 1e-3})


@faulty(
    "a second positive in the negatives' column",
    "The third column holds another correct answer to each question, and the loss takes every "
    "further column as hard negatives.",
    NOT_NEGATIVE,
)
def second_answer_as_third_column(stage: Stage) -> None:
    """Common with tables of a text and two translations, or a short and a long answer."""
    field = fields.PHRASES
    table = field.table(160)
    twice = {
        "english": table["english"] * 2, "translation": table["german"] + table["spanish"]
    }  # fmt: skip

    def score(model: Any) -> float:
        held_out = field.table(40, seed=11)
        return retrieval(model, {name: held_out[name] for name in ("english", "spanish")})

    harms(stage, field, table, twice, score=score, settings={"max_steps": 60})


@faulty(
    "labels of pairs ignored by the ranking loss",
    "The pairs are labelled 1 or 0, but MultipleNegativesRankingLoss ignores labels and takes the "
    "unrelated pairs as positives too.",
    [
        r"label.{0,80}(ignor|unused|not used|no (part|use|influence|effect)|never|drop)",
        r"(ignor|not use|drop)\w*.{0,40}(label|score)",
        r"(pairs?|rows|positives?).{0,60}(label(l?ed)?|score).{0,20}\b0\b",
        r"(pairs?|rows|positives?|columns?).{0,80}(unrelated|mismatch|not belong|negative|"
        r"nothing in common|no more alike)",
        r"(ContrastiveLoss|CosineSimilarityLoss|CoSENT|loss (for|of|with) label)",
    ],
)
def zero_labelled_pairs_as_positives(stage: Stage) -> None:
    """Everyday: a table of duplicates and non-duplicates given to the ranking loss."""
    field = fields.HOTEL
    table = field.table(200)
    draw = random.Random(3)
    labels = [int(draw.random() < 0.25) for _ in range(200)]
    strangers = field.texts(field.draws(200, seed=6), 1)
    seconds = [text if label else stranger for text, stranger, label
               in zip(table["spanish"], strangers, labels, strict=True)]  # fmt: skip
    mixed = {"english": table["english"], "spanish": seconds, "label": labels}
    chosen = [at for at, label in enumerate(labels) if label]
    sound = {name: [mixed[name][at] for at in chosen] for name in ("english", "spanish")}
    harms(stage, field, mixed, sound)


@faulty(
    "one positive for all rows",
    "The column of positives holds the same text in every row, so that no anchor can be told from "
    "another.",
    [
        r"(positive|second|column|answer|text)s?.{0,80}(same|identical|constant|equal|repeat|"
        r"duplicat|one (text|passage)|only 1|single)",
        r"(duplicat|identical|repeat|constant|same).{0,60}(positive|column|text|passage|view|row)",
        r"false negative",
    ],
)
def same_answer_in_every_row(stage: Stage) -> None:
    """A comprehension that closes over the last row of a loop."""
    field = fields.CHESS
    table = field.table(160)
    constant = table | {"text": [table["text"][-1]] * 160}
    harms(stage, field, constant, table, width=64)


@faulty(
    "first letter in place of the text",
    "Preparation took text[0], which is the first letter of a string: the column holds single "
    "letters.",
    [
        r"(letter|character|short|length|empty|one (word|token)|single (word|token)|tokens?\b)",
        r"(same|identical|duplicat|repeat|constant|few|distinct).{0,60}(text|column|view|row|"
        r"positive)",
        r"(text|column|row|positive)s?.{0,60}(same|identical|duplicat|repeat|distinct|equal)",
    ],
)
def first_letters_for_texts(stage: Stage) -> None:
    """Everyday: `row["answer"][0]` on a column of strings that was a column of lists before."""
    field = fields.MUSEUM
    table = field.table(160)
    letters = table | {"notice": [text.split("notre ")[1][0] for text in table["notice"]]}
    harms(stage, field, letters, table, layers=1)


@faulty(
    "the anchor copied into the column of positives",
    "A wrong join has filled the column of positives with the anchors themselves: the task is "
    "solved before training.",
    [
        r"(identical|same|equal|copy|copies|copied|duplicat|itself|themselves|verbatim)",
        r"(too easy|trivial|nothing (left )?to learn|solved (before|from))",
        r"positives?.{0,60}(1\.0+|exactly)",
    ],
)
def positives_copied_from_anchors(stage: Stage) -> None:
    """Everyday: a join by the wrong key, or both columns selected from one."""
    field = fields.NOVOSTI
    table = field.table(160)
    copied = table | {"story": list(table["headline"])}
    harms(stage, field, copied, table, width=32, dropout=0.0)


@faulty(
    "distances given as similarities",
    "The column of scores holds distances (0 for the same meaning) where CoSENTLoss expects "
    "similarities: training turns the order round.",
    [
        r"distance|invert|revers|turned? (round|around|over)|opposite|upside|flip|negat\w+ corr",
        r"(scores?|labels?).{0,80}(wrong (way|sign|direction)|higher.{0,40}less|lower.{0,40}more|"
        r"disagree|contradict|swap)",
        r"(anti-?|negative(ly)? )correlat|correlat\w+.{0,40}(negative|-0|below 0)",
    ],
)
def distances_in_the_score_column(stage: Stage) -> None:
    """A common mix-up of dissimilarity and similarity."""
    field = fields.GARDEN
    table = field.graded(200)
    far = table | {"score": [1 - score for score in table["score"]]}
    harms(stage, field, far, table, loss=losses.CoSENTLoss, score=fields.agreement(field))

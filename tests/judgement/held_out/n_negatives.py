"""Hard negatives and positives of a wrong choice, for the trainer."""

from __future__ import annotations

import random
from functools import partial

from tests.judgement.case import faulty
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import among_near, harms, strict, triplets
from tests.judgement.held_out.n_tables import FALSE_NEGATIVE, REPEATED, SHORTCUT, styled
from tests.judgement.stage import Stage
from tests.sentence_training import losses

EASY = (
    r"(too )?easy|trivial|solved|satisfied|margin|random negative|unrelated|nothing (left )?to "
    r"learn|no gradient|(loss|gradient).{0,40}(zero|\b0\b|vanish)",
    r"negatives?.{0,80}(far|unlike|distant|low|hard enough|not hard|other (language|topic))",
)
WEAK = (
    r"(positives?|pairs?|views).{0,100}(weak|loose|only (the )?(topic|category|class)|chance|"
    r"unrelated|no more|mis-?match|not belong|hardly|little|few words|noise|noisy|no closer)",
    r"(unrelated|weak|noisy|random|mis-?match\w*).{0,40}(pair|positive|row|view)",
    r"false negative",
)


@faulty(
    "rephrased positives as hard negatives",
    "The hard negative of each row says the same as its positive in other words, and the triplet "
    "loss is told to push it away.",
    FALSE_NEGATIVE,
)
def rephrased_answers_as_hard_negatives(stage: Stage) -> None:
    """Everyday: mined neighbours that nobody checked, many of them right answers."""
    field = fields.BANK
    table = triplets(field)
    again = [f"hello , {text.removeprefix('dear customer , ')}" for text in table["reply"]]
    harms(stage, field, table | {"negative": again}, table, loss=losses.TripletLoss,
          texts=["hello"], score=partial(among_near, field),
          settings={"max_steps": 90})  # fmt: skip


@faulty(
    "the same hard negative in every row",
    "All rows have the same hard negative: the triplet loss only learns to move away from this "
    "text.",
    (*REPEATED, *EASY, r"(one|single|constant|only) .{0,20}negative|negatives?.{0,40}constant"),
)
def one_hard_negative_for_all_rows(stage: Stage) -> None:
    """`negatives[0]` where the row's own was meant."""
    field = fields.JOBS
    table = triplets(field)
    constant = table | {"negative": [table["negative"][0]] * 160}
    harms(stage, field, constant, table, loss=losses.TripletLoss,
          score=partial(among_near, field), settings={"max_steps": 60})  # fmt: skip


@faulty(
    "negatives from another language",
    "Hard negatives were drawn from a corpus in another language: the margin is met by telling "
    "languages apart, and the meaning is not learned.",
    (*EASY, r"language|corpus|domain|collection", *SHORTCUT),
)
def negatives_out_of_a_foreign_corpus(stage: Stage) -> None:
    """Negatives drawn at random from a mixed collection."""
    field = fields.CHESS
    table = triplets(field)
    foreign = fields.BAHN.texts(fields.BAHN.draws(160), 1)
    harms(stage, field, table | {"negative": foreign}, table, loss=losses.TripletLoss,
          score=partial(among_near, field), settings={"max_steps": 60})  # fmt: skip


@faulty(
    "negatives recognised by their form",
    "Negatives were written by a model and end in its phrase, so that the triplet loss is solved "
    "by this phrase alone.",
    (*SHORTCUT, *EASY, r"style|boilerplate|phrase|ending"),
)
def written_negatives_with_a_phrase(stage: Stage) -> None:
    """Common with synthetic negatives."""
    field = fields.GARDEN
    harms(stage, field, styled(field, 160), triplets(field), loss=losses.TripletLoss,
          score=partial(among_near, field), warm=12, width=32)  # fmt: skip


@faulty(
    "positives of the same category only",
    "The positive of a row is any text of its category, not its own answer: what tells rows of a "
    "category apart is taught as noise.",
    WEAK,
)
def any_text_of_the_category_as_positive(stage: Stage) -> None:
    """Everyday: pairs made by a column of categories."""
    field = fields.FOSSILS
    table, rows, draw = field.table(160), field.draws(160), random.Random(6)
    texts: dict[str, list[str]] = {}
    for row, text in zip(rows, table["record"], strict=True):
        texts.setdefault(row[0], []).append(text)
    loose = table | {"record": [draw.choice(texts[row[0]]) for row in rows]}
    harms(stage, field, loose, table, score=partial(strict, field))

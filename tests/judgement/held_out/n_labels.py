"""Labels and scores that do not say what the loss takes them to say."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import Field, closeness, harms, rated, vocabulary
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval
from tests.sentence_training import losses

LONG = {"max_steps": 80, "per_device_train_batch_size": 32, "learning_rate": 3e-3}
SCALE = (
    r"(scale|range|between|from) .{0,60}(0|-1|zero).{0,30}(1|5|one|five|100|10)",
    r"(score|label|target|gold)s?.{0,80}(above|beyond|outside|exceed|greater|larger|up to|over|"
    r"more than|unreachable|normali[sz]|divide|scal|range)",
    r"(normali[sz]|rescal|divid)\w*.{0,40}(score|label|by 5|by 10|to \[?0)",
)
CONSTANT = (
    r"(score|label|target|class)s?.{0,80}(constant|all (equal|the same|1|0|one|zero)|same|"
    r"identical|equal|only (one|1|a single)|single|no (variation|variety|order|difference)|"
    r"never differ|do not (vary|differ)|integer|rounded|ties?\b)",
    r"(one|single|same|constant|equal|all positive|only positive).{0,40}(score|label|class|target)",
    r"(no|without|lack\w*) (any )?(negatives?|dissimilar|unrelated)|collaps",
)
PARTNERLESS = (
    r"(label|class)(e?s)?.{0,100}(unique|distinct|own|once|alone|single|only one|different|few|"
    r"no two|singleton|as many)",
    r"(no|without|lack\w*|hardly any|few|0) .{0,30}(positive|triplet|same (class|label)|partner)",
    r"GROUP_BY_LABEL|group.by.label",
)
WRONG = (
    r"(label|class|score|target|embedding|teacher|row|gold)\w*.{0,100}(wrong|random|shuffl|"
    r"mis-?match|mis-?align|mislabel|noise|noisy|not (fit|match|belong|agree)|unrelated|"
    r"disagree|contradict|chance|permut|other (row|order)|independent|no relation|inconsisten)",
    r"(wrong|random|shuffl\w*|mis-?match\w*|mis-?align\w*|nois[ey]\w*|inconsistent|contradict\w*) "
    r".{0,60}(label|class|score|target|embedding|teacher|row|gold)",
)
TURNED = (
    r"invert|revers|flip|opposite|turned? (round|around)|upside|swap|wrong (way|sign|direction)|"
    r"backwards?|contradict",
    r"(negative|anti-?)\w* correlat|correlat\w+.{0,40}(negative|-0|below 0)",
    r"(label|score)s?.{0,60}(0 .{0,20}(similar|alike|closer|positive)|1 .{0,20}(apart|less|"
    r"unlike|negative|dissimilar))",
    r"(less|more) (alike|similar).{0,60}(label|score)",
)


def grouped(field: Field, count: int = 160, seed: int = 0) -> dict[str, list[Any]]:
    """Texts of both columns by turns, with the entry of the first slot as their class."""
    rows = field.draws(count, seed)
    classes = [entry for entry in next(iter(field.slots.values())).split()]
    texts = [field.texts([row], at % 2)[0] for at, row in enumerate(rows)]
    return {"text": texts, "label": [classes.index(row[0]) for row in rows]}


def mates(field: Field) -> Any:
    """A score: the second wording of each class found by the first, in rows not trained on."""
    rows, draw = field.draws(50, seed=11), random.Random(3)
    classes = sorted({row[0] for row in rows})
    columns: list[list[str]] = [[], []]
    for _ in range(3):
        for name in classes:
            for at, column in enumerate(columns):
                row = draw.choice([row for row in rows if row[0] == name])
                column += field.texts([row], at)
    size = len(classes)
    tables = [{"first": columns[0][at : at + size], "second": columns[1][at : at + size]}
              for at in range(0, 3 * size, size)]  # fmt: skip
    return lambda model: sum(retrieval(model, table) for table in tables) / 3


@faulty(
    "stars up to 5 as targets of a cosine",
    "Scores reach 5 and CosineSimilarityLoss compares them with cosines, which end at 1: every "
    "pair is pulled together.",
    SCALE,
)
def stars_from_zero_to_five(stage: Stage) -> None:
    """Everyday: scores of STS that were not divided by 5."""
    field = fields.JOBS
    table = rated(field)
    stars = table | {"score": [5 * score for score in table["score"]]}
    harms(stage, field, stars, table, loss=losses.CosineSimilarityLoss,
          settings=LONG, score=closeness(field))  # fmt: skip


@faulty(
    "scores cast to whole numbers",
    "Scores from 0 to 1 went through int(), so that nearly all are 0 and CoSENTLoss has no pairs "
    "to order.",
    CONSTANT,
)
def shares_rounded_to_nothing(stage: Stage) -> None:
    """A cast of the column of scores to integers while reading a file."""
    field = fields.GARDEN
    table = rated(field)
    whole = table | {"score": [int(score) for score in table["score"]]}
    harms(stage, field, whole, table, loss=losses.CoSENTLoss, settings=LONG)


@faulty(
    "only positive pairs for a loss that needs negatives",
    "All pairs have the score 1, and CosineSimilarityLoss has no pair to push apart: the "
    "embeddings collapse.",
    CONSTANT,
)
def nothing_but_similar_pairs(stage: Stage) -> None:
    """Everyday: pairs of duplicates alone, with CosineSimilarityLoss."""
    field = fields.HOTEL
    table = field.table(160)
    harms(stage, field, table | {"score": [1.0] * 160}, table, loss=losses.CosineSimilarityLoss,
          mended_loss=fields.ranking)  # fmt: skip


def duplicates(field: Field, count: int = 240) -> dict[str, list[Any]]:
    """Pairs by turns of one row (1) and of two rows (0)."""
    table = field.table(count)
    names = list(table)[:2]
    strangers = field.texts(field.draws(count, seed=8), 1)
    seconds = [strangers[at] if at % 2 else text for at, text in enumerate(table[names[1]])]
    return {names[0]: table[names[0]], names[1]: seconds,
            "label": [1 - at % 2 for at in range(count)]}  # fmt: skip


@faulty(
    "labels the wrong way round for a contrastive loss",
    "ContrastiveLoss takes 1 for pairs of the same meaning, and the table has 0 for them.",
    (*TURNED, *WRONG),
)
def zero_for_duplicates(stage: Stage) -> None:
    """Common: tables whose label means 'different'."""
    field = fields.JOBS
    table = duplicates(field)
    turned = table | {"label": [1 - label for label in table["label"]]}
    harms(stage, field, turned, table, loss=losses.OnlineContrastiveLoss,
          settings={"max_steps": 60, "per_device_train_batch_size": 32})  # fmt: skip


@faulty(
    "a class of its own for each row",
    "The label is the number of the row, so that no two texts share a class and the triplet loss "
    "finds no positives.",
    PARTNERLESS,
)
def row_numbers_as_classes(stage: Stage) -> None:
    """Everyday: an index column that is called label."""
    field = fields.CHESS
    table = grouped(field)
    harms(stage, field, table | {"label": list(range(160))}, table, score=mates(field),
          loss=losses.BatchAllTripletLoss, settings={"learning_rate": 1e-3})  # fmt: skip


@faulty(
    "labels left in the old order",
    "Texts were shuffled and their classes were not: the classes have nothing to do with texts.",
    WRONG,
)
def classes_left_in_the_old_order(stage: Stage) -> None:
    """Common: one of two arrays shuffled."""
    field = fields.GARDEN
    table = grouped(field)
    order = random.Random(1).sample(range(160), 160)
    shuffled = table | {"text": [table["text"][at] for at in order]}
    harms(stage, field, shuffled, table, score=mates(field),
          loss=losses.BatchHardSoftMarginTripletLoss,
          settings={"learning_rate": 1e-3, "max_steps": 60,
                    "per_device_train_batch_size": 32})  # fmt: skip


@faulty(
    "numbers of classes as similarities",
    "The classes of inference (0 entailment, 1 neutral, 2 contradiction) are taken as scores, "
    "which makes contradictions the most similar.",
    (*TURNED, *SCALE, r"class|categor|NLI|entail|integer|discrete", *WRONG),
)
def entailment_as_zero(stage: Stage) -> None:
    """Everyday: a table of NLI with its label as the score."""
    field = fields.PHRASES
    table = rated(field)
    numbers = table | {"score": [{0.9: 0.0, 0.5: 1.0, 0.1: 2.0}[at] for at in table["score"]]}
    harms(stage, field, numbers, table, loss=losses.CoSENTLoss, settings=LONG)


@faulty(
    "margins with the wrong sign",
    "The teacher's margins are negative minus positive where MarginMSELoss expects positive minus "
    "negative.",
    (*TURNED, *WRONG, r"(margin|label|score|target)s?.{0,60}(negative|sign|below (0|zero)|minus)"),
)
def margins_of_negative_minus_positive(stage: Stage) -> None:
    """Subtle: margins of a cross-encoder computed in the other order."""
    field = fields.BAHN
    table = fields.triplets(field)
    draw = random.Random(5)
    margins = [4 + 2 * draw.random() for _ in range(160)]
    turned = table | {"label": [-margin for margin in margins]}
    harms(stage, field, turned, table | {"label": margins}, loss=losses.MarginMSELoss,
          score=lambda model: fields.among_near(field, model),
          settings={"max_steps": 60})  # fmt: skip


@faulty(
    "the teacher's embeddings in another order",
    "The rows of texts were shuffled after the teacher had embedded them: each student's text has "
    "the embedding of another as its target.",
    WRONG,
)
def teacher_embeddings_of_shuffled_rows(stage: Stage) -> None:
    """Distillation with embeddings kept in a file beside the texts."""
    import torch

    from tests.judgement.first.bodies import encoder
    from tests.judgement.first.loop_materials import trained

    field = fields.PHRASES
    table = field.table(240)
    teacher = encoder(stage, vocabulary(field), name="teacher", width=32)
    trained(stage.trainer(fields.ranking, field.table(160), teacher, learning_rate=2e-3),
            lambda _: 0.0)  # fmt: skip
    with torch.no_grad():
        rows = teacher.encode(table["english"], show_progress_bar=False)
    order = random.Random(2).sample(range(240), 240)
    sound = {"german": table["german"], "label": rows.tolist()}
    harms(stage, field, sound | {"label": rows[order].tolist()}, sound, loss=losses.MSELoss,
          width=32, settings={"max_steps": 120, "per_device_train_batch_size": 32},
          score=lambda model: sought_by_teacher(field, model, teacher))  # fmt: skip


def sought_by_teacher(field: Field, model: Any, teacher: Any) -> float:
    """The student's German text found by the teacher's English embedding."""
    from tests.judgement.truth import reciprocal_rank

    table = field.table(40, seed=11)
    return reciprocal_rank(
        teacher.encode(table["english"], show_progress_bar=False),
        model.encode(table["german"], show_progress_bar=False),
    )

"""Sound trainers over grades, labels and teachers."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.daily_texts import HOMES, WEATHER
from tests.judgement.first.daily_tools import QUICK, grades, reader, with_negatives
from tests.judgement.first.foreign_texts import GREEK, MENU, POSTAL, RADIO
from tests.judgement.first.office_texts import WARD
from tests.judgement.first.texts_with_labels import (
    review_pairs,
    reviews,
    sorts_tickets,
    tickets,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses


def rows_of(model: Any, texts: list[str]) -> torch.Tensor:
    """Unit rows of texts by a teacher."""
    return model.encode(
        texts, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False
    )


@sound("graded pairs in order")
def radio_calls_in_the_order_of_grades(stage: Stage) -> None:
    """CoSENT on graded pairs after a warm start, watched by the rank correlation."""
    model = warmed(reader(stage, RADIO, spread=0.05), RADIO.table(200, seed=2), steps=8)
    unseen = RADIO.graded(60, seed=13)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*unseen.values(), name="radio")
    trainer = stage.trainer(
        losses.CoSENTLoss, RADIO.graded(480), model, **QUICK | {"max_steps": 100},
        evaluator=evaluator, eval_strategy="steps", eval_steps=25,
    )  # fmt: skip
    learns(stage, trainer, grades(RADIO), least=0.1)


@sound("angles in complex space")
def tweets_of_homes_by_their_angle(stage: Stage) -> None:
    """AnglE on searches and tweets that agree in none to all of four traits."""
    model = warmed(reader(stage, HOMES, spread=0.05), HOMES.table(200, seed=2), steps=8)
    table = HOMES.graded(480, second_column=2)
    trainer = stage.trainer(losses.AnglELoss, table, model, **QUICK | {"max_steps": 120})
    learns(stage, trainer, grades(HOMES, second_column=2), least=0.1)


@sound("cosines regressed on grades")
def menus_with_cosines_like_their_grades(stage: Stage) -> None:
    """Squared error of the cosine against the share of agreeing parts of a dish."""
    model = warmed(reader(stage, MENU, spread=0.05), MENU.table(200, seed=2), steps=6)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, MENU.graded(480), model, **QUICK | {"max_steps": 120}
    )
    learns(stage, trainer, grades(MENU), least=0.1)


@sound("hardest triplets of labels")
def tickets_by_the_hardest_of_a_batch(stage: Stage) -> None:
    """Batch-hard triplets with a soft margin; batches hold several texts of each label."""
    model = encoder(stage, tickets(600)["text"])
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, tickets(400), model,
        **QUICK | {"learning_rate": 1e-3}, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, sorts_tickets, least=0.1)


@sound("hard pairs of two labels")
def addresses_that_are_the_same_or_not(stage: Stage) -> None:
    """Online contrastive loss; half the pairs differ in the street or in the town."""
    table = POSTAL.table(300)
    counterparts = [*POSTAL.near(300, slot=0)[:150], *POSTAL.near(300, slot=3)[150:]]
    labelled = {
        "written": table["written"] * 2,
        "register": [*table["register"], *counterparts],
        "label": [1] * 300 + [0] * 300,
    }
    model = warmed(reader(stage, POSTAL), POSTAL.table(200, seed=2), steps=4)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, labelled, model, **QUICK | {"max_steps": 120},
    )  # fmt: skip
    learns(stage, trainer, POSTAL.sought, least=0.1)


@sound("margins of a teacher")
def forecasts_with_the_margins_of_a_teacher(stage: Stage) -> None:
    """MarginMSE: the student's gap of positive and negative follows a trained teacher's."""
    from sentence_transformers.util import pairwise_cos_sim

    table: dict[str, Any] = WEATHER.table(480)
    table["other"] = table["metar"][::-1]
    teacher = warmed(reader(stage, WEATHER, width=64, name="teacher"), table, steps=50)
    first, right, wrong = (rows_of(teacher, texts) for texts in table.values())
    table["label"] = ((first * right).sum(1) - (first * wrong).sum(1)).tolist()
    student = reader(stage, WEATHER, width=32, name="student", spread=0.05)

    def margins(model: Any) -> Any:
        return losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim)

    trainer = stage.trainer(margins, table, student, **QUICK | {"max_steps": 150})
    learns(stage, trainer, WEATHER.sought, least=0.1)


@sound("rows of a teacher in two languages")
def greek_taught_by_an_english_teacher(stage: Stage) -> None:
    """The student's English and Greek both go to the rows of a teacher of English."""
    table: dict[str, Any] = GREEK.table(480)
    same = {"text": table["english"], "again": table["english"]}
    teacher = warmed(reader(stage, GREEK, name="teacher"), same, steps=40)
    table["label"] = teacher.encode(table["english"], show_progress_bar=False).tolist()
    student = reader(stage, GREEK, name="student", seed=8, dropout=0.0)
    arguments = QUICK | {"learning_rate": 3e-3, "max_steps": 120}
    trainer = stage.trainer(losses.MSELoss, table, student, **arguments)
    learns(stage, trainer, GREEK.sought, least=0.1)


@sound("a guide leaves out false negatives")
def homes_with_a_guide_for_negatives(stage: Stage) -> None:
    """GIST: a trained guide masks candidates that it holds closer than the positive."""
    table = {name: texts for name, texts in HOMES.table(400).items() if name != "tweet"}
    guide = warmed(reader(stage, HOMES, width=64, name="guide"), HOMES.table(200, seed=2), 40)

    def guided(model: Any) -> Any:
        return losses.GISTEmbedLoss(model, guide, temperature=0.05)

    trainer = stage.trainer(guided, table, reader(stage, HOMES), **QUICK)
    learns(stage, trainer, HOMES.sought, least=0.1)


@sound("classes of pairs, as in the first SBERT")
def reviews_by_classes_of_pairs(stage: Stage) -> None:
    """Softmax over two rows and their difference: pairs of equal, near and far stars.

    Remark: the head is not used afterwards; cosines follow all the same, as in SBERT.
    """
    table = review_pairs(500)
    table["label"] = [0 if grade == 1 else 1 if grade == 0.75 else 2 for grade in table["score"]]
    del table["score"]
    model = encoder(stage, reviews(900)["text"], dropout=0.0)

    def softmax(model: Any) -> Any:
        torch.manual_seed(5)
        return losses.SoftmaxLoss(model, 48, num_labels=3)

    def score(model: Any) -> float:
        return correlation(model, review_pairs(100, seed=11))

    trainer = stage.trainer(softmax, table, model, **QUICK | {"max_steps": 150})
    learns(stage, trainer, score, least=0.1)


@sound("spread of a teacher over candidates")
def ward_letters_with_the_spread_of_a_teacher(stage: Stage) -> None:
    """The student learns a trained teacher's probabilities of a letter and three others."""
    table: dict[str, Any] = with_negatives(WARD, 400, 0, 1, 2)
    teacher = warmed(reader(stage, WARD, width=64, name="teacher"), table, steps=50)
    first, *candidates = (rows_of(teacher, texts) for texts in table.values())
    table["label"] = torch.stack([10 * (first * rows).sum(1) for rows in candidates], 1).tolist()
    student = reader(stage, WARD, name="student", layers=1, spread=0.05)

    def divergence(model: Any) -> Any:
        def scaled(rows: torch.Tensor, counterparts: torch.Tensor) -> torch.Tensor:
            return 10 * torch.cosine_similarity(rows, counterparts)

        return losses.DistillKLDivLoss(model, similarity_fct=scaled)

    trainer = stage.trainer(divergence, table, student, **QUICK | {"max_steps": 120})
    learns(stage, trainer, WARD.sought, least=0.1)

"""Sound set-ups with the trainer: graded scores, binary labels and classes."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.fields_of_offices_and_ports import (
    BIRDS,
    CHATTER,
    CHESS,
    FORMS,
    GENES,
    MAILS,
    SHELVES,
    classed,
    neighbours,
    reader,
    varied,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses


def tuned(stage: Stage, field: Any, steps: int = 5, **options: Any) -> Any:
    """An encoder that has been trained a little on pairs of its field."""
    return warmed(reader(stage, field, **options), field.table(200, seed=4), steps)


def graded_score(field: Any) -> Any:
    """The correlation of cosines and scores of pairs that are not in training."""
    return lambda model: correlation(model, field.graded(120, seed=11))


@sound("graded pairs by CoSENT with an evaluator")
def posts_and_paraphrases_by_cosent(stage: Stage) -> None:
    checks = CHATTER.graded(60, seed=3)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(
        checks["post"], checks["paraphrase"], checks["score"], name="posts"
    )
    trainer = stage.trainer(
        losses.CoSENTLoss, CHATTER.graded(400), reader(stage, CHATTER), learning_rate=2e-3,
        max_steps=70, evaluator=evaluator, eval_strategy="steps", eval_steps=35,
    )  # fmt: skip
    learns(stage, trainer, graded_score(CHATTER))


@sound("graded pairs by the angle")
def chess_games_by_angle(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, CHESS.graded(400), tuned(stage, CHESS),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, graded_score(CHESS))


@sound("graded pairs by the error of the cosine")
def bird_notes_by_squared_error(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, BIRDS.graded(400), tuned(stage, BIRDS), learning_rate=2e-3,
        max_steps=80, per_device_train_batch_size=32, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, graded_score(BIRDS))


def answered(field: Any, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Rows whose second text tells the same (1), or differs in a slot or altogether (0)."""
    first, second = field.table(count, seed).values()
    near = varied(field, count, seed)
    wrong = [near[at] if at % 4 else second[(at + 7) % count] for at in range(count)]
    return {
        "first": first,
        "second": [second[at] if at % 2 else wrong[at] for at in range(count)],
        "label": [at % 2 for at in range(count)],
    }


@sound("binary labels by a margin of distances")
def court_forms_by_contrast(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.ContrastiveLoss, answered(FORMS, 480), tuned(stage, FORMS),
        learning_rate=2e-3, max_steps=90, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, FORMS.sought)


@sound("binary labels, the hard ones of each batch")
def library_cards_by_online_contrast(stage: Stage) -> None:
    checks = list(answered(SHELVES, 60, seed=3).values())
    evaluator = evaluation.BinaryClassificationEvaluator(*checks, name="cards")
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, answered(SHELVES, 400), tuned(stage, SHELVES),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=32, evaluator=evaluator,
        eval_strategy="steps", eval_steps=40,
    )  # fmt: skip
    learns(stage, trainer, SHELVES.sought)


@sound("classes, the hardest triplets of each batch")
def mails_of_eight_causes_by_hard_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchHardSoftMarginTripletLoss(model), classed(MAILS, 0, 320),
        reader(stage, MAILS, layers=1), learning_rate=1e-3, max_steps=60,
        per_device_train_batch_size=32, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(MAILS, 0))


@sound("classes, all triplets of each batch")
def genes_of_eight_kinds_by_all_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0), classed(GENES, 0, 320),
        reader(stage, GENES), learning_rate=1e-3, max_steps=50,
        per_device_train_batch_size=32, batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, neighbours(GENES, 0))

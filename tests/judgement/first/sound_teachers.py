"""Sound trainings of a student by a teacher or a guide that knows the field."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.sound_texts import (
    learned,
    made,
    sought,
    titled,
    translated,
)
from tests.judgement.stage import Stage, facts, pairs, passage, question, triplets
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss


def teacher(stage: Stage, table: dict[str, list[str]] | None = None, steps: int = 40) -> Any:
    """An encoder that was trained on the field before."""
    trainer = stage.trainer(
        ranking, pairs(320) if table is None else table, stage.model(dropout=0.0), max_steps=steps
    )
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train()
    return trainer.model


def cosines(model: Any, table: dict[str, list[str]]) -> list[list[float]]:
    """A teacher's cosines of the first column with each other one, row by row."""
    rows = [
        model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        for texts in table.values()
    ]
    return [
        [float(first @ second) for second in seconds] for first, *seconds in zip(*rows, strict=True)
    ]


@sound("distillation")
def margins_of_a_teacher_of_the_field(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    table = triplets(240)
    labels = [near - far for near, far in cosines(teacher(stage), table)]
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, pairwise_cos_sim),
        table | {"label": labels},
        max_steps=60,
    )
    learned(stage, trainer)


@sound("distillation")
def shares_of_a_teacher_of_the_field(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    table = triplets(240)
    table["other"] = [passage(fact) for fact in facts(240, seed=8)]
    labels = [[20 * cosine for cosine in row] for row in cosines(teacher(stage), table)]

    def similarity(first: Any, second: Any) -> Any:
        return 20 * pairwise_cos_sim(first, second)

    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, similarity_fct=similarity),
        table | {"label": labels},
        max_steps=60,
    )
    learned(stage, trainer)


@sound("distillation")
def vectors_of_a_teacher_of_the_field(stage: Stage) -> None:
    """A student of one layer learns the teacher's vectors of questions and passages alike."""
    texts = [text for fact in facts(240) for text in (question(fact), passage(fact))]
    labels = teacher(stage).encode(texts, show_progress_bar=False).tolist()
    student = stage.model()
    body = student[0].auto_model
    body.encoder.layer = body.encoder.layer[:1]
    body.config.num_hidden_layers = 1
    trainer = stage.trainer(
        losses.MSELoss,
        {"text": texts, "label": labels},
        student,
        max_steps=120,
        learning_rate=2e-3,
    )
    learned(stage, trainer)


@sound("distillation")
def translations_drawn_to_the_vectors_of_the_originals(stage: Stage) -> None:
    """A bilingual student: a sentence and its translation get the teacher's vector."""
    table = made(translated, 320)
    guide = teacher(stage)
    labels = guide.encode(table["home"], show_progress_bar=False).tolist()
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": labels}, max_steps=90, learning_rate=2e-3
    )
    learned(stage, trainer, sought(translated))


@sound("distillation")
def titles_guided_by_a_teacher_of_titles(stage: Stage) -> None:
    guide = teacher(stage, made(titled, 240, seed=2))
    trainer = stage.trainer(lambda model: losses.GISTEmbedLoss(model, guide), made(titled))
    learned(stage, trainer, sought(titled))


@sound("distillation")
def guided_triplets_in_cached_batches(stage: Stage) -> None:
    guide = teacher(stage)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model,
            guide,
            temperature=0.05,
            mini_batch_size=8,
            margin_strategy="relative",
            margin=0.05,
        ),
        triplets(),
        max_steps=24,
        learning_rate=1e-3,
    )
    learned(stage, trainer)

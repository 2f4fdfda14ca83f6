"""Sound set-ups: students of a teacher, guides, and embeddings of several sizes and depths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses, modules

from tests.judgement.case import sound
from tests.judgement.first.everyday_fields import HEADLINES, VACANCIES
from tests.judgement.first.expert_fields import COMMITS, METARS, PATENTS, SQL, STATUTES
from tests.judgement.first.field_rows import Source
from tests.judgement.first.language_fields import LIVES, RUSSIAN
from tests.judgement.first.training_parts import encoder_of, ranking, trained_before
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

QUICK = {"max_steps": 100, "learning_rate": 1e-3}


def vectors(model: Any, texts: list[str]) -> torch.Tensor:
    """Embeddings of a teacher."""
    return torch.as_tensor(model.encode(texts, show_progress_bar=False))


def student(stage: Stage, source: Source, **options: Any) -> Any:
    """A smaller encoder, in a folder of its own."""
    return encoder_of(stage, source, **{"name": "student", "layers": 1, "seed": 5, **options})


@sound("scores of a teacher for triplets")
def statutes_taught_by_margins(stage: Stage) -> None:
    """MarginMSE: by how much a teacher prefers the right section to one like it or of another."""
    teacher = trained_before(stage, STATUTES, "question", "section", steps=30)
    table = STATUTES.table(320)
    of_others = [*table["section"][1:], table["section"][0]]
    table["wrong_section"][::2] = of_others[::2]
    anchors, right, wrong = (vectors(teacher, texts) for texts in table.values())
    margins = ((anchors * right).sum(1) - (anchors * wrong).sum(1)).tolist()
    trainer = stage.trainer(
        losses.MarginMSELoss, {**table, "label": margins}, student(stage, STATUTES), max_steps=140,
        learning_rate=2e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, STATUTES.sought("question", "section"))


@sound("embeddings of a teacher, two languages")
def russian_taught_by_an_english_teacher(stage: Stage) -> None:
    """Both a sentence and its translation are to have the teacher's embedding of the English."""
    teacher = trained_before(stage, RUSSIAN, "english", "russian", steps=30)
    table = RUSSIAN.table(500)
    targets = vectors(teacher, table["english"]).tolist()
    trainer = stage.trainer(
        losses.MSELoss, {**table, "label": targets}, student(stage, RUSSIAN), max_steps=160,
        learning_rate=3e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought("english", "russian"))


@sound("order of candidates by a teacher")
def lives_taught_by_the_order_of_candidates(stage: Stage) -> None:
    """KL divergence from the teacher's softmax over a paragraph and two others."""
    teacher = trained_before(stage, LIVES, "question", "paragraph", steps=40)
    table = LIVES.table(400, "question", "paragraph", "wrong_1", "wrong_3")
    question, *candidates = (
        torch.nn.functional.normalize(vectors(teacher, texts), dim=1) for texts in table.values()
    )
    phrasing = torch.stack([10 * (question * rows).sum(1) for rows in candidates], 1).tolist()
    model = student(stage, LIVES, layers=2)
    model.append(modules.Normalize())
    trainer = stage.trainer(
        lambda encoder: losses.DistillKLDivLoss(encoder, temperature=1.0, student_temperature=0.1),
        {**table, "label": phrasing}, model, max_steps=140, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, LIVES.sought("question", "paragraph"))


@sound("wider teacher, projection")
def narrow_student_of_a_wide_teacher(stage: Stage) -> None:
    """Cosine distance to a teacher of 64 dimensions through a projection that is dropped later."""
    teacher = trained_before(stage, COMMITS, "message", "diff", steps=30, width=64)
    table = COMMITS.table(480)
    targets = torch.stack([vectors(teacher, texts) for texts in table.values()], 1).tolist()
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, projection_dim=64),
        {**table, "label": targets}, student(stage, COMMITS, width=32), max_steps=140,
        learning_rate=3e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, COMMITS.sought("message", "diff"))


@sound("guide that sorts out false negatives")
def headlines_sorted_by_a_guide(stage: Stage) -> None:
    """GIST: rows that the guide finds nearer than the positive do not count as negatives."""
    guide = trained_before(stage, HEADLINES, "headline", "lead", steps=30)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), HEADLINES.table(400),
        student(stage, HEADLINES), **QUICK,
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought("headline", "lead"))


@sound("guide and cached batches")
def patents_with_a_guide_in_cached_batches(stage: Stage) -> None:
    """The cached form of GIST with a margin below the positive's score."""
    guide = trained_before(stage, PATENTS, "title", "claim", steps=20)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=16, margin_strategy="relative",
            margin=0.05,
        ),
        PATENTS.table(384), student(stage, PATENTS), max_steps=40, learning_rate=2e-3,
        per_device_train_batch_size=48,
    )  # fmt: skip
    learns(stage, trainer, PATENTS.sought("title", "claim"))


def shortened(score: Callable[[Any], float], dimensions: int) -> Callable[[Any], float]:
    """A score of embeddings of which only the first dimensions are kept."""

    def of_few(model: Any) -> float:
        with model.truncate_sentence_embeddings(dimensions):
            return score(model)

    return of_few


@sound("nested sizes of embeddings")
def forecasts_in_nested_sizes(stage: Stage) -> None:
    """Matryoshka over 48, 24, 12 dimensions; the score is of the first 12."""
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, ranking()(model), [48, 24, 12]),
        METARS.table(300), encoder_of(stage, METARS), **QUICK,
    )  # fmt: skip
    learns(stage, trainer, shortened(METARS.sought("coded", "forecast"), 12))


@sound("nested sizes and depths")
def vacancies_in_nested_sizes_and_depths(stage: Stage) -> None:
    """Matryoshka in both ways: fewer dimensions and fewer layers."""
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(model, ranking()(model), [48, 16]),
        VACANCIES.table(400), encoder_of(stage, VACANCIES, layers=3), **QUICK,
    )  # fmt: skip
    learns(stage, trainer, shortened(VACANCIES.sought("advert", "career"), 16))


@sound("earlier layers trained along")
def requests_by_layers_of_any_depth(stage: Stage) -> None:
    """Adaptive layers: at each step another layer's embedding is trained beside the last."""
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, ranking()(model), prior_layers_weight=0.5),
        SQL.table(400), encoder_of(stage, SQL, layers=3), **QUICK,
    )  # fmt: skip
    learns(stage, trainer, SQL.sought("request", "sql"))

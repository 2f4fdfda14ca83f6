"""Sound set-ups: students of teachers, guided negatives, and losses around other losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import CLINIC, PAPERS, Field
from tests.judgement.first.good_fields import LETTERS
from tests.judgement.first.trades_and_texts import (
    BANK,
    BRISK,
    CHEMISTRY,
    GARDEN,
    HOUSES,
    JOBS,
    QUERIES,
    SPORT,
    agrees,
    encoder_of,
    finds,
    ranks,
    triples,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses

# Scores teach more slowly than ranks.
PATIENT = {"learning_rate": 3e-3, "max_steps": 120, "warmup_steps": 12,
           "per_device_train_batch_size": 32}  # fmt: skip
LONG = BRISK | {"max_steps": 80}


def teacher_of(stage: Stage, field: Field, count: int = 240) -> Any:
    """An encoder that was trained on a field, to teach or to guide."""
    model = encoder_of(stage, field, name="teacher", seed=4)
    return warmed(model, field.table(count), steps=60)


def rows_of(teacher: Any, texts: list[str]) -> Tensor:
    """What a teacher makes of texts."""
    return teacher.encode(texts, convert_to_tensor=True, show_progress_bar=False).clone()


def taught_scores(teacher: Any, table: dict[str, list[str]]) -> list[list[float]]:
    """A teacher's cosines of the first column with each other one."""
    first, *candidates = (rows_of(teacher, texts) for texts in table.values())
    columns = [torch.cosine_similarity(first, candidate) for candidate in candidates]
    return torch.stack(columns, 1).tolist()


def shortened(score: Callable[[Any], float], width: int) -> Callable[[Any], float]:
    """A score of the first ``width`` numbers of the embeddings."""

    def cut(model: Any) -> float:
        with model.truncate_sentence_embeddings(width):
            return score(model)

    return cut


@sound("distillation of embeddings, squared error")
def student_copies_embeddings_of_teacher(stage: Stage) -> None:
    """A student of one layer learns the embeddings of its teacher for single texts."""
    teacher = teacher_of(stage, SPORT)
    texts = [text for column in SPORT.table(320).values() for text in column]
    table = {"sentence": texts, "label": rows_of(teacher, texts).tolist()}
    student = encoder_of(stage, SPORT, layers=1)
    trainer = stage.trainer(
        losses.MSELoss, table, student, **(LONG | {"learning_rate": 4e-3}),
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(SPORT))


@sound("distillation into a second language")
def italian_taught_by_an_english_teacher(stage: Stage) -> None:
    """Both columns are drawn to the teacher's embedding of the English one."""
    teacher = teacher_of(stage, LETTERS, 200)
    table: dict[str, Any] = dict(list(LETTERS.table(230).items())[:2])
    table["label"] = rows_of(teacher, table["english"]).tolist()
    trainer = stage.trainer(
        losses.MSELoss, table, encoder_of(stage, LETTERS),
        **(LONG | {"learning_rate": 4e-3}), per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(LETTERS, 40))


@sound("distillation by cosine with a projection")
def narrow_student_projected_to_teacher(stage: Stage) -> None:
    """The student is of width 32, its teacher of 48; the loss has a projection between them."""
    teacher = teacher_of(stage, CHEMISTRY)
    texts = [text for column in CHEMISTRY.table(320).values() for text in column]
    table = {"sentence": texts, "label": rows_of(teacher, texts).tolist()}
    student = encoder_of(stage, CHEMISTRY, width=32)

    def projected(model: Any) -> Any:
        return losses.EmbedDistillLoss(model, distance_metric="cosine", projection_dim=48)

    trainer = stage.trainer(
        projected, table, student, **(LONG | {"learning_rate": 4e-3}),
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(CHEMISTRY))


@sound("distillation of margins")
def margins_of_teacher_over_two_negatives(stage: Stage) -> None:
    """The student learns by how much its teacher prefers the positive to each negative."""
    from sentence_transformers import util

    table = triples(JOBS, 320, slots=(0, 1))
    scores = taught_scores(teacher_of(stage, JOBS), table)
    table["label"] = [[20 * (row[0] - score) for score in row[1:]] for row in scores]

    def margins(model: Any) -> Any:
        return losses.MarginMSELoss(
            model, similarity_fct=lambda first, second: 20 * util.pairwise_cos_sim(first, second)
        )

    trainer = stage.trainer(margins, table, encoder_of(stage, JOBS), **LONG)
    learns(stage, trainer, finds(JOBS))


@sound("distillation of a distribution")
def distribution_of_a_teacher_over_candidates(stage: Stage) -> None:
    """Divergence from the teacher's distribution over a positive and three negatives."""
    from sentence_transformers import util

    table = triples(BANK, 320, slots=(0, 1, 2))
    scores = taught_scores(teacher_of(stage, BANK), table)
    table["label"] = [[10 * score for score in row] for row in scores]

    def divergence(model: Any) -> Any:
        return losses.DistillKLDivLoss(
            model, similarity_fct=lambda first, second: 10 * util.pairwise_cos_sim(first, second)
        )

    trainer = stage.trainer(divergence, table, encoder_of(stage, BANK), **LONG)
    learns(stage, trainer, finds(BANK))


@sound("guide that spares false negatives")
def guide_spares_likely_positives(stage: Stage) -> None:
    """A trained guide leaves out negatives that it holds for positives."""
    guide = teacher_of(stage, HOUSES)

    def guided(model: Any) -> Any:
        return losses.GISTEmbedLoss(model, guide, temperature=0.05)

    trainer = stage.trainer(guided, HOUSES.table(400), encoder_of(stage, HOUSES), **BRISK)
    learns(stage, trainer, finds(HOUSES))


@sound("cached guide with a relative margin")
def cached_guide_with_relative_margin(stage: Stage) -> None:
    """Triplets in portions; negatives above 95% of the positive's cosine are left out."""
    guide = teacher_of(stage, QUERIES)

    def guided(model: Any) -> Any:
        return losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=16, margin_strategy="relative",
            margin=0.05,
        )  # fmt: skip

    trainer = stage.trainer(
        guided, triples(QUERIES, 320), encoder_of(stage, QUERIES), learning_rate=3e-3,
        max_steps=30, per_device_train_batch_size=48, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, finds(QUERIES))


@sound("Matryoshka of a ranking loss")
def papers_sought_by_twelve_numbers(stage: Stage) -> None:
    """Titles and abstracts, trained at three widths and sought by the smallest."""

    def nested(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, ranks(model), [48, 24, 12])

    trainer = stage.trainer(nested, PAPERS.table(200), encoder_of(stage, PAPERS), **BRISK)
    learns(stage, trainer, shortened(finds(PAPERS, 40), 12))


@sound("Matryoshka of scores")
def graded_gardens_at_nested_widths(stage: Stage) -> None:
    """CoSENT at three widths with growing weights for the larger."""

    def nested(model: Any) -> Any:
        return losses.MatryoshkaLoss(
            model, losses.CoSENTLoss(model), [48, 32, 16], matryoshka_weights=[1.0, 0.7, 0.5]
        )

    trainer = stage.trainer(nested, GARDEN.graded(600), encoder_of(stage, GARDEN), **PATIENT)
    learns(stage, trainer, agrees(GARDEN))


@sound("Matryoshka in width and depth")
def nested_in_width_and_depth(stage: Stage) -> None:
    """Widths and layers together, for clinics that may cut either."""

    def nested(model: Any) -> Any:
        return losses.Matryoshka2dLoss(model, ranks(model), [48, 24])

    trainer = stage.trainer(nested, CLINIC.table(200), encoder_of(stage, CLINIC, layers=3), **BRISK)
    learns(stage, trainer, finds(CLINIC, 40))


class Spread(nn.Module):
    """The ranking loss beside a regulariser that spreads embeddings, each under its name."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.ranking = model, ranks(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(model, mean_weight=0.0)

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> dict[str, Tensor]:
        rows = [self.model(column)["sentence_embedding"] for column in sentence_features]
        ranking = self.ranking.compute_loss_from_embeddings(rows, labels)
        return {"ranking": ranking, **self.spread.compute_loss_from_embeddings(rows, labels)}


@sound("ranking loss with a spreading regulariser")
def ranking_beside_orthogonal_regulariser(stage: Stage) -> None:
    """A loss of one's own that returns its two terms by name, as the documentation shows."""
    trainer = stage.trainer(Spread, BANK.table(320), encoder_of(stage, BANK), **BRISK)
    learns(stage, trainer, finds(BANK))

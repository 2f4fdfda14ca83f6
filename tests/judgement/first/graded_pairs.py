"""Sound set-ups: pairs with scores or labels."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.common_tools import fresh, nearer, separated, warm
from tests.judgement.first.drawn_texts import doubles, entailments, review_pairs, sensors
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.slot_fields import PHRASES, RECIPES
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses


@sound("reviews whose stars are near, evaluator of correlation")
def reviews_by_the_distance_of_their_stars(stage: Stage) -> None:
    """CoSENT ranks pairs by their scores; the rank correlation of held-out pairs is evaluated."""
    table, tested = review_pairs(300), review_pairs(150, True)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*tested.values())
    trainer = stage.trainer(
        losses.CoSENTLoss, table, fresh(stage, table), learning_rate=1e-3, max_steps=80,
        evaluator=evaluator, eval_strategy="steps", eval_steps=40,
    )  # fmt: skip
    learns(stage, trainer, lambda model: correlation(model, tested), least=0.1)


class CosinesAndAngles(torch.nn.Module):
    """The sum of the ranking of cosines and of angles in complex space, as in AnglE's paper."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.cosines, self.angles = losses.CoSENTLoss(model), losses.AnglELoss(model)

    def forward(self, sentence_features: Any, labels: torch.Tensor) -> torch.Tensor:
        columns = list(sentence_features)
        return sum(loss([dict(column) for column in columns], labels)
                   for loss in (self.cosines, self.angles))  # fmt: skip


@sound("lines of readings, cosines and angles")
def sensor_lines_by_cosines_and_angles(stage: Stage) -> None:
    """Both terms of AnglE on pairs of readings, whose score falls with their distance."""
    table, tested = sensors(600), sensors(200, True)
    trainer = stage.trainer(
        CosinesAndAngles, table, fresh(stage, table, dropout=0.0, layers=1),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=300,
    )  # fmt: skip
    learns(stage, trainer, lambda model: correlation(model, tested), least=0.1)


@sound("cosines regressed on scores from zero to one")
def recipes_with_shared_parts_by_regression(stage: Stage) -> None:
    """The score is the share of parts that a title and steps have in common."""
    table, tested = RECIPES.graded(500), RECIPES.graded(120, seed=11)
    model = warm(stage, RECIPES.table(200, seed=2), table, steps=30, pooling="max")
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, model, learning_rate=1e-3, max_steps=150
    )
    learns(stage, trainer, lambda model: correlation(model, tested), least=0.1)


@sound("scores from zero to five, divided by five")
def translations_rated_by_people_and_scaled(stage: Stage) -> None:
    """Ratings up to five, as in STS, are divided by five before cosines are regressed on them."""
    table = PHRASES.graded(500, most=5.0)
    table["score"] = [score / 5 for score in table["score"]]
    tested = PHRASES.graded(120, seed=11)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, fresh(stage, table, pooling="max"),
        learning_rate=1.5e-3, max_steps=120, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, lambda model: correlation(model, tested), least=0.1)


def warm_for_doubles(stage: Stage, table: dict[str, list[Any]]) -> Any:
    """An encoder that has seen a few double questions."""
    same = [row for row, label in enumerate(table["label"]) if label][:120]
    pairs = {name: [table[name][row] for row in same] for name in ("question1", "question2")}
    return warm(stage, pairs, table, steps=30, layers=1, dropout=0.0)


@sound("double questions, hard pairs of each batch only")
def doubles_of_a_forum_by_their_hard_pairs(stage: Stage) -> None:
    """The online form learns from the hard pairs of batches of 32, with an evaluator."""
    table, tested = doubles(600), doubles(200, True)
    evaluator = evaluation.BinaryClassificationEvaluator(*tested.values())
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, table, warm_for_doubles(stage, table),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=100, evaluator=evaluator,
        eval_strategy="steps", eval_steps=50,
    )  # fmt: skip
    learns(stage, trainer, lambda model: separated(model, tested), least=0.03)


@sound("entailment by a classifier of two embeddings")
def premises_and_hypotheses_by_softmax(stage: Stage) -> None:
    """The set-up of the first Sentence-BERT: three classes of (u, v, |u - v|)."""
    table, tested = entailments(600), entailments(300, True)
    same = [row for row, label in enumerate(table["label"]) if label == 0]
    model = warm(
        stage, {name: [table[name][row] for row in same] for name in ("premise", "hypothesis")},
        table, steps=18,
    )  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 48, 3), table, model, learning_rate=1.5e-3,
        max_steps=200,
    )  # fmt: skip

    def accuracy(model: Any) -> float:
        first, second = (
            torch.tensor(model.encode(tested[name], show_progress_bar=False))
            for name in ("premise", "hypothesis")
        )
        segments = torch.cat([first, second, (first - second).abs()], 1)
        classes = trainer.loss.classifier(segments).argmax(1)
        return float((classes == torch.tensor(tested["label"])).float().mean())

    learns(stage, trainer, accuracy, least=0.1)


@sound("entailment as triplets")
def hypotheses_with_their_contradictions(stage: Stage) -> None:
    """As in SimCSE: what follows is the positive, what contradicts the hard negative."""

    def triples(count: int, held_out: bool) -> dict[str, list[str]]:
        rows = list(zip(*entailments(count, held_out).values(), strict=True))
        by_premise: dict[str, dict[int, str]] = {}
        for premise, hypothesis, label in rows:
            by_premise.setdefault(premise, {})[label] = hypothesis
        two_views = [
            (text, said[0], said[2]) for text, said in by_premise.items() if {0, 2} <= {*said}
        ]
        names = ("premise", "entailed", "contradicted")
        return {name: [row[at] for row in two_views] for at, name in enumerate(names)}

    table, tested = triples(1600, False), triples(800, True)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table, tested), learning_rate=1.5e-3, max_steps=80,
        per_device_train_batch_size=24, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, lambda model: nearer(model, tested), least=0.1)

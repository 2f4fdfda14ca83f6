"""Sound set-ups: losses of sentence-transformers on data that they are made for."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.damaged_texts import EVALUATED, searching
from tests.judgement.first.materials import cosine_triplet, ranking, trained, translated
from tests.judgement.first.pair_labels import cosent, cosine, labelled, same_class
from tests.judgement.stage import (
    Stage,
    classes,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    triplets,
    word_cosines,
)
from tests.judgement.truth import alike, among_alike, in_one_place, learns, retrieval
from tests.sentence_training import losses

FAST = {"learning_rate": 1e-3}


@sound("ranking loss with an evaluator")
def pairs_with_an_evaluator(stage: Stage) -> None:
    evaluator = searching(alike())
    learns(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **EVALUATED), among_alike)


@sound("ranking loss with hard negatives")
def triplets_by_ranking(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, triplets(), **FAST), among_alike)


@sound("ranking loss with several hard negatives")
def triplets_with_three_negatives(stage: Stage) -> None:
    draw, asked = random.Random(3), facts(160)
    table = {"query": [*map(question, asked)], "positive": [*map(passage, asked)]}
    for at in range(3):
        mixed = [(*draw.choice(asked)[:2], *fact[2:]) for fact in asked]
        table[f"negative_{at + 1}"] = [*map(passage, mixed)]
    learns(stage, stage.trainer(ranking, table, **FAST), in_one_place)


@sound("symmetric ranking loss")
def symmetric_ranking(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.MultipleNegativesSymmetricRankingLoss(model)

    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


@sound("cached ranking loss")
def cached_ranking(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16)

    settings = {"per_device_train_batch_size": 32, "max_steps": 30}
    learns(stage, stage.trainer(loss, pairs(), **settings, **FAST), among_alike)


@sound("Matryoshka around the ranking loss")
def matryoshka_of_ranking(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, ranking(model), [32, 16, 8])

    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


@sound("Matryoshka around a loss of scores")
def matryoshka_around_cosent(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, cosent(model), [32, 16])

    learns(stage, stage.trainer(loss, labelled(), **FAST), retrieval)


@sound("CoSENT on labels of 0 and 1")
def cosent_on_labels_of_two_values(stage: Stage) -> None:
    learns(stage, stage.trainer(cosent, labelled(), **FAST), retrieval)


@sound("AnglE on labels of 0 and 1")
def angle_on_two_labels(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.AnglELoss(model)

    learns(stage, stage.trainer(loss, labelled(), **FAST), retrieval)


@sound("cosine regression on graded scores")
def cosine_on_grades(stage: Stage) -> None:
    draw, table = random.Random(4), labelled()
    graded = [0.6 + 0.4 * draw.random() if mark else 0.2 * draw.random() for mark in table["label"]]
    table = {**table, "label": graded}
    learns(stage, stage.trainer(cosine, table, max_steps=60, **FAST), retrieval)


@sound("contrastive loss on labelled pairs")
def contrastive_on_pairs(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.ContrastiveLoss(model)

    table = labelled()
    table["label"] = [int(mark) for mark in table["label"]]
    learns(stage, stage.trainer(loss, table, **FAST), retrieval)


@sound("contrastive loss on labelled pairs")
def online_contrastive_on_pairs(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.OnlineContrastiveLoss(model)

    table = labelled()
    table["label"] = [int(mark) for mark in table["label"]]
    learns(stage, stage.trainer(loss, table, **FAST), retrieval)


@sound("triplets by cosine")
def triplets_by_cosine_of_the_library(stage: Stage) -> None:
    learns(stage, stage.trainer(cosine_triplet, triplets(), max_steps=60, **FAST), among_alike)


@sound("triplets by distance at the default margin")
def triplets_by_distance(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.TripletLoss(model)

    learns(stage, stage.trainer(loss, triplets(), **FAST), among_alike)


@sound("label loss")
def hardest_of_a_class(stage: Stage) -> None:
    settings = {"batch_sampler": "group_by_label", **FAST}
    learns(stage, stage.trainer(same_class, classes(320, of_each=4), **settings), among_alike)


@sound("label loss")
def all_triplets_of_classes(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.BatchAllTripletLoss(model, margin=1.0)

    settings = {"batch_sampler": "group_by_label", **FAST}
    learns(stage, stage.trainer(loss, classes(320, of_each=8), **settings), among_alike)


@sound("label loss")
def semi_hard_triplets(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.BatchSemiHardTripletLoss(model, margin=1.0)

    settings = {"batch_sampler": "group_by_label", **FAST}
    learns(stage, stage.trainer(loss, classes(320, of_each=4), **settings), among_alike)


@sound("mega batches")
def mega_batch_margin(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.MegaBatchMarginLoss(model, use_mini_batched_version=False)

    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


def teacher(stage: Stage) -> Any:
    """An encoder that has learned the pairs."""
    trainer = stage.trainer(ranking, pairs(), learning_rate=1e-3, max_steps=60)
    trained(trainer, lambda _: 0.0)
    return trainer.model


def embedded(model: Any, texts: list[str]) -> list[list[float]]:
    return [[float(x) for x in row] for row in model.encode(texts, show_progress_bar=False)]


@sound("distillation of embeddings")
def embeddings_of_a_teacher(stage: Stage) -> None:
    table = pairs()
    texts = table["anchor"] + table["positive"]
    rows = embedded(teacher(stage), texts)

    def loss(model: Any) -> Any:
        return losses.MSELoss(model)

    table = {"sentence": texts, "label": rows}
    learns(stage, stage.trainer(loss, table, learning_rate=2e-3, max_steps=60), among_alike)


@sound("distillation across languages")
def teacher_in_two_languages(stage: Stage) -> None:
    guide, table = teacher(stage), pairs()
    texts = table["anchor"] + table["positive"]
    rows = embedded(guide, texts)
    german = [translated(text) for text in texts]
    unseen = {name: [*column] for name, column in pairs(100, seed=11).items()}
    unseen["positive"] = [translated(text) for text in unseen["positive"]]

    def loss(model: Any) -> Any:
        return losses.MSELoss(model)

    student = stage.model()
    student.load_state_dict(guide.state_dict())
    columns = {"english": texts, "german": german, "label": rows}
    learns(
        stage,
        stage.trainer(loss, columns, student, learning_rate=2e-3, max_steps=60),
        lambda model: retrieval(model, unseen),
    )


@sound("margins of a teacher")
def margins_of_cosines(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    def loss(model: Any) -> Any:
        return losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim)

    table = triplets()
    columns = table | {"label": word_cosines(table)}
    learns(stage, stage.trainer(loss, columns, max_steps=60, **FAST), among_alike)


@sound("distribution of a teacher")
def shares_of_a_teacher(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    def loss(model: Any) -> Any:
        return losses.DistillKLDivLoss(model, similarity_fct=pairwise_cos_sim, temperature=0.1)

    table = triplets()
    columns = table | {"label": word_cosines(table)}
    learns(stage, stage.trainer(loss, columns, max_steps=60, **FAST), among_alike)


@sound("guided negatives")
def negatives_sifted_by_a_guide(stage: Stage) -> None:
    guide = teacher(stage)

    def loss(model: Any) -> Any:
        return losses.GISTEmbedLoss(model, guide, temperature=0.05)

    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


@sound("two views by dropout")
def dropout_as_the_only_noise(stage: Stage) -> None:
    table = pairs()
    texts = table["anchor"] + table["positive"]
    columns = {"first": texts, "second": texts}
    learns(stage, stage.trainer(ranking, columns, **FAST), among_alike)


@sound("hard negatives of the same place")
def lookalikes_as_negatives(stage: Stage) -> None:
    asked = facts(160)
    table = {
        "anchor": [*map(question, asked)],
        "positive": [*map(passage, asked)],
        "negative": [*map(lookalike, asked)],
    }
    settings = {"max_steps": 60, **FAST}
    learns(stage, stage.trainer(ranking, table, **settings), in_one_place)

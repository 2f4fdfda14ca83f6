"""Sound set-ups: the losses of sentence-transformers, each with data that fit it."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.loop_materials import (
    FAST,
    Proxies,
    cosent,
    cosine_scores,
    pretrained,
    ranking,
    shuffled,
    trained,
)
from tests.judgement.stage import Stage, classes, facts, pairs, passage, rated, triplets
from tests.judgement.truth import alike, among_alike, learns, retrieval
from tests.sentence_training import losses

RARE_WORDS = {"learning_rate": 1e-3, "max_steps": 60}


def fits(kind: type) -> dict[str, list[Any]]:
    """Questions and passages with a label that says whether they belong together."""
    first, second, marks = rated()
    return shuffled(
        {"sentence1": first, "sentence2": second, "label": [kind(mark) for mark in marks]}
    )


@sound("three hard negatives for each pair")
def ranking_with_three_hard_negatives(stage: Stage) -> None:
    table = triplets()
    for number in (2, 3):
        kin = facts(160, seed=20 + number)
        table[f"negative_{number}"] = [
            passage((*fact[:2], *place[2:])) for fact, place in zip(kin, facts(160), strict=True)
        ]
    learns(stage, stage.trainer(ranking, table, **FAST), among_alike)


@sound("cached ranking loss")
def gradient_cache_in_blocks_of_eight(stage: Stage) -> None:
    def cached(model: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=8)

    settings = {"per_device_train_batch_size": 32, "max_steps": 30}
    learns(stage, stage.trainer(cached, pairs(), **settings, **FAST), among_alike)


@sound("guide that leaves out false negatives")
def gist_with_a_trained_guide(stage: Stage) -> None:
    guide = stage.trainer(ranking, pairs(seed=5), **FAST)
    trained(guide, lambda _: 0.0)

    def gist(model: Any) -> Any:
        return losses.GISTEmbedLoss(model, guide.model, temperature=0.05)

    learns(stage, stage.trainer(gist, pairs(), **FAST), among_alike)


@sound("CoSENT")
def cosent_on_marks_of_zero_and_one(stage: Stage) -> None:
    learns(stage, stage.trainer(cosent, fits(float), **FAST), retrieval)


@sound("AnglE")
def angle_on_marks_of_zero_and_one(stage: Stage) -> None:
    def angle(model: Any) -> Any:
        return losses.AnglELoss(model)

    learns(stage, stage.trainer(angle, fits(float), **FAST), retrieval)


@sound("cosine similarity loss")
def cosine_loss_on_marks_of_zero_and_one(stage: Stage) -> None:
    learns(stage, stage.trainer(cosine_scores, fits(float), **FAST), retrieval)


@sound("contrastive loss")
def contrastive_loss_on_duplicates(stage: Stage) -> None:
    def contrastive(model: Any) -> Any:
        return losses.ContrastiveLoss(model, margin=0.5)

    learns(stage, stage.trainer(contrastive, fits(int), **FAST), retrieval)


@sound("triplets by Euclidean distance with the default margin")
def triplets_with_a_margin_of_five(stage: Stage) -> None:
    """Embeddings of this encoder are about five units long, so that a margin of 5 is in reach."""

    def triplet(model: Any) -> Any:
        return losses.TripletLoss(model)

    learns(stage, stage.trainer(triplet, triplets(), **RARE_WORDS), among_alike)


BY_CLASS = {"batch_sampler": "group_by_label", "learning_rate": 1e-3}


@sound("all triplets of the classes of a batch")
def all_triplets_over_classes(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.BatchAllTripletLoss(model, margin=1.0)

    learns(stage, stage.trainer(loss, classes(320, of_each=4), **BY_CLASS), among_alike)


@sound("semi-hard triplets of the classes of a batch")
def semi_hard_triplets_over_classes(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
        return losses.BatchSemiHardTripletLoss(model, distance, margin=0.3)

    learns(stage, stage.trainer(loss, classes(320, of_each=4), **BY_CLASS), among_alike)


@sound("student of a teacher's embeddings")
def student_by_mean_square(stage: Stage) -> None:
    teacher = stage.trainer(ranking, pairs(seed=5), **FAST)
    trained(teacher, lambda _: 0.0)
    table = pairs()
    texts = table["anchor"] + table["positive"]
    gold = teacher.model.encode(texts, show_progress_bar=False).tolist()

    def loss(model: Any) -> Any:
        return losses.MSELoss(model)

    settings = {"learning_rate": 3e-3, "max_steps": 100}
    learns(stage, stage.trainer(loss, {"text": texts, "label": gold}, **settings), among_alike)


def by_words(table: dict[str, list[str]]) -> list[list[float]]:
    """A teacher's scores of each row's texts: the words that they share with the anchor."""
    rows = zip(*([set(text.split()) for text in texts] for texts in table.values()), strict=True)
    return [[float(len(anchor & text)) for text in texts] for anchor, *texts in rows]


@sound("margins of a teacher's cosines")
def margins_of_a_cross_encoder(stage: Stage) -> None:
    from sentence_transformers.util import pairwise_cos_sim

    def margins(model: Any) -> Any:
        return losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim)

    table = triplets()
    label = [0.25 * (right - wrong) for right, wrong in by_words(table)]
    trainer = stage.trainer(margins, table | {"label": label}, learning_rate=3e-3)
    learns(stage, trainer, among_alike)


@sound("shares of a teacher's scores")
def divergence_from_a_cross_encoder(stage: Stage) -> None:
    def divergence(model: Any) -> Any:
        return losses.DistillKLDivLoss(model)

    table = triplets() | {
        f"stranger_{seed}": [*map(passage, facts(160, seed=seed))] for seed in (40, 41, 42)
    }
    label = [[2 * score for score in scores] for scores in by_words(table)]
    trainer = stage.trainer(divergence, table | {"label": label}, **RARE_WORDS)
    learns(stage, trainer, among_alike)


@sound("Matryoshka")
def matryoshka_of_three_lengths(stage: Stage) -> None:
    def matryoshka(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, ranking(model), [32, 16, 8])

    learns(stage, stage.trainer(matryoshka, pairs(), **FAST), among_alike)


@sound("loss at each layer")
def adaptive_layers(stage: Stage) -> None:
    def adaptive(model: Any) -> Any:
        return losses.AdaptiveLayerLoss(model, ranking(model))

    learns(stage, stage.trainer(adaptive, pairs(), **FAST), among_alike)


@sound("dropout as the only difference of a pair")
def simcse_without_labels(stage: Stage) -> None:
    """Unsupervised SimCSE: each text is its own positive, under another dropout."""
    table = pairs(320)
    texts = (table["anchor"] + table["positive"])[::2]
    settings = {"max_steps": 60, "learning_rate": 5e-4}
    learns(
        stage, stage.trainer(ranking, {"anchor": texts, "positive": texts}, **settings), among_alike
    )


@sound("contrastive tension within a batch")
def contrastive_tension(stage: Stage) -> None:
    def tension(model: Any) -> Any:
        return losses.ContrastiveTensionLossInBatchNegatives(model)

    table = pairs(320)
    texts = table["anchor"] + table["positive"]
    learns(
        stage,
        stage.trainer(tension, {"text1": texts, "text2": texts}, max_steps=60),
        among_alike,
    )


@sound("trained encoder further on a harder task")
def second_stage_on_triplets(stage: Stage) -> None:
    folder = pretrained(stage, pairs(seed=5), max_steps=30)
    model = stage.model(bert=folder)
    learns(
        stage,
        stage.trainer(ranking, triplets(), model, learning_rate=5e-4),
        lambda encoder: retrieval(encoder, alike(places=2, others=10)),
    )


@sound("learned centres of classes")
def centres_of_eighty_classes(stage: Stage) -> None:
    settings = {"learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 24}
    trainer = stage.trainer(
        Proxies, classes(320, of_each=4), batch_sampler="group_by_label", **settings
    )
    learns(stage, trainer, among_alike)

"""Sound trainings: losses and the data that they are made for."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.compared_tables import translated
from tests.judgement.first.reported_encoders import (
    among_classmates,
    encoder,
    graded,
    in_grades,
    ranking,
    tuned,
)
from tests.judgement.stage import (
    Stage,
    classes,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    rated,
    scored,
    triplets,
    word_cosines,
)
from tests.judgement.truth import among_alike, learns, retrieval
from tests.sentence_training import losses

QUICK = {"learning_rate": 1e-3}
LONG = QUICK | {"max_steps": 60}


def labelled() -> dict[str, list[Any]]:
    """Questions with passages that answer them (1) or those of other questions (0)."""
    first, second, labels = rated()
    return {"sentence1": first, "sentence2": second, "label": labels}


@sound("losses")
def ranking_in_both_directions_at_once(stage: Stage) -> None:
    """Questions seek passages and passages questions, each with a softmax of its own."""
    learns(
        stage,
        stage.trainer(
            lambda model: ranking(
                model, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
            ),
            pairs(),
        ),
        among_alike,
    )


@sound("losses")
def ranking_against_questions_as_well(stage: Stage) -> None:
    """As in GTE, other questions of the batch are negatives too."""
    learns(
        stage,
        stage.trainer(
            lambda model: ranking(
                model, scale=50.0, directions=("query_to_doc", "query_to_query", "doc_to_query")
            ),
            pairs(),
        ),
        among_alike,
    )


@sound("losses")
def few_shot_pairs_of_classes(stage: Stage) -> None:
    """SetFit: eight texts of each of five classes; pairs of one class have 1, other pairs 0."""
    texts, draw = classes(40, seed=3), random.Random(4)
    rows = list(zip(*texts.values(), strict=True))
    table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
    for at in range(200):
        first = draw.choice(rows)
        fitting = [row for row in rows if (row[1] == first[1]) == bool(at % 2) and row != first]
        for column, cell in zip(
            table.values(), (first[0], draw.choice(fitting)[0], float(at % 2)), strict=True
        ):
            column.append(cell)
    learns(stage, stage.trainer(losses.CosineSimilarityLoss, table, **LONG), among_classmates)


@sound("losses")
def contrastive_at_euclidean_distances(stage: Stage) -> None:
    """A margin of 2 between vectors that are not normalised."""
    euclidean = losses.SiameseDistanceMetric.EUCLIDEAN
    learns(
        stage,
        stage.trainer(
            lambda model: losses.ContrastiveLoss(model, euclidean, margin=2.0), labelled(), **LONG
        ),
        retrieval,
    )


@sound("losses")
def triplets_at_manhattan_distances(stage: Stage) -> None:
    manhattan = losses.TripletDistanceMetric.MANHATTAN
    learns(
        stage,
        stage.trainer(
            lambda model: losses.TripletLoss(model, manhattan, triplet_margin=5),
            triplets(),
            **QUICK,
        ),
        among_alike,
    )


@sound("losses")
def all_triplets_by_cosine_distance(stage: Stage) -> None:
    """Batches grouped by label, a margin of 0.3 between cosine distances."""
    cosine = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    learns(
        stage,
        stage.trainer(
            lambda model: losses.BatchAllTripletLoss(model, cosine, margin=0.3),
            classes(320),
            batch_sampler="group_by_label",
            **LONG,
        ),
        among_classmates,
    )


@sound("losses")
def cosent_on_three_grades(stage: Stage) -> None:
    """Judgements of annotators: 0, 0.5 or 1."""
    table = graded()
    table["score"] = [round(2 * score) / 2 for score in table["score"]]
    learns(stage, stage.trainer(losses.CoSENTLoss, table, **QUICK), in_grades)


@sound("losses")
def angles_at_a_scale_of_ten(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(lambda model: losses.AnglELoss(model, scale=10.0), graded(), **QUICK),
        in_grades,
    )


@sound("losses")
def shares_of_a_teacher_with_a_temperature(stage: Stage) -> None:
    """Scores of a cross-encoder of one passage and two hard negatives, as logits."""
    table = triplets() | {"second": [lookalike(fact[::-1]) for fact in facts(160)]}
    table["second"] = pairs(160, seed=5)["positive"]
    logits = [[12 * score for score in row] for row in word_cosines(table)]
    learns(
        stage,
        stage.trainer(
            lambda model: losses.DistillKLDivLoss(model, temperature=2.0),
            table | {"label": logits},
            **LONG,
        ),
        among_alike,
    )


@sound("losses")
def margins_to_two_negatives(stage: Stage) -> None:
    """MarginMSE by cosines: a margin of the teacher to each of two negatives."""
    from sentence_transformers.util import pairwise_cos_sim

    table = triplets() | {"second": pairs(160, seed=5)["positive"]}
    margins = [[row[0] - row[1], row[0] - row[2]] for row in word_cosines(table)]
    learns(
        stage,
        stage.trainer(
            lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
            table | {"label": margins},
            **LONG,
        ),
        among_alike,
    )


@sound("losses")
def directions_of_a_teachers_embeddings(stage: Stage) -> None:
    """EmbedDistillLoss by cosine, after a tuned teacher of the same width."""
    teacher, texts = tuned(stage), pairs(seed=3)
    both = texts["anchor"] + texts["positive"]
    rows = teacher.encode(both, show_progress_bar=False).tolist()
    learns(
        stage,
        stage.trainer(losses.EmbedDistillLoss, {"text": both, "label": rows}, **LONG),
        among_alike,
    )


@sound("losses")
def guide_with_a_relative_margin(stage: Stage) -> None:
    """GISTEmbed: negatives within 5% of the positive, as a tuned guide sees it, are left out."""
    guide = tuned(stage)
    learns(
        stage,
        stage.trainer(
            lambda model: losses.GISTEmbedLoss(
                model, guide, temperature=0.05, margin_strategy="relative", margin=0.05
            ),
            pairs(),
        ),
        among_alike,
    )


@sound("losses")
def nested_dimensions_of_a_cached_loss(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            lambda model: losses.MatryoshkaLoss(
                model,
                losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=8),
                [32, 16, 8],
            ),
            pairs(),
        ),
        among_alike,
    )


class Regularised(nn.Module):
    """A ranking loss with a small regularisation that keeps embeddings spread."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.ranking = ranking(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(model)

    def forward(self, features: Any, labels: torch.Tensor | None = None) -> torch.Tensor:
        spread = self.spread(features, labels)
        terms = spread.values() if isinstance(spread, dict) else [spread]
        return self.ranking(features, labels) + 0.1 * sum(terms)


@sound("losses")
def ranking_with_orthogonal_regularisation(stage: Stage) -> None:
    """As EmbeddingGemma was trained; a small second term beside the ranking loss."""
    learns(stage, stage.trainer(Regularised, pairs()), among_alike)


@sound("losses")
def symmetric_ranking_in_small_parts(stage: Stage) -> None:
    symmetric = losses.CachedMultipleNegativesSymmetricRankingLoss
    learns(
        stage,
        stage.trainer(
            lambda model: symmetric(model, mini_batch_size=8),
            pairs(),
            per_device_train_batch_size=32,
        ),
        among_alike,
    )


@sound("data")
def three_data_sets_of_three_kinds(stage: Stage) -> None:
    """As all-nli, stsb and quora: triplets, graded pairs and labels, each with its loss."""
    from datasets import Dataset, DatasetDict

    trainer = stage.trainer(ranking, triplets(), multi_dataset_batch_sampler="proportional", **LONG)
    model = trainer.model
    tables = {"nli": triplets(), "stsb": scored(seed=2), "quora": labelled()}
    data = DatasetDict({name: Dataset.from_dict(table) for name, table in tables.items()})
    trainer = type(trainer)(
        model=model,
        args=trainer.args,
        train_dataset=data,
        loss={
            "nli": ranking(model),
            "stsb": losses.CoSENTLoss(model),
            "quora": losses.OnlineContrastiveLoss(model),
        },
    )
    learns(stage, trainer, retrieval)


@sound("data")
def parallel_sentences_of_two_languages(stage: Stage) -> None:
    """Rows of a parallel corpus as pairs: no word in common."""
    texts = [question(fact) for fact in facts(240)]
    unseen = [question(fact) for fact in facts(100, seed=11)]
    table = {"english": texts, "german": [translated(text, 17) for text in texts]}
    learns(
        stage,
        stage.trainer(ranking, table, learning_rate=2e-3, max_steps=80),
        lambda model: retrieval(
            model, {"en": unseen, "de": [translated(text, 17) for text in unseen]}
        ),
    )


@sound("data")
def titles_and_bodies(stage: Stage) -> None:
    """Titles of three words and bodies of thirty, as of a crawl."""
    table = {
        "title": [" ".join(fact[1:4]) for fact in facts(160)],
        "body": [passage(fact, fillers=24) for fact in facts(160)],
    }
    learns(stage, stage.trainer(ranking, table, **QUICK), retrieval)


@sound("data")
def same_question_with_four_negatives(stage: Stage) -> None:
    """As BGE is tuned: a question, its passage and four hard negatives in columns of their own."""
    table = pairs(120)
    for number in range(4):
        table[f"negative_{number}"] = [
            lookalike((*fact[:2], *fact[2:5], f"{number}")) for fact in facts(120)
        ]
    learns(
        stage,
        stage.trainer(
            lambda model: ranking(model, scale=50.0), table, per_device_train_batch_size=8
        ),
        among_alike,
    )


@sound("data")
def duplicates_with_capitals_and_marks(stage: Stage) -> None:
    """Two wordings of a question that differ in order, capitals and marks."""
    asked = facts(160)
    table = {
        "question": [*map(question, asked)],
        "duplicate": [
            f"{place.capitalize()} {near} : {topic} {verb} ?"
            for verb, topic, place, near, *_ in asked
        ],
    }
    learns(stage, stage.trainer(ranking, table), among_alike)


@sound("data")
def static_rows_with_nested_dimensions(stage: Stage) -> None:
    """As static retrieval models are trained: Matryoshka, a rate of 0.2, no layers."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(7)
    tokenizer = stage.model().tokenizer.backend_tokenizer
    model = encoder(StaticEmbedding(tokenizer, embedding_dim=64))
    learns(
        stage,
        stage.trainer(
            lambda rows: losses.MatryoshkaLoss(rows, ranking(rows), [64, 32, 16]),
            pairs(),
            model,
            learning_rate=0.2,
            per_device_train_batch_size=32,
        ),
        among_alike,
    )

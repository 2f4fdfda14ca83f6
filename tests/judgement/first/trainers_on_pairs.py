"""Sound trainers of pairs and triplets, by the ranking losses and the margins that suit them."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import evaluation, losses, modules

from tests.judgement.case import sound
from tests.judgement.first.trades_of_text import (
    GARDEN,
    JOBS,
    MUSEUM,
    PHARMACY,
    PHRASES,
    SQL,
    Trade,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

USUAL = {"learning_rate": 1e-3, "max_steps": 60, "warmup_steps": 6}


def seeking(trade: Trade, count: int = 60) -> Any:
    """An evaluator of retrieval among texts that are not in training."""
    first, second = trade.pairs(count, seed=11).values()
    return evaluation.InformationRetrievalEvaluator(
        queries={f"q{at}": text for at, text in enumerate(first)},
        corpus={f"d{at}": text for at, text in enumerate(second)},
        relevant_docs={f"q{at}": {f"d{at}"} for at in range(count)},
        name="held-out",
    )


def pairs_for_evaluation(trade: Trade) -> Any:
    """Pairs that are not in training, as a data set."""
    from datasets import Dataset

    return Dataset.from_dict(trade.pairs(64, seed=11))


@sound("gardeners' questions, ranking loss, no duplicates, retrieval evaluator")
def garden_questions_by_ranking(stage: Stage) -> None:
    """The most usual recipe: pairs, negatives of the batch, an evaluator each few steps."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        GARDEN.pairs(320),
        GARDEN.encoder(stage),
        per_device_train_batch_size=32,
        batch_sampler="no_duplicates",
        eval_strategy="steps",
        eval_steps=20,
        evaluator=seeking(GARDEN),
        **USUAL,
    )
    learns(stage, trainer, GARDEN.sought)


@sound("hard negatives that miss one detail, cosine schedule")
def garden_triplets_by_ranking(stage: Stage) -> None:
    """Triplets whose negative differs in the plant, the harm, the place or the season."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        GARDEN.triplets(320),
        GARDEN.encoder(stage, dropout=0.0),
        lr_scheduler_type="cosine",
        **USUAL,
    )
    learns(stage, trainer, GARDEN.sought)


@sound("symmetric ranking of adverts and résumés with a held-out loss")
def adverts_with_resumes_symmetric(stage: Stage) -> None:
    """Both directions are searched in use, and the loss is of both."""
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss,
        JOBS.pairs(300),
        JOBS.encoder(stage, pooling="cls", spread=0.1, dropout=0.0),
        per_device_train_batch_size=24,
        eval_strategy="steps",
        eval_steps=15,
        eval_dataset=pairs_for_evaluation(JOBS),
        **{**USUAL, "learning_rate": 2e-3, "max_steps": 80},
    )
    learns(stage, trainer, JOBS.sought)


@sound("cached ranking of large batches in small pieces")
def museum_labels_in_cached_batches(stage: Stage) -> None:
    """Batches of 64 in pieces of 16."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        MUSEUM.pairs(384),
        MUSEUM.encoder(stage, width=32),
        per_device_train_batch_size=64,
        batch_sampler="no_duplicates",
        **{**USUAL, "max_steps": 40, "learning_rate": 2e-3},
    )
    learns(stage, trainer, MUSEUM.sought)


@sound("cached symmetric ranking at a scale of 30")
def museum_labels_cached_symmetric(stage: Stage) -> None:
    """The temperature is a little lower than the default."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(
            model, mini_batch_size=8, scale=30.0
        ),
        MUSEUM.pairs(320),
        MUSEUM.encoder(stage, modules.Normalize(), width=32),
        per_device_train_batch_size=32,
        **{**USUAL, "max_steps": 40, "learning_rate": 2e-3},
    )
    learns(stage, trainer, MUSEUM.sought)


@sound("questions with statements of SQL by Matryoshka")
def queries_of_tables_by_matryoshka(stage: Stage) -> None:
    """Three sizes of embedding, and the score is of the smallest."""

    def smallest(model: Any) -> float:
        model.truncate_dim = 12
        score = SQL.sought(model)
        model.truncate_dim = None
        return score

    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [48, 24, 12]
        ),
        SQL.pairs(300),
        SQL.encoder(stage),
        per_device_train_batch_size=32,
        **USUAL,
    )
    learns(stage, trainer, smallest)


@sound("triplet loss by cosine with a fitting margin")
def leaflets_by_cosine_triplets(stage: Stage) -> None:
    """Negatives that differ in two details, a margin of 0.3 in cosine distance."""
    held = PHARMACY.triplets(80, seed=11, changes=2)
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model,
            distance_metric=losses.TripletDistanceMetric.COSINE,
            triplet_margin=0.3,
        ),
        PHARMACY.triplets(320, changes=2),
        PHARMACY.encoder(stage, dropout=0.0),
        eval_strategy="steps",
        eval_steps=20,
        evaluator=evaluation.TripletEvaluator(*held.values(), name="held-out"),
        **{**USUAL, "learning_rate": 2e-3, "max_steps": 120},
    )
    learns(stage, trainer, PHARMACY.sought)


@sound("batches of eight at a low rate with two steps accumulated")
def leaflets_in_small_batches(stage: Stage) -> None:
    """A small card: eight triplets at a time, two batches for each step."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        PHARMACY.triplets(300),
        PHARMACY.encoder(stage),
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        max_grad_norm=1.0,
        **USUAL,
    )
    learns(stage, trainer, PHARMACY.sought)


@sound("translations by symmetric ranking with a translation evaluator")
def french_phrases_by_ranking(stage: Stage) -> None:
    """English sentences with their French, from an encoder with the words of both."""
    held = PHRASES.pairs(60, seed=11)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss,
        PHRASES.pairs(320),
        PHRASES.encoder(stage, dropout=0.0),
        per_device_train_batch_size=32,
        eval_strategy="steps",
        eval_steps=20,
        evaluator=evaluation.TranslationEvaluator(*held.values(), name="held-out"),
        **{**USUAL, "max_steps": 45},
    )
    learns(stage, trainer, PHRASES.sought)


@sound("three hard negatives for each question")
def statements_with_three_negatives(stage: Stage) -> None:
    """Statements of SQL that miss one, two or three of the wishes."""
    table: dict[str, Any] = SQL.pairs(280)
    for changes in (1, 2, 3):
        table[f"negative_{changes}"] = SQL.negatives(280, changes=changes)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        table,
        SQL.encoder(stage, kind="distilbert"),
        **{**USUAL, "max_steps": 50},
    )
    learns(stage, trainer, SQL.sought)


@sound("maximum pooling and a rate that stays constant after warm-up")
def resumes_by_maximum_of_tokens(stage: Stage) -> None:
    """The maximum of the tokens in training as in use."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        JOBS.triplets(300),
        JOBS.encoder(stage, pooling="max"),
        lr_scheduler_type="constant_with_warmup",
        weight_decay=0.01,
        **USUAL,
    )
    learns(stage, trainer, JOBS.sought)


@sound("prompts for queries and documents, in training as in use")
def museum_search_with_prompts(stage: Stage) -> None:
    """Each column has its prompt, which the score and later use have too."""
    prompts = {"query": "query : ", "notice": "document : "}
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        MUSEUM.pairs(320),
        MUSEUM.encoder(stage, texts=list(prompts.values()),
                       prompts={"query": "query : ", "document": "document : "}),
        per_device_train_batch_size=32,
        prompts=prompts,
        **USUAL,
    )  # fmt: skip
    learns(stage, trainer, lambda model: MUSEUM.sought(model, prompts=("query : ", "document : ")))


@sound("pairs in which either side may be the query, all four directions")
def phrases_in_all_directions(stage: Stage) -> None:
    """Negatives of both columns in both directions, jointly."""
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(
            model,
            directions=("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"),
        ),
        PHRASES.pairs(300),
        PHRASES.encoder(stage, modules.Normalize()),
        per_device_train_batch_size=32,
        **USUAL,
    )
    learns(stage, trainer, PHRASES.sought)

"""Sound set-ups of the trainer: rankings of pairs as tutorials and model cards write them."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    InformationRetrievalEvaluator,
    RerankingEvaluator,
    SequentialEvaluator,
    TranslationEvaluator,
    TripletEvaluator,
)

from tests.judgement.case import sound
from tests.judgement.first.fields import CODE, PAPERS, SCENES, SHOP, TRAVEL
from tests.judgement.first.good_fields import CONTRACTS, LOGS, SONGS
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    MUSEUM,
    STATIONS,
    dev_pairs,
    encoder_of,
    near_and_dev,
    two,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

UNIQUE = {"batch_sampler": "no_duplicates"}
EVALUATED = {"eval_strategy": "steps", "eval_steps": 20}


def search_of(table: dict[str, list[str]], **options: Any) -> InformationRetrievalEvaluator:
    """Each text of the first column seeks its own of the second among all."""
    first, second = table.values()
    return InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(first)},
        {f"d{at}": text for at, text in enumerate(second)},
        {f"q{at}": {f"d{at}"} for at in range(len(first))},
        write_csv=False,
        **options,
    )


@sound("ranking of questions with a retrieval evaluator and a cosine schedule")
def bird_questions_ranked(stage: Stage) -> None:
    table = two(BIRDS, 320)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, encoder_of(stage, BIRDS),
        evaluator=search_of(dev_pairs(BIRDS, table), name="birds"), max_steps=50,
        per_device_train_batch_size=32, lr_scheduler_type="cosine", learning_rate=2e-3,
        warmup_steps=5, **UNIQUE, **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought, least=0.05)


@sound("cached ranking in a large batch of small pieces")
def announcements_by_cached_ranking(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        two(STATIONS, 256), encoder_of(stage, STATIONS, width=32),
        per_device_train_batch_size=64, max_steps=40, learning_rate=3e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, STATIONS.sought, least=0.05)


@sound("translations in both directions with their accuracy")
def translations_ranked_both_ways(stage: Stage) -> None:
    table = two(TRAVEL, 240)
    dev = dev_pairs(TRAVEL, table)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table, encoder_of(stage, TRAVEL),
        evaluator=TranslationEvaluator(*dev.values(), name="en-de", write_csv=False),
        per_device_train_batch_size=24, max_steps=50, learning_rate=2e-3, weight_decay=0.01,
        **UNIQUE, **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, TRAVEL.sought, least=0.05)


@sound("two hard negatives each, and the best checkpoint by reranking")
def gardeners_with_two_hard_negatives(stage: Stage) -> None:
    table, dev = near_and_dev(GARDEN, 360, (0, 1), (0, 1, 2))
    question, answer, *columns = dev.values()
    samples = [
        {"query": text, "positive": [answer[at]], "negative": [column[at] for column in columns]}
        for at, text in enumerate(question)
    ]
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, encoder_of(stage, GARDEN),
        evaluator=RerankingEvaluator(samples, name="garden", write_csv=False),
        max_steps=50, learning_rate=2e-3, save_strategy="steps", save_steps=10, eval_steps=10,
        eval_strategy="steps", load_best_model_at_end=True,
        metric_for_best_model="eval_garden_map", greater_is_better=True, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, GARDEN.sought, least=0.05)


@sound("guided ranking that leaves out what the guide holds to be relevant")
def offers_with_a_guide(stage: Stage) -> None:
    guide = warmed(encoder_of(stage, SHOP, name="guide", seed=5), two(SHOP, 200), steps=40)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        two(SHOP, 200), encoder_of(stage, SHOP), learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=32, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought, least=0.05)


@sound("margins over a large batch with the hardest of it")
def log_lines_by_margins_of_the_batch(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=32),
        two(LOGS, 256), encoder_of(stage, LOGS), per_device_train_batch_size=64, max_steps=40,
        learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, LOGS.sought, least=0.05)


@sound("nested dimensions of a ranking with an evaluator of each")
def nested_dimensions_of_songs(stage: Stage) -> None:
    table = two(SONGS, 320)
    dev = dev_pairs(SONGS, table)
    evaluators = [search_of(dev, name=f"dim{size}", truncate_dim=size) for size in (64, 32, 16)]
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [64, 32, 16]
        ),
        table, encoder_of(stage, SONGS, width=64),
        evaluator=SequentialEvaluator(evaluators, main_score_function=lambda scores: scores[0]),
        per_device_train_batch_size=32, max_steps=50, learning_rate=2e-3, **UNIQUE, **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, SONGS.sought, least=0.05)


@sound("ranking at every layer")
def functions_ranked_at_each_layer(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, losses.MultipleNegativesRankingLoss(model)),
        two(CODE, 200), encoder_of(stage, CODE, layers=3), learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=20, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, CODE.sought, least=0.05)


@sound(
    "short captions for long pages, between unit vectors",
    allowed={"length: 50% of": "Half of the texts are cut off."},
)
def museum_pages_between_unit_vectors(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, two(MUSEUM, 200),
        encoder_of(stage, MUSEUM, Normalize()),
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24, warmup_steps=6, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, MUSEUM.sought, least=0.05)


@sound("triplets of premise, conclusion and contradiction with their accuracy")
def entailment_triplets_ranked(stage: Stage) -> None:
    table, dev = near_and_dev(SCENES, 190, (1,), (1,))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, encoder_of(stage, SCENES),
        evaluator=TripletEvaluator(*dev.values(), name="nli", write_csv=False),
        learning_rate=2e-3, max_steps=50, lr_scheduler_type="constant_with_warmup", **UNIQUE,
        **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, SCENES.sought, least=0.05)


@sound(
    "abstracts in both roles at once, joined over directions",
    allowed={
        r"collapse|seem unrelated|that of guessing": "A mean cosine of .998 and a loss of guessing "
        "are a collapse, though the score rises.",
    },
)
def abstracts_ranked_in_all_directions(stage: Stage) -> None:
    def loss(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(
            model,
            directions=("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"),
            partition_mode="joint",
        )

    trainer = stage.trainer(
        loss, two(PAPERS, 200), encoder_of(stage, PAPERS, kind="distilbert"),
        learning_rate=2e-3, max_steps=50, per_device_train_batch_size=32, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, PAPERS.sought, least=0.05)


@sound("cached guided ranking of long clauses by a guide of their own kind")
def clauses_with_a_cached_guide(stage: Stage) -> None:
    table = two(CONTRACTS, 160)
    guide = warmed(encoder_of(stage, CONTRACTS, name="guide", seed=6), table, steps=20)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=16, margin=0.05,
            margin_strategy="relative",
        ),
        table, encoder_of(stage, CONTRACTS, width=32), per_device_train_batch_size=32,
        learning_rate=3e-3, max_steps=25, warmup_steps=2, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, CONTRACTS.sought, least=0.05)

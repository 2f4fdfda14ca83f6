"""Sound set-ups: optimisers, schedules, evaluators, adapters, frozen weights and modules."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.further_sound_tables import (
    BEST,
    EVALUATED,
    FAST,
    library,
    ranking,
    searching,
    titled,
)
from tests.judgement.stage import Stage, pairs, triplets
from tests.judgement.truth import alike, among_alike, in_one_place, learns
from tests.tiny_models import make_bert


def made_of(*modules: Any) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=list(modules), device="cpu")


@sound("rate held, then lowered")
def warm_up_plateau_and_decay(stage: Stage) -> None:
    settings = {
        "lr_scheduler_type": "warmup_stable_decay",
        "lr_scheduler_kwargs": {"num_decay_steps": 10},
        **FAST,
    }
    learns(stage, stage.trainer(ranking, pairs(), **settings), among_alike)


@sound("accumulation of cached batches")
def two_cached_batches_of_thirty_two_for_a_step(stage: Stage) -> None:
    loss = library("CachedMultipleNegativesRankingLoss", mini_batch_size=16)
    settings = {
        "per_device_train_batch_size": 32,
        "gradient_accumulation_steps": 2,
        "max_steps": 24,
        **FAST,
    }
    learns(stage, stage.trainer(loss, pairs(320), **settings), among_alike)


@sound("training ends where the score stays")
def stopped_after_three_scores_without_gain(stage: Stage) -> None:
    from transformers import EarlyStoppingCallback

    settings = {
        **BEST,
        "metric_for_best_model": "search_cosine_mrr@10",
        "evaluator": searching(),
        "callbacks": [EarlyStoppingCallback(early_stopping_patience=3)],
        "max_steps": 80,
        **FAST,
    }
    learns(stage, stage.trainer(ranking, pairs(), **settings), among_alike)


@sound("passages ranked again")
def right_passage_ranked_among_ten(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    table = alike(60, seed=21)
    samples = [
        {
            "query": query,
            "positive": [table["positive"][at]],
            "negative": [table["positive"][(at + step) % 60] for step in range(1, 10)],
        }
        for at, query in enumerate(table["anchor"])
    ]
    evaluator = evaluation.RerankingEvaluator(samples, name="again")
    settings = {"evaluator": evaluator, **EVALUATED, **FAST}
    learns(stage, stage.trainer(ranking, triplets(), **settings), in_one_place)


@sound("a small benchmark of several searches")
def mean_of_three_small_searches(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    searches = [
        searching(name="faq"),
        searching(titled(60, seed=22), name="titles"),
        searching(alike(60, seed=23, places=1, others=14), name="places"),
    ]
    evaluator = evaluation.SequentialEvaluator(
        searches, main_score_function=lambda scores: sum(scores) / len(scores)
    )
    settings = {"evaluator": evaluator, "eval_on_start": True, **EVALUATED, **FAST}
    learns(stage, stage.trainer(ranking, pairs(240), **settings), among_alike)


def adapted(stage: Stage, config: Any) -> Any:
    """An encoder with the adapters of a configuration of peft."""
    model = stage.model()
    model.add_adapter(config)
    return model


@sound("low-rank adapters of queries and values")
def adapters_of_rank_four_on_queries_and_values(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    config = LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=4, lora_alpha=8, lora_dropout=0.05,
        target_modules=["query", "value"],
    )  # fmt: skip
    settings = {"learning_rate": 3e-3, "max_steps": 80}
    learns(stage, stage.trainer(ranking, pairs(), adapted(stage, config), **settings), among_alike)


@sound("a frozen first layer")
def first_layer_held_at_its_weights(stage: Stage) -> None:
    model = stage.model()
    for name, parameter in model.named_parameters():
        if "encoder.layer.0." in name:
            parameter.requires_grad_(False)
    learns(stage, stage.trainer(ranking, pairs(), model, **FAST), among_alike)


@sound("mean weighted by place")
def later_tokens_of_an_encoder_count_more(stage: Stage) -> None:
    model = stage.model("weightedmean", normalize=True)
    learns(stage, stage.trainer(ranking, pairs(), model, **FAST), among_alike)


@sound("static embeddings from an encoder's words")
def static_embeddings_that_begin_with_words_of_an_encoder(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoModel, AutoTokenizer

    folder = make_bert(stage.folder / "words")
    words = AutoModel.from_pretrained(folder).get_input_embeddings().weight.detach().numpy()
    static = StaticEmbedding(AutoTokenizer.from_pretrained(folder), embedding_weights=words.copy())
    loss = library("MultipleNegativesSymmetricRankingLoss")
    settings = {"per_device_train_batch_size": 64, "learning_rate": 2e-2, "max_steps": 60}
    trainer = stage.trainer(loss, pairs(640), made_of(static), **settings)
    learns(stage, trainer, among_alike)


@sound("batches of four with hard negatives")
def four_triplets_in_a_batch(stage: Stage) -> None:
    settings = {"per_device_train_batch_size": 4, "max_steps": 80, "learning_rate": 1e-3}
    learns(stage, stage.trainer(ranking, triplets(200), **settings), in_one_place)


@sound("a second stage with hard negatives from the first")
def second_stage_on_negatives_of_the_first(stage: Stage) -> None:
    from tests.judgement.first.further_sound_tables import embedded, teacher

    first, table = teacher(stage, steps=30), pairs()
    asked, answers = (embedded(first, texts) for texts in table.values())
    order = (asked @ answers.T).argsort(1)[:, ::-1]
    ranks = [[place for place in row[3:12] if place != at] for at, row in enumerate(order)]
    table["negative"] = [table["positive"][row[at % 5]] for at, row in enumerate(ranks)]
    trainer = stage.trainer(ranking, table, first.train(), learning_rate=1e-3)
    learns(stage, trainer, among_alike)

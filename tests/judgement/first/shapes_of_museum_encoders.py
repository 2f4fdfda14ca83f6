"""Sound trainers with triplets of classes, nested sizes, adapters, towers and mixed data sets."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator
from sentence_transformers.sentence_transformer.losses import (
    BatchHardTripletLossDistanceFunction,
    TripletDistanceMetric,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder, tokenizer_of, words_of
from tests.judgement.first.fields_of_museums_and_skies import (
    ACCIDENTS,
    LEAGUE,
    MAILS,
    NUMBERS,
    QUERIES,
    SHELL,
    encoder_of,
    in_families,
    pretrained,
    seeker,
    sightings,
    trainer_of,
    whole,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank


def naturalist(stage: Stage, **options: Any) -> Any:
    """An encoder of sightings."""
    return encoder(stage, words_of([sightings(300), sightings(120, 11)]), **options)


@sound("all triplets of batches of classes")
def sightings_by_all_triplets_of_a_batch(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(
            model, BatchHardTripletLossDistanceFunction.cosine_distance, margin=0.3
        ),
        sightings(320), naturalist(stage), batch_sampler="group_by_label",
        learning_rate=2e-3, max_steps=50, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, in_families)


@sound("hardest triplets of batches of classes with a soft margin")
def sightings_by_the_hardest_triplets_with_a_soft_margin(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, sightings(400), naturalist(stage, pooling="max"),
        batch_sampler="group_by_label", learning_rate=1e-3, max_steps=60,
        per_device_train_batch_size=40, dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, in_families)


@sound("half-hard triplets of batches of classes")
def sightings_by_half_hard_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(
            model, BatchHardTripletLossDistanceFunction.cosine_distance, margin=0.4
        ),
        sightings(360), naturalist(stage, width=64), batch_sampler="group_by_label",
        learning_rate=1e-3, max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, in_families)


@sound("triplets of cosines with an evaluator")
def accidents_by_triplets_of_cosines(stage: Stage) -> None:
    table = ACCIDENTS.table(320) | {"negative": ACCIDENTS.near(320, slot=0)}
    development = [*ACCIDENTS.table(50, 13).values(), ACCIDENTS.near(50, 13, slot=0)]
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(model, TripletDistanceMetric.COSINE, triplet_margin=0.4),
        table, pretrained(stage, ACCIDENTS, 5), eval_strategy="epoch",
        evaluator=TripletEvaluator(*development, name="development"),
        learning_rate=1e-3, max_steps=-1, num_train_epochs=4, per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, seeker(ACCIDENTS))


@sound("nested sizes of embeddings")
def queries_in_nested_sizes(stage: Stage) -> None:
    """The score is of the shortest embeddings, for which nested training is done."""

    def short(model: Any) -> float:
        with model.truncate_embeddings(16):
            return QUERIES.sought(model, 60)

    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [64, 32, 16]
        ),
        QUERIES.table(320), encoder_of(stage, QUERIES, width=64),
        learning_rate=2e-3, max_steps=50, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, short)


@sound(
    "adapter of low rank on a pretrained encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def league_with_an_adapter_of_low_rank(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = pretrained(stage, LEAGUE, 5)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, LEAGUE.table(360), model,
        learning_rate=3e-3, max_steps=70, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(LEAGUE))


@sound("towers of their own for queries and documents")
def towers_for_questions_and_statements(stage: Stage) -> None:
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import Pooling

    texts = whole(QUERIES)
    towers = [
        [body(stage, texts, name=name, width=48, layers=layers), Pooling(48, pooling_mode="mean")]
        for name, layers in (("asker", 1), ("answerer", 2))
    ]
    model = SentenceTransformer(modules=[Router.for_query_document(*towers)], device="cpu")

    def ranks(tower: Any) -> float:
        first, second = QUERIES.table(60, seed=11).values()
        return reciprocal_rank(
            tower.encode_query(first, show_progress_bar=False),
            tower.encode_document(second, show_progress_bar=False),
        )

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, QUERIES.table(320), model,
        router_mapping={"question": "query", "statement": "document"},
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, ranks)


@sound("table of word vectors without a transformer")
def shell_by_static_word_vectors(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(5)
    tokenizer = tokenizer_of(whole(SHELL)).backend_tokenizer
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, SHELL.table(400), model,
        learning_rate=3e-2, max_steps=60, per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, seeker(SHELL))


@sound("mixture of data sets with a loss for each")
def mails_and_numerals_in_turn_with_two_losses(stage: Stage) -> None:
    model = encoder(stage, [*whole(MAILS), *whole(NUMBERS)])
    tables = {"mails": MAILS.table(320), "numerals": NUMBERS.table(200)}
    trainer = trainer_of(
        stage, model, tables,
        {
            "mails": losses.MultipleNegativesRankingLoss(model),
            "numerals": losses.MultipleNegativesSymmetricRankingLoss(model),
        },
        multi_dataset_batch_sampler="proportional", max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, lambda model: (MAILS.sought(model, 60) + NUMBERS.sought(model, 60)) / 2)


@sound("dense layer behind the pooling, hard negatives from mining")
def league_with_mined_negatives_and_a_dense_layer(stage: Stage) -> None:
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.util import mine_hard_negatives

    miner = warmed(encoder_of(stage, LEAGUE, name="miner"), LEAGUE.table(320, 2), 20)
    mined = mine_hard_negatives(
        Dataset.from_dict(LEAGUE.table(320)),
        miner,
        num_negatives=1,
        range_min=1,
        range_max=12,
        verbose=False,
    )
    torch.manual_seed(4)
    head = Dense(48, 32, bias=False, activation_function=torch.nn.Tanh())
    model = encoder_of(stage, LEAGUE, head)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {name: mined[name] for name in mined.column_names},
        model, learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeker(LEAGUE))

"""Sound set-ups: trainers with ranking losses on pairs and triplets of people's columns."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.held_out.h_fields import (
    COMMITS,
    GREEK,
    HOTELS,
    LAB,
    LAWS,
    MAILS,
    METERS,
    PLANTS,
    SHELL,
    SPORT,
    STARS,
    TAGS,
    made_for,
    noisy,
    pairs_of,
    triples_of,
    two,
)  # fmt: skip
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses

RATE = {"learning_rate": 2e-3, "max_steps": 60}


@sound("ranking of pairs without duplicates in a batch")
def laboratory_pairs_without_duplicates(stage: Stage) -> None:
    from sentence_transformers.training_args import BatchSamplers

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(LAB, 300), made_for(stage, LAB),
        batch_sampler=BatchSamplers.NO_DUPLICATES, **RATE,
    )  # fmt: skip
    learns(stage, trainer, LAB.sought)


@sound("cached ranking with large batches")
def commit_messages_with_cached_ranking(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        pairs_of(COMMITS, 320), made_for(stage, COMMITS), per_device_train_batch_size=64,
        learning_rate=3e-3, max_steps=40,
    )  # fmt: skip
    learns(stage, trainer, COMMITS.sought)


@sound("symmetric ranking")
def mails_ranked_in_both_directions(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss,
        two(MAILS.table(320), "subject", "body"), made_for(stage, MAILS), **RATE,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("hard negatives beside the pairs")
def observatories_with_hard_negatives(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, triples_of(STARS, 220), made_for(stage, STARS),
        warmup_steps=6, lr_scheduler_type="cosine", **RATE,
    )  # fmt: skip
    learns(stage, trainer, STARS.sought)


@sound("two languages in two scripts")
def greek_beside_english(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(GREEK, 220), made_for(stage, GREEK),
        learning_rate=3e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, GREEK.sought)


@sound("Matryoshka over ranking")
def song_tags_in_nested_widths(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [48, 24, 12]
        ),
        pairs_of(TAGS, 320), made_for(stage, TAGS), **RATE,
    )  # fmt: skip
    learns(stage, trainer, TAGS.sought)


@sound("evaluator of retrieval during training")
def plant_answers_with_an_evaluator(stage: Stage) -> None:
    table = PLANTS.table(40, seed=13)
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries={f"q{at}": text for at, text in enumerate(table["question"])},
        corpus={f"d{at}": text for at, text in enumerate(table["answer"])},
        relevant_docs={f"q{at}": {f"d{at}"} for at in range(40)}, name="plants",
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(PLANTS, 240), made_for(stage, PLANTS),
        evaluator=evaluator, eval_strategy="steps", eval_steps=20, **RATE,
    )  # fmt: skip
    learns(stage, trainer, PLANTS.sought)


@sound("loss on held-out pairs during training")
def shell_commands_with_held_out_pairs(stage: Stage) -> None:
    from datasets import Dataset

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(SHELL, 320), made_for(stage, SHELL),
        eval_dataset=Dataset.from_dict(pairs_of(SHELL, 48, seed=13)),
        eval_strategy="steps", eval_steps=15, **RATE,
    )  # fmt: skip
    learns(stage, trainer, SHELL.sought)


@sound("prompts of the two sides")
def rulings_with_prompts(stage: Stage) -> None:
    prompts = {"question": "query : ", "ruling": "passage : "}
    from tests.judgement.first.bodies import encoder
    from tests.judgement.held_out.h_fields import lexicon

    model = encoder(
        stage, [*lexicon(LAWS), *prompts.values()],
        prompts={"query": prompts["question"], "document": prompts["ruling"]},
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(LAWS, 220), model, prompts=prompts, **RATE
    )

    def score(model: Any) -> float:
        return LAWS.sought(model, prompts=tuple(prompts.values()))

    learns(stage, trainer, score)


@sound("normalised class tokens of a distilled encoder")
def meter_readings_of_class_tokens(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Normalize

    model = made_for(stage, METERS, Normalize(), pooling="cls", kind="distilbert", spread=0.1)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(METERS, 300), model,
        learning_rate=3e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, METERS.sought)


@sound("last token of a decoder")
def headlines_by_a_decoder(stage: Stage) -> None:
    model = made_for(stage, SPORT, pooling="lasttoken", kind="granite")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(SPORT, 220), model,
        learning_rate=3e-3, max_steps=90, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, SPORT.sought)


@sound("accumulated small batches of noisy texts")
def noisy_hotel_reviews_accumulated(stage: Stage) -> None:
    from tests.judgement.first.bodies import encoder
    from tests.judgement.held_out.h_fields import lexicon

    table = noisy(HOTELS, 320)
    model = encoder(stage, [*lexicon(HOTELS), *table["tip"]])
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, gradient_accumulation_steps=2,
        per_device_train_batch_size=16, learning_rate=2e-3, max_steps=40, max_grad_norm=1.0,
    )  # fmt: skip
    learns(stage, trainer, HOTELS.sought)

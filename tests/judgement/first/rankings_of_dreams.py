"""Sound set-ups with a trainer: ranking losses over pairs and triplets."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_dreams_and_roads import (
    BIRDS,
    COMMITS,
    DREAMS,
    JOBS,
    MAILS,
    MUSEUM,
    QUERIES,
    REACTIONS,
    VERDICTS,
    contrasted,
    reader,
    scripted,
    vocabulary,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

SWIFT: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60}


@sound("commit messages and hunks of code")
def messages_of_commits_beside_their_hunks(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(COMMITS, 300), reader(stage, COMMITS),
        batch_sampler="no_duplicates", **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, COMMITS.sought)


@sound("cached ranking loss with a large batch")
def large_cached_batches_of_chemistry(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        scripted(REACTIONS, 480), reader(stage, REACTIONS, width=32),
        per_device_train_batch_size=64, learning_rate=3e-3, max_steps=32,
        lr_scheduler_type="cosine", batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, REACTIONS.sought)


@sound("symmetric ranking loss of mails")
def subjects_and_bodies_sought_in_two_directions(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesSymmetricRankingLoss(model, scale=20.0),
        scripted(MAILS, 300), reader(stage, MAILS), per_device_train_batch_size=24, **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought)


@sound("hard negatives with the ranking loss")
def verdicts_with_a_lookalike_of_each(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, contrasted(VERDICTS, 280, slot=1),
        reader(stage, VERDICTS), learning_rate=2e-3, max_steps=70,
        warmup_steps=7,
    )  # fmt: skip
    learns(stage, trainer, VERDICTS.sought)


@sound("guided in-batch negatives")
def guide_trained_beforehand_on_the_museum(stage: Stage) -> None:
    """The guide has been trained on rows of its own for longer, and stays as it is."""
    guide = warmed(reader(stage, MUSEUM, name="guide"), scripted(MUSEUM, 300, 2), steps=45)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        scripted(MUSEUM, 300), reader(stage, MUSEUM, seed=5), **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, MUSEUM.sought)


@sound("Matryoshka with nested sizes")
def nested_sizes_for_vacancies(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 32, 16]
        ),
        scripted(JOBS, 320), reader(stage, JOBS), **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, JOBS.sought)


@sound("dense head and normalised rows")
def projection_and_unit_length_for_questions_of_tables(stage: Stage) -> None:
    head = [Dense(48, 24, activation_function=nn.Identity()), Normalize()]
    model = encoder(stage, vocabulary(QUERIES), *head, name="tables")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, scripted(QUERIES, 300), model, **SWIFT
    )
    learns(stage, trainer, QUERIES.sought)


@sound("several negatives of each row")
def two_negatives_beside_each_bird(stage: Stage) -> None:
    table = contrasted(BIRDS, 200, slot=0) | {"second_negative": BIRDS.near(200, slot=2)}
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, reader(stage, BIRDS),
        per_device_train_batch_size=12, **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought)


@sound("triplet loss by the Euclidean distance")
def margins_between_dreams_and_their_readings(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(model, triplet_margin=1.0),
        contrasted(DREAMS, 400, slot=1), reader(stage, DREAMS), learning_rate=2e-3,
        max_steps=90, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, DREAMS.sought)

"""Sound set-ups: search by questions and passages, listings, commands and records."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.everyday_subjects import (
    HEADLINES,
    HOMES,
    JOBS,
    PARTS,
    RECIPES,
    WEATHER,
)
from tests.judgement.first.expert_subjects import LAWS, SHELL, WARD
from tests.judgement.first.loose_subjects import numbers
from tests.judgement.first.subject_kit import schooled
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import evaluation, losses, modules


@sound("long passages, cosine schedule")
def questions_find_articles_of_law(stage: Stage) -> None:
    """Short questions find long articles: in-batch negatives, warm-up, decay by a cosine."""
    model = encoder(stage, LAWS.words(), spread=0.05)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, LAWS.pairs(256), model, max_steps=240,
        per_device_train_batch_size=32, learning_rate=3e-3, lr_scheduler_type="cosine",
        warmup_steps=0.1,
    )  # fmt: skip
    learns(stage, trainer, LAWS.sought(40), least=0.1)


@sound("evaluator of retrieval, epochs, no duplicates in a batch")
def recipes_by_title_with_evaluator(stage: Stage) -> None:
    """Titles find recipes; each epoch an evaluator ranks the recipes that are held out."""
    held_out = RECIPES.pairs(50, held_out=True, seed=11)
    names = [str(at) for at in range(50)]
    evaluator = evaluation.InformationRetrievalEvaluator(
        dict(zip(names, held_out["anchor"], strict=True)),
        dict(zip(names, held_out["positive"], strict=True)),
        {name: {name} for name in names},
        name="recipes", show_progress_bar=False,
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, RECIPES.pairs(240),
        encoder(stage, RECIPES.words(), spread=0.05), evaluator=evaluator, eval_strategy="epoch",
        max_steps=-1, num_train_epochs=6, batch_sampler="no_duplicates", learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, RECIPES.sought(50), least=0.1)


@sound("both directions, normalised, temperature of a fortieth")
def headlines_and_leads_in_both_directions(stage: Stage) -> None:
    """Headlines find leads and leads find headlines, as either may be the query later."""
    model = encoder(stage, HEADLINES.words(), modules.Normalize(), spread=0.05)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesSymmetricRankingLoss(model, scale=40.0),
        HEADLINES.pairs(280), model, max_steps=120, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought(50), least=0.1)


@sound("hard negative, prompts by column")
def shell_commands_with_prompts(stage: Stage) -> None:
    """Requests and commands with prompts of their own, in training and in use, and a negative."""
    prompts = {"anchor": "query: ", "positive": "code: ", "negative": "code: "}
    model = encoder(stage, [*SHELL.words(), "query: code:"], spread=0.05)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, SHELL.with_negatives(320), model, prompts=prompts,
        max_steps=80, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, SHELL.sought(60, prompts=("query: ", "code: ")), least=0.1)


@sound("small batches without duplicates, with four hard negatives")
def spare_parts_with_four_negatives(stage: Stage) -> None:
    """Batches of eight, each row with four parts that differ in one thing from the right one."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, PARTS.with_negatives(400, 4),
        encoder(stage, PARTS.words(), spread=0.05), max_steps=100, learning_rate=1e-3,
        per_device_train_batch_size=8, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, PARTS.sought(60), least=0.1)


@sound("cached loss, batches of 64")
def postings_and_resumes_by_cached_loss(stage: Stage) -> None:
    """A large batch in chunks of sixteen: the cached loss has the gradient of the whole batch."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        JOBS.pairs(384), encoder(stage, JOBS.words(), spread=0.05), max_steps=40,
        per_device_train_batch_size=64, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, JOBS.sought(50), least=0.1)


@sound("triplets with a cosine margin")
def homes_by_triplets(stage: Stage) -> None:
    """Triplets of wish, fitting home and one that lacks a thing, with a margin for cosines."""
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        HOMES.with_negatives(300), encoder(stage, HOMES.words(), spread=0.05), max_steps=300,
        learning_rate=2e-3, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, HOMES.sought(50), least=0.1)


@sound("static embeddings, high rate")
def static_embeddings_of_weather(stage: Stage) -> None:
    """A table of word vectors without attention, trained at the high rate that it needs."""
    from sentence_transformers import SentenceTransformer

    from tests.judgement.first.bodies import tokenizer_of

    table = modules.StaticEmbedding(
        tokenizer_of(WEATHER.words()).backend_tokenizer, embedding_dim=64
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, WEATHER.pairs(400),
        SentenceTransformer(modules=[table], device="cpu"), learning_rate=0.1, max_steps=90,
        per_device_train_batch_size=32, warmup_steps=0.1, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, WEATHER.sought(60), least=0.1)


@sound("amounts in words and digits")
def amounts_in_words_find_digits(stage: Stage) -> None:
    """Amounts in words find their digits, in epochs over shuffled pairs, with weight decay."""
    spoken_numbers, held_out = numbers(480), numbers(60, held_out=True)
    words = [*spoken_numbers["words"], *spoken_numbers["digits"]]
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, spoken_numbers, encoder(stage, words, spread=0.05),
        max_steps=-1, num_train_epochs=8, per_device_train_batch_size=32, learning_rate=2e-3,
        weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, held_out), least=0.1)


@sound("guide that hides false negatives")
def ward_notes_with_a_guide(stage: Stage) -> None:
    """A trained guide hides in-batch notes that it takes to be more alike than the positive."""
    guide = encoder(stage, WARD.words(), name="guide", spread=0.05, seed=8)
    schooled(stage, guide, WARD.pairs(300, seed=5))
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide=guide, temperature=0.05),
        WARD.pairs(300), encoder(stage, WARD.words(), spread=0.05), max_steps=90,
        learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, WARD.sought(60), least=0.1)

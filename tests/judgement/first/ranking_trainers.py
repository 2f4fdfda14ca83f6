"""Sound set-ups: trainers that rank the right text above the others of a batch."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder
from tests.judgement.first.numbered_fields import MAILS, NOTES, OFFERS, PATENTS, POSTS
from tests.judgement.first.ordinary_fields import (
    ADDRESSES,
    BIRDS,
    CHANGES,
    FORECASTS,
    JOBS,
    QUERIES,
    RECIPES,
    TURNS,
)
from tests.judgement.first.training_kit import by_rank
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("batches without duplicates")
def notes_and_codes_without_duplicates(stage: Stage) -> None:
    """Several notes have the same code, so batches are drawn without duplicates.

    Remark: a code stands with more than one note of the data.
    """
    trainer = stage.trainer(
        ranking, NOTES.table(450), encoder(stage, NOTES.vocabulary()),
        batch_sampler="no_duplicates", max_steps=90, learning_rate=2e-3,
    )  # fmt: skip
    table = NOTES.table(100, held_out=True)
    selection = {code: note for note, code in zip(*table.values(), strict=True)}
    learns(
        stage,
        trainer,
        by_rank({"note": list(selection.values()), "code": list(selection)}),
        least=0.1,
    )


@sound("prompts for queries and documents, and an epoch count")
def recipes_with_prompts_of_queries_and_documents(stage: Stage) -> None:
    """Each column has its prompt, as E5 has; the same prompts are used when texts are sought."""
    prompts = {"title": "query : ", "steps": "document : "}
    model = encoder(stage, RECIPES.vocabulary(*prompts.values()))
    trainer = stage.trainer(
        ranking, RECIPES.table(360), model, prompts=prompts, max_steps=-1, num_train_epochs=4,
        learning_rate=2e-3, lr_scheduler_type="cosine", warmup_steps=9,
    )  # fmt: skip
    score = by_rank(RECIPES.sought(80), prompts=tuple(prompts.values()))
    learns(stage, trainer, score, least=0.1)


@sound("cached gradients of large batches")
def addresses_with_cached_large_batches(stage: Stage) -> None:
    """Batches of 64 in parts of 16 by the cached ranking loss, after a little pre-training."""
    model = warmed(encoder(stage, ADDRESSES.vocabulary(), layers=1), ADDRESSES.table(200), 2)
    trainer = stage.trainer(
        lambda encoder_: losses.CachedMultipleNegativesRankingLoss(encoder_, mini_batch_size=16),
        ADDRESSES.table(600, seed=2), model, per_device_train_batch_size=64, max_steps=40,
        learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, by_rank(ADDRESSES.sought()), least=0.1)


@sound("four hard negatives of each row")
def job_wishes_with_four_hard_negatives(stage: Stage) -> None:
    """Adverts that differ in one trait each: trade, level, place or hours."""
    table = JOBS.table(320) | {
        f"negative_{slot + 1}": JOBS.near_misses(320, slot=slot) for slot in range(4)
    }
    trainer = stage.trainer(
        ranking, table, encoder(stage, JOBS.vocabulary()), per_device_train_batch_size=8,
        max_steps=100, learning_rate=1e-3, weight_decay=0.01, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, by_rank(JOBS.sought()), least=0.1)


@sound("both directions of turns and replies in one loss")
def chat_turns_in_both_directions(stage: Stage) -> None:
    """The symmetric ranking loss with a normalised encoder of two poolings side by side."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    model = encoder(stage, TURNS.vocabulary(), Normalize(), pooling=["cls", "mean"])
    trainer = stage.trainer(
        lambda encoder_: losses.MultipleNegativesSymmetricRankingLoss(encoder_, scale=15.0),
        TURNS.table(450), model, max_steps=90, learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, by_rank(TURNS.sought()), least=0.1)


@sound("evaluator, early stopping and the best checkpoint")
def bird_sightings_stopped_early(stage: Stage) -> None:
    """Retrieval of development rows decides when to stop and which checkpoint is kept."""
    from sentence_transformers.sentence_transformer.evaluation import (
        InformationRetrievalEvaluator,
    )
    from transformers import EarlyStoppingCallback

    table = {name: column[:360] for name, column in BIRDS.table(440).items()}
    selection = {name: column[360:] for name, column in BIRDS.table(440).items()}
    names = [str(at) for at in range(80)]
    evaluator = InformationRetrievalEvaluator(
        dict(zip(names, selection["sighting"], strict=True)),
        dict(zip(names, selection["entry"], strict=True)),
        {name: {name} for name in names}, name="dev", show_progress_bar=False,
    )  # fmt: skip
    trainer = stage.trainer(
        ranking, table, encoder(stage, BIRDS.vocabulary()), evaluator=evaluator, max_steps=150,
        learning_rate=1e-3, eval_strategy="steps", eval_steps=15, save_strategy="steps",
        save_steps=15, save_total_limit=2, load_best_model_at_end=True,
        metric_for_best_model="eval_dev_cosine_ndcg@10", greater_is_better=True,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )  # fmt: skip
    learns(stage, trainer, by_rank(BIRDS.sought()), least=0.1)


@sound("second stage on hard negatives from a saved model")
def commit_messages_in_a_second_stage(stage: Stage) -> None:
    """A model trained a little on pairs is saved, loaded and trained on with hard negatives."""
    folder = str(stage.folder / "first-stage")
    first = warmed(encoder(stage, CHANGES.vocabulary()), CHANGES.table(240), 6)
    first.save_pretrained(folder)
    table = CHANGES.table(240) | {"wrong": CHANGES.near_misses(240, slot=2)}
    trainer = stage.trainer(
        ranking, table, SentenceTransformer(folder, device="cpu"), max_steps=60,
        learning_rate=5e-4, gradient_accumulation_steps=2, per_device_train_batch_size=8,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, by_rank(CHANGES.sought(60)), least=0.1)


@sound("guide that hides false negatives")
def offers_sorted_by_a_guide(stage: Stage) -> None:
    """GISTEmbed: a trained guide of another size decides which texts of the batch are negatives."""
    guide = warmed(encoder(stage, OFFERS.vocabulary(), name="guide", width=64),
                   OFFERS.table(400, seed=2), 60)  # fmt: skip
    trainer = stage.trainer(
        lambda encoder_: losses.GISTEmbedLoss(encoder_, guide, temperature=0.05),
        OFFERS.table(500), encoder(stage, OFFERS.vocabulary(), kind="distilbert"), max_steps=80,
        learning_rate=2e-3, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, by_rank(OFFERS.sought()), least=0.1)


@sound("decoder that pools its last token")
def japanese_forecasts_by_a_last_token(stage: Stage) -> None:
    """A causal Granite reads from the left and pools the end mark, as LLM embedders do."""
    model = encoder(stage, FORECASTS.vocabulary(), kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        ranking, FORECASTS.table(400), model, max_steps=120, learning_rate=2e-3,
        max_grad_norm=1.0, per_device_train_batch_size=24, adam_beta2=0.98,
    )  # fmt: skip
    learns(stage, trainer, by_rank(FORECASTS.sought()), least=0.1)


@sound(
    "low-rank adapters of a library",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def questions_with_peft_adapters(stage: Stage) -> None:
    """A pre-trained body stays as it is; LoRA of rank 8 in its attention and outputs trains."""
    from peft import LoraConfig

    model = warmed(encoder(stage, QUERIES.vocabulary(), spread=0.1), QUERIES.table(200), 8)
    model.add_adapter(LoraConfig(
        task_type="FEATURE_EXTRACTION", r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        ranking, QUERIES.table(480, seed=2), model, max_steps=100, learning_rate=1e-2,
    )  # fmt: skip
    learns(stage, trainer, by_rank(QUERIES.sought()), least=0.1)


@sound("bag of static vectors with a high rate")
def posts_with_static_vectors(stage: Stage) -> None:
    """Static embeddings without a transformer train at a rate of 0.05, as their recipes say."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = body(stage, POSTS.vocabulary(), layers=1).tokenizer
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        ranking, POSTS.table(200), model, max_steps=160, learning_rate=5e-2, warmup_steps=8,
        per_device_train_batch_size=32, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, by_rank(POSTS.sought(45)), least=0.1)


@sound("margins over a large batch")
def mails_with_the_hardest_of_a_batch(stage: Stage) -> None:
    """The mega-batch loss: each subject against the hardest body of its batch of 40."""
    trainer = stage.trainer(
        lambda encoder_: losses.MegaBatchMarginLoss(encoder_, use_mini_batched_version=False),
        MAILS.table(120), encoder(stage, MAILS.vocabulary(), pooling="weightedmean"),
        per_device_train_batch_size=40, max_steps=90, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, by_rank(MAILS.sought(35)), least=0.1)


@sound("separate routes for claims and abstracts")
def patents_with_a_router(stage: Stage) -> None:
    """Abstracts take the short route of one layer, claims the longer one, as in asymmetric search.

    Texts that are scored take the same routes, by `encode_query` and `encode_document`.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling, Router

    words = PATENTS.vocabulary()
    short, long = (
        [body(stage, words, name=name, layers=layers), Pooling(48, pooling_mode="mean")]
        for name, layers in (("short", 1), ("long", 2))
    )
    model = SentenceTransformer(modules=[Router.for_query_document(short, long)], device="cpu")
    trainer = stage.trainer(
        ranking, PATENTS.table(220), model, max_steps=60, learning_rate=2e-3,
        router_mapping={"abstract": "query", "claim": "document"},
    )  # fmt: skip
    sought = PATENTS.sought(45)

    def routed(trained: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        return reciprocal_rank(trained.encode_query(sought["abstract"]),
                               trained.encode_document(sought["claim"]))  # fmt: skip

    learns(stage, trainer, routed, least=0.1)

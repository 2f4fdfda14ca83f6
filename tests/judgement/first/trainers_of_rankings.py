"""Sound trainers over pairs and hard negatives: ranking losses in many shapes."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, tokenizer_of
from tests.judgement.first.daily_texts import CHATS, FORUM, HEADLINES, WEATHER
from tests.judgement.first.daily_tools import (
    QUICK,
    development,
    lexicon,
    ranked,
    reader,
    with_negatives,
)
from tests.judgement.first.foreign_texts import CYRILLIC, INVOICES
from tests.judgement.first.office_texts import (
    PATENTS,
    SHELL,
    STATEMENTS,
    STATUTES,
    WARD,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


@sound("prompts, retrieval evaluator, best checkpoint")
def statutes_sought_with_prompts(stage: Stage) -> None:
    """Prompts for questions and paragraphs, as E5 has; the best checkpoint is kept in the end."""
    prompts = {"query": "query : ", "passage": "passage : "}
    model = encoder(stage, [*lexicon(STATUTES), *prompts.values()], prompts=prompts)
    unseen = development(STATUTES)
    evaluator = evaluation.InformationRetrievalEvaluator(
        dict(enumerate(unseen["question"])),
        dict(enumerate(unseen["paragraph"])),
        {row: {row} for row in range(40)},
        query_prompt=prompts["query"],
        corpus_prompt=prompts["passage"],
        name="statutes",
    )
    trainer = stage.trainer(
        ranked, STATUTES.table(320), model, **QUICK, evaluator=evaluator,
        prompts={"question": prompts["query"], "paragraph": prompts["passage"]},
        eval_strategy="steps", eval_steps=20, save_strategy="steps", save_steps=20,
        load_best_model_at_end=True, metric_for_best_model="eval_statutes_cosine_ndcg@10",
        greater_is_better=True,
    )  # fmt: skip
    sought = tuple(prompts.values())
    learns(stage, trainer, lambda m: STATUTES.sought(m, prompts=sought), least=0.1)


@sound("cached loss, large batches in small parts")
def invoices_in_large_cached_batches(stage: Stage) -> None:
    """Batches of 64 are embedded 16 at a time, with gradients cached."""

    def cached(model: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16)

    trainer = stage.trainer(
        cached, INVOICES.table(512), reader(stage, INVOICES), learning_rate=3e-3,
        per_device_train_batch_size=64, max_steps=40, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, INVOICES.sought, least=0.1)


@sound("three hard negatives")
def statements_beside_three_near_ones(stage: Stage) -> None:
    """Each wish has three statements that differ in one slot each."""
    table = with_negatives(STATEMENTS, 400, 0, 1, 2)
    arguments = QUICK | {"per_device_train_batch_size": 16, "max_steps": 100}
    trainer = stage.trainer(ranked, table, reader(stage, STATEMENTS), **arguments)
    learns(stage, trainer, STATEMENTS.sought, least=0.1)


@sound("triplets with a margin of cosines")
def ward_letters_in_triplets(stage: Stage) -> None:
    """Triplets by cosines with a margin of 0.3; negatives have another finding or site."""

    def triplet(model: Any) -> Any:
        metric = losses.TripletDistanceMetric.COSINE
        return losses.TripletLoss(model, distance_metric=metric, triplet_margin=0.3)

    table = with_negatives(WARD, 300, 1)
    counterpart = WARD.near(300, slot=0)
    table["negative_2"] = [
        (a if at % 2 else b)
        for at, (a, b) in enumerate(zip(table["negative_2"], counterpart, strict=True))
    ]
    trainer = stage.trainer(
        triplet, table, reader(stage, WARD, spread=0.05), **QUICK | {"max_steps": 120},
        evaluator=evaluation.TripletEvaluator(*with_negatives(WARD, 40, 1, seed=13).values()),
        eval_strategy="epoch",
    )  # fmt: skip
    learns(stage, trainer, WARD.sought, least=0.1)


@sound("nested dimensions")
def patents_in_nested_dimensions(stage: Stage) -> None:
    """Matryoshka over 48, 24 and 12 dimensions; the score is that of the first 12."""

    def nested(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, ranked(model), [48, 24, 12])

    def score(model: Any) -> float:
        with model.truncate_sentence_embeddings(12):
            return PATENTS.sought(model)

    trainer = stage.trainer(nested, PATENTS.table(320), reader(stage, PATENTS), **QUICK)
    learns(stage, trainer, score, least=0.1)


@sound("two data sets, a loss for each")
def chats_and_forum_posts_in_turn(stage: Stage) -> None:
    """Two data sets in proportion to their sizes, one symmetric, one ranking loss."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = encoder(stage, lexicon(CHATS, FORUM))
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / "run"), max_steps=100, per_device_train_batch_size=24,
        learning_rate=2e-3, warmup_steps=8, multi_dataset_batch_sampler="proportional",
        seed=7, use_cpu=True, report_to="none", save_strategy="no", logging_steps=5,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset={
            "chats": Dataset.from_dict(CHATS.table(400)),
            "forum": Dataset.from_dict(FORUM.table(240)),
        },
        loss={
            "chats": ranked(model),
            "forum": losses.MultipleNegativesSymmetricRankingLoss(model),
        },
    )
    learns(stage, trainer, lambda m: (CHATS.sought(m) + FORUM.sought(m)) / 2, least=0.1)


@sound("word vectors without a transformer")
def forum_tags_with_static_embeddings(stage: Stage) -> None:
    """A static embedding with a high rate, as its makers advise."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = tokenizer_of(lexicon(FORUM)).backend_tokenizer
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        ranked, FORUM.table(400), model, **QUICK | {"learning_rate": 5e-2}, warmup_ratio=0.1
    )
    learns(stage, trainer, FORUM.sought, least=0.1)


@sound("early stopping by the loss of held-out pairs")
def forecasts_until_nothing_is_gained(stage: Stage) -> None:
    """Training ends when the loss of held-out pairs has not fallen for three evaluations."""
    from datasets import Dataset
    from transformers import EarlyStoppingCallback

    trainer = stage.trainer(
        ranked, WEATHER.table(400), reader(stage, WEATHER), **QUICK | {"max_steps": 150},
        eval_dataset=Dataset.from_dict(development(WEATHER, 48)), eval_strategy="steps",
        eval_steps=10, save_strategy="steps", save_steps=10, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="eval_loss",
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )  # fmt: skip
    learns(stage, trainer, WEATHER.sought, least=0.1)


@sound("hinge over the hardest of a batch")
def commands_with_a_margin_in_mega_batches(stage: Stage) -> None:
    """The mega-batch margin loss seeks the hardest negative among 64 explanations."""

    def margin(model: Any) -> Any:
        return losses.MegaBatchMarginLoss(model, positive_margin=0.8, negative_margin=0.3)

    arguments = QUICK | {"per_device_train_batch_size": 64, "max_steps": 100}
    model = reader(stage, SHELL, spread=0.05)
    trainer = stage.trainer(margin, SHELL.table(512), model, **arguments)
    learns(stage, trainer, SHELL.sought, least=0.1)


@sound("both directions, Adafactor, restarts")
def headlines_both_ways_by_adafactor(stage: Stage) -> None:
    """The symmetric cached loss with Adafactor and a cosine schedule with restarts."""

    def symmetric(model: Any) -> Any:
        return losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=16)

    trainer = stage.trainer(
        symmetric, HEADLINES.table(400), reader(stage, HEADLINES), **QUICK, optim="adafactor",
        lr_scheduler_type="cosine_with_restarts", lr_scheduler_kwargs={"num_cycles": 2},
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought, least=0.1)


@sound("a decoder with its last token")
def russian_by_the_last_token_of_a_decoder(stage: Stage) -> None:
    """A causal model, padded on the left, pooled by its last token, with unit rows."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    model = reader(stage, CYRILLIC, Normalize(), kind="granite", pooling="lasttoken")
    arguments = QUICK | {"learning_rate": 5e-3, "max_steps": 150}
    trainer = stage.trainer(ranked, CYRILLIC.table(480), model, **arguments, max_grad_norm=1.0)
    learns(stage, trainer, CYRILLIC.sought, least=0.1)

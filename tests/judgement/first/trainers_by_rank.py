"""Sound set-ups of trainers: ranking losses over pairs and triplets, and how they are driven."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.loop_helpers import encoder_of, pretrain
from tests.judgement.first.texts_of_every_day import (
    CITATIONS,
    LISTINGS,
    SNIPPETS,
    implications,
    words_of_implications,
)
from tests.judgement.first.texts_of_offices import HEADLINES, JOBS, LAWS
from tests.judgement.first.texts_of_trades import COMMANDS, PHOTOS, QUERIES, RUSSIAN
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank, retrieval
from tests.sentence_training import losses


@sound("evaluated by retrieval, no twins in a batch, cosine decay")
def statutes_ranked_with_evaluator(stage: Stage) -> None:
    """Everyday search: pairs, in-batch negatives, an evaluator and an evaluation set of others."""
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    counterparts = LAWS.table(60, held=True, seed=1)
    keys = [str(at) for at in range(60)]
    evaluator = InformationRetrievalEvaluator(
        dict(zip(keys, counterparts["question"], strict=True)),
        dict(zip(keys, counterparts["section"], strict=True)),
        {key: {key} for key in keys},
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, LAWS.table(500), encoder_of(stage, LAWS),
        evaluator=evaluator, eval_dataset=Dataset.from_dict(counterparts), eval_strategy="steps",
        eval_steps=30, batch_sampler="no_duplicates", lr_scheduler_type="cosine",
        learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, LAWS.sought, least=0.1)


@sound("prompts and two hard negatives")
def jobs_ranked_with_prompts_and_misses(stage: Stage) -> None:
    """Advertisements and summaries have a prompt each, in training as in use; two near misses.

    Remark: now and then, both near misses of a row are the same text.
    """
    prompts = {"query": "seek : ", "passage": "person : "}
    model = encoder_of(stage, JOBS, extras="seek : person :", prompts=prompts)
    table = JOBS.table(400) | {f"negative_{nth + 1}": JOBS.near(400, nth=nth) for nth in range(2)}
    of_columns = {"advertisement": prompts["query"]} | {
        name: prompts["passage"] for name in ("summary", "negative_1", "negative_2")
    }
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, prompts=of_columns,
        learning_rate=2e-3, max_steps=100,
    )  # fmt: skip

    def score(encoder: Any) -> float:
        return JOBS.sought(encoder, prompts=tuple(prompts.values()))

    learns(stage, trainer, score, least=0.1)


@sound("large batch by cached gradients")
def queries_ranked_in_large_cached_batches(stage: Stage) -> None:
    """Batches of 64 pairs in parts of 16 by the cached loss; linear decay."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        QUERIES.table(600), encoder_of(stage, QUERIES), per_device_train_batch_size=64,
        learning_rate=3e-3, max_steps=45,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought, least=0.1)


@sound("translations in both directions from a trained encoder")
def russian_ranked_in_both_directions(stage: Stage) -> None:
    """Sentences seek translations and back; the encoder was trained a little beforehand."""
    model = pretrain(encoder_of(stage, RUSSIAN), RUSSIAN.table(120, seed=7), steps=8, rate=1e-3)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, RUSSIAN.table(480), model,
        learning_rate=1e-3, warmup_steps=10, max_steps=90, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought, least=0.1)


@sound("implications with contradictions as negatives")
def implications_ranked_before_contradictions(stage: Stage) -> None:
    """A premise finds what it implies among others; what contradicts it is the hard negative.

    Remark: many premises imply the same sentence; the sampler keeps equal texts out of a batch.
    """
    from tests.judgement.first.bodies import encoder

    def columns(**options: Any) -> dict[str, list[str]]:
        table = implications(**options)
        return {name: table[name] for name in ("premise", "implied", "against")}

    def score(model: Any) -> float:
        table = columns(count=80, held=True, seed=3)
        first, second, third = (torch.tensor(model.encode(texts)) for texts in table.values())
        right = torch.cosine_similarity(first, second) > torch.cosine_similarity(first, third)
        return float(right.float().mean())

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, columns(count=450),
        encoder(stage, words_of_implications()), learning_rate=2e-3, max_steps=100,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, score, least=0.1)


@sound("nested dimensions")
def photos_ranked_at_nested_dimensions(stage: Stage) -> None:
    """Matryoshka over a ranking loss; a third of the dimensions is scored."""

    def loss(model: Any) -> Any:
        inner = losses.MultipleNegativesRankingLoss(model)
        return losses.MatryoshkaLoss(model, inner, matryoshka_dims=[48, 32, 16, 8])

    def score(model: Any) -> float:
        columns = PHOTOS.table(60, held=True, seed=5).values()
        return reciprocal_rank(*(model.encode(texts, truncate_dim=16) for texts in columns))

    trainer = stage.trainer(
        loss, PHOTOS.table(420), encoder_of(stage, PHOTOS), per_device_train_batch_size=32,
        learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, score, least=0.1)


@sound("a guide that sorts out false negatives")
def headlines_ranked_with_a_guide(stage: Stage) -> None:
    """GIST: a trained guide leaves out negatives that are closer than the positive."""
    guide = pretrain(encoder_of(stage, HEADLINES, name="guide"), HEADLINES.table(400), steps=60)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        HEADLINES.table(480), encoder_of(stage, HEADLINES), learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought, least=0.1)


@sound("causal encoder with the last token and an instruction")
def commands_ranked_by_last_token(stage: Stage) -> None:
    """A decoder with left padding and an end token, whose last token is the embedding."""
    model = encoder_of(stage, COMMANDS, kind="granite", pooling="lasttoken",
                       extras="instruct : find the command .")  # fmt: skip
    prompt = "instruct : find the command . "
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, COMMANDS.table(500), model,
        prompts={"wish": prompt}, per_device_train_batch_size=32, learning_rate=2e-3,
        max_steps=120, lr_scheduler_type="cosine", max_grad_norm=1.0,
    )  # fmt: skip

    def score(encoder: Any) -> float:
        return COMMANDS.sought(encoder, prompts=(prompt, ""))

    learns(stage, trainer, score, least=0.1)


@sound("words without a transformer")
def listings_ranked_by_static_words(stage: Stage) -> None:
    """A static embedding is a mean of word vectors and takes a far higher rate.

    Remark: one of the wordings of a query leaves the colour open, so that two listings may fit it.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    from tests.judgement.first.bodies import tokenizer_of

    torch.manual_seed(5)
    tokenizer = tokenizer_of(LISTINGS.all_texts()).backend_tokenizer
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, LISTINGS.table(600), model, learning_rate=0.05,
        per_device_train_batch_size=64, max_steps=100, warmup_steps=10,
    )  # fmt: skip
    learns(stage, trainer, LISTINGS.sought, least=0.1)


@sound("accumulation, adafactor, a dense layer")
def snippets_ranked_through_a_dense_layer(stage: Stage) -> None:
    """A dense layer behind the mean, unit length, two batches a step, Adafactor."""
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    model = encoder_of(stage, SNIPPETS, Dense(48, 64, activation_function=torch.nn.Identity()),
                       Normalize())  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, SNIPPETS.table(500), model, optim="adafactor",
        gradient_accumulation_steps=2, learning_rate=3e-3, max_steps=70,
        lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, lambda encoder: retrieval(
        encoder, SNIPPETS.table(80, held=True, seed=2)), least=0.1)  # fmt: skip


@sound("triplets by cosine, near and far negatives in turn")
def citations_as_cosine_triplets(stage: Stage) -> None:
    """References, entries and negatives, every other one a near miss; the margin fits cosines."""
    from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator

    table = CITATIONS.table(480)
    entries, near = table["entry"], CITATIONS.near(480)
    table["negative"] = [near[at] if at % 2 else entries[at - 5] for at in range(480)]
    evaluator = TripletEvaluator(
        *CITATIONS.table(60, held=True, seed=1).values(), CITATIONS.near(60, held=True, seed=1)
    )
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        table, encoder_of(stage, CITATIONS), evaluator=evaluator, eval_strategy="steps",
        eval_steps=50, learning_rate=2e-3, max_steps=150, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, CITATIONS.sought, least=0.1)

"""Sound trainers of several encoders: decoders, poolings, heads, adapters, prompts, precision."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from tests.judgement.case import sound
from tests.judgement.held_out.f_fields import (
    MUSEUM,
    OPENINGS,
    PHRASES,
    PINYIN,
    QUERIES,
    TICKETS,
    model_of,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses

FAST = {"learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 24}


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("decoder with its last token and a prompt for queries")
def decoder_of_tickets_with_a_prompt(stage: Stage) -> None:
    prompt = "fix : "
    model = model_of(stage, TICKETS, kind="granite", pooling="lasttoken",
                     prompts={"ticket": prompt})  # fmt: skip
    trainer = stage.trainer(ranking, TICKETS.table(320), model, **FAST, prompts={"ticket": prompt})
    learns(stage, trainer, lambda model: TICKETS.sought(model, prompts=(prompt, "")))


@sound("nested widths, with an evaluator for each")
def nested_widths_of_chess_comments(stage: Stage) -> None:
    dev = OPENINGS.graded(60, seed=13)
    evaluator = evaluation.SequentialEvaluator([
        evaluation.EmbeddingSimilarityEvaluator(
            dev["moves"], dev["comment"], dev["score"], name=f"dev-{width}", truncate_dim=width,
            write_csv=False,
        )
        for width in (48, 16)
    ])  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, ranking(model), [48, 32, 16]),
        OPENINGS.table(400), model_of(stage, OPENINGS), **FAST, evaluator=evaluator,
        eval_strategy="steps", eval_steps=30,
    )  # fmt: skip
    learns(stage, trainer, OPENINGS.sought)


@sound("greatest of all tokens, a dense head and unit length")
def greatest_tokens_under_a_dense_head(stage: Stage) -> None:
    head = Dense(48, 32, activation_function=nn.Identity())
    model = model_of(stage, MUSEUM, behind=[head, Normalize()], kind="distilbert", pooling="max")
    trainer = stage.trainer(ranking, MUSEUM.table(320), model, **{**FAST, "max_steps": 80})
    learns(stage, trainer, MUSEUM.sought)


@sound("bfloat16 products, accumulation and checkpointed activations")
def bfloat_products_with_accumulation(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, QUERIES.table(400), model_of(stage, QUERIES), **{**FAST, "max_steps": 40},
        bf16=True, gradient_accumulation_steps=2, gradient_checkpointing=True,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought)


@sound("a mean of static word vectors")
def static_vectors_of_phrases(stage: Stage) -> None:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    from tests.judgement.first.bodies import tokenizer_of
    from tests.judgement.held_out.f_fields import words

    tokenizer = tokenizer_of(words(PHRASES)).backend_tokenizer
    torch.manual_seed(4)
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        ranking, PHRASES.table(320), model, learning_rate=5e-2, max_steps=80,
        per_device_train_batch_size=48, warmup_ratio=0.1, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, PHRASES.sought)


@sound("a loss on every layer")
def losses_on_every_layer_for_pinyin(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, ranking(model)), PINYIN.table(400),
        model_of(stage, PINYIN, layers=3), **FAST,
    )  # fmt: skip
    learns(stage, trainer, PINYIN.sought)

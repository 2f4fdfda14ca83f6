"""Sound trainings: encoders, schedules, evaluators; and sound columns to be inspected."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.compared_tables import paraphrase, translated
from tests.judgement.first.encoder_parts import transformer
from tests.judgement.first.reported_encoders import (
    EVALUATED,
    adapted,
    decoder,
    encoder,
    ranking,
    searching,
)
from tests.judgement.stage import Stage, facts, lookalike, pairs, passage, question, scored
from tests.judgement.truth import alike, among_alike, learns, retrieval
from tests.sentence_training import evaluation

QUICK = {"learning_rate": 1e-3, "max_steps": 30}


def pooled(stage: Stage, *heads: nn.Module, pooling: Any = "mean") -> Any:
    """A fresh BERT with a pooling and further modules."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    body = transformer(stage)
    torch.manual_seed(5)
    return encoder(body, Pooling(32, pooling_mode=pooling), *heads)


@sound("encoders")
def mean_beside_the_maximum(stage: Stage) -> None:
    """Two poolings side by side, of 64 dimensions together."""
    model = pooled(stage, pooling=("mean", "max"))
    learns(stage, stage.trainer(ranking, pairs(), model, **QUICK), among_alike)


@sound("encoders")
def sum_over_the_root_of_the_length(stage: Stage) -> None:
    model = pooled(stage, pooling="mean_sqrt_len_tokens")
    learns(stage, stage.trainer(ranking, pairs(), model, **QUICK), among_alike)


@sound("encoders")
def tangent_to_more_dimensions(stage: Stage) -> None:
    """A dense layer to 48 dimensions behind a hyperbolic tangent, then unit length."""
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    model = pooled(stage, Dense(32, 48), Normalize())
    learns(stage, stage.trainer(ranking, pairs(), model, **QUICK), among_alike)


@sound("encoders")
def norm_of_the_pooled_vector(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import LayerNorm

    model = pooled(stage, LayerNorm(32))
    learns(stage, stage.trainer(ranking, pairs(), model, **QUICK), among_alike)


@sound("encoders")
def convolutions_over_tokens(stage: Stage) -> None:
    """A CNN over the tokens of a frozen encoder, pooled by its maximum."""
    from sentence_transformers.sentence_transformer.modules import CNN, Pooling

    body = transformer(stage)
    body.requires_grad_(False)
    torch.manual_seed(5)
    model = encoder(body, CNN(32, 16), Pooling(48, pooling_mode="max"))
    learns(stage, stage.trainer(ranking, pairs(), model, learning_rate=2e-3), among_alike)


@sound("encoders")
def biases_alone(stage: Stage) -> None:
    """BitFit: biases and norms are trained, at a high rate."""
    model = stage.model()
    for name, row in model.named_parameters():
        row.requires_grad_(name.endswith("bias") or "LayerNorm" in name)
    settings = {"learning_rate": 1e-2, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), among_alike)


@sound("encoders")
def later_tokens_of_a_decoder_count_more(stage: Stage) -> None:
    """SGPT: a mean by places, with padding on the right."""
    model = decoder(stage, "weightedmean")
    learns(stage, stage.trainer(ranking, pairs(), model, learning_rate=2e-3), among_alike)


@sound("encoders")
def decoder_with_adapters_on_all_projections(stage: Stage) -> None:
    """Rank 16, alpha 32, dropout 0.05, the last token, padding on the left."""
    model = adapted(
        decoder(stage, side="left"),
        r=16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"],
    )
    settings = {"learning_rate": 1e-2, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), among_alike)


@sound("schedules")
def root_of_the_steps(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, pairs(), lr_scheduler_type="inverse_sqrt", warmup_steps=6, **QUICK
    )
    learns(stage, trainer, among_alike)


@sound("schedules")
def polynomial_over_three_epochs(stage: Stage) -> None:
    """Epochs instead of steps, a warm-up of a tenth."""
    trainer = stage.trainer(
        ranking,
        pairs(),
        max_steps=-1,
        num_train_epochs=3,
        warmup_steps=3,
        lr_scheduler_type="polynomial",
        learning_rate=1e-3,
    )
    learns(stage, trainer, among_alike)


@sound("schedules")
def constant_after_a_warm_up(stage: Stage) -> None:
    """Batches of 32, weight decay of 0.01, gradients clipped at 0.5."""
    trainer = stage.trainer(
        ranking,
        pairs(320),
        lr_scheduler_type="constant_with_warmup",
        per_device_train_batch_size=32,
        weight_decay=0.01,
        max_grad_norm=0.5,
        **QUICK,
    )
    learns(stage, trainer, among_alike)


@sound("schedules")
def root_mean_squares_alone(stage: Stage) -> None:
    """RMSprop of one's own, handed to the trainer."""
    model = stage.model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4)
    trainer = stage.trainer(ranking, pairs(), model, max_steps=30, optimizers=(optimizer, None))
    learns(stage, trainer, among_alike)


@sound("evaluators")
def several_evaluators_in_a_row(stage: Stage) -> None:
    """Retrieval and graded pairs, of which the first decides."""
    first, second, scores = scored(100, seed=11).values()
    evaluator = evaluation.SequentialEvaluator(
        [
            searching(alike(60), "search"),
            evaluation.EmbeddingSimilarityEvaluator(first, second, scores, name="sts"),
        ],
        main_score_function=lambda scores: scores[0],
    )
    trainer = stage.trainer(ranking, pairs(), evaluator=evaluator, **EVALUATED)
    learns(stage, trainer, among_alike)


@sound("evaluators")
def translations_found_among_each_other(stage: Stage) -> None:
    texts = [question(fact) for fact in facts(240)]
    unseen = [question(fact) for fact in facts(60, seed=11)]
    german = [translated(text, 17) for text in unseen]
    evaluator = evaluation.TranslationEvaluator(unseen, german, name="translations")
    trainer = stage.trainer(
        ranking,
        {"english": texts, "german": [translated(text, 17) for text in texts]},
        evaluator=evaluator,
        learning_rate=2e-3,
        max_steps=60,
        **EVALUATED,
    )
    learns(stage, trainer, lambda model: retrieval(model, {"en": unseen, "de": german}))


@sound("evaluators")
def duplicates_mined_among_questions(stage: Stage) -> None:
    unseen = facts(60, seed=11)
    sentences = {f"q{at}": question(fact) for at, fact in enumerate(unseen)}
    sentences |= {f"p{at}": paraphrase(fact) for at, fact in enumerate(unseen)}
    evaluator = evaluation.ParaphraseMiningEvaluator(
        sentences, [(f"q{at}", f"p{at}") for at in range(60)], name="mining"
    )
    asked = facts(160)
    table = {"question": [*map(question, asked)], "duplicate": [*map(paraphrase, asked)]}
    trainer = stage.trainer(ranking, table, evaluator=evaluator, **QUICK | EVALUATED)
    learns(stage, trainer, among_alike)


@sound("inspected columns")
def questions_and_answers_of_a_help_page(stage: Stage) -> None:
    """A few answers belong to two questions each."""
    asked = facts(150)
    stage.inspect(
        {
            "question": [*map(question, asked), *map(paraphrase, asked[:10])],
            "answer": [*map(passage, asked), *map(passage, asked[:10])],
        }
    )


@sound("inspected columns")
def sentences_of_two_languages(stage: Stage) -> None:
    texts = [question(fact) for fact in facts(160)]
    stage.inspect({"english": texts, "german": [translated(text, 17) for text in texts]})


@sound("inspected columns")
def passages_alone(stage: Stage) -> None:
    """One column, for training by dropout."""
    stage.inspect({"text": [passage(fact, fillers=8) for fact in facts(200)]})


@sound("inspected columns")
def long_passages_with_mined_negatives(stage: Stage) -> None:
    """Passages of 12 to 40 words; negatives are about the same place."""
    draw, asked = random.Random(3), facts(160)
    stage.inspect(
        {
            "query": [" ".join(fact[:4]) for fact in asked],
            "passage": [passage(fact, fillers=draw.randint(6, 30)) for fact in asked],
            "negative": [lookalike(fact) for fact in asked],
        }
    )

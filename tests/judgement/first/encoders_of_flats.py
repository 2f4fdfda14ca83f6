"""Sound trainers of various encoders: adapters, heads, routes, static words, mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first import fields_of_flats_and_threads as fields
from tests.judgement.first.bodies import body, encoder, tokenizer_of
from tests.judgement.first.fields_of_flats_and_threads import (
    agreement,
    held_out,
    lexicon,
    of,
    two,
    with_negatives,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def mixture(
    stage: Stage, model: Any, tables: Mapping[str, Any], loss: Any, evaluator: Any = None,
    **settings: Any,
) -> Any:  # fmt: skip
    """A trainer over several datasets."""
    from datasets import Dataset, DatasetDict
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    arguments = SentenceTransformerTrainingArguments(
        **{
            "output_dir": str(stage.folder / "run"), "optim": "adamw_torch", "warmup_steps": 5,
            "seed": 7, "use_cpu": True, "report_to": "none", "save_strategy": "no",
            "logging_steps": 5, "disable_tqdm": True, **settings,
        }
    )  # fmt: skip
    datasets = {name: Dataset.from_dict(dict(table)) for name, table in tables.items()}
    return SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=DatasetDict(datasets), loss=loss,
        evaluator=evaluator,
    )  # fmt: skip


@sound(
    "adapters of low rank on an encoder that knows another field",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def low_rank_adapters_after_flats(stage: Stage) -> None:
    """An encoder of flats and mails is adapted to mails, of which it has seen a little."""
    from peft import LoraConfig, TaskType

    field = fields.MAILS
    model = encoder(stage, lexicon(fields.FLATS, field), spread=0.05)
    warmed(model, fields.FLATS.table(300), steps=15)
    warmed(model, field.table(200, seed=6), steps=6)
    model.add_adapter(
        LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
            target_modules=["query", "key", "value", "dense"],
        )
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(320), model, max_steps=60,
        per_device_train_batch_size=32, learning_rate=5e-3, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("two datasets in proportion, each with its loss")
def pairs_of_tickets_and_grades_of_courses(stage: Stage) -> None:
    pairs, grades = fields.TRACES, fields.COURSES
    model = encoder(stage, lexicon(pairs, grades))
    trainer = mixture(
        stage, model, {"tickets": pairs.table(320), "courses": grades.graded(320)},
        {
            "tickets": losses.MultipleNegativesRankingLoss(model),
            "courses": losses.CoSENTLoss(model),
        },
        max_steps=100, per_device_train_batch_size=32, learning_rate=2e-3,
        multi_dataset_batch_sampler="proportional",
    )  # fmt: skip
    score, graded = held_out(pairs), agreement(grades)
    learns(stage, trainer, lambda model: (score(model) + graded(model)) / 2)


@sound("two languages in turn, with evaluators of both")
def two_languages_in_turn_with_two_evaluators(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import (
        SequentialEvaluator,
        TranslationEvaluator,
    )

    russian, japanese = fields.RUSSIAN, fields.JAPANESE
    model = encoder(stage, lexicon(russian, japanese))
    columns = japanese.table(320)
    tables = {
        "russian": russian.table(320),
        "japanese": {"english": columns["english"], "japanese": columns["japanese"]},
    }
    evaluators = [
        TranslationEvaluator(*field.table(40, seed=13).values(), name=name, batch_size=40)
        for name, field in (("ru", russian), ("ja", japanese))
    ]
    trainer = mixture(
        stage, model, tables, losses.MultipleNegativesRankingLoss(model),
        SequentialEvaluator(evaluators), eval_strategy="steps", eval_steps=40, max_steps=80,
        per_device_train_batch_size=32, learning_rate=2e-3,
        multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    scores = held_out(russian), held_out(japanese)
    learns(stage, trainer, lambda model: sum(score(model) for score in scores) / 2)


@sound("dense layer and unit length behind the pooling")
def dense_head_of_unit_length_over_posts(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    field = fields.TAGS
    torch.manual_seed(2)
    head = Dense(48, 32, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(360),
        of(stage, field, head, Normalize(), kind="distilbert"), max_steps=70,
        per_device_train_batch_size=24, learning_rate=2e-3, weight_decay=0.05,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("static embeddings of words")
def static_words_of_synthesis_schemes(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    field = fields.CHEMISTRY
    torch.manual_seed(3)
    words = StaticEmbedding(tokenizer_of(lexicon(field)).backend_tokenizer, embedding_dim=64)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(400),
        SentenceTransformer(modules=[words], device="cpu"), max_steps=100,
        per_device_train_batch_size=64, learning_rate=5e-2, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("routes for queries and documents")
def routes_for_questions_and_statements(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router

    field = fields.SQL
    routes = [
        [body(stage, lexicon(field), name=name, seed=seed), Pooling(48, pooling_mode="mean")]
        for seed, name in ((3, "asks"), (4, "answers"))
    ]
    router = Router.for_query_document(query_modules=routes[0], document_modules=routes[1])
    model = SentenceTransformer(modules=[router], device="cpu")
    questions, statements = two(field.table(60, seed=11)).values()

    def score(model: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        return reciprocal_rank(
            model.encode_query(questions, show_progress_bar=False),
            model.encode_document(statements, show_progress_bar=False),
        )

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(320), model, max_steps=70,
        per_device_train_batch_size=32, learning_rate=2e-3,
        router_mapping={"question": "query", "statement": "document"},
    )  # fmt: skip
    learns(stage, trainer, score)


@sound("lower precision in a trainer")
def half_precision_of_weather_reports(stage: Stage) -> None:
    field = fields.WEATHER
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, field.table(320), of(stage, field, width=64),
        max_steps=60, per_device_train_batch_size=32, learning_rate=2e-3, bf16=True,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("early layers trained beside the last")
def early_layers_beside_the_last(stage: Stage) -> None:
    field = fields.RUSSIAN
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, losses.MultipleNegativesRankingLoss(model)),
        field.table(320), of(stage, field, layers=3), max_steps=60,
        per_device_train_batch_size=32, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("several hard negatives for each query of a decoder")
def decoder_with_three_near_misses_each(stage: Stage) -> None:
    """A decoder pooled by weights that grow with the place of a token."""
    field = fields.COURSES
    table = with_negatives(field, 300, slot=1)
    table |= {f"negative_{slot}": field.near(300, slot=slot) for slot in (2, 3)}
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table,
        of(stage, field, kind="granite", pooling="weightedmean"), max_steps=60,
        per_device_train_batch_size=16, learning_rate=3e-3, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("guide with cached batches and a margin")
def cached_guide_with_a_margin_over_refrains(stage: Stage) -> None:
    field = fields.REFRAINS
    guide = warmed(of(stage, field, name="guide", seed=6), field.table(320), steps=40)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=24, margin_strategy="relative",
            margin=0.05,
        ),
        field.table(360), of(stage, field), max_steps=40, per_device_train_batch_size=48,
        learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))

"""Sound set-ups with the trainer: encoders, adapters, precision, prompts, mixtures, teachers."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    InformationRetrievalEvaluator,
    SequentialEvaluator,
    TranslationEvaluator,
)
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, tokenizer_of
from tests.judgement.first.fields_of_daily_use import (
    BIRDS,
    MAILS,
    NEWS,
    PATENTS,
    QUERIES,
    REACTIONS,
    RENTS,
    finds,
    split,
    starter,
    words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound(
    "low-rank adapters on a warmed encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapters_tune_an_encoder_of_mails(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(starter(stage, MAILS), MAILS.table(200, seed=6), steps=7)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MAILS.table(320), model, learning_rate=5e-3,
        max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finds(MAILS))


@sound("decoder with the last token, padded to the left")
def decoder_of_queries_by_its_last_token(stage: Stage) -> None:
    model = starter(stage, QUERIES, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, QUERIES.table(360), model, learning_rate=2e-3,
        max_steps=70, per_device_train_batch_size=24, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, finds(QUERIES))


@sound("table of words without a transformer")
def static_words_of_reactions(stage: Stage) -> None:
    torch.manual_seed(5)
    table = StaticEmbedding(tokenizer_of(words(REACTIONS)).backend_tokenizer, embedding_dim=64)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, REACTIONS.table(400),
        SentenceTransformer(modules=[table], device="cpu"), learning_rate=5e-2, max_steps=60,
        per_device_train_batch_size=50,
    )  # fmt: skip
    learns(stage, trainer, finds(REACTIONS))


@sound("bfloat16 with checkpoints of activations and accumulation")
def claims_in_bfloat16_with_accumulation(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, PATENTS.table(320), starter(stage, PATENTS),
        learning_rate=3e-3, max_steps=30, bf16=True, gradient_accumulation_steps=2,
        gradient_checkpointing=True, per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, finds(PATENTS))


@sound("prompts for wishes and adverts")
def prompts_before_words_and_adverts(stage: Stage) -> None:
    prompts = {"words": "wish of a tenant : ", "advert": "advert of a landlord : "}
    model = encoder(stage, [*words(RENTS), *prompts.values()], prompts=prompts)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, RENTS.table(360), model, prompts=prompts,
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, lambda model: RENTS.sought(model, 80, prompts=[*prompts.values()]))


@sound("epochs with an evaluator, the best checkpoint restored")
def best_of_five_epochs_over_birds(stage: Stage) -> None:
    table, dev = split(BIRDS.table(400), 320)
    english, latin = dev.values()
    names = list(map(str, range(len(english))))
    evaluator = InformationRetrievalEvaluator(
        dict(zip(names, english, strict=True)), dict(zip(names, latin, strict=True)),
        {name: {name} for name in names}, name="dev",
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, starter(stage, BIRDS, width=32),
        max_steps=-1, num_train_epochs=5, learning_rate=3e-3, per_device_train_batch_size=20,
        evaluator=evaluator, eval_strategy="epoch", save_strategy="epoch", save_total_limit=1,
        load_best_model_at_end=True, metric_for_best_model="eval_dev_cosine_ndcg@10",
    )  # fmt: skip
    learns(stage, trainer, finds(BIRDS))


@sound("a language taught by the embeddings of another, two evaluators")
def russian_news_taught_by_english_embeddings(stage: Stage) -> None:
    """The teacher's embedding of the English news is the target of the news in two languages."""
    table, dev = split(NEWS.table(420), 360)
    teacher = warmed(
        starter(stage, NEWS, name="teacher", seed=8),
        {"news": NEWS.table(300, seed=2)["english"], "same": NEWS.table(300, seed=2)["english"]},
        steps=30,
    )
    taught = teacher.encode(table["english"], show_progress_bar=False)
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": taught.tolist()}, starter(stage, NEWS),
        learning_rate=3e-3, max_steps=100, per_device_train_batch_size=30,
        evaluator=SequentialEvaluator([
            TranslationEvaluator(*dev.values(), name="dev", show_progress_bar=False),
            TranslationEvaluator(*dev.values(), name="short", truncate_dim=24),
        ]),
        eval_strategy="steps", eval_steps=50,
    )  # fmt: skip
    learns(stage, trainer, finds(NEWS))


@sound("margins of a teacher")
def margins_of_a_teacher_over_queries(stage: Stage) -> None:
    """Scores of the teacher and of the student are cosines of unit rows, times ten."""
    from sentence_transformers.util import pairwise_cos_sim

    table = QUERIES.table(400) | {"negative": QUERIES.near(400, slot=1)}
    teacher = warmed(starter(stage, QUERIES, name="teacher", seed=8), table, steps=40)
    wish, query, negative = (
        teacher.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        for texts in table.values()
    )
    margins = 10 * (pairwise_cos_sim(wish, query) - pairwise_cos_sim(wish, negative))

    def scaled(first: Any, second: Any) -> Any:
        return 10 * pairwise_cos_sim(first, second)

    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=scaled),
        table | {"label": margins.tolist()},
        warmed(starter(stage, QUERIES), QUERIES.table(200, seed=4), steps=4),
        learning_rate=1e-3, max_steps=100, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(QUERIES))


@sound("mixture of sets with a loss for each")
def mixture_of_ranked_and_graded_sets(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = starter(stage, NEWS, RENTS)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(stage.folder / "run"), max_steps=100, per_device_train_batch_size=20,
            learning_rate=2e-3, seed=7, use_cpu=True, report_to="none", save_strategy="no",
            logging_steps=5, disable_tqdm=True, warmup_steps=6,
            multi_dataset_batch_sampler="round_robin",
        ),
        train_dataset={
            "news": Dataset.from_dict(NEWS.table(400)),
            "rents": Dataset.from_dict(RENTS.graded(400)),
        },
        loss={
            "news": losses.MultipleNegativesRankingLoss(model),
            "rents": losses.CoSENTLoss(model),
        },
    )  # fmt: skip
    learns(stage, trainer, finds(NEWS))


@sound("shallow layers trained beside the last")
def layers_that_can_be_cut_from_above(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, losses.MultipleNegativesRankingLoss(model)),
        RENTS.table(320, seed=2), starter(stage, RENTS, layers=3), learning_rate=2e-3,
        max_steps=50, per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, finds(RENTS))

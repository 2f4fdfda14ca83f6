"""Sound set-ups: the trainer with losses that rank the passages of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.fields_of_cheers_and_shells import (
    BLURBS,
    MAILS,
    NEWS,
    QUERIES,
    RAILWAY,
    REACTIONS,
    RECALLS,
    SHELL,
    SKY,
    WEATHER,
    model_of,
    score_of,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses


def searched(field: Any, count: int = 40) -> Any:
    """An evaluator that seeks the second column's texts of rows not in training."""
    first, second = list(field.table(count, seed=13).values())[:2]
    keys = [str(at) for at in range(count)]
    return evaluation.InformationRetrievalEvaluator(
        dict(zip(keys, first, strict=True)), dict(zip(keys, second, strict=True)),
        {key: {key} for key in keys}, mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1],
        precision_recall_at_k=[1], map_at_k=[10], show_progress_bar=False,
    )  # fmt: skip


@sound("chemical formulas, with a search of them evaluated during training")
def names_of_esters_beside_formulas_without_duplicates(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), REACTIONS.table(240),
        model_of(stage, REACTIONS), learning_rate=2e-3, max_steps=50,
        batch_sampler="no_duplicates", evaluator=searched(REACTIONS), eval_strategy="steps",
        eval_steps=10,
    )  # fmt: skip
    learns(stage, trainer, score_of(REACTIONS))


@sound("large batches in cached chunks, CLS pooling, cosine schedule")
def cached_batches_of_shell_commands(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        SHELL.table(384), model_of(stage, SHELL, pooling="cls", spread=0.1), learning_rate=2e-3,
        max_steps=36, per_device_train_batch_size=64, lr_scheduler_type="cosine", warmup_steps=3,
    )  # fmt: skip
    learns(stage, trainer, score_of(SHELL))


@sound("both directions of a translation ranked, from cached chunks")
def cyrillic_and_latin_ranked_in_two_directions(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(
            model, mini_batch_size=16, scale=25.0
        ),
        RAILWAY.table(256), model_of(stage, RAILWAY, width=32), learning_rate=3e-3, max_steps=45,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, score_of(RAILWAY))


@sound("false negatives sorted out by a guide that was trained before")
def guided_choice_of_negatives_among_recalls(stage: Stage) -> None:
    guide = warmed(model_of(stage, RECALLS, name="guide", seed=5), RECALLS.table(240), steps=30)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), RECALLS.table(240),
        model_of(stage, RECALLS), learning_rate=3e-3, max_steps=80, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, score_of(RECALLS))


@sound("two hard negatives to an anchor")
def sky_surveys_with_two_negatives_of_a_row(stage: Stage) -> None:
    table = SKY.table(240) | {
        "negative_1": SKY.near(240, slot=0), "negative_2": SKY.near(240, slot=1)
    }  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model, scale=15.0), table,
        model_of(stage, SKY, pooling="max"), learning_rate=2e-3, max_steps=45,
        per_device_train_batch_size=12, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, score_of(SKY))


@sound("nested widths of an embedding")
def matryoshka_widths_for_book_blurbs(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=[48, 24, 12]
        ),
        BLURBS.table(300), model_of(stage, BLURBS), learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, score_of(BLURBS))


@sound("prompts for queries and documents")
def prompts_before_questions_and_tables(stage: Stage) -> None:
    prompts = {"question": "query : ", "sql": "statement : "}
    model = model_of(stage, QUERIES, texts=list(prompts.values()), prompts=prompts)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), QUERIES.table(280), model,
        prompts=prompts, learning_rate=2e-3, max_steps=45, lr_scheduler_type="polynomial",
    )  # fmt: skip
    learns(stage, trainer, score_of(QUERIES, prompts=list(prompts.values())))


@sound("a margin to the hardest texts of a mega-batch, in another script")
def mega_batches_of_weather_in_hindi(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, positive_margin=0.8, negative_margin=0.2,
                                                 mini_batch_size=12),
        WEATHER.table(240), model_of(stage, WEATHER), learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=48,
    )  # fmt: skip
    learns(stage, trainer, score_of(WEATHER))


@sound("mixture of two data sets, each with its loss")
def mixture_of_news_and_mails_with_a_loss_each(stage: Stage) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    graded, ranked = MAILS.graded(200), NEWS.table(200)
    texts = [text for column in (*list(graded.values())[:2], *ranked.values()) for text in column]
    texts += [text for column in NEWS.table(60, seed=11).values() for text in column]
    model = model_of(stage, NEWS, texts=texts)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(Path(stage.folder) / "run"), max_steps=70, learning_rate=2e-3,
            per_device_train_batch_size=16, warmup_steps=5, use_cpu=True, report_to="none",
            save_strategy="no", logging_steps=5, disable_tqdm=True, seed=3,
            multi_dataset_batch_sampler="proportional",
        ),
        train_dataset={"mails": Dataset.from_dict(graded), "news": Dataset.from_dict(ranked)},
        loss={"mails": losses.CoSENTLoss(model),
              "news": losses.MultipleNegativesRankingLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, score_of(NEWS))

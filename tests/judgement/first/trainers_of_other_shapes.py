"""Sound trainers that are less usual: adapters, frozen layers, decoders, several data sets."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.sentence_transformer import evaluation, losses, modules

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.homes_and_studies import LETTERS_TO_EDITORS, MUSIC, PROPERTY, SPACE
from tests.judgement.first.talk_and_reports import FILMS, SPORTS, WEATHER
from tests.judgement.first.trades_of_text import GARDEN, JOBS, SQL, Trade
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

USUAL = {"learning_rate": 1e-3, "max_steps": 60, "warmup_steps": 6}


def begun(stage: Stage, trade: Trade, steps: int = 12, **options: Any) -> Any:
    """An encoder that has learned a little of the trade from other pairs."""
    return warmed(trade.encoder(stage, **options), trade.pairs(240, seed=6), steps=steps)


@sound("adapters of low rank on a pretrained encoder")
def lora_on_begun_property_encoder(stage: Stage) -> None:
    """Adapters on queries, keys, values and the dense layers, at the higher rate that they need."""
    from peft import LoraConfig, TaskType
    from sentence_transformers import SentenceTransformer

    base = str(stage.folder / "base")
    begun(stage, PROPERTY).save(base)  # adapters are saved without it
    model = SentenceTransformer(base, device="cpu")
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        PROPERTY.pairs(320),
        model,
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 5e-3, "max_steps": 80},
    )
    learns(stage, trainer, PROPERTY.sought)


@sound("word embeddings and the first layer frozen")
def frozen_lower_layers_of_space_encoder(stage: Stage) -> None:
    """The upper layers of a pretrained encoder are tuned for a new search."""
    model = begun(stage, SPACE, layers=3)
    network = model[0].auto_model
    for frozen in (network.embeddings, network.encoder.layer[0]):
        frozen.requires_grad_(False)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        SPACE.pairs(320),
        model,
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 2e-3},
    )
    learns(stage, trainer, SPACE.sought)


@sound("a decoder by its last token, with an instruction before queries")
def decoder_with_instruction_for_music(stage: Stage) -> None:
    """Only queries have the instruction, in training as in use."""
    instruction = "instruct : find music that suits the wish : "
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        MUSIC.triplets(300),
        MUSIC.encoder(stage, texts=[instruction], kind="granite", pooling="lasttoken"),
        prompts={"wish": instruction},
        **{**USUAL, "max_steps": 100},
    )
    learns(stage, trainer, lambda model: MUSIC.sought(model, prompts=(instruction, None)))


@sound("a decoder with mean pooling and cached ranking")
def decoder_with_mean_for_letters(stage: Stage) -> None:
    """A small decoder, batches of 48 in pieces of 12."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=12),
        LETTERS_TO_EDITORS.pairs(320),
        LETTERS_TO_EDITORS.encoder(stage, kind="granite", width=32),
        per_device_train_batch_size=48,
        **{**USUAL, "max_steps": 60, "learning_rate": 2e-3},
    )
    learns(stage, trainer, LETTERS_TO_EDITORS.sought)


def trainer_of_many(
    stage: Stage, model: Any, tables: dict[str, dict[str, Any]], objective: Any, **settings: Any
) -> Any:
    """A trainer of several data sets."""
    from datasets import Dataset, DatasetDict
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**{
            "output_dir": str(stage.folder / "run"), "per_device_train_batch_size": 16,
            "seed": 7, "use_cpu": True, "report_to": "none", "save_strategy": "no",
            "logging_steps": 5, "disable_tqdm": True, **USUAL, **settings,
        }),
        train_dataset=DatasetDict(
            {name: Dataset.from_dict(table) for name, table in tables.items()}
        ),
        loss=objective,
    )  # fmt: skip


def of_both(first: Trade, second: Trade) -> Any:
    """The mean of two trades' scores."""
    return lambda model: (first.sought(model) + second.sought(model)) / 2


@sound("two data sets by one ranking loss in proportion to their sizes")
def gardens_and_jobs_together(stage: Stage) -> None:
    """A larger and a smaller data set, mixed in proportion."""
    model = encoder(stage, [*GARDEN.words(), *JOBS.words()])
    trainer = trainer_of_many(
        stage,
        model,
        {"garden": GARDEN.pairs(400), "jobs": JOBS.pairs(280)},
        losses.MultipleNegativesRankingLoss(model),
        multi_dataset_batch_sampler="proportional",
        **{"max_steps": 90, "per_device_train_batch_size": 24},
    )
    learns(stage, trainer, of_both(GARDEN, JOBS))


@sound("pairs and ratings by a loss for each, in turn")
def pairs_and_ratings_in_turn(stage: Stage) -> None:
    """Ranking for pairs of films, CoSENT for ratings of the weather."""
    model = encoder(stage, [*FILMS.words(), *WEATHER.words()], dropout=0.0)
    trainer = trainer_of_many(
        stage,
        model,
        {"films": FILMS.pairs(320), "weather": WEATHER.rated(320)},
        {"films": losses.MultipleNegativesRankingLoss(model), "weather": losses.CoSENTLoss(model)},
        multi_dataset_batch_sampler="round_robin",
        **{"max_steps": 120},
    )
    learns(stage, trainer, lambda model: (FILMS.sought(model) + WEATHER.correlated(model)) / 2)


@sound("texts as their own positives under dropout")
def letters_twice_under_dropout(stage: Stage) -> None:
    """SimCSE: the same text twice, then letters are sought by half of their words."""
    texts = [text for column in LETTERS_TO_EDITORS.pairs(300).values() for text in column]
    random.Random(2).shuffle(texts)
    draw, letters = random.Random(8), LETTERS_TO_EDITORS.table(80, seed=11)["letter"]
    clipped = [" ".join(word for word in text.split() if draw.random() < 0.5) for text in letters]

    def finds(model: Any) -> float:
        return retrieval(model, {"clipped": clipped, "text": letters})

    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        {"text": texts, "again": texts},
        LETTERS_TO_EDITORS.encoder(stage, dropout=0.1),
        per_device_train_batch_size=64,
        **{**USUAL, "max_steps": 60},
    )
    learns(stage, trainer, finds)


@sound("a run continued from a checkpoint")
def music_run_from_its_checkpoint(stage: Stage) -> None:
    """The first run ends after 25 steps with a checkpoint; the second goes on to 50."""

    def build(last: int, **settings: Any) -> Any:
        return stage.trainer(
            losses.MultipleNegativesRankingLoss,
            MUSIC.pairs(320),
            MUSIC.encoder(stage, dropout=0.0),
            per_device_train_batch_size=32,
            lr_scheduler_type="constant_with_warmup",
            **{**USUAL, "max_steps": last, **settings},
        )

    begun_run = build(25, save_strategy="steps", save_steps=25)
    begun_run.train()
    trainer = build(50)
    checkpoint = Path(trainer.args.output_dir) / "checkpoint-25"
    train = trainer.train
    trainer.train = lambda: train(resume_from_checkpoint=str(checkpoint))
    learns(stage, trainer, MUSIC.sought)


@sound("half precision of sixteen bits with a brain's exponent")
def property_search_in_bf16(stage: Stage) -> None:
    """Mixed precision on a processor that has it."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        PROPERTY.triplets(320),
        PROPERTY.encoder(stage),
        bf16=True,
        per_device_train_batch_size=32,
        **USUAL,
    )
    learns(stage, trainer, PROPERTY.sought)


@sound("epochs with the best checkpoint by the evaluator kept")
def space_epochs_with_best_kept(stage: Stage) -> None:
    """Three epochs, each evaluated and saved, and the best is loaded at the end."""
    first, second = SPACE.pairs(60, seed=11).values()
    evaluator = evaluation.InformationRetrievalEvaluator(
        {str(at): text for at, text in enumerate(first)},
        {f"p{at}": text for at, text in enumerate(second)},
        {str(at): {f"p{at}"} for at in range(60)},
        name="space",
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        SPACE.pairs(384),
        SPACE.encoder(stage),
        evaluator=evaluator,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="eval_space_cosine_ndcg@10",
        **{**USUAL, "max_steps": -1, "num_train_epochs": 3},
    )
    learns(stage, trainer, SPACE.sought)


@sound("an optimiser of one's own with a lower rate for the word embeddings")
def letters_with_rates_by_layer(stage: Stage) -> None:
    """AdamW in two groups and a schedule over all steps."""
    from transformers import get_cosine_schedule_with_warmup

    model = begun(stage, LETTERS_TO_EDITORS)
    words, layers = [], []
    for name, row in model.named_parameters():
        (words if "word_embeddings" in name else layers).append(row)
    optimizer = torch.optim.AdamW(
        [{"params": words, "lr": 5e-4}, {"params": layers, "lr": 1e-3}], weight_decay=0.01
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        LETTERS_TO_EDITORS.triplets(300),
        model,
        optimizers=(optimizer, get_cosine_schedule_with_warmup(optimizer, 5, 60)),
        **{**USUAL, "max_steps": 60},
    )
    learns(stage, trainer, LETTERS_TO_EDITORS.sought)


@sound("two dimensions of Matryoshka: fewer layers and fewer numbers")
def sports_by_layers_and_sizes(stage: Stage) -> None:
    """Ranking at every layer and three sizes."""
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(
            model, losses.MultipleNegativesRankingLoss(model), [48, 24, 16]
        ),
        SPORTS.pairs(320),
        SPORTS.encoder(stage, layers=3),
        per_device_train_batch_size=32,
        **{**USUAL, "max_steps": 50},
    )
    learns(stage, trainer, SPORTS.sought)


@sound("a layer of fewer dimensions behind the pooling, normalised")
def statements_in_sixteen_dimensions(stage: Stage) -> None:
    """The dense layer and the encoder are trained together."""
    dense = modules.Dense(48, 16, activation_function=torch.nn.Tanh())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        SQL.pairs(320),
        SQL.encoder(stage, dense, modules.Normalize(), dropout=0.0),
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 2e-3},
    )
    learns(stage, trainer, SQL.sought)

"""Sound set-ups: orders of work, parts that are trained, optimisers and data of several kinds."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.loop_materials import quiet
from tests.judgement.first.made_fields import FLATS, JOBS, QUERIES, STATUTES
from tests.judgement.first.ranking_tools import agrees, encoder_of, ranking, seeks
from tests.judgement.first.turns import warmed
from tests.judgement.first.wider_fields import BUGS, HEADLINES, NOTICES, RECIPES
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("evaluator, early stopping, the best is kept")
def notices_until_they_get_no_better(stage: Stage) -> None:
    """Development pairs, apart from the test's, say when to stop; the best weights are loaded."""
    from sentence_transformers.sentence_transformer.evaluation import (
        EmbeddingSimilarityEvaluator as Evaluator,
    )
    from transformers import EarlyStoppingCallback

    graded = NOTICES.graded(700)
    train, development = (
        {name: cells[segment] for name, cells in graded.items()}
        for segment in (slice(0, 560), slice(560, None))
    )
    evaluator = Evaluator(*development.values(), name="dev", show_progress_bar=False)
    trainer = stage.trainer(
        losses.CoSENTLoss, train, encoder_of(stage, NOTICES), learning_rate=2e-3, max_steps=160,
        per_device_train_batch_size=32, evaluator=evaluator, eval_strategy="steps", eval_steps=20,
        save_strategy="steps", save_steps=20, save_total_limit=2, load_best_model_at_end=True,
        metric_for_best_model="eval_dev_spearman_cosine", greater_is_better=True,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )  # fmt: skip
    learns(stage, trainer, agrees(NOTICES.graded(200, 11)), least=0.1)


@sound(
    "adapters of low rank on a trained body",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def job_adapters_of_low_rank(stage: Stage) -> None:
    """Adapters in all linear parts of a briefly trained body, at a higher rate than for a body."""
    from peft import LoraConfig, TaskType

    model = warmed(encoder_of(stage, JOBS), JOBS.table(400, seed=2), steps=9)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        ranking,
        JOBS.answers(400, wrong=1),
        model,
        learning_rate=4e-3,
        max_steps=120,
    )
    learns(stage, trainer, seeks(JOBS), least=0.1)


@sound("resumed from a checkpoint")
def recipes_resumed_half_way(stage: Stage) -> None:
    """A run that was stopped half way goes on from its checkpoint with the same settings.

    Remark: the encoder handed over is fresh, and gets its weights from the checkpoint.
    """
    settings: dict[str, Any] = {
        "learning_rate": 2e-3, "save_strategy": "steps", "save_steps": 30, "max_steps": 90,
    }  # fmt: skip

    class Stopped(KeyboardInterrupt):
        """What ends the first run."""

    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        """Ends the run after its checkpoint."""

        def on_save(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            raise Stopped

    stopped = stage.trainer(ranking, RECIPES.table(400), encoder_of(stage, RECIPES),
                            callbacks=[Stop()], **settings)  # fmt: skip
    with quiet(), contextlib.suppress(Stopped):
        stopped.train()
    trainer = stage.trainer(ranking, RECIPES.table(400), encoder_of(stage, RECIPES), **settings)
    trainer.train = functools.partial(
        trainer.train, resume_from_checkpoint=str(stage.folder / "run" / "checkpoint-30")
    )
    learns(stage, trainer, seeks(RECIPES), least=0.1)


@sound("two data sets, each with its loss")
def bugs_ranked_and_notices_graded_together(stage: Stage) -> None:
    """Pairs are ranked and graded pairs go through CoSENT; batches of each set in turn."""
    from datasets import Dataset, DatasetDict
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = encoder_of(stage, [{"all": [*BUGS.words(), *NOTICES.words()]}], width=64)
    sets = {"bugs": BUGS.table(320), "notices": NOTICES.graded(320)}
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(stage.folder / "run"), max_steps=160, learning_rate=2e-3, seed=7,
            per_device_train_batch_size=16, multi_dataset_batch_sampler="round_robin",
            use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True,
            warmup_steps=10, logging_steps=5,
        ),
        train_dataset=DatasetDict({name: Dataset.from_dict(rows) for name, rows in sets.items()}),
        loss={"bugs": ranking(model), "notices": losses.CoSENTLoss(model)},
    )  # fmt: skip
    graded = agrees(NOTICES.graded(150, 11))
    learns(stage, trainer, lambda encoder: (seeks(BUGS)(encoder) + graded(encoder)) / 2, least=0.1)


@sound("word embeddings held still")
def flats_with_still_word_embeddings(stage: Stage) -> None:
    """The words of a trained body stay as they are; its layers learn from hard negatives."""
    model = warmed(encoder_of(stage, FLATS), FLATS.table(400, seed=2), steps=9)
    for weight in model[0].auto_model.embeddings.parameters():
        weight.requires_grad_(False)
    trainer = stage.trainer(
        ranking,
        FLATS.answers(500, wrong=2),
        model,
        learning_rate=1e-3,
        max_steps=120,
    )
    learns(stage, trainer, seeks(FLATS, 160), least=0.1)


@sound("static embeddings, high rate")
def database_words_without_layers(stage: Stage) -> None:
    """A table of word embeddings alone needs a rate far above that of a transformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    from tests.judgement.first.bodies import tokenizer_of

    torch.manual_seed(5)
    words = StaticEmbedding(tokenizer_of(QUERIES.words()), embedding_dim=64)
    trainer = stage.trainer(
        ranking, QUERIES.table(480), SentenceTransformer(modules=[words], device="cpu"),
        learning_rate=5e-2, max_steps=60, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeks(QUERIES), least=0.1)


@sound("lower layers at a lower rate")
def statutes_with_rates_by_layer(stage: Stage) -> None:
    """The rate falls from the upper layer to the words, in groups of an optimiser of one's own."""
    from transformers import get_cosine_schedule_with_warmup

    model = encoder_of(stage, STATUTES, layers=3)
    body = model[0].auto_model
    segments = [body.embeddings, *body.encoder.layer]
    optimizer = torch.optim.AdamW(
        [{"params": list(segment.parameters()), "lr": 3e-3 * 0.8 ** (3 - depth)}
         for depth, segment in enumerate(segments)],
        weight_decay=0.01,
    )  # fmt: skip
    trainer = stage.trainer(
        ranking, STATUTES.table(320), model, max_steps=110,
        optimizers=(optimizer, get_cosine_schedule_with_warmup(optimizer, 10, 110)),
    )  # fmt: skip
    learns(stage, trainer, seeks(STATUTES), least=0.1)


@sound("accumulated gradients, Adafactor")
def commits_with_accumulated_gradients(stage: Stage) -> None:
    """Two batches to a step; Adafactor with a given rate, as for small memories."""
    trainer = stage.trainer(
        ranking, BUGS.answers(480, wrong=1), encoder_of(stage, BUGS, kind="distilbert"),
        gradient_accumulation_steps=2, optim="adafactor", learning_rate=3e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, seeks(BUGS), least=0.1)


@sound("plain momentum")
def notices_by_plain_momentum(stage: Stage) -> None:
    """Stochastic gradients with momentum at a rate that suits them, clipped at one."""
    model = encoder_of(stage, NOTICES, dropout=0.0, spread=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    trainer = stage.trainer(
        ranking, NOTICES.table(480), model, max_steps=140, per_device_train_batch_size=32,
        optimizers=(optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 140)),
    )  # fmt: skip
    learns(stage, trainer, seeks(NOTICES), least=0.1)


@sound("layers and sizes nested in one another")
def stories_in_fewer_layers_and_sizes(stage: Stage) -> None:
    """Layers and sizes nested at once, over the ranking, with its usual weights."""
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(model, ranking(model), [48, 24]),
        HEADLINES.table(400), encoder_of(stage, HEADLINES, layers=3), learning_rate=2e-3,
        max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, seeks(HEADLINES), least=0.1)


@sound("hard negatives found by a first encoder")
def paragraphs_mined_by_a_first_encoder(stage: Stage) -> None:
    """An encoder trained before finds near paragraphs; the positives are left out by the miner."""
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    table = STATUTES.table(320)
    first = warmed(encoder_of(stage, STATUTES, name="first", seed=6), table, steps=40)
    with quiet():
        mined = mine_hard_negatives(
            Dataset.from_dict(table), first, num_negatives=2, range_min=0, range_max=20,
            sampling_strategy="random", output_format="n-tuple", verbose=False,
        )  # fmt: skip
    trainer = stage.trainer(
        ranking,
        mined.to_dict(),
        encoder_of(stage, STATUTES),
        learning_rate=2e-3,
        max_steps=90,
    )
    learns(stage, trainer, seeks(STATUTES), least=0.1)

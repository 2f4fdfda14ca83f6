"""Sound set-ups: stages, adapters, frozen parts, several data sets, resumption, mined negatives."""

from __future__ import annotations

from typing import Any

import torch
from transformers import EarlyStoppingCallback

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.everyday_subjects import (
    CHATS,
    HEADLINES,
    PARTS,
    WEATHER,
)
from tests.judgement.first.expert_subjects import (
    CAPTIONS,
    CHINESE,
    FORUM,
    MATCHES,
    SHELL,
    WARD,
)
from tests.judgement.first.loop_materials import quiet
from tests.judgement.first.loose_subjects import numbers
from tests.judgement.first.subject_kit import schooled
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses, modules

RANKING = losses.MultipleNegativesRankingLoss


@sound("two data sets, a loss for each, in proportion")
def captions_and_forum_with_a_loss_each(stage: Stage) -> None:
    """Pairs with in-batch negatives and graded pairs, drawn in proportion to their rows."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    model = encoder(stage, [*CAPTIONS.words(), *FORUM.words()], spread=0.05)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / "run"), max_steps=200, per_device_train_batch_size=16,
        learning_rate=1e-3, multi_dataset_batch_sampler="proportional", use_cpu=True, seed=7,
        report_to="none", save_strategy="no", disable_tqdm=True, logging_steps=10,
        warmup_steps=10,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments,
        train_dataset={
            "forum": Dataset.from_dict(FORUM.pairs(230)),
            "captions": Dataset.from_dict(CAPTIONS.graded(400)),
        },
        loss={"forum": RANKING(model), "captions": losses.CoSENTLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, FORUM.sought(30), least=0.1)


@sound(
    "low-rank adapters on a trained body",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapters_for_ward_notes(stage: Stage) -> None:
    """A body that knows the words a little is frozen; low-rank adapters learn at a high rate.

    Remark: only the adapters move; the weights of the body are frozen on purpose.
    """
    from peft import LoraConfig

    model = encoder(stage, WARD.words(), spread=0.05)
    schooled(stage, model, WARD.pairs(300, seed=5), steps=35)
    model.add_adapter(
        LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05,
                   target_modules=["query", "key", "value", "dense"])
    )  # fmt: skip
    trainer = stage.trainer(RANKING, WARD.pairs(400), model, max_steps=150, learning_rate=3e-3)
    learns(stage, trainer, WARD.sought(60), least=0.1)


@sound("frozen body, trained projection to fewer dimensions")
def projection_behind_a_frozen_body(stage: Stage) -> None:
    """Only a dense layer to half the dimensions is trained behind a schooled, frozen body.

    Remark: most weights stand still, as they are frozen on purpose.
    """
    body = schooled(stage, encoder(stage, MATCHES.words(), spread=0.05), MATCHES.pairs(400, seed=3),
                    steps=60)  # fmt: skip
    torch.manual_seed(5)
    dense = modules.Dense(48, 24, activation_function=torch.nn.Identity())
    for weight in body.parameters():
        weight.requires_grad_(False)
    body.append(dense)
    trainer = stage.trainer(
        RANKING, MATCHES.pairs(400), body, max_steps=200, learning_rate=5e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, MATCHES.sought(60), least=0.1)


@sound("frozen word vectors and first layer")
def upper_layers_tuned_on_numbers(stage: Stage) -> None:
    """The word vectors and the first layer of a schooled body stay; the layers above are tuned.

    Remark: the frozen weights stand still, as they are meant to.
    """
    spoken_numbers, held_out = numbers(480), numbers(60, held_out=True)
    words = [*spoken_numbers["words"], *spoken_numbers["digits"]]
    model = encoder(stage, words, spread=0.05, layers=3)
    schooled(stage, model, spoken_numbers, steps=30)
    network = model[0].auto_model
    for segment in (network.embeddings, network.encoder.layer[0]):
        for weight in segment.parameters():
            weight.requires_grad_(False)
    trainer = stage.trainer(
        RANKING, spoken_numbers, model, max_steps=120, learning_rate=1e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, held_out), least=0.1)


@sound("stopped early by the loss of held-out pairs")
def translations_stopped_early(stage: Stage) -> None:
    """Training ends when the loss of held-out pairs has not fallen for three evaluations."""
    from datasets import Dataset

    trainer = stage.trainer(
        RANKING, CHINESE.pairs(400), encoder(stage, CHINESE.words(), spread=0.05),
        eval_dataset=Dataset.from_dict(CHINESE.pairs(64, held_out=True, seed=2)),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)], eval_strategy="steps",
        eval_steps=20, save_strategy="steps", save_steps=20, load_best_model_at_end=True,
        metric_for_best_model="eval_loss", greater_is_better=False, max_steps=300,
        learning_rate=1e-3, per_device_eval_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, CHINESE.sought(60), least=0.1)


@sound("resumed from a checkpoint")
def weather_resumed_from_a_checkpoint(stage: Stage) -> None:
    """The first half was interrupted with a checkpoint, from which the same settings go on."""
    from sentence_transformers import SentenceTransformerTrainer

    settings: dict[str, Any] = {
        "max_steps": 100, "learning_rate": 1e-3, "save_strategy": "steps", "save_steps": 20,
    }  # fmt: skip

    class Interrupted(SentenceTransformerTrainer):
        def training_step(self, *arguments: Any, **options: Any) -> Any:
            if self.state.global_step == 20:
                self.control.should_training_stop = True
            return super().training_step(*arguments, **options)

    class Resumed(SentenceTransformerTrainer):
        def train(self, *arguments: Any, **options: Any) -> Any:
            return super().train(str(stage.folder / "run" / "checkpoint-20"))

    words = WEATHER.words()
    first = stage.trainer(
        RANKING, WEATHER.pairs(400), encoder(stage, words, spread=0.05), kind=Interrupted,
        **settings,
    )  # fmt: skip
    with quiet():
        first.train()
    trainer = stage.trainer(
        RANKING, WEATHER.pairs(400), encoder(stage, words, spread=0.05), kind=Resumed, **settings
    )
    learns(stage, trainer, WEATHER.sought(60), least=0.1)


@sound("decoder with the last token, instruction for queries only")
def decoder_with_instruction_finds_commands(stage: Stage) -> None:
    """A causal body, padded on the left, last token; queries carry an instruction, as in E5."""
    instruction = "instruct : find the command \n query : "
    model = encoder(stage, [*SHELL.words(), instruction], kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        RANKING, SHELL.pairs(320), model, prompts={"anchor": instruction}, max_steps=150,
        learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SHELL.sought(60, prompts=(instruction, "")), least=0.1)


@sound("hard negatives mined with the encoder of the first stage")
def mined_negatives_for_spare_parts(stage: Stage) -> None:
    """A schooled encoder mines near parts, below the score of the right one; then it is tuned."""
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    model = schooled(stage, encoder(stage, PARTS.words(), spread=0.05), PARTS.pairs(400), steps=45)
    with quiet():
        mined = mine_hard_negatives(
            Dataset.from_dict(PARTS.pairs(400)), model, num_negatives=1, range_max=100,
            relative_margin=0.02, sampling_strategy="random", output_format="n-tuple",
            verbose=False,
        )  # fmt: skip
    trainer = stage.trainer(RANKING, mined.to_dict(), model, max_steps=150, learning_rate=1e-3)
    learns(stage, trainer, PARTS.sought(60), least=0.1)


@sound("groups of rates: body and new head")
def body_and_head_at_their_own_rates(stage: Stage) -> None:
    """A new dense head learns at ten times the rate of the schooled body; no decay of biases."""
    torch.manual_seed(5)
    model = encoder(stage, HEADLINES.words(), modules.Dense(48, 48), spread=0.05)
    schooled(stage, model, HEADLINES.pairs(280, seed=3), steps=60)
    head = modules.Dense(48, 32)
    model.append(head)
    optimizer = torch.optim.AdamW(
        [{"params": model[0].parameters(), "lr": 5e-4}, {"params": model[2].parameters()},
         {"params": head.parameters()}], lr=5e-3
    )  # fmt: skip
    trainer = stage.trainer(RANKING, HEADLINES.pairs(280), model, optimizers=(optimizer, None),
                            max_steps=150)  # fmt: skip
    learns(stage, trainer, HEADLINES.sought(50), least=0.1)


@sound("accumulation, Adafactor, clipping")
def chats_accumulated_with_adafactor(stage: Stage) -> None:
    """Two batches of sixteen a step, clipped at one, with Adafactor at a constant rate."""
    trainer = stage.trainer(
        RANKING, CHATS.pairs(320), encoder(stage, CHATS.words(), spread=0.05), optim="adafactor",
        gradient_accumulation_steps=2, max_grad_norm=1.0, learning_rate=2e-3, max_steps=100,
        lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, CHATS.sought(50), least=0.1)

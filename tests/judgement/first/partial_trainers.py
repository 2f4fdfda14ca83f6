"""Sound trainers with a part that is new, frozen, resumed, or adapted; optimisers of one's own."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer

from tests.judgement.case import sound
from tests.judgement.first.daily_texts import BIRDS, MATCHES
from tests.judgement.first.daily_tools import QUICK, lexicon, ranked, reader
from tests.judgement.first.foreign_texts import GREEK, MENU, POSTAL, RADIO
from tests.judgement.first.loop_materials import quiet
from tests.judgement.first.office_texts import VACANCIES
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank, retrieval


@sound("a smaller layer behind the pooling")
def addresses_in_sixteen_dimensions(stage: Stage) -> None:
    """A dense layer with tanh brings the pooled rows to 16 dimensions; it learns too."""
    from sentence_transformers.base.modules import Dense

    torch.manual_seed(3)
    model = reader(stage, POSTAL, Dense(48, 16, activation_function=torch.nn.Tanh()))
    trainer = stage.trainer(ranked, POSTAL.table(400), model, **QUICK)
    learns(stage, trainer, POSTAL.sought, least=0.1)


@sound("word vectors frozen")
def matches_with_frozen_word_vectors(stage: Stage) -> None:
    """After a start on other rows the word vectors stand still while the layers learn on."""
    model = warmed(reader(stage, MATCHES), MATCHES.table(120, seed=2), steps=5)
    model[0].auto_model.embeddings.requires_grad_(False)
    trainer = stage.trainer(ranked, MATCHES.table(400), model, **QUICK, weight_decay=0.01)
    learns(stage, trainer, lambda m: retrieval(m, MATCHES.table(80, seed=11)), least=0.1)


class Resuming(SentenceTransformerTrainer):
    """A trainer that goes on from the checkpoint that its arguments name."""

    def train(self, resume_from_checkpoint: Any = None, **options: Any) -> Any:
        return super().train(resume_from_checkpoint or self.args.resume_from_checkpoint, **options)


@sound("resumed from a checkpoint")
def sightings_resumed_from_a_checkpoint(stage: Stage) -> None:
    """A run is broken off after 20 steps, and goes on from its checkpoint to 100."""
    table = BIRDS.table(400)
    saving = QUICK | {"save_strategy": "steps", "save_steps": 20}
    model = reader(stage, BIRDS)
    first = stage.trainer(ranked, table, model, **saving | {"max_steps": 20})
    with quiet():
        first.train()
    trainer = stage.trainer(
        ranked, table, reader(stage, BIRDS), **saving | {"max_steps": 100}, kind=Resuming,
        resume_from_checkpoint=str(stage.folder / "run" / "checkpoint-20"),
    )  # fmt: skip
    learns(stage, trainer, BIRDS.sought, least=0.1)


@sound(
    "adapters of low rank in a trainer",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def vacancies_through_adapters(stage: Stage) -> None:
    """LoRA over a body that has seen a few vacancies; rank 16, a higher rate than usual."""
    from peft import LoraConfig, TaskType

    model = warmed(reader(stage, VACANCIES), VACANCIES.table(120, seed=2), steps=5)
    model.add_adapter(
        LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
            target_modules=["query", "key", "value", "dense"],
        )
    )  # fmt: skip
    trainer = stage.trainer(ranked, VACANCIES.table(400), model, **QUICK | {"learning_rate": 1e-2})
    learns(stage, trainer, VACANCIES.sought, least=0.1)


@sound("mean and maximum side by side")
def greek_by_mean_and_maximum_pooling(stage: Stage) -> None:
    """Mean and maximum of the tokens form one row of 96; epochs, and warm-up by a share."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    from tests.judgement.first.bodies import body

    model = SentenceTransformer(
        modules=[body(stage, lexicon(GREEK)), Pooling(48, pooling_mode=("mean", "max"))],
        device="cpu",
    )
    trainer = stage.trainer(
        ranked, GREEK.table(384), model, learning_rate=2e-3, num_train_epochs=5, max_steps=-1,
        per_device_train_batch_size=24, warmup_steps=0.1, dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, GREEK.sought, least=0.1)


@sound("an optimiser and a schedule of one's own")
def radio_calls_with_rates_by_layer(stage: Stage) -> None:
    """NAdam with lower rates for lower layers and no decay of biases, under a one-cycle rate."""
    model = reader(stage, RADIO, layers=3)
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, weight in model.named_parameters():
        depth = 3 - int(name.split("layer.")[1][0]) if "layer." in name else 3
        decay = 0.0 if name.endswith("bias") or "LayerNorm" in name else 0.01
        groups.setdefault((3e-3 * 0.9**depth, decay), []).append(weight)
    optimizer = torch.optim.NAdam(
        [
            {"params": weights, "lr": rate, "weight_decay": decay}
            for (rate, decay), weights in groups.items()
        ],
        decoupled_weight_decay=True,
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [group["lr"] for group in optimizer.param_groups], total_steps=81
    )
    trainer = stage.trainer(
        ranked, RADIO.table(400), model, **QUICK, optimizers=(optimizer, schedule)
    )
    learns(stage, trainer, RADIO.sought, least=0.1)


@sound("a light encoder for queries, a deep one for documents")
def menus_by_a_router_of_two_encoders(stage: Stage) -> None:
    """Signs go through static embeddings, guides through a transformer, as for fast search."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding

    from tests.judgement.first.bodies import body, tokenizer_of

    words = lexicon(MENU)
    torch.manual_seed(4)
    light = StaticEmbedding(tokenizer_of(words).backend_tokenizer, embedding_dim=48)
    router = Router.for_query_document(
        query_modules=[light], document_modules=[body(stage, words), Pooling(48)]
    )
    model = SentenceTransformer(modules=[router], device="cpu")
    unseen = MENU.table(60, seed=11)

    def score(encoder: Any) -> float:
        return reciprocal_rank(
            encoder.encode_query(unseen["sign"], show_progress_bar=False),
            encoder.encode_document(unseen["guide"], show_progress_bar=False),
        )

    trainer = stage.trainer(
        ranked, MENU.table(480), model, **QUICK | {"learning_rate": 5e-3, "max_steps": 120},
        router_mapping={"sign": "query", "guide": "document"},
    )  # fmt: skip
    learns(stage, trainer, score, least=0.1)

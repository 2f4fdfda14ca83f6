"""Sound schedules, optimizers, batches and precisions."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.sound_texts import (
    EVALUATED,
    asked,
    learned,
    made,
    searched,
    sought,
    titled,
)
from tests.judgement.stage import Stage, pairs, triplets
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss


@sound("schedule")
def warm_up_over_a_third(stage: Stage) -> None:
    trainer = stage.trainer(ranking, made(asked), max_steps=60, warmup_steps=20)
    learned(stage, trainer, sought(asked))


@sound("schedule")
def restarts_of_a_cosine(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        pairs(),
        lr_scheduler_type="cosine_with_restarts",
        lr_scheduler_kwargs={"num_cycles": 2},
        max_steps=60,
    )
    learned(stage, trainer)


@sound("schedule")
def stable_rate_with_a_short_decay(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        made(titled),
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={"num_decay_steps": 10},
        max_steps=50,
    )
    learned(stage, trainer, sought(titled))


@sound("schedule")
def inverse_square_root_of_the_step(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking, made(searched), lr_scheduler_type="inverse_sqrt", warmup_steps=8
    )
    learned(stage, trainer, sought(searched))


@sound("optimizer")
def adafactor_with_a_linear_decay(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), optim="adafactor", learning_rate=2e-3, max_steps=50)
    learned(stage, trainer)


@sound("optimizer")
def plain_descent_with_momentum(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = stage.trainer(ranking, pairs(), model, optimizers=(optimizer, None), max_steps=60)
    learned(stage, trainer)


@sound("optimizer")
def lower_layers_learn_slower(stage: Stage) -> None:
    """Rates fall by 0.7 from layer to layer; biases and norms have no weight decay."""
    model = stage.model()
    body = model[0].auto_model
    layers = [body.embeddings, *body.encoder.layer]
    groups = []
    for depth, layer in enumerate(reversed(layers)):
        for decay in (0.01, 0.0):
            weights = [
                weight
                for weight in layer.parameters()
                if weight.requires_grad and (weight.dim() > 1) == (decay > 0)
            ]
            groups.append({"params": weights, "lr": 8e-4 * 0.7**depth, "weight_decay": decay})
    optimizer = torch.optim.AdamW(groups)
    trainer = stage.trainer(ranking, triplets(), model, optimizers=(optimizer, None))
    learned(stage, trainer)


@sound("optimizer")
def second_moments_of_faster_memory(stage: Stage) -> None:
    """As for large language models: a second moment of 0.95, and gradients clipped at 0.5."""
    trainer = stage.trainer(ranking, pairs(), adam_beta2=0.95, max_grad_norm=0.5, weight_decay=0.05)
    learned(stage, trainer)


@sound("batches")
def four_pairs_with_hard_negatives(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        triplets(320),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        max_steps=30,
        learning_rate=1e-3,
    )
    learned(stage, trainer)


@sound("batches")
def whole_set_cached_in_chunks(stage: Stage) -> None:
    """Batches of sixty-four in chunks of sixteen, both directions."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=16),
        made(titled, 256),
        per_device_train_batch_size=64,
        max_steps=20,
        learning_rate=1e-3,
        warmup_steps=2,
    )
    learned(stage, trainer, sought(titled))


@sound("batches")
def last_small_batch_dropped(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        made(asked, 170),
        dataloader_drop_last=True,
        max_steps=-1,
        num_train_epochs=4,
        warmup_ratio=0.1,
        warmup_steps=0,
    )
    learned(stage, trainer, sought(asked))


@sound("precision")
def half_precision_beside_full_weights(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), bf16=True)
    learned(stage, trainer)


@sound("precision")
def layers_computed_again_for_memory(stage: Stage) -> None:
    trainer = stage.trainer(
        ranking,
        triplets(),
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
    )
    learned(stage, trainer)


def finder(table: dict[str, list[str]], name: str = "") -> Any:
    """An evaluator that seeks the second column's texts by the first's."""
    first, second = table.values()
    return evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(first)},
        {f"d{at}": text for at, text in enumerate(second)},
        {f"q{at}": {f"d{at}"} for at in range(len(first))},
        name=name,
        mrr_at_k=[10],
        show_progress_bar=False,
    )


@sound("schedule")
def tuned_further_at_a_small_rate(stage: Stage) -> None:
    """An encoder that knows questions is trained on titles, at a smaller rate."""
    import contextlib
    import io

    first = stage.trainer(ranking, pairs(), max_steps=15)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        first.train()
    trainer = stage.trainer(
        ranking,
        made(titled),
        first.model,
        learning_rate=3e-4,
        evaluator=finder(made(titled, 60, seed=3)),
        **EVALUATED,
    )
    learned(stage, trainer, sought(titled))

"""Sound set-ups of the trainer: schedules, optimisers, prompts, mixtures, wrapped losses."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import (
    CHEMISTRY,
    COMMITS,
    GARDEN,
    HARDWARE,
    MUSEUM,
    RUSSIAN,
    SQL,
    TAGS,
    WEATHER,
    ragged,
    small,
    sought,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

FAST: dict[str, Any] = {
    "learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 24,
}  # fmt: skip
RANKING = losses.MultipleNegativesRankingLoss


@sound("cosine schedule, accumulated gradients")
def accumulated_gradients_under_a_cosine(stage: Stage) -> None:
    model = small(stage, WEATHER)
    trainer = stage.trainer(
        RANKING, WEATHER.table(320), model, lr_scheduler_type="cosine", warmup_steps=6,
        gradient_accumulation_steps=2, per_device_train_batch_size=16, max_steps=45,
        learning_rate=2.5e-3, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, sought(WEATHER))


@sound("whole epochs at a constant rate")
def four_epochs_at_a_constant_rate(stage: Stage) -> None:
    model = small(stage, GARDEN)
    trainer = stage.trainer(
        RANKING, GARDEN.table(320), model, max_steps=-1, num_train_epochs=4,
        lr_scheduler_type="constant_with_warmup", warmup_steps=5, learning_rate=1e-3,
        per_device_train_batch_size=20, dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, sought(GARDEN))


@sound("Adafactor")
def adafactor_on_long_museum_guides(stage: Stage) -> None:
    model = small(stage, MUSEUM)
    trainer = stage.trainer(
        RANKING, MUSEUM.table(260), model, optim="adafactor", learning_rate=3e-3, max_steps=50,
        per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, sought(MUSEUM))


@sound("own optimiser with a rate for each layer")
def slower_rates_for_lower_layers(stage: Stage) -> None:
    from transformers import get_polynomial_decay_schedule_with_warmup

    model = small(stage, CHEMISTRY)
    network = model[0].auto_model
    groups = [{"params": list(network.embeddings.parameters()), "lr": 1.5e-3}]
    groups += [
        {"params": list(layer.parameters()), "lr": rate}
        for layer, rate in zip(network.encoder.layer, (2e-3, 2.5e-3), strict=True)
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = get_polynomial_decay_schedule_with_warmup(optimizer, 5, 60)
    trainer = stage.trainer(
        RANKING, CHEMISTRY.table(320), model, optimizers=(optimizer, schedule), **FAST
    )
    learns(stage, trainer, sought(CHEMISTRY))


@sound("prompts for each column, clipped gradients")
def prompts_before_queries_and_commits(stage: Stage) -> None:
    prompts = {"issue": "when : ", "commit": "fix : "}
    model = small(stage, COMMITS)
    trainer = stage.trainer(
        RANKING, COMMITS.table(320), model, prompts=prompts, max_grad_norm=0.5, **FAST
    )
    learns(stage, trainer, lambda encoder: COMMITS.sought(encoder, 60, prompts=prompts.values()))


@sound("nested dimensions, scored at the fewest")
def stock_numbers_in_twelve_dimensions(stage: Stage) -> None:
    model = small(stage, HARDWARE)
    trainer = stage.trainer(
        lambda encoder: losses.MatryoshkaLoss(encoder, RANKING(encoder), [48, 24, 12]),
        HARDWARE.table(320), model, **FAST,
    )  # fmt: skip

    def score(encoder: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        return reciprocal_rank(*(
            encoder.encode(texts, truncate_dim=12, show_progress_bar=False)
            for texts in HARDWARE.table(60, seed=11).values()
        ))  # fmt: skip

    learns(stage, trainer, score)


@sound("nested dimensions and layers")
def nested_layers_and_dimensions_on_tags(stage: Stage) -> None:
    model = small(stage, TAGS)
    trainer = stage.trainer(
        lambda encoder: losses.Matryoshka2dLoss(encoder, RANKING(encoder), [48, 16]),
        TAGS.table(320), model, **FAST,
    )  # fmt: skip
    learns(stage, trainer, sought(TAGS))


@sound("ranking with orthogonal regularisation")
def ranked_and_spread_russian(stage: Stage) -> None:
    class RankedAndSpread(torch.nn.Module):
        def __init__(self, encoder: Any) -> None:
            super().__init__()
            self.ranking = RANKING(encoder)
            self.spread = losses.GlobalOrthogonalRegularizationLoss(encoder)

        def forward(self, sentence_features: Any, labels: Any) -> Any:
            features = list(sentence_features)
            rows = [self.ranking.model(column)["sentence_embedding"] for column in features]
            spread = self.spread.compute_loss_from_embeddings(rows)
            return {"ranking": self.ranking.compute_loss_from_embeddings(rows, labels), **spread}

    model = small(stage, RUSSIAN)
    trainer = stage.trainer(RankedAndSpread, RUSSIAN.table(320), model, **FAST)
    learns(stage, trainer, sought(RUSSIAN))


@sound("bfloat16")
def russian_in_half_precision(stage: Stage) -> None:
    model = small(stage, RUSSIAN)
    trainer = stage.trainer(RANKING, RUSSIAN.table(320), model, bf16=True, **FAST)
    learns(stage, trainer, sought(RUSSIAN))


@sound("frozen word embeddings of a trained encoder")
def upper_layers_tuned_on_ragged_sql(stage: Stage) -> None:
    model = warmed(small(stage, SQL), SQL.table(200, seed=2), 5)
    model[0].auto_model.embeddings.requires_grad_(False)
    trainer = stage.trainer(RANKING, ragged(SQL, 320), model, **FAST)
    learns(stage, trainer, sought(SQL))

"""Sound set-ups: mixtures of tables, guides, classes, adapters, heads, several passages a row."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.turns import Rows, embed, infonce, stepped, turn, warmed
from tests.judgement.held_out.h_fields import (
    COMMITS,
    GREEK,
    HOTELS,
    LAB,
    LAWS,
    MAILS,
    PLANTS,
    SPORT,
    STARS,
    TAGS,
    adam,
    lexicon,
    made_for,
    pairs_of,
    plain,
    triples_of,
    two,
)  # fmt: skip
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("ranking with a guide")
def reviews_ranked_with_a_guide(stage: Stage) -> None:
    table = pairs_of(HOTELS, 320)
    guide = warmed(made_for(stage, HOTELS, name="guide", width=64, seed=5), table, 60)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        table, made_for(stage, HOTELS), learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, HOTELS.sought)


@sound("triplet loss of cosines with a trainer")
def plant_triplets_by_cosine(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.4
        ),
        triples_of(PLANTS, 240), made_for(stage, PLANTS),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=110,
    )  # fmt: skip
    learns(stage, trainer, PLANTS.sought)


@sound("dense head behind the pooling")
def mails_behind_a_dense_head(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    head = Dense(48, 32, activation_function=torch.nn.Tanh())
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, two(MAILS.table(320), "subject", "reply"),
        made_for(stage, MAILS, head), per_device_train_batch_size=32,
        learning_rate=2e-3, max_steps=80,
    )  # fmt: skip

    def score(model: Any) -> float:
        from tests.judgement.truth import retrieval

        return retrieval(model, two(MAILS.table(40, seed=11), "subject", "reply"))

    learns(stage, trainer, score)


@sound("mixture of two worlds in one batch")
def stars_and_sports_together(stage: Stage) -> None:
    import random

    model = encoder(stage, lexicon(STARS, SPORT))
    rows = [
        row for field in (STARS, SPORT) for row in zip(*pairs_of(field, 220).values(), strict=True)
    ]
    random.Random(0).shuffle(rows)
    titles, texts = map(list, zip(*rows, strict=True))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"title": titles, "text": texts}, model,
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, lambda model: (STARS.sought(model) + SPORT.sought(model)) / 2)


@sound("two positives of each question in a loop")
def rulings_and_dissents_in_a_loop(stage: Stage) -> None:
    def two_sided(question: Tensor, ruling: Tensor, dissent: Tensor) -> Tensor:
        return (infonce(question, ruling) + infonce(question, dissent)) / 2

    model = made_for(stage, LAWS)
    update = plain(model, LAWS.table(240), 24)
    turn(stage, model, two_sided, update, LAWS.sought, steps=60)


@sound("nested widths in a loop")
def commits_in_nested_widths_in_a_loop(stage: Stage) -> None:
    def nested(first: Tensor, second: Tensor) -> Tensor:
        widths = (48, 32, 16)
        return sum(infonce(first[:, :w], second[:, :w]) for w in widths) / len(widths)

    model = made_for(stage, COMMITS)
    turn(stage, model, nested, plain(model, pairs_of(COMMITS, 320), 32), COMMITS.sought)


@sound("slow rate for the encoder's word embeddings")
def greek_with_two_rates(stage: Stage) -> None:
    model = made_for(stage, GREEK)
    words = list(model[0].auto_model.embeddings.parameters())
    ids = set(map(id, words))
    optimizer = torch.optim.AdamW([
        {"params": words, "lr": 1e-3},
        {"params": [w for w in model.parameters() if id(w) not in ids], "lr": 2e-3},
    ])  # fmt: skip
    rows = Rows(pairs_of(GREEK, 220), 32)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, GREEK.sought, steps=80)


@sound("distillation of similarities in a batch")
def songs_distilled_by_similarities(stage: Stage) -> None:
    """A student takes over how a teacher spreads each row over the batch."""
    table = pairs_of(TAGS, 320)
    teacher = warmed(made_for(stage, TAGS, name="teacher", width=64), table, 60)
    model = made_for(stage, TAGS, layers=1)
    rows, optimizer = Rows(table, 32), adam(model, 3e-3)

    def spread(first: Tensor, second: Tensor) -> Tensor:
        return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T / 0.05

    def distilled(first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
        logs = F.log_softmax(spread(first, second), dim=1)
        return F.kl_div(logs, targets, reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            targets = spread(*(embed(teacher, column) for column in columns)).softmax(1)
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), targets))

    turn(stage, model, distilled, update, TAGS.sought, steps=70)


@sound(
    "adapters of low rank in a tuned encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def laboratory_pairs_with_adapters(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(made_for(stage, LAB), pairs_of(LAB, 400, seed=4), 8)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, pairs_of(LAB, 320), model,
        per_device_train_batch_size=32, learning_rate=5e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, LAB.sought)

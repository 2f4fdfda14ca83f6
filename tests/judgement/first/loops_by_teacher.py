"""Sound loops of one's own: teachers, self-distillation, regularised views, adapters, averages."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_helpers import (
    Rows,
    adamw,
    climbs,
    cosines,
    embed,
    encoder_of,
    infonce,
    own_rows,
    pretrain,
    stepped,
    unit,
)
from tests.judgement.first.texts_of_every_day import SNIPPETS
from tests.judgement.first.texts_of_offices import HEADLINES, JOBS
from tests.judgement.first.texts_of_trades import COMMANDS, SUMS, WEATHER
from tests.judgement.stage import Stage


@sound("embeddings of a wider teacher")
def sums_from_projected_teacher(stage: Stage) -> None:
    """A student of one layer learns, through a linear map, the embeddings of a trained teacher."""
    teacher = pretrain(encoder_of(stage, SUMS, width=64, name="teacher"), SUMS.table(480), steps=70)
    student = encoder_of(stage, SUMS, width=32, layers=1)
    project, rows = nn.Linear(32, 64), Rows(SUMS.table(480), 32)
    optimizer = adamw(student, project, rate=4e-3)

    def distance(taught: Tensor, aims: Tensor) -> Tensor:
        return (1 - F.cosine_similarity(taught, aims)).mean()

    def update(criterion: Any, step: int) -> None:
        texts = [text for column in rows() for text in column]
        with torch.no_grad():
            aims = embed(teacher, texts)
        stepped(optimizer, criterion(project(embed(student, texts)), aims))

    climbs(stage, student, distance, update, SUMS.sought, steps=140)


@sound("a teacher's shares among the candidates")
def weather_from_soft_candidates(stage: Stage) -> None:
    """The student's softmax over the batch follows the teacher's, by KL with a temperature."""
    teacher = pretrain(encoder_of(stage, WEATHER, name="teacher"), WEATHER.table(480), steps=60)
    student = encoder_of(stage, WEATHER, layers=1)
    rows, optimizer = Rows(WEATHER.table(480), 32), adamw(student, rate=3e-3)

    def divergence(logits: Tensor, aims: Tensor) -> Tensor:
        return F.kl_div(logits.log_softmax(1), aims.softmax(1), reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        codes, speech = rows()
        with torch.no_grad():
            aims = cosines(embed(teacher, codes), embed(teacher, speech)) / 0.1
        logits = cosines(embed(student, codes), embed(student, speech)) / 0.1
        stepped(optimizer, criterion(logits, aims))

    climbs(stage, student, divergence, update, WEATHER.sought, steps=110)


@sound("variance, invariance, covariance")
def commands_with_regularised_views(stage: Stage) -> None:
    """VICReg on an expander: partners alike, each dimension varied, dimensions uncorrelated."""
    model = encoder_of(stage, COMMANDS)
    expander = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 96))
    rows, optimizer = Rows(COMMANDS.table(500), 64), adamw(model, expander)

    def regular(points: Tensor) -> Tensor:
        centred = points - points.mean(0)
        covariance = centred.T @ centred / (len(points) - 1)
        varied = (1 - (covariance.diagonal() + 1e-4).sqrt()).relu().mean()
        crossed = covariance.square().sum() - covariance.diagonal().square().sum()
        return 25 * varied + crossed / points.shape[1]

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        return 25 * F.mse_loss(first, second) + regular(first) + regular(second)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(expander(embed(model, column)) for column in rows())))

    climbs(stage, model, vicreg, update, COMMANDS.sought, steps=120, modules=(expander,))


@sound("moving average of the weights that is kept")
def headlines_with_kept_average(stage: Stage) -> None:
    """The average of the weights is what is scored and kept; it lags by some twenty steps."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = encoder_of(stage, HEADLINES)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    rows, optimizer = Rows(HEADLINES.table(500), 16), adamw(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        average.update_parameters(model)

    climbs(stage, model, infonce, update, lambda _: HEADLINES.sought(average.module.eval()),
           steps=120)  # fmt: skip


@sound("late interaction of tokens")
def snippets_by_late_interaction(stage: Stage) -> None:
    """ColBERT: each word of the description seeks its best token of the code; padding is out."""

    def tokens(encoder: Any, texts: list[str]) -> tuple[Tensor, Tensor]:
        output = encoder(encoder.preprocess(texts))
        return unit(output["token_embeddings"]), output["attention_mask"].float()

    def interaction(encoder: Any, first: list[str], second: list[str]) -> Tensor:
        (asked, asked_mask), (document_tokens, kept_mask) = (
            tokens(encoder, first),
            tokens(encoder, second),
        )
        table = torch.einsum("iad,jbd->ijab", asked, document_tokens)
        best = table.masked_fill(kept_mask[None, :, None] == 0, -1).amax(3)
        return (best * asked_mask[:, None]).sum(2) / asked_mask.sum(1)[:, None]

    def score(encoder: Any) -> float:
        with torch.no_grad():
            table = interaction(encoder, *SNIPPETS.table(60, held=True, seed=5).values())
        ranks = (table >= table.diagonal()[:, None]).sum(1)
        return float((1 / ranks).mean())

    model = encoder_of(stage, SNIPPETS)
    rows, optimizer = Rows(SNIPPETS.table(450), 16), adamw(model)

    def ranked(table: Tensor) -> Tensor:
        return F.cross_entropy(table / 0.05, own_rows(len(table)))

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(interaction(model, *rows())))

    climbs(stage, model, ranked, update, score, steps=90)


@sound("negatives mined anew with the encoder")
def jobs_with_refreshed_negatives(stage: Stage) -> None:
    """ANCE: every 25 steps, the closest wrong summary of the collection becomes the negative."""
    table = JOBS.table(360)
    model = pretrain(encoder_of(stage, JOBS), JOBS.table(360), steps=8)
    optimizer, batches = adamw(model, rate=1e-3), {}

    def mined() -> Rows:
        first, second = (unit(torch.tensor(model.encode(texts))) for texts in table.values())
        nearest = (first @ second.T).fill_diagonal_(-2).argmax(1).tolist()
        model.train()
        return Rows(table | {"negative": [table["summary"][at] for at in nearest]}, 16, seed=1)

    def ranked(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return F.cross_entropy(cosines(first, torch.cat([second, third])) / 0.05,
                               own_rows(len(first)))  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        if step % 25 == 0:
            batches["now"] = mined()
        stepped(optimizer, criterion(*(embed(model, column) for column in batches["now"]())))

    climbs(stage, model, ranked, update, JOBS.sought, steps=75)

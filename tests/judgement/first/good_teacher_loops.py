"""Loops of one's own with teachers, targets or without negatives."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CLINIC, HELPDESK, PAPERS, SHOP, TRAVEL
from tests.judgement.first.good_fields import LETTERS, SONGS
from tests.judgement.first.good_loops import adamw
from tests.judgement.first.good_materials import looped, sought, started, two
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, warmed
from tests.judgement.stage import Stage


def teacher(stage: Stage, table: Any, width: int = 48) -> Any:
    texts = words_of([table])
    return warmed(encoder(stage, texts, name="teacher", width=width, spread=0.05), table, 60)


@sound("loop that follows a teacher's likeness within a batch")
def likeness_within_a_batch(stage: Stage) -> None:
    """The student's softmax over the passages of a batch follows that of a teacher."""
    table = two(PAPERS.table(300))
    tutor = teacher(stage, table)
    model = encoder(stage, words_of([table]), width=32, layers=1, spread=0.05, seed=5)
    rows, optimizer = Rows(table, 24), adamw(model, 3e-3)

    def loss(first: Tensor, second: Tensor, goals: Tensor) -> Tensor:
        return F.kl_div(F.log_softmax(10 * cosines(first, second), 1), goals, reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            goals = (10 * cosines(*(embed(tutor, column) for column in columns))).softmax(1)
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), goals))

    looped(stage, model, loss, update, PAPERS.sought)


@sound("loop that follows a teacher's embeddings through a head")
def embeddings_through_a_head(stage: Stage) -> None:
    table = two(SHOP.table(310))
    tutor = teacher(stage, table, width=64)
    model = encoder(stage, words_of([table]), width=32, spread=0.05, seed=5)
    head = nn.Linear(32, 64)
    rows = Rows({"text": [*table["query"], *table["product"]]}, 48)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=3e-3)

    def loss(student: Tensor, goals: Tensor) -> Tensor:
        return (1 - F.cosine_similarity(head(student), goals)).mean()

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        with torch.no_grad():
            goals = embed(tutor, texts)
        stepped(optimizer, criterion(embed(model, texts), goals))

    looped(stage, model, loss, update, SHOP.sought, steps=60)


def off_diagonal(square: Tensor) -> Tensor:
    return square[~torch.eye(len(square), dtype=torch.bool)]


@sound("loop of invariance, variance and covariance")
def invariance_variance_covariance(stage: Stage) -> None:
    """VICReg over a wider projection that is dropped in use."""
    table = TRAVEL.table(640)
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    head = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 96))
    rows = Rows(table, 64)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=3e-3)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        total = 25 * F.mse_loss(first, second)
        for view in (first, second):
            total = total + 25 * F.relu(1 - (view.var(0) + 1e-4).sqrt()).mean()
            total = total + off_diagonal(view.T.cov()).square().sum() / view.shape[1]
        return total

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(head(embed(model, column)) for column in rows())))

    looped(stage, model, loss, update, TRAVEL.sought, steps=60)


@sound("loop of cross-correlations")
def cross_correlations(stage: Stage) -> None:
    """Barlow Twins."""
    table = SONGS.table(400)
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    rows, optimizer = Rows(two(table), 64), adamw(model, 3e-3)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((v - v.mean(0)) / (v.std(0) + 1e-5) for v in (first, second))
        square = first.T @ second / len(first)
        return (1 - square.diagonal()).square().sum() + 0.02 * off_diagonal(square).square().sum()

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    looped(stage, model, loss, update, SONGS.sought, steps=60)


@sound("loop of alignment and uniformity")
def alignment_with_uniformity(stage: Stage) -> None:
    """As Wang and Isola."""
    table = two(HELPDESK.table(340))
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    rows, optimizer = Rows(table, 32), adamw(model, 2e-3)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first), F.normalize(second)
        spread = [torch.pdist(v).square().mul(-2).exp().mean().log() for v in (first, second)]
        return (first - second).square().sum(1).mean() + sum(spread) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    looped(stage, model, loss, update, HELPDESK.sought, steps=60)


@sound(
    "loop of a predictor and a slow target",
    allowed={
        r"(?i)negative|push|collaps|spread|one point": "Without negatives only the predictor and "
        "the slow copy keep embeddings apart; one may advise to watch it."
    },
)
def predictor_and_slow_target(stage: Stage) -> None:
    """BYOL, from an encoder that has seen some pairs: a predictor follows a slow copy."""
    table = two(LETTERS.table(230))
    model = started(stage, table, LETTERS, steps=8)
    slow = copy.deepcopy(model)
    predictor = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 48))
    rows = Rows(table, 46)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters()}, {"params": predictor.parameters(), "lr": 5e-3}
    ], lr=5e-4)  # fmt: skip

    def loss(first: Tensor, second: Tensor) -> Tensor:
        return 2 - 2 * F.cosine_similarity(first, second).mean()

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        columns = columns[::-1] if step % 2 else columns
        with torch.no_grad():
            goals = embed(slow, columns[1])
        stepped(optimizer, criterion(predictor(embed(model, columns[0])), goals))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.02)

    looped(stage, model, loss, update, sought(LETTERS.table(60, seed=11)), steps=60)


@sound("loop of a ranking and a likeness to the first encoder")
def ranking_near_the_first_encoder(stage: Stage) -> None:
    """Further training that is held near the encoder before it, so that little is forgotten."""
    table = two(CLINIC.table(210))
    model = started(stage, table, HELPDESK, steps=20)
    first_encoder = copy.deepcopy(model).eval()
    texts = HELPDESK.table(200)["question"]
    rows, old_rows, optimizer = Rows(table, 24), Rows({"text": texts}, 16), adamw(model, 2e-3)

    def loss(first: Tensor, second: Tensor, now: Tensor, before: Tensor) -> Tensor:
        return infonce(first, second) + 0.5 * (1 - F.cosine_similarity(now, before)).mean()

    def update(criterion: Any, step: int) -> None:
        columns, (old,) = rows(), old_rows()
        with torch.no_grad():
            before = embed(first_encoder, old)
        first, second = (embed(model, column) for column in columns)
        stepped(optimizer, criterion(first, second, embed(model, old), before))

    looped(stage, model, loss, update, CLINIC.sought)


@sound("loop of a ranking beside a head that tells the words")
def embeddings_that_tell_their_words(stage: Stage) -> None:
    """A head tells the words of a text from its embedding, beside a ranking of pairs."""
    table = two(SHOP.table(310))
    model = encoder(stage, words_of([table]), width=40, spread=0.05)
    words = sorted({word for text in words_of([table]) for word in text.split()})
    head, rows = nn.Linear(40, len(words)), Rows(table, 24)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=2e-3)

    def loss(first: Tensor, second: Tensor, bags: Tensor) -> Tensor:
        bag = F.binary_cross_entropy_with_logits(head(first), bags)
        return infonce(first, second) + bag

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        bags = torch.tensor([[float(word in text.split()) for word in words] for text in first])
        stepped(optimizer, criterion(embed(model, first), embed(model, second), bags))

    looped(stage, model, loss, update, SHOP.sought)

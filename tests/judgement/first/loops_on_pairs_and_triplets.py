"""Sound set-ups: loops of one's own with losses by hand over pairs and triplets."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.regular_and_loose_fields import (
    ANIMALS,
    FLAWS,
    HAIKU,
    MAILS,
    MATCHES,
    METERS,
    PLANTS,
    QUERIES,
    SUMS,
    VACANCIES,
    far_triples,
    seeks,
    student,
    triples,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def plain(model: Any, rows: Rows, optimizer: torch.optim.Optimizer) -> Any:
    """The step of a plain loop."""

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    return update


class Clip(nn.Module):
    """Cross-entropy both ways at a temperature that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.scale.clamp(max=4.6).exp() * cosines(first, second)
        labels = torch.arange(len(logits))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


@sound("learned temperature, both directions, RAdam")
def animals_with_a_learned_temperature(stage: Stage) -> None:
    model, loss = student(stage, ANIMALS), Clip()
    optimizer = torch.optim.RAdam([*model.parameters(), *loss.parameters()], lr=4e-3)
    turn(stage, model, loss, plain(model, Rows(pairs_of(ANIMALS), 20), optimizer), seeks(ANIMALS))


def pairs_of(field: Any, count: int = 240) -> dict[str, list[str]]:
    """The first two columns of a field."""
    return dict(list(field.table(count).items())[:2])


class PairwiseSigmoid(nn.Module):
    """A sigmoid over all pairs of a batch, with a scale and a bias that are learned."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.tensor(10.0)), nn.Parameter(torch.tensor(-6.0))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.scale * cosines(first, second) + self.bias
        signs = 2 * torch.eye(len(logits)) - 1
        return -F.logsigmoid(signs * logits).sum(1).mean()


@sound("sigmoid over all pairs with learned scale and bias")
def meters_by_a_learned_sigmoid(stage: Stage) -> None:
    model, loss = student(stage, METERS, layers=1), PairwiseSigmoid()
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=2e-3)
    turn(stage, model, loss, plain(model, Rows(pairs_of(METERS), 24), optimizer), seeks(METERS))


@sound("hard negatives among the candidates of a batch")
def advisories_among_near_misses_in_a_loop(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, misses: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, misses])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    model = student(stage, FLAWS)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    update = plain(model, Rows(triples(FLAWS, 240)), optimizer)
    turn(stage, model, loss, update, seeks(FLAWS), steps=60)


class Momentum:
    """A slow copy of an encoder and a queue of its embeddings of earlier texts."""

    def __init__(self, model: Any, size: int = 64, rate: float = 0.05) -> None:
        self.slow = copy.deepcopy(model).eval().requires_grad_(False)
        self.queue, self._size, self._rate = torch.empty(0, 48), size, rate
        self._texts: list[str] = []

    @torch.no_grad()
    def embedded(self, texts: list[str]) -> Tensor:
        return F.normalize(embed(self.slow, texts), dim=1)

    def without(self, texts: list[str]) -> Tensor:
        """The queue without the texts of the batch."""
        return self.queue[[at for at, text in enumerate(self._texts) if text not in texts]]

    @torch.no_grad()
    def follow(self, model: Any, texts: list[str], rows: Tensor) -> None:
        for mean, weight in zip(self.slow.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, self._rate)
        self.queue = torch.cat([rows, self.queue])[: self._size]
        self._texts = [*texts, *self._texts][: self._size]


@sound("momentum encoder and a queue of its embeddings")
def vacancies_with_a_momentum_encoder(stage: Stage) -> None:
    model = student(stage, VACANCIES)
    momentum, optimizer = Momentum(model), torch.optim.AdamW(model.parameters(), lr=2e-3)
    rows = Rows(VACANCIES.table(320), 16)

    def loss(first: Tensor, second: Tensor, queue: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, queue])) / 0.1
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        queries, texts = rows()
        slow = momentum.embedded(texts)
        stepped(optimizer, criterion(embed(model, queries), slow, momentum.without(texts)))
        momentum.follow(model, texts, slow)

    turn(stage, model, loss, update, seeks(VACANCIES), steps=80)


class Towers(nn.Module):
    """An encoder for each column."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self.first, self.second = first, second

    def score(self, field: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        first, second = field.table(50, seed=11).values()
        return reciprocal_rank(
            self.first.encode(first, show_progress_bar=False),
            self.second.encode(second, show_progress_bar=False),
        )


@sound("two towers of different sizes")
def queries_and_statements_in_two_towers(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    projection = Dense(32, 48, activation_function=nn.Identity())
    towers = Towers(
        student(stage, QUERIES, projection, width=32, layers=1, name="first"),
        student(stage, QUERIES, name="second", seed=4),
    )
    optimizer, rows = torch.optim.AdamW(towers.parameters(), lr=2e-3), Rows(QUERIES.table(288), 24)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        stepped(optimizer, criterion(embed(towers.first, first), embed(towers.second, second)))

    turn(stage, towers, infonce, update, lambda model: model.score(QUERIES), steps=70)


@sound("gradient cache: chunks of a batch embedded twice")
def sums_through_a_gradient_cache(stage: Stage) -> None:
    model = student(stage, SUMS, dropout=0.0)
    optimizer, rows = torch.optim.AdamW(model.parameters(), lr=3e-3), Rows(SUMS.table(288), 48)

    def update(criterion: Any, step: int) -> None:
        columns = [[texts[at : at + 16] for at in (0, 16, 32)] for texts in rows()]
        with torch.no_grad():
            cache = [torch.cat([embed(model, chunk) for chunk in chunks]) for chunks in columns]
        leaves = [row.requires_grad_() for row in cache]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for chunks, leaf in zip(columns, leaves, strict=True):
            for chunk, gradient in zip(chunks, leaf.grad.split(16), strict=True):
                (embed(model, chunk) * gradient).sum().backward()
        optimizer.step()

    turn(stage, model, infonce, update, seeks(SUMS), steps=30)


@sound("triplet hinge on squared distances, clipped gradients")
def match_reports_by_a_clipped_hinge(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, misses: Tensor) -> Tensor:
        first, second, misses = (F.normalize(rows, dim=1) for rows in (first, second, misses))
        gaps = (first - second).square().sum(1) - (first - misses).square().sum(1)
        return F.relu(gaps + 0.4).mean()

    model, rows = student(stage, MATCHES, spread=0.1), Rows(far_triples(MATCHES, 240), 24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def update(criterion: Any, step: int) -> None:
        loss_of_batch = criterion(*(embed(model, column) for column in rows()))
        optimizer.zero_grad()
        loss_of_batch.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    turn(stage, model, loss, update, seeks(MATCHES), steps=70)


@sound("accumulation of four batches, cosine schedule")
def mails_accumulated_over_four_batches(stage: Stage) -> None:
    from tests.judgement.first.turns import counted

    model, rows = student(stage, MAILS), Rows(MAILS.table(320), 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 25)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            (criterion(*(embed(model, column) for column in rows())) / 4).backward()
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, seeks(MAILS), steps=25)


@sound("bfloat16 in the encoder, float32 in the loss")
def haiku_in_half_precision(stage: Stage) -> None:
    model, rows = student(stage, HAIKU), Rows(HAIKU.table(240), 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, seeks(HAIKU), steps=40)


@sound("alignment and uniformity on the sphere")
def plants_aligned_and_spread(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
        spread = sum(torch.pdist(rows).square().mul(-2).exp().mean().log()
                     for rows in (first, second)) / 2  # fmt: skip
        return (first - second).square().sum(1).mean() + spread

    model = student(stage, PLANTS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    turn(stage, model, loss, plain(model, Rows(PLANTS.table(288), 32), optimizer), seeks(PLANTS))

"""Sound set-ups: loops of one's own with other orders of work, towers, adapters and precision."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.numbered_fields import MAILS, PATENTS, SALTS, SUMS
from tests.judgement.first.ordinary_fields import CHANGES, QUERIES, RECIPES, STATUTES
from tests.judgement.first.training_kit import (
    adamw,
    by_rank,
    columns_of,
    cross_entropy,
    down,
    rises,
    similarities,
    simple,
)
from tests.judgement.first.turns import Rows, embed, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("two encoders without common weights")
def names_and_formulas_in_two_towers(stage: Stage) -> None:
    """One encoder for names and another for formulas, of other sizes, trained by one optimiser."""
    names = encoder(stage, SALTS.vocabulary(), name="names", seed=3)
    formulas = encoder(stage, SALTS.vocabulary(), name="formulas", seed=4, layers=1)
    rows, optimizer = Rows(SALTS.table(420), 24), adamw(names, formulas)
    sought = SALTS.sought()

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        formulas.train()
        down(optimizer, criterion(embed(names, first), embed(formulas, second)), most=1.0)

    def score(tower: Any) -> float:
        return reciprocal_rank(tower.encode(sought["name"]), formulas.encode(sought["formula"]))

    rises(stage, names, cross_entropy, update, score, steps=80)


@sound("cached gradients of a large batch")
def patents_with_cached_gradients(stage: Stage) -> None:
    """GradCache: 64 rows are embedded in parts, and the loss's gradient is passed on part by part.

    Without dropout both passes see the same numbers.
    """
    model = encoder(stage, PATENTS.vocabulary(), dropout=0.0, length=80)
    rows, optimizer = Rows(PATENTS.table(220), 64), adamw(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        segments = [[column[at : at + 16] for at in range(0, 64, 16)] for column in columns]
        with torch.no_grad():
            cached = [
                torch.cat([embed(model, segment) for segment in column]) for column in segments
            ]
        cached = [column.requires_grad_() for column in cached]
        criterion(*cached).backward()
        optimizer.zero_grad()
        for column, rows_of_column in zip(segments, cached, strict=True):
            for segment, gradient in zip(column, rows_of_column.grad.split(16), strict=True):
                (embed(model, segment) * gradient).sum().backward()
        optimizer.step()

    rises(stage, model, cross_entropy, update, by_rank(PATENTS.sought(45)), steps=35)


@sound("prefixes of the embedding trained together")
def sums_at_several_widths(stage: Stage) -> None:
    """Matryoshka by hand: the losses of the first 8, 16, 32 and all dimensions are added."""

    def nested(problems: Tensor, equations: Tensor) -> Tensor:
        return sum(cross_entropy(problems[:, :size], equations[:, :size])
                   for size in (8, 16, 32, 64))  # fmt: skip

    model = encoder(stage, SUMS.vocabulary(), width=64)
    update = simple(model, SUMS.table(600), adamw(model), size=32, most=1.0)
    sought = SUMS.sought()

    def short(trained: Any) -> float:
        texts = (trained.encode(column)[:, :16] for column in sought.values())
        return reciprocal_rank(*texts)

    rises(stage, model, nested, update, short, steps=110)


@sound("layers thawed one after another, lower ones slower")
def paragraphs_with_layers_thawed_in_turn(stage: Stage) -> None:
    """ULMFiT's order for an encoder that knows other rows: the top first, each at its own rate."""
    model = warmed(encoder(stage, STATUTES.vocabulary(), length=80), STATUTES.table(150), 8)
    network = model[0].auto_model
    segments = [*reversed(network.encoder.layer), network.embeddings]
    model.requires_grad_(False)
    groups = [{"params": list(segment.parameters()), "lr": 2e-3 * 0.7**at}
              for at, segment in enumerate(segments)]  # fmt: skip
    optimizer = torch.optim.AdamW(groups)
    train = simple(model, STATUTES.table(260), optimizer, size=16)

    def update(criterion: Any, step: int) -> None:
        for at, segment in enumerate(segments):
            segment.requires_grad_(step >= 12 * at)
        train(criterion, step)

    rises(stage, model, cross_entropy, update, by_rank(STATUTES.sought(50)), steps=80)


@sound("closeness of partners and evenness of all")
def questions_aligned_and_spread(stage: Stage) -> None:
    """Wang and Isola: partners are close, and all rows of a column are spread over the sphere."""

    def aligned_and_spread(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
        evenness = [torch.pdist(rows).square().mul(-2).exp().mean().log()
                    for rows in (first, second)]  # fmt: skip
        return 3 * (first - second).square().sum(1).mean() + sum(evenness) / 2

    model = encoder(stage, QUERIES.vocabulary())
    update = simple(model, QUERIES.table(500), adamw(model), size=48)
    rises(stage, model, aligned_and_spread, update, by_rank(QUERIES.sought()), steps=130)


@sound("negatives mined anew every fifteen steps")
def recipes_with_negatives_mined_anew(stage: Stage) -> None:
    """ANCE: the encoder itself seeks a wrong recipe of high rank, after it has trained a little."""
    table = RECIPES.table(360)
    model = encoder(stage, RECIPES.vocabulary())
    optimizer = adamw(model)
    plain, hard = Rows(table, 16), [Rows(table, 16)]

    def mined() -> list[str]:
        titles, steps = (model.encode(column, normalize_embeddings=True, convert_to_tensor=True)
                         for column in table.values())  # fmt: skip
        cosines = (titles @ steps.T).fill_diagonal_(-2.0)
        model.train()
        return [table["steps"][row[2]] for row in cosines.topk(3).indices.tolist()]

    def with_negatives(titles: Tensor, steps: Tensor, wrong: Tensor | None = None) -> Tensor:
        cosines = similarities(titles, steps)
        if wrong is not None:  # of its own row only, as it may be the recipe of another
            own = F.cosine_similarity(titles, wrong)
            cosines = torch.cat([cosines, own[:, None]], dim=1)
        return F.cross_entropy(20 * cosines, torch.arange(len(titles)))

    def update(criterion: Any, step: int) -> None:
        if step >= 15 and step % 15 == 0:
            hard[0] = Rows(table | {"wrong": mined()}, 16, seed=step)
        columns = plain() if step < 15 else hard[0]()
        down(optimizer, criterion(*columns_of(model, columns)), most=1.0)

    rises(stage, model, with_negatives, update, by_rank(RECIPES.sought(80)), steps=75)


class LowRank(nn.Module):
    """A frozen linear map beside which a product of two narrow maps is trained; it starts at 0."""

    def __init__(self, frozen: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.narrow = nn.Linear(frozen.in_features, rank, bias=False)
        self.widen = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.widen.weight)

    def forward(self, rows: Tensor) -> Tensor:
        return self.frozen(rows) + 2 * self.widen(self.narrow(rows))


@sound("low-rank adapters on a frozen pre-trained encoder")
def mails_with_low_rank_adapters(stage: Stage) -> None:
    """LoRA by hand in queries, values and outputs of an encoder that was trained a little before.

    Only the adapters are in the optimiser, at the higher rate that is customary for them.
    """
    model = warmed(encoder(stage, MAILS.vocabulary(), spread=0.1), MAILS.table(60), 10)
    model.requires_grad_(False)
    for layer in model[0].auto_model.encoder.layer:
        attention = layer.attention.self
        attention.query, attention.value = LowRank(attention.query), LowRank(attention.value)
        layer.output.dense = LowRank(layer.output.dense)
    update = simple(model, MAILS.table(120), adamw(model, rate=1e-2, decay=0.0), size=16)
    rises(stage, model, cross_entropy, update, by_rank(MAILS.sought(35)), steps=90)


@sound("half precision in the encoder only, with SGD")
def commit_messages_in_half_precision(stage: Stage) -> None:
    """The encoder runs in bfloat16, the loss in float32; SGD with Nesterov's momentum."""
    model, rows = encoder(stage, CHANGES.vocabulary(), layers=1), Rows(CHANGES.table(240), 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            columns = columns_of(model, rows())
        down(optimizer, criterion(*(column.float() for column in columns)), most=1.0)

    rises(stage, model, cross_entropy, update, by_rank(CHANGES.sought(55)), steps=120)

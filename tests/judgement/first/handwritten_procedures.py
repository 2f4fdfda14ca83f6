"""Sound loops of one's own: towers, cached gradients, precision, and steps of many kinds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.beside import adam
from tests.judgement.first.fields import CLINIC, TRAVEL
from tests.judgement.first.good_fields import CONTRACTS
from tests.judgement.first.trades_and_texts import (
    HOUSES,
    PROTEINS,
    QUERIES,
    SPORT,
    TWEETS,
    descent,
    encoder_of,
    finds,
)
from tests.judgement.first.turns import (
    Rows,
    counted,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, reciprocal_rank


@sound("two towers with weights of their own")
def towers_for_wishes_and_statements(stage: Stage) -> None:
    """As DPR: one encoder for wishes, another for statements in SQL, both trained."""
    model = encoder_of(stage, QUERIES, name="wishes")
    tower = encoder_of(stage, QUERIES, name="statements", seed=8)
    rows, optimizer = Rows(QUERIES.table(480), 32), adam(model, tower, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        tower.train()
        first, second = rows()
        stepped(optimizer, criterion(embed(model, first), embed(tower, second)))

    def across(model: Any) -> float:
        wishes, statements = QUERIES.table(50, seed=11).values()
        return reciprocal_rank(
            model.encode(wishes, show_progress_bar=False),
            tower.encode(statements, show_progress_bar=False),
        )

    turn(stage, model, infonce, update, across, steps=80)


@sound("gradient cache by hand")
def gradients_cached_for_a_large_batch(stage: Stage) -> None:
    """Embeddings of 64 rows without a graph, the loss of all, then 16 rows at a time with one."""
    model = encoder_of(stage, HOUSES, dropout=0.0)
    rows, optimizer = Rows(HOUSES.table(480), 64), adam(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            cached = [embed(model, column) for column in columns]
        cached = [whole.requires_grad_() for whole in cached]
        criterion(*cached).backward()
        optimizer.zero_grad()
        for column, whole in zip(columns, cached, strict=True):
            for start in range(0, 64, 16):
                portion = embed(model, column[start : start + 16])
                portion.backward(whole.grad[start : start + 16])
        optimizer.step()

    turn(stage, model, infonce, update, finds(HOUSES), steps=30)


@sound("bfloat16 in a loop")
def half_precision_embeddings_with_full_loss(stage: Stage) -> None:
    """The encoder runs in bfloat16 by autocast; the loss is computed in full precision."""
    model = encoder_of(stage, PROTEINS)
    rows, optimizer = Rows(PROTEINS.table(320)), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embedded = [embed(model, column) for column in rows()]
        stepped(optimizer, criterion(*(whole.float() for whole in embedded)))

    turn(stage, model, infonce, update, finds(PROTEINS))


@sound("four small batches a step")
def four_batches_before_each_step(stage: Stage) -> None:
    """Gradients of four batches are averaged before each step, and clipped."""
    model = encoder_of(stage, CONTRACTS)
    rows, optimizer = Rows(CONTRACTS.table(320), 8), adam(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            (criterion(*(embed(model, column) for column in rows())) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    turn(stage, model, infonce, update, finds(CONTRACTS), steps=30)


@sound("average of the last weights")
def averaged_weights_of_the_last_steps(stage: Stage) -> None:
    """Stochastic weight averaging from the second half on; the average is what is used."""
    from torch.optim.swa_utils import AveragedModel

    model = encoder_of(stage, TRAVEL)
    average, plain = AveragedModel(model), descent(model, TRAVEL.table(400))

    def update(criterion: Any, step: int) -> None:
        plain(criterion, step)
        if step >= 30:
            average.update_parameters(model)

    def averaged(model: Any) -> float:
        return finds(TRAVEL)(average.module.eval())

    turn(stage, model, infonce, update, averaged, steps=60)


@sound("sharpness-aware steps")
def steps_aware_of_sharpness(stage: Stage) -> None:
    """Each step climbs by 0.02 along the gradient and descends by the gradient there."""
    model = encoder_of(stage, SPORT)
    rows, optimizer = Rows(SPORT.table(400)), adam(model, rate=2e-3)
    weights = [row for row in model.parameters() if row.requires_grad]

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        counted(criterion, step)
        optimizer.zero_grad()
        criterion(*(embed(model, column) for column in columns)).backward()
        moved = [row for row in weights if row.grad is not None]
        norm = torch.stack([row.grad.norm() for row in moved]).norm()
        climbs = [row.grad * (0.02 / (norm + 1e-12)) for row in moved]
        with torch.no_grad():
            for row, climb in zip(moved, climbs, strict=True):
                row.add_(climb)
        optimizer.zero_grad()
        infonce(*(embed(model, column) for column in columns)).backward()
        with torch.no_grad():
            for row, climb in zip(moved, climbs, strict=True):
                row.sub_(climb)
        optimizer.step()

    turn(stage, model, infonce, update, finds(SPORT))


@sound("one column embedded twice")
def sentences_embedded_twice_with_dropout(stage: Stage) -> None:
    """SimCSE by hand: each sentence twice through the encoder, whose dropout differs."""
    model = stage.model()
    texts = [text for column in pairs(300).values() for text in column]
    rows, optimizer = Rows({"sentence": texts}, 32), adam(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        (column,) = rows()
        stepped(optimizer, criterion(embed(model, column), embed(model, column)))

    turn(stage, model, infonce, update, among_alike, steps=60)


@sound("frozen body under a trained head")
def head_trained_over_a_fixed_body(stage: Stage) -> None:
    """Embeddings are made once; only two dense layers over them are trained, as an adapter."""
    base = warmed(encoder_of(stage, CLINIC), CLINIC.table(100, seed=4), steps=3)
    table, unseen = CLINIC.table(190), CLINIC.table(45, seed=11)
    columns, sought = (
        [base.encode(texts, convert_to_tensor=True, show_progress_bar=False).clone()
         for texts in columns.values()]
        for columns in (table, unseen)
    )  # fmt: skip
    centre = torch.cat(columns).mean(0)
    head = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48))
    numbers, optimizer = Rows({"row": list(range(190))}, 32), adam(head, rate=5e-3)

    def update(criterion: Any, step: int) -> None:
        (batch,) = numbers()
        stepped(optimizer, criterion(*(head(column[batch] - centre) for column in columns)))

    def ranked(head: Any) -> float:
        with torch.no_grad():
            return reciprocal_rank(*(head(column - centre).numpy() for column in sought))

    turn(stage, head, infonce, update, ranked, steps=80)


@sound("encoder of one's own without a library")
def averaged_words_in_plain_torch(stage: Stage) -> None:
    """The mean of word embeddings and a linear layer in plain torch, trained and used alike."""
    words = {word: at for at, word in enumerate(
        dict.fromkeys(word for column in TWEETS.table(500).values() for text in column
                      for word in text.split()), 1)}  # fmt: skip

    class Averaged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(7)
            self.words = nn.EmbeddingBag(len(words) + 1, 32, mode="mean")
            self.out = nn.Linear(32, 32)

        def forward(self, texts: list[str]) -> Tensor:
            rows = [torch.tensor([words.get(word, 0) for word in text.split()]) for text in texts]
            starts = torch.tensor([0, *(len(row) for row in rows[:-1])]).cumsum(0)
            return self.out(self.words(torch.cat(rows), starts))

    model = Averaged()
    rows, optimizer = Rows(TWEETS.table(400), 32), adam(model, rate=1e-2)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(model(column) for column in rows())))

    def ranked(model: Any) -> float:
        with torch.no_grad():
            return reciprocal_rank(
                *(model(column).numpy() for column in TWEETS.table(60, seed=11).values())
            )

    turn(stage, model, infonce, update, ranked, steps=80)

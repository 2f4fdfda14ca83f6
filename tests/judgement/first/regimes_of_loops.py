"""Sound loops of one's own: how steps are made around an ordinary contrast."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import HELPDESK, SHOP, TRAVEL
from tests.judgement.first.good_fields import CONTRACTS, LETTERS, LOGS, SONGS, minutes
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    MUSEUM,
    STATIONS,
    encoder_of,
    two,
)
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.first.turns import warmed as tuned
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank, retrieval


def adamw(model: nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


@sound("gradients cached over the pieces of a large batch")
def cached_gradients_by_hand(stage: Stage) -> None:
    """Embeddings without a graph, the loss's gradient of them, and a pass for each piece."""
    model = encoder_of(stage, TRAVEL, dropout=0.0)
    rows, optimizer = Rows(two(TRAVEL, 384), 64), adamw(model)

    def update(criterion: Any, _: int) -> None:
        columns = rows()
        with torch.no_grad():
            first, second = (embed(model, column) for column in columns)
        first.requires_grad_()
        second.requires_grad_()
        criterion(first, second).backward()
        optimizer.zero_grad()
        for column, whole in zip(columns, (first, second), strict=True):
            for at in range(0, 64, 16):
                embed(model, column[at : at + 16]).backward(whole.grad[at : at + 16])
        optimizer.step()

    turn(stage, model, infonce, update, TRAVEL.sought, steps=40)


@sound("autocast to bfloat16, and the loss in full precision")
def autocast_with_a_full_loss(stage: Stage) -> None:
    model = encoder_of(stage, BIRDS)
    rows, optimizer = Rows(two(BIRDS, 320), 32), adamw(model)

    def update(criterion: Any, _: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, BIRDS.sought)


class Queued:
    """InfoNCE among the batch and the queue of a slow encoder's embeddings of earlier batches."""

    def __init__(self, size: int = 128, width: int = 48) -> None:
        self.queue, self._size = torch.empty(0, width), size

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        candidates = torch.cat([second, self.queue])
        self.queue = torch.cat([second.detach(), self.queue])[: self._size]
        return F.cross_entropy(cosines(first, candidates) / 0.07, torch.arange(len(first)))


@sound("slow encoder of the passages with a queue")
def slow_encoder_with_a_queue(stage: Stage) -> None:
    """The passages' encoder follows the trained one, as in MoCo."""
    model = tuned(encoder_of(stage, STATIONS), two(STATIONS, 200, seed=2), steps=3)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows, optimizer = Rows(two(STATIONS, 384), 24), adamw(model, 1e-3)

    def update(criterion: Any, _: int) -> None:
        first, second = rows()
        with torch.no_grad():
            keys = embed(slow, second)
        stepped(optimizer, criterion(embed(model, first), keys))
        with torch.no_grad():
            for late, early in zip(slow.parameters(), model.parameters(), strict=True):
                late.lerp_(early, 0.1)

    turn(stage, model, Queued(), update, STATIONS.sought, steps=60)


@sound("average of the last weights, which is what is kept")
def weights_averaged_over_the_last_steps(stage: Stage) -> None:
    model, steps = encoder_of(stage, SONGS), 50
    average = torch.optim.swa_utils.AveragedModel(model)
    rows, optimizer = Rows(two(SONGS, 320), 24), adamw(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        if step >= steps - 10:
            average.update_parameters(model)
        if step == steps - 1:
            model.load_state_dict(average.module.state_dict())

    turn(stage, model, infonce, update, SONGS.sought, steps=steps)


@sound("two pairs of columns by turns, in three languages")
def languages_by_turns(stage: Stage) -> None:
    table = LETTERS.table(200)
    model, names = encoder_of(stage, LETTERS), list(table)
    pairs = [Rows({name: table[name] for name in (names[0], second)}, 20) for second in names[1:]]
    optimizer = adamw(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in pairs[step % 2]())))

    turn(stage, model, infonce, update, LETTERS.sought, steps=60)


@sound("steps on perturbed word vectors beside plain ones")
def perturbed_word_vectors(stage: Stage) -> None:
    """The fast gradient method on the embedding table, put back before the step."""
    model = encoder_of(stage, SHOP)
    table = model[0].auto_model.embeddings.word_embeddings.weight
    rows, optimizer = Rows(two(SHOP, 240), 24), adamw(model)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        columns = rows()
        optimizer.zero_grad()
        criterion(*(embed(model, column) for column in columns)).backward()
        noise = 0.05 * F.normalize(table.grad.flatten(), dim=0).view_as(table)
        with torch.no_grad():
            table.add_(noise)
        criterion(*(embed(model, column) for column in columns)).backward()
        with torch.no_grad():
            table.sub_(noise)
        optimizer.step()

    turn(stage, model, infonce, update, SHOP.sought)


@sound("top layer first, the others from the tenth step")
def layers_released_by_and_by(stage: Stage) -> None:
    model = tuned(encoder_of(stage, GARDEN, layers=3), two(GARDEN, 150, seed=2), steps=6)
    network = model[0].auto_model
    lower = [network.embeddings, *network.encoder.layer[:2]]
    for module in lower:
        module.requires_grad_(False)
    rows, optimizer = Rows(two(GARDEN, 320), 24), adamw(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        if step == 10:
            for module in lower:
                module.requires_grad_(True)
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, GARDEN.sought, steps=60)


@sound("tower of its own for each side, in a loop")
def tower_for_each_side(stage: Stage) -> None:
    towers = nn.ModuleList(
        encoder_of(stage, HELPDESK, name=name, seed=seed)
        for name, seed in (("asks", 3), ("says", 5))
    )
    rows, optimizer = Rows(two(HELPDESK, 320), 32), adamw(towers)
    tested = two(HELPDESK, 40, seed=11)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*map(embed, towers, rows())))

    def sought(both: Any) -> float:
        pairs = zip(both, tested.values(), strict=True)
        return reciprocal_rank(*(side.encode(texts, show_progress_bar=False)
                                 for side, texts in pairs))  # fmt: skip

    turn(stage, towers, infonce, update, sought, steps=60)


@sound("accumulated batches, a clipped norm and a cosine schedule with restarts")
def accumulation_with_restarts(stage: Stage) -> None:
    model = encoder_of(stage, LOGS, kind="distilbert")
    rows, optimizer = Rows(two(LOGS, 300), 20), adamw(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 20, eta_min=2e-4)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, LOGS.sought, steps=40)


@sound("decisions and the minutes that hold them in another order")
def decisions_and_their_minutes(stage: Stage) -> None:
    from tests.judgement.first.bodies import encoder, words_of

    table, tested = minutes(240), minutes(40, seed=11)
    model = encoder(stage, words_of([table, tested]))
    rows, optimizer = Rows(table, 24), adamw(model)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, lambda model: retrieval(model, tested))


@sound("labels sharpened by the likeness of passages")
def soft_labels_among_pages(stage: Stage) -> None:
    """A tenth of the target is spread over passages that are themselves alike."""
    model = encoder_of(stage, MUSEUM, layers=1)
    rows, optimizer = Rows(two(MUSEUM, 240), 20), adamw(model, 3e-3)

    def softened(first: Tensor, second: Tensor) -> Tensor:
        alike = (cosines(second, second) / 0.1).softmax(1).detach()
        target = 0.9 * torch.eye(len(first)) + 0.1 * alike
        return F.cross_entropy(cosines(first, second) / 0.05, target)

    def update(criterion: Any, _: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, softened, update, MUSEUM.sought, steps=40)


@sound("rate halved at a plateau of the loss")
def rate_lowered_at_a_plateau(stage: Stage) -> None:
    model = encoder_of(stage, CONTRACTS, width=32, layers=1)
    rows, optimizer = Rows(two(CONTRACTS, 200), 16), adamw(model, 4e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=8)

    def update(criterion: Any, _: int) -> None:
        loss = criterion(*(embed(model, column) for column in rows()))
        stepped(optimizer, loss)
        schedule.step(loss.item())

    turn(stage, model, infonce, update, CONTRACTS.sought, steps=40)

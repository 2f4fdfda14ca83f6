"""Sound loops of one's own: queues, slow copies, caches and two towers."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, words_of
from tests.judgement.first.fields_of_tides_and_tickets import (
    ARABIC,
    CHEMISTRY,
    CLAIMS,
    FILMS,
    GREEK,
    HINDI,
    NETWORK,
    SQL,
    STARS,
    TIDES,
    finding,
    fresh,
    mail_finding,
    mails,
    vocabulary,
)
from tests.judgement.first.turns import (
    Rows,
    cosines,
    counted,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def adam(model: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


@sound("a trained temperature, bounded from above")
def loop_over_tides_with_a_trained_temperature(stage: Stage) -> None:
    """The logarithm of the scale is a weight, as in CLIP."""
    scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def clip(codes: Tensor, words: Tensor) -> Tensor:
        logits = cosines(codes, words) * scale.clamp(max=math.log(100)).exp()
        own = torch.arange(len(logits))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    model = fresh(stage, TIDES, pooling="max")
    draw = Rows(TIDES.table(400), 32)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3},
        {"params": [scale], "lr": 5e-3, "weight_decay": 0.0},
    ])  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, clip, update, finding(TIDES), steps=50)


class Shelf:
    """InfoNCE among the batch and a shelf of rows that a slow copy has embedded."""

    def __init__(self, width: int, size: int = 96) -> None:
        self.rows, self._size = torch.empty(0, width), size

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        logits = cosines(queries, torch.cat([keys, self.rows])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(queries)))

    def store(self, keys: Tensor) -> None:
        self.rows = torch.cat([keys.detach(), self.rows])[: self._size]


@sound("a momentum encoder and its queue")
def loop_with_a_momentum_encoder_of_claims(stage: Stage) -> None:
    model = fresh(stage, CLAIMS, dropout=0.05)
    slow = copy.deepcopy(model).requires_grad_(False)
    draw, optimizer, shelf = Rows(CLAIMS.table(480), 16), adam(model), Shelf(48)

    def update(criterion: Any, step: int) -> None:
        claims, files = draw()
        with torch.no_grad():
            keys = embed(slow, files)
        stepped(optimizer, criterion(embed(model, claims), keys))
        shelf.store(keys)
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    turn(stage, model, shelf, update, finding(CLAIMS), steps=80)


class Towers(nn.Module):
    """An encoder of first columns and one of second columns."""

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__()
        self.first, self.second = first, second


@sound("two towers with encoders of their own")
def loop_over_two_towers_of_arabic_and_latin(stage: Stage) -> None:
    towers = Towers(
        fresh(stage, ARABIC, name="arabic"),
        fresh(stage, ARABIC, name="latin", pooling="max", seed=4),
    )
    draw, optimizer = Rows(ARABIC.table(400), 32), adam(towers)
    arabic, latin = ARABIC.table(40, seed=11).values()

    def update(criterion: Any, step: int) -> None:
        first, second = draw()
        stepped(optimizer, criterion(embed(towers.first, first), embed(towers.second, second)))

    def score(model: Any) -> float:
        first = model.first.encode(arabic, show_progress_bar=False)
        return reciprocal_rank(first, model.second.encode(latin, show_progress_bar=False))

    turn(stage, towers, infonce, update, score, steps=50)


@sound("a gradient cache over chunks of a batch of 64")
def loop_with_cached_gradients_of_star_logs(stage: Stage) -> None:
    model = fresh(stage, STARS, dropout=0.0)
    draw, optimizer = Rows(STARS.table(448), 64), adam(model, 3e-3)

    def chunks(texts: list[str]) -> Iterator[list[str]]:
        return (texts[at : at + 16] for at in range(0, len(texts), 16))

    def update(criterion: Any, step: int) -> None:
        columns = draw()
        with torch.no_grad():
            rows = [
                torch.cat([embed(model, chunk) for chunk in chunks(column)]) for column in columns
            ]
        rows = [row.requires_grad_() for row in rows]
        criterion(*rows).backward()
        optimizer.zero_grad()
        for column, row in zip(columns, rows, strict=True):
            for at, chunk in enumerate(chunks(column)):
                embed(model, chunk).backward(row.grad[16 * at : 16 * at + 16])
        optimizer.step()

    turn(stage, model, infonce, update, finding(STARS), steps=24)


@sound("accumulated batches, warm-up, cosine decay and clipping")
def loop_over_mails_with_accumulation(stage: Stage) -> None:
    model = fresh(stage, CHEMISTRY, width=64)
    draw, optimizer = Rows(mails(CHEMISTRY, 400), 20), adam(model, 3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / 5, 0.525 + 0.475 * math.cos(math.pi * min(step / 45, 1))),
    )

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in draw())) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, mail_finding(CHEMISTRY), steps=40)


@sound("hard negatives sought anew by the encoder each fifteen steps")
def loop_that_mines_negatives_as_it_goes(stage: Stage) -> None:
    table = NETWORK.table(240)
    lines, tickets = table.values()
    model = fresh(stage, NETWORK, width=64)
    draw, optimizer = Rows(table | {"place": list(range(240))}, 20), adam(model)
    hard = [*range(1, 240), 0]

    def update(criterion: Any, step: int) -> None:
        if step % 15 == 14:
            first, second = (
                model.eval().encode(texts, convert_to_tensor=True, show_progress_bar=False)
                for texts in (lines, tickets)
            )
            near = cosines(first, second).fill_diagonal_(-2)
            hard[:] = near.topk(6).indices[:, 5].tolist()
            model.train()
        first, second, places = draw()
        rows = [embed(model, column) for column in
                (first, second, [tickets[hard[at]] for at in places])]  # fmt: skip
        stepped(optimizer, criterion(*rows))

    def with_negatives(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, third])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)))

    turn(stage, model, with_negatives, update, finding(NETWORK), steps=60)


class Encoder(nn.Module):
    """A network of transformers with a mean of one's own over the tokens that are no padding."""

    def __init__(self, tokenizer: Any, network: Any) -> None:
        super().__init__()
        self.tokenizer, self.network = tokenizer, network

    def forward(self, texts: Sequence[str]) -> Tensor:
        batch = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        states = self.network(batch["input_ids"], batch["attention_mask"]).last_hidden_state
        mask = batch["attention_mask"][:, :, None].float()
        return (states * mask).sum(1) / mask.sum(1)

    @torch.no_grad()
    def encode(self, texts: Sequence[str], **options: Any) -> Any:
        return self.eval()(texts).numpy()


@sound("a network of transformers with a pooling of one's own and a data loader")
def loop_over_a_bare_network_of_films(stage: Stage) -> None:
    words = body(stage, [*vocabulary(FILMS), *words_of([FILMS.table(40, 11)])])
    model = Encoder(words.tokenizer, words.auto_model)
    rows = list(zip(*FILMS.table(384).values(), strict=True))
    loader = torch.utils.data.DataLoader(
        rows, batch_size=24, shuffle=True, drop_last=True,
        collate_fn=lambda batch: list(zip(*batch, strict=True)),
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    batches = itertools.chain.from_iterable(loader for _ in itertools.count())
    optimizer = adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*map(model, next(batches))))

    turn(stage, model, infonce, update, finding(FILMS), steps=48)


def ranked_over_all_processes(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE in two directions among the rows of all processes, which pass gradients back."""
    rank, columns = 0, [first, second]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        from torch.distributed.nn.functional import all_gather

        rank = torch.distributed.get_rank()
        columns = [torch.cat(all_gather(rows)) for rows in columns]
    own = torch.arange(len(first)) + rank * len(first)
    forward_loss = F.cross_entropy(cosines(first, columns[1]) / 0.05, own)
    return (forward_loss + F.cross_entropy(cosines(second, columns[0]) / 0.05, own)) / 2


@sound("two directions of ranking over the rows of all processes")
def ranking_gathered_in_two_directions(stage: Stage) -> None:
    stage.audit(ranked_over_all_processes)
    model = fresh(stage, GREEK, pooling="max")
    draw, optimizer = Rows(GREEK.table(360), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, ranked_over_all_processes, update, finding(GREEK), steps=50)


@sound("automatic mixed precision and a decoder")
def loop_in_mixed_precision_over_a_decoder(stage: Stage) -> None:
    model = fresh(stage, HINDI, kind="granite", pooling="lasttoken")
    draw, optimizer = Rows(HINDI.table(400), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rows = [embed(model, column) for column in draw()]
        stepped(optimizer, criterion(*(row.float() for row in rows)))

    turn(stage, model, infonce, update, finding(HINDI), steps=60)


@sound("a batch's distribution after a teacher, and plain ranking")
def loop_after_the_cosines_of_a_teacher(stage: Stage) -> None:
    teacher = warmed(fresh(stage, SQL, name="teacher", width=64, dropout=0.0), SQL.table(400), 50)
    model = fresh(stage, SQL, layers=1)
    draw, optimizer = Rows(SQL.table(400), 24), adam(model)

    def taught(first: Tensor, second: Tensor, targets: Tensor) -> Tensor:
        table = cosines(first, second)
        divergence = F.kl_div(
            F.log_softmax(table / 0.1, dim=1), F.softmax(targets / 0.1, dim=1),
            reduction="batchmean",
        )  # fmt: skip
        own = torch.arange(len(first))
        return divergence + 0.5 * F.cross_entropy(table / 0.05, own)

    def update(criterion: Any, step: int) -> None:
        columns = draw()
        with torch.no_grad():
            targets = cosines(*(embed(teacher, column) for column in columns))
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), targets))

    turn(stage, model, taught, update, finding(SQL), steps=50)

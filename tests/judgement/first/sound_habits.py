"""Sound set-ups: loops with less usual losses, data and steps."""

from __future__ import annotations

import copy
import io
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CLINIC,
    CODE,
    HELPDESK,
    KITCHEN,
    SCENES,
    SHOP,
    TRAVEL,
    Field,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def plain(
    stage: Stage, field: Field, loss: Any, count: int = 200, *, rate: float = 2e-3,
    size: int = 16, steps: int = 50, extra: tuple[nn.Parameter, ...] = (), **options: Any,
) -> None:  # fmt: skip
    """A loop over pairs of a field."""
    table = field.table(count)
    model, rows = encoder(stage, words_of([table]), **options), Rows(table, size)
    optimizer = torch.optim.AdamW([*model.parameters(), *extra], lr=rate)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, field.sought, steps=steps)


@sound("dimensions that agree and do not repeat")
def cross_correlation_of_two_wordings(stage: Stage) -> None:
    """Barlow Twins: dimensions of both columns correlate with themselves only."""

    def barlow(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((x - x.mean(0)) / (x.std(0) + 1e-5) for x in (first, second))
        table = first.T @ second / len(first)
        diagonal = table.diagonal()
        remaining = table.square().sum() - diagonal.square().sum()
        return (1 - diagonal).square().sum() + 0.02 * remaining

    plain(stage, TRAVEL, barlow, 240, size=48, rate=3e-3)


@sound("smoothed targets")
def smoothed_targets_among_products(stage: Stage) -> None:
    """A tenth of the target is shared among the in-batch negatives."""

    def smoothed(first: Tensor, second: Tensor) -> Tensor:
        logits, labels = cosines(first, second) / 0.05, torch.arange(len(first))
        return F.cross_entropy(logits, labels, label_smoothing=0.1)

    plain(stage, SHOP, smoothed)


@sound("binary cross-entropy of pairs")
def answered_or_not_by_binary_cross_entropy(stage: Stage) -> None:
    """Right pairs and the batch's wrong ones (shifted by a row) under a sigmoid with a bias."""
    scale, bias = nn.Parameter(torch.tensor(8.0)), nn.Parameter(torch.tensor(-4.0))

    def binary(first: Tensor, second: Tensor) -> Tensor:
        values = torch.cat([
            F.cosine_similarity(first, second.roll(shift, 0)) for shift in range(4)
        ])  # fmt: skip
        labels = torch.zeros(4 * len(first))
        labels[: len(first)] = 1
        return F.binary_cross_entropy_with_logits(
            scale * values + bias, labels, pos_weight=torch.tensor(3.0)
        )

    plain(stage, HELPDESK, binary, extra=(scale, bias), rate=3e-3, size=24, steps=60)


@sound("several right answers to a query")
def several_right_records_share_the_target(stage: Stage) -> None:
    """Two paraphrases of each record are right and share the target."""

    def shared(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, third])) / 0.05
        target = torch.eye(len(first)).repeat(1, 2) / 2
        return F.cross_entropy(logits, target)

    table = CLINIC.table(180)
    table["summary"] = [" ".join(reversed(text.split()[:6])) for text in table["record"]]
    model, rows = encoder(stage, words_of([table])), Rows(table)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, shared, update, CLINIC.sought)


@sound("proxies with their own rate")
def anchored_proxies_of_dishes(stage: Stage) -> None:
    """Proxy-anchor loss: texts of a dish are drawn to its proxy, the rest pushed away."""
    draws = KITCHEN.draws(280)
    dishes = sorted({row[0] for row in draws})
    table = {"text": [KITCHEN.texts([row], at % 2)[0] for at, row in enumerate(draws)],
             "dish": [dishes.index(row[0]) for row in draws]}  # fmt: skip
    model, rows = encoder(stage, words_of([table])), Rows(table, 24)
    proxies = nn.Parameter(torch.randn(len(dishes), 48))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 2e-3}, {"params": [proxies], "lr": 5e-2}]
    )

    def anchored(rows: Tensor, labels: Tensor) -> Tensor:
        values, right = cosines(rows, proxies), F.one_hot(labels, len(dishes)).bool()
        pull = (-16 * (values - 0.1)).masked_fill(~right, -1e4)
        push = (16 * (values + 0.1)).masked_fill(right, -1e4)
        zeros = torch.zeros(1, len(dishes))
        pulled = torch.logsumexp(torch.cat([zeros, pull]), 0).sum() / right.any(0).sum()
        return pulled + torch.logsumexp(torch.cat([zeros, push]), 0).mean()

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    unseen = KITCHEN.draws(60, seed=11)

    def score(model: Any) -> float:
        first, second = (
            model.encode(KITCHEN.texts(unseen, at), normalize_embeddings=True) for at in (0, 1)
        )
        near = (first @ second.T).argmax(1)
        return sum(unseen[at][0] == unseen[int(to)][0] for at, to in enumerate(near)) / 60

    turn(stage, model, anchored, update, score, steps=60)


@sound("slow weights that look ahead")
def slow_weights_that_look_ahead(stage: Stage) -> None:
    """Lookahead: every five steps slow weights go half of the way and are copied back."""
    table = SCENES.table(180)
    model, rows = encoder(stage, words_of([table])), Rows(table)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    slow = [weight.detach().clone() for weight in model.parameters()]

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        if step % 5 == 4:
            with torch.no_grad():
                for average, weight in zip(slow, model.parameters(), strict=True):
                    average.lerp_(weight, 0.5)
                    weight.copy_(average)

    turn(stage, model, infonce, update, SCENES.sought)


@sound("words restored beside the ranking")
def masked_words_restored_beside_the_ranking(stage: Stage) -> None:
    """A small share of masked-word prediction is added, with tied word vectors."""
    table = CODE.table(200)
    model, rows = encoder(stage, words_of([table])), Rows(table)
    network, draw = model[0].model, torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def restored(texts: list[str]) -> Tensor:
        tokens = model.tokenizer(texts, padding=True, return_tensors="pt")
        ids, mask = tokens["input_ids"], tokens["attention_mask"].bool()
        hidden = (torch.rand(ids.shape, generator=draw) < 0.15) & mask & (ids > 4)
        states = network(
            input_ids=ids.masked_fill(hidden, 4), attention_mask=mask.long()
        ).last_hidden_state
        logits = states[hidden] @ network.embeddings.word_embeddings.weight.T
        return F.cross_entropy(logits, ids[hidden], reduction="sum") / hidden.sum().clamp(min=1)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        ranked = criterion(embed(model, first), embed(model, second))
        stepped(optimizer, ranked + 0.1 * restored(second))

    turn(stage, model, infonce, update, CODE.sought)


@sound("loop taken up from a saved state")
def loop_taken_up_from_a_saved_state(stage: Stage) -> None:
    """Weights, optimiser and schedule of a first half are loaded, and the second half follows."""
    table = TRAVEL.table(240)
    model, rows = encoder(stage, words_of([table])), Rows(table)

    def fresh(model: Any) -> tuple[Any, Any]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 50)

    first = copy.deepcopy(model).train()
    optimizer, schedule = fresh(first)
    for _ in range(10):
        stepped(optimizer, infonce(*(embed(first, column) for column in rows())))
        schedule.step()
    file = io.BytesIO()
    torch.save([first.state_dict(), optimizer.state_dict(), schedule.state_dict()], file)
    file.seek(0)
    states = torch.load(file)
    optimizer, schedule = fresh(model)
    for target, state in zip((model, optimizer, schedule), states, strict=True):
        target.load_state_dict(state)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        schedule.step()

    turn(stage, model, infonce, update, TRAVEL.sought, steps=40)


@sound("texts of alike length, layers recomputed")
def batches_by_length_with_layers_recomputed(stage: Stage) -> None:
    """Batches are of texts of alike length, in random order; activations are recomputed."""
    short, long = HELPDESK.table(120), HELPDESK.table(120, seed=2)
    long["answer"] = [text + " " + text for text in long["answer"]]
    model = encoder(stage, words_of([short, long]), layers=3)
    model[0].model.gradient_checkpointing_enable({"use_reentrant": False})
    batches = [Rows(short), Rows(long, seed=1)]
    draw, optimizer = random.Random(6), torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        columns = draw.choice(batches)()
        stepped(optimizer, criterion(*(embed(model, column) for column in columns)))

    turn(stage, model, infonce, update, HELPDESK.sought)

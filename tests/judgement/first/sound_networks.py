"""Sound set-ups: loops over networks of transformers, towers, teachers and precisions."""

from __future__ import annotations

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
    PAPERS,
    SHOP,
    TRAVEL,
    Field,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def start(stage: Stage, field: Field, count: int = 200, size: int = 16, **options: Any) -> Any:
    table = field.table(count)
    return encoder(stage, words_of([table]), **options), Rows(table, size)


def averaged(network: Any, tokenizer: Any, texts: list[str]) -> Tensor:
    """The mean of the last hidden states over the tokens of a text, as on model cards."""
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
    states = network(
        input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
    ).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
    return (states * mask).sum(1) / mask.sum(1)


@sound("mean pooling of one's own")
def plain_transformer_with_mean_pooling(stage: Stage) -> None:
    """No library of sentences: a network of transformers, its tokenizer and a pooled mean."""
    model, rows = start(stage, HELPDESK)
    network, tokenizer = model[0].model, model.tokenizer
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(averaged(network, tokenizer, texts) for texts in rows())))

    turn(stage, model, infonce, update, HELPDESK.sought)


@sound("decoder in a loop, last token")
def last_token_of_a_decoder_by_hand(stage: Stage) -> None:
    """Padding stands on the left, so that the last position is the end token of each text."""
    model, rows = start(stage, CODE, size=32, kind="granite", pooling="lasttoken")
    network, tokenizer = model[0].model, model.tokenizer
    optimizer = torch.optim.AdamW(network.parameters(), lr=4e-3)

    def last(texts: list[str]) -> Tensor:
        tokens = tokenizer(texts, padding=True, return_tensors="pt")
        mask = tokens["attention_mask"]
        return network(input_ids=tokens["input_ids"], attention_mask=mask).last_hidden_state[:, -1]

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(last(texts) for texts in rows())))

    turn(stage, model, infonce, update, CODE.sought, steps=100)


@sound("adapters in a loop")
def adapters_of_rank_twelve_by_hand(stage: Stage) -> None:
    """Low-rank adapters on queries, values and the last layers, trained by a loop."""
    from peft import LoraConfig

    model, rows = start(stage, SHOP, 220)
    model.add_adapter(LoraConfig(
        r=12, lora_alpha=24, target_modules=["query", "value", "dense"], bias="none"
    ))  # fmt: skip
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-2)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, SHOP.sought, steps=60)


@sound("two towers in a loop")
def towers_of_queries_and_of_passages(stage: Stage) -> None:
    """DPR: an encoder for each side, scaled dot products and an optimiser over both."""
    model, rows = start(stage, CLINIC, 180)
    second = encoder(stage, words_of([CLINIC.table(180)]), name="passages", seed=9)
    optimizer = torch.optim.AdamW([*model.parameters(), *second.parameters()], lr=2e-3)

    def dots(queries: Tensor, passages: Tensor) -> Tensor:
        logits = queries @ passages.T / queries.shape[1] ** 0.5
        return F.cross_entropy(logits, torch.arange(len(queries)))

    def update(criterion: Any, step: int) -> None:
        second.train()
        queries, passages = rows()
        stepped(optimizer, criterion(embed(model, queries), embed(second, passages)))

    def score(model: Any) -> float:
        queries, passages = CLINIC.table(40, seed=11).values()
        return reciprocal_rank(model.encode(queries), second.eval().encode(passages))

    turn(stage, model, dots, update, score, steps=60)


@sound("similarities of a teacher within the batch")
def similarities_of_a_teacher_by_divergence(stage: Stage) -> None:
    """The student's rows of similarities follow those of a trained, frozen teacher."""
    model, rows = start(stage, PAPERS, 200, dropout=0.0)
    teacher = encoder(stage, words_of([PAPERS.table(200)]), name="teacher", seed=5)
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=3e-3)
    for _ in range(35):
        stepped(optimizer, infonce(*(embed(teacher, column) for column in rows())))
    teacher.eval()
    student = torch.optim.AdamW(model.parameters(), lr=2e-3)
    targets: list[Tensor] = []

    def follows(first: Tensor, second: Tensor) -> Tensor:
        shares = (cosines(first, second) / 0.05).log_softmax(1)
        return F.kl_div(shares, targets[-1], reduction="batchmean")

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            right = cosines(*(embed(teacher, column) for column in columns))
            targets.append((right / 0.05).softmax(1))
        stepped(student, criterion(*(embed(model, column) for column in columns)))

    turn(stage, model, follows, update, PAPERS.sought)


@sound("brain floats in a loop")
def autocast_loop_with_the_loss_in_full(stage: Stage) -> None:
    """The body runs in brain floats, the loss in full precision."""
    model, rows = start(stage, KITCHEN)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embedded = [embed(model, column) for column in rows()]
        stepped(optimizer, criterion(*(row.float() for row in embedded)))

    turn(stage, model, infonce, update, KITCHEN.sought)


@sound("sigmoid with a learned bias")
def sigmoid_with_a_learned_scale_and_bias(stage: Stage) -> None:
    """SigLIP: scale and bias begin at 10 and -10 and are learned."""
    model, rows = start(stage, TRAVEL, 240)
    scale, bias = nn.Parameter(torch.tensor(10.0).log()), nn.Parameter(torch.tensor(-10.0))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 2e-3}, {"params": [scale, bias], "lr": 2e-2}]
    )

    def sigmoid(first: Tensor, second: Tensor) -> Tensor:
        logits = scale.exp() * cosines(first, second) + bias
        signs = 2 * torch.eye(len(logits)) - 1
        return -F.logsigmoid(signs * logits).sum() / len(logits)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, sigmoid, update, TRAVEL.sought, steps=60)


@sound("rates by layer and frozen words for a while")
def words_thawed_after_twenty_steps(stage: Stage) -> None:
    """Gradual unfreezing: the word vectors stay for 20 steps; rates fall towards the input."""
    model, rows = start(stage, HELPDESK, 220)
    network = model[0].model
    groups = [network.encoder.layer[1], network.encoder.layer[0], network.embeddings]
    optimizer = torch.optim.AdamW(
        [{"params": group.parameters(), "lr": 4e-3 * 0.7**at} for at, group in enumerate(groups)]
    )

    def update(criterion: Any, step: int) -> None:
        network.embeddings.requires_grad_(step >= 20)
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, HELPDESK.sought, steps=60)


@sound("steps that look around")
def sharpness_aware_steps(stage: Stage) -> None:
    """Sharpness-aware minimisation: the gradient is taken a small step uphill."""
    model, rows = start(stage, SHOP, 200, dropout=0.0)
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        optimizer.zero_grad()
        infonce(*(embed(model, column) for column in columns)).backward()
        held = [w for w in weights if w.grad is not None]
        norm = torch.stack([w.grad.norm() for w in held]).norm() + 1e-9
        climbs = [0.05 * w.grad / norm for w in held]
        with torch.no_grad():
            for weight, climb in zip(held, climbs, strict=True):
                weight += climb
        optimizer.zero_grad()
        criterion(*(embed(model, column) for column in columns)).backward()
        with torch.no_grad():
            for weight, climb in zip(held, climbs, strict=True):
                weight -= climb
        optimizer.step()

    turn(stage, model, infonce, update, SHOP.sought, steps=35)

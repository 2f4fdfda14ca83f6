"""Sound loops of one's own: denoising, centres, scales that are learned, teachers, processes."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_reviews_and_cards import (
    ALARMS,
    CHEMISTRY,
    GREEK,
    MAILS,
    MINERALS,
    QUERIES,
    RUSSIAN,
    SHORT,
    adamw,
    class_score,
    classed,
    of_field,
    seek,
    shortened,
    unit,
    words,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage


class Decoder(torch.nn.Module):
    """Tells from an embedding which words a text has; it serves training only."""

    def __init__(self, size: int) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.logits = torch.nn.Linear(48, size)

    def forward(self, rows: Tensor, bags: Tensor) -> Tensor:
        return -(self.logits(rows).log_softmax(1) * bags).sum(1).mean()


@sound("denoising: words of a shortened text")
def denoising_of_shortened_entries_by_their_words(stage: Stage) -> None:
    model = of_field(stage, MINERALS)
    labels, entries = MINERALS.table(500).values()
    texts = [*labels[::2], *entries[1::2]]
    rows, draw = Rows({"text": texts}, 32), random.Random(1)
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys(
        word for text in words(MINERALS) for word in text.split()))}  # fmt: skip
    rarity = {word: math.log(len(texts) / (1 + sum(word in text.split() for text in texts)))
              for word in vocabulary}  # fmt: skip
    decoder = Decoder(len(vocabulary))
    optimizer = torch.optim.AdamW([*model.parameters(), *decoder.parameters()], lr=3e-3)

    def update(criterion: Any, step: int) -> None:
        (column,) = rows()
        bags = torch.zeros(len(column), len(vocabulary))
        for at, text in enumerate(column):
            for word in text.split():
                bags[at, vocabulary[word]] = max(rarity[word] - 1, 0.01)
        bags = bags / bags.sum(1, keepdim=True)
        noisy = [shortened(text, draw, 0.2) for text in column]
        stepped(optimizer, criterion(embed(model, noisy), bags))

    turn(stage, model, decoder, update, seek(MINERALS, 80), steps=120)


class Centres(torch.nn.Module):
    """A softmax over cosines with a learned centre of each class."""

    def __init__(self, count: int) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.centres = torch.nn.Parameter(torch.randn(count, 48))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(cosines(rows, self.centres) / 0.1, labels)


@sound("learned centres of classes")
def learned_centres_of_the_towns_of_forecasts(stage: Stage) -> None:
    model, rows = of_field(stage, GREEK), Rows(classed(GREEK, 300, slot=1), 32)
    centres = Centres(8)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 1e-3}, {"params": centres.parameters(), "lr": 1e-2},
    ])  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, centres, update, class_score(GREEK, slot=1, count=50), steps=60)


class Scaled(torch.nn.Module):
    """InfoNCE in two directions with a learned scale, as in CLIP; the scale is held below 100."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(14.3).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.scale.exp().clamp(max=100)
        own = torch.arange(len(first))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@sound("learned temperature")
def learned_temperature_of_cyrillic_pairs(stage: Stage) -> None:
    model, rows, scaled = of_field(stage, RUSSIAN), Rows(RUSSIAN.table(320), 32), Scaled()
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "weight_decay": 0.01},
        {"params": scaled.parameters(), "weight_decay": 0.0},
    ], lr=2e-3)  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, scaled, update, seek(RUSSIAN), steps=60)


def narrow(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE whose own cosine is lowered by a margin of 0.1."""
    logits = cosines(first, second) - 0.1 * torch.eye(len(first))
    return F.cross_entropy(logits / 0.05, torch.arange(len(first)))


@sound("additive margin")
def additive_margin_of_queries_in_pairs(stage: Stage) -> None:
    model, rows = of_field(stage, QUERIES), Rows(QUERIES.table(450), 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, narrow, update, seek(QUERIES, 60), steps=60)


def relations(first: Tensor, second: Tensor, first_goal: Tensor, second_goal: Tensor) -> Tensor:
    """The divergence of a student's softmax over a batch from that of its teacher."""
    logs = (cosines(first, second) / 0.05).log_softmax(1)
    goal = (cosines(first_goal, second_goal) / 0.05).softmax(1)
    return F.kl_div(logs, goal, reduction="batchmean")


@sound("relations of a teacher in a batch")
def relations_of_a_teacher_in_a_batch_of_alarms(stage: Stage) -> None:
    teacher = warmed(of_field(stage, ALARMS, name="teacher", seed=5, width=64),
                     ALARMS.table(280, seed=2), 40)  # fmt: skip
    model, rows = of_field(stage, ALARMS, layers=1), Rows(ALARMS.table(280), 28)
    optimizer = adamw(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            goals = [embed(teacher, column) for column in columns]
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), *goals))

    turn(stage, model, relations, update, seek(ALARMS), steps=60)


def all_rows(first: Tensor, second: Tensor) -> Tensor:
    """NT-Xent: every text of either column is a negative of all but its partner."""
    rows, count = unit(torch.cat([first, second])), len(first)
    logits = (rows @ rows.T / 0.07).fill_diagonal_(float("-inf"))
    return F.cross_entropy(logits, torch.arange(2 * count).roll(count))


@sound("texts of both columns as negatives")
def texts_of_both_columns_as_negatives(stage: Stage) -> None:
    model, rows = of_field(stage, CHEMISTRY, kind="distilbert"), Rows(CHEMISTRY.table(320), 32)
    optimizer = adamw(model, 2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, all_rows, update, seek(CHEMISTRY), steps=60)


def gathered(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE with the positives of all processes, through which the gradient flows."""
    import torch.distributed as dist

    if not (dist.is_initialized() and dist.get_world_size() > 1):
        return infonce(first, second)
    from torch.distributed.nn.functional import all_gather

    candidates = torch.cat(all_gather(second))
    own = torch.arange(len(first)) + dist.get_rank() * len(first)
    return F.cross_entropy(cosines(first, candidates) / 0.05, own)


@sound("positives of all processes")
def positives_of_all_processes_with_gradient(stage: Stage) -> None:
    stage.audit(gathered)
    model, rows = of_field(stage, SHORT), Rows(SHORT.table(400), 25)
    optimizer = adamw(model, 2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, gathered, update, seek(SHORT), steps=48)


@sound("frozen words of a tuned encoder")
def frozen_words_of_a_tuned_encoder_of_mails(stage: Stage) -> None:
    """The words' vectors of an encoder that was tuned before stay; layers above are tuned."""
    model = warmed(of_field(stage, MAILS, dropout=0.0), MAILS.table(200, seed=2), 3)
    model[0].auto_model.embeddings.requires_grad_(False)
    rows = Rows(MAILS.table(320), 32)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, seek(MAILS), steps=60)

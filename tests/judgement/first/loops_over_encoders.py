"""Sound set-ups: loops of one's own with other encoders, teachers, mining and averages."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import tokenizer_of
from tests.judgement.first.fields_of_orders_and_mails import (
    BIRDS,
    CHEMISTRY,
    HINDI,
    MAILS,
    METERS,
    MUSEUM,
    PATENTS,
    RUSSIAN,
    SHELL,
    fresh,
    seeker,
    words_of_field,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def _adam(model: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    weights = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(weights, lr=rate)


class Recurrent(torch.nn.Module):
    """A bidirectional GRU over words, whose states are averaged over the words of a text."""

    def __init__(self, texts: Sequence[str], width: int = 32) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.tokenizer = tokenizer_of(texts)
        self.words = torch.nn.Embedding(len(self.tokenizer), width, padding_idx=0)
        self.states = torch.nn.GRU(width, width, batch_first=True, bidirectional=True)

    def forward(self, texts: Sequence[str]) -> Tensor:
        features = self.tokenizer(list(texts), padding=True, return_tensors="pt")
        mask = features["attention_mask"]
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            self.words(features["input_ids"]), mask.sum(1), batch_first=True, enforce_sorted=False
        )
        rows, _ = torch.nn.utils.rnn.pad_packed_sequence(self.states(packed)[0], batch_first=True)
        return (rows * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@sound("recurrent encoder of one's own")
def recurrent_encoder_of_commands(stage: Stage) -> None:
    model = Recurrent(words_of_field(SHELL))
    rows, optimizer = Rows(SHELL.table(400), 32), _adam(model, 5e-3)
    held = SHELL.table(60, seed=11)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(model(texts) for texts in rows())))

    def score(encoder: Any) -> float:
        with torch.no_grad():
            return reciprocal_rank(*(encoder(texts).numpy() for texts in held.values()))

    turn(stage, model, infonce, update, score, steps=80)


@sound("decoder with its last token")
def decoder_loop_of_translations(stage: Stage) -> None:
    model = fresh(stage, RUSSIAN, kind="granite", pooling="lasttoken")
    rows, optimizer = Rows(RUSSIAN.table(400), 24), _adam(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, infonce, update, seeker(RUSSIAN), steps=90)


def divergence_from_scores(student: Tensor, passages: Tensor, scores: Tensor) -> Tensor:
    """The divergence from a teacher's distribution over the passages of the batch."""
    ours = (cosines(student, passages) / 0.1).log_softmax(1)
    return F.kl_div(ours, (scores / 0.1).softmax(1), reduction="batchmean")


@sound("a teacher's distribution over the batch")
def teacher_of_the_batch_of_meters(stage: Stage) -> None:
    teacher = fresh(stage, METERS, name="teacher", width=64, seed=9)
    teacher = warmed(teacher, METERS.table(400, seed=2), 60).requires_grad_(False)
    model = fresh(stage, METERS)
    rows, optimizer = Rows(METERS.table(400), 32), _adam(model)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        with torch.no_grad():
            scores = cosines(embed(teacher, first), embed(teacher, second))
        stepped(optimizer, criterion(embed(model, first), embed(model, second), scores))

    turn(stage, model, divergence_from_scores, update, seeker(METERS), steps=90)


def among_all(first: Tensor, second: Tensor, hard: Tensor) -> Tensor:
    logits = cosines(first, torch.cat([second, hard])) / 0.05
    return F.cross_entropy(logits, torch.arange(len(first)))


@sound("hard negatives mined anew during training")
def mined_negatives_of_mails(stage: Stage) -> None:
    """Every 20 steps each row gets a passage anew, of those that follow closely in its search."""
    table = MAILS.table(320)
    model = warmed(fresh(stage, MAILS), MAILS.table(320), 5)
    optimizer, draw, mined = _adam(model, 1e-3), random.Random(4), list[int]()
    order = list[int]()

    def mine() -> list[int]:
        model.eval()
        first, second = (
            model.encode(texts, show_progress_bar=False, normalize_embeddings=True)
            for texts in table.values()
        )
        model.train()
        closeness = first @ second.T - 3 * np.eye(320)
        return [draw.choice(list(row)) for row in np.argsort(-closeness, axis=1)[:, 1:6]]

    def update(criterion: Any, step: int) -> None:
        if step % 20 == 0:
            mined[:] = mine()
        if not order:
            order.extend(draw.sample(range(320), 320))
        chosen = [order.pop() for _ in range(20)]
        passages = set(chosen)
        hard = [mined[at] for at in chosen if mined[at] not in passages]
        stepped(optimizer, criterion(
            embed(model, [table["subject"][at] for at in chosen]),
            embed(model, [table["body"][at] for at in chosen]),
            embed(model, [table["body"][at] for at in dict.fromkeys(hard)]),
        ))  # fmt: skip

    turn(stage, model, among_all, update, seeker(MAILS), steps=60)


@sound("average of the weights of the last steps")
def average_of_last_weights_of_sightings(stage: Stage) -> None:
    """The average is scored; the encoder has no dropout and no statistics of batches."""
    model = fresh(stage, BIRDS, dropout=0.0)
    average = torch.optim.swa_utils.AveragedModel(model)
    rows, optimizer = Rows(BIRDS.table(400), 24), _adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))
        if step >= 50:
            average.update_parameters(model)

    sought = seeker(BIRDS)
    turn(stage, model, infonce, update,
         lambda encoder: sought(average.module if average.n_averaged else encoder),
         steps=70)  # fmt: skip


@sound("lowest layer and words frozen on an encoder that was trained before")
def frozen_words_of_a_trained_encoder(stage: Stage) -> None:
    model = warmed(fresh(stage, CHEMISTRY), CHEMISTRY.table(400, seed=2), 7)
    network = model[0].auto_model
    for module in (network.embeddings, network.encoder.layer[0]):
        module.requires_grad_(False)
    rows, optimizer = Rows(CHEMISTRY.table(400), 32), _adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, infonce, update, seeker(CHEMISTRY), steps=80)


class Mirror:
    """Rows of a table whose columns change places with every batch."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._turned = rows, False

    def __call__(self) -> list[Any]:
        self._turned = not self._turned
        return self._rows()[:: -1 if self._turned else 1]


@sound("directions of search by turns, with two learning rates for body and head")
def directions_by_turns_with_a_head(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(5)
    head = Dense(48, 32, activation_function=torch.nn.Identity(), bias=False)
    model = fresh(stage, HINDI, head)
    rows = Mirror(Rows(HINDI.table(400), 32))
    optimizer = torch.optim.AdamW([
        {"params": model[0].parameters(), "lr": 1.5e-3},
        {"params": model[2].parameters(), "lr": 4e-3},
    ])  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, infonce, update, seeker(HINDI), steps=70)


def nested(first: Tensor, second: Tensor) -> Tensor:
    """The ranking loss of the first 8, 16 and of all dimensions."""
    widths = (8, 16, first.shape[1])
    return sum(infonce(first[:, :width], second[:, :width]) for width in widths) / len(widths)


@sound("nested dimensions in a loop")
def nested_dimensions_of_museum_cards(stage: Stage) -> None:
    model = fresh(stage, MUSEUM)
    rows, optimizer = Rows(MUSEUM.table(400), 32), _adam(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 70, eta_min=1e-4)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))
        schedule.step()

    turn(stage, model, nested, update, seeker(MUSEUM), steps=70)


@sound("penalty for leaving the starting point")
def patents_held_near_their_starting_point(stage: Stage) -> None:
    """A copy of the encoder at the start holds the tuned one near by a small penalty."""
    model = warmed(fresh(stage, PATENTS), PATENTS.table(240), 4)
    start = copy.deepcopy(model).eval().requires_grad_(False)
    rows, optimizer = Rows(PATENTS.table(240), 24), _adam(model, 1e-3)

    def held(first: Tensor, second: Tensor, early: Tensor) -> Tensor:
        return infonce(first, second) + 0.05 * (1 - F.cosine_similarity(first, early)).mean()

    def update(criterion: Any, step: int) -> None:
        claims, descriptions = rows()
        with torch.no_grad():
            early = embed(start, claims)
        stepped(optimizer, criterion(embed(model, claims), embed(model, descriptions), early))

    turn(stage, model, held, update, seeker(PATENTS), steps=60)

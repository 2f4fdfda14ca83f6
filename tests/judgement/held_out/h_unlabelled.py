"""Sound set-ups without labels: views of one text, denoising, tension, whitened embeddings."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, embed, infonce, stepped, turn
from tests.judgement.held_out.h_fields import (
    COMMITS,
    HOTELS,
    LAB,
    MAILS,
    SHELL,
    TAGS,
    adam,
    made_for,
    without_words,
)  # fmt: skip
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses


def found_again(texts: list[str], seed: int = 5, share: float = 0.4) -> Any:
    """The score of texts sought by some of their words."""
    draw = random.Random(seed)
    table = {"query": [without_words(text, draw, share) for text in texts], "text": texts}
    return lambda model: retrieval(model, table)


@sound("views of one text by dropout, with a trainer")
def laboratory_reports_seen_twice(stage: Stage) -> None:
    texts = LAB.table(320)["passage"]
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"sentence": texts, "same": texts},
        made_for(stage, LAB, pooling="max"), learning_rate=1e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, found_again(LAB.table(80, seed=11)["passage"]))


@sound("views of one text by dropout, in a loop")
def mail_bodies_seen_twice_in_a_loop(stage: Stage) -> None:
    model = made_for(stage, MAILS, dropout=0.15, pooling="max")
    rows, optimizer = Rows({"body": MAILS.table(320)["body"]}, 24), adam(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        stepped(optimizer, criterion(embed(model, texts), embed(model, texts)))

    turn(stage, model, infonce, update, found_again(MAILS.table(80, seed=11)["body"]))


@sound("views by left-out words, drawn anew each step")
def reviews_with_words_left_out(stage: Stage) -> None:
    model = made_for(stage, HOTELS)
    rows, optimizer = Rows({"review": HOTELS.table(320)["review"]}, 24), adam(model, 2e-3)
    draw = random.Random(1)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [[without_words(text, draw, 0.3) for text in texts] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    turn(stage, model, infonce, update, found_again(HOTELS.table(80, seed=11)["review"]))


@sound("decorrelated embeddings of two views")
def commands_with_decorrelated_dimensions(stage: Stage) -> None:
    """Barlow Twins: cross-correlation of two views near the identity."""

    def twins(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-4) for rows in (first, second))
        correlation = first.T @ second / len(first)
        diagonal = correlation.diagonal()
        rest = correlation - torch.diag(diagonal)
        return (diagonal - 1).square().sum() + 0.05 * rest.square().sum()

    model = made_for(stage, SHELL, pooling="max")
    rows, optimizer = Rows({"intent": SHELL.table(400)["intent"]}, 64), adam(model, 2e-3)
    draw = random.Random(2)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [[without_words(text, draw, 0.2) for text in texts] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    score = found_again(SHELL.table(80, seed=11)["intent"], share=0.3)
    turn(stage, model, twins, update, score, steps=60)


@sound("variance and covariance beside the distance of views")
def tags_with_variance_and_covariance(stage: Stage) -> None:
    """VICReg on two views of the tags of a song in another order."""

    def spread(rows: Tensor) -> Tensor:
        centred = rows - rows.mean(0)
        covariance = centred.T @ centred / (len(rows) - 1)
        off = covariance - torch.diag(covariance.diagonal())
        hinge = F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean()
        return 25 * hinge + off.square().sum() / rows.shape[1]

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        return 25 * F.mse_loss(first, second) + spread(first) + spread(second)

    model = made_for(stage, TAGS, pooling="max")
    rows, optimizer = Rows({"tags": TAGS.table(400)["tags"]}, 64), adam(model, 2e-3)
    draw = random.Random(3)

    def view(text: str) -> str:
        words = without_words(text, draw, 0.3).split()
        return " ".join(draw.sample(words, len(words)))

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [[view(text) for text in texts] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, texts) for texts in views)))

    turn(stage, model, vicreg, update, found_again(TAGS.table(80, seed=11)["tags"], share=0.3))


@sound("several views of each text")
def four_views_of_each_commit(stage: Stage) -> None:
    """The supervised contrastive loss, with the views of a text as its class."""

    def views_together(rows: Tensor, owners: Tensor) -> Tensor:
        cosines = F.normalize(rows, dim=-1) @ F.normalize(rows, dim=-1).T / 0.1
        self_mask = torch.eye(len(rows), dtype=torch.bool)
        logs = F.log_softmax(cosines.masked_fill(self_mask, -1e4), dim=1)
        alike = (owners[:, None] == owners) & ~self_mask
        return -(logs * alike).sum(1).div(alike.sum(1)).mean()

    model = made_for(stage, COMMITS)
    rows, optimizer = Rows({"diff": COMMITS.table(320)["diff"]}, 16), adam(model, 2e-3)
    draw = random.Random(4)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [without_words(text, draw, 0.3) for text in texts for _ in range(4)]
        owners = torch.arange(len(texts)).repeat_interleave(4)
        stepped(optimizer, criterion(embed(model, views), owners))

    turn(stage, model, views_together, update, found_again(COMMITS.table(80, seed=11)["diff"]))


@sound("alignment and uniformity of views")
def aligned_and_uniform_passages(stage: Stage) -> None:
    def uniformity(rows: Tensor) -> Tensor:
        return torch.pdist(rows).square().mul(-2).exp().mean().log()

    def align_uniform(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first, dim=-1), F.normalize(second, dim=-1)
        distance = (first - second).square().sum(1).mean()
        return distance + (uniformity(first) + uniformity(second)) / 2

    model = made_for(stage, LAB)
    rows, optimizer = Rows({"passage": LAB.table(400)["passage"]}, 32), adam(model, 2e-3)
    draw = random.Random(6)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [[without_words(text, draw, 0.25) for text in texts] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    turn(stage, model, align_uniform, update, found_again(LAB.table(80, seed=11)["passage"]))


@sound("contrastive tension with pairs in the batch")
def tension_between_two_encoders_anew(stage: Stage) -> None:
    texts = TAGS.table(320)["tags"]
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives,
        {"sentence1": texts, "sentence2": texts},
        made_for(stage, TAGS, pooling="max"), per_device_train_batch_size=32,
        learning_rate=1e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, found_again(TAGS.table(80, seed=11)["tags"], share=0.3))


@sound("neighbouring sentences of a document as a pair")
def halves_of_one_document(stage: Stage) -> None:
    """Independent cropping as in Contriever: two spans of a text are a pair."""
    draw, table = random.Random(8), {"span": list[str](), "context": list[str]()}
    for text in MAILS.table(400)["body"]:
        words = text.split()
        for column in table.values():
            start = draw.randrange(0, 6)
            column.append(" ".join(words[start : start + draw.randint(18, 26)]))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, made_for(stage, MAILS),
        per_device_train_batch_size=24, learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, found_again(MAILS.table(80, seed=11)["body"], share=0.3))

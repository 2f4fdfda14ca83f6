"""Sound set-ups: losses of loops that people write themselves."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CLINIC,
    CODE,
    HELPDESK,
    KITCHEN,
    PAPERS,
    SCENES,
    SHOP,
    TRAVEL,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval


def adam(model: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def over_columns(
    stage: Stage, loss: Any, table: Any, score: Any, *, size: int = 16, rate: float = 2e-3,
    steps: int = 50, before: Any = None,
) -> None:  # fmt: skip
    """A loop that embeds each column of texts and hands numbers of a last column on.

    With a table ``before``, the encoder was trained on a few batches of its pairs.
    """
    model = encoder(stage, words_of([table, before or {}]), dropout=0.0 if before else 0.1)
    model = warmed(model, before, 4) if before else model
    rows, optimizer = Rows(table, size), adam(model, rate)

    def update(criterion: Any, step: int) -> None:
        columns = [
            embed(model, column) if isinstance(column[0], str) else torch.tensor(column)
            for column in rows()
        ]
        stepped(optimizer, criterion(*columns))

    turn(stage, model, loss, update, score, steps=steps)


@sound("dropout as the only difference")
def sentences_twice_through_dropout(stage: Stage) -> None:
    """Unsupervised SimCSE: each text is embedded twice, and only dropout tells the views apart."""
    table = HELPDESK.table(240)
    texts = {"text": table["question"] + table["answer"]}
    model = encoder(stage, words_of([table]), dropout=0.15)
    rows, optimizer = Rows(texts, 24), adam(model, 1e-3)
    unseen = HELPDESK.table(50, seed=11)
    shorter = {"long": unseen["answer"], "short": [
        " ".join(text.split()[2:10:2]) for text in unseen["answer"]
    ]}  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        stepped(optimizer, criterion(embed(model, batch), embed(model, batch)))

    turn(stage, model, infonce, update, lambda model: retrieval(model, shorter))


def with_hard_negatives(first: Tensor, second: Tensor, hard: Tensor) -> Tensor:
    """InfoNCE among positives and hard negatives of the batch."""
    logits = cosines(first, torch.cat([second, hard])) / 0.05
    return F.cross_entropy(logits, torch.arange(len(first)))


@sound("entailed and contradicted hypotheses")
def supervised_simcse_on_scenes(stage: Stage) -> None:
    """Entailed hypotheses are positives, contradicted ones hard negatives."""
    table = SCENES.table(180) | {"contradiction": SCENES.near(180, slot=1)}
    over_columns(stage, with_hard_negatives, table, SCENES.sought)


@sound("triplet margin of PyTorch")
def papers_tuned_by_a_triplet_margin(stage: Stage) -> None:
    """`triplet_margin_with_distance_loss` at cosine distances, the nearer negative of a pair."""

    def triplet(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            first, second, third, margin=0.25, swap=True,
            distance_function=lambda a, b: 1 - F.cosine_similarity(a, b),
        )  # fmt: skip

    table = PAPERS.table(200) | {"negative": PAPERS.near(200)}
    table["negative"][::2] = table["abstract"][1::2]
    over_columns(stage, triplet, table, PAPERS.sought, before=PAPERS.table(200, seed=4))


def cosent(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """CoSENT: pairs of a higher score have the higher cosine."""
    return ordered(20 * F.cosine_similarity(first, second), scores)


@sound("order of graded pairs")
def cosent_written_out_for_products(stage: Stage) -> None:
    """Cosines of pairs are to have the order of their grades."""
    table = SHOP.graded(220)
    over_columns(
        stage, cosent, table, lambda model: correlation(model, SHOP.graded(50, seed=11)),
        size=20, rate=1e-3, steps=80, before=SHOP.table(200, seed=4),
    )  # fmt: skip


def ordered(values: Tensor, scores: Tensor) -> Tensor:
    """Soft count of pairs of pairs in the wrong order."""
    gaps = values[:, None] - values[None]
    return torch.logsumexp(torch.cat([torch.zeros(1), gaps[scores[:, None] < scores[None]]]), 0)


def angle(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """AnglE: halves of an embedding are real and imaginary; the order is of their angles."""
    (a, b), (c, d) = first.chunk(2, 1), second.chunk(2, 1)
    size = (c**2 + d**2).sum(1, keepdim=True)
    real, imaginary = (a * c + b * d) / size, (b * c - a * d) / size
    length = first.norm(dim=1, keepdim=True) / second.norm(dim=1, keepdim=True)
    values = (torch.cat([real, imaginary], 1) / length).sum(1).abs()
    return ordered(20 * values, scores) + ordered(20 * F.cosine_similarity(first, second), scores)


@sound("angles and cosines of graded pairs")
def angle_and_cosine_terms_for_recipes(stage: Stage) -> None:
    """The angle term and the cosine term are added."""
    table = KITCHEN.graded(220)
    over_columns(
        stage, angle, table, lambda model: correlation(model, KITCHEN.graded(50, seed=11)),
        size=32, rate=1e-3, steps=110, before=KITCHEN.table(200, seed=4),
    )  # fmt: skip


def circle(first: Tensor, second: Tensor) -> Tensor:
    """Circle loss over all pairs of a batch, with a margin of 0.25."""
    values, mask = cosines(first, second), torch.eye(len(first), dtype=torch.bool)
    right, wrong = values[mask], values[~mask].view(len(first), -1)
    pull = -16 * F.relu(1.25 - right.detach()) * (right - 0.75)
    push = 16 * F.relu(wrong.detach() + 0.25) * (wrong - 0.25)
    return F.softplus(torch.logsumexp(push, 1) + pull).mean()


@sound("circle loss of pairs")
def circle_of_clinic_pairs(stage: Stage) -> None:
    """Each pair weighs by how far it is from its aim."""
    over_columns(stage, circle, CLINIC.table(180), CLINIC.sought)


def supervised(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive loss of both views; all rows of a class are positives."""
    rows, labels = torch.cat([first, second]), torch.cat([labels, labels])
    logits = cosines(rows, rows) / 0.1
    itself = torch.eye(len(rows), dtype=torch.bool)
    alike = (labels[:, None] == labels[None]) & ~itself
    shares = logits.masked_fill(itself, -1e4).log_softmax(1)
    return -((shares * alike).sum(1) / alike.sum(1)).mean()


@sound("all rows of a class are positives")
def classes_and_views_contrasted(stage: Stage) -> None:
    """Texts of a town are of a class, and each has a translation as its second view."""
    rows = TRAVEL.draws(220)
    towns = sorted({row[0] for row in rows})
    table: dict[str, list[Any]] = {
        "first": TRAVEL.texts(rows, 0), "second": TRAVEL.texts(rows, 1),
        "town": [towns.index(row[0]) for row in rows],
    }  # fmt: skip
    unseen = TRAVEL.draws(60, seed=11)

    def score(model: Any) -> float:
        first, second = (
            model.encode(TRAVEL.texts(unseen, at), normalize_embeddings=True) for at in (0, 1)
        )
        near = (first @ second.T).argmax(1)
        return sum(unseen[at][0] == unseen[int(to)][0] for at, to in enumerate(near)) / 60

    over_columns(stage, supervised, table, score, size=20)


def several(first: Tensor, *passages: Tensor) -> Tensor:
    """Cross-entropy over a row's own passages only: the positive, then its negatives."""
    rows = F.normalize(torch.stack(passages, 1), dim=-1)
    logits = (F.normalize(first, dim=-1)[:, None] * rows).sum(-1) / 0.1
    return F.cross_entropy(logits, torch.zeros(len(first), dtype=torch.long))


@sound("a row's passages only")
def right_function_of_four(stage: Stage) -> None:
    """No in-batch negatives: each description has its function and three near misses."""
    table = CODE.table(200) | {f"negative_{slot}": CODE.near(200, slot=slot) for slot in range(3)}
    over_columns(stage, several, table, CODE.sought, size=12, steps=60)


def pairwise_softplus(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """Bayesian personalised ranking: the positive's cosine exceeds the negative's."""
    gaps = F.cosine_similarity(first, second) - F.cosine_similarity(first, third)
    return F.softplus(-10 * gaps).mean()


@sound("positive above negative, softly")
def clicked_products_above_skipped(stage: Stage) -> None:
    """Clicks against skipped products of the result page."""
    table = SHOP.table(220) | {"skipped": SHOP.near(220, slot=0)}
    table["skipped"][::2] = SHOP.near(220, slot=1)[::2]
    over_columns(stage, pairwise_softplus, table, SHOP.sought, size=24, rate=3e-3, steps=60)

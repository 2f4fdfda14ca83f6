"""Sound set-ups: loops of one's own over grades, classes, triplets and proxies."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first import rated_fields as rated
from tests.judgement.first.bodies import encoder
from tests.judgement.first.numbered_fields import HOMES, NEWS, OFFERS, SALTS
from tests.judgement.first.training_kit import (
    adamw,
    by_grades,
    by_neighbour,
    by_precision,
    by_rank,
    down,
    rises,
    similarities,
    simple,
)
from tests.judgement.first.turns import embed
from tests.judgement.stage import Stage


class ClassBatches:
    """Batches of a few texts of each of some classes, as metric learning draws them."""

    def __init__(self, texts: Sequence[str], labels: Sequence[int], classes: int, quota: int):
        self._draw, self._classes, self._quota = random.Random(1), classes, quota
        self._texts = {label: [text for text, own in zip(texts, labels, strict=True)
                               if own == label] for label in sorted(set(labels))}  # fmt: skip

    def __call__(self) -> tuple[list[str], Tensor]:
        chosen = self._draw.sample(list(self._texts), self._classes)
        texts = [text for label in chosen for text in
                 self._draw.sample(self._texts[label], self._quota)]  # fmt: skip
        return texts, torch.tensor(chosen).repeat_interleave(self._quota)


@sound("ranking of graded pairs")
def homes_ranked_by_shared_features(stage: Stage) -> None:
    """CoSENT by hand: the cosine of a pair with a higher grade is to be the higher one."""

    def ranked(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        cosines = 20 * F.cosine_similarity(first, second)
        gaps = cosines[:, None] - cosines[None, :]
        wrong = gaps[grades[:, None] < grades[None, :]]
        return torch.cat([wrong.new_zeros(1), wrong]).logsumexp(0)

    model = encoder(stage, HOMES.vocabulary())
    update = simple(model, HOMES.graded(500), adamw(model), size=32)
    score = by_grades(HOMES.graded(200, held_out=True))
    rises(stage, model, ranked, update, score, steps=110)


@sound("cosines regressed on grades with RMSprop")
def headlines_regressed_on_agreement(stage: Stage) -> None:
    """The squared distance of cosine and grade, the oldest loss for graded pairs."""

    def regressed(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        return F.mse_loss(F.cosine_similarity(first, second), grades)

    model = encoder(stage, NEWS.vocabulary(), dropout=0.05)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4)
    update = simple(model, NEWS.graded(500), optimizer, size=24)
    score = by_grades(NEWS.graded(200, held_out=True))
    rises(stage, model, regressed, update, score, steps=140)


@sound("correlation with grades as the loss")
def salt_names_correlated_with_grades(stage: Stage) -> None:
    """One minus Pearson's correlation of cosines and grades, over batches of 48 pairs."""

    def uncorrelated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        cosines = F.cosine_similarity(first, second)
        pair = torch.stack([cosines - cosines.mean(), grades - grades.mean()])
        return 1 - F.cosine_similarity(pair[0], pair[1], dim=0)

    model = encoder(stage, SALTS.vocabulary(), layers=1)
    update = simple(model, SALTS.graded(480, most=5.0), adamw(model), size=48)
    score = by_grades(SALTS.graded(120, held_out=True))
    rises(stage, model, uncorrelated, update, score, steps=90)


@sound("contrastive loss of matching and other pairs")
def product_offers_matched_across_shops(stage: Stage) -> None:
    """Hadsell's loss: the same product is drawn together, others apart up to a margin of 0.6."""

    def contrastive(ours: Tensor, second_rows: Tensor, same: Tensor) -> Tensor:
        distances = 1 - F.cosine_similarity(ours, second_rows)
        apart = (1 - same) * F.relu(0.6 - distances).square()
        return (same * distances.square() + apart).mean()

    model = encoder(stage, OFFERS.vocabulary())
    update = simple(model, OFFERS.matched(600, slots=2), adamw(model), size=32)
    score = by_precision(OFFERS.matched(200, slots=2, held_out=True))
    rises(stage, model, contrastive, update, score, steps=170)


@sound("ordinal distances of ratings")
def hotel_reviews_ordered_by_stars(stage: Stage) -> None:
    """Rank-N-Contrast: a review's partner is nearer than all whose stars differ by more."""

    def ranked(rows: Tensor, stars: Tensor) -> Tensor:
        logits = similarities(rows, rows) / 0.2
        gaps = (stars[:, None] - stars[None, :]).abs()
        own = torch.eye(len(rows), dtype=torch.bool)
        further = (gaps[:, None, :] >= gaps[:, :, None]) & ~own[:, None, :]
        below = logits[:, None, :].masked_fill(~further, -torch.inf).logsumexp(2)
        return (below - logits)[~own].mean()

    model = encoder(stage, rated.vocabulary(rated.hotel_reviews(600)))
    update = simple(model, rated.hotel_reviews(500), adamw(model), size=24)
    score = by_neighbour(rated.hotel_reviews(150, held_out=True))
    rises(stage, model, ranked, update, score, steps=110)


@sound("supervised contrast of classes")
def telecom_tickets_with_supervised_contrast(stage: Stage) -> None:
    """SupCon: all tickets of the same queue are positives of a ticket, averaged outside."""

    def supervised(rows: Tensor, labels: Tensor) -> Tensor:
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (similarities(rows, rows) / 0.1).masked_fill(own, -torch.inf)
        same = (labels[:, None] == labels[None, :]) & ~own
        chances = logits.log_softmax(1).masked_fill(~same, 0.0)
        return -(chances.sum(1) / same.sum(1).clamp(min=1))[same.any(1)].mean()

    model = encoder(stage, rated.vocabulary(rated.tickets(700)), pooling="cls")
    update = simple(model, rated.tickets(400), adamw(model), size=32, most=1.0)
    score = by_neighbour(rated.tickets(120, held_out=True))
    rises(stage, model, supervised, update, score, steps=150)


@sound("episodes of prototypes")
def flight_wishes_in_prototype_episodes(stage: Stage) -> None:
    """Prototypical networks: three texts of each intent make a centre, two others seek theirs."""
    table = rated.flight_wishes(400)
    draw = ClassBatches(table["utterance"], table["intent"], classes=5, quota=5)
    model = encoder(stage, rated.vocabulary(rated.flight_wishes(700)))
    optimizer = adamw(model)

    def prototypes(queries: Tensor, centres: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(-torch.cdist(queries, centres).square() / 8, labels)

    def update(criterion: Any, step: int) -> None:
        texts, _ = draw()
        rows = embed(model, texts).reshape(5, 5, -1)
        queries, centres = rows[:, :2].flatten(0, 1), rows[:, 2:].mean(1)
        labels = torch.arange(5).repeat_interleave(2)
        down(optimizer, criterion(queries, centres, labels), most=1.0)

    score = by_neighbour(rated.flight_wishes(120, held_out=True))
    rises(stage, model, prototypes, update, score, steps=120)


@sound("hardest triplets of classes drawn evenly")
def log_events_with_hardest_triplets(stage: Stage) -> None:
    """Batches of four lines of each of six events; softplus of hardest positive minus negative."""
    table = rated.log_lines(400)
    draw = ClassBatches(table["line"], table["event"], classes=6, quota=4)
    model = encoder(stage, rated.vocabulary(rated.log_lines(900)), layers=1)
    optimizer = adamw(model, rate=1e-3)

    def hardest(rows: Tensor, labels: Tensor) -> Tensor:
        distances = 1 - similarities(rows, rows)
        same = labels[:, None] == labels[None, :]
        furthest = distances.masked_fill(~same, -1.0).amax(1)
        nearest = distances.masked_fill(same, 3.0).amin(1)
        return F.softplus(10 * (furthest - nearest)).mean()

    def update(criterion: Any, step: int) -> None:
        texts, labels = draw()
        down(optimizer, criterion(embed(model, texts), labels))

    score = by_neighbour(rated.log_lines(150, held_out=True))
    rises(stage, model, hardest, update, score, steps=150)


class AngularProxies(nn.Module):
    """Normalised softmax with a learned centre for each class and a margin, as in CosFace."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.centres = nn.Parameter(torch.randn(classes, width))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        margin = 0.2 * F.one_hot(labels, len(self.centres))
        return F.cross_entropy(16 * (similarities(rows, self.centres) - margin), labels)


@sound("learned centres of classes with a faster rate")
def ticket_queues_with_angular_proxies(stage: Stage) -> None:
    """Centres train at ten times the rate of the encoder, as is customary for proxies."""
    model = encoder(stage, rated.vocabulary(rated.tickets(700)), width=32)
    criterion = AngularProxies(len(rated.queue_names()), 32)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 2e-3}, {"params": criterion.parameters(), "lr": 2e-2}]
    )
    update = simple(model, rated.tickets(400), optimizer, size=16)
    score = by_neighbour(rated.tickets(120, held_out=True))
    rises(stage, model, criterion, update, score, steps=150)


@sound("triplets with a margin of Euclidean distances")
def implications_as_euclidean_triplets(stage: Stage) -> None:
    """Premise, what follows and what contradicts it: FaceNet's hinge on normalised rows."""

    def hinge(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        rows = [F.normalize(column, dim=1) for column in (anchors, positives, negatives)]
        return F.triplet_margin_loss(*rows, margin=0.5)

    table, sought = rated.implications(480), rated.implications(100, held_out=True)
    model = encoder(stage, rated.vocabulary(table, sought))
    update = simple(model, table, adamw(model), size=24)

    def above_contradictions(encoder_of_texts: Any) -> float:
        rows = [encoder_of_texts.encode(texts, normalize_embeddings=True, convert_to_tensor=True)
                for texts in sought.values()]  # fmt: skip
        return float(((rows[0] * (rows[1] - rows[2])).sum(1) > 0).float().mean())

    rises(stage, model, hinge, update, above_contradictions, steps=80)


@sound("pairwise ranking against sampled texts")
def salt_formulas_with_pairwise_ranking(stage: Stage) -> None:
    """BPR as in recommenders: the formula is to be above three sampled ones of the batch."""

    def ranked(names: Tensor, formulas: Tensor) -> Tensor:
        scores = 5 * similarities(names, formulas)
        counterparts = torch.stack([scores.roll(shift, 1).diagonal() for shift in (1, 2, 3)], 1)
        return -F.logsigmoid(scores.diagonal()[:, None] - counterparts).mean()

    model = encoder(stage, SALTS.vocabulary())
    update = simple(model, SALTS.table(400), adamw(model), size=24)
    rises(stage, model, ranked, update, by_rank(SALTS.sought()), steps=100)

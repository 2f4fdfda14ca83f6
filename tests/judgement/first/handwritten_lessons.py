"""Sound loops of one's own: classes, prototypes, teachers, scores and kinds of inference."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.beside import adam
from tests.judgement.first.fields import HELPDESK, KITCHEN
from tests.judgement.first.scores_and_classes import gathers, in_classes
from tests.judgement.first.teachers_and_guides import rows_of, taught_scores, teacher_of
from tests.judgement.first.trades_and_texts import (
    BANK,
    CHEMISTRY,
    GARDEN,
    HOUSES,
    JOBS,
    MUSEUM,
    SPORT,
    TWEETS,
    WEATHER,
    agrees,
    descent,
    encoder_of,
    finds,
    triples,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


@sound("supervised contrast of classes, of a library")
def garden_classes_contrasted_by_a_library(stage: Stage) -> None:
    """The supervised contrastive loss of pytorch-metric-learning on texts of eleven plants."""
    from pytorch_metric_learning.losses import SupConLoss

    model = encoder_of(stage, GARDEN)
    update = descent(model, in_classes(GARDEN, 400, 0), size=48)
    turn(stage, model, SupConLoss(temperature=0.1), update, gathers(GARDEN, 0))


@sound("several similarities with a miner")
def sport_mined_by_several_similarities(stage: Stage) -> None:
    """The multi-similarity loss of a library, on the pairs that its miner picks."""
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    loss, miner = MultiSimilarityLoss(alpha=2, beta=40, base=0.5), MultiSimilarityMiner(0.1)

    def mined(rows: Tensor, labels: Tensor) -> Tensor:
        return loss(rows, labels, miner(rows, labels))

    model = encoder_of(stage, SPORT)
    update = descent(model, in_classes(SPORT, 400, 0), size=48)
    turn(stage, model, mined, update, gathers(SPORT, 0))


class CosineClasses(nn.Module):
    """A softmax over cosines with a learned centre for each class, and a margin, as CosFace."""

    def __init__(self, classes: int, margin: float = 0.2) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.centres, self.margin = nn.Parameter(torch.randn(classes, 48)), margin

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        own = F.one_hot(labels, len(self.centres))
        return F.cross_entropy(16 * (cosines(rows, self.centres) - self.margin * own), labels)


@sound("class centres with a margin")
def museum_centres_with_a_margin(stage: Stage) -> None:
    """Eight kinds of items, each with a learned centre that has the optimiser of the encoder."""
    model, loss = encoder_of(stage, MUSEUM), CosineClasses(8)
    update = descent(model, in_classes(MUSEUM, 400, 0), loss, size=32)
    turn(stage, model, loss, update, gathers(MUSEUM, 0))


@sound("proxies at a rate of their own")
def trade_proxies_at_a_higher_rate(stage: Stage) -> None:
    """Proxy-Anchor of a library: the proxies learn at ten times the encoder's rate."""
    from pytorch_metric_learning.losses import ProxyAnchorLoss

    model = encoder_of(stage, JOBS)
    torch.manual_seed(2)
    loss = ProxyAnchorLoss(10, 48, margin=0.1, alpha=32)
    optimizer = torch.optim.AdamW([
        {"params": list(model.parameters()), "lr": 2e-3},
        {"params": list(loss.parameters()), "lr": 2e-2},
    ])  # fmt: skip
    rows = Rows(in_classes(JOBS, 400, 0), 40)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    turn(stage, model, loss, update, gathers(JOBS, 0), steps=60)


@sound("linear classifier on embeddings")
def intents_by_a_linear_classifier(stage: Stage) -> None:
    """Intents of a help desk: a linear layer on the embedding, smoothed labels."""

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.layer = nn.Linear(48, 9)

        def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
            return F.cross_entropy(self.layer(rows), labels, label_smoothing=0.1)

    model, loss = encoder_of(stage, HELPDESK), Linear()
    update = descent(model, in_classes(HELPDESK, 400, 1), loss, size=32)
    turn(stage, model, loss, update, gathers(HELPDESK, 1), steps=60)


@sound("episodes with prototypes")
def episodes_of_six_dishes_each(stage: Stage) -> None:
    """Prototypical networks: means of three texts a class are sought by two others of each."""
    table = in_classes(KITCHEN, 500, 0)
    of_class: dict[int, list[str]] = {}
    for text, label in zip(table["text"], table["label"], strict=True):
        of_class.setdefault(label, []).append(text)
    model, draw = encoder_of(stage, KITCHEN), random.Random(0)
    optimizer = adam(model, rate=2e-3)

    def prototypes(support: Tensor, queries: Tensor) -> Tensor:
        means = support.view(6, 3, -1).mean(1)
        return F.cross_entropy(10 * cosines(queries, means), torch.arange(6).repeat_interleave(2))

    def update(criterion: Any, step: int) -> None:
        drawn = [draw.sample(of_class[label], 5) for label in draw.sample(sorted(of_class), 6)]
        support = [text for texts in drawn for text in texts[:3]]
        queries = [text for texts in drawn for text in texts[3:]]
        stepped(optimizer, criterion(embed(model, support), embed(model, queries)))

    turn(stage, model, prototypes, update, gathers(KITCHEN, 0), steps=60)


@sound("similarities of a teacher within a batch")
def similarities_of_a_teacher_within_batches(stage: Stage) -> None:
    """Relations: the student's softmax over the batch follows the teacher's, of another width."""
    teacher = teacher_of(stage, WEATHER)
    table: dict[str, Any] = WEATHER.table(400)
    table["first_row"], table["second_row"] = (
        rows_of(teacher, table[name]).tolist() for name in ("english", "french")
    )

    def related(first: Tensor, second: Tensor, *taught: Tensor) -> Tensor:
        aim = F.softmax(cosines(*taught) / 0.1, 1)
        return F.kl_div(F.log_softmax(cosines(first, second) / 0.1, 1), aim, reduction="batchmean")

    model = encoder_of(stage, WEATHER, width=32)
    turn(stage, model, related, descent(model, table, size=32), finds(WEATHER), steps=60)


@sound("lists of candidates with a teacher's scores")
def candidate_lists_scored_by_a_teacher(stage: Stage) -> None:
    """A softmax over four candidates of each query follows the teacher's, beside InfoNCE."""
    table: dict[str, Any] = triples(BANK, 400, slots=(0, 1, 2))
    table["scores"] = taught_scores(teacher_of(stage, BANK), table)

    def listwise(first: Tensor, *columns: Tensor) -> Tensor:
        *candidates, taught = columns
        scores = torch.stack([F.cosine_similarity(first, candidate) for candidate in candidates], 1)
        divergence = F.kl_div(
            F.log_softmax(10 * scores, 1), F.softmax(10 * taught, 1), reduction="batchmean"
        )
        return divergence + 0.2 * infonce(first, candidates[0])

    model = encoder_of(stage, BANK)
    turn(stage, model, listwise, descent(model, table, size=24), finds(BANK), steps=60)


@sound("correlation with scores as a loss")
def scores_by_their_correlation(stage: Stage) -> None:
    """One minus Pearson's correlation of cosines and scores in batches of 48."""

    def uncorrelated(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        values = F.cosine_similarity(first, second)
        return 1 - torch.corrcoef(torch.stack([values, scores]))[0, 1]

    model = encoder_of(stage, HOUSES)
    update = descent(model, HOUSES.graded(600), rate=3e-3, size=48)
    turn(stage, model, uncorrelated, update, agrees(HOUSES), steps=100)


@sound("order of scores as a loss")
def order_of_scores_by_logistic_differences(stage: Stage) -> None:
    """RankNet: of any two pairs, the better scored is to have the greater cosine."""

    def ordered(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
        values = F.cosine_similarity(first, second)
        differences = 20 * (values[:, None] - values)
        better = scores[:, None] > scores
        return F.softplus(-differences[better]).mean()

    model = encoder_of(stage, TWEETS)
    update = descent(model, TWEETS.graded(600), rate=3e-3, size=48)
    turn(stage, model, ordered, update, agrees(TWEETS), steps=100)


@sound("two tasks in one loop")
def pairs_and_classes_in_one_loss(stage: Stage) -> None:
    """InfoNCE of names and formulas beside a light loss of their acids' classes."""
    slot = list(CHEMISTRY.slots.values())[1].split()
    rows = CHEMISTRY.draws(400)
    table: dict[str, Any] = CHEMISTRY.table(400)
    table["acid"] = [slot.index(row[1]) for row in rows]

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classes = CosineClasses(len(slot), margin=0.0)

        def forward(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
            return infonce(first, second) + 0.2 * self.classes(first, labels)

    model, loss = encoder_of(stage, CHEMISTRY), Both()
    turn(stage, model, loss, descent(model, table, loss, size=24), finds(CHEMISTRY))

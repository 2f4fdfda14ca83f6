"""Sound loops of one's own: contrastive losses of pairs and hard negatives, written by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields import KITCHEN, PAPERS, SCENES, SHOP
from tests.judgement.first.trades_and_texts import (
    BANK,
    CHEMISTRY,
    GARDEN,
    HOUSES,
    JOBS,
    MUSEUM,
    RUSSIAN,
    SPORT,
    TWEETS,
    WEATHER,
    descent,
    encoder_of,
    finds,
    near_misses,
    triples,
)
from tests.judgement.first.turns import cosines, infonce, turn
from tests.judgement.stage import Stage


class LearnedScale(nn.Module):
    """InfoNCE in both directions, whose scale is learned and held below 100, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(14.0).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.log_scale.exp().clamp(max=100) * cosines(first, second)
        diagonal = torch.arange(len(first))
        return (F.cross_entropy(logits, diagonal) + F.cross_entropy(logits.T, diagonal)) / 2


@sound("loop with a learned scale")
def scale_learned_with_the_weather(stage: Stage) -> None:
    """Both directions of a bitext, with the scale of CLIP among the weights."""
    model, loss = encoder_of(stage, WEATHER), LearnedScale()
    turn(stage, model, loss, descent(model, WEATHER.table(400), loss, size=32), finds(WEATHER))


class SigmoidWithBias(nn.Module):
    """The loss of SigLIP, with a scale and a bias that are learned."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(10.0).log())
        self.bias = nn.Parameter(torch.tensor(-10.0))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.log_scale.exp() * cosines(first, second) + self.bias
        signs = 2 * torch.eye(len(first)) - 1
        return -F.logsigmoid(signs * logits).sum(1).mean()


@sound("loop with sigmoids and a learned bias")
def sigmoids_of_garden_pairs(stage: Stage) -> None:
    """Each pair of a batch is judged by itself; scale and bias begin as in SigLIP."""
    model, loss = encoder_of(stage, GARDEN), SigmoidWithBias()
    update = descent(model, GARDEN.table(400), loss, size=32)
    turn(stage, model, loss, update, finds(GARDEN), steps=60)


@sound("loop with shared hard negatives")
def near_misses_shared_by_the_batch(stage: Stage) -> None:
    """Each anchor among all positives and all hard negatives of the batch."""

    def ranking(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return infonce(first, torch.cat([second, third]))

    model = encoder_of(stage, BANK)
    table = BANK.table(320) | {"negative": near_misses(BANK, 320)}
    turn(stage, model, ranking, descent(model, table), finds(BANK))


@sound("loop with one's own hard negatives only")
def own_candidates_of_each_search(stage: Stage) -> None:
    """A softmax over the positive and three near misses of each row, none of other rows."""

    def listwise(first: Tensor, *candidates: Tensor) -> Tensor:
        scores = torch.stack([F.cosine_similarity(first, candidate) for candidate in candidates], 1)
        return F.cross_entropy(scores / 0.05, torch.zeros(len(first), dtype=torch.long))

    model = encoder_of(stage, JOBS)
    table = triples(JOBS, 400, slots=(0, 1, 3))
    update = descent(model, table, rate=3e-3, size=32)
    turn(stage, model, listwise, update, finds(JOBS), steps=80)


@sound("decoupled loop")
def positives_left_out_of_the_denominator(stage: Stage) -> None:
    """The decoupled loss: the positive is not among what it is compared with."""

    def decoupled(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.07
        negatives = logits.masked_fill(torch.eye(len(first), dtype=torch.bool), float("-inf"))
        return (torch.logsumexp(negatives, 1) - logits.diagonal()).mean()

    model = encoder_of(stage, SPORT)
    turn(stage, model, decoupled, descent(model, SPORT.table(320)), finds(SPORT))


@sound("loop over two views in one matrix")
def both_views_in_one_matrix(stage: Stage) -> None:
    """NT-Xent: all rows of both columns are candidates, but for each row itself."""

    def two_views(first: Tensor, second: Tensor) -> Tensor:
        rows, count = torch.cat([first, second]), len(first)
        logits = cosines(rows, rows) / 0.1
        logits = logits.masked_fill(torch.eye(2 * count, dtype=torch.bool), float("-inf"))
        partners = torch.cat([torch.arange(count) + count, torch.arange(count)])
        return F.cross_entropy(logits, partners)

    model = encoder_of(stage, SCENES)
    turn(stage, model, two_views, descent(model, SCENES.table(190)), finds(SCENES, 45))


@sound("loop with an additive margin")
def forecasts_with_an_additive_margin(stage: Stage) -> None:
    """As LaBSE: the positive's cosine is lowered by 0.2 before the softmax, in both directions."""

    def margin(first: Tensor, second: Tensor) -> Tensor:
        logits = 20 * (cosines(first, second) - 0.2 * torch.eye(len(first)))
        diagonal = torch.arange(len(first))
        return F.cross_entropy(logits, diagonal) + F.cross_entropy(logits.T, diagonal)

    model = encoder_of(stage, RUSSIAN)
    update = descent(model, RUSSIAN.table(400), size=32)
    turn(stage, model, margin, update, finds(RUSSIAN), steps=60)


@sound("triplets by torch's own loss")
def triplets_of_tweets_by_torch(stage: Stage) -> None:
    """torch's triplet loss on cosine distances; negatives change with each slot."""
    loss = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda first, second: 1 - F.cosine_similarity(first, second), margin=0.4
    )
    table = TWEETS.table(400) | {"negative": near_misses(TWEETS, 400)}
    model = encoder_of(stage, TWEETS)
    update = descent(model, table, rate=3e-3, size=32)
    turn(stage, model, loss, update, finds(TWEETS), steps=80)


@sound("signs of pairs by torch's own loss")
def pairs_that_match_by_signs(stage: Stage) -> None:
    """torch's cosine loss: pairs that match (1) or do not (-1), half of each."""
    table = SHOP.table(300)
    products = table["product"]
    table["product"] = [products[(row + 7 * (row % 2)) % 300] for row in range(300)]
    signs = {"sign": [1 - 2 * (row % 2) for row in range(300)]}
    model = encoder_of(stage, SHOP)
    update = descent(model, table | signs, rate=3e-3, size=32)
    turn(stage, model, nn.CosineEmbeddingLoss(margin=0.3), update, finds(SHOP), steps=80)


@sound("alignment and uniformity")
def alignment_beside_uniformity(stage: Stage) -> None:
    """Positives are drawn together, and all rows are spread over the sphere."""

    def spread(rows: Tensor) -> Tensor:
        return torch.pdist(F.normalize(rows)).square().mul(-2).exp().mean().log()

    def aligned(first: Tensor, second: Tensor) -> Tensor:
        near = (F.normalize(first) - F.normalize(second)).square().sum(1).mean()
        return near + (spread(first) + spread(second)) / 2

    model = encoder_of(stage, CHEMISTRY)
    update = descent(model, CHEMISTRY.table(400), size=32)
    turn(stage, model, aligned, update, finds(CHEMISTRY), steps=60)


@sound("variance, invariance, covariance")
def variance_and_covariance_held_in_check(stage: Stage) -> None:
    """VICReg at its usual weights: no negatives, but each number must vary and add its own."""

    def regularised(first: Tensor, second: Tensor) -> Tensor:
        value = 25 * F.mse_loss(first, second)
        for rows in (first - first.mean(0), second - second.mean(0)):
            value = value + 25 * F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean() / 2
            covariance = rows.T @ rows / (len(rows) - 1)
            off_diagonal = covariance - covariance.diagonal().diag()
            value = value + off_diagonal.square().sum() / rows.shape[1]
        return value

    model = encoder_of(stage, HOUSES)
    update = descent(model, HOUSES.table(480), size=64)
    turn(stage, model, regularised, update, finds(HOUSES), steps=60)


@sound("cross-correlation of two views")
def correlations_of_two_views_to_identity(stage: Stage) -> None:
    """Barlow Twins: the correlation of the columns' numbers is drawn to the identity."""

    def twins(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / rows.std(0) for rows in (first, second))
        correlation = first.T @ second / len(first)
        diagonal = correlation.diagonal()
        off_diagonal = correlation - diagonal.diag()
        return (1 - diagonal).square().sum() + 0.02 * off_diagonal.square().sum()

    model = encoder_of(stage, MUSEUM)
    update = descent(model, MUSEUM.table(480), size=64)
    turn(stage, model, twins, update, finds(MUSEUM), steps=60)


@sound("several positives for each anchor")
def two_positives_for_each_paper(stage: Stage) -> None:
    """Each title has its abstract and its keywords as positives, each among those of its kind."""

    def summed(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return (infonce(first, second) + infonce(first, third)) / 2

    table = PAPERS.table(240)
    table["keywords"] = [
        " , ".join(sorted(set(title.split()) - {"of"})) for title in table["title"]
    ]
    model = encoder_of(stage, PAPERS)
    turn(stage, model, summed, descent(model, table), finds(PAPERS))


@sound(
    "loop with a margin over the hardest",
    allowed={
        "collapse|seem unrelated": "A mean cosine of .998 is a collapse, though the score rises."
    },
)
def hardest_in_batch_by_a_margin(stage: Stage) -> None:
    """As VSE++: a hinge on the hardest passage and on the hardest query of the batch."""

    def hinge(first: Tensor, second: Tensor) -> Tensor:
        scores = cosines(first, second)
        negatives = scores.masked_fill(torch.eye(len(first), dtype=torch.bool), -1.0)
        own = scores.diagonal()
        return (
            F.relu(0.2 + negatives.max(1).values - own)
            + F.relu(0.2 + negatives.max(0).values - own)
        ).mean()

    model = encoder_of(stage, KITCHEN)
    update = descent(model, KITCHEN.table(400), size=32)
    turn(stage, model, hinge, update, finds(KITCHEN), steps=80)

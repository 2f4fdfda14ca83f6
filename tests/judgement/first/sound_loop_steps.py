"""Sound loops of one's own: losses and ways to step that people use."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.optim.swa_utils import AveragedModel

from tests.judgement.case import sound
from tests.judgement.first.loop_losses import Angular, cosines, of_classes
from tests.judgement.first.reported_encoders import among_classmates
from tests.judgement.first.reported_loops import Columns, Loop, embed, gains, infonce
from tests.judgement.stage import Stage, pairs, passage, triplets, word_cosines
from tests.judgement.stage import facts as facts_of


def places(rows: torch.Tensor) -> torch.Tensor:
    return torch.arange(len(rows))


@sound("own loss")
def same_text_twice_through_dropout(stage: Stage) -> None:
    """Unsupervised SimCSE: passages alone, temperature 0.05."""
    texts = [passage(fact) for fact in facts_of(320, seed=7)]
    gains(stage, Loop(infonce, {"first": texts, "second": texts}, steps=80), least=0.02)


@sound("own loss")
def hard_negatives_with_a_weight(stage: Stage) -> None:
    """Supervised SimCSE: the own hard negative counts twice."""

    def loss(
        anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
    ) -> torch.Tensor:
        weights = math.log(2) * torch.eye(len(anchors))
        hard = cosines(anchors, negatives) / 0.05 + weights
        return F.cross_entropy(
            torch.cat([cosines(anchors, positives) / 0.05, hard], 1), places(anchors)
        )

    gains(stage, Loop(loss, triplets()))


@sound("own loss")
def pairs_compared_by_a_logistic_loss(stage: Stage) -> None:
    """BPR: the positive's score against the hard negative's, through a log-sigmoid."""

    def loss(
        anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
    ) -> torch.Tensor:
        near, far = F.cosine_similarity(anchors, positives), F.cosine_similarity(anchors, negatives)
        return -F.logsigmoid(10 * (near - far)).mean()

    gains(stage, Loop(loss, triplets(), optimizer=quick))


def quick(weights: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(weights, lr=1e-3)


@sound("own loss")
def positive_left_out_of_the_denominator(stage: Stage) -> None:
    """Decoupled contrastive learning."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        logits = cosines(anchors, positives) / 0.1
        own = torch.eye(len(logits), dtype=torch.bool)
        return (logits.masked_fill(own, -1e9).logsumexp(1) - logits.diag()).mean()

    gains(stage, Loop(loss))


@sound("own loss")
def both_columns_as_anchors(stage: Stage) -> None:
    """NT-Xent of SimCLR: all other texts of both columns are negatives."""

    def loss(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        rows, count = torch.cat([first, second]), len(first)
        logits = cosines(rows, rows) / 0.1
        logits = logits.masked_fill(torch.eye(2 * count, dtype=torch.bool), -1e9)
        return F.cross_entropy(logits, (torch.arange(2 * count) + count) % (2 * count))

    gains(stage, Loop(loss))


@sound("own loss")
def shares_of_a_cross_encoder(stage: Stage) -> None:
    """RocketQA's distillation: log-probabilities against a teacher's probabilities."""
    table = triplets()
    table |= {"scores": word_cosines(table)}

    def loss(
        anchors: torch.Tensor,
        positives: torch.Tensor,
        negatives: torch.Tensor,
        scores: torch.Tensor,
    ) -> torch.Tensor:
        logits = torch.stack(
            [F.cosine_similarity(anchors, rows) for rows in (positives, negatives)], 1
        )
        return F.kl_div(
            (10 * logits).log_softmax(1), (15 * scores).softmax(1), reduction="batchmean"
        )

    gains(
        stage,
        Loop(
            loss, table, optimizer=quick, steps=80,
            views=lambda anchors, positives, negatives, scores: (anchors, positives),
        ),
    )  # fmt: skip


@sound("own loss")
def dot_products_of_two_sides(stage: Stage) -> None:
    """DPR: plain dot products without a temperature."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(anchors @ positives.T, places(anchors))

    gains(stage, Loop(loss))


@sound("own loss")
def cross_correlation_of_dimensions(stage: Stage) -> None:
    """Barlow Twins: dimensions are standardised over the batch in the loss alone."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        first, second = ((rows - rows.mean(0)) / rows.std(0) for rows in (anchors, positives))
        products = first.T @ second / len(first)
        own = (1 - products.diag()).square().sum()
        return own + 0.05 * (products.square().sum() - products.diag().square().sum())

    gains(stage, Loop(loss, optimizer=quick, steps=120))


@sound("own loss")
def temperature_that_falls(stage: Stage) -> None:
    """From 0.2 to 0.05 over the run."""
    temperature = [0.2]

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(cosines(anchors, positives) / temperature[0], places(anchors))

    def cooler(model: Any, number: int) -> None:
        temperature[0] = 0.05 + 0.15 * (1 - (number + 1) / 60)

    gains(stage, Loop(loss, after=cooler))


@sound("own loss")
def logarithm_of_a_scale_with_a_bound(stage: Stage) -> None:
    """CLIP's logit_scale: it begins at log(1 / 0.07) and is clamped at log(100)."""

    class Clip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            logits = cosines(first, second) * self.logit_scale.clamp(max=math.log(100)).exp()
            return (
                F.cross_entropy(logits, places(first)) + F.cross_entropy(logits.T, places(first))
            ) / 2

    gains(stage, Loop(Clip()))


def by_library(loss: Any, miner: Any = None) -> Callable[..., torch.Tensor]:
    """A loss of pytorch-metric-learning over two texts of each row."""

    def criterion(first: torch.Tensor, second: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        rows, targets = torch.cat([first, second]), torch.cat([labels, labels])
        return loss(rows, targets, miner(rows, targets)) if miner else loss(rows, targets)

    return criterion


@sound("loss of a library")
def multi_similarity_with_its_miner(stage: Stage) -> None:
    from pytorch_metric_learning import losses, miners

    loss, miner = losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner(0.1)
    gains(stage, of_classes(by_library(loss, miner), steps=40), among_classmates)


@sound("loss of a library")
def circle_loss_of_classes(stage: Stage) -> None:
    from pytorch_metric_learning import losses

    loss = losses.CircleLoss(m=0.4, gamma=32)
    gains(stage, of_classes(by_library(loss), steps=40), among_classmates)


@sound("loss of a library")
def semi_hard_triplets_of_a_miner(stage: Stage) -> None:
    from pytorch_metric_learning import losses, miners

    loss = losses.TripletMarginLoss(margin=0.2)
    miner = miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")
    gains(stage, of_classes(by_library(loss, miner), steps=40), among_classmates)


@sound("loss of a library")
def supervised_contrastive_by_a_library(stage: Stage) -> None:
    from pytorch_metric_learning import losses

    gains(stage, of_classes(by_library(losses.SupConLoss(temperature=0.1))), among_classmates)


@sound("own loss")
def angular_margin_with_its_centres(stage: Stage) -> None:
    """ArcFace with a margin of 0.2 radians; the centres are in the optimizer."""
    gains(stage, of_classes(Angular(0.2), steps=100), among_classmates)


@sound("own steps")
def one_cycle_of_rates(stage: Stage) -> None:
    def cycle(optimizer: torch.optim.Optimizer) -> Any:
        return OneCycleLR(optimizer, max_lr=1e-3, total_steps=61)

    gains(stage, Loop(schedule=cycle))


@sound("own steps")
def average_of_the_last_weights(stage: Stage) -> None:
    """Stochastic weight averaging over the second half; the average is copied back."""
    averages: list[AveragedModel] = []

    def after(model: Any, number: int) -> None:
        if number == 30:
            averages.append(AveragedModel(model))
        elif number > 30:
            averages[0].update_parameters(model)
        if number == 59:
            model.load_state_dict(averages[0].module.state_dict())

    gains(stage, Loop(after=after))


@sound("own steps")
def groups_without_decay(stage: Stage) -> None:
    """No decay of biases and norms, 0.01 of all others, and betas of 0.9 and 0.98."""

    def grouped_weights(weights: Any) -> torch.optim.Optimizer:
        flat = [row for row in weights if row.ndim < 2]
        deep = [row for row in weights if row.ndim > 1]
        groups = [{"params": flat, "weight_decay": 0.0}, {"params": deep, "weight_decay": 0.01}]
        return torch.optim.AdamW(groups, lr=5e-4, betas=(0.9, 0.98), eps=1e-6)

    gains(stage, Loop(optimizer=grouped_weights))


@sound("own steps")
def gradients_of_representations_kept(stage: Stage) -> None:
    """GradCache by hand: the loss is derived by embeddings, and these by weights in two parts."""

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        model.eval()  # the same dropout in both passes
        texts = [text for column in columns for text in column]
        with torch.no_grad():
            rows = embed(model, texts)
        leaf = rows.clone().requires_grad_()
        value = criterion(*leaf.chunk(2))
        (slopes,) = torch.autograd.grad(value, leaf)
        half = len(texts) // 2
        surrogate = sum(
            (embed(model, texts[at : at + half]) * slopes[at : at + half]).sum() for at in (0, half)
        )
        model.train()
        return value.detach() + surrogate - surrogate.detach()

    gains(stage, Loop(step=step))


@sound("own steps")
def ranking_beside_a_small_second_task(stage: Stage) -> None:
    """The ranking loss and a tenth of a regression on the number of words."""
    torch.manual_seed(4)
    head = nn.Linear(32, 1)

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        anchors, positives = (embed(model, column) for column in columns)
        lengths = torch.tensor([len(text.split()) / 10 for text in columns[1]])
        return criterion(anchors, positives) + 0.1 * F.mse_loss(head(positives)[:, 0], lengths)

    gains(
        stage,
        Loop(
            step=step,
            optimizer=lambda weights: torch.optim.AdamW([*weights, *head.parameters()], lr=5e-4),
        ),
    )


@sound("own steps", allowed={r"frozen on purpose": "a stale index looks the same, which it says"})
def documents_by_a_frozen_copy(stage: Stage) -> None:
    """Questions are tuned towards passages of a copy that stays as it was."""
    frozen: list[Any] = []

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        if not frozen:
            frozen.append(copy.deepcopy(model).eval().requires_grad_(False))
        with torch.no_grad():
            passages = embed(frozen[0], columns[1])
        return criterion(embed(model, columns[0]), passages)

    gains(stage, Loop(step=step, optimizer=quick, steps=80), least=0.03)


@sound("own steps")
def prefixes_of_queries_and_passages(stage: Stage) -> None:
    """As E5 is trained: `query: ` and `passage: ` before the texts, in training and in use."""

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        prefixes = ("query : ", "passage : ")
        return criterion(
            *(
                embed(model, [prefix + text for text in column])
                for prefix, column in zip(prefixes, columns, strict=True)
            )
        )

    def score(model: Any) -> float:
        from tests.judgement.truth import alike, retrieval

        return retrieval(model, alike(), prompts=("query : ", "passage : "))

    gains(stage, Loop(step=step, table=pairs()), score)


@sound("own steps")
def rates_halved_twice(stage: Stage) -> None:
    """MultiStepLR: the rate is halved after 30 and 45 steps; SGD with momentum and clipping."""

    def move(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        loss.backward()
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 2.0)
        optimizer.step()

    gains(
        stage,
        Loop(
            optimizer=lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
            schedule=lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(
                optimizer, [30, 45], gamma=0.5
            ),
            update=move,
        ),
    )

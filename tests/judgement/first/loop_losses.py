"""Losses that people write for their own loops, with a mistake in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.reported_encoders import LONGER, among_classmates
from tests.judgement.first.reported_loops import Columns, Loop, embed, infonce, loses
from tests.judgement.stage import Stage, classes, triplets


def cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the matrix of cosines."""
    return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T


def grouped(table: Mapping[str, Sequence[Any]]) -> Iterator[Columns]:
    """Yield two texts of each of eight classes, twice: columns of texts and the labels."""
    draw, members = random.Random(0), dict[int, list[str]]()
    for text, label in zip(*table.values(), strict=True):
        members.setdefault(label, []).append(text)
    while True:
        labels = draw.sample(sorted(members), 8)
        drawn = [draw.sample(members[label], 4) for label in labels]
        yield [
            [text for texts in drawn for text in texts[:2]],
            [text for texts in drawn for text in texts[2:]],
            [label for label in labels for _ in range(2)],
        ]


def of_classes(loss: Callable[..., torch.Tensor], **options: Any) -> Loop:
    """A loop over passages with their classes, of which each batch has several."""
    return Loop(
        loss,
        classes(320),
        batches=grouped,
        views=lambda first, second, labels: (first, second),
        optimizer=lambda weights: torch.optim.AdamW(weights, lr=1e-3),
        **options,
    )


@faulty(
    "labels of the cross-entropy point at hard negatives",
    "Hard negatives stand before the positives among the candidates, and the labels count from "
    "the first candidate: each anchor is drawn to its hard negative.",
    [
        r"(label|target|index|diagonal)\w*.{0,100}(negative|wrong|order|place|position|offset)",
        r"(negative|candidate)s?.{0,80}(before|in front|first|order|drawn|pulled|closer|nearer)",
        r"(draw|pull|move|bring)s?\w*.{0,60}negative",
        r"negatives?.{0,60}(more similar|more alike|above|closer|nearer|higher).{0,40}positive",
        r"positives?.{0,60}(pushed|less similar|less alike|farther|below|lower)",
        r"(exchanged|swapped|interchanged|reversed)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def candidates_with_negatives_in_front(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/3453, in one's own loop."""

    def loop(front: bool) -> Loop:
        def loss(
            anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
        ) -> torch.Tensor:
            candidates = (negatives, positives) if front else (positives, negatives)
            logits = cosines(anchors, torch.cat(candidates)) / 0.05
            return F.cross_entropy(logits, torch.arange(len(anchors)))

        return Loop(loss, triplets())

    loses(stage, loop(True), loop(False))


def supervised(same: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Supervised contrastive learning by a function that says which rows are of one class."""

    def loss(first: torch.Tensor, second: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        shares = (10 * cosines(first, second)).log_softmax(1)
        mask = same(labels).float()
        return -((shares * mask).sum(1) / mask.expand_as(shares).sum(1)).mean()

    return loss


@faulty(
    "mask of classes without a second axis",
    "Labels of one axis are compared with their own transpose, which is the same: every pair of "
    "rows counts as one of the same class.",
    [
        r"(every|all|any) (pair|row|text|candidate)s?.{0,60}(positive|same class|alike|match)",
        r"(label|class)\w*.{0,80}(mask|compar|broadcast|transpose|shape|axis|ignored|not used|"
        r"no (part|influence|effect))",
        r"(mask|transpose|broadcast)",
        r"no negatives?\b|nothing (pushes|is pushed)|no push",
        r"(share|loss).{0,60}(uniform|log|chance)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def labels_of_one_axis_transposed(stage: Stage) -> None:
    """https://github.com/keras-team/keras-io/pull/2338: the transpose changes nothing."""
    loses(
        stage,
        of_classes(supervised(lambda labels: labels == labels.t())),
        of_classes(supervised(lambda labels: labels[:, None] == labels)),
        among_classmates,
    )


class Angular(nn.Module):
    """ArcFace over two texts of each row: an angle is added at the row's own class."""

    def __init__(self, margin: float, count: int = 40) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.margin, self.centres = margin, nn.Parameter(torch.randn(count, 32))

    def forward(
        self, first: torch.Tensor, second: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        rows, targets = torch.cat([first, second]), torch.cat([labels, labels])
        angles = cosines(rows, self.centres).clamp(-1 + 1e-6, 1 - 1e-6).acos()
        own = F.one_hot(targets, len(self.centres)) * self.margin
        return F.cross_entropy(16 * (angles + own).cos(), targets)


@faulty(
    "angle in degrees taken for radians",
    "The angular margin is 28.6, meant in degrees and added in radians, which is an angle beyond "
    "any other.",
    [
        r"margin",
        r"degree|radian|\bangle",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def angular_margin_of_twenty_eight(stage: Stage) -> None:
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/186: margins by library."""
    loses(stage, of_classes(Angular(28.6)), of_classes(Angular(0.2)), among_classmates)


@faulty(
    "loss overwritten before the step",
    "The losses of two tasks are named alike, and only the second, a penalty on lengths, is "
    "derived: the ranking loss is computed and forgotten.",
    [
        r"(no|zero|without( a)?|never).{0,40}gradient",
        r"gradients?.{0,60}(zero|vanish|is 0|are 0|not reach|missing|none|never|absent|not arrive)",
        r"(loss|criterion).{0,80}(not (optimi[sz]ed|minimi[sz]ed|derived|used|the one)|overwrit|"
        r"another|other|different|backward|does not (fall|move)|stays|forgotten|replaced)",
        r"(optimi[sz]|backward|deriv)\w*.{0,60}(another|other|different) (loss|term|objective)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def second_task_under_the_same_name(stage: Stage) -> None:
    """Common where a loop goes over several losses: `for task in tasks: loss = task(...)`."""

    def penalised(overwritten: bool) -> Callable[..., torch.Tensor]:
        def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
            anchors, positives = (embed(model, column) for column in columns)
            ranking = criterion(anchors, positives)
            lengths = (torch.cat([anchors, positives]).norm(dim=1) - 3).square().mean()
            return lengths if overwritten else ranking + 0.01 * lengths

        return step

    loses(stage, Loop(step=penalised(True)), Loop(step=penalised(False)))


@faulty(
    "loss clamped below its values",
    "The loss is clamped to at most 1 against outliers, but starts above: its gradient is zero "
    "until it happens to fall below.",
    [
        r"clamp|capp?ed|clip|ceiling|bounded|at most|limit",
        r"(no|zero|without( a)?|vanish\w*).{0,40}gradient",
        r"gradients?.{0,60}(zero|vanish|is 0|are 0|not reach|missing|none|absent)",
        r"(loss).{0,60}(constant|does not move|exactly|stays|the same at)",
        r"weights?.{0,80}(hardly|do not|did not|have not|barely|never|not) (mov|chang)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def loss_of_at_most_one(stage: Stage) -> None:
    """Common advice against unstable runs: `torch.clamp(loss, max=1.0)`."""

    def capped(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return infonce(anchors, positives).clamp(max=1.0)

    loses(stage, Loop(capped), Loop())


class Twins(nn.Module):
    """SimSiam: a predictor's outputs of each text are drawn to the embedding of its partner."""

    def __init__(self, stops: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.stops = stops
        self.predictor = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))

    def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        sides = [(anchors, positives), (positives, anchors)]
        return (
            -sum(
                F.cosine_similarity(
                    self.predictor(rows), partners.detach() if self.stops else partners
                ).mean()
                for rows, partners in sides
            )
            / 2
        )


COLLAPSE = (
    r"collaps",
    r"(all|every|texts|embeddings).{0,60}(same|equal|identical|one|single|alike) "
    r"(embedding|vector|direction|point|place)",
    r"(no|without|lacks?|miss\w*).{0,30}(negatives?|push|repuls|spread|force)",
    r"(spread|uniform|varianc|rank).{0,80}(shrink|shrunk|fall|lost|low|small|wrong|sign|drop)",
)


@faulty(
    "twin networks drawn together without a brake",
    "Two texts' embeddings are drawn together from both sides, without a stop-gradient and without "
    "negatives: all texts come to one point.",
    [*COLLAPSE, r"stop.?grad|detach"],
    tools=(REPORT,),
    never=[LONGER],
)
def twins_without_a_stop_gradient(stage: Stage) -> None:
    """https://github.com/PatrickHua/SimSiam/issues/39; mended with negatives."""
    loses(stage, Loop(Twins(False)), Loop(), share=None)


def spread(rows: torch.Tensor) -> torch.Tensor:
    """Uniformity of Wang and Isola: the smaller, the more evenly rows are spread."""
    return torch.pdist(F.normalize(rows, dim=-1)).square().mul(-2).exp().mean().log()


@faulty(
    "sign of a spreading term",
    "Uniformity is subtracted from the alignment where it should be added: texts are drawn "
    "together by both terms.",
    [*COLLAPSE, r"\bsign\b|minus|subtract|negat(ed|ive sign)|revers|maximi[sz]"],
    tools=(REPORT,),
    never=[LONGER],
)
def uniformity_subtracted(stage: Stage) -> None:
    """Common in copies of https://github.com/ssnl/align_uniform: both terms are to be small."""

    def loop(sign: float) -> Loop:
        def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            gaps = F.normalize(anchors, dim=-1) - F.normalize(positives, dim=-1)
            even = (spread(anchors) + spread(positives)) / 2
            return gaps.square().sum(1).mean() + sign * even

        return Loop(loss)

    loses(stage, loop(-1.0), loop(1.0))


@faulty(
    "sign of a spreading term",
    "The hinge on the standard deviation of each dimension is turned round: it keeps deviations "
    "below 1 and lets them shrink to 0.",
    [*COLLAPSE, r"\bsign\b|hinge|revers|wrong way|variance|deviation"],
    tools=(REPORT,),
    never=[LONGER],
)
def hinge_on_deviations_turned_round(stage: Stage) -> None:
    """Common in copies of VICReg: `relu(std - 1)` for `relu(1 - std)`."""

    def loop(sign: int) -> Loop:
        def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            pull = 25 * F.mse_loss(anchors, positives)
            for rows in (anchors, positives):
                deviations = (rows.var(0) + 1e-4).sqrt()
                centred = rows - rows.mean(0)
                products = centred.T @ centred / (len(rows) - 1)
                pull = pull + 25 * F.relu(sign * (1 - deviations)).mean()
                pull = pull + (products.square().sum() - products.diag().square().sum()) / 32
            return pull

        return Loop(loss, optimizer=lambda weights: torch.optim.AdamW(weights, lr=2e-3), steps=120)

    loses(stage, loop(-1), loop(1))


@faulty(
    "mask that leaves the positives alone",
    "The mask of the logits is inverted: negatives are excluded and only the positive is left, so "
    "that the loss is 0.",
    [
        r"loss.{0,60}(is|of|stays|at|near|about|exactly|falls to) (0|zero|nothing)",
        r"(no|zero|without( a)?|vanish\w*).{0,40}(gradient|negative)",
        r"gradients?.{0,60}(zero|vanish|is 0|are 0|not reach|missing|none|absent)",
        r"mask|exclud",
        r"weights?.{0,80}(hardly|do not|did not|have not|barely|never|not) (mov|chang)",
        r"(task|too) (is )?(too )?easy|nothing to learn|solved",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def negatives_masked_instead_of_copies(stage: Stage) -> None:
    """Common: `masked_fill(~mask, -inf)` where texts that occur twice were to be left out."""

    def loop(inverted: bool) -> Loop:
        def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            logits = cosines(anchors, positives) / 0.05
            own = torch.eye(len(logits), dtype=torch.bool)
            copies = (cosines(positives, positives) > 0.9999) & ~own
            excluded = ~own if inverted else copies
            return F.cross_entropy(logits.masked_fill(excluded, -1e9), torch.arange(len(logits)))

        return Loop(loss)

    loses(stage, loop(True), loop(False))


@faulty(
    "anchors repeated in another order than their pairs",
    "Anchors are repeated one by one, and the texts that they are compared with stand column by "
    "column: labels belong to other pairs.",
    [
        r"(repeat|interleav|order|layout|align|misalign)",
        r"(pairs?|rows|views|positives?|labels?).{0,80}(mis-?match|not belong|shuffled|unrelated|"
        r"at chance|wrong|by accident|other)",
        r"(labels?|targets?).{0,60}(nothing|no relation|random)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def anchors_interleaved_beside_columns(stage: Stage) -> None:
    """https://github.com/OpenTabular/DeepTab/issues/414."""

    def loop(interleaved: bool) -> Loop:
        def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
            anchors, positives, negatives = (embed(model, column) for column in columns)
            repeated = anchors.repeat_interleave(2, 0) if interleaved else anchors.repeat(2, 1)
            labels = torch.ones(2 * len(anchors))
            labels[len(anchors) :] = -1
            return criterion(repeated, torch.cat([positives, negatives]), labels)

        return Loop(
            nn.CosineEmbeddingLoss(margin=0.2),
            triplets(),
            step=step,
            views=lambda first, second, labels: (first, second),
            optimizer=lambda weights: torch.optim.AdamW(weights, lr=1e-3),
        )

    loses(stage, loop(True), loop(False))


def twice(scale: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """InfoNCE whose cosines have been divided by the temperature before, times a scale."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        scores = cosines(anchors, positives) / 0.01
        return F.cross_entropy(scores * scale, torch.arange(len(scores)))

    return loss


@faulty(
    "temperature applied twice",
    "Scores are divided by the temperature where they are made and again in the loss: cosines "
    "count ten thousand times.",
    [r"temperature|scale|sharp|logits?.{0,60}(large|high|saturat)"],
    tools=(REPORT,),
    never=[LONGER],
)
def scores_divided_in_two_places(stage: Stage) -> None:
    """Common where a scorer with a temperature meets a loss with another."""
    loses(stage, Loop(twice(100.0)), Loop(twice(0.2)), share=None)


EXCHANGED = (
    r"(exchanged|swapped|interchanged|reversed|wrong (way|sign|order)|\border\b|argument|\brole)",
    r"(draw|pull|move|bring)s?\w*.{0,60}negative",
    r"negatives?.{0,60}(more similar|more alike|above|closer|nearer|higher).{0,40}positive",
    r"positives?.{0,60}(pushed|less similar|less alike|farther|below|lower|apart)",
    r"(score|margin|similarity).{0,60}(falls|fell|worse|lower|below)",
)


@faulty(
    "arguments of a loss exchanged",
    "The negative stands in the place of the positive in a call of the triplet loss: negatives are "
    "drawn near and positives pushed away.",
    EXCHANGED,
    tools=(REPORT,),
    never=[LONGER],
)
def negative_in_the_place_of_the_positive(stage: Stage) -> None:
    """Common: torch's loss wants (anchor, positive, negative), data have (anchor, neg, pos)."""

    def loop(exchanged: bool) -> Loop:
        triplet = nn.TripletMarginLoss(margin=1.0)

        def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
            anchors, positives, negatives = (embed(model, column) for column in columns)
            last = (negatives, positives) if exchanged else (positives, negatives)
            return criterion(anchors, *last)

        return Loop(triplet, triplets(), step=step, optimizer=quick)

    loses(stage, loop(True), loop(False))


def quick(weights: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(weights, lr=1e-3)


@faulty(
    "arguments of a loss exchanged",
    "The target of the margin ranking loss is -1, which asks for the second input to be the "
    "larger: scores of negatives rise above those of positives.",
    [*EXCHANGED, r"target|-1\b|sign"],
    tools=(REPORT,),
    never=[LONGER],
)
def target_of_minus_one_for_a_margin_ranking(stage: Stage) -> None:
    """Common: y=1 says that the first input is to be ranked higher, y=-1 the second."""

    def loop(target: float) -> Loop:
        def loss(
            anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
        ) -> torch.Tensor:
            near, far = (F.cosine_similarity(anchors, rows) for rows in (positives, negatives))
            return F.margin_ranking_loss(near, far, torch.full_like(near, target), margin=0.2)

        return Loop(loss, triplets(), optimizer=quick)

    loses(stage, loop(-1.0), loop(1.0))

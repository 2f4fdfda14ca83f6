"""Losses written by hand in loops of one's own, with a slip in their arithmetic."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE, UNRELATED, losses_beside
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import HELPDESK
from tests.judgement.first.turns import cosines, infonce, warmed
from tests.judgement.stage import Stage, pairs, triplets
from tests.judgement.truth import correlation, retrieval


def among_rows(anchors: Tensor, positives: Tensor, negatives: Tensor, *, last: bool) -> Tensor:
    """Cross-entropy of the positive, at place 0 of the labels, among all hard negatives."""
    near = F.cosine_similarity(anchors, positives)[:, None]
    logits = [cosines(anchors, negatives), near] if last else [near, cosines(anchors, negatives)]
    return F.cross_entropy(20 * torch.cat(logits, 1), torch.zeros(len(anchors)).long())


@faulty(
    "positive last, label first",
    "The positive's cosine is the last column of the logits, and the labels are 0, a negative.",
    [
        *UNRELATED,
        r"(?i)(negatives?|unrelated).{0,60}(pull|closer|attract|rais|higher)",
        r"(?i)(positives?).{0,60}(push|apart|lower|farther|away|drop)",
        r"(?i)\bsigns?\b|revers|swap|exchang|invert|roles?",
    ],
)
def positive_behind_its_negatives(stage: Stage) -> None:
    """People write `cat([negatives, positive])` with labels `zeros`."""
    losses_beside(
        stage,
        lambda *rows: among_rows(*rows, last=True),
        lambda *rows: among_rows(*rows, last=False),
        table=triplets(),
    )


def ordered(first: Tensor, second: Tensor, scores: Tensor, *, sign: int) -> Tensor:
    """CoSENT: pairs of a higher score are to have the higher cosine."""
    near = 20 * F.cosine_similarity(first, second)
    gaps = sign * (near[:, None] - near[None])
    lower = scores[:, None] < scores[None]
    return torch.logsumexp(torch.cat([torch.zeros(1), gaps[lower]]), 0)


@faulty(
    "ranking of scores upside down",
    "Differences of cosines have the wrong sign: pairs of low scores get the high cosines.",
    [
        r"(?i)\bsigns?\b|revers|invert|opposite|upside|wrong (way|direction)|negat(ed|ion)",
        r"(?i)(low|small)(er)? scores?.{0,60}(high|great|larg)",
        r"(?i)correlat.{0,40}(negative|fall|drop|below|-)|anti-?correlat",
    ],
)
def order_of_scores_reversed(stage: Stage) -> None:
    """People exchange the two axes of the matrix of differences."""
    losses_beside(
        stage,
        lambda *rows: ordered(*rows, sign=-1),
        lambda *rows: ordered(*rows, sign=1),
        lambda model: correlation(model, HELPDESK.graded(100, seed=11)),
        table=HELPDESK.graded(200),
        rate=2e-3,
        encoder=lambda: encoder(stage, words_of([HELPDESK.table(300)])),
    )


def sharp(anchors: Tensor, positives: Tensor) -> Tensor:
    """InfoNCE at a temperature of 0.003."""
    return F.cross_entropy(cosines(anchors, positives) / 0.003, torch.arange(len(anchors)))


@faulty(
    "temperature a decimal place too low",
    "At a temperature of 0.003 the softmax is saturated as soon as a pair is the nearest one: the "
    "loss is nearly 0, and there is hardly anything to learn from.",
    [
        r"(?i)temperature|\bscale\b|saturat|sharp",
        r"(?i)loss.{0,40}(near|almost|about|close to|is|at) (0|zero)\b",
    ],
)
def temperature_of_three_thousandths(stage: Stage) -> None:
    """People type 0.003 for 0.03, in tuning an encoder that is trained already."""
    losses_beside(
        stage, sharp, infonce, encoder=lambda: warmed(stage.model(), pairs(seed=3), steps=25)
    )


def judged_pairs(anchors: Tensor, positives: Tensor, *, weight: float) -> Tensor:
    """Binary cross-entropy of all pairs of a batch; fitting ones are weighted."""
    logits = 10 * cosines(anchors, positives) - 5
    return F.binary_cross_entropy_with_logits(
        logits, torch.eye(len(logits)), pos_weight=torch.tensor(weight)
    )


@faulty(
    "positives weighted by thousands",
    "The weight of fitting pairs is so large that pairs that differ have no say.",
    [
        r"(?i)pos_weight|weight.{0,40}(positive|fitting)",
        r"(?i)collaps|(all|every).{0,40}(alike|same|similar|close|one point)",
        r"(?i)(push|negatives?|pairs that differ|unrelated).{0,80}(no (say|influence|part|weight|"
        r"push)|weak|little|too small|hardly|outweigh)",
        r"(?i)pull.{0,60}(outweigh|strong|dominat)|outweigh|dominat|(positives?|unrelated).{0,50}"
        r"cosines?.{0,30}(near|close to|about) 1",
    ],
)
def weight_of_positives_in_thousands(stage: Stage) -> None:
    """People take the ratio of all pairs of a table for `pos_weight`."""
    losses_beside(
        stage,
        lambda *rows: judged_pairs(*rows, weight=25000.0),
        lambda *rows: judged_pairs(*rows, weight=15.0),
    )


def in_order(anchors: Tensor, positives: Tensor, negatives: Tensor, *, target: float) -> Tensor:
    """A margin between the cosines of positives and negatives."""
    near, far = (F.cosine_similarity(anchors, rows) for rows in (positives, negatives))
    return F.margin_ranking_loss(near, far, torch.full_like(near, target), margin=0.5)


@faulty(
    "margin ranking with a target of 0",
    "margin_ranking_loss is given targets of 0 instead of 1 or -1: it is constant.",
    [*IDLE, r"(?i)constant|target|(loss).{0,40}(flat|does not (fall|change|depend))"],
)
def ranking_target_of_nought(stage: Stage) -> None:
    """Labels of 0 and 1 are handed to a loss of -1 and 1."""
    losses_beside(
        stage,
        lambda *rows: in_order(*rows, target=0.0),
        lambda *rows: in_order(*rows, target=1.0),
        table=triplets(),
        rate=2e-3,
    )


def weighted(anchors: Tensor, positives: Tensor, weights: Tensor, *, whole: bool) -> Tensor:
    """InfoNCE with a weight for each row."""
    weights = weights.long() if whole else weights
    logits = 20 * cosines(anchors, positives)
    rows = F.cross_entropy(logits, torch.arange(len(logits)), reduction="none")
    return (weights * rows).mean()


@faulty(
    "weights of rows cast to whole numbers",
    "Weights between 0 and 1 become 0 by a cast, and with them the loss.",
    [
        *IDLE,
        r"(?i)weights?.{0,40}(0|zero|whole|integer|cast)",
        r"(?i)loss.{0,30}(is|of|at) (0|zero)",
    ],
)
def row_weights_become_nought(stage: Stage) -> None:
    """Weights of rows pass through a collator that makes long tensors of all numbers."""
    table: dict[str, list[Any]] = pairs() | {"weight": [0.5 + 0.4 * (at % 2) for at in range(160)]}
    losses_beside(
        stage,
        lambda *rows: weighted(*rows, whole=True),
        lambda *rows: weighted(*rows, whole=False),
        table=table,
    )


def prefixes(anchors: Tensor, positives: Tensor, *, tail: bool) -> Tensor:
    """InfoNCE of eight dimensions."""
    dimensions = slice(-8, None) if tail else slice(8)
    return infonce(anchors[:, dimensions], positives[:, dimensions])


def by_eight(model: Any) -> float:
    """The reciprocal rank by the first eight dimensions, as with `truncate_dim`."""
    model.truncate_dim = 8
    score = retrieval(model)
    model.truncate_dim = None
    return score


@faulty(
    "last dimensions trained, first ones used",
    "The loss is of the last eight dimensions, and the first eight are kept in use.",
    [
        r"(?i)dimension|truncat|matryoshka|slice|prefix",
        r"(?i)(other|another|different|part of the) (embedding|vector|output|column)s?",
    ],
)
def trained_by_the_last_dimensions(stage: Stage) -> None:
    """A slip in slices by hand: `[:, -8:]` for `[:, :8]`."""
    losses_beside(
        stage,
        lambda *rows: prefixes(*rows, tail=True),
        lambda *rows: prefixes(*rows, tail=False),
        by_eight,
    )


def distilled(anchors: Tensor, positives: Tensor, *, exchanged: bool) -> Tensor:
    """Divergence from a teacher that is nearly certain of each row's partner."""
    teacher = torch.full((len(anchors), len(anchors)), 0.002).fill_diagonal_(0.97)
    logits = 20 * cosines(anchors, positives)
    if exchanged:
        return F.kl_div(teacher, logits.softmax(1), reduction="batchmean")
    return F.kl_div(logits.log_softmax(1), teacher, reduction="batchmean")


@faulty(
    "student and teacher exchanged in a divergence",
    "kl_div gets the teacher's probabilities first and the student's as the target: the student's "
    "softmax is driven towards an even one.",
    [
        r"(?i)kl_?div|divergence|logarithm|entropy|uniform|teacher|exchang|swap",
        r"(?i)(\bsigns?\b|revers|opposite|invert)|push.{0,40}(missing|weak|apart)|maximi[sz]",
        *UNRELATED,
    ],
)
def teacher_first_in_a_divergence(stage: Stage) -> None:
    """People write `kl_div(teacher, student)` of two softmaxes."""
    losses_beside(
        stage,
        lambda *rows: distilled(*rows, exchanged=True),
        lambda *rows: distilled(*rows, exchanged=False),
    )

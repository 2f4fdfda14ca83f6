"""Loops of one's own whose loss aims at the wrong targets."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.fields import HELPDESK, KITCHEN
from tests.judgement.first.opposed import Loop, encoder_of, hampered
from tests.judgement.first.turns import cosines, infonce
from tests.judgement.stage import Stage, classes
from tests.judgement.truth import among_alike

TARGETS = (r"(?i)label|target|diagonal|wrong (row|column|positive|pair)|positive.{0,40}column",)


def first_column_is_right(first: Tensor, second: Tensor) -> Tensor:
    logits = 20 * cosines(first, second)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


@faulty(
    "labels all 0 among the batch's passages",
    "The labels are all 0, as where each row's positive stands first among its own candidates, "
    "but the candidates are the batch's passages: all questions are pulled to the first.",
    (*TARGETS, r"(?i)same (passage|positive|row|point)|one (passage|row|point)|collaps"),
)
def labels_all_zero(stage: Stage) -> None:
    """People keep `labels = zeros` from a loss over [positive, negatives] of each row."""
    hampered(
        stage,
        lambda is_faulty: Loop(
            encoder_of(stage, HELPDESK),
            HELPDESK.table(160),
            first_column_is_right if is_faulty else infonce,
        ),
        HELPDESK.sought,
    )


def mean_of_all_entries(first: Tensor, second: Tensor) -> Tensor:
    return -F.log_softmax(20 * cosines(first, second), dim=1).mean()


@faulty(
    "mean over the whole matrix of log-probabilities",
    "The mean is of all log-probabilities and not of the diagonal: every passage of the batch is "
    "as wanted as the right one.",
    (
        *TARGETS,
        r"(?i)uniform|all (pairs|entries|passages|rows)|every (pair|passage)|whole matrix",
        r"(?i)(equal|same|alike).{0,60}negatives?|no (pull|contrast|preference)",
        r"(?i)positives?.{0,80}\b(no|not|never)\b.{0,30}(prefer|nearer|closer|pull|apart)",
    ),
)
def mean_over_all_log_probabilities(stage: Stage) -> None:
    """Slip in a hand-written InfoNCE: `-log_softmax(logits, 1).mean()` without `.diag()`."""
    hampered(
        stage,
        lambda is_faulty: Loop(
            encoder_of(stage, KITCHEN),
            KITCHEN.table(160),
            mean_of_all_entries if is_faulty else infonce,
        ),
        KITCHEN.sought,
    )


class OfClasses:
    """Supervised contrastive loss; inverted, texts of other classes count as positives."""

    def __init__(self, is_inverted: bool) -> None:
        self.is_inverted = is_inverted

    def __call__(self, rows: Tensor, labels: Tensor) -> Tensor:
        off_diagonal = ~torch.eye(len(rows), dtype=torch.bool)
        positives = labels[:, None] != labels if self.is_inverted else labels[:, None] == labels
        logits = (cosines(rows, rows) / 0.1).masked_fill(~off_diagonal, -1e4)
        chosen = (positives & off_diagonal).float()
        terms = (chosen * logits.log_softmax(1)).sum(1) / chosen.sum(1).clamp(min=1)
        return -terms.mean()


@faulty(
    "mask of a supervised contrastive loss inverted",
    "The mask of positives is true where the classes differ: texts of a class are pushed apart.",
    (
        r"(?i)mask|invert|revers|\bsigns?\b|maximi|opposite|wrong way",
        r"(?i)(same class|of a class|positives?).{0,60}(apart|pushed|away|farther|further)",
        r"(?i)negatives?.{0,60}(nearer|closer|pulled|above)",
    ),
)
def positives_where_classes_differ(stage: Stage) -> None:
    """`mask = labels[:, None] != labels` for `==`."""
    hampered(
        stage,
        lambda is_faulty: Loop(stage.model(), classes(240, 6), OfClasses(is_faulty), size=32),
        among_alike,
    )

"""Scores and classes that mean something else than the library's loss takes them for."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.fields import CLINIC, CODE, HELPDESK, SCENES, SHOP, Field
from tests.judgement.first.opposed import encoder_of, ranking
from tests.judgement.stage import Stage, classes
from tests.judgement.truth import among_alike, correlation, suffers
from tests.sentence_training import losses

REVERSED = (
    r"(?i)revers|opposite|\bsigns?\b|negated|wrong way|invert|descend",
    r"(?i)(higher|larger|high) (score|label|number)s?.{0,80}(less|unlike|lower)|(negative|"
    r"anti).{0,20}correlat|correlat.{0,40}(negative|below 0|-0)",
)
UNRELATED = (
    r"(?i)(label|score|target|rating|vote).{0,80}(unrelated|no relation|random|noise|not (fit|"
    r"follow|agree|learn)|nothing)",
    r"(?i)uncorrelated|correlat.{0,40}(no |weak|near 0|not)|cannot be learn|shuffl|not aligned|"
    r"misalign",
)
QUICK = {"learning_rate": 3e-3, "max_steps": 80}


def graded(
    stage: Stage, field: Field, loss: Any, spoil: Callable[[Sequence[float]], list[float]]
) -> None:
    """Train on a field's scores as they are spoilt, beside the right ones."""
    table, held = field.graded(160), field.graded(40, seed=3)
    right = table["score"]

    def trainer(scores: Sequence[float]) -> Any:
        return stage.trainer(loss, table | {"score": scores}, encoder_of(stage, field), **QUICK)

    suffers(
        stage,
        trainer(spoil(right)),
        lambda: trainer(right),
        lambda model: correlation(model, held),
    )


@faulty(
    "places in a ranking as scores",
    "Annotators gave place 1 to the best answer, and places serve as scores: the best pairs are "
    "pushed apart.",
    REVERSED,
)
def places_in_a_ranking_as_scores(stage: Stage) -> None:
    """1 is best for people who rank, and worst for a loss."""
    graded(
        stage, CLINIC, losses.CoSENTLoss,
        lambda scores: [float(5 - round(4 * score)) for score in scores],
    )  # fmt: skip


@faulty(
    "share of edits as similarity",
    "The score is the share of words that were changed, a distance, where the loss wants a "
    "similarity.",
    (*REVERSED, r"(?i)distance|dissimilar"),
)
def share_of_edits_as_similarity(stage: Stage) -> None:
    """Common where pairs are made by edits and the rate of edits is at hand."""
    graded(stage, SHOP, losses.AnglELoss, lambda scores: [1 - score for score in scores])


@faulty(
    "grades of entailment backwards",
    "Entailment is class 0 in this data set, and classes became grades as if it were 2.",
    REVERSED,
)
def grades_of_entailment_backwards(stage: Stage) -> None:
    """`{0: 0.0, 1: 0.5, 2: 1.0}` for a data set where 0 is entailment."""
    graded(
        stage, SCENES, losses.CosineSimilarityLoss,
        lambda scores: [1 - round(2 * score) / 2 for score in scores],
    )  # fmt: skip


@faulty(
    "votes as similarity",
    "The score is how many votes an answer has, scaled to 0 to 1, whatever its question.",
    UNRELATED,
)
def votes_as_similarity(stage: Stage) -> None:
    """Votes of an exchange of questions as scores of pairs."""
    draw = random.Random(8)
    graded(
        stage, HELPDESK, losses.CoSENTLoss,
        lambda scores: [round(min(1.0, draw.expovariate(4)), 2) for _ in scores],
    )  # fmt: skip


@faulty(
    "classes hashed into too few numbers",
    "Names of classes were hashed into two numbers: texts of unlike classes share one.",
    (
        r"(?i)(label|class|group)\w*.{0,80}(mix|unrelated|unlike|not (alike|fit|agree)|wrong|"
        r"only|few)|hash|"
        r"collision",
        r"(?i)positives?.{0,80}(no nearer|not nearer|unrelated|chance|unlike)",
    ),
)
def classes_hashed_into_two(stage: Stage) -> None:
    """`hash(name) % 2` with many more names."""
    table = classes(240, 6)
    hashed = [random.Random(label).randrange(2) for label in table["label"]]
    loss: Any = losses.BatchSemiHardTripletLoss
    settings = {
        "per_device_train_batch_size": 32,
        "batch_sampler": "group_by_label",
        "learning_rate": 1e-3,
        "max_steps": 60,
    }
    suffers(
        stage,
        stage.trainer(loss, table | {"label": hashed}, **settings),
        lambda: stage.trainer(loss, table, **settings),
        among_alike,
    )


@faulty(
    "a temperature passed as the scale",
    "The ranking loss takes a scale, the inverse of a temperature, and is given 0.05: all cosines "
    "shrink to nothing before the softmax.",
    (r"(?i)temperature|scale|0\.05|flat|uniform",),
)
def temperature_passed_as_scale(stage: Stage) -> None:
    """`MultipleNegativesRankingLoss(model, scale=0.05)`."""
    settings = {"learning_rate": 3e-4, "max_steps": 50}
    suffers(
        stage,
        stage.trainer(lambda model: ranking(model, scale=0.05), CODE.table(160),
                      encoder_of(stage, CODE), **settings),
        lambda: stage.trainer(ranking, CODE.table(160), encoder_of(stage, CODE), **settings),
        CODE.sought,
    )  # fmt: skip

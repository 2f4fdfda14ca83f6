"""Labels that do not fit the loss that reads them."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.scenes import agreement, graded, kindred
from tests.judgement.stage import Stage, classes
from tests.judgement.truth import suffers
from tests.sentence_training import losses

RANGE = (
    r"(label|score|value|rating)s? .{0,80}(beyond|above|outside|over|exceed|larger|range|scale)",
    r"\bunits?\b",
    r"between (-1|0) and 1",
    r"from (-1|0) to 1",
    r"no cosine",
    r"cosines? .{0,40}1\b",
    r"divide",
    r"rescale",
    r"normali[sz]e the (label|score)",
    r"never (reach|met)",
)
UNRELATED = (
    r"unrelated",
    r"(no|little|hardly any|without) (relation|correlation|connection|agreement)",
    r"(label|score)s? .{0,60}(do(es)? not|don't) (follow|agree|fit|depend|match|belong|go with)",
    r"shuffl",
    r"shift",
    r"misalign",
    r"another (row|pair)",
    r"wrong (row|pair)",
    r"(noise|random|chance)",
    r"correlat",
)

PLAN = {"learning_rate": 2e-3, "max_steps": 100}


def _with_scores(scores: list[float]) -> dict[str, list[Any]]:
    return graded() | {"score": scores}


@faulty(
    "star ratings as cosines",
    "Ratings from 1 to 5 are learned as cosines, which cannot exceed 1.",
    RANGE,
)
def ratings_of_five_stars_for_cosines(stage: Stage) -> None:
    ratings = [float(round(1 + 4 * score)) for score in graded()["score"]]
    fitted = [(rating - 1) / 4 for rating in ratings]
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, _with_scores(ratings), **PLAN),
        lambda: stage.trainer(losses.CosineSimilarityLoss, _with_scores(fitted), **PLAN),
        agreement,
    )


@faulty(
    "scores one row late",
    "A header was read as a row, so that each pair has the score of the pair above it.",
    UNRELATED,
)
def scores_of_the_row_above(stage: Stage) -> None:
    scores = graded()["score"]
    suffers(
        stage,
        stage.trainer(losses.CoSENTLoss, _with_scores(scores[-1:] + scores[:-1]), **PLAN),
        lambda: stage.trainer(losses.CoSENTLoss, graded(), **PLAN),
        agreement,
    )


@faulty(
    "scores truncated by a cast",
    "Scores between 0 and 1 were cast to integers: nearly all are 0.",
    (
        r"(all|most|nearly|almost|only|\d+ ?%) .{0,60}\b(0|zero|same|equal)",
        r"(label|score)s? .{0,60}(constant|the same|equal|\b0\b|zero|identical)",
        r"(label|score)s? .{0,60}(integer|round|trunc)",
        r"no positive",
        r"few positive",
        r"imbalance",
        r"do not differ",
        r"one value",
    ),
)
def scores_cast_to_integers(stage: Stage) -> None:
    cast = [float(int(score)) for score in graded()["score"]]
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, _with_scores(cast), **PLAN),
        lambda: stage.trainer(losses.CosineSimilarityLoss, graded(), **PLAN),
        agreement,
    )


@faulty(
    "missing scores coded as -1",
    "Pairs that nobody has judged have the score -1, which the loss learns as a cosine.",
    (
        r"-1\b",
        r"negative (label|score|value)",
        r"missing",
        r"(unjudged|unlabel)",
        r"(label|score)s? .{0,60}(below|under|less than) (0|zero)",
        *UNRELATED,
    ),
)
def pairs_not_judged_have_minus_one(stage: Stage) -> None:
    scores = [-1.0 if at % 5 < 2 else score for at, score in enumerate(graded()["score"])]
    judged = [at for at, score in enumerate(scores) if score >= 0]
    table = {name: [cells[at] for at in judged] for name, cells in graded().items()}
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, _with_scores(scores), **PLAN),
        lambda: stage.trainer(losses.CosineSimilarityLoss, table, **PLAN),
        agreement,
    )


@faulty(
    "row numbers as classes",
    "The label of each text is the number of its row: no two texts of a batch share a class.",
    (
        r"no (positive|pair|triplet|two|other)",
        r"(each|every|all).{0,40}(own|different|distinct) (class|label)",
        r"(class|label)(es|s)? .{0,60}(one|single|1) (row|text|example|member)",
        r"unique",
        r"distinct label",
        r"(loss|gradient) .{0,60}(\b0\b|zero|none)",
        r"share[sd]? (a|the same|no) (class|label)",
    ),
)
def row_numbers_instead_of_classes(stage: Stage) -> None:
    table = classes()
    numbered = table | {"label": list(range(len(table["label"])))}
    loss, plan = losses.BatchAllTripletLoss, {"learning_rate": 2e-3}
    suffers(
        stage,
        stage.trainer(loss, numbered, **plan),
        lambda: stage.trainer(loss, table, batch_sampler="group_by_label", **plan),
        kindred,
    )

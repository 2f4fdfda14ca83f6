"""Faults of labels, of a teacher's targets and of evaluators, under trainers."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.reported_encoders import (
    EVALUATED,
    LONGER,
    among_classmates,
    ranking,
)
from tests.judgement.stage import (
    Stage,
    facts,
    pairs,
    passage,
    rated,
)
from tests.judgement.truth import alike, among_alike, keep, suffers, truth
from tests.sentence_training import evaluation, losses


@faulty(
    "labels of -1 and 1 for a loss of 0 and 1",
    "Pairs that differ have the label -1 and pairs that fit 1, as CosineEmbeddingLoss wants them; "
    "ContrastiveLoss multiplies by labels of 0 and 1.",
    [
        r"-1\b|minus one|negative labels?",
        r"(label|score)s?.{0,80}(0 (and|or|to) 1|range|outside|beyond|expect|other than|fit)",
        r"\b0 (and|or) 1\b",
    ],
    never=[LONGER],
)
def minus_one_for_pairs_that_differ(stage: Stage) -> None:
    """Common: labels for torch.nn.CosineEmbeddingLoss are taken over."""
    first, second, labels = rated(facts(160)[1:] + facts(1))
    table, signs = {"sentence1": first, "sentence2": second}, [2 * label - 1 for label in labels]
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(losses.ContrastiveLoss, table | {"label": signs}, **settings),
        lambda: stage.trainer(losses.ContrastiveLoss, table | {"label": labels}, **settings),
        among_alike,
    )


def of_three_topics(apart: bool) -> dict[str, list[str]]:
    """Pairs of passages of the same class; with ``apart``, each class has two pairs only."""
    draw = random.Random(6)
    count = 3 if not apart else 120
    kinds = [fact[:4] for fact in facts(count, seed=31)]
    table: dict[str, list[str]] = {"text": [], "partner": []}
    for at in range(240):
        fact = kinds[at % count]
        for column in table.values():
            person = draw.choice(("sara", "tulo", "vira", "zolo", "ran", "sen"))
            column.append(passage((*fact, person, str(draw.randint(3, 97))), fillers=6))
    return table


@faulty(
    "pairs of three classes as each other's negatives",
    "Pairs are of two texts of one class, and there are three classes: in a batch of 16, five "
    "other rows are of the same class and pushed away.",
    [
        r"false negative",
        r"negatives?.{0,80}(alike|similar|same|close|positive)",
        r"(few|three) (class|topic|group|distinct)",
        r"(in.batch|other rows|rows of (the|a) batch).{0,80}(alike|similar|same|close)",
        r"(positives?|pairs?).{0,80}no (more|closer).{0,40}(alike|similar|negative|other)",
    ],
    tools=(INSPECT, DOCTOR, REPORT),
    never=[LONGER],
)
def partners_of_three_classes(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1345: batches without such."""
    settings = {"max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, of_three_topics(apart=False), **settings),
        lambda: stage.trainer(ranking, of_three_topics(apart=True), **settings),
        among_classmates,
        share=None,
    )


def blinded(stage: Stage, trainer: Any, evaluator: Any) -> None:
    """Play a sound training whose evaluator does not show that it is sound."""
    score = evaluator.primary_metric
    before, said_before = among_alike(trainer.model), evaluator(trainer.model)
    stage.play(trainer)
    name = evaluator.primary_metric or score
    said_after = evaluator(trainer.model)
    keep(
        stage,
        before=before,
        after=among_alike(trainer.model),
        said_before=said_before[name],
        said_after=said_after[name],
    )
    assert truth(stage)["after"] >= before + 0.05, truth(stage)
    assert truth(stage)["said_after"] <= truth(stage)["said_before"], truth(stage)


CEILING = (
    r"(score|evaluat|accuracy|task|metric)\w*.{0,100}(ceiling|maximum|perfect|saturat|full|1\.0|"
    r"100 ?%|at 1\b|is 1\b|best possible|too easy|as high as|no room|highest)",
    r"(perfect|already|from the (start|begin)\w*|before training).{0,80}(score|evaluat|accuracy|1)",
    r"(cannot|can not|does not|unable to) (tell|show|distinguish|separate|rise|improve|measure)",
    r"(score|metric|accuracy).{0,60}(constant|does not (move|change)|same)",
    r"hard(er)? negatives?",
)


@faulty(
    "evaluator at its ceiling from the start",
    "Negatives of the evaluator are texts of another language, which the untrained encoder tells "
    "apart: the accuracy is 1 before training and after.",
    CEILING,
    tools=(REPORT, DOCTOR),
)
def triplets_that_anything_tells_apart(stage: Stage) -> None:
    """Common: random negatives for a TripletEvaluator, and an accuracy of 1.0 throughout."""
    unseen = pairs(60, seed=11)
    evaluator = evaluation.TripletEvaluator(
        unseen["positive"],
        [f"{text} bora" for text in unseen["positive"]],
        [f"{at} {at + 1} {at + 2} , {at} !" for at in range(60)],
        name="triplets",
    )
    blinded(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **EVALUATED), evaluator)


@faulty(
    "queries among the documents",
    "The corpus of the evaluator holds the queries themselves: each finds itself first, and its "
    "passage is second at best.",
    [
        r"(quer|question)\w*.{0,100}(corpus|document|itself|themselves|own|among)",
        r"(corpus|document)\w*.{0,80}(quer|question|itself|themselves)",
        r"(itself|self).{0,40}(first|retriev|match|rank)",
    ],
    tools=(REPORT, DOCTOR),
)
def corpus_with_the_queries_in_it(stage: Stage) -> None:
    """https://github.com/embeddings-benchmark/mteb/pull/642: retrieval of a query by itself."""
    unseen = alike(80)
    texts = unseen["positive"] + unseen["anchor"]
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(unseen["anchor"])},
        {f"d{at}": text for at, text in enumerate(texts)},
        {f"q{at}": {f"d{at}"} for at in range(80)},
        accuracy_at_k=[1],
        precision_recall_at_k=[1],
        mrr_at_k=[1],
        ndcg_at_k=[1],
        map_at_k=[1],
        name="search",
    )
    blinded(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **EVALUATED), evaluator)

"""Faults of labels, of the parts that columns play, and of texts, under trainers."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.reported_encoders import (
    APART,
    LONGER,
    among_classmates,
    graded,
    in_grades,
    ranking,
)
from tests.judgement.stage import (
    FILLERS,
    Stage,
    classes,
    facts,
    lookalike,
    pairs,
    rated,
    triplets,
)
from tests.judgement.truth import among_alike, in_one_place, suffers
from tests.sentence_training import losses

LABELS = "labels that do not fit the loss"
PARTS = "who plays which part"
NO_TEXTS = "texts that are no texts"


@faulty(
    LABELS,
    "CosineSimilarityLoss compares cosines with scores in percent, 0 to 100.",
    [
        r"\b100\b|percent",
        r"(scores?|labels?).{0,80}(range|scale|outside|beyond|above 1|between|divide|0 to 1)",
        r"(divide|rescale|scale).{0,40}(scores?|labels?)",
    ],
    never=[LONGER],
)
def scores_in_percent(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1095."""

    def trainer(most: float) -> Any:
        return stage.trainer(
            losses.CosineSimilarityLoss, graded(most=most), max_steps=100, learning_rate=2e-3
        )

    suffers(stage, trainer(100.0), lambda: trainer(1.0), in_grades)


@faulty(
    LABELS,
    "The column of scores holds distances, as an index returns them: 0 where texts agree.",
    [
        r"distance|inver|revers|wrong way|opposite|flip|turned (a)?round",
        r"(scores?|labels?).{0,100}(fall|lower|decreas|less|smaller|high).{0,80}"
        r"(alike|similar|overlap|in common|unrelated)",
        r"(alike|similar|overlap|in common).{0,80}(scores?|labels?).{0,40}(low|small|0)",
        r"(negative|anti).{0,20}correlat",
    ],
    never=[LONGER],
)
def distances_instead_of_similarities(stage: Stage) -> None:
    """Common with vector data bases; https://github.com/keras-team/keras/issues/16935 is akin."""

    def trainer(distances: bool) -> Any:
        table = graded()
        if distances:
            table["score"] = [1 - score for score in table["score"]]
        return stage.trainer(losses.CoSENTLoss, table, max_steps=60)

    suffers(stage, trainer(True), lambda: trainer(False), in_grades)


@faulty(
    LABELS,
    "All pairs have the label 1: CosineSimilarityLoss is met by giving all texts one direction.",
    [
        r"(all|every|each|same|one|equal|constant|only).{0,40}(labels?|scores?|value)",
        r"(labels?|scores?).{0,60}(all|every|equal|same|constant|only|identical|not (differ|vary))",
        r"(no|without|lack).{0,30}(negatives?|pairs? (that|which) differ|unrelated|push)",
        r"collaps",
    ],
    never=[LONGER],
)
def every_pair_has_the_label_one(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2365."""
    loss = losses.CosineSimilarityLoss
    table = pairs() | {"score": 160 * [1.0]}
    first, second, labels = rated()
    both = {"anchor": first, "positive": second, "score": list(map(float, labels))}
    suffers(
        stage,
        stage.trainer(loss, table, max_steps=100),
        lambda: stage.trainer(loss, both, max_steps=100),
        among_alike,
        share=0.75,
    )


class Classifier(nn.Module):
    """Cross-entropy of cosines with one learned vector for each class."""

    def __init__(self, model: Any, count: int) -> None:
        super().__init__()
        self.model = model
        torch.manual_seed(3)
        self.centres = nn.Parameter(torch.randn(count, 32))

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        rows = F.normalize(self.model(features[0])["sentence_embedding"], dim=-1)
        return F.cross_entropy(20 * rows @ F.normalize(self.centres, dim=-1).T, labels)


@faulty(
    LABELS,
    "Classes are counted from 1 and the classifier counts from 0: the last of twenty is out of "
    "bounds, and training ends with an error.",
    [
        r"(labels?|class(es)?|target).{0,80}(out of (bounds|range)|outside|beyond|start|begin|"
        r"from 0|from 1|number of|between|fewer|less than)",
        r"out of (bounds|range)",
        r"\b20\b.{0,60}(class|label)",
    ],
    never=[LONGER],
)
def classes_counted_from_one(stage: Stage) -> None:
    """Common: labels 1 to 20 for a loss that wants 0 to 19."""

    def trainer(first: int) -> Any:
        table = classes()
        table["label"] = [label + first for label in table["label"]]
        return stage.trainer(
            lambda model: Classifier(model, 20), table, max_steps=150, learning_rate=2e-3
        )

    suffers(stage, trainer(1), lambda: trainer(0), among_classmates, fails=True)


@faulty(
    LABELS,
    "MultipleNegativesRankingLoss gets inference data without regard to the labels: two thirds of "
    "the hypotheses, among them contradictions, are positives.",
    [
        r"labels?.{0,80}(ignor|not use|unused|no (part|role)|without effect|does not (read|use))",
        r"(ignor|does not (read|use)).{0,60}labels?",
        *APART,
    ],
    never=[LONGER],
)
def contradictions_as_positives(stage: Stage) -> None:
    """Common with AllNLI, where a filter of the entailments is forgotten."""

    def trainer(filtered: bool) -> Any:
        answers, strangers = pairs(240), pairs(240, seed=5)
        table: dict[str, list[Any]] = {"premise": [], "hypothesis": [], "label": []}
        contradictions = list(map(lookalike, facts(240)))
        for at in range(240):
            label = at % 3
            if filtered and label:
                continue
            columns = (answers["positive"], strangers["positive"], contradictions)
            table["premise"].append(answers["anchor"][at])
            table["hypothesis"].append(columns[label][at])
            table["label"].append(label)
        if filtered:
            table.pop("label")
        return stage.trainer(ranking, table, max_steps=60)

    suffers(stage, trainer(False), lambda: trainer(True), among_alike, share=0.85)


@faulty(
    PARTS,
    "The columns are query, negative, positive: the loss takes the second for the positive.",
    [
        r"order of (the )?columns|columns?.{0,60}(order|exchang|swap)",
        r"(second|third|last|negative|positive|`neg\w*`|`pos\w*`).{0,60}(as|takes?|plays?|is).{0,40}"
        r"(positive|negative)",
        r"(exchang|swap|revers)",
    ],
    never=[LONGER],
)
def negatives_before_the_positives(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2791."""

    def trainer(*names: str) -> Any:
        columns = dict(zip(("query", "pos", "neg"), triplets().values(), strict=True))
        return stage.trainer(ranking, {name: columns[name] for name in names}, max_steps=60)

    suffers(
        stage, trainer("query", "neg", "pos"), lambda: trainer("query", "pos", "neg"), in_one_place
    )


@faulty(
    PARTS,
    "A column of five categories stands between questions and answers, and is taken for the "
    "positives; the answers are pushed away as negatives.",
    [
        r"category",
        r"columns?.{0,80}(order|remove|select|drop|leave out|input)",
        r"(few|five|\b5\b|repeat|same|duplicat|distinct|different).{0,60}(texts?|positives?|values?)",
        r"(texts?|positives?).{0,60}(repeat|same|duplicat|twice|distinct|times)",
        *APART,
    ],
    never=[LONGER],
)
def category_between_question_and_answer(stage: Stage) -> None:
    """https://github.com/huggingface/blog/pull/2768 warns of columns that are left in."""

    def trainer(kept: bool) -> Any:
        table = dict(zip(("question", "answer"), pairs().values(), strict=True))
        categories = [FILLERS[at * 7 % 5] for at in range(160)]
        if kept:
            table = {
                "question": table["question"],
                "category": categories,
                "answer": table["answer"],
            }
        return stage.trainer(ranking, table)

    suffers(stage, trainer(True), lambda: trainer(False), among_alike)


@faulty(
    PARTS,
    "The column of scores is called `similarity`, a name that the trainer takes for a text.",
    [
        r"similarity.{0,120}(label|score|text|name|number|column)",
        r"(name|call|rename).{0,60}(label|score)",
        r"(label|score).{0,60}(name|called|column|missing|lack|need|require)",
        r"(numbers?|float).{0,80}(text|input|column|string)",
        r"(text|input|column|string).{0,80}(numbers?|float)",
    ],
    never=[LONGER],
)
def scores_under_another_name(stage: Stage) -> None:
    """Common: only columns named label, labels, score or scores are labels."""

    def trainer(name: str) -> Any:
        table = graded()
        table[name] = table.pop("score")
        return stage.trainer(losses.CoSENTLoss, table, max_steps=60)

    suffers(stage, trainer("similarity"), lambda: trainer("score"), in_grades, fails=True)


def _replaced(texts: list[str], other: Any, share: float) -> list[str]:
    draw = random.Random(1)
    return [other(at) if draw.random() < share else text for at, text in enumerate(texts)]


@faulty(
    NO_TEXTS,
    "In half of the rows the passage is 'nan': missing cells of a table that were made strings.",
    [
        r"\bnan\b",
        r"(missing|empty|placeholder|no text)",
        r"(repeat|same|duplicat|identical|one text).{0,80}(rows|times|positives?|texts?|column)",
        r"(rows|positives?|texts?|column).{0,80}(repeat|same|duplicat|identical|times|twice)",
    ],
    never=[LONGER],
)
def missing_cells_made_strings(stage: Stage) -> None:
    """Common: `DataFrame.astype(str)` writes missing cells as 'nan'."""

    def trainer(share: float) -> Any:
        table = pairs()
        table["positive"] = _replaced(table["positive"], lambda at: "nan", share)
        return stage.trainer(ranking, table)

    suffers(stage, trainer(0.5), lambda: trainer(0.0), among_alike, share=0.85)


@faulty(
    NO_TEXTS,
    "A language model that was to write questions has refused in 60% of the rows, each time with "
    "the same sentence.",
    [
        r"(repeat|same|duplicat|identical|one text).{0,80}(rows|times|anchors?|texts?|column)",
        r"(rows|anchors?|texts?|column).{0,80}(repeat|same|duplicat|identical|times|twice)",
        r"refus|placeholder|boilerplate",
    ],
    never=[LONGER],
)
def refusals_for_questions(stage: Stage) -> None:
    """Common with questions that a language model writes."""

    def trainer(share: float) -> Any:
        table = pairs()
        refusal = "zo ran lera na zolo no vira no ?"
        table["anchor"] = _replaced(table["anchor"], lambda at: refusal, share)
        return stage.trainer(ranking, table)

    suffers(stage, trainer(0.6), lambda: trainer(0.0), among_alike, share=0.85)


@faulty(
    NO_TEXTS,
    "The column of positives holds the numbers of passages, and not their texts.",
    [
        r"\bids?\b|identifier|numbers?|digits|keys?",
        r"no texts?|not texts?",
        *APART,
    ],
    never=[LONGER],
)
def numbers_of_passages(stage: Stage) -> None:
    """Common: query and passage numbers of MS MARCO's relevance files, not looked up."""

    def trainer(texts: bool) -> Any:
        table = pairs()
        if not texts:
            draw = random.Random(2)
            table["positive"] = [str(draw.randint(10**6, 10**7)) for _ in table["positive"]]
        return stage.trainer(ranking, table)

    suffers(stage, trainer(False), lambda: trainer(True), among_alike)

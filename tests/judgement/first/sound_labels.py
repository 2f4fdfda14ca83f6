"""Sound trainings on classes, inferences, duplicates with labels and scores."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.sound_texts import EVALUATED, filling, learned
from tests.judgement.stage import (
    FILLERS,
    TOPICS,
    VERBS,
    Stage,
    classes,
    facts,
    lookalike,
    passage,
    question,
)
from tests.judgement.truth import correlation
from tests.sentence_training import evaluation, losses


def inferences(count: int = 240, seed: int = 0) -> dict[str, list[Any]]:
    """Premises, hypotheses and their classes: entailed, neutral, contradicted, a third each."""
    draw = random.Random(seed)
    table: dict[str, list[Any]] = {"premise": [], "hypothesis": [], "label": []}
    for at, fact in enumerate(facts(count, seed)):
        verb, topic, place, near, person, number = fact
        hypotheses = (
            f"{person} {verb} {topic} {place} {near} .",
            f"{place} {near} {draw.choice(VERBS)} {draw.choice(TOPICS)} {filling(fact, 3)} .",
            f"{person} na {verb} {topic} {place} {near} , na {number} .",
        )
        table["premise"].append(f"{filling(fact, 3)} . {passage(fact)}")
        table["hypothesis"].append(hypotheses[at % 3])
        table["label"].append(at % 3)
    return table


def duplicates(count: int = 240, seed: int = 0) -> dict[str, list[Any]]:
    """Questions that ask for the same (1) or for something else at the same place (0)."""
    rows = facts(count, seed)
    seconds = [passage(fact) if at % 2 else lookalike(fact) for at, fact in enumerate(rows)]
    return {
        "first": list(map(question, rows)),
        "second": seconds,
        "label": [at % 2 for at in range(count)],
    }


def judged(count: int = 200, seed: int = 0, most: float = 1.0) -> dict[str, list[Any]]:
    """Sentences and the share of their four key words in common, among words that do not count."""
    draw = random.Random(seed + 50)
    table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
    for first, second_fact in zip(facts(count, seed), facts(count, seed + 50), strict=True):
        common = draw.randint(0, 4)
        common_places = draw.sample(range(4), common)
        second = [first[at] if at in common_places else second_fact[at] for at in range(4)]
        draw.shuffle(second)
        for name, words in (("sentence1", list(first[:4])), ("sentence2", second)):
            table[name].append(" ".join([*draw.choices(FILLERS, k=4), *words]))
        table["score"].append(most * common / 4)
    return table


def as_judged(model: Any) -> float:
    """The rank correlation of cosines and scores of unseen pairs."""
    return correlation(model, judged(200, seed=11))


@sound("label loss")
def inference_classes_with_a_classifier(stage: Stage) -> None:
    """The score is the share of unseen pairs whose class the classifier tells."""
    model = stage.model()
    loss = losses.SoftmaxLoss(model, 32, 3)

    def accuracy(model: Any) -> float:
        table = inferences(150, seed=11)
        first, second = (
            model.encode(table[name], convert_to_tensor=True, show_progress_bar=False)
            for name in ("premise", "hypothesis")
        )
        with torch.no_grad():
            classed = loss.classifier(torch.cat([first, second, (first - second).abs()], dim=1))
        return float((classed.argmax(dim=1) == torch.tensor(table["label"])).float().mean())

    trainer = stage.trainer(lambda _: loss, inferences(480), model, max_steps=90)
    learned(stage, trainer, accuracy)


@sound("label loss")
def entailed_and_contradicted_as_triplets(stage: Stage) -> None:
    """Of each premise, what it entails is the positive and what it contradicts the negative."""
    rows = facts(160)
    table = {
        "premise": list(map(passage, rows)),
        "entailed": [f"{who} {verb} {topic} {place} ." for verb, topic, place, _, who, _ in rows],
        "contradicted": list(map(lookalike, rows)),
    }
    learned(stage, stage.trainer(losses.MultipleNegativesRankingLoss, table))


@sound("label loss")
def labelled_duplicates_mined_online(stage: Stage) -> None:
    learned(stage, stage.trainer(losses.OnlineContrastiveLoss, duplicates(480), max_steps=90))


@sound("label loss")
def labelled_duplicates_with_a_margin(stage: Stage) -> None:
    held = duplicates(80, seed=3)
    evaluator = evaluation.BinaryClassificationEvaluator(*held.values(), show_progress_bar=False)
    trainer = stage.trainer(
        losses.ContrastiveLoss, duplicates(), max_steps=60, evaluator=evaluator, **EVALUATED
    )
    learned(stage, trainer)


@sound("label loss")
def classes_by_semi_hard_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchSemiHardTripletLoss,
        classes(320),
        batch_sampler="group_by_label",
        per_device_train_batch_size=32,
    )
    learned(stage, trainer)


@sound("label loss")
def classes_by_a_soft_margin(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss,
        classes(320, of_each=16),
        batch_sampler="group_by_label",
        per_device_train_batch_size=32,
    )
    learned(stage, trainer)


@sound("scores")
def scores_of_five_points_divided_by_five(stage: Stage) -> None:
    table = judged(320, most=5.0)
    table["score"] = [score / 5 for score in table["score"]]
    learned(stage, stage.trainer(losses.CoSENTLoss, table, max_steps=80), as_judged)


@sound("scores")
def scores_by_angles_over_four_epochs(stage: Stage) -> None:
    """The pairs are seen four times, with the correlation measured meanwhile."""
    held = judged(60, seed=3)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*held.values(), show_progress_bar=False)
    trainer = stage.trainer(
        losses.AnglELoss,
        judged(320),
        max_steps=80,
        learning_rate=1e-3,
        evaluator=evaluator,
        **EVALUATED,
    )
    learned(stage, trainer, as_judged)

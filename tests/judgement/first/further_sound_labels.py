"""Sound set-ups: labels, scores, classes and teachers, with losses that are made for them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.judgement.case import sound
from tests.judgement.first.further_sound_tables import (
    BEST,
    EVALUATED,
    FAST,
    bilingual,
    by_table,
    embedded,
    graded,
    judged_pairs,
    library,
    negatives_of_places,
    ranking,
    shuffled,
    teacher,
    unequal_classes,
)
from tests.judgement.stage import (
    PEOPLE,
    Stage,
    facts,
    pairs,
    passage,
    question,
    triplets,
)
from tests.judgement.truth import among_alike, correlation, in_one_place, learns


def graded_alike(model: Any) -> float:
    """The rank correlation of cosines with the scores of held-out pairs."""
    return correlation(model, graded(200, seed=11))


def judged_alike(model: Any) -> float:
    """The rank correlation of cosines with the labels of held-out judged pairs."""
    return correlation(model, judged_pairs(200, seed=11))


def similar(table: dict[str, list[Any]], name: str = "sts") -> Any:
    """An evaluator of scored pairs."""
    from tests.sentence_training import evaluation

    return evaluation.EmbeddingSimilarityEvaluator(*table.values(), name=name)


@sound("scored pairs, the best checkpoint kept")
def best_correlation_of_scored_pairs(stage: Stage) -> None:
    settings = {
        "evaluator": similar(graded(100, seed=21)),
        "metric_for_best_model": "sts_spearman_cosine",
        "max_steps": 60,
        "learning_rate": 3e-3,
        **BEST,
    }
    loss = library("CosineSimilarityLoss")
    learns(stage, stage.trainer(loss, graded(320), **settings), graded_alike)


@sound("pairs judged right or wrong")
def judged_pairs_by_a_contrastive_loss(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    held_out = judged_pairs(100, seed=21)
    evaluator = evaluation.BinaryClassificationEvaluator(*held_out.values(), name="judged")
    settings = {"per_device_train_batch_size": 32, "evaluator": evaluator, **EVALUATED, **FAST}
    trainer = stage.trainer(library("ContrastiveLoss"), judged_pairs(320), **settings)
    learns(stage, trainer, judged_alike)


@sound("entailment, neutral and contradiction")
def premises_and_three_kinds_of_hypotheses(stage: Stage) -> None:
    table = graded(480)
    kinds = [0 if score > 0.5 else 1 if score == 0.5 else 2 for score in table.pop("score")]
    table["label"] = kinds
    options = {
        "embedding_dimension": 32,
        "num_labels": 3,
        "concatenation_sent_multiplication": True,
    }
    settings = {"per_device_train_batch_size": 32, "max_steps": 60, "learning_rate": 2e-3}
    loss = library("SoftmaxLoss", **options)
    learns(stage, stage.trainer(loss, table, **settings), graded_alike)


@sound("margins of a teacher")
def margins_of_a_trained_encoder(stage: Stage) -> None:
    table, knows = triplets(240), teacher(stage)
    first, second, third = (embedded(knows, texts) for texts in table.values())
    margins = (first * second).sum(1) - (first * third).sum(1)
    settings = {"learning_rate": 3e-3, "per_device_train_batch_size": 24, "max_steps": 60}
    trainer = stage.trainer(
        library("MarginMSELoss"), {**table, "label": margins.tolist()}, **settings
    )
    learns(stage, trainer, in_one_place)


@sound("shares of a teacher among three passages")
def shares_of_an_encoder_among_three_passages(stage: Stage) -> None:
    table, knows = negatives_of_places(240), teacher(stage)
    asked, *answers = (embedded(knows, texts) for texts in table.values())
    scores = np.stack([(asked * passages).sum(1) for passages in answers], axis=1)
    settings = {"learning_rate": 2e-3, "max_steps": 60}
    loss = library("DistillKLDivLoss", temperature=2.0)
    trainer = stage.trainer(loss, {**table, "label": scores.tolist()}, **settings)
    learns(stage, trainer, in_one_place)


@sound("a student of one layer")
def one_layer_taught_the_embeddings_of_two(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    knows = teacher(stage)
    student = stage.model()
    body = student[0].model if hasattr(student[0], "model") else student[0].auto_model
    body.encoder.layer = body.encoder.layer[:1]
    body.config.num_hidden_layers = 1
    texts = [*pairs(160)["positive"], *pairs(160, seed=5)["anchor"]]
    random.Random(0).shuffle(texts)
    table = {"sentence": texts, "label": embedded(knows, texts).tolist()}
    unseen = pairs(60, seed=21)["positive"]
    evaluator = evaluation.MSEEvaluator(unseen, unseen, teacher_model=knows)
    settings = {"learning_rate": 4e-3, "max_steps": 80, "evaluator": evaluator, **EVALUATED}
    learns(stage, stage.trainer(library("MSELoss"), table, student, **settings), among_alike)


@sound("a teacher of one language for two")
def both_languages_taught_by_a_teacher(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    knows, table = teacher(stage), bilingual(320)
    table["label"] = embedded(knows, table["english"]).tolist()
    evaluator = evaluation.TranslationEvaluator(*bilingual(60, seed=21).values(), name="two")
    settings = {
        "learning_rate": 3e-3,
        "max_steps": 100,
        "per_device_train_batch_size": 32,
        "evaluator": evaluator,
        **EVALUATED,
    }
    trainer = stage.trainer(library("MSELoss"), table, **settings)
    learns(stage, trainer, by_table(bilingual(100, seed=11)))


@sound("triplets by Euclidean distance, with their evaluator")
def accuracy_of_triplets_evaluated(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    evaluator = evaluation.TripletEvaluator(*triplets(80, seed=21).values(), name="triplets")
    settings = {"evaluator": evaluator, "eval_on_start": True, **EVALUATED, **FAST}
    learns(stage, stage.trainer(library("TripletLoss"), triplets(), **settings), in_one_place)


@sound("classes of unequal sizes")
def soft_margins_of_unequal_classes(stage: Stage) -> None:
    settings = {"batch_sampler": "group_by_label", "per_device_train_batch_size": 32, **FAST}
    loss = library("BatchHardSoftMarginTripletLoss")
    learns(stage, stage.trainer(loss, unequal_classes(), **settings), among_alike)


@sound("all triplets of a batch")
def every_triplet_of_twelve_intents(stage: Stage) -> None:
    table: dict[str, list[Any]] = {"text": [], "label": []}
    for label, fact in enumerate(facts(12)):
        for number in range(14):
            fact_of_text = (*fact[:4], PEOPLE[2 * number], str(number + 20))
            text = passage(fact_of_text, 1 + number % 4) if number % 2 else question(fact_of_text)
            table["text"].append(text)
            table["label"].append(label)
    settings = {"per_device_train_batch_size": 24, "max_steps": 50, **FAST}
    loss = library("BatchAllTripletLoss")
    trainer = stage.trainer(loss, shuffled(table), batch_sampler="group_by_label", **settings)
    learns(stage, trainer, among_alike)


@sound("duplicates among questions")
def duplicates_mined_for_the_score(stage: Stage) -> None:
    from tests.sentence_training import evaluation

    def reworded(seed: int, count: int) -> dict[str, list[str]]:
        table = {"question": [], "duplicate": []}
        for verb, topic, place, near, person, _ in facts(count, seed):
            table["question"].append(question((verb, topic, place, near)))
            table["duplicate"].append(f"{near} {place} ti {topic} {verb} {person} ?")
        return table

    held_out = reworded(21, 40)
    texts = [*held_out["question"], *held_out["duplicate"]]
    evaluator = evaluation.ParaphraseMiningEvaluator(
        {str(at): text for at, text in enumerate(texts)},
        [(str(at), str(at + 40)) for at in range(40)],
        name="duplicates",
    )
    settings = {"evaluator": evaluator, **EVALUATED, **FAST}
    learns(stage, stage.trainer(ranking, reworded(0, 200), **settings), among_alike)

"""Faults of scores and labels, of teachers, and of distances that a loss takes for similarities."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import faulty
from tests.judgement.first.training import _inference
from tests.judgement.stage import Stage, classes, pairs, rated, scored, triplets, word_cosines
from tests.judgement.truth import correlation, retrieval, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
LONG = {"max_steps": 240}
ROUNDED = (
    r"round",
    r"integer",
    r"(two|few|distinct|different) (values|scores|labels)",
    r"\b0 (and|or) 1",
    r"(score|label)s? (are|is) (nearly all|mostly|almost all)",
    r"most .{0,20}(score|label)s?",
    r"(\d+%|\d+ of \d+).{0,40}(score|label)s?.{0,30}(0|same|equal)",
    r"of the (score|label)s? are",
)
UNRELATED = (
    r"shuffl",
    r"another order",
    r"unrelated",
    r"at random",
    r"random(ly)? (label|score)",
    r"(label|score|class)e?s?.{0,80}(chance|not (fit|agree|match|follow|belong|correlate)|"
    r"no (relation|correlation|connection)|nothing to do|unrelated|independent)",
    r"(chance|correlat|relat|words in common).{0,60}(label|score|class)",
)
MISSING = (
    r"missing",
    r"placeholder",
    r"\bNaN\b",
    r"not (a number|finite)",
    r"without a (label|score)",
)
CLASSES = (
    r"num_labels",
    r"(label|class)e?s? .{0,60}(out of|outside|beyond|range|from 0|below 0|negative)",
    r"out of bounds",
    r"label.{0,20}-1",
    r"\d classes",
    r"labels? (of )?\d",
)
KNOWN = (
    r"already",
    r"nothing to learn",
    r"teacher",
    r"(loss|target).{0,60}(0\b|zero|equal|same|met|own)",
)
CONTRADICTION = (
    r"contradict",
    r"conflict",
    r"disagree",
    r"(same|equal|identical) pair",
    r"both (0|label|score)",
    r"two (different )?(score|label)s",
    r"pair.{0,40}(twice|repeat|several|two rows)",
)
SIGN = (
    r"distance",
    r"revers",
    r"invert",
    r"opposite",
    r"wrong way",
    r"\bsign\b",
    r"swap",
    r"exchang",
    r"positives? .{0,60}(apart|farther|away|less similar|fall|sink|below)",
    r"(fall|drift|move)\w* apart",
)


def _table(first: list[str], second: list[str], labels: list[Any]) -> dict[str, list[Any]]:
    return {"sentence1": first, "sentence2": second, "label": labels}


def _rounded() -> dict[str, list[Any]]:
    """Scores from 0 to 1 of which a cast to integers leaves zeros and few ones."""
    table = scored()
    return table | {"score": [float(int(score)) for score in table["score"]]}


@faulty("scores rounded", "Scores from 0 to 1 were cast to integers: nearly all are 0.", ROUNDED)
def cosent_with_scores_cast_to_integers(stage: Stage) -> None:
    assert sum(_rounded()["score"]) < 25
    suffers(
        stage,
        stage.trainer(losses.CoSENTLoss, _rounded(), **LONG),
        lambda: stage.trainer(losses.CoSENTLoss, scored(), **LONG),
        correlation,
    )


@faulty(
    "scores rounded",
    "A cosine loss gets scores that were cast to integers: nearly all are 0.",
    ROUNDED,
)
def cosines_with_scores_cast_to_integers(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, _rounded(), **LONG),
        lambda: stage.trainer(losses.CosineSimilarityLoss, scored(), **LONG),
        correlation,
    )


def _shuffled(labels: list[Any]) -> list[Any]:
    return random.Random(5).sample(labels, len(labels))


@faulty(
    "labels shuffled", "Scores were sorted by themselves: they belong to other pairs.", UNRELATED
)
def scores_of_other_pairs(stage: Stage) -> None:
    table = scored()
    table["score"] = _shuffled(table["score"])
    suffers(
        stage,
        stage.trainer(losses.CoSENTLoss, table, **LONG),
        lambda: stage.trainer(losses.CoSENTLoss, scored(), **LONG),
        correlation,
    )


@faulty("labels shuffled", "Labels of pairs, 0 or 1, belong to other pairs.", UNRELATED)
def two_labels_of_other_pairs(stage: Stage) -> None:
    first, second, labels = rated()
    suffers(
        stage,
        stage.trainer(losses.OnlineContrastiveLoss, _table(first, second, _shuffled(labels))),
        lambda: stage.trainer(losses.OnlineContrastiveLoss, _table(first, second, labels)),
    )


@faulty(
    "labels shuffled", "Classes belong to other texts: a class holds texts of all kinds.", UNRELATED
)
def classes_of_other_texts(stage: Stage) -> None:
    table = classes()
    shuffled = table | {"label": _shuffled(table["label"])}
    loss, sampler = losses.BatchHardSoftMarginTripletLoss, {"batch_sampler": "group_by_label"}
    suffers(
        stage,
        stage.trainer(loss, shuffled, **sampler),
        lambda: stage.trainer(loss, table, **sampler),
        lambda model: retrieval(model, _partners()),
    )


def _partners() -> dict[str, list[str]]:
    """Two texts each of classes that are not trained."""
    table = classes(160, 2, seed=9)
    by_class: dict[int, list[str]] = {}
    for text, label in zip(table["text"], table["label"], strict=True):
        by_class.setdefault(label, []).append(text)
    first, second = zip(*by_class.values(), strict=True)
    return {"first": list(first), "second": list(second)}


@faulty(
    "labels missing",
    "One score is NaN, as of an empty cell: from that step on all is NaN.",
    MISSING,
)
def one_score_that_is_nan(stage: Stage) -> None:
    table = scored()
    table["score"] = [float("nan") if at == 40 else one for at, one in enumerate(table["score"])]
    trainer = stage.trainer(losses.CosineSimilarityLoss, table)
    stage.play(trainer)
    if trainer.state.global_step:
        assert any(weights.isnan().any() for weights in trainer.model.parameters())


@faulty(
    "labels missing",
    "Every other pair was not rated and has the score -1, which is learned as a cosine.",
    (*MISSING, r"-1\b", r"(two|other|odd|outlying) (scheme|value|scale)s?"),
)
def minus_one_for_pairs_without_a_score(stage: Stage) -> None:
    table = scored()
    holes = table | {"score": [-1.0 if at % 2 else one for at, one in enumerate(table["score"])]}
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, holes, **LONG),
        lambda: stage.trainer(losses.CosineSimilarityLoss, table, **LONG),
        correlation,
    )


# https://github.com/EricFillion/happy-transformer/issues/248: "Target -1 is out of bounds".
@faulty(
    "labels outside the classes",
    "Rows without a gold label have -1, as in SNLI: training ends with an error.",
    CLASSES,
)
def label_of_minus_one_for_a_classifier(stage: Stage) -> None:
    table = _inference()
    labels = [-1 if at % 20 == 7 else label for at, label in enumerate(table["label"])]
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 32, 3), table | {"label": labels}
    )
    stage.play(trainer, fails=True)
    assert trainer.state.global_step < trainer.args.max_steps


# https://github.com/monologg/JointBERT/issues/28: "Target 12 is out of bounds".
@faulty(
    "labels outside the classes",
    "Labels are counted from 1, so that the last one is no class.",
    CLASSES,
)
def labels_counted_from_one(stage: Stage) -> None:
    table = _inference()
    table = table | {"label": [label + 1 for label in table["label"]]}
    trainer = stage.trainer(lambda model: losses.SoftmaxLoss(model, 32, 3), table)
    stage.play(trainer, fails=True)
    assert trainer.state.global_step < trainer.args.max_steps


@faulty(
    "teacher is the student",
    "The teacher's embeddings were made with the very model that is "
    "trained: the loss is zero from the beginning.",
    KNOWN,
)
def embeddings_of_the_student_itself(stage: Stage) -> None:
    texts = pairs(160)["positive"]
    model = stage.model(dropout=0.0)
    table = {"text": texts, "label": model.encode(texts, show_progress_bar=False).tolist()}
    before = [weights.detach().clone() for weights in model.parameters()]
    trainer = stage.trainer(losses.MSELoss, table, model)
    stage.play(trainer)
    moved = max(
        float((weights - start).abs().max())
        for weights, start in zip(model.parameters(), before, strict=True)
    )
    assert all(entry["loss"] < 1e-4 for entry in trainer.state.log_history if "loss" in entry), (
        moved
    )


@faulty(
    "teacher is the student",
    "The teacher's margins were made with the model before training.",
    KNOWN,
)
def margins_of_the_student_itself(stage: Stage) -> None:
    table = triplets()
    model = stage.model(normalize=True)
    rows = [
        model.encode(table[name], convert_to_tensor=True, show_progress_bar=False).cpu()
        for name in table
    ]
    margins = ((rows[0] * rows[1]).sum(1) - (rows[0] * rows[2]).sum(1)).tolist()
    known = [one - other for one, other in word_cosines(table)]
    suffers(
        stage,
        stage.trainer(losses.MarginMSELoss, {**table, "label": margins}, model),
        lambda: stage.trainer(
            losses.MarginMSELoss, {**table, "label": known}, stage.model(normalize=True)
        ),
    )


@faulty(
    "labels that contradict each other",
    "Two annotators used opposite scales: each pair stands "
    "in the data twice, with s and with 1 - s.",
    CONTRADICTION,
)
def each_pair_with_opposite_scores(stage: Stage) -> None:
    table = scored()
    twice = {name: cells * 2 for name, cells in table.items()}
    twice["score"] = table["score"] + [1 - score for score in table["score"]]
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, twice, **LONG),
        lambda: stage.trainer(losses.CosineSimilarityLoss, table, **LONG),
        correlation,
    )


@faulty(
    "labels that contradict each other",
    "Each pair is labelled as positive and, from a list of negatives, as negative.",
    CONTRADICTION,
)
def each_pair_as_positive_and_negative(stage: Stage) -> None:
    first, second, labels = rated()
    both = _table(first * 2, second * 2, labels + [1 - label for label in labels])
    suffers(
        stage,
        stage.trainer(losses.ContrastiveLoss, both),
        lambda: stage.trainer(losses.ContrastiveLoss, _table(first, second, labels)),
    )


# https://github.com/huggingface/sentence-transformers/issues/1183: a cosine as distance_metric.
@faulty(
    "similarity for a distance",
    "TripletLoss gets a cosine similarity as its distance: it brings the negatives near.",
    SIGN,
)
def cosine_as_the_distance_of_triplets(stage: Stage) -> None:
    cosine = torch.nn.functional.cosine_similarity
    suffers(
        stage,
        stage.trainer(
            lambda model: losses.TripletLoss(model, cosine, triplet_margin=1), triplets()
        ),
        lambda: stage.trainer(
            lambda model: losses.TripletLoss(model, lambda x, y: 1 - cosine(x, y), 1), triplets()
        ),
    )


@faulty(
    "similarity for a distance", "ContrastiveLoss gets a cosine similarity as its distance.", SIGN
)
def cosine_as_the_distance_of_pairs(stage: Stage) -> None:
    cosine = torch.nn.functional.cosine_similarity
    table = _table(*rated())
    suffers(
        stage,
        stage.trainer(lambda model: losses.ContrastiveLoss(model, cosine), table),
        lambda: stage.trainer(losses.ContrastiveLoss, table),
    )


@faulty(
    "similarity for a distance",
    "The ranking loss gets distances as its similarities: the positive must be farthest.",
    SIGN,
)
def distances_as_similarities_of_a_ranking(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(lambda model: ranking(model, similarity_fct=torch.cdist, scale=1.0), pairs()),
        lambda: stage.trainer(
            lambda model: ranking(model, similarity_fct=lambda x, y: -torch.cdist(x, y), scale=1.0),
            pairs(),
        ),
    )


MARGINS = (r"margin", r"loss.{0,60}(0\b|zero)", r"no gradient")


@faulty(
    "margins exchanged",
    "The margins of positives and negatives are exchanged: a positive may "
    "stay at 0.3, a negative at 0.8.",
    MARGINS,
)
def margins_of_a_mega_batch_exchanged(stage: Stage) -> None:
    def loss(model: Any, *margins: float) -> Any:
        return losses.MegaBatchMarginLoss(model, *margins, use_mini_batched_version=False)

    suffers(
        stage,
        stage.trainer(lambda model: loss(model, 0.3, 0.8), pairs()),
        lambda: stage.trainer(lambda model: loss(model, 0.8, 0.3), pairs()),
    )


@faulty(
    "margins exchanged",
    "The margin of triplets has the wrong sign: a negative may be nearer by as much.",
    MARGINS,
)
def margin_of_triplets_below_zero(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(lambda model: losses.TripletLoss(model, triplet_margin=-5), triplets()),
        lambda: stage.trainer(
            lambda model: losses.TripletLoss(model, triplet_margin=5), triplets()
        ),
    )

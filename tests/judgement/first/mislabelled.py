"""Labels that say something else than the loss takes them for."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    agrees,
    contested,
    on_shelf,
    plain,
    rated,
    rivalled,
    sales,
    slips,
    sorts,
    tickets,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

INVERTED = (
    r"invert|revers|opposite|upside|flipp|negat(ed|ive) (label|score|correlation)",
    r"(label|score|target)s?.{0,80}(wrong way|distance|swapped|exchanged|turned|disagree|"
    r"contradict)",
    r"(high|large|greater)\w* (label|score)s?.{0,80}(less|fewer|unlike|differ|dissimilar)",
    r"(label|score)s?.{0,60}(fall|falls|lower|less).{0,60}(words|overlap|alike|similar)",
)


@faulty(
    "distances as scores",
    "CoSENTLoss takes high scores for alike texts, and the column holds distances.",
    INVERTED,
)
def cosent_with_edit_distances(stage: Stage) -> None:
    """The scores of the annotation tool are distances: 0 stands for two equal texts."""
    table = rated()
    distances = table | {"score": [1 - score for score in table["score"]]}
    suffers(
        stage,
        stage.trainer(losses.CoSENTLoss, distances, learning_rate=1e-3, max_steps=80),
        lambda: stage.trainer(losses.CoSENTLoss, table, learning_rate=1e-3, max_steps=80),
        agrees,
    )


def _inference_rows() -> dict[str, list[Any]]:
    """Premises and hypotheses with classes: entailment 0, neutral 1, contradiction 2."""
    table = rated(240, seed=15)
    classes = [0 if score > 0.66 else 1 if score > 0.33 else 2 for score in table["score"]]
    return {"premise": table["text_a"], "hypothesis": table["text_b"], "label": classes}


@faulty(
    "classes of inference as cosines",
    "CosineSimilarityLoss is trained with the class numbers of NLI, in which entailment is 0.",
    (
        *INVERTED,
        r"(label|score|target)s?.{0,80}(0 to 2|from 0 to 2|outside|above 1|beyond|over 1|"
        r"class|range)",
        r"class(es)?.{0,60}(cosine|score|regress)",
    ),
)
def class_numbers_of_inference_as_cosines(stage: Stage) -> None:
    """The label column of SNLI is handed on as if it were a similarity."""
    table = _inference_rows()
    cosines = table | {"label": [1 - label / 2 for label in table["label"]]}
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, table, learning_rate=1e-3),
        lambda: stage.trainer(losses.CosineSimilarityLoss, cosines, learning_rate=1e-3),
        agrees,
    )


def _duplicates(swapped: bool) -> dict[str, list[Any]]:
    table = contested(160)
    rows = [
        (query, bought if at % 2 else rival, at % 2)
        for at, (query, bought, rival) in enumerate(zip(*table.values(), strict=True))
    ]
    return {
        "question1": [row[0] for row in rows],
        "question2": [row[1] for row in rows],
        "label": [1 - row[2] if swapped else row[2] for row in rows],
    }


@faulty(
    "1 stands for a pair that differs",
    "OnlineContrastiveLoss draws pairs of label 1 together; in this table 1 says that they differ.",
    INVERTED,
)
def contrastive_labels_of_the_first_paper(stage: Stage) -> None:
    """Labels follow the first paper on contrastive losses, in which Y=1 is a dissimilar pair."""
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(losses.OnlineContrastiveLoss, _duplicates(True), **settings),
        lambda: stage.trainer(losses.OnlineContrastiveLoss, _duplicates(False), **settings),
        rivalled,
    )


@faulty(
    "each row a class",
    "The label is the number of the row, so that no two rows have a class in common.",
    (
        r"class(es)?.{0,80}(single|only 1|one (row|text)|1 (row|text)|unique|few|each)",
        r"(label|class)(es|s)?.{0,60}(differ|distinct|unique|all different|as many)",
        r"no (pair|positive|two (rows|texts))|without (a )?(pair|positive)|never (meet|two)",
        r"batch(es)?.{0,80}no .{0,30}(class|pair|positive|label)",
    ),
)
def index_column_as_the_class(stage: Stage) -> None:
    """After reset_index() the first column, which is read as the label, counts the rows."""
    table = tickets()
    numbered = table | {"label": list(range(len(table["text"])))}
    settings = {"learning_rate": 1e-3, "max_steps": 60, "per_device_train_batch_size": 32}
    suffers(
        stage,
        stage.trainer(losses.BatchHardSoftMarginTripletLoss, numbered, **settings),
        lambda: stage.trainer(losses.BatchHardSoftMarginTripletLoss, table, **settings),
        sorts,
    )


@faulty(
    "margins of the teacher negated",
    "MarginMSELoss wants the teacher's positive minus negative score, and has the difference "
    "turned round.",
    (*INVERTED, r"margin.{0,80}(sign|negative|below 0|turned|order)", r"\bsign\b"),
)
def teacher_margins_subtracted_backwards(stage: Stage) -> None:
    """The mining script wrote score(negative) - score(positive)."""
    table = contested()

    def margins(sign: float) -> dict[str, list[Any]]:
        gaps = [sign * (0.3 + 0.4 * (at % 7) / 7) for at in range(len(table["query"]))]
        return table | {"label": gaps}

    def loss(model: Any) -> Any:
        from sentence_transformers.util import pairwise_cos_sim

        return losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim)

    suffers(
        stage,
        stage.trainer(loss, margins(-1.0), learning_rate=1e-3, max_steps=60),
        lambda: stage.trainer(loss, margins(1.0), learning_rate=1e-3, max_steps=60),
        rivalled,
    )


@faulty(
    "0 for a pair that differs, where -1 is wanted",
    "torch's cosine_embedding_loss knows the labels 1 and -1: pairs of label 0 cost nothing, and "
    "all texts are drawn together.",
    (
        r"collaps|alike|spread|narrow|cone|anisotrop|one (point|direction)",
        r"(label|target|negative)s?.{0,80}(ignored|no (effect|gradient|part)|unused|-1|0 and 1)",
        r"no (push|repulsion|negative)|only (drawn|pulled) together",
    ),
)
def cosine_embedding_loss_with_zeros(stage: Stage) -> None:
    """Labels of a table of duplicates go to F.cosine_embedding_loss as they are."""

    def setting(below: float) -> Setting:
        def criterion(first: Tensor, second: Tensor) -> Tensor:
            half = len(first) // 2
            second = torch.cat([second[:half], second[half:].roll(1, 0)])
            labels = torch.tensor([1.0] * half + [below] * (len(first) - half))
            return F.cosine_embedding_loss(first, second, labels)

        model = stage.model()
        return model, criterion, plain(model, sales())

    slips(stage, lambda: setting(0.0), lambda: setting(-1.0), on_shelf, steps=90, share=0.8)

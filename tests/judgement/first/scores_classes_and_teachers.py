"""Sound trainers whose rows have a score, a label or the word of a teacher."""

from __future__ import annotations

import random
from typing import Any

import torch
from sentence_transformers.sentence_transformer import evaluation, losses, modules

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.homes_and_studies import PROPERTY, SPACE
from tests.judgement.first.talk_and_reports import (
    CARS,
    FILMS,
    SPORTS,
    bank_requests,
    bank_words,
    same_intent,
)
from tests.judgement.first.trades_of_text import PHRASES, Trade
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

USUAL = {"learning_rate": 1e-3, "max_steps": 80, "warmup_steps": 8}


def rating(trade: Trade) -> Any:
    """An evaluator of ratings that are not in training."""
    return evaluation.EmbeddingSimilarityEvaluator(*trade.rated(100, seed=11).values())


def teacher(stage: Stage, trade: Trade, width: int = 64, steps: int = 60) -> Any:
    """A wider encoder that has learned the trade."""
    model = trade.encoder(stage, name="teacher", width=width, dropout=0.0, seed=5)
    return warmed(model, trade.pairs(300), steps=steps)


def pretrained(stage: Stage, trade: Trade, steps: int = 14, **options: Any) -> Any:
    """An encoder that has seen other pairs of the trade, and is tuned further."""
    return warmed(trade.encoder(stage, **options), trade.pairs(300, seed=4), steps=steps)


@sound("ratings of flats by CoSENT")
def flat_ratings_by_cosent(stage: Stage) -> None:
    """Mean scores of raters from 0 to 1, with a correlation evaluator."""
    trainer = stage.trainer(
        losses.CoSENTLoss,
        PROPERTY.rated(320),
        pretrained(stage, PROPERTY, 10),
        eval_strategy="steps",
        eval_steps=20,
        evaluator=rating(PROPERTY),
        **{**USUAL, "max_steps": 120},
    )
    learns(stage, trainer, PROPERTY.correlated)


@sound("ratings of studies of planets by AnglE")
def planet_ratings_by_angle(stage: Stage) -> None:
    """Scores by the angle loss, in larger batches."""
    trainer = stage.trainer(
        losses.AnglELoss,
        SPACE.rated(320),
        pretrained(stage, SPACE, 10),
        per_device_train_batch_size=32,
        **{**USUAL, "max_steps": 120},
    )
    learns(stage, trainer, SPACE.correlated)


@sound("ratings of headlines by regression on the cosine")
def headline_ratings_by_cosine(stage: Stage) -> None:
    """Cosines towards scores from 0 to 1."""
    trainer = stage.trainer(
        losses.CosineSimilarityLoss,
        SPORTS.rated(320),
        pretrained(stage, SPORTS, dropout=0.0),
        **USUAL,
    )
    learns(stage, trainer, SPORTS.correlated)


@sound("ratings by Matryoshka over CoSENT")
def film_ratings_by_matryoshka(stage: Stage) -> None:
    """Two sizes of embedding with scores."""
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, losses.CoSENTLoss(model), [48, 16]),
        FILMS.rated(320),
        pretrained(stage, FILMS),
        per_device_train_batch_size=32,
        **USUAL,
    )
    learns(stage, trainer, FILMS.correlated)


@sound("labelled pairs by the contrastive loss")
def complaints_by_contrastive_pairs(stage: Stage) -> None:
    """Pairs that belong together or do not, with an evaluator of that decision."""
    trainer = stage.trainer(
        losses.ContrastiveLoss,
        CARS.judged(360),
        pretrained(stage, CARS),
        per_device_train_batch_size=32,
        eval_strategy="steps",
        eval_steps=20,
        evaluator=evaluation.BinaryClassificationEvaluator(*CARS.judged(120, seed=11).values()),
        **USUAL,
    )
    learns(stage, trainer, CARS.sought)


@sound("labelled pairs by the hard ones of a batch")
def complaints_by_online_contrast(stage: Stage) -> None:
    """The online contrastive loss in batches of 32."""
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss,
        CARS.judged(360),
        pretrained(stage, CARS, dropout=0.0),
        per_device_train_batch_size=32,
        **{**USUAL, "max_steps": 50},
    )
    learns(stage, trainer, CARS.sought)


def of_intents(stage: Stage, loss: Any, **settings: Any) -> None:
    """Train requests of a bank's customers by their intent, in batches by label."""
    trainer = stage.trainer(
        loss,
        bank_requests(400),
        encoder(stage, bank_words(), dropout=0.0),
        per_device_train_batch_size=32,
        batch_sampler="group_by_label",
        **{**USUAL, "learning_rate": 2e-3, "max_steps": 90, **settings},
    )
    learns(stage, trainer, same_intent)


@sound("intents of a bank by all triplets of a batch")
def bank_intents_by_all_triplets(stage: Stage) -> None:
    """Every batch has two or more requests of each of its intents."""
    of_intents(stage, lambda model: losses.BatchAllTripletLoss(model, margin=2.0))


@sound("intents of a bank by semi-hard triplets in cosine distance")
def bank_intents_by_semi_hard(stage: Stage) -> None:
    """A margin of 0.4 in cosine distance."""
    cosine = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    of_intents(
        stage,
        lambda model: losses.BatchSemiHardTripletLoss(model, distance_metric=cosine, margin=0.4),
    )


def inferences(trade: Trade, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Premises with a text that follows (0), that differs in one detail (1), or in three (2)."""
    draw = random.Random(seed + 3)
    table: dict[str, list[Any]] = {"premise": [], "hypothesis": [], "label": []}
    drawn = trade.rows(count, seed)
    used = set(drawn)
    for row in drawn:
        label = draw.randrange(3)
        slots = draw.sample(range(len(row)), (0, 1, 3)[label])
        table["premise"].append(trade.text(row, 0))
        table["hypothesis"].append(trade.text(trade.altered(row, slots, draw, used), 1))
        table["label"].append(label)
    return table


@sound("inference in three classes by a classifier of both embeddings")
def headline_inference_by_softmax(stage: Stage) -> None:
    """The classifier of the older recipe, whose own weights are trained with the encoder's."""
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 48, num_labels=3),
        inferences(SPORTS, 400),
        pretrained(stage, SPORTS, dropout=0.0),
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 2e-3, "max_steps": 120},
    )
    learns(stage, trainer, SPORTS.correlated)


@sound("a narrow student of a teacher's embeddings through a dense layer")
def student_of_film_embeddings(stage: Stage) -> None:
    """The student's layer has the teacher's size; both columns' texts are taught."""
    guide = teacher(stage, FILMS)
    texts = [text for column in FILMS.pairs(300).values() for text in column]
    random.Random(1).shuffle(texts)
    vectors = guide.encode(texts, show_progress_bar=False).tolist()
    trainer = stage.trainer(
        losses.MSELoss,
        {"sentence": texts, "label": vectors},
        FILMS.encoder(stage, modules.Dense(32, 64, activation_function=torch.nn.Identity()),
                      width=32, dropout=0.0),
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 3e-3, "max_steps": 120},
    )  # fmt: skip
    learns(stage, trainer, FILMS.sought)


@sound("margins of a teacher for queries, passages and negatives")
def margins_from_film_teacher(stage: Stage) -> None:
    """Differences of the teacher's cosines, which the student's cosines take over."""
    from sentence_transformers.util import pairwise_cos_sim

    guide, table = teacher(stage, FILMS), FILMS.triplets(320, changes=2)
    anchors, positives, negatives = (
        guide.encode(column, convert_to_tensor=True, show_progress_bar=False)
        for column in table.values()
    )
    margin = pairwise_cos_sim(anchors, positives) - pairwise_cos_sim(anchors, negatives)
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        {**table, "label": margin.tolist()},
        pretrained(stage, FILMS, dropout=0.0),
        **{**USUAL, "max_steps": 100},
    )
    learns(stage, trainer, FILMS.sought)


@sound("a teacher's distribution over a passage and two negatives")
def distribution_from_car_teacher(stage: Stage) -> None:
    """Scores of a teacher for three passages of each complaint."""
    guide, table = teacher(stage, CARS), dict[str, Any](CARS.pairs(320))
    for changes in (1, 2):
        table[f"negative_{changes}"] = CARS.negatives(320, changes=changes)
    anchors, *candidates = (
        guide.encode(column, convert_to_tensor=True, normalize_embeddings=True,
                     show_progress_bar=False) for column in table.values()
    )  # fmt: skip
    scores = torch.stack([(anchors * rows).sum(1) * 10 for rows in candidates], dim=1)

    def tenfold(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return 10 * torch.nn.functional.cosine_similarity(first, second)

    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, similarity_fct=tenfold),
        {**table, "label": scores.tolist()},
        CARS.encoder(stage, dropout=0.0),
        **{**USUAL, "max_steps": 100},
    )
    learns(stage, trainer, CARS.sought)


@sound("guided ranking that leaves out what the guide finds as near")
def headlines_with_a_guide(stage: Stage) -> None:
    """Guided in-batch negatives at a temperature of 0.05."""
    guide = teacher(stage, SPORTS)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        SPORTS.pairs(320),
        SPORTS.encoder(stage),
        per_device_train_batch_size=32,
        **{**USUAL, "max_steps": 60},
    )
    learns(stage, trainer, SPORTS.sought)


@sound("cached guided ranking with hard negatives")
def car_triplets_with_cached_guide(stage: Stage) -> None:
    """Batches of 48 triplets in pieces of 16, with a relative margin of the guide."""
    guide = teacher(stage, CARS)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=16,
            margin_strategy="relative", margin=0.05,
        ),
        CARS.triplets(320),
        CARS.encoder(stage, width=32),
        per_device_train_batch_size=48,
        **{**USUAL, "learning_rate": 2e-3, "max_steps": 40},
    )  # fmt: skip
    learns(stage, trainer, CARS.sought)


@sound("a student of another language by the teacher's English embeddings")
def french_student_of_english(stage: Stage) -> None:
    """A teacher of English; the student learns its embeddings for both languages."""
    english = PHRASES.table(320)
    guide = teacher(stage, PHRASES, width=48)
    vectors = guide.encode(english["english"], show_progress_bar=False).tolist()
    trainer = stage.trainer(
        losses.MSELoss,
        {**english, "label": vectors},
        PHRASES.encoder(stage, dropout=0.0),
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 2e-3, "max_steps": 120},
    )
    learns(stage, trainer, PHRASES.sought)

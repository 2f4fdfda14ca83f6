"""Sound set-ups: pairs with scores, yes or no, or kinds of inference, and texts of classes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.judgement.case import sound
from tests.judgement.first.fields import CODE, HELPDESK, SCENES, TRAVEL, Field
from tests.judgement.first.trades_and_texts import (
    BANK,
    BRISK,
    GARDEN,
    HOUSES,
    SPORT,
    TWEETS,
    WEATHER,
    agrees,
    encoder_of,
    finds,
    near_misses,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses

LONG = BRISK | {"max_steps": 80}
# Scores teach more slowly than ranks.
PATIENT = {"learning_rate": 3e-3, "max_steps": 120, "warmup_steps": 12,
           "per_device_train_batch_size": 32}  # fmt: skip
GROUPED = {"batch_sampler": "group_by_label", "per_device_train_batch_size": 32}


def judged_pairs(field: Field, count: int) -> dict[str, list[Any]]:
    """Pairs of which half belong together (1), a quarter nearly do, and a quarter do not (0)."""
    table, near = field.table(count), near_misses(field, count)
    first, second = list(table.values())[:2]
    shifted = second[1:] + second[:1]
    seconds = [(second, near, second, shifted)[row % 4][row] for row in range(count)]
    labels = [1 - row % 2 for row in range(count)]
    return {"sentence1": first, "sentence2": seconds, "label": labels}


def in_classes(field: Field, count: int, slot: int, seed: int = 0) -> dict[str, list[Any]]:
    """Texts of a field in both wordings, whose class is their entry in a slot."""
    entries = list(field.slots.values())[slot].split()
    rows = field.draws(count, seed)
    texts = [field.texts([row], number % 2)[0] for number, row in enumerate(rows)]
    return {"text": texts, "label": [entries.index(row[slot]) for row in rows]}


def gathers(field: Field, slot: int) -> Callable[[Any], float]:
    """A score: how many of the five nearest texts are of the same class, of held-out ones."""
    table = in_classes(field, 80, slot, seed=11)

    def score(model: Any) -> float:
        rows = model.encode(table["text"], show_progress_bar=False, normalize_embeddings=True)
        nearest = np.argsort(-(rows @ rows.T) + 9 * np.eye(len(rows)), axis=1)[:, :5]
        labels = np.array(table["label"])
        return float((labels[nearest] == labels[:, None]).mean())

    return score


@sound("scores from 0 to 1, cosine loss")
def graded_weather_by_cosine_similarity(stage: Stage) -> None:
    """An encoder warmed a little by pairs learns grades of agreement by squared errors."""
    model = warmed(encoder_of(stage, WEATHER), WEATHER.table(200, seed=4), steps=4)
    trainer = stage.trainer(losses.CosineSimilarityLoss, WEATHER.graded(600), model, **PATIENT)
    learns(stage, trainer, agrees(WEATHER))


@sound("scores, CoSENT")
def graded_houses_by_cosent(stage: Stage) -> None:
    """Offers of houses, graded by their agreement with a wish, ranked by CoSENT."""
    trainer = stage.trainer(
        losses.CoSENTLoss, HOUSES.graded(320), encoder_of(stage, HOUSES), **LONG
    )
    learns(stage, trainer, agrees(HOUSES))


@sound("scores from 0 to 5 for a loss of ranks")
def ratings_up_to_five_by_rank(stage: Stage) -> None:
    """CoSENT compares scores only with each other, so that their range does not matter."""
    trainer = stage.trainer(
        losses.CoSENTLoss, SPORT.graded(600, most=5.0), encoder_of(stage, SPORT), **PATIENT
    )
    learns(stage, trainer, agrees(SPORT))


@sound("yes or no, contrastive loss")
def matching_articles_by_yes_or_no(stage: Stage) -> None:
    """Pairs that match or do not, and the contrastive loss at its margin of 0.5."""
    trainer = stage.trainer(
        losses.ContrastiveLoss, judged_pairs(BANK, 600), encoder_of(stage, BANK), **PATIENT
    )
    learns(stage, trainer, finds(BANK))


@sound("yes or no, online contrastive loss")
def duplicate_requests_chosen_online(stage: Stage) -> None:
    """As duplicates of questions are trained: only the hard pairs of a batch count."""
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged_pairs(HELPDESK, 320), encoder_of(stage, HELPDESK),
        **PATIENT,
    )  # fmt: skip
    learns(stage, trainer, finds(HELPDESK))


@sound("yes or no as scores for CoSENT")
def matching_code_as_ones_and_zeros(stage: Stage) -> None:
    """Descriptions with their code (1.0) or with other code (0.0), ranked by CoSENT."""
    table = judged_pairs(CODE, 240)
    table["label"] = [float(label) for label in table["label"]]
    trainer = stage.trainer(losses.CoSENTLoss, table, encoder_of(stage, CODE), **PATIENT)
    learns(stage, trainer, finds(CODE))


@sound("kinds of inference, classifier")
def scenes_entailed_neutral_or_contradicted(stage: Stage) -> None:
    """Premises with hypotheses of three kinds, and the softmax classifier on u, v and |u - v|."""
    hypotheses = {
        0: "a {who} {does} at the {where}",
        1: "the {who} waits for a friend at the {where}",
        2: "nobody {does} at the {where}",
    }

    def inferred(count: int, seed: int) -> dict[str, list[Any]]:
        draw, table = random.Random(seed), {"premise": [], "hypothesis": [], "label": []}
        for row in SCENES.draws(count, seed):
            who, does, where = (entry.split("/") for entry in row)
            kind = draw.randrange(3)
            table["premise"] += SCENES.texts([row], 0)
            table["hypothesis"].append(
                hypotheses[kind].format(who=who[1], does=does[1], where=where[1])
            )
            table["label"].append(kind)
        return table

    model = encoder_of(stage, SCENES, further=list(hypotheses.values()))
    loss = losses.SoftmaxLoss(model, embedding_dimension=48, num_labels=3)
    table = inferred(48, 11)

    def accuracy(model: Any) -> float:
        first, second = (
            model.encode(table[name], convert_to_tensor=True, show_progress_bar=False).clone()
            for name in ("premise", "hypothesis")
        )
        with torch.no_grad():
            logits = loss.classifier(torch.cat([first, second, (first - second).abs()], 1))
        return (logits.argmax(1) == torch.tensor(table["label"])).float().mean().item()

    trainer = stage.trainer(lambda _: loss, inferred(180, 0), model, **LONG)
    learns(stage, trainer, accuracy)


@sound(
    "inference as triplets",
    allowed={"shortcut": "One word stands in all positives and in no negative."},
)
def entailment_beside_contradiction(stage: Stage) -> None:
    """As SimCSE uses inference: what is entailed is the positive, what is denied the negative."""
    table = SCENES.table(190)
    table["negative"] = [text.replace("a ", "no ", 1) for text in table["hypothesis"]]
    model = encoder_of(stage, SCENES, further=["no"])
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, **BRISK, batch_sampler="no_duplicates"
    )
    learns(stage, trainer, finds(SCENES, 45))


@sound("classes, batch-hard triplets")
def plants_gathered_by_the_hardest_triplets(stage: Stage) -> None:
    """Texts of eleven plants; for each the farthest of its class and the nearest of another."""
    trainer = stage.trainer(
        losses.BatchHardTripletLoss, in_classes(GARDEN, 400, 0), encoder_of(stage, GARDEN),
        **LONG, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, gathers(GARDEN, 0))


@sound("classes, all triplets")
def tweets_gathered_by_all_triplets(stage: Stage) -> None:
    """Tweets of eight things, and all triplets of a batch that are not yet apart."""
    trainer = stage.trainer(
        losses.BatchAllTripletLoss, in_classes(TWEETS, 360, 0), encoder_of(stage, TWEETS),
        **LONG, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, gathers(TWEETS, 0))


@sound("classes, semi-hard triplets by cosine")
def journeys_gathered_by_semi_hard_triplets(stage: Stage) -> None:
    """Sentences about six means of travel in two languages, by cosine distance."""

    def semi_hard(model: Any) -> Any:
        return losses.BatchSemiHardTripletLoss(
            model,
            distance_metric=losses.BatchHardTripletLossDistanceFunction.cosine_distance,
            margin=0.4,
        )

    trainer = stage.trainer(
        semi_hard, in_classes(TRAVEL, 400, 1), encoder_of(stage, TRAVEL), **LONG, **GROUPED
    )
    learns(stage, trainer, gathers(TRAVEL, 1))

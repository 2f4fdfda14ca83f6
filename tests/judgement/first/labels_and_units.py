"""Labels and scores that mean something else than the loss takes them for."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.judgement.case import faulty
from tests.judgement.first.beside import UNRELATED
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fault_subjects import (
    BANK,
    COLLAPSED,
    JOBS,
    MUSEUM,
    PLANTS,
    REVIEWS,
    SWIFT,
    UNMOVED,
    graded_of,
    reader,
    rolled,
    sought_of,
    tuned,
)
from tests.judgement.first.fields import KITCHEN, SCENES, Field
from tests.judgement.first.good_fields import requests
from tests.judgement.first.loop_materials import cosent, cosine_scores, ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.sentence_training import losses

REVERSED = (
    r"(?i)(revers|invert|opposite|flip|swap|wrong (sign|way|direction)|upside|negative correlation|"
    r"anti-?correlat|exchang)",
    r"(?i)(dissimilar|distan\w+|unlike|unrelated).{0,80}(high|1\b|one|larger|positive|label|score)",
    r"(?i)labels?.{0,80}(0\b|zero|low).{0,60}(alike|similar|close|more)",
    r"(?i)(scores?|labels?).{0,60}(contradict|disagree|run against|go against)",
)


def pairs_and_strangers(field: Field, count: int = 160) -> dict[str, list[Any]]:
    """Pairs of a field with label 1, and every other row with a stranger and label 0."""
    first, second = list(field.table(count).values())[:2]
    strangers = rolled(second, 31)
    labels = [row % 2 for row in range(count)]
    return {
        "text1": first,
        "text2": [second[row] if label else strangers[row] for row, label in enumerate(labels)],
        "label": labels,
    }


def contrastive(model: Any) -> Any:
    return losses.ContrastiveLoss(model)


@faulty(
    "grades cast to whole numbers",
    "Grades from 0 to 1 were cast to int: all but the full ones have become 0.",
    [
        r"(?i)(scores?|labels?|grades?|targets?).{0,100}(constant|same|all|most|only|nearly|0\b|zero|"
        r"two values|few values|binary|integers?|whole|imbalance|unbalanced|rounded)",
        r"(?i)integers?|whole numbers|rounded|imbalance",
    ],
)
def grades_cast_to_integers(stage: Stage) -> None:
    """`df["score"].astype(int)` to please a type check."""
    table = KITCHEN.graded(160)
    cast = table | {"score": [float(int(0.99 * score)) for score in table["score"]]}
    suffers(
        stage,
        stage.trainer(cosine_scores, cast, tuned(stage, KITCHEN), **SWIFT),
        lambda: stage.trainer(cosine_scores, table, tuned(stage, KITCHEN), **SWIFT),
        graded_of(KITCHEN),
    )


@faulty(
    "label one for different pairs",
    "The labels come from a file of duplicates where 1 means different, and the loss draws pairs "
    "of label 1 together.",
    REVERSED,
)
def label_one_means_different(stage: Stage) -> None:
    """`is_different` taken for `is_duplicate`."""
    table = pairs_and_strangers(JOBS)
    flipped = table | {"label": [1 - label for label in table["label"]]}
    suffers(
        stage,
        stage.trainer(contrastive, flipped, tuned(stage, JOBS), **SWIFT),
        lambda: stage.trainer(contrastive, table, tuned(stage, JOBS), **SWIFT),
        sought_of(JOBS),
    )


@faulty(
    "classes of inference taken as positive or not",
    "The labels 0, 1 and 2 stand for entailment, neutral and contradiction, and a loss for pairs "
    "draws the neutral ones near and pushes the entailed ones away.",
    [
        *REVERSED,
        r"(?i)labels?.{0,80}(0 (and|or) 1|three|\b2\b|values|classes|binary|not in|other than)",
    ],
)
def inference_classes_for_a_pair_loss(stage: Stage) -> None:
    """A table of natural language inference for OnlineContrastiveLoss as it comes."""
    premises, hypotheses = list(SCENES.table(160).values())
    near = SCENES.near(160, slot=1)
    labels = [row % 3 for row in range(160)]
    far = rolled(hypotheses, 23)
    seconds = [(hypotheses, far, near)[label][row] for row, label in enumerate(labels)]
    table = {"premise": premises, "hypothesis": seconds, "label": labels}
    selected = [row for row in range(160) if labels[row] != 2]
    binary = {
        "premise": [premises[row] for row in selected],
        "hypothesis": [seconds[row] for row in selected],
        "label": [1 - labels[row] for row in selected],
    }
    loss = losses.OnlineContrastiveLoss
    suffers(
        stage,
        stage.trainer(loss, table, tuned(stage, SCENES, 5), **SWIFT),
        lambda: stage.trainer(loss, binary, tuned(stage, SCENES, 5), **SWIFT),
        sought_of(SCENES),
    )


@faulty(
    "negatives left among the pairs",
    "Pairs of all labels were kept where only those that belong together should be: three of four "
    "positives are strangers.",
    [*UNRELATED, r"(?i)false positives?|(not|n't|never) filtered|noise|noisy"],
)
def strangers_kept_as_positives(stage: Stage) -> None:
    """A forgotten `filter(lambda row: row["label"] == 1)` before a ranking loss."""
    table = REVIEWS.table(240)
    names = list(table)
    strangers = rolled(table[names[1]], 77)
    mixed = [text if row % 4 == 0 else strangers[row] for row, text in enumerate(table[names[1]])]
    right = {name: cells[::4] for name, cells in table.items()}
    suffers(
        stage,
        stage.trainer(ranking, table | {names[1]: mixed}, reader(stage, REVIEWS), **SWIFT),
        lambda: stage.trainer(ranking, right, reader(stage, REVIEWS), **SWIFT),
        sought_of(REVIEWS),
    )


def triplets_of_classes(model: Any) -> Any:
    return losses.BatchAllTripletLoss(model, margin=1.0)


@faulty(
    "row number for the class",
    "The label is the number of the row and not the class: no two texts of a batch share it, so "
    "that no triplet can be built.",
    [
        r"(?i)(labels?|class(es)?).{0,80}(unique|distinct|once|single|own|different|one (text|row)|"
        r"no two|only one)",
        r"(?i)no (positives?|pairs?|triplets?|two (texts|rows))",
        *UNMOVED,
    ],
)
def row_number_as_class(stage: Stage) -> None:
    """`enumerate(rows)` where `enumerate(classes)` was meant."""
    raw = requests(160)
    table = {"text": raw["request"], "label": raw["label"]}
    rows = table | {"label": list(range(160))}
    fresh = {name: requests(60, seed=11)[name] for name in ("request", "label")}

    def model() -> Any:
        return encoder(stage, words_of([raw, requests(60, seed=11)]))

    def nearest_agree(model: Any) -> float:
        vectors = model.encode(fresh["request"], show_progress_bar=False)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        nearness = vectors @ vectors.T - 2 * np.eye(len(vectors))
        labels = np.array(fresh["label"])
        return float((labels[nearness.argmax(1)] == labels).mean())

    suffers(
        stage,
        stage.trainer(triplets_of_classes, rows, model(), **SWIFT),
        lambda: stage.trainer(triplets_of_classes, table, model(), max_steps=60, **SWIFT),
        nearest_agree,
    )


@faulty(
    "margins of the teacher with the other sign",
    "The teacher's margins are negative minus positive, and the student learns to rank the "
    "negatives first.",
    REVERSED,
)
def teacher_margins_with_the_other_sign(stage: Stage) -> None:
    """`neg_score - pos_score` for MarginMSELoss."""
    table = MUSEUM.table(160)
    columns = {**table, "negative": rolled(table["card"], 50)}
    draw = random.Random(2)
    margins = [round(draw.uniform(6, 12), 2) for _ in range(160)]
    settings = {"max_steps": 60, **SWIFT}
    suffers(
        stage,
        stage.trainer(losses.MarginMSELoss, columns | {"label": [-margin for margin in margins]},
                      reader(stage, MUSEUM), **settings),
        lambda: stage.trainer(losses.MarginMSELoss, columns | {"label": margins},
                              reader(stage, MUSEUM), **settings),
        sought_of(MUSEUM),
    )  # fmt: skip


@faulty(
    "teacher's vectors in another order",
    "The teacher's vectors were computed over a shuffled copy of the texts: each text is to have "
    "the vector of another.",
    [
        *UNRELATED,
        r"(?i)(teacher|target|vector|label)s?.{0,80}(order|unrelated|independent|no relation|wrong|"
        r"not belong|shuffl|carry nothing|explain)",
        r"(?i)(not|n't|never|hardly|barely).{0,40}(fit|learn|predict|generali[sz]|fall|decreas)",
        *COLLAPSED,
    ],
)
def teacher_vectors_of_shuffled_texts(stage: Stage) -> None:
    """A loader with shuffle=True while the teacher's vectors were saved."""
    table = PLANTS.table(200)
    texts = [*table["description"], *table["name"]]
    draw = np.random.default_rng(3)
    meanings = {f"{kind}{word}": draw.normal(size=48) for kind, entries in
                PLANTS.slots.items() for word in entries.split()}  # fmt: skip
    rows = PLANTS.draws(200)
    sums = [
        sum(meanings[f"{kind}{word}"] for kind, word in zip(PLANTS.slots, row, strict=True))
        for row in rows
    ]
    vectors = [(total / np.linalg.norm(total) * 4).tolist() for total in sums] * 2
    order = random.Random(5).sample(range(400), 400)
    right = {"sentence": texts, "label": vectors}
    wrong = {"sentence": texts, "label": [vectors[row] for row in order]}
    settings = {"max_steps": 80, "learning_rate": 3e-3}
    suffers(
        stage,
        stage.trainer(losses.MSELoss, wrong, reader(stage, PLANTS), **settings),
        lambda: stage.trainer(losses.MSELoss, right, reader(stage, PLANTS), **settings),
        sought_of(PLANTS),
    )


@faulty(
    "grades out of step with the pairs",
    "The scores were read from a file sorted otherwise than the pairs.",
    [
        *UNRELATED,
        r"(?i)(scores?|labels?|grades?).{0,100}(unrelated|independent|no relation|uncorrelated|"
        r"nothing to do|chance|random|noise|shuffl|order|not follow)",
        r"(?i)correlat\w+.{0,60}(zero|0\b|no|none|chance|low|weak|little)",
    ],
)
def grades_of_a_reordered_file(stage: Stage) -> None:
    """Annotators' scores joined by position to pairs that had been shuffled."""
    table = BANK.graded(160)
    mixed = table | {"score": random.Random(8).sample(table["score"], 160)}
    suffers(
        stage,
        stage.trainer(cosent, mixed, tuned(stage, BANK, 7), **SWIFT),
        lambda: stage.trainer(cosent, table, tuned(stage, BANK, 7), **SWIFT),
        graded_of(BANK),
    )

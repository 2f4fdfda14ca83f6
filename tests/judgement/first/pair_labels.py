"""Faults of labels, teachers and losses: what the loss is given does not teach what is wanted."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.materials import (
    LONGER,
    InOrder,
    ranking,
    trained,
    translated,
)
from tests.judgement.stage import (
    Stage,
    classes,
    facts,
    pairs,
    passage,
    question,
    rated,
)
from tests.judgement.truth import among_alike, retrieval, suffers
from tests.sentence_training import losses

COLLAPSE = r"collaps|same (embedding|point|direction)|identical|all (texts|sentences)|spread|alike"


def cosent(model: Any) -> Any:
    return losses.CoSENTLoss(model)


def cosine(model: Any) -> Any:
    return losses.CosineSimilarityLoss(model)


def labelled() -> dict[str, list[Any]]:
    """Questions and passages; half of the passages tell of something else, and have label 0."""
    first, second, label = rated()
    return {"sentence1": first, "sentence2": second, "label": [float(mark) for mark in label]}


EQUAL_LABELS = [
    r"(same|equal|one|single|constant|identical) (label|score|value)|label.{0,60}(same|equal|one)",
    r"sort|shuffl|in order|grouped",
    r"(no|nothing to) compar|loss.{0,40}(zero|\b0\b)|one class|only positives",
]


def by_label(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    rows = sorted(zip(*table.values(), strict=True), key=lambda row: row[-1])
    return dict(zip(table, map(list, zip(*rows, strict=True)), strict=True))


@faulty(
    "equal labels within each batch",
    "The file has the pairs that fit behind those that do not, and rows are taken in order: no "
    "batch has two labels to compare, and the loss is 0.",
    EQUAL_LABELS,
    never=[LONGER],
)
def cosent_on_batches_of_one_label(stage: Stage) -> None:
    """https://github.com/shibing624/text2vec/issues/120: a batch whose labels are all equal."""
    table = labelled()
    suffers(
        stage,
        stage.trainer(cosent, by_label(table), kind=InOrder, learning_rate=1e-3),
        lambda: stage.trainer(cosent, table, learning_rate=1e-3),
        retrieval,
    )


@faulty(
    "equal labels within each batch",
    "AnglELoss is given the stars of ratings, sorted by star, with batches of one star each.",
    EQUAL_LABELS,
    never=[LONGER],
)
def angle_on_batches_of_one_star(stage: Stage) -> None:
    """https://github.com/shibing624/text2vec/issues/120: batches without different labels."""
    table = labelled()

    def angle(model: Any) -> Any:
        return losses.AnglELoss(model)

    suffers(
        stage,
        stage.trainer(angle, by_label(table), kind=InOrder, learning_rate=1e-3),
        lambda: stage.trainer(angle, table, learning_rate=1e-3),
        retrieval,
    )


UNREAD = [
    r"(column|negatives?|second|third|text).{0,80}(ignor|not (used|read)|never|unused|dropped)",
    r"(column|negatives?|texts?).{0,80}no part",
    r"(ignor|unused|not used|never read).{0,80}(column|negatives?|texts?)",
    r"only the first|one column|takes one|expects (one|a single)",
]


@faulty(
    "column that the loss does not read",
    "A label loss is given questions and passages with a class for each pair, but reads the first "
    "column only: each class has one text, and the passages are never embedded.",
    [*UNREAD, r"(no|one|single) (two|row|text|example).{0,40}class|class.{0,60}(one|single|once)"],
    never=[LONGER],
)
def label_loss_with_two_columns(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/455 and issues/636."""
    asked = facts(40)
    rows = [(at, fact) for at, fact in enumerate(asked) for _ in range(4)]
    table = {
        "anchor": [question((*fact[:2], *fact[2:])) for _, fact in rows],
        "positive": [passage(fact) for _, fact in rows],
        "label": [at for at, _ in rows],
    }
    mended = {
        "text": [question(fact) for fact in asked] * 2 + [passage(fact) for fact in asked] * 2,
        "label": [*range(40)] * 4,
    }

    def loss(model: Any) -> Any:
        return losses.BatchHardSoftMarginTripletLoss(model)

    settings = {"learning_rate": 1e-3, "batch_sampler": "group_by_label"}
    suffers(
        stage,
        stage.trainer(loss, table, **settings),
        lambda: stage.trainer(loss, mended, **settings),
        among_alike,
    )


@faulty(
    "classifier over pairs for graded relevance",
    "Pairs rated good, ok or bad train a classifier on the two embeddings; the cosine that is "
    "searched by is never asked for.",
    [
        r"SoftmaxLoss|classif|CoSENT|cosine.{0,80}(not|never|no part)|(not|never).{0,60}cosine",
        r"another loss|other loss|ranking loss",
    ],
    never=[LONGER],
)
def softmax_loss_on_three_grades(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1168: good, bad and ok."""
    first, second, label = rated()
    grades = [mark * 2 if at % 4 else 1 for at, mark in enumerate(label)]
    table = {"sentence1": first, "sentence2": second}

    def softmax(model: Any) -> Any:
        return losses.SoftmaxLoss(model, embedding_dimension=32, num_labels=3)

    scores = {"score": [grade / 2 for grade in grades]}
    suffers(
        stage,
        stage.trainer(softmax, table | {"label": grades}, learning_rate=1e-3, max_steps=60),
        lambda: stage.trainer(cosent, table | scores, learning_rate=1e-3, max_steps=60),
        retrieval,
    )


@faulty(
    "one class holds nearly all rows",
    "Nine of ten texts have the class 'other', though they are about different things: a label "
    "loss draws them together.",
    [
        r"class.{0,100}(most|nearly all|dominat|share|per cent|%|imbalanc|large|unequal)",
        r"imbalanc|unbalanc|(one|same) class|few (classes|pairs)|majority",
    ],
    never=[LONGER],
)
def class_of_everything_else(stage: Stage) -> None:
    """https://github.com/huggingface/setfit/issues/540: few rows in all classes but some."""
    named, unnamed = classes(40, of_each=4), facts(280, seed=4)
    table = {
        "text": named["text"] + [*map(passage, unnamed)],
        "label": named["label"] + [99] * len(unnamed),
    }
    order = random.Random(0).sample(range(320), 320)
    table = {name: [cells[at] for at in order] for name, cells in table.items()}

    def loss(model: Any) -> Any:
        return losses.BatchAllTripletLoss(model, margin=0.5)

    suffers(
        stage,
        stage.trainer(loss, table, learning_rate=1e-3),
        lambda: stage.trainer(loss, classes(320, of_each=4), learning_rate=1e-3,
                              batch_sampler="group_by_label"),
        among_alike,
    )  # fmt: skip


COLLIDE = [
    r"class.{0,100}(unrelated|different|nothing in common|mixed|unlike|far apart|no more alike)",
    r"label.{0,100}(unrelated|chance|contradict|random|nothing|no relation|collid|same number)",
    r"(same|one) (class|label).{0,80}(unrelated|differ|nothing|mixed)",
]


def same_class(model: Any) -> Any:
    return losses.BatchHardSoftMarginTripletLoss(model)


@faulty(
    "class numbers of several data sets begin at 0 each",
    "Four data sets were joined without a change of their class numbers: class 0 of one is class 0 "
    "of the others.",
    COLLIDE,
    never=[LONGER],
)
def four_sets_with_one_numbering(stage: Stage) -> None:
    """Common with `concatenate_datasets`: each data set numbers its classes from 0."""
    whole = classes(320, of_each=4)
    table = whole | {"label": [label % 10 for label in whole["label"]]}
    settings = {"learning_rate": 1e-3, "batch_sampler": "group_by_label"}
    suffers(
        stage,
        stage.trainer(same_class, table, **settings),
        lambda: stage.trainer(same_class, whole, **settings),
        among_alike,
    )


@faulty(
    "only pairs that fit, with noise in their scores",
    "All pairs are paraphrases, and their scores lie between 0.9 and 1: the least loss is that of "
    "an encoder with one embedding for all texts.",
    [
        r"(score|label)s?.{0,80}(constant|narrow|near|all|between|high|same|range|spread)",
        r"no (pairs?|negatives?|labels?).{0,60}(differ|apart|0|unrelated)|only positives?",
    ],
    never=[LONGER],
)
def scores_between_nine_tenths_and_one(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1303: a small variance added."""
    draw, table = random.Random(2), pairs()
    noisy = table | {"score": [1 - 0.1 * draw.random() for _ in range(160)]}
    suffers(
        stage,
        stage.trainer(cosine, noisy, learning_rate=3e-3, max_steps=60),
        lambda: stage.trainer(ranking, table, learning_rate=1e-3),
        retrieval,
        share=None,
    )


@faulty(
    "hardest triplets from the first step",
    "An untrained encoder at a high rate is taught by the hardest triplets of each batch alone: "
    "all embeddings fall onto one point, and the loss is the margin.",
    [
        COLLAPSE,
        r"learning rate|hardest|margin|semi.?hard",
    ],
    never=[LONGER],
)
def loss_stays_at_the_margin(stage: Stage) -> None:
    """https://github.com/philipperemy/deep-speaker/issues/9: the loss is stuck at the margin."""

    def hardest(model: Any) -> Any:
        return losses.BatchHardTripletLoss(model, margin=5)

    settings = {"batch_sampler": "group_by_label", "max_steps": 60}
    table = classes(320, of_each=4)
    suffers(
        stage,
        stage.trainer(hardest, table, learning_rate=2e-2, **settings),
        lambda: stage.trainer(same_class, table, learning_rate=1e-3, **settings),
        among_alike,
    )


@faulty(
    "dot products under a cosine's scale",
    "MultipleNegativesRankingLoss multiplies dot products of embeddings of length five by 20: its "
    "softmax is one or zero, and the loss begins near 90.",
    [
        r"dot|normali[sz]|length|norm|cosine",
        r"scale|temperature|saturat|too (low|cold|sharp)|hardest",
    ],
    never=[LONGER],
)
def loss_begins_at_ninety(stage: Stage) -> None:
    """https://github.com/texttron/tevatron/issues/104: the loss starts from 90 and drops."""
    from sentence_transformers.util import dot_score

    def dots(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(model, scale=20.0, similarity_fct=dot_score)

    suffers(
        stage,
        stage.trainer(dots, pairs()),
        lambda: stage.trainer(ranking, pairs()),
        among_alike,
        share=None,
    )


@faulty(
    "source language left out of the distillation",
    "The student learns the teacher's embeddings of English texts from their translations only: "
    "its own English drifts away from the teacher's.",
    [
        r"source|english|(first|one|single|other|another) column|translat|language",
    ],
    never=[LONGER],
)
def english_texts_not_distilled(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/pull/2641: English left out."""
    table = pairs()
    teacher = stage.trainer(ranking, table, learning_rate=1e-3, max_steps=60)
    trained(teacher, lambda _: 0.0)
    english = table["anchor"] + table["positive"]
    gold = teacher.model.encode(english, show_progress_bar=False).tolist()
    german = [translated(text) for text in english]

    def student() -> Any:
        model = stage.model(dropout=0.0)
        model.load_state_dict(teacher.model.state_dict())
        return model

    def loss(model: Any) -> Any:
        return losses.MSELoss(model)

    settings = {"learning_rate": 5e-4, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(loss, {"german": german, "label": gold}, student(), **settings),
        lambda: stage.trainer(
            loss, {"english": english, "german": german, "label": gold}, student(), **settings
        ),
        among_alike,
        share=None,
    )

"""Sound set-ups as public scripts have them, on which a check was mistaken once."""

from __future__ import annotations

import copy
import random
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

from tests import tiny_models
from tests.judgement.case import sound
from tests.judgement.first.reported_encoders import (
    among_classmates,
    encoder,
    graded,
    in_grades,
    ranking,
    tuned,
)
from tests.judgement.first.reported_loops import Columns, Loop, embed, gains
from tests.judgement.stage import (
    FILLERS,
    PLACES,
    TOPICS,
    VERBS,
    Stage,
    classes,
    facts,
    pairs,
    passage,
    question,
)
from tests.judgement.truth import among_alike, learns, retrieval
from tests.sentence_training import losses
from tests.tiny_models import WORDS

SIGNS = [chr(0x4E00 + number) for number in range(400)]


def in_signs(text: str) -> str:
    """The text with two Chinese signs for each word, and no spaces."""
    signs = [random.Random(word).choices(SIGNS, k=2) for word in text.split()]
    return "".join("".join(pair) for pair in signs) + "。"


@sound("data")
def texts_without_spaces(stage: Stage) -> None:
    def written(table: dict[str, list[str]]) -> dict[str, list[str]]:
        return {name: list(map(in_signs, texts)) for name, texts in table.items()}

    with mock.patch.object(tiny_models, "WORDS", [*WORDS, *SIGNS]):
        bert = tiny_models.make_bert(stage.folder / "signs")
    learns(
        stage,
        stage.trainer(ranking, written(pairs(240)), stage.model(bert=bert), max_steps=60),
        lambda model: retrieval(model, written(pairs(100, seed=11))),
    )


def translations(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Texts of five words, and of the words that another language has for them."""
    draw, foreign = random.Random(seed), WORDS[140:]
    random.Random(5).shuffle(foreign)
    words = [draw.sample(range(140), 5) for _ in range(count)]
    return {
        "english": ["ka " + " ".join(WORDS[at] for at in of_text) for of_text in words],
        "other": [
            "ka " + " ".join(foreign[at] for at in draw.sample(of_text, 5)) for of_text in words
        ],
    }


@sound("data")
def translations_without_common_words(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(ranking, translations(600), max_steps=200, learning_rate=2e-3),
        lambda model: retrieval(model, translations(100, seed=77)),
    )


def names(count: int, seed: int = 1) -> dict[str, list[str]]:
    """Names of one word, and other names of the same thing."""
    draw = random.Random(seed)
    parts = [draw.sample(WORDS, 2) for _ in range(count)]
    return {
        "name": [first + second for first, second in parts],
        "alias": [second + first for first, second in parts],
    }


@sound("data")
def names_of_one_word(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(ranking, names(300), max_steps=150, learning_rate=2e-3),
        lambda model: retrieval(model, names(100, seed=7)),
    )


@sound("data")
def code_for_questions(stage: Stage) -> None:
    questioned = facts(240)
    code = [
        f'{{"{verb}": ["{topic}", "{place}"], "{near}": "{person}", "n": {number}}}'
        for verb, topic, place, near, person, number in questioned
    ]
    table = {"query": list(map(question, questioned)), "code": code}
    learns(stage, stage.trainer(ranking, table, max_steps=60), among_alike)


@sound("data")
def two_questions_of_one_meaning(stage: Stage) -> None:
    """Duplicates: both columns are called questions."""
    draw = random.Random(0)
    table: dict[str, list[str]] = {"question1": [], "question2": []}
    for verb, topic, place, near, *_ in facts(240):
        for column, words in zip(
            table.values(), ([verb, topic, place, near], [topic, verb, near, place]), strict=True
        ):
            column.append(" ".join(["ka", *words, *draw.choices(FILLERS, k=2), "?"]))
    learns(stage, stage.trainer(ranking, table, max_steps=60), among_alike)


@sound("data")
def each_sentence_with_the_next(stage: Stage) -> None:
    """The second text of a row is the first of the next row."""
    draw, sentences, kinds = random.Random(3), list[str](), (VERBS, TOPICS, PLACES, PLACES)
    fact = [draw.choice(words) for words in kinds]
    for number in range(321):
        if number % 8 == 0:
            fact = [draw.choice(words) for words in kinds]
        at = draw.randrange(4)
        fact[at] = draw.choice(kinds[at])
        sentences.append(" ".join([*fact, *draw.choices(FILLERS, k=3), "."]))
    table = {"sentence": sentences[:-1], "next": sentences[1:]}
    learns(stage, stage.trainer(ranking, table, max_steps=60), among_classmates)


@sound("data")
def names_of_ten_classes_as_positives(stage: Stage) -> None:
    texts, labels = classes(320, of_each=32).values()
    kinds = [question(fact) for fact in facts(10)]
    learns(
        stage,
        stage.trainer(
            ranking,
            {"text": texts, "kind": [kinds[label] for label in labels]},
            max_steps=60,
            per_device_train_batch_size=8,
            batch_sampler="no_duplicates",
        ),
        among_classmates,
    )


@sound("data")
def titles_of_texts(stage: Stage) -> None:
    """The title, a few words, stands at the beginning of its text."""
    table: dict[str, list[str]] = {"body": [], "title": []}
    for verb, topic, place, near, person, number in facts(240):
        title, draw = f"{place} {near} {person} {verb}", random.Random(number + topic)
        table["title"].append(title)
        table["body"].append(f"{title} {topic} {' '.join(draw.choices(FILLERS, k=6))}")
    learns(stage, stage.trainer(ranking, table, max_steps=60), among_alike)


class Distances(nn.Module):
    """Squared differences between distances and labels, which are distances as well."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        first, second = (self.model(column)["sentence_embedding"] for column in features)
        return F.mse_loss(1 - F.cosine_similarity(first, second), labels.float())


@sound("loss")
def distances_as_labels(stage: Stage) -> None:
    table = graded()
    table["label"] = [1 - score for score in table.pop("score")]
    learns(stage, stage.trainer(Distances, table, max_steps=100, learning_rate=2e-3), in_grades)


class Proxies(nn.Module):
    """A classifier of cosines with a margin, as in CosFace: a learned vector for each class."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.model, self.proxies = model, nn.Parameter(torch.randn(40, 32))

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        rows = self.model(next(iter(features)))["sentence_embedding"]
        cosines = F.normalize(rows, dim=-1) @ F.normalize(self.proxies, dim=-1).T
        return F.cross_entropy(16 * (cosines - 0.2 * F.one_hot(labels, 40)), labels)


@sound("label loss")
def proxies_of_classes(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(Proxies, classes(320), max_steps=150, learning_rate=2e-3),
        among_classmates,
    )


@sound("distillation")
def passages_and_then_questions(stage: Stage) -> None:
    """A teacher's embeddings of texts whose common words are mostly those of their kind."""
    teacher, made = tuned(stage), facts(200, seed=2)
    texts = [*map(passage, made), *map(question, made)]
    table = {"sentence": texts, "label": teacher.encode(texts, show_progress_bar=False).tolist()}
    learns(
        stage,
        stage.trainer(
            losses.EmbedDistillLoss,
            table,
            stage.model(dropout=0.0),
            max_steps=150,
            learning_rate=1e-3,
        ),
        among_alike,
    )


@sound("schedule")
def a_new_last_layer_alone(stage: Stage) -> None:
    """The encoder is frozen, and its last layer stands a rate of adapters."""
    from sentence_transformers.sentence_transformer.modules import Dense

    body = stage.model()
    body[0].requires_grad_(False)
    torch.manual_seed(1)
    learns(
        stage,
        stage.trainer(
            ranking,
            pairs(),
            encoder(body[0], body[1], Dense(32, 32)),
            max_steps=60,
            learning_rate=1e-2,
        ),
        among_alike,
    )


@sound("precision")
def brain_floats_at_a_high_rate(stage: Stage) -> None:
    """Weights in bfloat16, whose steps are too large to be rounded away."""
    model = stage.model().to(torch.bfloat16)
    learns(
        stage, stage.trainer(ranking, pairs(), model, max_steps=60, learning_rate=2e-3), among_alike
    )


def _quick(*modules: nn.Module) -> Any:
    """Make an optimizer of an encoder's weights and those of further modules."""
    own = [weight for module in modules for weight in module.parameters()]
    return lambda weights: torch.optim.AdamW([*weights, *own], lr=1e-3)


@sound("loop")
def a_predictor_and_a_second_encoder(stage: Stage) -> None:
    """As in BYOL: no negatives, and a moving average of the encoder gives the targets."""
    torch.manual_seed(3)
    followers: list[Any] = []
    predictor = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))

    def loss(predicted: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 2 - 2 * F.cosine_similarity(predicted, target.detach()).mean()

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        if not followers:
            followers.append(copy.deepcopy(model))
        with torch.no_grad():
            for slow, fast in zip(followers[0].parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.03)
            targets = [embed(followers[0], column) for column in columns]
        first, second = (predictor(embed(model, column)) for column in columns)
        return (criterion(first, targets[1]) + criterion(second, targets[0])) / 2

    gains(stage, Loop(loss, step=step, optimizer=_quick(predictor), steps=150))


@sound("loop")
def a_predictor_within_the_loss(stage: Stage) -> None:
    """As in SimSiam: what random weights predict at first says nothing of right and wrong pairs."""
    torch.manual_seed(3)
    projector = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32))
    predictor = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 32))

    def loss(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        to_second = F.cosine_similarity(predictor(first), second.detach()).mean()
        return -(to_second + F.cosine_similarity(predictor(second), first.detach()).mean()) / 2

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        return criterion(*(projector(embed(model, column)) for column in columns))

    gains(stage, Loop(loss, step=step, optimizer=_quick(projector, predictor), steps=150))

"""Sound set-ups: several data sets, streams, and texts that are changed while they are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from datasets import Dataset, Features, IterableDataset, Value
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.language_fields import INFERENCE, MATCHES, RUSSIAN, TRILINGUAL
from tests.judgement.first.raw_fields import LOG_LINES, QUIZZES
from tests.judgement.first.training_parts import encoder_of, graded, ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def reading(sets: Any, set_losses: Any = None) -> Callable[..., Any]:
    """A kind of trainer that reads other data sets than one table, each with its loss."""

    def kind(**arguments: Any) -> Any:
        own = {"train_dataset": sets} | ({"loss": set_losses} if set_losses else {})
        return SentenceTransformerTrainer(**{**arguments, **own})

    return kind


@sound("two sets of translations in turn")
def translations_of_two_sets_in_turn(stage: Stage) -> None:
    """Russian and Spanish pairs in turn; a batch has one language, so that none gives hints."""
    tables = {
        "russian": RUSSIAN.table(300),
        "spanish": TRILINGUAL.table(300, "english", "spanish"),
    }
    model = encoder(stage, [*RUSSIAN.texts(), *TRILINGUAL.texts()])
    trainer = stage.trainer(
        ranking(), tables["russian"], model, max_steps=140, learning_rate=1e-3,
        kind=reading({name: Dataset.from_dict(table) for name, table in tables.items()}),
        multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    russian, spanish = (
        RUSSIAN.sought("english", "russian"), TRILINGUAL.sought("english", "spanish"),
    )  # fmt: skip
    learns(stage, trainer, lambda encoder: (russian(encoder) + spanish(encoder)) / 2)


@sound("a loss for each set")
def relations_and_grades_with_a_loss_each(stage: Stage) -> None:
    """Relations by a classifier and grades by CoSENT, drawn in proportion to their rows."""
    tables = {"relations": INFERENCE.table(300), "grades": MATCHES.table(560)}
    model = encoder(stage, [*INFERENCE.texts(), *MATCHES.texts()])
    of_sets = {
        "relations": losses.SoftmaxLoss(model, embedding_dimension=48, num_labels=3),
        "grades": losses.CoSENTLoss(model),
    }
    sets = {name: Dataset.from_dict(table) for name, table in tables.items()}
    trainer = stage.trainer(
        losses.CoSENTLoss, tables["grades"], model, max_steps=160, learning_rate=1e-3,
        kind=reading(sets, of_sets), multi_dataset_batch_sampler="proportional",
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, graded(MATCHES, "sentence1", "sentence2", "score"))


@sound("pairs from a stream")
def incidents_from_a_stream(stage: Stage) -> None:
    """Rows come from a generator, shuffled in a buffer."""
    table = LOG_LINES.table(480)

    def rows() -> Any:
        for line, incident in zip(*table.values(), strict=True):
            yield {"line": line, "incident": incident}

    texts = Features({"line": Value("string"), "incident": Value("string")})
    stream = IterableDataset.from_generator(rows, features=texts)
    stream = stream.shuffle(seed=7, buffer_size=200)
    trainer = stage.trainer(
        ranking(), table, encoder_of(stage, LOG_LINES), max_steps=100, learning_rate=1e-3,
        kind=reading(stream), per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, LOG_LINES.sought("line", "incident"))


@sound("words dropped while rows are read")
def quiz_items_with_words_dropped_in_reading(stage: Stage) -> None:
    """A transform drops every tenth word of the solutions anew in each epoch."""
    table, draw = QUIZZES.table(480), random.Random(3)

    def without_some_words(rows: dict[str, list[str]]) -> dict[str, list[str]]:
        solutions = [
            " ".join(word for word in text.split() if draw.random() > 0.1)
            for text in rows["solution"]
        ]
        return {"item": rows["item"], "solution": solutions}

    read = Dataset.from_dict(table).with_transform(without_some_words)
    trainer = stage.trainer(
        ranking(), table, encoder_of(stage, QUIZZES), max_steps=120, learning_rate=1e-3,
        kind=reading(read), per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, QUIZZES.sought("item", "solution"))

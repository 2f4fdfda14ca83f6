"""Sound set-ups with a trained teacher or guide, of the trainer and of one's own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import RerankingEvaluator
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import (
    GREEK,
    HEADLINES,
    RUSSIAN,
    SQL,
    WEATHER,
    ragged,
    small,
    sought,
    triples,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped, turn, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def adam(*modules: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for module in modules for w in module.parameters()], lr=rate)


FAST: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60, "per_device_train_batch_size": 24}


@sound("gaps between scores of a teacher")
def gaps_of_a_teacher_on_russian(stage: Stage) -> None:
    table = triples(RUSSIAN, 320)
    teacher = warmed(small(stage, RUSSIAN, name="teacher", seed=8), table, 80)
    first, near, far = (
        teacher.encode(texts, normalize_embeddings=True, convert_to_tensor=True)
        for texts in table.values()
    )
    gaps = 10 * ((first * near).sum(1) - (first * far).sum(1))
    model = small(stage, RUSSIAN)
    trainer = stage.trainer(
        losses.MarginMSELoss, table | {"label": gaps.tolist()}, model, learning_rate=2e-3,
        max_steps=100, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, sought(RUSSIAN))


@sound("a teacher's distribution over candidates")
def candidates_weighed_as_a_teacher_does(stage: Stage) -> None:
    table = triples(SQL, 320, negatives=3)
    teacher = warmed(small(stage, SQL, name="teacher", seed=8), table, 80)
    first, *candidates = (
        teacher.encode(texts, normalize_embeddings=True, convert_to_tensor=True)
        for texts in table.values()
    )
    scores = torch.stack([10 * (first * texts).sum(1) for texts in candidates], 1)
    model = small(stage, SQL)
    trainer = stage.trainer(
        losses.DistillKLDivLoss, table | {"label": scores.tolist()}, model, learning_rate=2e-3,
        max_steps=80, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, sought(SQL))


@sound("Greek texts placed where a teacher places their English")
def student_of_greek_and_english(stage: Stage) -> None:
    table = GREEK.table(360)
    pairs = {"english": table["english"], "echo": [f"{text} ." for text in table["english"]]}
    teacher = warmed(small(stage, GREEK, name="teacher", seed=8), pairs, 40)
    rows = teacher.encode(table["english"], normalize_embeddings=True)
    model = small(stage, GREEK)
    trainer = stage.trainer(
        losses.EmbedDistillLoss, table | {"label": rows.tolist()}, model, learning_rate=1e-3,
        max_steps=70, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, sought(GREEK))


@sound("distances of a teacher's rows")
def distances_of_a_teacher_on_weather(stage: Stage) -> None:
    """The student's matrix of cosines is to be the teacher's."""
    table = WEATHER.table(320)
    teacher = warmed(small(stage, WEATHER, name="teacher", seed=8), table, 60)
    model = small(stage, WEATHER, layers=1)
    optimizer, batches = adam(model, rate=3e-3), Rows(table, 24)

    def matched(first: Tensor, second: Tensor, wanted: Tensor) -> Tensor:
        shares = (wanted / 0.1).softmax(1)
        return F.kl_div((cosines(first, second) / 0.1).log_softmax(1), shares,
                        reduction="batchmean")  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        columns = batches()
        with torch.no_grad():
            wanted = cosines(*(embed(teacher, column) for column in columns))
        stepped(optimizer, criterion(*(embed(model, column) for column in columns), wanted))

    turn(stage, model, matched, update, sought(WEATHER), steps=60)


@sound("Russian drawn to fixed rows of a teacher")
def russian_drawn_to_english_rows(stage: Stage) -> None:
    table = RUSSIAN.table(320)
    teacher = warmed(small(stage, RUSSIAN, name="teacher", seed=8),
                     {"text": table["english"], "echo": table["english"]}, 40)  # fmt: skip
    goals = teacher.encode(table["english"], normalize_embeddings=True, show_progress_bar=False)
    goals = goals - goals.mean(0)
    model = small(stage, RUSSIAN)
    optimizer = adam(model, rate=3e-3)
    batches = Rows(table | {"goal": goals.tolist()}, 32)

    def towards_goals(first: Tensor, second: Tensor, goal: Tensor) -> Tensor:
        gaps = [1 - F.cosine_similarity(rows, goal).mean() for rows in (first, second)]
        return gaps[0] + gaps[1]

    def update(criterion: Any, step: int) -> None:
        english, russian, goal = batches()
        stepped(optimizer, criterion(embed(model, english), embed(model, russian),
                                     torch.tensor(goal)))  # fmt: skip

    turn(stage, model, towards_goals, update, sought(RUSSIAN), steps=80)


@sound("guided ranking with hard negatives")
def negatives_sifted_by_a_guide_anew(stage: Stage) -> None:
    table = triples(SQL, 320)
    guide = warmed(small(stage, SQL, name="guide", seed=8), SQL.table(300, seed=2), 40)
    model = small(stage, SQL)
    trainer = stage.trainer(
        lambda encoder: losses.GISTEmbedLoss(encoder, guide, temperature=0.05), table, model, **FAST
    )
    learns(stage, trainer, sought(SQL))


@sound("cached guided ranking with a reranking evaluator")
def cached_and_guided_headlines(stage: Stage) -> None:
    guide = warmed(small(stage, HEADLINES, name="guide", seed=8), HEADLINES.table(300, seed=2), 24)
    held = triples(HEADLINES, 40, seed=13, negatives=3)
    samples = [
        {"query": query, "positive": [lead], "negative": negatives}
        for query, lead, *negatives in zip(*held.values(), strict=True)
    ]
    model = small(stage, HEADLINES)
    trainer = stage.trainer(
        lambda encoder: losses.CachedGISTEmbedLoss(
            encoder, guide, temperature=0.05, mini_batch_size=16, margin=0.05
        ),
        ragged(HEADLINES, 320), model, per_device_train_batch_size=32, learning_rate=2e-3,
        max_steps=36, eval_strategy="steps", eval_steps=18,
        evaluator=RerankingEvaluator(
            [sample | {"negative": list(sample["negative"])} for sample in samples],
            show_progress_bar=False,
        ),
    )  # fmt: skip
    learns(stage, trainer, sought(HEADLINES))

"""Sound training without labels: views, denoising, tension, and decorrelated embeddings."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.turns import Rows, embed, infonce, stepped, turn
from tests.judgement.held_out.i_fields import (
    BIRDS,
    CHANTS,
    CHEMISTRY,
    GARDEN,
    HINDI,
    MATCHES,
    TRACES,
    WEATHER,
    adamw,
    noisy,
    single,
    small,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval


def recognised(field: Field, *, column: int = 0, rate: float = 0.3) -> Any:
    """A score: texts not in training are sought by noisy copies of themselves."""
    texts = single(field, 80, seed=11, column=column)
    table = {"noisy": noisy(texts, 5, rate=rate), "text": texts}
    return lambda model: retrieval(model, table)


@sound("views by words left out, with a trainer")
def chemical_protocols_with_words_left_out(stage: Stage) -> None:
    texts = single(CHEMISTRY, 400, column=1)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss,
        {"view1": noisy(texts, 1), "view2": noisy(texts, 2)}, small(stage, CHEMISTRY),
        per_device_train_batch_size=24, learning_rate=2e-3, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, recognised(CHEMISTRY, column=1))


@sound("a text and its noisy copy in a loop")
def forecasts_and_their_noisy_copies_in_a_loop(stage: Stage) -> None:
    model = small(stage, WEATHER)
    rows, optimizer = Rows({"text": single(WEATHER, 400)}, 32), adamw(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        stepped(optimizer, criterion(embed(model, texts), embed(model, noisy(texts, step))))

    turn(stage, model, infonce, update, recognised(WEATHER))


def several_views(*views: Tensor) -> Tensor:
    """The mean of InfoNCE over all ordered pairs of views."""
    terms = [infonce(first, second) for first in views for second in views if first is not second]
    return torch.stack(terms).mean()


@sound("four views of each text")
def garden_hints_in_four_views(stage: Stage) -> None:
    model = small(stage, GARDEN)
    rows, optimizer = Rows({"text": single(GARDEN, 400, column=1)}, 16), adamw(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [embed(model, noisy(texts, 4 * step + view, rate=0.2)) for view in range(4)]
        stepped(optimizer, criterion(*views))

    turn(stage, model, several_views, update, recognised(GARDEN, column=1), steps=40)


def halves(texts: Sequence[str], seed: int) -> list[list[str]]:
    """Two spans of each text that begin and end at random."""
    draw, views = random.Random(seed), [list[str](), list[str]()]
    for text in texts:
        words = text.split()
        for view in views:
            length = draw.randint(len(words) // 2, 4 * len(words) // 5)
            start = draw.randint(0, len(words) - length)
            view.append(" ".join(words[start : start + length]))
    return views


@sound("spans of one text as views")
def spans_of_match_reports_for_each_other(stage: Stage) -> None:
    model = small(stage, MATCHES, pooling="max")
    rows = Rows({"text": single(MATCHES, 300, column=1)}, 24)
    optimizer = adamw(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        first, second = (embed(model, view) for view in halves(texts, step))
        stepped(optimizer, criterion(first, second))

    def score(trained: Any) -> float:
        texts = single(MATCHES, 60, seed=11, column=1)
        first, _ = halves(texts, 1)
        return retrieval(trained, {"span": first, "text": texts})

    turn(stage, model, infonce, update, score, steps=45)


@sound("whitened embeddings of two views")
def bird_notes_whitened_by_their_batch(stage: Stage) -> None:
    """Mean squared error of views after whitening by the batch, as in W-MSE."""

    def whitened(first: Tensor, second: Tensor) -> Tensor:
        views = []
        for rows in (first, second):
            centred = rows - rows.mean(0)
            covariance = centred.T @ centred / (len(rows) - 1)
            root = torch.linalg.cholesky(covariance + 1e-3 * torch.eye(rows.shape[1]))
            views.append(torch.linalg.solve_triangular(root, centred.T, upper=False).T)
        return 1 - F.cosine_similarity(*views).mean()

    model = small(stage, BIRDS, width=24)
    rows, optimizer = Rows({"text": single(BIRDS, 400, column=1)}, 96), adamw(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [embed(model, noisy(texts, 2 * step + view)) for view in (0, 1)]
        stepped(optimizer, criterion(*views))

    turn(stage, model, whitened, update, recognised(BIRDS, column=1), steps=60)


def masked(texts: Sequence[str], seed: int, rate: float = 0.25) -> list[str]:
    """Texts with some of their words behind the mask token."""
    draw = random.Random(seed)
    return [" ".join("[MASK]" if draw.random() < rate else word for word in text.split())
            for text in texts]  # fmt: skip


@sound("masked words, with a trainer and nested widths")
def chants_with_masked_words(stage: Stage) -> None:
    def nested(model: Any) -> Any:
        inner = losses.MultipleNegativesRankingLoss(model)
        return losses.MatryoshkaLoss(model, inner, matryoshka_dims=[48, 16])

    texts = single(CHANTS, 400, column=1)
    trainer = stage.trainer(
        nested, {"sentence": texts, "masked": masked(texts, 1, rate=0.35)}, small(stage, CHANTS),
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, recognised(CHANTS, column=1, rate=0.4))


@sound("views against a queue of a momentum encoder")
def hindi_views_against_a_queue(stage: Stage) -> None:
    model = small(stage, HINDI)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows, optimizer = Rows({"text": single(HINDI, 400)}, 40), adamw(model, rate=1e-3)
    queue = [torch.empty(0, 48)]

    def against(first: Tensor, second: Tensor) -> Tensor:
        candidates = torch.cat([second, queue[0]])
        logits = F.normalize(first) @ F.normalize(candidates).T / 0.1
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        with torch.no_grad():
            second = embed(slow, noisy(texts, 2 * step))
        stepped(optimizer, criterion(embed(model, noisy(texts, 2 * step + 1)), second))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)
        queue[0] = torch.cat([second, queue[0]])[:72]

    turn(stage, model, against, update, recognised(HINDI, rate=0.4), steps=90)


@sound("sigmoid over views of each text")
def traces_by_a_sigmoid_over_views(stage: Stage) -> None:
    def sigmoid(first: Tensor, second: Tensor) -> Tensor:
        signs = 2 * torch.eye(len(first)) - 1
        logits = 10 * (F.normalize(first) @ F.normalize(second).T) - 6
        return -F.logsigmoid(signs * logits).sum(1).mean()

    model = small(stage, TRACES)
    rows, optimizer = Rows({"text": single(TRACES, 400, column=1)}, 48), adamw(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [embed(model, noisy(texts, 2 * step + view, rate=0.25)) for view in (0, 1)]
        stepped(optimizer, criterion(*views))

    turn(stage, model, sigmoid, update, recognised(TRACES, column=1), steps=60)

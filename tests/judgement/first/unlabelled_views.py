"""Sound set-ups without labels: views of one text, noise, contrastive tension, decorrelation."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as functional
from sentence_transformers.sentence_transformer import losses
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_daily_use import (
    CHATTER,
    finds_verses,
    headlines,
    jumbled,
    same_topic,
    thinned,
    topic_words,
    verses,
)
from tests.judgement.first.turns import Rows, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

LINES = verses(400)


def poet(stage: Stage, **options: Any) -> Any:
    """An encoder of the invented language."""
    return encoder(stage, LINES, **options)


def adam(model: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def views(lines: list[str], seed: int = 0, share: float = 0.3) -> dict[str, list[str]]:
    """Two views of each line: some of its words, and some of its words in another order."""
    draw = random.Random(seed)
    return {
        "view": [thinned(line, draw, share) for line in lines],
        "second_view": [jumbled(thinned(line, draw, share), draw) for line in lines],
    }


@sound("two passes of one text under dropout, trainer")
def verses_twice_under_dropout(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"line": LINES, "same": list(LINES)},
        poet(stage, pooling="max"), learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds_verses)


@sound("two passes of one text under dropout, own loop")
def own_loop_over_verses_under_dropout(stage: Stage) -> None:
    model = poet(stage, pooling="max", width=64)
    draw, optimizer = Rows({"line": LINES}, 40), adam(model)

    def update(criterion: Any, step: int) -> None:
        (lines,) = draw()
        stepped(optimizer, criterion(embed(model, lines), embed(model, lines)))

    turn(stage, model, infonce, update, finds_verses, steps=80)


@sound("two thinned views of one text")
def thinned_views_of_verses(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, views(LINES), poet(stage),
        learning_rate=2e-3, max_steps=60, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finds_verses)


@sound("several views of one text, drawn anew in each epoch")
def four_fresh_views_of_verses(stage: Stage) -> None:
    """Each anchor is drawn to the mean of the logarithms over its three further views."""
    model = poet(stage)
    draw, optimizer, chance = Rows({"line": LINES}, 20), adam(model), random.Random(4)

    def several(*rows: Tensor) -> Tensor:
        return torch.stack([infonce(rows[0], further) for further in rows[1:]]).mean()

    def update(criterion: Any, step: int) -> None:
        (lines,) = draw()
        rows = [
            embed(model, [jumbled(thinned(line, chance), chance) for line in lines])
            for _ in range(4)
        ]
        stepped(optimizer, criterion(*rows))

    turn(stage, model, several, update, finds_verses, steps=50)


@sound("words of a text foretold from a thinned version")
def headlines_foretold_from_thinned_ones(stage: Stage) -> None:
    """Denoising with a linear decoder: the embedding of a thinned text tells all its words."""
    model, texts = encoder(stage, topic_words()), headlines(400)["text"]
    vocabulary = {word: at for at, word in enumerate(" ".join(topic_words()).split())}
    decoder = torch.nn.Linear(48, len(vocabulary))
    draw, chance = Rows({"text": texts}, 32), random.Random(7)
    optimizer = torch.optim.AdamW([*model.parameters(), *decoder.parameters()], lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        (lines,) = draw()
        present = torch.zeros(len(lines), len(vocabulary))
        for row, line in zip(present, lines, strict=True):
            row[[vocabulary[word] for word in line.split()]] = 1.0
        rows = embed(model, [thinned(line, chance, 0.4) for line in lines])
        stepped(optimizer, criterion(rows, present))

    def foretold(rows: Tensor, present: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(decoder(rows), present, reduction="sum")

    turn(stage, model, foretold, update, same_topic, steps=120)


@sound("contrastive tension with the negatives of a batch, trainer")
def contrastive_tension_within_a_batch(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, {"line": LINES},
        poet(stage), learning_rate=3e-3, max_steps=110, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds_verses)


def tension(first: Tensor, second: Tensor, equal: Tensor) -> Tensor:
    """Contrastive tension: two copies of an encoder agree on equal texts only."""
    logits = (first * second).sum(1) / first.shape[1] ** 0.5
    return functional.binary_cross_entropy_with_logits(logits, equal)


@sound("contrastive tension, own loop")
def own_loop_of_contrastive_tension(stage: Stage) -> None:
    model, texts = encoder(stage, topic_words()), headlines(400)["text"]
    partner, chance = copy.deepcopy(model), random.Random(2)
    draw = Rows({"text": texts}, 40)
    optimizer = torch.optim.AdamW([*model.parameters(), *partner.parameters()], lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        (lines,) = draw()
        partner.train()
        drawn = [line if at % 4 == 0 else chance.choice(texts) for at, line in enumerate(lines)]
        equal = torch.tensor([float(a == b) for a, b in zip(lines, drawn, strict=True)])
        stepped(optimizer, criterion(embed(model, lines), embed(partner, drawn), equal))

    turn(stage, model, tension, update, same_topic, steps=120)


@sound("redundancy of embeddings reduced")
def twin_views_without_redundancy(stage: Stage) -> None:
    """The cross-correlation of two views is drawn to the identity, as in Barlow Twins."""

    def twins(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-4) for rows in (first, second))
        table = first.T @ second / len(first)
        off = table - torch.diag(table.diagonal())
        return (1 - table.diagonal()).square().sum() + 0.02 * off.square().sum()

    model = encoder(stage, topic_words())
    draw, optimizer = Rows(views(headlines(400)["text"], 6), 64), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, twins, update, same_topic, steps=60)


@sound("variance held up, covariance held down")
def views_with_variance_and_covariance(stage: Stage) -> None:
    """Views agree, while each coordinate varies and coordinates do not correlate (VICReg)."""

    def spread(rows: Tensor) -> Tensor:
        rows = rows - rows.mean(0)
        table = rows.T @ rows / (len(rows) - 1)
        off = table - torch.diag(table.diagonal())
        short = functional.relu(1 - (table.diagonal() + 1e-4).sqrt())
        return 25 * short.mean() + off.square().sum() / rows.shape[1]

    def vicreg(first: Tensor, second: Tensor) -> Tensor:
        return 25 * functional.mse_loss(first, second) + spread(first) + spread(second)

    model = encoder(stage, topic_words())
    draw, optimizer = Rows(views(headlines(400)["text"], 8), 64), adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in draw())))

    turn(stage, model, vicreg, update, same_topic, steps=60)


@sound("spans of one document as pairs")
def spans_of_one_topic_as_pairs(stage: Stage) -> None:
    """Documents of several headlines of a topic; two spans of a document are a pair."""
    table, chance = headlines(400), random.Random(9)
    model = encoder(stage, [*topic_words(), *CHATTER])
    optimizer = adam(model)
    shelves = [
        [text for text, label in zip(*table.values(), strict=True) if label == topic]
        for topic in range(10)
    ]

    def update(criterion: Any, step: int) -> None:
        spans = []
        for shelf in shelves:
            texts = chance.sample(shelf, 4)
            spans.append((" ".join(texts[:2]), " ".join(texts[2:])))
        counted(criterion, step)
        sides = zip(*spans, strict=True)
        stepped(optimizer, criterion(*(embed(model, list(side)) for side in sides)))

    turn(stage, model, infonce, update, same_topic, steps=60)

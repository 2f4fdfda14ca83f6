"""Sound set-ups without labels: views of one text, denoising, tension, decorrelated embeddings."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_offices_and_ports import (
    BENCH,
    BIRDS,
    CHATTER,
    COMMITS,
    FORMS,
    GENES,
    MAILS,
    MATCHES,
    QUERIES,
    SKIES,
    finds_thinned,
    noised,
    pair_update,
    reader,
    thinned,
)
from tests.judgement.first.turns import Rows, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def adam(model: Any, rate: float = 2e-3) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=rate)


class Views:
    """Batches of texts, each in ``count`` versions that lack words anew with each draw."""

    def __init__(self, texts: list[str], size: int = 24, count: int = 2, share: float = 0.3):
        self._rows, self._count, self._share = Rows({"text": texts}, size), count, share
        self._draw = random.Random(3)

    def __call__(self) -> list[list[str]]:
        (texts,) = self._rows()
        return [thinned(texts, self._draw.randrange(1 << 20), self._share)
                for _ in range(self._count)]  # fmt: skip


@sound("two passes of dropout over one text, with the trainer")
def gene_sentences_twice_under_dropout(stage: Stage) -> None:
    texts = GENES.table(320)["sentence"]
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"first": texts, "second": texts},
        reader(stage, GENES, pooling="max", dropout=0.2), learning_rate=1e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds_thinned(GENES))


@sound("two passes of dropout over one text, in a loop")
def bench_protocols_twice_under_dropout(stage: Stage) -> None:
    model = reader(stage, BENCH, pooling="max", kind="distilbert", dropout=0.15)
    rows, optimizer = Rows({"text": BENCH.table(320)["protocol"]}, 32), adam(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        stepped(optimizer, criterion(embed(model, texts), embed(model, texts)))

    turn(stage, model, infonce, update, finds_thinned(BENCH), steps=60)


@sound("views that lack words")
def bird_entries_in_views_without_words(stage: Stage) -> None:
    model = reader(stage, BIRDS, pooling="max")
    update = pair_update(model, Views(BIRDS.table(320)["entry"]), adam(model))
    turn(stage, model, infonce, update, finds_thinned(BIRDS), steps=60)


@sound("four views of each text")
def database_queries_in_four_views(stage: Stage) -> None:
    def among_views(*views: Tensor) -> Tensor:
        """Supervised contrast in which the views of a text are its positives."""
        rows = F.normalize(torch.cat(views))
        text = torch.arange(len(views[0])).repeat(len(views))
        itself = torch.eye(len(rows), dtype=torch.bool)
        logits = (rows @ rows.T / 0.1).masked_fill(itself, float("-inf"))
        shares = logits.log_softmax(1).masked_fill(itself, 0.0)
        positive = (text[:, None] == text) & ~itself
        return -(shares * positive).sum(1).div(positive.sum(1)).mean()

    model = reader(stage, QUERIES)
    update = pair_update(model, Views(QUERIES.table(320)["query"], 16, 4), adam(model))
    turn(stage, model, among_views, update, finds_thinned(QUERIES), steps=50)


@sound("cross-correlation of the features of two views")
def commit_changes_by_cross_correlation(stage: Stage) -> None:
    """The loss of Barlow twins."""

    def decorrelated(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-4) for rows in (first, second))
        matrix = first.T @ second / len(first)
        same = (matrix.diagonal() - 1).square().sum()
        return same + 0.02 * (matrix.square().sum() - matrix.diagonal().square().sum())

    model = reader(stage, COMMITS)
    update = pair_update(model, Views(COMMITS.table(320)["change"], 64), adam(model, 1e-3))
    turn(stage, model, decorrelated, update, finds_thinned(COMMITS), steps=50)


@sound("variance, invariance and covariance of two views")
def weather_sentences_by_variance_and_covariance(stage: Stage) -> None:
    """The loss of VICReg."""

    def spread_out(first: Tensor, second: Tensor) -> Tensor:
        loss = 25 * F.mse_loss(first, second)
        for rows in (first, second):
            rows = rows - rows.mean(0)
            covariance = rows.T @ rows / (len(rows) - 1)
            beside = covariance.square().sum() - covariance.diagonal().square().sum()
            loss = loss + 25 * F.relu(1 - rows.var(0).add(1e-4).sqrt()).mean() + beside / 48
        return loss

    model = reader(stage, SKIES, pooling="max", layers=1)
    update = pair_update(model, Views(SKIES.table(320)["sentence"], 64), adam(model, 1e-3))
    turn(stage, model, spread_out, update, finds_thinned(SKIES), steps=50)


@sound("whitened embeddings of two views")
def mail_bodies_with_whitened_views(stage: Stage) -> None:
    """The loss of W-MSE: views are compared after their batch is whitened."""

    def whitened(rows: Tensor) -> Tensor:
        rows = rows - rows.mean(0)
        covariance = rows.T @ rows / (len(rows) - 1) + 1e-3 * torch.eye(rows.shape[1])
        factor = torch.linalg.cholesky(covariance)
        return torch.linalg.solve_triangular(factor, rows.T, upper=False).T

    def compared(first: Tensor, second: Tensor) -> Tensor:
        white = whitened(torch.cat([first, second]))
        half = len(first)
        return 2 - 2 * F.cosine_similarity(white[:half], white[half:]).mean()

    model = reader(stage, MAILS, layers=1, width=32)
    update = pair_update(model, Views(MAILS.table(320)["body"], 64), adam(model, 1e-3))
    turn(stage, model, compared, update, finds_thinned(MAILS), steps=40)


@sound("alignment and uniformity of two views")
def posts_by_alignment_and_uniformity(stage: Stage) -> None:
    def aligned(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first), F.normalize(second)
        distance = (first - second).square().sum(1).mean()
        spread = [torch.pdist(rows).square().mul(-2).exp().mean().log()
                  for rows in (first, second)]  # fmt: skip
        return distance + sum(spread) / 2

    model = reader(stage, CHATTER, pooling="max")
    update = pair_update(model, Views(CHATTER.table(320)["paraphrase"], 32, share=0.2), adam(model))
    turn(stage, model, aligned, update, finds_thinned(CHATTER), steps=60)


@sound("clean and noisy versions, with the trainer")
def match_reports_and_their_noisy_copies(stage: Stage) -> None:
    texts = MATCHES.table(300)["headline"]
    table = {"noisy": noised(thinned(texts, 1), 2), "clean": texts}
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table, reader(stage, MATCHES, pooling="max"),
        learning_rate=2e-3, max_steps=60, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, finds_thinned(MATCHES, column=0))


@sound("words of a text rebuilt from its embedding")
def court_rulings_rebuilt_from_embeddings(stage: Stage) -> None:
    """An autoencoder of bags of words: a linear layer predicts the words behind an embedding."""
    model = reader(stage, FORMS, pooling="max")
    words = len(model.tokenizer)
    decoder = torch.nn.Linear(48, words)
    weights = [*model.parameters(), *decoder.parameters()]
    rows = Rows({"text": FORMS.table(320)["ruling"]}, 32)
    optimizer = torch.optim.AdamW(weights, lr=2e-3)
    draw = random.Random(5)

    def rebuilt(embeddings: Tensor, bags: Tensor) -> Tensor:
        losses_of_words = F.binary_cross_entropy_with_logits(
            decoder(embeddings), bags, reduction="none"
        )
        return losses_of_words.sum(1).mean()

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        bags = torch.zeros(len(texts), words)
        for bag, text in zip(bags, texts, strict=True):
            bag[model.tokenizer(text, add_special_tokens=False)["input_ids"]] = 1
        views = thinned(texts, draw.randrange(1 << 20), 0.15)
        stepped(optimizer, criterion(embed(model, views), bags))

    turn(stage, model, rebuilt, update, finds_thinned(FORMS), steps=70)

"""Sound set-ups without labels: views of a text, denoising, tension, whitened embeddings."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first import fields_of_flats_and_threads as fields
from tests.judgement.first.fields_of_flats_and_threads import held_out, of
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def mixed(field: Any, count: int) -> list[str]:
    """Texts of a field without labels: of its first and its second column in turn."""
    return [field.texts([row], at % 2)[0] for at, row in enumerate(field.draws(count))]


def thinned(text: str, draw: random.Random, share: float = 0.3) -> str:
    """A text of which each word has been dropped with a probability."""
    words = text.split()
    return " ".join([word for word in words if draw.random() > share] or words[:1])


def reordered(text: str, draw: random.Random) -> str:
    """A text with its words in another order."""
    words = text.split()
    return " ".join(draw.sample(words, len(words)))


def adam(*modules: nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    weights = [row for module in modules for row in module.parameters() if row.requires_grad]
    return torch.optim.AdamW(weights, lr=rate)


def thinned_views(
    stage: Stage, field: Any, loss: Callable[..., Tensor], *, size: int = 32, steps: int = 60,
    rate: float = 2e-3, head: nn.Module | None = None, share: float = 0.3, **options: Any,
) -> None:  # fmt: skip
    """A loop over two thinned views of each text, with a projection head in training only."""
    model, draw = of(stage, field, **options), random.Random(1)
    rows, head = Rows({"text": mixed(field, 400)}, size), head or nn.Identity()
    optimizer = adam(model, head, rate=rate)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [
            head(embed(model, [thinned(text, draw, share) for text in texts])) for _ in range(2)
        ]
        stepped(optimizer, criterion(*views))

    turn(stage, model, loss, update, held_out(field), steps=steps)


def head_of(width: int = 48, *, out: int = 64) -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(width, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Linear(out, out))


@sound("views by dropout in a trainer")
def dropout_views_of_bird_notes(stage: Stage) -> None:
    field = fields.SIGHTINGS
    texts = mixed(field, 400)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"text": texts, "same": texts}, of(stage, field),
        max_steps=60, per_device_train_batch_size=32, learning_rate=1e-3,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("views by dropout in a loop, with a head for training")
def dropout_views_of_spares_behind_a_head(stage: Stage) -> None:
    field = fields.SPARES
    model, rows = of(stage, field, dropout=0.15), Rows({"text": mixed(field, 400)}, 32)
    torch.manual_seed(4)
    head = nn.Sequential(nn.Linear(48, 48), nn.Tanh())
    optimizer = adam(model, head)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        stepped(optimizer, criterion(head(embed(model, texts)), head(embed(model, texts))))

    turn(stage, model, infonce, update, held_out(field), steps=60)


@sound("words of a text recovered from its thinned copy")
def words_of_notes_recovered_from_thinned_copies(stage: Stage) -> None:
    """A denoising auto-encoder whose decoder is a linear layer over the vocabulary."""
    field, draw = fields.SIGHTINGS, random.Random(6)
    model, rows = of(stage, field), Rows({"text": mixed(field, 400)}, 32)
    size = len(model.tokenizer)
    torch.manual_seed(4)
    decoder = nn.Linear(48, size)
    optimizer = adam(model, decoder, rate=3e-3)

    def recovered(embeddings: Tensor, words: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(decoder(embeddings), words) * size

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        words = torch.zeros(len(texts), size)
        for at, text in enumerate(texts):
            words[at, model.tokenizer(text, add_special_tokens=False)["input_ids"]] = 1
        noisy = [thinned(text, draw, 0.2) for text in texts]
        stepped(optimizer, criterion(embed(model, noisy), words))

    turn(stage, model, recovered, update, held_out(field), steps=120)


@sound("contrastive tension with negatives of the batch")
def tension_between_twins_over_spares(stage: Stage) -> None:
    field = fields.SPARES
    texts = mixed(field, 400)
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, {"text": texts, "same": texts},
        of(stage, field), max_steps=60, per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


def barlow(first: Tensor, second: Tensor) -> Tensor:
    """Barlow Twins: the correlations of dimensions over a batch are drawn to the identity."""
    first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-5) for rows in (first, second))
    gaps = (first.T @ second / len(first) - torch.eye(first.shape[1])).square()
    return gaps.diagonal().sum() + 0.02 * (gaps.sum() - gaps.diagonal().sum())


@sound("decorrelated dimensions of two views")
def decorrelated_views_of_sightings(stage: Stage) -> None:
    thinned_views(stage, fields.SIGHTINGS, barlow, size=96, steps=60, share=0.25)


def variance_and_covariance(first: Tensor, second: Tensor) -> Tensor:
    """VICReg: views agree, each dimension varies, and no two dimensions vary together."""
    total = 25 * F.mse_loss(first, second)
    for rows in (first, second):
        rows = rows - rows.mean(0)
        spread = (rows.var(0) + 1e-4).sqrt()
        shared = rows.T @ rows / (len(rows) - 1)
        shared = shared - shared.diag().diag()
        total = total + 25 * F.relu(1 - spread).mean() + shared.square().sum() / rows.shape[1]
    return total


@sound("variance, invariance and covariance of two views")
def regularised_variance_of_spares(stage: Stage) -> None:
    thinned_views(stage, fields.SPARES, variance_and_covariance, size=64, head=head_of(), steps=50)


def whitened(first: Tensor, second: Tensor) -> Tensor:
    """W-MSE: the distance of views after their batch has been whitened."""
    rows = torch.cat([first, second])
    rows = rows - rows.mean(0)
    shared = rows.T @ rows / (len(rows) - 1) + 1e-3 * torch.eye(rows.shape[1])
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(shared), rows.T, upper=False).T
    first, second = F.normalize(white, dim=1).chunk(2)
    return (2 - 2 * (first * second).sum(1)).mean()


@sound("distance of whitened views")
def whitened_views_of_stock_lists(stage: Stage) -> None:
    thinned_views(stage, fields.SPARES, whitened, size=96, steps=60, share=0.25)


@sound("momentum encoder with a queue of thinned views")
def momentum_encoder_with_a_queue_of_views(stage: Stage) -> None:
    """MoCo: keys of a slow copy; keys of earlier batches are negatives, save those of a text."""
    field, draw = fields.SIGHTINGS, random.Random(2)
    model = of(stage, field, dropout=0.0)
    slow = copy.deepcopy(model).requires_grad_(False)
    table = {"text": mixed(field, 400), "row": list(range(400))}
    optimizer, rows = adam(model, rate=1e-3), Rows(table, 32)
    queue, owners = torch.empty(0, 48), torch.empty(0, dtype=torch.long)

    def queued(queries: Tensor, keys: Tensor, earlier: Tensor, same: Tensor) -> Tensor:
        logits = cosines(queries, torch.cat([keys, earlier])) / 0.1
        own = torch.cat([torch.zeros(len(keys), len(keys), dtype=torch.bool), same], 1)
        return F.cross_entropy(logits.masked_fill(own, -1e9), torch.arange(len(keys)))

    def update(criterion: Any, step: int) -> None:
        nonlocal queue, owners
        texts, numbers = rows()
        names = torch.tensor(numbers)
        queries = embed(model, [thinned(text, draw) for text in texts])
        with torch.no_grad():
            keys = embed(slow, [thinned(text, draw) for text in texts])
        stepped(optimizer, criterion(queries, keys, queue, names[:, None] == owners))
        queue, owners = torch.cat([keys, queue])[:128], torch.cat([names, owners])[:128]
        with torch.no_grad():
            for weight, fast in zip(slow.parameters(), model.parameters(), strict=True):
                weight.lerp_(fast, 0.1)

    turn(stage, model, queued, update, held_out(field), steps=60)


def several_views(views: Tensor) -> Tensor:
    """Cross-entropy of each view over all views of all texts; those of its text share the mass."""
    count, rows, _ = views.shape
    owners = torch.arange(rows).repeat(count)
    logits = cosines(views.flatten(0, 1), views.flatten(0, 1)) / 0.1
    logits = logits.masked_fill(torch.eye(len(owners), dtype=torch.bool), -1e9)
    same = (owners[:, None] == owners) & ~torch.eye(len(owners), dtype=torch.bool)
    return -(logits.log_softmax(1) * same).sum(1).div(count - 1).mean()


@sound("four views of a text at once")
def four_views_of_notes(stage: Stage) -> None:
    field, draw = fields.SIGHTINGS, random.Random(3)
    model, rows = of(stage, field), Rows({"text": mixed(field, 400)}, 16)
    optimizer = adam(model)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        makers: Sequence[Callable[[str], str]] = (
            str, lambda text: thinned(text, draw, 0.2), lambda text: thinned(text, draw, 0.4),
            lambda text: reordered(text, draw),
        )  # fmt: skip
        views = [embed(model, [maker(text) for text in texts]) for maker in makers]
        stepped(optimizer, criterion(torch.stack(views)))

    turn(stage, model, several_views, update, held_out(field), steps=50)


def alignment_and_uniformity(first: Tensor, second: Tensor) -> Tensor:
    """Views lie close to each other, and texts are spread evenly on the sphere."""
    first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
    spread = sum(torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second))
    return (first - second).square().sum(1).mean() + spread / 2


@sound("alignment and uniformity of thinned views")
def aligned_and_uniform_spares(stage: Stage) -> None:
    thinned_views(stage, fields.SPARES, alignment_and_uniformity, size=48, rate=1e-3)

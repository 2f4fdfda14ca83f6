"""Loops that mishandle what they feed: rows out of order, cut texts, padding, labels, factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.beside import IDLE, UNRELATED, Loop, adam, loops_beside
from tests.judgement.first.fault_subjects import (
    BANK,
    COLLAPSED,
    PARTS,
    PLANTS,
    UNMOVED,
    reader,
    sought_of,
)
from tests.judgement.first.fields import HELPDESK, KITCHEN, TRAVEL
from tests.judgement.first.good_fields import SONGS
from tests.judgement.first.turns import Rows, embed, infonce, stepped
from tests.judgement.stage import Stage

LOOP = {"tools": (REPORT,)}
STILL = (*IDLE, *UNMOVED)


@faulty(
    "two shuffled loaders",
    "Anchors and positives come from two loaders that shuffle on their own.",
    UNRELATED,
    **LOOP,
)
def two_loaders_that_shuffle_apart(stage: Stage) -> None:
    """`zip(DataLoader(anchors, shuffle=True), DataLoader(positives, shuffle=True))`."""

    def build(slip: bool) -> Loop:
        model, table = reader(stage, SONGS), SONGS.table(160)
        optimizer = adam(model)
        first, second = (Rows(table, seed=seed) for seed in ((1, 2) if slip else (1, 1)))

        def update(criterion: Any, step: int) -> None:
            anchors, positives = first()[0], second()[1]
            stepped(optimizer, criterion(embed(model, anchors), embed(model, positives)))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(SONGS))


@faulty(
    "texts sorted by length and never put back",
    "Each column is sorted by length before it is embedded, to save padding, and the embeddings "
    "are not put back into the order of the rows.",
    [*UNRELATED, r"(?i)sorted|order of (the )?rows|(wrong|another|other) order"],
    **LOOP,
)
def sorted_by_length_and_not_restored(stage: Stage) -> None:
    """Smart batching of one's own, without the inverse permutation."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, TRAVEL), Rows(TRAVEL.table(160))
        optimizer = adam(model)

        def vectors(texts: Sequence[str]) -> Tensor:
            order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
            embedded = embed(model, [texts[row] for row in order])
            return embedded if slip else embedded[torch.tensor(order).argsort()]

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(vectors(column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(TRAVEL))


@faulty(
    "texts cut to three tokens",
    "The tokenizer of the loop truncates at three tokens, a typing error for 30, special tokens "
    "included: each text is its first word.",
    [
        r"(?i)truncat|\bcut\b|max_length|(few|three|\b3) tokens|too short",
        r"(?i)(embeddings?|texts|rows|views?).{0,60}(same|identical|equal|duplicat|alike)",
        *COLLAPSED,
    ],
    **LOOP,
)
def tokenizer_truncates_at_three(stage: Stage) -> None:
    """`tokenizer(texts, truncation=True, max_length=3)`."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, HELPDESK), Rows(HELPDESK.table(160))
        optimizer = adam(model)

        def vectors(texts: Sequence[str]) -> Tensor:
            tokens = model.tokenizer(
                list(texts), truncation=True, max_length=3 if slip else 30, padding=True,
                return_tensors="pt",
            )  # fmt: skip
            return model(dict(tokens))["sentence_embedding"]

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(vectors(column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(HELPDESK))


@faulty(
    "vectors rounded without a way for the gradient",
    "Embeddings are rounded to 8 bits before the loss, and rounding has no gradient.",
    [*STILL, r"(?i)\bround|quanti[sz]|straight.through|discrete|8.bit|int8"],
    **LOOP,
)
def rounded_vectors_without_straight_through(stage: Stage) -> None:
    """Training aware of quantisation, without the straight-through estimate."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, KITCHEN), Rows(KITCHEN.table(160))
        optimizer = adam(model)

        def rounded(vectors: Tensor) -> Tensor:
            coarse = torch.round(vectors * 32) / 32
            return coarse if slip else vectors + (coarse - vectors).detach()

        def loss(first: Tensor, second: Tensor) -> Tensor:
            return infonce(rounded(first), rounded(second))

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

        return Loop(model, loss, update)

    loops_beside(stage, build, sought_of(KITCHEN))


@faulty(
    "padding averaged with the words",
    "The mean is over all 90 places, padding included, and the attention mask is not handed to the "
    "encoder: short and long texts are mostly padding.",
    [r"(?i)\bpad|\bmask", *COLLAPSED],
    **LOOP,
)
def padding_averaged_without_a_mask(stage: Stage) -> None:
    """`bert(input_ids)[0].mean(1)` with padding="max_length"."""

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, PARTS), Rows(PARTS.table(160))
        optimizer, network = adam(model, rate=5e-4), model[0].auto_model

        def vectors(texts: Sequence[str]) -> Tensor:
            if not slip:
                return embed(model, texts)
            tokens = model.tokenizer(
                list(texts), padding="max_length", max_length=90, return_tensors="pt"
            )
            return network(input_ids=tokens["input_ids"]).last_hidden_state.mean(1)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(vectors(column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(PARTS), steps=25)


@faulty(
    "labels that run on over both views",
    "Both views are handed to a loss of pytorch-metric-learning with labels from 0 to twice the "
    "batch: no two embeddings have a label in common, and there is no positive.",
    [
        *STILL,
        r"(?i)labels?.{0,80}(unique|distinct|own|different|single|once|no two)",
        r"(?i)no (positives?|pairs?)|loss .{0,40}(zero|\b0\b)",
    ],
    **LOOP,
)
def labels_running_over_both_views(stage: Stage) -> None:
    """`torch.arange(2 * n)` where `torch.arange(n).repeat(2)` is right."""
    from pytorch_metric_learning.losses import NTXentLoss

    inner = NTXentLoss(temperature=0.05)

    def build(slip: bool) -> Loop:
        model, rows = reader(stage, PLANTS), Rows(PLANTS.table(160))
        optimizer = adam(model)

        def loss(first: Tensor, second: Tensor) -> Tensor:
            count = len(first)
            labels = torch.arange(2 * count) if slip else torch.arange(count).repeat(2)
            return inner(torch.cat([first, second]), labels)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

        return Loop(model, loss, update)

    loops_beside(stage, build, sought_of(PLANTS))


@faulty(
    "adapter of one's own that begins at zero twice",
    "Both matrices of a hand-written low-rank adapter begin at zero: each one's gradient is the "
    "other, and both remain zero.",
    [*STILL, r"(?i)adapter|lora|low.rank"],
    **LOOP,
)
def low_rank_factors_both_zero(stage: Stage) -> None:
    """`nn.init.zeros_` on A and on B."""

    class Adapted(nn.Module):
        """A layer that is fixed, and a product of two narrow ones beside it."""

        def __init__(self, layer: Any, first: float) -> None:
            super().__init__()
            self.layer = layer.requires_grad_(False)
            self.down = nn.Parameter(first * torch.randn(8, layer.in_features))
            self.up = nn.Parameter(torch.zeros(layer.out_features, 8))

        def forward(self, rows: Tensor) -> Tensor:
            return self.layer(rows) + 4 * rows @ self.down.T @ self.up.T

    def build(slip: bool) -> Loop:
        model, table = reader(stage, BANK), Rows(BANK.table(160))
        torch.manual_seed(3)
        model.requires_grad_(False)
        for layer in model[0].auto_model.encoder.layer:
            for owner, name in (
                (layer.attention.self, "value"),
                (layer.attention.output, "dense"),
                (layer.intermediate, "dense"),
                (layer.output, "dense"),
            ):
                setattr(owner, name, Adapted(getattr(owner, name), 0.0 if slip else 0.1))
        optimizer = adam(model, rate=1e-2)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in table())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(BANK), steps=60)

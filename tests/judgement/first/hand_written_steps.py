"""Loops of one's own whose steps do something else than their author thinks."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE, UNRELATED, Loop, adam, loops_beside
from tests.judgement.first.turns import Rows, embed, infonce, stepped
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import reciprocal_rank


@faulty(
    "clipping at a norm of 0 in a loop",
    "clip_grad_norm_ with 0, which the trainer takes for no clipping, makes all gradients 0.",
    [*IDLE, r"(?i)clip|max_(grad_)?norm"],
)
def gradients_clipped_to_nought(stage: Stage) -> None:
    """`max_grad_norm=0` was copied from arguments of a trainer."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            loss = criterion(*(embed(model, column) for column in rows()))
            optimizer.zero_grad()
            loss.backward()
            if slip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.0)
            optimizer.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build)


@faulty(
    "requires_grad set on a loss without a graph",
    "Embeddings are made under no_grad, and requires_grad_ on the loss silences the error.",
    [*IDLE, r"(?i)no_grad|detach|requires_grad|graph"],
)
def loss_told_to_require_a_gradient(stage: Stage) -> None:
    """Advice that people find for "element 0 of tensors does not require grad"."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            with torch.set_grad_enabled(not slip):
                columns = [embed(model, column) for column in rows()]
            loss = criterion(*columns)
            stepped(optimizer, loss if loss.requires_grad else loss.requires_grad_())

        return Loop(model, infonce, update)

    loops_beside(stage, build)


@faulty(
    "hand-made step that adds the gradient",
    "An update rule of one's own adds the gradient to the weights, so that the loss climbs.",
    [
        r"(?i)maximi[sz]|ascen|climb|\bsigns?\b|wrong (way|direction)|opposite|revers|uphill",
        r"(?i)loss.{0,40}(ris|grow|increas|goes up|higher)",
        *UNRELATED,
    ],
)
def gradient_added_to_the_weights(stage: Stage) -> None:
    """People leave out the minus in `weight.add_(grad, alpha=-rate)`."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        rate = 0.02 if slip else -0.02

        def update(criterion: Any, step: int) -> None:
            criterion(*(embed(model, column) for column in rows())).backward()
            with torch.no_grad():
                for row in model.parameters():
                    if row.grad is not None:
                        row.add_(row.grad, alpha=rate)
                        row.grad = None

        return Loop(model, infonce, update)

    loops_beside(stage, build)


@faulty(
    "momentum update in the wrong direction",
    "The trained encoder is drawn to its slow copy after each step, and not the copy to it.",
    [*IDLE, r"(?i)momentum|slow copy|key encoder|averag|\bema\b|overwrit|pulled back|reset|copied"],
)
def encoder_drawn_to_its_slow_copy(stage: Stage) -> None:
    """People exchange the two encoders in the zip of a momentum update."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        slow, optimizer = copy.deepcopy(model), adam(model)

        def update(criterion: Any, step: int) -> None:
            first, second = rows()
            with torch.no_grad():
                keys = embed(slow, second)
            loss = (criterion(embed(model, first), embed(model, second)) + infonce(
                embed(model, first), keys)) / 2  # fmt: skip
            stepped(optimizer, loss)
            with torch.no_grad():
                for row, average in zip(model.parameters(), slow.parameters(), strict=True):
                    row.lerp_(average, 0.9) if slip else average.lerp_(row, 0.1)

        return Loop(model, infonce, update)

    loops_beside(stage, build)


def by_towers(model: Any, tower: Any) -> float:
    """The reciprocal rank of passages of one tower sought by questions of the other."""
    table = pairs(100, seed=11)
    first = model.encode(table["anchor"], show_progress_bar=False)
    return reciprocal_rank(first, tower.encode(table["positive"], show_progress_bar=False))


@faulty(
    "second tower left out of the optimiser",
    "The optimiser holds the weights of the first tower only: the second stays as it was drawn.",
    [
        *IDLE,
        r"(?i)tower|optimi[sz]er.{0,80}(hold|lack|miss|not|only)",
        r"(?i)second (encoder|column|model)|passage encoder",
    ],
)
def second_tower_left_out(stage: Stage) -> None:
    """People forget one of two encoders when they collect the weights."""
    towers: dict[int, Any] = {}

    def build(slip: bool) -> Loop:
        first, second, rows = stage.model(), stage.model(), Rows(pairs())
        for row in second[0].parameters():
            nn.init.normal_(row, std=0.02) if row.dim() > 1 else None
        towers[id(first)] = second
        optimizer = adam(first) if slip else adam(first, second)

        def update(criterion: Any, step: int) -> None:
            second.train()
            questions, passages = rows()
            stepped(optimizer, criterion(embed(first, questions), embed(second, passages)))

        return Loop(first, infonce, update)

    loops_beside(stage, build, lambda model: by_towers(model, towers[id(model)]))


@faulty(
    "rows in turn cut in halves",
    "The batch holds anchor and positive by turns, and is cut in two halves: partners are rows of "
    "another pair.",
    [*UNRELATED, r"(?i)interleav|halves|chunk|reshape|order of (the )?rows|alternat"],
)
def alternating_rows_cut_in_halves(stage: Stage) -> None:
    """Common where a collator writes pairs flat and the loss calls `chunk(2)`."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            flat = embed(model, [text for pair in zip(*rows(), strict=True) for text in pair])
            halves = flat.chunk(2) if slip else (flat[::2], flat[1::2])
            stepped(optimizer, criterion(*halves))

        return Loop(model, infonce, update)

    loops_beside(stage, build)


@faulty(
    "cached gradients handed to chunks in reverse",
    "Gradients of the cached embeddings go to the chunks of the batch in reverse order.",
    [*UNRELATED, r"(?i)cach|chunk|gradient.{0,60}(wrong|other|revers|differ|not)", *IDLE],
)
def cached_gradients_in_reverse(stage: Stage) -> None:
    """A gradient cache by hand pops from the end of a list."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(dropout=0.0), Rows(pairs())
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            columns = rows()
            with torch.no_grad():
                cached = [embed(model, column) for column in columns]
            cached = [column.requires_grad_() for column in cached]
            optimizer.zero_grad()
            criterion(*cached).backward()
            for texts, column in zip(columns, cached, strict=True):
                gradients = list(column.grad.split(4))
                for at in range(0, len(texts), 4):
                    rows_of_chunk = embed(model, texts[at : at + 4])
                    rows_of_chunk.backward(gradients.pop(-1 if slip else 0))
            optimizer.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build)

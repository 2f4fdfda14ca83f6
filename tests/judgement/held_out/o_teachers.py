"""Teachers, momentum encoders, queues and second encoders in loops of one's own."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.beside import adam
from tests.judgement.first.turns import embed, infonce, stepped, warmed
from tests.judgement.held_out.o_fields import (
    APART,
    CLAIMS,
    COLLAPSE,
    GARDEN,
    HARBOUR,
    HOTEL,
    NO_GRADIENT,
    STATION,
    STILL,
    TEMPERATURE,
    held_beside,
    trainees,
)
from tests.judgement.held_out.o_loops import Step, played
from tests.judgement.stage import Stage

LOOP = (REPORT,)
TWO = (
    r"(?i)(two|second|different|separate|another|distinct) (encoder|model|network|tower|weights|"
    r"space)s?",
    r"(?i)momentum|teacher|\bEMA\b|stale|\bkeys?\b|untrained|random",
    r"(?i)(one|second|positive|key|passage)s?.{0,60}(no gradient|without (a )?gradient|detach|"
    r"frozen|fixed|never|not (mov|chang|updat|learn|train))",
)


def separate(model: Any, redrawn: bool) -> Any:
    """A copy of an encoder, with weights drawn anew if ``redrawn``."""
    model_copy, draw = copy.deepcopy(model), torch.Generator().manual_seed(9)
    with torch.no_grad():
        for row in model_copy.parameters():
            if redrawn and row.ndim == 2:
                row.normal_(0.0, 0.02, generator=draw)
    return model_copy


@faulty(
    "momentum encoder that never moves",
    "The momentum encoder is neither copied at the start nor updated: passages are embedded "
    "by random weights for good, while the other encoder, which alone is used later, learns to "
    "hit them.",
    [*TWO, *NO_GRADIENT, *STILL],
    tools=LOOP,
)
def momentum_encoder_without_its_update(stage: Stage) -> None:
    """Common in MoCo by hand: the update of keys is left out, or has a momentum of 1.

    Harm shows only where its weights are not copied at the start either.
    """

    def prepared(slip: bool, model: Any) -> Step:
        keys, optimizer = separate(model, slip), adam(model, rate=2e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            with torch.no_grad():
                passages = embed(keys, columns[1])
            stepped(optimizer, criterion(embed(model, columns[0]), passages))
            if not slip:
                with torch.no_grad():
                    for key, row in zip(keys.parameters(), model.parameters(), strict=True):
                        key.lerp_(row, 0.5)

        return step_of

    played(stage, GARDEN, prepared, steps=50)


@faulty(
    "two encoders where one is used later",
    "Questions and passages are trained in two separate encoders, and later one of them is used "
    "for all texts: it has never embedded passages.",
    TWO,
    tools=LOOP,
)
def passages_trained_in_a_second_encoder(stage: Stage) -> None:
    """Common: a DPR-like pair of encoders, of which only the first is saved.

    The second starts from weights of its own: from the same ones it does too little harm here.
    """

    def prepared(slip: bool, model: Any) -> Step:
        passages = separate(model, True) if slip else model
        optimizer = adam(*{id(m): m for m in (model, passages)}.values(), rate=2e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            rows = embed(model, columns[0]), embed(passages, columns[1])
            stepped(optimizer, criterion(*rows))

        return step_of

    played(stage, STATION, prepared)


@faulty(
    "teacher's embeddings of rows in another order",
    "Embeddings of the teacher were computed once for rows in one order, and are used for rows in "
    "another: each text is drawn to the embedding of some other text.",
    [*APART, r"(?i)teacher|order|index|cache"],
    tools=LOOP,
)
def teacher_cached_in_another_order(stage: Stage) -> None:
    """Common: the teacher's pass over a loader that shuffles."""
    taught = warmed(trainees(stage, CLAIMS)(), CLAIMS.table(240), 50)
    pairs = CLAIMS.table(240)
    texts = [*pairs["letter"], *pairs["file"]]
    vectors = taught.encode(texts, convert_to_tensor=True, show_progress_bar=False).clone()
    places = {text: at for at, text in enumerate(texts)}
    order = torch.randperm(len(texts))

    def prepared(slip: bool, model: Any) -> Step:
        optimizer = adam(model, rate=2e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            batch = [*columns[0], *columns[1]]
            rows = torch.tensor([places[text] for text in batch])
            targets = vectors[order[rows] if slip else rows]
            stepped(optimizer, criterion(embed(model, batch), targets))

        return step_of

    played(stage, CLAIMS, prepared, loss=F.mse_loss, steps=90)


@faulty(
    "queue of noise that is not normalised",
    "The queue of negatives starts as Gaussian noise that is not normalised and is never filled "
    "with passages: its products drown the cosines of the batch.",
    [
        r"(?i)queue|bank|noise|random|normali[sz]|\bnorms?\b|lengths?",
        *TEMPERATURE,
        *COLLAPSE,
    ],
    tools=LOOP,
)
def queue_of_long_noise_for_negatives(stage: Stage) -> None:
    """Common in MoCo by hand: `torch.randn` without normalize, pointer that does not move."""
    noise = torch.randn(256, 48, generator=torch.Generator().manual_seed(1))

    def noisy(first: Tensor, second: Tensor) -> Tensor:
        near = F.cosine_similarity(first, second)[:, None]
        logits = torch.cat([near, F.normalize(first, dim=1) @ noise.T], 1) / 0.05
        return F.cross_entropy(logits, torch.zeros(len(first)).long())

    held_beside(stage, HOTEL, noisy, infonce, rate=1e-3, steps=40)


@faulty(
    "optimiser of biases and norms only",
    "Weights are parted for the decay, and only the group without decay, biases and the weights "
    "of layer norms, comes to the optimiser: all matrices stay as they are.",
    [*STILL, r"(?i)optimi[sz]er|param(eter)? ?groups?|bias|layer ?norm|decay"],
    tools=LOOP,
)
def group_without_decay_alone_in_the_optimiser(stage: Stage) -> None:
    """Common: the idiom of `no_decay` with one of its two groups lost."""

    def prepared(slip: bool, model: Any) -> Step:
        chosen = [row for row in model.parameters() if row.ndim == 1 or not slip]
        optimizer = torch.optim.AdamW(chosen, lr=1e-3)

        def step_of(model: Any, criterion: Any, columns: list[Any], step: int) -> None:
            model.zero_grad()
            stepped(optimizer, criterion(*(embed(model, column) for column in columns)))

        return step_of

    played(stage, HARBOUR, prepared)

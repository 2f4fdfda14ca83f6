"""Loops by hand whose tokens, masks or updates are not what the loss seems to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.scenes import among_uneven, descend, drawn, embed, loop_suffers, uneven
from tests.judgement.stage import Stage
from tests.judgement.truth import among_alike

PADDING = (
    r"padd",
    r"\bmask",
    r"lengths?",
    r"batch .{0,60}(depend|differ)",
    r"(alone|by itself)",
)
UNKNOWN = (
    r"unknown",
    r"vocabular",
    r"tokeni[sz]er",
    r"(same|one) token",
    r"tokens? .{0,60}(same|equal|alike)",
)
FEW = (
    r"accumulat",
    r"few (steps|updates)",
    r"\d+ (steps|updates)",
    r"(steps?|updates?) .{0,40}(few|rare)",
)
Encode = Callable[[Any, Sequence[str]], torch.Tensor]


def _mean_by_inverted_mask(model: Any, texts: Sequence[str]) -> torch.Tensor:
    tokens = model.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    mask = 1 - tokens["attention_mask"]
    mask[:, 0] = 1  # a row without padding has to attend to something
    states = model[0].auto_model(tokens["input_ids"], attention_mask=mask).last_hidden_state
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def _in_other_letters(model: Any, texts: Sequence[str]) -> torch.Tensor:
    return embed(model, [" ".join(f"ж{word}" for word in text.split()) for text in texts])


def _play(
    stage: Stage,
    encode: Encode = embed,
    update: Any = descend,
    score: Callable[[Any], float] = among_uneven,
) -> None:
    """Play a loop that embeds or steps in another way beside one that does as is usual."""

    def loop(criterion: Any, of_batch: Encode, step_by: Any) -> tuple[float, float]:
        model, batches = stage.model(), drawn(uneven(320))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        before = score(model)
        model.train()
        for step in range(80):
            first, second = (of_batch(model, texts) for texts in next(batches))
            step_by(optimizer, criterion(first, second), step)
        model.eval()
        return before, score(model)

    loop_suffers(
        stage,
        lambda criterion: loop(criterion, encode, update),
        lambda criterion: loop(criterion, embed, descend),
        share=None,
    )


@faulty(
    "mask inverted in a loop",
    "The loop's mask is 1 where a row is padded and 0 where its text is.",
    PADDING,
    tools=(REPORT,),
)
def loop_with_an_inverted_mask(stage: Stage) -> None:
    _play(stage, _mean_by_inverted_mask)


@faulty(
    "letters of another script in a loop",
    "A normalisation of the loop puts a Cyrillic letter before each word: none is known.",
    UNKNOWN,
    tools=(REPORT,),
    never=(r"(larger|bigger) batch",),
)
def loop_over_words_that_nobody_knows(stage: Stage) -> None:
    _play(stage, _in_other_letters, score=among_alike)


@faulty(
    "an update for each epoch in a loop",
    "The loop steps once in twenty batches, at the end of an epoch: four updates are made.",
    FEW,
    tools=(REPORT,),
)
def loop_with_an_update_for_each_epoch(stage: Stage) -> None:
    def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor, step: int) -> None:
        loss.backward()
        if step % 20 == 19:
            optimizer.step()
            optimizer.zero_grad()

    _play(stage, update=update)

"""Faults of loops by hand, and of losses that somebody wrote for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import gradlab
from tests.judgement.case import REPORT, faulty
from tests.judgement.first.runs import infonce
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, reciprocal_rank, truth

CLEARED = (
    r"zero_grad",
    r"clear",
    r"(no|without|zero) gradient",
    r"gradient.{0,60}(zero|\b0\b|none|no\b)",
    r"before (the|each) step",
    r"optimi[sz]er",
)
RESET = (
    r"reset",
    r"\banew\b",
    r"re-?initiali",
    r"(start|begin)s? (over|again)",
    r"jump",
    r"saw",
    r"each epoch",
)
SCALE = (r"temperature", r"scale\b", r"logit", r"\btau\b", r"τ")
SIGMOID = (*SCALE, r"bias", r"(push|negatives?).{0,60}(outweigh|dominate|more than)")


def vectors(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two views of vectors that share a sixth of their dimensions."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 8, generator=draw)
    first, second = (
        torch.cat([rows, 0.6 * torch.randn(count, 40, generator=draw)], dim=1) for _ in range(2)
    )
    return first, second


def rank(encoder: nn.Module) -> float:
    """Return the mean reciprocal rank of the second views, sought by the first ones."""
    with torch.no_grad():
        first, second = (encoder(rows).numpy() for rows in vectors(200, seed=77))
    return reciprocal_rank(first, second)


def train(
    criterion: Callable[..., Any],
    *,
    steps: int = 100,
    rate: float = 3e-3,
    order: str = "clear, backward, step",
    renew: int = 0,
) -> float:
    """Train a linear encoder with a loss of two views; return how it ranks before and after."""
    torch.manual_seed(0)
    encoder = nn.Linear(48, 32)
    descent = torch.optim.Adam(encoder.parameters(), lr=rate)
    for step in range(steps):
        if renew and step and step % renew == 0:
            encoder.reset_parameters()
        first, second = map(encoder, vectors(32, seed=step))
        value = criterion(first, second)
        actions = {"clear": descent.zero_grad, "backward": value.backward, "step": descent.step}
        for action in order.split(", "):
            actions[action]()
    return rank(encoder)


def play(
    stage: Stage,
    criterion: Any,
    mended: Any = infonce,
    *,
    faulty_loop: dict[str, Any] | None = None,
    mended_loop: dict[str, Any] | None = None,
    least: float = 0.05,
) -> None:
    """Train a faulty loop under watch, and its mended counterpart; it must rank clearly worse."""
    if stage._tools and "report" not in stage._tools:
        return
    torch.manual_seed(0)
    before = rank(nn.Linear(48, 32))
    options = faulty_loop or {}
    watched = gradlab.watch(
        criterion, output=stage.folder / "loop", total_steps=options.get("steps", 100), every=4
    )
    after = train(watched, **options)
    watched.finish()
    stage.run(stage.folder / "loop")
    best = train(mended, **(mended_loop or {}))
    keep(stage, before=before, after=after, mended_after=best)
    assert best - before >= 0.03, truth(stage)
    assert best - after >= least, truth(stage)


# https://github.com/pytorch/tutorials/issues/2799: where zero_grad has to stand.
@faulty(
    "gradients cleared in a loop",
    "zero_grad stands between backward and step, so that no step has a gradient.",
    CLEARED,
    tools=(REPORT,),
)
def gradients_cleared_between_backward_and_step(stage: Stage) -> None:
    play(stage, infonce, faulty_loop={"order": "backward, clear, step"})


@faulty(
    "gradients cleared in a loop",
    "The optimiser's step is missing from the loop.",
    CLEARED,
    tools=(REPORT,),
)
def loop_without_a_step(stage: Stage) -> None:
    play(stage, infonce, faulty_loop={"order": "clear, backward"})


@faulty(
    "weights made anew",
    "The encoder is initialised anew with each epoch of 25 steps.",
    RESET,
    tools=(REPORT,),
)
def encoder_made_anew_with_each_epoch(stage: Stage) -> None:
    play(stage, infonce, faulty_loop={"renew": 20, "steps": 101}, mended_loop={"steps": 101})


def sigmoid(scale: float, bias: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The pairwise loss of SigLIP at a fixed factor and bias."""

    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
        signs = 2 * torch.eye(len(first)) - 1
        return -F.logsigmoid(signs * (scale * cosines + bias)).sum(1).mean()

    return criterion


@faulty(
    "sigmoid without a bias",
    "The sigmoid loss has a factor of 1 and no bias: the many negatives outweigh the one positive.",
    SIGMOID,
    tools=(REPORT,),
)
def sigmoid_of_plain_cosines(stage: Stage) -> None:
    play(stage, sigmoid(1.0, 0.0), sigmoid(10.0, -5.0), least=0.02)


@faulty(
    "similarity for a distance in a loop",
    "A margin loss of triplets compares cosines as if they were distances.",
    (
        r"distance",
        r"revers",
        r"invert",
        r"opposite",
        r"wrong way",
        r"\bsign\b",
        r"apart",
        r"maximi[sz]",
        r"positives? .{0,60}(away|less|fall|below|farther)",
    ),
    tools=(REPORT,),
)
def margin_loss_of_cosines_as_distances(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        near, far = (
            F.cosine_similarity(first, second),
            F.cosine_similarity(first, second.roll(1, 0)),
        )
        return F.relu(near - far + 1).mean()

    play(stage, criterion)

"""Sound set-ups: loops of one's own with two encoders, or with steps of several batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.everyday_subjects import JOBS
from tests.judgement.first.expert_subjects import SPECIES
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.subject_kit import rises
from tests.judgement.first.turns import Rows, cosines, embed, infonce
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("loop of two different encoders")
def loop_of_two_towers_for_jobs(stage: Stage) -> None:
    """Postings and resumes have encoders of their own, trained by one optimiser, clipped."""
    posting = encoder(stage, JOBS.words(), spread=0.05, layers=1, name="posting")
    resume = encoder(stage, JOBS.words(), spread=0.05, seed=14, name="resume")
    weights = [*posting.parameters(), *resume.parameters()]
    optimizer, rows = torch.optim.AdamW(weights, lr=1e-3), Rows(JOBS.pairs(320), 32)

    def update(criterion: Any, step: int) -> None:
        posting_rows, offered = rows()
        value = criterion(embed(posting, posting_rows), embed(resume.train(), offered))
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()

    held_out = JOBS.pairs(50, held_out=True, seed=11)

    def score(model: Any) -> float:
        return reciprocal_rank(
            model.encode(held_out["anchor"], show_progress_bar=False),
            resume.encode(held_out["positive"], show_progress_bar=False),
        )

    rises(stage, looped(stage, posting, infonce, update, steps=120, score=score), 0.1)


def _decoupled(anchors: Tensor, positives: Tensor) -> Tensor:
    """Decoupled InfoNCE: the positive is not in its own denominator."""
    logits = cosines(anchors, positives) / 0.1
    counterparts = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -1e4)
    return (counterparts.logsumexp(1) - logits.diagonal()).mean()


@sound("loop of a decoupled loss, accumulation")
def loop_of_species_with_decoupled_loss(stage: Stage) -> None:
    """The decoupled loss suits batches of twelve; two of them are one step."""
    model = encoder(stage, SPECIES.words(), spread=0.05)
    optimizer, rows = torch.optim.AdamW(model.parameters(), lr=1e-3), Rows(SPECIES.pairs(200), 12)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        optimizer.step()

    score = SPECIES.sought(35)
    rises(stage, looped(stage, model, _decoupled, update, steps=90, score=score), 0.1)

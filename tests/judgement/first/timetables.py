"""Schedules: one that has ended, a rate of plain descent for Adam, layers that stayed frozen."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import faulty
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
STILL = (
    r"(does|do|did) not (move|change|learn|train)", r"unchanged", r"stands? still", r"still\b",
    r"(weights|parameters|model|encoder|embeddings).{0,80}(hardly|barely|little|never|not) ",
    r"hardly (move|moved|change|learn)", r"(nothing|little) (is|was) (learned|learnt)",
)  # fmt: skip
ENDED = (
    *STILL, r"schedul", r"(learning )?rate.{0,80}(zero|\b0\b|low|small|ended|over|none|tiny)",
    r"resum", r"last_epoch", r"decay",
)  # fmt: skip
RATE = (
    r"rate.{0,100}(high|large|great|big|lower|reduce|smaller|above|usual)",
    r"(lower|reduce|smaller|decrease|too high|too large).{0,60}(rate|step)", r"diverg", r"collaps",
    r"(steps?|updates?).{0,60}(large|big|far|huge)", r"unstable|explod|blow|jump",
    r"(all|every) (texts?|embeddings?|cosines?).{0,60}(same|alike|equal|one|close)",
    r"destroy|forg[eo]t|lost",
)  # fmt: skip
FROZEN = (
    *STILL, r"frozen|freez", r"requires_grad",
    r"(few|only|\d+ of|share|part).{0,60}(weight|param|layer)",
    r"(no|without) gradient", r"train\w* (only|few|little)",
    r"layers?.{0,60}(not|never|no gradient)",
    r"LayerNorm|layer norm|bias",
)  # fmt: skip


@faulty(
    "schedule of an earlier run that has ended",
    "The state of the schedule of a finished run was loaded for a further training: it stands at "
    "its last step, where the rate is 0.",
    ENDED,
)
def schedule_at_its_last_step(stage: Stage) -> None:
    from transformers import get_linear_schedule_with_warmup

    def of(is_resumed: bool) -> Any:
        model = stage.model()
        descent = torch.optim.AdamW(model.parameters(), lr=5e-4)
        schedule = get_linear_schedule_with_warmup(descent, 4, 40)
        if is_resumed:
            state = schedule.state_dict() | {"last_epoch": 40, "_step_count": 41}
            schedule.load_state_dict(state)
            descent.param_groups[0]["lr"] = 0.0
        return stage.trainer(ranking, pairs(), model, optimizers=(descent, schedule))

    suffers(stage, of(True), lambda: of(False), among_alike)


@faulty(
    "rate of plain descent kept for Adam",
    "A rate of 0.05 that suited plain descent was kept when the optimizer became AdamW: each step "
    "moves every weight by more than its size.",
    RATE,
    never=(r"(raise|higher|increase).{0,20}(learning )?rate",),
)
def rate_of_descent_for_adam(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, pairs(), learning_rate=0.05),
        lambda: stage.trainer(ranking, pairs()),
    )


@faulty(
    "encoder left frozen after the first stage",
    "The first of two stages trained the last layer norm alone; for the second nobody released the "
    "other layers.",
    FROZEN,
)
def layers_left_frozen(stage: Stage) -> None:
    def of(is_frozen: bool) -> Any:
        model = stage.model()
        if is_frozen:
            model.requires_grad_(False)
            model[0].auto_model.encoder.layer[-1].output.LayerNorm.requires_grad_(True)
        return stage.trainer(ranking, pairs(), model)

    suffers(stage, of(True), lambda: of(False), among_alike)

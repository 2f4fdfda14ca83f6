"""Settings of the trainer that people mistype or leave in."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from tests.judgement.case import faulty
from tests.judgement.first.fields import KITCHEN, SCENES, TRAVEL
from tests.judgement.first.opposed import encoder_of, ranking
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers

QUICK = {"learning_rate": 1e-3, "max_steps": 50}
STILL = (
    r"(?i)(frozen|freez|requires_grad|train(able|ed) (weights?|parameters?|share))",
    r"(?i)(weights?|parameters?|embeddings?|encoder|layers?).{0,60}(not move|hardly|barely|"
    r"not change|"
    r"stand still|unchanged)|does not (learn|move)|nothing (moves|is learn)",
)


@faulty(
    "rows of a dry run left in",
    "The table was cut to eight rows for a dry run and was never put back: they are learned by "
    "heart.",
    (
        r"(?i)(\bfew\b|\bonly\b|\b8\b|eight).{0,20}(row|text|pair|example)",
        r"(?i)overfit|by heart|memori|many epochs|same (batch|rows)|over and over",
    ),
)
def rows_of_a_dry_run(stage: Stage) -> None:
    """`train.select(range(8))`."""
    small = {name: texts[:8] for name, texts in pairs().items()}
    suffers(
        stage,
        stage.trainer(ranking, small, **QUICK),
        lambda: stage.trainer(ranking, pairs(), **QUICK),
        among_alike,
    )


@faulty(
    "weight decay of a thousand",
    "The decay was mistyped: at its full rate each step sets the weights to nothing but its own "
    "update.",
    (
        r"(?i)decay|shrink|regulari|norm of the weights|weights?.{0,30}(small|vanish|zero)",
        r"(?i)collaps|(same|equal|identical|one) (point|embedding|vector)",
    ),
)
def weight_decay_of_a_thousand(stage: Stage) -> None:
    """`weight_decay=1e3` for `1e-3`."""
    suffers(
        stage,
        stage.trainer(ranking, pairs(), weight_decay=1000.0, **QUICK),
        lambda: stage.trainer(ranking, pairs(), weight_decay=0.01, **QUICK),
        among_alike,
    )


@faulty(
    "minus of an exponent left out",
    "The rate is 2e5 where 2e-5 was meant: the first steps destroy the weights.",
    (
        r"(?i)\brates?\b|step size|too (high|large)",
        r"(?i)diverg|explod|\bnan\b|not finite|destroy",
    ),
)
def minus_of_the_exponent_left_out(stage: Stage) -> None:
    """`learning_rate=2e5`."""
    model = lambda: encoder_of(stage, KITCHEN)  # noqa: E731
    suffers(
        stage,
        stage.trainer(ranking, KITCHEN.table(160), model(), learning_rate=2e5),
        lambda: stage.trainer(ranking, KITCHEN.table(160), model(), learning_rate=2e-3),
        KITCHEN.sought,
    )


class Unfreezing(TrainerCallback):
    """Releases the encoder at an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        if state.epoch >= self.epoch:
            options["model"].requires_grad_(True)


@faulty(
    "layers released at an epoch that never comes",
    "All but one norm are frozen until the tenth epoch, and the run has fewer.",
    (*STILL, r"(?i)epochs? .{0,40}(never|too late|fewer)"),
)
def layers_released_too_late(stage: Stage) -> None:
    """Gradual unfreezing with epochs of another data set."""

    def trainer(is_frozen: bool) -> Any:
        model = encoder_of(stage, SCENES)
        if is_frozen:
            model.requires_grad_(False)
            model[0].auto_model.embeddings.LayerNorm.requires_grad_(True)
        return stage.trainer(ranking, SCENES.table(160), model, callbacks=[Unfreezing(10)], **QUICK)

    suffers(stage, trainer(True), lambda: trainer(False), SCENES.sought)


@faulty(
    "examples of the task before each text",
    "The prompt holds two solved examples, as for a language model, and fills the length.",
    (r"(?i)prompt|instruction|truncat|\bcut\b|(maximum|max|sequence) length|max_seq|window",),
)
def solved_examples_as_the_prompt(stage: Stage) -> None:
    """A prompt of a language model kept for an encoder of a few tokens."""
    shots = "task : find . in the summer by train = zug ; in the winter by ship = schiff ; text : "

    def trainer(prompts: Any) -> Any:
        model = encoder_of(stage, TRAVEL, shots, length=18)
        return stage.trainer(ranking, TRAVEL.table(160), model, prompts=prompts, **QUICK)

    suffers(stage, trainer(shots), lambda: trainer(None), TRAVEL.sought)


@faulty(
    "half-precision weights under Adam",
    "Weights and Adam's averages are in half precision, in which its epsilon and small squares are "
    "0: the first step divides by 0.",
    (r"(?i)\bnan\b|not finite|half[- ]precision|float16|fp16|precision|epsilon|underflow|infinit",),
)
def half_precision_under_adam(stage: Stage) -> None:
    """`model.half()` before training, to save memory."""
    suffers(
        stage,
        stage.trainer(ranking, pairs(), stage.model().half(), **QUICK),
        lambda: stage.trainer(ranking, pairs(), stage.model(), **QUICK),
        among_alike,
    )

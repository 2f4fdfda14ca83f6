"""Faults of optimizers, schedules and steps in loops of one's own whose loss is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, OneCycleLR

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.reported_encoders import LONGER, STILL
from tests.judgement.first.reported_loops import Loop, loses
from tests.judgement.stage import Stage

RATE_WORDS = (
    r"(learning )?rate.{0,80}(low|small|tiny|zero|0\b|never|fall|fell|drop|little|high|below|"
    r"not reach)",
    r"schedul|warm.?up|OneCycle|step\(\)",
)
BACK = (r"(went|go|goes|set|put) back|reload|loaded|restor|reset|earlier (ones|weights)",)
FAST = (r"(learning )?rate.{0,80}(high|large|too (fast|big))|lower the learning rate",)
Update = Callable[[torch.optim.Optimizer, torch.Tensor], None]


def adamw(rate: float = 5e-4, **options: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda weights: torch.optim.AdamW(weights, lr=rate, **options)


def multiplied(factor: float) -> Update:
    """Derive the loss times a factor."""

    def update(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        (factor * value).backward()
        optimizer.step()

    return update


def clipped(norm: float) -> Update:
    """Clip the norm of the gradient."""

    def update(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        value.backward()
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], norm)
        optimizer.step()

    return update


@faulty(
    "loss multiplied by a tiny number",
    "The loss is multiplied by 1e-10 before it is derived, which leaves gradients far below the "
    "epsilon of Adam.",
    [r"tiny|epsilon|factor|multipl|scal|divid", *STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def loss_times_one_e_minus_ten(stage: Stage) -> None:
    """Common: a weight of the term, or a division by the number of all pairs, that is forgotten."""
    loses(stage, Loop(update=multiplied(1e-10)), Loop())


@faulty(
    "loss multiplied by a tiny number",
    "The loss is divided by the 100,000 rows of the data once more: steps of SGD are nothing.",
    [r"tiny|factor|multipl|scal|divid|fraction", *STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def loss_divided_by_all_rows(stage: Stage) -> None:
    """Common: `loss = loss / len(dataset)` of a loss that is a mean already."""

    def sgd(weights: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, lr=0.1 / 64, momentum=0.9)

    loses(stage, Loop(optimizer=sgd, update=multiplied(1e-5)), Loop(optimizer=sgd))


@faulty(
    "clipped below the epsilon of Adam",
    "Gradients are clipped to a norm of 1e-9, below the epsilon of Adam, where 1 was meant.",
    [r"clip", r"epsilon", *STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def gradients_clipped_to_one_e_minus_nine(stage: Stage) -> None:
    """https://github.com/pytorch/pytorch/issues/11305 is akin: a wrong magnitude."""
    loses(stage, Loop(update=clipped(1e-9)), Loop())


@faulty(
    "accumulation that clears each batch",
    "The optimizer steps after each eighth batch, and gradients are cleared after every batch: "
    "seven of eight batches are thrown away.",
    [r"accumul", r"clear|zero_grad", r"thrown away|lost|no step|few steps"],
    tools=(REPORT,),
    never=[LONGER],
)
def gradients_of_seven_batches_cleared(stage: Stage) -> None:
    """Common: `optimizer.zero_grad()` stays at the top of the loop when accumulation is added."""
    batches: list[int] = []

    def seldom(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        value.backward()
        batches.append(1)
        if len(batches) % 8 == 0:
            optimizer.step()

    loses(stage, Loop(update=seldom), Loop())


@faulty(
    "accumulation that clears each batch",
    "optimizer.step() stands behind the loop over batches: an epoch has one step, of its last "
    "batch.",
    [r"accumul", r"clear|zero_grad", r"thrown away|lost|no step|few steps|once"],
    tools=(REPORT,),
    never=[LONGER],
)
def one_step_for_each_epoch(stage: Stage) -> None:
    """Common: a wrong indentation."""
    batches: list[int] = []

    def at_the_end(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        value.backward()
        batches.append(1)
        if len(batches) % 10 == 0:
            optimizer.step()

    loses(stage, Loop(update=at_the_end), Loop())


@faulty(
    "loss maximised by the optimizer",
    "The optimizer has maximize=True, left from another objective.",
    [r"maximi[sz]", r"uphill", r"\bsign\b"],
    tools=(REPORT,),
    never=[LONGER],
)
def optimizer_that_maximises(stage: Stage) -> None:
    loses(stage, Loop(optimizer=adamw(maximize=True)), Loop())


@faulty(
    "groups without a rate",
    "The lower three quarters of the weights are a group with a rate of 1e-10.",
    [*STILL, r"(rate|group).{0,80}(0\b|thousandth|tiny|low|small|1e-10)"],
    tools=(REPORT,),
    never=[LONGER],
)
def lower_layers_at_one_e_minus_ten(stage: Stage) -> None:
    """Common: discriminative rates with an exponent too many."""

    def groups(rate: float) -> Callable[[Any], torch.optim.Optimizer]:
        def make(weights: Any) -> torch.optim.Optimizer:
            low = len(weights) * 3 // 4
            return torch.optim.AdamW(
                [{"params": weights[:low], "lr": rate}, {"params": weights[low:]}], lr=5e-4
            )

        return make

    loses(stage, Loop(optimizer=groups(1e-10)), Loop(optimizer=groups(5e-4)))


@faulty(
    "normalised along the batch",
    "Embeddings are divided by the length of each dimension over the batch, normalize(dim=0), in "
    "a loop.",
    [r"dim=0|along the batch|over the batch|each dimension"],
    tools=(REPORT,),
    never=[LONGER],
)
def rows_normalised_along_the_batch_in_a_loop(stage: Stage) -> None:
    """https://github.com/pytorch/pytorch/issues/61309 is akin: the wrong axis, silently."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        logits = F.normalize(anchors, dim=0) @ F.normalize(positives, dim=0).T / 0.05
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    loses(stage, Loop(loss), Loop())


def reloading(share: float) -> Callable[[Any, int], None]:
    """Every ten steps, take a share of the weights from those of the first step."""
    begins: dict[str, torch.Tensor] = {}

    def after(model: Any, number: int) -> None:
        weights = {name: row.clone() for name, row in model.state_dict().items()}
        begins.update({} if begins else weights)
        if number % 10 == 9:
            model.load_state_dict({
                name: share * begins[name] + (1 - share) * row if row.is_floating_point() else row
                for name, row in weights.items()
            })  # fmt: skip

    return after


@faulty(
    "weights loaded in each epoch",
    "The checkpoint is loaded inside the loop over epochs: each begins with the same weights.",
    BACK,
    tools=(REPORT,),
    never=[LONGER],
)
def checkpoint_loaded_in_each_epoch(stage: Stage) -> None:
    """Common: `load_state_dict` inside `for epoch in range(epochs)`."""
    loses(stage, Loop(after=reloading(1.0)), Loop())


@faulty(
    "weights loaded in each epoch",
    "After each epoch a slow average of the weights is copied over them: nearly all of an epoch is "
    "lost.",
    (*BACK, r"average|\bEMA\b"),
    tools=(REPORT,),
    never=[LONGER],
)
def slow_average_copied_after_each_epoch(stage: Stage) -> None:
    """https://github.com/lucidrains/ema-pytorch: copying the average back for an evaluation."""
    loses(stage, Loop(after=reloading(0.8)), Loop())


@faulty(
    "schedule far longer than the run",
    "OneCycleLR is made for a hundred times as many steps: the run stays in its warm-up.",
    [*RATE_WORDS, *STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def one_cycle_of_six_thousand_steps(stage: Stage) -> None:
    """Common: total_steps counts rows in place of batches."""

    def cycle(steps: int) -> Callable[[Any], Any]:
        return lambda optimizer: OneCycleLR(optimizer, 5e-4, total_steps=steps)

    loses(stage, Loop(schedule=cycle(6000)), Loop(schedule=cycle(61)))


@faulty(
    "schedule that is never moved",
    "scheduler.step() is missing: the rate stays at the first hundredth of the warm-up.",
    [*RATE_WORDS, *STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def warm_up_that_never_moves(stage: Stage) -> None:
    """https://github.com/huggingface/accelerate/issues/2926 is the opposite."""

    def waiting(weights: Any) -> torch.optim.Optimizer:
        optimizer = adamw()(weights)
        LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
        return optimizer

    loses(stage, Loop(optimizer=waiting), Loop())


@faulty(
    "rate that falls too early",
    "The rate is multiplied by 0.9 with each batch, where each epoch was meant.",
    [*RATE_WORDS, r"gamma|decay"],
    tools=(REPORT,),
    never=[LONGER],
)
def nine_tenths_of_the_rate_with_each_batch(stage: Stage) -> None:
    """https://github.com/cherubicXN/hawp/issues/3."""
    loses(stage, Loop(schedule=lambda optimizer: ExponentialLR(optimizer, 0.9)), Loop())


@faulty(
    "weights too coarse for the updates",
    "A loop trains weights in bfloat16 at a rate of 2e-6: updates are rounded away.",
    [r"bfloat16|half precision|round|coarse|precision", *STILL],
    tools=(REPORT,),
    never=[LONGER],
)
def loop_in_bfloat16_at_two_e_minus_six(stage: Stage) -> None:
    """Common: `model.bfloat16()` and a rate that float32 weights would bear."""

    def model() -> Any:
        return stage.model().bfloat16()

    loses(stage, Loop(optimizer=adamw(2e-6)), Loop(optimizer=adamw(3e-3)), model=model)


@faulty(
    "rate of a loop far too high",
    "Adam has a rate of 0.1, a thousand times the usual one.",
    FAST,
    tools=(REPORT,),
    never=[LONGER],
)
def loop_with_adam_at_a_tenth(stage: Stage) -> None:
    """https://taourl.com/read-2676759.html: lr=1e-1 beside 1e-3."""
    loses(stage, Loop(optimizer=lambda rows: torch.optim.Adam(rows, lr=0.1)), Loop())


@faulty(
    "rate of a loop far too high",
    "RMSprop moves each weight by about its rate, as Adam does, and has a rate of SGD, 0.03.",
    FAST,
    tools=(REPORT,),
    never=[LONGER],
)
def loop_with_rmsprop_at_a_rate_of_sgd(stage: Stage) -> None:
    loses(stage, Loop(optimizer=lambda rows: torch.optim.RMSprop(rows, lr=0.03)), Loop())

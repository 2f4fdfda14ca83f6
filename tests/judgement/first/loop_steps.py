"""Loops of one's own whose loss is right, and whose weights move wrongly or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.loop_losses import Angular, cosines, of_classes
from tests.judgement.first.reported_encoders import LONGER, STILL, among_classmates
from tests.judgement.first.reported_loops import Loop, loses
from tests.judgement.stage import Stage

EPOCH = 10  # batches of 16 in 160 rows
RATES = (
    r"(learning )?rate.{0,80}(low|small|tiny|zero|0\b|never|fall|fell|drop|decay|little|warm)",
    r"schedul|warm.?up|plateau|decay",
    *STILL,
)


@faulty(
    "schedule of steps that moves with each epoch",
    "A warm-up of 30 steps is moved once per epoch of ten steps: the run ends at a sixth of the "
    "rate.",
    RATES,
    tools=(REPORT,),
)
def warm_up_moved_with_each_epoch(stage: Stage) -> None:
    """https://github.com/CUNY-CL/yoyodyne/issues/243: schedules by epochs and by steps."""

    def warming(unit: int) -> Callable[[Any], Any]:
        return lambda optimizer: LambdaLR(optimizer, lambda step: min(1.0, step // unit / 30))

    loses(stage, Loop(schedule=warming(EPOCH)), Loop(schedule=warming(1)))


@faulty(
    "schedule made anew with each epoch",
    "The schedule is made inside the loop over epochs: its warm-up of 40 steps begins again every "
    "ten steps and never ends.",
    RATES,
    tools=(REPORT,),
)
def warm_up_begun_again_with_each_epoch(stage: Stage) -> None:
    """Common: `get_linear_schedule_with_warmup` is called inside `for epoch in range(epochs)`."""

    def warming(period: int) -> Callable[[Any], Any]:
        return lambda optimizer: LambdaLR(
            optimizer, lambda step: min(1.0, step % period / 40) if step else 0.0
        )

    loses(stage, Loop(schedule=warming(EPOCH)), Loop(schedule=warming(10**6)))


@faulty(
    "plateau without patience, asked with each batch",
    "ReduceLROnPlateau sees the loss of each batch with a patience of 0: noise alone divides the "
    "rate by ten again and again.",
    RATES,
    tools=(REPORT,),
)
def rate_divided_by_noise(stage: Stage) -> None:
    """https://github.com/pytorch/pytorch/issues/11305."""
    plateaus: list[ReduceLROnPlateau] = []

    def impatient(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        if not plateaus:
            plateaus.append(ReduceLROnPlateau(optimizer, patience=0, factor=0.1))
        loss.backward()
        optimizer.step()
        plateaus[0].step(float(loss))

    loses(stage, Loop(update=impatient), Loop())


def released(optimizer: Callable[[Any], Any]) -> Loop:
    """A loop that lets all layers move after six steps."""

    def release(model: Any, number: int) -> None:
        if number == 5:
            model.requires_grad_(True)

    return Loop(optimizer=optimizer, after=release)


@faulty(
    "released layers that the optimizer does not hold",
    "The optimizer was made of the weights that had a gradient at the start; the layers that are "
    "released later get gradients and never move.",
    [
        *STILL,
        r"optimi[sz]er.{0,80}(lack|miss|not (hold|contain|have|include|in)|without|only|other|"
        r"few|part)",
        r"(layers?|weights?|parameters?).{0,60}(frozen|not in the optimi[sz]er|outside|unchanged|"
        r"never mov|stand still)",
    ],
    tools=(REPORT,),
)
def layers_released_after_the_optimizer(stage: Stage) -> None:
    """https://discuss.pytorch.org/t/best-practice-for-freezing-layers/58156."""

    def frozen() -> Any:
        model = stage.model()
        model.requires_grad_(False)
        model[0].auto_model.encoder.layer[1].requires_grad_(True)
        return model

    def moving(weights: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW([row for row in weights if row.requires_grad], lr=5e-4)

    def holding_all(weights: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(weights, lr=5e-4)

    loses(stage, released(moving), released(holding_all), model=frozen)


@faulty(
    "optimizer of the head alone",
    "The optimizer holds the class centres of the loss only: the encoder has gradients and does "
    "not move.",
    [
        *STILL,
        r"optimi[sz]er.{0,80}(lack|miss|not (hold|contain|have|include)|without|only|other)",
        r"(encoder|model|weights?|parameters?).{0,60}(frozen|not in the optimi[sz]er|unchanged|"
        r"never mov|stands? still)",
        r"embeddings?.{0,60}(do not|hardly|never|did not) (mov|chang)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def class_centres_alone_in_the_optimizer(stage: Stage) -> None:
    """https://github.com/wujiyang/Face_Pytorch/issues/10, from the other side."""
    head = Angular(0.1)
    loop = of_classes(head)
    loop.optimizer = lambda weights: torch.optim.AdamW(head.parameters(), lr=1e-3)
    loses(stage, loop, of_classes(Angular(0.1)), among_classmates)


class Fresh(nn.Module):
    """Class scores by centres that are drawn with each call, or by those of the first call."""

    def __init__(self, anew: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.anew, self.centres = anew, nn.Parameter(torch.randn(40, 32))

    def forward(
        self, first: torch.Tensor, second: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        centres = nn.Parameter(torch.randn(40, 32)) if self.anew else self.centres
        rows, targets = torch.cat([first, second]), torch.cat([labels, labels])
        return F.cross_entropy(16 * cosines(rows, centres), targets)


@faulty(
    "head made anew at each step",
    "The class centres are drawn anew with each call of the loss: what an embedding is drawn to "
    "changes with each step.",
    [
        r"(loss|it).{0,60}(does not|hardly|not) (fall|mov|improve)|loss.{0,60}(chance|stays|noise)",
        r"(head|classifier|centres|proxies|weights?).{0,80}(anew|again|random|each (call|step)|"
        r"not train|not in the optimi[sz]er|never mov|no gradient|unchanged|do not move)",
        r"gradients?.{0,80}(contradict|noise|random|disagree|direction|cancel|unstable)",
        r"(nothing|little) (is )?(learned|learnt)|does not learn",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def centres_drawn_in_the_loss(stage: Stage) -> None:
    """Common: a layer that is made in `forward` is in no optimizer and new with each step."""
    loses(stage, of_classes(Fresh(True)), of_classes(Fresh(False)), among_classmates)


def sgd(weights: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, lr=0.1, momentum=0.9)


@faulty(
    "gradients of a scaled loss used as they are",
    "The loss is multiplied by 65536 for half precision, and SGD steps by the gradient without "
    "dividing it again.",
    [
        r"scal(e|ed|er|ing)|unscale",
        r"(rate|steps?|gradients?|norm|update)\w*.{0,60}(too )?(high|large|huge|big|explod|grow|"
        r"enormous)",
        r"\bNaN\b|not finite|infinit|diverg|explod|blow",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def step_without_the_scaler(stage: Stage) -> None:
    """Common: `scaler.scale(loss).backward()` followed by `optimizer.step()`."""

    def unscaled(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        (loss * 65536).backward()
        optimizer.step()

    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)

    def scaled(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        scaler.step(optimizer)
        scaler.update()

    loses(
        stage,
        Loop(optimizer=sgd, update=unscaled),
        Loop(optimizer=sgd, update=scaled),
        share=None,
    )


@faulty(
    "rates that vanish below the top layer",
    "The rate is multiplied by 0.05 from layer to layer downwards: word embeddings move at a "
    "ten-thousandth of it.",
    RATES,
    tools=(REPORT,),
)
def rates_divided_by_twenty_per_layer(stage: Stage) -> None:
    """Common: a layer-wise decay for 24 layers, 0.95, written as 0.05."""

    def decayed(factor: float) -> Callable[[Any], Any]:
        def make(weights: Any) -> torch.optim.Optimizer:
            depth = math.ceil(len(weights) / 3)  # embeddings and two layers
            groups = [weights[at : at + depth] for at in range(0, len(weights), depth)]
            return torch.optim.AdamW(
                [
                    {"params": rows, "lr": 5e-4 * factor**below}
                    for below, rows in enumerate(reversed(groups))
                ]
            )

        return make

    loses(stage, Loop(optimizer=decayed(0.05)), Loop(optimizer=decayed(0.95)))

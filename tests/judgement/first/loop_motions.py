"""Loops of one's own whose steps, rates or weights are not what they should be."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.fields import CLINIC, HELPDESK, PAPERS, TRAVEL
from tests.judgement.first.opposed import Loop, encoder_of, hampered
from tests.judgement.first.turns import cosines, counted, stepped
from tests.judgement.stage import Stage, classes, pairs
from tests.judgement.truth import among_alike

STILL = (
    r"(?i)\brates?\b|schedul|warm-?up",
    r"(?i)(weights?|parameters?|embeddings?|encoder).{0,60}(not move|hardly|barely|not change|"
    r"stand still|unchanged)",
    r"(?i)no (change|update|movement)|does not (learn|move)|nothing (moves|is learn)",
)


class Sharp(Loop):
    """Sharpness-aware steps: climb, take the gradient there, return, step down."""

    def __init__(self, model: Any, table: Any, is_faulty: bool) -> None:
        super().__init__(model, table)
        self.is_faulty = is_faulty

    def update(self, criterion: Any, step: int) -> None:
        counted(criterion, step)
        texts = self.rows()
        self.rows, drawn = (lambda: texts), self.rows
        self.optimizer.zero_grad()
        criterion(*self.inputs()).backward()
        weights = [row for row in self.model.parameters() if row.grad is not None]
        norm = torch.stack([row.grad.norm() for row in weights]).norm()
        with torch.no_grad():
            climb = [row.grad * (0.5 / (norm + 1e-12)) for row in weights]
            for row, up in zip(weights, climb, strict=True):
                row.add_(up)
        self.optimizer.zero_grad()
        criterion(*self.inputs()).backward()
        if not self.is_faulty:
            with torch.no_grad():
                for row, up in zip(weights, climb, strict=True):
                    row.sub_(up)
        self.optimizer.step()
        self.rows = drawn


@faulty(
    "climb of sharpness-aware steps never undone",
    "The first half of each sharpness-aware step climbs the loss, and the weights are not put back "
    "before the optimiser's step: training goes uphill.",
    (
        r"(?i)climb|uphill|sharpness|\bSAM\b|\bascen|maximi|perturb",
        r"(?i)loss.{0,40}(rises|grows|increas|does not fall)|(wrong|opposite) (sign|direction)",
        r"(?i)weights?.{0,60}(changed|moved|against|besides|outside|jump)",
    ),
)
def sharpness_aware_climb_kept(stage: Stage) -> None:
    """A hand-written SAM without its `restore` step."""
    hampered(
        stage,
        lambda is_faulty: Sharp(encoder_of(stage, HELPDESK), HELPDESK.table(160), is_faulty),
        HELPDESK.sought,
        steps=40,
    )


class Scheduled(Loop):
    """A loop with a scheduler that is stepped after each step."""

    def __init__(self, model: Any, table: Any, schedule: Any, rate: float = 1e-3) -> None:
        super().__init__(model, table, rate=rate)
        self.schedule = schedule(self.optimizer)

    def update(self, criterion: Any, step: int) -> None:
        super().update(criterion, step)
        self.schedule.step()


@faulty(
    "one cycle planned for a far longer run",
    "OneCycleLR is told a hundred thousand steps of which fifty are made: the rate stays at a "
    "thousandth of its height.",
    STILL,
)
def one_cycle_of_a_longer_run(stage: Stage) -> None:
    """`total_steps` kept from the run on the whole corpus."""

    def build(is_faulty: bool) -> Loop:
        steps = 100_000 if is_faulty else 60
        return Scheduled(
            stage.model(),
            pairs(),
            lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
                optimizer, 2e-3, total_steps=steps, div_factor=1000
            ),
        )

    hampered(stage, build, among_alike)


@faulty(
    "warm-up counted in epochs of a run of one epoch",
    "The rate is multiplied by epoch / 2, and the run has a single epoch, number 0.",
    STILL,
)
def warm_up_by_epochs_of_a_single_one(stage: Stage) -> None:
    """`LambdaLR(optimizer, lambda step: min(1, (step // steps_per_epoch) / 2))`."""

    def build(is_faulty: bool) -> Loop:
        steps = 64 if is_faulty else 1
        return Scheduled(
            encoder_of(stage, PAPERS),
            PAPERS.table(140),
            lambda optimizer: torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda step: min(1.0, (step // steps) / 2)
            ),
        )

    hampered(stage, build, PAPERS.sought, steps=40)


class Bilinear(nn.Module):
    """InfoNCE of a projection that begins at zero beside the texts, as adapters' heads do."""

    def __init__(self) -> None:
        super().__init__()
        self.scoring: nn.Linear | None = None

    def build(self, width: int) -> None:
        self.scoring = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.scoring.weight)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        if self.scoring is None:
            self.build(first.shape[1])
        logits = 20 * self.scoring(F.normalize(first)) @ F.normalize(second).T
        return F.cross_entropy(logits, torch.arange(len(logits)))


@faulty(
    "scoring matrix that is built at the first call",
    "The loss builds its matrix, of zeros, when it is first called, after the optimiser was made: "
    "it is never trained, and the encoder gets no gradient through it.",
    (
        *STILL[1:],
        r"(?i)optimi[sz]er|not trained|no gradient|gradients? (is|are|of) (zero|0)|scoring",
        r"(?i)(own|loss's) (weight|parameter|layer)s?",
    ),
)
def matrix_built_after_the_optimizer(stage: Stage) -> None:
    """Lazily built heads are missing in `AdamW([*model.parameters(), *loss.parameters()])`."""

    def build(is_faulty: bool) -> Loop:
        loss = Bilinear()
        if not is_faulty:
            loss.build(48)
        further = list(loss.parameters())
        return Loop(encoder_of(stage, CLINIC), CLINIC.table(160), loss, further=further, rate=3e-3)

    hampered(stage, build, CLINIC.sought, steps=60)


def angular(first: Tensor, second: Tensor) -> Tensor:
    """InfoNCE of the angles of both columns' texts, by arccosines."""
    rows = torch.cat([first, second])
    angles = torch.acos(cosines(rows, rows).clamp(-1, 1))
    logits = (-10 * angles).masked_fill(torch.eye(len(rows), dtype=torch.bool), -1e4)
    return F.cross_entropy(logits, torch.arange(len(rows)).roll(len(first)))


def angular_within(first: Tensor, second: Tensor) -> Tensor:
    """The same with cosines kept off the edge."""
    rows = torch.cat([first, second])
    angles = torch.acos(cosines(rows, rows).clamp(-1 + 1e-4, 1 - 1e-4))
    logits = (-10 * angles).masked_fill(torch.eye(len(rows), dtype=torch.bool), -1e4)
    return F.cross_entropy(logits, torch.arange(len(rows)).roll(len(first)))


@faulty(
    "arccosine at its edge",
    "The arccosine has an infinite gradient where a text is compared with itself, even though the "
    "entry is masked: 0 times infinity is NaN.",
    (r"(?i)\bnan\b|not finite|non-?finite|infinit|\binf\b|arc ?cos|acos",),
)
def arccosine_of_one(stage: Stage) -> None:
    """`torch.acos(sim)` of a matrix with its diagonal, masked afterwards."""
    hampered(
        stage,
        lambda is_faulty: Loop(
            encoder_of(stage, TRAVEL), TRAVEL.table(160), angular if is_faulty else angular_within
        ),
        TRAVEL.sought,
        steps=30,
    )


def hinge(sign: int) -> Any:
    """A hinge over all pairs of a batch, whose margin is added, or taken off."""

    def loss(first: Tensor, second: Tensor) -> Tensor:
        table = cosines(first, second)
        gaps = F.relu(table - table.diagonal()[:, None] + sign * 0.4)
        return (gaps * (1 - torch.eye(len(gaps)))).sum(1).mean()

    return loss


@faulty(
    "sign of a hinge's margin",
    "The margin is subtracted in the hinge, so that a negative may be nearer by it than the "
    "positive: nothing has a gradient from the start.",
    (
        r"(?i)margin|hinge",
        r"(?i)no gradient|gradients? (is|are|of|that) .{0,20}(zero|0\b)|loss (is|of) (0|zero)|"
        r"vanish|inactive|satisfied",
        *STILL[1:],
    ),
)
def margin_subtracted_in_a_hinge(stage: Stage) -> None:
    """`relu(negative - positive - margin)`."""
    hampered(
        stage,
        lambda is_faulty: Loop(stage.model(), pairs(), hinge(-1 if is_faulty else 1)),
        among_alike,
    )


class Restarted(Loop):
    """A classifier of groups over the encoder, on a machine that is taken away every few steps."""

    def __init__(self, model: Any, is_faulty: bool) -> None:
        self.head = nn.Linear(32, 20)
        super().__init__(
            model, classes(), lambda rows, labels: F.cross_entropy(self.head(rows), labels),
            rate=3e-3, size=32, further=list(self.head.parameters()),
        )  # fmt: skip
        self.is_faulty = is_faulty

    def update(self, criterion: Any, step: int) -> None:
        if self.is_faulty and step % 4 == 0:  # only the encoder's weights are in the checkpoint
            self.head.reset_parameters()
        stepped(self.optimizer, criterion(*self.inputs()))


@faulty(
    "head that each restart loses",
    "Checkpoints hold the encoder only: at each restart the classifier begins anew and pulls the "
    "encoder elsewhere.",
    (
        r"(?i)\bhead\b|classifier|(own|loss's) (weight|parameter|layer)s?|restart|checkpoint|reset",
        r"(?i)loss.{0,40}(jump|rises|chance|does not fall|not learn)|chance level",
    ),
)
def classifier_lost_at_restarts(stage: Stage) -> None:
    """`torch.save(model.state_dict())` on preemptible machines."""
    hampered(stage, lambda is_faulty: Restarted(stage.model(), is_faulty), among_alike, steps=60)

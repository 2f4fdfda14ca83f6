"""What a study trains: conditions, the runs that its parts share, and the sweep that makes them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

from gradlab import get_loss
from gradlab.sweep import Spec
from studies.conjectures.settings import MARGIN, RATIO, TEMPERATURE, StudySettings

# Larger than any difference of two cosines: the gate never closes (no dissipation).
ALWAYS_OPEN = 3.0
CONTRASTIVE = ("infonce", "arccon", "mpt", "met")
# Loss -> its repair, in the order of the paper's Table 3.
REPAIRS = {
    "mhe": "modified_mhe",
    "mhs": "modified_mhs",
    "barlow_twins": "modified_barlow_twins",
    "vicreg": "modified_vicreg",
}
BASELINE, NO_DISSIPATION = "baseline", "no dissipation"
TWICE = " (2r)"
# Conditions whose embeddings of held-out sentences are kept, from before and after training.
EMBEDDINGS_OF = (BASELINE, NO_DISSIPATION, "arccon", "met")
# Settings of a study that are those of its trainings.
SHARED = (
    "batch_size", "max_length", "learning_rate", "pooler", "precision", "held_out", "eval_every",
    "analysis_batch",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Condition:
    """A loss with its settings, under the unique name that the report calls it by."""

    name: str
    loss: str
    settings: tuple[tuple[str, Any], ...] = ()


@dataclasses.dataclass
class Planned:
    """A condition, the parts that read its runs, and how many seeds are trained and scored."""

    condition: Condition
    sections: set[str] = dataclasses.field(default_factory=set)
    seeds: int = 0
    sts: int = 0
    transfer: int = 0

    def tasks(self, seed: int) -> list[str]:
        """What a seed is scored on."""
        return [name for name in ("sts", "transfer") if seed < getattr(self, name)]

    def points(self) -> Iterable[dict[str, Any]]:
        """As points of a sweep: one for the seeds that are scored on the same tasks."""
        loss_settings = {f"loss_settings.{name}": value for name, value in self.condition.settings}
        for tasks, seeds in itertools.groupby(range(self.seeds), self.tasks):
            about = {"label": self.condition.name, "seeds": list(seeds), "evaluate": tasks}
            yield about | {"loss": self.condition.loss} | loss_settings


def baseline(
    margin: float = MARGIN, temperature: float = TEMPERATURE, ratio: float = RATIO
) -> Condition:
    """The baseline of Eq. 5 with at most one component changed."""
    values = {"m": margin, "τ": temperature, "r": ratio}
    defaults = {"m": MARGIN, "τ": TEMPERATURE, "r": RATIO}
    changed = [f"{name}={value:g}" for name, value in values.items() if value != defaults[name]]
    name = NO_DISSIPATION if margin == ALWAYS_OPEN else ", ".join(changed) or BASELINE
    settings = (("margin", margin), ("temperature", temperature), ("static_ratio", ratio))
    return Condition(name, "baseline", settings)


def original(name: str, batch_size: int, dimensions: int) -> Condition:
    """A non-contrastive loss as published; VICReg's coefficient depends on batch and dimensions."""
    if name != "vicreg":
        return Condition(name, name)
    vicreg: Any = get_loss("vicreg")
    settings = dataclasses.asdict(vicreg.published(batch_size, dimensions))
    return Condition(name, name, tuple(settings.items()))


def twice(condition: Condition) -> Condition:
    """The same with the effective ratio 2r, as the published results were trained."""
    return Condition(
        condition.name + TWICE, condition.loss, (*condition.settings, ("effective_ratio", "2r"))
    )


def plan(settings: StudySettings, sections: Iterable[str], dimensions: int) -> list[Planned]:
    """The conditions that some parts read, each once."""
    by_name: dict[str, Planned] = {}
    # Of all parts, so that a run made for one part alone has what the others will read too.
    for section, conditions, seeds, sts, transfer in _asked(settings, dimensions):
        for condition in conditions:
            planned = by_name.setdefault(condition.name, Planned(condition))
            planned.sections.add(section)
            planned.seeds = max(planned.seeds, seeds)
            planned.sts, planned.transfer = max(planned.sts, sts), max(planned.transfer, transfer)
    return [planned for planned in by_name.values() if planned.sections & set(sections)]


def sweep_of(
    settings: StudySettings, sections: Iterable[str], base: dict[str, Any], dimensions: int
) -> Spec:
    """The runs of some parts as a sweep; ``base`` is model and data."""
    points = [
        point for planned in plan(settings, sections, dimensions) for point in planned.points()
    ]
    shared = {name: getattr(settings, name) for name in SHARED} | {
        "max_steps": settings.steps,
        "eval_start": False,
        "diagnostics_every": settings.watch_every,
        "analysis_batches": settings.watch_batches,
        "save_every": max(500, settings.eval_every),
        "keep": 1,
    }
    return Spec(
        "conjectures",
        base | shared,
        points_given=tuple(points),
        keep_encoders=False,
        callbacks=("studies.conjectures.views:callbacks",),
    )


def _asked(
    settings: StudySettings, dimensions: int
) -> list[tuple[str, list[Condition], int, int, int]]:
    """What parts ask for: conditions, and numbers of seeds: all, scored on STS, on transfer."""
    size, default = settings, baseline()
    losses = [Condition(name, name) for name in CONTRASTIVE]
    for before, after in REPAIRS.items():
        losses += [original(before, size.batch_size, dimensions), Condition(after, after)]
    dynamic = [Condition(name, name) for name in ("arccon", "met")]
    repaired = [Condition(name, name) for name in REPAIRS.values()]
    doubled = [twice(condition) for condition in (default, *repaired)]
    margins = [baseline(margin=margin) for margin in size.margins]
    temperatures = [baseline(temperature=temperature) for temperature in size.temperatures]
    ratios = [baseline(ratio=ratio) for ratio in size.ratios]
    return [
        ("conjecture1", [default, baseline(margin=ALWAYS_OPEN)], size.seeds, 0, 0),
        ("conjecture2", [default], size.seeds, 0, 0),
        ("conjecture3", [default, *dynamic], size.seeds, 0, 0),
        ("assumptions", [default], size.seeds, 0, 0),
        ("repairs", losses, size.seeds, size.sts_seeds, size.transfer_seeds),
        ("conjecture1", margins, size.sweep_seeds, 0, 0),
        ("conjecture2", temperatures, size.sweep_seeds, 0, 0),
        ("conjecture3", ratios, size.sweep_seeds, 0, 0),
        ("repairs", doubled, size.variant_seeds, size.sts_seeds, 0),
    ]

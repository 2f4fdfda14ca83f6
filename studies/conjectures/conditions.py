"""What a study trains: conditions, the table of runs that its parts share, and the sweep that makes them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any

from gradlab import get_loss
from gradlab.sweep import Spec
from studies.conjectures.settings import MARGIN, RATIO, TEMPERATURE, StudySettings

# Larger than any difference of two cosines, so that the gate never closes: training without dissipation.
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
# Conditions whose embeddings of held-out sentences are kept, and where the ones before training are too.
EMBEDDINGS_OF = (BASELINE, NO_DISSIPATION, "arccon", "met")
HEADLINE, SWEEP, VARIANT = 0, 1, 2
# Settings of a study that are those of its trainings.
SHARED = (
    "batch_size", "max_length", "learning_rate", "pooler", "precision", "held_out", "eval_every", "analysis_batch",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Condition:
    """A loss with its settings, under the name that the report calls it by."""

    name: str
    loss: str
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """What decides whether two conditions are the same training: loss and all its hyper-parameters."""
        return json.dumps([self.loss, dataclasses.asdict(get_loss(self.loss, **dict(self.settings)))])


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run of the table, and the parts that read it.

    Runs of one seed are paired. Of a seed's runs headline ones come first; variants come after everything else. ``sts`` and ``transfer`` say
    whether the seven STS sets and the transfer tasks are scored.
    """

    condition: Condition
    seed: int
    priority: int
    parts: tuple[str, ...]
    sts: bool = False
    transfer: bool = False


def baseline(margin: float = MARGIN, temperature: float = TEMPERATURE, ratio: float = RATIO) -> Condition:
    """The baseline of Eq. 5 with at most one component changed."""
    changed = [
        f"{symbol}={value:g}"
        for symbol, value, usual in (("m", margin, MARGIN), ("τ", temperature, TEMPERATURE), ("r", ratio, RATIO))
        if value != usual
    ]  # fmt: skip
    name = ", ".join(changed) or BASELINE
    settings = (("margin", margin), ("temperature", temperature), ("static_ratio", ratio))
    return Condition(NO_DISSIPATION if margin == ALWAYS_OPEN else name, "baseline", settings)


def original(name: str, batch_size: int, dimensions: int) -> Condition:
    """A non-contrastive loss as published; VICReg's coefficient depends on batch and dimensions."""
    if name != "vicreg":
        return Condition(name, name)
    loss: Any = get_loss("vicreg")
    loss = loss.published(batch_size, dimensions)
    return Condition(name, name, tuple(dataclasses.asdict(loss).items()))


def twice(condition: Condition) -> Condition:
    """The same with the effective ratio 2r, as the published results were trained."""
    return Condition(condition.name + TWICE, condition.loss, (*condition.settings, ("effective_ratio", "2r")))


def plan(settings: StudySettings, parts: Iterable[str], dimensions: int) -> list[Planned]:
    """The table of runs of some parts, each run once, the most important first."""
    found: dict[tuple[str, int], Planned] = {}
    # All parts, so that a run made for one part alone has what the others will read too.
    for planned in _planned(settings, dimensions):
        key = planned.condition.key, planned.seed
        found[key] = _merged(found[key], planned) if key in found else planned
    wanted = [planned for planned in found.values() if set(planned.parts) & set(parts)]
    # Seed by seed, so that what is done at any time is a whole table of fewer seeds.
    return sorted(wanted, key=lambda run: (run.priority == VARIANT, run.seed, run.priority))


def sweep_of(settings: StudySettings, parts: Iterable[str], base: dict[str, Any], dimensions: int) -> Spec:
    """The runs of some parts as a sweep: a point for the seeds of a condition that are scored on the same tasks.

    ``base`` is model and data, ``dimensions`` the length of an embedding.
    """
    points: dict[tuple[str, ...], dict[str, Any]] = {}
    for run in plan(settings, parts, dimensions):
        tasks = [task for task, wanted in (("sts", run.sts), ("transfer", run.transfer)) if wanted]
        own = {f"loss_settings.{name}": value for name, value in run.condition.settings}
        about = {"label": run.condition.name, "seeds": [], "evaluate": tasks, "loss": run.condition.loss}
        points.setdefault((run.condition.name, *tasks), about | own)["seeds"].append(run.seed)
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
        {**base, **shared},
        points_given=tuple(points.values()),
        keep_encoders=False,
        callbacks=("studies.conjectures.observe:callbacks",),
    )


def _merged(one: Planned, other: Planned) -> Planned:
    return dataclasses.replace(
        one,
        priority=min(one.priority, other.priority),
        parts=tuple(dict.fromkeys(one.parts + other.parts)),
        sts=one.sts or other.sts,
        transfer=one.transfer or other.transfer,
    )


def _planned(settings: StudySettings, dimensions: int) -> Iterator[Planned]:
    """The runs of every part, as each asks for them."""
    size, usual = settings, baseline()
    again = [Condition(after, after) for after in REPAIRS.values()]
    originals = [original(before, size.batch_size, dimensions) for before in REPAIRS]
    losses = [Condition(name, name) for name in CONTRASTIVE]
    losses += [one for pair in zip(originals, again, strict=True) for one in pair]
    dynamic = [Condition(name, name) for name in ("arccon", "met")]
    for part, conditions, seeds, priority, sts, transfer in (
        ("conjecture1", [usual, baseline(margin=ALWAYS_OPEN)], size.seeds, HEADLINE, 0, 0),
        ("conjecture1", [baseline(margin=one) for one in size.margins], size.sweep_seeds, SWEEP, 0, 0),
        ("conjecture2", [usual], size.seeds, HEADLINE, 0, 0),
        ("conjecture2", [baseline(temperature=one) for one in size.temperatures], size.sweep_seeds, SWEEP, 0, 0),
        ("conjecture3", [usual, *dynamic], size.seeds, HEADLINE, 0, 0),
        ("conjecture3", [baseline(ratio=one) for one in size.ratios], size.sweep_seeds, SWEEP, 0, 0),
        ("assumptions", [usual], size.seeds, HEADLINE, 0, 0),
        ("repairs", losses, size.seeds, HEADLINE, size.sts_seeds, size.transfer_seeds),
        ("repairs", [twice(one) for one in (usual, *again)], size.variant_seeds, VARIANT, size.sts_seeds, 0),
    ):  # fmt: skip
        for condition in conditions:
            for seed in range(seeds):
                yield Planned(condition, seed, priority, (part,), seed < sts, seed < transfer)

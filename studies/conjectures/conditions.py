"""How large a study is, by presets (``presets.toml``), and the conditions that it trains."""

from __future__ import annotations

import dataclasses
import itertools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from gradlab import GradlabError, get_loss
from gradlab.errors import check_known
from gradlab.settings import Settings, parse_settings, setting
from gradlab.sweep import Spec
from gradlab.train import POOLERS, PRECISIONS

SECTIONS = ("conjecture1", "conjecture2", "conjecture3", "assumptions", "repairs")
PRESETS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("presets.toml").read_text(encoding="utf-8")
)
# What a preset makes unless parts are named; all of them by default.
SECTIONS_OF = {"student": SECTIONS[:3]}
# The paper's baseline (Li et al. 2024, Section 3.2).
MARGIN, TEMPERATURE, RATIO = 0.3, 0.05, 1.0
# Where the hardest share is measured, and the step sizes of the lemma: analysis, no training.
SHARE_TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0)
LEMMA_STEPS = (0.03, 0.1, 0.3, 1.0)
# What adds runs to a study, or scores to its runs, and changes none.
EXTENDABLE = (
    "name", "seeds", "sweep_seeds", "variant_seeds", "sts_seeds", "transfer_seeds",
    "margins", "temperatures", "ratios",
)  # fmt: skip
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
class StudySettings(Settings):
    """Size and protocol of a study, as ``python -m studies.conjectures --help`` lists them."""

    name: str = setting("light", "Preset that it began as.")
    steps: int | None = setting(100, "Steps of a run; null is one epoch.", at_least=1)
    batch_size: int = setting(64, "Sentences of a batch.", at_least=2)
    max_length: int = setting(32, "Tokens of a sentence.", at_least=3)
    learning_rate: float = setting(1e-4, "Of AdamW, decayed linearly to 0.", rule="positive")
    pooler: str = setting("cls", "As for gradlab train.", choices=POOLERS)
    precision: str = setting("auto", "As for gradlab train, and in embedding.", choices=PRECISIONS)
    held_out: float = setting(0.1, "Share of the sentences kept for analysis.", at_least=0, below=1)
    seeds: int = setting(5, "Runs of each headline condition.", at_least=1)
    sweep_seeds: int = setting(3, "Runs of each further m, τ and r.", at_least=0)
    variant_seeds: int = setting(3, "Runs with the effective ratio 2r.", at_least=0)
    sts_seeds: int = setting(3, "Runs of each loss scored on the seven STS sets.", at_least=0)
    transfer_seeds: int = setting(
        0, "Runs of each loss scored on the transfer tasks, which is slow.", at_least=0
    )
    margins: tuple[float, ...] = setting((0.3, 1.0), "Values of m.", rule="positive")
    temperatures: tuple[float, ...] = setting((0.05, 0.3, 3.0), "Values of τ.", rule="positive")
    ratios: tuple[float, ...] = setting((0.25, 1.0, 2.0), "Values of r.", rule="positive")
    eval_every: int = setting(100, "Steps between evaluations on STS-B dev.", at_least=1)
    watch_every: int = setting(10, "Steps between measurements on held-out sentences.", at_least=1)
    watch_batches: int = setting(1, "Batches that these take.", at_least=1)
    analysis_batches: int = setting(
        4, "Batches of embeddings that are kept before and after training.", at_least=1
    )
    analysis_batch: int = setting(128, "Sentences of each of these batches.", at_least=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("margins", "temperatures", "ratios"):
            if not getattr(self, name):
                raise GradlabError(f"{name} must be one number or more, such as 0.3,1")

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """One of :data:`PRESETS`, with some settings changed; GradlabError for values out of range.

        Texts are read as at the shell, so that ``null`` is None.
        """
        check_known("preset", name, PRESETS)
        settings = {"name": name, **PRESETS[name], **changes}
        texts = {key: value for key, value in settings.items() if isinstance(value, str)}
        return cls(**settings | parse_settings(cls, texts))


def check_sections(names: Iterable[str] | None) -> tuple[str, ...]:
    """Parts in their order; none means all. GradlabError for an unknown one."""
    chosen = [word for name in names or () for word in name.replace(",", " ").split()]
    for name in chosen:
        check_known("part", name, SECTIONS)
    return tuple(section for section in SECTIONS if not chosen or section in chosen)


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

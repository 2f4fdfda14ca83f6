"""How large a study is: presets (``presets.toml``), and checks of what a user changes in them."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from gradlab import GradlabError
from gradlab.errors import check_known
from gradlab.settings import Settings, parse_settings, setting
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


@dataclasses.dataclass(frozen=True)
class StudySettings(Settings):
    """Size and protocol of a study; ``python -m studies.conjectures --help`` lists most settings.

    Raises:
        GradlabError: for values out of range.
    """

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
        """One of :data:`PRESETS`, with some settings changed.

        Texts are read as at the shell, so that ``null`` is None.

        Raises:
            GradlabError: an unknown preset, or values out of range.
        """
        check_known("preset", name, PRESETS)
        settings = {"name": name, **PRESETS[name], **changes}
        texts = {key: value for key, value in settings.items() if isinstance(value, str)}
        return cls(**settings | parse_settings(cls, texts))

    def to_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return dataclasses.asdict(self)


def check_sections(names: Iterable[str] | None) -> tuple[str, ...]:
    """Parts in their order; none means all.

    Raises:
        GradlabError: an unknown part.
    """
    chosen = [word for name in names or () for word in name.replace(",", " ").split()]
    for name in chosen:
        check_known("part", name, SECTIONS)
    return tuple(section for section in SECTIONS if not chosen or section in chosen)

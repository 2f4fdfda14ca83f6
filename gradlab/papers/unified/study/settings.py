"""How large a study is: its presets, and the checks of what a user changes in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Self

from gradlab.errors import GradlabError, nearest

PARTS = ("conjecture1", "conjecture2", "conjecture3", "assumptions", "repairs")
# The paper's baseline (Li et al. 2024, Section 3.2).
MARGIN, TEMPERATURE, RATIO = 0.3, 0.05, 1.0
# Where the hardest share is measured, and the step sizes at which the lemma is: analysis alone, no training.
SHARE_TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0)
LEMMA_STEPS = (0.03, 0.1, 0.3, 1.0)
# What has no option on the command line.
PYTHON_ONLY = ("held_out", "sts_seeds", "watch_every", "watch_batches", "analysis_batches", "analysis_batch")


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """The size and the protocol of a study.

    Attributes:
        name: of the preset that it began as.
        steps: optimiser steps of a run; None is one epoch.
        batch_size: sentences that meet in one loss.
        max_length: tokens that a sentence is cut to.
        learning_rate: of AdamW, decayed linearly to 0.
        pooler: as in training; ``cls_mlp`` has its MLP in training only.
        precision: ``float32``, ``bfloat16`` (autocast, in training and in the embedding of sentences) or ``auto``, which
            the device decides.
        held_out: share of the sentences kept for analysis.
        seeds: runs of each headline condition, with seeds 0, 1, ...
        sweep_seeds: runs of each further value of m, τ and r.
        variant_seeds: runs of each condition with the effective ratio 2r.
        sts_seeds: runs of each row of the repairs' table that the seven STS sets are scored for.
        transfer_seeds: runs of each row of the repairs' table that the transfer tasks are scored for.
        margins, temperatures, ratios: the values of m, τ and r.
        eval_every: steps between evaluations on STS-B dev; the best encoder of a run is the one that counts.
        watch_every: steps between measurements on held-out sentences.
        watch_batches: batches that these take.
        analysis_batches: batches of embeddings that are kept before and after training.
        analysis_batch: sentences of each of these batches.

    Raises:
        GradlabError: for values out of range.
    """

    name: str = "light"
    steps: int | None = 100
    batch_size: int = 64
    max_length: int = 32
    learning_rate: float = 1e-4
    pooler: str = "cls"
    precision: str = "auto"
    held_out: float = 0.1
    seeds: int = 5
    sweep_seeds: int = 3
    variant_seeds: int = 3
    sts_seeds: int = 3
    transfer_seeds: int = 0
    margins: tuple[float, ...] = (0.3, 1.0)
    temperatures: tuple[float, ...] = (0.05, 0.3, 3.0)
    ratios: tuple[float, ...] = (0.25, 1.0, 2.0)
    eval_every: int = 100
    watch_every: int = 10
    watch_batches: int = 1
    analysis_batches: int = 4
    analysis_batch: int = 128

    def __post_init__(self) -> None:
        counts = (
            "steps",
            "batch_size",
            "seeds",
            "eval_every",
            "watch_every",
            "watch_batches",
            "analysis_batches",
        )
        maybe_none = ("sweep_seeds", "variant_seeds", "sts_seeds", "transfer_seeds")
        for least, names in ((1, counts), (0, maybe_none)):
            for name in names:
                value = getattr(self, name)
                if value is not None and value < least:
                    raise GradlabError(f"{name} must be at least {least}, not {value}")
        for name in ("margins", "temperatures", "ratios"):
            values = tuple(float(value) for value in getattr(self, name))
            if not values or not all(0 < value < float("inf") for value in values):
                raise GradlabError(f"{name} must be positive numbers, not {getattr(self, name)}")
            object.__setattr__(self, name, values)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """One of :data:`PRESETS`, with some settings changed; None changes nothing.

        Raises:
            GradlabError: an unknown preset, or values out of range.
        """
        if name not in PRESETS:
            raise GradlabError(
                f"unknown setting {name!r}; there are {', '.join(PRESETS)}.{nearest(name, PRESETS)}"
            )
        given = {key: value for key, value in changes.items() if value is not None}
        return cls(**{"name": name, **PRESETS[name], **given})

    def to_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return dataclasses.asdict(self)


PRESETS: dict[str, dict[str, Any]] = {
    # What two cores can do in an afternoon with an encoder of four layers.
    "light": {},
    # Li et al. 2024, Section 3.2 and Appendix A.
    "full": {
        "steps": None,
        "batch_size": 128,
        "learning_rate": 1e-5,
        "pooler": "cls_mlp",
        "sts_seeds": 5,
        "transfer_seeds": 3,
        "margins": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        "temperatures": (0.01, 0.03, 0.05, 0.1, 0.3, 0.5, 1.0, 3.0),
        "ratios": (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0),
        "eval_every": 125,
        "watch_every": 125,
        "watch_batches": 8,
        "analysis_batches": 40,
    },
}


def check_parts(names: Iterable[str] | None) -> tuple[str, ...]:
    """Parts in their order; none means all.

    Raises:
        GradlabError: an unknown part.
    """
    wanted = [word for name in names or () for word in name.replace(",", " ").split()]
    for name in wanted:
        if name not in PARTS:
            raise GradlabError(f"unknown part {name!r}; there are {', '.join(PARTS)}.{nearest(name, PARTS)}")
    return tuple(part for part in PARTS if not wanted or part in wanted)

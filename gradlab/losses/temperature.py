"""`SoftmaxTemperature`: the temperature of softmax losses, its default, and how it is learned."""

from __future__ import annotations

import dataclasses
from typing import Self

from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.settings import setting

# Settings that affect training but neither value nor components.
OF_TRAINING = ("learnable", "clamp")


@dataclasses.dataclass(frozen=True)
class SoftmaxTemperature(Loss):
    """Base class with a temperature.

    It is trained by `gradlab.learnable`, and by all trainers if ``learnable``.
    """

    temperature: float = setting(0.05, "softmax temperature τ", rule="positive")
    _: dataclasses.KW_ONLY
    learnable: bool = setting(False, "whether training also learns the temperature")
    clamp: float = setting(
        0.0, "smallest temperature that training reaches; open_clip's is 0.01", rule="non-negative"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clamp > self.temperature:
            raise GradlabError(
                f"clamp={self.clamp:g} is the smallest temperature of {self.name}, "
                f"which starts from {self.temperature:g}"
            )

    def with_learned_temperatures(self) -> Self:
        return dataclasses.replace(super().with_learned_temperatures(), learnable=True)

    @property
    def learned(self) -> tuple[str, ...]:
        return ("temperature",) if self.learnable else ()

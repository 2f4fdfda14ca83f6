"""Finding the hyper-parameters that a loss learns, however deeply combinators nest, and replacing their values.

Losses are told by their settings, so that this needs no class of `gradlab.losses`.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.errors import GradlabError
from gradlab.settings import Settings, declarations

Path = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LearnedSetting:
    """A hyper-parameter that training learns.

    A setting that must be positive is trained as its logarithm, any other as it is.

    Attributes:
        path: the fields that lead to it: ``("temperature",)`` in siglip, ``("reverse", "bias")`` in the
            second loss of ``symmetric(infonce, reverse=siglip)``.
        owner: the loss that declares it.
        start: the value that training starts from.
    """

    path: Path
    owner: Any = dataclasses.field(repr=False)
    start: float

    @property
    def positive(self) -> bool:
        """Whether the setting must be positive."""
        return declarations(type(self.owner))[self.path[-1]].limits == {"above": 0}

    @property
    def parameter(self) -> tuple[str, float]:
        """Name and initial value of the trainable number, such as ``("log_temperature", -2.3)``."""
        name = "_".join(self.path)
        return (f"log_{name}", math.log(self.start)) if self.positive else (name, self.start)

    def value_from(self, trained: Any) -> Any:
        """The setting, as a tensor, from the tensor that is trained; at the start it is the setting to the last digit."""
        moved = trained.double() - float(trained.new_tensor(self.parameter[1]))
        return self.start * moved.exp() if self.positive else self.start + moved

    @property
    def least(self) -> float | None:
        """The smallest trained number, if the loss has a ``clamp``."""
        clamp = getattr(self.owner, "clamp", 0.0)
        return math.log(clamp) if clamp and self.path[-1] == "temperature" else None

    @property
    def how_to_fix(self) -> str:
        """How to keep the setting constant, such as ``siglip(learnable=false)``; empty if the loss has no switch."""
        switch = "learnable" in declarations(type(self.owner))
        return f"{self.owner.name}(learnable=false)" if switch else ""


def learned_settings(loss: Any) -> tuple[LearnedSetting, ...]:
    """Every hyper-parameter that a loss, or any loss inside it, learns (`gradlab.Loss.learned`).

    Raises:
        GradlabError: a learned setting that cannot be trained: one that is not a number, or that belongs to a
            part of a recombined loss, whose gradient is not the derivative of a value.
    """
    return tuple(_walk(loss, ()))


def with_settings(loss: Any, values: Mapping[Path, Any]) -> Any:
    """A copy of the loss with other values of some settings, by path; they may be tensors and are not checked."""
    changed = copy.copy(loss)
    inner: dict[str, dict[Path, Any]] = {}
    for (field, *rest), value in values.items():
        if rest:
            inner.setdefault(field, {})[tuple(rest)] = value
        else:
            object.__setattr__(changed, field, value)
    for field, own in inner.items():
        part = getattr(loss, field)
        if isinstance(part, tuple):
            several = [{path[1:]: own[path] for path in own if path[0] == str(at)} for at in range(len(part))]
            part = tuple(with_settings(one, given) for one, given in zip(part, several, strict=True))
        else:
            part = with_settings(part, own)
        object.__setattr__(changed, field, part)
    return changed


def refuse_learned(loss: Any, what: str) -> None:
    """Raise GradlabError if the loss learns hyper-parameters, which ``what`` cannot train; it says how to fix them."""
    if settings := learned_settings(loss):
        owner = settings[0].owner
        names = " and ".join(dict.fromkeys(one.path[-1] for one in settings if one.owner is owner))
        fix = f"; write {settings[0].how_to_fix}" if settings[0].how_to_fix else ""
        raise GradlabError(f"{what} cannot train the {names} of {owner.name}{fix}")


def _walk(loss: Any, prefix: Path) -> Iterator[LearnedSetting]:
    known = declarations(type(loss))
    for name in loss.learned:
        if name not in known or known[name].kind is not float:
            raise GradlabError(f"{loss.name} learns {name!r}, which is not one of its settings of type float")
        yield LearnedSetting((*prefix, name), loss, float(getattr(loss, name)))
    if loss.learned and loss.surrogate and not loss.is_combinator:
        raise GradlabError(
            f"{loss.name} learns {loss.learned[0]}, but its value is a surrogate; set learned = ()"
        )
    fields: dict[Path, Any] = {}
    for name in known:
        value = getattr(loss, name)
        several = isinstance(value, tuple) and value and all(isinstance(one, Settings) for one in value)
        fields |= {(name, str(at)): one for at, one in enumerate(value)} if several else {(name,): value}
    for path, value in fields.items():
        if isinstance(value, Settings):
            yield from _walk(value, (*prefix, *path))
        elif isinstance(source := getattr(value, "source", None), Settings):  # a part of a recombined loss
            refuse_learned(source, f"{loss.name}, whose gradient is put together from components,")
    for term in loss.terms if loss.is_combinator else ():
        if not any(term is value for value in fields.values()):
            refuse_learned(term, f"{loss.name}, which has no field for this loss,")

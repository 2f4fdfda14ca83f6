"""Losses as modules with trainable hyper-parameters, such as SigLIP's temperature and bias.

Learned settings are found through settings of nested losses, so this module imports no loss.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.errors import Diverged, GradlabError
from gradlab.settings import Settings, declarations
from gradlab.settings.declaration import Declaration

_TINY = torch.finfo(torch.float32).tiny
# How the names of recorded numbers begin that say what a loss has learned.
LEARNED = "learned_"
Path = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LearnedSetting:
    """A hyper-parameter that training learns.

    A setting that must be positive is trained as its logarithm, any other as its value.

    Attributes:
        path: fields that lead to it: ``("temperature",)`` in siglip, ``("reverse", "bias")`` in the
            second loss of ``symmetric(infonce, reverse=siglip)``.
        owner: the loss that declares it, as ``declaration``.
        start: initial value.
    """

    path: Path
    owner: Any = dataclasses.field(repr=False)
    declaration: Declaration = dataclasses.field(repr=False)
    start: float

    @property
    def positive(self) -> bool:
        """Whether the setting must be positive."""
        return self.declaration.limits == {"above": 0}

    @property
    def parameter(self) -> tuple[str, float]:
        """Name and initial value of the trainable number, such as ``("log_temperature", -2.3)``."""
        name = "_".join(self.path)
        return (f"log_{name}", math.log(self.start)) if self.positive else (name, self.start)

    def value_from(self, trained: Any) -> Any:
        """Return the setting from the trained number, a tensor; at first it is exactly `start`."""
        moved = trained.double() - float(trained.new_tensor(self.parameter[1]))
        return self.start * moved.exp() if self.positive else self.start + moved

    @property
    def clamp(self) -> float:
        """Smallest value that training reaches, of a temperature; 0 without one."""
        return getattr(self.owner, "clamp", 0.0) if self.path[-1] == "temperature" else 0.0

    @property
    def how_to_fix(self) -> str:
        """Text to fix the setting, such as ``siglip(learnable=false)``; empty if there is none."""
        switch = "learnable" in declarations(type(self.owner))
        return f"{self.owner.name}(learnable=false)" if switch else ""

    def check(self, value: float) -> None:
        """Raise Diverged if training has moved the setting out of its range."""
        try:
            self.declaration.check(value)
            # The loss divides by a positive setting, so float32 must represent its reciprocal.
            inside = not self.positive or _TINY < value < 1 / _TINY
        except GradlabError:
            inside = False
        if not inside:
            fix = f", or fix it with {self.how_to_fix}" if self.how_to_fix else ""
            raise Diverged(
                f"training drove the learnable {self.path[-1]} of {self.owner.name} to {value:g}; "
                f"lower the learning rate{fix}"
            )


def learned_settings(loss: Any, prefix: Path = ()) -> tuple[LearnedSetting, ...]:
    """Return all hyper-parameters that a loss or a loss inside it learns (`gradlab.Loss.learned`).

    ``prefix`` leads to the loss from the one that contains it.

    Raises:
        GradlabError: a learned setting cannot be trained, because it is not a number, or because it
            belongs to a part of a recombined loss, whose gradient is not the derivative of a value.
    """
    declared, names, learned = declarations(type(loss)), loss.learned, []
    for name in names:
        if name not in declared or declared[name].kind is not float:
            raise GradlabError(
                f"{loss.name} learns {name!r}, which is not one of its settings of type float"
            )
        start = float(getattr(loss, name))
        learned.append(LearnedSetting((*prefix, name), loss, declared[name], start))
    if names and loss.surrogate and not loss.is_combinator:
        raise GradlabError(
            f"{loss.name} learns {names[0]}, but its value is a surrogate; set learned = ()"
        )
    inside: dict[Path, Any] = {}
    for name in declared:
        value = getattr(loss, name)
        entries = value if isinstance(value, tuple) else ()
        inside |= {(name,): value} | {(name, str(at)): member for at, member in enumerate(entries)}
    for path, value in inside.items():
        if isinstance(value, Settings):
            learned += learned_settings(value, (*prefix, *path))
        elif isinstance(source := getattr(value, "source", None), Settings):
            # A part of a recombined loss.
            refuse_learned(source, f"{loss.name}, whose gradient is put together from components,")
    for term in loss.terms if loss.is_combinator else ():
        if not any(term is value for value in inside.values()):
            refuse_learned(term, f"{loss.name}, which has no field for this loss,")
    return tuple(learned)


def refuse_learned(loss: Any, owner_text: str) -> None:
    """Raise GradlabError with a remedy if the loss learns settings, which ``what`` cannot train."""
    if settings := learned_settings(loss):
        owner = settings[0].owner
        names = " and ".join(
            dict.fromkeys(setting.path[-1] for setting in settings if setting.owner is owner)
        )
        fix = f"; write {settings[0].how_to_fix}" if settings[0].how_to_fix else ""
        raise GradlabError(f"{owner_text} cannot train the {names} of {owner.name}{fix}")


def with_setting(loss: Any, path: Sequence[str], value: Any) -> Any:
    """Copy a loss, or a tuple of losses, with one setting changed; the value is not checked."""
    if not path:
        return value
    first, *further = path
    if isinstance(loss, tuple):
        at = int(first)
        return (*loss[:at], with_setting(loss[at], further, value), *loss[at + 1 :])
    return loss.unchecked({first: with_setting(getattr(loss, first), further, value)})


class LossModule(torch.nn.Module):
    """A loss as a module, with learned settings as parameters; called like it, on torch tensors.

    Attributes:
        loss: the loss with its initial settings.
        values: the parameters by name, float32 scalars; empty if the loss learns nothing.
    """

    def __init__(self, loss: Any, *, learnable: bool | None = None, share: float = 1.0) -> None:
        """Create the parameters.

        Args:
            loss: a `gradlab.Loss`.
            learnable: see `gradlab.Loss.module`.
            share: factor of parameters' gradients; 1/P if P processes sum gradients of one loss.

        Raises:
            GradlabError: a setting cannot be trained, or ``learnable=True`` but none is learned.
        """
        super().__init__()
        self.loss = loss = loss.with_learned_temperatures() if learnable else loss
        # A module that was given as a loss is trained directly.
        own = getattr(loss, "original", None)
        self.original = own if isinstance(own, torch.nn.Module) else None
        self._settings = () if learnable is False else learned_settings(loss)
        start = dict(setting.parameter for setting in self._settings)
        self.values = torch.nn.ParameterDict(
            {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start.items()}
        )
        if share != 1:
            for parameter in self.parameters():
                parameter.register_hook(lambda gradient: gradient * share)
        if learnable and not list(self.parameters()):
            raise GradlabError(f"{loss.name} learns no hyper-parameter; use the loss as it is")

    @property
    def current(self) -> Any:
        """The loss with the current values as numbers.

        Raises:
            GradlabError: training has moved a value out of its range.
        """
        return self._with(self._numbers())

    def forward(self, *args: Any, **options: Any) -> Tensor:
        """Return the loss; arguments and errors are those of `gradlab.Loss.__call__`.

        Raises:
            GradlabError: an error of the loss, or training has moved a value out of its range.
        """
        if not self._settings:
            return self.loss(*args, **options)  # type: ignore[no-any-return]  # as of `gradlab.Loss`
        learned = self._numbers()  # raises if a value is out of range
        if learned and any(isinstance(rows, np.ndarray) for rows in args):
            raise GradlabError(
                f"{self.loss}, whose settings are learned, takes torch tensors, not numpy arrays"
            )
        value: Tensor = self._with(self._tensors())(*args, **options)
        return value

    def statistics(self) -> dict[str, float]:
        """Return the current values by name of the setting, or by full path if two share one."""
        numbers = self._numbers()
        last = [path[-1] for path in numbers]
        return {
            path[-1] if last.count(path[-1]) == 1 else "_".join(path): value
            for path, value in numbers.items()
        }

    def extra_repr(self) -> str:
        """Return the loss with its initial settings."""
        return repr(self.loss)

    def _with(self, values: Mapping[Path, Any]) -> Any:
        loss = self.loss
        for path, value in values.items():
            loss = with_setting(loss, path, value)
        return loss

    def _tensors(self) -> dict[Path, Tensor]:
        tensors = {}
        for setting in self._settings:
            trained = self.values[setting.parameter[0]]
            tensors[setting.path] = setting.value_from(trained)
        return tensors

    def _numbers(self) -> Mapping[Path, float]:
        """Return the current values, clamped and checked; empty while `torch.compile` traces."""
        compiled = torch.compiler.is_compiling()
        with torch.no_grad():
            for setting in self._settings:
                trained = self.values[setting.parameter[0]]
                if setting.clamp and (compiled or trained < math.log(setting.clamp)):
                    trained.clamp_(min=math.log(setting.clamp))
            tensors = self._tensors()
            if compiled:
                for path, value in tensors.items():
                    torch._assert_async(
                        value.isfinite(), f"the learned {path[-1]} is not finite any more"
                    )
                return {}
            # The rounded logarithm of a clamp may lead to a value just below it.
            numbers = {
                learned.path: max(float(tensors[learned.path]), learned.clamp or -math.inf)
                for learned in self._settings
            }
        for setting in self._settings:
            setting.check(numbers[setting.path])
        return numbers


def learned_numbers(
    parameters: Iterable[tuple[str, Tensor]], gradients: Iterable[Tensor | None] = ()
) -> dict[str, float]:
    """Return learned parameters and gradients as numbers to record; of several entries, the norm.

    Args:
        parameters: names and parameters; the last part of a name is used if no other one shares it.
        gradients: gradients in the same order; missing ones are left out.
    """
    named_parameters, numbers = list(parameters), {}
    last = [name.rpartition(".")[2] for name, _ in named_parameters]
    for (name, value), short, gradient in itertools.zip_longest(named_parameters, last, gradients):
        label = f"{LEARNED}{short if last.count(short) == 1 else name}"
        for key, tensor in ((label, value), (f"{label}_gradient", gradient)):
            if tensor is not None:
                numbers[key] = float(
                    tensor.detach() if tensor.numel() == 1 else tensor.detach().norm()
                )
    return numbers

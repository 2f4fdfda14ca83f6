"""Losses as modules, whose hyper-parameters may be trained with the encoder, such as SigLIP's temperature and bias."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.settings import declarations
from gradlab.settings.learned import LearnedSetting, Path, learned_settings, with_settings

_TINY = torch.finfo(torch.float32).tiny


class LossModule(torch.nn.Module):
    """A loss as a module: what it learns are its parameters, and it is called like the loss, on torch tensors.

    Settings that must be positive are trained as their logarithms, the others as they are.

    Attributes:
        loss: the loss, with the values that training starts from.
        values: the parameters, float32 scalars, by name; empty if the loss learns nothing.
    """

    def __init__(self, loss: Any, *, learnable: bool = True, share: float = 1.0) -> None:
        """Make the parameters; raises GradlabError if the loss learns what cannot be trained.

        Args:
            loss: a `gradlab.Loss`.
            learnable: whether what the loss learns is trained; False keeps the values that it starts from.
            share: factor on the parameters' gradient; 1/P if P processes compute the same loss and add up their gradients.
        """
        super().__init__()
        self.loss = loss
        own = getattr(loss, "original", None)  # a module that was given as a loss is trained as it is
        self.original = own if isinstance(own, torch.nn.Module) else None
        self._share = share
        self._settings = learned_settings(loss) if learnable else ()
        start = dict(one.parameter for one in self._settings)
        self.values = torch.nn.ParameterDict(
            {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start.items()}
        )

    @property
    def current(self) -> Any:
        """The loss with its present values, as numbers.

        Raises:
            GradlabError: training has driven a value out of its range.
        """
        return with_settings(self.loss, self._numbers())

    def forward(self, *args: Any, **options: Any) -> Tensor:
        """The loss; arguments and errors as `gradlab.Loss.__call__`.

        Raises:
            GradlabError: as the loss; training has driven a value out of its range.
        """
        self._numbers()  # raises
        value: Tensor = self._with(self._tensors())(*args, **options)
        return value

    def statistics(self) -> dict[str, float]:
        """The present values by the names of the settings, with their whole path where two share a name."""
        last = [path[-1] for path in self._tensors()]
        return {
            path[-1] if last.count(path[-1]) == 1 else "_".join(path): value
            for path, value in self._numbers().items()
        }

    def extra_repr(self) -> str:
        """The loss that training starts from."""
        return repr(self.loss)

    def _with(self, values: Mapping[Path, Any]) -> Any:
        """The loss with other values of its settings."""
        return with_settings(self.loss, values) if values else self.loss

    def _tensors(self) -> dict[Path, Tensor]:
        found = {}
        for setting in self._settings:
            trained = self.values[setting.parameter[0]]
            if self._share != 1:
                trained = trained * self._share + (trained * (1 - self._share)).detach()
            found[setting.path] = setting.value_from(trained)
        return found

    def _numbers(self) -> Mapping[Path, float]:
        compiled = torch.compiler.is_compiling()  # then no number can be read back
        with torch.no_grad():
            for setting in self._settings:
                trained = self.values[setting.parameter[0]]
                if setting.least is not None and (compiled or trained < setting.least):
                    trained.clamp_(min=setting.least)
            tensors = self._tensors()
            if compiled:
                for path, value in tensors.items():
                    torch._assert_async(value.isfinite(), f"the learned {path[-1]} is not finite any more")
                return {}
            found = {path: float(value) for path, value in tensors.items()}
        for setting in self._settings:
            _check(setting, found[setting.path])
        return found


def learned_numbers(
    parameters: Iterable[tuple[str, Tensor]], gradients: Iterable[Tensor | None] = ()
) -> dict[str, float]:
    """What a loss has learned, to be recorded: a number a parameter, of one with several entries its length.

    Args:
        parameters: with their names, of which the last part counts where it is that of one alone.
        gradients: in the same order; those that are missing are left out.
    """
    named, found = list(parameters), {}
    last = [name.rpartition(".")[2] for name, _ in named]
    given = [*gradients, *[None] * len(named)]
    for (name, value), short, gradient in zip(named, last, given, strict=False):
        label = f"learned_{short if last.count(short) == 1 else name}"
        for key, one in ((label, value), (f"{label}_gradient", gradient)):
            if one is not None:
                found[key] = float(one.detach() if one.numel() == 1 else one.detach().norm())
    return found


def _check(setting: LearnedSetting, value: float) -> None:
    name, owner = setting.path[-1], setting.owner
    try:
        declarations(type(owner))[name].check(value)
        # A positive one is divided by: float32 must have its reciprocal, too.
        inside = not setting.positive or _TINY < value < 1 / _TINY
    except GradlabError:
        inside = False
    if not inside or not math.isfinite(value):
        fix = f", or fix it with {setting.how_to_fix}" if setting.how_to_fix else ""
        raise GradlabError(
            f"training drove the learnable {name} of {owner.name} to {value:g}; lower the learning rate{fix}"
        )

"""Losses whose hyper-parameters are learned with the encoder, as SigLIP's temperature and bias."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss

Path = tuple[str, ...]  # the hyper-parameter, behind the combinators that lead to its loss


def learnable(loss: str | Loss, *, share: float = 1.0) -> LearnableLoss:
    """A loss as a module, whose trainable parameters are the hyper-parameters that it learns (`gradlab.Loss.learned`).

    Args:
        loss: a loss that learns some, such as ``"siglip"``, a combinator of one, or their names.
        share: factor on the parameters' gradient, 1/P where P processes each compute the whole loss and sum.

    Raises:
        GradlabError: an unknown loss, or one that learns nothing.

    Example:
        >>> import torch
        >>> criterion = learnable("siglip")
        >>> optimiser = torch.optim.AdamW(criterion.parameters(), lr=0.01)
        >>> sorted(name for name, _ in criterion.named_parameters())
        ['values.bias', 'values.log_temperature']
    """
    return LearnableLoss(loss, share=share)


def learned_settings(loss: Loss) -> list[Path]:
    """The hyper-parameters that a loss, or what a combinator changes, learns."""
    return list(_learned(loss, ()))


class LearnableLoss(torch.nn.Module):
    """A loss with trainable hyper-parameters; called like the loss, on torch tensors.

    Numbers that must be positive are learned as logarithms, the others as they are.

    Attributes:
        start: the loss with the values that training starts from.
        values: the parameters, float32 scalars, by name.
    """

    def __init__(self, loss: str | Loss, *, share: float = 1.0) -> None:
        """See `learnable`."""
        super().__init__()
        self.start = get_loss(loss)
        self._share = share
        self._paths = learned_settings(self.start)
        if not self._paths:
            raise GradlabError(f"{self.start.name} learns no hyper-parameter; use the loss as it is")
        self.values = torch.nn.ParameterDict()
        for path in self._paths:
            value = _value(self.start, path)
            number = math.log(value) if _is_positive(self.start, path) else value
            self.values[self._name(path)] = torch.nn.Parameter(torch.tensor(float(number)))

    @property
    def current(self) -> Loss:
        """The loss with the values of now.

        Raises:
            GradlabError: training has driven a value out of its range.
        """
        with torch.no_grad():
            numbers = {path: float(value) for path, value in self._tensors().items()}
        for path, number in numbers.items():
            if not math.isfinite(number) or (_is_positive(self.start, path) and not _divides(number)):
                raise GradlabError(
                    f"training drove the learnable {path[-1]} of {self.start.name} to {number:g}; lower the learning "
                    "rate, or hold it with learnable=false"
                )
        return _with(self.start, numbers)

    def forward(self, *args: Any, **options: Any) -> torch.Tensor:
        """The loss; arguments and errors as `gradlab.Loss.__call__`.

        Raises:
            GradlabError: as the loss; training has driven a value out of its range.
        """
        _ = self.current  # raises
        value: torch.Tensor = _with(self.start, self._tensors())(*args, **options)
        return value

    def statistics(self) -> dict[str, float]:
        """The values of now, by the names of the hyper-parameters."""
        current = self.current
        return {path[-1]: _value(current, path) for path in self._paths}

    def extra_repr(self) -> str:
        """The loss that training starts from."""
        return repr(self.start)

    def _tensors(self) -> dict[Path, torch.Tensor]:
        found = {}
        for path in self._paths:
            value = self.values[self._name(path)]
            if self._share != 1:
                value = value * self._share + (value * (1 - self._share)).detach()
            found[path] = value.exp() if _is_positive(self.start, path) else value
        return found

    def _name(self, path: Path) -> str:
        name = "_".join(path)
        return f"log_{name}" if _is_positive(self.start, path) else name


def _learned(loss: Loss, prefix: Path) -> Iterator[Path]:
    for name in loss.learned:
        yield (*prefix, name)
    inner = getattr(loss, "loss", None)
    if isinstance(inner, Loss):
        yield from _learned(inner, (*prefix, "loss"))


def _value(loss: Loss, path: Path) -> float:
    owner: Any = loss
    for name in path:
        owner = getattr(owner, name)
    return float(owner)


def _is_positive(loss: Loss, path: Path) -> bool:
    owner: Any = loss
    for name in path[:-1]:
        owner = getattr(owner, name)
    rule: str | None = type(owner).__dataclass_fields__[path[-1]].metadata.get("rule")
    return rule == "positive"


def _divides(number: float) -> bool:
    """Whether float32 has a number and its reciprocal."""
    least = torch.finfo(torch.float32).tiny
    return least < number < 1 / least


def _with(loss: Loss, values: Mapping[Path, Any]) -> Loss:
    """The loss with other values, which may be tensors and are not checked."""
    changed = copy.copy(loss)
    inner: dict[Path, Any] = {}
    for path, value in values.items():
        if len(path) == 1:
            object.__setattr__(changed, path[0], value)
        else:
            inner[path[1:]] = value
    if inner:
        object.__setattr__(changed, "loss", _with(changed.loss, inner))  # type: ignore[attr-defined]  # a combinator has one
    return changed

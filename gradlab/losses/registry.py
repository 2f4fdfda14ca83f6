"""Losses by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gradlab.errors import GradlabError, nearest
from gradlab.losses.specs import parse_spec
from gradlab.settings.declaration import parse_parameters
from gradlab.settings.registry import Registry, check_fields

if TYPE_CHECKING:
    from gradlab.losses.base import Loss

_registry: Registry[Loss] = Registry("a loss", "gradlab.losses", order=lambda cls: cls.table_order)
L = TypeVar("L", bound="type[Loss]")


def register(name: str) -> Callable[[L], L]:
    """Class decorator: make a loss reachable as ``gradlab.get_loss(name)``, from every command and test.

    Raises:
        GradlabError: if another class already has the name.
    """
    return _registry.register(name)


def loss_names() -> list[str]:
    """Names of all registered losses, in the order of the papers' tables."""
    return _registry.names()


def loss_class(name: str) -> type[Loss]:
    """The class registered under ``name``, which may be followed by settings in parentheses.

    Raises:
        GradlabError: unknown name; the message suggests the nearest one.
    """
    return _registry.find(parse_spec(name)[0])


def get_loss(name: str | Loss, *, preset: str | None = None, **hyperparameters: Any) -> Loss:
    """A loss by name, with the published settings unless told otherwise.

    Args:
        name: one of `loss_names`, or a text such as ``"mpt(margin=0.3)"``; a loss object is returned as it is,
            or with other hyper-parameters.
        preset: the name of other published settings, one of the loss's ``presets``, such as ``"roberta"``; in a
            text ``"modified_mhe(preset=roberta)"``.
        **hyperparameters: fields of the loss, such as ``temperature=0.1``; angles in radians. They come
            before the preset.

    Raises:
        GradlabError: unknown loss, preset or hyper-parameter, or a value out of range.

    Example:
        >>> get_loss("arccon", temperature=0.1)
        ArcCon(temperature=0.1, margin=0.17453292519943295)
    """
    if isinstance(name, str):
        cls = loss_class(name)
        texts = parse_spec(name)[1]
        preset = texts.pop("preset", preset)
        given = parse_parameters(cls, texts)
    else:
        cls = type(name)
        given = {field.name: getattr(name, field.name) for field in dataclasses.fields(name)}
    check_fields(cls, hyperparameters, "hyper-parameter")
    if preset is not None:
        given = _preset(cls, preset) | given if isinstance(name, str) else given | _preset(cls, preset)
    elif not isinstance(name, str) and not hyperparameters:
        return name
    return cls.build(**given | hyperparameters)


def _preset(cls: type[Loss], preset: str) -> dict[str, Any]:
    if preset not in cls.presets:
        known = ", ".join(cls.presets) or "none"
        raise GradlabError(
            f"{cls.name} has no preset {preset!r}; it has: {known}.{nearest(preset, cls.presets)}"
        )
    return dict(cls.presets[preset].hyperparameters)

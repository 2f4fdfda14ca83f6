"""Losses by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gradlab.errors import GradlabError, nearest
from gradlab.geometry.embeddings import CONTEXT
from gradlab.losses.base import Loss
from gradlab.settings import declarations, names_arguments, parse_settings
from gradlab.settings.registry import Registry

_registry: Registry[Loss] = Registry("a loss", "gradlab.losses", order=lambda cls: cls.table_order)
L = TypeVar("L", bound="type[Loss]")


def register(name: str) -> Callable[[L], L]:
    """Class decorator: make a loss reachable as ``gradlab.get_loss(name)``, from every command and test.

    Raises:
        GradlabError: if another class already has the name.
    """
    return _registry.register(name)


def loss_names() -> list[str]:
    """Names of all registered losses, in the order of the papers' tables; without those of `combinator_names`."""
    return [name for name in _registry.names() if not _registry.classes[name].is_combinator]


def combinator_names() -> list[str]:
    """Names of what changes another loss, such as ``symmetric``."""
    return [name for name in _registry.names() if _registry.classes[name].is_combinator]


def loss_class(name: str) -> type[Loss]:
    """The class registered under ``name``, which may be followed by settings in parentheses.

    Raises:
        GradlabError: unknown name; the message suggests the nearest one.
    """
    return _registry.read(name)[0]


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
        GradlabError: unknown loss, preset or hyper-parameter, a value out of range, or no loss at all.

    Example:
        >>> get_loss("arccon", temperature=0.1)
        ArcCon(temperature=0.1, margin=0.17453292519943295)
    """
    if isinstance(name, str):
        cls, texts = _registry.read(name)
        given = parse_hyperparameters(cls, texts) if texts else {}
        return _build(cls, {"preset": preset} | given, hyperparameters)
    if not isinstance(name, Loss):
        kind = "class" if isinstance(name, type) else "function" if callable(name) else type(name).__name__
        raise GradlabError(
            f"a loss is wanted, by its name such as 'infonce' or as an object of gradlab.Loss, not a {kind}; "
            "gradlab.decompose takes any function of two views"
        )
    if preset is None and not hyperparameters:
        return name
    cls = type(name)
    own = {field.name: getattr(name, field.name) for field in dataclasses.fields(name)}
    return _build(cls, own, ({} if preset is None else _preset(cls, preset)) | hyperparameters)


def _belongs_to_loss(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> str:
    loss = args[0] if args else given.get("loss")
    if not isinstance(loss, (str, Loss)):
        return ""
    known = get_loss(loss)
    if name not in declarations(type(known)):
        return ""
    shown = repr(loss) if isinstance(loss, str) else known.name
    return f"; it is a hyper-parameter of the loss: gradlab.get_loss({shown}, {name}={given[name]!r})"


takes_loss = names_arguments(_belongs_to_loss, passed_on=CONTEXT)
"""Decorator of a public function of a loss: an unknown keyword is told in one line, see `names_arguments`."""


def read_loss(name: str, texts: Mapping[str, str]) -> Loss:
    """The loss of a text such as ``"mpt(margin=0.3)"`` with more settings, themselves texts; these come first.

    Raises:
        GradlabError: as `get_loss`; a text that is not of its setting's type.
    """
    cls, own = _registry.read(name)
    return _build(cls, parse_hyperparameters(cls, own | dict(texts)))


def parse_hyperparameters(cls: type[Loss], texts: Mapping[str, str]) -> dict[str, Any]:
    """Typed values of hyper-parameters given as texts; a ``preset`` stays the name that it is.

    Raises:
        GradlabError: an unknown name, or a text that is not of its setting's type.
    """
    own = {name: text for name, text in texts.items() if name != "preset"}
    preset = {"preset": texts["preset"]} if "preset" in texts else {}
    return {**preset, **parse_settings(cls, own)}


def _build(cls: type[Loss], *given: Mapping[str, Any]) -> Loss:
    """A loss from settings, later ones before earlier ones, all of them before their preset."""
    values: dict[str, Any] = {}
    for one in given:
        values |= one
    preset = values.pop("preset", None)
    return cls.build(**({} if preset is None else _preset(cls, preset)) | values)


def _preset(cls: type[Loss], preset: str) -> dict[str, Any]:
    if preset not in cls.presets:
        known = ", ".join(cls.presets) or "none"
        raise GradlabError(
            f"{cls.name} has no preset {preset!r}; it has: {known}.{nearest(preset, cls.presets)}"
        )
    return dict(cls.presets[preset].hyperparameters)

"""Hyper-parameters that describe and check themselves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from gradlab.errors import GradlabError, nearest

_RULES = {
    "positive": (lambda x: x > 0, "greater than 0"),
    "non-negative": (lambda x: x >= 0, "at least 0"),
    "angle": (lambda x: abs(x) <= math.pi, "an angle in radians, between -π and π (10° is 0.1745)"),
    "any": (lambda x: True, "a finite number"),
}


def parameter(
    default: Any, text: str, *, rule: str = "any", unit: str = "", choices: tuple[str, ...] = ()
) -> Any:
    """A dataclass field for a hyper-parameter.

    Args:
        default: the published setting.
        text: what it is, a few words.
        rule: ``"positive"``, ``"non-negative"``, ``"angle"`` or ``"any"`` (finite) for numbers; ``"text"`` where the class
            itself reads and checks what it is given.
        unit: such as ``"radians"``; empty for pure numbers.
        choices: the admissible values of a named option.
    """
    metadata = {"text": text, "rule": rule, "unit": unit, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


def check_parameters(instance: Any) -> None:
    """Check every field of a dataclass made of `parameter` fields.

    Raises:
        GradlabError: a value that is not a number, NaN, or breaks its rule; none of the choices.
    """
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        choices = field.metadata.get("choices", ())
        if choices and value not in choices:
            words = " or ".join(repr(choice) for choice in choices)
            raise GradlabError(f"{field.name} must be {words}, not {value!r}")
        rule = field.metadata.get("rule")
        if rule is None or rule == "text" or isinstance(field.default, (bool, str)):
            continue
        holds, words = _RULES[rule]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not holds(value):
            raise GradlabError(f"{field.name} must be {words}, not {value!r}")


def parse_parameters(cls: type, texts: Mapping[str, str]) -> dict[str, Any]:
    """Turn ``{"temperature": "0.1"}`` into typed values for the dataclass ``cls``.

    Raises:
        GradlabError: an unknown name, or a text that is not of the field's type.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise GradlabError(
                f"unknown hyper-parameter {name!r}; there are: {known}.{nearest(name, fields)}"
            )
        values[name] = _parse(name, text, fields[name])
    return values


def _parse(name: str, text: str, field: dataclasses.Field) -> Any:
    if isinstance(field.default, bool):
        if text.lower() not in {"true", "false"}:
            raise GradlabError(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"
    if isinstance(field.default, str) or field.metadata.get("rule") == "text":
        return text
    try:
        return float(text)
    except ValueError:
        raise GradlabError(f"{name} must be a number, not {text!r}") from None

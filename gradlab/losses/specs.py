"""Losses as short texts, such as ``mpt(margin=0.3)``, for the command line, files and parts of other losses."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from gradlab.errors import GradlabError

if TYPE_CHECKING:
    from gradlab.losses.base import Loss


def parse_spec(text: str) -> tuple[str, dict[str, str]]:
    """Split ``"mpt(margin=0.3)"`` into ``("mpt", {"margin": "0.3"})``; a bare name has no settings.

    Values may themselves be such texts; quotes around a value are dropped.

    Raises:
        GradlabError: a text of another form.
    """
    name, opened, rest = text.strip().partition("(")
    settings: dict[str, str] = {}
    for item in _split(rest.removesuffix(")")) if opened else []:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (equals and key.isidentifier() and value) or key in settings:
            raise _malformed(text)
        settings[key] = value.strip("'\"")
    if not name or (opened and not rest.endswith(")")):
        raise _malformed(text)
    return name.strip(), settings


def _split(text: str) -> list[str]:
    """At the commas outside of parentheses."""
    items, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
        if depth < 0:
            break
    if depth:
        raise _malformed(text)
    return items if any(item.strip() for item in items) else []


def _malformed(text: str) -> GradlabError:
    return GradlabError(f"{text!r} is not of the form name(setting=value, ...), such as mpt(margin=0.3)")


def spec(loss: Loss) -> str:
    """The text from which `gradlab.get_loss` makes an equal loss; settings at their defaults are left out.

    Example:
        >>> from gradlab import get_loss
        >>> spec(get_loss("mpt", margin=0.3))
        'mpt(margin=0.3)'
    """
    changed = [
        f"{field.name}={_plain(getattr(loss, field.name))}"
        for field in dataclasses.fields(loss)
        if getattr(loss, field.name) != field.default
    ]
    name = vars(type(loss)).get("name") or type(loss).__qualname__  # a subclass inherits a name not its own
    return f"{name}({', '.join(changed)})" if changed else name


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, str) else repr(value)

"""Settings and calls as people write them: ``name=value``, and ``mpt(margin=0.3)``, read and written."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any

from gradlab.errors import GradlabError

# A name, or an object of one's own such as ``file.py:Name``, perhaps with settings.
_CALL = re.compile(r"\s*([\w./\\-]+:)?[A-Za-z_][\w.]*\s*(\(.*\)\s*)?$", re.DOTALL)


def read_assignments(texts: Iterable[str]) -> dict[str, str]:
    """``("a=1", "b=2")`` -> ``{"a": "1", "b": "2"}``; of a name given twice the last counts.

    Raises:
        GradlabError: a text without name or ``=``.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise GradlabError(f"--set takes NAME=VALUE such as temperature=0.1, not {text!r}")
        values[name] = value
    return values


def read_json(text: str) -> Any:
    """A value of no declared type: as JSON where it is JSON (a number, true, null, a list), else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_call(text: str) -> tuple[str, dict[str, str]]:
    """Split ``"mpt(margin=0.3)"`` into ``("mpt", {"margin": "0.3"})``; a bare name has no settings.

    Values may themselves be such texts; quotes around a value are dropped. First values without a name, as in
    ``"symmetric(infonce)"``, have together the name ``""``.

    Raises:
        GradlabError: a text of another form.
    """
    name, opened, rest = text.strip().partition("(")
    if name and not opened:
        return name, {}
    try:
        items = split_texts(rest.removesuffix(")"))
        first = next((at for at, item in enumerate(items) if not _CALL.match(item)), len(items))
        settings = read_assignments(items[first:])
    except GradlabError:
        raise _malformed(text) from None
    whole = all(key.isidentifier() and value for key, value in settings.items())
    if not name or not rest.endswith(")") or len(settings) + first < len(items) or not whole:
        raise _malformed(text)
    if first:
        settings = {"": ", ".join(item.strip() for item in items[:first]), **settings}
    return name.strip(), {key: value.strip("'\"") for key, value in settings.items()}


def call_text(instance: Any) -> str:
    """The text from which a registry makes an equal object; settings at their defaults are left out.

    Example:
        >>> from gradlab import get_loss
        >>> call_text(get_loss("mpt", margin=0.3))
        'mpt(margin=0.3)'
    """
    if own := getattr(instance, "given_as", ""):  # of a loss that is not registered
        return str(own)
    first = getattr(instance, "first_setting", "")
    changed = [plain_text(getattr(instance, first))] if first else []
    changed += [
        f"{field.name}={plain_text(getattr(instance, field.name))}"
        for field in dataclasses.fields(instance)
        if field.name != first and getattr(instance, field.name) != field.default
    ]
    # A subclass inherits a name that is not its own.
    name = vars(type(instance)).get("name") or type(instance).__qualname__
    return f"{name}({', '.join(changed)})" if changed else name


def split_texts(text: str) -> list[str]:
    """The texts in ``"infonce, mpt(margin=0.3)"``: it is split at the commas outside of parentheses.

    Raises:
        GradlabError: parentheses that do not match.
    """
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


def plain_text(value: Any) -> str:
    """A setting's value as it stands in `call_text`, such as ``infonce, gor`` for a tuple of losses."""
    if isinstance(value, tuple) and all(map(dataclasses.is_dataclass, value)) and value:
        return ", ".join(map(plain_text, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return call_text(value)
    return str(value) if isinstance(value, str) else repr(value)

"""Read settings and calls as text: ``name=value`` and ``mpt(margin=0.3)``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from gradlab.errors import GradlabError

# A name, or a user's object such as ``file.py:Name``, optionally with settings.
_CALL = re.compile(r"\s*([\w./\\-]+:)?[A-Za-z_][\w.]*\s*(\(.*\)\s*)?$", re.DOTALL)

# Limits of a call as text, far above the losses that people write.
MAX_LENGTH, MAX_DEPTH = 10_000, 32


def read_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``("a=1", "b=2")`` into ``{"a": "1", "b": "2"}``; of a repeated name, the last counts.

    Raises:
        GradlabError: a text without a name or ``=``.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (half.strip() for half in text.partition("="))
        if not equals or not name:
            raise GradlabError(f"a setting is NAME=VALUE such as temperature=0.1, not {text!r}")
        values[name] = value
    return values


def read_json(text: str) -> Any:
    """Return the value of a JSON text (number, true, null, list), or the text if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_call(text: str) -> tuple[str, dict[str, str]]:
    """Split ``"mpt(margin=0.3)"`` into ``("mpt", {"margin": "0.3"})``; a bare name has no settings.

    Values may be such texts themselves; quotes around a value are dropped. Leading values without a
    name, as in ``"symmetric(infonce)"``, are joined under the name ``""``.

    Raises:
        GradlabError: malformed text.
    """
    _check_size(text)
    name, opened, arguments = text.strip().partition("(")
    if name and not opened:
        return name, {}
    try:
        items = split_texts(arguments.removesuffix(")"))
        first = next((at for at, item in enumerate(items) if not _CALL.match(item)), len(items))
        settings = read_assignments(items[first:])
    except GradlabError:
        raise _malformed(text) from None
    whole = all(key.isidentifier() and value for key, value in settings.items())
    if not name or not arguments.endswith(")") or len(settings) + first < len(items) or not whole:
        raise _malformed(text)
    if first:
        settings = {"": ", ".join(item.strip() for item in items[:first]), **settings}
    return name.strip(), {key: value.strip("'\"") for key, value in settings.items()}


def split_texts(text: str) -> list[str]:
    """Split ``"infonce, mpt(margin=0.3)"`` at the commas outside of parentheses.

    Raises:
        GradlabError: unbalanced parentheses.
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


def _check_size(text: str) -> None:
    """Raise `GradlabError` for a text that is too long or too deep to read."""
    if len(text) > MAX_LENGTH:
        raise GradlabError(
            f"a text of {len(text):,} characters is no loss: at most {MAX_LENGTH:,} are read"
        )
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(depth, deepest)
    if deepest > MAX_DEPTH:
        raise GradlabError(
            f"parentheses {deepest:,} deep are no loss: at most {MAX_DEPTH} are read, "
            f"in {text[:40]!r}…"
        )


def _malformed(text: str) -> GradlabError:
    return GradlabError(
        f"{text!r} is not of the form name(setting=value, ...), such as mpt(margin=0.3)"
    )

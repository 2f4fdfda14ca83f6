"""Pages from templates in a package's folder ``templates``; those that all pages share are here."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from gradlab._version import __version__


def render(
    package: str, template: str, filters: Mapping[str, Callable[..., str]] | None = None, **content: Any
) -> str:
    """Return a filled-in template of a package; texts in HTML pages are escaped."""
    environment = _environment(package)
    environment.filters |= filters or {}
    return environment.get_template(template).render(version=__version__, **content)


def script_json(value: Any) -> Markup:
    """Return JSON for a script element; no text in it can close the element or open another one."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@functools.cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("gradlab.report")]),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

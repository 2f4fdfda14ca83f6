"""Pages from templates in a package's ``templates``."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from gradlab._version import __version__
from gradlab.errors import counted
from gradlab.numbers import percent, percent_exactly, short


def render(
    package: str | Path,
    template: str,
    filters: Mapping[str, Callable[..., str]] | None = None,
    **content: Any,
) -> str:
    """Return a filled-in template of a package, or of a folder; HTML escapes texts."""
    environment = _environment(package)
    environment.filters |= filters or {}
    return environment.get_template(template).render(version=__version__, **content)


def script_json(value: Any) -> Markup:
    """Return JSON for a script element; no text in it can close the element or open another one."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


# Characters that Markdown gives a meaning within a line, and those at the start of an address.
_MARKED = re.compile(r"([\\`*_{}\[\]#|~!$])")


def markdown_text(text: Any) -> str:
    """Return a text as one line of Markdown that shows it literally: no markup, link or HTML."""
    line = " ".join(str(text).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _MARKED.sub(r"\\\1", line)
    line = line.replace("://", "&#58;//").replace("@", "&#64;<!-- -->")
    line = re.sub(r"(?i)\bwww\.", r"www<!-- -->.", line)
    # A list or a rule at the start of a line.
    return re.sub(r"^(\d+(?=[.)](?:\s|$))|(?=[-+=]))", r"\1\\", line)


@functools.cache
def _environment(package: str | Path) -> jinja2.Environment:
    of_package = (
        jinja2.FileSystemLoader(package)
        if isinstance(package, Path)
        else jinja2.PackageLoader(package)
    )
    places = [of_package, jinja2.PackageLoader("gradlab")]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(places),
        autoescape=jinja2.select_autoescape(["html"], default_for_string=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    number_filters = {
        "counted": counted,
        "exactly": percent_exactly,
        "percent": percent,
        "short": short,
    }
    environment.filters |= number_filters | {"whole": "{:,}".format, "md": markdown_text}
    environment.tests["nan"] = math.isnan
    return environment

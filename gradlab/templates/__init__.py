"""Pages from templates in a package's ``templates``, and sentences that apply under conditions."""

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
from gradlab.files import read_packaged
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


def applying(package: str, rules: str, names: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the rules of a package's TOML file that apply.

    Of each group, this is the first whose condition holds. Conditions (``when``) are expressions of
    Jinja in ``names``. All other values are templates, which are returned filled in.
    """
    selected = (
        next((texts for holds, texts in group if holds(names)), None)
        for group in _rules(package, rules)
    )
    return [{key: text.render(names) for key, text in texts.items()} for texts in selected if texts]


# A condition of names, and the texts of the rule that it selects.
Rule = tuple[Callable[..., Any], dict[str, jinja2.Template]]


@functools.cache
def _rules(package: str, file: str) -> list[list[Rule]]:
    """Compile the groups of a file of rules: the condition of each, and its other values."""
    environment = _environment("gradlab")  # rules include no template of their package
    return [
        [
            (
                environment.compile_expression(rule["when"], undefined_to_none=False),
                {key: environment.from_string(text) for key, text in rule.items() if key != "when"},
            )
            for rule in group
        ]
        for group in read_packaged(package, file).values()
    ]


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
    named = {"counted": counted, "exactly": percent_exactly, "percent": percent, "short": short}
    environment.filters |= named | {"whole": "{:,}".format, "md": markdown_text}
    environment.tests["nan"] = math.isnan
    return environment

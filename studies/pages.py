"""Pages in Markdown from the templates of a study."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(
    study: str, template: str, filters: Mapping[str, Callable[..., Any]], **content: Any
) -> str:
    """Return a page from a template of a study, in which no two blank lines follow one another."""
    templates = Environment(
        loader=PackageLoader(f"studies.{study}"), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters |= filters
    text = templates.get_template(template).render(**content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

"""Pages from templates, which lie in the folder ``templates`` of the package that they belong to."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape


def render(package: str, template: str, **content: Any) -> str:
    """A template filled in; in pages of HTML every text is escaped.

    Args:
        package: in whose folder ``templates`` it lies.
        template: its file's name.
        content: what it refers to.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**content)

"""Pages from templates, which lie in the folder ``templates`` of the package that they belong to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from gradlab._version import __version__


def render(
    package: str, template: str, filters: Mapping[str, Callable[..., str]] | None = None, **content: Any
) -> str:
    """A template of a package's folder ``templates`` filled in; in pages of HTML every text is escaped."""
    environment = _environment(package)
    environment.filters |= filters or {}
    return environment.get_template(template).render(version=__version__, **content)


@functools.cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

"""`NotebookView`: pages in a notebook that are shown anew while a run is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


class NotebookView:
    """Shows HTML in cells of a notebook, and replaces it."""

    def __init__(self) -> None:
        self._handles: list[Any] = []  # of the cells

    def show(self, html: str) -> None:
        """Show HTML in one more cell."""
        from IPython.display import HTML, display

        handle = display(HTML(html), display_id=True)
        self._handles += [] if handle is None else [handle]

    def update(self, html: Callable[[], str]) -> None:
        """Replace what the cells show by HTML, which is made only if there are any."""
        if not self._handles:
            return
        from IPython.display import HTML

        with contextlib.suppress(Exception):  # neither a closed notebook nor its page ends a run
            page = HTML(html())
            for handle in self._handles:
                handle.update(page)

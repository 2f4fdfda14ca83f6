"""Looking at a result as a picture, a table or a notebook's output; what computes imports nothing that draws."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

from gradlab.errors import GradlabError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

_ROWS = 12  # that a notebook shows of a table; of a longer one it shows a summary


class Shown:
    """A result that has a picture, a table and a compact form in a notebook.

    Attributes:
        artist: the function that draws it, "module:name"; the module is imported for the first picture. Empty without one.
    """

    artist: ClassVar[str] = ""

    def to_frame(self) -> DataFrame:
        """Its table, as a pandas DataFrame, from a method ``columns`` where the class has no other."""
        import pandas as pd

        made_of: Any = self
        return pd.DataFrame(made_of.columns())

    def plot(
        self, ax: Axes | None = None, *, style: str | None = None, width: str | None = None
    ) -> tuple[Figure, Any]:
        """Draw it with matplotlib.

        Args:
            ax: axis to draw on; None makes a figure.
            style: ``"paper"`` for print, see `gradlab.plotting.plot_style`; None for the screen.
            width: of a figure for print: ``"column"`` or ``"page"``; None for what fits its panels.

        Returns:
            The figure and its axis, or a list of axes where the figure has several panels.

        Raises:
            GradlabError: there is nothing to draw, or an unknown style or width.
        """
        if not self.artist:
            raise GradlabError(f"{type(self).__name__} has no picture; look at to_frame()")
        module, _, name = self.artist.partition(":")
        artist = getattr(importlib.import_module(module), name)
        look = importlib.import_module("gradlab.plotting.style").style
        with look(style, width):
            drawn: tuple[Figure, Any] = artist(self, ax)
        return drawn

    def headline(self) -> str:
        """What stands above the table in a notebook."""
        return repr(self).splitlines()[0]

    def brief(self) -> DataFrame:
        """The table that a notebook shows: the whole, or of more than a dozen rows the range of each number."""
        frame = self.to_frame()
        if len(frame) <= _ROWS:
            return frame
        numbers = frame.select_dtypes("number").drop(columns="anchor", errors="ignore")
        return numbers.agg(["mean", "min", "median", "max"]).T.dropna()

    def _repr_html_(self) -> str:
        import html

        text = html.escape(self.headline()).replace("\n", "<br>")
        table = self.brief().to_html(float_format="{:.3g}".format, border=0, max_rows=2 * _ROWS)
        return f"<p>{text}</p>{table}"

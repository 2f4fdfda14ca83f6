"""`Drawable`: results with a plot, a table and a notebook view.

Computing modules import no plotting library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradlab.errors import GradlabError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

_ROWS = 12  # rows of a table in a notebook; longer tables are summarised


class Drawable:
    """A result with a plot, a table and a compact view in a notebook.

    Attributes:
        artist: drawing function, ``"module:name"``, imported on first use; empty without a plot.
        shown: names of the attributes that people use, at most twenty with `details`; empty if all
            are. Completion and ``dir`` list these, and `details` the rest.
    """

    artist: ClassVar[str] = ""
    shown: ClassVar[tuple[str, ...]] = ()

    def __dir__(self) -> list[str]:
        if not self.shown:
            return sorted(super().__dir__())
        private = [name for name in super().__dir__() if name.startswith("_")]
        return sorted([*private, *self.shown, "details"])

    @property
    def details(self) -> Details:
        """What only some need: attributes that completion does not list."""
        return Details(self)

    def to_frame(self) -> DataFrame:
        """Return the result as a pandas DataFrame.

        Its columns are, by default, those from the method ``columns``.
        """
        import pandas as pd

        made_of: Any = self
        return pd.DataFrame(made_of.columns())

    def plot(
        self, ax: Axes | None = None, *, style: str | None = None, width: str | None = None
    ) -> tuple[Figure, Any]:
        """Draw the result with matplotlib.

        Args:
            ax: axis to draw on; None creates a figure.
            style: ``"paper"`` for print, see `gradlab.plotting.plot_style`; None for the screen.
            width: width of a printed figure, ``"column"`` or ``"page"``; None fits the panels.

        Returns:
            The figure and its axis, or a list of axes if the figure has several panels.

        Raises:
            GradlabError: the result has no plot or nothing to draw, or style or width are unknown.
        """
        if not self.artist:
            raise GradlabError(f"{type(self).__name__} has no picture; look at to_frame()")
        module, _, name = self.artist.partition(":")
        artist = getattr(importlib.import_module(module), name)
        look = importlib.import_module("gradlab.plotting.style").style
        with look(style, width):
            picture: tuple[Figure, Any] = artist(self, ax)
        return picture

    def headline(self) -> str:
        """Return the text above the table in a notebook."""
        return repr(self).splitlines()[0]

    def brief(self) -> DataFrame:
        """Return the table for a notebook; beyond a dozen rows, statistics of numeric columns."""
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


class Details:
    """Attributes of a result beside those that people use; ``dir`` lists them."""

    def __init__(self, result: Drawable) -> None:
        self._result = result

    def __dir__(self) -> list[str]:
        result = self._result
        names = {name for name in object.__dir__(result) if not name.startswith("_")}
        return sorted(names - {*result.shown, "details", "shown"}) if result.shown else []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in dir(self):
            raise AttributeError(
                f"{type(self._result).__name__}.details has no attribute {name!r}; "
                f"it has {', '.join(dir(self))}"
            )
        return getattr(self._result, name)

    def __repr__(self) -> str:
        return f"Details of {type(self._result).__name__}: {', '.join(dir(self))}"


def span(array: np.ndarray) -> str:
    """Summarise an array as text, such as ``mean 0.42 (0.00013 to 1)``.

    Entries that are not finite are counted.
    """
    values = np.asarray(array, dtype=np.float64).ravel()
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "nowhere finite" if values.size else "empty"
    low, high = finite.min(), finite.max()
    same = f"{low:.3g}" == f"{high:.3g}"
    words = (
        f"{low:.3g} throughout" if same else f"mean {finite.mean():.3g} ({low:.3g} to {high:.3g})"
    )
    not_finite = values.size - finite.size
    return words + (f", {not_finite} not finite" if not_finite else "")

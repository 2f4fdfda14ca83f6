"""What an inspection found: numbers, advice, and the files that hold them."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.drawing import Shown
from gradlab.errors import GradlabError
from gradlab.files import versions, write_csv, write_json, write_text
from gradlab.inspection.advice import Advice, Place, advise
from gradlab.inspection.clean import distinct_rows
from gradlab.inspection.measured import TABLES, Measured
from gradlab.inspection.page import render
from gradlab.inspection.summary import summarize

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Inspection(Measured, Shown):
    """Which pairs of sentences carry the gradient; see `gradlab.find_false_negatives`.

    What was measured, the tables and their names are those of `Measured`. `plot` draws how unevenly sentences are pushed.
    """

    kind = "inspection"

    def to_frame(self) -> DataFrame:
        """The table of the candidates, likely false negatives; others are those of `table`."""
        return self.table("candidates")

    def headline(self) -> str:
        """The advice in words."""
        return "\n".join(f"{one.title} {one.text}" for one in self.advice)

    def brief(self) -> DataFrame:
        """The first candidates."""
        return self.to_frame().head(10)

    @functools.cached_property
    def numbers(self) -> dict[str, Any]:
        """What the advice is drawn from; see `gradlab.inspection.summary.summarize`."""
        return summarize(self)

    @functools.cached_property
    def advice(self) -> list[Advice]:
        """What to do about it, in words, the most costly finding first."""
        return advise(self.numbers)

    def masked(self) -> list[str]:
        """Lines for ``mask(LOSS, by=pairs)``: pairs of rows, then rows with hard negatives; see `gradlab.losses.mask.read_pairs`."""
        pairs = self.candidates.pairs_of_rows(), self.candidates.pairs_with_hard_negatives()
        return [",".join(map(str, numbers)) for part in pairs for numbers in part.tolist()]

    def distinct_rows(self) -> NDArray[np.int64]:
        """Rows that remain when each that repeats an earlier one is left out; see `gradlab.inspection.clean.distinct_rows`.

        Raises:
            GradlabError: only embeddings are known.
        """
        if self.texts is None:
            raise GradlabError(
                "embeddings alone do not tell which rows repeat others; inspect the sentences too"
            )
        return distinct_rows(self.candidates)

    def write(
        self,
        folder: str | os.PathLike[str],
        settings: Mapping[str, str] | None = None,
        command: str = "",
    ) -> list[Path]:
        """Write the tables as CSV, the page ``inspect.html``, the numbers ``inspect.json``, and ``mask.txt``.

        The latter lists the candidates for ``mask(LOSS, by=pairs, pairs=mask.txt)``, see `masked`. It is left out where
        it would hold more than a million pairs: a corpus with so many wants its duplicates removed.

        Args:
            folder: made if it is absent.
            settings: what ``inspect.json`` says that the inspection was made with; ``model`` and ``train_file`` of it
                stand in the commands that the page advises.
            command: the command line that inspects, likewise.

        Raises:
            GradlabError: if the folder cannot be written.
        """
        folder, written, settings = Path(folder), [], dict(settings or {})
        for name in TABLES:
            rows = self.table(name)
            path = folder / f"{name}.csv"
            if len(rows):
                written.append(write_csv(path, {column: rows[column].to_numpy() for column in rows}))
            else:
                path.unlink(missing_ok=True)  # what an earlier inspection left would be taken for this one's
        lines = self.masked() if self.can_mask else []
        if lines:
            lines = [f"# rows: {self.totals.count}", *lines]
            written.append(write_text(folder / "mask.txt", "".join(f"{line}\n" for line in lines)))
        else:
            (folder / "mask.txt").unlink(missing_ok=True)
        advice = self.advice_for(folder, settings, command)
        written.append(write_text(folder / "inspect.html", render(self, self.numbers, advice)))
        record = {
            "settings": settings,
            "results": _for_json(self.numbers) | {"advice": [f"{one.title} {one.text}" for one in advice]},
            "versions": versions("numpy", "torch", "transformers", "rensa", "usearch"),
        }
        return [*written, write_json(folder / "inspect.json", record)]

    def advice_for(
        self, folder: str | os.PathLike[str], settings: Mapping[str, str], command: str = ""
    ) -> list[Advice]:
        """The advice with commands and code to paste; arguments as of `write`."""
        known = {
            name: value for name in ("model", "train_file") if (value := settings.get(name, "None")) != "None"
        }
        return advise(self.numbers, Place(Path(folder), command, **known))


def _for_json(value: Any) -> Any:
    """The same with None for what is not finite, which JSON has not."""
    if isinstance(value, dict):
        return {name: _for_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_for_json(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value

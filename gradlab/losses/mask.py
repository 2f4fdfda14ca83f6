"""A combinator that leaves out pairs which are not negatives of each other."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, detach
from gradlab.batch.batch import Batch
from gradlab.batch.candidates import BESIDE, POOLS, Block
from gradlab.batch.roles import guide_cosines
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.combinator import ChangedRow, OtherCandidates
from gradlab.losses.pool import check_pools
from gradlab.losses.registry import register
from gradlab.settings import declarations, setting

# What the values of ``by`` take from the batch, and what to pass for it.
_ASKED_FOR = {
    "guide": ("guide", "guide=(anchors, positives), the guide's embeddings of the batch"),
    "given": ("mask", "mask=, booleans (N, N)"),
    "pairs": ("sentences", "sentences=, the numbers of the batch's sentences in the file"),
}
# The values of ``by`` that a setting belongs to.
_SETTING_OF = {
    "above": ("near_duplicates",),
    "margin": ("guide", "batch"),
    "margin_kind": ("guide", "batch"),
    "pairs": ("pairs",),
}
# Larger than any row number. A hard negative in column c has its row's number plus c times this.
_ROWS = 2**32


@register("mask")
class Mask(OtherCandidates):
    """Leave out some negatives of a loss, in all pools and both directions.

    ``by`` selects the pairs:

    - ``near_duplicates``: pairs with a cosine above the threshold ``above``;
    - ``guide``: pairs with another model's cosine above its cosine of the row's positive, less a
      margin, as in GISTEmbed (Solatorio 2024). Pass ``guide=(anchors, positives)``, the guide's
      embeddings of the batch;
    - ``batch``: pairs with a cosine above the positive's in their row, less a margin.
      Qwen3-Embedding leaves out pairs more than 0.1 above: ``margin=-0.1``. At 0, rounding decides
      about duplicates of the positive;
    - ``given``: pairs that are True in ``mask=``, (N, N), which must leave every anchor a negative;
    - ``pairs``: pairs of rows listed in a file, one per line in either order (``12,40``), or a
      row, the row of a hard negative and its column (``12,40,1``). Pass ``sentences=``: the
      rows of the batch's sentences and, if known, numbers of extra negatives (rows of a queue,
      or from ``hard_negative_numbers``).

    ``on`` names the pools that the mask acts on, joined by ``+``; nested masks can give each pool
    its own margin. Extra negatives of a positive belong to the pool ``positive_same``. "Above" is
    strict. An anchor without negatives gets no push and has the value 0; it gets no pull either if
    the pull of the loss depends on negatives. Means are still over all N anchors. The statistics
    ``masked_pairs`` and ``without_negatives`` are the shares of such pairs and anchors.
    """

    by: str = setting(
        "near_duplicates",
        "what leaves pairs out: near_duplicates, guide, batch, given, pairs",
        choices=("near_duplicates", "guide", "batch", "given", "pairs"),
    )
    above: float = setting(0.95, "cosine above which a pair is a near-duplicate")
    margin: float = setting(0.0, "margin below the cosine of the positive, by=guide or batch")
    margin_kind: str = setting(
        "absolute",
        "absolute, or relative to the size of the cosine of the positive",
        choices=("absolute", "relative"),
    )
    pairs: str = setting("", "file of pairs of sentences", rule="text")
    on: str = setting("", "pools that it acts on, joined by +; empty for all", rule="text")

    title = "mask"
    paper = "Solatorio (2024)"
    formula = "L without the negatives that a mask leaves out"
    not_simulated = "which pairs are left out does not depend on their angles alone"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kinds in _SETTING_OF.items():
            if self.by not in kinds and getattr(self, name) != declarations(Mask)[name].default:
                raise GradlabError(f"{name} needs by={' or by='.join(kinds)}, not by={self.by}")
        if self.by == "pairs":
            if not self.pairs:
                raise GradlabError("by=pairs needs pairs=FILE")
            read_pairs(self.pairs)  # refuses a bad file
        check_pools(self._pools)
        self._fix(looks_at=self.looks_at.union(_ASKED_FOR.get(self.by, ())[:1]))
        if self._known_by_angle:
            self._fix(not_simulated=self.loss.not_simulated)

    @property
    def _pools(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.on.split("+")) if self.on else (*POOLS, *BESIDE)

    def changed(self, row: ChangedRow) -> ChangedRow | None:
        above = min(row.above, self.above)
        return dataclasses.replace(row, above=above) if self._known_by_angle else None

    @property
    def _known_by_angle(self) -> bool:
        return self.by == "near_duplicates" and not self.on

    def inner_batch(self, batch: Batch) -> Batch:
        """Return the views with this mask as a further rule."""
        requirement = _ASKED_FOR.get(self.by)
        if requirement and getattr(batch, requirement[0]) is None:
            words = f"{requirement[1]}, given where the loss is called"
            raise GradlabError(f"mask(by={self.by}) needs {words}")
        return batch.with_candidates(rules=(*batch.candidates.rules, self))

    # The interface of `gradlab.batch.candidates.Rule`.

    @property
    def must_leave_negatives(self) -> bool:
        return self.by == "given"

    def left_out(
        self, block: Block, cosine: Float[Array, "n k"], batch: Any
    ) -> Bool[Array, "n k"] | None:
        """Return True for each pair of a block of a `Batch` that is left out; None if none is."""
        if block.name.replace("positive_extra", "positive_same") not in self._pools:
            return None
        if self.by == "near_duplicates":
            return cosine > self.above  # the same comparison as in `gates.without_near`
        if self.by == "given":
            mask: Bool[Array, "n k"] | None = block.mask
            return mask
        if self.by == "pairs":
            return self._file_pairs(block)
        if self.by == "guide":
            cosines, positive = guide_cosines(batch, block)
        else:
            cosines, positive = cosine, detach(batch.positive.cosine)
        margin = self.margin
        if self.margin_kind == "relative":
            margin = margin * array_namespace(positive).abs(positive)
        return cosines > (positive - margin)[:, None]

    def _file_pairs(self, block: Block) -> Bool[Array, "n k"] | None:
        """Return True for pairs that the file lists; None if the columns have no known numbers."""
        assert block.numbers is not None  # as the batch has numbers
        numbers, column_numbers = (array.tolist() for array in block.numbers)
        if not column_numbers:
            return None
        partners = read_pairs(self.pairs).partners
        if block.name == "own":
            rows = zip(numbers, column_numbers, strict=True)
            return np.array(
                [[column in partners.get(row, ()) for column in own] for row, own in rows]
            )
        columns: dict[int, list[int]] = {}
        for column, number in enumerate(column_numbers):
            columns.setdefault(number, []).append(column)
        out = np.zeros((len(numbers), len(column_numbers)), dtype=bool)
        for row, number in enumerate(numbers):
            for partner in partners.get(number, ()):
                out[row, columns.get(partner, [])] = True
        return out


def pairs_files(loss: Loss) -> list[str]:
    """Return the files of pairs of all masks in a loss; empty if it does not need row numbers."""
    return [mask.pairs for mask in loss.within if isinstance(mask, Mask) and mask.pairs]


def hard_negative_numbers(rows: Int[Array, "n"], column: int) -> Int[Array, "n"]:
    """Return numbers, (N,), of the hard negatives in a column, from 1, of 64-bit row numbers."""
    return rows + column * _ROWS


def check_pairs(loss: Loss, count: int) -> None:
    """Raise `GradlabError` if a file of pairs in the loss names a row not below ``count``."""
    for file in pairs_files(loss):
        largest = read_pairs(file).largest
        if largest >= count:
            raise GradlabError(
                f"{file} names sentence {largest}, but there are {count}, numbered from 0; "
                "give the pairs of this training file"
            )


def check_rows(loss: Loss, rows: Int[Array, "n"], first: bool) -> None:
    """Raise `GradlabError` for a batch's row numbers that cannot be of the inspected file.

    A mask would silently do nothing. Only of the ``first`` batch, if a file of pairs has no line
    ``# rows: N``, are they compared with the largest row that it lists.
    """
    numbers = rows.tolist()
    low, high, distinct = min(numbers), max(numbers), len(set(numbers))
    for file in pairs_files(loss):
        _, largest, inspected = read_pairs(file)
        wrong, hint = "", ""
        if low < 0:
            wrong = f"row {low}, but numbers start at 0"
        elif inspected is not None and high >= inspected:
            wrong = f"row {high}, but {inspected} rows were inspected"
        elif 2 * distinct < len(numbers):
            wrong = f"only {distinct} different rows in a batch of {len(numbers)}, as classes do"
        elif inspected is None and low > largest and first:
            wrong = f"rows {low} to {high}, but {file} lists rows up to {largest} only"
            hint = ", or the file a line '# rows: N' that says how many there are"
        if wrong:
            raise GradlabError(
                f"'label' names {wrong}; it needs each row's number, from 0, in the file that "
                f"{file} was made for{hint}"
            )


class Pairs(NamedTuple):
    """Content of a file of pairs."""

    partners: Mapping[int, frozenset[int]]  # of each number
    largest: int  # the largest row, -1 if no row is listed
    inspected: int | None  # N from the line ``# rows: N``, the size of the inspected file


def read_pairs(file: str) -> Pairs:
    """Read a file of pairs, as `Mask` describes its lines; a changed file is read again.

    Rows are counted from 0, columns of hard negatives from 1. White space may replace the commas,
    and ``#`` starts a comment; ``# rows: N`` says how many rows there are.

    Raises:
        GradlabError: a file that cannot be read, or a line that is not two or three such numbers.
    """
    try:
        place = Path(file).resolve()
        state = place.stat()
        return _parse(file, place, state.st_mtime_ns, state.st_size)
    except (OSError, UnicodeDecodeError) as error:
        raise GradlabError(
            f"cannot read the pairs in {file}: {getattr(error, 'strerror', error)}"
        ) from None


@functools.lru_cache(maxsize=4)
def _parse(file: str, place: Path, *state: int) -> Pairs:
    text = place.read_text(encoding="utf-8")
    rows = re.search(r"^# rows: (\d+)$", text, re.MULTILINE)
    links: dict[int, set[int]] = {}
    for at, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        fine = len(words) in (2, 3) and all(word.isdecimal() for word in words)
        first, second, *column = map(int, words) if fine else (_ROWS, _ROWS)
        if max(first, second) >= _ROWS or column == [0]:
            raise GradlabError(
                f"line {at} of {file} is not two whole numbers, rows counted from 0 "
                "(or three, with the column of a hard negative, counted from 1): "
                f"{line.strip()[:60]!r}"
            )
        second += sum(column) * _ROWS  # as `hard_negative_numbers`
        links.setdefault(first, set()).add(second)
        links.setdefault(second, set()).add(first)
    partners = {number: frozenset(linked) for number, linked in links.items()}
    largest = max((number % _ROWS for number in partners), default=-1)
    return Pairs(partners, largest, None if rows is None else int(rows[1]))

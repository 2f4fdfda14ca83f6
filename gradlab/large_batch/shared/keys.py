"""What is asked of a shared batch, by names that are the same on all processes."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

from torch import Tensor

from gradlab.geometry.embeddings import HardnessTerm, Rule
from gradlab.large_batch.similarity import Some

# A `gradlab.large_batch.shared.session.Session`, which stands above what it is made of.
Session = Any


@dataclasses.dataclass(frozen=True)
class Side:
    """Rows of all processes in one role.

    Attributes:
        role: ``"a"``, the anchors, ``"b"``, the positives, ``"e"``, the extra negatives; with a ``"g"`` before it, those of a guide.
        whole: whether the extra negatives follow as further sentences.
        width: coordinates of a row.
        version: which of several rows of one role, where a loss puts others in their place.
    """

    role: str
    whole: bool
    width: int
    version: int = 0

    @property
    def guide(self) -> str:
        """The role of the guide's embeddings of the same sentences."""
        return f"g{self.role}"


@dataclasses.dataclass(frozen=True)
class SharedBlock:
    """Negatives of one kind; see `gradlab.geometry.embeddings.Block`.

    Attributes:
        name: of the block.
        rows, columns: what is compared with what.
        own: whether a sentence is none of its own negatives.
        owned: whether the hard negatives of a sentence are none of its negatives here.
        straight: whether the rows of the product are these, though its transpose may be a product that is made.
    """

    name: str
    rows: Side
    columns: Side
    own: bool
    owned: bool = False
    straight: bool = False

    @property
    def turned(self) -> bool:
        """Whether it is the transpose of a product that is made."""
        return self.rows.role == "b" and self.columns.role == "a" and not self.straight

    @property
    def product(self) -> tuple[Side, Side]:
        """The sides that are multiplied: the first stays, the second travels."""
        return (self.columns, self.rows) if self.turned else (self.rows, self.columns)

    @property
    def is_square(self) -> bool:
        """Whether a view is compared with itself."""
        return self.rows == self.columns


@dataclasses.dataclass(frozen=True)
class Family:
    """The negatives of each anchor.

    Attributes:
        parts: kind by kind.
        rules: what leaves pairs out.
        hardness: what is added to their cosines, each with the temperature of the logits.
    """

    parts: tuple[SharedBlock, ...]
    rules: tuple[Rule, ...] = ()
    hardness: tuple[tuple[HardnessTerm, float], ...] = ()

    @property
    def rows(self) -> Side:
        """What the summaries of its rows are as many as."""
        return self.parts[0].rows

    @property
    def straight(self) -> Family:
        """The same by products of its own."""
        parts = tuple(dataclasses.replace(part, straight=True) for part in self.parts)
        return dataclasses.replace(self, parts=parts)


class Name:
    """A function that is the same as another if it is the same method of an equal object, or the same lines with the same numbers around."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """``function`` is usually a method of a loss; or it is defined in one, anew whenever that is called."""
        self.call = function
        self._key: Any = function
        owner = getattr(function, "__self__", None)
        if owner is not None:
            self._key = (function.__func__, type(owner), owner)  # type: ignore[attr-defined]  # of a bound method
        elif isinstance(function, types.FunctionType):
            around = [_same(cell) for cell in function.__closure__ or ()]
            given = [
                _same(one)
                for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            ]
            self._key = (function.__code__, id(function.__globals__), *around, *given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _same(thing: Any) -> tuple[Any, ...]:
    """By what it is told from others: a number by its value, anything else as the object that it is."""
    if isinstance(thing, types.CellType):
        try:
            thing = thing.cell_contents
        except ValueError:  # of a name that is not set yet
            return ("nothing",)
    plain = isinstance(thing, int | float | str | None)
    return (type(thing), thing if plain else id(thing))


@dataclasses.dataclass(frozen=True)
class Letter:
    """Rows of this process, and those of another one that they have to do with; at the same time a third asks for some of this one's.

    Attributes:
        order: m rows of this process.
        owner: the process that has theirs.
        given: (k,) rows of this process that another one has to do with.
        asker: that one.
    """

    order: Some
    owner: int
    given: Tensor
    asker: int


@dataclasses.dataclass(frozen=True)
class Nearest:
    """The hardest negative of each row.

    Attributes:
        best: its cosine, (n,).
        part: in which part it is, (n,).
        column: its number among the rows of all processes, (n,).
        vectors: of the negatives, (n, D); or, on one process, the rows that ``column`` is a number of, (k, D).
        mail: for each part, where its vectors are from.
        gathered: whether the vectors are those of the negatives.
    """

    best: Tensor
    part: Tensor
    column: Tensor
    vectors: Tensor
    mail: list[list[Letter]]
    gathered: bool = True

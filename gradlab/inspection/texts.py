"""`Texts`: the sentences to inspect, in rows of one or more columns."""

from __future__ import annotations

import collections
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradlab.data.letters import RUN_OF_LETTERS, WORDS_WITH_HYPHENS
from gradlab.data.partners import partner_numbers
from gradlab.data.training_file import TrainingFile
from gradlab.data.words import (
    blanks,
    broken,
    misread,
    shares_of_identifiers,
    signs_of,
    spaced_wrongly,
)
from gradlab.errors import GradlabError

# Rows whose texts are read for numbers and spaces.
READ_ROWS = 2000
# Number of texts from which on a common beginning is no accident.
_FEWEST = 8
OWN_NAMES = {"sentence", "positive"}  # of columns of an inspection


def normalize(text: str) -> str:
    """Return the words of a text in order, without case, punctuation or extra spaces.

    Behind them stand signs that say something, such as those of sums and comparisons. Compatibility
    forms are replaced too. A text without words is only folded and stripped.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = RUN_OF_LETTERS.findall(folded)
    return " ".join([*words, *signs_of(folded)] if words else ()) or folded.strip()


def words_of(text: str) -> list[str]:
    """Return the words of a text as written; a hyphen joins words: ``south-east`` is one word."""
    return WORDS_WITH_HYPHENS.findall(unicodedata.normalize("NFKC", text))


def prompt_of(texts: Sequence[str]) -> str:
    """Return the whole words with which all texts begin, such as ``query:``; empty for none."""
    first, last = min(texts), max(texts)
    letters = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    shared = "".join(letter for letter, _ in letters)
    prompt = shared[: re.search(r"\S*$", shared).start()].strip()  # type: ignore[union-attr]
    return prompt if first != last and len(texts) >= _FEWEST else ""


@dataclass(frozen=True)
class Texts:
    """N rows of a sentence each, or of a sentence, its positive and its hard negatives.

    A text has the number row + N * column, with columns in the order of :attr:`columns`.

    Attributes:
        anchors: the sentences.
        positives: their positives; None if dropout makes the second view.
        negatives: hard negatives by the name of their column.
    """

    anchors: Sequence[str]
    positives: Sequence[str] | None = None
    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if OWN_NAMES & self.negatives.keys():
            raise GradlabError(
                "hard negatives cannot be called 'sentence' or 'positive', the names of other "
                "columns; give them another name"
            )
        if self.positives is None and self.negatives:
            raise GradlabError(
                "hard negatives need positives too: three columns, or give none of them"
            )
        for name, column in self.columns.items():
            if isinstance(column, str) or len(column) != len(self.anchors):
                raise GradlabError(
                    f"{name} must be a list with a text for each of {len(self.anchors)} sentences"
                )
            for row, text in enumerate(column):
                if not isinstance(text, str) or not text.strip():
                    raise GradlabError(
                        f"{name}, row {row}: {text!r:.40} is not a sentence; give a text"
                    )
        if all(normalize(text) == normalize(self.anchors[0]) for text in self.anchors):
            raise GradlabError(
                "an inspection needs at least two sentences with different words; "
                f"the {len(self)} given do not differ"
            )

    @classmethod
    def of_file(cls, file: TrainingFile) -> Texts:
        """Read a training file.

        Raises:
            GradlabError: a file that cannot be read, or has no two different texts.
        """
        anchors, *further = file.to_columns().values()
        if not further:
            return cls(anchors)
        # A name of the other columns is free for no further one.
        names = [f"{name} (negative)" if name in OWN_NAMES else name for name in file.columns[2:]]
        return cls(anchors, further[0], dict(zip(names, further[1:], strict=True)))

    def __len__(self) -> int:
        return len(self.anchors)

    def __getitem__(self, number: int) -> str:
        column, row = divmod(int(number), len(self))
        return list(self.columns.values())[column][row]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self.columns.values())

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """Return the texts of some rows."""
        places = rows.tolist()
        anchors, *further = ([column[row] for row in places] for column in self.columns.values())
        if not further:
            return Texts(anchors)
        return Texts(anchors, further[0], dict(zip(self.negatives, further[1:], strict=True)))

    @functools.cached_property
    def prompts(self) -> dict[str, str]:
        """Beginnings that all texts of a column share, by column."""
        prompts = {name: prompt_of(column) for name, column in self.columns.items()}
        return {name: prompt for name, prompt in prompts.items() if prompt}

    @functools.cached_property
    def alike_behind_prompts(self) -> int:
        """Number of texts that repeat another one but for the prompts of their columns."""
        if not self.prompts:
            return 0
        # A text may stand in two columns, of which one has a prompt.
        texts_by_ending: dict[int, set[int]] = collections.defaultdict(set)
        for name, column in self.columns.items():
            start = len(self.prompts.get(name, ""))
            for text in column:
                texts_by_ending[hash(normalize(text[start:]))].add(hash(normalize(text)))
        return sum(len(texts) - 1 for texts in texts_by_ending.values())

    @functools.cached_property
    def unreadable(self) -> dict[str, tuple[float, float, str]]:
        """For each column the shares of identifiers and of wrongly spaced texts, and one of these.

        They are of the first `READ_ROWS` rows.
        """
        columns = {name: list(column[:READ_ROWS]) for name, column in self.columns.items()}
        identifiers = shares_of_identifiers(columns)
        return {
            name: (identifiers[name], *spaced_wrongly(column)) for name, column in columns.items()
        }

    @functools.cached_property
    def damaged(self) -> dict[str, tuple[float, str, float, str]]:
        """For each column the shares of texts with misread letters and broken words, with one each.

        They are of the first `READ_ROWS` rows.
        """
        columns = {name: column[:READ_ROWS] for name, column in self.columns.items()}
        return {name: (*misread(column), *broken(column)) for name, column in columns.items()}

    @functools.cached_property
    def blanks(self) -> dict[str, tuple[float, str]]:
        """For each column the share of texts with words replaced by placeholders, and one text."""
        return {name: blanks(column[:READ_ROWS]) for name, column in self.columns.items()}

    @functools.cached_property
    def partners(self) -> dict[str, float]:
        """How sentences and positives go together; see `gradlab.data.partners.partner_numbers`."""
        if self.positives is None:
            return {}
        further = [*self.negatives.values()][:1]
        return partner_numbers(self.anchors, self.positives, *further)

    @property
    def count(self) -> int:
        """Number of texts in all columns."""
        return len(self) * len(self.columns)

    @functools.cached_property
    def columns(self) -> dict[str, Sequence[str]]:
        """Columns by name: ``sentence``, ``positive`` and those of the hard negatives."""
        positives = {} if self.positives is None else {"positive": self.positives}
        return {"sentence": self.anchors, **positives, **self.negatives}


@dataclass
class Cuts:
    """Texts that are longer than a model reads.

    Attributes:
        max_length: number of tokens that are read.
        texts: number of texts.
        cut: number of texts that have more tokens.
        alike: number of cut texts whose beginnings are those of an earlier text with other words.
    """

    max_length: int
    texts: int = 0
    cut: int = 0
    alike: int = 0
    _beginnings: dict[int, int] = field(default_factory=dict, repr=False)

    def add(self, texts: Sequence[str], ids: Sequence[Sequence[int]], cut: int) -> None:
        """Count texts with their token ids, of which ``cut`` are cut to ``max_length``."""
        self.texts += len(texts)
        self.cut += cut
        for text, tokens in zip(texts, ids, strict=True):
            if len(tokens) < self.max_length:
                continue
            words = hash(normalize(text))
            self.alike += self._beginnings.setdefault(hash(tuple(tokens)), words) != words

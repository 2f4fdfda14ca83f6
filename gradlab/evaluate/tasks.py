"""STS and transfer tasks, read from files in the layout of SentEval's ``data/downstream`` (Conneau & Kiela, 2018).

Files are read as text, line by line; nothing in them is executed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError, reason

# The folder of each task below data/downstream.
FOLDERS = {
    **{f"STS{year}": f"STS/STS{year}-en-test" for year in (12, 13, 14, 15, 16)},
    "STS-B": "STS/STSBenchmark",
    "SICK-R": "SICK",
    **{name: name for name in ("MR", "CR", "SUBJ", "MPQA")},
    "SST-2": "SST/binary",
    "TREC": "TREC",
    "MRPC": "MRPC",
}
STS_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
WITHOUT_DEV = frozenset(STS_TASKS) - {"STS-B", "SICK-R"}
TRANSFER_TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC")
# STS13 is without its SMT part, whose sentences cannot be redistributed; nobody reports it.
_SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
_STSB_FILES = {"test": "sts-test.csv", "dev": "sts-dev.csv"}
_SICK_FILES = {"test": "SICK_test_annotated.txt", "dev": "SICK_trial.txt"}
# Files of class 1 and class 0. Which is which decides the order of the examples, hence the folds.
_TWO_FILES = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}
_PARTS = {
    "SST-2": {"train": "sentiment-train", "dev": "sentiment-dev", "test": "sentiment-test"},
    "TREC": {"train": "train_5500.label", "test": "TREC_10.label"},
    "MRPC": {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
}
_TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_SICK_HEADER = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score")
_MRPC_HEADER = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")

Validation = Literal["nested", "folds", "dev"]
"""How a task's regularisation is chosen: on inner folds, on folds of the training set, or on a dev set."""


class MissingFile(GradlabError):
    """A file of a task is absent: the task is left out, the others are evaluated."""


@dataclass(frozen=True)
class ScoredPairs:
    """Sentence pairs of one sub-set of an STS task, with the scores that people gave them."""

    name: str
    first: list[str]
    second: list[str]
    gold: list[float]

    @property
    def sentences(self) -> list[str]:
        """All sentences, first members first."""
        return self.first + self.second


@dataclass(frozen=True)
class Split:
    """Labelled sentences, or sentence pairs, in SentEval's order: by length in words, then by label."""

    texts: list[tuple[str, ...]]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class TransferTask:
    """A transfer task, its parts ("train", perhaps "dev" and "test") and how its regularisation is chosen."""

    name: str
    selection: Validation
    parts: dict[str, Split]

    @property
    def sentences(self) -> list[str]:
        """Every sentence of every part."""
        return [text for part in self.parts.values() for texts in part.texts for text in texts]


def downstream(path: str | os.PathLike[str]) -> Path:
    """The folder that holds ``STS/``, ``MR/`` and so on, given that folder or a SentEval checkout.

    Raises:
        GradlabError: ``path`` is not a folder or holds none of the tasks.
    """
    root = Path(path)
    if not root.is_dir():
        raise GradlabError(f"no folder {str(root)!r}; give SentEval's data/downstream folder")
    for folder in (root, root / "downstream", root / "data" / "downstream"):
        if any((folder / name).is_dir() for name in FOLDERS.values()):
            return folder
    raise GradlabError(
        f"{str(root)!r} holds no task in SentEval's layout; expected folders such as STS/STSBenchmark or MR"
    )


def load_sts(folder: Path, name: str, split: str = "test") -> list[ScoredPairs]:
    """Sub-sets of an STS task.

    Args:
        folder: what `downstream` returns.
        name: STS12, STS13, STS14, STS15, STS16, STS-B or SICK-R.
        split: "test" or "dev"; STS12–16 have no dev split.

    Raises:
        MissingFile: a file of the task is absent.
        GradlabError: a file is malformed (names the line).
    """
    place = folder / FOLDERS[name]
    if name == "STS-B":
        return [_read_stsb(place / _STSB_FILES[split])]
    if name == "SICK-R":
        file = place / _SICK_FILES[split]
        rows = ((row[1], row[2], row[3], where) for where, row in _table(file, 4, _SICK_HEADER))
        return [_pairs(name, file, rows)]
    return [_read_year(place, subset) for subset in _SUBSETS[name]]


def load_stsb_dev(path: str | os.PathLike[str]) -> ScoredPairs:
    """Pairs of the STS-B development set, from ``data/downstream``, its ``STS/STSBenchmark``, or ``sts-dev.csv``."""
    file = Path(path)
    if not file.is_file():
        inside = file / _STSB_FILES["dev"]
        file = inside if inside.is_file() else downstream(file) / FOLDERS["STS-B"] / _STSB_FILES["dev"]
    return _read_stsb(file)


def load_transfer(folder: Path, name: str, split: str = "test") -> TransferTask:
    """Read a transfer task, as `load_sts`; with ``split="dev"`` its test file is not touched."""
    place = folder / FOLDERS[name]
    if name in _TWO_FILES:
        # latin-1 whatever the bytes are: it is how SentEval reads them.
        files = [_lines(place / file, "latin-1") for file in _TWO_FILES[name]]
        rows = [((text,), label) for label, lines in zip((1, 0), files, strict=True) for text in lines]
        return TransferTask(name, "nested", {"train": _split(rows)})
    wanted = {part: place / file for part, file in _PARTS[name].items() if split == "test" or part != "test"}
    parts = {part: _split(_LABELLED[name](file)) for part, file in wanted.items()}
    return TransferTask(name, "dev" if name == "SST-2" else "folds", parts)


def check_classes(task: TransferTask, folds: int) -> None:
    """Raise GradlabError if a class is too small for the folds, or the training set has one class only."""
    counts = np.unique(task.parts["train"].labels, return_counts=True)[1]
    if len(counts) < 2:
        raise GradlabError(f"the training set of {task.name} holds one class only; a classifier needs two")
    smallest = int(counts.min())
    # The inner folds of a nested cross-validation share what an outer fold leaves.
    left = smallest - -(-smallest // folds) if task.selection == "nested" else smallest
    if task.selection != "dev" and left < folds:
        raise GradlabError(
            f"the smallest class of {task.name} has {smallest} examples, too few for {folds} folds; choose fewer folds"
        )


def _read_stsb(file: Path) -> ScoredPairs:
    # Columns genre, file, year, number, score, sentence, sentence; test rows may have more.
    return _pairs("STS-B", file, ((row[5], row[6], row[4], where) for where, row in _table(file, 7)))


def _read_year(folder: Path, subset: str) -> ScoredPairs:
    """Pairs of one sub-set of STS12–16; those whose line in the gold file is empty were never scored."""
    sentences_file, gold_file = folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt"
    rows, gold = [row for _, row in _table(sentences_file, 2)], _lines(gold_file)
    if len(rows) != len(gold):
        raise GradlabError(
            f"{sentences_file} has {len(rows)} lines, {gold_file.name} has {len(gold)}; they go line by line"
        )
    where = (f"{gold_file}, line {number}" for number in range(1, len(gold) + 1))
    scored = (
        (row[0], row[1], score, at) for row, score, at in zip(rows, gold, where, strict=True) if score.strip()
    )
    return _pairs(subset, gold_file, scored)


def _pairs(name: str, file: Path, rows: Iterable[tuple[str, str, str, str]]) -> ScoredPairs:
    """Pairs from their sentences, the text of their score, and where that stands."""
    first, second, gold = [], [], []
    for one, other, text, where in rows:
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise GradlabError(f"{where}: {text[:40]!r} is not a score")
        first.append(_sentence(one))
        second.append(_sentence(other))
        gold.append(score)
    if len(gold) < 2:
        raise GradlabError(f"{file} has {len(gold)} scored pairs; a correlation needs at least 2")
    return ScoredPairs(name, first, second, gold)


Labelled = Iterator[tuple[tuple[str, ...], int]]


def _read_trec(file: Path) -> Labelled:
    """``COARSE:fine question``; only the coarse class counts."""
    for number, text in enumerate(_lines(file, "latin-1"), start=1):
        coarse, colon, rest = text.strip().partition(":")
        question = rest.partition(" ")[2]
        if not colon or not question.strip():
            raise GradlabError(f"{file}, line {number}: expected 'CLASS:subclass question'")
        yield (question,), _label(coarse, _TREC_CLASSES, f"{file}, line {number}")


def _binary(file: Path, label: int, texts: slice, columns: int, header: Sequence[str] = ()) -> Labelled:
    """Rows with a label, 0 or 1, in one column and the sentences in others."""
    for where, row in _table(file, columns, header):
        yield tuple(row[texts]), _label(row[label].strip(), ("0", "1"), where)


_LABELLED: dict[str, Callable[[Path], Labelled]] = {
    "SST-2": lambda file: _binary(file, 1, slice(1), 2),
    "TREC": _read_trec,
    "MRPC": lambda file: _binary(file, 0, slice(3, 5), 5, _MRPC_HEADER),
}


def _split(rows: Iterable[tuple[tuple[str, ...], int]]) -> Split:
    # SentEval sorts like this before it draws folds, so the folds are its folds.
    ordered = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    texts = [tuple(map(_sentence, texts)) for texts, _ in ordered]
    return Split(texts, np.array([label for _, label in ordered], dtype=np.int64))


def _lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    r"""Lines of a text file, without their ends (``\n``, ``\r\n``); a byte-order mark is dropped.

    Unlike ``str.splitlines``, form feeds and Unicode separators inside a sentence do not end a line. Errors name the line.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MissingFile(f"{path} is absent") from error
    except OSError as error:
        raise GradlabError(f"cannot read {path} ({reason(error)})") from error
    if not content.strip():
        raise GradlabError(f"{path} is empty")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        # error.object rather than content: it starts after a byte-order mark, as error.start does.
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise GradlabError(f"{path}, line {line}: not valid UTF-8 (byte 0x{byte:02x})") from error
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _table(path: Path, columns: int, header: Sequence[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Tab-separated rows of at least so many columns, in which quotes have no meaning, and where each stands ("file, line 3").

    With a ``header``, its names are the first ones in the first line, which is not a row then.
    """
    rows = [line.split("\t") for line in _lines(path)]
    if header and rows[0][: len(header)] != list(header):
        raise GradlabError(f"{path}, line 1: expected the header {', '.join(header)}")
    if len(rows) <= bool(header):
        raise GradlabError(f"{path} holds a header and no rows")
    for number, row in enumerate(rows[bool(header) :], start=1 + bool(header)):
        where = f"{path}, line {number}"
        if len(row) < columns:
            raise GradlabError(
                f"{where}: {len(row)} tab-separated columns where at least {columns} are expected"
            )
        yield where, row


def _label(text: str, known: Sequence[str], where: str) -> int:
    if text not in known:
        raise GradlabError(f"{where}: label {text[:40]!r} is none of {', '.join(known)}")
    return known.index(text)


def _sentence(text: str) -> str:
    """A sentence as SentEval hands it to an encoder: split on white space, joined by single spaces."""
    return " ".join(text.split())

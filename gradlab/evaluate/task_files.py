"""STS and transfer tasks, read from files in the layout of SentEval's ``data/downstream``.

SentEval is by Conneau & Kiela (2018). Files are read as text, line by line, and never executed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
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
# STS13 lacks its SMT part, whose sentences cannot be redistributed; nobody reports it.
_SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
# Files of class 1 and class 0. The classes decide the order of the examples, and thereby the folds.
_TWO_FILES = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}
# Files of the other tasks, by part.
_FILES = {
    "STS-B": {"test": "sts-test.csv", "dev": "sts-dev.csv"},
    "SICK-R": {"test": "SICK_test_annotated.txt", "dev": "SICK_trial.txt"},
    "SST-2": {"train": "sentiment-train", "dev": "sentiment-dev", "test": "sentiment-test"},
    "TREC": {"train": "train_5500.label", "test": "TREC_10.label"},
    "MRPC": {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
}
# Columns of the sentences, and column of their score or label; other columns are ignored.
_COLUMNS = {"STS-B": ((5, 6), 4), "SICK-R": ((1, 2), 3), "SST-2": ((0,), 1), "MRPC": ((3, 4), 0)}
_HEADERS = {
    "SICK-R": ["pair_ID", "sentence_A", "sentence_B", "relatedness_score"],
    "MRPC": ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
}
_TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

# Where a row stands ("file, line 3"), its sentences, and its score or label.
Rows = Iterable[tuple[str, tuple[str, ...], str]]
# What chooses a task's regularisation: inner folds, folds of the training set, or a dev set.
Validation = Literal["nested", "folds", "dev"]


class MissingFile(GradlabError):
    """A file of a task is absent; `evaluate` leaves the task out and evaluates the others."""


@dataclass(frozen=True)
class ScoredPairs:
    """Sentence pairs of one sub-set of an STS task, with their human scores."""

    name: str
    first: list[str]
    second: list[str]
    gold: list[float]

    @property
    def sentences(self) -> list[str]:
        """All sentences: the first of every pair, then the second of every pair."""
        return self.first + self.second


@dataclass(frozen=True)
class Split:
    """Labelled sentences or sentence pairs in SentEval's order: by length in words, then label."""

    texts: list[tuple[str, ...]]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class TransferTask:
    """A transfer task: its splits ("train", perhaps "dev", "test") and choice of regularisation."""

    name: str
    selection: Validation
    splits: dict[str, Split]

    @property
    def sentences(self) -> list[str]:
        """All sentences of all splits."""
        return [text for split in self.splits.values() for texts in split.texts for text in texts]


def downstream(path: str | os.PathLike[str]) -> Path:
    """Return the folder with ``STS/``, ``MR/`` and so on, given that folder or a SentEval checkout.

    Raises:
        GradlabError: ``path`` is not a folder, or holds none of the tasks.
    """
    root = Path(path)
    if not root.is_dir():
        raise GradlabError(f"no folder {str(root)!r}; give SentEval's data/downstream folder")
    for folder in (root, root / "downstream", root / "data" / "downstream"):
        if any((folder / name).is_dir() for name in FOLDERS.values()):
            return folder
    raise GradlabError(
        f"{str(root)!r} holds no task in SentEval's layout; expected folders such as "
        "STS/STSBenchmark or MR"
    )


def load_sts(folder: Path, name: str, split: str = "test") -> list[ScoredPairs]:
    """Return the sub-sets of an STS task.

    Args:
        folder: a folder from `downstream`.
        name: STS12, STS13, STS14, STS15, STS16, STS-B or SICK-R.
        split: "test" or "dev"; STS12–16 have no dev split.

    Raises:
        MissingFile: a file of the task is absent.
        GradlabError: a file is malformed; the message names the line.
    """
    place = folder / FOLDERS[name]
    if name in _FILES:
        return [_scored(name, place / _FILES[name][split])]
    return [_read_year(place, subset) for subset in _SUBSETS[name]]


def load_stsb_dev(path: str | os.PathLike[str]) -> ScoredPairs:
    """Return STS-B dev pairs from ``data/downstream``, ``STS/STSBenchmark`` or ``sts-dev.csv``."""
    return _scored("STS-B", stsb_dev_file(path))


def stsb_dev_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that `load_stsb_dev` reads."""
    file, name = Path(path), _FILES["STS-B"]["dev"]
    if file.is_file():
        return file
    inside = file / name
    return inside if inside.is_file() else downstream(file) / FOLDERS["STS-B"] / name


def load_transfer(folder: Path, name: str, split: str = "test") -> TransferTask:
    """Return a transfer task; arguments as for `load_sts`.

    ``split="dev"`` does not read its test file.
    """
    place = folder / FOLDERS[name]
    if name in _TWO_FILES:
        # SentEval reads these files as latin-1, whatever the bytes are.
        files = [(label, place / file) for label, file in zip("10", _TWO_FILES[name], strict=True)]
        rows = [
            (str(file), (text,), label) for label, file in files for text in _lines(file, "latin-1")
        ]
        return TransferTask(name, "nested", {"train": _split(rows)})
    reader, classes = (_read_trec, _TREC_CLASSES) if name == "TREC" else (_read_table, ("0", "1"))
    splits = {
        part_name: _split(reader(name, place / file), classes)
        for part_name, file in _FILES[name].items()
        if split == "test" or part_name != "test"
    }
    return TransferTask(name, "dev" if "dev" in splits else "folds", splits)


def check_classes(task: TransferTask, folds: int) -> None:
    """Raise GradlabError for a class too small for the folds, or a training set of one class."""
    counts = np.unique(task.splits["train"].labels, return_counts=True)[1]
    if len(counts) < 2:
        raise GradlabError(
            f"the training set of {task.name} holds one class only; a classifier needs two"
        )
    smallest = int(counts.min())
    # Inner folds of a nested cross-validation divide the examples outside an outer fold.
    class_size = smallest - -(-smallest // folds) if task.selection == "nested" else smallest
    if task.selection != "dev" and class_size < folds:
        raise GradlabError(
            f"the smallest class of {task.name} has {smallest} examples, too few for {folds} "
            "folds; choose fewer folds"
        )


def _read_year(folder: Path, subset: str) -> ScoredPairs:
    """Return the pairs of one sub-set of STS12–16 that have a score.

    The line of a pair without a score is empty.
    """
    sentences, file = folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt"
    rows, gold = list(_cells(sentences, 2)), _lines(file)
    if len(rows) != len(gold):
        raise GradlabError(
            f"{sentences} has {len(rows)} lines, {file.name} has {len(gold)}; they go line by line"
        )
    numbered = enumerate(zip(rows, gold, strict=True), start=1)
    scored = (
        (f"{file}, line {number}", (row[0], row[1]), score)
        for number, ((_, row), score) in numbered
        if score.strip()
    )
    return _pairs(subset, file, scored)


def _scored(name: str, file: Path) -> ScoredPairs:
    return _pairs(name, file, _read_table(name, file))


def _read_table(name: str, file: Path) -> Rows:
    texts, value = _COLUMNS[name]
    for where, row in _cells(file, max(*texts, value) + 1, _HEADERS.get(name)):
        yield where, tuple(row[column] for column in texts), row[value]


def _read_trec(name: str, file: Path) -> Rows:
    """Yield rows of lines ``COARSE:fine question``; the coarse class is the label."""
    for number, text in enumerate(_lines(file, "latin-1"), start=1):
        coarse, colon, subclass = text.strip().partition(":")
        question = subclass.partition(" ")[2]
        if not colon or not question.strip():
            raise GradlabError(f"{file}, line {number}: expected 'CLASS:subclass question'")
        yield f"{file}, line {number}", (question,), coarse


def _pairs(name: str, file: Path, rows: Rows) -> ScoredPairs:
    pairs, gold = [], []
    for where, texts, text in rows:
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise GradlabError(f"{where}: {text[:40]!r} is not a score")
        pairs.append([*map(_sentence, texts)])
        gold.append(score)
    if len(gold) < 2:
        raise GradlabError(f"{file} has {len(gold)} scored pairs; a correlation needs at least 2")
    firsts, seconds = map(list, zip(*pairs, strict=True))
    return ScoredPairs(name, firsts, seconds, gold)


def _split(rows: Rows, classes: Sequence[str] = ("0", "1")) -> Split:
    examples = []
    for where, texts, text in rows:
        label = text.strip()
        if label not in classes:
            raise GradlabError(f"{where}: label {label[:40]!r} is none of {', '.join(classes)}")
        examples.append((texts, classes.index(label)))
    # SentEval sorts the examples like this before it draws folds; the folds are then the same.
    examples.sort(key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    labels = np.array([label for _, label in examples], dtype=np.int64)
    return Split([tuple(map(_sentence, texts)) for texts, _ in examples], labels)


def _lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    r"""Return a text file's lines without ends (``\n``, ``\r\n``) and without a byte-order mark.

    Unlike in ``str.splitlines``, form feeds and Unicode separators end no line. Errors name lines.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MissingFile(f"{path} is absent") from error
    except OSError as error:
        raise GradlabError(f"cannot read {path}: {reason(error)}") from error
    if not content.strip():
        raise GradlabError(f"{path} is empty")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        # error.start counts in error.object, which unlike content has no byte-order mark.
        line = error.object.count(b"\n", 0, error.start) + 1
        raise GradlabError(f"{path}, line {line}: {error}") from error
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _cells(
    file: Path, columns: int, header: list[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield tab-separated rows of ``columns`` or more cells, and their places; quotes mean nothing.

    With a ``header``, the first line has to begin with its names, and is not a row.
    """
    rows = [line.split("\t") for line in _lines(file)]
    if header and rows[0][: len(header)] != header:
        raise GradlabError(f"{file}, line 1: expected the header {', '.join(header)}")
    if len(rows) <= bool(header):
        raise GradlabError(f"{file} holds a header and no rows")
    for number, row in enumerate(rows[bool(header) :], start=1 + bool(header)):
        where = f"{file}, line {number}"
        if len(row) < columns:
            raise GradlabError(
                f"{where}: {len(row)} tab-separated columns where at least {columns} are expected"
            )
        yield where, row


def _sentence(text: str) -> str:
    """Return a sentence as SentEval passes it to an encoder: words joined by single spaces."""
    return " ".join(text.split())

"""Transfer tasks: classification of frozen embeddings, read from SentEval's files (Conneau & Kiela, 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.evaluate.classifiers import Examples, Validation
from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.folder import FOLDERS, label, malformed, read_lines, read_table, sentence

# Task -> files of class 1 and class 0. Which is which decides the order of the examples, hence the folds.
_TWO_FILES = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}
_TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


@dataclass(frozen=True)
class Split:
    """Labelled sentences, or sentence pairs, in SentEval's order: by length in words, then by label."""

    texts: list[tuple[str, ...]]
    labels: NDArray[np.int64]

    @property
    def sentences(self) -> list[str]:
        """Every sentence; those of a pair one after the other."""
        return [text for texts in self.texts for text in texts]

    def examples(self, embed: Embedder) -> Examples:
        """Features (n, D) in float32 and labels; a pair (u, v) becomes |u - v| and u * v, (n, 2 D)."""
        columns = [embed(column).astype(np.float32) for column in zip(*self.texts, strict=True)]
        if len(columns) == 1:
            return columns[0], self.labels
        u, v = columns
        return np.concatenate([np.abs(u - v), u * v], axis=1), self.labels


@dataclass(frozen=True)
class TransferTask:
    """A task, its parts ("train", perhaps "dev" and "test") and how its regularisation is chosen."""

    name: str
    selection: Validation
    parts: dict[str, Split]

    @property
    def sentences(self) -> list[str]:
        """Every sentence of every part."""
        return [text for part in self.parts.values() for text in part.sentences]


def load_transfer(folder: Path, name: str, split: str = "test") -> TransferTask:
    """Read a transfer task; with ``split="dev"`` its test file is not touched.

    Args:
        folder: what :func:`gradlab.evaluate.folder.downstream` returns.
        name: MR, CR, SUBJ, MPQA, SST-2, TREC or MRPC.
        split: "test" or "dev".

    Raises:
        MissingFile: if a file of the task is absent.
        GradlabError: if a file is malformed (names the line).
    """
    place = folder / FOLDERS[name]
    if name in _TWO_FILES:
        # latin-1 whatever the bytes are: it is how SentEval reads them.
        ones, zeros = (
            [sentence(line) for line in read_lines(place / f, "latin-1")] for f in _TWO_FILES[name]
        )
        part = _part([((text,), 1) for text in ones] + [((text,), 0) for text in zeros])
        return TransferTask(name, "nested", {"train": part})
    selection: Validation = "dev" if name == "SST-2" else "folds"
    read, files = {
        "SST-2": (_read_sst, {"train": "sentiment-train", "dev": "sentiment-dev", "test": "sentiment-test"}),
        "TREC": (_read_trec, {"train": "train_5500.label", "test": "TREC_10.label"}),
        "MRPC": (_read_mrpc, {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"}),
    }[name]
    wanted = {part: file for part, file in files.items() if split == "test" or part != "test"}
    return TransferTask(name, selection, {part: read(place / file) for part, file in wanted.items()})


def _read_sst(file: Path) -> Split:
    """Sentence, tab, 0 or 1."""
    rows = read_table(file, columns=2)
    return _part([((sentence(row[0]),), label(row[1].strip(), ("0", "1"), file, line)) for line, row in rows])


def _read_trec(file: Path) -> Split:
    """COARSE:fine question; only the coarse class counts."""
    rows = []
    for line, text in enumerate(read_lines(file, "latin-1"), start=1):
        coarse, colon, rest = text.strip().partition(":")
        question = rest.partition(" ")[2]
        if not colon or not question.strip():
            malformed(file, line, "expected 'CLASS:subclass question'")
        rows.append(((sentence(question),), label(coarse, _TREC_CLASSES, file, line)))
    return _part(rows)


def _read_mrpc(file: Path) -> Split:
    """Columns Quality, #1 ID, #2 ID, #1 String, #2 String, below a header."""
    if read_lines(file)[0].split("\t")[0] != "Quality":
        malformed(file, 1, "expected the header Quality, #1 ID, #2 ID, #1 String, #2 String")
    rows = read_table(file, columns=5, header=True)
    return _part(
        [
            ((sentence(row[3]), sentence(row[4])), label(row[0].strip(), ("0", "1"), file, line))
            for line, row in rows
        ]
    )


def _part(rows: Sequence[tuple[tuple[str, ...], int]]) -> Split:
    # SentEval sorts like this before it draws folds, so the folds are its folds.
    ordered = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    return Split([texts for texts, _ in ordered], np.array([value for _, value in ordered], dtype=np.int64))


def check_classes(task: TransferTask, folds: int) -> None:
    """Raise a GradlabError if a class is too small for the folds, or the training set has one class only."""
    labels = task.parts["train"].labels
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    if len(counts) < 2:
        raise GradlabError(f"the training set of {task.name} holds one class only; a classifier needs two")
    smallest = int(counts.min())
    # The inner folds of a nested cross-validation share what an outer fold leaves.
    left = smallest - -(-smallest // folds) if task.selection == "nested" else smallest
    if task.selection != "dev" and left < folds:
        raise GradlabError(
            f"the smallest class of {task.name} has {smallest} examples, too few for {folds} folds; choose fewer folds"
        )

"""How well do cosines rank pairs of sentences in a file of your own, with scores by people?"""

from __future__ import annotations

import math
from pathlib import Path

from gradlab.data.arrow_rows import is_saved
from gradlab.data.column_roles import SCORES, Roles
from gradlab.data.training_file import TrainingFile
from gradlab.errors import GradlabError
from gradlab.evaluate.task_files import ScoredPairs


def is_pair_file(path: Path) -> bool:
    """Return whether a path is a file, or a dataset saved to disk, and no folder of tasks."""
    return path.is_file() or is_saved(path)


def open_pairs(path: Path, roles: Roles, encoding: str = "utf-8") -> TrainingFile:
    """Open a file of two columns of sentences and a column of scores, in any format of training.

    Args:
        path: the file.
        roles: columns that the user names; the others are found by their names.
        encoding: encoding of text.

    Raises:
        GradlabError: the file cannot be read, or no name says where sentences or scores are.
    """
    file = TrainingFile.open(path, roles, encoding=encoding)
    if file.roles.score is None:
        score = next((name for name in file.roles.unused if name.casefold() in SCORES), None)
        if score is None:
            raise GradlabError(f"{path} has no column of scores; name it by --score-column")
        texts = Roles(file.roles.anchor, file.roles.positive, score=score)
        file = TrainingFile.open(path, texts, encoding=encoding)
    if file.roles.positive is None:
        raise GradlabError(
            f"{path} has no second column of sentences; name it by --positive-column"
        )
    return file


def read_pairs(file: TrainingFile) -> ScoredPairs:
    """Return the pairs of a file from `open_pairs`.

    Raises:
        GradlabError: a row that cannot be read or has no score, or fewer than two rows.
    """
    first, second, gold = [], [], []
    for example in file.examples():
        try:
            score = float(example.score)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise GradlabError(
                f"{file.path}, row {example.number}: {example.score:.40!r} is not a score"
            )
        first.append(example.texts[0])
        second.append(example.texts[1])
        gold.append(score)
    if len(gold) < 2:
        raise GradlabError(f"{file.path} has {len(gold)} scored pairs; a correlation needs 2")
    return ScoredPairs(file.path.name, first, second, gold)

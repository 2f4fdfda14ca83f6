"""Semantic textual similarity: Spearman's correlation of cosines with human scores.

STS12–16 (Agirre et al., 2012–2016), STS-B (Cer et al., 2017) and SICK-R (Marelli et al., 2014), read from
SentEval's files (Conneau & Kiela, 2018) and scored as Gao et al. (2021, SimCSE) do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradlab.errors import GradlabError
from gradlab.evaluate.embed import Embedder, Encode, as_encode
from gradlab.evaluate.folder import FOLDERS, downstream, malformed, read_lines, read_table, score, sentence

# STS13 is without its SMT part, whose sentences cannot be redistributed; nobody reports it.
SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
AGGREGATIONS = ("all", "mean", "wmean")
_STSB_FILES = {"test": "sts-test.csv", "dev": "sts-dev.csv"}
_SICK_FILES = {"test": "SICK_test_annotated.txt", "dev": "SICK_trial.txt"}


@dataclass(frozen=True)
class ScoredPairs:
    """Scored sentence pairs of one sub-set."""

    name: str
    first: list[str]
    second: list[str]
    gold: list[float]

    @property
    def sentences(self) -> list[str]:
        """All sentences, first members first."""
        return self.first + self.second


def load_sts(folder: Path, name: str, split: str = "test") -> list[ScoredPairs]:
    """Sub-sets of an STS task.

    Args:
        folder: what :func:`gradlab.evaluate.folder.downstream` returns.
        name: STS12, STS13, STS14, STS15, STS16, STS-B or SICK-R.
        split: "test" or "dev"; STS12–16 have no dev split.

    Raises:
        MissingFile: if a file of the task is absent.
        GradlabError: if a file is malformed (names the line).
    """
    place = folder / FOLDERS[name]
    if name == "STS-B":
        return [_read_stsb(place / _STSB_FILES[split])]
    if name == "SICK-R":
        return [_read_sick(place / _SICK_FILES[split])]
    return [_read_year(place, subset) for subset in SUBSETS[name]]


def spearman(cosines: ArrayLike, gold: ArrayLike) -> float:
    """Spearman's rank correlation, in [-1, 1]; NaN where one side is constant."""
    from scipy.stats import spearmanr

    cosines, gold = np.asarray(cosines), np.asarray(gold)
    if np.ptp(cosines) == 0 or np.ptp(gold) == 0:
        return float("nan")
    return float(spearmanr(cosines, gold).statistic)


def cosines(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Cosine of each pair of rows (n, D), in float64; 0 where a row is zero, as SentEval has it.

    It is computed as 1 - ||u - v||^2 / 2 on unit rows, which makes pairs of equal sentences tie at exactly 1;
    their ranks would otherwise hang on rounding.
    """
    u, v = _unit(first), _unit(second)
    zero = ~(u.any(axis=1) & v.any(axis=1))
    result: NDArray[np.float64] = 1 - 0.5 * np.square(u - v).sum(axis=1)
    result[zero] = 0
    return result


def sts_scores(embed: Embedder, subsets: Sequence[ScoredPairs]) -> dict[str, float]:
    """Spearman's correlation by aggregation ("all", "mean", "wmean"), by sub-set ("subset/NAME"), and "pairs"."""
    predicted = [cosines(embed(pairs.first), embed(pairs.second)) for pairs in subsets]
    each = [spearman(mine, pairs.gold) for mine, pairs in zip(predicted, subsets, strict=True)]
    sizes = [len(pairs.gold) for pairs in subsets]
    scores = {
        "all": spearman(np.concatenate(predicted), np.concatenate([pairs.gold for pairs in subsets])),
        "mean": float(np.mean(each)),
        "wmean": float(np.average(each, weights=sizes)),
        "pairs": sum(sizes),
    }
    if len(subsets) == 1:
        return scores
    return scores | {f"subset/{pairs.name}": value for pairs, value in zip(subsets, each, strict=True)}


def stsb_dev(encode: Encode | Any, path: str | os.PathLike[str]) -> float:
    """Spearman's correlation on the STS-B development set: the usual model selection while training.

    Args:
        encode: any callable from a list of sentences to an (n, D) array (called once), or an object with such a
            method ``encode``.
        path: SentEval's ``data/downstream`` folder, its ``STS/STSBenchmark``, or ``sts-dev.csv`` itself.

    Returns:
        The correlation, in [-1, 1]; NaN if every pair has the same cosine.

    Raises:
        GradlabError: if the file is absent or malformed, or an embedding is not finite.
    """
    return spearman(*stsb_dev_cosines(encode, path))


def stsb_dev_cosines(
    encode: Encode | Any, path: str | os.PathLike[str]
) -> tuple[NDArray[np.float64], list[float]]:
    """What :func:`stsb_dev` correlates: the cosine of each pair, (n,), and the gold scores, n."""
    pairs = load_stsb_dev(path)
    embed = Embedder(as_encode(encode), chunk=2 * len(pairs.gold))
    embed.prepare(pairs.sentences)
    return cosines(embed(pairs.first), embed(pairs.second)), pairs.gold


def load_stsb_dev(path: str | os.PathLike[str]) -> ScoredPairs:
    """Pairs of the STS-B development set; ``path`` as in :func:`stsb_dev`."""
    file = Path(path)
    if not file.is_file():
        inside = file / _STSB_FILES["dev"]
        file = inside if inside.is_file() else downstream(file) / FOLDERS["STS-B"] / _STSB_FILES["dev"]
    return _read_stsb(file)


def _unit(rows: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(rows, dtype=np.float64)
    # The largest entry is divided out first: squares of very small or large entries leave float64's range.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest == 0, 1, largest)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(norms == 0, 1, norms)


def _read_year(folder: Path, subset: str) -> ScoredPairs:
    """Pairs of one sub-set of STS12–16; those whose line in the gold file is empty were never scored."""
    sentences_file, gold_file = folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt"
    rows, gold = read_table(sentences_file, columns=2), read_lines(gold_file)
    if len(rows) != len(gold):
        raise GradlabError(
            f"{sentences_file} has {len(rows)} lines, {gold_file.name} has {len(gold)}; they go line by line"
        )
    scored = [
        (sentence(row[0]), sentence(row[1]), score(text, gold_file, line))
        for (line, row), text in zip(rows, gold, strict=True)
        if text.strip()
    ]
    return _pairs(subset, scored, gold_file)


def _read_stsb(file: Path) -> ScoredPairs:
    """Columns genre, file, year, number, score, sentence, sentence; test rows may have more."""
    rows = read_table(file, columns=7)
    return _pairs(
        "STS-B", [(sentence(row[5]), sentence(row[6]), score(row[4], file, line)) for line, row in rows], file
    )


def _read_sick(file: Path) -> ScoredPairs:
    """Columns pair_ID, sentence_A, sentence_B, relatedness_score, below a header."""
    first = read_lines(file)[0].split("\t")
    if first[:4] != ["pair_ID", "sentence_A", "sentence_B", "relatedness_score"]:
        malformed(file, 1, "expected the header pair_ID, sentence_A, sentence_B, relatedness_score")
    rows = read_table(file, columns=4, header=True)
    return _pairs(
        "SICK-R",
        [(sentence(row[1]), sentence(row[2]), score(row[3], file, line)) for line, row in rows],
        file,
    )


def _pairs(name: str, rows: list[tuple[str, str, float]], file: Path) -> ScoredPairs:
    if len(rows) < 2:
        raise GradlabError(f"{file} has {len(rows)} scored pairs; a correlation needs at least 2")
    first, second, gold = (list(column) for column in zip(*rows, strict=True))
    return ScoredPairs(name, first, second, gold)

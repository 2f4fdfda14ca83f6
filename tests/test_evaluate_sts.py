"""STS against a second parser (pandas) and scipy, on every set; bad files and bad encoders."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import cosine
from scipy.stats import spearmanr
from senteval_folder import SUBSETS, encode, make_senteval

from gradlab.errors import GradlabError
from gradlab.evaluate import STS_TASKS, MissingFile, evaluate, stsb_dev
from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.sts import cosines, spearman
from gradlab.evaluate.task_files import _lines


def frames(folder: Path, task: str, split: str = "test") -> list[pd.DataFrame]:
    """Columns first, second and gold of each sub-set, read without any code of gradlab."""
    options = {"sep": "\t", "header": None, "quoting": csv.QUOTE_NONE, "encoding": "utf-8"}
    options |= {"dtype": str, "keep_default_na": False, "skip_blank_lines": False}
    options["names"] = range(12)
    if task == "STS-B":
        table = pd.read_csv(folder / f"STS/STSBenchmark/sts-{split}.csv", **options)[[5, 6, 4]]
        tables = [table]
    elif task == "SICK-R":
        name = {"test": "test_annotated", "dev": "trial"}[split]
        tables = [pd.read_csv(folder / f"SICK/SICK_{name}.txt", **options).iloc[1:][[1, 2, 3]]]
    else:
        place = folder / "STS" / f"{task}-en-test"
        tables = []
        for subset in SUBSETS[task]:
            pairs = pd.read_csv(place / f"STS.input.{subset}.txt", **options)[[0, 1]]
            gold = pd.read_csv(place / f"STS.gs.{subset}.txt", **options)[0]
            tables.append(pairs.assign(gold=gold)[gold.str.strip() != ""])
    for table in tables:
        table.columns = ["first", "second", "gold"]
    return tables


def independent(folder: Path, task: str, split: str = "test") -> dict[str, float]:
    """All three aggregations by scipy, pair by pair; rounding makes equal sentences tie, as due."""
    predicted, gold = [], []
    for table in frames(folder, task, split):
        similarities = []
        for first, second in zip(table["first"], table["second"], strict=True):
            u, v = (
                encode([" ".join(text.split())])[0].astype(np.float64) for text in (first, second)
            )
            similarities.append(round(1 - cosine(u, v), 12))
        predicted.append(similarities)
        gold.append(table["gold"].astype(float).tolist())
    correlations = [
        spearmanr(similarities, scores).statistic
        for similarities, scores in zip(predicted, gold, strict=True)
    ]
    sizes = [len(similarities) for similarities in predicted]
    everything = spearmanr(list(itertools.chain(*predicted)), list(itertools.chain(*gold)))
    weighted = sum(value * size for value, size in zip(correlations, sizes, strict=True)) / sum(
        sizes
    )
    mean = sum(correlations) / len(correlations)
    return {"all": everything.statistic, "mean": mean, "wmean": weighted, "pairs": sum(sizes)}


def assert_agrees(folder: Path, task: str, split: str) -> dict[str, float]:
    expected = independent(folder, task, split)
    scores = evaluate(encode, folder, task, split=split, progress=False).scores[task]
    for name in ("all", "mean", "wmean"):
        assert scores[name] == pytest.approx(expected[name], abs=1e-9)
    assert scores["pairs"] == expected["pairs"]
    return expected


@pytest.mark.parametrize("task", STS_TASKS)
def test_agrees_with_an_independent_computation(senteval: Path, task: str) -> None:
    expected = assert_agrees(senteval, task, "test")
    assert expected["all"] > 0.3  # the encoder sees something, so the comparison means something


@pytest.mark.parametrize("task", ["STS-B", "SICK-R"])
def test_dev_split(senteval: Path, task: str) -> None:
    assert assert_agrees(senteval, task, "dev")["all"] != independent(senteval, task, "test")["all"]


def test_cosines_of_any_magnitude() -> None:
    random = np.random.default_rng(1)
    u, v = random.standard_normal((2, 50, 7))
    expected = [1 - cosine(a, b) for a, b in zip(u, v, strict=True)]
    for scale in (1.0, 1e-200, 1e200):
        np.testing.assert_allclose(cosines(u * scale, v / scale), expected, atol=4e-16, rtol=1e-13)


def test_spearman_is_that_of_ranks_with_ties() -> None:
    """Pearson's correlation of mean ranks, by numpy and a loop; integers and lists serve, too."""
    first, second = [3, 1, 2, 2, 5, 2], [0.5, 0.1, 0.3, 0.3, 0.2, 0.9]

    def ranks(values: list[float]) -> list[float]:
        return [sum(b < a for b in values) + (sum(b == a for b in values) + 1) / 2 for a in values]

    expected = np.corrcoef(ranks(first), ranks(second))[0, 1]
    assert spearman(first, second) == pytest.approx(expected, abs=1e-15)
    assert np.isnan(spearman([1, 1], [1, 2]))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([], [], r"n >= 2 numbers, not of shapes \(0,\) and \(0,\)"),
        ([1], [1], r"n >= 2 numbers"),
        ([1, 2, 3], [1, 2], r"shapes \(3,\) and \(2,\)"),
        ([[1, 2], [2, 1]], [[1, 2], [3, 2]], r"shapes \(2, 2\)"),
        (["a", "b"], [1, 2], "of real numbers: could not convert"),
        ([1, 2], [[1], [1, 2]], "of real numbers: setting an array element"),
    ],
)
def test_what_has_no_rank_correlation_is_refused(first: list, second: list, message: str) -> None:
    with pytest.raises(GradlabError, match=message):
        spearman(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [(np.eye(3), np.ones((1, 3))), ([1, 2], [1, 2]), ([[1, 2], [1]], [[1, 2], [1, 3]])],
)
def test_cosines_are_of_as_many_rows(first: list, second: list) -> None:
    with pytest.raises(GradlabError, match="cosines are of rows in pairs"):
        cosines(first, second)


def test_equal_sentences_tie_at_one_and_zero_vectors_at_zero() -> None:
    u = np.random.default_rng(2).standard_normal((100, 5))
    assert (cosines(u, u.copy()) == 1).all()
    assert cosines(np.zeros((2, 3)), np.array([[1.0, 0, 0], [0, 0, 0]])).tolist() == [0, 0]


@pytest.mark.parametrize("path", ["", "STS/STSBenchmark", "STS/STSBenchmark/sts-dev.csv"])
def test_stsb_dev_takes_folder_benchmark_folder_or_file(senteval: Path, path: str) -> None:
    expected = independent(senteval, "STS-B", "dev")["all"]
    assert stsb_dev(encode, senteval / path) == pytest.approx(expected, abs=1e-9)


def test_a_file_that_cannot_be_opened_is_not_absent(tmp_path: Path) -> None:
    with pytest.raises(GradlabError, match=r"cannot read .*name too long") as caught:
        _lines(tmp_path / ("a" * 300))
    assert not isinstance(caught.value, MissingFile)


def test_stsb_dev_of_a_collapsed_encoder_or_an_absent_file(senteval: Path) -> None:
    assert np.isnan(stsb_dev(lambda s: np.ones((len(s), 3)), senteval))
    with pytest.raises(GradlabError, match="give SentEval's data/downstream folder"):
        stsb_dev(encode, senteval / "nowhere" / "sts-dev.csv")


class TestEmbedder:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_torch_tensors(self, dtype: torch.dtype) -> None:
        rows = Embedder(lambda s: torch.ones(len(s), 2, dtype=dtype, requires_grad=True))(
            ["a", "b"]
        )
        assert rows.dtype == (np.float64 if dtype == torch.float64 else np.float32)

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (np.ones((2, 4)), r"float64 values of shape \(2, 4\) for 3 sentences"),
            (np.array([[1.0], [np.nan], [1.0]]), "not finite for 1 of 3 sentences .*'bb'"),
            ([[1.0], [1.0, 2.0], [1.0]], r"no matrix \(3, D\)"),
            ([torch.ones(2), torch.ones(3), torch.ones(2)], r"no matrix \(3, D\)"),
        ],
    )
    def test_bad_embeddings(self, result: np.ndarray, message: str) -> None:
        with pytest.raises(GradlabError, match=message):
            Embedder(lambda s: result)(["a", "bb", "ccc"])

    def test_calls_that_return_rows_of_other_lengths(self) -> None:
        lengths = iter([2, 3])
        with pytest.raises(GradlabError, match="rows of different lengths: 2 and 3"):
            Embedder(lambda s: np.ones((len(s), next(lengths))), chunk=2)(["a", "bb", "ccc"])

    def test_a_list_of_torch_rows(self) -> None:
        rows = [
            torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True),
            torch.tensor([3.0, 4.0]),
        ]
        assert Embedder(lambda s: rows)(["bb", "a"]).tolist() == [[1, 2], [3, 4]]


STSB = "STS/STSBenchmark/sts-test.csv"
MALFORMED = [
    ("STS-B", STSB, 2, b"a\tb\tc\td\tfive\tone\ttwo", "'five' is not a score"),
    ("STS-B", STSB, 3, b"a\tb\tc\td\t3.0\tcaf\xe9\ttwo", "can't decode byte 0xe9"),
    ("STS12", "STS/STS12-en-test/STS.gs.MSRvid.txt", 7, b"4,5", "'4,5' is not a score"),
    ("SST-2", "SST/binary/sentiment-dev", 4, b"a sentence\t2", "label '2' is none of 0, 1"),
    ("TREC", "TREC/train_5500.label", 5, b"", "expected 'CLASS:subclass question'"),
]


@pytest.mark.parametrize(("task", "name", "line", "content", "message"), MALFORMED)
def test_malformed_files_name_file_and_line(
    tmp_path: Path, task: str, name: str, line: int, content: bytes, message: str
) -> None:
    file = make_senteval(tmp_path) / name
    lines = file.read_bytes().split(b"\n")
    lines[line - 1] = content
    file.write_bytes(b"\n".join(lines))
    with pytest.raises(GradlabError, match=rf"{Path(name).name}, line {line}: .*{message}"):
        evaluate(encode, tmp_path, task, progress=False)

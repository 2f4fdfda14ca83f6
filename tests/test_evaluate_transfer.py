"""Transfer tasks: SentEval's order and features, its three protocols by loops over scikit-learn."""

from __future__ import annotations

import codecs
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from senteval_folder import TREC_CLASSES, encode, make_senteval
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from gradlab.errors import GradlabError
from gradlab.evaluate import TRANSFER_TASKS, EvaluationResult, evaluate
from gradlab.evaluate.task_files import load_transfer
from gradlab.evaluate.transfer import AdamLinear

FILES = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}
FOLDS = 3
Split = tuple[list[tuple[str, ...]], np.ndarray]


def parse(folder: Path, task: str) -> dict[str, Split]:
    """A task's parts, as SentEval describes: words by white space, sorted by length, then label."""
    rows: dict[str, list[tuple[list[list[str]], int]]] = {}

    def lines(name: str, encoding: str) -> list[str]:
        return codecs.decode((folder / name).read_bytes(), encoding).split("\n")[:-1]

    if task in FILES:
        rows["train"] = [
            ([line.split()], 1) for line in lines(f"{task}/{FILES[task][0]}", "latin-1")
        ]
        rows["train"] += [
            ([line.split()], 0) for line in lines(f"{task}/{FILES[task][1]}", "latin-1")
        ]
    elif task == "SST-2":
        for split in ("train", "dev", "test"):
            cells = [line.split("\t") for line in lines(f"SST/binary/sentiment-{split}", "utf-8")]
            rows[split] = [([text.split()], int(label)) for text, label in cells]
    elif task == "TREC":
        for split, name in (("train", "train_5500"), ("test", "TREC_10")):
            words = [line.split() for line in lines(f"TREC/{name}.label", "latin-1")]
            rows[split] = [([w[1:]], TREC_CLASSES.index(w[0].split(":")[0])) for w in words]
    else:
        for split in ("train", "test"):
            cells = [
                line.split("\t") for line in lines(f"MRPC/msr_paraphrase_{split}.txt", "utf-8")[1:]
            ]
            rows[split] = [([a.split(), b.split()], int(label)) for label, _, _, a, b in cells]
    result = {}
    for split, examples in rows.items():
        examples.sort(key=lambda row: ([len(words) for words in row[0]], row[1]))
        texts = [tuple(" ".join(words) for words in row[0]) for row in examples]
        result[split] = (texts, np.array([label for _, label in examples]))
    return result


def features(split: Split) -> np.ndarray:
    columns = [encode(list(column)) for column in zip(*split[0], strict=True)]
    if len(columns) == 1:
        return columns[0]
    return np.hstack([np.abs(columns[0] - columns[1]), columns[0] * columns[1]])


class Plain:
    """scikit-learn's own logistic regression."""

    def accuracies(self, train: Any, held_out: Any, grid: Any) -> list[float]:
        return [self._fit(train, parameter).score(*held_out) for parameter in grid]

    def predict(self, train: Any, x: np.ndarray, parameter: float, held_out: Any) -> np.ndarray:
        return self._fit(train, parameter).predict(x)

    def _fit(self, train: Any, parameter: float) -> LogisticRegression:
        return LogisticRegression(C=parameter, tol=1e-8, max_iter=5000).fit(
            train[0].astype(float), train[1]
        )


def folds(y: np.ndarray) -> list[Any]:
    return list(StratifiedKFold(FOLDS, shuffle=True, random_state=1111).split(y, y))


def best(scores: list[float]) -> int:
    return int(np.argmax([round(100 * score, 2) for score in scores]))


def over_folds(classifier: Any, x: np.ndarray, y: np.ndarray, grid: Any) -> list[float]:
    accuracies = [classifier.accuracies((x[a], y[a]), (x[b], y[b]), grid) for a, b in folds(y)]
    return list(np.mean(accuracies, axis=0))


def by_loops(splits: dict[str, Split], classifier: Any, grid: tuple[float, ...]) -> dict[str, Any]:
    """SentEval's protocol as nested loops; which one shows in the parts."""
    (x, y) = features(splits["train"]), splits["train"][1]
    if "test" not in splits:
        dev, test, chosen = [], [], []
        for outside, inside in folds(y):
            train = x[outside], y[outside]
            scores = over_folds(classifier, *train, grid)
            chosen.append(grid[best(scores)])
            dev.append(scores[best(scores)])
            test.append(
                np.mean(classifier.predict(train, x[inside], chosen[-1], None) == y[inside])
            )
        return {"devacc": np.mean(dev), "acc": np.mean(test), "chosen": chosen}
    held_out = (features(splits["dev"]), splits["dev"][1]) if "dev" in splits else None
    scores = (
        list(classifier.accuracies((x, y), held_out, grid))
        if held_out
        else over_folds(classifier, x, y, grid)
    )
    chosen = grid[best(scores)]
    guesses = classifier.predict((x, y), features(splits["test"]), chosen, held_out)
    answers = splits["test"][1]
    result = {"devacc": scores[best(scores)], "acc": np.mean(guesses == answers), "chosen": chosen}
    if len(splits["train"][0][0]) == 2:
        result["f1"] = f1_score(answers, guesses)
    return result


@pytest.mark.parametrize("task", TRANSFER_TASKS)
def test_order_of_the_examples_is_sentevals(senteval: Path, task: str) -> None:
    expected = parse(senteval, task)
    splits = load_transfer(senteval, task).splits
    assert set(splits) == set(expected)
    for split, (texts, labels) in expected.items():
        assert splits[split].texts == texts
        np.testing.assert_array_equal(splits[split].labels, labels)


@pytest.fixture(scope="module")
def result(senteval: Path) -> EvaluationResult:
    return evaluate(encode, senteval, "transfer", folds=FOLDS, jobs=1, progress=False)


@pytest.mark.parametrize("task", TRANSFER_TASKS)
def test_protocol_against_plain_loops(senteval: Path, result: EvaluationResult, task: str) -> None:
    splits = parse(senteval, task)
    powers = range(-1, 6) if {"test", "dev"} & set(splits) == {"test"} else range(-2, 4)
    expected = by_loops(splits, Plain(), tuple(2.0**t for t in powers))
    scores = dict(result.scores[task])
    assert scores.pop("chosen") == expected.pop("chosen")
    assert scores == pytest.approx(expected, abs=1e-12)
    assert 0.3 < scores["acc"] < 0.999  # neither chance nor trivial


def test_the_chosen_parameters_differ(result: EvaluationResult) -> None:
    """Else a protocol that never chose would pass."""
    chosen = np.hstack([result.scores[task]["chosen"] for task in TRANSFER_TASKS])
    assert len(set(chosen)) > 2


def test_dev_split_reads_no_test_data(
    senteval: Path, result: EvaluationResult, tmp_path: Path
) -> None:
    folder = shutil.copytree(senteval, tmp_path / "data")
    for name in ("SST/binary/sentiment-test", "TREC/TREC_10.label", "MRPC/msr_paraphrase_test.txt"):
        (folder / name).unlink()
    dev = evaluate(
        encode, folder, "MR SST-2 TREC MRPC", split="dev", folds=FOLDS, jobs=1, progress=False
    )
    for task, scores in dev.scores.items():
        assert scores == {name: result.scores[task][name] for name in ("devacc", "chosen")}


def test_processes_change_nothing_and_the_seed_the_folds(
    senteval: Path, result: EvaluationResult
) -> None:
    for jobs, seed in ((2, 1111), (1, 2)):
        evaluation = evaluate(
            encode, senteval, "CR", folds=FOLDS, jobs=jobs, seed=seed, progress=False
        )
        assert (evaluation.scores["CR"] == result.scores["CR"]) == (seed == 1111)


@pytest.mark.parametrize("task", ["MR", "SST-2", "TREC"])
def test_protocol_with_adam(senteval: Path, task: str) -> None:
    """The refit stops on the dev set where there is one, else on a held-out share."""
    expected = by_loops(parse(senteval, task), AdamLinear(1111), (1e-5, 1e-4, 1e-3, 1e-2))
    result = evaluate(
        encode, senteval, task, classifier="adam", folds=FOLDS, jobs=1, progress=False
    )
    scores = result.scores[task]
    assert scores.pop("chosen") == expected.pop("chosen")
    assert scores == pytest.approx(expected)
    assert "Adam" in result.classifier


def test_malformed_files_are_found_before_anything_is_embedded(tmp_path: Path) -> None:
    (make_senteval(tmp_path) / "TREC/TREC_10.label").write_text("nonsense\n")
    with pytest.raises(GradlabError, match="TREC_10"):
        evaluate(lambda sentences: 1 / 0, tmp_path, "all", progress=False)

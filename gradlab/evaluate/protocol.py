"""How a transfer task chooses its regularisation and scores itself: SentEval's three protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.evaluate.classifiers import Classifier, Examples
from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.transfer import TransferTask

Indices = NDArray[np.int64]


def fits(task: TransferTask, folds: int, test: bool) -> int:
    """How often :meth:`Protocol.scores` will call ``advance``."""
    choosing = {"nested": folds**2, "folds": folds, "dev": 1}[task.selection]
    return choosing + test * (folds if task.selection == "nested" else 1)


@dataclass(frozen=True)
class Protocol:
    """Settings of a transfer evaluation.

    Attributes:
        classifier: which classifier.
        folds: number of folds, outer and inner.
        seed: seeds the folds.
        jobs: processes; -1 for one a core.
        test: whether the test score is wanted; else only the score of the choosing folds is computed.
        advance: called after each fit, for a progress bar.
    """

    classifier: Classifier
    folds: int = 10
    seed: int = 1111
    jobs: int = -1
    test: bool = True
    advance: Callable[[int], object] = lambda count: None

    def scores(self, task: TransferTask, embed: Embedder) -> dict[str, Any]:
        """Scores of a task, in [0, 1], with the regularisation chosen.

        Returns:
            "devacc", the best mean accuracy of the choosing folds; "chosen", the parameter chosen (one an outer fold
            for a nested task); with ``test`` also "acc" and, for MRPC, "f1" of the paraphrases.
        """
        train = task.parts["train"].examples(embed)
        if task.selection == "nested":
            return self._nested(train)
        grid = self.classifier.grid(task.selection)
        dev = task.parts["dev"].examples(embed) if "dev" in task.parts else None
        if dev is None:
            table = self._over_folds(train, list(self._split(train[1])), grid)
        else:
            table = self._run(_accuracies, [(self.classifier, train, dev, None, grid)])[0][None]
        best, devacc = _choice(table.mean(axis=0))
        result: dict[str, Any] = {"devacc": devacc, "chosen": grid[best]}
        if self.test:
            features, answers = task.parts["test"].examples(embed)
            guesses = self._run(_predict, [(self.classifier, train, None, features, grid[best], dev)])[0]
            result["acc"] = float(np.mean(guesses == answers))
            if task.name == "MRPC":
                from sklearn.metrics import f1_score

                result["f1"] = float(f1_score(answers, guesses))
        return result

    def _nested(self, train: Examples) -> dict[str, Any]:
        """Every outer fold is scored with the regularisation that its inner folds choose."""
        features, labels = train
        grid = self.classifier.grid("nested")
        outer = list(self._split(labels))
        inner = [(rest[a], rest[b]) for rest, _ in outer for a, b in self._split(labels[rest])]
        table = self._over_folds(train, inner, grid).reshape(self.folds, self.folds, -1).mean(axis=1)
        choices = [_choice(row) for row in table]
        chosen = [grid[best] for best, _ in choices]
        result: dict[str, Any] = {"devacc": float(np.mean([value for _, value in choices])), "chosen": chosen}
        if self.test:
            work = [
                (self.classifier, train, rest, features[held_out], parameter, None)
                for (rest, held_out), parameter in zip(outer, chosen, strict=True)
            ]
            guesses = self._run(_predict, work)
            right = [np.mean(g == labels[held_out]) for g, (_, held_out) in zip(guesses, outer, strict=True)]
            result["acc"] = float(np.mean(right))
        return result

    def _split(self, labels: Indices) -> Iterable[tuple[Indices, Indices]]:
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(n_splits=self.folds, shuffle=True, random_state=self.seed)
        return folds.split(np.zeros(len(labels)), labels)

    def _over_folds(
        self, train: Examples, folds: list[tuple[Indices, Indices]], grid: tuple[float, ...]
    ) -> NDArray[np.float64]:
        """Accuracies (folds, grid)."""
        return np.stack(
            self._run(_accuracies, [(self.classifier, train, None, fold, grid) for fold in folds])
        )

    def _run(self, function: Callable[..., Any], work: list[tuple[Any, ...]]) -> list[Any]:
        """Results in order, computed in processes: threads would wait for each other's small steps."""
        from joblib import Parallel, delayed

        results = []
        parallel = Parallel(n_jobs=1 if len(work) == 1 else self.jobs, return_as="generator")
        for result in parallel(delayed(function)(*item) for item in work):
            results.append(result)
            self.advance(1)
        return results


def _accuracies(
    classifier: Classifier,
    train: Examples,
    validation: Examples | None,
    fold: tuple[Indices, Indices] | None,
    grid: tuple[float, ...],
) -> NDArray[np.float64]:
    """Accuracy of each regularisation on ``validation``, or on the held-out part of a fold of ``train``."""
    from threadpoolctl import threadpool_limits

    if fold is not None:
        train, validation = _take(train, fold[0]), _take(train, fold[1])
    assert validation is not None
    with threadpool_limits(limits=1):
        return classifier.accuracies(train, validation, grid)


def _predict(
    classifier: Classifier,
    train: Examples,
    rest: Indices | None,
    features: NDArray[np.float32],
    parameter: float,
    validation: Examples | None,
) -> Indices:
    """Labels of ``features`` after training on ``train``, or on some of its rows."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return classifier.predict(
            train if rest is None else _take(train, rest), features, parameter, validation
        )


def _take(examples: Examples, rows: Indices) -> Examples:
    return examples[0][rows], examples[1][rows]


def _choice(accuracies: NDArray[np.float64]) -> tuple[int, float]:
    """Position and score of the best; like SentEval's, scores equal to two decimals of a per cent are a tie."""
    best = int(np.argmax(np.round(100 * accuracies, 2)))
    return best, float(accuracies[best])

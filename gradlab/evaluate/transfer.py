"""Transfer tasks: linear classifiers on frozen embeddings, scored by SentEval's three protocols (Conneau & Kiela, 2018)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.evaluate.classifiers import Classifier, Examples
from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.tasks import Split, TransferTask


def examples(part: Split, embed: Embedder) -> Examples:
    """Features (n, D) in float32 and labels (n,); a pair (u, v) becomes |u - v| and u * v, (n, 2 D)."""
    columns = [embed(column).astype(np.float32) for column in zip(*part.texts, strict=True)]
    if len(columns) == 1:
        return columns[0], part.labels
    u, v = columns
    return np.concatenate([np.abs(u - v), u * v], axis=1), part.labels


@dataclass(frozen=True)
class Protocol:
    """Settings of a transfer evaluation.

    Attributes:
        classifier: trained on the embeddings.
        folds: number of folds, outer and inner.
        seed: of the folds.
        jobs: processes; -1 for one per core.
        test: whether to compute the test score; else only that of the folds that choose.
        advance: called with 1 after each fit, for a progress bar.
    """

    classifier: Classifier
    folds: int = 10
    seed: int = 1111
    jobs: int = -1
    test: bool = True
    advance: Callable[[int], object] = lambda count: None

    def fits(self, task: TransferTask) -> int:
        """How often `scores` will call ``advance``."""
        choosing = {"nested": self.folds**2, "folds": self.folds, "dev": 1}[task.selection]
        return choosing + self.test * (self.folds if task.selection == "nested" else 1)

    def scores(self, task: TransferTask, embed: Embedder) -> dict[str, Any]:
        """Scores of a task, in [0, 1], with the regularisation chosen.

        Returns:
            "devacc", the best mean accuracy of the choosing folds; "chosen", the parameter chosen (one per outer fold
            of a nested task); with ``test`` also "acc" and, for MRPC, "f1" of the paraphrases.
        """
        train = examples(task.parts["train"], embed)
        if task.selection == "nested":
            return self._nested(train)
        grid = self.classifier.grid(task.selection)
        dev = examples(task.parts["dev"], embed) if "dev" in task.parts else None
        if dev:
            table = self._run(self.classifier.accuracies, [(train, dev, grid)])
        else:
            work = ((*pair, grid) for pair in self._over_folds(train))
            table = self._run(self.classifier.accuracies, work)
        best, devacc = _choice(np.mean(table, axis=0))
        result: dict[str, Any] = {"devacc": devacc, "chosen": grid[best]}
        if self.test:
            features, answers = examples(task.parts["test"], embed)
            (guesses,) = self._run(self.classifier.predict, [(train, features, grid[best], dev)])
            result["acc"] = float(np.mean(guesses == answers))
            if task.name == "MRPC":
                from sklearn.metrics import f1_score

                result["f1"] = float(f1_score(answers, guesses))
        return result

    def _nested(self, train: Examples) -> dict[str, Any]:
        """Every outer fold is scored with the regularisation that its inner folds choose."""
        grid = self.classifier.grid("nested")
        outer = list(self._over_folds(train))
        inner = ((*pair, grid) for rest, _ in outer for pair in self._over_folds(rest))
        table = np.stack(self._run(self.classifier.accuracies, inner))
        choices = [_choice(row) for row in table.reshape(self.folds, self.folds, -1).mean(axis=1)]
        chosen = [grid[best] for best, _ in choices]
        result: dict[str, Any] = {"devacc": float(np.mean([value for _, value in choices])), "chosen": chosen}
        if self.test:
            work = ((rest, held_out[0], c, None) for (rest, held_out), c in zip(outer, chosen, strict=True))
            guesses = self._run(self.classifier.predict, work)
            answers = [held_out[1] for _, held_out in outer]
            right = [np.mean(mine == theirs) for mine, theirs in zip(guesses, answers, strict=True)]
            result["acc"] = float(np.mean(right))
        return result

    def _over_folds(self, data: Examples) -> Iterator[tuple[Examples, Examples]]:
        """Training and held-out examples of each fold."""
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(n_splits=self.folds, shuffle=True, random_state=self.seed)
        for rest, held_out in folds.split(np.zeros(len(data[1])), data[1]):
            yield (data[0][rest], data[1][rest]), (data[0][held_out], data[1][held_out])

    def _run(self, function: Callable[..., Any], work: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Results in order, computed in processes: threads would wait for each other's small steps."""
        from joblib import Parallel, delayed

        jobs = 1 if isinstance(work, list) and len(work) == 1 else self.jobs
        results = []
        for result in Parallel(n_jobs=jobs, return_as="generator")(
            delayed(_on_one_thread)(function, *item) for item in work
        ):
            results.append(result)
            self.advance(1)
        return results


def _on_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return function(*arguments)


def _choice(accuracies: NDArray[np.float64]) -> tuple[int, float]:
    """Position and score of the best; like SentEval's, scores equal to two decimals of a per cent are a tie."""
    best = int(np.argmax(np.round(100 * accuracies, 2)))
    return best, float(accuracies[best])

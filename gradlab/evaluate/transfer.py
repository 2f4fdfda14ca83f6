"""Transfer tasks: linear classifiers on frozen embeddings, scored by SentEval's three protocols (Conneau & Kiela, 2018).

Both classifiers are logistic regressions with an L2 penalty, each over a grid of regularisations. They differ in the grid, in how
they are optimised, and in that the one trained by Adam stops early on the data it is chosen on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.tasks import Split, TransferTask, Validation
from gradlab.waiting import progress_bar

Examples = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Features (n, D) and labels (n,)."""


@dataclass(frozen=True)
class Logistic:
    """scikit-learn's logistic regression; the parameter is C, the inverse strength of the penalty.

    The intercept is not penalised, so shifting the features changes nothing: they are centred, which lets float32
    suffice. Two classes are solved by Newton's method with a Cholesky factorisation (each C starts from the one
    before) up to scikit-learn's tolerance of 1e-4, which leaves about 1e-5 of the coefficients; more classes, or
    more than 2048 features, by Newton's method with conjugate gradients in float64 up to 1e-6.
    """

    title = "logistic regression (scikit-learn)"

    def grid(self, selection: Validation) -> tuple[float, ...]:
        """Powers of two: 1/4 to 8, or 1/2 to 32 where folds of the training set choose."""
        return tuple(2.0**t for t in (range(-1, 6) if selection == "folds" else range(-2, 4)))

    def accuracies(self, train: Examples, validation: Examples, grid: Sequence[float]) -> NDArray[np.float64]:
        """Accuracy on ``validation``, in [0, 1], for each C."""
        features, labels = validation
        return np.array([np.mean(guess == labels) for guess in self._guesses(train, features, grid)])

    def predict(
        self, train: Examples, features: NDArray[np.float32], parameter: float, validation: Examples | None
    ) -> NDArray[np.int64]:
        """Labels of ``features`` (m, D); ``validation`` is not used."""
        return self._guesses(train, features, [parameter])[0]

    def _guesses(
        self, train: Examples, features: NDArray[np.float32], grid: Sequence[float]
    ) -> list[NDArray[np.int64]]:
        from scipy.linalg import LinAlgWarning
        from sklearn.exceptions import ConvergenceWarning

        if len(np.unique(train[1])) > 2 or train[0].shape[1] > 2048:
            return _path(train, features, grid, np.float64, solver="newton-cg", tol=1e-6)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ConvergenceWarning)
                warnings.simplefilter("error", LinAlgWarning)
                return _path(train, features, grid, np.float32)
        except (ConvergenceWarning, LinAlgWarning):  # the Hessian is too ill-conditioned for float32
            return _path(train, features, grid, np.float64)


def _path(
    train: Examples,
    features: NDArray[np.float32],
    grid: Sequence[float],
    dtype: type[np.floating[Any]],
    *,
    solver: str = "newton-cholesky",
    tol: float = 1e-4,
) -> list[NDArray[np.int64]]:
    """Labels of ``features`` for each C; every fit starts from the one before."""
    from sklearn.linear_model import LogisticRegression

    centre = train[0].mean(axis=0, dtype=np.float64)
    known, asked = ((rows - centre).astype(dtype) for rows in (train[0], features))
    model = LogisticRegression(solver=solver, tol=tol, max_iter=1000, warm_start=True)
    return [model.set_params(C=one).fit(known, train[1]).predict(asked) for one in grid]


@dataclass(frozen=True)
class AdamLinear:
    """The linear classifier trained by Adam that the papers report; the parameter is the L2 weight decay.

    Batches of 64, learning rate 1e-3, a check of the validation accuracy every 4 epochs; training ends at the sixth
    check in all that brings no new best (the count does not start again after a best), or after 204 epochs, and the
    best weights count. Initial weights and the order of the examples are those that SentEval draws from the seed.

    Attributes:
        seed: seeds the initial weights, the held-out share of a refit and the order of the examples.
    """

    seed: int = 1111
    title = "linear classifier trained by Adam"

    def grid(self, selection: Validation) -> tuple[float, ...]:
        """1e-5 to 1e-2, whatever chooses."""
        return (1e-5, 1e-4, 1e-3, 1e-2)

    def accuracies(self, train: Examples, validation: Examples, grid: Sequence[float]) -> NDArray[np.float64]:
        """Best accuracy on ``validation`` during training, in [0, 1], for each L2 weight decay."""
        return self._fit(train, validation, grid, np.random.RandomState(self.seed))[0]

    def predict(
        self, train: Examples, features: NDArray[np.float32], parameter: float, validation: Examples | None
    ) -> NDArray[np.int64]:
        """Labels of ``features`` (m, D); without ``validation``, 5% of ``train`` are held out to stop on."""
        random = np.random.RandomState(self.seed)
        if validation is None:
            order = random.permutation(len(train[1]))
            held_out = max(1, int(0.05 * len(order)))
            validation = train[0][order[:held_out]], train[1][order[:held_out]]
            train = train[0][order[held_out:]], train[1][order[held_out:]]
        weights = self._fit(train, validation, [parameter], random)[1]
        return np.argmax(_with_ones(features) @ weights, axis=1)

    def _fit(
        self, train: Examples, validation: Examples, grid: Sequence[float], random: np.random.RandomState
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Best accuracies (R,) and weights (D + 1, R * C), the bias in the last row.

        The R classifiers see the same batches from the same start, so they are trained side by side as columns of one
        matrix. Adam's step, with the rates of its authors, is written out: at this size it takes a fourth of the time that
        automatic differentiation and a library's optimiser take (they are what the tests compare it with).
        """
        inputs, targets = _with_ones(train[0]), train[1]
        tests, answers = _with_ones(validation[0]), validation[1]
        classes = int(max(targets.max(), answers.max())) + 1
        weights = np.tile(_initial(train[0].shape[1], classes, self.seed), len(grid))
        decay = np.repeat(np.asarray(grid, dtype=np.float32), classes)
        one_hot = np.eye(classes, dtype=np.float32)[targets]
        first, second, steps = np.zeros_like(weights), np.zeros_like(weights), 0
        best, best_weights = np.full(len(grid), -1.0), weights.copy()
        fruitless = np.zeros(len(grid), dtype=int)
        for _ in range(51):  # SentEval goes on while no more than 200 epochs are done: 51 times 4
            for _ in range(4):
                order = random.permutation(len(targets))
                for start in range(0, len(order), 64):
                    batch = order[start : start + 64]
                    x = inputs.take(batch, axis=0)
                    error = _softmax((x @ weights).reshape(len(batch), len(grid), classes))
                    error -= one_hot.take(batch, axis=0)[:, None]
                    error /= len(batch)
                    gradient = x.T @ error.reshape(len(batch), -1) + decay * weights
                    steps += 1
                    first += 0.1 * (gradient - first)
                    second += 0.001 * (np.square(gradient, out=gradient) - second)
                    root = np.sqrt(second / (1 - 0.999**steps))
                    root += 1e-8
                    np.divide(first, root, out=root)
                    root *= 0.001 / (1 - 0.9**steps)
                    weights -= root
            guesses = (tests @ weights).reshape(len(answers), len(grid), classes).argmax(axis=2)
            accuracy = (guesses == answers[:, None]).mean(axis=0)
            better = (accuracy > best) & (fruitless < 6)
            fruitless += ~better
            best[better] = accuracy[better]
            columns = np.repeat(better, classes)
            best_weights[:, columns] = weights[:, columns]
            if (fruitless >= 6).all():
                break
        return best, best_weights


def _initial(features: int, classes: int, seed: int) -> NDArray[np.float32]:
    """Weights and, in the last row, bias that ``torch.nn.Linear`` draws after ``torch.manual_seed(seed)``."""
    import torch

    random = torch.Generator().manual_seed(seed)
    bound = features**-0.5
    weight = torch.empty(classes, features).uniform_(-bound, bound, generator=random)
    bias = torch.empty(classes, 1).uniform_(-bound, bound, generator=random)
    result: NDArray[np.float32] = torch.cat([weight, bias], dim=1).T.contiguous().numpy()
    return result


def _with_ones(features: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([features, np.ones((len(features), 1), dtype=np.float32)], axis=1)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Softmax over the last axis, in place."""
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return logits


Classifier = Logistic | AdamLinear
CLASSIFIERS = ("logistic", "adam")


def transfer_scores(
    task: TransferTask,
    embed: Embedder,
    classifier: Classifier,
    *,
    folds: int = 10,
    seed: int = 1111,
    jobs: int = -1,
    test: bool = True,
    progress: bool = False,
) -> dict[str, Any]:
    """Scores of a task, in [0, 1], with the regularisation chosen.

    Each outer fold of a nested task is the test set once, and inner folds of the rest choose for it. Any other task has one
    test set, for which its dev set chooses, or folds of its training set.

    Args:
        task: what `load_transfer` read; ``embed`` embeds its sentences.
        classifier: trained on the embeddings.
        folds, seed, jobs, progress: as for `gradlab.evaluate.evaluate`.
        test: whether to compute the test score; else only that of the folds that choose.

    Returns:
        "devacc", the best mean accuracy of the choosing folds; "chosen", the parameter chosen (one per outer fold
        of a nested task); with ``test`` also "acc" and, for MRPC, "f1" of the paraphrases.
    """
    parts = {name: _examples(part, embed) for name, part in task.parts.items()}
    train, dev, grid = parts["train"], parts.get("dev"), classifier.grid(task.selection)
    nested = task.selection == "nested"
    # What is trained on with the parameter chosen, and what is scored then.
    outer = list(_over_folds(train, folds, seed)) if nested else [(train, parts["test"] if test else train)]
    pairs = ([(data, dev)] if dev else _over_folds(data, folds, seed) for data, _ in outer)
    choosing, testing = len(outer) * (1 if dev else folds), len(outer) * test
    with progress_bar(
        None, progress, desc=f"{task.name}: {classifier.title}", total=choosing + testing
    ) as bar:

        def run(function: Callable[..., Any], work: Iterable[tuple[Any, ...]], count: int) -> list[Any]:
            """Results in order, computed in processes: threads would wait for each other's small steps."""
            from joblib import Parallel, delayed

            calls = (delayed(_on_one_thread)(function, *item) for item in work)
            results = []
            for result in Parallel(n_jobs=1 if count == 1 else jobs, return_as="generator")(calls):
                results.append(result)
                bar.update(1)
            return results

        table = run(classifier.accuracies, ((*pair, grid) for some in pairs for pair in some), choosing)
        means = np.reshape(table, (len(outer), -1, len(grid))).mean(axis=1)
        # Like SentEval's, scores equal to two decimals of a per cent are a tie.
        best = np.round(100 * means, 2).argmax(axis=1)
        chosen = [grid[place] for place in best]
        result = {
            "devacc": float(means[range(len(outer)), best].mean()),
            "chosen": chosen if nested else chosen[0],
        }
        if test:
            work = (
                (data, held_out[0], one, dev) for (data, held_out), one in zip(outer, chosen, strict=True)
            )
            guesses, answers = run(classifier.predict, work, testing), [held_out[1] for _, held_out in outer]
            right = [np.mean(mine == theirs) for mine, theirs in zip(guesses, answers, strict=True)]
            result["acc"] = float(np.mean(right))
            if task.name == "MRPC":
                from sklearn.metrics import f1_score

                result["f1"] = float(f1_score(answers[0], guesses[0]))
    return result


def _examples(part: Split, embed: Embedder) -> Examples:
    """Features (n, D) in float32 and labels (n,); a pair (u, v) becomes |u - v| and u * v, (n, 2 D)."""
    columns = [embed(column).astype(np.float32) for column in zip(*part.texts, strict=True)]
    if len(columns) == 1:
        return columns[0], part.labels
    u, v = columns
    return np.concatenate([np.abs(u - v), u * v], axis=1), part.labels


def _over_folds(data: Examples, folds: int, seed: int) -> Iterator[tuple[Examples, Examples]]:
    """Training and held-out examples of each fold."""
    from sklearn.model_selection import StratifiedKFold

    features, labels = data
    splits = StratifiedKFold(n_splits=folds, shuffle=True, random_state=seed).split(features, labels)
    for rest, held_out in splits:
        yield (features[rest], labels[rest]), (features[held_out], labels[held_out])


def _on_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return function(*arguments)

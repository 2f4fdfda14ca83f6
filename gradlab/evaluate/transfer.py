"""Transfer tasks: linear classifiers on frozen embeddings, as in SentEval (Conneau & Kiela, 2018).

Both classifiers are logistic regressions with an L2 penalty from a grid. They differ in grid and
optimiser, and the classifier trained by Adam stops early on the data that choose the penalty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.task_files import Split, TransferTask, Validation
from gradlab.progress_bars import progress_bar

Examples = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Features (n, D) and labels (n,)."""


@dataclass(frozen=True)
class Logistic:
    """scikit-learn's logistic regression; the parameter is C, the inverse strength of the penalty.

    Features are centred, which changes nothing because the intercept is not penalised, and lets
    float32 suffice. Two classes are fitted by Newton's method with a Cholesky factorisation up to
    scikit-learn's tolerance of 1e-4, about 1e-5 of the coefficients. More classes, or more than
    2048 features, are fitted by Newton's method with conjugate gradients, in float64 up to 1e-6.
    """

    title = "logistic regression (scikit-learn)"

    def grid(self, selection: Validation) -> tuple[float, ...]:
        """Return powers of two: 1/4 to 8, or 1/2 to 32 if folds of the training set choose."""
        return tuple(2.0**t for t in (range(-1, 6) if selection == "folds" else range(-2, 4)))

    def accuracies(
        self, train: Examples, validation: Examples, grid: Sequence[float]
    ) -> NDArray[np.float64]:
        """Return the accuracy on ``validation``, in [0, 1], for each C in ``grid``."""
        features, labels = validation
        guesses = self._guesses(train, features, grid)
        return np.array([np.mean(guess == labels) for guess in guesses])

    def predict(
        self,
        train: Examples,
        features: NDArray[np.float32],
        parameter: float,
        validation: Examples | None,
    ) -> NDArray[np.int64]:
        """Return labels of ``features`` (m, D), (m,); ``validation`` is not used."""
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
        # The Hessian is too ill-conditioned for float32.
        except (ConvergenceWarning, LinAlgWarning):
            return _path(train, features, grid, np.float64)


@dataclass(frozen=True)
class AdamLinear:
    """The linear classifier trained by Adam that papers report; the parameter is L2 weight decay.

    Batches have 64 examples; the learning rate is 1e-3. Validation accuracy is checked every 4
    epochs. Training ends at the sixth check without a new best (in total, not in a row) or after
    204 epochs, and the best weights are kept. Initial weights and the order of examples are
    SentEval's for the same seed.

    Attributes:
        seed: seed of initial weights, held-out share of a refit, and order of the examples.
    """

    seed: int = 1111
    title = "linear classifier trained by Adam"

    def grid(self, selection: Validation) -> tuple[float, ...]:
        """Return powers of ten from 1e-5 to 1e-2, for every kind of selection."""
        return (1e-5, 1e-4, 1e-3, 1e-2)

    def accuracies(
        self, train: Examples, validation: Examples, grid: Sequence[float]
    ) -> NDArray[np.float64]:
        """Return each weight decay's best accuracy on ``validation`` during training, in [0, 1]."""
        return self._fit(train, validation, grid, np.random.RandomState(self.seed))[0]

    def predict(
        self,
        train: Examples,
        features: NDArray[np.float32],
        parameter: float,
        validation: Examples | None,
    ) -> NDArray[np.int64]:
        """Return labels of ``features`` (m, D).

        Without ``validation``, 5% of ``train`` tell when to stop.
        """
        random = np.random.RandomState(self.seed)
        if validation is None:
            order = random.permutation(len(train[1]))
            held_out = max(1, int(0.05 * len(order)))
            validation = train[0][order[:held_out]], train[1][order[:held_out]]
            train = train[0][order[held_out:]], train[1][order[held_out:]]
        weights = self._fit(train, validation, [parameter], random)[1]
        return np.argmax(_with_ones(features) @ weights, axis=1)

    def _fit(
        self,
        train: Examples,
        validation: Examples,
        grid: Sequence[float],
        random: np.random.RandomState,
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Return the best accuracies (R,) and weights (D + 1, R * C), whose last row is the bias.

        The R classifiers, one per weight decay, see the same batches from the same start, and are
        trained as columns of one matrix. Adam's step is written out: at this size it takes a
        quarter of the time of autograd and a library's optimiser, with which the tests compare it.
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
        for _ in range(51):  # SentEval continues until more than 200 epochs are done: 51 times 4
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


Classifier = Logistic | AdamLinear
CLASSIFIERS = ("logistic", "adam")


def transfer_scores(
    task: TransferTask,
    embed: Embedder,
    classifier: Classifier,
    *,
    test: bool,
    folds: int,
    seed: int,
    jobs: int,
    progress: bool,
) -> dict[str, Any]:
    """Return the scores of a transfer task, in [0, 1], and the chosen regularisation.

    In a nested task, each outer fold is the test set once, and inner folds of the rest choose for
    it. Any other task has one test set, and its dev set or folds of its training set choose.

    Args:
        task: a task from `load_transfer`; ``embed`` embeds its sentences.
        classifier: the classifier to train on the embeddings.
        test: whether to compute the test score, beside the score of the folds that choose.
        folds, seed, jobs, progress: as for `gradlab.evaluate.evaluate`.

    Returns:
        "devacc", the best mean accuracy of the folds that choose; "chosen", the chosen parameter
        (one per outer fold if nested); with ``test`` also "acc" and, for MRPC, "f1" of paraphrases.
    """
    examples = {name: _examples(split, embed) for name, split in task.splits.items()}
    train, dev, grid = examples["train"], examples.get("dev"), classifier.grid(task.selection)
    nested = task.selection == "nested"
    # Pairs of the data to train on with the chosen parameter, and the data to score.
    outer = [(train, examples.get("test", train))]
    if nested:
        outer = list(_over_folds(train, folds, seed))
    pairs = ([(data, dev)] if dev else _over_folds(data, folds, seed) for data, _ in outer)
    choosing, testing = len(outer) * (1 if dev else folds), len(outer) * test
    title = f"{task.name}: {classifier.title}"
    with progress_bar(None, progress, desc=title, total=choosing + testing) as bar:
        choices = ((*pair, grid) for folds_of_data in pairs for pair in folds_of_data)
        table = _run(classifier.accuracies, choices, 1 if choosing == 1 else jobs, bar)
        means = np.reshape(table, (len(outer), -1, len(grid))).mean(axis=1)
        # As in SentEval, accuracies that agree to two decimals of a per cent are a tie.
        best = np.round(100 * means, 2).argmax(axis=1)
        best_settings = [grid[place] for place in best]
        result = {
            "devacc": float(means[range(len(outer)), best].mean()),
            "chosen": best_settings if nested else best_settings[0],
        }
        if test:
            cases = zip(outer, best_settings, strict=True)
            tests = ((data, features, setting, dev) for (data, (features, _)), setting in cases)
            guesses = _run(classifier.predict, tests, 1 if testing == 1 else jobs, bar)
            answers = [labels for _, (_, labels) in outer]
            right = [
                np.mean(guess == answer) for guess, answer in zip(guesses, answers, strict=True)
            ]
            result["acc"] = float(np.mean(right))
            if task.name == "MRPC":
                from sklearn.metrics import f1_score

                result["f1"] = float(f1_score(answers[0], guesses[0]))
    return result


def _path(
    train: Examples,
    features: NDArray[np.float32],
    grid: Sequence[float],
    dtype: type[np.floating[Any]],
    *,
    solver: str = "newton-cholesky",
    tol: float = 1e-4,
) -> list[NDArray[np.int64]]:
    """Return the labels of ``features`` for each C; each fit starts from the one before."""
    from sklearn.linear_model import LogisticRegression

    centre = train[0].mean(axis=0, dtype=np.float64)
    training, queries = ((rows - centre).astype(dtype) for rows in (train[0], features))
    model = LogisticRegression(solver=solver, tol=tol, max_iter=1000, warm_start=True)
    return [
        model.set_params(C=strength).fit(training, train[1]).predict(queries) for strength in grid
    ]


def _initial(features: int, classes: int, seed: int) -> NDArray[np.float32]:
    """Return weights, with biases in the last row, as ``torch.nn.Linear`` draws them.

    They are drawn after seeding torch.
    """
    import torch

    random = torch.Generator().manual_seed(seed)
    bound = features**-0.5
    weight = torch.empty(classes, features).uniform_(-bound, bound, generator=random)
    bias = torch.empty(classes, 1).uniform_(-bound, bound, generator=random)
    return torch.cat([weight, bias], dim=1).T.contiguous().numpy()


def _with_ones(features: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([features, np.ones((len(features), 1), dtype=np.float32)], axis=1)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the softmax over the last axis in place, and return it."""
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return logits


def _run(
    function: Callable[..., Any], work: Iterable[tuple[Any, ...]], jobs: int, bar: Any
) -> list[Any]:
    """Return results in order, each a tick of ``bar``; threads would wait for each other."""
    from joblib import Parallel, delayed

    calls = (delayed(_on_one_thread)(function, *arguments) for arguments in work)
    results = []
    for result in Parallel(n_jobs=jobs, return_as="generator")(calls):
        results.append(result)
        bar.update(1)
    return results


def _examples(split: Split, embed: Embedder) -> Examples:
    """Return float32 features (n, D) and labels (n,); pairs (u, v) give |u - v|, u * v (n, 2 D)."""
    columns = [embed(column).astype(np.float32) for column in zip(*split.texts, strict=True)]
    if len(columns) == 1:
        return columns[0], split.labels
    u, v = columns
    return np.concatenate([np.abs(u - v), u * v], axis=1), split.labels


def _over_folds(data: Examples, folds: int, seed: int) -> Iterator[tuple[Examples, Examples]]:
    """Yield the training and held-out examples of each fold."""
    from sklearn.model_selection import StratifiedKFold

    features, labels = data
    divided = StratifiedKFold(n_splits=folds, shuffle=True, random_state=seed)
    for training, held_out in divided.split(features, labels):
        yield (features[training], labels[training]), (features[held_out], labels[held_out])


def _on_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        return function(*arguments)

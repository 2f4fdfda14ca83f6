"""The classifiers against an exact solver, and against torch's Linear, Adam and cross-entropy."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy.linalg import LinAlgWarning
from sklearn.linear_model import LogisticRegression
from torch import nn

from gradlab.evaluate.transfer import AdamLinear, Logistic, _path

Examples = tuple[np.ndarray, np.ndarray]


def examples(
    seed: int, count: int, features: int, classes: int = 2, signal: float = 1.0, scale: float = 1.0
) -> Examples:
    """Gaussian classes that overlap, with a common offset as embeddings have it."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % classes)
    centres = (
        np.random.default_rng(99).standard_normal((classes, features)) * signal / np.sqrt(features)
    )
    x = centres[labels] + random.standard_normal((count, features)) + 3
    return (scale * x).astype(np.float32), labels


def minimiser(train: Examples, inverse_strength: float) -> LogisticRegression:
    """Exact minimum of C * sum of cross-entropies + ||weights||^2 / 2 by another float64 solver."""
    model = LogisticRegression(C=inverse_strength, solver="lbfgs", tol=1e-10, max_iter=50_000)
    return model.fit(train[0].astype(np.float64), train[1])


@pytest.mark.parametrize(
    ("count", "features", "classes", "scale"),
    [(200, 10, 2, 1.0), (200, 10, 2, 30.0), (40, 60, 2, 1.0), (240, 8, 5, 1.0), (60, 20, 3, 3.0)],
)
def test_logistic_minimises_its_objective(
    count: int, features: int, classes: int, scale: float
) -> None:
    train = examples(0, count, features, classes, scale=scale)
    test = examples(1, 2000, features, classes, scale=scale)
    grid = (0.25, 1.0, 8.0)
    accuracies = Logistic().accuracies(train, test, grid)
    assert len(set(accuracies)) > 1 or count > 100  # the C matters, where there is little data
    for parameter, accuracy in zip(grid, accuracies, strict=True):
        model = minimiser(train, parameter)
        logits = model.decision_function(test[0].astype(np.float64))
        logits = np.stack([0 * logits, logits], axis=1) if classes == 2 else logits
        expected = logits.argmax(axis=1)
        ordered = np.sort(logits, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 5e-3 * np.abs(logits - logits.mean()).mean()
        assert clear.mean() > 0.97
        predicted = Logistic().predict(train, test[0], parameter, None)
        np.testing.assert_array_equal(predicted[clear], expected[clear])
        assert accuracy == pytest.approx((expected == test[1]).mean(), abs=(~clear).mean() + 1e-12)


def test_logistic_falls_back_to_float64() -> None:
    """Features so correlated and so large that float32's Hessian cannot be factorised."""
    random = np.random.default_rng(5)
    labels = np.arange(100) % 2
    common = random.standard_normal((100, 1)) + labels[:, None]
    x = (1e4 * (common + 1e-3 * random.standard_normal((100, 8)))).astype(np.float32)
    with pytest.warns(LinAlgWarning):
        _path((x, labels), x, [8.0], np.float32)
    predicted = Logistic().predict((x, labels), x, 8.0, None)
    model = minimiser((x / 1e4, labels), 8.0 * 1e8)  # the same problem in other units
    assert (predicted == model.predict(x / 1e4)).mean() > 0.98


def reference(
    train: Examples, validation: Examples | None, decay: float, seed: int
) -> tuple[float, nn.Module, int]:
    """SentEval's training of a classifier as described, by torch: accuracy, best model, epochs."""
    random = np.random.RandomState(seed)
    (x, y), classes = train, int(train[1].max()) + 1
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Linear(x.shape[1], classes)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=decay)
    if validation is None:
        order = random.permutation(len(x))
        cut = int(0.05 * len(x))
        validation = x[order[:cut]], y[order[:cut]]
        x, y = x[order[cut:]], y[order[cut:]]
    inputs, targets = torch.tensor(x), torch.tensor(y)
    epochs, best, misses, best_model = 0, -1.0, 0, model
    while epochs <= 200:
        for _ in range(4):
            for batch in torch.split(torch.from_numpy(random.permutation(len(x))), 64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
                optimizer.step()
        epochs += 4
        with torch.no_grad():
            accuracy = (
                model(torch.tensor(validation[0])).argmax(1).numpy() == validation[1]
            ).mean()
        if accuracy > best:
            best, best_model = accuracy, copy.deepcopy(model)
        else:
            if misses >= 5:
                break
            misses += 1
    return float(best), best_model, epochs


@pytest.mark.parametrize(("classes", "seed"), [(2, 1111), (6, 1111), (2, 7)])
def test_adam_is_sentevals_training(classes: int, seed: int) -> None:
    train = examples(3, 150, 12, classes, signal=3.0)
    validation, test = (
        examples(13, 41, 12, classes, signal=3.0),
        examples(4, 400, 12, classes, signal=3.0),
    )
    grid = (1e-5, 0.1, 0.5)
    classifier = AdamLinear(seed)
    accuracies = classifier.accuracies(train, validation, grid)
    for stopping_set in (validation, None):
        expected = [reference(train, stopping_set, decay, seed) for decay in grid]
        if stopping_set is not None:
            np.testing.assert_array_equal(accuracies, [best for best, _, _ in expected])
            if classes > 2:
                # They stop at different times.
                assert len({epochs for _, _, epochs in expected}) == 3
        for decay, (_, model, _) in zip(grid, expected, strict=True):
            with torch.no_grad():
                logits = model(torch.tensor(test[0]))
            ordered = logits.sort(dim=1).values
            clear = (ordered[:, -1] - ordered[:, -2] > 1e-3).numpy()
            assert clear.mean() > 0.98
            predicted = classifier.predict(train, test[0], decay, stopping_set)
            np.testing.assert_array_equal(predicted[clear], logits.argmax(1).numpy()[clear])

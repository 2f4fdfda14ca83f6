"""Transfer tasks: linear classifiers on frozen embeddings, scored by SentEval's three protocols (Conneau & Kiela, 2018)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradlab.evaluate.classifiers import Classifier, Examples
from gradlab.evaluate.embed import Embedder
from gradlab.evaluate.tasks import Split, TransferTask
from gradlab.waiting import counted


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

    A nested task has an outer fold as its test set, ten times over, and inner folds of the rest choose for it; any other
    has one test set, for which folds of the training set choose, or its dev set.

    Args:
        task: what `load_transfer` read.
        embed: embeds its sentences.
        classifier: trained on the embeddings.
        folds: number of folds, outer and inner.
        seed: of the folds.
        jobs: processes; -1 for one per core.
        test: whether to compute the test score; else only that of the folds that choose.
        progress: whether to show how many fits are done.

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
    with counted(f"{task.name}: {classifier.title}", choosing + testing, visible=progress) as advance:

        def run(function: Callable[..., Any], work: Iterable[tuple[Any, ...]], count: int) -> list[Any]:
            """Results in order, computed in processes: threads would wait for each other's small steps."""
            from joblib import Parallel, delayed

            calls = (delayed(_on_one_thread)(function, *item) for item in work)
            results = []
            for result in Parallel(n_jobs=1 if count == 1 else jobs, return_as="generator")(calls):
                results.append(result)
                advance(1)
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

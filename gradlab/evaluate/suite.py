"""Evaluating an encoder on any of the tasks in one call."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError, check_known, nearest, require_package
from gradlab.evaluate.classifiers import CLASSIFIERS, AdamLinear, Logistic
from gradlab.evaluate.embed import Embedder, Encode, as_encode
from gradlab.evaluate.report import EvaluationResult
from gradlab.evaluate.sts import AGGREGATIONS, sts_scores
from gradlab.evaluate.tasks import (
    STS_TASKS,
    TRANSFER_TASKS,
    WITHOUT_DEV,
    MissingFile,
    ScoredPairs,
    TransferTask,
    check_classes,
    downstream,
    load_sts,
    load_transfer,
)
from gradlab.evaluate.transfer import transfer_scores
from gradlab.files import versions

SPLITS = ("test", "dev")
GROUPS = {"sts": STS_TASKS, "transfer": TRANSFER_TASKS, "all": STS_TASKS + TRANSFER_TASKS}
# Other spellings in use, among them SentEval's own; compared without case and punctuation.
_SPELLINGS = {"stsbenchmark": "STS-B", "sickrelatedness": "SICK-R", "sick": "SICK-R", "sst": "SST-2"}


def task_names(tasks: str | Iterable[str]) -> list[str]:
    """Canonical names, in the order of the papers' tables, of tasks or groups ("sts", "transfer", "all").

    Names may be separated by commas or white space; case and punctuation do not matter ("stsb" is STS-B).

    Raises:
        GradlabError: for an unknown name, or none.
    """
    words = (tasks if isinstance(tasks, str) else " ".join(tasks)).replace(",", " ").split()
    known = {_plain(task): task for task in GROUPS["all"]} | _SPELLINGS
    wanted: set[str] = set()
    for word in words:
        if word.lower() in GROUPS:
            wanted.update(GROUPS[word.lower()])
        elif _plain(word) in known:
            wanted.add(known[_plain(word)])
        else:
            names = (*GROUPS, *GROUPS["all"])
            near = nearest(word, [name.lower() for name in names])
            raise GradlabError(f"unknown task {word!r}; one of {', '.join(names)}.{near}")
    if not wanted:
        raise GradlabError(f"no task named; choose from {', '.join((*GROUPS, *GROUPS['all']))}")
    return [task for task in GROUPS["all"] if task in wanted]


def evaluate(
    model: Encode | Any,
    data: str | os.PathLike[str],
    tasks: str | Iterable[str] = "sts",
    *,
    split: str = "test",
    aggregation: str = "all",
    classifier: str = "logistic",
    folds: int = 10,
    seed: int = 1111,
    jobs: int = -1,
    name: str | None = None,
    pooler: str | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> EvaluationResult:
    """Evaluate sentence embeddings as the field does (SentEval's protocol, SimCSE's settings).

    Every file is read, and checked, before anything is embedded. Tasks whose files are absent are left out and listed
    in the result.

    Args:
        model: a folder or hub name; any callable from a list of sentences to an (n, D) array; or an object with
            such a method ``encode`` (a ``SentenceTransformer``, a :class:`gradlab.encoder.model.Encoder`).
        data: SentEval's ``data/downstream`` folder, or a SentEval checkout.
        tasks: names, "sts", "transfer" or "all".
        split: "test", or "dev": STS-B and SICK-R on their development sets (STS12–16 have none), transfer tasks by
            the score of the folds that choose; no test data are used.
        aggregation: how the sub-sets of STS12–16 become one number: "all" (pairs concatenated), "mean", or "wmean"
            (weighted by the number of pairs).
        classifier: for the transfer tasks, "logistic" (scikit-learn's logistic regression) or "adam" (the linear
            classifier trained by Adam that most papers report).
        folds: folds of the transfer tasks; papers use 10.
        seed: seed of folds and classifier.
        jobs: processes for the transfer tasks; -1: one for each core.
        name: what the result calls the model; its ``name_or_path`` or class name by default.
        pooler: of a model that is loaded; of any other what the result calls it, ``model.pooler`` by default.
        output: a JSON file to save the result to, anew after each transfer task, so that an interruption loses no
            task that was finished.
        progress: whether to show progress bars.

    Returns:
        The scores; ``print(result)`` shows the table, ``result.save("result.json")`` keeps everything.

    Raises:
        GradlabError: if a name is unknown, a file is malformed, no task can be evaluated, or an embedding is bad.

    Example:
        >>> import gradlab
        >>> result = gradlab.evaluate("runs/first/best", "SentEval/data/downstream")  # doctest: +SKIP
        >>> print(result.table("latex"))  # doctest: +SKIP
    """
    if isinstance(model, str | os.PathLike):
        from gradlab.encoder import Encoder

        name, model = name or os.fspath(model), Encoder.load(model, pooler, device="auto")
    encode = as_encode(model)
    wanted = task_names(tasks)
    check_known("split", split, SPLITS)
    check_known("aggregation", aggregation, AGGREGATIONS)
    check_known("classifier", classifier, CLASSIFIERS)
    if folds < 2:
        raise GradlabError(f"folds is {folds}; cross-validation needs at least 2")
    if jobs == 0:
        raise GradlabError("jobs is 0; give a number of processes, or -1 for one a core")
    sts, transfer, absent = _load(downstream(data), wanted, split, folds)
    if not sts and not transfer:
        reasons = "; ".join(f"{task}: {reason}" for task, reason in absent.items())
        raise GradlabError(f"nothing to evaluate in {str(data)!r} ({reasons})")
    if transfer:
        require_package("sklearn", "scikit-learn", "train")
    chosen = AdamLinear(seed) if classifier == "adam" else Logistic()
    result = EvaluationResult(
        {},
        model=name
        or str(getattr(model, "name_or_path", None) or getattr(model, "__name__", type(model).__name__)),
        pooler=pooler or (own if isinstance(own := getattr(model, "pooler", None), str) else "unnamed"),
        split=split,
        aggregation=aggregation,
        classifier=chosen.title if transfer else "",
        folds=folds,
        seed=seed,
        not_evaluated=absent,
        versions=versions("numpy", "scipy", "scikit-learn", "torch", "transformers"),
    )

    def embedder(of: str, sentences: list[str]) -> Embedder:
        embed = Embedder(encode, title=f"{of}: embedding" if progress else "")
        embed.prepare(sentences)
        return embed

    def keep(scores: dict[str, dict[str, Any]]) -> None:
        result.scores.update(scores)
        if output is not None:
            result.save(output)

    if sts:
        # One embedder for all of them: their sentences overlap.
        embed = embedder(
            "STS", [one for subsets in sts.values() for pairs in subsets for one in pairs.sentences]
        )
        keep({task: sts_scores(embed, subsets) for task, subsets in sts.items()})
    for task in transfer:
        embed = embedder(task.name, task.sentences)
        options: dict[str, Any] = {"folds": folds, "seed": seed, "jobs": jobs, "progress": progress}
        keep({task.name: transfer_scores(task, embed, chosen, test=split == "test", **options)})
    return result


def check_tasks(data: str | os.PathLike[str], tasks: str | Iterable[str], folds: int = 10) -> None:
    """Read every file of these tasks, as `evaluate` will; for programs that evaluate after long work.

    Args:
        data, tasks, folds: as for `evaluate`.

    Raises:
        GradlabError: for an unknown task, a file that is absent or malformed, or too few examples for the folds.
    """
    *_, absent = _load(downstream(data), task_names(tasks), "test", folds)
    if absent:
        (task, why), *others = absent.items()
        more = f" (nor can {', '.join(other for other, _ in others)})" if others else ""
        raise GradlabError(f"{task} cannot be evaluated: {why}{more}")


def _load(
    folder: Path, wanted: list[str], split: str, folds: int
) -> tuple[dict[str, list[ScoredPairs]], list[TransferTask], dict[str, str]]:
    """STS and transfer tasks that can be evaluated, and why the others cannot."""
    sts: dict[str, list[ScoredPairs]] = {}
    transfer: list[TransferTask] = []
    absent: dict[str, str] = {}
    for task in wanted:
        try:
            if split == "dev" and task in WITHOUT_DEV:
                absent[task] = "has no dev split"
            elif task in STS_TASKS:
                sts[task] = load_sts(folder, task, split)
            else:
                transfer.append(load_transfer(folder, task, split))
                check_classes(transfer[-1], folds)
        except MissingFile as error:
            absent[task] = str(error)
    return sts, transfer, absent


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())

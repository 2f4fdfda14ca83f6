"""`evaluate`: evaluates an encoder on several tasks, for scores, tables as in papers, and JSON."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from gradlab.errors import GradlabError, check_known, check_whole, nearest, require_package
from gradlab.evaluate.embed import Embedder, Encode, as_encode
from gradlab.evaluate.sts import sts_scores
from gradlab.evaluate.task_files import (
    MissingFile,
    ScoredPairs,
    TransferTask,
    check_classes,
    downstream,
    load_sts,
    load_transfer,
)
from gradlab.evaluate.tasks import (
    AGGREGATIONS,
    GROUPS,
    NAMED,
    SPLITS,
    STS_TASKS,
    TRANSFER_TASKS,
    WITHOUT_DEV,
)
from gradlab.evaluate.transfer import CLASSIFIERS, AdamLinear, Classifier, Logistic, transfer_scores
from gradlab.files import for_json, versions, write_json

STYLES = ("text", "markdown", "latex")


@dataclass(frozen=True)
class EvaluationResult:
    """Scores of an encoder, and all settings and versions that influence them.

    Attributes:
        scores: task -> score name -> value. Correlations are in [-1, 1], accuracies in [0, 1]; only
            the table multiplies by 100. STS tasks have "all", "mean", "wmean", "subset/NAME" and
            "pairs" (a number); transfer tasks have "devacc", "chosen" (the regularisation), on test
            also "acc" (MRPC "f1").
        model: name of the evaluated model.
        pooler: name of the pooler.
        split: "test" or "dev".
        aggregation: how the sub-sets of an STS task become one number: "all", "mean" or "wmean".
        classifier: description of the transfer tasks' classifier; empty without transfer tasks.
        folds: number of outer and of inner folds of the transfer tasks.
        seed: seed of folds and classifier.
        not_evaluated: task -> the reason why it was left out.
        versions: versions of gradlab and of the packages that it used.
    """

    scores: dict[str, dict[str, Any]]
    model: str = "unnamed"
    pooler: str = "unnamed"
    split: str = "test"
    aggregation: str = "all"
    classifier: str = ""
    folds: int = 10
    seed: int = 1111
    not_evaluated: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def sts(self) -> dict[str, float]:
        """Spearman's correlation of each STS task, with the chosen aggregation."""
        return {
            task: self.scores[task][self.aggregation] for task in STS_TASKS if task in self.scores
        }

    def transfer(self, score: str | None = None) -> dict[str, float]:
        """Return each transfer task's accuracy: "acc" (default on test) or "devacc" (on dev)."""
        score = score or ("acc" if self.split == "test" else "devacc")
        return {task: self.scores[task][score] for task in TRANSFER_TASKS if task in self.scores}

    @property
    def averages(self) -> dict[str, float]:
        """Means over the evaluated STS and the evaluated transfer tasks; full sets have seven."""
        groups = {"sts": self.sts, "transfer": self.transfer()}
        return {name: fmean(values.values()) for name, values in groups.items() if values}

    def table(self, style: str = "text") -> str:
        """Return tables as in papers: values times 100, tasks in the usual order, the average last.

        Args:
            style: "text", "markdown" or "latex" (rows for a tabular environment).

        Raises:
            GradlabError: the style is unknown.
        """
        check_known("table style", style, STYLES)
        blocks = [f"Model {self.model}, pooler {self.pooler}, {self.split} split"]
        if self.sts:
            title = f"STS: Spearman's correlation x 100, aggregation {self.aggregation!r}"
            blocks.append(_block(title, {"Spearman": self.sts}, style))
        if self.transfer():
            title = f"Transfer: accuracy in %, {self.classifier}, {self.folds} folds"
            title += f", seed {self.seed}"
            measures = ("acc", "devacc") if self.split == "test" else ("devacc",)
            blocks.append(_block(title, {score: self.transfer(score) for score in measures}, style))
        if self.not_evaluated:
            lines = (f"  {task}: {reason}" for task, reason in self.not_evaluated.items())
            blocks.append("\n".join(["Not evaluated:", *lines]))
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and the averages, ready for JSON; an undefined correlation is None."""
        return for_json({**asdict(self), "averages": self.averages})

    def to_json(self) -> str:
        """Return :meth:`to_dict` as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write :meth:`to_dict` to a JSON file atomically, and return its path."""
        return write_json(path, self.to_dict())

    def __str__(self) -> str:
        return self.table()


def task_names(tasks: str | Iterable[str]) -> list[str]:
    """Return canonical names of tasks or groups ("sts", "transfer", "all"), in papers' order.

    Commas or white space may separate names; case and punctuation are ignored ("stsb" is STS-B).

    Raises:
        GradlabError: a name is unknown, or no name is given.
    """
    words = (tasks if isinstance(tasks, str) else " ".join(tasks)).replace(",", " ").split()
    names_of_tasks: set[str] = set()
    for word in words:
        plain = "".join(filter(str.isalnum, word.lower()))
        if plain not in NAMED:
            names = ", ".join((*GROUPS, *GROUPS["all"]))
            near = nearest(plain, NAMED)
            raise GradlabError(f"unknown task {word!r}.{near} There are: {names}.")
        names_of_tasks.update(NAMED[plain])
    if not names_of_tasks:
        raise GradlabError(f"no task named; choose from {', '.join((*GROUPS, *GROUPS['all']))}")
    return [task for task in GROUPS["all"] if task in names_of_tasks]


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
    """Evaluate sentence embeddings as the field does: SentEval's protocol with SimCSE's settings.

    All files are read and checked before anything is embedded. Tasks with absent files are left out
    and listed in the result.

    Args:
        model: a folder or hub name; a callable from a list of sentences to an (n, D) array; or an
            object with such a method ``encode`` (a ``SentenceTransformer``, a
            :class:`gradlab.encoder.model.Encoder`).
        data: SentEval's ``data/downstream`` folder, or a SentEval checkout.
        tasks: names of tasks, "sts", "transfer" or "all".
        split: "test", or "dev": STS-B and SICK-R on their development sets (STS12–16 have none),
            transfer tasks by the score of the folds that choose; no test data are used.
        aggregation: how the sub-sets of STS12–16 become one number: "all" (pairs concatenated),
            "mean", or "wmean" (weighted by the number of pairs).
        classifier: for the transfer tasks, "logistic" (scikit-learn's logistic regression) or
            "adam" (the linear classifier trained by Adam that most papers report).
        folds: folds of the transfer tasks; papers use 10.
        seed: seed of folds and classifier.
        jobs: processes for the transfer tasks; -1: one for each core.
        name: name of the model in the result; by default its ``name_or_path`` or its class's name.
        pooler: pooler of a model to load; else its name in the result, default ``model.pooler``.
        output: a JSON file to save the result to, also after each transfer task, so that an
            interruption loses no finished task.
        progress: whether to show progress bars.

    Returns:
        The scores; ``print(result)`` shows the table, ``result.save("result.json")`` keeps it all.

    Raises:
        GradlabError: an unknown name, a malformed file, a bad embedding, or no task to evaluate.

    Example:
        >>> import gradlab
        >>> result = gradlab.evaluate(  # doctest: +SKIP
        ...     "runs/first/best", "SentEval/data/downstream"
        ... )
        >>> print(result.table("latex"))  # doctest: +SKIP
    """
    if isinstance(model, str | os.PathLike):
        from gradlab.encoder import Encoder

        name, model = name or os.fspath(model), Encoder.load(model, pooler, device="auto")
    encode = as_encode(model)
    names_of_tasks = task_names(tasks)
    _check_choices(split=split, aggregation=aggregation, classifier=classifier)
    _check_numbers(folds, seed, jobs)
    sts, transfer, absent = _load(downstream(data), names_of_tasks, split, folds)
    if not sts and not transfer:
        reasons = "; ".join(f"{task}: {reason}" for task, reason in absent.items())
        raise GradlabError(f"nothing to evaluate in {str(data)!r} ({reasons})")
    if transfer:
        require_package("sklearn")
    transfer_classifier = AdamLinear(seed) if classifier == "adam" else Logistic()
    model_name, pooler_name = _names_of_model(model)
    result = EvaluationResult(
        {},
        model=name or model_name,
        pooler=pooler or pooler_name,
        split=split,
        aggregation=aggregation,
        classifier=transfer_classifier.title if transfer else "",
        folds=folds,
        seed=seed,
        not_evaluated=absent,
        versions=versions("numpy", "scipy", "scikit-learn", "torch", "transformers"),
    )
    options = {"folds": folds, "seed": seed, "jobs": jobs, "test": split == "test"}
    for scores in _scores(encode, sts, transfer, transfer_classifier, progress, options):
        result.scores.update(scores)
        if output is not None:
            result.save(output)
    return result


def check_tasks(data: str | os.PathLike[str], tasks: str | Iterable[str], folds: int = 10) -> None:
    """Read all files of these tasks as `evaluate` does; for programs that evaluate after long work.

    Args:
        data, tasks, folds: as for `evaluate`.

    Raises:
        GradlabError: an unknown task, an absent or malformed file, too few examples for the folds.
    """
    *_, absent = _load(downstream(data), task_names(tasks), "test", folds)
    if absent:
        (task, why), *further = absent.items()
        suffix = f" (nor can {', '.join(name for name, _ in further)})" if further else ""
        raise GradlabError(f"{task} cannot be evaluated: {why}{suffix}")


def _names_of_model(model: Any) -> tuple[str, str]:
    """Return what a model calls itself, else its class, and the name of its pooler."""
    name = getattr(model, "name_or_path", None) or getattr(model, "__name__", None)
    pooler = getattr(model, "pooler", None)
    return str(name or type(model).__name__), pooler if isinstance(pooler, str) else "unnamed"


def _scores(
    encode: Encode,
    sts: dict[str, list[ScoredPairs]],
    transfer: list[TransferTask],
    classifier: Classifier,
    progress: bool,
    options: dict[str, Any],
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield the scores of all STS tasks, then those of each transfer task, by task."""

    def embedder(title: str, sentences: Iterable[str]) -> Embedder:
        embed = Embedder(encode, title=f"{title}: embedding" if progress else "")
        embed.prepare(sentences)
        return embed

    if sts:
        # One embedder for all STS tasks, because their sentences overlap.
        subsets = itertools.chain.from_iterable(sts.values())
        embed = embedder("STS", (text for pairs in subsets for text in pairs.sentences))
        yield {task: sts_scores(embed, subsets) for task, subsets in sts.items()}
    for task in transfer:
        embed = embedder(task.name, task.sentences)
        yield {task.name: transfer_scores(task, embed, classifier, progress=progress, **options)}


def _check_choices(**settings: str) -> None:
    choices = {"split": SPLITS, "aggregation": AGGREGATIONS, "classifier": CLASSIFIERS}
    for name, choice in settings.items():
        check_known(name, choice, choices[name])


def _check_numbers(folds: int, seed: int, jobs: int) -> None:
    check_whole("folds", folds, 2)
    check_whole("seed", seed, 0)
    check_whole("jobs", jobs, -1)
    if jobs == 0:
        raise GradlabError("jobs is 0; give a number of processes, or -1 for one a core")


def _load(
    folder: Path, names: list[str], split: str, folds: int
) -> tuple[dict[str, list[ScoredPairs]], list[TransferTask], dict[str, str]]:
    """Return the STS tasks and transfer tasks that can be evaluated, and why the others cannot."""
    sts: dict[str, list[ScoredPairs]] = {}
    transfer: list[TransferTask] = []
    absent: dict[str, str] = {}
    for task in names:
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


def _block(title: str, rows: dict[str, dict[str, float]], style: str) -> str:
    """Return a table under its title; ``rows`` maps the name of a row to its values by task."""
    tasks = list(next(iter(rows.values())))
    average = "Avg." if len(tasks) == 7 else f"Avg. of {len(tasks)}"
    cells = [["", *tasks, average]]
    for name, values in rows.items():
        numbers = [*values.values(), fmean(values.values())]
        cells.append([name, *("-" if math.isnan(x) else f"{100 * x:.2f}" for x in numbers)])
    return "\n".join([title, *_ruled(cells, style)])


def _ruled(cells: list[list[str]], style: str) -> Sequence[str]:
    if style == "latex":
        return [" & ".join(row) + r" \\" for row in cells]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        for row in cells
    ]
    if style == "text":
        return ["  ".join(line).rstrip() for line in lines]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return ["", *("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])]

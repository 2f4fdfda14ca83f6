"""`audit`: run a loss on several local processes and on one process, and compare the gradients."""

from __future__ import annotations

import copy
import dataclasses
import functools
import multiprocessing
import pickle
import re
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.drawable import Drawable
from gradlab.errors import GradlabError, check_whole
from gradlab.progress_bars import waiting
from gradlab.scale.audit.cases import Case, cases, material
from gradlab.scale.audit.faults import cut_on_one, fault, find_faults, grade_of, wrong_on_one
from gradlab.scale.audit.gradient_error import Outcome, relative
from gradlab.scale.audit.worker import work
from gradlab.verdict import Verdict

# Parts of errors that only follow from the end of another process, whose error is the cause.
CONSEQUENCES = ("onnection closed", "onnection reset", "onnect", "imed out", "hangs")
# The case in which the last process has fewer rows, and why a loss may fail there.
UNEVEN = "uneven"
EQUAL_SHARES = (
    "Samplers of torch and accelerate give each process equally many rows. Where another sampler "
    "does not, drop the last incomplete batch (drop_last=True), or gather the sizes first."
)
# Seconds allowed for starting the processes.
START = 180.0


@dataclasses.dataclass(frozen=True)
class Audit(Drawable):
    """Each embedding's gradient on P processes and on one, compared; `plot` draws errors by case.

    Attributes:
        target: the audited loss.
        processes: the number of processes P.
        averaged: whether gradients were averaged over processes or summed.
        tolerance: relative error up to which a gradient counts as right.
        outcomes: results of the "even", "shuffled" and "uneven" shares, by case.
        failures: for each case that did not complete, the reason.
        faults: faults of the loss; empty if the loss is right.
    """

    target: str
    processes: int
    averaged: bool
    tolerance: float
    outcomes: Mapping[str, Outcome]
    failures: Mapping[str, str]
    faults: tuple[Verdict, ...]

    artist = "gradlab.plotting.result_plots:draw_errors"

    @property
    def passed(self) -> bool:
        """Whether the loss has no fault."""
        return not self.faults

    def __str__(self) -> str:
        reduction = "averaged" if self.averaged else "summed"
        lines = [
            f"{self.target} on {self.processes} processes, gradients {reduction}, "
            "against one process:"
        ]
        for name, outcome in self.outcomes.items():
            verdict = "right" if outcome.error <= self.tolerance else "wrong"
            lines.append(
                f"  {name + ' shares':16}{verdict}: largest error {outcome.error:.1e} of the "
                f"largest entry; mean value {outcome.mean_value:.6g}, "
                f"one process {outcome.whole:.6g}"
            )
        lines += [f"  {name + ' shares':16}{text}" for name, text in self.failures.items()]
        if self.passed:
            where = ", where shares are equal" if UNEVEN in self.failures else ""
            lines.append(
                f"Every embedding receives the gradient that it would have on one process{where}."
            )
            lines += [
                f"On one process as well, {cut}: that is right only of a fixed encoder, such as a "
                "teacher or a momentum encoder, or of weights without gradient."
                for cut in {cut_on_one(outcome) for outcome in self.outcomes.values()}
                if cut
            ]
        lines += [f"Shares of different sizes were not judged. {EQUAL_SHARES}"
                  for name in self.failures if name == UNEVEN]  # fmt: skip
        for number, problem in enumerate(self.faults, 1):
            lines += [f"Fault {number}, {problem.name}: {problem.finding}",
                      f"  To fix it: {problem.change}"]  # fmt: skip
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: the target, its faults, and the error of each case."""
        table = self.columns()
        cases = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        cases += [{"shares": name, "failure": text} for name, text in self.failures.items()]
        faults = [verdict.to_dict() for verdict in self.faults]
        return {
            "target": self.target,
            "passed": self.passed,
            "processes": self.processes,
            "averaged": self.averaged,
            "tolerance": self.tolerance,
            "faults": faults,
            "cases": cases,
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return a table with one row per completed case."""
        outcomes = self.outcomes.values()
        return {
            "shares": list(self.outcomes),
            "error": [outcome.error for outcome in outcomes],
            "right": [outcome.error <= self.tolerance for outcome in outcomes],
            "mean value": [outcome.mean_value for outcome in outcomes],
            "one process": [outcome.whole for outcome in outcomes],
        }

    def errors(self) -> list[tuple[str, str, float, bool, bool]]:
        """Return errors as `gradlab.gradient.verification.Checks.errors` does.

        Every case should be right.
        """
        return [
            (f"{name} shares", "gradient", outcome.error, True, outcome.error <= self.tolerance)
            for name, outcome in self.outcomes.items()
        ]

    def headline(self) -> str:
        """Return the outcome as text."""
        return str(self)


def audit(
    loss: Any,
    *,
    processes: int = 2,
    columns: int = 2,
    own_negatives: int = 0,
    settings: Mapping[str, str] | None = None,
    averaged: bool = True,
    uneven: bool = True,
    timeout: float = 20.0,
    seed: int = 0,
) -> Audit:
    """Compare the gradient of each embedding on P local processes with the gradient on one process.

    The processes communicate through gloo and compute in float64. Each holds 5 sentences.

    Args:
        loss: a function of columns of embeddings (anchors, positives, hard negatives) that gathers
            rows itself; a class, a factory, or a loss of sentence-transformers. Give it as
            `gradlab.decompose` takes it, ``"package.module:Name"`` or ``"file.py:Name"``, or as an
            object that can be pickled. The model and guide of a loss of sentence-transformers are
            replaced by tables of random embeddings; its labels are random scores between 0 and 1.
        processes: number of local processes P, at least 2.
        columns: number of columns of embeddings: anchors, positives, then hard negatives.
        own_negatives: number h of negatives per anchor, for ``own_negatives=`` (n, h, D); 0: none.
        settings: arguments, as texts, of a class or function that is given by name.
        averaged: average gradients over processes, as in DistributedDataParallel; False sums them.
        uneven: also test a smaller share on the last process, as in a last batch that is kept.
        timeout: seconds after which a process that waits for another counts as hanging.
        seed: seed of the embeddings.

    Raises:
        GradlabError: bad settings; a loss that cannot be found, made or called, fails on one
            process or is random.

    Example:
        >>> import gradlab
        >>> print(gradlab.audit("my_losses:loss", processes=2))  # doctest: +SKIP
    """
    check_whole("processes", processes, 2)
    check_whole("columns", columns, 2)
    check_whole("own_negatives", own_negatives, 0)
    build, target = _builder(loss, settings or {})
    inputs = material(processes, columns + own_negatives, seed)
    job = {
        "own": own_negatives,
        "build": build,
        "processes": processes,
        "cases": cases(processes)[: None if uneven else -1],
        "timeout": timeout,
        **inputs,
    }
    with waiting(f"auditing {target} on {processes} processes"):
        results, errors = _run(job)
    if "again" not in results[0]:
        raise GradlabError(f"{target} does not run on one process: {errors[0]}")
    return judge(target, job, results, errors[1:], averaged)


def judge(
    target: str,
    job: Mapping[str, Any],
    results: list[dict[str, Any]],
    errors: list[str | None],
    averaged: bool,
) -> Audit:
    """Build the audit from the results of all processes and the errors of the P processes.

    Raises:
        GradlabError: the loss draws random numbers.
    """
    alone, *shares = results
    tolerance = _tolerance(target, alone, job["cases"])
    outcomes: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    for case in job["cases"]:
        if all(case.name in by_case for by_case in results):
            measured = [by_case[case.name] for by_case in shares]
            outcomes[case.name] = Outcome(case, job, measured, alone[case.name], averaged)
        else:
            failures[case.name] = (
                "not run, as an earlier case failed" if failures else _cause(errors)
            )
    faults = _faults(outcomes, failures, tolerance)
    return Audit(target, len(shares), averaged, tolerance, outcomes, failures, tuple(faults))


def _tolerance(target: str, alone: dict[str, Any], tested: list[Case]) -> float:
    """Return the relative error that counts as none, from the dtype and rounding on one process."""
    expected = alone["even"]["gradient"]
    if not np.isfinite(expected).all():
        raise GradlabError(
            f"{target} has gradients that are infinite or not numbers, on one process already"
        )
    tolerance = float(np.finfo(alone["even"]["dtype"]).eps ** 0.5)
    if relative(alone["again"]["gradient"], expected) > tolerance:
        raise GradlabError(
            f"{target} draws random numbers: on the same rows it gave different gradients; "
            "audit it without (no dropout, no sampled negatives)"
        )
    # A loss may compute in a lower precision than it returns: its gradients then fit into float32,
    # or their rounding depends on the order of the sentences.
    if np.array_equal(expected, expected.astype(np.float32)):
        tolerance = max(tolerance, float(np.finfo(np.float32).eps ** 0.5))
    shuffled = np.empty_like(expected)
    shuffled[:, tested[1].sentences] = alone["shuffled"]["gradient"]
    rounding = relative(shuffled, expected)
    return max(tolerance, 100 * rounding) if rounding < 1e-3 else tolerance


def _builder(loss: Any, settings: Mapping[str, str]) -> tuple[bytes, str]:
    """Return a pickled function that makes the loss in another process, and the loss's name."""
    from gradlab.decomposition.own_loss import resolve_loss
    from gradlab.decomposition.two_view_losses import name_of
    from gradlab.losses.registry import is_own

    if isinstance(loss, str):
        resolve_loss(loss, settings)  # raises errors of name or settings here
        if not is_own(loss):
            raise GradlabError(
                f"an audit is of code that gathers rows by itself; {loss}, a loss of gradlab, is "
                f"evaluated over processes by gradlab.blockwise({loss!r}, group='world')"
            )
        text = (
            f"({', '.join(f'{name}={value}' for name, value in settings.items())})"
            if settings
            else ""
        )
        return pickle.dumps(functools.partial(resolve_loss, loss, dict(settings))), loss + text
    if settings:
        raise GradlabError(
            "settings belong to a loss that is given by name; this one is already an object"
        )
    name = name_of(loss)
    try:
        return pickle.dumps(functools.partial(copy.deepcopy, loss)), name
    except Exception as error:
        raise GradlabError(
            f"{name} cannot be sent to other processes ({error}); give it by name, "
            "as 'package.module:Name'"
        ) from error


def _run(job: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str | None]]:
    """Return each rank's results by case, and its error; rank -1 evaluates the whole batch."""
    context = multiprocessing.get_context("spawn")
    ranks = range(-1, job["processes"])
    with tempfile.TemporaryDirectory(prefix="gradlab-audit-") as folder:
        started = [
            context.Process(target=work, args=(rank, {**job, "folder": folder}), daemon=True)
            for rank in ranks
        ]
        for process in started:
            process.start()
        try:
            _wait(started, START + job["timeout"] * len(job["cases"]), job["timeout"])
        finally:
            hung = [process.is_alive() for process in started]
            for process in started:
                process.kill()
                process.join()
        results = [
            {
                case: pickle.loads(file.read_bytes())
                for case in [*(case.name for case in job["cases"]), "again"]
                if (file := Path(folder) / f"{rank}.{case}").exists()
            }
            for rank in ranks
        ]
        errors = [
            "hangs" if stuck else _error(Path(folder), rank) if process.exitcode else None
            for rank, process, stuck in zip(ranks, started, hung, strict=True)
        ]
        return results, errors


def _wait(started: list[Any], seconds: float, after_error: float) -> None:
    """Wait until all processes have ended or time is up; after a failure, others get less time."""
    running, deadline = list(started), time.monotonic() + seconds
    while running and wait(
        [process.sentinel for process in running], max(0, deadline - time.monotonic())
    ):
        if any(process.exitcode for process in running):
            deadline = min(deadline, time.monotonic() + after_error)
        running = [process for process in running if process.exitcode is None]


def _error(folder: Path, rank: int) -> str:
    """Return why a process failed: its error message, or the last line printed before a crash."""
    if (file := folder / f"{rank}.error").exists():
        return file.read_text()
    lines = (folder / f"{rank}.log").read_text(errors="replace").strip().splitlines() or [
        "without a message"
    ]
    said = next((line for line in reversed(lines) if "what():" in line), lines[-1])
    return f"crashes: {said.partition('what():')[2].strip() or said.strip()}"


def _cause(errors: list[str | None]) -> str:
    """Return the error that caused the others."""
    own = [text for text in errors if text and not any(word in text for word in CONSEQUENCES)]
    if not own:
        return "hangs: one process waits for another that does not come"
    # Without the location in gloo's source.
    return re.sub(r"\[(enforce fail at )?/\S*\]\s*", "", own[0])


def _faults(
    outcomes: dict[str, Outcome], failures: dict[str, str], tolerance: float
) -> list[Verdict]:
    """Return the faults of the first case that has any, and the first failure with equal shares."""
    depends = False
    if {"even", "shuffled"} <= outcomes.keys():
        # Whether the split of sentences changes gradients on the processes, but not on one process.
        even, shuffled = outcomes["even"], outcomes["shuffled"]
        order = np.argsort(shuffled.case.sentences)
        depends = relative(shuffled.computed[:, order], even.computed) > tolerance
        depends &= relative(shuffled.expected[:, order], even.expected) <= tolerance
    faults: list[Verdict] = []
    for name, outcome in outcomes.items():
        if not faults:
            prefix = "" if name == "even" else f"{name} shares, "
            faults += [
                dataclasses.replace(
                    fault,
                    name=prefix + fault.name,
                    grade=grade_of(prefix + fault.name, fault.finding),
                )
                for fault in find_faults(outcome, tolerance, depends)
            ]
    faults = faults or [problem for o in outcomes.values() for problem in wrong_on_one(o)][:1]
    for name, text in list(failures.items())[:1]:
        if name != UNEVEN:
            faults.append(fault("fails", f"with {name} shares the loss {text}"))
    return faults

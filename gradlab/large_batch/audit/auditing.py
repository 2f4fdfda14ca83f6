"""Running a loss on several local processes and on one, and comparing the gradients."""

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
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from gradlab.errors import GradlabError
from gradlab.large_batch.audit.cases import Case, Outcome, cases, material, relative
from gradlab.large_batch.audit.faults import Fault, find_faults
from gradlab.large_batch.audit.worker import work

# Errors of processes that another one has left; what that other one says is the cause.
CONSEQUENCES = ("onnection closed", "onnection reset", "onnect", "imed out", "hangs")
CRASHES = "crashes"
# Seconds that importing libraries may take at most.
START = 180.0
# And those in which the others end after one has.
LEFT = 2.0


@dataclasses.dataclass(frozen=True)
class Audit:
    """Whether each embedding receives the gradient that it would have in one process.

    Attributes:
        target: what was audited.
        processes: P.
        averaged: whether gradients were averaged over processes or summed.
        tolerance: relative error that counted as none: the square root of the loss's precision.
        outcomes: by case: "even", "shuffled" and "uneven" shares.
        failures: what a case that did not run to its end raised.
        faults: what is wrong; nothing if the loss is right.
    """

    target: str
    processes: int
    averaged: bool
    tolerance: float
    outcomes: Mapping[str, Outcome]
    failures: Mapping[str, str]
    faults: tuple[Fault, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def __str__(self) -> str:
        how = "averaged" if self.averaged else "summed"
        lines = [f"{self.target} on {self.processes} processes, gradients {how}, against one process:"]
        for name in [*self.outcomes, *self.failures]:
            lines.append(f"  {name + ' shares':16}{self._row(name)}")
        if self.passed:
            lines.append("Every embedding receives the gradient that it would have in one process.")
        for number, fault in enumerate(self.faults, 1):
            lines.append(f"Fault {number}, {str(fault).replace(chr(10), chr(10) + '  ')}")
        return "\n".join(lines)

    def _row(self, name: str) -> str:
        if name in self.failures:
            return self.failures[name]
        one = self.outcomes[name]
        mean = sum(one.values) / len(one.values)
        verdict = "right" if one.error <= self.tolerance else "wrong"
        return f"{verdict}: largest error {one.error:.1e} of the largest entry; mean value {mean:.6g}, one process {one.whole:.6g}"


def audit(
    loss: Any,
    *,
    processes: int = 2,
    columns: int = 2,
    settings: Mapping[str, str] | None = None,
    averaged: bool = True,
    uneven: bool = True,
    timeout: float = 20.0,
    seed: int = 0,
) -> Audit:
    """Run a loss on P local processes and on one with the whole batch, and compare the gradient of each embedding.

    The processes are started on this machine and talk over gloo, in float64. Each has 5 sentences.

    Args:
        loss: what `gradlab.decompose` takes by name, ``"package.module:Name"`` or ``"file.py:Name"``: a function of columns
            of embeddings (anchors, positives, hard negatives), a class, a maker, a loss of sentence-transformers; or
            such an object that pickles. It gathers what it needs itself. The model of a loss of sentence-transformers, and
            its guide, are replaced by tables of drawn embeddings; its labels are drawn scores between 0 and 1.
        processes: P, at least 2.
        columns: of embeddings: 2 are anchors and positives, further ones hard negatives.
        settings: arguments of a class or function that is given by name, as texts.
        averaged: gradients are averaged over processes, as DistributedDataParallel does; False sums them.
        uneven: also try shares of different size, as in a last batch that is not dropped.
        timeout: seconds after which a case counts as hanging.
        seed: of the embeddings.

    Raises:
        GradlabError: a loss that cannot be found, made or called, that does not run in one process, or that draws
            random numbers; bad settings.

    Example:
        >>> import gradlab
        >>> print(gradlab.audit("my_losses:loss", processes=2))  # doctest: +SKIP
    """
    for name, value, least in (("processes", processes, 2), ("columns", columns, 2)):
        if not isinstance(value, int) or value < least:
            raise GradlabError(f"{name} must be a whole number of at least {least}, not {value!r}")
    build, target = _builder(loss, settings or {})
    every = cases(processes)[: 3 if uneven else 2]
    given = material(processes, columns, seed)
    job = {"build": build, "processes": processes, "cases": every, "timeout": timeout, **given}
    (alone, *messages), (failed_alone, *failed) = _run(job, len(every), timeout)
    if "again" not in alone:
        raise GradlabError(f"{target} does not run in one process: {failed_alone}")
    return judge(target, every, given["rows"], given["along"], (alone, messages, failed), averaged)


def judge(
    target: str,
    every: list[Case],
    rows: np.ndarray,
    along: np.ndarray,
    said: tuple[dict[str, Any], list[dict[str, Any]], list[str | None]],
    averaged: bool,
) -> Audit:
    """What the evaluations of one process, and of each of several with its share, say of a loss.

    Args:
        target: its name.
        every: the cases.
        rows, along: embeddings, and the direction of the slopes.
        said: evaluations by case of the process that was alone, of each of the others, and their errors.
        averaged: whether gradients are averaged or summed.
    """
    alone, messages, failed = said
    tolerance = float(np.finfo(alone["even"]["dtype"]).eps ** 0.5)
    if relative(alone["again"]["gradient"], alone["even"]["gradient"]) > tolerance:
        raise GradlabError(
            f"{target} draws random numbers: twice on the same rows in one process it gave different results; "
            "audit it without (dropout off, no sampled negatives)"
        )
    outcomes: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    for case in every:
        if all(case.name in content for content in messages):
            parts = [content[case.name] for content in messages]
            outcomes[case.name] = _outcome(case, rows, along, parts, alone, averaged)
        else:
            failures[case.name] = "not run, as the one before failed" if failures else _cause(failed)
    found = _faults(outcomes, failures, tolerance, averaged)
    return Audit(target, len(messages), averaged, tolerance, outcomes, failures, tuple(found))


def _builder(loss: Any, settings: Mapping[str, str]) -> tuple[bytes, str]:
    """What makes the loss in another process, pickled, and its name."""
    from gradlab.decomposition.adapters import name_of
    from gradlab.decomposition.resolve import resolve_loss

    if isinstance(loss, str):
        resolve_loss(loss, settings)  # an error here is one line
        given = f"({', '.join(f'{name}={value}' for name, value in settings.items())})" if settings else ""
        return pickle.dumps(functools.partial(resolve_loss, loss, dict(settings))), loss + given
    if settings:
        raise GradlabError("settings belong to a loss that is given by name; this one is made already")
    name = name_of(loss)
    try:
        return pickle.dumps(functools.partial(copy.deepcopy, loss)), name
    except Exception as error:
        raise GradlabError(
            f"{name} cannot be sent to other processes ({error}); give it by name, as 'package.module:Name'"
        ) from error


def _run(job: dict[str, Any], count: int, timeout: float) -> tuple[list[dict[str, Any]], list[str | None]]:
    """What each process sent, by name, and why it ended if it did not end well; the first is alone with the whole batch."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="gradlab-audit-") as folder:
        job = {**job, "folder": folder, "log": str(Path(folder) / "{}.log")}
        started, connections = [], []
        for rank in range(-1, job["processes"]):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(rank, job, theirs), daemon=True)
            process.start()
            theirs.close()
            started.append(process)
            connections.append(mine)
        try:
            messages, errors = _listen(connections, count, timeout)
        finally:
            for process in started:
                process.join(1)
                if process.is_alive():
                    process.kill()
                    process.join()
        for place, error in enumerate(errors):
            if error == CRASHES:
                errors[place] = f"{CRASHES}{_last_words(Path(job['log'].format(place - 1)))}"
        return messages, errors


def _listen(
    connections: list[Connection], count: int, timeout: float
) -> tuple[list[dict[str, Any]], list[str | None]]:
    content: list[dict[str, Any]] = [{} for _ in connections]
    errors: list[str | None] = [None] * len(connections)
    silent = list(connections)
    deadline = time.monotonic() + START
    with tqdm(
        total=len(connections) * (count + 1) + 2, delay=2, leave=False, disable=None, desc="audit"
    ) as bar:
        while silent:
            ready = wait(silent, max(0.0, deadline - time.monotonic()))
            if not ready:
                for connection in silent:
                    rank = connections.index(connection)
                    errors[rank] = errors[rank] or f"hangs: nothing came of it for {timeout:g} s"
                break
            for connection in [one for one in silent if one in ready]:
                rank = connections.index(connection)
                try:
                    name, value = connection.recv()
                except EOFError:
                    silent.remove(connection)
                    if "end" not in content[rank] and errors[rank] is None:
                        errors[rank] = CRASHES
                    continue
                bar.update()
                if name == "error":
                    errors[rank] = value
                else:
                    content[rank][name] = value
            # Once all have begun, silence means that they wait for each other; after an error the others follow.
            begun = all(content)
            patience = LEFT if any(errors) else timeout if begun else START
            deadline = time.monotonic() + patience
    return content, errors


def _last_words(log: Path) -> str:
    """What a process wrote before it crashed, one line of it."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "what():" in line), lines[-1] if lines else "")
    return f": {said.partition('what():')[2].strip() or said}" if said else ""


def _cause(errors: list[str | None]) -> str:
    """The error that the others follow from."""
    texts = [text for text in errors if text]
    own = [text for text in texts if not any(word in text for word in CONSEQUENCES)]
    if not own:
        return "hangs: one process waits for another that does not come"
    return re.sub(r"\[(enforce fail at )?/\S*\]\s*", "", own[0])  # without the place in gloo's source


def _outcome(
    case: Case,
    rows: np.ndarray,
    along: np.ndarray,
    parts: list[dict[str, Any]],
    alone: dict[str, Any],
    averaged: bool,
) -> Outcome:
    whole, share = alone[case.name], len(parts) if averaged else 1
    separate = slopes = None
    if case.name == "even":
        separate = alone["separate"] / share
        by_gradient = float((whole["gradient"] * along[:, case.sentences]).sum())
        slopes = (sum(part["slope"] for part in parts) / share, whole["slope"], by_gradient)
    return Outcome(
        case,
        tuple(part["value"] for part in parts),
        whole["value"],
        np.concatenate([part["gradient"] for part in parts], axis=1) / share,
        whole["gradient"],
        rows[:, case.sentences],
        separate,
        slopes,
        {
            name: (sum(part["parameters"][name] for part in parts) / share, expected)
            for name, expected in whole["parameters"].items()
        },
    )


def _faults(
    outcomes: dict[str, Outcome], failures: dict[str, str], tolerance: float, averaged: bool
) -> list[Fault]:
    found = find_faults(outcomes["even"], tolerance, averaged) if "even" in outcomes else []
    if {"even", "shuffled"} <= outcomes.keys() and (split := _split(outcomes, tolerance, bool(found))):
        found.append(split)
    if "uneven" in outcomes and not found:
        for fault in find_faults(outcomes["uneven"], tolerance, averaged):
            found.append(dataclasses.replace(fault, name=f"uneven shares, {fault.name}"))
    first = next(iter(failures), None)
    if first == "uneven":
        found.append(
            Fault(
                "uneven shares",
                f"with a smaller last share the loss {failures[first]}",
                "rows are gathered into buffers of this process's own size; a gather of different sizes fails or hangs",
                "drop the last incomplete batch (drop_last=True, dataloader_drop_last=True), or gather the sizes first",
            )
        )
    elif first is not None:
        found.append(
            Fault(
                "fails",
                f"with {first} shares the loss {failures[first]}",
                "the processes do not make the same calls, in the same order, with the same shapes",
                "look at the error; it does not come up in one process",
            )
        )
    return found


def _split(outcomes: dict[str, Outcome], tolerance: float, explained: bool) -> Fault | None:
    """Whether which process has which sentence changes a gradient that it should not change."""
    by_sentence = []
    for name in ("even", "shuffled"):
        one = outcomes[name]
        order = np.argsort(one.case.sentences)
        by_sentence.append((one.found[:, order], one.expected[:, order]))
    (even, expected), (shuffled, again) = by_sentence
    scale = float(abs(expected).max())
    apart = float(abs(even - shuffled).max())
    if not scale or apart <= tolerance * scale or relative(again, expected) > tolerance:
        return None
    return Fault(
        "depends on the split",
        f"gradients change by {apart / scale:.3g} of the largest entry with which process has which sentence",
        "it follows from the fault above"
        if explained
        else "rows of one process are treated apart from those of others",
        "mend that first" if explained else "look for what is done with the own rows only",
    )

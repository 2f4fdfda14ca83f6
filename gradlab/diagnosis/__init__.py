"""`gradlab.doctor`: find what is wrong with a training set-up before it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradlab.diagnosis.result import Diagnosis
from gradlab.errors import GradlabError, check_whole
from gradlab.settings import names_arguments
from gradlab.verdict import Verdict

__all__ = ["Diagnosis", "Verdict", "doctor"]


@names_arguments
def doctor(
    target: Any = None,
    *,
    views: Callable[..., Any] | Sequence[str] | str | None = None,
    batches: int = 2,
    processes: int = 2,
    progress: bool | None = None,
) -> Diagnosis:
    """Check a machine, a model or a training script for known faults.

    A trainer's loss is computed and differentiated on its first batches, without an update.
    Weights, gradients, random numbers and the state of the loss do not change, and so neither does
    a later training. The report of a run that is watched afterwards names the problems.

    Args:
        target: a ``SentenceTransformerTrainer`` or, with ``views``, a Hugging Face ``Trainer``; the
            folder or hub name of a model, which is loaded and embeds three sentences; or None for
            the machine alone.
        views: location of the two views of a Hugging Face ``Trainer``, as in `gradlab.watch`.
        batches: number of batches of each data set to examine, at least 2.
        processes: processes to start for a loss that gathers rows (see `gradlab.audit`); with 0 or
            1, none are started.
        progress: show a progress bar after two seconds; None does so only on a terminal.

    Returns:
        A `Diagnosis`, to be printed, or read by its ``problems``.

    Raises:
        GradlabError: the target is of another kind, the trainer has no data, or the trainer's loss
            cannot be computed.

    Example:
        >>> import gradlab
        >>> gradlab.doctor(trainer).problems  # doctest: +SKIP
        []
    """
    from gradlab.diagnosis import installation
    from gradlab.monitor.start_watching import is_trainer

    check_whole("batches", batches, 2)
    check_whole("processes", processes, 0)
    if target is None:
        return Diagnosis("this machine", tuple(installation.checks()))
    if isinstance(target, (str, bytes)) or hasattr(target, "__fspath__"):
        return Diagnosis(str(target), (*installation.checks(), installation.model(target)))
    if not is_trainer(target):
        raise GradlabError(
            "doctor takes a SentenceTransformerTrainer, a Trainer with views=, "
            f"the folder or name of a model, or nothing, not {type(target).__name__}"
        )
    from gradlab.diagnosis.measurements import measure
    from gradlab.diagnosis.observation import observe
    from gradlab.diagnosis.verdicts import judge
    from gradlab.monitor.doctor_problems import note_problems

    observation = observe(target, views, batches, processes, progress)
    measurements = measure(observation)
    verdicts = (*installation.checks(target.args), *judge(measurements))
    note_problems(target, verdicts)
    return Diagnosis(observation.title, verdicts, measurements)

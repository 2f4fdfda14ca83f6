"""`train`: one call from settings to a trained encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from gradlab.errors import GradlabError
from gradlab.train.callback import Callback
from gradlab.train.config import TrainConfig
from gradlab.train.distributed import RunProcesses, prints
from gradlab.train.hardware import free_threads, using_threads
from gradlab.train.objective import Objective
from gradlab.train.progress import say
from gradlab.train.run_folder import RunFolder, TrainResult
from gradlab.train.settings import MOST_THREADS
from gradlab.train.trainer import Trainer


def train(
    config: TrainConfig | None = None,
    *,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
    objective: Callable[..., Objective] = Objective,
    **settings: Any,
) -> TrainResult:
    """Fine-tune an encoder, as ``gradlab train`` does.

    Args:
        config: the configuration; settings may be given by keyword instead.
        resume: whether to continue the run in ``config.output`` from its newest intact checkpoint,
            or from the beginning if there is none. On a CPU, the weights equal those of an
            uninterrupted run bit by bit (with a guide or teacher up to rounding, because other
            sentences are embedded together).
        callbacks: called during the run, after diagnostics are measured.
        objective: a subclass of :class:`Objective`, for other views, heads or negatives.
        **settings: settings of :class:`TrainConfig`, such as ``recipe``.

    Raises:
        GradlabError: the input is invalid, or a file cannot be written, as on a full disk.
        Diverged: embeddings, loss or weights are not finite, or a learned setting invalid.
        KeyboardInterrupt: the run was interrupted, if possible after a checkpoint.

    Example:
        >>> import gradlab
        >>> gradlab.train(  # doctest: +SKIP
        ...     model="bert-base-uncased", train_file="sentences.txt", output="runs/first"
        ... )
    """
    if config is None:
        config = TrainConfig.from_dict(settings)
    elif not isinstance(config, TrainConfig):
        raise GradlabError(
            f"train takes a TrainConfig, or settings by keyword such as model=, not {config!r:.60}"
        )
    elif settings:
        if settings.get("recipe") is not None:
            raise GradlabError(
                "a recipe fills in what is not given, and a configuration has every setting; give "
                "the recipe to TrainConfig.from_dict"
            )
        config = dataclasses.replace(config, **settings)
    with using_threads(_threads(config, resume)):
        return Trainer(config, resume=resume, callbacks=callbacks, objective=objective).run()


def _threads(config: TrainConfig, resume: bool) -> int:
    """Return the number of threads to compute with; a resumed run keeps its own."""
    if config.threads is not None:
        return config.threads
    if resume:
        processes, folder = RunProcesses.start(config.device), RunFolder(config.output)
        recorded = processes.from_main(lambda: folder.read_manifest().get("device", {}))
        threads = recorded.get("threads")
        if isinstance(threads, int) and 1 <= threads <= MOST_THREADS:
            return threads
    threads, message = free_threads()
    if message and prints():
        say(message)
    return threads

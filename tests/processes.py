"""Processes for tests, forked from one that has imported what takes seconds.

So that is imported once for all of them.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import socket
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from gradlab.scale.audit import auditing

IMPORTED = [
    "torch.distributed.nn",
    "sentence_transformers",
    "optuna",
    "gradlab.scale",
    "gradlab.train",
]


def forking() -> ForkServerContext:
    """Starts processes as the usual contexts of `multiprocessing` do."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


def fork_audits(patch: pytest.MonkeyPatch) -> None:
    """Let the processes of an audit be forked."""
    context = forking()
    patch.setattr(auditing.multiprocessing, "get_context", lambda _: context)


def start(
    function: Callable[..., None], *arguments: Any, log: Path, **environment: str
) -> ForkServerProcess:
    """Start a process with this environment in ``log``'s folder; what it prints goes to ``log``."""
    process = forking().Process(target=_work, args=(function, arguments, str(log), environment))
    process.start()
    return process


def together(
    function: Callable[..., None], *arguments: Any, log: Path, count: int = 2
) -> list[int | None]:
    """Exit codes of processes that find each other as those of torchrun do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [
        start(
            function, *arguments, log=log, RANK=str(rank), LOCAL_RANK=str(rank),
            WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for rank in range(count)
    ]  # fmt: skip
    for process in processes:
        process.join(300)
        process.kill()
    return [process.exitcode for process in processes]


def gradlab_command(*arguments: str) -> None:
    """``gradlab ARGUMENTS``, in a process of its own."""
    from gradlab.cli import main

    sys.argv = ["gradlab", *arguments]
    main()


class ForkedCommand:
    """``python -m gradlab ARGUMENTS``, forked where `subprocess.Popen` starts a new Python."""

    def __init__(self, command: list[str], *, stdout: Any, env: dict[str, str], **_: Any) -> None:
        assert command[:3] == [sys.executable, "-m", "gradlab"]
        log = Path(stdout.name).absolute()
        self._process = start(_gradlab_in, os.getcwd(), *command[3:], log=log, **env)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode


def _gradlab_in(folder: str, *arguments: str) -> None:
    os.chdir(folder)
    gradlab_command(*arguments)


def _work(
    function: Callable[..., None], arguments: tuple, log: str, environment: dict[str, str]
) -> None:
    import torch

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(environment)
    os.chdir(os.path.dirname(log))
    torch.set_num_threads(1)
    try:
        function(*arguments)
    finally:
        atexit._run_exitfuncs()  # which multiprocessing leaves out

"""Ctrl-C and SIGTERM that wait for the end of a step, but only for a few seconds."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

# Seconds that a step or an evaluation has to end.
PATIENCE = 4.0


class Interruption:
    """Turns SIGINT or SIGTERM within the block into a request; a later SIGINT interrupts at once.

    A second SIGTERM does not, because schedulers send it to every process of a job, and a parent
    may pass it on; launchers of several processes pass on a SIGINT, too. A request that is not
    accepted within :data:`PATIENCE` seconds also interrupts; a resumed run then begins at the
    previous checkpoint.
    """

    def __init__(self, processes: int = 1) -> None:
        """Set the number of ``processes`` that train together."""
        self._launched = processes > 1
        self._previous: dict[int, Any] = {}  # handlers by signal
        self.requested = False  # whether the process was asked to stop

    def accept(self) -> None:
        """Take the time limit off a request, to stop at leisure."""
        self._alarm(0)

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM) if in_main_thread() else ():
            # Background processes of a shell keep ignoring interruptions; None is a handler set
            # outside Python, which could not be restored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._previous[number] = signal.signal(number, self._request)
        # If other code uses the alarm, or there is none (Windows), a request has no time limit.
        alarm = getattr(signal, "SIGALRM", None)
        if self._previous and alarm and signal.getsignal(alarm) == signal.SIG_DFL:
            self._previous[alarm] = signal.signal(alarm, interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        self._alarm(0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self._alarm(PATIENCE)
        elif number == signal.SIGINT and not self._launched:
            raise KeyboardInterrupt
        self.requested = True

    def _alarm(self, seconds: float) -> None:
        if getattr(signal, "SIGALRM", None) in self._previous:
            signal.setitimer(signal.ITIMER_REAL, seconds)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM, sent by schedulers before they kill, as Ctrl-C; ignore another meanwhile."""
    previous = signal.signal(signal.SIGTERM, interrupt) if in_main_thread() else None
    try:
        yield
    finally:
        if in_main_thread():
            signal.signal(signal.SIGTERM, previous)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Signal handler: raise KeyboardInterrupt unless one is being handled, as while a run stops."""
    if not isinstance(sys.exception(), KeyboardInterrupt):
        raise KeyboardInterrupt


def in_main_thread() -> bool:
    """Return whether this is the main thread, the only one in which signal handlers can be set."""
    return threading.current_thread() is threading.main_thread()

"""Ctrl-C and termination that wait for the end of a step, but not for long."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

# Seconds that a step or an evaluation has to come to its end.
PATIENCE = 4.0


class Interruption:
    """Turns SIGINT or SIGTERM within the block into a request; a SIGINT after that interrupts at once.

    Another SIGTERM does not: schedulers send it to every process of a job, and so may a parent that got it too.
    A request that nobody has looked at after :data:`PATIENCE` seconds interrupts as well: a resumed run then begins at
    the checkpoint before.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled and in_main_thread()
        self._before: dict[int, Any] = {}
        self._asked = False

    @property
    def requested(self) -> bool:
        """Whether somebody asked to stop; who looks has the time that stopping takes."""
        if self._asked:
            self._alarm(0)
        return self._asked

    def __enter__(self) -> Self:
        if self._enabled:
            for number in (signal.SIGINT, signal.SIGTERM):
                # A shell's background process ignores interruptions, and is left to; None is a handler set outside
                # Python, which could not be put back.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._request)
            # Where the alarm is somebody else's, or there is none (Windows), a request waits as long as it takes.
            alarm = getattr(signal, "SIGALRM", None)
            if self._before and alarm and signal.getsignal(alarm) == signal.SIG_DFL:
                self._before[alarm] = signal.signal(alarm, interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        self._alarm(0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self._asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self._asked:
            self._alarm(PATIENCE)
        self._asked = True

    def _alarm(self, seconds: float) -> None:
        if getattr(signal, "SIGALRM", None) in self._before:
            signal.setitimer(signal.ITIMER_REAL, seconds)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM, which schedulers send before they kill, as Ctrl-C; while that is handled, ignore another one."""
    before = signal.signal(signal.SIGTERM, interrupt) if in_main_thread() else None
    try:
        yield
    finally:
        if in_main_thread():
            signal.signal(signal.SIGTERM, before)


def interrupt(number: int, frame: FrameType | None) -> None:
    """A handler: interrupts, unless an interruption is being handled, as a run may be on its way back."""
    if not isinstance(sys.exception(), KeyboardInterrupt):
        raise KeyboardInterrupt


def in_main_thread() -> bool:
    """Whether handlers can be set here; in other threads signals keep their usual meaning."""
    return threading.current_thread() is threading.main_thread()

"""Ctrl-C and termination that wait for the end of a step."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interruption:
    """Turns SIGINT or SIGTERM within the block into a request; a SIGINT after that interrupts at once.

    Another SIGTERM does not: schedulers send it to every process of a job, and so may a parent that got it too.
    """

    def __init__(self, enabled: bool = True) -> None:
        # Only the main thread may set handlers; elsewhere signals keep their usual meaning.
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._before: dict[int, Any] = {}
        self.requested = False

    def __enter__(self) -> Self:
        if self._enabled:
            for number in (signal.SIGINT, signal.SIGTERM):
                # A shell's background process ignores interruptions, and is left to; None is a handler set outside
                # Python, which could not be put back.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True

"""Ctrl-C and termination that wait for the end of a step."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interruption:
    """Turns the first SIGINT or SIGTERM within the block into a request; the second one interrupts at once."""

    def __init__(self, enabled: bool = True) -> None:
        # Only the main thread may set handlers; elsewhere signals keep their usual meaning.
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._before: dict[int, Any] = {}
        self.requested = False

    def __enter__(self) -> Self:
        if self._enabled:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

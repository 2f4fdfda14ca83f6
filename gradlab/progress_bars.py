"""Progress on standard error: bars for counted work, and a line for other work."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

# Seconds until progress is shown, and between updates.
PATIENCE, REFRESH = 1.0, 1.0
# Seconds between updates of a bar in a log file, and in a log file of a training, which takes long.
EVERY_LINE, EVERY_LINE_OF_TRAINING = 10.0, 60.0


def bar_interval(in_files: float = EVERY_LINE) -> float:
    """Return seconds between updates of a progress bar: 0.5 on a terminal, else ``in_files``."""
    return 0.5 if sys.stderr.isatty() else in_files


def progress_bar(items: Any = None, progress: bool | None = None, **options: Any) -> Any:
    """Return a tqdm bar that appears after two seconds.

    Args:
        items: iterable to work through; None for a bar that the caller updates.
        progress: whether to show the bar; None shows it on a terminal only.
        **options: options of tqdm.
    """
    from tqdm.auto import tqdm  # loads asyncio, which quick work should not wait for

    defaults = {"delay": 2, "leave": False, "mininterval": bar_interval()}
    return tqdm(items, disable=None if progress is None else not progress, **defaults | options)


@contextlib.contextmanager
def waiting(title: str, *, visible: bool = True) -> Iterator[None]:
    """Print ``title`` to standard error if the block takes over a second.

    On a terminal, the elapsed time is shown too.

    Args:
        title: the work in progress.
        visible: True if progress should be printed; with several processes, only one prints.
    """
    if not visible:
        yield
        return
    stream, over = sys.stderr, threading.Event()

    def tell() -> None:
        if over.wait(PATIENCE):
            return
        from tqdm import tqdm

        if not stream.isatty():
            print(f"{title} ...", file=stream, flush=True)
            return
        form = "{desc} ... {elapsed}"
        with tqdm(desc=title, bar_format=form, leave=False, file=stream, position=0) as bar:
            while not over.wait(REFRESH):
                bar.refresh()

    teller = threading.Thread(target=tell, name=title, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


@contextlib.contextmanager
def no_bars_of_datasets() -> Iterator[None]:
    """Hide the progress bars of the library `datasets` within the block."""
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    silent = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not silent:
            enable_progress_bars()

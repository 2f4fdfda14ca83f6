"""Progress: bars for counted work, a line for work that cannot be counted."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

# Seconds after which something is said, and between two changes of what is said.
PATIENCE, EVERY = 1.0, 1.0
# Seconds between two states of a bar in a log file; of a training, which takes long.
EVERY_LINE, EVERY_LINE_OF_TRAINING = 10.0, 60.0


def bar_interval(in_files: float = EVERY_LINE) -> float:
    """Seconds between two states of a progress bar, on a terminal and in a log file."""
    return 0.5 if sys.stderr.isatty() else in_files


def progress_bar(items: Any = None, progress: bool | None = None, **options: Any) -> Any:
    """tqdm's bar over items, or of counted work where there are none, shown after two seconds.

    Args:
        items: what is worked through; without it, a bar to `update` by hand.
        progress: whether it is shown; None shows it on a terminal only.
        **options: of tqdm.
    """
    from tqdm.auto import tqdm  # which loads asyncio, and what takes no time wants no bar

    shown = {"delay": 2, "leave": False, "mininterval": bar_interval()}
    return tqdm(items, disable=None if progress is None else not progress, **shown | options)


@contextlib.contextmanager
def waiting(title: str, *, visible: bool = True) -> Iterator[None]:
    """Within the block, after a second, the title is on standard error; at a terminal with the time that has passed.

    Args:
        title: what is being done.
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
            while not over.wait(EVERY):
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
    """Within the block the library `datasets` shows no progress; afterwards as before."""
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    silent = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not silent:
            enable_progress_bars()

"""What people see of work that takes long and has no steps to count."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")

# Seconds after which something is said, and between two changes of what is said.
PATIENCE, EVERY = 1.0, 1.0
# Seconds between two lines of progress where there is no terminal.
EVERY_LINE = 10.0


def bar_interval() -> float:
    """Seconds between two states of a progress bar: a terminal sees it move, a log file gets a line a minute."""
    return 0.5 if sys.stderr.isatty() else 60


def progress_bar(items: Any, progress: bool | None, **options: Any) -> Any:
    """tqdm's bar over items, shown after two seconds; ``progress`` None shows it on a terminal only."""
    from tqdm.auto import tqdm  # which loads asyncio, and what takes no time wants no bar

    return tqdm(items, delay=2, disable=None if progress is None else not progress, **options)


@contextlib.contextmanager
def counted(title: str, total: int, *, visible: bool = True) -> Iterator[Callable[[int], object]]:
    """Show the progress of counted work: a bar at a terminal, elsewhere a line every ten seconds.

    Args:
        title: what is being done.
        total: how much there is to do.
        visible: whether anything is shown.

    Yields:
        A function to call with the amount that was done.
    """
    if visible and sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(desc=title, total=total, delay=PATIENCE, mininterval=bar_interval(), leave=False) as bar:
            yield bar.update
        return
    done, began = 0, time.monotonic()
    said = began

    def advance(count: int) -> None:
        nonlocal done, said
        done, now = done + count, time.monotonic()
        if visible and now - said >= EVERY_LINE:
            said = now
            left = (now - began) * (total - done) / max(done, 1)
            line = f"{title}: {done:,} of {total:,}, about {left:,.0f} s left"
            print(line, file=sys.stderr, flush=True)

    yield advance


def each(title: str, items: Iterable[_T], total: int | None = None, *, visible: bool = True) -> Iterator[_T]:
    """The items one by one, with progress as of :func:`counted`; ``total`` is needed of what has no length."""
    sized: Any = items
    with counted(title, len(sized) if total is None else total, visible=visible) as advance:
        for item in items:
            yield item
            advance(1)


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

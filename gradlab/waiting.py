"""What people see of work that takes long and has no steps to count."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

# Seconds after which something is said, and between two changes of what is said.
PATIENCE, EVERY = 1.0, 1.0


def bar_interval() -> float:
    """Seconds between two states of a progress bar: a terminal sees it move, a log file gets a line a minute."""
    return 0.5 if sys.stderr.isatty() else 60


@contextlib.contextmanager
def waiting(title: str, *, visible: bool = True) -> Iterator[None]:
    """Within the block, after a second, the title is on standard error; at a terminal with the time that has passed.

    Args:
        title: what is being done.
        visible: whether anybody is to be told, as only one of several processes does.
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

"""A worker: claims runs until there are none left."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gradlab.errors import Diverged, GradlabError
from gradlab.sweep.board import RUNNING, Assignment, Board
from gradlab.sweep.training import LostRun, carry_out, empty, tidy

PATIENCE = 5  # seconds between two looks at what the others do


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Take SIGTERM, which schedulers send before they kill, as Ctrl-C; another one, while that is seen to, as nothing."""

    def interrupt(number: int, frame: object) -> None:
        # The exception that is being handled: a run may be on its way back.
        if not isinstance(sys.exception(), KeyboardInterrupt):
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def work(board: Board, output: Path, say: Callable[[str], None], *, wait: bool = True) -> int:
    """Carry out runs until none is left to claim.

    Args:
        board: the sweep.
        output: its folder.
        say: where messages go.
        wait: stay while other workers have runs, to take over those of one that dies.

    Returns:
        The number of runs that this worker finished or saw failing.

    Raises:
        KeyboardInterrupt: when interrupted; the run that was going on is given back, to be continued.
    """
    done, patient = 0, False
    while True:
        claim = board.claim()
        if claim is not None:
            patient = False
            done += _carry_out(board, claim, output, say)
            continue
        running = sum(run.state == RUNNING for run in board.runs())
        if not running or not wait:
            return done
        if not patient:
            say(f"Waiting: other workers have {running} runs, which this one takes over if they die.")
        patient = True
        time.sleep(min(board.heartbeat, PATIENCE))


def _carry_out(board: Board, claim: Assignment, output: Path, say: Callable[[str], None]) -> bool:
    run = claim.run
    name = f"{run.point.title()}, seed {run.seed}"
    say(f"Run: {name}")
    try:
        with board.alive(claim) as mine:
            if claim.anew:
                empty(run, output)
                board.emptied(claim)
            value, results = carry_out(board.spec, claim, output, mine)
    except LostRun:
        say(f"Lost: {name}; another worker has it, because this one was silent for too long")
        return False
    except KeyboardInterrupt:
        board.release(claim)
        raise
    except Exception as error:  # whatever it is, it is recorded, and the other runs go on
        words = " ".join(str(error).split())[:1000]
        kind = "" if isinstance(error, GradlabError) else f"{type(error).__name__}: "
        diverged = isinstance(error, Diverged)
        board.fail(claim, f"{kind}{words}", diverged)
        say(f"{'Diverged' if diverged else 'Failed'}: {name}: {kind}{words}")
        return True
    if not board.finish(claim, value, results):
        say(f"Lost: {name}; another worker has it, because this one was silent for too long")
        return False
    tidy(board.spec, run, output)
    say(f"Finished: {name}: {board.spec.metric} {value:.4f}")
    return True

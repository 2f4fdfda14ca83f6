"""A worker: claims runs until there are none left."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.sweep.board import RUNNING, Assignment, Board, Run
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


# What a run is instead of a training and its evaluation: from the run, and from what says whether it is still this
# worker's, to the metric and everything measured.
Work = Callable[[Run, Callable[[], bool]], tuple[float, dict[str, Any]]]


def work(
    board: Board, output: Path, say: Callable[[str], None], *, wait: bool = True, instead: Work | None = None
) -> int:
    """Carry out runs until none is left to claim.

    Args:
        board: the sweep.
        output: its folder.
        say: where messages go.
        instead: carries out a run, where it is not what `gradlab.sweep.training.carry_out` does.
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
            done += _carry_out(board, claim, output, say, instead)
            continue
        running = sum(run.state == RUNNING for run in board.runs())
        if not running or not wait:
            return done
        if not patient:
            say(f"Waiting: other workers have {running} runs, which this one takes over if they die.")
        patient = True
        time.sleep(min(board.heartbeat, PATIENCE))


def _carry_out(
    board: Board, claim: Assignment, output: Path, say: Callable[[str], None], instead: Work | None
) -> bool:
    run = claim.run
    name = f"{run.point.title()}, seed {run.seed}"
    say(f"Run: {name}")
    try:
        with board.alive(claim) as mine:
            if claim.anew and instead is None:
                empty(run, output)
                board.emptied(claim)
            value, results = instead(run, mine) if instead else carry_out(board.spec, claim, output, mine)
    except LostRun:
        say(f"Lost: {name}; another worker has it, because this one was silent for too long")
        return False
    except KeyboardInterrupt:
        board.release(claim)
        raise
    except Exception as error:  # whatever it is, it is recorded, and the other runs go on
        words = " ".join(str(error).split())[:1000]
        kind = "" if isinstance(error, GradlabError) else f"{type(error).__name__}: "
        board.fail(claim, f"{kind}{words}")
        say(f"Failed: {name}: {kind}{words}")
        return True
    if not board.finish(claim, value, results):
        say(f"Lost: {name}; another worker has it, because this one was silent for too long")
        return False
    if instead is None:
        tidy(board.spec, run, output)
    say(f"Finished: {name}: {board.spec.metric} {value:.4f}")
    return True

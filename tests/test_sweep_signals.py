"""Signals to a sweep's processes: what is under way is given back, however often they come."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from gradlab.errors import GradlabError
from gradlab.sweep import launch as launching
from gradlab.sweep import worker
from gradlab.sweep.spec import Point
from gradlab.sweep.trials import FINISHED, WAITING, Run
from gradlab.sweep.worker import work
from gradlab.train import interruption as interruption_module
from gradlab.train.interruption import Interruption, terminable


def send(number):
    os.kill(os.getpid(), number)


class OneRun:
    """A trials with a single run, whose release takes a while: SIGTERM comes again meanwhile."""

    heartbeat, spec = 1, None

    def __init__(self):
        self.released = False

    def claim(self):
        return Run("key", Point({}, {}, (1,)), 1)

    def alive(self, claim):
        return contextlib.nullcontext(lambda: True)

    def release(self, claim):
        send(signal.SIGTERM)
        self.released = True


def test_only_a_second_ctrl_c_interrupts_at_once():
    with terminable(), Interruption() as interruption:
        send(signal.SIGTERM)
        send(signal.SIGTERM)  # of the job, and of the parent
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    with Interruption() as interruption:
        send(signal.SIGINT)
        send(signal.SIGTERM)
        assert interruption.requested


def test_an_ignored_signal_stays_ignored():
    # As a shell does for what runs in the background.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            send(signal.SIGINT)
            assert not interruption.requested
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_termination_does_not_keep_a_run_from_being_given_back(tmp_path, monkeypatch):
    def train(*arguments):
        with Interruption() as interruption:
            send(signal.SIGTERM)
            assert interruption.requested
            raise KeyboardInterrupt

    monkeypatch.setattr(worker, "carry_out", train)
    trials = OneRun()
    with terminable(), pytest.raises(KeyboardInterrupt):
        work(trials, tmp_path, lambda text: None)
    assert trials.released


@pytest.mark.parametrize("error", [OSError("the database is gone"), KeyboardInterrupt()])
def test_whatever_ends_the_watch_ends_the_workers(tmp_path, monkeypatch, error):
    started = []
    popen = subprocess.Popen

    def sleeper(*arguments, **named):
        started.append(popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[-1]

    def watch(*arguments):
        raise error

    monkeypatch.setattr(subprocess, "Popen", sleeper)
    monkeypatch.setattr(launching, "_watch", watch)
    try:
        with pytest.raises(type(error)):
            launching.launch(None, [], 2, tmp_path)
        assert [process.poll() for process in started] == [-signal.SIGTERM] * 2
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize("state", [FINISHED, WAITING])
def test_a_killed_worker_is_an_error_if_it_leaves_a_run(tmp_path, monkeypatch, state):
    class Taken:
        def runs(self):
            return [Run("key", Point({}, {}, (1,)), 1, state=state)]

    popen, suicide = subprocess.Popen, "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr(
        subprocess, "Popen", lambda *_, **__: popen([sys.executable, "-c", suicide])
    )
    monkeypatch.setattr(
        launching, "_watch", lambda trials, processes: [process.wait() for process in processes]
    )
    ended = pytest.raises(GradlabError, match="a worker ended with code -9")
    with contextlib.nullcontext() if state == FINISHED else ended:
        launching.launch(Taken(), [], 2, tmp_path)


def test_a_request_that_nobody_looks_at_interrupts(monkeypatch):
    """A long step or evaluation is not waited for; one that looks in time is left alone."""
    monkeypatch.setattr(interruption_module, "PATIENCE", 0.2)
    with pytest.raises(KeyboardInterrupt), Interruption():
        send(signal.SIGTERM)
        time.sleep(5)
    with Interruption() as interruption:
        send(signal.SIGTERM)
        assert interruption.requested
        interruption.accept()
        time.sleep(0.4)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL

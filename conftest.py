"""Fixtures every test file may use."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradlab.errors import GradlabError
from tests import shape_checks

# Tests run side by side: more threads would wait for each other, and results vary with the load.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
# Kernels run on the CPU, by Triton's interpreter, which reads this when it is imported.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Of processes that begin from here on: memory of large arrays stays with the process, instead of
# being given back and cleared anew by the system for each.
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**25))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**30))

# No test cuts the power: files need not be on the disk before it goes on.
os.fsync = lambda handle: None

# What is imported and collected stays: no collection of garbage looks through it in between, before
# Python ends: Triton complains of its objects that are left then.
gc.disable()
atexit.register(gc.unfreeze)
shape_checks.install()

# Files whose tests take more than ten seconds of a processor.
LONGEST = (
    "test_conjectures_run", "test_atlas", "test_docs_examples", "test_notebooks",
    "test_same_numbers", "test_flow", "test_simulation", "test_judgement", "test_second_round",
    "test_drawing", "test_doctor", "test_relative_push", "test_verdicts", "test_precision",
    "test_watch", "test_planted_faults", "test_conjectures", "test_sweep_command",
)  # fmt: skip


_frozen_modules = 0  # imported when objects were last frozen
MANY_MODULES = 20


def _freeze() -> None:
    """Let no collection of garbage look through the objects that there are."""
    global _frozen_modules
    gc.collect()
    gc.freeze()
    _frozen_modules = len(sys.modules)


def _one_line(error: GradlabError, message: str) -> None:
    """Whatever a test asks of an error, its message is one line."""
    assert "\n" not in message, message
    ValueError.__init__(error, message)


GradlabError.__init__ = _one_line  # type: ignore[method-assign]  # while the tests run

# A shell's background process ignores Ctrl-C, as do its children; tests of interruptions need it.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under ``-n`` a file's tests run in one process, so that what they share is made once."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # else by their number, the longest files last
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under ``-n`` the longest files come first, so that processes end together."""
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda test: places.get(test.path.stem, len(LONGEST)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay to the end anyway: no collection of garbage looks through them.

    That would take a second each time.
    """
    _freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a test imports and what a file leaves stays as well.

    Libraries collect garbage at the end of each training and in each test of several hypotheses.
    """
    ends = nextitem is None or nextitem.path != item.path
    if ends or len(sys.modules) > _frozen_modules + MANY_MODULES:
        _freeze()


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT, to which nothing is written."""
    from tests.tiny_models import make_bert

    return make_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def senteval(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny folder in SentEval's layout, to which nothing is written."""
    from tests.senteval_folder import make_senteval

    return make_senteval(tmp_path_factory.mktemp("senteval"))


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """``gradlab ...`` in this process: exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        from gradlab.cli import main

        monkeypatch.setattr(sys, "argv", ["gradlab", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """No figure outlives its test."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokenised files go to a cache of the test run, never to that of the user."""
    monkeypatch.setenv("GRADLAB_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))

"""The check of sentences: which of the doctor's, the report's and inspect's are never said."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

# File of sentences by name -> module and function that looks them up.
LOOKED_UP = {
    "gradlab.monitor.words": "entries",
    "gradlab.diagnosis.result": "faults",
}
# Test files in which verdicts are made.
TESTS = (
    "test_verdicts.py", "test_planted_faults.py", "test_report.py", "test_watch.py",
    "test_doctor.py",
    "test_inspect_advice.py", "test_audit.py", "test_train_run.py", "test_train_queue.py",
)  # fmt: skip
ENVIRONMENT = "GRADLAB_SENTENCES"


class _Noted(dict[str, Any]):
    """Entries by name that note which are asked for."""

    def __init__(self, entries: Mapping[str, Any], said: set[str], room: str) -> None:
        super().__init__(entries)
        self._said, self._room = said, room

    def __getitem__(self, name: str) -> Any:
        self._said.add(f"{self._room}: {name}")
        return super().__getitem__(name)


@contextlib.contextmanager
def noting(said: set[str]) -> Iterator[None]:
    """Note the names of all sentences that are said within the block."""
    undo = []
    for place, function in LOOKED_UP.items():
        with contextlib.suppress(ImportError):
            module = importlib.import_module(place)
            known = getattr(module, function)
            entries = _Noted(known(), said, _room(place))
            setattr(module, function, lambda entries=entries: entries)
            undo.append((module, function, known))
    with contextlib.suppress(ImportError):
        undo.append(_note_verdicts(said))
    yield
    for module, function, known in undo:
        setattr(module, function, known)


def _note_verdicts(said: set[str]) -> tuple[Any, str, Any]:
    """Note the names of verdicts as they are made, where a verdict has its name."""
    module = importlib.import_module("gradlab.verdict")
    kind, known = module.Verdict, module.Verdict.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        known(self, *args, **kwargs)
        frame, room = sys._getframe(1), ""
        while frame is not None and not room:
            place = frame.f_globals.get("__name__", "")
            if place.startswith("gradlab.") and place not in ("gradlab.verdict", "dataclasses"):
                room = _room(place)
            frame = frame.f_back  # type: ignore[assignment]
        if self.name:
            said.add(f"{room}: {self.name}")

    kind.__init__ = init
    return kind, "__init__", known


def sentences(root: Path) -> set[str]:
    """Return the names of all sentences: of tables of words, and of verdicts made in the code."""
    found = set()
    for place, function in LOOKED_UP.items():
        with contextlib.suppress(ImportError):
            found |= {
                f"{_room(place)}: {name}"
                for name in getattr(importlib.import_module(place), function)()
            }
    for room in ("monitor", "diagnosis", "inspection"):
        for file in sorted((root / "gradlab" / room).rglob("*.py")):
            found |= {
                f"{room}: {name}" for name in _names(ast.parse(file.read_text(encoding="utf-8")))
            }
    return found


def _names(tree: ast.AST) -> Iterator[str]:
    """Names given to verdicts: the argument ``name`` of a call that makes one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            makes = ast.unparse(node.func).rpartition(".")[2]
            for keyword in node.keywords if makes in ("Verdict", "replace") else ():
                if keyword.arg == "name":
                    yield from _texts(keyword.value)


def _texts(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
        yield value.value
    elif isinstance(value, ast.IfExp):
        yield from _texts(value.body)
        yield from _texts(value.orelse)


def said_of_cases(cases: Iterable[Any]) -> set[str]:
    """Return the names of sentences that are said of frozen cases."""
    from tests.judgement import scoring

    said: set[str] = set()
    with noting(said):
        for case in cases:
            scoring.verdicts(case)
    return said


def said_in_tests(root: Path) -> set[str]:
    """Run the tests in which verdicts are made; return the names of sentences that they say."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "said"
        files = [str(root / "tests" / name) for name in TESTS if (root / "tests" / name).exists()]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "tests.judgement.sentences", *files],
            cwd=root, env={**os.environ, ENVIRONMENT: str(log)}, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return set(log.read_text(encoding="utf-8").splitlines()) if log.exists() else set()


def pytest_sessionstart(session: Any) -> None:
    """Note the sentences of a test run, as a plugin of pytest."""
    if ENVIRONMENT in os.environ:
        session.config._said = set()
        session.config._noting = noting(session.config._said)
        session.config._noting.__enter__()


def pytest_sessionfinish(session: Any) -> None:
    """Write them down."""
    if ENVIRONMENT in os.environ:
        Path(os.environ[ENVIRONMENT]).write_text(
            "\n".join(sorted(session.config._said)), encoding="utf-8"
        )


def _room(place: str) -> str:
    return re.split(r"\.", place)[1] if "." in place else place

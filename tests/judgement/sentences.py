"""The check of sentences: which of the doctor's, the report's and inspect's are never said.

A sentence is a named verdict in the code of a room. As a plugin of pytest, this module notes the
sentences that tests say.
"""

from __future__ import annotations

import ast
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.judgement.case import Case, Row

ROOMS = {
    "monitor": "verdicts/*.py", "diagnosis": "*.py", "inspection": "*findings.py",
    "data": "*verdicts.py",
}  # fmt: skip
# Test files in which verdicts are made.
TESTS = (
    "test_verdicts.py", "test_planted_faults.py", "test_report.py", "test_watch.py",
    "test_doctor.py", "test_diagnosis.py", "test_inspect_advice.py", "test_inspect.py",
    "test_train_run.py", "test_train_queue.py",
)  # fmt: skip
ENVIRONMENT = "GRADLAB_SENTENCES"
NAME = 4  # place of the name among the arguments of a verdict


def sentences(root: Path) -> set[str]:
    """Return the names of all sentences, after their room."""
    names = set()
    for room, pattern in ROOMS.items():
        for file in sorted((root / "gradlab" / room).glob(pattern)):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            names |= {f"{room}: {name}" for name in _names(tree)}
    return names


def _names(tree: ast.AST) -> Iterator[str]:
    """Names given to verdicts: by an argument, or by a variable ``name`` in a function of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Verdict":
            by_keyword = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
            for argument in (*by_keyword, *node.args[NAME : NAME + 1]):
                yield from _texts(argument)
        elif isinstance(node, ast.FunctionDef) and "Verdict(" in ast.unparse(node):
            for assignment in ast.walk(node):
                if isinstance(assignment, ast.Assign):
                    yield from _assigned(assignment.targets[0], assignment.value)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for variable, expression in zip(target.elts, value.elts, strict=False):
            yield from _assigned(variable, expression)
    elif isinstance(target, ast.Name) and target.id == "name":
        yield from _texts(value)


def _texts(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        if value.value and "_" not in value.value:  # else the name of a quantity
            yield value.value
    elif isinstance(value, ast.IfExp):
        yield from _texts(value.body)
        yield from _texts(value.orelse)


@contextlib.contextmanager
def noting(said: set[str]) -> Iterator[None]:
    """Note the names of all sentences that are said within the block."""
    from gradlab.verdict import Verdict

    def note_verdict(verdict: Any) -> None:
        frame, room = sys._getframe(2), ""
        while frame is not None and room not in ROOMS:
            room = frame.f_globals.get("__name__", "").partition("gradlab.")[2].partition(".")[0]
            frame = frame.f_back  # type: ignore[assignment]
        said.add(f"{room}: {verdict.name}")

    undo = [_noting(Verdict, note_verdict)]
    yield
    for kind, original in undo:
        kind.__init__ = original


def _noting(kind: Any, note: Callable[[Any], None]) -> tuple[Any, Any]:
    original = kind.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        note(self)

    kind.__init__ = init
    return kind, original


def said_of(labelled: Iterable[Case | Row]) -> set[str]:
    """Return the names of sentences that are said of frozen cases and of rows."""
    from tests.judgement import scoring

    said: set[str] = set()
    with noting(said):
        for case in labelled:
            _ = case.said() if isinstance(case, Row) else scoring.verdicts(case)
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
    """Begin to note the sentences of a test run."""
    if ENVIRONMENT in os.environ:
        session.config._said = set()
        session.config._noting = noting(session.config._said)
        session.config._noting.__enter__()


def pytest_sessionfinish(session: Any) -> None:
    """Write them down."""
    if ENVIRONMENT in os.environ:
        text = "\n".join(sorted(session.config._said))
        Path(os.environ[ENVIRONMENT]).write_text(text, encoding="utf-8")

"""Mutation of limits: which of them could be twice or half as large without a case that notices.

A limit is a number that a judging module compares with, or holds in a constant. Each is doubled and
halved in turn, a probability by its distance to 1 as well, in a fork of this process that imports
the changed module. A mutant is noticed if any tool grades any frozen case otherwise.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Rooms that judge, modules that do so in them, and the tool whose verdicts they make. The report,
# which takes most time, comes last.
ROOMS = {"diagnosis": "doctor", "inspection": "inspect", "monitor": "report"}
JUDGING = ("verdicts/*.py", "*verdicts.py", "findings.py")
FACTORS = (2.0, 0.5)
OF_INSPECTIONS = "inspection "  # before the numbers of the boundaries of inspections
# A module of these rooms without limits, which imports nothing of them and remembers what it has
# measured: no fork needs its own, which would take most of the time.
KEPT = "gradlab.monitor.setting_advice"


@dataclass(frozen=True)
class Limit:
    """A number in the source of a module: where it stands, and what it is called."""

    file: Path
    line: int
    column: int
    text: str
    name: str  # constant's name, or the comparison
    tool: str

    @property
    def where(self) -> str:
        return f"{'/'.join(self.file.parts[-3:])}:{self.line} {self.name}"

    def mutants(self) -> Iterator[str]:
        """Yield the texts of other values."""
        value = float(self.text)
        for factor in FACTORS:
            whole = re.fullmatch(r"\d+", self.text)
            # Of a probability near 1, the distance to 1.
            near = 0.5 < value < 1
            changed = 1 - factor * (1 - value) if near else factor * value
            text = str(round(changed)) if whole else repr(changed)
            if text != self.text and float(text) != value:
                yield text


def limits(root: Path) -> list[Limit]:
    """Return the limits in the source of gradlab below ``root``."""
    limits_of_rooms = []
    for room, tool in ROOMS.items():
        folder = root / "gradlab" / room
        for file in sorted({file for pattern in JUDGING for file in folder.glob(pattern)}):
            limits_of_rooms += _in_python(file, tool)
    return limits_of_rooms


def _in_python(file: Path, tool: str) -> Iterator[Limit]:
    source = file.read_text(encoding="utf-8")
    tree, lines, visited = ast.parse(source), source.splitlines(), set()
    for node in ast.walk(tree):
        named: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Assign) and node in tree.body:
            named = list(_pairs(node.targets[0], node.value))
        elif isinstance(node, ast.AnnAssign) and node in tree.body and node.value:
            named = list(_pairs(node.target, node.value))
        elif isinstance(node, ast.Compare):
            named = [
                (lines[node.lineno - 1].strip(), operand)
                for operand in (node.left, *node.comparators)
            ]
        for name, expression in named:
            for number in _numbers(expression):
                place = (number.lineno, number.col_offset)
                text = ast.get_source_segment(source, number) or ""
                if place not in visited:
                    visited.add(place)
                    yield Limit(file, *place, text, name, tool)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from (
            (ast.unparse(variable), expression)
            for variable, expression in zip(target.elts, value.elts, strict=False)
        )
    elif isinstance(target, ast.Name) and target.id.isupper():
        yield target.id, value


def _numbers(expression: ast.expr) -> Iterator[ast.Constant]:
    """Numbers of an expression that are limits: no index, no 0 and no 1."""
    if isinstance(expression, ast.Constant):
        value = expression.value
        if isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
            yield expression
    elif isinstance(expression, ast.BinOp | ast.UnaryOp | ast.Tuple | ast.BoolOp):
        for operand in ast.iter_child_nodes(expression):
            if isinstance(operand, ast.expr):
                yield from _numbers(operand)


def grades(frozen: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield what the tools say of frozen cases, by name: the grade of each subject.

    Of an inspection's boundaries, whose words are tested, it is the text as well.
    """
    from tests.judgement.freeze import judged

    for name, measured in frozen:
        yield (
            name,
            sorted(
                f"{verdict.tool}: {verdict.subject}: {verdict.grade}"
                f"{verdict.text if name.startswith(OF_INSPECTIONS) else ''}"
                for verdict in judged(measured)
            ),
        )


def noticed(limit: Limit, text: str, frozen: Sequence[Any], expected: dict[str, Any]) -> str:
    """Return the first case that is judged otherwise if the limit has another value, or ''."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(receive)
            first = _judge_mutant(limit, text, frozen, expected)
        except BaseException as error:
            first = f"error: {type(error).__name__}: {error}"
        with os.fdopen(send, "w") as file:
            file.write(first)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as file:
        content = file.read()
    os.waitpid(child, 0)
    return content


def _judge_mutant(limit: Limit, text: str, frozen: Sequence[Any], expected: dict[str, Any]) -> str:
    source = limit.file.read_text(encoding="utf-8").splitlines(keepends=True)
    line = source[limit.line - 1].encode()  # columns count bytes
    changed = line[: limit.column] + text.encode() + line[limit.column + len(limit.text) :]
    source[limit.line - 1] = changed.decode()
    if limit.file.suffix == ".toml":
        _serve_text(limit.file, "".join(source))
    else:
        sys.meta_path.insert(0, _Mutant(limit.file, "".join(source)))
    return next((name for name, said in grades(frozen) if said != expected[name]), "")


class _Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another source."""

    def __init__(self, file: Path, source: str) -> None:
        self._file, self._source = file, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("gradlab."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or Path(spec.origin) != self._file:
            return None
        places = spec.submodule_search_locations
        return importlib.util.spec_from_file_location(
            name, self._file, loader=self, submodule_search_locations=places
        )

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(compile(self._source, str(self._file), "exec"), module.__dict__)


def _serve_text(file: Path, text: str) -> None:
    read = Path.read_text

    def changed(self: Path, *args: Any, **kwargs: Any) -> str:
        return text if self == file else read(self, *args, **kwargs)

    Path.read_text = changed  # type: ignore[method-assign]  # in a fork that ends soon


def forget_rooms() -> None:
    """Let the rooms that judge be imported anew in each fork, and whatever imports from them."""
    judging = tuple(f"gradlab.{room}" for room in ROOMS)
    for name in list(sys.modules):
        if name == KEPT:
            continue
        if name.startswith((*judging, "gradlab.report", "tests.judgement.freeze")):
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            if parent in sys.modules and hasattr(sys.modules[parent], last):
                delattr(sys.modules[parent], last)


def preload() -> None:
    """Import what takes seconds once, for all forks."""
    for name in (
        "torch", "transformers", "scipy.stats", "pandas", "jinja2", "gradlab.losses.registry",
        "gradlab.gradient.diagnostics", "gradlab.decomposition.two_view_losses",
        "gradlab.decomposition.batch_arguments", "gradlab.scale.audit", "gradlab.train",
    ):  # fmt: skip
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def mutate(root: Path, cases: Sequence[Any], only: str = "") -> Iterator[tuple[Limit, str, str]]:
    """Yield each mutant with a case or boundary that notices it, or ''."""
    from tests.judgement import inspect_boundaries, run_boundaries, scoring
    from tests.judgement.boundaries import measurements

    preload()
    measured = {f"{case.half}/{case.name}": scoring.frozen(case) for case in cases}
    # Boundaries come first: they take least time, and most mutants are noticed by one.
    frozen: dict[str, list[tuple[str, Any]]] = {tool: [] for tool in ROOMS.values()}
    frozen["doctor"] += [
        (title, {"doctor": doctor_measurements}) for title, doctor_measurements, _ in measurements()
    ]
    frozen["report"] += [
        (title, {"report": run}) for title, run, _, _ in run_boundaries.measurements()
    ]
    frozen["inspect"] += [
        (f"{OF_INSPECTIONS}{number}", {"inspect": inspect_boundaries.SOUND | numbers})
        for number, (numbers, *_) in enumerate(inspect_boundaries.ROWS)
    ]
    for tool, of_tool in frozen.items():
        of_tool += [(name, {tool: tools[tool]}) for name, tools in measured.items()
                    if tool in tools]  # fmt: skip
    expected = {tool: dict(grades(frozen_of_tool)) for tool, frozen_of_tool in frozen.items()}
    forget_rooms()
    gc.freeze()  # a collection in a fork would copy all pages
    for limit in limits(root):
        if only in limit.where:
            for text in limit.mutants():
                yield limit, text, noticed(limit, text, frozen[limit.tool], expected[limit.tool])

"""Mutation of limits: which of them could be twice or half as large without a case that notices.

A limit is a number that a judging module compares with, or holds in a constant. Each is doubled and
halved in turn, a probability by its distance to 1 as well, and its module gets the code and the
constants of the changed source. A mutant is noticed if its tool grades any frozen case otherwise.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tests.judgement.case import ROOT, Case, Row

# Rooms that judge, modules that do so in them, and the tool whose verdicts they make. The report,
# which takes most time, comes last.
ALL_TOOLS = "all"
ROOMS = {
    "data": ALL_TOOLS, "diagnosis": "doctor", "inspection": "inspect", "monitor": "report",
}  # fmt: skip
JUDGING = ("verdicts/*.py", "*verdicts.py", "findings.py")
FACTORS = (2.0, 0.5)
# Change of a limit -> title of the row that noticed it when the file was written.
WITNESSES = ROOT / "witnesses.json"
Change = tuple[Any, str, Any]  # whose attribute has another value, its name, its own value


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

    @property
    def module(self) -> str:
        parts = self.file.with_suffix("").parts[::-1]
        names = parts[: parts.index("gradlab") + 1]
        return ".".join(name for name in reversed(names) if name != "__init__")

    def key(self, text: str) -> str:
        """Return a name of a change that does not depend on lines."""
        return f"{self.module} {self.name}: {self.text} -> {text}"

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


def limits(root: Path, tools: Iterable[str] = ()) -> list[Limit]:
    """Return the limits in the source of gradlab below ``root``, or those of some tools."""
    limits_of_rooms = []
    for room, tool in ROOMS.items():
        if tools and tool not in tools:
            continue
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
                # A number stands in one line, whose columns count bytes.
                text = lines[number.lineno - 1].encode()[number.col_offset : number.end_col_offset]
                if place not in visited:
                    visited.add(place)
                    yield Limit(file, *place, text.decode(), name, tool)


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


@contextlib.contextmanager
def changed(limit: Limit, text: str) -> Iterator[None]:
    """Let a limit have another value within the block, in the module and where it is imported."""
    lines = limit.file.read_text(encoding="utf-8").splitlines(keepends=True)
    line = lines[limit.line - 1].encode()  # columns count bytes
    end = limit.column + len(limit.text)
    lines[limit.line - 1] = (line[: limit.column] + text.encode() + line[end:]).decode()
    module = importlib.import_module(limit.module)
    mutant = {"__name__": limit.module, "__file__": str(limit.file)}
    exec(compile("".join(lines), str(limit.file), "exec"), mutant)
    undo = [*_exchange_numbers(module, mutant), *_exchange_code(module.__dict__, mutant)]
    try:
        yield
    finally:
        for place, name, value in undo:
            setattr(place, name, value)


def _exchange_numbers(module: ModuleType, mutant: Mapping[str, Any]) -> Iterator[Change]:
    """Give constants their other values, also in the modules that import them."""
    for name, value in list(vars(module).items()):
        if name.isupper() and isinstance(value, int | float | tuple) and value != mutant[name]:
            for importer in [m for key, m in sys.modules.items() if key.startswith("gradlab.")]:
                if importer is module or (module.__name__, name) in _imports(importer):
                    yield importer, name, value
                    setattr(importer, name, mutant[name])


@functools.cache
def _imports(module: ModuleType) -> set[tuple[str, str]]:
    """Return the names that a module of gradlab imports from others, with theirs."""
    file = getattr(module, "__file__", None)
    if not getattr(module, "__name__", "").startswith("gradlab.") or not file:
        return set()
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {
        (str(node.module), alias.name)
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }  # fmt: skip


def _exchange_code(names: Mapping[str, Any], mutant: Mapping[str, Any]) -> Iterator[Change]:
    """Give functions and methods their other code, and arguments their other defaults."""
    for name, value in list(names.items()):
        replacement = mutant.get(name)
        if isinstance(value, property):
            value, replacement = value.fget, getattr(replacement, "fget", None)
        if isinstance(value, type) and value.__module__ == getattr(replacement, "__module__", ""):
            yield from _exchange_code(vars(value), vars(replacement))
        elif isinstance(value, FunctionType) and isinstance(replacement, FunctionType):
            for part in ("__code__", "__defaults__", "__kwdefaults__"):
                if getattr(value, part) != getattr(replacement, part):
                    yield value, part, getattr(value, part)
                    setattr(value, part, getattr(replacement, part))


def rows(tool: str) -> list[Row]:
    """Return measurements on either side of the limits of a tool, or of all tools."""
    from tests.judgement import boundaries, effect_boundaries, inspect_boundaries

    if tool == ALL_TOOLS:
        return [row for name in ROOMS.values() if name != ALL_TOOLS for row in rows(name)]
    if tool == "report":
        from tests.judgement import (
            cone_boundaries,
            pairing_boundaries,
            purpose_boundaries,
            row_boundaries,
            run_boundaries,
            small_step_boundaries,
            step_boundaries,
            titled_runs,
        )

        modules = (
            run_boundaries,
            titled_runs,
            step_boundaries,
            effect_boundaries,
            pairing_boundaries,
            purpose_boundaries,
            row_boundaries,
            small_step_boundaries,
            cone_boundaries,
        )
        return [row for module in modules for row in module.rows()]
    if tool == "doctor":
        return [*boundaries.rows(), *effect_boundaries.doctor_rows()]
    return inspect_boundaries.rows()


def unnoticed(tool: str, root: Path) -> Iterator[tuple[Limit, str]]:
    """Yield the limits of a tool, with their other value, whose change no row notices."""
    return ((limit, text) for limit, text, witness in noticed(tool, root) if not witness)


def noticed(tool: str, root: Path) -> Iterator[tuple[Limit, str, str]]:
    """Yield the limits of a tool, with their other value and the row that notices it, or ''.

    The row that has noticed a change before is asked first, and those on its subject next.
    """
    of_tool, witnesses = rows(tool), json.loads(WITNESSES.read_text(encoding="utf-8"))
    for limit in limits(root, [tool]):
        source = limit.file.read_text(encoding="utf-8")
        of_tool.sort(key=lambda row, source=source: f'"{row.subject}"' not in source)
        for text in limit.mutants():
            title = witnesses.get(limit.key(text))
            first = [row for row in of_tool if row.title == title]
            checks = ((row.title, row.holds) for row in (*first, *of_tool))
            yield limit, text, _first(limit, text, checks)


def write_witnesses(root: Path) -> None:
    """Keep the rows that notice changes, so that the tests ask them first."""
    witnesses = {
        limit.key(text): witness
        for tool in ROOMS.values()
        for limit, text, witness in noticed(tool, root)
        if witness
    }
    content = json.dumps(witnesses, indent=0, sort_keys=True, ensure_ascii=False)
    WITNESSES.write_text(content + "\n", encoding="utf-8")


def mutate(root: Path, cases: Sequence[Case], only: str = "") -> Iterator[tuple[Limit, str, str]]:
    """Yield each mutant with a row or a case that notices it, or ''."""
    for tool in ROOMS.values():
        of_tool = [limit for limit in limits(root, [tool]) if only in limit.where]
        # Rows come first: they take least time, and most mutants are noticed by one.
        checks = [(row.title, row.holds) for row in rows(tool) if of_tool]
        checks += [(case.name, check) for case in cases
                   if of_tool and (check := _graded_as_before(case, tool))]  # fmt: skip
        for limit in of_tool:
            for text in limit.mutants():
                witness = _first(limit, text, checks)
                # What has noticed a change of a module most likely notices the next one.
                checks.sort(key=lambda check, witness=witness: check[0] != witness)
                yield limit, text, witness


def _graded_as_before(case: Case, tool: str) -> Callable[[], bool] | None:
    """Return whether a tool still says of a case what it says now; None if it is not asked."""
    from tests.judgement import scoring
    from tests.judgement.freeze import judged

    measured = scoring.frozen(case)

    def grades() -> list[tuple[str, str]]:
        return sorted((said.subject, said.grade) for said in judged({tool: measured[tool]}))

    if tool not in measured:
        return None
    before = grades()
    return lambda: grades() == before


def _first(limit: Limit, text: str, checks: Iterable[tuple[str, Callable[[], bool]]]) -> str:
    """Return the first check that fails if the limit has another value, or ''."""
    with changed(limit, text):
        try:
            return next((title for title, holds in checks if not holds()), "")
        except Exception as error:
            return f"error: {type(error).__name__}: {error}"

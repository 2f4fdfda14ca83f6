"""Names say what a value is: placeholders and generic nouns among the names of each room."""

from __future__ import annotations

import ast
import collections
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Pronouns and participles, which would fit any value.
PLACEHOLDERS = set(
    "found given one ones some other others known told mine theirs made wanted here there every "  # noqa: SIM905
    "each kept back again both seen shown rest done now part parts what how this that thing things "
    "stuff more usual which".split()
)
# Nouns that are as general, and letters.
GENERIC = set(
    "result results value values item items data obj object objects tmp temp res ret out output "  # noqa: SIM905
    "outputs element elements info entry entries x y z "
    "a b c d e f g h i j k l m n o p q r s t u v w".split()
)
# Rooms with many letters of mathematics, with the generic names of 1,000 that they may have.
GENERIC_LIMITS: dict[str, int] = {
    "gradlab/atlas": 81,
    "gradlab/explorer": 105,
    "gradlab/report": 100,
    "tests": 92,
}


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield variables, attributes, arguments, functions and classes that a module binds.

    The argument ``other`` of ``__eq__`` and its like is left out.
    """
    operators = {
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("__")
        and node.name != "__init__"
        for argument in ast.walk(node.args)
        if isinstance(argument, ast.arg) and argument.arg == "other"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg) and node not in operators:
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


@functools.cache
def names_in(file: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the names that a file binds, in lower case, and its classes with their lines."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = [name.strip("_").lower() for name in bound_names(tree)]
    classes = [(node.name, node.lineno) for node in ast.walk(tree)
               if isinstance(node, ast.ClassDef)]  # fmt: skip
    return names, classes


def names_of(folder: Path) -> list[str]:
    """Return the names that the files of a folder bind."""
    return [name for file in sorted(folder.rglob("*.py")) for name in names_in(file)[0]]


ROOMS = sorted(
    file.parent.relative_to(ROOT).as_posix() for file in ROOT.glob("gradlab/*/__init__.py")
)


@pytest.mark.parametrize("room", [*ROOMS, "gradlab", "studies", "tests"])
def test_names_are_nouns(room: str) -> None:
    names = names_of(ROOT / room)
    placeholders = sorted(name for name in names if name in PLACEHOLDERS)
    generic = sum(name in GENERIC for name in names)
    most = 1 if len(names) < 400 else 3 * len(names) / 1000
    assert len(placeholders) <= most, placeholders
    assert generic <= GENERIC_LIMITS.get(room, 80) * len(names) / 1000


def test_placeholders_are_counted_where_they_are_bound() -> None:
    tree = ast.parse(
        "def found(given, *, one=0):\n"
        "    for each in given: self.part = each.known\n"
        "class A:\n"
        "    def __eq__(self, other): return other\n"
        "    def plus(self, other): return other\n"
    )
    placeholders = [name for name in bound_names(tree) if name in PLACEHOLDERS]
    assert sorted(placeholders) == ["each", "found", "given", "one", "other", "part"]


def test_each_class_has_a_name_of_its_own() -> None:
    classes = collections.defaultdict(list)
    for file in sorted((ROOT / "gradlab").rglob("*.py")):
        for name, line in names_in(file)[1]:
            classes[name].append(f"{file.relative_to(ROOT)}:{line}")
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}

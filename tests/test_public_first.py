"""What is public stands before what is private."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "gradlab"


def early_helpers(tree: ast.Module) -> list[str]:
    """Return private functions before a public one that nothing needs while the module loads."""
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    needed = set(names(node for node in tree.body if node not in definitions))
    for node in definitions:
        needed |= set(names(node.decorator_list))
        if isinstance(node, ast.ClassDef):
            methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
            needed |= set(names(child for child in node.body if child not in methods))
            needed |= set(names(child for method in methods for child in method.decorator_list))
    public = [place for place, node in enumerate(definitions) if not node.name.startswith("_")]
    return [
        node.name
        for node in definitions[: max(public, default=0)]
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_")
        if not node.name.startswith("__") and node.name not in needed
    ]


def names(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names that expressions and statements use."""
    return [child.id for node in nodes for child in ast.walk(node) if isinstance(child, ast.Name)]


FILES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]


@pytest.mark.parametrize("file", FILES)
def test_what_is_public_stands_first(file: str) -> None:
    assert early_helpers(ast.parse((ROOT / file).read_text(encoding="utf-8"))) == []


def test_a_helper_that_the_module_needs_may_stand_first() -> None:
    lines = ["def _a(): pass", "def _b(): pass", "@_b", "def c(): pass", "def _d(): pass"]
    assert early_helpers(ast.parse("\n".join(lines))) == ["_a"]

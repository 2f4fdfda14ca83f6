"""Imports point one way.

No circle, no room above its own, nothing that computes from what draws; lazy ones and those
for types alone count.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import gradlab

_ROOT = Path(gradlab.__file__).parent
# Each room may use those before it; the modules beside the packages are the ground of all.
_GROUND = (
    *("_version", "errors", "arrays", "files", "drawable", "quantities", "seeds", "verdict"),
    *("progress_bars", "numbers", "templates", "settings"),
)
_ROOMS = (
    *("data", "batch", "losses", "gradient", "simulation", "decomposition", "scale", "encoder"),
    *(
        "evaluate",
        "monitor",
        "train",
        "sweep",
        "report",
        "plotting",
        "figures",
        "flow",
        "atlas",
        "explorer",
    ),
    *("inspection", "diagnosis", "integrations", "cli"),
)


def _modules(root):
    """Files of a package by the name they are imported by."""
    files = {}
    for path in root.rglob("*.py"):
        path_names = (root.name, *path.relative_to(root).with_suffix("").parts)
        files[".".join(path_names).removesuffix(".__init__")] = path
    return files


def _imports(root):
    """The modules of a package that each imports anywhere, in functions and for types too."""
    modules = _modules(root)
    imports = {}
    for name, path in modules.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {target if target in modules else node.module for target in whole}
        imports[name] = (named & modules.keys()) - {name}
    return imports


def _room(module):
    return module.split(".")[1] if "." in module else ""


def test_no_modules_import_each_other():
    imports = _imports(_ROOT)
    assert {*TopologicalSorter(imports).static_order()} == imports.keys()  # CycleError for a circle


def test_each_room_imports_only_those_before_it():
    order = {room: at for at, room in enumerate((*_GROUND, *_ROOMS))}
    ground = len(_GROUND)
    wrong = [
        f"{module} imports {used}"
        for module, uses in _imports(_ROOT).items()
        for used in uses
        if (module not in ("gradlab", "gradlab.__main__") and _room(module) != _room(used))
        if order[_room(used)] >= ground and order[_room(used)] > order[_room(module)]
    ]
    assert sorted(wrong) == []


def test_the_top_holds_few_modules_and_no_room_without_a_place():
    tops = {_room(module) for module in _modules(_ROOT)} - {"", "__main__"}
    assert tops == {*_GROUND, *_ROOMS}

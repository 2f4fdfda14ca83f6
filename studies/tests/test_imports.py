"""Studies use gradlab as anybody can: `gradlab` and its rooms, and their public names."""

import ast
import importlib
from pathlib import Path

import pytest

import studies

ROOT = Path(studies.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def hidden(source: str) -> list[str]:
    """Imports of gradlab that go below a room, or take a name that the room does not export."""
    imports = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names if alias.name.startswith("gradlab.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gradlab":
            room = importlib.import_module(".".join(node.module.split(".")[:2]))
            # The modules beside the rooms have no __all__: what has no underscore is public there.
            public = getattr(
                room, "__all__", [name for name in vars(room) if not name.startswith("_")]
            )
            imports += [
                f"{node.module}.{alias.name}"
                for alias in node.names
                if node.module.count(".") > 1 or alias.name not in public
            ]
    return imports


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_public_names_of_rooms(path: Path) -> None:
    assert hidden(path.read_text(encoding="utf-8")) == []


def test_finds_what_is_hidden() -> None:
    lines = [
        "import gradlab.train.loop",
        "from gradlab.train.run import train",
        "from gradlab.files import _lock",
        "def later():\n    from gradlab import arrays",
    ]
    assert [len(hidden(line)) for line in lines] == [1, 1, 1, 1]

"""Notebooks: each runs top to bottom, and what is committed of each is clean and complete."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks() -> None:
    assert [path.stem[0] for path in NOTEBOOKS[:5]] == ["1", "2", "3", "4", "5"]


@every_notebook
def test_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, offline, without a word on stderr."""
    for name, value in {
        "GRADLAB_QUICK": "1",
        "HF_HUB_OFFLINE": "1",
        "TQDM_DISABLE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output.text
    assert kinds(notebook) >= kinds(nbformat.read(path, as_version=4))


def kinds(notebook: nbformat.NotebookNode) -> set[tuple[int, str]]:
    """What kind of output each cell shows."""
    shown = set()
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            shown |= {(index, kind) for kind in output.get("data", {})}
            shown |= {(index, output.name)} if output.output_type == "stream" else set()
    return shown


@every_notebook
def test_committed_with_its_output(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), (
        "run notebooks/refresh.py"
    )
    pictures = [
        output.data["image/png"]
        for cell in code
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert pictures
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    for cell in code:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text


@every_notebook
def test_committed_clean_and_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 500_000
    notebook = nbformat.reads(text, as_version=4)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    words = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.search(r"(?<![\w.])/(?:home|root|tmp|opt|work|Users|usr)/", words)


@every_notebook
def test_links_lead_somewhere(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        for target in re.findall(r"\]\(([^)#]+)\)", cell.source if cell.cell_type == "markdown" else ""):
            assert target.startswith("https://") or (FOLDER / target).exists(), target

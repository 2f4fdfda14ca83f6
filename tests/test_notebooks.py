"""Notebooks: each runs top to bottom, and what is committed of each is clean and complete."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gradlab.losses.registry import loss_class, loss_names

if TYPE_CHECKING:
    import jupyter_client
    from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# What a mere check that all works has fewer of: steps, rows of a batch, sentences, pairs, draws.
SMALLER = {
    r'(max_steps(?:=|": ))\d+': r"\g<1>3",
    r"batch_size=48, dim=96": "batch_size=16, dim=24",
    r"batch_size=48": "batch_size=16",
    r"grid=12, batches=10, negatives=31": "grid=4, batches=4, negatives=7",
    r"make_sentences\([35]00,": "make_sentences(70,",
    r"make_pairs\(3000,": "make_pairs(400,",
    r"range\(20_000\)": "range(2_000)",
    r"\(8, 16, 32, 64\)": "(8, 16)",
    r'simulate\((name|loss|"arccon"|"met", "ratio")\)': r"simulate(\1, grid=6)",
    r"grid = 20": "grid = 8",
    r"batches=200 if": "batches=40 if",
    r"batches=1000, seed": "batches=100, seed",
}
# In an empty folder, without another's names; a loss of one's own is sampled in smaller batches,
# whose cost is not announced.
CLEAN = """%reset -f
%cd -q {folder}
import gradlab.atlas.entries
import gradlab.explorer.heatmap_data
import gradlab.simulation.sampled
gradlab.atlas.entries.SENTENCES = 16
gradlab.explorer.heatmap_data.ROWS = gradlab.explorer.heatmap_data.COLUMNS = 3
gradlab.simulation.sampled.MANY = 10**9"""
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def nbformat() -> Any:
    """The library, whose import takes seconds: only a process that reads a notebook needs it."""
    return pytest.importorskip("nbformat")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[jupyter_client.KernelManager]:
    """One process for all notebooks: starting it, with imports, takes longer than most of them."""
    own = {
        "GRADLAB_QUICK": "1",
        "HF_HUB_OFFLINE": "1",
        "TQDM_DISABLE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "GRADLAB_CACHE_DIR": str(tmp_path_factory.mktemp("cache")),
    }
    jupyter_client = pytest.importorskip("jupyter_client")
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.start_kernel(env=os.environ | own)
    yield manager
    manager.shutdown_kernel(now=True)


def execute(notebook: NotebookNode, kernel: jupyter_client.KernelManager) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbclient.NotebookClient(notebook, km=kernel, timeout=300).execute(cleanup_kc=False)


@every_notebook
def test_runs(
    path: Path, tmp_path: Path, kernel: jupyter_client.KernelManager, nbformat: Any
) -> None:
    """Offline, without a word on stderr; see `SMALLER`."""
    clean = nbformat.v4.new_code_cell(CLEAN.format(folder=tmp_path))
    execute(nbformat.v4.new_notebook(cells=[clean]), kernel)
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for written, smaller in SMALLER.items():
            cell.source = re.sub(written, smaller, cell.source)
    execute(notebook, kernel)
    assert not words_on_stderr(notebook)
    assert kinds(notebook) >= kinds(nbformat.read(path, as_version=4))


def kinds(notebook: NotebookNode) -> set[tuple[int, str]]:
    """What kind of output each cell shows."""
    outputs_shown = set()
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            outputs_shown |= {(index, kind) for kind in output.get("data", {})}
            outputs_shown |= {(index, output.name)} if output.output_type == "stream" else set()
    return outputs_shown


def words_on_stderr(notebook: NotebookNode) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.text for output in outputs if output.get("name") == "stderr"]


@every_notebook
def test_committed_complete_clean_and_small(path: Path, nbformat: Any) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 500_000
    words = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.search(r"(?<![\w.])/(?:home|root|tmp|opt|work|Users|usr)/", words)
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(code) + 1)), "run notebooks/refresh.py"
    outputs = [output for cell in code for output in cell.outputs]
    pictures = [
        output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})
    ]
    assert pictures
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    assert not any(output.output_type == "error" for output in outputs)
    assert not words_on_stderr(notebook)
    words = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(([^)#]+)\)", words)
    assert not [
        target for target in targets if "https://" not in target and not (FOLDER / target).exists()
    ]


def test_the_loop_over_all_losses_shows_all_of_them(nbformat: Any) -> None:
    notebook = nbformat.read(FOLDER / "1-components.ipynb", as_version=4)
    (cell,) = (cell for cell in notebook.cells if "gradlab.loss_names()" in cell.source)
    printed_names = {line.split()[0] for line in cell.outputs[0].text.splitlines()}
    gradlabs = {name for name in loss_names() if loss_class(name).__module__.startswith("gradlab.")}
    assert printed_names == gradlabs, "run notebooks/refresh.py"

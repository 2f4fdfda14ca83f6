"""Run the notebooks top to bottom and keep their output: ``python notebooks/refresh.py
[NOTEBOOK]...``.

Needs nbclient and ``gradlab[notebooks]``. What depends on the machine or the moment is taken out:
progress bars, times, versions, widgets.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent


def is_widget(output: nbformat.NotebookNode) -> bool:
    """Whether an output lives only as long as its kernel does."""
    return any("jupyter.widget" in kind for kind in output.get("data", {}))


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook after execution, with cleaned metadata."""
    notebook = nbformat.read(path, as_version=4)
    os.environ["TQDM_DISABLE"] = "1"
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": FOLDER}},
    ).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if not is_widget(output)]
    return notebook


if __name__ == "__main__":
    for name in [Path(argument) for argument in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(run(name), name)
        print(name.name)

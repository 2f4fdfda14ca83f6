"""Which files of gradlab have a function called on the way of three things.

    python tests/manual/files_on_the_way.py
    PYTHONPATH=OTHER_CHECKOUT python tests/manual/files_on_the_way.py   # the same of another state

- temperature: of ``gradlab simulate --loss arccon --set temperature=0.1``, from the command line to the loss
- components: ``gradlab.components("infonce", anchors, positives)``
- step: one training step of InfoNCE, without what is measured and written beside it

Each is done twice and counted the second time, so that what is imported or built once does not count.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np

CHECKOUT = Path(__file__).resolve().parents[2]


@contextmanager
def counted(files: dict[str, list[str]], end: str = "") -> Iterator[None]:
    """Within the block, until a function ``end`` is called, the calls of functions of gradlab are noted by file."""
    root = str(Path(str(importlib.import_module("gradlab").__file__)).parent) + "/"

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and end and code.co_name == end and code.co_filename.startswith(root):
            sys.setprofile(None)
        # A class's body and a module are called once, when they are imported.
        elif event == "call" and code.co_filename.startswith(root) and code.co_flags & inspect.CO_OPTIMIZED:
            files.setdefault(code.co_filename.removeprefix(root), []).append(code.co_name)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def temperature(folder: Path) -> dict[str, list[str]]:
    """From the command line to the loss; what is computed with it then does not count."""
    from gradlab.cli import main

    files: dict[str, list[str]] = {}
    sys.argv = ["gradlab", "simulate", "--loss", "arccon", "--set", "temperature=0.1", "--grid", "8"]
    sys.argv += ["--output", str(folder / "out")]
    for _ in range(2):
        files.clear()
        with counted(files), redirect_stdout(None), suppress(SystemExit):
            main()
    return files


def components(folder: Path) -> dict[str, list[str]]:
    """Components of a loss on a batch of unit vectors."""
    import gradlab

    rng = np.random.default_rng(0)
    batch = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in rng.standard_normal((2, 4, 8))]
    files: dict[str, list[str]] = {}
    for _ in range(2):
        files.clear()
        with counted(files):
            gradlab.components("infonce", *batch)
    return files


def step(folder: Path) -> dict[str, list[str]]:
    """One training step."""
    sys.path.insert(0, str(CHECKOUT))
    from gradlab.train.config import TrainConfig
    from gradlab.train.loop import Trainer
    from gradlab.train.progress import Progress
    from tests.tiny_models import make_bert
    from tests.train_helpers import write_sentences

    given = {"max_steps": 4, "batch_size": 8, "diagnostics_every": 0, "log_every": 1000, "device": "cpu"}
    model, sentences = str(make_bert(folder / "bert")), str(write_sentences(folder))
    config = TrainConfig.from_dict(
        {
            "model": model,
            "train_file": sentences,
            "output": str(folder / "run"),
            "precision": "float32",
            **given,
        }
    )
    trainer = Trainer(config)
    files: dict[str, list[str]] = {}
    with Progress(0, 4, 8, visible=False) as progress:
        trainer._step(progress)
        with counted(files):
            trainer._step(progress)
    return files


def main() -> None:
    """Count, and print the files with their functions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", nargs="*", default=["temperature", "components", "step"])
    ways: dict[str, Callable[[Path], dict[str, list[str]]]] = {
        "temperature": temperature, "components": components, "step": step,
    }  # fmt: skip
    for what in parser.parse_args().what:
        with tempfile.TemporaryDirectory() as folder:
            files = ways[what](Path(folder))
        print(f"{what}: {len(files)} files, {sum(map(len, files.values()))} calls")
        for file, names in files.items():
            print(f"    {file}: {', '.join(dict.fromkeys(names))}")


if __name__ == "__main__":
    main()

"""Install the built wheel, then each extra alone, in clean environments; run what pages promise.

    python tests/manual/extras.py [EXTRA ...]  # all, "core" (no extra) first; a table at the end

Packages come from the index that pip is set up with, at the versions of constraints.txt. Each
environment is one with the wheel alone, to which the extra is added; it is away from the checkout
and deleted afterwards. What is run there is offline and on made data. Not a part of the default
tests: it installs packages, a gigabyte an environment. The exit code is 1 if anything fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

import numpy as np

from tests.senteval_folder import make_retrieval, make_senteval
from tests.tiny_models import make_bert, make_sentences

ROOT = Path(__file__).resolve().parents[2]
TRAIN = (
    "gradlab train --model model --train-file sentences.txt --eval-data senteval --max-steps 2 "
    "--batch-size 8 --output"
)
# What each extra promises, run in a folder with `model`, `sentences.txt`, `senteval`, `scifact`,
# `views.npz`, `sweep.toml`, `watch.py`, and with the folders of the checkout that a line names.
PROMISES = {
    "core": [
        "gradlab simulate --loss arccon --output figures",
        "gradlab verify --loss met",
        "gradlab decompose infonce",
        "gradlab explore mpt --output explore.html",
        "gradlab figures 2 --output figures",
        "python -c \"import gradlab, sys; "
        "assert not {'transformers', 'matplotlib'} & set(sys.modules)\"",
    ],
    "train": [
        f"{TRAIN} run", "gradlab report run",
        "gradlab evaluate --model run/best --eval-data senteval --tasks STS-B",
    ],
    "watch": ["python watch.py", "gradlab report out"],
    "sweep": ["gradlab sweep sweep.toml --output swept"],
    "inspect": [
        "gradlab inspect --embeddings views.npz",
        "gradlab inspect --model model --train-file sentences.txt --output texts",
    ],
    "mteb": [
        "gradlab evaluate --model model --eval-data scifact",
        f"{TRAIN} run --eval-data scifact",
    ],
    "evidence": [
        "PYTHONPATH={studies}/.. python -m studies report first-round --folder {figures/study}"
    ],
    "notebooks": [
        "jupyter nbconvert --log-level ERROR --to notebook --execute --output-dir out "
        "{notebooks/1-components.ipynb}"
    ],
    "docs": ["sphinx-build -W --keep-going -q -c {.}/docs {.} site"],
    "test": [
        "python -m pytest -q -p no:cacheprovider {.}/tests/test_settings.py "
        "{.}/tests/test_components.py"
    ],
}  # fmt: skip


def main() -> int:
    """Try the extras asked for; 1 if one failed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ["core", *project["optional-dependencies"]]
    assert set(extras) == set(PROMISES), f"extras without a promise: {set(extras) ^ set(PROMISES)}"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=", ".join(extras))
    chosen = parser.parse_args()
    table, failed = [], False
    with tempfile.TemporaryDirectory(prefix="gradlab-extras-") as scratch:
        wheel = build(Path(scratch))
        base = Path(scratch) / "base"
        venv.create(base, with_pip=True)
        if problem := install(base, wheel):
            sys.exit(problem)
        for extra in chosen.extras or extras:
            began = time.perf_counter()
            problem = attempt(extra, wheel, Path(scratch), base)
            failed |= bool(problem)
            table.append(
                f"{extra:<10} {time.perf_counter() - began:6.0f} s  {problem or 'as promised'}"
            )
            print(table[-1], flush=True)
    print("", *table, sep="\n")
    return int(failed)


def build(folder: Path) -> Path:
    """The wheel, from the source distribution."""
    subprocess.run(
        [sys.executable, "-m", "build", "-q", "--outdir", folder / "dist", ROOT], check=True
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    return Path(wheel)


def binaries(environment: Path) -> Path:
    """Where an environment has its commands."""
    return environment / ("Scripts" if sys.platform == "win32" else "bin")


def install(environment: Path, *packages: str | Path) -> str:
    """Install; pip's complaint, or nothing."""
    pip = [binaries(environment) / "python", "-m", "pip", "install", "-q", "--no-compile"]
    process = subprocess.run(
        [*pip, "-c", ROOT / "constraints.txt", *packages], capture_output=True, text=True
    )
    return f"pip: {process.stderr.strip().splitlines()[-1]}" if process.returncode else ""


def attempt(extra: str, wheel: Path, scratch: Path, base: Path) -> str:
    """Install and run; what went wrong, or nothing."""
    place = scratch / extra
    environment, working_folder = place / "environment", place / "here"
    try:
        shutil.copytree(base, environment, symlinks=True, copy_function=os.link)
        # Commands name the environment that they were installed in.
        problem = install(environment, "--force-reinstall", "--no-deps", wheel)
        if problem or (extra != "core" and (problem := install(environment, f"{wheel}[{extra}]"))):
            return problem
        make_world(working_folder)
        variables = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PATH": f"{binaries(environment)}{os.pathsep}{os.environ['PATH']}",
            "HF_HUB_OFFLINE": "1",
            "GRADLAB_CACHE_DIR": str(place / "cache"),
        }
        for line in PROMISES[extra]:
            process = subprocess.run(
                expand(line, place),
                shell=True,
                cwd=working_folder,
                env=variables,
                capture_output=True,
                text=True,
            )
            if process.returncode:
                words = (process.stderr or process.stdout).strip().splitlines() or ["no word"]
                return f"{line}: {words[-1][:200]}"
        return ""
    finally:
        shutil.rmtree(place, ignore_errors=True)


def expand(line: str, place: Path) -> str:
    """The line with copies of what it names of the checkout in braces."""
    for name in re.findall(r"\{([\w./-]+)\}", line):
        copy = place / "copies" / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                leave = shutil.ignore_patterns(
                    "build", ".git", ".venv", "runs", "*_cache", "generated"
                )
                shutil.copytree(ROOT / name, copy, ignore=leave)
            else:
                shutil.copy(ROOT / name, copy)
        line = line.replace(f"{{{name}}}", str(copy))
    return line


def make_world(folder: Path) -> None:
    """A small encoder, sentences, evaluation data, embeddings and a sweep."""
    sentences = make_sentences(100)
    make_bert(folder / "model")
    make_senteval(folder / "senteval")
    (folder / "sentences.txt").write_text("\n".join(sentences), encoding="utf-8")
    rows = np.random.default_rng(0).normal(size=(2, 200, 16))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    np.savez(folder / "views.npz", anchors=rows[0], positives=rows[1])
    make_retrieval(folder / "scifact", sentences)
    # The script of docs/watch.md.
    script = re.search(
        r"```python\n(from datasets.*?)```", (ROOT / "docs/watch.md").read_text(), re.DOTALL
    )[1]
    (folder / "watch.py").write_text(script.replace("bert-base-uncased", "model"))
    (folder / "sweep.toml").write_text(
        'seeds = [1]\nname = "sweep"\n[base]\nmodel = "model"\n'
        'train_file = "sentences.txt"\nsts = "senteval"\n'
        "max_steps = 2\nbatch_size = 8\n[grid]\nloss = ['mpt']\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())

"""Try the wheel on the oldest or newest versions of its dependencies, and on several Pythons.

    python tests/manual/versions.py [--python PATH ...] [--versions oldest newest]

For each Python and end of the range, a new environment away from the checkout gets the wheel with
the extras `watch`, `inspect` and `sweep`. Oldest are the lower bounds of pyproject.toml (uv's
``lowest-direct``), newest whatever the index has. There, README's first commands run, and the tests
that need nothing else. A row of a table for each; the exit code is 1 if anything fails.

uv looks where UV_DEFAULT_INDEX, UV_FIND_LINKS and its other variables say. An environment with the
CUDA build of torch takes some gigabytes; it is deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("watch", "inspect", "sweep")
TOOLS = ("beartype", "hypothesis", "jaxtyping", "mpmath", "peft", "pytest", "tensorboard")
COMMANDS = (
    "gradlab --version",
    "gradlab simulate --loss arccon --output simulated",
    "gradlab verify --loss met",
    "gradlab decompose infonce",
    "gradlab explore mpt --output explore.html",
    'python -c "import gradlab, numpy as np; a = np.eye(8) + 0.1; '
    "print(gradlab.components('infonce', a, a + 0.1, normalize=True))\"",
)
# Tests of the core, and of what the three extras bring.
TESTS = (
    *("batch", "losses", "components", "simulation", "lemma", "settings", "blockwise", "decompose"),
    *("diagnostics", "encoder", "watch", "watch_callback", "lora", "inspect", "train_run"),
    *("integrations_sentence_transformers", "sweep_trials", "evaluate_sts", "readers"),
)
# Tests that do not hold with the oldest versions, by the beginnings of their names, and why.
SINCE = {
    "decompose.py::test_sentence_transformers": "sentence-transformers 5.0: losses of embeddings",
    "integrations_sentence_transformers.py::test_labels_are": "the same",
    "integrations_sentence_transformers.py::test_the_library_shortens": "Matryoshka with a cache",
    "watch_callback.py::test_the_model_card": "sentence-transformers 4.0: a template of the card",
    "watch_callback.py::test_a_card_that": "the same",
    "encoder.py::test_a_model_that_truncates": "sentence-transformers 3.3 does not save it",
    "encoder.py::test_folders_that_are_no_models": "transformers 4.46 refuses in other words",
    "train_run.py::test_weights_equal": "the test's own loop keeps attention dropout before 4.48",
    "train_run.py::test_other_architectures_train_and_are_saved[modernbert": "transformers 4.48",
}
PACKAGES = ("numpy", "torch", "scipy", "pandas", "transformers", "sentence-transformers")


def main() -> int:
    """Try each Python with each end of the range; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters")
    parser.add_argument("--versions", nargs="+", default=["oldest", "newest"])
    parser.add_argument("--tests", nargs="*", default=TESTS, help="names of test files")
    chosen = parser.parse_args()
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="gradlab-versions-") as scratch:
        place = Path(scratch)
        subprocess.run([uv(), "build", "-q", "--wheel", "--out-dir", place, ROOT], check=True)
        for python in chosen.python:
            for versions in chosen.versions:
                row, problem = attempt(python, versions, place, chosen.tests)
                failed |= problem
                rows.append(row)
                print(row, flush=True)
    header = ["Python", *PACKAGES, "commands", "tests"]
    print("", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *rows, sep="\n")
    return int(failed)


def uv() -> str:
    """The program uv, of this environment or of the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return shutil.which("uv", path=path) or sys.exit("this needs uv; pip install uv")


def requirements() -> list[str]:
    """The dependencies of gradlab and of the extras, as direct requirements, and pytest's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    own = {entry for name in (*EXTRAS, "train") for entry in extras[name]} | set(
        project["dependencies"]
    )
    tools = [
        re.sub(r"\[.*?\]", "", entry)
        for entry in extras["test"]
        if re.match(r"[\w-]+", entry)[0] in TOOLS
    ]
    return sorted(entry for entry in own if not entry.startswith("gradlab[")) + tools


def attempt(python: str, versions: str, scratch: Path, tests: list[str]) -> tuple[str, bool]:
    """A row of the table, and whether something failed."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    environment = place / "environment"
    binary = environment / "bin/python"
    resolution = "lowest-direct" if versions == "oldest" else "highest"
    (wheel,) = scratch.glob("*.whl")
    began = time.perf_counter()
    try:
        subprocess.run([uv(), "venv", "-q", "-p", python, environment], check=True)
        install = [uv(), "pip", "install", "-q", "--python", binary]
        process = subprocess.run(
            [*install, "--resolution", resolution, *requirements()],
            capture_output=True,
            text=True,
        )
        if process.returncode:
            print(process.stderr[-3000:], file=sys.stderr)
            return f"| {python} {versions} | not installed |", True
        subprocess.run([*install, "--no-deps", wheel], check=True)
        listed = subprocess.run(
            [uv(), "pip", "list", "-q", "--format", "json", "--python", binary],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        installed = {row["name"]: row["version"] for row in json.loads(listed.stdout)}
        print(f"installed in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        variables = {
            **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            "PATH": f"{binary.parent}{os.pathsep}{os.environ['PATH']}",
            "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
            "GRADLAB_CACHE_DIR": str(place / "cache"),
        }  # fmt: skip
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        complaints = [
            f"{line}: {(process.stderr or process.stdout).strip()[-300:]}"
            for line in COMMANDS
            for process in [
                subprocess.run(
                    line, shell=True, cwd=place, env=variables, capture_output=True, text=True
                )
            ]
            if process.returncode
        ]
        # The tests are copied, so that they import the wheel.
        shutil.copytree(ROOT / "tests", place / "tests", ignore=shutil.ignore_patterns("*_cache"))
        shutil.copy(ROOT / "conftest.py", place)
        shutil.copy(ROOT / "pyproject.toml", place)
        files = [f"tests/test_{name}.py" for name in tests]
        if versions == "oldest":
            files += [f"--deselect=tests/test_{name}" for name in SINCE]
        process = subprocess.run(
            ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
            cwd=place, env=variables, capture_output=True, text=True,
        )  # fmt: skip
        lines = process.stdout.strip().splitlines()
        if process.returncode or complaints:
            print(*complaints, process.stdout[-6000:], process.stderr[-2000:], sep="\n")
        version = subprocess.run(
            [binary, "-c", "import platform; print(platform.python_version())"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        cells = [
            f"{version}, {versions}",
            *(installed.get(name, "") for name in PACKAGES),
            f"{len(COMMANDS) - len(complaints)} of {len(COMMANDS)}",
            re.sub(r" in [\d.]+s.*", "", lines[-1]) if lines else process.stderr[-200:],
        ]
        return f"| {' | '.join(cells)} |", bool(process.returncode or complaints)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())

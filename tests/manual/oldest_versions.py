"""Run the tests of the integrations with the oldest versions that they support, in an environment of its own.

    python tests/manual/oldest_versions.py              # installs the oldest versions of all, torch included
    python tests/manual/oldest_versions.py --torch 2.13.0

The oldest torch comes from the package index with CUDA, some gigabytes; ``--torch`` takes another version.
Not a part of the default tests: it installs packages. The exit code is that of pytest.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from gradlab.monitor.requirements import OLDEST

ROOT = Path(__file__).resolve().parents[2]
TESTS = [f"tests/test_{name}.py" for name in ("integrations_sentence_transformers", "watch")]
# What the tests need beside gradlab itself; `datasets` with an upper bound, as newer ones want newer hub clients.
TOOLS = [
    "beartype",
    "datasets<4",
    "jaxtyping",
    "platformdirs",
    "pyarrow",
    "pytest",
    "safetensors",
    "scikit-learn",
    "tensorboard",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", default=OLDEST["torch"], help="version of torch to install instead")
    chosen = parser.parse_args()
    pins = [f"{package}=={version}" for package, version in {**OLDEST, "torch": chosen.torch}.items()]
    print("With", ", ".join(pins), flush=True)
    with tempfile.TemporaryDirectory(prefix="gradlab-oldest-") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", *pins, *TOOLS, str(ROOT)], check=True)
        return subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], cwd=ROOT
        ).returncode


if __name__ == "__main__":
    raise SystemExit(main())

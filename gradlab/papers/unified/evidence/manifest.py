"""What results say of how they came about: commit, processor, threads, versions; no path of a machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from gradlab.files import versions, write_json

_PACKAGES = ("torch", "transformers", "numpy", "scipy", "statsmodels", "pandas", "optuna")


def write_manifest(
    path: Path, model: str, train_file: str | os.PathLike[str], settings: dict[str, Any]
) -> Path:
    """Write the manifest of a part."""
    import torch

    from gradlab.papers.unified.study.manifest import _hash, device_name, name_of

    content = {
        "commit": commit(),
        "model": name_of(model),
        "data": {"file": Path(train_file).name, "sha256": _hash(Path(train_file))},
        "device": device_name(torch.device("cpu")),
        "threads": torch.get_num_threads(),
        "precision": "float32",
        "settings": settings,
        "versions": versions(*_PACKAGES),
    }
    return write_json(path, content)


def commit() -> str:
    """The commit of the checkout that this runs from, "with changes" if there are any; empty outside of one."""
    folder = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty= with changes", "--abbrev=40", "--exclude=*"],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()

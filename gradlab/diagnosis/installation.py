"""Checks of the machine (versions, extras, GPU, threads, half precision) and of model loading."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradlab._version import __version__
from gradlab.diagnosis.result import Verdict, fault, judged
from gradlab.errors import EXTRAS, GradlabError, first_line
from gradlab.monitor.library_versions import OLDEST, UnsupportedVersionError, require
from gradlab.train.machine import bfloat16_instructions, device_name

SENTENCES = (
    "A heron stands in the shallow water.",
    "The committee will meet again on Tuesday.",
    "Please restart the server after the update.",
)


def checks(args: Any = None) -> Iterator[Verdict]:
    """Yield verdicts on the machine; with a trainer's arguments also whether it supports them."""
    packages = [name for name in OLDEST if _installed(name.replace("-", "_"))]
    shown = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    seen = f"gradlab {__version__}, Python {platform.python_version()}, {shown}."
    try:
        require(*packages)
        yield judged("versions", seen)
    except UnsupportedVersionError as error:
        why, _, command = str(error).partition("; ")
        yield fault("versions", seen=seen, why=why.capitalize(), command=command)
    lack = [extra for extra, packages in EXTRAS.items() if not all(map(_installed, packages))]
    have = [extra for extra in EXTRAS if extra not in lack]
    advice = (
        f" Not installed: {', '.join(lack)}. "
        f"To add one: pip install '.[{''.join(lack[:1])}]' in the folder of gradlab."
    )
    yield judged("extras", f"Installed: {', '.join(have) or 'none'}.{advice if lack else ''}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        yield judged("GPU", f"{device_name(device)}.")
    elif Path("/proc/driver/nvidia/version").exists():
        yield fault("gpu-not-seen", version=torch.__version__)
    else:
        yield judged("GPU", f"No GPU: PyTorch computes on {device_name(device)}.")
    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    seen = f"PyTorch computes on {threads} of {cores} cores."
    few = device.type == "cpu" and "OMP_NUM_THREADS" in os.environ and threads * 4 <= cores
    wrong = "too-many-threads" if threads > cores else "few-threads" if few else ""
    yield judged("threads", seen, wrong)
    instructions = bfloat16_instructions(device)
    seen = f"bfloat16 in hardware: {instructions or 'no'}."
    emulated = getattr(args, "bf16", False) and not instructions
    yield judged("half precision", seen, "bfloat16-emulated" if emulated else "")


def model(name: Any) -> Verdict:
    """Check that a model loads and gives three sentences different embeddings."""
    from gradlab.encoder.model import Encoder

    try:
        encoder = Encoder.load(name)
        rows = encoder.encode(SENTENCES, normalize=True).astype(np.float64)
    except (GradlabError, OSError, RuntimeError, ValueError) as error:
        return fault("model-does-not-load", name=name, why=first_line(error))
    if not np.isfinite(rows).all():
        return fault("model-not-finite")
    cosines = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    told = ", ".join(f"{one:.2f}" for one in cosines)
    seen = (
        f"It loads and embeds in {encoder.dimension} dimensions, pooler {encoder.pooler}; "
        f"the cosines of three unrelated sentences are {told}."
    )
    alike = "model-collapsed" if cosines.min() > 1 - 1e-6 else "model-untuned"
    return judged("model", seen, alike if cosines.min() > 0.9 else "")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None

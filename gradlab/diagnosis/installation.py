"""Checks of the machine (versions, extras, GPU, threads, half precision) and of model loading."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradlab._version import __version__
from gradlab.errors import EXTRAS, GradlabError, first_line
from gradlab.monitor.library_versions import OLDEST, UnsupportedVersionError, require
from gradlab.train.hardware import bfloat16_instructions, device_name
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

SENTENCES = (
    "A heron stands in the shallow water.",
    "The committee will meet again on Tuesday.",
    "Please restart the server after the update.",
)


def checks(args: Any = None) -> Iterator[Verdict]:
    """Yield verdicts on the machine; with a trainer's arguments also whether it supports them."""
    yield _versions()
    yield _extras()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    yield _gpu(device, bool(getattr(args, "use_cpu", False)))
    yield _threads(device)
    instructions = bfloat16_instructions(device)
    finding = f"bfloat16 in hardware: {instructions or 'no'}."
    subject = "half precision"
    if getattr(args, "bf16", False) and not instructions:
        finding += " bf16=True is emulated here, and slower than float32."
        yield Verdict(
            subject, WATCH, finding, "Leave bf16 out.", "bfloat16 emulated", "training-slow"
        )
    else:
        yield Verdict(subject, GOOD, finding, name="half precision")


# Without a GPU, threads are few if they are this part of the cores or less.
FEW_THREADS = 4


# Modules of sentence-transformers that an encoder of gradlab has; different tokens of the sentences
# where all words are unknown: special ones, that of unknown words and a sign.
OF_ENCODERS, FEW_TOKENS = {"Transformer", "Pooling", "Normalize"}, 4
# Cosines of unrelated sentences above which an encoder is untuned, and has collapsed.
UNTUNED, ONE_POINT = 0.9, 1 - 1e-6


def model(name: Any) -> Verdict:
    """Judge whether a model loads and gives three sentences different embeddings."""
    try:
        encoder, pooler = _loaded(name)
        rows = _embedded(encoder)
    except (GradlabError, OSError, RuntimeError, ValueError) as error:
        finding = f"{name} does not load: {first_line(error)}."
        change = (
            "Give the folder that save_pretrained wrote (config.json, weights, tokenizer), or a "
            "name on the hub."
        )
        return Verdict("model", BAD, finding, change, "model does not load")
    if not np.isfinite(rows).all():
        finding = "It loads, but its embeddings are not finite."
        change = (
            "Its weights are damaged, as after a run that diverged: take an earlier checkpoint."
        )
        return Verdict("model", BAD, finding, change, "model not finite", "loss-nan")
    dimension = rows.shape[1]
    if not _has_words(encoder, rows):
        finding = (
            f"It loads and embeds in {dimension} dimensions; its vocabulary has few words of three "
            "English sentences, so that their cosines say nothing."
        )
        change = "Look at the cosines of texts of its own language and field."
        return Verdict("model", WATCH, finding, change, "tokens unknown", "score-does-not-rise")
    cosines = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    listed = ", ".join(f"{cosine:.2f}" for cosine in cosines)
    finding = (
        f"It loads and embeds in {dimension} dimensions{pooler}; the "
        f"cosines of three unrelated sentences are {listed}."
    )
    lowest = float(cosines.min())
    evidence = {"lowest cosine": lowest}
    if lowest > ONE_POINT:
        finding += " It gives every sentence the same embedding."
        change = (
            "The encoder has collapsed, or its weights were not loaded: take an earlier checkpoint,"
            " and read what transformers says about missing weights."
        )
        symptom = "cosines-above-0-9"
        return Verdict("model", BAD, finding, change, "model collapsed", symptom, evidence)
    if lowest > UNTUNED:
        finding += " That is usual for an encoder that was never tuned contrastively."
        change = "Before you use its cosines, train it on pairs."
        symptom = "cosines-above-0-9"
        return Verdict("model", WATCH, finding, change, "model untuned", symptom, evidence)
    return Verdict("model", GOOD, finding, name="model embeds", evidence=evidence)


def _loaded(name: Any) -> tuple[Any, str]:
    """Return an encoder and its pooler as text.

    A model of sentence-transformers that has modules of other kinds is loaded by that library, if
    all are of its own: a class that a file names elsewhere is not imported.
    """
    from gradlab.encoder.model import Encoder

    listed = Path(os.fsdecode(name)) / "modules.json"
    if listed.exists():
        modules = json.loads(listed.read_text(encoding="utf-8"))
        entries = modules if isinstance(modules, list) else []
        kinds = [str(entry.get("type")) for entry in entries if isinstance(entry, dict)]
        is_known = all(kind.startswith("sentence_transformers.") for kind in kinds)
        further = {kind.rpartition(".")[2] for kind in kinds} - OF_ENCODERS
        if is_known and further and _installed("sentence_transformers"):
            from sentence_transformers import SentenceTransformer

            model = SentenceTransformer(os.fsdecode(name), device="cpu", local_files_only=True)
            return model, f", modules {', '.join(type(module).__name__ for module in model)}"
    encoder = Encoder.load(name)
    return encoder, f", pooler {encoder.pooler}"


def _embedded(encoder: Any) -> np.ndarray:
    """Return the embeddings of the sentences, (3, D), of length 1 if they are not 0."""
    options: dict[str, Any] = {"normalize": True}
    if not hasattr(encoder, "pooler"):
        options = {"normalize_embeddings": True, "show_progress_bar": False}
    return np.asarray(encoder.encode(list(SENTENCES), **options), dtype=np.float64)


def _has_words(encoder: Any, rows: np.ndarray) -> bool:
    """Return whether a vocabulary has some words of the sentences."""
    if not rows.any(1).all():
        return False
    tokenizer: Any = getattr(encoder, "tokenizer", None)
    with contextlib.suppress(Exception):  # a tokenizer of one's own
        encoded = [tokenizer.encode(text) for text in SENTENCES]
        return len({token for ids in encoded for token in getattr(ids, "ids", ids)}) > FEW_TOKENS
    return True


def _versions() -> Verdict:
    packages = [name for name in OLDEST if _installed(name.replace("-", "_"))]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    finding = f"gradlab {__version__}, Python {platform.python_version()}, {versions}."
    try:
        require(*packages)
    except UnsupportedVersionError as error:
        why, _, command = str(error).partition("; ")
        finding += f" {why.capitalize()}."
        return Verdict("versions", BAD, finding, f"{command}.", "version too old")
    return Verdict("versions", GOOD, finding, name="versions supported")


def _extras() -> Verdict:
    lacking = [name for name, packages in EXTRAS.items() if not all(map(_installed, packages))]
    installed = [name for name in EXTRAS if name not in lacking]
    finding = f"Installed: {', '.join(installed) or 'none'}."
    if lacking:
        finding += (
            f" Not installed: {', '.join(lacking)}. To add one: pip install '.[{lacking[0]}]' in "
            "the folder of gradlab."
        )
    return Verdict("extras", GOOD, finding, name="extras")


def _gpu(device: torch.device, use_cpu: bool) -> Verdict:
    if device.type == "cuda":
        return Verdict("GPU", GOOD, f"{device_name(device)}.", name="GPU")
    is_meant = use_cpu or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if not is_meant and Path("/proc/driver/nvidia/version").exists():
        finding = f"There is an NVIDIA driver, but PyTorch {torch.__version__} sees no GPU."
        change = (
            "Install a PyTorch with CUDA that your driver supports, and look at "
            "CUDA_VISIBLE_DEVICES."
        )
        return Verdict("GPU", BAD, finding, change, "GPU not seen")
    return Verdict("GPU", GOOD, f"No GPU: PyTorch computes on {device_name(device)}.", name="CPU")


def _threads(device: torch.device) -> Verdict:
    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    finding, symptom = f"PyTorch computes on {threads} of {cores} cores.", "training-slow"
    chosen = device.type == "cpu" and "OMP_NUM_THREADS" in os.environ
    if threads > cores:
        finding += " Threads that share a core wait for each other."
        change = "Set OMP_NUM_THREADS to the number of cores."
        return Verdict("threads", WATCH, finding, change, "too many threads", symptom)
    if chosen and threads * FEW_THREADS <= cores:
        finding += " OMP_NUM_THREADS sets that."
        change = (
            "Without a GPU more threads are faster, unless several processes share the machine."
        )
        return Verdict("threads", WATCH, finding, change, "few threads", symptom)
    return Verdict("threads", GOOD, finding, name="threads")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None

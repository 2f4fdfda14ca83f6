"""The precision and the number of threads that suit this machine, and the name of its device."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gradlab.encoder.model import Encoder

# Compute capability from which NVIDIA GPUs multiply matrices of bfloat16.
_CUDA_BFLOAT16 = (8, 0)
# Processor instructions for bfloat16, by their names in torch and in /proc/cpuinfo (x86 and ARM).
_CPU_BFLOAT16 = {"avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX", "bf16": "BF16 instructions"}


class Precision(NamedTuple):
    """The precision of a run, ``float32`` or ``bfloat16``, and the reason for it as text."""

    name: str
    why: str


def choose_precision(precision: str, device: torch.device) -> Precision:
    """Return the precision that ``auto``, ``float32`` or ``bfloat16`` means on this device.

    ``auto`` is bfloat16 if the device multiplies matrices of it in hardware (NVIDIA GPUs from
    compute capability 8.0; processors with AVX-512 BF16, AMX or ARM's BF16), else float32.
    """
    instructions = bfloat16_instructions(device)
    kind = "GPU" if device.type == "cuda" else "processor"
    have = f"this {kind} has {instructions or 'no bfloat16 arithmetic'}"
    if precision == "auto":
        return Precision("float32" if instructions is None else "bfloat16", have)
    if precision == "bfloat16" and instructions is None:
        have += ", and its emulation is slow: --precision auto chooses float32"
    return Precision(precision, f"asked for; {have}")


def encode_in(
    encoder: Encoder, precision: str, *, progress: bool = True
) -> Callable[[list[str]], NDArray[Any]]:
    """Return the encoder's ``encode`` under autocast of a precision.

    Weights and embeddings are float32.
    """
    half = choose_precision(precision, encoder.device).name == "bfloat16"

    def encode(sentences: list[str]) -> NDArray[Any]:
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=half):
            return encoder.encode(sentences, progress=progress)

    return encode


def bfloat16_instructions(device: torch.device) -> str | None:
    """Return the name of the device's bfloat16 instructions, for messages; None if it has none."""
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        text = f"compute capability {'.'.join(map(str, capability))}"
        return text if capability >= _CUDA_BFLOAT16 else None
    flags = cpu_flags()
    return next((words for flag, words in _CPU_BFLOAT16.items() if flag in flags), None)


def device_name(device: torch.device) -> str:
    """Return the name of the GPU, or of the processor with its number of cores."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    name = _cpu_info().get("model name") or platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def cpu_flags() -> frozenset[str]:
    """Return this processor's instruction sets in lower case; empty if the system lists none."""
    if hasattr(torch.cpu, "get_capabilities"):
        return frozenset(name for name, has in torch.cpu.get_capabilities().items() if has is True)
    return frozenset(" ".join(_cpu_info().get(name, "") for name in ("flags", "Features")).split())


def free_threads() -> tuple[int, str]:
    """Return how many threads to compute with on a processor, and a message about it or "".

    ``OMP_NUM_THREADS`` decides if it is set. Otherwise the number is torch's own, divided among the
    processes that a launcher started on this machine, or less the cores that other programs keep
    busy: two threads on two busy cores wait for each other, and take several times as long as one.
    """
    threads, local = torch.get_num_threads(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if "OMP_NUM_THREADS" in os.environ:
        return threads, ""
    if local > 1 or threads == 1:
        return max(1, threads // local), ""
    import psutil

    cores = psutil.cpu_percent(0.25, percpu=True)
    busy_cores = sum(cores) / 100
    free = max(1, min(threads, round(len(cores) - busy_cores)))
    words = (
        f"Other programs keep {busy_cores:.1f} of {len(cores)} cores busy: computing on {free} of "
        f"{threads} threads (--threads changes it)."
    )
    return free, words if free < threads else ""


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Set torch's number of threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cpu_info() -> dict[str, str]:
    """Return the entries of one core in Linux's /proc/cpuinfo, by name; empty on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}

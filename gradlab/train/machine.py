"""What the machine at hand does well: which precision, how many threads, how fast it multiplies."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gradlab.encoder.model import Encoder

# Capability from which NVIDIA's devices multiply matrices of bfloat16.
_CUDA_BFLOAT16 = (8, 0)
# Names of the instructions for it, in torch's words and in those of /proc/cpuinfo (x86 and ARM).
_CPU_BFLOAT16 = {"avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX", "bf16": "BF16 instructions"}


@dataclass(frozen=True)
class Precision:
    """The precision that a run computes in.

    Attributes:
        name: ``float32`` or ``bfloat16``.
        why: what decided.
        native: whether the device computes bfloat16 itself, instead of emulating it.
    """

    name: str
    why: str
    native: bool

    @property
    def is_slow(self) -> bool:
        """Whether the device has to emulate it."""
        return self.name == "bfloat16" and not self.native


def choose_precision(asked: str, device: torch.device) -> Precision:
    """What ``auto``, ``float32`` or ``bfloat16`` means on this device.

    ``auto`` is bfloat16 where the device multiplies matrices of it in hardware (NVIDIA's from compute capability 8.0;
    processors with AVX-512 BF16 or AMX), else float32.
    """
    instructions = bfloat16_instructions(device)
    native = instructions is not None
    have = (
        f"this {_kind(device)} has {instructions}"
        if native
        else f"this {_kind(device)} has no bfloat16 arithmetic"
    )
    if asked != "auto":
        return Precision(asked, f"asked for; {have}", native)
    return Precision("bfloat16" if native else "float32", have, native)


def encode_in(
    encoder: Encoder, precision: str, *, progress: bool = True
) -> Callable[[list[str]], NDArray[Any]]:
    """The encoder's ``encode`` in a run's precision: bfloat16 is autocast, as in training, and rows come back in float32.

    Args:
        encoder: whose weights stay as they are.
        precision: ``auto``, ``float32`` or ``bfloat16``.
        progress: show a bar over the batches.
    """
    half = choose_precision(precision, encoder.device).name == "bfloat16"

    def encode(sentences: list[str]) -> NDArray[Any]:
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=half):
            return encoder.encode(sentences, progress=progress)

    return encode


def bfloat16_instructions(device: torch.device) -> str | None:
    """What the device computes bfloat16 with, for people; None where it has nothing for it."""
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        return (
            f"compute capability {'.'.join(map(str, capability))}" if capability >= _CUDA_BFLOAT16 else None
        )
    return next((words for flag, words in _CPU_BFLOAT16.items() if flag in cpu_flags()), None)


def device_name(device: torch.device) -> str:
    """What a person would call the device: a GPU's name, or that of the processor and its cores."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def cpu_flags() -> frozenset[str]:
    """Instruction sets of this processor, in lower case; empty where the system does not tell."""
    if hasattr(torch.cpu, "get_capabilities"):
        return frozenset(name for name, has in torch.cpu.get_capabilities().items() if has is True)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(
        word
        for line in lines
        if line.startswith(("flags", "Features"))
        for word in line.split(":")[1].split()
    )


def emulation_factor(device: torch.device) -> float:
    """How many times as long a matrix product takes in bfloat16 as in float32, measured here in a tenth of a second."""
    return matrix_rate("float32", device) / matrix_rate("bfloat16", device)


def matrix_rate(precision: str, device: torch.device, size: int = 256) -> float:
    """Floating-point operations a second of a product of square matrices, measured within about 50 ms."""
    a = torch.ones(size, size, dtype=getattr(torch, precision), device=device)
    rates: list[float] = []
    began = time.perf_counter()
    a @ a  # the first call prepares
    while not rates or (time.perf_counter() - began < 0.05 and len(rates) < 50):
        start = time.perf_counter()
        a @ a
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        rates.append(2 * size**3 / (time.perf_counter() - start))
    return max(rates)


def free_threads(busy: Callable[[], float] | None = None) -> tuple[int, str]:
    """How many threads to compute with on a processor, and what to tell people of it ("" if nothing).

    ``OMP_NUM_THREADS`` decides if it is set; else it is torch's own number, shared among the processes that a launcher
    started on this machine, less the cores that other programs keep busy: two threads on two busy cores wait for each
    other, and take several times as long as one.

    Args:
        busy: measures the number of cores that are busy now; None asks the system.
    """
    threads = torch.get_num_threads()
    if "OMP_NUM_THREADS" in os.environ:
        return threads, ""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if local > 1:
        return max(1, threads // local), ""
    if threads == 1:
        return 1, ""
    taken = (busy or _busy_cores)()
    cores = os.cpu_count() or 1
    free = max(1, min(threads, round(cores - taken)))
    if free == threads:
        return threads, ""
    words = f"Other programs keep {taken:.1f} of {cores} cores busy: computing on {free} of {threads} threads"
    return free, f"{words} (--threads changes it)."


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Torch computes with so many threads, and afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _busy_cores(interval: float = 0.25) -> float:
    import psutil

    return sum(psutil.cpu_percent(interval, percpu=True)) / 100


def _kind(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "processor"

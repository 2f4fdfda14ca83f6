"""Runs the sections, saves results after each case, and writes them as a page."""

from __future__ import annotations

import contextlib
import io
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gradlab._version import __version__
from gradlab.errors import GradlabError, check_known, first_line
from gradlab.files import check_writable, read_object, versions, write_json, write_text
from gradlab.progress_bars import progress_bar
from gradlab.templates import render
from tests.gpu import host_waits, kernel_parts, predictions, same_as_cpu, speed
from tests.gpu.machine import RATES, Case, Machine

# In the order of importance: a check that is stopped has the first.
SECTIONS: Mapping[str, Callable[[Machine], Iterable[Case]]] = {
    "rate": speed.rate_cases,
    "kernels": same_as_cpu.CHECKS["kernels"],
    "parts": kernel_parts.part_cases,
    "graph": same_as_cpu.CHECKS["graph"],
    "loss": speed.loss_cases,
    "training": speed.training_cases,
    "tiles": kernel_parts.tile_cases,
    "processes": same_as_cpu.CHECKS["processes"],
    "waits": host_waits.wait_cases,
    **same_as_cpu.CHECKS,
}
# Results of an earlier version on an H100, to compare with.
BEFORE = Path(__file__).parents[2] / "figures" / "gpu-check" / "h100.json"
PACKAGES = (
    *("torch", "triton", "transformers", "sentence-transformers", "numpy"),
    *("open_clip_torch", "inf-cl", "GradCache"),
)


def check_gpu(
    output: str | os.PathLike[str] = "gpu-check",
    sections: Sequence[str] = (),
    *,
    device: str = "cuda",
    model: str | None = None,
    train_file: str | None = None,
) -> dict[str, Any]:
    """Check gradlab on a GPU, and measure its speed there.

    Results are saved after each case, in ``results.json`` and ``page.md``. A check that was stopped
    continues where it was, and does not repeat cases that have results.

    Args:
        output: folder of the results.
        sections: names of `SECTIONS`; empty for all.
        device: "cuda", "cuda:N", or "cpu" to try the check itself out on tiny sizes.
        model: an encoder to train, a folder or a hub name; None makes BERTs of random weights.
        train_file: a text file of sentences, one a line; None makes some.

    Returns:
        The content of ``results.json``: ``device``, and ``cases`` by "section/name".

    Raises:
        GradlabError: no such device or section, or results in ``output`` of another device or other
            versions of packages.
    """
    from gradlab.train import find_device

    check_writable(output, folder=True)
    folder, place = Path(output), find_device(device)
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", 0)
    machine = Machine(place, folder / "work", model, train_file)
    about = describe(machine)
    results: dict[str, Any] = {"device": about, "cases": {}}
    file = folder / "results.json"
    if file.exists():
        results = read_object(file)
        changed = [name for name in about if results["device"].get(name) != about[name]]
        if changed:
            raise GradlabError(
                f"{file} has results of another {changed[0]}; choose another --output"
            )
    machine.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("GRADLAB_CACHE_DIR", str(machine.folder / "cache"))
    left = [(name, case) for name, case in cases(machine, sections) if name not in results["cases"]]
    with progress_bar(left, desc="GPU") as bar:
        for name, case in bar:
            bar.set_postfix_str(name.replace("/", ": ", 1))
            results["cases"][name] = _run(case, machine)
            write_json(file, results)
            write_text(folder / "page.md", page(results))
    return results


def cases(machine: Machine, sections: Sequence[str] = ()) -> Iterator[tuple[str, Case]]:
    """Yield the cases of some sections, or of all, as ("section/name", case).

    Raises:
        GradlabError: an unknown section.
    """
    for name in sections:
        check_known("section", name, SECTIONS)
    for name in sections or SECTIONS:
        for case in SECTIONS[name](machine):
            yield f"{name}/{case.name}", case


def plan(sections: Sequence[str] = ()) -> str:
    """Return a table of the minutes that each section is expected to take on an A100."""
    machine = Machine(torch.device("cuda"), Path())
    lines, total = ["| section | cases | minutes |", "|---|--:|--:|"], 0.0
    for name in sections or SECTIONS:
        durations = [case.seconds(RATES) for _, case in cases(machine, [name])]
        lines.append(f"| {name} | {len(durations)} | {sum(durations) / 60:.1f} |")
        total += sum(durations)
    return "\n".join([*lines, f"| together | | {total / 60:.1f} |"])


def describe(machine: Machine) -> dict[str, Any]:
    """Return the device, its driver, and the versions of libraries."""
    about: dict[str, Any] = {"device": "CPU: tiny sizes, to try the check out"}
    if not machine.small:
        properties = torch.cuda.get_device_properties(machine.device)
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
            about["driver"] = said.stdout.split()[0]
        about |= {
            "device": properties.name,
            "memory GiB": round(properties.total_memory / 2**30, 1),
            "compute capability": f"{properties.major}.{properties.minor}",
            "devices": torch.cuda.device_count(),
            "CUDA": torch.version.cuda,
        }
    return about | versions(*PACKAGES) | {"gradlab": __version__}


def page(results: Mapping[str, Any]) -> str:
    """Return the results as Markdown: the device, and a table for each section."""
    tables: dict[str, list[dict[str, Any]]] = {section: [] for section in SECTIONS}
    before, expected = _earlier(results), predictions.predictions()
    for title, measurement in results["cases"].items():
        section, _, name = title.partition("/")
        row = {section: name} | {
            k: v for k, v in measurement.items() if k not in ("flops", "runs", "took")
        }
        if section == "loss" and "flops" in measurement:
            rate = results["cases"].get(f"rate/{name.split()[2]}", {}).get("TFLOPS")
            if rate:
                row["of the floor"] = measurement["seconds"] * rate * 1e12 / measurement["flops"]
        if "seconds" in measurement:
            earlier = before.get(title, {}).get("seconds")
            predicted = expected[title].seconds if title in expected else None
            if earlier:
                row |= {"before": earlier, "of before": measurement["seconds"] / earlier}
            if predicted:
                row |= {"predicted": predicted, "of predicted": measurement["seconds"] / predicted}
        tables.setdefault(section, []).append(row)
    return render("tests.gpu", "page.md", about=results["device"], tables=tables)


def _earlier(results: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the cases of an earlier version on the same kind of device."""
    earlier = read_object(BEFORE) if BEFORE.exists() else {"device": {}, "cases": {}}
    same = earlier["device"].get("device") == results["device"].get("device")
    cases_by_name: Mapping[str, Any] = earlier["cases"] if same else {}
    return cases_by_name


def failed(results: Mapping[str, Any]) -> list[str]:
    """Return the checks whose error exceeds their tolerance, or that raised an error."""
    verdicts = {
        name: measurement.get("verdict", "right") for name, measurement in results["cases"].items()
    }
    return [name for name, verdict in verdicts.items() if verdict != "right"]


def _run(case: Case, machine: Machine) -> dict[str, Any]:
    """Run a case; an exception becomes part of the result."""
    start = time.perf_counter()
    measurement: dict[str, Any]
    try:
        # Trainers repeat what the progress bar of the check shows.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            measurement = case.run(machine)
        if "error" in measurement:
            measurement["verdict"] = (
                "right" if measurement["error"] <= measurement["tolerance"] else "WRONG"
            )
    except torch.cuda.OutOfMemoryError:
        measurement = {"note": "out of memory"}
    except ModuleNotFoundError as error:
        measurement = {"note": f"not measured: {error.name} is not installed"}
    except Exception as error:
        measurement = {"verdict": "FAILED", "note": f"{type(error).__name__}: {first_line(error)}"}
    if not machine.small:
        torch.cuda.empty_cache()
    measurement["took"] = time.perf_counter() - start
    unwritable = [
        k for k, v in measurement.items() if isinstance(v, float) and not math.isfinite(v)
    ]
    return measurement | {name: str(measurement[name]) for name in unwritable}

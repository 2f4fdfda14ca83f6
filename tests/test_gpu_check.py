"""The check of a GPU, tried out on a CPU with tiny sizes, and with calls of CUDA replaced."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gradlab
from gradlab import gpu_check
from gradlab.batch.batch import unit_rows
from gradlab.gpu_check import right, running, speed, waits
from gradlab.gpu_check.machine import Case, Machine
from gradlab.monitor import watch
from gradlab.scale import blocks
from tests.processes import fork_audits

pytest.importorskip("transformers")
blockwise = importlib.import_module("gradlab.scale.blockwise")  # not the function of that name
GPU = Machine(torch.device("cuda", 0), Path())


@pytest.fixture
def short(monkeypatch):
    """A few cases of each part, and few steps of training."""
    monkeypatch.setattr(right, "COMBINED", ("symmetric(infonce)",))
    monkeypatch.setattr(right, "BLOCKWISE", ("infonce",))
    monkeypatch.setattr(
        right, "KERNELS", [("infonce", name) for name in ("float32", "tf32", "float16")]
    )
    monkeypatch.setattr(right, "loss_names", lambda: ["infonce", "mhe"])
    fork_audits(monkeypatch)
    forked = functools.partial(torch.multiprocessing.start_processes, start_method="forkserver")
    monkeypatch.setattr(torch.multiprocessing, "spawn", forked)
    monkeypatch.setattr(speed, "WARM", 1)
    names = ("plain torch", "gradlab.blockwise", "gradlab.blockwise by kernels", "Inf-CL")
    monkeypatch.setattr(speed, "LOSSES", {name: speed.LOSSES[name] for name in names})
    names = ("gradlab TF32", "gradlab bfloat16, chunks of 64", "sentence-transformers bfloat16")
    monkeypatch.setattr(speed, "TRAINERS", {name: speed.TRAINERS[name] for name in names})


@pytest.mark.parametrize("part", gpu_check.PARTS)
def test_each_part_by_itself(short, shell, tmp_path, part):
    if part == "training":
        pytest.importorskip("datasets")
    code, _, err = shell("gpu-check", "--device", "cpu", "--output", tmp_path, "--part", part)
    assert code == 0, err
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["cases"]
    notes = {found["note"] for found in results["cases"].values() if "note" in found}
    absent = [name for name in ("inf_cl", "triton") if importlib.util.find_spec(name) is None]
    assert notes <= {f"not measured: {name} is not installed" for name in absent}
    page = (tmp_path / "page.md").read_text()
    assert all(name.partition("/")[2] in page for name in results["cases"])


def test_it_goes_on_where_it_stopped(monkeypatch, tmp_path):
    ran = []

    def case(name, stop):
        def run(machine):
            ran.append(name)
            if stop and len(ran) == 2:
                raise KeyboardInterrupt
            return {"error": 0.0, "tolerance": 0.0}

        return Case(name, run)

    monkeypatch.setattr(
        running, "PARTS", {"rate": lambda machine: iter([case("a", False), case("b", True)])}
    )
    with pytest.raises(KeyboardInterrupt):
        gpu_check.gpu_check(tmp_path, device="cpu")
    gpu_check.gpu_check(tmp_path, device="cpu")
    gpu_check.gpu_check(tmp_path, device="cpu")
    assert ran == ["a", "b", "b"]


def test_what_is_wrong_is_said(shell, monkeypatch, tmp_path):
    def failing(error):
        def run(machine):
            raise error

        return run

    every = [
        Case("wrong", lambda machine: {"error": 1e-3, "tolerance": 1e-11}),
        Case("not a number", lambda machine: {"error": float("nan"), "tolerance": 1e-11}),
        Case("broken", failing(ValueError("two\nlines"))),
        Case("full", failing(torch.cuda.OutOfMemoryError())),
        Case("absent", failing(ModuleNotFoundError("x", name="inf_cl"))),
    ]
    monkeypatch.setattr(running, "PARTS", {"rate": lambda machine: iter(every)})
    code, out, err = shell("gpu-check", "--device", "cpu", "--output", tmp_path)
    assert code == 1
    assert "5 cases, 3 failed" in out + err
    assert all(f"rate/{name}: " in out + err for name in ("wrong", "not a number", "broken"))
    page = (tmp_path / "page.md").read_text()
    assert "out of memory" in page
    assert "inf_cl is not installed" in page


def test_results_of_another_device_are_not_mixed(tmp_path):
    (tmp_path / "results.json").write_text(
        json.dumps({"device": {"device": "NVIDIA A100"}, "cases": {}})
    )
    with pytest.raises(
        gradlab.GradlabError, match="results of another device; choose another --output"
    ):
        gpu_check.gpu_check(tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("check", "beside"), [(right._gradients, ""), (right._decompose, "own_negatives")]
)
def test_a_device_that_is_off_is_found(check, beside, monkeypatch):
    """By rows that differ from those on the CPU in the ninth digit."""

    def off(rows):
        return torch.nn.functional.normalize(rows + 1e-9 * torch.arange(rows.shape[-1]), dim=-1)

    machine = Machine(torch.device("cpu"), Path())
    for change, finds in ((right.CPU, False), (off, True)):
        monkeypatch.setattr(right, "CPU", change)
        found = check("infonce", beside, machine)
        assert (found["error"] > found["tolerance"]) is finds


def test_a_nan_beside_right_numbers_is_wrong():
    right_one, wrong = torch.ones(2), torch.tensor([1.0, torch.nan])
    for found in ([right_one, wrong], [wrong, right_one]):
        assert right.largest(found, [right_one, right_one]) == torch.inf
    assert right.largest([wrong], [wrong]) == 0
    with pytest.raises(ValueError, match="longer"):
        right.largest([right_one], [right_one, right_one])


def test_what_is_computed_elsewhere_is_an_error():
    rows = [torch.ones(2)]
    with pytest.raises(gradlab.GradlabError, match="computed on cpu, not on cuda:0"):
        right._differ(rows, rows, GPU, 1e-11)


@pytest.mark.parametrize(
    ("spec", "block"), [("arccon", 64), ("symmetric(infonce)", 16), ("dhel", 16)]
)
def test_the_host_waits_three_times_for_a_blockwise_loss_on_a_gpu(monkeypatch, spec, block):
    """For norms, value and gradient, however many blocks; and the gradient is that of a CPU."""
    rows = torch.nn.functional.normalize(
        torch.randn(2, 64, 8, generator=torch.Generator().manual_seed(0)), dim=2
    )
    gradients = []
    for free in (True, False):
        for module in (blocks, blockwise):
            monkeypatch.setattr(module, "looking_is_free", lambda _, free=free: free)
        views = [one.clone().requires_grad_() for one in rows]
        with waits.counted_waits() as found:
            gradlab.blockwise(spec, block)(*views).backward()
        gradients.append(torch.stack([one.grad for one in views]))
    assert sum(found.values()) == 3, found
    assert torch.equal(*gradients)


def test_a_wait_is_told_by_its_line():
    views = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    with waits.counted_waits() as found:
        gradlab.get_loss("infonce")(*views, normalize=True)
    (place,) = [name.split()[1] for name in found if name.startswith("tolist")]
    file, line = place.split(":")
    assert ".tolist()" in (waits.PACKAGE / file).read_text().splitlines()[int(line) - 1]


class Behind:
    """Events and streams of a GPU that has done what it was given only when it is said to."""

    done = False
    record = wait_event = synchronize = lambda *_: None

    def __init__(self, *_):
        pass

    def query(self):
        return self.done


@pytest.mark.parametrize("ahead", [False, True])
def test_training_waits_for_a_record_on_a_cpu_alone(monkeypatch, tmp_path, ahead):
    """A step waits as long as its loss, on a GPU also one that is recorded.

    The copies of that one are measured in a later step.
    """
    if ahead:
        monkeypatch.setattr(watch, "works_ahead", lambda rows: True)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
        monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
        for name in ("Event", "Stream"):
            monkeypatch.setattr(torch.cuda, name, Behind)
    loss, generator = gradlab.get_loss("infonce"), torch.Generator().manual_seed(0)
    watched = gradlab.watch(loss, output=tmp_path / "watched", total_steps=30, every=2)
    counts, batches = [], []
    for step, criterion in enumerate((loss, *[watched] * 6)):
        monkeypatch.setattr(Behind, "done", step % 2 == 0)
        batches.append(torch.randn(2, 16, 8, generator=generator))
        rows = batches[-1].clone().requires_grad_()
        with waits.counted_waits() as found:
            criterion(*rows, normalize=True).backward()
        counts.append(sum(found.values()))
        rows.data.zero_()  # what was recorded is a copy
    plain, recorded, between = counts[0], counts[1::2], counts[2::2]
    measured, others = (between, recorded) if ahead else (recorded, between)
    assert others == [plain] * 3
    assert min(measured) > plain
    watched.watch.finish()
    steps, values = watched.watch.history.series("diagnostics", "alignment")
    expected = [
        gradlab.gradient.diagnostics.alignment(*unit_rows(batches[at].double())) for at in (1, 3, 5)
    ]
    assert steps == [0, 2, 4]
    assert values == pytest.approx(expected, rel=1e-6)


def test_it_runs_where_little_is_installed(tmp_path):
    """Packages of the extras, and dispensable ones of the core, are made to fail when imported."""
    code = (
        "import sys\n"
        "absent = 'pandas matplotlib psutil accelerate datasets pyarrow platformdirs optuna'"
        ".split()\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "from gradlab.gpu_check import right, running\n"
        "running.PARTS = {'resume': lambda _: right.CHECKS['resume'](_)[:1]}\n"
        "results = running.gpu_check(sys.argv[1], ['resume'], device='cpu')\n"
        "notes = [found['note'] for found in results['cases'].values() if 'note' in found]\n"
        "sys.exit('; '.join(notes) or 0)\n"
    )
    root = Path(gradlab.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(root)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]

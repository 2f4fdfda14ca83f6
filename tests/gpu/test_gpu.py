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
from click.testing import CliRunner

import gradlab
from gradlab.batch import unit_rows
from gradlab.monitor.batch_measurement import Snapshot
from gradlab.scale import block_loop, blocks
from tests.gpu import host_waits, predictions, running, same_as_cpu, speed
from tests.gpu.__main__ import command
from tests.gpu.machine import Case, Machine
from tests.processes import fork_audits

pytest.importorskip("transformers")
blockwise = importlib.import_module("gradlab.scale.blockwise")  # not the function of that name
GPU = Machine(torch.device("cuda", 0), Path())


@pytest.fixture
def short(monkeypatch):
    """A few cases of each part, and few steps of training."""
    monkeypatch.setattr(same_as_cpu, "COMBINED", ("symmetric(infonce)",))
    monkeypatch.setattr(same_as_cpu, "BLOCKWISE", ("infonce",))
    monkeypatch.setattr(
        same_as_cpu, "KERNELS", [("infonce", name) for name in ("float32", "tf32", "float16")]
    )
    monkeypatch.setattr(same_as_cpu, "loss_names", lambda: ["infonce", "mhe"])
    fork_audits(monkeypatch)
    forked = functools.partial(torch.multiprocessing.start_processes, start_method="forkserver")
    monkeypatch.setattr(torch.multiprocessing, "spawn", forked)
    monkeypatch.setattr(speed, "WARM", 1)
    names = ("plain torch", "gradlab.blockwise, graph", "gradlab.blockwise by kernels", "Inf-CL")
    monkeypatch.setattr(speed, "LOSSES", {name: speed.LOSSES[name] for name in names})
    chunks = ("gradlab bfloat16, chunks of 64", "gradlab bfloat16, chunks of 10 GiB")
    names = ("gradlab TF32", *chunks, "sentence-transformers bfloat16")
    monkeypatch.setattr(speed, "TRAINERS", {name: speed.TRAINERS[name] for name in names})


@pytest.fixture
def gpu():
    """The command on a CPU: its exit code and output."""
    return lambda *options: CliRunner().invoke(command, ["--device", "cpu", *map(str, options)])


@pytest.mark.parametrize("section", running.SECTIONS)
def test_each_section_by_itself(short, gpu, tmp_path, section):
    if section == "training":
        pytest.importorskip("datasets")
    outcome = gpu("--output", tmp_path, "--section", section)
    assert outcome.exit_code == 0, outcome.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["cases"]
    notes = {case["note"] for case in results["cases"].values() if "note" in case}
    absent = [name for name in ("inf_cl", "triton") if importlib.util.find_spec(name) is None]
    assert notes <= {f"not measured: {name} is not installed" for name in absent}
    page = (tmp_path / "page.md").read_text()
    assert all(name.partition("/")[2] in page for name in results["cases"])


def test_predictions_are_committed_and_belong_to_cases():
    from gradlab.scale import triton_kernels

    root = Path(gradlab.__file__).parents[1]
    assert (root / "figures/gpu-check/predicted.md").read_text() == predictions.table()
    names = {name for name, _ in running.cases(GPU)}
    assert set(predictions.predictions()) <= names
    sizes = triton_kernels.HALF["ROWS"], triton_kernels.HALF["COLUMNS"]
    assert sizes == predictions.TILE
    minutes = running.plan().splitlines()[-1].split("|")[-2]
    assert float(minutes) < 10


def test_the_page_has_earlier_and_predicted_times_beside_those_of_now():
    name = "loss/N=65536 D=768 bfloat16 gradlab.blockwise by kernels"
    results = {
        "device": {"device": "NVIDIA H100 80GB HBM3"},
        "cases": {name: {"seconds": 0.045, "MiB": 1.0, "flops": 1.0, "runs": 3}},
    }
    page = running.page(results)
    header, _, row = page[page.index("| loss ") :].splitlines()[:3]
    columns = [column.strip() for column in header.split("|")]
    entries = dict(zip(columns, (entry.strip() for entry in row.split("|")), strict=True))
    expected = predictions.predictions()[name].seconds
    assert float(entries["of before"]) == pytest.approx(0.045 / 0.06, rel=1e-2)
    assert float(entries["predicted"]) == pytest.approx(expected, rel=1e-2)
    assert float(entries["of predicted"]) == pytest.approx(0.045 / expected, rel=1e-2)
    elsewhere = running.page(results | {"device": {"device": "NVIDIA H200"}})
    assert "before" not in elsewhere[elsewhere.index("| loss ") :]


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
        running, "SECTIONS", {"rate": lambda machine: iter([case("a", False), case("b", True)])}
    )
    with pytest.raises(KeyboardInterrupt):
        running.check_gpu(tmp_path, device="cpu")
    running.check_gpu(tmp_path, device="cpu")
    running.check_gpu(tmp_path, device="cpu")
    assert ran == ["a", "b", "b"]


def test_failures_are_listed(gpu, monkeypatch, tmp_path):
    def failing(error):
        def run(machine):
            raise error

        return run

    cases = [
        Case("wrong", lambda machine: {"error": 1e-3, "tolerance": 1e-11}),
        Case("not a number", lambda machine: {"error": float("nan"), "tolerance": 1e-11}),
        Case("broken", failing(ValueError("two\nlines"))),
        Case("full", failing(torch.cuda.OutOfMemoryError())),
        Case("absent", failing(ModuleNotFoundError("x", name="inf_cl"))),
    ]
    monkeypatch.setattr(running, "SECTIONS", {"rate": lambda machine: iter(cases)})
    outcome = gpu("--output", tmp_path)
    assert outcome.exit_code == 1
    assert "5 cases, 3 failed" in outcome.output
    assert all(f"rate/{name}: " in outcome.output for name in ("wrong", "not a number", "broken"))
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
        running.check_gpu(tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("check", "beside"), [(same_as_cpu._gradients, ""), (same_as_cpu._decompose, "own_negatives")]
)
def test_a_device_that_is_off_is_found(check, beside, monkeypatch):
    """By rows that differ from those on the CPU in the ninth digit."""

    def off(rows):
        return torch.nn.functional.normalize(rows + 1e-9 * torch.arange(rows.shape[-1]), dim=-1)

    machine = Machine(torch.device("cpu"), Path())
    for change, finds in ((same_as_cpu.CPU, False), (off, True)):
        monkeypatch.setattr(same_as_cpu, "CPU", change)
        outcome = check("infonce", beside, machine)
        assert (outcome["error"] > outcome["tolerance"]) is finds


def test_a_nan_beside_right_numbers_is_wrong():
    correct, wrong = torch.ones(2), torch.tensor([1.0, torch.nan])
    for measured in ([correct, wrong], [wrong, correct]):
        assert same_as_cpu.largest(measured, [correct, correct]) == torch.inf
    assert same_as_cpu.largest([wrong], [wrong]) == 0
    with pytest.raises(ValueError, match="longer"):
        same_as_cpu.largest([correct], [correct, correct])


def test_what_is_computed_elsewhere_is_an_error():
    rows = [torch.ones(2)]
    with pytest.raises(gradlab.GradlabError, match="computed on cpu, not on cuda:0"):
        same_as_cpu._differ(rows, rows, GPU, 1e-11)


@pytest.mark.parametrize(
    ("spec", "block"), [("arccon", 64), ("symmetric(infonce)", 16), ("dhel", 16)]
)
def test_the_host_waits_twice_for_a_blockwise_loss_on_a_gpu(monkeypatch, spec, block):
    """For norms, and for value and gradient, however many blocks; the gradient is that of a CPU."""
    rows = torch.nn.functional.normalize(
        torch.randn(2, 64, 8, generator=torch.Generator().manual_seed(0)), dim=2
    )
    gradients = []
    for free in (True, False):
        for module in (blocks, blockwise, block_loop):
            monkeypatch.setattr(module, "reading_is_free", lambda _, free=free: free)
        views = [view.clone().requires_grad_() for view in rows]
        with host_waits.counted_waits() as counts_by_line:
            gradlab.blockwise(spec, block)(*views).backward()
        gradients.append(torch.stack([view.grad for view in views]))
    assert sum(counts_by_line.values()) == 2, counts_by_line
    assert torch.equal(*gradients)


def test_a_wait_is_told_by_its_line():
    views = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    with host_waits.counted_waits() as counts_by_line:
        gradlab.get_loss("infonce")(*views, normalize=True)
    (place,) = [name.split()[1] for name in counts_by_line if name.startswith("tolist")]
    file, line = place.split(":")
    assert ".tolist()" in (host_waits.PACKAGE / file).read_text().splitlines()[int(line) - 1]


class Behind:
    """Events and streams of a GPU that has done what it was given only when it is said to."""

    finished = False
    record = wait_event = synchronize = lambda *_: None

    def __init__(self, *_):
        pass

    def query(self):
        return self.finished


@pytest.mark.parametrize("ahead", [False, True])
def test_training_waits_for_a_record_on_a_cpu_alone(monkeypatch, tmp_path, ahead):
    """A step waits as long as its loss, on a GPU also one that is recorded.

    The copies of that one are measured in a later step.
    """
    if ahead:
        monkeypatch.setattr(Snapshot, "is_on_gpu", True)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
        monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
        for name in ("Event", "Stream"):
            monkeypatch.setattr(torch.cuda, name, Behind)
    loss, generator = gradlab.get_loss("infonce"), torch.Generator().manual_seed(0)
    watched = gradlab.watch(loss, output=tmp_path / "watched", total_steps=30, every=2)
    counts, batches = [], []
    for step, criterion in enumerate((loss, *[watched] * 6)):
        monkeypatch.setattr(Behind, "finished", step % 2 == 0)
        batches.append(torch.randn(2, 16, 8, generator=generator))
        rows = batches[-1].clone().requires_grad_()
        with host_waits.counted_waits() as counts_by_line:
            criterion(*rows, normalize=True).backward()
        counts.append(sum(counts_by_line.values()))
        rows.data.zero_()  # what was recorded is a copy
    plain, recorded, between = counts[0], counts[1::2], counts[2::2]
    with_measurement, without = (between, recorded) if ahead else (recorded, between)
    assert without == [plain] * 3
    assert min(with_measurement) > plain
    watched.watch.finish()
    steps, values = watched.watch.history.series("diagnostics", "alignment")
    expected = [
        gradlab.gradient.statistics.alignment(*unit_rows(batches[at].double())) for at in (1, 3, 5)
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
        "from tests.gpu import running, same_as_cpu\n"
        "running.SECTIONS = {'resume': lambda _: same_as_cpu.CHECKS['resume'](_)[:1]}\n"
        "results = running.check_gpu(sys.argv[1], ['resume'], device='cpu')\n"
        "notes = [case['note'] for case in results['cases'].values() if 'note' in case]\n"
        "sys.exit('; '.join(notes) or 0)\n"
    )
    root = Path(gradlab.__file__).parents[1]
    process = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(root)}, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]

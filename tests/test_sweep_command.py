"""`gradlab sweep` with real training: shared by workers, killed, interrupted, failing, retried."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from gradlab import GradlabError
from gradlab.cli.sweep import command
from gradlab.data.table import Table
from gradlab.sweep import check_data, cost_estimate, run_sweep
from gradlab.sweep.spec import parse_spec, read_spec
from gradlab.sweep.trials import FINISHED, RUNNING, WAITING, NotBegun, Trials
from gradlab.sweep.worker import run_folder
from gradlab.train.former_names import RENAMED
from tests.processes import ForkedCommand, gradlab_command, start
from tests.train_helpers import recorded, write_sentences, write_stsb

pytest.importorskip("optuna")
SPEC = """
seeds = [1, 2]
{top}
[base]
model = "bert"
train_file = "sentences.txt"
eval_data = "senteval"
max_length = 16
batch_size = 8
learning_rate = 1e-3
max_steps = {steps}
save_every = 5
diagnostics_every = 0
log_every = 1
device = "cpu"
{base}
"""
SWEEP = Path("runs/spec")


@pytest.fixture(autouse=True)
def folder(bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").symlink_to(bert)
    write_sentences(tmp_path)
    write_stsb(tmp_path)
    return tmp_path


def write(steps=2, top="", base=""):
    Path("spec.toml").write_text(SPEC.format(steps=steps, top=top, base=base))
    return read_spec("spec.toml")


def with_changes(**changes):
    return parse_spec(
        {**tomllib.loads(SPEC.format(steps=2, top="", base="")), "name": "spec", **changes}
    )


def run_here(*arguments):
    """In this process, which has loaded everything: exit code, and what was printed."""
    result = CliRunner().invoke(command, ["spec.toml", *arguments])
    if isinstance(result.exception, GradlabError):
        return 2, str(result.exception)
    return result.exit_code, result.output


def trials_of(spec):
    return Trials(spec, f"sqlite:///{SWEEP.absolute() / 'study.db'}", create=False)


def begin(folder, spec, *arguments):
    """A worker in a process of its own, what it prints, and its run, once that has a checkpoint."""
    log = folder / "log"
    environment = {"GRADLAB_CACHE_DIR": os.environ["GRADLAB_CACHE_DIR"]}
    worker = start(gradlab_command, "sweep", "spec.toml", *arguments, log=log, **environment)
    trials = None
    while True:
        assert worker.is_alive(), log.read_text()
        time.sleep(0.02)
        if trials is None and (SWEEP / "study.db").exists():
            # The file is there before the sweep is written in it.
            with contextlib.suppress(NotBegun):
                trials = trials_of(spec)
        for run in trials.runs() if trials else ():
            if run.state == RUNNING and any(
                (run_folder(SWEEP, run) / "checkpoints").glob("step-*")
            ):
                return worker, log, run


def test_a_killed_workers_run_is_continued_by_another(folder):
    spec = write(steps=60)
    worker, _, victim = begin(folder, spec, "--heartbeat", "1")
    worker.kill()
    worker.join()
    code, output = run_here("--heartbeat", "1")
    assert code == 0, output
    assert "Resuming after step" in output
    assert "2/2" in output
    runs = trials_of(spec).runs()
    assert [run.state for run in runs] == [FINISHED] * 2
    assert [run.attempts for run in runs] == [2 if run.key == victim.key else 1 for run in runs]
    # Every step of the run that two workers shared was recorded once.
    assert list(recorded(run_folder(SWEEP, victim), "loss")) == list(range(1, 61))


def test_ctrl_c_gives_the_run_back(folder):
    spec = write(steps=3000)
    worker, log, _ = begin(folder, spec)
    worker.terminate()  # SIGTERM
    worker.join(120)
    assert worker.exitcode == 130, log.read_text()
    assert "Traceback" not in log.read_text()
    assert [run.state for run in trials_of(spec).runs()] == [WAITING] * 2


def test_workers_of_one_command_and_the_table(folder, monkeypatch):
    monkeypatch.setattr("gradlab.sweep.launch.subprocess.Popen", ForkedCommand)
    spec = write(base="keep = 1")
    code, output = run_here("--workers", "2")
    assert code == 0, output
    assert "2/2" in output
    logs = sorted((SWEEP / "logs").glob("*.log"))
    assert [log.name for log in logs] == ["worker-1.log", "worker-2.log"]
    assert sum(log.read_text().count("Finished:") for log in logs) == 2
    runs = trials_of(spec).runs()
    assert [run.attempts for run in runs] == [1] * 2
    for run in runs:
        assert (run_folder(SWEEP, run) / "encoder" / "model.safetensors").exists()
        assert not (run_folder(SWEEP, run) / "checkpoints").exists()
        assert run.value == run.results["stsb_dev"]
    # Again: nothing is left to do, and the same is shown.
    code, second_output = run_here()
    assert code == 0
    assert all(line in output for line in second_output.splitlines()[:4])
    assert (
        "2 runs: 2 finished, 0 running, 0 waiting, 0 failed, 0 diverged" in run_here("--status")[1]
    )
    # The folder's specification is the sweep; what else is asked for is made of what is there.
    assert read_spec(SWEEP / "sweep.json").points({}) == spec.points({})
    times = [(run_folder(SWEEP, run) / "metrics.csv").stat().st_mtime for run in runs]
    spec = write(top='evaluate = ["STS-B"]', base="keep = 1")
    dev = folder / "senteval" / "STS" / "STSBenchmark" / "sts-dev.csv"
    shutil.copy(dev, dev.with_name("sts-test.csv"))
    assert "2 finished" not in run_here("--status")[1]
    run_here()
    scored = trials_of(spec).runs()
    assert all("STS-B" in run.results and run.state == FINISHED for run in scored)
    assert times == [(run_folder(SWEEP, run) / "metrics.csv").stat().st_mtime for run in scored]


CALLBACKS = """
from gradlab.train import Callback
class Stop(Callback):
    def on_step(self, trainer, output):
        from gradlab.errors import Diverged
        if trainer.config.seed == 2:
            raise Diverged(f"at step {trainer.step}")
def stop(run, output):
    assert output.name == "spec"
    return [Stop()]
"""


def test_callbacks_dry_run_and_divergence(monkeypatch):
    write(top='callbacks = ["stop.py:stop"]')
    speed = cost_estimate.Speed(
        start=1.0, sentence=1e-3, measurement=0.0, evaluation=0.5, sentences=100
    )
    monkeypatch.setattr(cost_estimate, "measure", lambda config: speed)
    assert "there is no file 'stop.py'" in run_here("--estimate")[1]
    Path("stop.py").write_text(CALLBACKS)
    assert "2 to do: 4 optimiser steps" in run_here("--estimate")[1]
    assert not SWEEP.exists()
    run_here()
    _, status = run_here("--status")
    assert "2 runs: 1 finished, 0 running, 0 waiting, 0 failed, 1 diverged" in status
    assert ": at step 1" in status
    assert "2 runs, 2 of them done already" in run_here("--estimate")[1]


FAILING = """
from pathlib import Path
def fail(run, output):
    if Path("out of order").exists():
        raise RuntimeError("out of order")
    return []
"""


def test_failures_are_reported_and_retried_and_results_are_of_one_training_file():
    write(top='callbacks = ["fail.py:fail"]')
    Path("fail.py").write_text(FAILING)
    Path("out of order").touch()
    code, output = run_here()
    assert code == 1
    assert "2 runs failed; --status says why" in output
    assert run_here("--status")[1].count("RuntimeError: out of order") == 2
    assert run_here("--status")[0] == 0
    code, printed = run_here("--status", "--json", "--fail-on", "bad")
    assert code == 1
    content = json.loads(printed)
    assert (content["grade"], content["counts"]["failed"]) == ("bad", 2)
    assert [entry["error"] for entry in content["runs"]] == ["RuntimeError: out of order"] * 2
    assert run_here("--json")[0] == 2
    Path("out of order").unlink()
    sentences = shutil.copy("sentences.txt", "hidden")
    assert "2 runs failed" in run_here()[1]  # not without being asked to
    assert "2/2" in run_here("--retry-failed")[1]
    assert "2 finished" in run_here("--status", "--base", "train_file=hidden")[1]  # the same, moved
    Path("other.txt").write_text(Path(sentences).read_text() + "one more sentence\n")
    for status in ([], ["--status"]):
        code, error = run_here(*status, "--base", "train_file=other.txt")
        assert (code, error.count("\n")) == (2, 0)
        assert "trained on another file than 'other.txt'" in error
    assert "2/2" in run_here("--output", "new", "--base", "train_file=other.txt")[1]


def test_results_are_of_one_development_set(folder):
    write()
    assert "2/2" in run_here()[1]
    (folder / "senteval").rename("moved")
    assert "2 finished" in run_here("--status", "--base", "eval_data=moved")[1]
    write_stsb(folder, pairs=31)
    code, error = run_here()
    assert (code, error.count("\n")) == (2, 0)
    assert "selected by other data than 'senteval'" in error


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("batch_size = [8, 201]", r"200 training sentences do not fill a batch of 201"),
        ("held_out = [0.0, 0.97]", r"6 training sentences do not fill a batch of 8"),
        ("held_out = [0.0, 0.005]", r"keeps 1 of 200 sentences out"),
        ("warmup_steps = [1, 2]", r"warmup_steps is 2, and the run has 2 steps"),
        ('train_file = ["sentences.txt", "nowhere.txt"]', r"'nowhere.txt' does not exist"),
        ('train_file = ["sentences.txt", "empty.txt"]', r"'empty.txt' holds no sentence"),
        (
            'train_file = ["table.csv", "sentences.txt"]',
            r"has the columns words, more; name the one",
        ),
        ('model = ["bert", "./nowhere"]', r"there is no model folder './nowhere'"),
        ('eval_data = ["senteval", "nowhere"]', r"no folder 'nowhere'"),
    ],
)
def test_data_are_looked_at_before_the_first_run(folder, changes, message):
    """Each of these failed when its turn came, after the runs before it."""
    Path("empty.txt").write_text("\n\n")
    Path("table.csv").write_text("words,more\na,b\n")
    with pytest.raises(GradlabError, match=message):
        run_sweep(with_changes(grid=tomllib.loads(changes)), SWEEP, print)
    assert not SWEEP.exists()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"eval_data": None}, "the metric is stsb_dev, and eval_data = None gives no score"),
        (
            {"accumulation": 26, "max_steps": None},
            "200 training sentences do not fill one step of 26 batches of 8",
        ),
        (
            {"accumulation": 26, "max_steps": None, "epochs": 2, "warmup_steps": 1},
            "the run has 1 step:",
        ),
    ],
)
def test_points_that_cannot_be_trained_are_named(kind, message):
    with pytest.raises(GradlabError, match=rf"spec \(odd\): .*{message}"):
        check_data(with_changes(points=[{}, {**kind, "label": "odd"}]))


@pytest.mark.parametrize(
    "changes", ["batch_size = [8, 200]", "held_out = [0.01, 0.96]", "accumulation = [1, 26]"]
)
def test_data_that_just_suffice_are_taken(folder, changes):
    check_data(with_changes(grid=tomllib.loads(changes)))


def test_no_more_of_a_file_is_read_than_tells_that_it_is_long_enough(folder, monkeypatch):
    read = []

    rows = Table.rows

    def counted(*arguments):
        for row in rows(*arguments):
            read.append(row)
            yield row

    monkeypatch.setattr(Table, "rows", counted)
    check_data(write(base="held_out = 0.5"))
    assert len(read) == 17  # of 200


@pytest.mark.parametrize(
    ("spec", "arguments", "message"),
    [
        ({"top": 'evaluate = ["MR"]'}, [], "MR cannot be evaluated"),  # before anything is trained
        ({}, ["--output", "spec.toml"], "it is a file"),
    ],
)
def test_bad_input_is_one_line(spec, arguments, message):
    write(**spec)
    code, error = run_here(*arguments)
    assert (code, error.count("\n")) == (2, 0)
    assert message in error
    assert not SWEEP.exists()


def test_the_file_of_the_help_is_a_sweep_by_present_names():
    help_text = files("gradlab.cli").joinpath("examples/sweep.txt").read_text(encoding="utf-8")
    file = help_text.split("A sweep is a file:")[1].split("Any command")[0]
    content = tomllib.loads(file)
    assert not set(content["base"]) & set(RENAMED)
    assert [point.seeds for point in parse_spec(content).points({})] == 3 * [(1, 2, 3)]

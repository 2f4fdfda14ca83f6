"""`gradlab sweep` with real training: shared by workers, killed, interrupted, failing, retried."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from gradlab import GradlabError
from gradlab.cli.sweep import command
from gradlab.monitor.metrics import read_metrics
from gradlab.sweep import budget
from gradlab.sweep.spec import read_spec
from gradlab.sweep.trials import FINISHED, RUNNING, WAITING, NotBegun, Trials
from gradlab.sweep.worker import run_folder
from tests.processes import gradlab_command, start
from tests.tiny_models import make_bert
from tests.train_helpers import write_sentences, write_stsb

pytest.importorskip("optuna")
SPEC = """
seeds = [1, 2]
[base]
model = "bert"
train_file = "sentences.txt"
sts = "senteval"
max_length = 16
batch_size = 8
learning_rate = 1e-3
max_steps = {steps}
save_every = 5
diagnostics_every = 0
log_every = 1
device = "cpu"
{more}
[grid]
loss_settings.temperature = [0.05, 0.1]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    make_bert(folder / "bert")
    write_sentences(folder)
    write_stsb(folder)
    return folder


@pytest.fixture
def folder(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADLAB_CACHE_DIR", str(place / "cache"))
    for name in ("bert", "sentences.txt", "senteval"):
        (tmp_path / name).symlink_to(place / name)
    return tmp_path


def work(folder, name, *arguments):
    """A worker in a process of its own, and the file that has what it prints."""
    log = folder / name
    cache = os.environ["GRADLAB_CACHE_DIR"]
    return start(gradlab_command, "sweep", "spec.toml", *arguments, log=log, GRADLAB_CACHE_DIR=cache), log


def finish(process, log):
    process.join(120)
    return process.exitcode, log.read_text()


def run_here(*arguments):
    """In this process, which has loaded everything: exit code, and what was printed."""
    result = CliRunner().invoke(command, ["spec.toml", *arguments])
    if isinstance(result.exception, GradlabError):
        return 2, str(result.exception)
    return result.exit_code, result.output


def write(folder, steps=4, more=""):
    (folder / "spec.toml").write_text(SPEC.format(steps=steps, more=more))
    return read_spec(folder / "spec.toml")


def trials_of(folder, spec):
    return Trials(spec, f"sqlite:///{folder / 'runs' / 'spec' / 'study.db'}", create=False)


def until(condition, process):
    """What the condition gives, once that is true."""
    while not (found := condition()):
        assert process.is_alive()
        time.sleep(0.02)
    return found


def test_a_killed_workers_run_is_continued_by_the_other(folder):
    spec = write(folder, steps=90)
    first, _ = work(folder, "first", "--heartbeat", "2")
    database = folder / "runs" / "spec" / "study.db"
    until(database.exists, first)
    second = work(folder, "second", "--heartbeat", "2")
    trials = None

    def under_way():
        """The first worker's run, once it has a checkpoint."""
        nonlocal trials
        try:
            trials = trials or trials_of(folder, spec)
        except NotBegun:  # the file is there before the sweep is written in it
            return None
        for run in trials.runs():
            if run.state == RUNNING and run.worker.endswith(f":{first.pid}"):
                checkpoints = run_folder(folder / "runs" / "spec", run) / "checkpoints"
                if any(checkpoints.glob("step-*")):
                    return run
        return None

    victim = until(under_way, first)
    first.kill()  # SIGKILL
    first.join()
    code, output = finish(*second)
    assert code == 0, output
    assert "Resuming after step" in output
    runs = trials.runs()
    assert [run.state for run in runs] == [FINISHED] * 4
    assert {run.key: run.attempts for run in runs} == {
        run.key: 2 if run.key == victim.key else 1 for run in runs
    }
    # Every step of the run that two workers shared was recorded once.
    rows = read_metrics(run_folder(folder / "runs" / "spec", victim) / "metrics.csv")
    steps = [step for step, group, name, _ in rows if (group, name) == ("train", "loss")]
    assert steps == sorted(set(steps))
    assert steps[-1] == 90
    assert output.count("2/2") == 2


def test_workers_of_one_command_and_the_table(folder):
    spec = write(folder, more="keep = 1")
    call = [sys.executable, "-m", "gradlab", "sweep", "spec.toml", "--workers", "2"]
    done = subprocess.run(
        call,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    code, output = done.returncode, done.stdout
    assert code == 0, done.stderr
    assert output.count("2/2") == 2
    logs = sorted((folder / "runs" / "spec" / "logs").glob("*.log"))
    assert [log.name for log in logs] == ["worker-1.log", "worker-2.log"]
    assert sum(log.read_text().count("Finished:") for log in logs) == 4
    runs = trials_of(folder, spec).runs()
    assert [run.attempts for run in runs] == [1] * 4
    for run in runs:
        kept = run_folder(folder / "runs" / "spec", run)
        assert (kept / "encoder" / "model.safetensors").exists()
        assert not (kept / "checkpoints").exists()
        assert run.value == run.results["stsb_dev"]
    # Again: nothing is left to do, and the same is shown.
    code, again = run_here()
    assert (code, again.splitlines()[:4]) == (0, output.splitlines()[:4])
    code, status = run_here("--status")
    assert "4 runs: 4 finished, 0 running, 0 waiting, 0 failed, 0 diverged" in status
    # The specification in the folder is the sweep; what is asked for in addition is made of what is there.
    whole = read_spec(folder / "runs" / "spec" / "sweep.json")
    assert whole.points({}) == spec.points({})
    times = {run.key: (run_folder(folder / "runs/spec", run) / "metrics.csv").stat().st_mtime for run in runs}
    plain = (folder / "spec.toml").read_text()
    (folder / "spec.toml").write_text('evaluate = ["STS-B"]\n' + plain)
    shutil.copy(
        folder / "senteval/STS/STSBenchmark/sts-dev.csv", folder / "senteval/STS/STSBenchmark/sts-test.csv"
    )
    assert "4 finished" not in run_here("--status")[1]
    run_here()
    scored = trials_of(folder, read_spec(folder / "spec.toml")).runs()
    assert all("STS-B" in run.results and run.state == FINISHED for run in scored)
    assert times == {
        run.key: (run_folder(folder / "runs/spec", run) / "metrics.csv").stat().st_mtime for run in scored
    }


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


def test_callbacks_dry_run_and_divergence(folder, monkeypatch):
    write(folder)
    speed = budget.Speed(start=1.0, sentence=1e-3, measurement=0.0, evaluation=0.5, sentences=100)
    monkeypatch.setattr(budget, "measure", lambda config: speed)
    plain = (folder / "spec.toml").read_text()
    (folder / "spec.toml").write_text('callbacks = ["stop.py:stop"]\n' + plain)
    assert "there is no file 'stop.py'" in run_here("--dry-run")[1]
    (folder / "stop.py").write_text(CALLBACKS)
    _, words = run_here("--dry-run")
    assert "4 runs\n4 to do: 16 optimiser steps, about 1 min on" in words
    assert not (folder / "runs").exists()
    run_here()
    _, status = run_here("--status")
    assert "4 runs: 2 finished, 0 running, 0 waiting, 0 failed, 2 diverged" in status
    assert status.count(": at step 1") == 2
    assert "4 runs, 4 of them done already" in run_here("--dry-run")[1]


def test_ctrl_c_gives_the_run_back(folder):
    spec = write(folder, steps=3000)
    worker, log = work(folder, "log")
    until((folder / "runs" / "spec" / "study.db").exists, worker)
    until(lambda: list((folder / "runs" / "spec").glob("runs/*/checkpoints/step-*")), worker)
    worker.terminate()  # SIGTERM
    code, output = finish(worker, log)
    assert code == 130, output
    assert "Traceback" not in output
    assert [run.state for run in trials_of(folder, spec).runs()] == [WAITING] * 4


def test_failures_are_reported_and_retried(folder):
    write(folder)
    hidden = folder / "hidden"
    sentences = folder / "sentences.txt"
    sentences.rename(hidden)
    code, output = run_here()
    assert code == 0
    assert "4 runs failed; --status says why" in output
    _, status = run_here("--status")
    assert status.count("the training file 'sentences.txt' does not exist") == 4
    hidden.rename(sentences)
    assert "4 runs failed" in run_here()[1]  # not without being asked to
    code, output = run_here("--retry-failed")
    assert output.count("2/2") == 2


def test_results_are_of_one_training_file(folder):
    write(folder)
    assert run_here()[1].count("2/2") == 2
    moved, other = folder / "moved.txt", folder / "other.txt"
    shutil.copy(folder / "sentences.txt", moved)
    other.write_text(moved.read_text() + "one more sentence\n")
    assert "4 finished" in run_here("--status", "--set", "train_file=moved.txt")[1]
    for more in ([], ["--status"]):
        code, error = run_here(*more, "--set", "train_file=other.txt")
        assert (code, error.count("\n")) == (2, 0)
        assert "trained on another file than 'other.txt'" in error
    assert run_here("--output", "new", "--set", "train_file=other.txt")[1].count("2/2") == 2


def test_lines_for_bad_input(folder):
    write(folder, more="encoding = 3")
    for arguments, message in [
        (["--plan"], "encoding must be of type str"),
        (["--set", "batch=8"], "unknown setting 'batch'. Did you mean 'batch_size'?"),
    ]:
        code, error = run_here(*arguments)
        assert (code, message in error, error.count("\n")) == (2, True, 0)
    write(folder)
    plain = (folder / "spec.toml").read_text()
    (folder / "spec.toml").write_text('evaluate = ["MR"]\n' + plain)
    code, error = run_here()  # before anything is trained
    assert (code, "MR cannot be evaluated" in error, error.count("\n")) == (2, True, 0)
    write(folder)
    code, error = run_here("--status")
    assert (code, "no sweep has been begun" in error) == (2, True)
    assert not (folder / "runs").exists()
    shutil.copy(Path(__file__), folder / "file")
    assert run_here("--output", "file") == (2, "cannot make the folder 'file': File exists")

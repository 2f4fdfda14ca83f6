"""The command line: what it writes, prints and refuses."""

from __future__ import annotations

import csv
import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gradlab
from gradlab import cli
from gradlab.cli.commands import COMMANDS
from gradlab.losses.registry import taught_names


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run ``gradlab ...`` in this process, in an empty folder; returns (exit code, out, err)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gradlab", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call


def test_main_job(run, tmp_path: Path) -> None:
    code, out, _ = run("simulate", "--loss", "arccon", "--grid", "12")
    assert code == 0
    base = tmp_path / "figures" / "arccon_gradient_dissipation_grid-12"
    for suffix in (".png", ".csv", ".json"):
        assert base.with_name(base.name + suffix).stat().st_size > 100
        assert f"{base.name}{suffix}" in out
    with open(f"{base}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    result = gradlab.simulate("arccon", grid=12)
    np.testing.assert_array_equal([float(row["value"]) for row in rows], result.value.ravel())
    manifest = json.loads(Path(f"{base}.json").read_text())
    assert manifest["hyperparameters"] == dataclasses.asdict(result.loss)
    assert manifest["engine"] == "exact"
    assert "numpy" in manifest["versions"]


def test_file_names_tell_settings_apart(run, tmp_path: Path) -> None:
    run("simulate", "--loss", "infonce", "--grid", "4", "--set", "temperature=0.1", "--sigma-neg", "0.2")
    run(
        "simulate",
        "--loss",
        "infonce",
        "--grid",
        "4",
        "--engine",
        "monte_carlo",
        "--batches",
        "9",
        "--seed",
        "3",
    )
    names = sorted(path.name for path in (tmp_path / "figures").glob("*.csv"))
    assert names == [
        "infonce_gradient_dissipation_monte_carlo_grid-4_batches-9_seed-3.csv",
        "infonce_gradient_dissipation_temperature-0.1_grid-4_sigma_neg-0.2.csv",
    ]


def test_nothing_is_overwritten_in_silence(run, tmp_path: Path) -> None:
    arguments = ("simulate", "--loss", "mpt", "--grid", "3", "--output", "out")
    assert "Wrote" in run(*arguments)[1]
    code, out, _ = run(*arguments)
    assert code == 0
    assert "Replaced" in out
    manifest = tmp_path / "out" / "mpt_gradient_dissipation_grid-3.json"
    manifest.write_text("{}")
    code, _, err = run(*arguments)
    assert code == 2
    assert "--overwrite" in err
    assert run(*arguments, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "--loss", "arcon"), "Did you mean 'arccon'"),
        (("simulate", "--loss", "infonce", "--set", "temperature=warm"), "must be a number"),
        (("simulate", "--loss", "infonce", "--set", "temperature"), "NAME=VALUE"),
        (("simulate", "--loss", "infonce", "--grid", "1"), "grid"),
        (("simulate", "--loss", "mpt", "--output", os.devnull), "cannot write"),
        (("verify", "--set", "temperature=1"), "--set needs --loss"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(run, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith("Error")]
    assert len(lines) == 1
    assert message in lines[0]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message", "help_of"),
    [
        (("train", "--modle", "m"), "unknown option '--modle'. Did you mean '--model'?", "train"),
        (("simulate", "--frobnicate"), "unknown option '--frobnicate'. Try", "simulate"),
        (("evaluate",), "--model and --data are missing.", "evaluate"),
        (("report",), "RUN... is missing.", "report"),
        (("simulate", "--grid", "many"), "'many' is not a valid integer", "simulate"),
        (("losses", "--format", "html"), "'html' is not one of", "losses"),
        (("losses", "mpt", "all"), "unexpected argument (all)", "losses"),
        (("simulat",), "figures. Did you mean 'simulate'?", ""),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    run, arguments: tuple[str, ...], message: str, help_of: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: ")
    assert message in err
    assert err.endswith(f"gradlab {help_of} --help'.\n".replace("  ", " "))


def interrupted(code: str, delay: float | None = None) -> tuple[bool, list[str]]:
    """Whether a shell sees exit code 130, and the lines on standard error, of Python code, sent SIGINT so long after it has printed something."""
    arguments = [sys.executable, "-c", code, "verify", "--loss", "infonce"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if delay is not None:
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=300)[1]
    # Where the interruption has passed through an extension module, Python ends by the signal itself.
    return process.returncode in (130, -signal.SIGINT), [line for line in err.split("\n") if line]


# Does something when main() begins to import a module.
WHEN_IMPORTED = """
import os, signal, sys, gradlab.cli
class Finder:
    def find_spec(self, name, *more):
        if name == {module!r}:
            {action}
sys.meta_path.insert(0, Finder())
gradlab.cli.main()
"""


def test_interrupted_early_is_one_line() -> None:
    code = WHEN_IMPORTED.format(module="gradlab.cli.commands", action="print('up', flush=True)")
    assert interrupted(code, delay=0.1) == (True, ["Interrupted."])


@pytest.mark.parametrize("module", ["click", "torch.nn"])
def test_interrupted_within_an_import_is_one_line(module: str) -> None:
    code = WHEN_IMPORTED.format(module=module, action="os.kill(os.getpid(), signal.SIGINT)")
    assert interrupted(code) == (True, ["Interrupted."])


def test_interrupted_is_exit_130_and_leaves_no_half_files(run, monkeypatch, tmp_path: Path) -> None:
    from gradlab.plotting import style

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    run("simulate", "--loss", "mpt", "--grid", "3", "--output", "first")
    monkeypatch.setattr(style, "save", interrupt)
    code, _, err = run("simulate", "--loss", "mpt", "--grid", "3")
    assert code == 130
    assert "Interrupted" in err
    assert not list((tmp_path / "figures").glob("*")) if (tmp_path / "figures").exists() else True


def test_verify(run) -> None:
    code, out, _ = run("verify", "--loss", "met", "--batch-size", "8", "--dim", "6")
    assert code == 0
    assert out.count("=") == 3
    assert len(run("verify", "--loss", "met", "--per-batch")[1].splitlines()) > 6


def test_verify_fails_a_loss_that_misses_its_declared_exactness(run, monkeypatch) -> None:
    from gradlab.losses.arccon import ArcCon

    monkeypatch.setattr(ArcCon, "ratio", lambda self, positive, summary: 1 + 0 * positive.chord)
    code, out, err = run("verify", "--loss", "arccon")
    assert code == 1
    assert "!" in out
    assert "misses its declared exactness" in err


def test_losses(run) -> None:
    code, out, _ = run("losses")
    assert code == 0
    names = [*gradlab.loss_names(), *taught_names()]
    for name in names:
        assert f"{name}: " in out
    assert "radians (10°)" in out
    table = run("losses", "--format", "markdown")[1].splitlines()
    assert len(table) == 2 + len(names)
    assert len({row.count("|") for row in table}) == 1
    assert r"\begin{tabular}" in run("losses", "--format", "latex", "--loss", "met")[1]
    assert "mining = hard: " in run("losses", "triplet(mining=hard)")[1]
    assert "losses = infonce, kl(temperature=0.1): " in run("losses", "sum(infonce, kl(temperature=0.1))")[1]
    assert "loss = infonce(temperature=0.02): " in run("losses", "model:gecko(temperature=0.02)")[1]


def test_importing_is_light() -> None:
    """Neither the package nor the help of the command line may import what only some need."""
    heavy = {
        "torch",
        "matplotlib",
        "pandas",
        "scipy.stats",
        "transformers",
        "sklearn",
        "sentence_transformers",
    }
    code = "import sys, gradlab, gradlab.cli; gradlab.loss_names(); gradlab.simulate; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not heavy & set(loaded)


def test_the_main_job_imports_neither_torch_nor_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from gradlab.cli import main; sys.argv = ['gradlab', 'simulate', '--loss', 'arccon', '--grid', '3']\n"
        "try: main()\nexcept SystemExit: print({'torch', 'pandas', 'matplotlib.pyplot'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize(("old", "new"), [("study", "studies.conjectures"), ("analyse", "studies.analyses")])
def test_commands_that_moved_name_their_successor(run, old: str, new: str) -> None:
    code, out, err = run(old, "--help")
    assert (code, out) == (2, "")
    assert err == f"Error: `gradlab {old}` is now `python -m {new}`, run in a checkout of gradlab\n"


def test_every_command_has_help_with_examples(run) -> None:
    for name in COMMANDS:
        code, out, _ = run(name, "--help")
        assert code == 0
        assert f"gradlab {name}" in out.replace("Usage: gradlab", "", 1), name
    code, out, _ = run("--version")
    assert gradlab.__version__ in out


def test_what_an_extra_brings_is_named_where_it_is_absent(tmp_path: Path) -> None:
    code = "import sys; sys.modules['safetensors'] = None; from gradlab.cli import main; main()"
    arguments = ["train", "--model", "m", "--train-file", "f", "--output", "o"]
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "this needs safetensors" in done.stderr
    assert "pip install '.[train]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    from gradlab.files import write_text

    path = write_text(tmp_path / "table.csv", "old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(
        gradlab.GradlabError, match=r"cannot write '.*table\.csv' \(No space left on device\)"
    ):
        write_text(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]
    assert path.read_bytes() == b"old"

"""The command line: what it writes, prints and refuses."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import numpy as np
import pandas
import pytest
from packaging.version import Version

import gradlab
from gradlab.cli.commands import COMMANDS, cli
from gradlab.cli.options import OutputFolder, given_options
from gradlab.errors import EXTRAS, GradlabError, require_package
from gradlab.integrations.mining import mine
from gradlab.losses.registry import taught_names
from gradlab.monitor.library_versions import OLDEST
from gradlab.sweep.launch import run_sweep
from gradlab.train import TrainConfig

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


@pytest.fixture
def run(shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    return shell


def test_main_job(run, tmp_path: Path) -> None:
    code, out, _ = run("simulate", "--loss", "arccon", "--grid", "12")
    assert code == 0
    base = "simulate/arccon_gradient_dissipation_grid-12"
    for suffix in (".png", ".csv", ".json"):
        assert (tmp_path / f"{base}{suffix}").stat().st_size > 100
        assert f"{base}{suffix}" in out
    result = gradlab.simulate("arccon", grid=12)
    np.testing.assert_array_equal(pandas.read_csv(f"{base}.csv")["value"], result.value.ravel())
    manifest = json.loads(Path(f"{base}.json").read_text())
    assert gradlab.get_loss(manifest["loss"]) == result.loss
    assert manifest["engine"] == "exact"
    assert "numpy" in manifest["versions"]


def test_commands_have_one_rule_for_folders_and_one_for_seeds() -> None:
    """A folder has the name of its command; a seed is 0 where nothing else is compared with it."""
    folders, seeds = {}, {}
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        for parameter in command.params:
            if isinstance(parameter.type, OutputFolder):
                folders[name] = parameter.default
            if parameter.name == "seed" and isinstance(parameter.default, int):
                seeds[name] = parameter.default
    assert folders == {name: name for name in folders}
    assert len(folders) == 6
    assert seeds.pop("evaluate") == 1111  # SentEval's, so that scores are those of papers
    assert set(seeds.values()) == {0}
    assert TrainConfig.seed == 42  # of transformers' Trainer, and of all committed runs


def test_cells_with_an_infinite_ratio_are_not_called_empty(run) -> None:
    """Where all of the negatives' mass is taken off as false, nothing pushes: an infinite ratio."""
    arguments = (
        "simulate",
        "--loss",
        "debiased(temperature=0.01)",
        "--quantity",
        "ratio",
        "--grid",
        "2",
    )
    assert np.isinf(gradlab.simulate("debiased(temperature=0.01)", "ratio", grid=2).value).any()
    assert "not finite" in run(*arguments)[1]


def test_nothing_is_overwritten_in_silence(run, tmp_path: Path) -> None:
    arguments = ("simulate", "--loss", "mpt", "--grid", "3", "--output", "out")
    assert "Wrote" in run(*arguments)[1]
    code, out, _ = run(*arguments)
    assert code == 0
    assert "Replaced" in out
    (tmp_path / "out" / "mpt_gradient_dissipation_grid-3.json").write_text("{}")
    code, _, err = run(*arguments)
    assert code == 2
    assert "--overwrite" in err
    assert run(*arguments, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("simulate --loss arcon", "Did you mean 'arccon'"),
        (f"simulate --loss mpt --output {os.devnull}", "cannot write"),
        ("verify --set temperature=1", "--set needs --loss"),
        ("train --modle m", "'--model'"),
        ("train --lr 1", "no such option '--lr'. Did you mean '--learning-rate'? Try"),
        ("train --learning_rate 1", "Did you mean '--learning-rate'? Try"),
        ("simulate --tau 1", "is given with it: --loss 'NAME(temperature=…)'. Try"),
        ("simulate --zzz 1", "no such option '--zzz'. Try"),
        ("atlas --from e5 --to mpt", "unknown loss 'e5'. Did you mean 'model:e5'? There are"),
        ("simulate --loss qwen3-embeding", "Did you mean 'model:qwen3'?"),
        ("report", "'RUN...' is missing. Try"),
        ("evaluate", "'--model' and '--eval-data' are missing. Try"),
        ("simulate arccon --loss mpt", "a loss is given by --loss"),
        ("simulat", "Did you mean 'simulate'?"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(run, arguments: str, message: str) -> None:
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: ")
    assert message in err


def test_interrupted_is_exit_130_and_leaves_no_half_files(run, monkeypatch, tmp_path: Path) -> None:
    from gradlab.plotting import style

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(style, "save", interrupt)
    code, _, err = run("simulate", "--loss", "mpt", "--grid", "3")
    assert code == 130
    assert "Interrupted" in err
    assert not list((tmp_path / "simulate").glob("*"))


def test_an_interrupted_import_of_click_is_one_line_and_exit_130() -> None:
    code = """
import sys

class Interruption:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interruption())
import gradlab.__main__
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "Interrupted.\n")


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
    assert all(f"{name}: " in out for name in names)


def test_the_help_of_no_command_loads_what_takes_long() -> None:
    code = """
import sys
from click.testing import CliRunner
from gradlab.cli.commands import cli
for name in cli.list_commands(None):
    assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0, name
    print(name, *sys.modules)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "torch", "pandas", "scipy", "transformers", "optuna", "matplotlib"}
    for line in process.stdout.splitlines():
        assert not heavy & set(line.split()), line.partition(" ")[0]


def test_importing_and_the_main_job_are_light(tmp_path: Path) -> None:
    """They import nothing that only some need."""
    code = """
import sys, gradlab, gradlab.cli
gradlab.loss_names(), gradlab.simulate
print(*sys.modules)
sys.argv = "gradlab simulate --loss arccon --grid 3".split()
try:
    gradlab.cli.main()
except SystemExit:
    print(*sys.modules)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    first, *_, last = (set(line.split()) for line in process.stdout.splitlines())
    optional = {
        "transformers",
        "sklearn",
        "sentence_transformers",
        "torch",
        "pandas",
        "matplotlib.pyplot",
    }
    assert not first & {*optional, "matplotlib", "scipy.stats"}
    assert "matplotlib" in last
    assert not last & optional


@pytest.mark.parametrize("name", ["evaluate", "inspect", "verify", "simulate", "audit"])
def test_every_seed_may_be_0_as_in_python(name: str) -> None:
    command = importlib.import_module(f"gradlab.cli.{name}").command
    (seed,) = [parameter for parameter in command.params if parameter.name == "seed"]
    assert seed.type.convert("0", None, None) == 0
    with pytest.raises(click.BadParameter):
        seed.type.convert("-1", None, None)


def test_a_command_repeats_the_options_that_it_was_given(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("GRADLAB_LOSSES", "")
    own = tmp_path / "own.py"
    own.touch()
    words = ["--loss-file", str(own), "--set", "a=1", "--set", "b=2", "--seed", "3"]
    command = cli.get_command(click.Context(cli), "inspect")
    with command.make_context("inspect", list(words)):
        options = given_options()
    assert sorted(options) == ["assignments", "loss_files", "seed"]
    assert options["loss_files"] + options["assignments"] + options["seed"] == words


def test_arguments_that_are_left_out_are_not_given() -> None:
    """Before version 8.2, click says that they come from the command line."""
    context = cli.get_command(click.Context(cli), "atlas").make_context("atlas", ["--models"])
    context.params["losses"] = ()
    context.set_parameter_source("losses", click.core.ParameterSource.COMMANDLINE)
    with context:
        assert sorted(given_options()) == ["models"]


def test_every_command_has_help_with_examples(run) -> None:
    for name in COMMANDS:
        code, out, _ = run(name, "--help")
        assert code == 0
        assert f"gradlab {name}" in out.replace("Usage: gradlab", "", 1), name
    code, out, _ = run("--version")
    assert gradlab.__version__ in out


def test_every_package_of_an_extra_is_known_where_it_may_be_missing():
    """By the names under which they are imported.

    What serves documentation and tests alone is imported nowhere else.
    """
    extras = PROJECT["optional-dependencies"]
    extra_of_package = {
        package: extra for extra, packages in EXTRAS.items() for package in packages
    }
    for extra in extras.keys() - {"docs", "test"}:
        names = [re.match(r"[\w-]+", text)[0].replace("-", "_") for text in extras[extra]]
        for name in (
            "sklearn" if package_name == "scikit_learn" else package_name
            for package_name in names
            if package_name != "gradlab"
        ):
            assert extra_of_package[name] == extra or (extra, name) == (
                "notebooks",
                "sentence_transformers",
            )


def test_every_package_that_is_imported_is_declared():
    """In the dependencies or in an extra; but for what only types or one platform need."""
    declared = {
        re.match(r"[\w-]+", text)[0].lower().replace("-", "_")
        for text in [
            *PROJECT["dependencies"],
            *itertools.chain(*PROJECT["optional-dependencies"].values()),
        ]
    } | {"sklearn", "PIL", "gradlab", "IPython"}  # scikit-learn, pillow; itself; runs a notebook
    declared |= {"lightning", "pytorch_lightning"}  # the trainer that a callback is given to
    imported = {
        (node.names[0].name if isinstance(node, ast.Import) else node.module).partition(".")[0]
        for file in Path(gradlab.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module)
    }
    assert imported - set(sys.stdlib_module_names) - declared == set()


def test_what_is_installed_is_not_refused_as_too_old() -> None:
    texts = [*PROJECT["dependencies"], *itertools.chain(*PROJECT["optional-dependencies"].values())]
    floors = [
        (name, Version(floor))
        for name, _, floor in (text.partition(">=") for text in texts)
        if name in OLDEST
    ]
    assert {name for name, _ in floors} == OLDEST.keys()
    assert all(floor >= Version(OLDEST[name]) for name, floor in floors)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        GradlabError, match=r"needs optuna, .* extra \[sweep\]: pip install '\.\[sweep\]'"
    ):
        require_package("optuna")
    with pytest.raises(ImportError, match="nowhere"):  # nothing that gradlab knows of
        require_package("nowhere")


@pytest.mark.parametrize(
    ("name", "function", "fewest"),
    [
        ("simulate", gradlab.simulate, 12),
        ("verify", gradlab.verify, 5),
        ("audit", gradlab.audit, 5),
        ("sweep", run_sweep, 4),
        ("evaluate", gradlab.evaluate, 6),
        ("inspect", gradlab.inspect, 8),
        ("mine", mine, 4),
        ("decompose", gradlab.decompose, 3),
    ],
)
def test_options_have_the_defaults_of_their_function(name, function, fewest) -> None:
    command = cli.get_command(click.Context(cli), name)
    parameters = inspect.signature(function).parameters
    defaults = {
        option.name: option.get_default(click.Context(command))
        for option in command.params
        if option.name in parameters
        and parameters[option.name].default is not inspect.Parameter.empty
        and not (option.required or option.multiple)
    }
    assert len(defaults) >= fewest
    assert defaults == {option: parameters[option].default for option in defaults}

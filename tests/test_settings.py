"""One declaration of a setting serves Python, the command line and files, with the same errors."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gradlab
from gradlab.cli.commands import cli
from gradlab.cli.options import mirrored
from gradlab.losses.registry import read_loss
from gradlab.settings import (
    Settings,
    call_text,
    check_names,
    parse_call,
    parse_settings,
    read_assignments,
    setting,
)
from gradlab.sweep import read_spec
from gradlab.train.augment import get_augmentation
from gradlab.train.config import TrainConfig

NEEDED = {"model": "m", "train_file": "f", "output": "o"}


@dataclasses.dataclass(frozen=True)
class Oven(Settings):
    """All kinds of settings."""

    heat: float = setting(1.5, "heat", rule="positive")
    tilt: float = setting(0.0, "tilt", rule="angle", unit="radians")
    share: float = setting(0.5, "share", at_least=0, below=1)
    trays: int = setting(2, "trays", at_least=1)
    timer: int | None = setting(None, "timer", at_least=1)
    fan: bool = setting(True, "fan")
    name: str = setting("oven", "name")
    mode: str = setting("bake", "mode", choices=("bake", "grill", "steam"))
    steps: tuple[float, ...] = setting((1.0, 2.0), "steps", above=0)
    tags: tuple[str, ...] = setting((), "tags")
    extra: dict[str, Any] = setting(factory=dict, text="extra")
    anything: Any = setting("x", "anything", rule="text")
    free: float = -1.0


def command(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert isinstance(result.exception, Exception)
    return str(result.exception)


def sweep(tmp_path: Path, line: str) -> None:
    file = tmp_path / "sweep.toml"
    base = 'model = "m"\ntrain_file = "f"\nsts = "s"'
    file.write_text(f'name = "s"\n[base]\n{base}\n{line}\n', encoding="utf-8")
    read_spec(file).check()


def test_a_bad_hyperparameter_is_told_alike_everywhere(tmp_path: Path) -> None:
    wrong = "temperature must be greater than 0, not -1.0"
    for way in (
        lambda: gradlab.get_loss("infonce", temperature=-1.0),
        lambda: gradlab.get_loss("infonce(temperature=-1)"),
        lambda: read_loss("infonce", {"temperature": "-1"}),
        lambda: gradlab.recombine(gate="infonce(temperature=-1)", weight="infonce", ratio=1),
        lambda: TrainConfig(**NEEDED, loss_settings={"temperature": -1.0}),
        lambda: sweep(tmp_path, "loss_settings.temperature = -1.0"),
    ):
        with pytest.raises(gradlab.GradlabError, match=re.escape(wrong)):
            way()
    for arguments in (
        ("simulate", "--loss", "infonce"),
        ("decompose", "infonce"),
        ("verify", "--loss", "infonce"),
    ):
        assert command(*arguments, "--set", "temperature=-1") == wrong


def test_every_kind_of_setting_is_read_from_text() -> None:
    texts = read_assignments(
        ["heat=2", "tilt = -0.5", "share=1e-2", "trays=3", "timer=null", "fan=False", "name=a=b", "mode=grill",
         "steps=0.5,1", 'tags=["a", "b"]', 'extra={"a": [1]}', "anything=1"]
    )  # fmt: skip
    assert Oven(**parse_settings(Oven, texts)) == Oven(
        2.0, -0.5, 0.01, 3, None, False, "a=b", "grill", (0.5, 1.0), ("a", "b"), {"a": [1]}, "1"
    )
    assert parse_settings(Oven, {"timer": "5", "tags": "a, b"}) == {"timer": 5, "tags": ("a", "b")}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("heat", value) for value in (0, float("nan"), float("inf"), True, None)),
        ("tilt", 10),
        *(("share", value) for value in (1.0, -0.1, "0.1")),
        *(("trays", value) for value in (1.5, False, 0)),
        ("timer", "1"),
        ("fan", 1),
        ("name", 1),
        ("mode", "gril"),
        ("steps", (1, -1)),
        ("steps", 3),
        ("extra", []),
    ],
)
def test_bad_values(name: str, value: object) -> None:
    with pytest.raises(gradlab.GradlabError) as caught:
        Oven(**{name: value})
    said = str(caught.value)
    assert said.startswith(f"{name} must be")
    assert repr(value[1] if isinstance(value, tuple) else value) in said
    assert ("Did you mean 'grill'?" in said) == (name == "mode")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("heat", "warm", "heat must be a number, not 'warm'"),
        ("trays", "2.5", "trays takes int, a whole number, not '2.5'"),
        ("fan", "1", "fan must be true or false, not '1'"),
        ("steps", "1,x", "steps takes numbers separated by commas, such as 0.3,1, not '1,x'"),
        ("extra", "a", "extra takes a JSON object, not 'a'"),
    ],
)
def test_bad_texts(name: str, text: str, message: str) -> None:
    with pytest.raises(gradlab.GradlabError) as caught:
        parse_settings(Oven, {name: text})
    assert str(caught.value) == message


def test_values_become_what_is_declared() -> None:
    made = Oven(heat=np.float32(2), trays=np.int64(3), steps=[1, 2], name=Path("a"), free="unchecked")  # type: ignore[arg-type]  # what users give
    assert (made.heat, type(made.heat), type(made.trays), made.steps, made.name) == (
        2.0,
        float,
        int,
        (1.0, 2.0),
        "a",
    )
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert dataclasses.replace(made, trays=4).trays == 4


def test_names_and_calls() -> None:
    with pytest.raises(gradlab.GradlabError, match=r"^unknown setting 'het'\. Did you mean 'heat'\?$"):
        check_names(Oven, ["het"])
    assert parse_call(" f ( a = g(b=1, c=2) , d='x' ) ") == ("f", {"a": "g(b=1, c=2)", "d": "x"})
    assert parse_call("f()") == ("f", {})
    assert parse_call("f(a, g(b=1, c=2))") == ("f", {"": "a, g(b=1, c=2)"})
    assert parse_call("f(g(b=1), d=2)") == ("f", {"": "g(b=1)", "d": "2"})
    for text in (
        "",
        "f(",
        "f(0.3)",
        "f(d=2, a)",
        "f(a=)",
        "f(a=1, a=2)",
        "f(a=1))",
        "(a=1)",
        "f(a-b=1)",
    ):
        with pytest.raises(gradlab.GradlabError, match="is not of the form"):
            parse_call(text)
    for given in ("a", "=1"):
        with pytest.raises(gradlab.GradlabError, match="NAME=VALUE"):
            read_assignments([given])


@pytest.mark.parametrize("make", [gradlab.get_loss, get_augmentation])
def test_objects_are_made_again_from_their_text(make: Callable[[str], Any]) -> None:
    text = "modified_mhe(margin=0.5, gate=one_view)" if make is gradlab.get_loss else "typos(rate=0.125)"
    assert call_text(make(text)) == text
    assert make(call_text(make(text))) == make(text)


def test_settings_know_of_no_loss() -> None:
    code = (
        "import sys, gradlab.settings, gradlab.settings.registry, gradlab.settings.objects\n"
        "print([name for name in sys.modules if name.startswith(('gradlab.losses', 'gradlab.train', 'numpy'))])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("first", ["gradlab.train(a=1)", "from gradlab.train import train"])
def test_rooms_are_functions_whichever_way_they_are_reached_first(first: str) -> None:
    code = f"""
import gradlab, inspect
try:
    {first}
except gradlab.GradlabError as error:
    assert "unknown setting 'a'" in str(error)
from gradlab.train import TrainConfig, train
assert gradlab.train.TrainConfig is TrainConfig and gradlab.train.train is train
assert inspect.signature(gradlab.train) == inspect.signature(train)
for room in (gradlab.train, gradlab.evaluate, gradlab.report):
    assert inspect.ismodule(room) and callable(room)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_options_mirror_a_function() -> None:
    def bake(heat: float = 1.5, trays: int | None = None, mode: str = "bake", fan: bool = False) -> None:
        """Bake.

        Args:
            heat: of the oven, see `Oven`,
                in °C.
            trays: their number.
            mode, fan: how.

        Raises:
            GradlabError: never.
        """

    options = mirrored(bake, "heat", "trays", "mode", "fan")(lambda: None).__click_params__[::-1]
    assert [one.opts for one in options] == [["--heat"], ["--trays"], ["--mode"], ["--fan"]]
    assert [one.default for one in options] == [1.5, None, "bake", False]
    assert [one.type.name for one in options] == ["float", "integer range", "text", "boolean"]
    assert [one.help for one in options] == ["Of the oven, see Oven, in °C.", "Their number.", "How.", "How."]

"""One declaration of a setting serves Python, the command line and files, with the same errors."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.settings import (
    Settings,
    check_names,
    parse_call,
    parse_settings,
    read_assignments,
    setting,
)


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


def test_every_kind_of_setting_is_read_from_text() -> None:
    texts = read_assignments(
        [
            "heat=2", "tilt = -0.5", "share=1e-2", "trays=3", "timer=null", "fan=False", "name=a=b",
            "mode=grill", "steps=0.5,1", 'tags=["a", "b"]', 'extra={"a": [1]}', "anything=1",
        ]
    )  # fmt: skip
    assert Oven(**parse_settings(Oven, texts)) == Oven(
        2.0, -0.5, 0.01, 3, None, False, "a=b", "grill", (0.5, 1.0), ("a", "b"), {"a": [1]}, "1"
    )
    assert parse_settings(Oven, {"timer": "5", "tags": "a, b"}) == {"timer": 5, "tags": ("a", "b")}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("heat", value) for value in (0, float("nan"), float("inf"), True, None)),
        *(("share", value) for value in (1.0, -0.1, "0.1")),
        *(("trays", value) for value in (1.5, False, 0)),
        ("fan", 1),
        ("mode", "gril"),
        ("steps", (1, -1)),
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
    ("name", "text"),
    [("heat", "warm"), ("trays", "2.5"), ("fan", "1"), ("steps", "1,x"), ("extra", "a")],
)
def test_bad_texts(name: str, text: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=rf"^{name} (must be|takes) .*, not '{text}'$"):
        parse_settings(Oven, {name: text})


def test_values_become_what_is_declared() -> None:
    settings: dict[str, Any] = {
        "heat": np.float32(2),
        "trays": np.int64(3),
        "steps": [1, 2],
        "name": Path("a"),
    }
    oven = Oven(**settings, free="unchecked")  # type: ignore[arg-type]  # what users give
    expected = {"heat": 2.0, "trays": 3, "steps": (1.0, 2.0), "name": "a"}
    for name, value in expected.items():
        assert (getattr(oven, name), type(getattr(oven, name))) == (value, type(value))
    assert pickle.loads(pickle.dumps(oven)) == copy.deepcopy(oven) == oven
    assert dataclasses.replace(oven, trays=4).trays == 4


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (" f ( a = g(b=1, c=2) , d='x' ) ", {"a": "g(b=1, c=2)", "d": "x"}),
        ("f()", {}),
        ("f(a, g(b=1, c=2))", {"": "a, g(b=1, c=2)"}),
        ("f(g(b=1), d=2)", {"": "g(b=1)", "d": "2"}),
    ],
)
def test_calls_are_read(text: str, arguments: dict[str, str]) -> None:
    assert parse_call(text) == ("f", arguments)


@pytest.mark.parametrize(
    "text", ["", "f(", "f(0.3)", "f(d=2, a)", "f(a=)", "f(a=1, a=2)", "f(a=1))", "f(a-b=1)"]
)
def test_bad_calls(text: str) -> None:
    with pytest.raises(gradlab.GradlabError, match="is not of the form"):
        parse_call(text)


def test_bad_names_and_assignments() -> None:
    with pytest.raises(
        gradlab.GradlabError, match=r"^unknown setting 'het'. Did you mean 'heat'\? Oven has: "
    ):
        check_names(Oven, ["het"])
    for assignment in ("a", "=1"):
        with pytest.raises(gradlab.GradlabError, match="NAME=VALUE"):
            read_assignments([assignment])


FIRST = """
import inspect, sys
for first in ("gradlab.train(a=1)", "from gradlab.train import train"):
    for name in [name for name in sys.modules if name.startswith("gradlab")]:
        del sys.modules[name]
    import gradlab
    try:
        exec(first)
    except gradlab.GradlabError as error:
        assert "unknown setting 'a'" in str(error)
    from gradlab.train import TrainConfig, train
    assert gradlab.train.TrainConfig is TrainConfig and gradlab.train.train is train
    assert inspect.signature(gradlab.train) == inspect.signature(train)
    for room in (gradlab.train, gradlab.evaluate, gradlab.report):
        assert inspect.ismodule(room) and callable(room)
"""


def test_rooms_are_functions_whichever_way_they_are_reached_first() -> None:
    assert subprocess.run([sys.executable, "-c", FIRST], check=False).returncode == 0

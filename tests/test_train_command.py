"""gradlab train at the shell: options become configuration, bad input one line and exit code 2."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

import pytest

from gradlab.cli.train import command
from gradlab.train import TrainConfig
from tests.train_helpers import same_weights, small_config, write_sentences, write_stsb


@pytest.fixture
def run(shell):
    return functools.partial(shell, "train")


def config_of(folder: Path) -> TrainConfig:
    return TrainConfig.from_dict(json.loads((folder / "manifest.json").read_text())["config"])


def test_options_become_the_configuration(bert, tmp_path, run):
    expected = TrainConfig(
        model=str(bert), train_file=str(write_sentences(tmp_path)), output=str(tmp_path / "run"),
        max_steps=4, batch_size=8, max_length=16, eval_data=str(write_stsb(tmp_path)), eval_every=2,
        pooler="mean", held_out=0.1, analysis_batch=8, precision="bfloat16", device="cpu",
        learning_rate=1e-4, dropout=0.2, loss="arccon",
        loss_settings={"temperature": 0.1, "margin": 0.2},
    )  # fmt: skip
    options = ["--set", "temperature=0.1", "--set", "margin=0.2"]
    for field in dataclasses.fields(TrainConfig):
        value = getattr(expected, field.name)
        if field.name != "loss_settings" and value != field.default:
            options += [f"--{field.name.replace('_', '-')}", value]
    code, out, err = run(*options)
    assert code == 0, err
    assert "Trained 4 steps; encoder in" in out
    assert config_of(tmp_path / "run") == expected
    finished = (tmp_path / "run" / "manifest.json").read_bytes()
    code, resumed, err = run("--resume", "--output", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "nothing is left to train" in resumed
    assert resumed.splitlines()[1:] == out.splitlines()[1:]  # the same scores
    assert (tmp_path / "run" / "manifest.json").read_bytes() == finished
    # Again from the manifest, into another folder: the same run.
    code, _, err = run("--config", tmp_path / "run" / "manifest.json", "--output", tmp_path / "b")
    assert code == 0, err
    assert same_weights(tmp_path / "run", tmp_path / "b")


def test_a_recipe_beside_a_manifest_is_refused(bert, tmp_path, run):
    config = small_config(bert, tmp_path)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"config": config.to_dict()}))
    code, _, err = run("--config", manifest, "--output", tmp_path / "b", "--recipe", "simcse")
    assert code == 2
    assert "a recipe fills in what is not given, but the configuration has every setting" in err


def test_every_setting_has_an_option():
    options = {name for parameter in command.params for name in parameter.opts}
    for item in dataclasses.fields(TrainConfig):
        assert {"loss_settings": "--set"}.get(
            item.name, f"--{item.name.replace('_', '-')}"
        ) in options


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "margin=0.3"], {"temperature": 0.1, "margin": 0.3}),
        (["--loss", "met", "--set", "margin=0.3"], {"margin": 0.3}),
        (["--set", "preset=roberta"], {"preset": "roberta"}),
    ],
)
def test_settings_of_the_loss_add_to_those_of_the_configuration(
    bert, tmp_path, run, options, expected
):
    settings = {
        "loss": "modified_mhe",
        "loss_settings": {"temperature": 0.1, "margin": 0.2},
        "max_steps": 1,
    }
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(small_config(bert, tmp_path, **settings).to_dict()))
    code, _, err = run("--config", file, *options)
    assert code == 0, err
    assert config_of(tmp_path / "run").loss_settings == expected
    assert run("--resume", "--output", tmp_path / "run", *options)[0] == 0

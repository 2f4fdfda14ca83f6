"""The configuration: round trip, types and ranges."""

from __future__ import annotations

import dataclasses
import json

import pytest

from gradlab import GradlabError
from gradlab.train import TrainConfig
from gradlab.train.schedule import learning_rate

NEEDED = {"model": "m", "train_file": "f", "output": "o"}


def test_json_round_trip(tmp_path):
    config = TrainConfig(**NEEDED, loss="arccon", loss_settings={"temperature": 0.1}, trackers=("tensorboard",),
                         max_steps=7, dropout=0.2)  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(config.to_dict()))
    assert TrainConfig.from_json(tmp_path / "c.json") == config
    assert set(config.to_dict()) == {item.name for item in dataclasses.fields(TrainConfig)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rat": 1}, "unknown setting 'learning_rat'.*Did you mean 'learning_rate'"),
        ({"batch_size": 8.5}, "batch_size must be of type int, not 8.5"),
        ({"batch_size": True}, "batch_size must be of type int"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"seed": None}, "seed must be of type int, not None"),
        ({"max_steps": "3"}, "max_steps must be of type int or null"),
        ({"held_out": 1}, "held_out must be less than 1"),
        ({"dropout": 1.0}, "dropout must be less than 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be at least 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be less than infinity"),
        ({"pooler": "clss"}, "pooler must be one of.*Did you mean 'cls'"),
        ({"precision": "float16"}, "precision must be one of auto, float32, bfloat16"),
        ({"compile": 1}, "compile must be of type bool"),
        ({"trackers": ["tensorboards"]}, "unknown tracker 'tensorboards'"),
    ],
)
def test_bad_settings_are_refused_in_one_line(change, message):
    with pytest.raises(GradlabError, match=message) as caught:
        TrainConfig.from_dict(NEEDED | change)
    assert "\n" not in str(caught.value)


def test_types_are_checked_before_a_recipe_reckons_with_them():
    content = {"model": "m", "train_file": "f", "output": "o", "recipe": "esimcse", "backbone": "bert-base"}
    with pytest.raises(GradlabError, match="batch_size must be of type int, not '64'"):
        TrainConfig.from_dict({**content, "batch_size": "64"})


def test_missing_and_unreadable_configurations(tmp_path):
    with pytest.raises(GradlabError, match="lacks 'train_file'"):
        TrainConfig.from_dict({"model": "m", "output": "o"})
    with pytest.raises(GradlabError, match="cannot read the configuration"):
        TrainConfig.from_json(tmp_path / "absent.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(GradlabError, match="no JSON object"):
        TrainConfig.from_json(tmp_path / "list.json")


def test_an_unknown_loss_is_refused_when_a_configuration_is_made_but_a_finished_run_of_one_still_opens():
    with pytest.raises(GradlabError, match=r"^unknown loss 'infonc'; .* Did you mean 'infonce'\?$"):
        TrainConfig(**NEEDED, loss="infonc")
    recorded = TrainConfig(**NEEDED, batch_size=8).to_dict() | {"loss": "mine", "loss_settings": {"a": 1}}
    opened = TrainConfig.of_run(recorded)
    assert (opened.loss, opened.loss_settings, opened.batch_size) == ("mine", {"a": 1}, 8)
    assert opened.to_dict() == recorded


def test_an_unknown_argument_gets_the_nearest_name():
    with pytest.raises(
        GradlabError, match=r"^unknown setting 'learning_rte'\. Did you mean 'learning_rate'\?$"
    ):
        TrainConfig(**NEEDED, learning_rte=1)


def test_whole_numbers_serve_as_floats_and_paths_as_names(tmp_path):
    config = TrainConfig(model=tmp_path, train_file="f", output="o", learning_rate=1)
    assert isinstance(config.learning_rate, float)
    assert config.model == str(tmp_path)


def test_differences_name_what_a_resumed_run_may_not_change():
    config = TrainConfig(**NEEDED)
    assert config.differences(dataclasses.replace(config, output="elsewhere", keep=5)) == []
    assert config.differences(dataclasses.replace(config, seed=1)) == ["seed: 42, not 1"]


@pytest.mark.parametrize(
    ("schedule", "warmup", "expected"),
    [
        ("linear", 0, [1, 0.75, 0.5, 0.25]),
        ("linear", 2, [0, 0.5, 1, 0.5]),
        ("constant", 2, [0, 0.5, 1, 1]),
        ("cosine", 0, [1, 0.8535533905932737, 0.5, 0.14644660940672627]),
    ],
)
def test_learning_rate_by_step(schedule, warmup, expected):
    config = TrainConfig(**NEEDED, schedule=schedule, warmup_steps=warmup, learning_rate=2.0)
    rates = [learning_rate(config, step, 4) for step in range(4)]
    assert rates == pytest.approx([2 * factor for factor in expected], abs=1e-15)

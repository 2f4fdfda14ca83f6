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
    ("change", "named"),
    [
        ({"learning_rat": 1}, "learning_rate"),
        ({"batch_size": 8.5}, "batch_size"),
        ({"max_steps": "3"}, "max_steps"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"pooler": "clss"}, "Did you mean 'cls'"),
        ({"trackers": ["tensorboards"]}, "Did you mean 'tensorboard'"),
        ({"queue_initial": 3}, "queue_size"),
        ({"queue_ages": "0:3"}, "queue_size"),
        ({"in_batch_negatives": False}, "queue_size"),
        ({"momentum": 0.9, "momentum_use": "queue"}, "queue_size"),
        ({"momentum": 1.5}, "momentum must be at most 1"),
        ({"keys_gradient": True}, "momentum"),
        ({"keys_gradient": True, "momentum": 0.9, "momentum_use": "queue", "queue_size": 8}, "momentum_use"),
        ({"chunk_size": 4, "fgsm": 1e-3}, "chunk_size"),
        ({"augment": "subword_repetitio"}, "Did you mean 'subword_repetition'"),
        ({"augment": "typos", "column": "a", "second_column": "b"}, "second_column"),
        ({"second_column": "b"}, "needs column"),
        ({"loss": "mask(infonce, by=guide)"}, "give guide"),
        ({"guide": "x"}, "mask"),
        ({"guide": "x", "loss": "mask(infonce, by=guide)", "queue_size": 8}, "queue_size"),
    ],
)
def test_bad_and_contradicting_settings_are_refused_in_one_line(change, named):
    with pytest.raises(GradlabError, match=named) as caught:
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
    with pytest.raises(GradlabError, match="is not a JSON object"):
        TrainConfig.from_json(tmp_path / "list.json")


def test_an_unknown_loss_is_refused_when_a_configuration_is_made_but_a_finished_run_of_one_still_opens():
    with pytest.raises(GradlabError, match=r"^unknown loss 'infonc'; .* Did you mean 'infonce'\?$"):
        TrainConfig(**NEEDED, loss="infonc")
    recorded = TrainConfig(**NEEDED, batch_size=8).to_dict() | {"loss": "mine", "loss_settings": {"a": 1}}
    opened = TrainConfig.of_run(recorded)
    assert (opened.loss, opened.loss_settings, opened.batch_size) == ("mine", {"a": 1}, 8)
    assert opened.to_dict() == recorded


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

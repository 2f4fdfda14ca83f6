"""The configuration: round trip, types and ranges."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gradlab import GradlabError
from gradlab.train import TrainConfig, train
from gradlab.train.optimiser import learning_rates
from tests.train_helpers import small_config

NEEDED = {"model": "m", "train_file": "f", "output": "o"}
COLUMNS = {"negative_columns": "c", "column": "a", "positive_column": "b"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"batch_size": "64", "recipe": "esimcse", "backbone": "bert-base"}, "a whole number"),
        ({"queue_initial": 3}, "queue_size"),
        ({**COLUMNS, "negative_columns": "c+d+c"}, "the column 'c' is named twice"),
        ({**COLUMNS, "negative_columns": "b"}, "the column 'b' is named twice"),
        ({"momentum": 0.9, "momentum_use": "queue"}, "queue_size"),
        ({"keys_gradient": True}, "momentum"),
        ({"chunk_size": 4, "fgsm": 1e-3}, "chunk_size"),
        ({"augment": "typos", "column": "a", "positive_column": "b"}, "positive_column"),
        ({"loss": "mask(infonce, by=guide)"}, "give guide"),
        ({"guide": "x"}, "mask"),
        ({"guide": "x", "loss": "mask(infonce, by=guide)", "queue_size": 8}, "queue_size"),
        (
            {"keys_gradient": True, "momentum": 0.9, "momentum_use": "queue", "queue_size": 8},
            "momentum_use",
        ),
        ({"loss": "vicreg", "in_batch_negatives": False, "queue_size": 8}, "in_batch_negatives on"),
        (COLUMNS | {"momentum": 0.99}, "no hard negatives"),
        (COLUMNS | {"loss": "vicreg"}, "whole views"),
    ],
)
def test_bad_and_contradicting_settings_are_refused_in_one_line(change, named):
    with pytest.raises(GradlabError, match=named):
        TrainConfig.from_dict(NEEDED | change)


def test_settings_of_earlier_versions_are_read_under_their_names_of_today():
    earlier = {"column": "a", "second_column": "b", "sts": "senteval", "open_shares": None}
    config = TrainConfig.from_dict(NEEDED | earlier)
    assert (config.positive_column, config.eval_data) == ("b", "senteval")
    with pytest.raises(GradlabError, match="open_shares no longer exists"):
        TrainConfig.from_dict(NEEDED | earlier | {"open_shares": "0.5"})


def test_numbers_of_numpy_become_those_of_json():
    config = TrainConfig.from_dict(NEEDED | {"loss_settings": {"temperature": np.float32(0.25)}})
    assert config.to_dict()["loss_settings"] == {"temperature": 0.25}


def test_a_recorded_run_opens_without_its_loss_or_guide():
    content = {"loss": "mine", "loss_settings": {"a": 1}, "guide": "x"}
    recorded = TrainConfig(**NEEDED, batch_size=8).to_dict() | content
    assert TrainConfig.of_run(recorded).to_dict() == recorded


@pytest.mark.parametrize(
    ("schedule", "warmup", "expected"),
    [
        ("linear", 0, [1, 0.75, 0.5, 0.25]),
        ("linear", 2, [0, 0.5, 1, 0.5]),
        ("constant", 2, [0, 0.5, 1, 1]),
        ("cosine", 0, [(1 + math.cos(math.pi * step / 4)) / 2 for step in range(4)]),
    ],
)
def test_learning_rate_by_step(schedule, warmup, expected):
    config = TrainConfig(**NEEDED, schedule=schedule, warmup_steps=warmup, learning_rate=2.0)
    rates = [2 * factor for factor in expected]
    assert learning_rates(config, 4) == pytest.approx(rates, abs=1e-15)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"momentum_end": 0.9}, "without momentum"),
        ({"head_rate": 2.0}, "without heads"),
        ({"momentum": 0.5, "momentum_end": 0.9, "momentum_schedule": "cosine"}, None),
        ({"momentum": 0.0, "momentum_dropout": False, "momentum_modules": "encoder"}, None),
        ({"pooler": "cls_mlp", "head_rate": 2.0, "pooler_activation": "none"}, None),
        ({"predictor_width": 8, "predictor_layers": 2, "epochs": 3, "length_groups": 3}, None),
        ({"recipe": "simcse", "backbone": "bert-base", "momentum_end": 0.9}, None),
        # Another value makes them idle.
        ({"momentum_end": 0.9, "momentum": 0.5}, "with momentum_schedule constant"),
        ({"pooler_activation": "none"}, "without pooler cls_mlp"),
        ({"predictor_width": 8, "predictor_layers": 1}, "with predictor_layers 1"),
        ({"epochs": 3, "max_steps": 5}, "beside max_steps"),
        ({"length_groups": 3, "chunk_size": 5}, "with chunks"),
    ],
)
def test_settings_without_effect_are_told(changes: dict, why: str | None) -> None:
    config = TrainConfig.from_dict(NEEDED | changes)
    assert config.without_effect == ([f"{next(iter(changes))} has no effect {why}"] if why else [])


def test_a_recipe_is_applied_or_refused() -> None:
    settings = {**NEEDED, "recipe": "simcse"}
    with pytest.raises(
        GradlabError, match=r"'simcse' is not applied here; give it to TrainConfig\.from_dict"
    ):
        TrainConfig(**settings)
    with pytest.raises(GradlabError, match="takes a TrainConfig, or settings by keyword"):
        train("infonce")
    with pytest.raises(GradlabError, match="a configuration has every setting"):
        train(TrainConfig(**NEEDED), recipe="simcse")
    assert TrainConfig.from_dict({**settings, "backbone": "bert-base"}).pooler == "cls_mlp"


@pytest.mark.parametrize("steps", [4, 5])
def test_a_warm_up_that_never_ends_is_refused(bert: Path, tmp_path: Path, steps: int) -> None:
    with pytest.raises(
        GradlabError, match=f"warmup_steps is 5, and the run has {steps} steps.*never reach 0.001"
    ):
        train(small_config(bert, tmp_path, max_steps=steps, warmup_steps=5))
    assert not (tmp_path / "run").exists()


def test_settings_that_no_longer_exist_are_left_out_if_they_were_off():
    """As in the manifests of earlier versions."""
    settings = {"model": "-", "train_file": "-", "output": "-"}
    config = TrainConfig.from_dict(
        settings | {"open_shares": None, "open_shares_use": "random", "seed": 3}
    )
    assert config.seed == 3
    with pytest.raises(GradlabError, match=r"open_shares no longer exists; .* commit in their"):
        TrainConfig.from_dict(settings | {"open_shares": "shares.csv"})

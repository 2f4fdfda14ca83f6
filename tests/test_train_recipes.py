"""Recipes: the papers' numbers, what comes before them, and what a run records of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from gradlab.cli.train import command
from gradlab.encoder.model import Encoder
from gradlab.losses.registry import get_loss
from gradlab.monitor.metrics import read_metrics
from gradlab.monitor.verdicts.failures import FailureWatch
from gradlab.train import TrainConfig, train
from gradlab.train.recipes import BACKBONES, backbone_of, recipe, recipe_names, recipe_table
from tests.test_verdicts import history_of
from tests.tiny_models import make_roberta, make_sentences
from tests.train_helpers import recorded, small_config, write_sentences

NEEDED = {"model": "m", "train_file": "f", "output": "o"}
# Li et al. (2024), Tables 4 and 5, by row: batch size, learning rate, margin, temperature, ratio.
ROWS = {
    ("bert-base", "modified_mhe"): (128, 1e-5, 0.30, 0.05, 1.75),
    ("bert-base", "modified_mhs"): (128, 1e-5, 0.30, None, 1.75),
    ("bert-base", "modified_barlow_twins"): (128, 1e-5, 0.30, 0.05, 1.50),
    ("bert-base", "modified_vicreg"): (128, 1e-5, 0.30, 0.05, 1.50),
    ("roberta-base", "modified_mhe"): (512, 1e-5, 0.30, 0.05, 1.25),
    ("roberta-base", "modified_mhs"): (512, 1e-5, 0.27, None, 1.00),
    ("roberta-base", "modified_barlow_twins"): (512, 1e-5, 0.37, 0.05, 1.25),
    ("roberta-base", "modified_vicreg"): (512, 1e-5, 0.37, 0.05, 1.25),
}


def resolved(name, backbone, **changes):
    return TrainConfig.from_dict(NEEDED | {"recipe": name, "backbone": backbone} | changes)


@pytest.mark.parametrize(("backbone", "name"), ROWS)
def test_unified_recipe_has_the_rows_of_tables_4_and_5(backbone, name):
    config = resolved("unified", backbone, loss=name)
    assert (config.epochs, config.pooler) == (1, "cls_mlp")
    loss = get_loss(config.loss, **config.loss_settings)
    values = (
        config.batch_size,
        config.learning_rate,
        loss.margin,
        getattr(loss, "temperature", None),
    )
    assert (*values, loss.static_ratio) == ROWS[backbone, name]


# Gao et al. (2021); Wu et al. (2022), section 4.2 and Table 11; Cao et al. (2022), section 4.1 and
# Tables 4 and 9.
NUMBERS = {
    ("simcse", "bert-base"): {"batch_size": 64, "learning_rate": 3e-5},
    ("simcse", "bert-large"): {"batch_size": 64, "learning_rate": 1e-5},
    ("simcse", "roberta-base"): {"batch_size": 512, "learning_rate": 1e-5},
    ("simcse", "roberta-large"): {"batch_size": 512, "learning_rate": 3e-5},
    ("esimcse", "bert-base"): {
        "learning_rate": 3e-5, "dropout": 0.1, "batch_size": 64, "queue_size": 160,
        "momentum": 0.995, "momentum_dropout": False, "momentum_use": "queue",
        "in_batch_negatives": True, "eval_every": 125, "augment": "subword_repetition(rate=0.32)",
        "loss_settings": {"temperature": 0.05},
    },
    ("esimcse", "bert-large"): {"learning_rate": 1e-5, "dropout": 0.15},
    ("esimcse", "roberta-base"): {"learning_rate": 1e-5, "dropout": 0.1},
    ("esimcse", "roberta-large"): {"learning_rate": 1e-5, "dropout": 0.15},
    ("mocose", "bert-base"): {
        "learning_rate": 3e-5, "batch_size": 64, "weight_decay": 1e-6, "eval_every": 100,
        "queue_size": 512, "queue_initial": 128, "in_batch_negatives": False, "momentum": 0.75,
        "momentum_end": 0.95, "momentum_schedule": "cosine", "momentum_dropout": True,
        "projection_layers": 1, "predictor_layers": 2, "fgsm": 5e-9,
        "momentum_modules": "encoder,head,projection",
    },
    ("mocose", "bert-large"): {"learning_rate": 1e-5, "batch_size": 32},
}  # fmt: skip


@pytest.mark.parametrize("key", NUMBERS)
def test_numbers_are_those_of_the_papers(key):
    config = resolved(*key)
    assert {name: getattr(config, name) for name in NUMBERS[key]} == NUMBERS[key]


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("name", recipe_names())
def test_every_value_is_a_setting_with_a_source(name, backbone):
    choices, config = recipe(name, backbone), resolved(name, backbone)
    for setting, choice in choices.items():
        assert getattr(config, setting) == choice.value
        assert choice.source in recipe_table(name, choices)
    assert TrainConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (
            "mocose",
            {"queue_size": 1024, "in_batch_negatives": True, "fgsm": 0.0},
            {"momentum_end": 0.95},
        ),
        ("simcse", {"loss": "met"}, {"loss_settings": {}}),
        ("simcse", {"loss_settings": {"temperature": 0.1}}, {}),
        ("esimcse", {"batch_size": 50}, {"queue_size": 125}),  # which follows the batch
        ("esimcse", {"batch_size": 50, "queue_size": 7}, {}),
        (
            "unified",
            {"loss": "modified_mhs(margin=0.2)"},
            {"loss_settings": {"static_ratio": 1.75}},
        ),
        ("unified", {"loss": "modified_mhs", "loss_settings": {"preset": "as_published"}}, {}),
        (
            "unified",
            {"loss": "modified_mhs", "loss_settings": {"static_ratio": 1.5}},
            {"loss_settings": {"margin": 0.30, "static_ratio": 1.5}},
        ),
    ],
)
def test_what_is_given_comes_before_the_recipe(name, changes, expected):
    config = resolved(name, "bert-base", **changes)
    for setting, value in (changes | expected).items():
        assert getattr(config, setting) == value


def test_backbone_is_read_from_the_model(bert, tmp_path):
    assert backbone_of(str(bert)) == "bert-base"
    assert backbone_of(str(make_roberta(tmp_path / "roberta"))) == "roberta-base"
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "config.json").write_text(
        '{"model_type": "xlm-roberta", "hidden_size": 1024}'
    )
    assert backbone_of(str(tmp_path / "large")) == "roberta-large"


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_train_at_the_shell_and_are_recorded(bert, tmp_path, name):
    file = write_sentences(tmp_path)
    invocation = CliRunner().invoke(command, [
        "--recipe", name, "--model", str(bert), "--train-file", str(file),
        "--output", str(tmp_path / "run"), "--max-steps", "3", "--batch-size", "10",
        "--max-length", "16", "--device", "cpu", "--log-every", "1",
        *(["--loss", "modified_mhs", "--set", "margin=0.31"] if name == "unified" else []),
    ])  # fmt: skip
    assert invocation.exit_code == 0, invocation.output
    config = json.loads((tmp_path / "run" / "manifest.json").read_text())["config"]
    assert (config["recipe"], config["backbone"], config["batch_size"]) == (name, "bert-base", 10)
    assert config["pooler"] == "cls_mlp"
    if name == "unified":
        assert config["loss_settings"] == {"margin": 0.31, "static_ratio": 1.75}
    if name == "esimcse":
        assert config["queue_size"] == 25


def failures_of(history, config=None):
    return FailureWatch(None, config).restart(history).failures


def cosines_of(positives, negatives):
    return history_of(None, 20, positive_cosine=positives, negative_cosine=negatives)


@pytest.mark.parametrize(
    ("positives", "negatives", "step"),
    [
        # Healthy: views of one sentence are and stay closer than those of different ones.
        ([0.945, 0.93, 0.9, 0.9, 0.9], [0.925, 0.8, 0.5, 0.3, 0.2], None),
        # As measured of two equal branches, whose collapse oscillates.
        ([0.945, 0.964, 0.988, 0.759, 0.988, 0.95], [0.925, 0.964, 0.988, 0.697, 0.987, 0.931], 80),
        # New heads tell nothing apart at first, and then they do.
        ([0.0, 0.2, 0.3, 0.6, 0.7, 0.7, 0.7, 0.7], [0.0, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1], None),
        # They never do.
        ([0.0, 0.3, 0.3, 0.2, 0.2, 0.2], [0.0, 0.3, 0.3, 0.2, 0.2, 0.2], 100),
        ([0.0, 0.3, 0.3, 0.2, 0.2], [0.0, 0.3, 0.3, 0.2, 0.2], None),  # not yet
        # They do, and then no longer.
        ([0.0, 0.5, 0.3, 0.2, 0.2], [0.0, 0.1, 0.3, 0.2, 0.2], 80),
        ([], [], None),
    ],
)
def test_views_that_are_no_closer_than_strangers(positives, negatives, step):
    history, config = cosines_of(positives, negatives), TrainConfig(**NEEDED).to_dict()
    failures = failures_of(history, config)
    assert [failure.step for failure in failures] == ([step] if step else [])
    assert failures_of(history) == []  # pairs that are yet to be learned
    for later in range(120, 600, 20):  # what has been told stands
        history.add(later, "diagnostics", {"positive_cosine": 0.9, "negative_cosine": 0.1})
    assert failures_of(history, config) == failures


def test_a_short_run_that_never_told_views_apart_is_found_at_its_end():
    history = cosines_of([0.82, 0.83, 0.8, 0.8], [0.81, 0.83, 0.8, 0.8])  # steps 0 to 60
    config = TrainConfig(**NEEDED).to_dict()
    assert failures_of(history, config) == []  # nobody knows whether it is over
    history.total_steps = 90
    assert failures_of(history, config) == []
    history.total_steps = 60
    (failure,) = failures_of(history, config)
    assert (failure.step, failure.name) == (60, "collapse")


@pytest.mark.parametrize("held_out", [0.0, 0.2])
def test_spread_of_the_encoder_is_recorded_where_heads_hide_it(bert, tmp_path, held_out):
    """What the loss sees lies behind the heads; what is saved and evaluated lies before them."""
    common = {
        "max_steps": 1,
        "diagnostics_every": 1,
        "held_out": held_out,
        "dropout": 0.0,
        "analysis_batch": 20,
    }
    names = []
    for run, heads in (("plain", {}), ("heads", {"predictor_layers": 2, "pooler": "cls_mlp"})):
        train(small_config(bert, tmp_path, run, **common, **heads))
        rows = read_metrics(tmp_path / run / "metrics.csv")
        names.append({name for _, group, name, _ in rows if group != "histogram"})
    assert names[1] - names[0] == {"encoder_cosine", "encoder_rank"}
    if not held_out:
        encoder = Encoder.load(bert, max_length=16)
        order = np.random.default_rng([42, 1, 0]).permutation(200)[:8]
        vectors = encoder.encode([make_sentences(200)[i] for i in order], normalize=True).astype(
            float
        )
        cosines = (vectors @ vectors.T)[~np.eye(8, dtype=bool)]
        assert recorded(tmp_path / "heads", "encoder_cosine")[1] == pytest.approx(
            cosines.mean(), abs=1e-5
        )

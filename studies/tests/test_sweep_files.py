"""The sweeps that ship: `gradlab train` takes every run of each, at full size and light."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gradlab.sweep import configure, read_spec

FOLDER = Path(__file__).resolve().parents[1] / "sweeps"
NAMES = [f.relative_to(FOLDER).with_suffix("").as_posix() for f in sorted(FOLDER.rglob("*.toml"))]
TABLES = {
    "mocose-table-3": 6, "mocose-table-4": 12, "mocose-table-5": 7, "mocose-table-6a": 5,
    "mocose-table-6b": 4, "mocose-table-7": 20, "mocose-table-8": 5, "mocose-table-9": 5,
    "esimcse-tables-6-7": 4, "esimcse-table-8": 3, "esimcse-table-9": 8, "esimcse-table-10": 7,
    "esimcse-table-11": 5, "unified-two-stage": 3 * 16, "unified-two-stage-mhs": 16,
}  # fmt: skip


def spec_of(name, light=False):
    # Offline nothing can be asked of a model that is not here.
    return read_spec(FOLDER / f"{name}.toml", light).with_base({"backbone": "bert-base"})


def configurations(name):
    return {p.title(): configure({**p.settings, "seed": 1}) for p in spec_of(name).points({})}


# Sweeps of the evidence have one size.
SIZES = [(name, False) for name in NAMES] + [(name, True) for name in NAMES if "/" not in name]


@pytest.mark.parametrize(("name", "light"), SIZES)
def test_every_run_is_a_valid_one(name, light):
    evidence = "/" in name
    spec = spec_of(name, light)
    spec.check()
    points = spec.points({})
    assert len(points) > 1 or name == "evidence/precision"
    keys = [key for point in points for key in point.runs.values()]
    assert len(keys) == len(set(keys))
    if light:
        assert spec.base["max_steps"] <= (800 if name == "mocose-long" else 200)
        assert all(len(point.seeds) >= (1 if spec.stages else 3) for point in points)
    if evidence:
        half = name not in ("evidence/recipes", "evidence/collapse")
        assert spec.base["precision"] == ("bfloat16" if half else "float32")
        assert spec.base["clip"] == 0


@pytest.mark.parametrize(("name", "count"), TABLES.items())
def test_as_many_points_as_the_table_has(name, count):
    assert len(spec_of(name).points({})) == count


def test_the_second_stage_has_the_papers_grid():
    spec = spec_of("unified-two-stage")
    scores = {}
    for point in spec.points({}):
        score = point.settings["batch_size"] + point.settings["learning_rate"]
        scores |= dict.fromkeys(point.runs.values(), score)
    second = [point for point in spec.points(scores) if point.stage == 2]
    assert len(second) == 3 * 4 * 3 * 5
    best = {(point.settings["batch_size"], point.settings["learning_rate"]) for point in second}
    assert best == {(512, 5e-5)}
    of_loss = configure({**second[-1].settings, "seed": 1}).loss_settings
    assert of_loss == {"margin": 0.37, "temperature": 0.05, "static_ratio": 2.0}


def test_what_the_papers_say_is_what_runs():
    """Against numbers read off the papers' tables."""
    sizes = [(c.queue_size, c.queue_initial) for c in configurations("mocose-table-7").values()]
    assert sorted(sizes) == sorted(
        (q, q * quarters // 4) for q in (128, 256, 512, 1024, 4096) for quarters in (0, 1, 2, 4)
    )
    for config in configurations("mocose-table-8").values():
        assert (config.queue_size, config.queue_initial, config.batch_size) == (1024, 128, 256)
        assert not config.in_batch_negatives
    heads = configurations("mocose-table-4").values()
    layers = {(c.projection_layers, c.predictor_layers) for c in heads}
    assert layers == {(a, b) for a in range(4) for b in (1, 2, 3)}
    momenta = configurations("mocose-table-3").values()
    assert [c.momentum for c in momenta] == [0.5, 0.8, 0.85, 0.9, 0.95, 0.99]
    assert all(c.momentum_schedule == "constant" for c in momenta)
    fgsm = {name: c.fgsm for name, c in configurations("mocose-table-5").items()}
    assert fgsm == {name: 5e-9 if name == "FGSM" else 0 for name in fgsm}
    queues = [c.queue_size / c.batch_size for c in configurations("esimcse-table-11").values()]
    assert queues == [1, 1.5, 2, 2.5, 3]
    by_name = configurations("esimcse-tables-6-7")
    assert {name: (c.augment is not None, c.queue_size) for name, c in by_name.items()} == {
        "SimCSE": (False, 0), "word repetition": (True, 0),
        "momentum contrast": (False, 160), "ESimCSE": (True, 160),
    }  # fmt: skip
    shared = ("momentum", "momentum_use", "momentum_dropout", "momentum_modules")
    for name in (*shared, "in_batch_negatives"):
        assert getattr(by_name["momentum contrast"], name) == getattr(by_name["ESimCSE"], name)


@pytest.mark.parametrize(("step", "share"), [(1e-9, 0.51), (5e-9, 0.99), (1e-8, 1.0)])
def test_the_share_that_a_step_of_fgsm_changes_is_what_table_9_says(step, share):
    values = (0.045 * np.random.default_rng(0).standard_normal(200_000)).astype(np.float32)
    changed = np.mean(values + np.float32(step) != values)
    assert changed == pytest.approx(share, abs=0.01)
    words = f"{step:.0e}".replace("e-0", "e-")
    named = "all" if share == 1 else f"{100 * share:.0f} %"
    assert re.search(rf"{words} (changes )?{named}", spec_of("mocose-table-9").about)

"""What a sweep runs: files, grids, points, stages, keys."""

from __future__ import annotations

import itertools
import json

import pytest

from gradlab import GradlabError
from gradlab.sweep import known_runs, parse_spec, read_spec
from gradlab.sweep.flat_settings import configure, identify
from tests.fuzzing import as_json, check_read_or_refused, damaged_files, damaged_objects

BASE = {"model": "m", "train_file": "f", "eval_data": "d"}


def make_spec(**content):
    spec = parse_spec({"name": "s", "base": BASE, **content})
    spec.check()
    return spec


def keys(**content):
    return [key for point in make_spec(**content).points({}) for key in point.runs.values()]


def test_every_combination_of_grid_and_points_with_every_seed():
    spec = make_spec(
        seeds=[3, 1],
        grid={"batch_size": [8, 16], "loss_settings": {"temperature": [0.05, 0.1, 0.2]}},
        points=[{"label": "plain"}, {"label": "longer", "max_length": 64, "batch_size": 8}],
    )
    points = spec.points({})
    names = ("max_length", "batch_size", "loss_settings.temperature")
    settings = [tuple(point.settings.get(name) for name in names) for point in points]
    assert settings == list(itertools.product([None, 64], [8, 16], [0.05, 0.1, 0.2]))
    assert points[0].label == "plain, batch_size=8, loss_settings.temperature=0.05"
    assert all(list(point.runs) == [3, 1] for point in points)
    assert len({key for point in points for key in point.runs.values()}) == 24
    config = configure({**points[-1].settings, "seed": 1})
    assert (config.max_length, config.batch_size, config.seed) == (64, 16, 1)
    assert config.loss_settings == {"temperature": 0.2}
    assert parse_spec(json.loads(json.dumps(spec.to_dict()))) == spec


def test_a_point_may_have_seeds_and_tasks_of_its_own():
    points = [{"batch_size": 8, "seeds": [5], "evaluate": ["MR"]}, {"batch_size": 16}]
    first, second = make_spec(points=points, seeds=[1, 2], evaluate=["sts"]).points({})
    assert (list(first.runs), first.evaluate, first.varied) == ([5], ("MR",), {"batch_size": 8})
    assert (list(second.runs), second.evaluate) == ([1, 2], ("sts",))


def test_a_run_of_two_points_is_evaluated_as_any_of_them_asks_before_the_sweep_begins_too(tmp_path):
    spec = make_spec(points=[{"label": "one", "evaluate": ["MR"]}, {"label": "other"}])
    assert [run.point.evaluate for run in known_runs(spec, tmp_path)] == [("MR",)]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"batch_size": 64}, True),  # the default
        ({"eval_data": "elsewhere"}, True),
        ({"train_file": "g"}, True),
        ({"device": "cpu"}, True),
        ({"batch_size": 32}, False),
        ({"loss": "arccon"}, False),
        ({"model": "n"}, False),
        ({"seed": 2}, False),
        ({"loss_settings.temperature": 0.1}, False),
    ],
)
def test_keys_tell_what_trains_the_same(change, same):
    plain = {**BASE, "seed": 1}
    assert (identify(plain | change) == identify(plain)) == same


def test_keys_stay_as_they_are():
    """They are in the databases of sweeps that have begun."""
    assert keys(points=[{"batch_size": 32}]) == ["76e6edb5c78ce53a"]


@pytest.mark.parametrize(
    "content",
    [
        {"grid": {"train_file": ["a.txt", "b.txt"]}},
        {"grid": {"train_file": ["absent", "absent too"]}},
        {"grid": {"eval_data": ["d", "e"]}},
        {"grid": {"device": ["cpu", "cuda"]}},
        {"points": [{}, {"train_file": "b.txt"}]},
        {"stages": [{"train_file": ["a.txt", "b.txt"]}]},
    ],
)
def test_what_is_varied_counts_in_the_key(tmp_path, monkeypatch, content):
    """Also what does not count where it is the same for all runs."""
    monkeypatch.chdir(tmp_path)
    for file, text in (("a.txt", "one"), ("b.txt", "two")):
        (tmp_path / file).write_text(text)
    assert len(set(keys(**content))) == 2


def test_a_file_is_its_content_wherever_it_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, text in (("a.txt", "one"), ("b.txt", "two"), ("c.txt", "one")):
        (tmp_path / file).write_text(text)
    before = keys(grid={"train_file": ["a.txt", "b.txt"]})
    assert keys(grid={"train_file": ["c.txt", "b.txt"]}) == before
    (tmp_path / "a.txt").write_text("one more")
    assert keys(grid={"train_file": ["a.txt", "b.txt"]})[0] != before[0]


def test_stages_begin_from_the_best():
    spec = make_spec(
        seeds=[1, 2],
        grid={"loss": ["infonce", "arccon"]},
        stages=[
            {"batch_size": [8, 16], "max_length": [16, 32]},
            {"loss_settings.temperature": [0.05, 0.1]},
        ],
    )
    first = spec.points({})
    assert [point.stage for point in first] == [1] * 8
    # 16 and 32 have the best mean for infonce, though another point has the best single score.
    values = {(8, 16): (0.9, 0.1), (8, 32): (0.5, 0.5), (16, 16): (0.4, 0.7), (16, 32): (0.6, 0.58)}
    scores: dict[str, float | None] = {}
    for point in first[:4]:
        place = point.settings["batch_size"], point.settings["max_length"]
        scores |= dict(zip(point.runs.values(), values[place], strict=True))

    def varied(scores):
        return [point.varied for point in spec.points(scores) if point.stage == 2]

    best = {"loss": "infonce", "batch_size": 16, "max_length": 32}
    assert varied(scores) == [best | {"loss_settings.temperature": t} for t in (0.05, 0.1)]
    last = first[3].runs[2]
    # A seed is missing.
    assert varied({key: score for key, score in scores.items() if key != last}) == []
    # It failed: a point that lost a seed is not chosen.
    assert {(p["batch_size"], p["max_length"]) for p in varied(scores | {last: None})} == {(16, 16)}
    least = make_spec(direction="minimize", stages=[{"batch_size": [8, 16]}, {"max_length": [9]}])
    low = {
        key: float(p.settings["batch_size"]) for p in least.points({}) for key in p.runs.values()
    }
    assert least.points(low)[-1].settings["batch_size"] == 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"grid": {"batch_sise": [1]}}, "unknown setting 'batch_sise'.*Did you mean 'batch_size'"),
        ({"grid": {"loss_settings": [{"temperature": 0.1}]}}, "grid: .*list per setting"),
        ({"stages": [{"loss_settings": [{}, {"temperature": 0.1}]}]}, "stages: .*list per setting"),
        ({"seeds": [1, 1]}, "seeds must be different"),
        ({"points": [{"label": "hot", "loss_settings": {"temprature": 1}}]}, "hot.*'temprature'"),
        (
            {"stages": [{"batch_size": [8]}, {"max_length": [1]}]},
            "max_length must be a whole number",
        ),
        (
            {"points": [{"evaluate": ["MR"]}, {}], "evaluate": ["sts"], "metric": "sts"},
            "needs evaluate",
        ),
        ({"base": {"model": "m", "train_file": "f"}}, "needs the setting eval_data"),
        (
            {
                "base": {"model": "m", "train_file": "f"},
                "points": [{"eval_data": "d"}, {"batch_size": 8}],
                "evaluate": ["STS-B"],
                "metric": "train/loss",
            },
            "batch_size=8.*evaluate needs the setting eval_data",
        ),
        (
            {
                "base": {**BASE, "loss_settings": {"temperature": 0.05}},
                "grid": {"loss": ["infonce(temperature=0.03)", "infonce(temperature=0.5)"]},
            },
            r"temperature = 0.05 would override the temperature of infonce\(temperature=0.03\)",
        ),
        ({"callbacks": ["math:nothing"]}, "math has no 'nothing'"),
    ],
)
def test_bad_sweeps(content, message):
    with pytest.raises(GradlabError, match=message):
        make_spec(**content)


def test_sweeps_written_before_a_renaming_are_read():
    content = {"name": "a", "base": {"model": "m", "train_file": "f", "sts": "d"}}
    earlier = parse_spec({**content, "points": [{"column": "x", "second_column": "y"}]})
    (point,) = earlier.points({})
    assert (point.settings["eval_data"], point.settings["positive_column"]) == ("d", "y")
    assert parse_spec(earlier.to_dict()) == earlier


def test_development_data_may_be_varied():
    spec = make_spec(base={"model": "m", "train_file": "f"}, grid={"eval_data": ["d", "e"]})
    assert [point.settings["eval_data"] for point in spec.points({})] == ["d", "e"]


def test_files_and_light_versions(tmp_path):
    file = tmp_path / "heat.toml"
    file.write_text(
        'seeds = [1, 2]\n[base]\nmodel = "m"\ntrain_file = "f"\nsts = "d"\n'
        "[grid]\nbatch_size = [8, 16]\n"
        "[light]\nseeds = [1]\ngrid.batch_size = [8]\nbase.max_steps = 5\n"
    )
    spec, light = read_spec(file), read_spec(file, light=True)
    assert (spec.name, light.name) == ("heat", "heat-light")
    assert light.base == {**spec.base, "max_steps": 5}
    assert (len(spec.points({})), len(light.points({}))) == (2, 1)
    assert light.seeds == (1,)


def test_a_light_version_keeps_the_loss_settings_that_it_does_not_change():
    base = {**BASE, "loss": "circle", "loss_settings": {"scale": 7.0, "margin": 0.3}}
    content = {"name": "s", "base": base, "light": {"base": {"loss_settings": {"scale": 5.0}}}}
    (point,) = parse_spec(content, light=True).points({})
    assert configure(point.settings).loss_settings == {"scale": 5.0, "margin": 0.3}


def test_a_table_of_loss_settings_for_all_runs_stays_theirs():
    """A table that were kept as it is would be changed by every point that adds to it."""
    spec = make_spec(
        points=[{"loss": "arccon", "loss_settings": {"margin": 0.2}}, {"loss": "infonce"}]
    )
    spec = spec.with_base({"loss_settings": {"temperature": 0.1}})
    spec.check()
    assert [point.settings.get("loss_settings.margin") for point in spec.points({})] == [0.2, None]
    assert {point.settings["loss_settings.temperature"] for point in spec.points({})} == {0.1}
    assert "loss_settings" not in spec.base
    with pytest.raises(GradlabError, match=r"loss_settings\.margin is varied"):
        spec.with_base({"loss_settings": {"margin": 1}})


def test_damaged_sweeps_are_read_or_refused_in_one_line(tmp_path):
    """As TOML, and as the JSON that a sweep leaves in its folder."""
    spec = make_spec(
        seeds=[1, 2],
        grid={"learning_rate": [1e-5, 1e-4]},
        points=[{"label": "a", "loss": "arccon", "evaluate": []}],
        stages=[{"loss_settings": {"temperature": [0.1]}}],
    )
    path = tmp_path / "sweep.json"
    content = json.loads(json.dumps(spec.to_dict()))
    assert read_spec_of(path, content).to_dict() == spec.to_dict()

    def attempt(name, damaged):
        path.write_bytes(damaged)
        check_read_or_refused(lambda: read_spec(path).check(), name)

    for name, damaged in damaged_files(as_json(content).encode(), 30):
        attempt(name, damaged)
    for name, damaged in damaged_objects(content, 100):
        attempt(name, as_json(damaged).encode())
    path = tmp_path / "sweep.toml"
    toml = b'name = "a"\nseeds = [1]\n[base]\nmodel = "m"\ntrain_file = "f"\n[grid]\nseed = [1]\n'
    for name, damaged in damaged_files(toml, 30):
        attempt(name, damaged)


def read_spec_of(path, content):
    path.write_text(json.dumps(content))
    return read_spec(path)


def test_a_sweep_of_a_later_format_is_refused():
    with pytest.raises(GradlabError, match="has format 99, and this gradlab reads up to"):
        parse_spec({"name": "a", "format": 99})

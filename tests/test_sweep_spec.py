"""What a sweep runs: files, grids, points, stages, keys."""

from __future__ import annotations

import itertools
import json

import pytest

from gradlab import GradlabError
from gradlab.sweep import parse_spec, read_spec
from gradlab.sweep.settings import configure, identify

BASE = {"model": "m", "train_file": "f", "sts": "d"}


def made(**content):
    spec = parse_spec({"name": "s", "base": BASE, **content})
    spec.check()
    return spec


def test_every_combination_of_grid_and_points_with_every_seed():
    spec = made(
        seeds=[3, 1],
        grid={"batch_size": [8, 16], "loss_settings": {"temperature": [0.05, 0.1, 0.2]}},
        points=[{"label": "plain"}, {"label": "longer", "max_length": 64, "batch_size": 8}],
    )
    points = spec.points({})
    expected = [
        (length, size, temperature)
        for length, (size, temperature) in itertools.product(
            [None, 64], itertools.product([8, 16], [0.05, 0.1, 0.2])
        )
    ]
    found = [
        (p.settings.get("max_length"), p.settings["batch_size"], p.settings["loss_settings.temperature"])
        for p in points
    ]
    assert found == expected
    assert points[0].label == "plain, batch_size=8, loss_settings.temperature=0.05"
    assert all(list(point.runs) == [3, 1] for point in points)
    assert len({key for point in points for key in point.runs.values()}) == 24
    config = configure({**points[-1].settings, "seed": 1})
    assert (config.max_length, config.batch_size, config.seed) == (64, 16, 1)
    assert config.loss_settings == {"temperature": 0.2}


def test_a_point_may_have_seeds_of_its_own():
    spec = made(points=[{"batch_size": 8, "seeds": [5]}, {"batch_size": 16}], seeds=[1, 2])
    assert [list(point.runs) for point in spec.points({})] == [[5], [1, 2]]
    assert spec.points({})[0].varied == {"batch_size": 8}
    with pytest.raises(GradlabError, match="seeds must be different whole numbers"):
        made(points=[{"batch_size": 8, "seeds": [1, 1]}])
    with pytest.raises(GradlabError, match="seeds must be different whole numbers"):
        made(points=[{"batch_size": 8, "seeds": 1}])


def test_a_point_may_be_evaluated_on_tasks_of_its_own():
    base = {**BASE, "sts": "d"}
    spec = made(
        base=base, points=[{"batch_size": 8, "evaluate": ["MR"]}, {"batch_size": 16}], evaluate=["sts"]
    )
    assert [point.evaluate for point in spec.points({})] == [("MR",), ("sts",)]
    assert spec.points({})[0].varied == {"batch_size": 8}
    with pytest.raises(GradlabError, match="unknown task 'MS'"):
        made(base=base, points=[{"evaluate": ["MS"]}])
    with pytest.raises(GradlabError, match="evaluate must be a list"):
        made(base=base, points=[{"evaluate": "MR"}])
    with pytest.raises(GradlabError, match=r"the metric 'sts' needs evaluate"):
        made(base=base, points=[{"evaluate": ["MR"]}, {}], evaluate=["sts"], metric="sts")


def test_a_written_sweep_is_the_same():
    spec = made(grid={"batch_size": [8, 16]}, stages=[{"max_length": [8]}], seeds=[3], keep_encoders=False)
    assert parse_spec(json.loads(json.dumps(spec.to_dict()))) == spec


def test_keys_tell_what_trains_the_same():
    plain = identify({**BASE, "seed": 1})
    same = [
        {"batch_size": 64},
        {"loss": "infonce"},
        {"sts": "elsewhere"},
        {"train_file": "g"},
        {"device": "cpu"},
    ]
    other = [
        {"batch_size": 32},
        {"loss": "arccon"},
        {"model": "n"},
        {"seed": 2},
        {"loss_settings.temperature": 0.1},
    ]
    assert all(identify({**BASE, "seed": 1, **change}) == plain for change in same)
    keys = {identify({**BASE, "seed": 1, **change}) for change in other}
    assert len(keys) == len(other)
    assert plain not in keys


def test_what_is_varied_counts_in_the_key(tmp_path):
    """Also what does not count where it is the same for all runs."""
    first, second, copy = (str(tmp_path / name) for name in ("a.txt", "b.txt", "c.txt"))
    for file, text in ((first, "one"), (second, "two"), (copy, "one")):
        (tmp_path / file).write_text(text)

    def keys(**content):
        return [key for point in made(**content).points({}) for key in point.runs.values()]

    assert len(set(keys(grid={"train_file": [first, second]}))) == 2
    assert len(set(keys(grid={"train_file": ["absent", "absent too"]}))) == 2
    assert len(set(keys(grid={"sts": ["d", "e"]}))) == 2
    assert len(set(keys(grid={"device": ["cpu", "cuda"]}))) == 2
    assert len(set(keys(points=[{}, {"train_file": second}, {"sts": "e"}]))) == 3
    assert len(set(keys(stages=[{"train_file": [first, second]}]))) == 2
    # A file is its content, wherever it lies.
    assert keys(grid={"train_file": [first, second]}) == keys(grid={"train_file": [copy, second]})
    (tmp_path / "a.txt").write_text("one more")
    assert keys(grid={"train_file": [first, second]})[0] != keys(grid={"train_file": [copy, second]})[0]


def test_keys_stay_as_they_are():
    """They are in the databases of sweeps that have begun."""
    (point,) = made(points=[{"batch_size": 32}]).points({})
    assert point.runs == {42: "76e6edb5c78ce53a"}


def test_stages_begin_from_the_best():
    spec = made(
        seeds=[1, 2],
        grid={"loss": ["infonce", "arccon"]},
        stages=[
            {"batch_size": [8, 16], "learning_rate": [1e-5, 3e-5]},
            {"loss_settings.temperature": [0.05, 0.1]},
        ],
    )
    scores: dict[str, float | None] = {}
    first = spec.points(scores)
    assert [point.stage for point in first] == [1] * 8
    # 16 and 3e-5 have the best mean for infonce, though another point has the best single score.
    values = {
        (8, 1e-5): (0.9, 0.1),
        (8, 3e-5): (0.5, 0.5),
        (16, 1e-5): (0.4, 0.7),
        (16, 3e-5): (0.6, 0.58),
    }
    ours = [point for point in first if point.settings["loss"] == "infonce"]
    for point in ours[:-1]:
        place = point.settings["batch_size"], point.settings["learning_rate"]
        scores |= dict(zip(point.runs.values(), values[place], strict=True))
    last = list(ours[-1].runs.values())
    scores[last[0]] = values[16, 3e-5][0]
    assert len(spec.points(scores)) == 8  # a seed is missing
    scores[last[1]] = values[16, 3e-5][1]
    second = [point for point in spec.points(scores) if point.stage == 2]
    assert [point.varied for point in second] == [
        {"loss": "infonce", "batch_size": 16, "learning_rate": 3e-5, "loss_settings.temperature": t}
        for t in (0.05, 0.1)
    ]
    scores[last[1]] = None  # it failed: a point that lost a seed is not chosen
    second = [point for point in spec.points(scores) if point.stage == 2]
    assert {(p.varied["batch_size"], p.varied["learning_rate"]) for p in second} == {(16, 1e-5)}
    least = parse_spec(
        {
            "name": "s",
            "base": BASE,
            "direction": "minimize",
            "stages": [{"batch_size": [8, 16]}, {"max_length": [9]}],
        }
    )
    low = {key: float(p.settings["batch_size"]) for p in least.points({}) for key in p.runs.values()}
    assert least.points(low)[-1].settings["batch_size"] == 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"grids": {}}, "unknown entry 'grids'.*Did you mean 'grid'"),
        ({"grid": {"batch_sise": [1]}}, "unknown setting 'batch_sise'.*Did you mean 'batch_size'"),
        ({"grid": {"batch_size": 8}}, "batch_size takes a list of values, not 8"),
        ({"grid": {"batch_size": []}}, "takes a list"),
        ({"grid": {"seed": [1]}}, "sets 'seed', which a sweep sets itself; use seeds"),
        ({"base": {**BASE, "output": "x"}}, "sets 'output'.*--output"),
        ({"seeds": [1, 1]}, "seeds must be different"),
        ({"seeds": [True]}, "seeds must be different whole numbers"),
        ({"seeds": 3}, "seeds must be of type list"),
        ({"grid": {"batch_size": [8, 1]}}, r"s \(batch_size=1\): batch_size must be at least 2"),
        ({"grid": {"loss": ["infonce", "infonse"]}}, "unknown loss 'infonse'"),
        (
            {"points": [{"label": "hot", "loss_settings": {"temprature": 1}}]},
            "hot.*unknown hyper-parameter 'temprature'",
        ),
        ({"grid": {"augment": ["subword_repetition(rate=-1)"]}}, "rate must be at least 0"),
        ({"stages": [{"batch_size": [8]}, {"max_length": [1]}]}, "max_length must be at least 3"),
        ({"metric": "sts"}, r"needs evaluate = \['sts'\]"),
        ({"metric": "spearman"}, "unknown metric 'spearman'"),
        ({"base": {"model": "m", "train_file": "f"}}, "needs the setting sts"),
        ({"direction": "up"}, "'maximize' or 'minimize'"),
        ({"name": "a b"}, "name has letters"),
        ({"points": [3]}, "points must be tables"),
        ({"evaluate": ["STS17"]}, "unknown task 'STS17'"),
        ({"callbacks": ["math:nothing"]}, "math has no 'nothing'"),
    ],
)
def test_bad_sweeps(content, message):
    with pytest.raises(GradlabError, match=message):
        made(**content)


def test_files_and_light_versions(tmp_path):
    file = tmp_path / "heat.toml"
    file.write_text(
        'seeds = [1, 2]\n[base]\nmodel = "m"\ntrain_file = "f"\nsts = "d"\n[grid]\nbatch_size = [8, 16]\n'
        "[light]\nseeds = [1]\ngrid.batch_size = [8]\nbase.max_steps = 5\n"
    )
    spec, light = read_spec(file), read_spec(file, light=True)
    assert (spec.name, light.name) == ("heat", "heat-light")
    assert light.base == {**spec.base, "max_steps": 5}
    assert (len(spec.points({})), len(light.points({}))) == (2, 1)
    assert light.seeds == (1,)
    assert spec.with_base({"model": "n"}).points({})[0].settings["model"] == "n"
    with pytest.raises(GradlabError, match="batch_size is varied"):
        spec.with_base({"batch_size": 2})
    file.write_text('[base]\nmodel = "m"')
    with pytest.raises(GradlabError, match="has no light version"):
        read_spec(file, light=True)
    file.write_text("[base\n")
    with pytest.raises(GradlabError, match="cannot read the sweep"):
        read_spec(file)
    with pytest.raises(GradlabError, match=r"cannot read the sweep '[^']*': No such file or directory$"):
        read_spec(tmp_path / "nowhere.toml")


def test_a_table_of_loss_settings_for_all_runs_stays_theirs():
    """A table that were kept as it is would be changed by every point that adds to it."""
    spec = made(points=[{"loss": "arccon", "loss_settings": {"margin": 0.2}}, {"loss": "infonce"}])
    spec = spec.with_base({"loss_settings": {"temperature": 0.1}})
    spec.check()
    assert [point.settings.get("loss_settings.margin") for point in spec.points({})] == [0.2, None]
    assert {point.settings["loss_settings.temperature"] for point in spec.points({})} == {0.1}
    assert "loss_settings" not in spec.base
    with pytest.raises(GradlabError, match=r"loss_settings\.margin is varied"):
        spec.with_base({"loss_settings": {"margin": 1}})

"""Sharing a sweep: every run once, whoever works on it, and again if its worker dies."""

from __future__ import annotations

import json
import math
import time

import pandas
import pytest

from gradlab import GradlabError
from gradlab.sweep import parse_spec, read_spec
from gradlab.sweep.table import as_text, summarise, write_tables
from gradlab.sweep.trials import DEATHS, DIVERGED, FAILED, FINISHED, RUNNING, WAITING, Trials
from tests.processes import start

optuna = pytest.importorskip("optuna")
sqlalchemy = pytest.importorskip("sqlalchemy")
CONTENT = {
    "name": "shared",
    "seeds": [1, 2],
    "base": {"model": "m", "train_file": "f", "eval_data": "d"},
    "grid": {"batch_size": [8, 16]},
}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'study.db'}"


def make_trials(url, **changes):
    return Trials(parse_spec({**CONTENT, **changes}), url)


@pytest.fixture
def trials(url):
    return make_trials(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://", "must be a file"),
        ("sqlite:///", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
        ("study.db", "cannot be used: .*; give a URL such as sqlite:///study.db"),
        ("postgresql://user@host:port/name", "cannot be used"),
    ],
)
def test_urls_that_are_no_database_of_several_processes(url, message):
    with pytest.raises(GradlabError, match=message):
        make_trials(url)


def states(trials):
    return [run.state for run in trials.runs()]


def rows(url):
    return optuna.load_study(study_name="shared", storage=url).get_trials()


def die(url, claim):
    """As if the worker had been silent for a day."""
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        changed = connection.execute(
            sqlalchemy.text(
                "UPDATE trial_heartbeats SET heartbeat = '2001-01-01 00:00:00' WHERE trial_id = "
                "(SELECT trial_id FROM trials WHERE number = :number)"
            ),
            {"number": claim.trial},
        )
    assert changed.rowcount == 1
    engine.dispose()


def work(file, url, begin, logs):
    """Take part in a sweep without training: wait for a file, then claim and finish."""
    spec = read_spec(file)
    print("ready", flush=True)
    while not begin.exists():
        time.sleep(0.001)
    trials = Trials(spec, url)
    while (claim := trials.claim()) is not None:
        print(claim.key, flush=True)
        while not all(len(log.read_text().split()) > 1 for log in logs):
            time.sleep(0.001)  # none takes all runs before another begins
        assert trials.finish(claim, 1.0, {})


def test_workers_that_start_together_share_every_run_once(tmp_path, url):
    """They make tables, study and trials at the same moment, then claim as fast as they can."""
    spec = CONTENT | {"grid": {"batch_size": list(range(2, 12))}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    begin = tmp_path / "start"
    logs = [tmp_path / str(number) for number in range(2)]
    workers = [start(work, tmp_path / "spec.json", url, begin, logs, log=log) for log in logs]
    while not all(log.exists() and log.read_text() for log in logs):
        assert all(worker.is_alive() for worker in workers)
        time.sleep(0.01)
    begin.touch()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    claimed = [log.read_text().split()[1:] for log in logs]
    keys = [key for keys_of_worker in claimed for key in keys_of_worker]
    assert len(keys) == len(set(keys)) == 20
    assert all(claimed)
    assert len({trial.user_attrs["key"] for trial in rows(url)}) == 20
    assert states(Trials(parse_spec(spec), url)) == [FINISHED] * 20


def test_a_worker_of_a_shorter_sweep_takes_nothing_that_it_does_not_know(trials, url):
    longer = make_trials(url, grid={"batch_size": [8, 16, 32]})
    assert {longer.claim().point.varied["batch_size"] for _ in range(3)} == {8, 16, 32}
    assert [trials.claim() is not None for _ in range(3)] == [True, True, False]
    assert len(rows(url)) == 5


def test_runs_of_code_that_has_changed_are_not_mixed(tmp_path, url):
    file = tmp_path / "own.py"
    file.write_text(
        "def loss(anchors, positives):\n    return (anchors - positives).square().sum()\n"
    )
    trials = make_trials(url, base={**CONTENT["base"], "loss": f"{file}:loss"})
    trials.finish(trials.claim(), 1.0, {})
    assert FINISHED in states(trials)
    file.write_text(file.read_text().replace("sum()", "mean()"))
    with pytest.raises(GradlabError, match=r"trained with other code than '.*own\.py'"):
        trials.runs()


def test_all_points_of_a_seed_come_before_the_next_seed(trials):
    claims = [trials.claim() for _ in range(4)]
    claimed = [(claim.seed, claim.point.varied["batch_size"]) for claim in claims]
    assert claimed == [(1, 8), (1, 16), (2, 8), (2, 16)]
    assert trials.claim() is None


def test_what_is_over_is_not_done_again_but_failures_are_when_asked(trials, url):
    finished, diverged, failed = (trials.claim() for _ in range(3))
    order = [0, 2, 1, 3]  # of the runs by point, then seed
    assert [states(trials)[at] for at in order] == [RUNNING, RUNNING, RUNNING, WAITING]
    assert trials.finish(finished, 0.5, {"stsb_dev": 0.5})
    trials.fail(diverged, "the loss is nan at step 3", diverged=True)
    assert trials.fail(failed, "the disk is full")
    runs = trials.runs()
    assert (runs[0].value, runs[0].results, runs[0].attempts) == (0.5, {"stsb_dev": 0.5}, 1)
    assert runs[2].error == "the loss is nan at step 3"
    assert (runs[1].state, runs[1].error) == (FAILED, "the disk is full")
    make_trials(url).retry()
    trials.retry()  # twice is once
    assert len(rows(url)) == 4
    assert [states(trials)[at] for at in order] == [FINISHED, DIVERGED, WAITING, WAITING]
    claims = [trials.claim(), trials.claim()]
    second_claim = next(claim for claim in claims if claim.key == failed.key)
    assert trials.finish(second_claim, 0.5, {})
    assert trials.runs()[1].error == ""


def test_a_finished_run_that_lacks_a_score_is_continued(trials, url):
    claims = [trials.claim() for _ in range(3)]
    for claim in claims:
        trials.finish(claim, 0.5, {})
    points = [{"batch_size": 8, "evaluate": ["MR"]}, {"batch_size": 16}]
    larger = make_trials(url, grid={}, points=points)
    keys = [run.key for run in larger.runs()]
    assert [keys.index(claim.key) for claim in claims] == [0, 2, 1]
    assert states(larger) == [WAITING, WAITING, FINISHED, WAITING]
    claim = larger.claim()
    assert claim.key == keys[0]
    larger.finish(claim, 0.5, {"MR": 0.6})
    assert states(larger) == [FINISHED, WAITING, FINISHED, WAITING]


def test_another_metric_is_read_from_the_same_results(trials, url):
    for value in (0.1, 0.2):
        trials.finish(
            trials.claim(), value, {"stsb_dev": value, "diagnostics/uniformity": -10 * value}
        )
    other_metric = make_trials(url, metric="diagnostics/uniformity")
    assert [run.value for run in other_metric.runs()] == [-1.0, None, -2.0, None]
    with pytest.raises(
        GradlabError, match=r"did not measure 'diagnostics/loss'.*diagnostics/uniformity"
    ):
        make_trials(url, metric="diagnostics/loss").runs()


def test_a_dead_workers_run_is_done_again_and_no_other(trials, url):
    first, second = trials.claim(), trials.claim()
    die(url, first)
    third = trials.claim()
    assert third.key == first.key
    assert third.trial != first.trial
    assert states(trials) == [RUNNING, WAITING, RUNNING, WAITING]
    assert trials.runs()[0].attempts == 2
    # The first one was only asleep: what it brings is not taken, whatever it is.
    assert not trials.finish(first, 0.1, {})
    assert not trials.fail(first, "late")
    assert not trials.release(first)
    assert trials.finish(third, 0.5, {})
    assert trials.finish(second, 0.6, {})
    assert [run.value for run in trials.runs()] == [0.5, None, 0.6, None]


def test_a_run_that_kills_its_workers_is_given_up(trials, url):
    key = trials.runs()[0].key
    for _ in range(DEATHS):
        claim = trials.claim()
        assert claim.key == key
        die(url, claim)
    assert trials.claim().key != key
    assert trials.runs()[0].state == FAILED
    assert trials.runs()[0].error == f"its worker died, {DEATHS} times"
    trials.retry()
    claim = trials.claim()
    assert claim.key == key
    die(url, claim)  # counted afresh
    assert trials.claim().key == key


def test_a_released_run_waits_and_does_not_count_as_a_death(trials):
    for _ in range(DEATHS + 1):
        claim = trials.claim()
        assert trials.release(claim)
    assert states(trials) == [WAITING] * 4
    assert trials.claim().key == claim.key


def test_signs_of_life(url):
    trials = Trials(parse_spec(CONTENT), url, heartbeat=1)
    claim = trials.claim()
    with trials.alive(claim) as holds_run:
        die(url, claim)
        time.sleep(3)  # a beat or two
        assert trials.claim().key != claim.key
        assert holds_run()
        second, taken = Trials(parse_spec(CONTENT), url, heartbeat=1), None
        for _ in range(50):  # a beat may come in between
            die(url, claim)
            taken = second.claim()
            if taken is not None and taken.key == claim.key:
                break
        assert taken is not None
        assert taken.key == claim.key
        time.sleep(1.2)
        assert not holds_run()


def test_stages_are_enqueued_when_the_one_before_is_done(url):
    trials = make_trials(
        url, seeds=[1], grid={}, stages=[{"batch_size": [8, 16]}, {"max_length": [16, 24]}]
    )
    for _ in range(2):
        claim = trials.claim()
        assert "max_length" not in claim.point.varied
        assert trials.finish(claim, claim.settings["batch_size"] / 20, {})
    later = [trials.claim() for _ in range(2)]
    assert [claim.point.varied for claim in later] == [
        {"batch_size": 16, "max_length": n} for n in (16, 24)
    ]
    assert trials.claim() is None


def test_the_table_against_numbers_computed_by_hand(trials, tmp_path):
    for value in (0.5, 0.25, 0.7):
        trials.finish(
            trials.claim(), value, {"stsb_dev": value, "diagnostics/alignment": 2 * value}
        )
    trials.fail(trials.claim(), "why, indeed")
    rows = summarise(trials.spec, trials.runs())
    assert list(rows["mean"]) == [pytest.approx(0.6), 0.25]
    assert rows["standard_deviation"][0] == pytest.approx(math.sqrt(0.1**2 + 0.1**2))
    assert math.isnan(rows["standard_deviation"][1])
    lines = [line.split() for line in as_text(trials.spec, rows).splitlines()]
    assert lines[1:] == [
        ["batch_size", "mean", "sd", "n"],
        ["8", "0.6000", "0.1414", "2/2"],
        ["16", "0.2500", "1/2", "1", "failed"],
    ]
    points, runs = (
        pandas.read_csv(file) for file in write_tables(trials.spec, trials.runs(), tmp_path)
    )
    assert list(points["batch_size"]) == [8, 16]
    assert list(points["mean"]) == pytest.approx([0.6, 0.25])
    assert list(points["failed"]) == [0, 1]
    assert list(runs["state"]) == ["finished"] * 3 + ["failed"]
    assert list(runs["diagnostics/alignment"]) == pytest.approx(
        [1.0, 1.4, 0.5, math.nan], nan_ok=True
    )
    assert runs["error"][3] == "why, indeed"


def test_the_same_attempt_twice_is_one_run(trials, url):
    """As two workers leave it that begin one attempt at one moment, with no lock between them."""

    def add_again(trial):
        optuna.load_study(study_name="shared", storage=url).add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.WAITING, user_attrs=trial.user_attrs
            )
        )

    claim = trials.claim()
    add_again(rows(url)[0])
    assert states(trials)[0] == RUNNING
    trials.fail(claim, "why")
    assert states(trials)[0] == FAILED
    trials.retry()
    add_again(rows(url)[2])
    assert [trials.claim().key for _ in range(4)].count(claim.key) == 1
    assert trials.claim() is None
    assert states(trials) == [RUNNING] * 4

"""Sharing a sweep: every run once, whoever works on it, and again if its worker dies."""

from __future__ import annotations

import csv
import math
import time

import pytest

from gradlab import GradlabError
from gradlab.sweep import parse_spec, read_spec
from gradlab.sweep.table import as_text, summarise, write_tables
from gradlab.sweep.trials import DEATHS, DIVERGED, FAILED, FINISHED, RUNNING, WAITING, Trials
from tests.processes import start
from tests.sweep_worker import main

optuna = pytest.importorskip("optuna")
sqlalchemy = pytest.importorskip("sqlalchemy")
CONTENT = {
    "name": "shared",
    "seeds": [1, 2],
    "base": {"model": "m", "train_file": "f", "sts": "d"},
    "grid": {"batch_size": [8, 16]},
}
SPEC = """name = "shared"
seeds = [1, 2, 3]
[base]
model = "m"
train_file = "f"
sts = "d"
[grid]
batch_size = [2, 3, 4, 5, 6, 7, 8]
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'study.db'}"


@pytest.fixture
def trials(url):
    return Trials(parse_spec(CONTENT), url)


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


def test_workers_that_start_together_share_every_run_once(tmp_path, url):
    """Three processes make the tables, the study and the trials at the same moment, then claim as fast as they can."""
    (tmp_path / "spec.toml").write_text(SPEC)
    begin = tmp_path / "start"
    logs = [tmp_path / str(number) for number in range(3)]
    given = (str(tmp_path / "spec.toml"), url, str(begin), [str(log) for log in logs])
    workers = [start(main, *given, log=log) for log in logs]
    while not all(log.exists() and log.read_text() for log in logs):
        assert all(worker.is_alive() for worker in workers)
        time.sleep(0.01)
    begin.touch()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    claimed = [log.read_text().split()[1:] for log in logs]
    keys = [key for each in claimed for key in each]
    assert len(keys) == len(set(keys)) == 21
    assert all(claimed)
    assert len({trial.user_attrs["key"] for trial in rows(url)}) == 21
    assert [run.state for run in Trials(read_spec(tmp_path / "spec.toml"), url).runs()] == [FINISHED] * 21


def test_a_worker_of_a_shorter_sweep_takes_nothing_that_it_does_not_know(trials, url):
    longer = Trials(parse_spec({**CONTENT, "grid": {"batch_size": [8, 16, 32]}}), url)
    assert {longer.claim().point.varied["batch_size"] for _ in range(3)} == {8, 16, 32}
    assert [trials.claim() is not None for _ in range(3)] == [True, True, False]
    assert len(rows(url)) == 5


def test_a_finished_run_is_kept(trials):
    claim = trials.claim()
    assert states(trials) == [RUNNING, WAITING, WAITING, WAITING]
    assert trials.finish(claim, 0.5, {"stsb_dev": 0.5})
    run = trials.runs()[0]
    assert (run.state, run.value, run.results, run.attempts) == (FINISHED, 0.5, {"stsb_dev": 0.5}, 1)
    trials.retry()
    assert states(trials) == [FINISHED, WAITING, WAITING, WAITING]


def test_what_diverged_would_do_so_again(trials):
    trials.fail(trials.claim(), "the loss is nan at step 3", diverged=True)
    trials.fail(trials.claim(), "the disk is full")
    trials.retry()
    assert states(trials) == [DIVERGED, WAITING, WAITING, WAITING]
    assert trials.runs()[0].error == "the loss is nan at step 3"


def test_a_finished_run_that_lacks_a_score_is_continued(trials, url):
    claims = [trials.claim() for _ in range(3)]
    for claim in claims:
        trials.finish(claim, 0.5, {})
    content = {key: value for key, value in CONTENT.items() if key != "grid"}
    points = [{"batch_size": 8, "evaluate": ["MR"]}, {"batch_size": 16}]
    more = Trials(parse_spec({**content, "points": points}), url)
    keys = [run.key for run in more.runs()]
    assert [keys.index(claim.key) for claim in claims] == [0, 2, 1]
    assert states(more) == [WAITING, WAITING, FINISHED, WAITING]
    claim = more.claim()
    assert claim.key == keys[0]
    more.finish(claim, 0.5, {"MR": 0.6})
    assert states(more) == [FINISHED, WAITING, FINISHED, WAITING]


def test_a_run_that_points_share_is_evaluated_on_what_any_asks_for(url):
    content = {key: value for key, value in CONTENT.items() if key != "grid"}
    points = [{"batch_size": 8, "seeds": [1]}, {"batch_size": 8, "evaluate": ["MR"]}]
    runs = Trials(parse_spec({**content, "points": points}), url).runs()
    assert [run.point.evaluate for run in runs] == [("MR",), ("MR",)]
    assert [run.seed for run in runs] == [1, 2]


def test_another_metric_is_read_from_the_same_results(trials, url):
    for value in (0.1, 0.2):
        trials.finish(trials.claim(), value, {"stsb_dev": value, "diagnostics/uniformity": -10 * value})
    other = Trials(parse_spec({**CONTENT, "metric": "diagnostics/uniformity"}), url)
    assert [run.value for run in other.runs()] == [-1.0, None, -2.0, None]
    with pytest.raises(GradlabError, match=r"did not measure 'diagnostics/loss'.*diagnostics/uniformity"):
        Trials(parse_spec({**CONTENT, "metric": "diagnostics/loss"}), url).runs()


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


def test_failures_are_kept_and_retried_when_asked(trials, url):
    claim = trials.claim()
    assert trials.fail(claim, "no such file")
    run = trials.runs()[0]
    assert (run.state, run.error) == (FAILED, "no such file")
    Trials(parse_spec(CONTENT), url).retry()
    trials.retry()
    assert len(rows(url)) == 2
    again = trials.claim()
    assert again.key == claim.key
    assert trials.finish(again, 0.5, {})
    assert trials.runs()[0].error == ""


def test_a_released_run_waits_and_does_not_count_as_a_death(trials):
    for _ in range(DEATHS + 1):
        claim = trials.claim()
        assert trials.release(claim)
    assert states(trials) == [WAITING] * 4
    assert trials.claim().key == claim.key


def test_signs_of_life(url):
    trials = Trials(parse_spec(CONTENT), url, heartbeat=1)
    claim = trials.claim()
    with trials.alive(claim) as mine:
        die(url, claim)
        time.sleep(3)  # a beat or two
        other = trials.claim()
        assert other.key != claim.key
        assert mine()
        second, taken = Trials(parse_spec(CONTENT), url, heartbeat=1), None
        for _ in range(50):  # a beat may come in between
            die(url, claim)
            taken = second.claim()
            if taken is not None and taken.key == claim.key:
                break
        assert taken is not None
        assert taken.key == claim.key
        time.sleep(1.2)
        assert not mine()


def test_stages_are_enqueued_when_the_one_before_is_done(url):
    spec = parse_spec({**CONTENT, "grid": {}, "stages": [{"batch_size": [8, 16]}, {"max_length": [16, 24]}]})
    trials = Trials(spec, url)
    values = {8: 0.4, 16: 0.5}
    for _ in range(4):
        claim = trials.claim()
        assert "max_length" not in claim.point.varied
        assert trials.finish(claim, values[claim.settings["batch_size"]], {})
    later = [trials.claim() for _ in range(5)]
    assert later[4] is None
    assert [claim.point.varied for claim in later[:4]] == [
        {"batch_size": 16, "max_length": length} for length in (16, 24, 16, 24)
    ]


def test_the_table_against_numbers_computed_by_hand(trials, tmp_path):
    values = iter([0.5, 0.25, 0.7])
    for value in values:
        claim = trials.claim()
        trials.finish(claim, value, {"stsb_dev": value, "diagnostics/alignment": 2 * value})
    trials.fail(trials.claim(), "why, indeed")
    rows = summarise(trials.spec, trials.runs())
    assert list(rows["mean"]) == [pytest.approx(0.6), 0.25]
    assert rows["standard_deviation"][0] == pytest.approx(math.sqrt(0.1**2 + 0.1**2))
    assert math.isnan(rows["standard_deviation"][1])
    lines = as_text(trials.spec, rows).splitlines()
    assert lines[1].split() == ["batch_size", "mean", "sd", "n"]
    assert lines[2].split() == ["8", "0.6000", "0.1414", "2/2"]
    assert lines[3].split() == ["16", "0.2500", "1/2", "1", "failed"]
    points, runs = write_tables(trials.spec, trials.runs(), tmp_path)
    with points.open() as file:
        table = list(csv.DictReader(file))
    assert [row["batch_size"] for row in table] == ["8", "16"]
    assert float(table[0]["mean"]) == pytest.approx(0.6)
    assert table[1]["standard_deviation"] == ""
    assert table[1]["failed"] == "1"
    with runs.open() as file:
        table = list(csv.DictReader(file))
    assert [row["state"] for row in table] == ["finished"] * 3 + ["failed"]
    assert [row["diagnostics/alignment"] for row in table] == ["1.0", "1.4", "0.5", ""]
    assert table[3]["error"] == "why, indeed"


def test_bad_databases(tmp_path):
    spec = parse_spec(CONTENT)
    with pytest.raises(GradlabError, match="cannot be used"):
        Trials(spec, f"sqlite:///{tmp_path / 'absent' / 'study.db'}")
    with pytest.raises(GradlabError, match="has not been begun"):
        Trials(spec, f"sqlite:///{tmp_path / 'new.db'}", create=False)
    with pytest.raises(GradlabError, match="cannot be used"):  # no driver, or no server
        Trials(spec, "postgresql+psycopg://nobody@127.0.0.1:1/sweeps")
    with pytest.raises(GradlabError, match="must be a file"):
        Trials(spec, "sqlite://")
    with pytest.raises(GradlabError, match="not a database URL"):
        Trials(spec, "study.db")


def test_the_same_attempt_twice_is_one_run(trials, url):
    """As two workers leave it that begin the same attempt at the same moment, there being no lock between them."""

    def add_again(trial):
        optuna.load_study(study_name="shared", storage=url).add_trial(
            optuna.trial.create_trial(state=optuna.trial.TrialState.WAITING, user_attrs=trial.user_attrs)
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


def test_all_points_of_a_seed_come_before_the_next_seed(trials):
    claimed = []
    while (claim := trials.claim()) is not None:
        claimed.append((claim.seed, claim.point.varied["batch_size"]))
    assert claimed == [(1, 8), (1, 16), (2, 8), (2, 16)]

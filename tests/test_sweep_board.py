"""Sharing a sweep: every run once, whoever works on it, and again if its worker dies."""

from __future__ import annotations

import csv
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradlab import GradlabError
from gradlab.sweep import parse_spec
from gradlab.sweep.board import DEATHS, DIVERGED, FAILED, FINISHED, RUNNING, WAITING, Board
from gradlab.sweep.mutex import exclusive
from gradlab.sweep.table import as_text, summarise, write_tables
from tests.processes import start
from tests.sweep_worker import main

optuna = pytest.importorskip("optuna")
sqlalchemy = pytest.importorskip("sqlalchemy")
ROOT = Path(__file__).resolve().parents[1]
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
def board(url):
    board = Board(parse_spec(CONTENT), url)
    board.prepare()
    return board


def states(board):
    return [run.state for run in board.runs()]


def trials(url):
    return optuna.load_study(study_name="shared", storage=url).get_trials()


def die(board, claim):
    """As if the worker had been silent for a day."""
    from sqlalchemy import create_engine, text

    engine = create_engine(board._url)
    with engine.begin() as connection:
        changed = connection.execute(
            text("UPDATE trial_heartbeats SET heartbeat = '2001-01-01 00:00:00' WHERE trial_id = :id"),
            {"id": claim.trial_id},
        )
    assert changed.rowcount == 1
    engine.dispose()


def test_workers_that_start_together_share_every_run_once(tmp_path, url):
    """Three processes make the tables, the study and the trials at the same moment, then claim as fast as they can."""
    (tmp_path / "spec.toml").write_text(SPEC)
    begin = tmp_path / "start"
    logs = [tmp_path / str(number) for number in range(3)]
    workers = [start(main, str(tmp_path / "spec.toml"), url, str(begin), log=log) for log in logs]
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
    assert sum(bool(each) for each in claimed) >= 2
    assert len(trials(url)) == 21
    assert all(trial.state == optuna.trial.TrialState.COMPLETE for trial in trials(url))


def test_preparing_again_adds_nothing(board, url):
    board.prepare()
    Board(parse_spec(CONTENT), url).prepare()
    assert len(trials(url)) == 4
    longer = {**CONTENT, "grid": {"batch_size": [8, 16, 32]}}
    Board(parse_spec(longer), url).prepare()
    assert len(trials(url)) == 6
    # A worker of the shorter sweep takes nothing that it does not know.
    assert [board.claim() is not None for _ in range(5)] == [True] * 4 + [False]


def test_a_finished_run_is_kept(board):
    claim = board.claim()
    assert states(board) == [RUNNING, WAITING, WAITING, WAITING]
    assert board.finish(claim, 0.5, {"stsb_dev": 0.5})
    run = board.runs()[0]
    assert (run.state, run.value, run.results, run.attempts) == (FINISHED, 0.5, {"stsb_dev": 0.5}, 1)
    board.prepare(retry_failed=True)
    assert states(board) == [FINISHED, WAITING, WAITING, WAITING]


def test_what_diverged_would_do_so_again(board):
    board.fail(board.claim(), "the loss is nan at step 3", diverged=True)
    board.fail(board.claim(), "the disk is full")
    board.prepare(retry_failed=True)
    assert states(board) == [DIVERGED, WAITING, WAITING, WAITING]
    assert board.runs()[0].error == "the loss is nan at step 3"


def test_a_finished_run_that_lacks_a_score_is_continued(board, url):
    claims = [board.claim() for _ in range(3)]
    for claim, results in zip(claims, ({}, {}, {"MR": 0.7}), strict=True):
        board.finish(claim, 0.5, results)
    engine = sqlalchemy.create_engine(url)  # an earlier version did not record what it evaluated on
    with engine.begin() as connection:
        text = "DELETE FROM trial_user_attributes WHERE key = 'evaluated' AND trial_id = :trial"
        connection.execute(sqlalchemy.text(text), {"trial": claims[2].trial_id})
    engine.dispose()
    content = {key: value for key, value in CONTENT.items() if key != "grid"}
    points = [{"batch_size": 8, "evaluate": ["MR"]}, {"batch_size": 16}]
    more = Board(parse_spec({**content, "points": points}), url)
    keys = [run.key for run in more.runs()]
    assert [keys.index(claim.run.key) for claim in claims] == [0, 2, 1]
    assert states(more) == [WAITING, FINISHED, FINISHED, WAITING]
    more.prepare()
    claim = more.claim()
    assert claim.run.key == keys[0]
    assert not claim.anew  # its encoder may still be there
    more.finish(claim, 0.5, {"MR": 0.6})
    assert states(more) == [FINISHED, FINISHED, FINISHED, WAITING]


def test_a_run_that_points_share_is_evaluated_on_what_any_asks_for(url):
    content = {key: value for key, value in CONTENT.items() if key != "grid"}
    points = [{"batch_size": 8, "seeds": [1]}, {"batch_size": 8, "evaluate": ["MR"]}]
    runs = Board(parse_spec({**content, "points": points}), url).runs()
    assert [run.point.evaluate for run in runs] == [("MR",), ("MR",)]
    assert [run.seed for run in runs] == [1, 2]


def test_another_metric_is_read_from_the_same_results(board, url):
    for value in (0.1, 0.2):
        board.finish(board.claim(), value, {"stsb_dev": value, "diagnostics/uniformity": -10 * value})
    other = Board(parse_spec({**CONTENT, "metric": "diagnostics/uniformity"}), url)
    assert [run.value for run in other.runs()] == [-1.0, None, -2.0, None]
    with pytest.raises(GradlabError, match=r"did not measure 'diagnostics/loss'.*diagnostics/uniformity"):
        Board(parse_spec({**CONTENT, "metric": "diagnostics/loss"}), url).runs()


def test_a_dead_workers_run_is_done_again_and_no_other(board):
    first, second = board.claim(), board.claim()
    die(board, first)
    third = board.claim()
    assert third.run.key == first.run.key
    assert third.trial_id != first.trial_id
    assert not third.anew  # what it has left is used
    assert states(board) == [RUNNING, WAITING, RUNNING, WAITING]
    assert board.runs()[0].attempts == 2
    # The first one was only asleep: what it brings is not taken, whatever it is.
    assert not board.finish(first, 0.1, {})
    assert not board.fail(first, "late")
    assert not board.release(first)
    assert board.finish(third, 0.5, {})
    assert board.finish(second, 0.6, {})
    assert [run.value for run in board.runs()] == [0.5, None, 0.6, None]


def test_a_run_that_kills_its_workers_is_given_up(board):
    key = board.runs()[0].key
    for _ in range(DEATHS):
        claim = board.claim()
        assert claim.run.key == key
        die(board, claim)
    assert board.claim().run.key != key
    assert board.runs()[0].state == FAILED
    assert board.runs()[0].error == f"its worker died, {DEATHS} times"
    board.prepare(retry_failed=True)
    claim = board.claim()
    assert (claim.run.key, claim.anew) == (key, True)
    die(board, claim)  # counted afresh
    assert board.claim().run.key == key


def test_failures_are_kept_and_retried_when_asked(board, url):
    claim = board.claim()
    assert board.fail(claim, "no such file")
    board.prepare()
    run = board.runs()[0]
    assert (run.state, run.error) == (FAILED, "no such file")
    Board(parse_spec(CONTENT), url).prepare(retry_failed=True)
    board.prepare(retry_failed=True)  # by two at once: once
    assert len(trials(url)) == 5
    again = board.claim()
    assert (again.run.key, again.anew) == (claim.run.key, True)
    assert board.finish(again, 0.5, {})
    assert board.runs()[0].error == ""


def test_a_released_run_waits_and_does_not_count_as_a_death(board):
    for _ in range(DEATHS + 1):
        claim = board.claim()
        assert claim.run == board.runs()[0].__class__(**{**vars(claim.run)})
        assert board.release(claim)
    assert states(board) == [WAITING] * 4
    assert board.claim().run.key == claim.run.key


def test_a_run_that_is_to_begin_anew_still_is_when_given_back_before_that(board):
    board.fail(board.claim(), "why")
    board.prepare(retry_failed=True)
    for end in (board.release, lambda claim: die(board, claim), lambda claim: None):
        claim = board.claim()
        assert claim.anew
        end(claim)
    board.emptied(claim)
    board.release(claim)
    again = board.claim()
    assert (again.run.key, again.anew) == (claim.run.key, False)  # what it did since then is kept


def test_signs_of_life(url):
    board = Board(parse_spec(CONTENT), url, heartbeat=1)
    claim = board.claim()
    with board.alive(claim) as mine:
        die(board, claim)
        time.sleep(3)  # a beat or two
        other = board.claim()
        assert other.run.key != claim.run.key
        assert mine()
        second, taken = Board(parse_spec(CONTENT), url, heartbeat=1), None
        for _ in range(50):  # a beat may come in between
            die(board, claim)
            taken = second.claim()
            if taken is not None and taken.run.key == claim.run.key:
                break
        assert taken is not None
        assert taken.run.key == claim.run.key
        time.sleep(1.2)
        assert not mine()


def test_stages_are_enqueued_when_the_one_before_is_done(url):
    spec = parse_spec({**CONTENT, "grid": {}, "stages": [{"batch_size": [8, 16]}, {"max_length": [16, 24]}]})
    board = Board(spec, url)
    values = {8: 0.4, 16: 0.5}
    for _ in range(4):
        claim = board.claim()
        assert "max_length" not in claim.run.point.varied
        assert board.finish(claim, values[claim.run.settings["batch_size"]], {})
    later = [board.claim() for _ in range(5)]
    assert later[4] is None
    assert [claim.run.point.varied for claim in later[:4]] == [
        {"batch_size": 16, "max_length": length} for length in (16, 24, 16, 24)
    ]


def test_the_table_against_numbers_computed_by_hand(board, tmp_path):
    values = iter([0.5, 0.25, 0.7])
    for value in values:
        claim = board.claim()
        board.finish(claim, value, {"stsb_dev": value, "diagnostics/alignment": 2 * value})
    board.fail(board.claim(), "why, indeed")
    rows = summarise(board.spec, board.runs())
    assert [row.mean for row in rows] == [pytest.approx(0.6), 0.25]
    assert rows[0].deviation == pytest.approx(math.sqrt(0.1**2 + 0.1**2))
    assert rows[0].deviation == pytest.approx(statistics.stdev([0.5, 0.7]))
    assert math.isnan(rows[1].deviation)
    lines = as_text(board.spec, rows).splitlines()
    assert lines[1].split() == ["batch_size", "mean", "sd", "n"]
    assert lines[2].split() == ["8", "0.6000", "0.1414", "2/2"]
    assert lines[3].split() == ["16", "0.2500", "1/2", "1", "failed"]
    points, runs = write_tables(board.spec, board.runs(), tmp_path)
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
    with pytest.raises(GradlabError, match="not on oracle"):
        Board(spec, "oracle://host/db")
    with pytest.raises(GradlabError, match="cannot lock"):
        Board(spec, f"sqlite:///{tmp_path / 'absent' / 'study.db'}")
    with pytest.raises(GradlabError, match="has not been begun"):
        Board(spec, f"sqlite:///{tmp_path / 'new.db'}", create=False)
    with pytest.raises(GradlabError, match="cannot be reached"):  # no driver, or no server
        Board(spec, "postgresql+psycopg://nobody@127.0.0.1:1/sweeps")
    with pytest.raises(GradlabError, match="must be a file"):
        Board(spec, "sqlite://")
    with pytest.raises(GradlabError, match="no database URL"):
        Board(spec, "study.db")


def test_the_lock_is_free_when_its_holder_is_killed(tmp_path, url):
    code = (
        "import sys, time; from gradlab.sweep.mutex import exclusive\n"
        "with exclusive(sys.argv[1], 'x'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, url], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.wait()
    with exclusive(url, "x"):
        pass


def test_all_points_of_a_seed_come_before_the_next_seed(board):
    claimed = []
    while (claim := board.claim()) is not None:
        claimed.append((claim.run.seed, claim.run.point.varied["batch_size"]))
    assert claimed == [(1, 8), (1, 16), (2, 8), (2, 16)]

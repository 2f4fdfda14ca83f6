"""Warnings and the verdict on a run.

Never green over what is wrong, one judgement, advice that can be followed.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import gradlab
from gradlab.diagnosis.symptoms import symptoms
from gradlab.monitor.formula_trials import departure
from gradlab.monitor.metrics import History, write_metrics
from gradlab.monitor.run_reader import read_recording
from gradlab.monitor.setting_advice import (
    HARDEST,
    LEARNING,
    PULL,
    LossInUse,
    levers,
    setting_change,
)
from gradlab.monitor.verdicts import failures_of, judge, judge_run, measurements_of
from gradlab.monitor.verdicts.failures import ALARMS, FailureWatch
from gradlab.monitor.verdicts.formula import MISTAKES, formula, reaction
from gradlab.monitor.verdicts.records import Records
from gradlab.monitor.watch import TrainingWarning
from gradlab.report import write_report
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

SOUND = {
    "gradient_dissipation": 0.4, "active": 0.8, "hardest_share": 0.4, "uniform_share": 1 / 63,
    "lemma_share": 0.95, "ratio_median": 1.0, "positive_cosine": 0.8, "negative_cosine": 0.1,
    "alignment": 0.4, "uniformity": -2.0, "effective_rank": 20.0,
}  # fmt: skip


def write_run(folder, values=None, status="finished", records=20, loss="infonce", **manifest):
    """A recorded run, sound but for ``values``, functions of the record's number."""
    changed = {"batch_loss": lambda n: 3 - 0.1 * n} | (values or {})
    history = History()
    for number in range(records):
        step, moving = 10 * number, 1 - 0.01 * number
        rows = {name: value * moving for name, value in SOUND.items()} | {"uniform_share": 1 / 63}
        rows |= {name: value(number) for name, value in changed.items()}
        of_train = ("batch_loss", "weights_moved", "stale_gradient", "learning_rate", "grad_norm")
        history.add(step, "train", {name: rows.pop(name) for name in of_train if name in rows})
        history.add(step, "diagnostics", rows)
        history.add(step, "watch", {"run_seconds": float(number), "seconds": 0.01 * number})
    write_metrics(folder / "metrics.csv", history.rows())
    content = {
        "kind": "watched run",
        "config": {"loss": loss},
        "watch": {"total_steps": 10 * records, **manifest.pop("watch", {})},
        "status": status,
    }
    (folder / "manifest.json").write_text(json.dumps(content | manifest), encoding="utf-8")
    return read_recording(folder)


def failures_in(history, config=None):
    return FailureWatch(None, config).restart(history).failures


@pytest.mark.parametrize(
    ("moves", "grades"), [((), [WATCH]), (("effective_rank",), []), (tuple(SOUND), [])]
)
def test_no_progress_is_that_nothing_moves(tmp_path, moves, grades):
    """All values of a series may be the same number."""
    still = {name: lambda number: 0.5 for name in SOUND if name not in moves}
    verdicts = judge_run(write_run(tmp_path, still)).verdicts
    assert [verdict.grade for verdict in verdicts if verdict.subject == "Progress"] == grades


MOVING = {"weights_moved": lambda n: 0.01 * n}
HARDLY = {"weights_moved": lambda n: 1e-6 * n}
NORM_OF_ONE = HARDLY | {"grad_norm": lambda n: 1.0}


@pytest.mark.parametrize(
    ("values", "settings", "words"),
    [
        (MOVING, {}, None),
        ({"weights_moved": lambda n: 0.7e-5 * n}, {}, "learning rate"),  # 1.3e-4 at the end
        ({"weights_moved": lambda n: 0.4e-5 * n}, {}, "hardly moved"),  # .8e-4
        ({"weights_moved": lambda n: 0.0}, {}, "No trained weight has changed"),
        (HARDLY, {"optim": "sgd"}, "SGD multiplies"),
        (
            HARDLY | {"grad_norm": lambda n: 1.0},
            {"optim": "sgd", "max_grad_norm": 0.007},
            "clipped",
        ),
        (HARDLY | {"grad_norm": lambda n: 1.0}, {"optim": "sgd", "max_grad_norm": 0.014}, "SGD m"),
        (HARDLY | {"grad_norm": lambda n: 0.0}, {}, "The norm of the gradient"),
        (HARDLY | {"learning_rate": lambda n: 1e-9}, {}, "at most 1e-09"),
    ],
)
def test_weights_that_stand_still_and_why(tmp_path, values, settings, words):
    still = {name: lambda number: 0.5 for name in SOUND}
    run = write_run(tmp_path, still | values, config={"loss": "infonce", **settings})
    progress = [v.finding for v in judge_run(run).verdicts if v.subject == "Progress"]
    assert len(progress) == (words not in (None, "learning rate"))
    assert not progress or words in progress[0]


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"learning_rate": lambda n: max(0.0, 1 - n / 13)}, None),  # 0 in 7 of 20
        ({"learning_rate": lambda n: max(0.0, 1 - n / 10)}, "rate ends early"),  # in 10
        ({"learning_rate": lambda n: 1 if n < 10 else 0.7e-3}, "rate ends early"),
        ({"learning_rate": lambda n: 1 if n < 10 else 1.4e-3}, None),
        ({"stale_gradient": lambda n: 6.0}, None),
        ({"stale_gradient": lambda n: 12.0}, "gradients not cleared"),
        ({"stale_gradient": lambda n: 12.0 * (n % 4)}, None),  # accumulated over four batches
    ],
)
def test_a_rate_that_ends_early_and_gradients_that_are_never_cleared(tmp_path, values, name):
    names = {verdict.name for verdict in judge_run(write_run(tmp_path, values)).verdicts}
    assert {"rate ends early", "gradients not cleared"} & names == {name} - {None}


def test_a_run_that_the_doctor_calls_bad_is_not_green(tmp_path):
    problem = {"subject": "labels", "finding": "They go to 5.", "change": "Divide them by 5."}
    evaluation = {"eval_a": lambda n: 0.5}
    assert judge_run(write_run(tmp_path, evaluation)).grade != BAD
    judgement = judge_run(write_run(tmp_path, watch={"doctor": [problem]}))
    assert judgement.grade == BAD
    assert judgement.headline.startswith("Set-up (labels): Before training")
    assert "They go to 5. Divide them by 5." in judgement.headline
    assert "They go to 5." in judgement.verdicts[0].finding


SOFTMAX = {"count": 8.0, "solved": 0.0, "alike": math.log(8), "wrong": 10.0, "halfway": 0.05}
SOLVED = SOFTMAX | {"solved": 0.7 * math.log(8), "wrong": 2.5}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (SOFTMAX, None),
        (SOFTMAX | {"solved": 0.35 * math.log(8)}, None),
        (SOLVED | {"halfway": 0.7 * math.log(8)}, "softmax twice"),
        (SOLVED | {"halfway": 0.74 * math.log(8)}, "softmax twice"),
        (
            SOLVED | {"halfway": 0.77 * math.log(8)},
            "loss cannot fall",
        ),
        (SOFTMAX | {"alike": math.log(15)}, None),  # both views, each without itself
        (SOFTMAX | {"alike": math.log(16), "solved": math.log(2)}, "own similarity"),
        (SOFTMAX | {"alike": math.log(16 * 1.007), "solved": math.log(2)}, "own similarity"),
        (SOFTMAX | {"alike": math.log(16 * 1.014), "solved": math.log(2)}, None),
        (SOFTMAX | {"alike": math.log(16), "solved": math.log(2) - 0.014}, None),
        (SOFTMAX | {"alike": 0.0, "solved": -4.0}, None),  # of alignment and uniformity
    ],
)
def test_the_formula_of_a_loss_of_ones_own(values, name):
    verdicts = [formula(values), reaction(values)]
    assert [verdict.name for verdict in verdicts if verdict is not None] == [name] * bool(name)


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_a_named_loss_with_a_mistake(tmp_path, mistake):
    verdicts = judge_run(write_run(tmp_path, watch={"departures": {"": mistake}})).verdicts
    (verdict,) = (v for v in verdicts if v.subject == "Formula")
    assert "infonce" in verdict.finding
    assert verdict.grade == BAD


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_mistakes_in_a_named_loss_are_told_by_its_value(mistake):
    torch.manual_seed(0)
    views = F.normalize(torch.randn(2, 16, 32, dtype=torch.float64), dim=2)
    logits, own = views[0] @ views[1].T / 0.1, torch.arange(16)
    both = F.normalize(torch.cat([*views]), dim=1)
    values = {
        "softmax twice": F.cross_entropy(F.softmax(logits, dim=1), own),
        "first row as target": F.cross_entropy(logits, torch.zeros(16, dtype=torch.long)),
        "next row as target": F.cross_entropy(logits, (own + 1) % 16),
        "own similarity": F.cross_entropy(both @ both.T / 0.1, (torch.arange(32) + 16) % 32),
        "sum": F.cross_entropy(logits, own, reduction="sum"),
        "no temperature": F.cross_entropy(views[0] @ views[1].T, own),
    }
    loss = gradlab.get_loss("infonce(temperature=0.1)")
    assert departure(loss, *views, float(values[mistake])) == mistake
    assert departure(loss, *views, float(F.cross_entropy(logits, own))) == ""


@pytest.mark.parametrize(
    ("resumed", "after", "name"),
    [
        (0, 3.0, "loss rises"),
        (100, 1.05, "loss does not fall"),
        (100, 1.6, "jump on resuming"),
        (200, 1.0, "nothing left"),
        (190, 1.0, "finished all steps"),
    ],
)
def test_resumed_runs(tmp_path, resumed, after, name):
    losses = {"batch_loss": lambda n: 1.0 + 0.01 * (n == 0) if n < 10 else after}
    run = write_run(tmp_path, losses, watch={"resumed": resumed})
    assert name in {verdict.name for verdict in judge_run(run).verdicts}


def history_of(total=1000, interval=25, **series):
    history = History(total)
    for name, values in series.items():
        for number, value in enumerate(values):
            history.add(interval * number, "diagnostics", {name: value})
    return history


def graded(judgement, grade):
    return [verdict.title for verdict in judgement.verdicts if verdict.grade == grade]


@pytest.mark.parametrize(
    ("values", "run", "grade", "subject"),
    [
        ({"batch_loss": lambda n: math.nan if n >= 10 else 1.0}, {}, BAD, "Numbers"),
        ({}, {"status": "crashed", "why": "RuntimeError: out of memory"}, BAD, "Run"),
        ({}, {"status": "stopped", "why": "KeyError: 'z3'"}, WATCH, "Run"),
        ({}, {"status": "ended", "watch": {"total_steps": 1000}}, WATCH, "Run"),
        ({}, {"status": "running"}, NOT_JUDGED, "Run"),
        ({}, {"records": 2}, NOT_JUDGED, "Run"),
        (
            {
                "gradient_dissipation": lambda n: 0.5 if n < 8 else 1e-119,
                "active": lambda n: float(n < 8),
            },
            {"loss": "infonce(temperature=0.001)"}, BAD, "Learning",
        ),
        (
            {
                "gradient_dissipation": lambda n: 0.5 if n < 8 else 1e-5,
                "active": lambda n: float(n < 8),
                "positive_cosine": lambda n: 0.3,
            },
            {}, WATCH, "Learning",
        ),
        ({"lemma_share": lambda n: 0.2 if n >= 17 else 0.9}, {}, WATCH, "Pull and push"),
    ],
)  # fmt: skip
def test_the_headline_is_never_green_over_what_is_wrong(tmp_path, values, run, grade, subject):
    recording = write_run(tmp_path, values, **run)
    judgement = judge_run(recording)
    assert judgement.grade == grade
    assert subject in graded(judgement, grade)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert f'class="verdict {grade.replace(" ", "-")}"' in page
    assert 'class="verdict good"' not in page
    if grade in (BAD, WATCH):
        (card,) = [verdict for verdict in judgement.verdicts if verdict.subject == subject]
        assert card.change
        assert subject.lower() in judgement.headline.lower()


def test_a_run_that_fell_silent_is_no_longer_called_running(tmp_path):
    write_run(tmp_path, status="running", watch={"total_steps": 1000})
    assert judge_run(read_recording(tmp_path)).grade == NOT_JUDGED
    old = time.time() - 7200
    os.utime(tmp_path / "metrics.csv", (old, old))
    assert judge_run(read_recording(tmp_path)).grade == WATCH


def plain_loss(first, second, temperature=0.05):
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    return F.cross_entropy(cosines / temperature, torch.arange(len(first)))


SCRIPT = """
import sys, torch, gradlab
watch = gradlab.watch(loss="infonce", output=sys.argv[1], every=1, total_steps=100)
for step in range(20):
    rows = torch.randn(8, 4)
    watch.observe(rows, rows + .1 * torch.randn(8, 4))
{end}
"""


@pytest.mark.parametrize(
    ("end", "grade", "words"),
    [
        ("raise RuntimeError('out of memory')", BAD, "with an error: RuntimeError: out of memory"),
        ("", WATCH, "The process ended at step 19 of 100"),
    ],
)
def test_how_a_process_ended_is_known(tmp_path, end, grade, words):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(end=end), encoding="utf-8")
    subprocess.run(
        [sys.executable, str(script), str(tmp_path / "run")], check=False, capture_output=True
    )
    (standing,) = [
        verdict
        for verdict in judge_run(read_recording(tmp_path / "run")).verdicts
        if verdict.subject == "Run"
    ]
    assert standing.grade == grade
    assert words in standing.finding


# Warnings


GONE = [1e-6] * 30
LOW = {"lemma_share": [0.0] * 6, "gradient_dissipation": [0.5] * 6}
APART = {"negative_cosine": [0.1] * 9}


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        # late in the run it is no fault
        ({"gradient_dissipation": [0.5, 0.1, 0.01, 1e-3, 1e-4, *GONE]}, []),
        ({"gradient_dissipation": GONE}, [("nothing to learn", 50)]),
        ({"gradient_dissipation": GONE, "total": None}, [("nothing to learn", 50)]),
        ({"gradient_dissipation": [0.5] * 10 + GONE, "total": None}, []),
        ({**LOW, "lemma_share": [0.2, 0.9, 0.2, 0.9, 0.2, 0.2]}, []),  # one bad record, and two
        ({**LOW, "lemma_share": [0.9, 0.2, 0.2, 0.2]}, [("ratio too low", 75)]),
        ({**LOW, "positive_cosine": [0.995] * 6}, []),  # the positive coincides with its anchor
        ({**LOW, "positive_cosine": [0.9] * 6}, [("ratio too low", 50)]),
        # comes as one point, and spreads
        ({"negative_cosine": [0.995, 0.99, 0.985, 0.97, 0.9, 0.5]}, []),
        # A narrow cone from the beginning is no collapse, unless its rank or the score says so.
        ({"negative_cosine": [0.995] * 12, "effective_rank": [20.0] * 12}, []),
        ({"negative_cosine": [0.995] * 12, "effective_rank": [2.0] * 12}, [("collapse", 225)]),
        (
            {
                "negative_cosine": [0.9, 0.99, 0.99, 0.99],
                "effective_rank": [20.0, 9.0, 9.0, 9.0],
            },
            [("collapse", 75)],
        ),
        ({"negative_cosine": [0.9, 0.99, 0.99, 0.99], "effective_rank": [20.0] * 4}, []),
        # two negatives say nothing
        ({"hardest_share": [0.5] * 9, "uniform_share": [0.5] * 9, **APART}, []),
        (
            {"hardest_share": [0.01] * 9, "uniform_share": [1 / 127] * 9, **APART},
            [("temperature too high", 50)],
        ),
        ({"not_finite": [0.0, 1.0, 1.0, 1.0]}, [("not finite", 25)]),
    ],
)  # fmt: skip
def test_a_failure_is_told_once_when_it_is_sure(series, expected):
    assert [
        (failure.name, failure.step) for failure in failures_in(history_of(**series))
    ] == expected


# A score of gradlab's training, and one of an evaluator of sentence-transformers.
OWN, EVALUATOR_SCORE = "stsb_dev", "eval_sts-dev_spearman_cosine"


@pytest.mark.parametrize(
    ("name", "scores", "total", "expected"),
    [
        # Within what evaluations scatter.
        (EVALUATOR_SCORE, {0: 0.4, 10: 0.6, 20: 0.65, 30: 0.645}, 30, None),
        (EVALUATOR_SCORE, {0: 0.4, 10: 0.65, 20: 0.6, 30: 0.62}, 30, ("score fell", 30)),
        (EVALUATOR_SCORE, {0: 0.4, 10: 0.65, 20: 0.6}, 30, None),  # not the end yet
        # No further evaluation comes.
        (EVALUATOR_SCORE, {0: 0.4, 10: 0.65, 20: 0.6}, 29, ("score fell", 20)),
        (EVALUATOR_SCORE, {0: 0.4, 10: 0.65, 20: 0.6, 30: 0.66}, 30, None),
        (EVALUATOR_SCORE, {0: 0.7, 10: 0.65}, 10, None),  # below the start, but at its best
        (EVALUATOR_SCORE, {10: 0.65, 20: 0.6, 30: 0.61}, None, None),
        (EVALUATOR_SCORE, {10: 0.65, 20: 0.6, 30: 0.61, 40: 0.6}, None, ("score fell", 40)),
        (EVALUATOR_SCORE, {10: 0.65, 20: math.nan}, 20, ("score fell", 20)),
        (EVALUATOR_SCORE, {10: math.nan, 20: math.nan}, 20, None),
        (OWN, {0: 0.479, 40: 0.279, 80: 0.1}, None, ("training hurts", 80)),
        (OWN, {0: 0.479, 40: 0.279, 80: 0.5, 120: 0.2}, None, None),
        (OWN, {0: 0.479, 40: 0.6, 80: 0.1, 120: 0.2}, None, ("training hurts", 120)),
        (OWN, {0: 0.479, 40: 0.279}, None, None),
        # Constant embeddings.
        (OWN, {0: 0.479, 40: math.nan, 80: math.nan}, None, ("training hurts", 80)),
        (OWN, {40: 0.2, 80: 0.1}, None, None),
        (OWN, {0: -0.1, 40: -0.2, 80: -0.3}, None, None),
        (OWN, {}, None, None),
    ],
)
def test_scores_that_training_ruins(name, scores, total, expected):
    history = History(total)
    for at, value in scores.items():
        history.add(at, "evaluation", {name: value, "eval_loss": 1.0})
    failures = [(failure.name, failure.step) for failure in failures_in(history)]
    assert failures == ([expected] if expected else [])


@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 1e-6, 0.2, 0.95, 0.999, 1.0])] * 4), max_size=30),
    st.integers(0, 30),
)
def test_what_is_told_while_training_is_what_a_recording_shows(records, resumed):
    """Also where the run was resumed somewhere."""
    names = ("gradient_dissipation", "lemma_share", "positive_cosine", "negative_cosine")
    history, watch = History(300), FailureWatch(300)
    for number, values in enumerate(records):
        record = dict(zip(names, values, strict=True)) | {
            "hardest_share": values[0],
            "uniform_share": 0.1,
        }
        history.add(10 * number, "diagnostics", record)
        if number == resumed:
            watch = watch.restart(history)
        else:
            watch.history.add(10 * number, "diagnostics", record)
            watch.look_for_failures(10 * number, {"diagnostics": record})
    assert watch.failures == failures_in(history)


def test_what_warns_shows_in_the_latest_record():
    """No failure is missed because its judgement is asked of some records only."""
    names = ("gradient_dissipation", "hardest_share", "lemma_share", "effective_rank")
    names += ("positive_cosine", "negative_cosine", "encoder_cosine", "encoder_rank")
    levels = np.array([-1e-5, 0.0, 1e-6, 0.02, 0.2, 0.45, 0.8, 0.95, 0.999, 1.0, math.nan])
    draw, asked = np.random.default_rng(0), collections.Counter()
    for trial in range(1500):
        history, used = History(300), names[: 6 if trial % 2 else 8]
        first, last = (dict(zip(used, draw.choice(levels, len(used)), strict=True)) for _ in "ab")
        for number, record in enumerate([first, last, last, last]):
            history.add(10 * number, "diagnostics", record | {"uniform_share": 0.1})
        ends = collections.defaultdict(lambda: math.nan, last | {"uniform_share": 0.1})
        for alarm in ALARMS:
            if alarm.judge(Records(history, config={})) is not None:
                asked[alarm] += 1
                assert alarm.is_shown(ends), (alarm, last)
    assert min(asked[alarm] for alarm in ALARMS) > 5


# Advice


def names_in(text):
    """Settings named in an advice: what stands after raise and lower."""
    return re.findall(r"(?:raise|lower) ([a-z_0-9]+)", text)


@pytest.mark.parametrize("name", gradlab.loss_names())
@pytest.mark.parametrize(
    ("statistic", "raises"), [(LEARNING, True), (HARDEST, True), (HARDEST, False), (PULL, True)]
)
def test_advice_names_settings_of_the_loss_and_they_do_what_it_says(name, statistic, raises):
    """On a batch other than the advice's, the statistic moves the promised way or not at all."""
    loss = gradlab.get_loss(name)
    fields = {field.name for field in dataclasses.fields(loss)}
    assert set(names_in(setting_change(LossInUse(loss), statistic, raises))) <= fields
    random = np.random.default_rng(1)
    # An anchor learns more where its task is easy by other settings.
    rows = random.standard_normal((40, 30))
    noise = 0.3 if statistic == LEARNING else random.uniform(0.2, 1.5, (40, 1))
    positives = rows + noise * random.standard_normal((40, 30))

    def measured(loss):
        statistics = getattr(gradlab.components(loss, rows, positives, normalize=True), statistic)
        statistics = np.asarray(statistics)[np.isfinite(statistics)]
        return (
            float(np.median(statistics) if statistic == PULL else np.mean(statistics))
            if statistics.size
            else math.nan
        )

    for setting, value, up in levers(loss, statistic, raises):
        moved = dataclasses.replace(
            loss, **{setting: value * (1.5 if up == (value > 0) else 1 / 1.5) or 0.1}
        )
        gain = measured(moved) - measured(loss)
        assert math.isnan(gain) or (gain if raises else -gain) >= -1e-9 * abs(measured(loss))


def test_each_dataset_has_its_own_verdicts(tmp_path):
    recording = write_run(tmp_path)
    for number in range(20):
        recording.history.add(10 * number, "diagnostics first", SOUND | {"lemma_share": 0.1})
        recording.history.add(10 * number, "diagnostics second", SOUND)
    judgement = judge_run(recording)
    assert graded(judgement, BAD) == ["Pull and push (first)"]  # from the first record on
    # The numbers of both data sets stand still, which explains it and comes first.
    assert judgement.verdicts[0].title == "Progress (first)"
    assert judgement.headline.startswith("Progress (first): ")
    assert "Check that the learning rate" in judgement.headline
    assert "Pull and push (second)" in graded(judgement, GOOD)


def test_each_dataset_has_a_loss_of_its_own(tmp_path):
    """Losses of two sizes by turns are no loss that rises."""
    recording = write_run(tmp_path, loss={"first": "met", "second": "infonce"})
    for number in range(20):
        recording.history.add(10 * number, "train", {"batch_loss first": 0.3 - 0.01 * number})
        recording.history.add(10 * number, "train", {"batch_loss second": 3.0 + 0.1 * number})
    judgement = judge_run(recording)
    assert "Loss (first)" in graded(judgement, GOOD)
    assert graded(judgement, WATCH) == ["Loss (second)"]
    recording.history.add(210, "train", {"batch_loss first": math.nan})
    assert "Numbers" in graded(judge_run(dataclasses.replace(recording)), BAD)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("eval_glossary_spearman_cosine", "score"),
        ("eval_glossary_loss", "loss"),
        ("eval_cosine_f1_threshold", None),
    ],
)
def test_scores_losses_and_thresholds_are_told_apart(name, kind):
    history = History()
    for step, value in ((10, 0.2), (20, 0.5), (30, 0.8)):
        history.add(step, "evaluation", {name: value})
    best = [score.best for score in history.scores()]
    assert best == ([] if kind is None else [(30, 0.8) if kind == "score" else (10, 0.2)])


def test_a_function_with_the_name_of_a_loss_is_not_taken_for_it(tmp_path):
    def infonce(first, second):
        return plain_loss(first, second, temperature=0.001)

    watch = gradlab.watch(loss=infonce, output=tmp_path, every=1)
    for _ in range(4):
        rows = torch.randn(16, 8)
        watch.observe(rows, rows + 0.1 * torch.randn(16, 8))
    watch.finish()
    assert read_recording(tmp_path).losses[""].loss is None


def test_advice_never_costs_a_run(tmp_path):
    """A loss of the user's own that cannot be computed on other batches than its own."""
    loss = gradlab.get_loss("infonce")

    class Own(type(loss)):
        def components(self, positive, negatives):
            if negatives.cosine.shape[0] != 16:
                raise RuntimeError("16 rows, no more, no less")
            return super().components(positive, negatives)

    watch = gradlab.watch(loss=Own(temperature=0.001), output=tmp_path, every=1)
    rows = torch.randn(16, 8)
    for _ in range(2):
        watch.observe(rows, rows + 0.1 * torch.randn(16, 8))
    with pytest.warns(TrainingWarning, match="Almost no sentence learns"):
        watch.observe(rows, rows + 0.1 * torch.randn(16, 8))
    assert "0.001" not in watch.failures[0].change


UP = {0: 0.40, 50: 0.55, 100: 0.60, 150: 0.62}


def judged_with(tmp_path, scores, values=None, **run):
    """The judgement of a sound run with scores, but for ``values``."""
    recording = write_run(tmp_path, values, **run)
    for step, score in scores.items():
        recording.history.add(step, "evaluation", {"stsb_dev": score})
    return judge_run(recording)


def test_green_needs_a_score_with_a_baseline(tmp_path):
    sound = judged_with(tmp_path / "a", UP)
    assert sound.grade == GOOD
    assert "so far" not in sound.headline
    assert "not judged" not in sound.headline
    assert "not known" not in sound.headline
    for number, scores in enumerate(({}, {150: 0.62}, {50: 0.55, 100: 0.6, 150: 0.62})):
        unknown = judged_with(tmp_path / str(number), scores)
        assert unknown.grade == NOT_JUDGED
        assert graded(unknown, NOT_JUDGED) == ["Scores"]
        assert "1 question was not judged: scores." in unknown.headline
        assert "Whether the model improves is not known" in unknown.headline


def test_a_score_below_the_one_before_training_is_bad(tmp_path):
    judgement = judged_with(tmp_path, {0: 0.252, 100: 0.225, 190: 0.198})
    assert graded(judgement, BAD) == ["Scores"]
    assert judgement.verdicts[0].name == "training hurts"


def test_one_card_advises_where_one_cause_explains_the_others(tmp_path):
    """At a temperature of 20 the loss card does not advise to train longer."""
    flat = {
        "hardest_share": lambda n: 1.1 / 63,
        "batch_loss": lambda n: math.log(64) - 1e-4 * n,
        "negative_cosine": lambda n: 0.9 - 0.001 * n,
        "positive_cosine": lambda n: 0.92,
    }
    judgement = judged_with(tmp_path, {0: 0.4, 190: 0.4}, flat, loss="infonce(temperature=20)")
    first, *later_verdicts = judgement.verdicts
    assert first.name == "temperature too high"
    assert judgement.headline.startswith(f"Hard negatives: {first.finding} {first.change}")
    assert "lower temperature from 20 to 0.05" in first.change.lower()
    effects = [verdict for verdict in later_verdicts if verdict.is_problem]
    assert {"hardly told apart", "loss of guessing"} <= {verdict.name for verdict in effects}
    assert all("“Hard negatives” explains this" in verdict.change for verdict in effects)


def test_a_collapse_that_has_passed_is_not_on_the_page(tmp_path):
    values = {
        "negative_cosine": lambda n: 0.99 if 3 <= n < 8 else 0.5 - 0.01 * n,
        "effective_rank": lambda n: 2.0 if 3 <= n < 8 else 20.0,
    }
    recording = write_run(tmp_path, values)
    assert [failure.name for failure in failures_of(recording).failures] == ["collapse"]
    assert graded(judge_run(recording), BAD) == []


def test_a_rising_score_contradicts_a_collapse(tmp_path):
    values = {
        "negative_cosine": lambda n: 0.9 if n == 0 else 0.99,
        "effective_rank": lambda n: 20.0 if n == 0 else 5.0,
    }
    judgement = judged_with(tmp_path / "up", UP, values)
    assert "collapse" not in [verdict.name for verdict in judgement.verdicts]
    down = judged_with(tmp_path / "down", {0: 0.4, 100: 0.3, 190: 0.2}, values)
    assert down.verdicts[0].name == "collapse"
    assert "explains this" in next(v for v in down.verdicts if v.name == "training hurts").change


def test_verdicts_are_a_function_of_measurements_in_json(tmp_path):
    recording = write_run(tmp_path, {"lemma_share": lambda n: 0.2})
    frozen = json.loads(json.dumps(measurements_of(recording)))
    assert judge(frozen) == judge_run(recording)


def test_effects_have_no_circle_and_name_verdicts():
    from graphlib import TopologicalSorter

    from gradlab.monitor import doctor_problems, verdicts

    TopologicalSorter(verdicts.EFFECTS).prepare()
    files = [Path(doctor_problems.__file__), *Path(verdicts.__file__).parent.glob("[!_]*.py")]
    code = "".join(file.read_text(encoding="utf-8") for file in files)
    names = {name for cause, effects in verdicts.EFFECTS.items() for name in (cause, *effects)}
    assert [name for name in names if f'"{name}"' not in code] == []
    assert set(re.findall(r'symptom="([a-z0-9-]+)"', code)) <= symptoms().keys()


def course(*pieces):
    """A loss of 40 records that goes through some values, evenly, with a little noise."""
    places = np.linspace(0, len(pieces) - 1, 40)
    noise = 0.02 * np.sin(np.arange(40) * 2.4)
    return [float(value) for value in np.interp(places, range(len(pieces)), pieces) + noise]


@pytest.mark.parametrize(
    ("pieces", "name"),
    [
        ([2.7, 1.2, 1.0, 2.7, 2.75], "loss came back"),
        ([2.7, 2.4, 2.0, 1.5, 1.0], "loss falls"),
        ([2.6, 2.7, 2.7, 2.75, 2.8], "loss does not fall"),
        ([2.7, 1.2, 1.0, 1.7, 1.7], "loss falls"),
        ([2.7, 1.2, 1.0, 2.0, 2.0], "loss rose again"),
    ],
)
def test_a_loss_that_fell_and_came_back_is_not_told_to_train_longer(pieces, name):
    rows = [[step, "train", "loss", loss] for step, loss in enumerate(course(*pieces))]
    (verdict,) = (v for v in judge({"rows": rows}).verdicts if v.subject == "Loss")
    assert verdict.name == name
    assert "longer" not in verdict.change


@pytest.mark.parametrize(
    ("scores", "advice"),
    [
        ([0.07, 0.07, 0.068, 0.069], "Check that the evaluator asks"),
        ([0.3, 0.29, 0.29, 0.292], "Lower the learning rate"),
    ],
)
def test_a_score_that_does_not_move_is_no_matter_of_the_rate(scores, advice):
    rows = [
        [10 * at, "evaluation", "eval_a_cosine_ndcg@10", score] for at, score in enumerate(scores)
    ]
    (verdict,) = (v for v in judge({"rows": rows}).verdicts if v.subject == "Scores")
    assert verdict.name == "score does not improve"
    assert verdict.change.startswith(advice)


@pytest.mark.parametrize(
    ("steps", "total", "name"),
    [(2, 2, "few steps"), (7, 7, "few steps"), (14, 14, "finished all steps")],
)
def test_a_finished_run_of_few_steps_is_too_short_and_not_early(tmp_path, steps, total, name):
    rows = [[step, "diagnostics", "positive_cosine", 0.5 + step / 100] for step in range(steps + 1)]
    manifest = {"kind": "watched run", "status": "finished", "watch": {"total_steps": total}}
    judgement = judge({"rows": rows, "manifest": manifest})
    (verdict,) = (v for v in judgement.verdicts if v.subject == "Run")
    assert verdict.name == name
    assert "yet" not in judgement.headline


@pytest.mark.parametrize(("end", "name"), [(14, "stopped early"), (28, "finished")])
def test_a_run_that_early_stopping_ends_at_its_beginning(end, name):
    rows = [[step, "diagnostics", "positive_cosine", 0.5 + step / 100] for step in range(end + 1)]
    rows += [[step, "watch", "run_seconds", float(step)] for step in range(end + 1)]
    rows += [[step, "evaluation", "eval_loss", 1.0] for step in range(0, end + 1, 7)]
    manifest = {"kind": "watched run", "status": "finished", "watch": {"total_steps": 100}}
    judgement = judge({"rows": rows, "manifest": manifest})
    (verdict,) = (v for v in judgement.verdicts if v.subject == "Run")
    assert verdict.name == name


@pytest.mark.parametrize(
    ("end", "kind", "name"),
    [
        (7, "watched run", "stopped without evaluation"),
        (28, "watched run", "stopped without evaluation"),
        (50, "watched run", "finished"),
        (28, "training run", "finished"),
    ],
)
def test_a_run_that_ends_early_though_nothing_was_evaluated(end, kind, name):
    rows = [[step, "diagnostics", "positive_cosine", 0.5 + step / 100] for step in range(end + 1)]
    rows += [[step, "watch", "run_seconds", float(step)] for step in range(end + 1)]
    manifest = {"kind": kind, "status": "finished", "watch": {"total_steps": 100}}
    (verdict,) = (v for v in judge({"rows": rows, "manifest": manifest}).verdicts
                  if v.subject == "Run")  # fmt: skip
    assert verdict.name == name


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("RuntimeError: The expanded size of the tensor (92) must match (64)", "max_seq_length"),
        ("IndexError: index out of range in self", "resize_token_embeddings"),
        ("torch.OutOfMemoryError: CUDA out of memory", "mini_batch_size"),
        ("IndexError: Target 3 is out of bounds.", "Count labels from 0"),
        ("RuntimeError: element 0 does not require grad", "enable_input_require_grads"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", "dimension"),
        ("KeyError: 'a'", "Fix the error"),
    ],
)
def test_the_cause_of_a_known_error_is_named(error, words):
    manifest = {"kind": "watched run", "status": "crashed", "why": error}
    rows = [[1, "train", "loss", 1.0]]
    (verdict,) = (v for v in judge({"rows": rows, "manifest": manifest}).verdicts
                  if v.subject == "Run")  # fmt: skip
    assert words in verdict.change


def test_advice_is_to_slow_down_where_sentences_were_better_apart_before():
    def change(first, last):
        negative = ("negative_cosine", (first, last))
        rows = [
            [step, "diagnostics", name, value]
            for name, ends in (("positive_cosine", (0.85, 0.9)), negative)
            for step, value in enumerate(np.linspace(*ends, 20))
        ]
        (verdict,) = (v for v in judge({"rows": rows}).verdicts if v.subject == "Spread")
        return verdict.change

    assert "lower the learning rate" in change(0.75, 0.87)
    assert "drawn together" in change(0.7, 0.89)
    assert not change(0.7, 0.75)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"solved": 2.0, "alike": 1.0, "wrong": 0.5}, "loss reversed"),
        ({"solved": 5.16, "alike": 9.5, "wrong": 6.16}, "loss cannot fall"),
        ({"solved": 5.16, "alike": 9.5, "wrong": 6.16, "shorter": 6.16}, "loss cannot fall"),
        ({"solved": 47.0, "alike": 49.5, "wrong": 48.5, "shorter": 48.7}, None),  # of a variance
        ({"solved": 0.7, "alike": 5.0, "wrong": 10.7}, None),
        ({"solved": -1.0, "alike": 0.0, "wrong": -0.9}, None),
    ],
)
def test_a_loss_prefers_right_pairs_to_wrong_ones_and_clearly(values, name):
    from gradlab.monitor.verdicts.formula import formula

    verdict = formula({"count": 8.0, "halfway": 1.0, **values})
    assert (verdict.name if verdict else None) == name


@pytest.mark.parametrize(
    ("moved", "names"),
    [
        ([0.0, 0.1, 0.15, 0.2, 0.9, 0.91], {"weights replaced"}),
        ([0.0, 0.1, 0.15, 0.2, 0.65, 0.7], set()),  # 4.5 times as far
        ([0.0, 0.02, 0.03, 0.04, 0.25, 0.3], set()),  # by .21
        ([0.0, 0.9, 1.1, 1.2, 1.25, 1.3], set()),
    ],
)
def test_weights_that_are_replaced_while_training(moved, names):
    rows = [[4 * at, "train", "weights_moved", share] for at, share in enumerate(moved)]
    verdicts = judge({"rows": rows}).verdicts
    assert {v.name for v in verdicts if v.subject == "Weights"} == names


def noisy(*pieces, width=0.12):
    """Shares in order of 21 records around a course; a batch compares few pairs."""
    places = np.linspace(0, len(pieces) - 1, 21)
    noise = width * np.sin(np.arange(21) * 2.4)
    return [float(v) for v in np.interp(places, range(len(pieces)), pieces) + noise]


@pytest.mark.parametrize(
    ("shares", "grade"),
    [
        ([0.5] + [0.7] * 19, GOOD),
        ([0.5] + [0.55] * 19, NOT_JUDGED),
        ([0.9] + [0.7] * 19, NOT_JUDGED),
        ([0.72] + [0.7] * 19, GOOD),
        ([0.5] + [0.3] * 19, BAD),
        (noisy(0.4, 0.4), BAD),  # distances as labels, of which the loss makes little
        (noisy(0.48, 0.48), NOT_JUDGED),  # of chance
        ([0.5] * 18 + [0.3] * 3, NOT_JUDGED),  # of chance, the last batches below
        (noisy(0.4, 0.4)[:7], NOT_JUDGED),  # of few records
        (noisy(0.15, 0.28), WATCH),  # distances as labels, fitted slowly
        (noisy(0.2, 0.3, 0.45), NOT_JUDGED),  # mined negatives, which are being learned
        (noisy(0.45, 0.2), BAD),
    ],
)
def test_the_order_of_labels_is_judged_without_components(shares, grade):
    rows = [[at, "diagnostics", "order", share] for at, share in enumerate(shares)]
    (verdict,) = (v for v in judge({"rows": rows}).verdicts if v.subject == "Order")
    assert verdict.grade == grade


@pytest.mark.parametrize(
    ("shares", "pearson", "spearman", "name"),
    [
        (noisy(0.35, 0.55), (0.2, 0.45), (0.56, 0.45), "order reversed"),
        (noisy(0.35, 0.55), (0.2, 0.45), (0.56, 0.66), "order"),  # the primary score rises
        (noisy(0.35, 0.55, 0.55), (0.2, 0.1), (0.56, 0.45), "order"),  # not clearly below half
    ],
)
def test_a_falling_score_is_a_second_sign_of_reversed_labels(shares, pearson, spearman, name):
    """As CoSENT and AnglE on reversed labels, which they fit; the score is the primary one."""
    rows = [[at, "diagnostics", "order", share] for at, share in enumerate(shares)]
    for metric, ends in (("pearson", pearson), ("spearman", spearman)):
        scores = ((0, ends[0]), (20, ends[1]))
        rows += [[at, "evaluation", f"eval_dev_{metric}_cosine", v] for at, v in scores]
    manifest = {"kind": "watched run", "status": "finished",
                "watch": {"total_steps": 20, "primary": "dev_spearman_cosine"}}  # fmt: skip
    assert verdict_on(judge({"rows": rows, "manifest": manifest}), "Order").name == name


@pytest.mark.parametrize(("moved", "subject"), [(0.0, "Progress"), (0.05, "Gradient")])
def test_gradients_that_add_up_in_weights_at_rest_are_not_in_the_optimizer(moved, subject):
    rows = [[at, "train", "weights_moved", moved * min(at, 1)] for at in range(20)]
    rows += [[at, "train", "stale_gradient", float(at)] for at in range(0, 60, 3)]
    judgement = judge({"rows": rows})
    assert judgement.headline.startswith(f"{subject}: ")
    assert ("make it after the encoder" in judgement.headline) == (subject == "Progress")
    assert ("zero_grad" in judgement.headline) == (subject == "Gradient")


def test_a_loss_without_a_push_is_the_cause_of_its_collapse():
    """As of a loss that only draws positives nearer, at a rate that moves the weights little."""
    alone = {"gradient_dissipation": 0.0, "active": 0.0}
    judgement = judged_under("unknown", False, **COLLAPSED, **alone)
    assert verdict_on(judgement, "Learning").name == "nothing pushes"
    pushed = alone | {"gradient_dissipation": [0.3] + [0.0] * 19}
    judgement = judged_under("unknown", False, **COLLAPSED, **pushed)
    assert judgement.headline.startswith("Spread: ")
    assert verdict_on(judgement, "Learning").cause == "collapse"


def judged_under(loss, known=True, scores=(), **series):
    """The judgement on 20 records under a loss; a number stands for equal values."""
    rows = []
    for name, values in series.items():
        points = values if isinstance(values, list) else [values] * 20
        rows += [[at, "diagnostics", name, value] for at, value in enumerate(points)]
    rows += [[at, "evaluation", "eval_dev_spearman_cosine", v] for at, v in scores]
    watch = {"known": {"": known}, "settings": {"": {}}, "total_steps": 19}
    config = {"loss": loss}
    manifest = {"kind": "watched run", "status": "finished", "config": config, "watch": watch}
    return judge({"rows": rows, "manifest": manifest})


def verdict_on(judgement, subject):
    (verdict,) = (v for v in judgement.verdicts if v.subject == subject)
    return verdict


COLLAPSED = {
    "positive_cosine": [0.9] + [0.995] * 19,
    "negative_cosine": [0.5] + [0.99] * 19,
    "effective_rank": [20.0] + [2.0] * 19,
}
APART = {"positive_cosine": 0.8, "negative_cosine": 0.1, "effective_rank": 20.0}
TEACHES = {"gradient_dissipation": 0.5, "active": 1.0}


@pytest.mark.parametrize(
    ("loss", "said", "unsaid"),
    [
        ("cosent", "low labels", "scale|temperature|negatives;|more negatives"),
        ("infonce", "use more negatives", "temperature|scale|labels"),
        ("cosent(temperature=1.0)", "lower temperature from 1 to 0.05", "more negatives"),
        ("baseline(static_ratio=3.0)", "lower static_ratio from 3 to 1", "low labels"),
    ],
)
def test_advice_on_a_collapse_names_what_the_loss_has(loss, said, unsaid):
    change = verdict_on(judged_under(loss, **COLLAPSED, **TEACHES), "Spread").change
    assert said in change
    assert not re.search(unsaid, change)


@pytest.mark.parametrize(("first", "begins"), [(0.51, "Look with"), (0.6, "Lower the")])
def test_advice_on_a_collapse_begins_with_pairs_that_began_at_chance(first, begins):
    """As of shuffled pairs, and of right ones at a rate that is too high."""
    collapsed = COLLAPSED | {"positive_cosine": [first] + [0.99] * 19}
    assert verdict_on(judged_under("infonce", **collapsed), "Spread").change.startswith(begins)


@pytest.mark.parametrize(
    ("loss", "known", "has_negatives"),
    [("cosent", True, False), ("CosineSimilarityLoss", False, False), ("infonce", True, True)],
)
def test_other_negatives_are_the_advice_where_there_are_some(loss, known, has_negatives):
    measured = TEACHES | ({"hardest_share": 0.5, "uniform_share": 0.05} if has_negatives else {})
    judgement = judged_under(loss, known, [(0, 0.6), (19, 0.4)], **APART, **measured)
    assert ("negatives" in verdict_on(judgement, "Scores").change) == has_negatives


def test_a_loss_without_triples_says_why_two_questions_are_open():
    judgement = judged_under("cosent", **APART, **TEACHES, hardest_share=math.nan)
    assert verdict_on(judgement, "Learning").grade == GOOD
    unmeasured = judged_under("CosineSimilarityLoss", False, **APART)
    for subject in ("Hard negatives", "Pull and push"):
        assert "compares no anchor" in verdict_on(judgement, subject).finding
        assert "Does not apply" in verdict_on(unmeasured, subject).finding


CLOSE = APART | {"negative_cosine": 0.77}


@pytest.mark.parametrize(
    ("series", "grade"), [(COLLAPSED, NOT_JUDGED), (CLOSE, NOT_JUDGED), (APART, GOOD)]
)
def test_a_gradient_is_no_good_sign_beside_a_collapse(series, grade):
    measured = TEACHES | {"hardest_share": 0.5, "uniform_share": 0.05, "lemma_share": 0.9}
    judgement = judged_under("infonce", **series, **measured)
    for subject in ("Learning", "Hard negatives", "Pull and push"):
        assert verdict_on(judgement, subject).grade == grade


@pytest.mark.parametrize(("label", "grade"), [(1, "look at the labels"), (0, "too easy")])
def test_a_loss_of_labels_without_a_gradient_is_not_called_too_easy(label, grade):
    still = {"gradient_dissipation": 0.0, "active": 0.0}
    judgement = judged_under("cosent" if label else "infonce", **APART, **still)
    assert grade in verdict_on(judgement, "Learning").change.lower()


@pytest.mark.parametrize(
    ("group", "name", "values", "words"),
    [
        ("diagnostics", "order", [0.5 + at / 30 for at in range(12)], "Order looks sound"),
        ("evaluation", "eval_dev_spearman_cosine", [0.5, 0.6], "Scores look sound"),
    ],
)
def test_a_headline_has_the_verb_of_its_subject(group, name, values, words):
    rows = [[at, group, name, value] for at, value in enumerate(values)]
    assert words in judge({"rows": rows}).headline


@pytest.mark.parametrize(("grade", "words"), [(WATCH, "To fix it: x"), (GOOD, "Next: x")])
def test_only_a_problem_is_to_be_fixed(grade, words):
    assert words in str(Verdict("Spread", grade, "a.", "x"))


@pytest.mark.parametrize(("in_order", "cause"), [(0.38, "Order"), (0.5, "Spread")])
def test_reversed_order_explains_a_collapse_and_a_fallen_score(in_order, cause):
    """As CoSENT on reversed labels, where a larger scale, the advice on a collapse, is no help."""
    rows = []
    for at in range(20):
        near = 0.9 + 0.095 * min(at, 8) / 8
        values = {"positive_cosine": near + 0.001, "negative_cosine": near, "order": in_order}
        values |= {} if at else {"positive_cosine": 0.95, "order": 0.52}
        rows += [[at, "diagnostics", name, value] for name, value in values.items()]
    rows += [[at, "evaluation", "eval_dev_spearman_cosine", v] for at, v in ((0, 0.39), (19, 0.3))]
    judged = judge({"rows": rows})
    assert judged.headline.startswith(f"{cause}: ")
    (scores,) = (v for v in judged.verdicts if v.subject == "Scores")
    assert scores.change.startswith(f"“{cause}” explains this")


@pytest.mark.parametrize(("in_order", "grade"), [(0.7, NOT_JUDGED), (0.55, WATCH)])
def test_cosines_close_together_are_no_fault_where_labels_stand_in_order(in_order, grade):
    values = {"positive_cosine": 0.9, "negative_cosine": 0.88, "order": in_order}
    rows = [[at, "diagnostics", name, v] for at in range(20) for name, v in values.items()]
    (verdict,) = (v for v in judge({"rows": rows}).verdicts if v.subject == "Spread")
    assert verdict.grade == grade

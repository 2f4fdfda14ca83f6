"""The watcher's warnings: each fires in a run made to fail that way, none in a healthy one."""

from __future__ import annotations

import warnings

import pytest

import gradlab
from gradlab.monitor.findings import FAILURES as KNOWN
from gradlab.monitor.findings import findings
from gradlab.monitor.history import History
from gradlab.monitor.watcher import TrainingWarning
from tests.sentence_training import columns_of, make_trainer
from tests.tiny_models import make_bert

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")

ADAM = {"optim": "adamw_torch", "learning_rate": 1e-3, "max_steps": 40}
# loss, dropout, columns: what goes wrong
FAILURES = {
    "nothing to learn": ("infonce(temperature=0.001)", 0.0, 1),
    "temperature too high": ("infonce(temperature=2.0)", 0.1, 2),
    "collapse": ("baseline(static_ratio=10.0)", 0.1, 2),
    "ratio too low": ("baseline(static_ratio=0.1)", 0.1, 2),
}


def run(folder, output, loss, columns):
    trainer = make_trainer(
        folder, output, lambda model: adapter.loss(model, loss), columns_of(320, columns), **ADAM
    )
    watcher = gradlab.watch(trainer)
    trainer.train()
    return watcher


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failing_run_is_told(failure, tmp_path):
    loss, dropout, columns = FAILURES[failure]
    folder = make_bert(tmp_path / "bert", dropout=dropout)
    with pytest.warns(TrainingWarning) as caught:
        watcher = run(folder, tmp_path / "run", loss, columns)
    assert [finding.name for finding in watcher.findings] == [failure]
    (message,) = {str(warning.message) for warning in caught if warning.category is TrainingWarning}
    assert watcher.findings[0].headline in message
    assert watcher.findings[0].advice in watcher.summary()


@pytest.mark.parametrize(("loss", "columns"), [("infonce", 1), ("arccon", 2), ("met", 3), ("baseline", 2)])
def test_a_healthy_run_is_silent(loss, columns, tmp_path):
    folder = make_bert(tmp_path / "bert")
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        watcher = run(folder, tmp_path / "run", loss, columns)
    assert len(watcher.to_frame().dropna(subset=["active"])) == 20
    assert watcher.findings == []


def history_of(total=1000, every=25, **series):
    history = History(total)
    for name, values in series.items():
        for number, value in enumerate(values):
            history.add(every * number, "diagnostics", {name: value})
    return history


def test_early_means_early():
    falling = [0.5, 0.1, 0.01, 1e-3, 1e-4, *[1e-6] * 30]
    assert findings(history_of(gradient_dissipation=falling)) == []
    gone = [1e-6] * 30
    (found,) = findings(history_of(gradient_dissipation=gone))
    assert found.step == 50
    assert findings(history_of(total=None, gradient_dissipation=gone)) == [found]
    assert findings(history_of(total=None, gradient_dissipation=[0.5] * 10 + gone)) == []


def test_one_bad_record_is_no_failure():
    bad, good = {"lemma_share": 0.2, "gradient_dissipation": 0.5}, {"lemma_share": 0.9}
    for shares, expected in (([bad, good, bad, good] * 3, []), ([good, bad, bad, bad], [75])):
        history = History(1000)
        for number, values in enumerate(shares):
            history.add(25 * number, "diagnostics", {**values, "gradient_dissipation": 0.5})
        assert [finding.step for finding in findings(history)] == expected


def test_a_model_that_comes_as_one_point_gets_time_to_spread():
    spreading = [0.995, 0.99, 0.985, 0.97, 0.9, 0.5]
    assert findings(history_of(negative_cosine=spreading)) == []
    (found,) = findings(history_of(negative_cosine=[0.995] * 12))
    assert (found.name, found.step) == ("collapse", 225)
    (found,) = findings(history_of(negative_cosine=[0.9, 0.98, 0.985, 0.985, 0.99]))
    assert (found.name, found.step) == ("collapse", 100)


def test_two_negatives_say_nothing_of_the_temperature():
    flat = {"hardest_share": [0.5] * 9, "uniform_share": [0.5] * 9, "negative_cosine": [0.1] * 9}
    assert findings(history_of(**flat)) == []
    few = {"hardest_share": [0.8] * 9, "uniform_share": [1 / 3] * 9, "negative_cosine": [0.1] * 9}
    assert findings(history_of(**few)) == []
    many = {"hardest_share": [0.01] * 9, "uniform_share": [1 / 127] * 9, "negative_cosine": [0.1] * 9}
    assert [finding.name for finding in findings(history_of(**many))] == ["temperature too high"]


def test_a_positive_that_coincides_with_its_anchor_is_no_failure_of_the_ratio():
    low = {"lemma_share": [0.0] * 6, "gradient_dissipation": [0.5] * 6}
    assert findings(history_of(**low, positive_cosine=[1.0] * 6)) == []
    assert [f.name for f in findings(history_of(**low, positive_cosine=[0.9] * 6))] == ["ratio too low"]


def test_every_check_speaks_in_whole_sentences():
    assert len(KNOWN) == len(FAILURES)
    everything = history_of(
        gradient_dissipation=[1e-6] * 4 + [0.5] * 8, hardest_share=[0.01] * 12, uniform_share=[0.01] * 12,
        negative_cosine=[0.1] * 2 + [0.99] * 10, lemma_share=[0.1] * 12, ratio_median=[0.2] * 12,
        effective_rank=[1.5] * 12,
    )  # fmt: skip
    for finding in findings(everything):
        assert finding.headline.endswith(".")
        assert finding.advice.endswith(".")
        assert "nan" not in finding.headline.lower()

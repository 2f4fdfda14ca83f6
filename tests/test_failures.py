"""Known failures: each fires in a run made to fail that way, none in a healthy one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradlab.monitor.history import History
from gradlab.monitor.judge import Judge


def failures_of(history, config=None):
    return Judge(None, config).anew(history).failures


def history_of(total=1000, every=25, **series):
    history = History(total)
    for name, values in series.items():
        for number, value in enumerate(values):
            history.add(every * number, "diagnostics", {name: value})
    return history


def test_early_means_early():
    falling = [0.5, 0.1, 0.01, 1e-3, 1e-4, *[1e-6] * 30]
    assert failures_of(history_of(gradient_dissipation=falling)) == []
    gone = [1e-6] * 30
    (found,) = failures_of(history_of(gradient_dissipation=gone))
    assert found.step == 50
    assert failures_of(history_of(total=None, gradient_dissipation=gone)) == [found]
    assert failures_of(history_of(total=None, gradient_dissipation=[0.5] * 10 + gone)) == []


def test_one_bad_record_is_no_failure():
    bad, good = {"lemma_share": 0.2, "gradient_dissipation": 0.5}, {"lemma_share": 0.9}
    for shares, expected in (([bad, good, bad, good] * 3, []), ([good, bad, bad, bad], [75])):
        history = History(1000)
        for number, values in enumerate(shares):
            history.add(25 * number, "diagnostics", {**values, "gradient_dissipation": 0.5})
        assert [failure.step for failure in failures_of(history)] == expected


def test_a_model_that_comes_as_one_point_gets_time_to_spread():
    spreading = [0.995, 0.99, 0.985, 0.97, 0.9, 0.5]
    assert failures_of(history_of(negative_cosine=spreading)) == []
    (found,) = failures_of(history_of(negative_cosine=[0.995] * 12))
    assert (found.name, found.step) == ("collapse", 225)


def test_two_negatives_say_nothing_of_the_temperature():
    flat = {"hardest_share": [0.5] * 9, "uniform_share": [0.5] * 9, "negative_cosine": [0.1] * 9}
    assert failures_of(history_of(**flat)) == []
    many = {"hardest_share": [0.01] * 9, "uniform_share": [1 / 127] * 9, "negative_cosine": [0.1] * 9}
    assert [failure.name for failure in failures_of(history_of(**many))] == ["temperature too high"]


def test_a_positive_that_coincides_with_its_anchor_is_no_failure_of_the_ratio():
    low = {"lemma_share": [0.0] * 6, "gradient_dissipation": [0.5] * 6}
    assert failures_of(history_of(**low, positive_cosine=[0.995] * 6)) == []
    assert [f.name for f in failures_of(history_of(**low, positive_cosine=[0.9] * 6))] == ["ratio too low"]


@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 1e-6, 0.2, 0.95, 0.999, 1.0])] * 4), max_size=30),
    st.integers(0, 30),
)
def test_what_is_told_while_training_is_what_a_recording_shows(records, resumed):
    """Also where the run was resumed somewhere."""
    names = ("gradient_dissipation", "lemma_share", "positive_cosine", "negative_cosine")
    history, judge = History(300), Judge(300)
    for number, values in enumerate(records):
        record = dict(zip(names, values, strict=True)) | {"hardest_share": values[0], "uniform_share": 0.1}
        history.add(10 * number, "diagnostics", record)
        if number == resumed:
            judge = judge.anew(history)
        else:
            judge.see(10 * number, "diagnostics", record)
    assert judge.failures == failures_of(history)


def test_a_failure_is_told_once():
    (found,) = failures_of(history_of(not_finite=[0.0, 1.0, 1.0, 1.0]))
    assert found.step == 25

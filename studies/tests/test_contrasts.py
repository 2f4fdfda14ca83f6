"""Contrasts by patterns of labels, as declarations state them."""

from __future__ import annotations

import pandas as pd
import pytest

from gradlab import GradlabError
from studies.contrasts import declared

LABELS = [
    f"{gate} / {weight}, ratio={ratio}"
    for gate in ("none", "hard")
    for weight in ("a", "b")
    for ratio in (1, 2)
]


def test_a_pattern_is_every_label_that_it_matches():
    gate = {"name": "gate", "plus": ["hard / *"], "minus": ["none / *"], "margin": 3.0}
    (contrast,) = declared({"contrasts": [gate]}, LABELS)
    hard, none = tuple(LABELS[4:]), tuple(LABELS[:4])
    assert (contrast.plus, contrast.minus, contrast.margin, contrast.score) == (
        hard,
        none,
        3.0,
        "sts",
    )
    assert sum(contrast.weights.values()) == pytest.approx(0)
    assert sum(abs(weight) for weight in contrast.weights.values()) == pytest.approx(2)


def test_a_seed_counts_only_with_all_conditions():
    design = {"score": "dev", "contrasts": [{"name": "ratio", "plus": ["*=2"], "minus": ["*=1"]}]}
    (contrast,) = declared(design, LABELS)
    rows = pd.DataFrame(
        [(label, seed, 0.1 * seed * label.endswith("2")) for seed in (1, 2, 3) for label in LABELS]
    )
    rows.columns = ["label", "seed", "dev"]
    interval = contrast.interval(rows.iloc[:-1])
    assert (interval.count, interval.mean) == (2, pytest.approx(15))


def test_a_label_that_no_condition_has_is_an_error():
    soft = {"name": "", "plus": ["soft / *"], "minus": ["none / *"]}
    with pytest.raises(GradlabError, match="'soft / \\*', which is none of the conditions' labels"):
        declared({"explored": [soft]}, LABELS, "explored")

"""Contrasts by patterns of labels, their families, and verdicts on the papers' claims."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from studies.evidence.declarations import (
    CLAIM_DESIGNS,
    CONTRASTS,
    DESIGNS,
    WORDS,
    at_best,
    judge_claim,
    judge_parts,
    measured,
    read_first_round,
    read_second_round,
)

LABELS = [
    f"{gate} / {weight}, ratio={ratio}"
    for gate in ("none", "hard")
    for weight in ("a", "b")
    for ratio in (1, 2)
]
COMMITTED = read_second_round()


def scored(score, column="sts", labels=LABELS, seeds=(1, 2, 3)):
    """A row a label and seed, with the score that ``score(label, seed)`` gives."""
    runs = [(label, seed, score(label, seed)) for label in labels for seed in seeds]
    return pd.DataFrame(runs, columns=["label", "seed", column])


def part_rows(experiment, score, column="sts"):
    """Rows of all committed runs of a part, with other scores."""
    table = COMMITTED[experiment]
    return scored(score, column, table.label.unique(), table.seed.unique())


def test_a_pattern_is_every_label_that_it_matches():
    gate = {"name": "gate", "plus": ["hard / *"], "minus": ["none / *"], "margin": 3.0}
    rows = scored(lambda label, seed: 0.1 * label.startswith("hard") + 0.01 * seed)
    ((entry, interval),) = measured({"contrasts": [gate]}, rows)
    assert entry is gate
    assert (interval.mean, interval.count) == (pytest.approx(10), 3)


def test_a_seed_counts_only_with_all_conditions():
    design = {"score": "dev", "contrasts": [{"name": "ratio", "plus": ["*=2"], "minus": ["*=1"]}]}
    rows = scored(lambda label, seed: 0.1 * seed * label.endswith("2"), "dev")
    ((_, interval),) = measured(design, rows[~((rows.seed == 3) & (rows.label == LABELS[-1]))])
    assert (interval.count, interval.mean) == (2, pytest.approx(15))
    soft = {"name": "", "plus": ["soft / *"], "minus": ["none / *"]}
    ((_, interval),) = measured({"explored": [soft]}, scored(lambda *_: 0.5), "explored")
    assert interval.count == 0


def test_every_declared_contrast_has_the_committed_rows_that_it_asks_for():
    first = read_first_round()
    for experiment, design in CONTRASTS.items():
        for kind in ("contrasts", "explored"):
            for entry, interval in measured(design, first[f"encoder-{experiment}"], kind):
                assert interval.count >= 2, entry["name"]
    for experiment, table in COMMITTED.items():
        design = DESIGNS[experiment]
        assert set(table.seed) == set(design["seeds"])
        assert len(table) == len(table.drop_duplicates(["label", "seed"]))
        assert len(table) == table.label.nunique() * len(design["seeds"])
        best = at_best(table, design["at_best"], "stsb_dev") if "at_best" in design else table
        for entry, interval in measured(design, best):
            assert interval.count == len(design["seeds"]), entry["name"]


def test_every_claim_has_its_words():
    assert WORDS["claims"].keys() == CLAIM_DESIGNS.keys()


def test_contrasts_of_all_parts_are_one_family():
    rng = np.random.default_rng(0)

    def score(label, _):
        return 0.6 + 0.1 * ("identity" in label) + rng.normal(0, 0.003)

    rows = {experiment: part_rows(experiment, score) for experiment in ("heads", "rates")}
    table = judge_parts(rows).set_index("name")
    assert len(table) == 7
    assert table.verdict["identity − random, SimCSE"] == "supported"
    assert table.estimate["identity − random, SimCSE"] == pytest.approx(10, abs=1)
    alone = judge_parts({"heads": rows["heads"]}).set_index("name")
    assert (table.holm[alone.index] >= alone.holm).all()


def test_a_claim_of_a_paper_is_a_family_of_its_own():
    rng = np.random.default_rng(0)
    runs = part_rows("distance", lambda label, _: 0.5 + 0.1 * (label == "14.67 steps")
                     + rng.normal(0, 0.01))  # fmt: skip
    table = judge_parts({"distance": runs})
    p = []
    for shorter in (["3 steps"], ["52 steps"], ["7.67", "38.67"], ["10", "28"]):
        rivals = runs[runs.label.str.startswith(tuple(shorter))].groupby("seed").sts.mean()
        best = runs[runs.label == "14.67 steps"].set_index("seed").sts
        p.append(stats.ttest_rel(best, rivals).pvalue)
    assert table.holm.to_numpy() == pytest.approx(multipletests(p, method="holm")[1])
    together = judge_parts({"heads": COMMITTED["heads"], "distance": runs})
    pd.testing.assert_frame_equal(
        together[together.part == "distance"].reset_index(drop=True), table
    )


@pytest.mark.parametrize(
    ("holm", "estimates", "verdict"),
    [
        ([0.01, 0.04], [1, 2], "reproduced"),
        ([0.01, 0.06], [1, 2], "inconclusive"),
        ([0.01, 0.04], [1, -2], "contradicted"),
        ([0.01, 0.06], [1, -2], "inconclusive"),
    ],
)
def test_a_claim_is_reproduced_if_all_of_its_contrasts_are(holm, estimates, verdict):
    assert judge_claim(pd.DataFrame({"holm": holm, "estimate": estimates})) == verdict


@pytest.mark.parametrize(
    ("holm", "within", "verdict"),
    [
        ([0.01, 0.3], ["yes", "yes"], "reproduced"),
        ([0.3, 0.3], ["yes", "no"], "inconclusive"),
        ([0.3, 0.01], ["yes", "no"], "contradicted"),
    ],
)
def test_a_claim_of_equality_needs_every_difference_within_its_margin(holm, within, verdict):
    table = pd.DataFrame({"holm": holm, "estimate": [1, 2], "within_margin": within})
    assert judge_claim(table, "equal") == verdict
    # By the other rule a difference that is clear of 0 decides.
    if verdict == "contradicted":
        assert judge_claim(table) == "inconclusive"


def test_conditions_are_compared_at_the_better_of_their_rates():
    """By hand: at 5e-5 and 2e-4, means of 0.62 and 0.60 with a margin of 0.3, 0.55 and 0.58 with
    one of 0.6; the seeds differ by 0.02, 0.04 and 0.06 at these."""
    means = {("0.3", "5e-05"): 0.62, ("0.3", "0.0002"): 0.60,
             ("0.6", "5e-05"): 0.55, ("0.6", "0.0002"): 0.58,
             ("1.0", "5e-05"): 0.50, ("1.0", "0.0002"): 0.40}  # fmt: skip

    def score(label, seed):
        margin, rate = re.findall(r"=([^,]+)", label)
        return means[margin, rate] + (seed - 12) * 0.02 * (margin == "0.3")

    rows = part_rows("margins", score, "stsb_dev")
    assert len(rows) == 18
    by_margin = at_best(rows, "learning_rate", "stsb_dev").groupby("label").stsb_dev.mean()
    assert by_margin.to_dict() == pytest.approx(
        {f"loss_settings.margin={margin}": mean for margin, mean in
         (("0.3", 0.62), ("0.6", 0.58), ("1.0", 0.50))}
    )  # fmt: skip
    first, second = judge_parts({"margins": rows}).itertuples()
    assert (first.estimate, second.estimate) == pytest.approx((4, 12))
    # Differences of 2, 4 and 6 points: their standard error is 2/√3, and t(.975, 2) = 4.3027.
    assert first.low == pytest.approx(4 - 4.3027 * 2 / 3**0.5, abs=1e-3)


def test_alignment_and_uniformity_are_no_points():
    rows = part_rows(
        "paths", lambda label, seed: -2.0 - (label != "14.67 steps") * (seed - 10) / 10,
        "alignment_uniformity",
    )  # fmt: skip
    table = judge_parts({"paths": rows})
    assert table.estimate.to_list() == pytest.approx([0.2, 0.2])  # of 0.1, 0.2 and 0.3

"""Tables of the second round: learning rates and interventions beside naive loops."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from studies.evidence import surface
from studies.evidence.declarations import SECOND_ROUND, read_second_round
from studies.evidence.report import write_second_round
from studies.evidence.second_round import ALL, differences, interventions, means, over_rates
from studies.tests.test_contrasts import part_rows

# Models of the surface that are fitted anew: each Gaussian process takes seconds.
FITTED = ("mean", "additive", "additive with the logarithm of the margin",
          "Gaussian process without learning rate")  # fmt: skip


@pytest.fixture
def few_fits(monkeypatch):
    """Errors of the surface's models of which only `FITTED` are fitted; the rest are as committed.

    `python -m studies report` fits all of them.
    """
    errors = pd.read_csv(SECOND_ROUND / "surface-errors.csv")

    def ten_fold(table):
        fitted = fit(table, names=FITTED)
        return pd.concat([fitted, errors[~errors.model.isin(FITTED)]]).set_index("model").loc[
            errors.model
        ].reset_index()  # fmt: skip

    fit = surface.ten_fold
    monkeypatch.setattr(surface, "ten_fold", ten_fold)


def test_the_committed_tables_follow_from_the_committed_rows(tmp_path, few_fits):
    for experiment in (*read_second_round(), "features", "interventions"):
        shutil.copy(SECOND_ROUND / f"{experiment}.csv", tmp_path)
    lines = list(write_second_round(tmp_path))
    tables = {file.name: file.read_text() for file in tmp_path.glob("*.csv")}
    assert {"contrasts.csv", "prediction-errors.csv", "interventions-orders.csv"} <= tables.keys()
    assert tables == {name: (SECOND_ROUND / name).read_text() for name in tables}
    assert "ESimCSE, Table 8: dropout: contradicted" in lines
    assert (tmp_path / "claims.png").stat().st_size > 0


def test_the_uniform_limit_is_compared_within_seeds():
    rng = np.random.default_rng(0)
    rows = part_rows("uniform", lambda *_: rng.uniform(0.2, 0.6))
    assert len(rows) == 54
    table = over_rates("uniform", rows.sample(frac=1, random_state=0))
    assert list(dict.fromkeys(table.line)) == ["uniform", "τ 10", "τ 3"]
    scores = {(label, seed): 100 * score for label, seed, score in rows.itertuples(index=False)}
    compared = differences(table)
    assert len(compared) == 2 * (6 + 1)
    for rate, pattern in ((3e-6, "learning_rate=3e-06"), (ALL, "")):
        own = [
            np.mean([scores[key] for key in scores if key[1] == seed and pattern in key[0]
                     and key[0].startswith(line)])
            for seed in (11, 12, 13)
            for line in ("τ 3", "uniform")
        ]  # fmt: skip
        own = np.subtract(own[::2], own[1::2])
        half = stats.t.ppf(0.975, 2) * own.std(ddof=1) / 3**0.5
        names = (compared.plus == "τ 3") & (compared.minus == "uniform")
        row = compared[names & (compared.rate == rate)]
        expected = [own.mean(), own.mean() - half, own.mean() + half, 3]
        assert row[["mean", "low", "high", "seeds"]].to_numpy()[0] == pytest.approx(expected)
    of_rate = means(table).query("line == 'τ 10' and rate == 1e-5")
    assert of_rate["mean"].item() == pytest.approx(
        np.mean([scores["τ 10, learning_rate=1e-05", seed] for seed in (11, 12, 13)])
    )


def test_a_gate_at_the_end_is_compared_with_stopping_early_without_one():
    at_end, at_best = {"gate": 0.60, "no gate": 0.50}, {"gate": 0.62, "no gate": 0.59}
    best = part_rows("long", lambda label, seed: at_best[label.partition(",")[0]] + seed / 1e4)
    last = part_rows("long", lambda label, seed: at_end[label.partition(",")[0]] + seed / 1e4)
    table = differences(over_rates("long", best.assign(sts_last=last.sts)))
    compared = {(row.plus, row.minus): row.mean for row in table.itertuples() if row.rate == 1e-4}
    last, best = " after the last step", " at the best evaluation"
    assert compared == pytest.approx({
        ("gate" + last, "no gate" + last): 10, ("gate" + best, "no gate" + best): 3,
        ("no gate" + best, "no gate" + last): 9, ("gate" + best, "gate" + last): 2,
        ("gate" + last, "no gate" + best): 1,
    })  # fmt: skip


@pytest.fixture
def table():
    """Outcomes of ten losses from two encoders of three seeds."""
    rng = np.random.default_rng(0)
    synthetic = pd.DataFrame(
        [(seed, step, loss) for seed in (1, 2, 3) for step in (0, 5) for loss in "abcdefghij"],
        columns=["seed", "step", "loss"],
    )
    for name in ("stsb_dev", "alignment", "uniformity", "pull", "hardest_share"):
        synthetic[name] = rng.normal(size=len(synthetic))
    return synthetic


def test_correlations_are_within_a_seed_and_a_kept_encoder(table):
    orders = interventions(table)["interventions-orders"].set_index(["step", "what"])
    for (step, measure), row in orders.iterrows():
        groups = [table[(table.step == step) & (table.seed == seed)] for seed in (1, 2, 3)]
        by_seed = [stats.spearmanr(group[measure], group.stsb_dev).statistic for group in groups]
        assert row["mean"] == pytest.approx(np.mean(by_seed))
        half = 4.302653 * np.std(by_seed, ddof=1) / np.sqrt(3)
        assert row.high - row["mean"] == pytest.approx(half)


def test_what_a_line_leaves_out_beside_a_loop_over_losses(table):
    table["stsb_dev"] += 3 * table.alignment
    shares_left = interventions(table)["interventions-left-out"].set_index(["step", "fitted"])
    shares = []
    for seed in (1, 2, 3):
        group = table[(table.step == 5) & (table.seed == seed)].reset_index()
        errors = []
        for row in range(len(group)):
            remaining = group.drop(row)
            design = np.column_stack([np.ones(9), remaining.alignment, remaining.uniformity])
            line = np.linalg.lstsq(design, remaining.stsb_dev, rcond=None)[0]
            guess = line @ [1, group.alignment[row], group.uniformity[row]]
            errors.append(
                [group.stsb_dev[row] - guess, group.stsb_dev[row] - remaining.stsb_dev.mean()]
            )
        line, mean = (np.array(errors) ** 2).mean(0)
        shares.append(line / mean)
    assert shares_left["mean"][5, "changes"] == pytest.approx(np.mean(shares))
    assert shares_left["mean"][5, "changes"] < 0.5 < shares_left["mean"][5, "components"]

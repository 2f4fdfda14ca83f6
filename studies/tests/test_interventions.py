"""What the rows of interventions say, beside naive loops."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from studies.second_round.interventions import correlations, left_out

DECLARED = {
    "seeds": [3], "kept": [0, 2], "steps": 2, "batch_size": 8, "max_length": 16, "pooler": "cls",
    "shared": {"loss": "infonce", "learning_rate": 1e-3},
    "rotation": {"degrees": 2.0, "pairs": 20, "within": 0.05, "tries": 8},
    "losses": {"names": ["infonce", "siglip", "met"]},
}  # fmt: skip


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    synthetic = pd.DataFrame(
        [(seed, step, loss) for seed in (1, 2, 3) for step in (0, 5) for loss in "abcdefghij"],
        columns=["seed", "step", "loss"],
    )
    for name in ("stsb_dev", "alignment", "uniformity", "pull", "hardest_share"):
        synthetic[name] = rng.normal(size=len(synthetic))
    return synthetic


def test_correlations_are_within_a_seed_and_a_kept_encoder(table):
    results = correlations(table).set_index(["step", "what"])
    for (step, measure), row in results.iterrows():
        groups = [table[(table.step == step) & (table.seed == seed)] for seed in (1, 2, 3)]
        by_seed = [spearmanr(group[measure], group.stsb_dev).statistic for group in groups]
        assert row["mean"] == pytest.approx(np.mean(by_seed))
        assert row.high - row["mean"] == pytest.approx(
            4.302653 * np.std(by_seed, ddof=1) / np.sqrt(3)
        )


def test_what_a_line_leaves_out_beside_a_loop_over_losses(table):
    table["stsb_dev"] += 3 * table.alignment
    shares_left = left_out(table).set_index(["step", "fitted"])["mean"]
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
    assert shares_left[5, "changes"] == pytest.approx(np.mean(shares))
    assert shares_left[5, "changes"] < 0.5 < shares_left[5, "components"]

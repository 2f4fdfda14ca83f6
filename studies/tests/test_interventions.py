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
    found = correlations(table).set_index(["step", "what"])
    for (step, what), one in found.iterrows():
        parts = [table[(table.step == step) & (table.seed == seed)] for seed in (1, 2, 3)]
        by_seed = [spearmanr(part[what], part.stsb_dev).statistic for part in parts]
        assert one["mean"] == pytest.approx(np.mean(by_seed))
        assert one.high - one["mean"] == pytest.approx(
            4.302653 * np.std(by_seed, ddof=1) / np.sqrt(3)
        )


def test_what_a_line_leaves_out_beside_a_loop_over_losses(table):
    table["stsb_dev"] += 3 * table.alignment
    found = left_out(table).set_index(["step", "fitted"])["mean"]
    shares = []
    for seed in (1, 2, 3):
        part = table[(table.step == 5) & (table.seed == seed)].reset_index()
        errors = []
        for row in range(len(part)):
            others = part.drop(row)
            design = np.column_stack([np.ones(9), others.alignment, others.uniformity])
            line = np.linalg.lstsq(design, others.stsb_dev, rcond=None)[0]
            guess = line @ [1, part.alignment[row], part.uniformity[row]]
            errors.append([part.stsb_dev[row] - guess, part.stsb_dev[row] - others.stsb_dev.mean()])
        line, mean = (np.array(errors) ** 2).mean(0)
        shares.append(line / mean)
    assert found[5, "changes"] == pytest.approx(np.mean(shares))
    assert found[5, "changes"] < 0.5 < found[5, "components"]

"""Effects, intervals and verdicts: mixed models, variance shares, equivalence, Shapley values, permutations.

Models and their covariances are statsmodels'; a seed is a random effect everywhere, as all conditions share its data.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, stats

from gradlab.errors import GradlabError
from gradlab.papers.unified.judgement import judge, within


@dataclass(frozen=True)
class Effect:
    """A linear combination of cell means.

    Attributes:
        name: what it is.
        estimate, low, high: in points, with an interval of 95%.
        error: standard error.
        freedom: degrees of freedom of the residual.
        p: two-sided, of no difference.
        equivalence: the larger p of the two one-sided tests against the margin.
        adjusted: p after Holm's correction over all effects that were judged together.
        verdict: see `gradlab.papers.unified.judgement`.
    """

    name: str
    estimate: float
    error: float
    freedom: float
    low: float
    high: float
    p: float
    equivalence: float = math.nan
    adjusted: float = math.nan
    verdict: str = ""


class CellMeans:
    """A mixed model of scores: a mean for each cell, a random intercept for each seed.

    Attributes:
        means: cell -> fitted mean.
        residual, seed: standard deviations within and between seeds.
    """

    def __init__(
        self, table: pd.DataFrame, *, cell: str = "cell", seed: str = "seed", score: str = "score"
    ) -> None:
        """Fit by restricted maximum likelihood.

        Args:
            table: a row a run; any cells and seeds may be missing.
            cell, seed, score: its columns.

        Raises:
            GradlabError: fewer than two seeds, or nothing left for the residual.
        """
        import statsmodels.api as sm

        cells, codes = np.unique(table[cell].astype(str), return_inverse=True)
        seeds = table[seed].astype(str).to_numpy()
        self.freedom = float(len(table) - len(cells) - (len(np.unique(seeds)) - 1))
        if len(np.unique(seeds)) < 2 or self.freedom < 1:
            raise GradlabError(
                f"{len(table)} runs of {len(cells)} cells leave nothing to tell noise by; add seeds"
            )
        design = pd.DataFrame(np.eye(len(cells))[codes], columns=cells)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a variance of seeds at zero, which is a result, warns
            # L-BFGS, the default, stops at a variance of zero where there is a better one.
            model = sm.MixedLM(table[score].to_numpy(float), design, groups=seeds)
            fit = model.fit(reml=True, method="powell")
        self._cells = list(cells)
        self._beta = np.asarray(fit.fe_params, dtype=float)
        self.means = dict(zip(self._cells, self._beta.tolist(), strict=True))
        self.residual = float(math.sqrt(fit.scale))
        self.seed = float(math.sqrt(max(0.0, float(np.asarray(fit.cov_re)[0, 0]))))
        # (X' V⁻¹ X)⁻¹ with the fitted variances; statsmodels' own, a Hessian, fails where that of the seeds is zero.
        same = seeds[:, None] == seeds[None, :]
        variance = self.residual**2 * np.eye(len(seeds)) + self.seed**2 * same
        x = design.to_numpy()
        self._covariance = np.linalg.inv(x.T @ np.linalg.solve(variance, x))

    def effect(self, name: str, weights: Mapping[str, float], margin: float | None = None) -> Effect:
        """The combination ``Σ weight · mean`` over cells, tested against 0 and for equivalence within ``margin``."""
        vector = np.array([weights.get(cell, 0.0) for cell in self._cells])
        missing = set(weights) - set(self._cells)
        if missing:
            raise GradlabError(f"{name}: no runs of {', '.join(sorted(missing))}")
        estimate = float(vector @ self._beta)
        error = float(math.sqrt(vector @ self._covariance @ vector))
        half = float(stats.t.ppf(0.975, self.freedom)) * error
        p = 2 * float(stats.t.sf(abs(estimate) / error, self.freedom))
        equivalence = within(estimate, error, self.freedom, margin)
        return Effect(name, estimate, error, self.freedom, estimate - half, estimate + half, p, equivalence)


def judge_effects(effects: Sequence[Effect], expected: Sequence[int]) -> list[Effect]:
    """Verdicts on effects that were declared together, with the signs that are expected."""
    estimates = [one.estimate * sign for one, sign in zip(effects, expected, strict=True)]
    verdicts = judge(estimates, [one.p for one in effects], [one.equivalence for one in effects])
    return [
        replace(one, verdict=verdict, adjusted=p) for one, (verdict, p) in zip(effects, verdicts, strict=True)
    ]


def variance_shares(
    table: pd.DataFrame, factors: Sequence[str], score: str = "score", seed: str = "seed"
) -> pd.DataFrame:
    """ω² of each factor and interaction in a balanced factorial with seeds as blocks.

    ``ω² = (SS - df · MS_residual)/(SS_total + MS_residual)``. Its interval of 95% inverts the noncentral F distribution
    for the noncentrality ``λ`` and puts ``λ/n`` in the place of the estimate, the other terms as estimated.

    Args:
        table: a row a run, every cell with every seed.
        factors, score, seed: its columns.

    Returns:
        Columns term, df, F, p, omega2, low, high; the last two rows are the seeds' and the residual's share.

    Raises:
        GradlabError: a cell without a seed.
    """
    import statsmodels.formula.api as smf
    from statsmodels.stats.anova import anova_lm

    counts = table.groupby([*factors, seed]).size()
    if counts.nunique() != 1 or len(counts) != math.prod(table[name].nunique() for name in (*factors, seed)):
        raise GradlabError("shares of variance are of complete seeds: every cell with every seed, once")
    formula = f"{score} ~ C({seed}) + {' * '.join(f'C({name})' for name in factors)}"
    frame = anova_lm(smf.ols(formula, table).fit(), typ=2)
    residual, freedom, total = _residual(frame, table, score)
    count, terms = len(table), frame.drop(index="Residual")
    signal = {
        name: max(0.0, row["sum_sq"] - row["df"] * residual) / residual / count
        for name, row in terms.iterrows()
    }
    rows = []
    for name, row in terms.iterrows():
        low, high = noncentrality(float(row["F"]), float(row["df"]), freedom)
        rest = 1 + sum(value for other, value in signal.items() if other != name)
        rows.append(
            {
                "term": str(name).replace("C(", "").replace(")", "").replace(":", " x "),
                "df": int(row["df"]),
                "F": float(row["F"]),
                "p": float(row["PR(>F)"]),
                "omega2": float((row["sum_sq"] - row["df"] * residual) / (total + residual)),
                "low": low / count / (low / count + rest),
                "high": high / count / (high / count + rest),
            }
        )
    rows.sort(key=lambda row: row["term"] == seed)
    rest = 1 - sum(row["omega2"] for row in rows)
    rows.append({"term": "residual", "df": int(freedom), "F": math.nan, "p": math.nan, "omega2": rest,
                 "low": math.nan, "high": math.nan})  # fmt: skip
    return pd.DataFrame(rows)


def _residual(frame: Any, table: pd.DataFrame, score: str) -> tuple[float, float, float]:
    freedom = float(frame.loc["Residual", "df"])
    values = table[score].to_numpy(float)
    return (
        float(frame.loc["Residual", "sum_sq"]) / freedom,
        freedom,
        float(((values - values.mean()) ** 2).sum()),
    )


def noncentrality(f: float, df1: float, df2: float, level: float = 0.95) -> tuple[float, float]:
    """Interval for the noncentrality of an F statistic; an end that does not exist is 0."""

    def end(probability: float) -> float:
        def difference(value: float) -> float:
            return float(stats.ncf.cdf(f, df1, df2, value)) - probability

        if float(stats.f.cdf(f, df1, df2)) <= probability:
            return 0.0
        upper = max(1.0, f * df1)
        while difference(upper) > 0:
            upper *= 2
        return float(optimize.brentq(difference, 1e-12, upper, xtol=1e-9))

    tail = (1 - level) / 2
    return end(1 - tail), end(tail)


def shapley_weights(parts: Sequence[str]) -> dict[str, dict[frozenset[str], float]]:
    """Part -> coalition -> the factor on its value in that part's Shapley value.

    ``φ_p = Σ_S |S|! (n-|S|-1)!/n! (v(S ∪ p) - v(S))`` over coalitions without p.
    """
    count = len(parts)
    found: dict[str, dict[frozenset[str], float]] = {}
    for part in parts:
        weights: dict[frozenset[str], float] = {}
        others = [one for one in parts if one != part]
        for size in range(count):
            factor = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for chosen in itertools.combinations(others, size):
                coalition = frozenset(chosen)
                weights[coalition | {part}] = factor
                weights[coalition] = -factor
        found[part] = weights
    return found


def permutation_test(statistic: Callable[[np.ndarray], float], predicted: Sequence[float]) -> float:
    """Exact p: the share of orders of the predictions with a statistic at least as small as the one in their own order."""
    values = np.asarray(predicted, dtype=float)
    own = statistic(values)
    orders = [statistic(np.array(order)) for order in itertools.permutations(values)]
    # Equal orders differ by rounding.
    return float(np.mean(np.array(orders) <= own + 1e-12 * max(1.0, abs(own))))

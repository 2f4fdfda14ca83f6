"""What a study computes from embeddings and scores, and its rule for verdicts.

Each is tested against something independent.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gradlab import components, get_loss
from gradlab.batch import Triple
from gradlab.gradient import tangent_bounds
from gradlab.simulation import sample_views
from gradlab.sweep import parse_spec
from studies.conjectures.claims import (
    CONJECTURE,
    OBSERVATION,
    PERFORMANCE,
    Claim,
    claims_of,
    claims_table,
    verdicts_table,
)
from studies.conjectures.conditions import (
    ALWAYS_OPEN,
    CONTRASTIVE,
    NO_DISSIPATION,
    REPAIRS,
    SECTIONS,
    Condition,
    StudySettings,
    baseline,
    original,
    sweep_of,
    twice,
)
from studies.conjectures.measures import (
    batch_triples,
    hardest_shares,
    normality,
    published_filter,
)
from studies.conjectures.report import rewrite_report
from studies.conjectures.views import negative_angles, positive_angles
from studies.evidence.declarations import STUDY
from studies.statistics import (
    CONTRADICTED,
    INCONCLUSIVE,
    NOT_JUDGED,
    OVER_SENTENCES,
    SUPPORTED,
    Interval,
    over_seeds,
    over_sentences,
    spearman_difference_over_sentences,
)


@pytest.fixture(scope="module")
def views() -> tuple[np.ndarray, np.ndarray]:
    anchors, positives = (rows[0] for rows in sample_views(0.5, 1.2, 12, 24, seed=3))
    return anchors, positives


def verdict(claims: list[Claim]) -> str:
    """That of the one conjecture that the claims are of."""
    return verdicts_table(claims_table(claims, 100)).verdict.item()


class TestIntervals:
    def test_without_spread_or_values(self) -> None:
        assert over_seeds([0.2, 0.2]) == Interval(0.2, 0.2, 0.2, 2, p=0.0)
        alone = over_seeds([0.2, math.nan])
        assert (alone.mean, alone.count) == (0.2, 1)
        assert math.isnan(alone.low)
        assert math.isnan(over_seeds([]).mean)

    def test_over_sentences_has_the_width_of_the_central_limit(self) -> None:
        generator = np.random.default_rng(1)
        samples = [generator.normal(1, 2, 900), generator.normal(3, 2, 900)]
        interval = over_sentences(samples)
        error = math.sqrt(sum(sample.var() / 900 for sample in samples)) / 2
        assert interval.mean == pytest.approx(np.mean([sample.mean() for sample in samples]))
        assert interval.kind == OVER_SENTENCES
        # For 2000 samples, the standard error of the bootstrap's 2.5% quantile is about 0.06 times
        # the standard deviation.
        assert interval.high - interval.low == pytest.approx(2 * 1.96 * error, rel=0.1)

    def test_spearman_difference(self) -> None:
        generator = np.random.default_rng(2)
        gold = generator.integers(0, 6, 200).astype(float)
        good = [gold + generator.normal(0, 1, 200) for _ in range(2)]
        bad = [gold + generator.normal(0, 4, 200) for _ in range(2)]
        interval = spearman_difference_over_sentences(good, bad, gold, resamples=300)
        differences = [
            stats.spearmanr(a, gold).statistic - stats.spearmanr(b, gold).statistic
            for a, b in zip(good, bad, strict=True)
        ]
        assert interval.mean == pytest.approx(np.mean(differences), abs=1e-12)
        assert 0 < interval.low < interval.mean < interval.high
        same = spearman_difference_over_sentences(good, good, gold, resamples=50)
        assert (same.mean, same.low, same.high) == (0, 0, 0)


def closer_table(by_step: dict[float, tuple[float, float]]) -> pd.DataFrame:
    """Shares of triples that get closer with ratio 1 and with the loss's own, for three seeds."""
    rows = [
        {"condition": loss, "seed": seed, "step": step, "closer_one": equal, "lemma_one": equal,
         "closer_own": own + spread, "lemma_own": own + spread}
        for loss in ("arccon", "met")
        for seed, spread in enumerate((0.0, 0.0001, -0.0001))
        for step, (equal, own) in by_step.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


class TestConjecture3:
    RUNS = pd.DataFrame({"condition": [], "seed": [], "stsb_dev": [], "diverged": []})
    TRAINING = pd.DataFrame(
        {"condition": ["baseline", "r=2"] * 3, "seed": [0, 0, 1, 1, 2, 2],
         "positive_cosine": [0.8, 0.85, 0.8, 0.86, 0.8, 0.84]}
    )  # fmt: skip

    def claims(self, settings: StudySettings, **tables: pd.DataFrame) -> list[Claim]:
        bounds = {"conjecture3-minimum-ratio": pd.DataFrame({"seed": [0]}), "runs": self.RUNS}
        return claims_of(
            {**bounds, "training": self.TRAINING, **tables}, dataclasses.asdict(settings)
        )

    def test_nothing_measured_is_not_judged(self) -> None:
        claims = self.claims(StudySettings.preset("light", ratios=(0.25, 0.5)))
        deciding = [claim for claim in claims if claim.role == CONJECTURE]
        assert len(deciding) == 5
        assert set(claims_table(deciding, 100).verdict) == {NOT_JUDGED}
        supported = Claim(3, CONJECTURE, "", "", [1.0, 1.1, 1.05])
        assert verdict([*claims, supported]) == NOT_JUDGED

    @pytest.mark.parametrize(("own", "expected"), [(0.99, SUPPORTED), (0.95, CONTRADICTED)])
    def test_triples_are_judged_where_a_step_can_fail(self, own: float, expected: str) -> None:
        closer = closer_table({0.1: (0.999, 0.9995), 0.3: (0.97, own)})
        tables = {"conjecture3-closer": closer}
        table = claims_table(self.claims(StudySettings.preset("light"), **tables), 100)
        steps = table[table.claim.str.contains("closer to its positive")]
        ceiling = steps[steps.claim.str.startswith("at λ = 0.1")]
        assert set(ceiling.verdict) == {NOT_JUDGED}
        assert set(ceiling.reason) == {"at its ceiling"}
        assert set(steps[steps.claim.str.startswith("at λ = 0.3")].verdict) == {expected}
        assert set(steps.unit) == {"percentage points"}
        assert verdicts_table(table).verdict.item() == expected


class TestVerdicts:
    CASES = {
        SUPPORTED: [0.10, 0.12, 0.11, 0.09, 0.13],
        CONTRADICTED: [-0.10, -0.12, -0.11, -0.09, -0.13],
        INCONCLUSIVE: [0.10, -0.12, 0.02, -0.05, 0.08],
    }

    @pytest.mark.parametrize("expected", CASES)
    def test_each_can_be_reached(self, expected: str) -> None:
        claim = Claim(1, CONJECTURE, "larger", "a number", self.CASES[expected])
        assert claims_table([claim], 100).verdict.item() == expected
        assert verdict([claim]) == expected

    @pytest.mark.parametrize(("seeds", "steps"), [(2, 100), (5, 20)])
    def test_two_seeds_or_twenty_steps_answer_nothing(self, seeds: int, steps: int) -> None:
        claims = [
            Claim(1, role, "", "", self.CASES[SUPPORTED][:seeds])
            for role in (CONJECTURE, PERFORMANCE)
        ]
        table = claims_table(claims, steps)
        reason = (
            "2 seeds, at least 3 needed" if seeds == 2 else "20 steps a run, at least 50 needed"
        )
        assert set(table.verdict) == {NOT_JUDGED}
        assert set(table.reason) == {reason}
        assert verdicts_table(table)[["verdict", "reason"]].values.tolist() == [
            [NOT_JUDGED, reason]
        ]
        epoch = claims_table(claims, None)
        assert set(epoch.verdict) == {SUPPORTED if seeds == 5 else NOT_JUDGED}

    def test_the_threshold_counts(self) -> None:
        values = self.CASES[SUPPORTED]
        assert verdict([Claim(2, CONJECTURE, "", "", values, threshold=0.2)]) == CONTRADICTED
        assert verdict([Claim(2, CONJECTURE, "", "", values, threshold=0.11)]) == INCONCLUSIVE

    def test_a_difference_may_be_real_and_within_its_margin(self) -> None:
        """Gains of half a point and of 2.55 both differ from 0; only the first is within 3."""
        values = [0.4, 0.6, 0.5, 0.7, 0.3]
        row = claims_table([Claim(1, PERFORMANCE, "", "", values)], 100).iloc[0]
        assert (row.verdict, row.within_margin) == (SUPPORTED, "yes")
        # The larger of the two one-sided tests decides.
        one_sided = stats.ttest_1samp(values, 3, alternative="less").pvalue
        assert row.p_equivalence == pytest.approx(one_sided, rel=1e-9)
        row = claims_table([Claim(1, PERFORMANCE, "", "", [2.0, 3.1, 2.55])], 100).iloc[0]
        assert (row.verdict, row.within_margin) == (SUPPORTED, "no")
        row = claims_table([Claim(1, OBSERVATION, "", "", values)], 100).iloc[0]
        assert (row.verdict, row.within_margin) == (SUPPORTED, "")

    def test_an_effect_of_exactly_nothing_is_within_the_margin(self) -> None:
        assert verdict([Claim(1, CONJECTURE, "", "", [0.0, 0.0, 0.0])]) == INCONCLUSIVE
        row = claims_table([Claim(1, PERFORMANCE, "", "", [0.0, 0.0, 0.0])], 100).iloc[0]
        assert (row.verdict, row.within_margin) == (INCONCLUSIVE, "yes")

    def test_a_conjecture_needs_all_its_claims(self) -> None:
        claims = {
            name: Claim(3, CONJECTURE, name, "", values) for name, values in self.CASES.items()
        }
        assert verdict([claims[SUPPORTED], claims[INCONCLUSIVE]]) == INCONCLUSIVE
        assert (
            verdict([claims[SUPPORTED], claims[INCONCLUSIVE], claims[CONTRADICTED]]) == CONTRADICTED
        )
        performance = dataclasses.replace(claims[CONTRADICTED], role=PERFORMANCE)
        assert verdict([claims[SUPPORTED], performance]) == SUPPORTED
        assert verdict([performance]) == NOT_JUDGED


def test_the_committed_verdicts_follow_from_the_committed_tables(tmp_path, monkeypatch) -> None:
    for path in [*STUDY.glob("*.csv"), STUDY / "manifest.json"]:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr("studies.conjectures.report.FIGURES", {})
    rewrite_report(tmp_path)
    for name in ("claims.csv", "verdicts.csv"):
        assert (tmp_path / name).read_text() == (STUDY / name).read_text()


class TestMeasures:
    def test_angles(self, views) -> None:
        anchors, positives = views
        near, far = positive_angles(*views), negative_angles(*views)
        for i in range(len(anchors)):
            assert near[i] == pytest.approx(math.acos(anchors[i] @ positives[i]), abs=1e-12)
            angles = [math.acos(anchors[i] @ positives[j]) for j in range(len(anchors)) if j != i]
            assert far[i] == pytest.approx(angles, abs=1e-12)

    @pytest.mark.parametrize("temperature", [0.02, 0.3])
    def test_hardest_shares_by_definition(self, views, temperature: float) -> None:
        anchors, positives = views
        weight_share, projection, gate = hardest_shares(anchors, positives, temperature)
        for i, anchor in enumerate(anchors):
            negatives = [j for j in range(len(anchors)) if j != i]
            cosine = np.array([anchor @ positives[j] for j in negatives])
            w = np.exp(cosine / temperature) / np.exp(cosine / temperature).sum()
            v = np.array([positives[j] - (anchor @ positives[j]) * anchor for j in negatives])
            total, h = w @ v, int(cosine.argmax())
            aligned = (v[h] @ total) / (np.linalg.norm(v[h]) * np.linalg.norm(total))
            published = np.linalg.norm(w[h] * v[h]) * aligned / np.linalg.norm(total)
            assert weight_share[i] == pytest.approx(w[h], rel=1e-10)
            assert projection[i] == pytest.approx(published, rel=1e-10)
            assert gate[i] == (anchor @ positives[i] - cosine.max() < 0.3)

    def test_triples_of_a_batch(self, views) -> None:
        anchors, positives = views
        triple = batch_triples(anchors, positives)
        for i in range(len(anchors)):
            negatives = [j for j in range(len(anchors)) if j != i]
            for place, j in enumerate(negatives):
                expected = Triple.from_vectors(anchors[i], positives[i], positives[j])
                for name in ("positive_cosine", "positive_sine", "radial", "toward", "aside"):
                    value = getattr(triple, name)[i, place]
                    assert value == pytest.approx(float(getattr(expected, name)), abs=1e-12), name

    def test_published_filter(self, views) -> None:
        triple = batch_triples(*views)
        mask = published_filter(triple, 0.3)
        expected = (
            tangent_bounds(triple, 0.3).feasible
            & (np.cos(triple.theta_pos) > 0)
            & (np.cos(triple.theta_neg) > 0)
            & (np.cos(triple.alpha) > 0)
        )
        assert mask.any()
        assert not mask.all()
        assert (mask == expected).all()

    def test_normality(self) -> None:
        generator = np.random.default_rng(0)
        normal, skewed = generator.normal(1, 0.1, 20_000), generator.exponential(1, 20_000)
        assert normality(normal)["distance_from_normal"] < 0.02
        shape = normality(skewed)
        assert shape["skewness"] == pytest.approx(2, abs=0.3)
        assert shape["distance_from_normal"] > 0.1


class TestPlan:
    settings = StudySettings(seeds=2, sweep_seeds=1, variant_seeds=1)

    def test_as_a_sweep_every_run_is_there_once_and_scored_on_what_it_should_be(self) -> None:
        settings = StudySettings(
            seeds=3, sweep_seeds=1, variant_seeds=1, sts_seeds=2, transfer_seeds=1
        )
        base = {"model": "m", "train_file": "f", "eval_data": "d"}
        spec = sweep_of(settings, SECTIONS, base, 32)
        spec.check()
        assert parse_spec(json.loads(json.dumps(spec.to_dict()))) == spec
        points = spec.points({})
        tasks = {(point.label, seed): point.evaluate for point in points for seed in point.seeds}
        assert len({key for point in points for key in point.runs.values()}) == len(tasks)
        losses = {*CONTRASTIVE, *REPAIRS, *REPAIRS.values()}
        scored = {
            (loss, seed): ("sts", "transfer")[: 2 - seed] for loss in losses for seed in range(3)
        }
        variants = {(f"{name} (2r)", 0): ("sts",) for name in ("baseline", *REPAIRS.values())}
        swept = dict.fromkeys([("m=1", 0), ("τ=0.3", 0), ("τ=3", 0), ("r=0.25", 0), ("r=2", 0)], ())
        headline = dict.fromkeys(
            [(name, seed) for name in ("baseline", NO_DISSIPATION) for seed in range(3)], ()
        )
        assert tasks == scored | variants | swept | headline

    def test_no_dissipation_never_closes(self, views) -> None:
        anchors = views[0]
        loss = get_loss("baseline", **dict(baseline(margin=ALWAYS_OPEN).settings))
        opposite = np.concatenate([anchors[:1], -anchors[:1]])
        for a, p in ((anchors, anchors), (opposite, opposite)):
            assert (components(loss, a, p).gradient_dissipation == 1).all()

    def test_vicreg_has_the_published_coefficient(self) -> None:
        settings = dict(original("vicreg", 64, 312).settings)
        assert 2 * settings["nu1"] * 64**2 / (312 * 63**2) == pytest.approx(30)

    def test_twice(self) -> None:
        condition = twice(Condition("modified_mhs", "modified_mhs"))
        assert get_loss(condition.loss, **dict(condition.settings)).effective_ratio == "2r"
        assert condition.name == "modified_mhs (2r)"

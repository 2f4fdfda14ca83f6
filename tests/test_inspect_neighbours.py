"""Nearest neighbours by buckets, against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rensa")

from gradlab.batch import unit_rows as unit
from gradlab.inspection import neighbours
from gradlab.inspection.neighbours import nearest_neighbours


def rows_of(count, clusters, seed=0):
    """Unit rows around centres, as sentences lie around topics."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(clusters, 32))
    rows = centres[generator.integers(clusters, size=count)]
    return unit(rows + 0.7 * generator.normal(size=rows.shape)).astype(np.float16)


def exact(rows, count):
    cosines = rows.astype(np.float64) @ rows.astype(np.float64).T
    return [set(line) for line in np.argsort(-cosines, axis=1)[:, :count].tolist()], cosines


def test_one_bucket_compares_all_pairs():
    rows = rows_of(300, 8)
    expected, cosines = exact(rows, 5)
    keys, products = nearest_neighbours(rows, 5)
    for row, (numbers, values) in enumerate(zip(keys, products, strict=True)):
        assert set(numbers.tolist()) == expected[row]
        assert values == pytest.approx(cosines[row, numbers], abs=1e-6)


@pytest.mark.parametrize("clusters", [1, 40])
def test_many_buckets_find_nearly_all_neighbours(monkeypatch, clusters):
    monkeypatch.setattr(neighbours, "BUCKET", 40)
    monkeypatch.setattr(neighbours, "_AT_ONCE", 1000)  # some queries of a bucket at a time
    rows = rows_of(2000, clusters)
    # Copies, and near copies, of other rows.
    generator = np.random.default_rng(1)
    rows[1000:1020] = rows[:20]
    rows[1020:1060] = unit(rows[20:60] + 0.02 * generator.normal(size=(40, 32)))
    expected, _ = exact(rows, 5)
    keys, _ = nearest_neighbours(rows, 5)
    near = [set(numbers) for numbers in keys.tolist()]
    assert all(len(numbers) == 5 for numbers in near)
    assert all(1000 + row in near[row] for row in range(60))
    recall = np.mean([len(a & b) for a, b in zip(expected, near, strict=True)]) / 5
    # Without clusters, neighbours are hardly nearer than other rows.
    assert recall > (0.95 if clusters > 1 else 0.6)
    monkeypatch.setattr(neighbours.os, "cpu_count", lambda: 1)
    assert [set(numbers) for numbers in nearest_neighbours(rows, 5)[0].tolist()] == near


def test_rows_that_are_all_equal_are_neighbours(monkeypatch):
    monkeypatch.setattr(neighbours, "BUCKET", 10)
    rows = np.tile(unit(np.ones((1, 4))), (50, 1)).astype(np.float16)
    keys, products = nearest_neighbours(rows, 3)
    assert keys.shape == (50, 3)
    assert (keys >= 0).all()
    assert products == pytest.approx(1.0, abs=1e-3)

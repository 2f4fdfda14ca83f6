"""``gradlab decompose``: from a name to a report, a picture and files."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
import torch

import gradlab
from gradlab.data.embeddings import load_batch
from gradlab.decomposition import matching
from gradlab.decomposition.own_loss import resolve_loss

MODULE = """
import torch

def spread(anchors, positives, strength=1.0):
    return strength * (anchors @ anchors.T).exp().sum() - (anchors * positives).sum()

class Scaled(torch.nn.Module):
    def __init__(self, by, inner=None):
        super().__init__()
        self.by, self.inner = by, inner or spread

    def forward(self, anchors, positives):
        return self.by * self.inner(anchors, positives)

instance = Scaled(2.0)
"""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """An empty current folder with one module of losses."""
    (tmp_path / "own_losses.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield tmp_path
    sys.modules.pop("own_losses", None)


def test_registered_loss_is_reported_and_written(shell, workspace):
    code, out, err = shell(
        "decompose", "infonce", "--set", "temperature=0.1", "--batch-size", 12, "--dim", 8
    )
    assert code == 0, err
    assert "these are the components of infonce(temperature=0.1)" in out
    base = workspace / "decompose" / "infonce_decompose_temperature-0.1_batch_size-12_dim-8"
    assert base.with_name(base.name + ".png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(base.with_name(base.name + ".json").read_text())
    assert record["settings"]["set"] == {"temperature": "0.1"}
    with base.with_name(base.name + ".csv").open() as file:
        rows = list(csv.DictReader(file))
    with np.load(base.with_name(base.name + ".npz")) as arrays:
        decomposition = gradlab.decompose(
            gradlab.get_loss("infonce", temperature=0.1), arrays["anchors"], arrays["positives"]
        )
        np.testing.assert_allclose(
            arrays["other_view_gradient"], decomposition.other_view_gradient, rtol=1e-9
        )
    np.testing.assert_allclose(
        [float(row["total_push"]) for row in rows], decomposition.total_push, rtol=1e-9
    )
    assert record["results"]["value"] == pytest.approx(decomposition.value)
    assert sorted(path.suffix for path in base.parent.iterdir()) == [
        ".csv",
        ".json",
        ".npz",
        ".png",
    ]


@pytest.mark.parametrize(
    ("target", "settings", "scale", "strength"),
    [
        ("own_losses:spread", {"strength": "2"}, 1, 2),
        ("own_losses.py:spread", {}, 1, 1),
        ("own_losses:Scaled", {"by": "3", "inner": "own_losses:spread"}, 3, 1),
        ("own_losses:instance", {}, 2, 1),
    ],
)
def test_functions_classes_and_objects(workspace, target, settings, scale, strength):
    rows = torch.nn.functional.normalize(
        torch.arange(8.0, dtype=torch.float64).reshape(2, 4) ** 2, dim=1
    )
    value = resolve_loss(target, settings)(rows, rows)
    expected = scale * (strength * (rows @ rows.T).exp().sum() - (rows * rows).sum())
    assert float(value) == pytest.approx(float(expected))


def test_libraries_losses_are_made_without_a_model():
    pytest.importorskip("sentence_transformers")
    cached = resolve_loss(
        "sentence_transformers.losses:CachedMultipleNegativesRankingLoss", {"scale": "10"}
    )
    assert cached.temperature == 0.1
    enum = "sentence_transformers.losses:TripletDistanceMetric.COSINE"
    triplet = resolve_loss("sentence_transformers.losses:TripletLoss", {"distance_metric": enum})
    assert triplet.get_config_dict()["distance_metric"] == "TripletDistanceMetric.COSINE"


def test_own_embeddings(shell, workspace, monkeypatch):
    monkeypatch.setattr(matching, "loss_names", lambda: ["infonce", "mpt"])
    rng = np.random.default_rng(0)
    views = {
        "anchors": 5 * rng.normal(size=(6, 4)),
        "positives": rng.normal(size=(6, 4)).astype(np.float32),
    }
    np.savez("views.npz", **views, extra_negatives=rng.normal(size=(3, 4)))
    code, out, err = shell("decompose", "infonce", "--embeddings", "views.npz")
    assert code == 0, err
    assert "6 sentences in 4 dimensions, 3 extra negatives" in out
    # What is written can be read as a batch again, with its extra negatives.
    (written,) = (workspace / "decompose").glob("*.npz")
    anchors, positives, extra = load_batch(written)
    assert positives.dtype == np.float64
    assert extra.shape == (3, 4)
    unit = views["anchors"] / np.linalg.norm(views["anchors"], axis=1, keepdims=True)
    np.testing.assert_allclose(anchors, unit, rtol=1e-14)

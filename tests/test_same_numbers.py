"""A loss by name and the same loss as code have the same numbers, in every function.

`tests.test_relative_push` has the components; here are simulations, curves, the atlas, the
explorer and watched runs, at sizes at which all registered losses and twelve combinators take
seconds.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import gradlab
from gradlab.atlas import entries
from gradlab.errors import GradlabError
from gradlab.explorer.page_functions import ANGLES, first_points, run_scene, swept
from gradlab.losses.registry import get_loss
from gradlab.monitor.watch_folder import notes_of
from gradlab.quantities import OF_CODE, OF_CURVES
from gradlab.simulation.grid_and_result import AngleGrid
from gradlab.simulation.sampled import QUANTITIES, sampled
from tests.test_relative_push import AS_CODE, batch

# What a record of a watched run says of the push under one name; `OF_CODE` are numbers of other
# anchors: those with a relative push of 0.01, in place of a declared dissipation.
RECORDED = ("relative_push", "total_push")


def as_code(text):
    loss = get_loss(text)

    def code(anchors, positives):
        return loss(anchors, positives, reduction="sum")

    code.__name__ = f"{text} as code"
    return loss, get_loss(code)


def assert_same(by_code, by_name):
    np.testing.assert_allclose(by_code, by_name, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", AS_CODE)
def test_simulated(text):
    angle_grid = AngleGrid.create([0.5, 1.2], [0.6, 1.0], negatives=5)
    by_name, by_code = (
        sampled(loss, angle_grid, batches=2, progress=False) for loss in as_code(text)
    )
    for quantity in QUANTITIES:
        assert_same(by_code[quantity].value, by_name[quantity].value)


@pytest.mark.parametrize("text", AS_CODE)
def test_in_the_atlas_and_in_curves(text, monkeypatch):
    sizes = {"SENTENCES": 12, "BATCHES": 1, "BATCHES_OF_A_CURVE": 2, "BATCHES_OF_A_PICTURE": 2}
    for name, size in sizes.items():
        monkeypatch.setattr(f"gradlab.atlas.entries.{name}", size)
    monkeypatch.setattr("gradlab.atlas.entries.DEGREES", np.arange(20.0, 100.0, 26.0))
    by_name, by_code = (entries.measure(loss, progress=False) for loss in as_code(text))
    assert by_code.family == by_name.family
    assert_same(by_code.gate, by_name.gate)
    for column in entries.COLUMNS:
        numbers = getattr(by_name, column), getattr(by_code, column)
        if isinstance(numbers[0], str):
            assert numbers[0] == numbers[1], column
        else:
            assert numbers[1] == pytest.approx(numbers[0], rel=1e-6, nan_ok=True), column


@pytest.mark.parametrize("quantity", OF_CURVES)
def test_in_plotted_curves(quantity, monkeypatch):
    monkeypatch.setattr("gradlab.atlas.entries.SENTENCES", 6)
    monkeypatch.setattr("gradlab.atlas.entries.BATCHES_OF_A_PICTURE", 2)
    monkeypatch.setattr("gradlab.atlas.entries.DEGREES", np.arange(20.0, 100.0, 26.0))
    # All quantities of a loss are measured at once.
    texts = AS_CODE if quantity == "relative_push" else AS_CODE[::4]
    losses = [loss for text in texts for loss in as_code(text)]
    lines = gradlab.plot_curves(losses, of=quantity)[1].lines
    assert len(lines) == 2 * len(texts)
    for by_name, by_code in zip(lines[::2], lines[1::2], strict=True):
        assert_same(by_code.get_ydata(), by_name.get_ydata())
    plt.close("all")


@pytest.mark.parametrize("text", AS_CODE)
def test_in_the_explorer(text):
    def scene(loss, points):
        rows = (np.vstack([points["anchor"], points["negatives"]]), points)
        positives = np.vstack([points["positive"], points["partners"]])
        return run_scene(loss, rows[0], positives, np.zeros(()))

    for moving, angle in (("negatives", 20), ("chosen", 30), ("positive", 40)):
        points = swept(first_points(), moving, ANGLES[angle])
        by_name, by_code = (scene(loss, points) for loss in as_code(text))
        for quantity in ("relative_push", "ratio", "hardest_share"):
            if np.isfinite(by_name[quantity]) and by_name["relative_push"] != 0:
                assert_same(by_code[quantity], by_name[quantity])


@pytest.mark.parametrize("text", AS_CODE)
def test_in_a_watched_run(text, tmp_path):
    loss, code = as_code(text)
    records = []
    for name, watched in {"name": loss, "code": code.original}.items():
        watch = gradlab.watch(watched, output=tmp_path / name, every=1)
        views = [torch.from_numpy(rows).requires_grad_() for rows in batch()]
        watch(*views, **({"reduction": "sum"} if name == "name" else {})).backward()
        rows = watch.watch.history.rows()
        records.append({row[2]: row[-1] for row in rows if row[1] == "diagnostics"})
    by_name, by_code = records
    for name in RECORDED:
        assert by_code[name] == pytest.approx(by_name[name], rel=1e-6), name
    assert not by_code.keys() & OF_CODE.keys()
    components = gradlab.components(loss, *batch())
    pushed = components.relative_push >= 0.01
    shares = {
        "pushed": pushed,
        "hardest_share_of_pushed": components.hardest_share[pushed],
        "ratio_of_pushed": components.scalar_ratio[pushed & (components.total_push != 0)],
    }
    for name, values in shares.items():
        if len(values):
            assert by_code[name] == pytest.approx(values.mean(), rel=1e-6), name


# Losses of the coordinates' statistics. Only their declared pushes belong to functions of dot
# products, of which these have the same derivatives with respect to the cosines of negatives.


def correlations(anchors, positives):
    """Barlow Twins with all squared correlations, so that no coordinate matters."""
    n, nu = len(anchors), gradlab.get_loss("barlow_twins").nu
    of_anchors, of_positives = anchors @ anchors.T, positives @ positives.T
    return nu * (of_anchors * of_positives).sum() / n**2 - 2 / n * (anchors * positives).sum()


def covariances(anchors, positives):
    """VICReg without centring and hinge, and with the squared diagonal entries."""
    n, nu = len(anchors), gradlab.get_loss("vicreg").nu1
    own = (anchors @ anchors.T) ** 2
    return ((anchors - positives) ** 2).sum() / n + nu / 12 * own.sum() / (n - 1) ** 2


@pytest.mark.parametrize("code", [correlations, covariances])
def test_statistics_of_coordinates_have_the_push_of_their_invariant_part(code):
    name = {correlations: "barlow_twins", covariances: "vicreg"}[code]
    for kind in ("paired", "clustered"):
        views = batch(kind)
        by_name, by_code = (gradlab.components(loss, *views) for loss in (name, code))
        assert_same(by_code.total_push, by_name.total_push)
        assert_same(by_code.relative_push, by_name.relative_push)
        assert by_name.extra_terms


@pytest.mark.parametrize("name", ["barlow_twins", "vicreg"])
def test_statistics_of_coordinates_as_code_are_refused_in_one_line(name, tmp_path):
    _, code = as_code(name)
    views, why = batch(), "is not a function of dot products"
    routes = {
        "components": lambda: gradlab.components(code, *views),
        "autograd": lambda: gradlab.components(name, *views, method="autograd"),
        "decompose": lambda: gradlab.decompose(code.original, *views),
        "simulate": lambda: gradlab.simulate(code, mu_pos=[0.5], mu_neg=[1.0], negatives=7),
        "atlas": lambda: entries.atlas([code], progress=False),
        "explore": lambda: gradlab.explore(code, progress=False),
        "plot_curves": lambda: gradlab.plot_curves([code]),
    }
    for route, call in routes.items():
        with pytest.raises(GradlabError, match=why) as refusal:
            call()
        assert "\n" not in str(refusal.value), route
    # The part that the vectors of the batch explain has no largest push either.
    wide = batch(count=4, dim=16)
    projected = gradlab.decompose(code.original, *wide, allow_residual=True)
    assert np.isnan(projected.relative_push).all()
    watch = gradlab.watch(code.original, output=tmp_path, every=1)
    watch(*(torch.from_numpy(rows).requires_grad_() for rows in views)).backward()
    assert why in notes_of(watch.watch._probes)[0]

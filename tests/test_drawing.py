"""What results look like: pictures on screen and paper, tables, and a notebook's output."""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
import re
import zlib

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import gradlab
from gradlab.arrays import to_numpy
from gradlab.atlas import atlas
from gradlab.batch import unit_rows
from gradlab.flow.result import Flows
from gradlab.gradient.verification import paired_batch
from gradlab.losses.registry import by_text
from gradlab.plotting import plot_style
from gradlab.plotting.colours import signed_colormap
from gradlab.plotting.style import PAPER, SETTINGS, WIDTHS
from tests.audit_losses import split_dependent
from tests.processes import fork_audits


def linear(anchors, positives):
    return ((anchors @ positives.T).exp().sum() - (anchors * positives).sum()) / len(anchors)


RESULTS = {
    "components": lambda views: gradlab.components("vicreg", *views),
    "closed": lambda views: gradlab.components("mpt(margin=0.1)", *views),
    "decomposition": lambda views: gradlab.decompose(linear, *views),
    "heatmap": lambda _: gradlab.simulate("met", grid=(3, 4)),
    "curve": lambda _: gradlab.simulate(
        linear, mu_pos=[0.5], mu_neg=[0.5, 1.0, 2.0], negatives=5, batches=8
    ),
    "verify": lambda _: gradlab.verify("barlow_twins", batch_size=6, dim=8),
    "atlas": lambda _: atlas(["infonce", "mpt"]),
    "audit": lambda _: gradlab.audit(split_dependent, processes=2, uneven=False),
    "inspect": lambda views: gradlab.find_false_negatives(
        embeddings={"anchors": views[0], "positives": views[1]}, batches=1, batch_size=16
    ),
}


@pytest.fixture(scope="module")
def results():
    views = paired_batch(np.random.default_rng(0), 16, 24)
    with pytest.MonkeyPatch.context() as patch:
        fork_audits(patch)  # processes that need not import everything first
        return {name: make(views) for name, make in RESULTS.items()}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_picture_a_table_and_a_notebook_form(name, results):
    drawable = results[name]
    figure, axes = drawable.plot()
    assert isinstance(figure, Figure)
    assert set(np.ravel(axes)) <= set(figure.axes)
    axes_of_user = Figure().add_subplot()
    on, ax = drawable.plot(axes_of_user)
    assert (on, ax) == (axes_of_user.figure, axes_of_user)
    assert axes_of_user.lines or axes_of_user.collections
    assert isinstance(drawable.to_frame(), pd.DataFrame)
    html = drawable._repr_html_()
    assert html.startswith("<p>")
    assert "<table" in html
    assert len(html) < 8000


def test_tables_hold_what_they_are_of(results):
    components, frame = results["components"], results["components"].to_frame()
    np.testing.assert_array_equal(frame["ratio"], to_numpy(components.scalar_ratio))
    anchors, positives = components.views.anchors, components.views.positives
    rows = np.arange(16)
    own = np.where(rows[:, None] == rows, -np.inf, anchors @ anchors.T).max(axis=1)
    # VICReg's negatives are of its own view.
    np.testing.assert_allclose(frame["hardest_negative_cosine"], own, rtol=1e-12)
    np.testing.assert_allclose(frame["positive_cosine"], (anchors * positives).sum(1), rtol=1e-12)
    checks = results["verify"]
    assert list(checks.to_frame()["error"]) == [check.error for check in checks]
    worst = max(c.error for c in checks if (c.form, c.convention) == ("components", "similarity"))
    assert checks.brief().loc["barlow_twins", "similarity"] == worst
    assert list(results["audit"].to_frame()["shares"]) == ["even", "shuffled"]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("infonce", ["other view", "extra negatives", "own negatives"]),
        ("mhe", ["same view", "extra negatives"]),
    ],
)
def test_each_kind_of_negatives_has_its_weights_drawn(name, kinds):
    generator = np.random.default_rng(0)
    rows = [
        unit_rows(generator.normal(size=shape)) for shape in ((6, 8), (6, 8), (4, 8), (6, 3, 8))
    ]
    own = {"own_negatives": rows[3]} if "own negatives" in kinds else {}
    components = gradlab.components(name, *rows[:3], **own)
    figure, axes = components.plot()
    drawn = {ax.get_title(): ax.images[0].get_array() for ax in axes if ax.images}
    assert list(drawn) == [f"weights of the {kind}" for kind in kinds]
    matrices = {
        "other view": components.other_view,
        "same view": components.same_view,
        "extra negatives": components.extra,
    }
    for kind in kinds:
        np.testing.assert_array_equal(
            drawn[f"weights of the {kind}"], matrices.get(kind, components.own)
        )
    assert len(figure.axes) == len(axes) + len(kinds)  # a colour bar each


def test_weights_that_attract_have_the_colours_of_attraction():
    """Of a loss that pulls in far negatives, white or dark must not mean both none and minus."""
    rows = unit_rows(np.random.default_rng(0).normal(size=(2, 6, 8)))

    def attracting(anchors, positives):
        cosines = anchors @ positives.T
        return (cosines**2).sum() - (cosines**2).diagonal().sum() - cosines.diagonal().sum()

    (image,) = (ax.images[0] for ax in gradlab.decompose(attracting, *rows).plot()[1] if ax.images)
    assert image.get_array().min() < 0
    assert image.get_cmap().name == signed_colormap().name
    assert image.get_clim()[0] == -image.get_clim()[1]
    (image,) = (ax.images[0] for ax in gradlab.components("infonce", *rows).plot()[1] if ax.images)
    assert (image.get_cmap().name, image.get_clim()[0]) == ("viridis", 0)


@pytest.mark.parametrize(("loss", "extend"), [("infonce", "neither"), ("siglip(bias=0)", "max")])
def test_a_colour_bar_points_to_values_beyond_its_range(loss, extend):
    """Of SigLIP the dissipation is a sum over negatives, above 1 here."""
    simulated = gradlab.simulate(loss, grid=3)
    assert (simulated.value.max() > 1) == (extend == "max")
    _, ax = simulated.plot()
    assert ax.collections[0].colorbar.extend == extend


def test_curves_are_those_of_the_simulator(monkeypatch):
    monkeypatch.setattr("gradlab.atlas.entries.DEGREES", np.arange(30.0, 120.0, 15.0))
    _, ax = gradlab.plot_curves([linear, "infonce(temperature=0.1)", "mhe"])
    own, infonce, mhe = ax.lines
    assert [line.get_label() for line in ax.lines] == ["linear", "infonce(temperature=0.1)", "mhe"]
    mu = np.radians(infonce.get_xdata())
    exact = gradlab.simulate("infonce(temperature=0.1)", mu_pos=[mu[0]], mu_neg=mu).value[0]
    np.testing.assert_allclose(infonce.get_ydata(), exact, atol=0.03)
    # Losses whose push does not depend on the positive have no gate.
    np.testing.assert_allclose(own.get_ydata(), 1, rtol=1e-12)
    np.testing.assert_allclose(mhe.get_ydata(), 1, rtol=1e-12)
    with pytest.raises(
        gradlab.GradlabError, match=r"unknown curve 'ratios'. Did you mean 'ratio'\? There are"
    ):
        gradlab.plot_curves(["infonce"], of="ratios")


def test_attraction_has_colours_of_its_own():
    result = gradlab.simulate("infonce", "relative_push", grid=3, batches=4)
    assert result.plot()[1].collections[0].cmap.name == "viridis"
    signed = dataclasses.replace(result, value=np.linspace(-0.5, 1, 9).reshape(3, 3))
    mesh = signed.plot()[1].collections[0]
    colors = np.round(mesh.cmap(mesh.norm([-1.0, -0.01, 0.0, 0.5, 1.0])), 2)
    viridis = matplotlib.colormaps["viridis"]
    np.testing.assert_allclose(colors[2:], viridis([0.0, 0.5, 1.0]), atol=0.02)
    for attracted in colors[:2]:
        closest = np.abs(viridis(np.linspace(0, 1, 256)) - attracted).max(axis=1).min()
        assert closest > 0.15
    assert "negatives attract the anchor in 33% of the cells" in repr(signed)


def test_two_losses_of_one_name_are_not_taken_for_one():
    steep, flat = functools.partial(linear), functools.partial(linear)
    assert list(by_text([steep, steep, "mpt", gradlab.get_loss("mpt", margin=0.23)])) == [
        "partial",
        "mpt",
    ]
    with pytest.raises(gradlab.GradlabError, match="two different losses are called 'partial'"):
        gradlab.plot_curves([steep, flat])
    with pytest.raises(gradlab.GradlabError, match="two different losses are called 'partial'"):
        gradlab.explore(steep, flat)
    flat.__name__ = "flat"
    assert list(by_text([steep, flat])) == ["partial", "flat"]


@pytest.mark.parametrize(("width", "inches"), WIDTHS.items())
def test_paper_has_the_width_of_print_and_fonts_that_publishers_take(width, inches, results):
    before = matplotlib.rcParams["font.family"]
    figure, _ = results["heatmap"].plot(style="paper", width=width)
    assert figure.get_size_inches()[0] == inches
    assert matplotlib.rcParams["font.family"] == before
    file = io.BytesIO()
    figure.savefig(file, format="pdf")
    objects = re.findall(rb"stream\r?\n(.*?)endstream", file.getvalue(), re.DOTALL)
    text = file.getvalue() + b"".join(
        zlib.decompress(stream) for stream in objects if stream.startswith(b"x\x9c")
    )
    assert b"STIXGeneral" in text
    assert b"/Type3" not in text


def test_several_panels_fill_a_page_unless_told_otherwise(results):
    for name, width in (("decomposition", "page"), ("heatmap", "column")):
        assert results[name].plot(style="paper")[0].get_size_inches()[0] == WIDTHS[width]
    hint = r"unknown style 'papier'. Did you mean 'paper'\? There are: screen, paper"
    with pytest.raises(gradlab.GradlabError, match=hint):
        results["heatmap"].plot(style="papier")


def texts_of(figure):
    """Return the drawn texts of a figure with their extents in pixels, a pixel smaller around.

    Labels of ticks beyond the limits of an axis exist, but are not drawn.
    """
    drawn, draw = {}, Text.draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", lambda text, *args: (drawn.setdefault(text), draw(text, *args)))
        figure.canvas.draw()
    boxes = {text: text.get_window_extent() for text in drawn if text.get_text().strip()}
    return {
        text: Bbox.from_extents(box.x0 + 1, box.y0 + 1, box.x1 - 1, box.y1 - 1)
        for text, box in boxes.items()
        if text.get_visible() and box.width > 2
    }


def crossings(figure):
    """Return which texts leave the figure, and which cross another one."""
    drawn = [(text.get_text(), box) for text, box in texts_of(figure).items()]
    leaving = [
        text
        for text, box in drawn
        if not (figure.bbox.contains(*box.min) and figure.bbox.contains(*box.max))
    ]
    pairs = itertools.combinations(drawn, 2)
    return leaving, [(a, b) for (a, first), (b, second) in pairs if first.overlaps(second)]


TENTHS = np.linspace(0, 1, 11)


def covered(figure):
    """Return the labels of curves that pass behind a legend of their axis."""
    hidden = []
    for ax in figure.axes:
        if ax.get_legend() is None:
            continue
        box = ax.get_legend().get_window_extent()
        for line in ax.lines:
            x, y = line.get_transform().transform(line.get_xydata()).T
            between = [
                np.interp(np.arange(0, len(x) - 0.9, 0.1), np.arange(len(x)), v) for v in (x, y)
            ]
            if any(box.contains(*point) for point in zip(*between, strict=True)):
                hidden.append(line.get_label())
    return hidden


def curves_of(quantity):
    losses = ["infonce", "infonce(temperature=0.1)", "mpt", linear]
    return gradlab.plot_curves(losses, of=quantity, style="paper", width="column")[0]


COLUMN = {
    **dict.fromkeys(RESULTS, lambda drawable: drawable),
    "kinds": lambda _: gradlab.components(
        "infonce",
        *(unit_rows(np.random.default_rng(i).normal(size=(n, 8))) for i, n in enumerate((6, 6, 4))),
        own_negatives=unit_rows(np.random.default_rng(3).normal(size=(6, 3, 8))),
    ),
    "attraction": lambda _: gradlab.decompose(
        lambda a, p: ((a @ p.T) ** 2).sum() - (a * p).sum(),
        *paired_batch(np.random.default_rng(0), 8, 12),
    ),
    "ratio": lambda _: gradlab.simulate("arccon", "ratio", grid=4),
    "hardest_share": lambda _: gradlab.simulate("mpt", "hardest_share", grid=4),
    "flow": lambda _: gradlab.flow("infonce", *paired_batch(np.random.default_rng(0), 8, 6)),
    "flows": lambda _: Flows(
        gradlab.flow(loss, *paired_batch(np.random.default_rng(0), 8, 6), groups=[0, 0, 1, 1] * 2)
        for loss in ("infonce", "symmetric(infonce, reverse=mpt)")
    ),
    "verify_all": lambda _: gradlab.verify(batch_size=6, dim=8),
    "atlas_of_five": lambda _: atlas(
        ["infonce", "mpt", "mhe", "siglip", "infonce(temperature=0.1)"]
    ),
}


@pytest.mark.parametrize("name", COLUMN)
def test_at_column_width_no_text_crosses_another_or_leaves_the_figure(name, results):
    drawable = COLUMN[name](results.get(name))
    with plot_style("paper", "column"):
        figure, _ = drawable.plot()
        assert figure.get_size_inches()[0] == WIDTHS["column"]
        assert crossings(figure) == ([], [])
        assert not covered(figure)
        sizes = {text.get_fontsize() for text in texts_of(figure)}
    assert min(sizes) >= 6


@pytest.mark.parametrize("quantity", ["relative_push", "hardest_share", "ratio"])
def test_curves_at_column_width_are_legible(quantity, monkeypatch):
    monkeypatch.setattr("gradlab.atlas.entries.BATCHES_OF_A_PICTURE", 4)
    assert crossings(curves_of(quantity)) == ([], [])


def test_marks_of_errors_do_not_cover_each_other():
    checks = gradlab.verify("infonce", batch_size=6, dim=8)
    figure, ax = checks.plot(style="paper", width="column")
    figure.canvas.draw()
    heights = [
        ax.transData.transform((1, line.get_ydata()[0]))[1]
        for line in ax.lines
        if len(line.get_ydata())
    ]
    gaps = np.diff(sorted(heights))
    assert gaps.min() >= 0.9 * 3.5 * figure.dpi / 72  # as high as a mark is


def test_the_look_of_the_outer_block_holds():
    with plot_style("paper"):
        with plot_style():
            assert matplotlib.rcParams["font.size"] == PAPER["font.size"]
        with plot_style("screen"):
            assert matplotlib.rcParams["font.size"] == SETTINGS["font.size"]
        assert matplotlib.rcParams["font.size"] == PAPER["font.size"]

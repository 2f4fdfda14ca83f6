"""Figures: drawn from what their CSV files hold, true to independent formulas, complete and legible."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

import gradlab
from gradlab import cli
from gradlab.batch.triple import Triple
from gradlab.figures import hardest_share, lemma_accuracy, noncontrastive
from gradlab.figures.catalogue import (
    FIGURES,
    TheoryFigure,
    choose,
    figure_names,
)
from gradlab.gradient.lemma import gets_closer
from gradlab.plotting import style
from gradlab.plotting.heatmap import draw_grid, heatmap
from gradlab.plotting.live import explore
from gradlab.plotting.tables import Tables, grid_of, grid_table, read_table, rounded, select, stack
from gradlab.simulation.sphere import sample_views

COMMITTED = Path(__file__).resolve().parents[1] / "figures"
every_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.stem)
BY_STEM = {figure.stem: figure for figure in FIGURES}
_computed: dict[str, Tables] = {}


def tables_of(stem: str) -> Tables:
    """The tables of a figure, computed once."""
    if stem not in _computed:
        _computed[stem] = BY_STEM[stem].compute()
    return _computed[stem]


def one_table(stem: str) -> dict[str, Any]:
    (table,) = tables_of(stem).values()
    return table


# Files


@every_figure
def test_what_the_csv_holds_is_what_is_drawn(figure: TheoryFigure, tmp_path: Path) -> None:
    tables = tables_of(figure.stem)
    assert tuple(tables) == figure.tables
    figure.write(tmp_path, tables, [])
    read = figure.read(tmp_path)
    assert read is not None
    for name, columns in tables.items():
        assert list(read[name]) == list(columns)
        for key, column in columns.items():
            np.testing.assert_array_equal(read[name][key], column)
    assert figure.caption(read) == figure.caption(tables)


@every_figure
def test_committed_numbers_are_restored(figure: TheoryFigure) -> None:
    committed = figure.read(COMMITTED)
    assert committed is not None, "run `gradlab figures`"
    for name, columns in tables_of(figure.stem).items():
        assert list(committed[name]) == list(columns)
        for key, column in columns.items():
            if column.dtype.kind in "US":
                np.testing.assert_array_equal(committed[name][key], column)
            else:
                np.testing.assert_allclose(committed[name][key], column, rtol=1e-9, atol=1e-9, err_msg=key)


def test_computing_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    stem = "figure-03-hardest-share-as-published"  # whose angles are drawn
    for folder, tables in ((tmp_path / "a", tables_of(stem)), (tmp_path / "b", BY_STEM[stem].compute())):
        BY_STEM[stem].write(folder, tables, ["png", "svg"])
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@every_figure
def test_committed_files_are_there_and_small(figure: TheoryFigure) -> None:
    captions = (COMMITTED / "captions.md").read_text(encoding="utf-8")
    for path in [
        COMMITTED / f"{figure.stem}.png",
        COMMITTED / f"{figure.stem}.svg",
        *(figure.csv_path(COMMITTED, name) for name in figure.tables),
    ]:
        assert path.stat().st_size < 300_000, path
    assert f"]({figure.stem}.png)" in captions
    unfolded = re.sub(r"<details>.*?</summary>", "", captions).split()
    assert " ".join(figure.caption(tables_of(figure.stem)).split()) in " ".join(unfolded)


# Legibility


@every_figure
def test_no_words_are_cut_off_or_overlap(figure: TheoryFigure, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes: dict[Text, Any] = {}
    draw_text = Text.draw

    def record(text: Text, renderer: Any, *rest: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            boxes[text] = Text.get_window_extent(text, renderer)
        draw_text(text, renderer, *rest)

    with style.style():
        drawn, _ = figure.draw(tables_of(figure.stem))
        drawn.set_dpi(100)
        drawn.draw_without_rendering()
        monkeypatch.setattr(Text, "draw", record)
        drawn.draw_without_rendering()
    assert len(boxes) > 10
    assert not any("nan" in text.get_text() for text in boxes)
    width, height = drawn.get_size_inches() * 100
    for text, box in boxes.items():
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, f"{text.get_text()!r} is cut off"
    listed = list(boxes.items())
    for index, (text, box) in enumerate(listed):
        for other, another in listed[:index]:
            wide = min(box.x1, another.x1) - max(box.x0, another.x0)
            high = min(box.y1, another.y1) - max(box.y0, another.y0)
            assert min(wide, high) <= 1, f"{text.get_text()!r} overlaps {other.get_text()!r}"


def test_axes_are_labelled_in_fractions_of_pi() -> None:
    figure, ax = heatmap(gradlab.simulate("mpt", grid=50))
    figure.draw_without_rendering()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["π/4", "π/2", "3π/4", "π"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["π/8", "π/4", "3π/8", "π/2"]
    assert ax.get_title() == "MPT (margin 0.23)"


def test_a_heatmap_takes_an_axis_and_shows_its_values() -> None:
    result = gradlab.simulate("mpt", grid=5)
    figure = style.empty_figure((4, 4))
    axes = figure.add_subplot()
    assert heatmap(result, axes, colorbar=False, title="mine") == (figure, axes)
    assert axes.get_title() == "mine"
    np.testing.assert_array_equal(axes.collections[0].get_array(), result.value)
    assert axes.collections[0].get_clim() == (0, 1)
    with pytest.raises(gradlab.GradlabError, match="at least 2 points"):
        draw_grid(axes, result.mu_pos[:1], result.mu_neg, result.value[:1], result.quantity)


@pytest.mark.parametrize(
    "name", ["modified_mhe", "recombined(gate=met(margin=0.5), weight=0.05 * infonce, ratio=arccon)"]
)
def test_long_titles_are_not_cut_off(name: str) -> None:
    figure, ax = heatmap(gradlab.simulate(name, grid=4))
    figure.draw_without_rendering()
    box = ax.title.get_window_extent()
    width = figure.get_size_inches()[0] * figure.dpi
    assert box.x0 >= 0
    assert box.x1 <= width


# Numbers, against formulas written down here


def test_figures_2_and_10_against_sampled_angles() -> None:
    """Dissipation at a few cells by plain sampling: 4000 batches, five standard errors."""
    rng = np.random.default_rng(7)
    tau, u = 0.05, math.radians(10)
    pos = rng.standard_normal((4000, 1))
    neg = rng.standard_normal((4000, 127))

    def soft(p: Any, n: Any, shift: float) -> Any:
        return 1 / (1 + np.exp(np.cos(np.abs(p[:, 0]) + shift) / tau) / np.exp(np.cos(n) / tau).sum(1))

    dissipations = {
        "arccon": lambda p, n: soft(p, n, u),
        "infonce": lambda p, n: soft(p, n, 0.0),
        "mpt": lambda p, n: np.cos(p[:, 0]) - np.cos(n).max(1) < 0.23,
        "baseline": lambda p, n: np.cos(p[:, 0]) - np.cos(n).max(1) < 0.30,
        "met": lambda p, n: np.sqrt(2 - 2 * np.cos(n).max(1)) - np.sqrt(2 - 2 * np.cos(p[:, 0])) < 0.45,
        "mat": lambda p, n: np.arccos(np.cos(n).max(1)) - np.arccos(np.cos(p[:, 0])) < 0.15 * np.pi,
    }
    tables = tables_of("figure-02-dissipation") | tables_of("figure-10-dissipation")
    assert set(tables) == set(dissipations)
    for name, formula in dissipations.items():
        mu_pos, mu_neg, value = grid_of(tables[name], "gradient_dissipation")
        assert value.shape == (100, 100)
        assert mu_pos[[0, -1]] == pytest.approx([np.pi / 20, np.pi / 2])
        assert mu_neg[[0, -1]] == pytest.approx([np.pi / 20, np.pi])
        middle = np.argwhere((value > 0.05) & (value < 0.95))
        assert len(middle) > 100
        for row, column in middle[:: len(middle) // 6]:
            sampled = formula(mu_pos[row] + 0.05 * pos, mu_neg[column] + 0.10 * neg).astype(float)
            error = sampled.std() / math.sqrt(4000)
            assert abs(sampled.mean() - value[row, column]) < 5 * error, (name, row, column)
        # The pattern that the paper describes: 1 where both angles are close, 0 where negatives are far.
        assert value[50, 30] > 0.9
        assert value[20, 90] < 1e-3


def test_figure_3_against_sampled_angles() -> None:
    table = one_table("figure-03-hardest-share")
    rng = np.random.default_rng(3)
    for tau, column in ((0.05, 20), (0.05, 38), (0.01, 60)):
        rows = select(table, batches="all", temperature=tau)
        negatives = np.cos(rows["mu_neg"][column] + 0.10 * rng.standard_normal((4000, 127)))
        weight = np.exp((negatives - 1) / tau)
        share = weight.max(1) / weight.sum(1)
        error = math.hypot(share.std() / math.sqrt(4000), rows["standard_error"][column])
        assert abs(share.mean() - rows["share"][column]) < 4 * error
        positive = np.cos(np.pi / 6 + 0.05 * rng.standard_normal(4000))
        passes = 1 / (1 + np.exp((positive - 1) / tau) / weight.sum(1)) >= 0.01
        rows = select(table, batches="passing", temperature=tau)
        assert abs(passes.mean() - rows["pass_probability"][column]) < 0.08
        if passes.sum() > 100 and rows["pass_probability"][column] > 0.05:
            error = math.hypot(share[passes].std() / math.sqrt(passes.sum()), rows["standard_error"][column])
            assert abs(share[passes].mean() - rows["share"][column]) < 4 * error


def test_figure_3_as_published_fills_the_cells_that_were_filled() -> None:
    """About 45/59/64/69/71 of 100 for τ = .1/.05/.03/.01/.005, none for .3; two or three more or less by seed."""
    table = one_table("figure-03-hardest-share-as-published")
    filled = [int(select(table, temperature=tau)["filled"].sum()) for tau in hardest_share.TEMPERATURES]
    np.testing.assert_allclose(filled, [0, 45, 59, 64, 69, 71], atol=3)
    assert np.all(table["share"][table["filled"] == 1] == 1)
    assert np.all(table["pass_probability"][table["filled"] == 1] == 0)


@pytest.mark.parametrize("variant", ["", "-as-published"])
def test_figure_4_against_formulas(variant: str) -> None:
    tables = tables_of(f"figure-04-ratios{variant}")
    u = math.radians(10)
    for name, table in tables.items():
        mu_pos, mu_neg, ratio = grid_of(table, "ratio")
        p, n = mu_pos[:, None], mu_neg[None, :]
        expected = {
            "arccon": np.sin(p + u) / np.sin(p) + 0 * n,
            "met": np.sqrt((1 - np.cos(n)) / (1 - np.cos(p))),
            "mat": np.sin(n) / np.sin(p),
        }[name]
        np.testing.assert_allclose(ratio, expected, rtol=1e-10, atol=1e-11)
        _, _, dissipation = grid_of(table, "gradient_dissipation")
        if variant:
            closed = {
                "arccon": 1 / (1 + np.exp((np.cos(p + u) - np.cos(n)) / 0.05) / 127) < 0.01,
                "met": 2 * np.sin(n / 2) - 2 * np.sin(p / 2) >= 0.45,
                "mat": n - p >= 0.15 * np.pi - 1e-9,  # cells exactly on the margin are closed
            }[name]
            np.testing.assert_array_equal(dissipation < 0.01, closed)
        else:
            same = tables_of("figure-02-dissipation") | tables_of("figure-10-dissipation")
            np.testing.assert_array_equal(dissipation, grid_of(same[name], "gradient_dissipation")[2])


def test_figure_11_against_spherical_trigonometry() -> None:
    table = one_table("figure-11-roles")
    # A point's distance from the centre is its angle to the anchor.
    for item in ("positive", "negative"):
        rows = select(table, item=item)
        np.testing.assert_allclose(np.hypot(rows["x"], rows["y"]), rows["angle"], atol=1e-10)
    for panel, step in (("weight", 0.8), ("ratio", 0.5)):
        for side in range(2):
            rows = select(table, panel=panel, side=side)
            negative, positive = select(rows, item="negative"), select(rows, item="positive")
            if panel == "weight":
                logits = np.cos(negative["angle"]) / (0.05 if side else np.inf)
                weight = np.exp(logits - logits.max())
                np.testing.assert_allclose(negative["weight"], weight / weight.sum(), rtol=1e-4)
            pull = positive["weight"][0]
            # The step in the tangent plane: the projections have lengths sin θ in the directions of the map.
            move = np.zeros(2)
            for factor, points in ((pull, positive), (-negative["weight"], negative)):
                place = np.stack([points["x"], points["y"]])
                unit = place / np.hypot(*place)
                move += step * np.sum(factor * np.sin(points["angle"]) * unit, axis=1)
            for item, sign in (("pull", 1), ("push", 1)):
                arrow = select(rows, item=item)
                move -= sign * np.array([arrow["dx"][0], arrow["dy"][0]])
            np.testing.assert_allclose(move, 0, atol=1e-10)
            arrows = [select(rows, item=item) for item in ("pull", "push")]
            total = np.array([sum(a["dx"][0] for a in arrows), sum(a["dy"][0] for a in arrows)])
            # h + move, renormalised, lies at angle atan|move| in the direction of the move.
            after = select(rows, item="after")
            place = total / np.linalg.norm(total) * math.atan(np.linalg.norm(total))
            np.testing.assert_allclose([after["x"][0], after["y"][0]], place, atol=1e-10)
            theta, moved = positive["angle"][0], math.atan(np.linalg.norm(total))
            turn = math.atan2(total[1], total[0]) - math.atan2(positive["y"][0], positive["x"][0])
            cosine = math.cos(theta) * math.cos(moved) + math.sin(theta) * math.sin(moved) * math.cos(turn)
            assert after["angle"][0] == pytest.approx(math.acos(cosine), abs=1e-9)
    below, above = (select(table, panel="ratio", side=side) for side in range(2))
    start = select(below, item="positive")["angle"][0]
    assert select(below, item="after")["angle"][0] > start > select(above, item="after")["angle"][0]
    gap = []
    for side in range(2):
        rows = select(table, panel="dissipation", side=side)
        gap.append(select(rows, item="negative")["angle"].min() - select(rows, item="positive")["angle"][0])
    assert gap[0] > gap[1] + 0.5
    ring = select(below, item="equal_distance")
    assert np.hypot(ring["x"], ring["y"]).min() < 0.02  # it passes through the anchor


def test_figure_12_is_the_geometry_of_the_proof() -> None:
    table = one_table("figure-12-lemma-geometry")
    sine_pos, sine_neg = math.sin(math.radians(50)), math.sin(math.radians(60))
    feasible = []
    for case in dict.fromkeys(table["case"]):
        rows = select(table, case=case)
        at = {name: np.array([x, y]) for name, x, y in zip(rows["point"], rows["x"], rows["y"], strict=True)}
        step, alpha = rows["step"][0], rows["alpha"][0]
        np.testing.assert_allclose(at["positive"], [sine_pos, 0], atol=1e-10)
        negative = sine_neg * np.array([math.cos(alpha), math.sin(alpha)])
        np.testing.assert_allclose(at["negative"], negative, atol=1e-10)
        np.testing.assert_allclose(at["pushed"], -step * negative, atol=1e-10)
        feasible.append("low" in at)
        assert feasible[-1] == (step * sine_neg * abs(math.sin(alpha)) <= sine_pos)
        if not feasible[-1]:
            continue
        for name in ("low", "high"):
            assert np.linalg.norm(at[name] - at["positive"]) == pytest.approx(sine_pos, abs=1e-10)
            assert at[name][1] == pytest.approx(at["pushed"][1], abs=1e-10)
        sides = [
            np.linalg.norm(at[a] - at[b])
            for a, b in (
                ("auxiliary", "low"),
                ("low", "positive"),
                ("positive", "anchor"),
                ("anchor", "auxiliary"),
            )
        ]
        np.testing.assert_allclose(sides, sine_pos, atol=1e-10)
        before = at["auxiliary"][0] < at["pushed"][0]
        assert before == ("situation 1" in case)
    assert feasible == [True, True, False]


def test_lemma_figure_bounds_are_the_edge_of_the_steps_taken() -> None:
    tables = tables_of("lemma-accuracy")
    steps = dict(tables["steps"])
    steps["mu_pos"] = steps.pop("ratio")
    triple = Triple.from_angles(lemma_accuracy.THETA_POS, lemma_accuracy.THETA_NEG, lemma_accuracy.ALPHA)
    for kind in lemma_accuracy.STEP_KINDS:
        ratio, step, closer = grid_of(steps, kind)
        np.testing.assert_array_equal(gets_closer(ratio[:, None], triple, step, kind), closer == 1)
        assert 0.1 < closer.mean() < 0.9


def test_lemma_figure_accuracy_by_taking_steps() -> None:
    """The published rule at λ = 1, by vectors and their angles."""
    table = select(tables_of("lemma-accuracy")["accuracy"], kind="projected")
    rng = np.random.default_rng(11)
    n, step = 4000, 1.0
    theta, phi = rng.uniform(np.pi / 20, np.pi / 2, n), rng.uniform(np.pi / 20, np.pi, n)
    alpha, ratio = rng.uniform(0, np.pi, n), rng.uniform(0.25, 2, n)
    positive = np.stack([np.sin(theta), 0 * theta, np.cos(theta)], 1)
    negative = np.stack([np.sin(phi) * np.cos(alpha), np.sin(phi) * np.sin(alpha), np.cos(phi)], 1)
    move = step * (ratio[:, None] * positive - negative)
    move[:, 2] = 0
    end = np.array([0, 0, 1]) + move
    closer = np.sum(end * positive, 1) / np.linalg.norm(end, axis=1) >= np.cos(theta)
    inside = 1 / step**2 - (np.sin(phi) * np.sin(alpha) / np.sin(theta)) ** 2
    low = (
        1 / step
        + np.sin(phi) * np.cos(alpha) / np.sin(theta)
        - np.sqrt(np.where(inside >= 0, inside, np.nan))
    )
    share = np.mean((ratio > low) == closer)
    (here,) = np.flatnonzero(table["step"] == 1)
    error = math.hypot(math.sqrt(share * (1 - share) / n), table["published_error"][here])
    assert abs(share - table["published"][here]) < 4 * error


def test_noncontrastive_figure_against_loops() -> None:
    table = one_table("noncontrastive-components")
    mu = noncontrastive.MU_NEG[4]
    views = sample_views(
        np.pi / 6, mu, noncontrastive.BATCH_SIZE, noncontrastive.DIMENSIONS,
        sigma_pos=0.05, sigma_neg=0.10, batches=noncontrastive.BATCHES, seed=0,
    )  # fmt: skip
    n = noncontrastive.BATCH_SIZE
    means: dict[str, list[float]] = {"mhe": [], "mhs": [], "barlow_twins": [], "vicreg": [], "gate": []}
    ratios: dict[str, list[float]] = {"mhe": [], "mhs": [], "barlow_twins": [], "vicreg": []}
    for h, other in zip(views.anchors, views.positives, strict=True):
        same, within, cross = h @ h.T, other @ other.T, h @ other.T
        shares: dict[str, list[float]] = {name: [] for name in ratios}
        found: dict[str, list[float]] = {name: [] for name in ratios}
        energy = sum(math.exp(2 * same[k, j]) for k in range(n) for j in range(k + 1, n))
        diagonal = np.diag(h.T @ other / n)
        opened = []
        for i in range(n):
            others = [j for j in range(n) if j != i]
            weight = np.exp(2 * same[i, others])
            shares["mhe"].append(weight.max() / weight.sum())
            found["mhe"].append(energy / (10 * n * weight.sum()))
            shares["mhs"].append(1.0)
            found["mhs"].append(2 * np.linalg.norm(h[others] - h[i], axis=1).min() / n)
            weight = within[i, others]
            shares["barlow_twins"].append(np.abs(weight).max() / np.abs(weight).sum())
            pull = np.sum((1 - (1 - 30) * diagonal) * other[i] ** 2)
            found["barlow_twins"].append(n * pull / (30 * weight.sum()))
            weight = same[i, others]
            shares["vicreg"].append(np.abs(weight).max() / np.abs(weight).sum())
            found["vicreg"].append(n / (30 * weight.sum()))
            opened.append(cross[i, i] - cross[i, others].max() < 0.30)
        for name in ratios:
            means[name].append(float(np.mean(shares[name])))
            ratios[name].append(float(np.median(found[name])))
        means["gate"].append(float(np.mean(opened)))
    for name in ratios:
        (at,) = np.flatnonzero((table["loss"] == name) & np.isclose(table["mu_neg"], mu))
        assert table["gradient_dissipation"][at] == 1
        assert table["largest_share"][at] == pytest.approx(np.mean(means[name]), rel=1e-8)
        assert table["ratio"][at] == pytest.approx(np.mean(ratios[name]), rel=1e-8)
        repaired = noncontrastive.REPAIRS[name]
        (at,) = np.flatnonzero((table["loss"] == repaired) & np.isclose(table["mu_neg"], mu))
        assert table["gradient_dissipation"][at] == pytest.approx(np.mean(means["gate"]), abs=1e-12)
        assert table["ratio"][at] == (1.75 if "mh" in repaired else 1.5)


# Choosing, the command, tables


def test_choosing_figures() -> None:
    assert figure_names() == ["2", "3", "4", "10", "11", "12", "lemma", "noncontrastive"]
    assert choose() == list(FIGURES)
    assert [figure.stem for figure in choose(["10", "2"])] == [
        "figure-02-dissipation",
        "figure-10-dissipation",
    ]
    assert [figure.name for figure in choose(as_published=True)] == ["3", "4"]
    assert [figure.as_published for figure in choose(["2", "3"], as_published=True)] == [False, True]
    assert choose(["Figure 2", "fig.2"]) == choose(["2"])


@pytest.mark.parametrize(("name", "message"), [("99", "there are: 2, 3"), ("lema", "Did you mean 'lemma'")])
def test_unknown_figures(name: str, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message):
        choose([name])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Run ``gradlab figures ...`` in an empty folder; returns (exit code, out, err)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gradlab", "figures", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call


def test_command_writes_what_it_says(run: Any, tmp_path: Path) -> None:
    code, out, err = run("12", "--format", "svg", "--output", "here")
    assert (code, err) == (0, "")
    names = {line.removeprefix("Wrote here/") for line in out.splitlines()}
    assert names == {"figure-12-lemma-geometry.svg", "figure-12-lemma-geometry.csv", "captions.md"}
    assert {path.name for path in (tmp_path / "here").iterdir()} == names
    captions = (tmp_path / "here" / "captions.md").read_text(encoding="utf-8")
    assert "## Figure 12: The geometry of Lemma 1" in captions
    assert "Figure 2:" not in captions


def test_command_refuses_in_one_line(run: Any, tmp_path: Path) -> None:
    for arguments, words in ((["5"], "python -m studies.conjectures"), (["2", "77"], "unknown figure '77'")):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        assert words in err
    assert list(tmp_path.iterdir()) == []


def test_tables_round_trip(tmp_path: Path) -> None:
    value = np.array([[1 / 3, -1e-20], [2.0, 1e-5 / 7]])
    table = grid_table(np.array([0.1, 0.2]), np.array([0.3, 1 / 3]), {"one": value, "two": 2 * value})
    mu_pos, mu_neg, back = grid_of(table, "two")
    np.testing.assert_allclose(back, 2 * value, rtol=1e-11, atol=1e-14)
    assert mu_pos.tolist() == [0.1, 0.2]
    assert mu_neg == pytest.approx([0.3, 1 / 3], rel=1e-11)
    assert not np.signbit(back[0, 1])
    assert rounded({"x": np.array([math.pi])})["x"][0] == 3.14159265359
    assert stack([{"a": "x", "b": 1.0}, {"a": ["y", "z"], "b": [2.0, 3.0]}])["a"].tolist() == ["x", "y", "z"]
    with pytest.raises(gradlab.GradlabError, match="cannot read"):
        read_table(tmp_path / "absent.csv")


# Sliders


def test_sliders_move_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    widgets = pytest.importorskip("ipywidgets")
    import IPython.display

    shown: list[Any] = []

    class Handle:
        def update(self, figure: Any) -> None:
            shown.append(figure)

    def display(item: Any, display_id: bool = False) -> Handle:
        shown.append(item)
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    live = explore("mpt", grid=10)
    box, figure = shown
    assert figure is live.figure
    sliders = {slider.description: slider for slider in box.children}
    assert list(sliders) == [
        "margin",
        "spread, positive (radians)",
        "spread, negative (radians)",
        "negatives",
    ]
    assert isinstance(sliders["margin"], widgets.FloatSlider)
    sliders["margin"].value = 0.5
    assert len(shown) == 3
    expected = gradlab.simulate(gradlab.get_loss("mpt", margin=0.5), grid=10)
    np.testing.assert_array_equal(live.result.value, expected.value)
    sliders["negatives"].value = 15
    expected = gradlab.simulate(gradlab.get_loss("mpt", margin=0.5), grid=10, negatives=15)
    np.testing.assert_array_equal(live.result.value, expected.value)

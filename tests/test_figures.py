"""Figures: drawn from their CSV files, true to independent formulas, complete and legible."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from gradlab.errors import GradlabError
from gradlab.figures import hardest_share, noncontrastive
from gradlab.figures.catalogue import FIGURES, TheoryFigure, choose
from gradlab.plotting import style
from gradlab.plotting.figure_tables import Tables, grid_of, read_table, select, stack
from gradlab.simulation.sphere import sample_views

COMMITTED = Path(__file__).resolve().parents[1] / "figures"
every_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.stem)
BY_STEM = {figure.stem: figure for figure in FIGURES}


@functools.cache
def tables_of(stem: str) -> Tables:
    """The tables of a figure, computed once."""
    return BY_STEM[stem].compute()


def one_table(stem: str) -> dict[str, Any]:
    return tables_of(stem)[""]


# Files


@every_figure
def test_files_hold_what_is_drawn_and_what_is_committed(
    figure: TheoryFigure, tmp_path: Path
) -> None:
    tables = tables_of(figure.stem)
    figure.write(tmp_path, tables, [])
    read, committed = figure.read(tmp_path), figure.read(COMMITTED)
    assert read is not None
    assert committed is not None, "run `gradlab figures`"
    assert tuple(tables) == figure.tables
    for name, columns in tables.items():
        assert list(read[name]) == list(committed[name]) == list(columns)
        for key, column in columns.items():
            np.testing.assert_array_equal(read[name][key], column)
            if column.dtype.kind in "US":
                np.testing.assert_array_equal(committed[name][key], column)
            else:
                np.testing.assert_allclose(
                    committed[name][key], column, rtol=1e-9, atol=1e-9, err_msg=key
                )
    captions = (COMMITTED / "captions.md").read_text(encoding="utf-8")
    assert f"]({figure.stem}.png)" in captions
    unfolded = re.sub(r"<details>.*?</summary>", "", captions).split()
    for of in (tables, read):
        assert " ".join(figure.caption(of).split()) in " ".join(unfolded)
    pictures = [COMMITTED / f"{figure.stem}.{suffix}" for suffix in ("png", "svg")]
    for path in [*pictures, *(figure.csv_path(COMMITTED, name) for name in tables)]:
        assert path.stat().st_size < 300_000, path


# Legibility


@every_figure
def test_no_words_are_cut_off_or_overlap(
    figure: TheoryFigure, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes: dict[Text, Any] = {}
    draw_text = Text.draw

    def record(text: Text, renderer: Any, *arguments: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            boxes[text] = Text.get_window_extent(text, renderer)
        draw_text(text, renderer, *arguments)

    with style.style():
        drawn, _ = figure.module.draw(tables_of(figure.stem))
        drawn.set_dpi(100)
        drawn.draw_without_rendering()
        monkeypatch.setattr(Text, "draw", record)
        drawn.draw_without_rendering()
    assert len(boxes) > 10
    assert not any("nan" in text.get_text() for text in boxes)
    width, height = drawn.get_size_inches() * 100
    for text, box in boxes.items():
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -1, (
            f"{text.get_text()!r} is cut off"
        )
    for (text, box), (second_text, second_box) in itertools.combinations(boxes.items(), 2):
        wide = min(box.x1, second_box.x1) - max(box.x0, second_box.x0)
        high = min(box.y1, second_box.y1) - max(box.y0, second_box.y0)
        assert min(wide, high) <= 1, f"{text.get_text()!r} overlaps {second_text.get_text()!r}"


# Numbers, against formulas


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
            error = math.hypot(
                share[passes].std() / math.sqrt(passes.sum()), rows["standard_error"][column]
            )
            assert abs(share[passes].mean() - rows["share"][column]) < 4 * error


def test_figure_3_as_published_fills_the_cells_that_were_filled() -> None:
    """About 45/59/64/69/71 of 100 for τ = .1/.05/.03/.01/.005, none for .3; ± 2 or 3 by seed."""
    table = one_table("figure-03-hardest-share-as-published")
    filled = [
        int(select(table, temperature=tau)["filled"].sum()) for tau in hardest_share.TEMPERATURES
    ]
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
            np.testing.assert_array_equal(
                dissipation, grid_of(same[name], "gradient_dissipation")[2]
            )


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
            # The step in the tangent plane: projections have lengths sin θ in the map's directions.
            move = np.zeros(2)
            for factor, points in ((pull, positive), (-negative["weight"], negative)):
                place = np.stack([points["x"], points["y"]])
                unit = place / np.hypot(*place)
                move += step * np.sum(factor * np.sin(points["angle"]) * unit, axis=1)
            arrows = [select(rows, item=item) for item in ("pull", "push")]
            total = np.array([sum(a["dx"][0] for a in arrows), sum(a["dy"][0] for a in arrows)])
            np.testing.assert_allclose(total, move, atol=1e-10)
            # h + move, renormalised, lies at angle atan|move| in the direction of the move.
            after = select(rows, item="after")
            place = total / np.linalg.norm(total) * math.atan(np.linalg.norm(total))
            np.testing.assert_allclose([after["x"][0], after["y"][0]], place, atol=1e-10)
            theta, moved = positive["angle"][0], math.atan(np.linalg.norm(total))
            turn = math.atan2(total[1], total[0]) - math.atan2(positive["y"][0], positive["x"][0])
            cosine = math.cos(theta) * math.cos(moved) + math.sin(theta) * math.sin(
                moved
            ) * math.cos(turn)
            assert after["angle"][0] == pytest.approx(math.acos(cosine), abs=1e-9)
    below, above = (select(table, panel="ratio", side=side) for side in range(2))
    start = select(below, item="positive")["angle"][0]
    assert select(below, item="after")["angle"][0] > start > select(above, item="after")["angle"][0]
    ring = select(below, item="equal_distance")
    assert np.hypot(ring["x"], ring["y"]).min() < 0.02  # it passes through the anchor


def test_figure_12_is_the_geometry_of_the_proof() -> None:
    table = one_table("figure-12-lemma-geometry")
    sine_pos, sine_neg = math.sin(math.radians(50)), math.sin(math.radians(60))
    feasible = []
    for case in dict.fromkeys(table["case"]):
        rows = select(table, case=case)
        at = {
            name: np.array([x, y])
            for name, x, y in zip(rows["point"], rows["x"], rows["y"], strict=True)
        }
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
        corners = ("auxiliary", "low", "positive", "anchor", "auxiliary")
        sides = [np.linalg.norm(at[a] - at[b]) for a, b in itertools.pairwise(corners)]
        np.testing.assert_allclose(sides, sine_pos, atol=1e-10)
        before = at["auxiliary"][0] < at["pushed"][0]
        assert before == ("situation 1" in case)
    assert feasible == [True, True, False]


def test_noncontrastive_figure_against_loops() -> None:
    table = one_table("noncontrastive-components")
    mu, n = noncontrastive.MU_NEG[4], noncontrastive.BATCH_SIZE
    views = sample_views(
        np.pi / 6, mu, n, noncontrastive.DIMENSIONS,
        sigma_pos=0.05, sigma_neg=0.10, batches=noncontrastive.BATCHES, seed=0,
    )  # fmt: skip
    shares, ratios, gates = collections.defaultdict(list), collections.defaultdict(list), []
    for h, g in zip(views.anchors, views.positives, strict=True):
        same, within, cross = h @ h.T, g @ g.T, h @ g.T
        energy = sum(math.exp(2 * same[k, j]) for k in range(n) for j in range(k + 1, n))
        diagonal = np.diag(h.T @ g / n)
        batch_ratios = collections.defaultdict(list)
        for i in range(n):
            negatives = [j for j in range(n) if j != i]
            weight = np.exp(2 * same[i, negatives])
            shares["mhe"].append(weight.max() / weight.sum())
            batch_ratios["mhe"].append(energy / (10 * n * weight.sum()))
            shares["mhs"].append(1.0)
            batch_ratios["mhs"].append(2 * np.linalg.norm(h[negatives] - h[i], axis=1).min() / n)
            weight = within[i, negatives]
            shares["barlow_twins"].append(np.abs(weight).max() / np.abs(weight).sum())
            pull = np.sum((1 - (1 - 30) * diagonal) * g[i] ** 2)
            batch_ratios["barlow_twins"].append(n * pull / (30 * weight.sum()))
            weight = same[i, negatives]
            shares["vicreg"].append(np.abs(weight).max() / np.abs(weight).sum())
            batch_ratios["vicreg"].append(n / (30 * weight.sum()))
            gates.append(cross[i, i] - cross[i, negatives].max() < 0.30)
        for name, values in batch_ratios.items():
            ratios[name].append(float(np.median(values)))

    def row(name: str) -> dict[str, Any]:
        cells = {key: column[4] for key, column in select(table, loss=name).items()}
        assert cells["mu_neg"] == pytest.approx(mu)
        return cells

    for name in ratios:
        own, repaired = row(name), row(noncontrastive.REPAIRS[name])
        assert own["gradient_dissipation"] == 1
        assert own["largest_share"] == pytest.approx(np.mean(shares[name]), rel=1e-8)
        assert own["ratio"] == pytest.approx(np.mean(ratios[name]), rel=1e-8)
        assert repaired["gradient_dissipation"] == pytest.approx(np.mean(gates), abs=1e-12)
        assert repaired["ratio"] == (1.75 if "mh" in name else 1.5)


# Tables, choosing, the command


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n3\n"])
def test_a_file_that_is_no_table_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "figure.csv").write_text(text)
    with pytest.raises(GradlabError, match="cannot read a table from"):
        read_table(tmp_path / "figure.csv")


def test_tables_are_stacked_by_the_names_of_their_columns() -> None:
    """Single values stand for whole columns, and the order of columns does not matter."""
    stacked = stack([{"loss": "met", "share": [0.1, 0.2]}, {"share": [0.3], "loss": "mpt"}])
    assert {name: column.tolist() for name, column in stacked.items()} == {
        "loss": ["met", "met", "mpt"],
        "share": [0.1, 0.2, 0.3],
    }


@pytest.mark.parametrize(
    ("names", "as_published", "stems"),
    [
        (["10", "2"], False, ["figure-02-dissipation", "figure-10-dissipation"]),
        (["Figure 2", "fig.2"], False, ["figure-02-dissipation"]),
        (["2", "3"], True, ["figure-02-dissipation", "figure-03-hardest-share-as-published"]),
        ([], True, ["figure-03-hardest-share-as-published", "figure-04-ratios-as-published"]),
        ([], False, list(BY_STEM)),
    ],
)
def test_choosing_figures(names: list[str], as_published: bool, stems: list[str]) -> None:
    assert [figure.stem for figure in choose(names, as_published=as_published)] == stems


def test_command_writes_what_it_says(shell, tmp_path: Path) -> None:
    code, out, err = shell("figures", 12, "--format", "svg", "--output", tmp_path)
    assert code == 0, err
    names = {Path(line).name for line in out.splitlines()}
    assert names == {"figure-12-lemma-geometry.svg", "figure-12-lemma-geometry.csv", "captions.md"}
    assert {path.name for path in tmp_path.iterdir()} == names
    captions = (tmp_path / "captions.md").read_text(encoding="utf-8")
    assert re.findall("^## (Figure [0-9]+)", captions, re.MULTILINE) == ["Figure 12"]

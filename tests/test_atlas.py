"""The atlas: its numbers against formulas and loops, the committed page, the command."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path

import numpy as np
import pytest

import gradlab
from docs.loss_pages import atlas_page, distance, write_pages
from gradlab.atlas import atlas
from gradlab.atlas import measure as measure_anew
from gradlab.atlas.entries import (
    BATCHES_OF_A_CURVE,
    DIMENSIONS,
    NEGATIVE,
    POSITIVE,
    SENTENCES,
    SPREADS,
    half_open_angle,
)
from gradlab.atlas.flow_ends import STARTS
from gradlab.atlas.tables import text_table
from gradlab.losses.registry import combinator_names, taught_names
from gradlab.simulation.sphere import sample_views

ROOT = Path(__file__).resolve().parents[1]


_measured = functools.cache(measure_anew)


def measure(loss, *, progress=None):
    """A loss is measured once for all tables and pages."""
    return _measured(gradlab.get_loss(loss))


@pytest.fixture(scope="module", autouse=True)
def entries():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradlab.atlas.entries.measure", measure)
        patch.setattr("docs.loss_pages.measure", measure)
        yield atlas(progress=False)


def test_the_committed_page_is_what_the_command_writes(entries) -> None:
    text = atlas_page(entries)
    assert (ROOT / "docs" / "atlas.md").read_text(encoding="utf-8") == text
    several = {"recombined", "supcon", "sincere", "mil_nce", "triplet"}
    assert [entry.loss.name for entry in entries] == [
        name for name in gradlab.loss_names() if name not in several
    ]


def test_the_committed_pages_of_losses_are_what_the_command_writes(tmp_path) -> None:
    names = {path.stem for path in write_pages(tmp_path)}
    assert names == {*gradlab.loss_names(), *taught_names(), *combinator_names(), "index"}
    written, committed = (
        {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
        for folder in (tmp_path, ROOT / "docs" / "losses")
    )
    assert written == committed


def test_each_page_of_a_loss_without_teacher_has_its_two_pictures() -> None:
    pictures = {path.stem for path in (ROOT / "docs" / "pictures" / "losses").iterdir()}
    names = [*gradlab.loss_names(), *combinator_names()]
    assert pictures == {f"{name}-{kind}" for name in names for kind in ("curve", "map")}
    for name in [*names, *taught_names()]:
        text = (ROOT / "docs" / "losses" / f"{name}.md").read_text(encoding="utf-8")
        pictures = re.findall(r"\(../pictures/losses/(.*?).png\)", text)
        assert pictures == ([f"{name}-curve", f"{name}-map"] if name in names else [])


def test_the_batch_of_the_leads_begins_at_the_stated_cosines() -> None:
    batch = gradlab.flow.synthetic_batch()
    cosines = batch.anchors @ batch.positives.T
    same = np.equal.outer(batch.topics, batch.topics)
    own = np.eye(len(same), dtype=bool)
    measured = {"positives": own, "same_topic": same & ~own, "different": ~same}
    for name, pairs in measured.items():
        assert STARTS[name] == pytest.approx(cosines[pairs].mean(), abs=0.01)


def test_a_page_tells_the_numbers_of_its_loss(tmp_path) -> None:
    (path, _) = write_pages(tmp_path, ["infonce"])
    text = path.read_text(encoding="utf-8")
    positive_logit, negative_logit = (
        math.cos(math.radians(30)) / 0.05,
        math.cos(math.radians(60)) / 0.05,
    )
    negative_sum = math.exp(negative_logit) + 126
    value = math.log1p(negative_sum / math.exp(positive_logit))
    gate = negative_sum / (negative_sum + math.exp(positive_logit))
    assert f"| usual | {value:.3g} | {gate:.3g} | {gate / 0.05:.3g} | {gate / 0.05:.3g} |" in text
    entry = measure("infonce")
    assert (
        0
        == distance(entry, entry)
        < distance(entry, measure("cosface"))
        < distance(entry, measure("dcl"))
    )
    assert "- [`arccon`](arccon.md)" in text


@pytest.mark.parametrize(
    ("name", "most"), [("infonce", 0.5), ("arccon", 0.5), ("mpt", 2), ("baseline", 2), ("met", 2)]
)
def test_the_gate_is_half_open_near_the_exact_angle(name, most) -> None:
    degrees = np.arange(50, 80, 0.5)
    exact = gradlab.simulate(
        name, "gradient_dissipation", "exact", mu_pos=[POSITIVE], mu_neg=np.radians(degrees)
    )
    assert measure(name).half_open == pytest.approx(
        half_open_angle(degrees, exact.value[0])[0], abs=most
    )


def test_the_gate_of_infonce_is_half_open_where_the_simulator_says() -> None:
    entry = measure("infonce")
    at = math.radians(entry.half_open)
    (values,) = gradlab.simulate(
        "infonce",
        "relative_push",
        mu_pos=[POSITIVE],
        mu_neg=[POSITIVE, at, at + 1e-3],
        batches=BATCHES_OF_A_CURVE,
    ).value
    assert values[1] == pytest.approx(0.5, abs=2e-4)  # between two points of the curve
    slope = 100 * (values[1] - values[2]) / math.degrees(1e-3)
    assert entry.slope == pytest.approx(slope, rel=0.02)


def test_numbers_of_a_batch_against_loops() -> None:
    """Hardest share, effective number and the ratios of ArcCon, from its declared weights."""
    entry, rows = measure("arccon"), []
    setting = {"sigma_pos": SPREADS[0], "sigma_neg": SPREADS[1]}
    for seed in range(4):
        views = sample_views(POSITIVE, NEGATIVE, SENTENCES, DIMENSIONS, seed=seed, **setting)
        components = gradlab.components("arccon", views.anchors[0], views.positives[0])
        push = components.gradient_dissipation[:, None] * components.weight
        pull = components.gradient_dissipation * components.positive_weight
        shares = [row[row > 0] / row.sum() for row in components.weight]
        sent, received = push.sum(axis=1), push.sum(axis=0)
        differences = np.abs(received[:, None] - received).sum()
        rows.append(
            {
                "hardest_share": np.mean([share.max() for share in shares]),
                "effective_negatives": np.mean([np.exp(-(s * np.log(s)).sum()) for s in shares]),
                "ratio": np.median(pull / sent),
                "ratio_both_sides": np.median(2 * pull / (sent + received)),
                "hubness": differences / (2 * SENTENCES * received.sum()),
            }
        )
    for name in rows[0]:
        assert getattr(entry, name) == pytest.approx(
            np.mean([row[name] for row in rows]), rel=1e-9
        ), name


def test_anchors_that_are_left_alone_have_no_ratio_and_take_none_from_the_others() -> None:
    """A triplet loss over both views pulls as its two hardest negatives push, or not at all."""
    entry = measure("symmetric(mpt)")
    medians = []
    for seed in range(4):
        setting = {"sigma_pos": SPREADS[0], "sigma_neg": SPREADS[1], "seed": seed}
        views = sample_views(POSITIVE, NEGATIVE, SENTENCES, DIMENSIONS, **setting)
        cosines = views.anchors[0] @ views.positives[0].T
        push, pull = np.zeros(SENTENCES), np.zeros(SENTENCES)
        for i in range(SENTENCES):
            row, column = cosines[i].copy(), cosines[:, i].copy()
            row[i] = column[i] = -1
            if row.max() + 0.23 > cosines[i, i]:  # the anchor is pushed from its hardest negative
                pull[i] += 1
                push[i] += 1
            if column.max() + 0.23 > cosines[i, i]:  # the positive from its hardest anchor
                pull[i] += 1
                push[column.argmax()] += 1
        acts = (pull > 0) | (push > 0)
        with np.errstate(divide="ignore"):  # pulled by their own pair alone
            medians.append(np.median(pull[acts] / push[acts]))
    assert entry.ratio == pytest.approx(np.mean(medians), rel=1e-9)


def test_command(shell, tmp_path) -> None:
    table, picture = tmp_path / "a.csv", tmp_path / "a.svg"
    names = ["infonce", "symmetric(infonce)"]
    _, out, _ = shell("atlas", *names, "--csv", table, "--picture", picture)
    entries = atlas(names, progress=False)
    assert text_table(entries) in out
    assert table.read_text(encoding="utf-8") == entries.to_frame().to_csv(index=False)
    assert picture.read_text(encoding="utf-8").startswith("<?xml")

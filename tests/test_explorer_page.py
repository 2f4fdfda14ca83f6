"""The page that `gradlab explore` writes: itself alone, whole, and with the library's numbers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import numpy as np
import pytest
import torch

import gradlab
from gradlab.explorer import explore, heatmap_data
from gradlab.explorer.heatmap_data import heatmaps
from gradlab.explorer.page import SCRIPTS
from gradlab.explorer.page_functions import needs_batch
from gradlab.losses.infonce import InfoNCE
from tests.node import run_script


@pytest.fixture(scope="module", autouse=True)
def _coarse() -> Iterator[None]:
    """Heat maps of few cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heatmap_data, "ROWS", 3)
        patch.setattr(heatmap_data, "COLUMNS", 3)
        yield


LOSSES = ("mpt", "mhe", 'recombined(gate=1, weight="0.05 * infonce", ratio=1.5)')


@pytest.fixture(scope="module")
def page() -> str:
    return explore(*LOSSES, progress=False).html


def script_of(page: str) -> str:
    match = re.search(r"<script>(.*)</script>", page, re.S)
    assert match is not None
    return match[1]


def test_it_runs_only_itself(page: str) -> None:
    """No address, and a policy that names its one script and its one style."""
    script = script_of(page)
    style = re.search(r"<style>(.*)</style>", page, re.S)
    assert style is not None
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    for text in (script, style[1]):
        assert (
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            in policy[1]
        )
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]
    assert set(re.findall(r"\w+://[^\s\"')]+", page)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, not an address
    assert not re.search(
        r"\s(src|href|style|on\w+)=", re.sub(r"<script>.*</script>", "", page, flags=re.S)
    )
    assert len(page) < 5e6


def without_document(page: str, text: str) -> Any:
    """What a text prints, as JSON, after the page's script, all but the part that draws at once."""
    drawing = (resources.files("gradlab.explorer") / SCRIPTS[-1]).read_text(encoding="utf-8")
    script = script_of(page).replace(drawing, "")
    arrays = (resources.files("gradlab.explorer") / "arrays.js").read_text(encoding="utf-8")
    return json.loads(run_script(script.replace(arrays, "") + text))  # which run_script brings


def test_the_address_holds_what_is_seen(page: str) -> None:
    written, read = without_document(
        page,
        """
        readState("");
        state.panels[0].numbers.margin = 0.4; state.panels[1] = own(NAMES[1]);
          state.chosen = 3; state.step = 0.2;
        state.curve = { x: "chosen", y: "ratio", kept: [own(NAMES[2])] };
        setCount(5); setMates(2); state.camera = { yaw: 0.5, pitch: -0.3 };
          state.heat = { y: "ratio", x: "margin", frames: { "mpt.margin": 4 } };
        state.linked = false; state.preset = "collapse";
        const before = structuredClone(state);
        readState(writeState());
        console.log(JSON.stringify([before, state]));
        """,
    )
    for name in ("panels", "mates", "chosen", "step", "curve", "heat", "linked", "preset"):
        assert read[name] == written[name]
    for name, points in written["points"].items():
        # To hundredths of a degree.
        np.testing.assert_allclose(read["points"][name], points, atol=2e-4)


SEVERAL = (
    *LOSSES,
    "infonce",
    "supcon",
    "symmetric(pool(supcon))",
    "kl",
    "embedding_distillation",
    "symmetric(kl)",
)


def test_panels_of_the_page_say_what_the_library_says() -> None:
    """The page's own path from points to readings, with further positives and a teacher.

    The first points are told by a relation, or of whole batches by labels. A teacher puts the
    anchor elsewhere and nothing else.
    """
    page = explore(*SEVERAL, progress=False).html
    rows, readings, moved = without_document(
        page,
        """
        readState(""); setCount(4); setMates(5); setMates(2);
        const { anchor, positive, negatives, partners, teacher } = state.points;
        const found = NAMES.map((name) => evaluate(own(name), state.points));
        const all = swept(state.points, "negatives", 1).negatives
          .map((point) => angleOf(point, anchor));
        console.log(JSON.stringify([[anchor, positive, negatives, partners, teacher],
          found.map((f) => [f.dissipation, String(f.ratio), f.weight, f.shares, f.pull, f.push,
            f.tugs && f.tugs.length, f.bounds !== undefined]),
            all.map((angle) => Math.abs(angle - 1) < 1e-9)]));
        """,
    )
    anchor, positive, negatives, partners, teacher = map(np.array, rows)
    assert len(negatives) == 6
    assert moved == [False] * 2 + [True] * 4
    for name, (dissipation, ratio, *read) in zip(SEVERAL, readings, strict=True):
        weight, shares, pull, push, tugs, bounded = read
        loss = gradlab.get_loss(name)
        batch = needs_batch(loss)
        first = np.vstack([anchor, negatives]) if batch else anchor[None]
        other_columns = [np.vstack([positive, partners])] if batch else [positive[None], negatives]
        context = (
            {"labels": [0, 0, 0, 1, 2, 3, 4]}
            if batch
            else {"relation": [[1, 1, 1, -1, -1, -1, -1]]}
        )
        if "teacher" in loss.looks_at:
            context["teacher"] = (np.vstack([teacher, first[1:]]), *other_columns)
        components = gradlab.components(
            loss, first, *other_columns, in_batch_negatives=batch, normalize=True, **context
        )
        np.testing.assert_allclose(dissipation, components.gradient_dissipation[0], rtol=1e-11)
        np.testing.assert_allclose(float(ratio), components.scalar_ratio[0], rtol=1e-11)
        np.testing.assert_allclose(np.add(pull, push), -components.gradient()[0], atol=1e-11)
        columns = components.weight[0].reshape(-1, 7).sum(0)[1:] if batch else components.weight[0]
        np.testing.assert_allclose(weight, columns, rtol=1e-11, atol=1e-14)
        pulls = components.pull_shares
        right = [1, *[0] * 6] if pulls is None else pulls[0].reshape(-1, 7).sum(0)
        right = np.zeros(7) if components.target is not None else right
        np.testing.assert_allclose(shares, right, rtol=1e-11, atol=1e-14)
        one_pull = dict.fromkeys((*LOSSES, "infonce"), (None, True))
        assert (tugs, bounded) == (one_pull | {"embedding_distillation": (1, False)}).get(
            name, (7, False)
        )


FRAMES = {  # quantity and slider -> what a value of it is to the simulator
    ("relative_push", "margin"): lambda value: {"loss": gradlab.get_loss("mpt", margin=value)},
    ("relative_push", "positive_spread"): lambda value: {"loss": "mpt", "sigma_pos": value},
    ("ratio", "negatives"): lambda value: {"loss": "mpt", "negatives": value},
    ("hardest_share", "spread"): lambda value: {"loss": "mpt", "sigma_neg": value},
}


def test_frames_are_simulations_to_the_stated_tolerance(page: str) -> None:
    """Unpacked by the page's own function."""
    read = f"""
        Promise.all({json.dumps(list(FRAMES))}.map(
          ([quantity, slider]) => unpack(HEAT.series.mpt[quantity][slider])))
          .then((all) => console.log(JSON.stringify(all.map((cells) => [...cells]))));
    """
    maps = heatmaps({"mpt": gradlab.get_loss("mpt")}, progress=False)["series"]["mpt"]
    grid = (heatmap_data.ROWS, heatmap_data.COLUMNS)
    for cells, ((quantity, slider), option) in zip(
        without_document(page, read), FRAMES.items(), strict=True
    ):
        series = maps[quantity][slider]
        size = series["high"] - series["low"]
        for value, frame in zip(series["values"], np.array(cells).reshape(-1, *grid), strict=True):
            drawn = {"batches": heatmap_data.BATCHES} if quantity == "relative_push" else {}
            exact = gradlab.simulate(quantity=quantity, grid=grid, **drawn, **option(value)).value
            read = np.where(frame == 255, np.nan, series["low"] + size * frame / 250)
            assert np.array_equal(np.isnan(read), np.isnan(exact))
            assert np.nanmax(np.abs(read - exact), initial=0) <= series["tolerance"] * (1 + 1e-9)


def test_ratios_beyond_fifteen_leave_the_others_their_digits() -> None:
    """SigLIP's grow to 1e89, the debiased loss's are infinite; the page's own class reads both."""
    chosen = {"siglip": "temperature", "debiased": "temperature", "met": "negatives"}
    html = explore(*chosen, progress=False).html
    read = f"""
        Promise.all(Object.entries({json.dumps(chosen)}).map(async ([name, slider]) => {{
          const series = HEAT.series[name].ratio[slider], cells = await unpack(series);
          return [...cells].map((cell) => String(HeatMap.prototype.value.call({{ series }}, cell)));
        }})).then((all) => console.log(JSON.stringify(all)));
    """
    grid = (heatmap_data.ROWS, heatmap_data.COLUMNS)
    for name, cells in zip(chosen, without_document(html, read), strict=True):
        names = {"temperature": heatmap_data.TEMPERATURES, "negatives": heatmap_data.NEGATIVES}[
            chosen[name]
        ]
        own = getattr(gradlab.get_loss(name), "temperature", None)
        values = sorted({*names, own} if chosen[name] == "temperature" else names)
        assert len(cells) == len(values) * grid[0] * grid[1]
        for value, ratios in zip(values, np.array(cells, float).reshape(-1, *grid), strict=True):
            loss = (
                gradlab.get_loss(name, temperature=value) if chosen[name] == "temperature" else name
            )
            options = {} if chosen[name] == "temperature" else {"negatives": value}
            exact = gradlab.simulate(loss, "ratio", grid=grid, **options).value
            near = exact <= 15
            assert np.array_equal(np.isposinf(ratios), ~near)
            np.testing.assert_allclose(ratios[near], exact[near], atol=0.031)


def energy(anchors, positives):
    """MHE, in its own words."""
    n, loss = len(anchors), gradlab.get_loss("mhe")
    first, second = torch.triu_indices(n, n, 1)
    repulsion = (-((anchors[first] - anchors[second]) ** 2).sum(1) / (2 * loss.temperature)).exp()
    return ((anchors - positives) ** 2).sum() / n + loss.nu * repulsion.mean().log()


def test_a_loss_given_as_code_has_what_its_formulas_give(monkeypatch) -> None:
    """MHE as code, from gradients made before the page, beside the page's compiled formulas."""
    monkeypatch.setattr("gradlab.explorer.heatmap_data.FEW", 4)
    html = explore(energy, "mhe", progress=False).html
    read = """
        readState("");
        const numbers = Object.keys(MOVES).map((x) => Array.from({ length: SAMPLES }, (_, i) => {
          const angle = 0.02 + ((Math.PI - 0.04) * i) / (SAMPLES - 1);
          return state.panels.map((panel) => {
            const found = evaluate(panel, swept(state.points, x, angle), true, [x, i]);
            const shares = found.weight.map((w) => w / found.size);
            return [found.dissipation * found.size, found.relative_push, found.ratio,
              found.hardest_share, found.after, ...shares];
          });
        }));
        const here = state.panels.map((panel) => evaluate(panel, state.points).ratio);
        state.step = 0.5;
        const steps = state.panels.map((panel) => {
          const { moved, before, after } = evaluate(panel, state.points);
          return [...moved, before, after]; });
        setCount(7);
        console.log(JSON.stringify(
          [numbers, here, steps, evaluate(state.panels[0], state.points)]));
    """
    numbers, ratios, steps, moved = without_document(html, read)
    sweeps = np.array(numbers)  # (sweeps, samples, losses, numbers)
    np.testing.assert_allclose(sweeps[:, :, 0], sweeps[:, :, 1], rtol=2e-5, atol=1e-6)
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-5)
    # These are of the step that the slider asks for.
    np.testing.assert_allclose(steps[0], steps[1], atol=1e-6)
    assert moved is None
    series = without_document(html, "console.log(JSON.stringify(HEAT.series.energy))")
    assert {name: list(sliders) for name, sliders in series.items()} == {
        name: ["still"] for name in heatmap_data.QUANTITIES
    }


class Evil(InfoNCE):
    """Its words are shown, never run."""

    title = "</script><script>alert(1)</script>"
    formula = "<img src=x onerror=alert(1)>\u2028"


def test_words_of_a_loss_are_only_words() -> None:
    html = explore(Evil(), progress=False).html
    assert html.count("<script") == 1
    assert "<img" not in html
    formula = without_document(html, "console.log(JSON.stringify(LOSSES[NAMES[0]].formula))")
    assert formula.startswith("L = &lt;img ")  # it is set as HTML
    assert set(re.findall(r"<(/?\w+)", formula)) <= {"var", "/var", "sub", "/sub"}

"""Play in the explorer follows the rule of `gradlab.flow`."""

import json
import re
from importlib import resources

import numpy as np
import pytest

import gradlab
from gradlab.explorer import explore, heatmap_data
from gradlab.explorer.page import SCRIPTS
from gradlab.explorer.page_functions import first_points
from gradlab.explorer.play import flow_constants
from tests.node import run_script

LOSSES = (
    "infonce",
    "infonce(temperature=0.5)",
    "mpt",
    "met",
    "siglip(temperature=0.1, bias=-1)",
    "arccon",
    "mhe",
    "kl",
)


@pytest.fixture(scope="module")
def script():
    """The scripts of a page of the losses, without the part that draws at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heatmap_data, "ROWS", 3)
        patch.setattr(heatmap_data, "COLUMNS", 3)
        page = explore(*LOSSES, progress=False).html
    text = re.search(r"<script>(.*)</script>", page, re.S)[1]
    for name in (SCRIPTS[0], SCRIPTS[-1]):  # arrays.js comes with run_script
        text = text.replace((resources.files("gradlab.explorer") / name).read_text("utf-8"), "")
    return text


def test_every_flow_of_the_page_is_that_of_the_library(script):
    """Step by step: time, number of steps, point and end."""
    played = json.loads(
        run_script(
            script
            + """
            readState("");
            console.log(JSON.stringify(NAMES.map((name) => {
              const flow = flowOf(own(name), state.points);
              while (!flow.end) flow.step();
              return [flow.time, flow.count, flow.point, flow.end];
            })));
            """
        )
    )
    points = first_points()
    views = points["anchor"][None], points["positive"][None], points["negatives"]
    teacher = (points["teacher"][None], *views[1:])
    for loss, (time, count, point, end) in zip(LOSSES, played, strict=True):
        if loss == "mhe":  # a loss of whole views: the library moves all of its anchors
            continue
        ended = gradlab.flow(
            loss,
            *views,
            in_batch_negatives=False,
            side="anchors",
            **({"teacher": teacher} if loss == "kl" else {}),
        )
        assert end == ended.end, loss
        assert count == ended.last["steps"], loss
        assert time == pytest.approx(ended.last["time"], rel=1e-5), loss
        np.testing.assert_allclose(point, ended.anchors[0], atol=1e-7, err_msg=loss)


def test_velocities_of_losses_of_whole_views_are_those_of_the_library(script):
    name = "mhe"
    velocity = json.loads(
        run_script(
            script
            + f"""
            readState("");
            console.log(JSON.stringify(flowOf(own("{name}"), state.points).velocity));
            """
        )
    )
    points = first_points()
    anchors = np.vstack([points["anchor"], points["negatives"]])
    positives = np.vstack([points["positive"], points["partners"]])
    components = gradlab.components(name, anchors, positives)
    np.testing.assert_allclose(velocity, -components.gradient(exact=True)[0], atol=1e-12)


@pytest.mark.parametrize("gated", [False, True])
def test_a_vanished_push_closes_only_a_gate(script, gated):
    """A pull that fades at its target, without any push, as `Course.stopped` judges it."""
    end = json.loads(
        run_script(
            script
            + f"""
            const target = [0, 0, 1];
            const pull = (p) => minus(target, scaled(p, dot(target, p)));
            const flow = new AnchorFlow(pull, () => 0, unit([1, 0, 1]), {json.dumps(gated)});
            while (!flow.end) flow.step();
            console.log(JSON.stringify(flow.end));
            """
        )
    )
    assert end == ("stopped learning" if gated else "at rest")


def test_gates_are_those_of_the_library(script):
    gated = json.loads(
        run_script(script + "console.log(JSON.stringify(NAMES.map((name) => LOSSES[name].gated)));")
    )
    assert gated == [loss not in ("mhe", "kl") for loss in LOSSES]


def test_the_page_has_all_constants_of_the_rule():
    source = (resources.files("gradlab.explorer") / "flow.js").read_text("utf-8")
    assert set(re.findall(r"FLOW\.(\w+)", source)) == set(flow_constants())

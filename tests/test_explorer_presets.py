"""The explorer's tasks, linked settings, legend and the place of the anchor on the heatmaps."""

import json
import re
from importlib import resources

import pytest

from gradlab.explorer import explore, heatmap_data
from gradlab.explorer.page import SCRIPTS
from tests.node import run_script

LOSSES = ("infonce", "arccon", "mpt", "mhe", "supcon", "mil_nce", "kl")
# What the page does beside computing.
NO_PAGE = "function showChoices() {} function refresh() {} function changed() {} readState('');"


@pytest.fixture(scope="module")
def scripts():
    """The scripts of a page of `LOSSES` and of a page of one triplet loss, but for the drawing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heatmap_data, "ROWS", 3)
        patch.setattr(heatmap_data, "COLUMNS", 3)
        pages = [explore(*losses, progress=False).html for losses in (LOSSES, ("mpt",))]
    texts = [re.search(r"<script>(.*)</script>", page, re.S)[1] for page in pages]
    for name in (SCRIPTS[0], SCRIPTS[-1]):  # arrays.js comes with run_script
        source = (resources.files("gradlab.explorer") / name).read_text("utf-8")
        texts = [text.replace(source, "") for text in texts]
    return texts


def printed(script, text):
    return json.loads(run_script(script + NO_PAGE + text))


def test_each_task_is_open_at_first_and_done_once_a_person_does_it(scripts):
    acts = """
        const close = (by) => moveTo(["negative", 0], placed(state.points.anchor, by, 1.2));
        const acts = {
          false_negative: () => close(0.3),
          collapse: () => { beginFlows();
            for (const flow of play.flows) while (!flow.end) flow.step(); },
          temperature: () => setNumber(1, LOSSES.infonce.numbers[0], 0.5),
          three_positives: () => close(0.3),
          teacher: () => moveTo(["anchor", 0], placed(state.points.teacher, 0.05, 1)),
        };
        console.log(JSON.stringify(Object.entries(PRESETS).map(([key, preset]) => {
          applyPreset(key);
          const before = preset.done();
          const link = writeState();
          acts[key]();
          const done = [preset.done(), preset.shows()];
          readState(link);
          return [key, before, ...done, state.preset, preset.done()];
        })));
    """
    tasks = printed(scripts[0], acts)
    assert len(tasks) == 5
    for key, before, after, shows, restored, repeated in tasks:
        assert (before, after, restored, repeated) == (False, True, key, False), key
        assert re.search(r"\d", shows), shows
        assert "NaN" not in shows, shows
    descriptions = {key: shows for key, _, _, shows, *_ in tasks}
    assert descriptions["three_positives"].startswith("SupCon pushes this positive away")
    assert re.search(
        r"100% of the push.*0\.5 this one point makes \d\d% ", descriptions["false_negative"]
    )
    angles = [float(angle) for angle in re.findall(r"([\d.]+)° away", descriptions["collapse"])]
    assert angles[0] > angles[1] + 20  # the triplet's gate closes on the way


def test_a_page_offers_the_tasks_of_its_losses(scripts):
    offered = [
        printed(
            script,
            """console.log(JSON.stringify(
              Object.keys(PRESETS).filter((key) => PRESETS[key].panels())));""",
        )
        for script in scripts
    ]
    assert len(offered[0]) == 5
    assert offered[1] == ["collapse"]


def test_a_setting_of_one_meaning_moves_in_both_losses(scripts):
    numbers = printed(
        scripts[0],
        """
        const [temperature] = LOSSES.infonce.numbers, [, margin] = LOSSES.arccon.numbers;
        const states = [];
        const note = () => states.push(state.panels.map(({ numbers }) => structuredClone(numbers)));
        setNumber(0, temperature, 0.2); note();
        setNumber(1, margin, 0.3); note();
        state.linked = false; setNumber(0, temperature, 0.1); note();
        state.linked = true; setNumber(0, temperature, 1); note();
        // A margin of cosines is no margin of angles.
        state.panels = [own("mpt"), own("arccon")];
        console.log(JSON.stringify([states, partnerOf(0, LOSSES.mpt.numbers[0]) ?? null]));
        """,
    )
    first, second, third, last = numbers[0]
    assert first[1]["temperature"] == 0.2
    assert second[0] == {"temperature": 0.2}
    assert second[1]["margin"] == 0.3
    assert (third[0]["temperature"], third[1]["temperature"]) == (0.1, 0.2)
    assert last[1]["temperature"] == 1
    assert numbers[1] is None


def test_the_legend_names_what_is_shown(scripts):
    first, whole_views, taught, played = printed(
        scripts[0],
        """
        const shown = () => legendEntries().map(([kind]) => kind);
        const states = [shown()];
        state.panels = [own("infonce"), own("mhe")]; states.push(shown());
        state.panels = [own("kl"), own("infonce")]; setMates(2); state.chosen = 0;
        states.push(shown());
        state.panels = [own("infonce"), own("arccon")]; setMates(0); beginFlows();
        states.push(shown());
        console.log(JSON.stringify(states));
        """,
    )
    assert first == ["anchor", "positive", "negative", "negative chosen", "moved"]
    assert set(whole_views) - set(first) == {"partner"}
    assert set(taught) ^ set(first) == {"teacher", "positive chosen", "negative chosen"}
    assert set(played) - set(first) == {"flowing"}


def test_a_heatmap_shows_the_setting_of_the_sphere_or_the_first_that_a_loss_has(scripts):
    maps = printed(
        scripts[0],
        """
        const map = Object.assign(Object.create(HeatMap.prototype), { index: 0 });
        const value = () => {
          const series = map.slidersOf()[map.choice()];
          return [map.choice(), series.values[map.frame(series)]];
        };
        const states = [value()];
        state.panels[0].numbers.temperature = 0.19; states.push(value());
        state.heat.frames["infonce.temperature"] = 0; states.push(value());
        state.panels[0] = own("mpt"); states.push(value());
        state.heat.x = "spread"; states.push(value());
        console.log(JSON.stringify(states));
        """,
    )
    assert maps == [
        ["temperature", 0.05],
        ["temperature", 0.2],
        ["temperature", 0.005],
        ["margin", 0.23],
        ["spread", 0.1],
    ]

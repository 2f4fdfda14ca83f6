"""One name for each quantity, and at most twenty attributes that people use."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import gradlab
from gradlab import quantities
from gradlab.atlas import plot_curves
from gradlab.atlas.entries import COLUMNS, Entry
from gradlab.decomposition import Decomposition
from gradlab.drawable import Details
from gradlab.errors import GradlabError
from gradlab.explorer.heatmap_data import QUANTITIES as OF_EXPLORER
from gradlab.flow.curves import CURVES
from gradlab.gradient.statistics import BINS, diagnose
from gradlab.gradient.verification import paired_batch
from gradlab.inspection.result import Inspection
from gradlab.losses.components import Components
from gradlab.plotting.style import LABELS, RANGES
from gradlab.simulation import QUANTITIES as OF_SIMULATIONS
from gradlab.simulation.sampled import QUANTITIES as SAMPLED

ROOT = Path(__file__).resolve().parents[1]
NAMES = set(quantities.QUANTITIES)
# Words for a quantity of the list that are no names of it.
OTHER_WORDS = {
    *("dissipation", "gd", "push", "positive", "relative", "mean_push", "hardest", "own_view"),
    *("ratio_both", "share_of_hardest", "gate_share", "pull_weight", "weights", "ratios"),
}


@pytest.fixture(scope="module")
def views():
    return paired_batch(np.random.default_rng(0), 8, 12)


@pytest.fixture(scope="module")
def results(views):
    return {
        "Components": gradlab.components("infonce", *views),
        "Decomposition": gradlab.decompose("infonce", *views),
        "SimulationResult": gradlab.simulate("mpt", grid=3),
        "Inspection": gradlab.find_false_negatives(
            embeddings={"anchors": views[0], "positives": views[1]}, batches=1, batch_size=8
        ),
        "Flow": gradlab.flow("infonce", *views, last_time=0.1),
        "Checks": gradlab.verify("mpt", batch_size=6, dim=8),
    }


def test_options_take_names_of_the_list():
    for names in (OF_SIMULATIONS, SAMPLED, OF_EXPLORER, quantities.OF_CURVES, RANGES, LABELS):
        assert set(names) <= NAMES
    with pytest.raises(GradlabError, match=", ".join(OF_SIMULATIONS)):
        gradlab.simulate("infonce", "push")
    with pytest.raises(GradlabError, match=", ".join(quantities.OF_CURVES)):
        plot_curves(["infonce"], of="push")


def test_tables_and_records_use_names_of_the_list(results, views):
    columns = {
        "components": set(results["Components"].to_frame()),
        "decomposition": set(results["Decomposition"].to_frame()),
        "sentences": set(results["Inspection"].table("sentences")),
        "atlas": set(COLUMNS),
        "flow": set(CURVES),
        "record": set(diagnose("infonce", *views)),
        "histograms": set(BINS),
    }
    for table, names in columns.items():
        assert not names & OTHER_WORDS, table
        assert names & NAMES, table
    shared = {"relative_push", "total_push", "ratio", "hardest_share"}
    assert shared <= columns["components"] & columns["decomposition"] & columns["record"]
    assert {"pull", "same_view_share"} <= columns["decomposition"]
    assert {"ratio_both_sides", "same_view_share", "hubness"} <= columns["atlas"]
    assert {"ratio_both_sides", "ratio_positives", "hubness"} <= columns["record"]


def test_results_have_the_attributes_of_the_list(results):
    of_one_anchor = {"relative_push", "total_push", "pull", "ratio", "weight", "hardest_share"}
    for name in ("Components", "Decomposition"):
        assert of_one_anchor <= set(dir(results[name]))
        assert not set(dir(results[name])) & OTHER_WORDS
    assert {"gradient_dissipation", "total_weight", "positive_weight"} <= set(Components.shown)
    assert {"hardest_share", "effective_negatives", "ratio", "ratio_both_sides"} <= {
        *inspect.signature(Entry).parameters
    }


def test_the_glossary_has_the_table():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert quantities.table() in text


@pytest.mark.parametrize(
    "name", ["Components", "Decomposition", "SimulationResult", "Inspection", "Flow", "Checks"]
)
def test_a_result_shows_at_most_twenty_attributes(name, results):
    result = results[name]
    of_base = set(dir(list)) if isinstance(result, list) else set()
    listed = {attribute for attribute in dir(result) if not attribute.startswith("_")} - of_base
    assert len(listed - {"artist", "brief", "headline"} if not result.shown else listed) <= 20
    for attribute in listed:
        getattr(result, attribute)
    if result.shown:
        assert set(dir(result.details)).isdisjoint(listed)
        assert "artist" in dir(result.details)
        with pytest.raises(AttributeError, match=f"{name}.details has no attribute 'nothing'"):
            _ = result.details.nothing


def test_details_are_those_of_the_result(results):
    components, decomposition = results["Components"], results["Decomposition"]
    assert components.details.columns == components.columns
    assert decomposition.details.residual is decomposition.residual
    assert isinstance(decomposition.details, Details)
    assert "residual" in repr(decomposition.details)


def test_pages_use_what_completion_lists():
    """Names of results in pages: ``components.weight``, or ``components.details.columns``."""
    lists = {
        "components": Components.shown,
        "decomposition": Decomposition.shown,
        "inspection": Inspection.shown,
    }
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md"), ROOT / "README.md"]
    pages += [*ROOT.glob("notebooks/*.ipynb")]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name, attributes in lists.items():
            used = set(re.findall(rf"(?<![\w.]){name}\.(?!md\b|csv\b|png\b)([a-z_]+)\b", text))
            assert used <= {*attributes, "details"}, (page.name, name)

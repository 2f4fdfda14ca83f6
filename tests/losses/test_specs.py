"""Losses as short texts, presets and named options."""

from __future__ import annotations

import dataclasses
import html
import pickle
import re

import pytest
from matplotlib.mathtext import MathTextParser

import gradlab
from gradlab.losses.formula_markup import formula_html, formula_latex
from gradlab.losses.registry import combinator_names, loss_class
from gradlab.settings import call_text

COMBINED = (
    "symmetric(hardness(infonce), reverse=arccon)",
    "sum(met, gor)",
    "mask(infonce, above=0.4)",
)


@pytest.mark.parametrize("name", [*gradlab.loss_names(), *COMBINED])
def test_a_text_makes_an_equal_loss(name: str) -> None:
    loss = gradlab.get_loss(name)
    assert call_text(loss) == name
    assert gradlab.get_loss(name) == pickle.loads(pickle.dumps(loss)) == loss
    assert hash(gradlab.get_loss(name)) == hash(loss)
    assert name in COMBINED or gradlab.get_loss(name, **dataclasses.asdict(loss)) == loss
    for preset in loss.presets:
        changed = gradlab.get_loss(name, preset=preset)
        assert gradlab.get_loss(call_text(changed)) == changed
        assert gradlab.get_loss(f"{name}(preset={preset})") == changed


def test_settings_in_a_text() -> None:
    loss = gradlab.get_loss("mpt(margin=-1e-3)")
    assert loss == gradlab.get_loss("mpt", margin=-0.001)
    assert call_text(loss) == "mpt(margin=-0.001)"
    assert gradlab.get_loss(" mpt ( margin = 0.3 ) ") == gradlab.get_loss("mpt", margin=0.3)
    assert gradlab.get_loss("modified_mhs(gate='one_view')").gate == "one_view"


def test_what_is_given_beats_the_preset_and_the_text() -> None:
    loss = gradlab.get_loss("modified_mhs", preset="roberta", margin=0.5)
    assert (loss.margin, loss.static_ratio) == (0.5, 1.0)
    loss = gradlab.get_loss("modified_mhs(preset=roberta, static_ratio=2)", margin=0.5)
    assert (loss.margin, loss.static_ratio) == (0.5, 2.0)
    own = gradlab.get_loss("modified_mhs", margin=0.5, gate="one_view")
    assert gradlab.get_loss(own, preset="roberta") == gradlab.get_loss(
        own, margin=0.27, static_ratio=1.0
    )
    assert gradlab.get_loss(own) is own


@pytest.mark.parametrize("name", [*gradlab.loss_names(), *combinator_names()])
def test_value_formulas_are_set_as_mathematics(name: str) -> None:
    """TeX that another reader of it takes, and HTML that loses no sign of what was written."""
    formula = loss_class(name).formula
    latex = formula_latex(formula)
    for line in re.sub(r"\\(begin|end)\{gathered\}", "", latex).split(r"\\ "):
        MathTextParser("path").parse(f"${line.strip()}$")
    assert latex.isascii()
    text = html.unescape(re.sub(r"</?(var|sub)>", "", formula_html(formula)))
    written = re.sub(r"_\{([^}]*)\}|_", r"\1", formula).replace("-", "−")
    assert text.removeprefix("L = ") == written

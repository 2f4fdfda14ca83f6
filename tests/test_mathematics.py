"""The pages on the mathematics: what they state of the code is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gradlab
from gradlab.losses.registry import loss_class
from gradlab.losses.tables import markdown_table

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs" / name for name in ("mathematics.md", "simulation.md")]
LOSSES = [name for name in gradlab.loss_names() if name != "recombined"]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_component_table_is_the_registry_s() -> None:
    assert markdown_table([loss_class(name) for name in LOSSES]) in read(PAGES[0])


def test_markdown_table_has_no_cell_that_markdown_would_break() -> None:
    lines = markdown_table([loss_class(name) for name in LOSSES]).splitlines()
    assert len(lines) == len(LOSSES) + 2
    for line in lines[2:]:
        assert line.count("|") == 5
        assert not re.search(r"\\[^a-zA-Z]", line)
        assert not re.search(r"\s\$ \|", line)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    text = read(path)
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    for target in targets:
        if target.startswith("#"):
            assert target[1:] in headings, target
        else:
            assert (path.parent / target.partition("#")[0]).exists(), target  # Sphinx checks headings


def test_options_of_what_was_published_differently_exist() -> None:
    for name in ("baseline", "modified_mhe", "modified_mhs", "modified_barlow_twins", "modified_vicreg"):
        assert gradlab.get_loss(name, effective_ratio="2r") != gradlab.get_loss(name)
    for name in ("mhe", "mhs", "modified_mhe", "modified_mhs", "modified_barlow_twins", "modified_vicreg"):
        assert gradlab.get_loss(name, preset="as_published") != gradlab.get_loss(name)
    assert gradlab.get_loss("modified_mhs", gate="one_view") != gradlab.get_loss("modified_mhs")


def test_vicreg_form_is_the_gradient_of_the_stated_loss() -> None:
    """Of ``mean|h-h'|² + (ν₁/D) |HᵀH/(N-1)|²``, by differences along tangent directions."""
    rng = np.random.default_rng(0)
    n, d = 6, 5
    anchors = rng.standard_normal((n, d))
    anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
    positives = anchors + 0.3 * rng.standard_normal((n, d))
    positives /= np.linalg.norm(positives, axis=1, keepdims=True)
    loss = gradlab.get_loss("vicreg", nu1=3.0)

    def value(h: np.ndarray) -> float:
        alignment = np.sum((h - positives) ** 2) / n
        return alignment + 3.0 / d * np.sum((h.T @ h / (n - 1)) ** 2)

    gradient = gradlab.components(loss, anchors, positives).gradient()
    for i in range(n):
        direction = rng.standard_normal(d)
        direction -= direction @ anchors[i] * anchors[i]
        step = np.zeros_like(anchors)
        step[i] = 1e-5 * direction
        slope = (value(anchors + step) - value(anchors - step)) / 2e-5
        assert gradient[i] @ direction == pytest.approx(slope, abs=1e-8)

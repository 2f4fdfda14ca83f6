"""Conjecture 2: the weight lets the hardest negative dominate (Figs. 6, 7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gradlab import components, get_loss
from studies.conjectures.conditions import BASELINE, baseline
from studies.conjectures.results import Results, Section, comparisons, summary
from studies.conjectures.settings import MARGIN, SHARE_TEMPERATURES, TEMPERATURE, StudySettings
from studies.conjectures.verdicts import CONJECTURE, OBSERVATION, PERFORMANCE, Claim
from studies.conjectures.views import HeldOutViews
from studies.statistics import Array

# The hardest of all negatives dominates when it has more of the gradient than all others together.
DOMINANT = 0.5


def hardest_shares(anchors: Array, positives: Array, temperature: float) -> tuple[Array, Array, Array]:
    """Two measures of the hardest negative's share in the baseline's gradient, and where that has one.

    Args:
        anchors, positives: (N, D) unit rows.
        temperature: τ of the softmax weight.

    Returns:
        the share of the weight ``max_j W_ij / Σ_j W_ij``, (N,); the projection
        ``‖w_h v_h‖ cos(v_h, Σ_j w_j v_j)/‖Σ_j w_j v_j‖`` with ``v_j = T_i h_j'``, (N,), which is what the published
        figure shows; and whether the gate is open, (N,).
    """
    parts = components(get_loss("baseline", margin=MARGIN, temperature=temperature), anchors, positives)
    weight, cosine = parts.weight, anchors @ positives.T
    push = weight @ positives
    push -= (push * anchors).sum(axis=1, keepdims=True) * anchors
    own = np.eye(len(anchors), dtype=bool)
    hardest = np.where(own, -np.inf, cosine).argmax(axis=1)
    along = (positives[hardest] * push).sum(axis=1)
    share = weight[np.arange(len(anchors)), hardest] * along / (push * push).sum(axis=1)
    return parts.hardest_share, share, parts.gradient_dissipation > 0


def section(results: Results, settings: StudySettings) -> Section | None:
    """Shares on the untuned and the tuned encoder, and performance against the temperature."""
    table = _shares(results)
    if table.empty:
        return None
    usual = table[(table.temperature == TEMPERATURE) & (table.anchors == "gated")].set_index("seed")
    tuned, untuned = usual[usual.encoder == "tuned"], usual[usual.encoder == "untuned"]
    whole = table[(table.temperature == TEMPERATURE) & (table.anchors == "all") & (table.encoder == "tuned")]
    largest = max(settings.temperatures)
    middle = min(settings.temperatures, key=lambda value: abs(value - 0.3))
    temperatures = [(t, baseline(temperature=t).name) for t in sorted({TEMPERATURE, *settings.temperatures})]
    measures = (
        ("projection", "gradient", "its projection on the push"),
        ("share", "weight", "its share of the weight"),
    )
    over = (
        (tuned, "", "held-out anchors with open gate"),
        (whole, " of all anchors", "all held-out anchors"),
    )
    claims = [
        *(
            # The published figure shows the projection, of anchors whose gate is open.
            Claim(2, CONJECTURE if (column, of) == ("projection", "") else OBSERVATION,
                  f"at τ = {TEMPERATURE:g} the hardest negative has most of the {what}{of}",
                  f"{how}, mean over {anchors}, tuned encoder", rows[column].to_list(), DOMINANT)
            for rows, of, anchors in over for column, what, how in measures
        ),
        Claim(2, OBSERVATION, f"at τ = {TEMPERATURE:g} it has more of the gradient after tuning than before",
              "its projection on the push, tuned minus untuned",
              (tuned.projection - untuned.projection).dropna().to_list()),
        *(
            Claim(2, PERFORMANCE, f"τ = {TEMPERATURE:g} beats τ = {value:g}",
                  f"Spearman, τ = {TEMPERATURE:g} minus τ = {value:g}",
                  results.differences(BASELINE, baseline(temperature=value).name))
            for value in dict.fromkeys((middle, largest)) if value != TEMPERATURE
        ),
    ]  # fmt: skip
    tables = {
        "conjecture2-share": table,
        "conjecture2-performance": summary(results, temperatures),
        "conjecture2-comparisons": comparisons(
            results, [(BASELINE, name) for value, name in temperatures if value != TEMPERATURE]
        ),
    }
    return Section(tables, claims)


def _shares(results: Results) -> pd.DataFrame:
    rows = []
    for seed, encoder, views in results.kept(BASELINE):
        rows += [row | {"seed": seed} for row in _of_encoder(encoder, views)]
    return pd.DataFrame(rows)


def _of_encoder(encoder: str, views: HeldOutViews) -> list[dict[str, Any]]:
    rows = []
    for temperature in SHARE_TEMPERATURES:
        found = [hardest_shares(*batch, temperature) for batch in views.batches()]
        share, projection, gate = (np.concatenate(column) for column in zip(*found, strict=True))
        for anchors, kept in (("gated", gate), ("all", np.ones_like(gate))):
            row = {
                "encoder": encoder,
                "temperature": temperature,
                "anchors": anchors,
                "count": int(kept.sum()),
            }
            for name, values in (("share", share), ("projection", projection)):
                row[name] = float(values[kept].mean()) if kept.any() else np.nan
            rows.append(row)
    return rows

"""Conjecture 2: the weight lets the hardest negative dominate (Figs. 6, 7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gradlab import components, get_loss
from studies.conjectures.conditions import BASELINE, baseline
from studies.conjectures.results import Results, comparisons, summary
from studies.conjectures.settings import MARGIN, SHARE_TEMPERATURES, TEMPERATURE, StudySettings
from studies.statistics import Array


def hardest_shares(
    anchors: Array, positives: Array, temperature: float
) -> tuple[Array, Array, Array]:
    """Two measures of the hardest negative's share in the baseline's gradient, and where it exists.

    Args:
        anchors, positives: (N, D) unit rows.
        temperature: τ of the softmax weight.

    Returns:
        the share of the weight ``max_j W_ij / Σ_j W_ij``, (N,); the projection
        ``‖w_h v_h‖ cos(v_h, Σ_j w_j v_j)/‖Σ_j w_j v_j‖`` with ``v_j = T_i h_j'``, (N,), which is
        what the published figure shows; and whether the gate is open, (N,).
    """
    split = components(
        get_loss("baseline", margin=MARGIN, temperature=temperature), anchors, positives
    )
    weight, cosine = split.weight, anchors @ positives.T
    push = weight @ positives
    push -= (push * anchors).sum(axis=1, keepdims=True) * anchors
    own = np.eye(len(anchors), dtype=bool)
    hardest = np.where(own, -np.inf, cosine).argmax(axis=1)
    along = (positives[hardest] * push).sum(axis=1)
    share = weight[np.arange(len(anchors)), hardest] * along / (push * push).sum(axis=1)
    return split.hardest_share, share, split.gradient_dissipation > 0


def tables_of(results: Results, settings: StudySettings) -> dict[str, pd.DataFrame]:
    """Shares on the untuned and the tuned encoder, and performance against the temperature."""
    shares = _shares(results)
    if shares.empty:
        return {}
    temperatures = [
        (t, baseline(temperature=t).name) for t in sorted({TEMPERATURE, *settings.temperatures})
    ]
    rivals = [(BASELINE, name) for value, name in temperatures if value != TEMPERATURE]
    return {
        "conjecture2-share": shares,
        "conjecture2-performance": summary(results, temperatures),
        "conjecture2-comparisons": comparisons(results, rivals),
    }


def _shares(results: Results) -> pd.DataFrame:
    """Mean shares: a row a seed, encoder, temperature and kind of anchors."""
    rows: list[dict[str, Any]] = []
    for seed, encoder, views in results.before_and_after(BASELINE):
        for temperature in SHARE_TEMPERATURES:
            batches = [hardest_shares(*batch, temperature) for batch in views.batches()]
            share, projection, gate = map(np.concatenate, zip(*batches, strict=True))
            for anchors, mask in (("gated", gate), ("all", np.ones_like(gate))):
                row = {"encoder": encoder, "temperature": temperature, "anchors": anchors}
                row["count"] = int(mask.sum())
                for name, values in (("share", share), ("projection", projection)):
                    row[name] = float(values[mask].mean()) if mask.any() else np.nan
                rows.append(row | {"seed": seed})
    return pd.DataFrame(rows)

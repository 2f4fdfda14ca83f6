"""Conjecture 2: the weight lets the hardest negative dominate (Figs. 6, 7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gradlab import components, get_loss
from studies.conjectures.conditions import BASELINE, baseline
from studies.conjectures.results import Results, Section, comparisons, summary
from studies.conjectures.settings import MARGIN, SHARE_TEMPERATURES, TEMPERATURE, StudySettings
from studies.conjectures.verdicts import Claim
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
    parts = components(
        get_loss("baseline", margin=MARGIN, temperature=temperature), anchors, positives
    )
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
    temperatures = [
        (t, baseline(temperature=t).name) for t in sorted({TEMPERATURE, *settings.temperatures})
    ]
    others = [(BASELINE, name) for value, name in temperatures if value != TEMPERATURE]
    tables = {
        "conjecture2-share": table,
        "conjecture2-performance": summary(results, temperatures),
        "conjecture2-comparisons": comparisons(results, others),
    }
    return Section(tables, _claims(results, settings, table))


def _claims(results: Results, settings: StudySettings, table: pd.DataFrame) -> list[Claim]:
    usual = table[table.temperature == TEMPERATURE].set_index("seed")
    tuned, untuned = (usual[usual.encoder == encoder] for encoder in ("tuned", "untuned"))
    gated, before = (rows[rows.anchors == "gated"] for rows in (tuned, untuned))
    whole = tuned[tuned.anchors == "all"]
    measured = {
        "projection": gated.projection,
        "share": gated.share,
        "projection-of-all": whole.projection,
        "share-of-all": whole.share,
        "tuning": (gated.projection - before.projection).dropna(),
    }
    claims = [
        Claim.declared(name, values.to_list(), temperature=TEMPERATURE)
        for name, values in measured.items()
    ]
    middle = min(settings.temperatures, key=lambda value: abs(value - 0.3))
    for value in dict.fromkeys((middle, max(settings.temperatures))):
        if value != TEMPERATURE:
            gain = results.differences(BASELINE, baseline(temperature=value).name)
            claims.append(Claim.declared("temperature", gain, first=TEMPERATURE, second=value))
    return claims


def _shares(results: Results) -> pd.DataFrame:
    """Mean shares: a row a seed, encoder, temperature and kind of anchors."""
    rows: list[dict[str, Any]] = []
    for seed, encoder, views in results.kept(BASELINE):
        for temperature in SHARE_TEMPERATURES:
            found = [hardest_shares(*batch, temperature) for batch in views.batches()]
            share, projection, gate = map(np.concatenate, zip(*found, strict=True))
            for anchors, kept in (("gated", gate), ("all", np.ones_like(gate))):
                row = {"encoder": encoder, "temperature": temperature, "anchors": anchors}
                row["count"] = int(kept.sum())
                for name, values in (("share", share), ("projection", projection)):
                    row[name] = float(values[kept].mean()) if kept.any() else np.nan
                rows.append(row | {"seed": seed})
    return pd.DataFrame(rows)

"""The numbers that advice is drawn from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from gradlab.batch.batch import Batch
from gradlab.inspection.gradient_share import BINS, CLOSED, measure, share_of_candidates
from gradlab.inspection.hard_negatives import VERDICTS
from gradlab.inspection.measured import Measured
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings import call_text

_FACTORS = (0.5, 1.0, 2.0, 4.0)
# A hub is pushed by this share of a batch, and by two sentences at least.
MANY = 0.1


def summarize(found: Measured) -> dict[str, Any]:
    """Numbers of an inspection, ready for JSON; shares between 0 and 1, NaN where something was not to be measured."""
    totals, candidates, meeting = found.totals, found.candidates, found.meeting
    lines = candidates.lines
    share, error = share_of_candidates(meeting, lines["rows"].to_numpy(), totals, found.batch_size)
    met = totals.seen > 0
    received = totals.mean("received")
    copies = lines[["first", "second"]].to_numpy() % totals.count  # a finding of their own
    many = met & (totals.pushers >= max(2.0, MANY * (found.batch_size - 1)))
    hubs = np.sort(received[np.setdiff1d(np.flatnonzero(many), copies)])[::-1]
    top = max(1, int(met.sum()) // 100)
    hardest = np.concatenate(totals.share)
    duplicates = lines["kind"][meeting.index] == 0
    mask = candidates.mask_above
    by_dropout = found.texts is not None and found.texts.positives is None
    return {
        "loss": call_text(found.loss),
        "sentences": totals.count,
        "batches": len(totals.push),
        "batch_size": found.batch_size,
        "sentences_met": int(met.sum()),
        "duplicates": candidates.repeats,
        "candidate_lines": len(lines),
        "candidate_row_pairs": int(lines["rows"].sum()),
        "can_mask": found.can_mask,
        "near_duplicates": int((lines["kind"] == 1).sum()),
        "neighbours": int((lines["kind"] == 2).sum()),
        "neighbours_from": float(candidates.threshold),
        "candidate_share_of_push": share,
        "candidate_share_error": error,
        "candidate_share_when_met": float(meeting["share"].median()),
        "pair_share_on_average": 1 / (found.batch_size - 1),
        "hidden_by_dropout": float(meeting["hidden"][duplicates].mean()) if by_dropout else float("nan"),
        "positives_that_repeat": len(found.repeated),
        "mask_above": mask,
        "mask_removes": push_above(found, mask),
        "cosine_levels": [
            {"cosine": level, "share_of_push": push_above(found, level), "candidates": candidates.confirmed_above(level)}
            for level in _levels(found)
        ],
        "dissipation": float(totals.dissipation.sum() / totals.seen.sum()),
        "closed": float(totals.closed.sum() / totals.seen.sum()),
        "hardest_share": float(hardest.mean()) if len(hardest) else float("nan"),
        "negative_cosine": totals.negative_cosine,
        "hubs": top,
        "hub_share": float(hubs[:top].sum() / received[met].sum()) if received[met].sum() else float("nan"),
        "temperatures": _temperatures(found.loss, found.views),
        "hard_negatives": _hard(found),
        "hard_negatives_false": len(candidates.false_negatives),
        "hard_negatives_share": totals.hard_push / sum(totals.push) if sum(totals.push) else float("nan"),
        "hard_negatives_false_share": _false_share(found),
    }  # fmt: skip


def push_above(found: Measured, cosine: float) -> float:
    """Share of the push of the batches that goes to pairs of at least this cosine, to a tenth of a degree."""
    total = found.totals.by_angle.sum()
    if np.isnan(cosine) or not total:
        return float("nan")
    bins = int(np.ceil(np.arccos(np.clip(cosine, -1, 1)) * (BINS / np.pi)))
    return float(found.totals.by_angle[:bins].sum() / total)


def _levels(found: Measured) -> list[float]:
    """Round cosines near the top of the nearest pairs."""
    near = found.candidates.near
    if not len(near.cosine):
        return []
    low = float(np.quantile(near.cosine, 0.5))
    return [level for level in (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999) if level >= low]


def _temperatures(loss: Loss, views: Sequence[Batch]) -> list[dict[str, float]]:
    """What other temperatures would do on the first batches; empty for a loss without one."""
    fields = {field.name for field in dataclasses.fields(loss)}
    if "temperature" not in fields or not views:
        return []
    found = []
    for factor in _FACTORS:
        value = loss.temperature * factor  # type: ignore[attr-defined]  # it is among its fields
        other = get_loss(loss, temperature=value)
        batches = [measure(other, one) for one in views]
        dissipation, hardest = (
            np.concatenate([getattr(one, name) for one in batches]) for name in ("dissipation", "hardest")
        )
        found.append(
            {
                "temperature": float(value),
                "dissipation": float(dissipation.mean()),
                "closed": float((dissipation < CLOSED).mean()),
                "hardest_share": float(hardest.mean()) if len(hardest) else float("nan"),
            }
        )
    return found


def _false_share(found: Measured) -> float:
    """Share of all push with which anchors push their own false hard negatives, over the batches."""
    total = sum(found.totals.push)
    if not found.totals.hard or not total:
        return float("nan")
    false = found.hard_negatives.loc[found.hard_negatives["false"], ["row", "column"]]
    return float(pd.concat(found.totals.hard).merge(false)["push"].sum() / total)


def _hard(found: Measured) -> dict[str, int]:
    """How many of the hard negatives that were met are of each kind."""
    if not found.totals.hard:
        return {}
    met = found.hard_negatives["share"].notna()
    counts = found.hard_negatives["verdict"][met].value_counts()
    return {kind: int(counts.get(kind, 0)) for kind in VERDICTS}

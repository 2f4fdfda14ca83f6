"""The verdicts in plain words: what the paper claims, what was measured here, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.gradient import LEMMA_STEP
from studies.conjectures.page import rendered
from studies.conjectures.section import Frames
from studies.conjectures.verdicts import CONJECTURE, PERFORMANCE
from studies.statistics import CONTRADICTED, INCONCLUSIVE, SUPPORTED

# Conjecture -> question, and what the paper says.
CLAIMED = {
    1: (
        "Does gradient dissipation keep negatives and positives closer together?",
        "Once an anchor's negatives are far enough, the loss leaves the anchor alone. Without this, the gap between the angles to "
        "negatives and to positives grows needlessly (Conjecture 1, Figure 5).",
    ),
    2: (
        "Does the hardest negative dominate the gradient?",
        "At a temperature of 0.05 most of the push on an anchor comes from its nearest negative (Conjecture 2, Figure 7). "
        "The paper does not say what dominating is; here it is more than all other negatives together.",
    ),
    3: (
        "Does a larger ratio bring positives closer?",
        "Pulling harder than pushing meets the condition of Lemma 1 more often, and brings an anchor closer to its positive "
        "(Conjecture 3, Figure 8).",
    ),
}
ANSWERS = {
    SUPPORTED: "**Yes**, as the paper says.",
    CONTRADICTED: "**No**, the opposite was measured.",
    INCONCLUSIVE: "**Not decided.**",
}
# From here on a share has no room left to grow.
CEILING = 0.99


def plain_verdicts(tables: Frames, manifest: Mapping[str, Any]) -> str:
    """The page of verdicts in Markdown.

    Args:
        tables: of the report, with ``claims`` and ``verdicts``.
        manifest: of the study.
    """
    claims = list(tables["claims"].itertuples()) if "claims" in tables else []
    closer = tables.get("conjecture3-closer")
    return rendered(
        "verdicts.md",
        manifest=manifest,
        settings=manifest["settings"],
        claims=claims,
        verdicts=list(tables["verdicts"].itertuples()) if claims else [],
        questions=CLAIMED,
        answers=ANSWERS,
        seeds=min((one.seeds for one in claims if one.role == CONJECTURE), default=0),
        scores=[one for one in claims if one.role == PERFORMANCE and one.seeds > 1],
        at_ceiling=closer is not None and closer[closer.step == LEMMA_STEP].closer_one.min() > CEILING,
        step=LEMMA_STEP,
        ceiling=CEILING,
    )

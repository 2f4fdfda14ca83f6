"""The verdicts in plain words: what the paper claims, what was measured here, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from gradlab.gradient import LEMMA_STEP
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
    settings = manifest["settings"]
    claims = tables.get("claims", pd.DataFrame())
    parts = [
        "# Three conjectures, in plain words",
        f"What Li et al. (ACL 2024) claim, and what {manifest['finished']} short trainings of `{manifest['model']}` on {manifest['device']['name']} show. "
        "Numbers are means over seeds with 95% intervals. [The report](report.md) has every table and picture.",
    ]
    if missing := manifest["runs"] - manifest["finished"]:
        parts.append(f"**{missing} of {manifest['runs']} planned runs are not in it.**")
    if len(claims):
        for row in tables["verdicts"].itertuples():
            own = claims[(claims.conjecture == row.conjecture) & (claims.role == CONJECTURE)]
            parts += _conjecture(int(row.conjecture), str(row.verdict), own)
        parts += ["## How sure is this?", *_certainty(tables, claims, settings)]
    return "\n\n".join(parts) + "\n"


def _conjecture(number: int, verdict: str, claims: pd.DataFrame) -> Iterator[str]:
    question, said = CLAIMED[number]
    yield f"## {number}. {question}"
    yield f"The paper: {said}"
    yield f"Here: {ANSWERS[verdict]}"
    yield "\n".join(f"- {_measured(row)}" for row in claims.itertuples())


def _measured(row: Any) -> str:
    """One claim: what was claimed, the number, its interval, and its verdict."""
    than = "" if row.threshold == 0 else f", to be compared with {row.threshold:g}"
    if row.seeds < 2:
        return f"*{row.claim}*: {row.verdict}; {row.seeds} seed{'s' * (row.seeds != 1)} give no interval."
    return (
        f"*{row.claim}*: {row.verdict}. Measured: {row.mean:.3g} ({row.low:.3g} to {row.high:.3g}, {row.seeds} seeds){than}. "
        f"Quantity: {row.statistic}."
    )


def _certainty(tables: Frames, claims: pd.DataFrame, settings: Mapping[str, Any]) -> Iterator[str]:
    seeds = int(claims[claims.role == CONJECTURE].seeds.min())
    steps = settings["steps"]
    yield (
        f"Deciding claims rest on {seeds} seeds. A verdict of *supported* means that so clear a difference would come about by luck in "
        "fewer than one of twenty such studies, after correction for the number of claims. *Not decided* is no evidence against a "
        "conjecture: an interval says which differences remain possible."
    )
    if steps is not None:
        yield (
            f"A training here sees {steps * settings['batch_size']:,} sentences, the paper's a million, and its encoder is not BERT-base. What shows in the "
            "first steps can be judged: angles, shares of the gradient, steps of the lemma. What takes hundreds of steps can not: "
            "whether a component raises a score, whether it prevents over-training, and the best value of a setting."
        )
    scores = claims[(claims.role == PERFORMANCE) & (claims.seeds > 1)]
    if len(scores):
        yield (
            "Scores decide no conjecture. What remains possible of the differences on STS-B dev, in points:\n\n"
            + "\n".join(
                f"- {row.claim}: {100 * row.mean:+.1f} ({100 * row.low:+.1f} to {100 * row.high:+.1f}, {row.seeds} seeds)"
                for row in scores.itertuples()
            )
        )
    closer = tables.get("conjecture3-closer")
    if closer is not None and closer[closer.step == LEMMA_STEP].closer_one.min() > CEILING:
        yield (
            f"Conjecture 3 is tested at its ceiling: with a step size of λ = {LEMMA_STEP:g}, more than {100 * CEILING:g}% of the triples get closer with a "
            "ratio of 1 already, so that a larger one has nothing to gain. Larger steps are in `conjecture3-closer.csv`."
        )
    yield "For more certainty run the same with more `--seeds`" + (
        ", or with `--preset light`: two hours on two cores." if settings["name"] == "student" else "."
    )

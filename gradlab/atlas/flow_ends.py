"""Where each loss leads: the end of a flow from one batch with topics.

The ends at published settings are stored in ``flow_ends.toml``, which ``python docs/flow_table.py``
makes; other settings flow when they are asked for, in a few seconds.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import read_packaged
from gradlab.flow import Flow, flow, synthetic_batch
from gradlab.losses.base import Loss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.registry import get_loss
from gradlab.settings import call_text

STEPS = 1000
HEADINGS = {
    "positives": "positives",
    "same_topic": "same topic",
    "different": "different",
    "end": "ends",
}
# Mean cosines of the batch before the flow.
STARTS = {"positives": 0.92, "same_topic": 0.63, "different": 0.24}
LEADS = "where it leads"
SETTING = (
    "120 sentences on 30 topics in 64 dimensions, with four near-duplicates and a common direction "
    f"(`gradlab.flow.synthetic_batch()`), at first at mean cosines of {STARTS['positives']} "
    f"(positives), {STARTS['same_topic']} (same topic) and {STARTS['different']} (different); at "
    f"most {STEPS:,} steps. Losses of several positives see the "
    "topics as labels."
)


@dataclasses.dataclass(frozen=True)
class Lead:
    """Mean cosines at the end of a flow, and how it ended.

    Attributes:
        positives: of anchors to their positives.
        same_topic, different: of anchors to other positives of their topic, and of other topics.
        end: one of `gradlab.flow.result.ENDS`.
    """

    positives: float
    same_topic: float
    different: float
    end: str

    def __str__(self) -> str:
        cosines = " / ".join(map(self.cell, ("same_topic", "different", "positives")))
        return f"{cosines}, {self.end}"

    def cell(self, name: str) -> str:
        """Return one attribute as text."""
        entry = getattr(self, name)
        return entry if isinstance(entry, str) else f"{entry:.2f}".replace("-0.00", "0.00")


def lead(loss: str | Loss) -> Lead:
    """Return where a loss leads.

    Raises:
        GradlabError: the loss is unknown, or needs an input that the batch lacks.
    """
    loss = get_loss(loss)
    stored = stored_leads().get(call_text(loss))
    if stored is not None:
        return stored
    return flow_to_end(loss, progress=None if loss.closed_form else True)


@functools.cache
def stored_leads() -> dict[str, Lead]:
    """Return the ends at published settings, by the text of a loss."""
    return {
        name: Lead(**row) for name, row in read_packaged("gradlab.atlas", "flow_ends.toml").items()
    }


def flow_to_end(loss: Loss, progress: bool | None = None) -> Lead:
    """Return where a loss leads, from a flow; errors as in `lead`."""
    if "teacher" in loss.looks_at:
        raise GradlabError(f"{call_text(loss)} leads to its teacher, whom the batch does not have")
    batch = synthetic_batch()
    context: dict[str, Any] = {"groups": batch.topics, "steps": STEPS, "progress": progress}
    if any(isinstance(base, CandidateLoss) for base in loss.bases):
        context["labels"] = batch.topics
    ended: Flow = flow(loss, batch.anchors, batch.positives, **context)
    last = ended.last
    cosines = last["positive_cosine"], last["same_group_cosine"], last["different_cosine"]
    return Lead(*cosines, ended.end)

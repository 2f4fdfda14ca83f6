"""How much of the push that its negatives could give an anchor is alive?

The *push* of an anchor, ``P_i = Σ_j ∂L/∂cos θ_ij`` over its negatives j, is an absolute number: it
carries the factor 1/N of a mean, the 1/τ of a softmax and the weight of a term. The *relative push*
is the push over the largest push as the anchor's positive moves, with the negatives as they are:

    P_i / max(|P_i|, |P_i with the positive at a right angle|, |P_i with it opposite|)

The positive moves on the great circle from the anchor through itself: to a right angle, where the
push of a loss of squared cosines is largest, and to π - 0.001, beside the antipode, where that of
all registered losses is, and every derivative of an angle is finite. Only the positive of the one
anchor moves; all other vectors of the batch stay. The definition needs values and gradients of
the loss only, so it is one number for a loss by name, in a combinator, as code, or by autograd.
It is 1 if the whole push is alive, 0 if the loss leaves the anchor alone, negative if the anchor's
negatives attract it, and NaN if no negative acts on the anchor.

The two angles are `gradlab.losses.components.ANGLES_AWAY`; `gradlab.Loss.displaced_pushes` moves
the positives, of all rows at once where a positive acts on its own row only.
"""

from __future__ import annotations

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.base import Loss
from gradlab.losses.components import as_share, displaced_push


def relative_push(
    loss: Loss, batch: Batch, *, side: str = "anchors", count: int | None = None
) -> Float[Array, "count"]:
    """Return the relative push on the first ``count`` rows of a side of a batch; None means all.

    `gradlab.components` computes it as ``components(...).relative_push``; use this function with a
    `Loss` and a checked `Batch` in hand, as in ``relative_push(loss, loss.batch(h, h_other))``.

    Args:
        loss: any loss, such as one of `gradlab.get_loss`.
        batch: the embeddings.
        side: ``"anchors"``, or ``"positives"``, whose positives are their anchors.
        count: number of rows. Losses of pairs cost two evaluations for all rows; losses of whole
            views, of own-view negatives and losses given as code one evaluation per row.

    Raises:
        GradlabError: as `gradlab.components`.
    """
    anchors_side = side == "anchors"
    components = loss.components_of(batch) if anchors_side else loss.sides_of(batch)[1]
    displaced = displaced_push(loss, batch, side=side, count=count)[:count]
    return as_share(components.total_push[:count], displaced)

"""Base classes of the four repaired losses of Li et al. 2024: a gate and a constant ratio."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gradlab.arrays import Array, Float, as_float
from gradlab.batch.batch import Batch
from gradlab.losses.base import Preset
from gradlab.losses.baseline import SurrogateOnViews, effective_ratio_option
from gradlab.losses.exact_gates import HardGate
from gradlab.losses.mpt import MPT
from gradlab.losses.registry import cited
from gradlab.settings import setting


def published_presets(
    bert: Mapping[str, Any], roberta: Mapping[str, Any], **as_published: Any
) -> dict[str, Preset]:
    """Return presets of Li et al. 2024: Tables 4 and 5, and BERT's as in the published results."""
    source = "Li et al. (2024), Table"
    options = {"gate": "one_view", "effective_ratio": "2r", **as_published}
    return {
        "bert": Preset(bert, f"{source} 4 (BERT-base)", 128, 1e-5),
        "roberta": Preset(roberta, f"{source} 5 (RoBERTa-base)", 512, 1e-5),
        "as_published": Preset({**bert, **options}, f"{source} 4, as computed", 128, 1e-5),
    }


@dataclasses.dataclass(frozen=True)
class ModifiedLoss(SurrogateOnViews):
    """A loss of Li et al. 2024, Section 4: a gate, weights over the same view, and the ratio r.

    ``gate="two_view"`` is the paper's gate: open while ``p_i - max_k S_ik < m``, both across
    views. ``gate="one_view"`` is that of the published results: open while
    ``1 - max_k Q_ik < m``, among anchors.

    ``effective_ratio`` determines how training moves the other view; the components do not depend
    on it. With ``"r"``, the positives are held fixed. With ``"2r"``, as in the published training,
    the alignment is not detached: anchor and positive move towards each other equally, and the pair
    closes as under the ratio 2r with fixed positives (exactly so to first order if embeddings move
    freely; an encoder couples them).

    The preset ``"as_published"`` is BERT's, with ``gate="one_view"`` and ``effective_ratio="2r"``.
    """

    margin: float = setting(0.30, "margin m of the gate, between cosines")
    static_ratio: float = setting(1.0, "ratio r")
    gate: str = setting(
        "two_view",
        "similarities that the gate compares: two_view (paper) or one_view (published results)",
        choices=("two_view", "one_view"),
    )
    effective_ratio: str = effective_ratio_option()

    negative_view = "same"
    paper = "Li et al. (2024)"
    bibtex = cited("li2024towards")

    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        """Return the gate ``d_i``, (n,)."""
        if self.gate == "one_view":
            nearest = batch.same_view_fixed.hardest.one_minus_cosine
            return as_float(nearest < self.margin, nearest)
        return MPT(self.margin).dissipation(batch.positive, batch.other_view.hardest)

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return ``r Σ_j W_ij``, (n,)."""
        return self.static_ratio * total

    def exact_gate(self) -> HardGate | None:
        """Return the gate of `MPT`; None for a one-view gate, whose angles are not simulated."""
        return MPT(self.margin).exact_gate() if self.gate == "two_view" else None


@dataclasses.dataclass(frozen=True)
class ModifiedSurrogate(ModifiedLoss):
    """Base class of the surrogates of Li et al. 2024, Eqs. 6 and 13.

    The value is ``L_i = d_i (Σ_j sg(W_ij) h_i·sg(h_j) - r sg(Σ_j W_ij) h_i·h_i')``. Its derivative
    restates the components, so agreement with autograd does not validate them. The weights of all
    anchors together sum to 1, so ``reduction="sum"`` is already a mean over anchors.
    """

    static_ratio: float = setting(1.50, "ratio r")
    temperature: float = setting(0.05, "temperature τ of the weight", rule="positive")

    surrogate = True
    presets = published_presets(
        {"margin": 0.30, "temperature": 0.05, "static_ratio": 1.50},
        {"margin": 0.37, "temperature": 0.05, "static_ratio": 1.25},
    )

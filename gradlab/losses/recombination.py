"""`recombine`: a loss from the parts of others."""

from __future__ import annotations

from typing import Any

from gradlab.losses.base import Loss
from gradlab.losses.parts import Gate, Ratio, Weight
from gradlab.losses.recombined import Recombined
from gradlab.settings import names_arguments


@names_arguments()
def recombine(
    *,
    gate: Any,
    weight: Any,
    ratio: Any,
    factor: float = 1.0,
    effective_ratio: str = "r",
    gauge: str = "declared",
) -> Loss:
    """A new loss from a gate, a weight and a ratio, each of any loss or constant.

    It is trained through the stop-gradient surrogate of Li et al. 2024, Eq. 5,
    ``L_i = sg(GD_i) Σ_j sg(W_ij) (h_i·n_j - sg(R_i) h_i·h_i')``, and is simulated, decomposed and verified like any
    other loss. Its negatives ``n_j`` are those of the weight: of the other view, or of the same view for
    the weights of MHE, MHS, Barlow Twins, VICReg and their repairs.

    Args:
        gate: gradient dissipation: a loss, its name or text such as ``"mpt(margin=0.3)"``, or a number; 1 is no
            dissipation.
        weight: likewise; a number is the weight of each negative, ``"uniform"`` is 1/K for each of K. Weights
            come in the gauge of their table: InfoNCE's sum to 1/τ, those of the baseline (Eq. 5) to 1.
        ratio: likewise; a number is a static ratio.
        factor: multiplies the weight; also as text, ``weight="0.05 * infonce"``.
        effective_ratio: ``"r"``, or ``"2r"`` to train as the published results were; see `Baseline` and, for
            negatives of the same view, `ModifiedLoss`.
        gauge: ``"declared"``, or ``"unit"`` to exchange parts between losses on one scale; see `RecombinedOnViews`.

    Returns:
        A `Recombined` loss, of pair similarities; a `RecombinedOnViews` if a part needs whole views.

    Raises:
        GradlabError: a part that is not a loss or number; a factor that is not greater than 0.

    Example:
        >>> import gradlab
        >>> loss = gradlab.recombine(gate="mpt(margin=0.3)", weight="infonce", ratio="arccon", factor=0.05)
        >>> loss
        Recombined(gate='mpt(margin=0.3)', weight='0.05 * infonce', ratio='arccon', effective_ratio='r', gauge='declared')
        >>> bool(gradlab.simulate(loss, grid=5).value[0, 0] > 0.99)
        True
    """
    return Recombined.build(
        gate=Gate(gate),
        weight=Weight(weight, factor),
        ratio=Ratio(ratio),
        effective_ratio=effective_ratio,
        gauge=gauge,
    )

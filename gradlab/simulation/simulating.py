"""`simulate`: choose an engine, run it, and return the result with its settings."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError, check_known, check_whole, first_line, listed
from gradlab.losses.base import Loss
from gradlab.losses.exact_gates import ConstantGate, HardGate
from gradlab.losses.registry import get_loss, takes_loss
from gradlab.quantities import OF_ANGLES
from gradlab.simulation import exact, monte_carlo
from gradlab.simulation.grid_and_result import AngleGrid, SimulationResult

# Points per axis, where not given, of a loss that is differentiated.
POINTS_OF_GRADIENTS = 16


@takes_loss
def simulate(
    loss: str | Loss,
    quantity: str | None = None,
    engine: str | None = None,
    *,
    mu_pos: Any = None,
    mu_neg: Any = None,
    grid: int | tuple[int, int] | None = None,
    sigma_pos: float = 0.05,
    sigma_neg: float = 0.10,
    negatives: int = 127,
    own_negatives: int = 0,
    mu_own: float | None = None,
    sigma_own: float | None = None,
    batches: int | None = None,
    seed: int | np.random.Generator = 0,
    device: str = "cpu",
    progress: bool | None = None,
) -> SimulationResult:
    """Simulate a component of a loss over distributions of angles (Li et al. 2024, Section 3.1).

    The angles ``θ_pos ~ N(μ_pos, σ_pos²)`` and ``θ_neg ~ N(μ_neg, σ_neg²)`` are independent, by
    default with the paper's values. A loss that is not a function of one anchor's similarities,
    such as a combinator or a loss of your own (see `gradlab.get_loss`), is differentiated on
    vectors at such angles.

    Args:
        loss: a loss, or its name.
        quantity: ``"relative_push"`` (mean push over the largest push as the positive moves, one
            number for all losses), ``"gradient_dissipation"`` (mean of what the loss's formulas
            declare), ``"hardest_share"`` (mean of ``max_j W/Σ_j W`` over the batches with
            GD >= 0.01; of a relative push of 0.01 for a loss without formulas) or ``"ratio"`` (at
            ``θ = μ``; by Monte Carlo the median, because it has no mean). Unset is the declared
            dissipation, or for a loss given as code the relative push.
        engine: ``"exact"`` or ``"monte_carlo"``; unset: exact where the loss has an exact form.
        mu_pos: mean angles to the positive in radians, or None for the paper's range [π/20, π/2].
        mu_neg: mean angles to the negatives in radians, or None for the paper's range [π/20, π].
        grid: points an axis; in Python also (points of μ_pos, points of μ_neg). Unset is 100, and
            16 for a loss that is differentiated; a smaller grid costs less.
        sigma_pos: spread of the positive's angle, radians.
        sigma_neg: spread of the negatives' angles, radians.
        negatives: negatives an anchor.
        own_negatives: further negatives of an anchor, such as mined hard ones, with own angles.
        mu_own: mean angle to own negatives in radians; unset is that of the other negatives.
        sigma_own: spread of their angles, radians; unset is that of the others.
        batches: sampled batches a cell (Monte Carlo only). Unset is 1000, and 8 for a loss that is
            differentiated.
        seed: seed of the draws (Monte Carlo only); in Python also a generator.
        device: ``"cpu"`` or a torch device like ``"cuda"`` (Monte Carlo of gradlab losses only).
        progress: show a bar if it takes over two seconds; None does so on a terminal.

    Raises:
        GradlabError: a name is unknown, a value is out of range, a setting has no effect, the loss
            has no such engine for the quantity, or the loss is not a function of angles.

    Example:
        >>> result = simulate("arccon", mu_pos=[0.5], mu_neg=[0.6, 1.0])
        >>> result.value.round(6)
        array([[0.997574, 0.7555  ]])
    """
    loss = get_loss(loss)
    quantity = _quantity_of(loss, quantity)
    if engine is not None:
        check_known("engine", engine, ("exact", "monte_carlo"))
    if batches is not None:
        check_whole("batches", batches, 2)
    if grid is not None and mu_pos is not None and mu_neg is not None:
        raise GradlabError("grid has no effect where mu_pos and mu_neg are given; leave it out")
    by_gradients = not loss.closed_form or (quantity == "relative_push" and loss.row_loss() is None)
    angle_grid = AngleGrid.create(
        mu_pos,
        mu_neg,
        POINTS_OF_GRADIENTS if by_gradients and grid is None else grid,
        sigma_pos=sigma_pos,
        sigma_neg=sigma_neg,
        negatives=negatives,
        own_negatives=own_negatives,
        mu_own=mu_own,
        sigma_own=sigma_own,
    )
    if own_negatives:
        _check_own_negatives(loss)
    estimate = None if engine == "monte_carlo" else _exact(loss, quantity, angle_grid)
    if engine == "exact":
        of_draws = {"batches": batches is not None, "seed": seed != 0, "device": device != "cpu"}
        _check_exact(loss, quantity, estimate, **of_draws)
    if estimate is not None:
        return _result(loss, quantity, angle_grid, estimate)
    usual_batches = monte_carlo.BATCHES_OF_GRADIENTS if by_gradients else monte_carlo.BATCHES
    draws = monte_carlo.Sampling.create(batches or usual_batches, seed, device, progress)
    return _result(loss, quantity, angle_grid, _sampled(loss, quantity, angle_grid, draws), draws)


def _quantity_of(loss: Loss, quantity: str | None) -> str:
    """Return the quantity, or what is usual for the loss; refuse what the loss does not have."""
    if quantity is None:
        return "gradient_dissipation" if loss.closed_form else "relative_push"
    check_known("quantity", quantity, OF_ANGLES)
    if quantity == "gradient_dissipation" and not loss.closed_form:
        raise GradlabError(
            f"{loss.name} is given as code, which declares no dissipation; "
            "use quantity='relative_push'"
        )
    return quantity


def _check_own_negatives(loss: Loss) -> None:
    if not ("own_negatives" in loss.looks_at and loss.closed_form):
        raise GradlabError(
            f"{loss.name} is not simulated with own negatives: "
            "they are for gradlab's losses of pairs, such as infonce"
        )


def _sampled(
    loss: Loss, quantity: str, angle_grid: AngleGrid, sampling: monte_carlo.Sampling
) -> monte_carlo.Estimate:
    """Return a quantity by sampling: from formulas, or from gradients of the loss."""
    if loss.closed_form and quantity != "relative_push":
        _check_device(sampling.device)
        return monte_carlo.ESTIMATES[quantity](_pair_loss(loss), angle_grid, sampling)
    if sampling.device != "cpu":
        kind = "relative push" if loss.closed_form else "loss given as code"
        raise GradlabError(f"a {kind} is sampled on the CPU; leave device out")
    from gradlab.simulation.sampled import sampled  # loads torch

    estimates = sampled(
        loss,
        angle_grid,
        batches=sampling.batches,
        generator=sampling.generator,
        progress=sampling.progress,
    )
    return estimates[quantity]


def _pair_loss(loss: Loss) -> Any:
    """Return the loss, combinators included, as a function of one anchor's similarities."""
    row = loss.row_loss()
    if row is None:
        raise GradlabError(
            f"{loss.name} is not a function of anchor-to-other-view angles alone: "
            f"{loss.not_simulated}; draw whole batches with "
            "gradlab.simulation.sphere.sample_views and call gradlab.components on them"
        )
    return row


def _exact(loss: Loss, quantity: str, angle_grid: AngleGrid) -> monte_carlo.Estimate | None:
    """Return a quantity without sampling, or None if the loss has no exact form of it."""
    if not loss.closed_form or quantity == "relative_push":
        return None
    if quantity == "ratio":  # at θ = μ, with all negatives of a kind at the same angle
        row, angles = _pair_loss(loss), np.stack([angle_grid.means(mu) for mu in angle_grid.mu_neg])
        positive = PairSimilarity.from_angles(angle_grid.mu_pos[:, None])
        ratio = row.ratio(positive, row.summary(Negatives.from_angles(angles)))
        shape = angle_grid.mu_pos.size, angle_grid.mu_neg.size
        return monte_carlo.Estimate(np.array(np.broadcast_to(ratio, shape)))
    gate = loss.exact_gate()
    if gate is None:
        return None
    # For gates of other kinds, the mean dissipation does not tell how often GD reaches `PASS`.
    if quantity == "hardest_share" and not (
        _pair_loss(loss).one_hot_weight and isinstance(gate, HardGate | ConstantGate)
    ):
        return None
    dissipation = exact.dissipation(gate, angle_grid)
    if quantity == "gradient_dissipation":
        return monte_carlo.Estimate(dissipation)
    # A one-hot weight has share 1. A hard gate passes when open, a constant gate always or never.
    is_constant = isinstance(gate, ConstantGate)
    passes = (dissipation >= monte_carlo.PASS).astype(float) if is_constant else dissipation
    return monte_carlo.Estimate(np.where(passes > 0, 1.0, np.nan), pass_probability=passes)


def _check_exact(
    loss: Loss, quantity: str, estimate: monte_carlo.Estimate | None, **of_draws: bool
) -> None:
    """Refuse the exact engine without an exact form, or with settings of draws."""
    if estimate is None:
        raise GradlabError(f"{loss.name} has no exact form of {quantity}; use engine='monte_carlo'")
    if idle := [name for name, is_set in of_draws.items() if is_set]:
        raise GradlabError(f"engine='exact' does not sample; leave {listed(idle)} out, or engine")


def _result(
    loss: Loss,
    quantity: str,
    angle_grid: AngleGrid,
    estimate: monte_carlo.Estimate,
    sampling: monte_carlo.Sampling | None = None,
) -> SimulationResult:
    """Return an estimate with its settings, also those of own negatives and draws if there are."""
    names = ["sigma_pos", "sigma_neg", "negatives"]
    names += ["own_negatives", "mu_own", "sigma_own"] if angle_grid.own_negatives else []
    settings = {name: getattr(angle_grid, name) for name in names}
    return SimulationResult(
        loss=loss,
        quantity=quantity,
        engine="exact" if sampling is None else "monte_carlo",
        mu_pos=angle_grid.mu_pos,
        mu_neg=angle_grid.mu_neg,
        settings=settings if sampling is None else settings | sampling.settings,
        **vars(estimate),
    )


def _check_device(device: str) -> None:
    if device == "cpu":
        return
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise GradlabError(
            f"device {device!r} is not available here; use device='cpu' ({first_line(error)})"
        ) from error

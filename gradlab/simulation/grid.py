"""`simulate`: choose an engine, run it, and return the result with its settings."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError, check_known, check_whole, first_line, listed
from gradlab.losses.base import Loss
from gradlab.losses.gates import ConstantGate, HardGate
from gradlab.losses.registry import get_loss, takes_loss
from gradlab.seeds import random_generator
from gradlab.simulation import exact, monte_carlo
from gradlab.simulation.result import SimulationResult
from gradlab.simulation.setting import Setting

QUANTITIES = tuple(monte_carlo.ESTIMATES)


@takes_loss
def simulate(
    loss: str | Loss,
    quantity: str = "gradient_dissipation",
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
    default with the paper's values. A loss of your own (see `gradlab.get_loss`) is called on
    vectors at such angles. Its dissipation is relative to the largest on the grid.

    Args:
        loss: a loss, or its name.
        quantity: ``"gradient_dissipation"`` (its mean), ``"hardest_share"`` (mean of
            ``max_j W/Σ_j W`` over the batches with GD >= 0.01) or ``"ratio"`` (at ``θ = μ``; by
            Monte Carlo the median, because it has no mean).
        engine: ``"exact"`` or ``"monte_carlo"``; unset: exact where the loss has an exact form.
        mu_pos: mean angles to the positive in radians, or None for the paper's range [π/20, π/2].
        mu_neg: mean angles to the negatives in radians, or None for the paper's range [π/20, π].
        grid: points an axis; in Python also (points of μ_pos, points of μ_neg). Unset is 100, and
            for a loss of your own what a minute allows.
        sigma_pos: spread of the positive's angle, radians.
        sigma_neg: spread of the negatives' angles, radians.
        negatives: negatives an anchor.
        own_negatives: further negatives of an anchor, such as mined hard ones, with own angles.
        mu_own: mean angle to own negatives in radians; unset is that of the other negatives.
        sigma_own: spread of their angles, radians; unset is that of the others.
        batches: sampled batches a cell (Monte Carlo only). Unset is 1000, and for a loss of your
            own what a minute allows.
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
    check_known("quantity", quantity, QUANTITIES)
    if engine is not None:
        check_known("engine", engine, ("exact", "monte_carlo"))
    if batches is not None:
        check_whole("batches", batches, 2)
    spreads = {"sigma_pos": sigma_pos, "sigma_neg": sigma_neg, "negatives": negatives}
    of_own = {"own_negatives": own_negatives, "mu_own": mu_own, "sigma_own": sigma_own}
    setting = Setting.create(mu_pos, mu_neg, 100 if grid is None else grid, **spreads, **of_own)
    axes_given = mu_pos is not None and mu_neg is not None
    if grid is not None and axes_given:
        raise GradlabError("grid has no effect where mu_pos and mu_neg are given; leave it out")
    if own_negatives and not (loss.takes_own_negatives and loss.closed_form):
        raise GradlabError(
            f"{loss.name} is not simulated with own negatives: "
            "they are for gradlab's losses of pairs, such as infonce"
        )
    estimate = None
    if loss.closed_form and engine != "monte_carlo":
        estimate = _exact(loss, quantity, setting)
    if engine == "exact":
        if estimate is None:
            raise GradlabError(
                f"{loss.name} has no exact form of {quantity}; use engine='monte_carlo'"
            )
        of_draws = {"batches": batches is not None, "seed": seed != 0, "device": device != "cpu"}
        if idle := [name for name, given in of_draws.items() if given]:
            raise GradlabError(
                f"engine='exact' does not sample; leave {listed(idle)} out, or engine"
            )
    engine = "monte_carlo" if estimate is None else "exact"
    settings: dict[str, Any] = {}
    if estimate is None:
        generator = random_generator(seed)
        if loss.closed_form:
            _check_device(device)
            batches = 1000 if batches is None else int(batches)
            sampling = monte_carlo.Sampling(batches, generator, device, progress)
            estimate = monte_carlo.ESTIMATES[quantity](_pair_loss(loss), setting, sampling)
        else:
            from gradlab.simulation.sampled import affordable, sampled

            if device != "cpu":
                raise GradlabError(
                    f"{loss.name} is given as code and sampled on the CPU; leave device out"
                )
            cells = setting.mu_pos.size * setting.mu_neg.size if axes_given else None
            grid, batches = affordable(loss, setting, grid, batches, cells)
            setting = Setting.create(mu_pos, mu_neg, grid or 2, **spreads)
            batches = int(batches)
            drawn = sampled(loss, setting, batches=batches, generator=generator, progress=progress)
            estimate = drawn[quantity]
        known_seed = int(seed) if isinstance(seed, (int, np.integer)) else None
        settings = {"batches": batches, "seed": known_seed, "device": device}
    shown = spreads | of_own if own_negatives else spreads
    return SimulationResult(
        loss=loss,
        quantity=quantity,
        engine=engine,
        mu_pos=setting.mu_pos,
        mu_neg=setting.mu_neg,
        settings={name: getattr(setting, name) for name in shown} | settings,
        **vars(estimate),
    )


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


def _exact(loss: Loss, quantity: str, setting: Setting) -> monte_carlo.Estimate | None:
    """Return a quantity without sampling, or None if the loss has no exact form of it."""
    if quantity == "ratio":  # at θ = μ, with all negatives of a kind at the same angle
        row, angles = _pair_loss(loss), np.stack([setting.means(mu) for mu in setting.mu_neg])
        positive = PairSimilarity.from_angles(setting.mu_pos[:, None])
        ratio = row.ratio(positive, row.summary(Negatives.from_angles(angles)))
        shape = setting.mu_pos.size, setting.mu_neg.size
        return monte_carlo.Estimate(np.array(np.broadcast_to(ratio, shape)))
    gate = loss.exact_gate()
    if gate is None:
        return None
    # For gates of other kinds, the mean dissipation does not tell how often GD reaches `PASS`.
    if quantity == "hardest_share" and not (
        _pair_loss(loss).one_hot_weight and isinstance(gate, HardGate | ConstantGate)
    ):
        return None
    dissipation = exact.dissipation(gate, setting)
    if quantity == "gradient_dissipation":
        return monte_carlo.Estimate(dissipation)
    # A one-hot weight has share 1. A hard gate passes when open, a constant gate always or never.
    is_constant = isinstance(gate, ConstantGate)
    passes = (dissipation >= monte_carlo.PASS).astype(float) if is_constant else dissipation
    return monte_carlo.Estimate(np.where(passes > 0, 1.0, np.nan), pass_probability=passes)


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

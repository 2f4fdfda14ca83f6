"""The numbers of the atlas: properties of a loss's gradient in one stated setting.

The gate is the relative push with one positive at `POSITIVE` and K negatives around a mean angle
that moves from there to π. All other numbers come from the components of both sides on sampled
whole batches.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr

from gradlab.arrays import divide
from gradlab.atlas.flow_ends import HEADINGS, Lead, lead
from gradlab.drawable import Drawable
from gradlab.errors import GradlabError
from gradlab.files import read_packaged
from gradlab.gradient.components_and_autograd import components
from gradlab.gradient.statistics import two_sided_statistics
from gradlab.losses.base import Loss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.components import Components
from gradlab.losses.registry import get_loss, loss_class, loss_names
from gradlab.progress_bars import progress_bar
from gradlab.settings import call_text
from gradlab.simulation.grid_and_result import AngleGrid
from gradlab.simulation.monte_carlo import Estimate
from gradlab.simulation.sampled import sampled
from gradlab.simulation.sphere import sample_views

if TYPE_CHECKING:
    from pandas import DataFrame

# Mean angles of the negatives in degrees at which a curve is measured.
DEGREES = np.array([*range(30, 91, 4), *range(100, 181, 16)], dtype=np.float64)
# Sampled batches at each of these angles, for the numbers of the atlas and for a drawn curve.
BATCHES_OF_A_CURVE, BATCHES_OF_A_PICTURE = 16, 64
# Angles in degrees, values, and their standard error or None.
Curve = tuple[np.ndarray, np.ndarray, np.ndarray | None]
POSITIVE = math.radians(30)  # angle of the positives
NEGATIVE = math.radians(60)  # mean angle between anchors
SPREADS = (0.05, 0.10)  # spreads of both angles in radians, as in the papers' simulations
SENTENCES, DIMENSIONS, BATCHES = 128, 128, 4
EASY = (math.radians(10), math.radians(85))  # both angles of a batch with little left to learn
# A force has stopped below this fraction of its value with negatives at the positive's angle.
STOPPED = 0.1

# name -> (heading, description)
COLUMNS = {
    name: (column["heading"], column["text"])
    for name, column in read_packaged("gradlab.atlas", "columns.toml").items()
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One loss in the atlas; `COLUMNS` describes the numbers.

    Attributes:
        loss: the loss.
        family: ``"hard gate"`` (open or closed), ``"soft gate"``, ``"no gate"``, or
            ``"gates of their own"`` if only one of pull and push stops.
        angles, gate: curve of the gate, (P,) each: degrees of the negatives, and relative push.
    """

    loss: Loss
    family: str
    half_open: float
    slope: float
    push_halves: float
    hardest_share: float
    effective_negatives: float
    ratio: float
    ratio_positives: float
    ratio_both_sides: float
    same_view_share: float
    hubness: float
    stops: str
    angles: np.ndarray = dataclasses.field(repr=False)
    gate: np.ndarray = dataclasses.field(repr=False)

    @property
    def name(self) -> str:
        """Short text of the loss."""
        return call_text(self.loss)

    @functools.cached_property
    def leads(self) -> Lead:
        """Where the loss leads; stored for published settings, otherwise a flow of some seconds."""
        return lead(self.loss)


class Atlas(list[Entry], Drawable):
    """Losses with one row each; `plot` draws numbers by family, or gates on a given axis."""

    artist = "gradlab.atlas.picture:draw_atlas"

    def columns(self) -> dict[str, list[Any]]:
        """Return name, family and numbers of all losses."""
        names = {"loss": "name", "family": "family"} | {name: name for name in COLUMNS}
        numbers = {key: [getattr(entry, name) for entry in self] for key, name in names.items()}
        ends = {
            f"leads_{name}": [getattr(entry.leads, name) for entry in self] for name in HEADINGS
        }
        return numbers | ends

    def __repr__(self) -> str:
        return f"Atlas of {len(self)} losses\n{self.to_frame()}"

    def brief(self) -> DataFrame:
        """Return the whole table."""
        return self.to_frame()


def atlas_names() -> list[str]:
    """Return names of registered losses, without `recombined` and losses of several positives."""
    return [
        name
        for name in loss_names()
        if name != "recombined" and not issubclass(loss_class(name), CandidateLoss)
    ]


def atlas(losses: Iterable[str | Loss] | None = None, *, progress: bool | None = None) -> Atlas:
    """Measure losses in the stated setting.

    Args:
        losses: losses, their names or texts; None for all `atlas_names`, with published settings.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        GradlabError: a loss is unknown, or needs an input that the atlas lacks, such as a guide.
    """
    names = atlas_names() if losses is None else losses
    resolved = [get_loss(name) for name in names]
    bar = progress_bar(resolved, progress, unit="loss")
    return Atlas(measure(loss, progress=progress) for loss in bar)


def measure(loss: str | Loss, *, progress: bool | None = None) -> Entry:
    """Measure one loss in the stated setting; ``progress`` and errors as in `atlas`.

    No number depends on how the loss is given: a loss by name and the same loss as code are equal.
    """
    loss = get_loss(loss)
    if "teacher" in loss.looks_at:
        raise GradlabError(f"{call_text(loss)} learns from a teacher, whom the atlas does not have")
    moving = negatives_moving_away(loss, BATCHES_OF_A_CURVE, progress)
    gate, push = (moving[name].value[0] for name in ("relative_push", "total_push"))
    half_open, slope = half_open_angle(DEGREES, gate)
    pairs = [_components_of_both_sides(loss, POSITIVE, NEGATIVE, seed) for seed in range(BATCHES)]
    stops = _what_stops(loss)
    rows = [_batch_numbers(*pair) for pair in pairs]
    numbers = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return Entry(
        loss,
        _family(moving["open"].value, moving["graded"].value, stops),
        half_open=half_open,
        slope=slope,
        push_halves=half_open_angle(DEGREES, divide(push, push[0]))[0],
        stops=stops,
        angles=DEGREES,
        gate=gate,
        **numbers,
    )


def negatives_moving_away(
    loss: Loss, batches: int, progress: bool | None = None
) -> dict[str, Estimate]:
    """Return every sampled quantity, (1, P) each, while the mean angle of negatives is `DEGREES`.

    Positives are at `POSITIVE` among `SENTENCES` - 1 negatives, with the spreads `SPREADS`. All
    losses, by name or as code, are sampled with the same draws.
    """
    angle_grid = AngleGrid.create(
        [POSITIVE],
        np.radians(DEGREES),
        negatives=SENTENCES - 1,
        sigma_pos=SPREADS[0],
        sigma_neg=SPREADS[1],
    )
    return sampled(loss, angle_grid, batches=batches, progress=progress)


def curve(loss: Loss, quantity: str = "relative_push") -> Curve:
    """Return a sampled quantity while negatives move away, as in `plot_curves`.

    Returns:
        Mean angles to the negatives in degrees, the quantity, and its standard error; (P,) each.
    """
    estimate = negatives_moving_away(loss, BATCHES_OF_A_PICTURE)[quantity]
    error = None if estimate.standard_error is None else estimate.standard_error[0]
    return DEGREES, estimate.value[0], error


def half_open_angle(angles: np.ndarray, gate: np.ndarray) -> tuple[float, float]:
    """Return the last angle with the gate half open, and its fall in percent per degree, or NaN."""
    crossings = np.flatnonzero((gate[:-1] >= 0.5) & (gate[1:] < 0.5))
    if not crossings.size:
        return math.nan, math.nan
    i = int(crossings[-1])
    fall = (gate[i] - gate[i + 1]) / (angles[i + 1] - angles[i])
    return float(angles[i] + (gate[i] - 0.5) / fall), float(100 * fall)


def of_pushed(statistic: Callable[[np.ndarray], Any], values: np.ndarray) -> float:
    """Return a statistic of the values that are not NaN, of anchors on which something acts."""
    numbers = values[~np.isnan(values)]
    return float(statistic(numbers)) if numbers.size else math.nan


def sampled_batch(
    mu_pos: float, mu_neg: float, sentences: int, dimensions: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sample anchors and positives, (N, D) each, at these mean angles, with spreads `SPREADS`."""
    spread: dict[str, Any] = {"sigma_pos": SPREADS[0], "sigma_neg": sigma_neg(mu_neg)}
    views = sample_views(mu_pos, mu_neg, sentences, dimensions, seed=seed, **spread)
    return views.anchors[0], views.positives[0]


def sigma_neg(mu_neg: float) -> float:
    """Return the spread of the angles to the negatives for this mean angle, radians."""
    # A cone of vectors cannot spread more than tan(μ/2)/2; take at most half of that.
    return min(SPREADS[1], math.tan(mu_neg / 2) / 4)


def concentration(push: np.ndarray) -> tuple[float, float]:
    """Return hardest share and effective negatives of the push (N, K), as means over anchors."""
    share = push[push.any(axis=1)]  # leave out anchors without push
    share = share / share.sum(axis=1, keepdims=True) if share.size else np.full((1, 1), np.nan)
    return float(np.mean(share.max(axis=1))), float(np.mean(np.exp(entr(share).sum(axis=1))))


def _components_of_both_sides(
    loss: Loss, mu_pos: float, mu_neg: float, seed: int
) -> tuple[Components, Components]:
    views = sampled_batch(mu_pos, mu_neg, SENTENCES, DIMENSIONS, seed)
    return components(loss, *views, side="both")


def _batch_numbers(anchors: Components, positives: Components) -> dict[str, float]:
    statistics = two_sided_statistics(anchors, positives)
    # Of the anchors that a negative acts on: what a loss declares of others, code cannot tell.
    push = np.abs(anchors.gradient_dissipation[:, None] * anchors.weight)
    hardest_share, effective_negatives = concentration(push)
    ratio = anchors.scalar_ratio[push.any(axis=1)]
    own = anchors.columns.get("same")
    return {
        "hardest_share": hardest_share,
        "effective_negatives": effective_negatives,
        "ratio": of_pushed(np.median, ratio),
        "ratio_positives": statistics["ratio_positives"],
        "ratio_both_sides": statistics["ratio_both_sides"],
        "same_view_share": 0.0 if own is None else float(divide(push[:, own].sum(), push.sum())),
        "hubness": statistics["hubness"],
    }


def _what_stops(loss: Loss) -> str:
    """Compare pull and push on an easy batch and on one with negatives as close as positives."""
    forces = []
    for at in ((POSITIVE, POSITIVE), EASY):
        anchors = _components_of_both_sides(loss, *at, 0)[0]
        push = np.abs(anchors.gradient_dissipation[:, None] * anchors.weight).sum(axis=1)
        forces.append([np.mean(push), np.mean(np.abs(anchors.pull))])
    push, pull = divide(np.array(forces[1]), np.array(forces[0])) < STOPPED
    return ("both" if pull else "push") if push else "pull" if pull else "neither"


def _family(is_open: np.ndarray, graded: np.ndarray, stops: str) -> str:
    """Name the family by what the relative push does: ``is_open`` and ``graded`` are shares of
    batches in which it is 1, or neither 0 nor 1."""
    if stops in ("push", "pull"):
        return "gates of their own"
    if is_open.min() == 1:
        return "no gate" if stops == "neither" else "soft gate"
    return "soft gate" if graded.max() > 0 else "hard gate"

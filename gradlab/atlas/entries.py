"""The numbers of the atlas: properties of a loss's gradient in one stated setting.

The gate comes from the simulator: one positive at `POSITIVE`, and K negatives around a mean angle
that moves from there to π. All other numbers come from the components of both sides on sampled
whole batches.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr

from gradlab.arrays import divide
from gradlab.drawing import Shown
from gradlab.errors import GradlabError
from gradlab.files import read_packaged
from gradlab.gradient.diagnostics import two_sided_statistics
from gradlab.gradient.paradigm import components
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.components import Components
from gradlab.losses.gates import ConstantGate, HardGate
from gradlab.losses.registry import get_loss, loss_class, loss_names
from gradlab.settings import call_text
from gradlab.simulation import simulate
from gradlab.simulation.sphere import other_view_cosine, sample_views
from gradlab.waiting import progress_bar

if TYPE_CHECKING:
    from pandas import DataFrame

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
    name: (one["heading"], one["text"])
    for name, one in read_packaged("gradlab.atlas", "columns.toml").items()
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One loss in the atlas; `COLUMNS` describes the numbers.

    Attributes:
        loss: the loss.
        family: ``"hard gate"`` (open or closed), ``"soft gate"``, ``"no gate"``, or
            ``"gates of their own"`` if only one of pull and push stops.
        angles, gate: curve of the gate, (P,) each: degrees, and values relative to the first one.
    """

    loss: Loss
    family: str
    half_open: float
    slope: float
    hardest_share: float
    effective_negatives: float
    ratio: float
    ratio_positives: float
    ratio_both: float
    own_view: float
    hubness: float
    stops: str
    angles: np.ndarray = dataclasses.field(repr=False)
    gate: np.ndarray = dataclasses.field(repr=False)

    @property
    def name(self) -> str:
        """Short text of the loss."""
        return call_text(self.loss)


class Atlas(list[Entry], Shown):
    """Losses with one row each; `plot` draws numbers by family, or gates on a given axis."""

    artist = "gradlab.atlas.picture:draw_atlas"

    def columns(self) -> dict[str, list[Any]]:
        """Return name, family and numbers of all losses."""
        names = {"loss": "name", "family": "family"} | {name: name for name in COLUMNS}
        return {key: [getattr(one, name) for one in self] for key, name in names.items()}

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
    found = [get_loss(name) for name in names]
    return Atlas(measure(loss) for loss in progress_bar(found, progress, unit="loss"))


def measure(loss: str | Loss) -> Entry:
    """Measure one loss in the stated setting; errors as in `atlas`."""
    loss = get_loss(loss)
    if loss.needs_teacher:
        raise GradlabError(f"{call_text(loss)} learns from a teacher, whom the atlas does not have")
    angles, gate, _ = curve(loss)
    half_open, slope = half_open_angle(angles, gate)
    batches = [_both(loss, POSITIVE, NEGATIVE, seed) for seed in range(BATCHES)]
    stops = _what_stops(loss)
    rows = [_batch_numbers(*pair) for pair in batches]
    found: dict[str, Any] = {"half_open": half_open, "slope": slope, "angles": angles, "gate": gate}
    found |= {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return Entry(loss, _family(loss, stops), stops=stops, **found)


def curve(loss: Loss, quantity: str = "gradient_dissipation") -> Curve:
    """Return a quantity of `gradlab.simulate` while negatives move away, as in `plot_curves`.

    Positives are at `POSITIVE` among `SENTENCES` - 1 negatives, with the spreads `SPREADS`. For a
    loss of the whole batch, the curve is a mean over sampled anchors up to 89 degrees apart (for
    the ratio a median).

    Returns:
        Mean angles to the negatives in degrees, the quantity (dissipation is relative to that at
        the first angle), and its standard error or None; (P,) each.
    """
    gated = quantity == "gradient_dissipation" and loss.exact_gate() is not None
    error = None
    if gated or isinstance(loss, PairLoss) or not loss.closed_form:
        points, batches = (301, None) if gated else (76, 500)
        if not loss.closed_form:  # each batch is a call of the loss
            points, batches = 31, 40
        mu = np.linspace(POSITIVE, np.pi, points)
        setting: dict[str, Any] = {"mu_pos": [POSITIVE], "mu_neg": mu, "negatives": SENTENCES - 1}
        setting |= {"sigma_pos": SPREADS[0], "sigma_neg": SPREADS[1]}
        result = simulate(loss, quantity, **setting, batches=batches, progress=False)
        values = result.value[0]
        error = None if result.standard_error is None else result.standard_error[0]
    else:
        # Whole batches, by angles to the other view; mean angles of anchors stay below 90 degrees.
        between = np.linspace(math.radians(10), math.radians(89), 41)
        sides = [_both(loss, POSITIVE, angle, 0)[0] for angle in between]
        of: dict[str, Callable[[Components], float]] = {
            "gradient_dissipation": lambda one: float(np.mean(one.total_push)),
            "hardest_share": lambda one: of_pushed(np.mean, one.hardest_share),
            "ratio": lambda one: of_pushed(np.median, one.scalar_ratio),
        }
        values = np.array([of[quantity](one) for one in sides])
        cosines = [
            other_view_cosine(POSITIVE, a, DIMENSIONS, SPREADS[0], sigma_neg(a))[0] for a in between
        ]
        mu = np.array(list(map(math.acos, cosines)))
    if quantity == "gradient_dissipation":
        error = None if error is None else divide(error, values[0])
        values = divide(values, values[0])
    return np.degrees(mu), values, error


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
    there = values[~np.isnan(values)]
    return float(statistic(there)) if there.size else math.nan


def _both(loss: Loss, mu_pos: float, mu_neg: float, seed: int) -> tuple[Components, Components]:
    views = sampled_batch(mu_pos, mu_neg, SENTENCES, DIMENSIONS, seed)
    return components(loss, *views, side="both")


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


def _batch_numbers(anchors: Components, positives: Components) -> dict[str, float]:
    statistics = two_sided_statistics(anchors, positives)
    hardest_share, effective_negatives = concentration(np.abs(anchors.weight))
    push = np.abs(anchors.gradient_dissipation[:, None] * anchors.weight)
    own = anchors.columns.get("same")
    return {
        "hardest_share": hardest_share,
        "effective_negatives": effective_negatives,
        "ratio": of_pushed(np.median, anchors.scalar_ratio),
        "ratio_positives": statistics["ratio_positives"],
        "ratio_both": statistics["ratio_both_sides"],
        "own_view": 0.0 if own is None else float(divide(push[:, own].sum(), push.sum())),
        "hubness": statistics["hubness"],
    }


def _what_stops(loss: Loss) -> str:
    """Compare pull and push on an easy batch and on one with negatives as close as positives."""
    forces = []
    for at in ((POSITIVE, POSITIVE), EASY):
        anchors = _both(loss, *at, 0)[0]
        push = np.abs(anchors.gradient_dissipation[:, None] * anchors.weight).sum(axis=1)
        forces.append([np.mean(push), np.mean(np.abs(anchors.pull))])
    push, pull = divide(np.array(forces[1]), np.array(forces[0])) < STOPPED
    return ("both" if pull else "push") if push else "pull" if pull else "neither"


def _family(loss: Loss, stops: str) -> str:
    gate = loss.exact_gate()
    if isinstance(gate, HardGate):
        return "hard gate"
    if isinstance(gate, ConstantGate):
        return "no gate"
    return "gates of their own" if stops in ("push", "pull") else "soft gate"

"""Diagnose wrong gradients: the fault of the loss, its usual cause and the remedy."""

from __future__ import annotations

import dataclasses

import numpy as np

from gradlab.scale.audit.cases import Outcome, relative

# Coefficients below this share of the largest count as 0; float64 gradients give them to 1e-12.
NOTHING = 1e-8
# Tolerance of slopes by finite differences, relative to the largest slope.
NEAR = 1e-3
# name -> (usual cause, remedy)
ADVICE = {
    "parameter": (
        "the loss is scaled, or it is not the same function on every process",
        "fix other faults first; "
        "then compare the parameter's gradient on each process with that on one",
    ),
    "not finite": (
        "a division by zero, or the logarithm of zero, where a process sees fewer rows",
        "look for what is divided by, or taken the logarithm of",
    ),
    "no gradient": (
        "the rows are detached before the loss, or the loss is computed on some processes only",
        "compute the loss on every process, from the rows themselves",
    ),
    "cut gradient": (
        "rows of other processes are gathered without gradient (torch.distributed.all_gather), so "
        "that a row receives nothing from the losses that other processes compute with it",
        "gather with gradient (torch.distributed.nn.functional.all_gather), which adds up what all "
        "processes send back",
    ),
    "factor P": (
        "the loss is multiplied by the number of processes P although the backward pass of the "
        "gather already adds up what all processes send back; or gradients are summed that "
        "should be averaged",
        "remove the factor",
    ),
    "factor 1/P": (
        "each process computes the loss of the whole batch but only its own rows carry gradient, "
        "or it takes a sum, and gradients are averaged over P processes",
        "multiply the loss by P; or, if it is that of the whole batch, gather with gradient",
    ),
    "factor": (
        "a sum in place of a mean, or a mean over something else than sentences",
        "make the average of the processes' losses the loss of the whole batch",
    ),
    "weights of processes": (
        "each process takes the mean over its own sentences, of which there are different numbers, "
        "or scales its loss in its own way",
        "multiply the loss by P n / N (n / N if gradients are summed) for n of N sentences, or "
        "drop the last incomplete batch (drop_last=True)",
    ),
    "separate losses": (
        "nothing is gathered: sentences of other processes are not negatives",
        "gather the candidates of all processes with gradient (gather_across_devices=True, "
        "torch.distributed.nn.functional.all_gather)",
    ),
    "wrong positives": (
        "labels count from 0 on every process although the candidates are those of all processes",
        "add rank x rows to the labels, or put this process's own rows first",
    ),
    "missing negatives": (
        "some of what anchors are compared with is not gathered, or is masked",
        "gather all columns that serve as negatives, and mask the anchor's own sentence only",
    ),
    "depends on the split": (
        "own rows are treated differently from gathered ones: a mean, standard deviation or "
        "temperature is computed from them alone, they are counted twice, only one of two "
        "directions is gathered, or a constant differs by process",
        "compute statistics from the rows of all processes (all_reduce with gradient, "
        "SyncBatchNorm), or gather first",
    ),
    "wrong": (
        "a denominator that has a row too many, such as the positive again or padding, "
        "lacks one, or has all rows twice",
        "take every negative once and the positive once; or compare one process with "
        "two by hand, two sentences each",
    ),
    "uneven shares": (
        "rows are gathered into buffers of this process's own size",
        "drop the last incomplete batch (drop_last=True, dataloader_drop_last=True), or "
        "gather the sizes first",
    ),
    "fails": (
        "the processes do not make the same collective calls, in the same order, "
        "with the same shapes",
        "make every process call every collective operation, whatever its rows are",
    ),
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of a loss on several processes.

    Attributes:
        name: short name from `ADVICE`, possibly after the case in which it was found.
        text: the fault, with numbers.
    """

    name: str
    text: str

    @property
    def cause(self) -> str:
        """The usual cause."""
        return self._advice[0]

    @property
    def mend(self) -> str:
        """The remedy."""
        return self._advice[1]

    @property
    def _advice(self) -> tuple[str, str]:
        return ADVICE[self.name if self.name in ADVICE else self.name.partition(", ")[2]]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}\n  usual cause: {self.cause}\n  remedy: {self.mend}"


def find_faults(outcome: Outcome, tolerance: float, depends_on_split: bool) -> list[Fault]:
    """Return the faults of a case: the first explanation that fits, and wrong parameter gradients.

    With ``depends_on_split``, gradients change with the assignment of sentences to processes.
    """
    found = [
        Fault(
            "parameter",
            f"the gradient of the loss's parameter {name} is off by {error:.3g} of its "
            "largest entry",
        )
        for name, pair in outcome.parameters.items()
        if (error := relative(*pair)) > tolerance
    ]
    if outcome.error <= tolerance:  # False if the error is NaN
        return found
    if not np.isfinite(outcome.found).all():
        text = "the gradients are infinite or not numbers, unlike on one process"
        return [Fault("not finite", text), *found]
    explanation = (
        _cut(outcome)
        or _weights(outcome, tolerance)
        or _separate(outcome, tolerance)
        or _pairs(outcome)
    )
    if explanation is None:
        name, text = "wrong", "in a way that is not recognised"
        if depends_on_split:
            name = "depends on the split"
            text = (
                "and change with which process has which sentence, although processes see each "
                "other's rows"
            )
        explanation = Fault(
            name, f"gradients are off by {outcome.error:.3g} of the largest entry, {text}"
        )
    return [explanation, *found]


def _near(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return np.asarray(abs(found - expected) <= NEAR * max(abs(found).max(), abs(expected).max()))


def _cut(outcome: Outcome) -> Fault | None:
    """Detect losses that depend on rows without sending them a gradient, or that send none."""
    idle = [str(p) for p, part in enumerate(outcome.contributions) if not part.any()]
    if idle:
        return Fault("no gradient", f"no gradient comes from the loss of process {', '.join(idle)}")
    # Slopes are not compared where the loss stops gradients on one process as well.
    trusted = _near(outcome.expected_slopes, outcome.slopes_of(outcome.expected))
    by_gradient = outcome.slopes_of(outcome.contributions)
    # If each process computes the whole batch's loss, it may leave other gradients to their owners.
    whole = _near(outcome.slopes, outcome.slopes[:1]).all()
    for times in (1, len(outcome.slopes)) if whole else (1,):
        if _near(outcome.slopes.sum(0), times * by_gradient.sum(0))[trusted].all():
            return None
    lost = (~_near(outcome.slopes, by_gradient) & trusted).any((0, 1))
    text = f"the losses depend on the {_named(lost)} more than the gradient of these rows says"
    return Fault("cut gradient", text) if lost.any() else None


def _weights(outcome: Outcome, tolerance: float) -> Fault | None:
    """Detect losses of processes that are right up to factors, which may be equal."""
    sizes = np.bincount(outcome.case.owners)
    count = len(sizes)
    share = count if outcome.averaged else 1
    target = share * outcome.expected.ravel()
    parts = outcome.contributions.reshape(count, -1).T
    weights = np.linalg.lstsq(parts, target, rcond=None)[0]
    if not weights.all() or relative(parts @ weights, target) > tolerance:
        return None
    if np.ptp(weights) <= 1e-6 * abs(weights).max():
        factor = 1 / weights.mean()
        known = {"factor P": count, "factor 1/P": 1 / count}
        name = next(
            (name for name, value in known.items() if abs(factor / value - 1) < 1e-6), "factor"
        )
        return Fault(name, f"every gradient is {factor:.6g} times what it should be")
    text = (
        "the losses of processes 0, 1, ... should weigh "
        f"{', '.join(f'{one:.4g}' for one in weights)}"
    )
    if np.allclose(weights, share * sizes / sizes.sum(), rtol=1e-5):
        text += (
            f", that is {'P ' if outcome.averaged else ''}n / N for n of N sentences, "
            "instead of 1 each"
        )
    return Fault("weights of processes", text)


def _separate(outcome: Outcome, tolerance: float) -> Fault | None:
    if relative(outcome.found, outcome.separate) > tolerance:
        return None
    text = (
        "each process computes the loss of its own sentences, as if there were no others; "
        "gradients are off by"
    )
    return Fault("separate losses", f"{text} {outcome.error:.3g} of the largest entry")


def _pairs(outcome: Outcome) -> Fault | None:
    """Detect pairs of rows that attract or repel each other on one process only.

    The coefficients come from each anchor's gradient as a sum of the batch's vectors, if it is one.
    """
    columns, count, dimensions = outcome.rows.shape
    vectors = outcome.rows.reshape(-1, dimensions)
    gradients = np.stack([outcome.found[0], outcome.expected[0]])
    coefficients = gradients @ np.linalg.pinv(vectors)
    if relative(coefficients @ vectors, gradients) > 1e-6:
        return None
    found, expected = coefficients  # (N, columns N)
    nothing = NOTHING * abs(expected).max()
    owners = outcome.case.owners
    # The positive is no negative: among anchors and positives, leave out the anchor's own sentence.
    own = np.tile(np.eye(count, dtype=bool), columns) & (np.arange(columns * count) < 2 * count)
    pulls = (found < -nothing, expected < -nothing)
    wanted, seen = (~own & (abs(one) > nothing) for one in (expected, found))
    return _wrong_positives(*pulls, found.argmin(1), own, owners) or _missing(wanted, seen, owners)


def _wrong_positives(
    pulled: np.ndarray,
    expected: np.ndarray,
    nearest: np.ndarray,
    own: np.ndarray,
    owners: np.ndarray,
) -> Fault | None:
    """Detect anchors that are pulled to another sentence, but on one process to their own only."""
    rows, count = np.arange(len(own)), len(own)
    right = expected[rows, count + rows] & ~(expected & ~own).any(1)
    wrong = right & ~pulled[rows, count + rows] & (pulled & ~own).any(1)
    if not wrong.any():
        return None
    first = int(np.flatnonzero(wrong)[0])
    other = int(nearest[first] % count)
    return Fault(
        "wrong positives",
        f"{wrong.sum()} of {right.sum()} anchors are pulled to another sentence: "
        f"sentence {first} of the batch (process {owners[first]}) "
        f"to sentence {other} (process {owners[other]})",
    )


def _missing(wanted: np.ndarray, seen: np.ndarray, owners: np.ndarray) -> Fault | None:
    """Detect rows of a process that the anchors of some process do not see in some role."""
    count = len(owners)
    places, roles = np.tile(owners, wanted.shape[1] // count), np.arange(wanted.shape[1]) // count
    lost = np.zeros_like(wanted)
    for p, q, role in np.ndindex(owners.max() + 1, owners.max() + 1, roles.max() + 1):
        block = (owners == p)[:, None] & (places == q) & (roles == role) & wanted
        if block.sum() >= 3 and not (block & seen).any():
            lost |= block
    if not lost.any():
        return None
    across = places != owners[:, None]
    where, name = (
        (across, "other processes") if (lost & across).any() else (~across, "the same process")
    )
    columns = np.array([lost[:, roles == role].any() for role in range(roles.max() + 1)])
    return Fault(
        "missing negatives",
        f"anchors do not see {(lost & where).sum()} of {(wanted & where).sum()} negatives "
        f"of {name} (rows in the role of {_named(columns)})",
    )


def _named(columns: np.ndarray) -> str:
    names = ["anchors", "positives", *(f"negatives {place}" for place in range(1, len(columns)))]
    return " and ".join(names[place] for place in range(len(columns)) if columns[place])

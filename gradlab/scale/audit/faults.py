"""Diagnose wrong gradients: the fault of the loss, its usual cause and the remedy."""

from __future__ import annotations

import numpy as np

from gradlab.scale.audit.gradient_error import Outcome, relative
from gradlab.verdict import BAD, WATCH, Grade, Verdict

# Coefficients below this share of the largest count as 0; float64 gradients give them to 1e-12.
NEGLIGIBLE = 1e-8
# Tolerance of slopes by finite differences, relative to the largest slope.
NEAR = 1e-3
# Share of the largest slope that a loss withholds by design; slopes in float32 are off by less.
CLEARLY = 0.2
# Fault of a loss that takes the mean over a process's own sentences, and what its weights are then.
OWN_MEANS, OF_SENTENCES = "uneven shares, weights of processes", "n / N for n of N sentences"
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
        "and gradients are averaged over P processes",
        "multiply the loss by P; or, if it is that of the whole batch, gather with gradient",
    ),
    "divided by P": (
        "the loss is divided by the number of processes P although gradients are averaged over "
        "them already, or it divides the sum over its own sentences by the number of all",
        "remove the division, or multiply the loss by P",
    ),
    "logit scale": (
        "the temperature or the scale of the logits depends on the number of processes",
        "use the same scale for any number of processes",
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
        "labels count from 0 on every process although the candidates are those of all processes, "
        "or gathered rows stand in another order than labels expect (reversed, interleaved)",
        "add rank x rows to the labels, join gathered rows in the order of processes, or put this "
        "process's own rows first",
    ),
    "wrong positives on one process": (
        "rows were shuffled, sorted or gathered in another order than the labels or the diagonal "
        "expect; the same happens on any number of processes",
        "let row i of the second column be the positive of anchor i, or reorder the labels with "
        "the rows",
    ),
    "missing negatives": (
        "some of what anchors are compared with is not gathered, or is masked",
        "gather all columns that serve as negatives, and mask the anchor's own sentence only",
    ),
    "depends on the split": (
        "own rows are treated differently from gathered ones: a mean, standard deviation or "
        "temperature is computed from them alone, they are counted twice, only one of two "
        "directions is gathered, a constant differs by process, or a mask or labels are those of "
        "the diagonal, where only the block of the first or of this process has its own rows",
        "compute statistics from the rows of all processes (all_reduce with gradient, "
        "SyncBatchNorm), or gather first; shift masks and labels by rank x rows, and leave those "
        "of other blocks negative",
    ),
    "wrong": (
        "not known: no fault that an audit recognises explains these gradients. Among what it "
        "cannot tell apart are a denominator with a row too many (the positive again, padding, all "
        "rows twice) or too few, and several faults at once",
        "mend other faults first and audit again; then take every negative once and the positive "
        "once; or compare one process with two by hand, two sentences each",
    ),
    "fails": (
        "the processes do not make the same collective calls, in the same order, "
        "with the same shapes",
        "make every process call every collective operation, whatever its rows are",
    ),
}


def fault(name: str, text: str) -> Verdict:
    """Return a fault of a loss on several processes as a verdict.

    Args:
        name: short name from `ADVICE`, possibly after the case in which it was found.
        text: the fault, with numbers.
    """
    cause, remedy = ADVICE[name if name in ADVICE else name.partition(", ")[2]]
    finding = f"{text[:1].upper()}{text[1:]}. Usual cause: {cause}."
    change = f"{remedy[:1].upper()}{remedy[1:]}."
    return Verdict("gradient", grade_of(name, text), finding, change, name, "several-gpus-worse")


def grade_of(name: str, text: str) -> Grade:
    """Return the grade of a fault.

    A mean over a process's own sentences is off where shares differ only, and these are equal with
    the samplers of torch and accelerate.
    """
    return WATCH if name == OWN_MEANS and OF_SENTENCES in text else BAD


def find_faults(outcome: Outcome, tolerance: float, depends_on_split: bool) -> list[Verdict]:
    """Return the faults of a case that explain its gradients, and wrong parameter gradients.

    With ``depends_on_split``, gradients change with the assignment of sentences to processes.
    """
    of_parameters = [
        fault(
            "parameter",
            f"the gradient of the loss's parameter {name} is off by {error:.3g} of its "
            "largest entry",
        )
        for name, pair in outcome.parameters.items()
        if (error := relative(*pair)) > tolerance
    ]
    if outcome.error <= tolerance:  # False if the error is NaN
        return of_parameters
    if not np.isfinite(outcome.computed).all():
        text = "the gradients are infinite or not numbers, unlike on one process"
        return [fault("not finite", text), *of_parameters]
    cut = _cut(outcome)
    if cut is None:
        faults = _wrong_function(outcome, tolerance)
    elif cut.name == "cut gradient":
        faults = [cut, *_faults_beside_a_cut(outcome)]
    else:
        faults = [cut]
    if not faults:
        name, text = "wrong", "in a way that is not recognised"
        if depends_on_split:
            name = "depends on the split"
            text = (
                "and change with which process has which sentence, although processes see each "
                "other's rows"
            )
        deviation = f"gradients are off by {outcome.error:.3g} of the largest entry"
        faults = [fault(name, f"{deviation}, {text}")]
    return [*faults, *of_parameters]


def wrong_on_one(outcome: Outcome) -> list[Verdict]:
    """Detect anchors that one process already pulls to another sentence and not to their own."""
    coefficients = _coefficients(outcome)
    if coefficients is None:
        return []
    on_one, count = coefficients[1], len(outcome.case.owners)
    pulled, rows = on_one < -NEGLIGIBLE * abs(on_one).max(), np.arange(count)
    others = (pulled & ~_own_columns(outcome))[:, : 2 * count]
    wrong = ~pulled[rows, count + rows] & others.any(1)
    if wrong.sum() <= count / 2:
        return []
    first = int(np.flatnonzero(wrong)[0])
    text = (
        f"{wrong.sum()} of {count} anchors are pulled to another sentence on one process already: "
        f"sentence {first} of the batch to sentence {int(others[first].argmax()) % count}"
    )
    return [fault("wrong positives on one process", text)]


def cut_on_one(outcome: Outcome) -> str:
    """Return what of its gradient the loss withholds on one process, of columns it depends on."""
    gradient, slopes = outcome.expected, outcome.expected_slopes
    moves = abs(slopes).max(0) > NEAR * abs(slopes).max()
    fixed = moves & ~gradient.any((1, 2))
    withheld = abs(slopes - outcome.slopes_of(gradient)) > CLEARLY * abs(slopes).max()
    partly = ~fixed & withheld.any(0)
    shares = (("no", fixed), ("only a part of its", partly))
    return ", and ".join(
        f"{share} gradient reaches the {_role_names(columns)}"
        for share, columns in shares
        if columns.any()
    )


def _near(array: np.ndarray, expected: np.ndarray) -> np.ndarray:
    scale = max(abs(array).max(), abs(expected).max())
    return np.asarray(abs(array - expected) <= NEAR * scale)


def _trusted(outcome: Outcome) -> np.ndarray:
    """Return which slopes a gradient must have: those that the loss has on one process as well."""
    return _near(outcome.expected_slopes, outcome.slopes_of(outcome.expected))


def _cut(outcome: Outcome) -> Verdict | None:
    """Detect losses that depend on rows without sending them a gradient, or that send none."""
    idle = [str(p) for p, gradient in enumerate(outcome.contributions) if not gradient.any()]
    if idle:
        return fault("no gradient", f"no gradient comes from the loss of process {', '.join(idle)}")
    trusted = _trusted(outcome)
    by_gradient = outcome.slopes_of(outcome.contributions)
    # If each process computes the whole batch's loss, it may leave other gradients to their owners.
    whole = _near(outcome.slopes, outcome.slopes[:1]).all()
    for times in (1, len(outcome.slopes)) if whole else (1,):
        if _near(outcome.slopes.sum(0), times * by_gradient.sum(0))[trusted].all():
            return None
    lost = (~_near(outcome.slopes, by_gradient) & trusted).any((0, 1))
    text = f"the losses depend on the {_role_names(lost)} more than the gradient of these rows says"
    return fault("cut gradient", text) if lost.any() else None


def _faults_beside_a_cut(outcome: Outcome) -> list[Verdict]:
    """Detect what is wrong with the values of losses that also cut gradients, by their slopes."""
    slopes = outcome.slopes.sum(0) / (len(outcome.slopes) if outcome.averaged else 1)
    expected = outcome.expected_slopes
    factor = float((slopes * expected).sum() / (expected * expected).sum())
    if _near(slopes, factor * expected)[_trusted(outcome)].all():
        # Slopes by finite differences give the factor to about NEAR.
        return [] if abs(factor - 1) < 10 * NEAR else [_factor(outcome, float(f"{factor:.3g}"))]
    return _pairs(outcome)


def _wrong_function(outcome: Outcome, tolerance: float) -> list[Verdict]:
    """Detect losses whose gradients are their own but not those of the whole batch's loss."""
    weights = _weights(outcome, tolerance)
    if weights is not None:
        return [weights]
    return _separate(outcome, tolerance) or _logit_scale(outcome) or _pairs(outcome)


def _weights(outcome: Outcome, tolerance: float) -> Verdict | None:
    """Detect losses of processes that are right up to factors, which may be equal."""
    sizes = np.bincount(outcome.case.owners)
    count = len(sizes)
    share = count if outcome.averaged else 1
    target = share * outcome.expected.ravel()
    gradients = outcome.contributions.reshape(count, -1).T
    weights = np.linalg.lstsq(gradients, target, rcond=None)[0]
    if not weights.all() or relative(gradients @ weights, target) > tolerance:
        return None
    if np.ptp(weights) <= 1e-6 * abs(weights).max():
        return _factor(outcome, float(1 / weights.mean()))
    text = (
        "the losses of processes 0, 1, ... should weigh "
        f"{', '.join(f'{weight:.4g}' for weight in weights)}"
    )
    if np.allclose(weights, share * sizes / sizes.sum(), rtol=1e-5):
        text += f", that is {'P ' if outcome.averaged else ''}{OF_SENTENCES}, instead of 1 each"
    return fault("weights of processes", text)


def _factor(outcome: Outcome, factor: float) -> Verdict:
    """Return the fault of gradients that are ``factor`` times too large."""
    count = len(outcome.values)
    name = "factor"
    if abs(factor / count - 1) < 1e-6:
        name = "factor P"
    elif abs(factor * count - 1) < 1e-6:
        # The value tells a division of the loss from gradients that are averaged once too often.
        divided = abs(outcome.mean_value * count - outcome.whole) < NEAR * abs(outcome.whole)
        name = "divided by P" if divided else "factor 1/P"
    return fault(name, f"every gradient is {factor:.6g} times what it should be")


def _separate(outcome: Outcome, tolerance: float) -> list[Verdict]:
    """Detect processes that see their own sentences only, also with a factor on their losses."""
    separate = outcome.separate
    factor = float((outcome.computed * separate).sum() / (separate * separate).sum())
    if relative(outcome.computed, factor * separate) > tolerance:
        return []
    text = (
        "each process computes the loss of its own sentences, as if there were no others; "
        f"gradients are off by {outcome.error:.3g} of the largest entry"
    )
    faults = [fault("separate losses", text)]
    return faults if abs(factor - 1) < 1e-6 else [*faults, _factor(outcome, factor)]


def _coefficients(outcome: Outcome) -> np.ndarray | None:
    """Return the anchors' gradients as sums of the batch's vectors, (2, N, columns N).

    The first are those on P processes, the second those on one; None if they are no such sums.
    """
    vectors = outcome.rows.reshape(-1, outcome.rows.shape[-1])
    gradients = np.stack([outcome.computed[0], outcome.expected[0]])
    coefficients: np.ndarray = gradients @ np.linalg.pinv(vectors)
    return None if relative(coefficients @ vectors, gradients) > 1e-6 else coefficients


def _own_columns(outcome: Outcome) -> np.ndarray:
    """Return the columns, (N, columns N), of an anchor's own sentence, which is no negative."""
    columns, count, _ = outcome.rows.shape
    own = np.tile(np.eye(count, dtype=bool), columns)
    own[:, 2 * count :] = False
    return own


def _logit_scale(outcome: Outcome) -> list[Verdict]:
    """Detect a softmax at another temperature: its log-coefficients are linear in the cosines."""
    coefficients = _coefficients(outcome)
    if coefficients is None:
        return []
    cosines = outcome.rows[0] @ outcome.rows.reshape(-1, outcome.rows.shape[-1]).T
    scales = []
    for pushes in coefficients:
        negative = (pushes > NEGLIGIBLE * abs(pushes).max()) & ~_own_columns(outcome)
        if negative.sum(1).min() < 2:
            return []
        # Deviations from the anchor's mean, in which the denominators cancel.
        logs, angles = (
            np.where(negative, quantity, 0.0)
            - negative * (quantity * negative).sum(1, keepdims=True) / negative.sum(1)[:, None]
            for quantity in (np.log(np.where(negative, pushes, 1.0)), cosines)
        )
        scale = float((logs * angles).sum() / (angles * angles).sum())
        if not _near(logs, scale * angles).all():
            return []
        scales.append(scale)
    scale, expected = scales
    if abs(scale / expected - 1) < NEAR:
        return []
    count = len(outcome.values)
    divided = " (divided by the number of processes)" * (abs(scale * count / expected - 1) < NEAR)
    text = f"the logits are cosines times {scale:.4g}{divided}, on one process times {expected:.4g}"
    return [fault("logit scale", text)]


def _pairs(outcome: Outcome) -> list[Verdict]:
    """Detect pairs of rows that attract or repel each other on one process only."""
    coefficients = _coefficients(outcome)
    if coefficients is None:
        return []
    on_processes, on_one = coefficients  # (N, columns N)
    negligible = NEGLIGIBLE * abs(on_one).max()
    owners, own = outcome.case.owners, _own_columns(outcome)
    pulls = (on_processes < -negligible, on_one < -negligible)
    needed, present = (~own & (abs(array) > negligible) for array in (on_one, on_processes))
    wrong = _wrong_positives(*pulls, on_processes.argmin(1), own, owners)
    missing = _missing(needed, present, owners)
    return [verdict for verdict in (wrong, missing) if verdict is not None]


def _wrong_positives(
    pulled: np.ndarray,
    expected: np.ndarray,
    nearest: np.ndarray,
    own: np.ndarray,
    owners: np.ndarray,
) -> Verdict | None:
    """Detect anchors that are pulled to another sentence, but on one process to their own only."""
    rows, count = np.arange(len(own)), len(own)
    right = expected[rows, count + rows] & ~(expected & ~own).any(1)
    wrong = right & ~pulled[rows, count + rows] & (pulled & ~own).any(1)
    if not wrong.any():
        return None
    first = int(np.flatnonzero(wrong)[0])
    sentence = int(nearest[first] % count)
    return fault(
        "wrong positives",
        f"{wrong.sum()} of {right.sum()} anchors are pulled to another sentence: "
        f"sentence {first} of the batch (process {owners[first]}) "
        f"to sentence {sentence} (process {owners[sentence]})",
    )


def _missing(needed: np.ndarray, present: np.ndarray, owners: np.ndarray) -> Verdict | None:
    """Detect rows of a process that the anchors of some process do not see in some role."""
    count = len(owners)
    places, roles = np.tile(owners, needed.shape[1] // count), np.arange(needed.shape[1]) // count
    lost = np.zeros_like(needed)
    for p, q, role in np.ndindex(owners.max() + 1, owners.max() + 1, roles.max() + 1):
        block = (owners == p)[:, None] & (places == q) & (roles == role) & needed
        if block.sum() >= 3 and not (block & present).any():
            lost |= block
    if not lost.any():
        return None
    across = places != owners[:, None]
    where, name = (
        (across, "other processes") if (lost & across).any() else (~across, "the same process")
    )
    columns = np.array([lost[:, roles == role].any() for role in range(roles.max() + 1)])
    return fault(
        "missing negatives",
        f"anchors do not see {(lost & where).sum()} of {(needed & where).sum()} negatives "
        f"of {name} (rows in the role of {_role_names(columns)})",
    )


def _role_names(columns: np.ndarray) -> str:
    names = ["anchors", "positives", *(f"negatives {place}" for place in range(1, len(columns)))]
    return " and ".join(names[place] for place in range(len(columns)) if columns[place])

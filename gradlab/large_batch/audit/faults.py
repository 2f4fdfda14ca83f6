"""From gradients that are not what they should be to what is wrong with the loss, its usual cause and the mend."""

from __future__ import annotations

import dataclasses

import numpy as np

from gradlab.large_batch.audit.cases import Outcome, relative

# A coefficient below this share of the largest one is none; those of gradients in float64 are good to 1e-12.
NOTHING = 1e-8
# How far the share of the gradient that the vectors of the batch do not span may be from 0.
SPANNED = 1e-6


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that is wrong with a loss on several processes.

    Attributes:
        name: a short name.
        text: what is wrong, with numbers.
        cause: what usually causes it.
        mend: what to do about it.
    """

    name: str
    text: str
    cause: str
    mend: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}\n  usual cause: {self.cause}\n  mend: {self.mend}"


def find_faults(outcome: Outcome, tolerance: float, averaged: bool) -> list[Fault]:
    """What is wrong with the gradients of one case, the plainest explanation first; nothing where they are right.

    Args:
        outcome: of the case.
        tolerance: relative error that counts as none.
        averaged: whether gradients are averaged over the processes (DistributedDataParallel) or summed.
    """
    found = [
        Fault(
            "parameter",
            f"the loss's own parameter {name} receives a gradient that is off by {error:.3g} of its largest entry",
            "the loss is not the same function on every process, or its gradient is scaled",
            "see the other faults; a parameter's gradient is averaged as the encoder's is",
        )
        for name, pair in outcome.parameters.items()
        if (error := relative(*pair)) > tolerance
    ]
    if outcome.error <= tolerance:
        return found
    count = len(outcome.case.shares)
    factor = _factor(outcome.found, outcome.expected, tolerance)
    if factor is not None:
        return [_scaled(factor, count, averaged), *found]
    explained = (
        _by_process(outcome, tolerance)
        or _by_column(outcome, tolerance, count)
        or _by_pairs(outcome)
        or _separate(outcome, tolerance)
        or _cut(outcome)
        or Fault(
            "wrong",
            f"gradients are off by {outcome.error:.3g} of the largest entry, in no way that is known here",
            "unknown",
            "compare the loss on one process and on several by hand, beginning with two sentences each",
        )
    )
    return [explained, *found]


def _factor(found: np.ndarray, expected: np.ndarray, tolerance: float) -> float | None:
    """``f`` where ``found = f expected`` throughout, else None."""
    squares = float((expected * expected).sum())
    if squares == 0:
        return None
    factor = float((found * expected).sum()) / squares
    return factor if relative(found - factor * expected + expected, expected) <= tolerance else None


def _scaled(factor: float, count: int, averaged: bool) -> Fault:
    how = "averages" if averaged else "sums"
    text = f"every gradient is {factor:.6g} times what it should be"
    if abs(factor) < 1e-12:
        return Fault("no gradient", "no gradient reaches the embeddings", "the rows are detached before the loss", "use the rows themselves")  # fmt: skip
    if abs(factor - count) < 1e-6 * count:
        return Fault(
            "factor P",
            f"{text}, the number of processes",
            "the loss is multiplied by the number of processes although the gather already adds up what all processes "
            "send back (that of torch.distributed.nn.functional.all_gather does), or gradients are summed that should be averaged",
            "leave the factor out",
        )
    if abs(factor * count - 1) < 1e-6:
        return Fault(
            "factor 1/P",
            f"{text}, one over the number of processes",
            "every process computes the loss of the whole batch, in which only its own rows carry gradient, and the "
            "average over processes divides once more; or each divides by the number of all sentences",
            "multiply the loss by the number of processes, or gather with gradient",
        )
    return Fault(
        "factor", text, f"a sum instead of a mean or the reverse, where the framework {how} over processes",
        "take the mean over this process's own rows if gradients are averaged",
    )  # fmt: skip


def _by_process(outcome: Outcome, tolerance: float) -> Fault | None:
    """Rows of each process have a factor of their own: each takes the mean over its own rows."""
    if outcome.separate is not None and relative(outcome.found, outcome.separate) <= tolerance:
        return None  # which has another reason than different numbers of rows
    owners = outcome.case.owners
    factors = [
        _factor(outcome.found[:, owners == owner], outcome.expected[:, owners == owner], tolerance)
        for owner in range(len(outcome.case.shares))
    ]
    if any(factor is None for factor in factors):
        return None
    shown = ", ".join(f"{factor:.6g}" for factor in factors)
    return Fault(
        "weights of processes",
        f"gradients of the rows of processes 0, 1, ... are {shown} times what they should be",
        "each process scales by its own number of rows, and the numbers differ",
        "scale by P n / N (n of N sentences on this process), or drop the last incomplete batch",
    )


def _by_column(outcome: Outcome, tolerance: float, count: int) -> Fault | None:
    factors = [
        _factor(found, expected, tolerance)
        for found, expected in zip(outcome.found, outcome.expected, strict=True)
    ]
    if any(factor is None for factor in factors):
        return None
    shown = ", ".join(f"{column_name(place)} {factor:.6g}" for place, factor in enumerate(factors))
    return Fault(
        "factors of columns",
        f"whole columns are scaled: {shown} times what they should be, on {count} processes",
        "one column is gathered with gradient and another without, or one is detached",
        "gather all columns in the same way",
    )


def column_name(place: int) -> str:
    """What column ``place`` holds."""
    return ("anchors", "positives")[place] if place < 2 else f"negatives {place - 1}"


@dataclasses.dataclass(frozen=True)
class _Pairs:
    """Coefficients of each vector's gradient on all others, (CN, CN), and what the pairs are."""

    found: np.ndarray
    expected: np.ndarray
    negative: np.ndarray  # pairs of different sentences that the loss on one process makes use of
    across: np.ndarray  # pairs of different processes
    anchors: np.ndarray  # (CN, 1) which rows are anchors


def _pairs(outcome: Outcome) -> _Pairs | None:
    """None where the gradients are no sums of the batch's vectors."""
    columns, count, dimensions = outcome.rows.shape
    vectors = outcome.rows.reshape(-1, dimensions)
    left, singular, right = np.linalg.svd(vectors, full_matrices=False)
    both = []
    for gradient in (outcome.found, outcome.expected):
        flat = gradient.reshape(-1, dimensions)
        if np.linalg.norm(flat - (flat @ right.T) @ right) > SPANNED * np.linalg.norm(flat):
            return None
        coefficients = (flat @ right.T) / singular @ left.T
        np.fill_diagonal(coefficients, 0)
        both.append(coefficients)
    found, expected = both
    sentence, owner = np.tile(np.arange(count), columns), np.tile(outcome.case.owners, columns)
    different = sentence[:, None] != sentence
    return _Pairs(
        found,
        expected,
        different & (abs(expected) > NOTHING * abs(expected).max()),
        owner[:, None] != owner,
        (np.arange(columns * count) < count)[:, None],
    )


def _by_pairs(outcome: Outcome) -> Fault | None:
    pairs = _pairs(outcome)
    if pairs is None:
        return None
    return _mismatched(outcome, pairs) or _missing(pairs) or _cut(outcome, pairs) or _repeated(pairs)


def _mismatched(outcome: Outcome, pairs: _Pairs) -> Fault | None:
    """Anchors that are drawn to another sentence's row more than to any of their own."""
    count = len(outcome.case.sentences)
    largest = NOTHING * abs(pairs.expected).max()
    expected, found = pairs.expected[:count], pairs.found[:count]
    row = np.arange(count)
    should, does = expected.argmin(1), found.argmin(1)
    pulled = (expected[row, should] < -largest) & (found[row, does] < -largest)
    wrong = pulled & (should % count != does % count)
    if not wrong.any():
        return None
    owners = outcome.case.owners
    first = int(np.flatnonzero(wrong)[0])
    return Fault(
        "wrong positives",
        f"{wrong.sum()} of {pulled.sum()} anchors are drawn to another sentence's row: row {first} of the batch (process "
        f"{owners[first]}) to row {does[first] % count} (process {owners[does[first] % count]})",
        "labels count from 0 on every process although the candidates are those of all processes",
        "add rank x rows to the labels, or put this process's own rows first",
    )


def _missing(pairs: _Pairs) -> Fault | None:
    absent = abs(pairs.found) <= NOTHING * abs(pairs.expected).max()
    for where, name, cause, mend in (
        (
            pairs.across,
            "of other processes",
            "nothing is gathered: each process compares its own rows only",
            "gather the candidates of all processes with gradient (gather_across_devices=True, "
            "torch.distributed.nn.functional.all_gather)",
        ),
        (
            ~pairs.across,
            "of the same process",
            "the own rows are masked, or replaced by those of others",
            "put the own rows in their place among the gathered ones",
        ),
    ):
        wanted = pairs.negative & where & pairs.anchors
        lost = wanted & absent
        if not lost.any():
            continue
        share = f"{lost.sum()} of {wanted.sum()}"
        if lost.sum() < wanted.sum():
            kinds = sorted({int(place) for place in np.flatnonzero(lost.any(0)) // pairs.anchors.sum()})
            name += f", rows in the role of {' and '.join(column_name(kind) for kind in kinds)}"
            cause = "some of what anchors are compared with is gathered, and some is not or is masked"
        return Fault("missing negatives", f"anchors do not see {share} negatives {name}", cause, mend)
    return None


def _cut(outcome: Outcome, pairs: _Pairs | None = None) -> Fault | None:
    """The value is right as a function of all rows, and the gradient is not its derivative."""
    cause = (
        "rows of other processes are gathered without gradient (torch.distributed.all_gather), so that a row receives "
        "nothing from losses that other processes compute"
    )
    mend = "gather with gradient: torch.distributed.nn.functional.all_gather, whose backward adds up what all processes send back"
    if outcome.slopes is not None:
        together, alone, by_gradient = outcome.slopes
        near = 1e-3 * max(abs(alone), abs(together))
        if abs(alone - by_gradient) <= near and abs(together - alone) <= near:
            along = "the loss changes with the rows as it should, but the gradient is not its derivative"
            return Fault("cut gradient", f"{along}: {_lost(pairs)}", cause, mend)
    if pairs is not None:
        absent = abs(pairs.found) <= NOTHING * abs(pairs.expected).max()
        wanted = pairs.negative & pairs.across & ~pairs.anchors
        if (wanted & absent).any():
            return Fault("cut gradient", _lost(pairs), cause, mend)
    return None


def _lost(pairs: _Pairs | None) -> str:
    if pairs is None:
        return "part of it is lost between processes"
    absent = abs(pairs.found) <= NOTHING * abs(pairs.expected).max()
    wanted = pairs.negative & pairs.across
    weakened = abs(pairs.found) < (1 - 1e-6) * abs(pairs.expected)
    return f"of {wanted.sum()} pairs across processes, {(wanted & absent).sum()} lack it and {(wanted & weakened & ~absent).sum()} have a part of it"


def _separate(outcome: Outcome, tolerance: float) -> Fault | None:
    """Every process has computed the loss of its own sentences."""
    if outcome.separate is None or relative(outcome.found, outcome.separate) > tolerance:
        return None
    return Fault(
        "separate losses",
        "each process computes the loss of its own sentences, as if there were no others; gradients are off by "
        f"{outcome.error:.3g} of the largest entry",
        "nothing is gathered, and the loss of a batch is not the mean of those of its parts",
        "use a form of the loss that gathers with gradient; where there is none, the batch that counts is each process's share",
    )


def _repeated(pairs: _Pairs) -> Fault | None:
    """Negatives of one kind weigh a multiple of what they should relative to those of the other kind."""
    negatives = pairs.negative & pairs.anchors
    ratio = np.divide(pairs.found, pairs.expected, out=np.full_like(pairs.found, np.nan), where=negatives)
    rows = np.flatnonzero((negatives & pairs.across).any(1) & (negatives & ~pairs.across).any(1))
    if not len(rows):
        return None
    across = np.array([np.nanmedian(np.where(pairs.across[row], ratio[row], np.nan)) for row in rows])
    within = np.array([np.nanmedian(np.where(pairs.across[row], np.nan, ratio[row])) for row in rows])
    times = across / within
    if np.ptp(times) <= 1e-5 * abs(times).max() and abs(times.mean() - 1) > 1e-5:
        more, name = (
            (times.mean(), "of other processes")
            if times.mean() > 1
            else (1 / times.mean(), "of the same process")
        )
        return Fault(
            "repeated negatives",
            f"negatives {name} count {more:.6g} times as much as the others",
            "the own rows are added to the gathered ones, which hold them already, or rows are gathered twice",
            "take every candidate once",
        )
    spread = [np.ptp(ratio[row][negatives[row]]) / abs(np.nanmedian(ratio[row])) for row in rows]
    if max(spread) <= 1e-5:
        low, high = (
            np.nanmedian(ratio[rows], axis=1)[order]
            for order in np.nanmedian(ratio[rows], axis=1).argsort()[[0, -1]]
        )
        return Fault(
            "repeated negatives",
            f"each anchor's negatives keep their proportions, but together weigh {low:.4g} to {high:.4g} times what they should",
            "all negatives enter the denominator several times, or the positive is among them or missing from it",
            "take every candidate once, and the positive once",
        )
    return None

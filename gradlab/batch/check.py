"""`check_batch`: checks the two views of a batch and refuses bad input before a loss sees it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from gradlab.arrays import (
    Array,
    Bool,
    Float,
    Int,
    Real,
    at_least_single,
    compiled,
    detach,
    dtype_name,
    require,
    unit_rows,
)
from gradlab.batch.batch import Batch
from gradlab.batch.candidates import (
    DEFAULT_CANDIDATES,
    UNSUPERVISED,
    Candidates,
    Supervision,
    candidate_counts,
)
from gradlab.batch.roles import Labelled
from gradlab.errors import GradlabError

# Arguments of `check_batch` beside embeddings: functions of a loss pass them on, and they reach a
# loss given as code whose signature has them.
CONTEXT = ("owners", "guide", "mask", "sentences", "labels", "relation", "scores", "teacher")
# Largest deviation of a row's norm from 1: about sixteen rounding errors of a norm in that dtype,
# by the text of the dtype in numpy and in torch.
NORM_TOLERANCE = {"float64": 4e-15, "float32": 2e-6, "float16": 1.6e-2, "bfloat16": 6.3e-2}
NORM_TOLERANCE |= {f"torch.{name}": tolerance for name, tolerance in NORM_TOLERANCE.items()}
# Norms of float32 and float64, by bytes, whose squares neither overflow nor lose digits.
NORM_LIMITS = {
    int(limits.bits) // 8: (
        2.0**12 * float(limits.smallest_normal) ** 0.5, float(limits.max) ** 0.5 / 2.0**12
    )
    for limits in (np.finfo(np.float32), np.finfo(np.float64))
}  # fmt: skip


def check_batch(
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    normalize: bool = False,
    in_batch_negatives: bool = True,
    negatives_elsewhere: bool = False,
    own_negatives: Float[Array, "n h d"] | None = None,
    owners: Int[Array, "m"] | Sequence[int] | None = None,
    guide: Sequence[Float[Array, "*_ width"]] | None = None,
    mask: Bool[Array, "n _"] | Sequence[Sequence[bool]] | None = None,
    sentences: Int[Array, "k"] | Sequence[int] | None = None,
    labels: Int[Array, "n"] | Sequence[int] | None = None,
    relation: Int[Array, "n c"] | Sequence[Sequence[int]] | None = None,
    scores: Real[Array, "n"] | Sequence[float] | None = None,
    teacher: Any = None,
) -> Batch:
    """Check two views of a batch and return them as a `Batch`; half-precision rows become float32.

    Args:
        anchors: (n, d), numpy or torch, floating point; at least 2 rows unless there are other
            negatives.
        positives: (n, d); row i is the other view of the sentence in row i.
        extra_negatives: (m, d), negatives of every anchor, or None.
        normalize: divide every row by its norm instead of requiring unit rows.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        negatives_elsewhere: whether other processes hold negatives, so that none are required here.
        own_negatives: (n, h, d), unit rows: h negatives of each anchor that no other has, or None.
        owners: (m,), the row of the sentence whose hard negative each extra negative is,
            or -1 for none.
        guide: embeddings of the same sentences by another model, of any norm and dimension:
            anchors, positives and, if the batch has them, extra negatives and own negatives.
        mask: (n, n), (n, n + m) or (n, n + m + h), True where positive j (or an extra or own
            negative) is not a negative of anchor i. The other direction of a symmetric loss reads
            the first n columns transposed; within a view, entry (i, j) refers to sentences i and j.
        sentences: whole numbers that identify the sentences outside the batch: (n,); (n + m,) with
            the extra negatives, -1 for those without a number; (n + m + n h,) with the own ones
            too, row by row.
        labels: (n,) whole numbers. In losses of several positives, rows with the anchor's label are
            its positives; in other losses of pairs, they are not negatives; in losses of whole
            views, labels are ignored.
        relation: (n, C), instead of labels: 1 for a positive, -1 for a negative, 0 for neither. The
            columns are those of the loss's weight; the positive is column i, or the first if there
            are no in-batch negatives.
        scores: (n,), similarity of each pair's sentences, in any unit, for losses of graded pairs.
        teacher: a teacher's scores of candidates, (n, C), or embeddings as in ``guide``; detached.

    Raises:
        GradlabError: wrong kind, shape or dtype; NaN; zero rows; rows that are not unit-norm; no
            negatives; arguments that do not fit the batch.
    """
    embeddings = {"anchors": anchors, "positives": positives}
    if extra_negatives is not None:
        embeddings["extra_negatives"] = extra_negatives
    if own_negatives is not None:
        embeddings["own_negatives"] = own_negatives
    _check_shapes(embeddings, in_batch_negatives, negatives_elsewhere)
    rows = dict(zip(embeddings, _check_norms(embeddings, normalize), strict=True))
    embedded = isinstance(teacher, (tuple, list))
    of_candidates = {
        "labels": labels,
        "relation": relation,
        "scores": scores,
        "teacher": None if embedded else teacher,
    }
    arguments = of_candidates | {"owners": owners, "mask": mask, "sentences": sentences}
    present = {name: argument for name, argument in arguments.items() if argument is not None}
    arrays = {}
    if present:
        arrays = _check_arguments(present, embeddings, in_batch_negatives, negatives_elsewhere)
    if relation is not None:
        _check_relation(arrays["relation"])
    ruled = labels is not None or relation is not None
    supervision = {name: arrays.pop(name) for name in of_candidates if name in arrays}
    return Batch(
        **rows,
        supervision=Supervision(**supervision) if supervision else UNSUPERVISED,
        **arrays,
        teacher=_check_embeddings("teacher", teacher, embeddings) if embedded else None,
        candidates=Candidates(rules=(Labelled(),)) if ruled else DEFAULT_CANDIDATES,
        in_batch_negatives=in_batch_negatives,
        guide=None if guide is None else _check_embeddings("guide", guide, embeddings),
    )


def _check_shapes(
    embeddings: Mapping[str, Any], in_batch_negatives: bool, negatives_elsewhere: bool
) -> None:
    """Check kinds and shapes of all embeddings, and that there are negatives."""
    anchors = embeddings["anchors"]
    count = 0
    for name, rows in embeddings.items():
        _check_kind(name, rows, anchors)
        if name == "anchors" and in_batch_negatives:
            count = anchors.shape[0] - 1
        if name == "positives" and rows.shape != anchors.shape:
            raise GradlabError(
                f"anchors have shape {tuple(anchors.shape)} but positives {tuple(rows.shape)}; "
                "row i of both must be the two views of sentence i"
            )
        if name not in ("extra_negatives", "own_negatives"):
            continue
        count += rows.shape[0]
        if rows.shape[-1] != anchors.shape[1]:
            raise GradlabError(
                f"{name} have {rows.shape[-1]} dimensions but the views have {anchors.shape[1]}"
            )
        if name == "own_negatives" and rows.shape[0] != anchors.shape[0]:
            raise GradlabError(
                f"own_negatives have shape {tuple(rows.shape)}, but there are "
                f"{anchors.shape[0]} anchors; entry i must be the negatives of anchor i"
            )
    if count < 1 and not negatives_elsewhere:
        raise GradlabError(
            f"a batch of {anchors.shape[0]} leaves no negatives; give at least 2 sentences, "
            "extra_negatives or own_negatives"
        )


# Kinds of numbers in the arguments of `check_batch`: the word for people, and their dtypes.
WHOLE, NUMBERS, BOOLEANS = (
    ("whole numbers", "integral"),
    ("numbers", ("integral", "real floating")),
    ("booleans", "bool"),
)
ARGUMENT_KINDS: dict[str, tuple[str, Any]] = {
    "owners": WHOLE,
    "mask": BOOLEANS,
    "sentences": WHOLE,
    "labels": WHOLE,
    "relation": WHOLE,
    "scores": NUMBERS,
    "teacher": NUMBERS,
}


def _shapes(
    embeddings: Mapping[str, Array], in_batch_negatives: bool, negatives_elsewhere: bool
) -> dict[str, list[tuple[int, ...]]]:
    """Return the shapes that each argument may have; empty for any number of columns."""
    n: int = embeddings["anchors"].shape[0]
    m, h = (
        embeddings[kind].shape[-2] if kind in embeddings else 0
        for kind in ("extra_negatives", "own_negatives")
    )
    widths = candidate_counts(n, m, h, in_batch_negatives)
    of_candidates: list[tuple[int, ...]] = [(n, width) for width in widths]
    if negatives_elsewhere:
        of_candidates = []
    return {
        "owners": [(m,)],
        "mask": [(n, n), (n, n + m), (n, n + m + h)],
        "sentences": [(n,), (n + m,), (n + m + n * h,)],
        "labels": [(n,)],
        "relation": of_candidates,
        "scores": [(n,)],
        "teacher": of_candidates,
    }


def _check_arguments(
    arguments: Mapping[str, Any],
    embeddings: Mapping[str, Array],
    in_batch_negatives: bool,
    negatives_elsewhere: bool,
) -> dict[str, Array]:
    """Check arguments beside the ``embeddings``; return them as arrays."""
    if "labels" in arguments and "relation" in arguments:
        raise GradlabError(
            "labels and relation both say which candidates are positives; give one of them"
        )
    shapes = _shapes(embeddings, in_batch_negatives, negatives_elsewhere)
    return {
        name: _check_argument(name, argument, embeddings["anchors"], shapes)
        for name, argument in arguments.items()
    }


def _check_argument(
    name: str, argument: Any, anchors: Array, shapes: Mapping[str, Sequence[tuple[int, ...]]]
) -> Array:
    """Check one keyword argument of `check_batch` and return it as an array beside the anchors."""
    xp, array, n = array_namespace(anchors), _as_array(name, argument, anchors), anchors.shape[0]
    kind, dtype = ARGUMENT_KINDS[name]
    shape = tuple(array.shape)
    # Processes that share a batch have more columns than this one can count.
    fits = shape in shapes[name] if shapes[name] else len(shape) == 2 and shape[0] == n
    if not fits or not xp.isdtype(array.dtype, dtype):
        allowed = " or ".join(map(str, dict.fromkeys(shapes[name]))) or f"({n}, candidates)"
        m, h = shapes["owners"][0][0], shapes["mask"][2][1] - shapes["mask"][1][1]
        raise GradlabError(
            f"{name} must be {kind} of shape {allowed}, not {dtype_name(array)} of shape {shape}; "
            f"there are {n} anchors, {m} extra negatives and {h} own negatives of each"
        )
    if name == "owners":
        message = (
            f"owners must be row numbers from 0 to {n - 1}, or -1 for extra negatives of nobody"
        )
        require(xp.all((array >= -1) & (array < n)), message)
    if name in ("labels", "relation"):
        return xp.astype(array, xp.int64)
    if name not in ("scores", "teacher"):
        return array
    require(xp.all(xp.isfinite(array)), f"{name} contains NaN or infinite values")
    return detach(xp.astype(array, at_least_single(anchors).dtype))


def _check_relation(relation: Int[Array, "n c"]) -> None:
    xp = array_namespace(relation)
    message = "relation must be 1 (positive), -1 (negative) or 0 (left out) throughout"
    require(xp.all((relation >= -1) & (relation <= 1)), message)
    if compiled(relation):
        return
    if lacking := int(xp.sum(xp.astype(~xp.any(relation == 1, axis=-1), xp.int64))):
        warnings.warn(
            f"{lacking} of {relation.shape[0]} rows of relation have no positive; "
            "their anchors are left out",
            stacklevel=3,
        )


def _check_embeddings(role: str, embeddings: Sequence[Any], batch: Mapping[str, Array]) -> Batch:
    """Return embeddings of the batch by another model, detached, as unit rows in its dtype."""
    names, anchors = list(batch), batch["anchors"]
    if not isinstance(embeddings, (tuple, list)):
        raise GradlabError(
            f"the {role} must be a tuple of embeddings, of {', '.join(names)}, not "
            f"{type(embeddings).__name__}"
        )
    if len(embeddings) != len(names):
        raise GradlabError(
            f"the {role} must be embeddings of {', '.join(names)}, not of {len(embeddings)} columns"
        )
    columns = dict(zip((f"the {role}'s {name}" for name in names), embeddings, strict=True))
    for (name, rows), like in zip(columns.items(), batch.values(), strict=True):
        _check_kind(name, rows, embeddings[0])
        if is_torch_array(rows) != is_torch_array(anchors) or rows.device != anchors.device:
            raise GradlabError(
                f"{name} must be of the same kind and on the same device as the anchors, "
                "numpy or torch"
            )
        if rows.shape[:-1] != like.shape[:-1] or rows.shape[-1] != embeddings[0].shape[-1]:
            raise GradlabError(
                f"{name} have shape {tuple(rows.shape)}, but those of the batch "
                f"{tuple(like.shape)}; give the {role}'s embeddings of the same batch"
            )
    xp, dtype = array_namespace(anchors), at_least_single(anchors).dtype
    if embeddings[0].dtype != dtype:
        # Norms in the wider of both dtypes: each conversion then rounds only once.
        wider = xp.result_type(at_least_single(embeddings[0]).dtype, dtype)
        columns = {name: xp.astype(rows, wider) for name, rows in columns.items()}
    rows = {
        name: xp.astype(detach(unit), dtype)
        for name, unit in zip(names, _check_norms(columns, True), strict=True)
    }
    # Passed explicitly, because torch.compile cannot trace the default values.
    return Batch(**rows, supervision=UNSUPERVISED, candidates=DEFAULT_CANDIDATES)


def _as_array(name: str, argument: Any, anchors: Array) -> Array:
    """Convert an argument to an array of the anchors' kind and device."""
    if is_torch_array(argument) != is_torch_array(anchors) and is_torch_array(argument):
        argument = argument.cpu().numpy()
    try:
        return array_namespace(anchors).asarray(argument, device=anchors.device)
    except (ValueError, TypeError, RuntimeError):
        raise GradlabError(
            f"{name} must be one array, not {type(argument).__name__} of {str(argument)[:60]!r}"
        ) from None


def _check_kind(name: str, rows: Any, like: Any) -> None:
    if not (is_torch_array(rows) or is_numpy_array(rows)):
        raise GradlabError(
            f"{name} must be a numpy array or a torch tensor, not {type(rows).__name__}"
        )
    if type(rows).__module__.split(".")[0] != type(like).__module__.split(".")[0]:
        raise GradlabError(f"{name} and anchors must both be numpy arrays or both torch tensors")
    shape = (
        "(anchors, negatives of each, dimensions)"
        if name.endswith("own_negatives")
        else "(sentences, dimensions)"
    )
    if rows.ndim != shape.count(",") + 1 or 0 in rows.shape:
        raise GradlabError(f"{name} must have shape {shape}, not {tuple(rows.shape)}")
    if (rows is like or rows.dtype != like.dtype) and str(rows.dtype) not in NORM_TOLERANCE:
        raise GradlabError(f"{name} must be floating point, not {dtype_name(rows)}")
    if rows.dtype != like.dtype or rows.device != like.device:
        raise GradlabError(
            f"{name} ({dtype_name(rows)} on {rows.device}) and anchors "
            f"({dtype_name(like)} on {like.device}) must have one dtype and one device"
        )


def _check_norms(embeddings: Mapping[str, Float[Array, "*_ d"]], normalize: bool) -> list[Array]:
    """Return the rows, normalised if asked for; the norms of all are read from a GPU at once.

    All rows have one dtype.
    """
    # Unannotated shapes: jaxtyping checks lists at random, which would change `random`'s state.
    columns = list(embeddings.values())
    tolerance = NORM_TOLERANCE[str(columns[0].dtype)]
    if columns[0].dtype.itemsize == 2:
        columns = [at_least_single(rows) for rows in columns]
    xp = array_namespace(*columns)
    norms = [_norms(rows) for rows in columns]
    # The largest deviation and the smallest norm of each; NaN if any entry is NaN.
    extremes = [bound for norm in norms for bound in (xp.max(xp.abs(norm - 1)), xp.min(norm))]
    if compiled(columns[0]):
        for name, worst, least in zip(embeddings, extremes[::2], extremes[1::2], strict=True):
            fine = xp.isfinite(worst) & (least > 0)
            if not normalize:
                fine = fine & (worst <= tolerance)
            require(
                fine, f"{name} must be {'finite and not zero' if normalize else 'unit vectors'}"
            )
        return [unit_rows(rows) if normalize else rows for rows in columns]
    checked = []
    bounds = xp.stack(extremes).tolist()
    for name, rows, worst, least in zip(
        embeddings, columns, bounds[::2], bounds[1::2], strict=True
    ):
        limits = NORM_LIMITS[rows.dtype.itemsize]
        # Squares outside this range overflow or lose digits.
        if not limits[0] < least or not worst < limits[1]:
            rescaled = _rescaled(name, rows)
            rows = rescaled if normalize else rows
        if not normalize and not worst <= tolerance:
            single = worst <= NORM_TOLERANCE["float32"]
            raise GradlabError(
                f"{name} are not unit vectors (a norm is off by {worst:.2g}"
                f"{', as float32 rounds it' if single else ''}); divide rows by "
                f"their norms{' in ' + dtype_name(rows) if single else ''} or pass normalize=True"
            )
        checked.append(unit_rows(rows) if normalize else rows)
    return checked


def _norms(rows: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    """Return the norms of rows, infinite if their squares overflow, without numpy's warning."""
    if is_torch_array(rows):
        return array_namespace(rows).linalg.vector_norm(rows.detach(), axis=-1)
    with np.errstate(over="ignore"):
        return np.linalg.vector_norm(rows, axis=-1)


def _rescaled(name: str, rows: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Return rows of extreme norms, each divided by its largest entry.

    Raises:
        GradlabError: a row has NaN or infinite entries, or only zeros.
    """
    xp = array_namespace(rows)
    largest = xp.max(xp.abs(detach(rows)), axis=-1)
    if not bool(xp.all(xp.isfinite(largest))):
        raise GradlabError(f"{name} contain NaN or infinite values")
    if bool(xp.any(largest == 0)):
        raise GradlabError(f"{name} contain a row of zeros, which has no direction")
    return rows / largest[..., None]

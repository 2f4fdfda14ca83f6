"""`check_batch`: checks the two views of a batch and refuses bad input before a loss sees it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

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
)
from gradlab.batch.batch import Batch, unit_rows
from gradlab.batch.candidates import USUAL, Candidates, Known, Labelled
from gradlab.errors import GradlabError

# Largest deviation of a row's norm from 1: about sixteen rounding errors of a norm in that dtype.
NORM_TOLERANCE = {"float64": 4e-15, "float32": 2e-6, "float16": 1.6e-2, "bfloat16": 6.3e-2}


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
    named = {"anchors": anchors, "positives": positives}
    for name, rows in (("extra_negatives", extra_negatives), ("own_negatives", own_negatives)):
        if rows is not None:
            named[name] = rows
    for name, rows in named.items():
        _check_kind(name, rows, anchors)
    if anchors.shape != positives.shape:
        raise GradlabError(
            f"anchors have shape {tuple(anchors.shape)} but positives {tuple(positives.shape)}; "
            "row i of both must be the two views of sentence i"
        )
    for name in [name for name in named if name.endswith("_negatives")]:
        if named[name].shape[-1] != anchors.shape[1]:
            raise GradlabError(
                f"{name} have {named[name].shape[-1]} dimensions but the views have "
                f"{anchors.shape[1]}"
            )
    if own_negatives is not None and own_negatives.shape[0] != anchors.shape[0]:
        raise GradlabError(
            f"own_negatives have shape {tuple(own_negatives.shape)}, but there are "
            f"{anchors.shape[0]} anchors; entry i must be the negatives of anchor i"
        )
    count = (anchors.shape[0] - 1 if in_batch_negatives else 0) + sum(
        len(rows) for name, rows in named.items() if name.endswith("_negatives")
    )
    if count < 1 and not negatives_elsewhere:
        raise GradlabError(
            f"a batch of {anchors.shape[0]} leaves no negatives; give at least 2 sentences, "
            "extra_negatives or own_negatives"
        )
    rows = dict(zip(named, _check_norms(named, normalize), strict=True))
    embedded = isinstance(teacher, (tuple, list))
    known = {
        "labels": labels,
        "relation": relation,
        "scores": scores,
        "teacher": None if embedded else teacher,
    }
    given = known | {"owners": owners, "mask": mask, "sentences": sentences}
    told = {name: _check_told(name, one, named) for name, one in given.items() if one is not None}
    if labels is not None and relation is not None:
        raise GradlabError(
            "labels and relation both say which candidates are positives; give one of them"
        )
    if relation is not None:
        _check_relation(told["relation"])
    ruled = labels is not None or relation is not None
    return Batch(
        **rows,
        known=Known(**{name: told.pop(name) for name in known if name in told}),
        **told,
        teacher=_check_guide(teacher, named, "teacher") if embedded else None,
        candidates=Candidates(rules=(Labelled(),)) if ruled else USUAL,
        in_batch_negatives=in_batch_negatives,
        guide=None if guide is None else _check_guide(guide, named),
    )


def _check_told(name: str, given: Any, batch: dict[str, Array]) -> Array:
    """Check one keyword argument of `check_batch` and return it as an array beside the anchors."""
    anchors = batch["anchors"]
    xp, found, n = array_namespace(anchors), _as_array(name, given, anchors), anchors.shape[0]
    m, h = (
        batch[kind].shape[-2] if kind in batch else 0
        for kind in ("extra_negatives", "own_negatives")
    )
    shape = tuple(found.shape)
    any_length = shape[1] if len(shape) == 2 else "candidates"
    kinds: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
        "owners": ("whole numbers", [(m,)]),
        "mask": ("booleans", [(n, n), (n, n + m), (n, n + m + h)]),
        "sentences": ("whole numbers", [(n,), (n + m,), (n + m + n * h,)]),
        "labels": ("whole numbers", [(n,)]),
        "relation": ("whole numbers", [(n, any_length)]),
        "scores": ("numbers", [(n,)]),
        "teacher": ("numbers", [(n, any_length)]),
    }
    words, shapes = kinds[name]
    dtype = {
        "whole numbers": "integral",
        "booleans": "bool",
        "numbers": ("integral", "real floating"),
    }[words]
    if shape not in shapes or not xp.isdtype(found.dtype, dtype):
        wanted = " or ".join(str(one).replace("'", "") for one in dict.fromkeys(shapes))
        raise GradlabError(
            f"{name} must be {words} of shape {wanted}, not {dtype_name(found)} of shape {shape}; "
            f"there are {n} anchors, {m} extra negatives and {h} own negatives of each"
        )
    if name == "owners":
        message = (
            f"owners must be row numbers from 0 to {n - 1}, or -1 for extra negatives of nobody"
        )
        require(xp.all((found >= -1) & (found < n)), message)
    if name in ("labels", "relation"):
        return xp.astype(found, xp.int64)
    if name not in ("scores", "teacher"):
        return found
    require(xp.all(xp.isfinite(found)), f"{name} contains NaN or infinite values")
    return detach(xp.astype(found, at_least_single(anchors).dtype))


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


def _check_guide(guide: Sequence[Any], batch: dict[str, Array], who: str = "guide") -> Batch:
    names, anchors = list(batch), batch["anchors"]
    if not isinstance(guide, (tuple, list)):
        raise GradlabError(
            f"the {who} must be a tuple of embeddings, of {', '.join(names)}, not "
            f"{type(guide).__name__}"
        )
    if len(guide) != len(names):
        raise GradlabError(
            f"the {who} must be embeddings of {', '.join(names)}, not of {len(guide)} columns"
        )
    given = dict(zip((f"the {who}'s {name}" for name in names), guide, strict=True))
    for (name, rows), like in zip(given.items(), batch.values(), strict=True):
        _check_kind(name, rows, guide[0])
        if is_torch_array(rows) != is_torch_array(anchors) or rows.device != anchors.device:
            raise GradlabError(
                f"{name} must be of the same kind and on the same device as the anchors, "
                "numpy or torch"
            )
        if rows.shape[:-1] != like.shape[:-1] or rows.shape[-1] != guide[0].shape[-1]:
            raise GradlabError(
                f"{name} have shape {tuple(rows.shape)}, but those of the batch "
                f"{tuple(like.shape)}; give the {who}'s embeddings of the same batch"
            )
    rows = {name: detach(one) for name, one in zip(names, _check_norms(given, True), strict=True)}
    # Passed explicitly, because torch.compile cannot trace the default values.
    return Batch(**rows, known=Known(), candidates=USUAL)


def _as_array(name: str, given: Any, anchors: Array) -> Array:
    """Convert an argument to an array of the anchors' kind and device."""
    if is_torch_array(given) != is_torch_array(anchors) and is_torch_array(given):
        given = given.cpu().numpy()
    try:
        return array_namespace(anchors).asarray(given, device=anchors.device)
    except (ValueError, TypeError, RuntimeError):
        raise GradlabError(
            f"{name} must be one array, not {type(given).__name__} of {str(given)[:60]!r}"
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
    if dtype_name(rows) not in NORM_TOLERANCE:
        raise GradlabError(f"{name} must be floating point, not {dtype_name(rows)}")
    if rows.dtype != like.dtype or rows.device != like.device:
        raise GradlabError(
            f"{name} ({dtype_name(rows)} on {rows.device}) and anchors "
            f"({dtype_name(like)} on {like.device}) must have one dtype and one device"
        )


def _check_norms(named: Mapping[str, Float[Array, "*_ d"]], normalize: bool) -> list[Array]:
    """Return the rows, normalised if asked for; the norms of all are read from a GPU at once."""
    # Unannotated shapes: jaxtyping checks lists at random, which would change `random`'s state.
    parts = [at_least_single(rows) for rows in named.values()]
    xp = array_namespace(*parts)
    norms = [xp.linalg.vector_norm(detach(rows), axis=-1) for rows in parts]
    # The largest is NaN if any entry is NaN.
    ends = [end for one in norms for end in (xp.max(xp.abs(one - 1)), xp.min(one))]
    if compiled(parts[0]):
        for name, worst, least in zip(named, ends[::2], ends[1::2], strict=True):
            fine = xp.isfinite(worst) & (least > 0)
            if not normalize:
                fine = fine & (worst <= NORM_TOLERANCE[dtype_name(named[name])])
            require(
                fine, f"{name} must be {'finite and not zero' if normalize else 'unit vectors'}"
            )
        return [unit_rows(rows) if normalize else rows for rows in parts]
    ends = xp.stack(ends).tolist()
    checked = []
    for name, rows, worst, least in zip(named, parts, ends[::2], ends[1::2], strict=True):
        fine = worst <= NORM_TOLERANCE[dtype_name(named[name])]
        if not math.isfinite(worst):
            raise GradlabError(f"{name} contain NaN or infinite values")
        if least == 0:
            raise GradlabError(f"{name} contain a row of zeros, which has no direction")
        if not fine and not normalize:
            raise GradlabError(
                f"{name} are not unit vectors (a norm is off by {worst:.2g}); divide rows by "
                "their norms or pass normalize=True"
            )
        checked.append(unit_rows(rows) if normalize else rows)
    return checked

"""Bad input is refused here: two views of a batch are checked once, before any loss sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from gradlab.arrays import Array, Bool, Float, Int, at_least_single, detach
from gradlab.batch.batch import Batch, unit_rows
from gradlab.errors import GradlabError

# How far a row's norm may be from 1: about sixteen roundings of a norm in that dtype.
NORM_TOLERANCE = {"float64": 4e-15, "float32": 2e-6, "float16": 1.6e-2, "bfloat16": 6.3e-2}


def check_batch(
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    normalize: bool = False,
    in_batch_negatives: bool = True,
    negatives_elsewhere: bool = False,
    owners: Int[Array, "m"] | Sequence[int] | None = None,
    guide: Sequence[Float[Array, "_ width"]] | None = None,
    mask: Bool[Array, "n _"] | Sequence[Sequence[bool]] | None = None,
    sentences: Int[Array, "k"] | Sequence[int] | None = None,
) -> Batch:
    """Check two views of a batch and return them as `Batch`; rows of half precision in float32.

    Args:
        anchors: at least 2 unless there are extra negatives; numpy or torch, floating point.
        positives: row i the other view of the sentence in row i.
        extra_negatives: of every anchor, or None.
        normalize: divide every row by its norm instead of asking for unit rows.
        in_batch_negatives: whether the other sentences of the batch are negatives.
        negatives_elsewhere: whether other processes have negatives, so that there need be none here.
        owners: the row of the sentence whose hard negative each extra negative is, -1 for none.
        guide: embeddings of the same sentences by another model, of any length and dimension: anchors, positives and, where
            there are, extra negatives.
        mask: (n, n) or (n, n + m), True where sentence j (or an extra negative) is no negative of sentence i.
        sentences: (n,) whole numbers by which the sentences are known outside of the batch, or (n + m,) with those of the extra
            negatives, -1 for such as have none.

    Raises:
        GradlabError: wrong kind, shape or dtype; NaN; zero rows; rows that are not unit-norm; no negatives; owners, guide, mask
            or sentences of another batch.
    """
    named = {"anchors": anchors, "positives": positives}
    if extra_negatives is not None:
        named["extra_negatives"] = extra_negatives
    for name, rows in named.items():
        _check_kind(name, rows, anchors)
    if anchors.shape != positives.shape:
        raise GradlabError(
            f"anchors have shape {tuple(anchors.shape)} but positives {tuple(positives.shape)}; "
            "row i of both must be the two views of sentence i"
        )
    if extra_negatives is not None and extra_negatives.shape[1] != anchors.shape[1]:
        raise GradlabError(
            f"extra_negatives have {extra_negatives.shape[1]} dimensions but the views have {anchors.shape[1]}"
        )
    count = (anchors.shape[0] - 1 if in_batch_negatives else 0) + (
        0 if extra_negatives is None else extra_negatives.shape[0]
    )
    if count < 1 and not negatives_elsewhere:
        raise GradlabError(
            f"a batch of {anchors.shape[0]} leaves no negatives; give at least 2 sentences or extra_negatives"
        )
    checked = _check_norms(named, normalize)
    extra = checked[2] if len(checked) == 3 else None
    return Batch(
        checked[0],
        checked[1],
        extra,
        in_batch_negatives,
        None if owners is None else _check_owners(owners, anchors, extra),
        None if guide is None else _check_guide(guide, anchors, extra),
        None if mask is None else _check_mask(mask, anchors, extra),
        None if sentences is None else _check_sentences(sentences, anchors, extra),
    )


def _check_guide(
    guide: Sequence[Any], anchors: Float[Array, "n d"], extra_negatives: Float[Array, "m d"] | None
) -> Batch:
    wanted = [anchors.shape[0]] * 2 + ([] if extra_negatives is None else [extra_negatives.shape[0]])
    names = ("anchors", "positives", "extra_negatives")
    if not isinstance(guide, (tuple, list)):
        raise GradlabError(
            f"the guide must be a tuple of embeddings, of {', '.join(names[: len(wanted)])}, not {type(guide).__name__}"
        )
    if len(guide) != len(wanted):
        raise GradlabError(
            f"the guide must be embeddings of {', '.join(names[: len(wanted)])}, not of {len(guide)} columns"
        )
    for name, rows, count in zip(names, guide, wanted, strict=False):
        _check_kind(f"the guide's {name}", rows, guide[0])
        if is_torch_array(rows) != is_torch_array(anchors) or rows.device != anchors.device:
            raise GradlabError(
                f"the guide's {name} must be of the same kind and on the same device as the anchors, numpy or torch"
            )
        if rows.shape[0] != count or rows.shape[1] != guide[0].shape[1]:
            raise GradlabError(
                f"the guide's {name} have shape {tuple(rows.shape)}, but the batch has {count} {name}; give the "
                "guide's embeddings of the same batch"
            )
    checked = _check_norms(
        {f"the guide's {name}": rows for name, rows in zip(names, guide, strict=False)}, True
    )
    return Batch(checked[0], checked[1], checked[2] if len(checked) == 3 else None)


def _as_array(name: str, given: Any, anchors: Array) -> Array:
    """What a user gave, as an array beside the anchors."""
    if is_torch_array(given) != is_torch_array(anchors) and is_torch_array(given):
        given = given.cpu().numpy()
    try:
        return array_namespace(anchors).asarray(given, device=anchors.device)
    except (ValueError, TypeError, RuntimeError):
        raise GradlabError(
            f"{name} must be one array, not {type(given).__name__} of {str(given)[:60]!r}"
        ) from None


def _check_mask(
    mask: Any, anchors: Float[Array, "n d"], extra_negatives: Float[Array, "m d"] | None
) -> Bool[Array, "n _"]:
    xp = array_namespace(anchors)
    found = _as_array("mask", mask, anchors)
    n, extra = anchors.shape[0], 0 if extra_negatives is None else extra_negatives.shape[0]
    if found.dtype != xp.bool or tuple(found.shape) not in {(n, n), (n, n + extra)}:
        columns = f"({n}, {n})" + (f" or ({n}, {n + extra})" if extra else "")
        raise GradlabError(
            f"mask must be booleans of shape {columns}, not {_dtype_name(found)} of shape {tuple(found.shape)}"
        )
    return found


def _check_sentences(
    sentences: Any, anchors: Float[Array, "n d"], extra_negatives: Float[Array, "m d"] | None
) -> Int[Array, "k"]:
    xp = array_namespace(anchors)
    found = _as_array("sentences", sentences, anchors)
    n, extra = anchors.shape[0], 0 if extra_negatives is None else extra_negatives.shape[0]
    if tuple(found.shape) not in {(n,), (n + extra,)} or not xp.isdtype(found.dtype, "integral"):
        more = f" (or {n + extra}, with the extra negatives)" if extra else ""
        raise GradlabError(
            f"sentences must be {n} whole numbers, one for each row of the batch{more}, not "
            f"{_dtype_name(found)} of shape {tuple(found.shape)}"
        )
    return found


def _check_owners(
    owners: Any, anchors: Float[Array, "n d"], extra_negatives: Float[Array, "m d"] | None
) -> Int[Array, "m"]:
    xp = array_namespace(anchors)
    count = 0 if extra_negatives is None else extra_negatives.shape[0]
    found = xp.asarray(owners, device=anchors.device)
    if tuple(found.shape) != (count,):
        raise GradlabError(
            f"owners have shape {tuple(found.shape)}, but there are {count} extra negatives; give one row number for each"
        )
    if xp.isdtype(found.dtype, "integral") and bool(xp.all((found >= -1) & (found < anchors.shape[0]))):
        return found
    raise GradlabError(
        f"owners must be row numbers from 0 to {anchors.shape[0] - 1}, or -1 for extra negatives of nobody"
    )


def _check_kind(name: str, rows: Any, like: Any) -> None:
    if not (is_torch_array(rows) or is_numpy_array(rows)):
        raise GradlabError(f"{name} must be a numpy array or a torch tensor, not {type(rows).__name__}")
    if type(rows).__module__.split(".")[0] != type(like).__module__.split(".")[0]:
        raise GradlabError(f"{name} and anchors must both be numpy arrays or both torch tensors")
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise GradlabError(f"{name} must have shape (sentences, dimensions), not {tuple(rows.shape)}")
    if _dtype_name(rows) not in NORM_TOLERANCE:
        raise GradlabError(f"{name} must be floating point, not {_dtype_name(rows)}")
    if rows.dtype != like.dtype or rows.device != like.device:
        raise GradlabError(
            f"{name} ({_dtype_name(rows)} on {rows.device}) and anchors ({_dtype_name(like)} on {like.device}) "
            "must have one dtype and one device"
        )


def _dtype_name(rows: Any) -> str:
    return str(rows.dtype).removeprefix("torch.")


def _check_norms(named: Mapping[str, Float[Array, "_ d"]], normalize: bool) -> list[Float[Array, "_ d"]]:
    """The rows, divided by their norms where these are not 1; the numbers of all are read back from a GPU at once."""
    parts = [at_least_single(rows) for rows in named.values()]
    xp = array_namespace(*parts)
    norms = [xp.linalg.vector_norm(detach(rows), axis=-1) for rows in parts]
    # The largest is NaN if any entry is NaN.
    ends = xp.stack([end for one in norms for end in (xp.max(xp.abs(one - 1)), xp.min(one))]).tolist()
    checked = []
    for name, rows, worst, least in zip(named, parts, ends[::2], ends[1::2], strict=True):
        fine = worst <= NORM_TOLERANCE[_dtype_name(named[name])]
        if not math.isfinite(worst):
            raise GradlabError(f"{name} contain NaN or infinite values")
        if least == 0:
            raise GradlabError(f"{name} contain a row of zeros, which has no direction")
        if not fine and not normalize:
            raise GradlabError(
                f"{name} are not unit vectors (a norm is off by {worst:.2g}); divide rows by their norms or pass normalize=True"
            )
        checked.append(unit_rows(rows) if normalize else rows)
    return checked

"""What is looked at before any process waits for another: a loss, tried on a few rows, and the rows that a process brings."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from array_api_compat import is_numpy_array
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.geometry.check import check_views
from gradlab.geometry.views import Views
from gradlab.large_batch.shared.communicator import Communicator
from gradlab.large_batch.shared.evaluation import SharedEvaluation
from gradlab.large_batch.shared.threads import in_threads
from gradlab.losses.base import Loss
from gradlab.losses.combinator import Combinator
from gradlab.losses.mask import Mask
from gradlab.losses.per_prefix import PerPrefix

# Rows of each of two processes.
SIZES = [2, 3]
TOLERANCE = 1e-9


_checked: set[Loss] = set()


def check_shared(loss: Loss) -> None:
    """Evaluate a loss on two threads that share a batch, and compare with the loss itself.

    Raises:
        GradlabError: a loss that draws random numbers, that needs more than summaries, or of which each process makes something
            else of its share.
    """
    # By itself, as a loss of the same name and settings may be of another class, or hold one of another class.
    try:
        if loss in _checked:
            return
        remembered = True
    except (TypeError, RuntimeError):  # settings without a hash, or that cannot be told apart
        remembered = False
    _refuse_masks(loss)
    before = torch.get_rng_state()
    views = _small(loss)
    leaves = [views.anchors, views.positives]
    with torch.enable_grad():
        value = loss.value_of(views)
        expected = torch.autograd.grad(value.sum(), leaves, allow_unused=True, materialize_grads=True)
    if not torch.equal(before, torch.get_rng_state()):
        raise GradlabError(f"{loss.name} draws random numbers, which processes cannot share")

    def work(ring: Communicator) -> tuple[Tensor, list[Tensor | None]]:
        first, second = (rows.detach().split(SIZES)[ring.rank].contiguous() for rows in leaves)
        numbers = torch.arange(sum(SIZES)).split(SIZES)[ring.rank]
        share = Views(first, second, guide=Views(first, second), sentences=numbers)
        evaluation = SharedEvaluation(loss, share, 2, ring, SIZES, [0, 0])
        return evaluation.differentiate(torch.ones_like(first[:, 0]), (True, True, False))

    found = in_threads(len(SIZES), work)
    values = [one for one, _ in found]
    same = torch.allclose(
        torch.cat(values) if value.ndim else values[1], value.detach(), TOLERANCE, TOLERANCE
    )
    for place, whole in enumerate(expected):
        gradient = torch.cat([parts[place] for _, parts in found])  # type: ignore[misc]  # both gradients were wanted
        size = float(whole.abs().max())
        same = same and torch.allclose(gradient, whole, 0, TOLERANCE * max(1.0, size))
    if not same:
        raise GradlabError(
            f"{loss.name} comes out differently when processes share its batch: it makes something of all anchors that is not "
            "said by views.count, views.total or views.gathered"
        )
    if remembered:
        _checked.add(loss)


def _small(loss: Loss) -> Views:
    """A few rows that are long enough for a loss, with whatever it asks for."""
    generator = torch.Generator().manual_seed(0)

    def draw() -> Tensor:
        rows = torch.randn(sum(SIZES), max(6, _longest(loss)), generator=generator, dtype=torch.float64)
        return (rows / rows.norm(dim=-1, keepdim=True)).requires_grad_()

    anchors, positives = draw(), draw()
    fixed = Views(anchors.detach(), positives.detach())
    return Views(anchors, positives, guide=fixed, sentences=torch.arange(sum(SIZES)))


def _longest(loss: Loss) -> int:
    """The longest prefix that a loss looks at; 0 if it looks at none."""
    if not isinstance(loss, Combinator):
        return 0
    own = max(loss.prefixes) if isinstance(loss, PerPrefix) else 0
    return max(own, *(_longest(term) for term in loss.terms))


def _refuse_masks(loss: Loss) -> None:
    if not isinstance(loss, Combinator):
        return
    if isinstance(loss, Mask) and loss.by == "given":
        raise GradlabError(
            "mask(by=given) says nothing of pairs across processes; use mask(by=near_duplicates), mask(by=guide) or mask(by=pairs)"
        )
    for term in loss.terms:
        _refuse_masks(term)


def check_share(
    ring: Communicator,
    given: tuple[Any, ...],
    context: dict[str, Any],
    *,
    normalize: bool,
    in_batch_negatives: bool,
) -> Views:
    """Check a process's anchors, positives and extra negatives; half precision becomes float32.

    Raises:
        GradlabError: see `gradlab.geometry.check.check_views`; no tensors; tensors that the processes cannot send.
    """
    anchors, _, extra = given
    for rows in given:
        if rows is not None and not isinstance(rows, torch.Tensor):
            raise GradlabError(f"group= takes torch tensors, not {type(rows).__name__}")
    if len(anchors) == 0:
        raise GradlabError(
            f"there are no rows on it; a batch needs at least one sentence on each of {ring.count} processes"
        )
    if anchors.is_cuda != ring.carries_cuda:
        raise GradlabError(
            "CUDA tensors travel over NCCL, those of a CPU over gloo; this group has "
            f"{'NCCL' if ring.carries_cuda else 'gloo'} and the rows are on {anchors.device}"
        )
    if context.get("mask") is not None:
        raise GradlabError(
            "mask= says nothing of pairs across processes; use mask(by=near_duplicates), mask(by=guide) or mask(by=pairs)"
        )
    if extra is not None and not len(extra):
        extra = None
    if extra is None:
        context = _without_columns(context)
    rows = [anchors, given[1], extra]
    if normalize:  # in full precision, which the rows keep
        rows = [upcast(part) for part in rows]
    views = check_views(
        *rows, normalize=normalize, in_batch_negatives=in_batch_negatives, negatives_elsewhere=True, **context
    )
    views = in_torch(
        views, [as_tensor(part) for part in (views.anchors, views.positives, views.extra_negatives)]
    )
    given_numbers = (views.owners, views.sentences)
    owners, sentences = (None if one is None else one.to(torch.int64) for one in given_numbers)
    return dataclasses.replace(views, owners=owners, sentences=sentences)


def _without_columns(context: dict[str, Any]) -> dict[str, Any]:
    """What is given beside the rows, without what is said of extra negatives of which there are none."""
    owners, guide = context.get("owners"), context.get("guide")
    if owners is not None and not len(owners):
        owners = None
    if isinstance(guide, tuple | list) and len(guide) == 3 and not len(guide[2]):
        guide = guide[:2]
    return {**context, "owners": owners, "guide": guide}


def describe_share(views: Views) -> dict[str, Any]:
    """What processes must have in common, and how many rows this one has."""
    extra, guide = views.extra_negatives, views.guide
    return {
        "dtype": _name(views.anchors),
        "dimensions": views.anchors.shape[1],
        "own anchors": views.anchors.shape[0],
        "own extra negatives": 0 if extra is None else extra.shape[0],
        "whether extra negatives have owners": None if extra is None else views.owners is not None,
        "guide": guide is not None,
        "the guide's dtype": None if guide is None else _name(guide.anchors),
        "the guide's dimensions": None if guide is None else guide.anchors.shape[1],
        "numbers of sentences": views.sentences is not None,
    }


def complete_share(views: Views, said: list[dict[str, Any]]) -> Views:
    """With no owners of no extra negatives, where those of other processes have owners."""
    if views.extra_negatives is None and any(one["whether extra negatives have owners"] for one in said):
        none = torch.empty(0, dtype=torch.int64, device=views.anchors.device)
        return dataclasses.replace(views, owners=none)
    return views


def _name(rows: Any) -> str:
    return str(rows.dtype).removeprefix("torch.")


def upcast(rows: Any) -> Any:
    """Half-precision tensors in float32; anything else as it is."""
    half = isinstance(rows, torch.Tensor) and rows.dtype in (torch.bfloat16, torch.float16)
    return rows.float() if half else rows


def as_tensor(rows: Any) -> Any:
    """A tensor of at least single precision, sharing memory where it can; None stays None."""
    return upcast(torch.from_numpy(rows) if is_numpy_array(rows) else rows)


def in_torch(views: Views, rows: list[Any]) -> Views:
    """The same views with these rows, and with tensors of what else was given."""
    guide = views.guide
    if guide is not None:
        parts = (guide.anchors, guide.positives, guide.extra_negatives)
        guide = Views(*(as_tensor(part) for part in parts))
    given = (views.owners, views.mask, views.sentences)
    owners, mask, sentences = (None if one is None else torch.as_tensor(one) for one in given)
    anchors, positives, extra = rows
    return Views(anchors, positives, extra, views.in_batch_negatives, owners, guide, mask, sentences)

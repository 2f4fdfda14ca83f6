"""Adapters to call functions, gradlab losses and other libraries' losses as losses of two views."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.arrays import Float
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss

TwoViewLoss = Callable[..., Any]
View = Float[Tensor, "n d"]
Extra = Float[Tensor, "m d"]
# Classes or base classes, by the arguments that their `compute_loss_from_embeddings` expects.
LABELLED_PAIRS = {"ContrastiveLoss", "OnlineContrastiveLoss", "CosineSimilarityLoss", "CoSENTLoss"}
TRIPLETS = {"TripletLoss"}
# Kinds of parameters that a call can fill by position.
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NEED_A_TEACHER = {"MarginMSELoss", "DistillKLDivLoss", "EmbedDistillLoss"}


def two_views(loss: Any) -> tuple[TwoViewLoss, str]:
    """Return ``loss`` as a function of (anchors, positives[, extra_negatives]), and its name.

    - A callable is used as it is; see `with_named_negatives` for its third argument.
    - A gradlab loss, or the name of one, is summed over the anchors.
    - A loss of **sentence-transformers** is called on embeddings, without its model. Losses of
      columns get [anchors, positives] and the extra negatives as further columns of N rows.
      ``TripletLoss`` without extra negatives gets each anchor's hardest other positive (largest
      cosine) as its third column. Losses of labelled pairs (``ContrastiveLoss``, ``CoSENTLoss``
      ...) get all N x N pairs, labelled 1 for the views of a sentence, else 0. Losses of labelled
      sentences (``BatchHardTripletLoss`` ...) get stacked views.
    - A loss of **pytorch-metric-learning** gets anchors labelled 0 ... N-1, positives as
      ``ref_emb`` with the same labels, and extra negatives as reference rows with their own labels.
      Losses without ``ref_emb`` get stacked views. ``SelfSupervisedLoss`` is called unchanged.

    Neither library is imported unless the object comes from it.

    Raises:
        GradlabError: ``loss`` is not callable, or is no loss of two views: it needs a teacher's
            scores, the model's layers, class weights or a memory.
    """
    if isinstance(loss, str):
        loss = get_loss(loss)
    if isinstance(loss, Loss):
        return functools.partial(loss, reduction="sum"), str(loss)
    name, bases = name_of(loss), {base.__name__ for base in type(loss).__mro__}
    if (library := library_of(loss)) == "sentence_transformers":
        return _of_sentence_transformers(loss, name, bases), name
    if library:
        return _of_metric_learning(loss, name, bases), name
    if not callable(loss):
        raise GradlabError(
            f"loss_fn must be callable, loss_fn(anchors, positives), not {type(loss).__name__}"
        )
    return with_named_negatives(loss, name), name


def library_of(loss: Any) -> str:
    """Return the library whose conventions a loss is called by; empty for a function of views."""
    packages = {base.__module__.partition(".")[0] for base in type(loss).__mro__}
    if "sentence_transformers" in packages or hasattr(loss, "compute_loss_from_embeddings"):
        return "sentence_transformers"
    return "pytorch_metric_learning" if "pytorch_metric_learning" in packages else ""


def parameters_of(loss: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a loss by name, of a module's ``forward``.

    Empty if they are unknown, or those of another library, as of `library_of`.
    """
    if library_of(loss):
        return {}
    try:
        signature = inspect.signature(loss.forward if isinstance(loss, nn.Module) else loss)
    except (TypeError, ValueError):
        return {}
    return signature.parameters


def with_named_negatives(loss: TwoViewLoss, name: str) -> TwoViewLoss:
    """Return a loss that takes extra negatives as its third argument, whatever its signature.

    A parameter ``extra_negatives`` gets them by name. Any other third parameter with a default
    other than None, such as a temperature, does not get them.
    """
    parameters = parameters_of(loss)
    positional = [parameter for parameter in parameters.values() if parameter.kind in POSITIONAL]
    by_name = "extra_negatives" in parameters
    several = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters.values())
    third = positional[2] if len(positional) > 2 else None
    fits = several or not parameters
    fits = fits or (third is not None and third.default in (inspect.Parameter.empty, None))

    def adapted_loss(*rows: Any, **options: Any) -> Any:
        if len(rows) > 2 and by_name:
            return loss(*rows[:2], extra_negatives=rows[2], **options)
        if len(rows) > 2 and not fits:
            raise GradlabError(
                f"{name} takes no extra negatives; define it as "
                "loss_fn(anchors, positives, extra_negatives), or leave them out"
            )
        return loss(*rows, **options)

    return adapted_loss


def gathers(loss: Any) -> bool:
    """Return whether a loss, or a module inside it, has ``gather_across_devices`` set."""
    modules = loss.modules() if hasattr(loss, "modules") else [loss]
    return any(getattr(module, "gather_across_devices", False) for module in modules)


def held_parameters(loss: Any, dimension: int | None = None) -> list[str]:
    """Return the parameters of a module with more than one axis, as text.

    ``dimension`` keeps those that have an axis of this size.
    """
    named_parameters = loss.named_parameters() if hasattr(loss, "named_parameters") else ()
    return [
        f"{name} of shape {tuple(parameter.shape)}"
        for name, parameter in named_parameters
        if parameter.ndim > 1 and (dimension is None or dimension in parameter.shape)
    ]


def held_rows(loss: Any, dimension: int | None = None) -> list[str]:
    """Return buffers, attributes and closed-over tensors of ``dimension`` columns, as text.

    These are rows that a loss compares with the batch, such as a queue; None takes any number of
    columns.
    """
    tensors: dict[str, Any] = {}
    if isinstance(loss, nn.Module):
        tensors |= dict(loss.named_buffers())
    if isinstance(loss, functools.partial):
        tensors |= loss.keywords
        loss = loss.func
    tensors |= {name: value for name, value in getattr(loss, "__dict__", {}).items()}
    code, cells = getattr(loss, "__code__", None), getattr(loss, "__closure__", None) or ()
    if code is not None:
        used_globals = {
            name: loss.__globals__[name] for name in code.co_names if name in loss.__globals__
        }
        closure_variables = {
            name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)
        }
        tensors |= used_globals | closure_variables
    return [
        f"{name} of shape {tuple(value.shape)}"
        for name, value in tensors.items()
        if isinstance(value, Tensor)
        and value.ndim == 2
        and (value.shape[1] == dimension or (dimension is None and value.shape[1] > 1))
    ]


def name_of(loss: Any) -> str:
    """Return the name of a loss of any library."""
    return getattr(loss, "__name__", None) or type(loss).__name__


def _of_sentence_transformers(loss: Any, name: str, bases: set[str]) -> TwoViewLoss:
    if bases & NEED_A_TEACHER or hasattr(loss, "guide"):
        raise GradlabError(
            f"{name} needs a teacher besides the two views; wrap it in loss_fn(anchors, positives)"
        )
    if hasattr(loss, "compute_loss_from_embeddings"):
        arguments: Callable[..., tuple[list[View], Any]] = _columns
        if bases & TRIPLETS:
            arguments = _triplet
        elif bases & LABELLED_PAIRS:
            arguments = _all_pairs
        elif hasattr(loss, "sentence_embedder"):
            arguments = _stacked

        def adapted_loss(*views: View) -> Any:
            if len(views) > 2 and arguments in (_all_pairs, _stacked):
                raise GradlabError(f"{name} takes no extra negatives; leave them out")
            value = loss.compute_loss_from_embeddings(*arguments(*views))
            # Some losses return a dict of terms, which the trainer sums.
            return sum(value.values()) if isinstance(value, dict) else value

        return adapted_loss
    if hasattr(loss, "calculate_loss"):
        return lambda *views: loss.calculate_loss([[column] for column in _columns(*views)[0]])
    raise GradlabError(
        f"{name} does not compute its loss from embeddings alone; decompose the loss inside it, "
        "or wrap it in loss_fn(anchors, positives)"
    )


# Arguments for losses of sentence-transformers: columns and labels.


def _columns(anchors: View, positives: View, *extra: Extra) -> tuple[list[View], Any]:
    n = len(anchors)
    if any(len(rows) % n for rows in extra):
        raise GradlabError(
            f"sentence-transformers takes hard negatives in columns of {n} rows, one for each "
            f"anchor; {len(extra[0])} extra negatives are not whole columns"
        )
    columns = [column for rows in extra for column in torch.split(rows, n)]
    return [anchors, positives, *columns], None


def _triplet(anchors: View, positives: View, *extra: Extra) -> tuple[list[View], Any]:
    if not extra:
        similarity = anchors.detach() @ positives.T
        similarity.fill_diagonal_(float("-inf"))
        extra = (positives[similarity.argmax(dim=1)],)
    return _columns(anchors, positives, *extra)


def _all_pairs(anchors: View, positives: View) -> tuple[list[Float[Tensor, "pairs d"]], Any]:
    n = len(anchors)
    labels = torch.eye(n, dtype=anchors.dtype, device=anchors.device).flatten()
    return [anchors.repeat_interleave(n, dim=0), positives.repeat(n, 1)], labels


def _stacked(anchors: View, positives: View) -> tuple[list[Float[Tensor, "rows d"]], Any]:
    labels = torch.arange(len(anchors), device=anchors.device)
    return [torch.cat([anchors, positives])], labels.repeat(2)


def _of_metric_learning(loss: Any, name: str, bases: set[str]) -> TwoViewLoss:
    if "SelfSupervisedLoss" in bases:
        whole: TwoViewLoss = loss
        return whole
    if "BaseMetricLossFunction" not in bases:
        raise GradlabError(
            f"{name} of pytorch-metric-learning is not a plain loss of embeddings; "
            "decompose the loss inside it, or wrap it in loss_fn(anchors, positives)"
        )
    if weights := held_parameters(loss):
        raise GradlabError(
            f"{name} compares embeddings with parameters of their size ({', '.join(weights)}), "
            "not with each other; decompose takes losses of two views"
        )
    if "VICRegLoss" in bases:
        return lambda anchors, positives: loss(anchors, ref_emb=positives)

    def adapted_loss(anchors: View, positives: View, *extra_negatives: View) -> Any:
        labels = torch.arange(len(anchors), device=anchors.device)
        reference = torch.cat([positives, *extra_negatives])
        reference_labels = torch.arange(len(reference), device=anchors.device)
        try:
            return loss(anchors, labels, ref_emb=reference, ref_labels=reference_labels)
        except ValueError as error:
            if extra_negatives or "ref_emb is not supported" not in str(error):
                raise
        return loss(torch.cat([anchors, positives]), labels.repeat(2))

    return adapted_loss

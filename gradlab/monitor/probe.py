"""The components of whatever loss is trained, by the best means that there is for it."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.decomposition import Decomposition, decompose, two_views
from gradlab.errors import GradlabError
from gradlab.gradient.diagnostics import (
    batch_statistics,
    distributions,
    effective_rank,
    mean_cosine,
    uniformity,
)
from gradlab.gradient.paradigm import components as components_of
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.components import Components
from gradlab.monitor.measurement import Measurement, Snapshot, Statistics
from gradlab.monitor.recognition import recognise
from gradlab.settings import call_text

# Sentences that are measured, similarities held for them, and sentences of a decomposition: the cost of a
# record stays bounded for batches of any size.
MOST_ANCHORS, MOST_SIMILARITIES, MOST_DECOMPOSED = 1024, 1 << 22, 256
# How far the loss on the captured embeddings may be from the one that was trained, relative: rounding in single
# and in half precision, amplified by 1/τ.
AGREEMENT, HALF_AGREEMENT = 1e-3, 5e-2


class Probe:
    """Measures batches of one loss, by the best means there is for it.

    Attributes:
        loss: the gradlab loss that it is recognised as, or None.
        method: ``"closed form"``, ``"decomposition"`` (from the loss's gradients), or ``"embeddings only"``.
        note: why there is nothing better, in a sentence; empty where there is no need to say.
    """

    def __init__(
        self, loss: Any, *, encoders: Callable[[], Sequence[nn.Module]] = tuple, named: bool = False
    ) -> None:
        """Take a loss, without calling it.

        Args:
            loss: a loss object or function, or None if it is not known.
            encoders: gives the modules within it that are not part of the loss itself.
            named: whether the user named the loss: then it is measured even where the run's loss has another value
                (further terms), which is noted.
        """
        self.loss = None if loss is None else recognise(loss)
        self._original, self._encoders, self._named = loss, encoders, named
        self._scale: float | None = None
        self.note = ""
        if self.loss is not None:
            self.method = "closed form"
        elif loss is not None:
            self.method = "decomposition"
        else:
            self._give_up("the loss is not known; name it with loss=")

    def loss_text(self) -> str:
        """The loss as a text."""
        if self.loss is not None:
            return call_text(self.loss)
        if self._original is None:
            return "unknown"
        return getattr(self._original, "__name__", None) or type(self._original).__name__

    def measure(self, snapshot: Snapshot, statistics: Statistics = batch_statistics) -> Measurement:
        """Measure a batch of at least two sentences; what cannot be measured is missing.

        Args:
            snapshot: its embeddings.
            statistics: what to measure of two views, see `gradlab.gradient.diagnostics.batch_statistics`.

        Raises:
            GradlabError: embeddings that are not finite or have no direction.
        """
        unit = snapshot.unit()
        if unit.positives is None:
            self._give_up("it sees one view of each sentence, so that there are no positives")
        elif unit.labels and self.loss is None:
            self._give_up("it has labels, so that its columns are not two views of the same sentences")
        else:
            return self._two_views(unit, unit.positives, statistics)
        rows = unit.anchors[:MOST_ANCHORS]
        return Measurement({"uniformity": uniformity(rows), "effective_rank": effective_rank(rows)}, {})

    def _two_views(self, unit: Snapshot, positives: Tensor, statistics: Statistics) -> Measurement:
        gradient = self._gradient(unit, positives)
        count = len(positives[:MOST_ANCHORS]) if gradient is None else len(gradient.gradient_dissipation)
        anchors, positives = unit.anchors[:count], positives[:count]
        values = statistics(anchors, positives, gradient)
        if unit.encoded is not None:
            encoded = unit.encoded[:MOST_ANCHORS]
            values |= {"encoder_cosine": mean_cosine(encoded), "encoder_rank": effective_rank(encoded)}
        return Measurement(values, distributions(anchors, positives, gradient))

    def _gradient(self, unit: Snapshot, positives: Tensor) -> Components | None:
        """The components, unless the loss has none or is not what was trained on these embeddings."""
        if self.method == "embeddings only":
            return None
        try:
            if self.loss is not None:
                rows, in_batch = (unit.anchors, positives, unit.extra_negatives), unit.in_batch_negatives
                context = {name: _moved(given, unit.anchors) for name, given in unit.context.items()}
                value = functools.partial(self.loss, *rows, in_batch_negatives=in_batch, **context)
                if not self._agrees(unit, value):
                    return None
                return closed_form(self.loss, *rows, in_batch, context)
            if _gathers(self._original):
                self._give_up("it gathers sentences of other processes, which are not asked for them here")
                return None
            loss = self._copy()
            views = [
                rows.cpu() for rows in (unit.anchors, positives, unit.extra_negatives) if rows is not None
            ]
            agrees = self._agrees(unit, lambda: two_views(loss)[0](*views))
            return self._decompose(loss, views) if agrees else None
        except GradlabError as error:
            self._give_up(_first_line(error))
            return None

    def _copy(self) -> Any:
        """The loss as it is now, to be called at will: what it keeps, such as a queue, stays training's own."""
        if not isinstance(self._original, nn.Module):
            return self._original
        try:
            # Without the encoder, which is neither to be copied nor touched.
            return (
                copy.deepcopy(self._original, {id(encoder): None for encoder in self._encoders()})
                .double()
                .cpu()
            )
        except Exception as error:
            raise GradlabError(f"it cannot be copied ({_first_line(error)})") from error

    def _agrees(self, unit: Snapshot, value: Callable[[], Any]) -> bool:
        """Whether the loss on the captured embeddings is the one that was trained on."""
        if unit.value is None or not math.isfinite(unit.value) or len(unit.anchors) > MOST_ANCHORS:
            return True
        try:
            with torch.no_grad():
                found = float(value())
        except GradlabError:
            raise
        except Exception as error:
            raise GradlabError(f"it raised {type(error).__name__}: {_first_line(error)}") from error
        tolerance = HALF_AGREEMENT if unit.half else AGREEMENT
        if abs(found - unit.value) <= tolerance * max(1.0, abs(unit.value)):
            return True
        what = (
            f"on the captured embeddings, divided by their lengths, it is {found:.4g}, but the loss that was "
            f"trained is {unit.value:.4g}"
        )
        if self._named:
            self.note = self.note or f"Components are those of {self.loss or 'the named loss'} alone: {what}."
            return True
        self.note = self.note or (
            f"The components of the loss are not recorded: {what} (it may depend on the lengths of the "
            "embeddings, on labels, or on sentences of other devices)."
        )
        return False

    def _decompose(self, loss: Any, views: list[Tensor]) -> Components:
        count = len(views[0])
        if count > MOST_DECOMPOSED:
            self.note = (
                f"Components are those of the loss on the first {MOST_DECOMPOSED} sentences of a batch."
            )
            # Extra negatives are whole columns.
            views = [torch.cat([c[:MOST_DECOMPOSED] for c in rows.split(count)]) for rows in views]
        found = decompose(loss, *views)
        if self._scale is None:
            anchors, positives, *extra = views
            wrong = decompose(loss, anchors, positives.roll(1, dims=0), *extra)
            self._scale = float(wrong.gradient_dissipation.abs().max()) or 1.0
        return as_components(found, self._scale)

    def _give_up(self, reason: str) -> None:
        self.method = "embeddings only"
        self.note = self.note or f"The components of the loss are not recorded: {reason}."


def _moved(given: Any, like: Tensor) -> Any:
    """Context of a batch on its device: a tensor, or several."""
    if isinstance(given, Tensor):
        rows = given.detach().cpu() if like.device.type == "cpu" else given.detach().to(like.device)
        return rows.double() if rows.is_floating_point() else rows
    return [_moved(rows, like) for rows in given]


def _gathers(loss: Any) -> bool:
    """Whether calling the loss is a collective: alone, one process would wait for the others for ever."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not distributed or torch.distributed.get_world_size() == 1:
        return False
    parts = loss.modules() if isinstance(loss, nn.Module) else [loss]
    return any(getattr(part, "gather_across_devices", False) for part in parts)


def closed_form(
    loss: Loss,
    anchors: Tensor,
    positives: Tensor,
    extra: Tensor | None,
    in_batch_negatives: bool = True,
    context: Mapping[str, Any] | None = None,
) -> Components:
    """Components of a loss; of a large batch those of its first anchors, of the anchors' side only.

    For a loss of pairs they are exact, all sentences being their negatives; any other loss is taken on those
    sentences alone, with their own extra negatives where it is known whose they are.
    """
    context = dict(context or {})
    candidates = len(positives) + (0 if extra is None else len(extra))
    most = min(MOST_ANCHORS, max(2, MOST_SIMILARITIES // candidates))
    if len(anchors) <= most:
        sides = components_of(
            loss, anchors, positives, extra, in_batch_negatives=in_batch_negatives, side="both", **context
        )
        return sides[0]
    if isinstance(loss, PairLoss):  # which asks for no context
        if in_batch_negatives:
            rest = positives[most:]
            extra = rest if extra is None else torch.cat([rest, extra])
        context = {}
    elif extra is not None and context.get("owners") is not None:
        kept = context["owners"] < most
        extra, context["owners"] = extra[kept], context["owners"][kept]
        if context.get("sentences") is not None and len(context["sentences"]) > len(anchors):
            own, others = context["sentences"][: len(anchors)], context["sentences"][len(anchors) :]
            context["sentences"] = torch.cat([own, others[kept]])
        if context.get("guide") is not None:
            context["guide"] = [*context["guide"][:2], context["guide"][2][kept]]
    if context.get("sentences") is not None:
        own, others = context["sentences"][:most], context["sentences"][len(anchors) :]
        context["sentences"] = torch.cat([own, others])
    if context.get("guide") is not None:
        context["guide"] = [*(rows[:most] for rows in context["guide"][:2]), *context["guide"][2:]]
    # What all other anchors do to these positives is not known.
    return components_of(
        loss, anchors[:most], positives[:most], extra, in_batch_negatives=in_batch_negatives, **context
    )


def as_components(found: Decomposition, scale: float) -> Components:
    """A decomposition in the form of a loss's declared components.

    A gradient does not tell the size of the dissipation, which depends on the loss's own units. Here it is relative
    to ``scale``, the largest that the loss has when every positive is another sentence, so that it lies between 0 (an
    anchor is left alone) and about 1.

    Args:
        found: what `gradlab.decompose` found.
        scale: dissipation that counts as 1, in the units of the decomposition.
    """
    ratio, weight = found.ratio, found.weight
    moving = ratio.isfinite()
    # Anchors that do not move have neither weights nor a ratio; the others' typical ratio and equal weights stand in,
    # multiplied by zero, so that they do not count against the loss.
    ratio = torch.where(moving, ratio, ratio[moving].median() if bool(moving.any()) else torch.nan)
    # Views that no anchor has negatives in have no columns.
    views = [
        name
        for name in ("other", "same")
        if bool(getattr(found, f"{name}_view_gradient")[:, : len(ratio)].any())
    ]
    kept = [getattr(found, f"{name}_view") for name in views] + [found.extra]
    weight = torch.cat(kept, dim=1) if views else weight
    weight = torch.where(moving[:, None], weight, 1 / weight.shape[1])
    return Components(
        found.gradient_dissipation / scale,
        scale * weight,
        scale * ratio * weight.sum(dim=1),
        negative_view=views[0] if len(views) == 1 else "both",
        views=found.views,
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")

"""The blockwise loss as a callable, a module, and a node of torch's graph."""

from __future__ import annotations

from typing import Any

import torch
from array_api_compat import is_torch_array
from torch import Tensor

from gradlab.arrays import Array
from gradlab.errors import GradlabError
from gradlab.geometry.check import check_views
from gradlab.geometry.views import Views
from gradlab.large_batch.evaluation import LossEvaluation
from gradlab.large_batch.pair_evaluation import PairEvaluation
from gradlab.large_batch.shared.check import (
    as_tensor,
    check_share,
    check_shared,
    complete_share,
    describe_share,
    in_torch,
    upcast,
)
from gradlab.large_batch.shared.communicator import Alone, Ring, words_of
from gradlab.large_batch.shared.evaluation import SharedEvaluation
from gradlab.losses.base import Loss, PairLoss, check_reduction, reduce
from gradlab.losses.registry import get_loss, takes_loss


@takes_loss
def blockwise(
    loss: str | Loss, block_size: int | None = None, *, group: Any = None, average: bool = False
) -> BlockwiseLoss:
    """A loss that scales: the same values and gradients, without ever holding all N x K similarities.

    Args:
        loss: a loss, or its name for the published settings. Losses of the batch that hold no similarities in the
            first place, Barlow Twins and VICReg, are served as they are.
        block_size: anchors handled at a time; None chooses what is fast on the device, and holds the cosines of small batches. Beside the
            gradients, memory holds two or three arrays of ``block_size`` x K similarities. Processes may have different ones.
        group: a process group of torch.distributed, or ``"world"`` for all processes: each calls the loss with its own
            rows, of which there may be different numbers, and gets the loss of the batch of all processes, to which
            extra negatives of any process belong. The rows receive the gradient that they would have in one process. No
            process holds another's rows but those that are passing. Over gloo or (never yet run) NCCL.
        average: multiply gradients by the number of processes, for DistributedDataParallel, which divides by it.

    Raises:
        GradlabError: an unknown loss, or a block size below 1. When called, a loss of the batch whose value needs all
            similarities at once; see `gradlab.BatchLoss`.

    Example:
        >>> import torch
        >>> z = torch.nn.functional.normalize(torch.randn(2, 8, 4, requires_grad=True), dim=-1)
        >>> criterion = blockwise("infonce")
        >>> criterion(z[0], z[1]).backward()
    """
    return BlockwiseLoss(loss, block_size, group=group, average=average)


class BlockwiseLoss(torch.nn.Module):
    """A loss evaluated and differentiated one block of anchors at a time.

    The gradient is computed together with the value. It equals automatic differentiation of the loss, with respect
    to the anchors, the positives and the extra negatives, radial parts included. That of a loss on pairs is its
    declared closed form; a loss of the batch is differentiated as it stands, except for its summaries of all
    similarities, whose derivatives are closed forms. Where an anchor coincides with its positive or with a negative whose chord is
    in the value, both take torch's subgradient 0 of the chord. Of equally hard negatives the first
    counts; where rounding makes duplicates unequal, which one that is may depend on the block size.

    bfloat16 and float16 rows are computed with in float32 on every device, whether or not it has
    bfloat16 arithmetic: the loss is float32, the gradients come back in the dtype of the rows. The same
    holds under autocast. First derivatives only.

    Attributes:
        loss: the loss.
        block_size: anchors in a block, or None for the default.
        group: the processes that share the batch, or None.
        average: whether gradients are multiplied by the number of processes.
    """

    def __init__(
        self, loss: str | Loss, block_size: int | None = None, *, group: Any = None, average: bool = False
    ) -> None:
        """See `blockwise`."""
        super().__init__()
        if block_size is not None and (
            isinstance(block_size, bool) or not isinstance(block_size, int) or block_size < 1
        ):
            raise GradlabError(
                f"block_size must be a whole number of at least 1, or None, not {block_size!r}"
            )
        self.loss = get_loss(loss)
        self.block_size = block_size
        self.group, self.average = group, average
        if average and group is None:
            raise GradlabError(
                "average=True belongs to group=, the processes that gradients are averaged over"
            )
        if group is not None:
            check_shared(self.loss)

    def extra_repr(self) -> str:
        """The loss and its block size."""
        return f"{self.loss!r}, block_size={self.block_size}"

    def forward(
        self,
        anchors: Array,
        positives: Array,
        extra_negatives: Array | None = None,
        reduction: str = "mean",
        *,
        normalize: bool = False,
        in_batch_negatives: bool = True,
        **context: Any,
    ) -> Array:
        """The loss as a trainable scalar; arguments and errors as `gradlab.Loss.__call__`.

        With ``reduction="none"`` similarities are computed again for the gradient, as it depends on what
        is made of the values.

        Raises:
            GradlabError: bad views or reduction, or a value that is infinite or not a number.
        """
        options = {"normalize": normalize, "in_batch_negatives": in_batch_negatives}
        given = (anchors, positives, extra_negatives)
        if self.group is not None and (ring := Ring(self.group)).count > 1:
            return self._together(ring, given, reduction, options, context)
        check_reduction(reduction)
        if normalize:  # in full precision, which the rows keep
            given = (upcast(anchors), upcast(positives), upcast(extra_negatives))
        views = check_views(*given, normalize=normalize, in_batch_negatives=in_batch_negatives, **context)
        rows = [as_tensor(part) for part in (views.anchors, views.positives, views.extra_negatives)]
        evaluation = self._alone(in_torch(views, rows))
        needs_gradient = any(part is not None and part.requires_grad for part in rows)
        if not (needs_gradient and torch.is_grad_enabled()):
            values = evaluation.values()
            found = values if is_torch_array(anchors) else values.numpy()[()]
            return reduce(found, reduction, self.loss.name)
        if reduction == "none":
            return _EachLoss.apply(evaluation, *rows)
        return _TotalLoss.apply(evaluation, reduction, False, *rows)

    def _alone(self, views: Views) -> LossEvaluation:
        """The loss on a batch in one process."""
        if isinstance(self.loss, PairLoss):
            return PairEvaluation(self.loss, views, self.block_size)
        extra = 0 if views.extra_negatives is None else len(views.extra_negatives)
        return SharedEvaluation(self.loss, views, self.block_size, Alone(), [len(views.anchors)], [extra])

    def _together(
        self,
        ring: Ring,
        given: tuple[Any, ...],
        reduction: str,
        options: dict[str, bool],
        context: dict[str, Any],
    ) -> Tensor:
        """The loss of the batch of all processes; an error of one is raised by all."""
        views, mine, error, needs = None, {}, None, False
        try:
            check_reduction(reduction)
            options = {name: bool(value) for name, value in options.items()}
            views = check_share(ring, given, context, **options)
            rows = views.anchors, views.positives, views.extra_negatives
            needs = torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in rows)
            mine = {
                "loss": repr(self.loss),
                "reduction": reduction,
                **options,
                "average": self.average,
                **describe_share(views),
                "own gradient": needs,
                # That of each row is made in the backward pass, which all must take part in.
                "gradient": needs if reduction == "none" else None,
            }
        except Exception as problem:  # which all processes are to hear of
            error = words_of(problem)
        said = ring.agree(mine, error)
        assert views is not None
        views = complete_share(views, said)
        sizes = [[one[name] for one in said] for name in ("own anchors", "own extra negatives")]
        if sum(sizes[0]) * options["in_batch_negatives"] < 2 and not sum(sizes[1]):
            raise GradlabError("the batch of all processes leaves no negatives; give extra_negatives")
        evaluation = SharedEvaluation(self.loss, views, self.block_size, ring, *sizes)
        if not any(one["own gradient"] for one in said):
            values = evaluation.values()
            return evaluation.reduced(
                reduce(values, "none", self.loss.name) if reduction == "none" else values, reduction
            )
        if reduction == "none":
            value = _EachLoss.apply(evaluation, *rows)
        elif needs:
            # Processes without a gradient take no part in a second pass through a retained graph.
            kept = not all(one["own gradient"] for one in said)
            value = _TotalLoss.apply(evaluation, reduction, kept, *rows)
        else:  # others need its part in theirs
            scale = views.anchors.new_full(
                (len(views.anchors),), 1 / evaluation.count if reduction == "mean" else 1.0
            )
            value = evaluation.reduced(evaluation.differentiate(scale, (False, False, False))[0], reduction)
        return value + (ring.count - 1) * (value - value.detach()) if self.average else value


class _TotalLoss(torch.autograd.Function):
    """The mean or sum of a loss; its gradient is computed with the value and scaled afterwards."""

    @staticmethod
    def forward(
        ctx: Any,
        evaluation: LossEvaluation,
        reduction: str,
        kept: bool,
        anchors: torch.Tensor,
        positives: torch.Tensor,
        extra_negatives: torch.Tensor | None,
    ) -> torch.Tensor:
        share = 1 / evaluation.count if reduction == "mean" else 1.0
        ctx.scale = anchors.new_full((anchors.shape[0],), share)
        values, gradients = evaluation.differentiate(ctx.scale, ctx.needs_input_grad[3:])
        ctx.evaluation = evaluation
        ctx.gradients = None if kept else gradients
        ctx.save_for_backward(anchors, positives, extra_negatives, *(gradients if kept else ()))
        return evaluation.reduced(values, reduction)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        _refuse_second_derivatives()
        # Given away, so that torch keeps them as the rows' gradients where it would otherwise copy what another holds.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:  # a second pass through a retained graph, or they were kept
            # Raises if it was not retained, or the rows were changed in place since.
            kept = ctx.saved_tensors[3:]
            gradients = [
                None if part is None else part.clone() for part in kept
            ] or ctx.evaluation.differentiate(ctx.scale, ctx.needs_input_grad[3:])[1]
        # Usually 1. Only on a CPU is looking at it free.
        if not (upstream.device.type == "cpu" and upstream == 1):
            for part in gradients:
                if part is not None:
                    part *= upstream
        return None, None, None, *gradients


class _EachLoss(torch.autograd.Function):
    """The loss of each anchor, (N,); its gradient is computed when it is known what becomes of each."""

    @staticmethod
    def forward(
        ctx: Any,
        evaluation: LossEvaluation,
        anchors: torch.Tensor,
        positives: torch.Tensor,
        extra_negatives: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.evaluation = evaluation
        ctx.save_for_backward(anchors, positives, extra_negatives)
        return reduce(evaluation.values(), "none", evaluation.loss.name)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        _refuse_second_derivatives()
        _ = ctx.saved_tensors  # raises if the rows were changed in place since
        return None, *ctx.evaluation.differentiate(upstream.contiguous(), ctx.needs_input_grad[1:])[1]


def _refuse_second_derivatives() -> None:
    """Raise `GradlabError` in a backward pass that is itself to be differentiated."""
    if torch.is_grad_enabled():
        raise GradlabError(
            "a blockwise loss has first derivatives only (create_graph=True was asked for); "
            "use the loss itself for higher ones"
        )

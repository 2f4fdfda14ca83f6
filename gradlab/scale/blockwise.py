"""`blockwise`: a loss for large batches, as a module and as a node of torch's graph."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from array_api_compat import is_torch_array
from torch import Tensor

from gradlab.arrays import Array
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError, check_known, check_whole
from gradlab.losses.base import Loss, check_reduction, reduce
from gradlab.losses.registry import check_closed_form, get_loss, takes_loss
from gradlab.scale.block_loop import Evaluation, refuse_second_derivatives
from gradlab.scale.blocks_or_kernels import WAYS, choose_way
from gradlab.scale.cuda_graph import Graphs, is_recordable
from gradlab.scale.gathered_batch import (
    batch_properties,
    check_local_batch,
    gathered_batch,
    local_sizes,
    refuse_masks,
    row_properties,
)
from gradlab.scale.kernels import check_kernels, check_rows, kernels_are_available
from gradlab.scale.logit_translation import NotServed
from gradlab.scale.matrix_products import reading_is_free
from gradlab.scale.processes import Processes, ProcessGroup
from gradlab.settings.module import LossModule

SINGLE = Processes()


@takes_loss
def blockwise(
    loss: str | Loss,
    block_size: int | None = None,
    *,
    group: Any = None,
    average: bool = False,
    way: str | None = None,
    graph: bool = False,
) -> BlockwiseLoss:
    """Evaluate a loss on large batches without storing all N x K similarities.

    Value and gradients are those of the loss itself.

    Args:
        loss: a loss, or its name for the published settings; learned settings become parameters.
        block_size: rows at a time; None chooses a fast size for the device. Processes may differ.
        group: a process group of torch.distributed, or ``"world"`` for all processes. Each process
            calls the loss with its own rows, whose number may differ, and gets the loss of the
            batch of all processes. Extra negatives of any process belong to all; own negatives stay
            with their anchors. The rows receive the gradient that they would have on one process.
            Each process holds the rows of all processes and a share of their similarities. Works
            over gloo; NCCL has not been run yet.
        average: multiply rows' gradients by the number of processes, for DistributedDataParallel.
        way: ``"plain"``, all similarities at once; ``"blocks"``, those of some rows at a time; or
            ``"kernels"``, fused Triton kernels, faster than blocks for large bfloat16 batches on a
            GPU. Kernels serve losses that use only log-sum-exps of their negatives, in one
            direction or both, such as InfoNCE. None chooses by the number of sentences, their dtype
            and the times measured on an H100; blocks on a CPU, with a block size or a group. The
            results are the same.
        graph: on a GPU, record the second call with rows of a shape, and replay it later as one
            CUDA graph: for batches of a few thousand sentences, where a call is mostly work of the
            host. Calls with further arguments, without gradients or with ``reduction="none"`` run
            as usual. The memory of the blocks stays allocated. Not measured yet.

    Raises:
        GradlabError: an unknown loss or way; a block size below 1; kernels without CUDA or Triton;
            kernels or a graph for a loss with learned settings; a graph for several processes. When
            called: a loss of the batch that needs all similarities at once, see
            `gradlab.BatchLoss`; with ``way="kernels"``, an unsupported loss, or rows in float64 or
            not on a GPU.

    Example:
        >>> import torch
        >>> z = torch.nn.functional.normalize(torch.randn(2, 8, 4, requires_grad=True), dim=-1)
        >>> criterion = blockwise("infonce")
        >>> criterion(z[0], z[1]).backward()
    """
    return BlockwiseLoss(loss, block_size, group=group, average=average, way=way, graph=graph)


class BlockwiseLoss(LossModule):
    """A loss that is evaluated and differentiated some rows at a time.

    The gradient is computed together with the value. It equals automatic differentiation of the
    loss with respect to the anchors, the positives, the extra and own negatives and the learned
    settings, radial parts included. Of equally hard negatives the first counts; rounding may make
    that depend on the block size.

    bfloat16 and float16 rows are computed in float32, also under autocast: the loss is float32,
    gradients have the rows' dtype. On a GPU, bfloat16 rows, and all rows under bfloat16 autocast,
    are multiplied in TF32. Kernels multiply half-precision rows as they are and accumulate in
    float32. First derivatives only.

    Attributes:
        loss: the loss.
        block_size: rows in a block, or None for the default.
        average: whether gradients are multiplied by the number of processes.
        way: the way that was asked for, or None to choose one for each call.
        graph: whether calls are replayed as CUDA graphs.
    """

    def __init__(
        self,
        loss: str | Loss,
        block_size: int | None = None,
        *,
        group: Any = None,
        average: bool = False,
        way: str | None = None,
        graph: bool = False,
    ) -> None:
        """See `blockwise`."""
        super().__init__(get_loss(loss))
        check_closed_form(self.loss, "blockwise evaluation")
        if block_size is not None:
            check_whole("block_size", block_size, 1)
        self.block_size = block_size
        self._group = group
        with contextlib.suppress(TypeError):  # weakly, as in `gradlab.scale.processes.ProcessGroup`
            self._group = weakref.ref(group)
        self.average, self.way = average, way
        self._served = True  # whether kernels are available and serve the loss, as far as is known
        self._chosen: str | None = None  # the way of the last call
        if way is not None:
            check_known("way", way, WAYS)
        if way == "kernels":
            check_kernels([name for name, _ in self.named_parameters()])
        self.graph, self._graphs = graph, Graphs() if graph else None
        if graph and (group is not None or self._settings):
            reason = "one process" if group is not None else "losses that learn nothing"
            raise GradlabError(f"graph=True is for {reason}; leave it out")
        if average and group is None:
            raise GradlabError(
                "average=True belongs to group=, the processes that gradients are averaged over"
            )
        if group is not None:
            refuse_masks(self.loss)

    @property
    def group(self) -> Any:
        """The processes that share the batch, ``"world"``, or None."""
        return self._group() if isinstance(self._group, weakref.ref) else self._group

    def extra_repr(self) -> str:
        """Return the loss with its block size, and the way of the last call."""
        way = f", way={self.way!r}"
        if self.way is None and self._chosen is not None:
            way += f" (the last call took {self._chosen!r})"
        graph = ", graph=True" if self.graph else ""
        return f"{self.loss!r}, block_size={self.block_size}{way}{graph}"

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
        """Return the loss, a trainable scalar; arguments and errors as in `gradlab.Loss.__call__`.

        With ``reduction="none"``, the backward pass computes the similarities again.

        Raises:
            GradlabError: bad rows or reduction, or a value that is not finite.
        """
        if self.way == "kernels":
            check_rows(anchors)
        rows = (anchors, positives, extra_negatives)
        options: dict[str, Any] = {"normalize": normalize, "in_batch_negatives": in_batch_negatives}
        if torch.compiler.is_compiling():  # it cannot trace autograd within the forward pass
            eager = torch.compiler.disable(self.forward)
            return eager(*rows, reduction, **options, **context)  # type: ignore[no-any-return]  # as of `forward`
        if self._group is not None and (group := ProcessGroup(self.group)).count > 1:
            return self._over_processes(group, rows, reduction, options, context)
        check_reduction(reduction)
        way = self._chosen = self._choose(anchors)
        if self._graphs is not None and not context and reduction != "none" and in_batch_negatives:
            replayed = self._replayed(self._graphs, rows, reduction, normalize, way)
            if replayed is not None:
                return replayed
        batch = self.loss.batch(*rows, **options, **context).in_torch()
        detached = batch.mapped(lambda _, embeddings: embeddings.detach())
        sizes = [len(batch.anchors)], [batch.extra_count]
        differentiated = self._needs_gradient(batch.embeddings)
        arguments = batch, detached, SINGLE, sizes, reduction, differentiated, anchors.dtype
        try:
            value = self._value(*arguments, way=way)
        except NotServed:
            if self.way is not None:
                raise
            self._served = False
            self._chosen = self._choose(batch.anchors)
            value = self._value(*arguments, way=self._chosen)
        return value if is_torch_array(anchors) else value.detach().numpy()[()]

    def _choose(self, anchors: Any) -> str:
        """Return the way of this call on one process."""
        on_gpu = isinstance(anchors, Tensor) and anchors.is_cuda
        if self.way is not None or self.block_size is not None or not on_gpu:
            return self.way or "blocks"
        served = self._served and not self._settings and kernels_are_available()
        return choose_way(self.loss, anchors, served=served)

    def _replayed(
        self, graphs: Graphs, rows: tuple[Any, ...], reduction: str, normalize: bool, way: str
    ) -> Tensor | None:
        """Return the value of a call that is replayed as a CUDA graph; None for other calls."""
        anchors = rows[0]
        if not (
            all(view is None or isinstance(view, Tensor) for view in rows)
            and is_recordable(anchors)
            and self._needs_gradient(rows)
        ):
            return None

        def evaluate(batch: Batch) -> Evaluation:
            sizes = [len(batch.anchors)], [batch.extra_count]
            return self._evaluation(batch, SINGLE, sizes, anchors.dtype, way, unchecked=True)

        def checked() -> Batch:
            views = (None if view is None else view.detach() for view in rows)
            return self.loss.batch(*views, normalize=normalize).in_torch()

        views = (*rows, None)  # no own negatives, which are a further argument
        return graphs.value(evaluate, checked, views, reduction, normalize)

    def _evaluation(
        self,
        batch: Batch,
        processes: Processes,
        sizes: tuple[list[int], list[int]],
        dtype: Any,
        way: str,
        learned: Mapping[tuple[str, ...], Tensor] | None = None,
        unchecked: bool = False,
    ) -> Evaluation:
        return Evaluation(
            self._with(learned) if learned else self.loss,
            batch,
            batch.count if way == "plain" else self.block_size,
            tuple((learned or {}).values()),
            processes,
            sizes,
            dtype if way == "kernels" else None,
            dtype == torch.bfloat16 or _autocast_to_bfloat16(batch.anchors.device.type),
            unchecked,
        )

    def _needs_gradient(self, rows: tuple[Tensor | None, ...]) -> bool:
        return torch.is_grad_enabled() and any(
            tensor is not None and tensor.requires_grad for tensor in (*rows, *self.values.values())
        )

    def _over_processes(
        self,
        group: ProcessGroup,
        rows: tuple[Any, ...],
        reduction: str,
        options: dict[str, Any],
        context: dict[str, Any],
    ) -> Tensor:
        """Return the loss of the batch of all processes; an error on one is raised on all."""
        options = {name: bool(setting) for name, setting in options.items()}
        local_batch, error = None, None
        must_agree, local = row_properties(rows[0]), {"gradient": False}
        try:
            check_reduction(reduction)
            self.loss.check_arguments(context)
            local_batch = check_local_batch(group, rows, context, **options)
            gradient = self._needs_gradient(local_batch.embeddings)
            local = {**local_sizes(local_batch), "gradient": gradient}
            must_agree |= self._must_agree(local_batch, reduction, gradient, options)
        except Exception as problem:  # reported to all processes below
            text = " ".join(str(problem).split())
            error = (
                text if isinstance(problem, GradlabError) else f"{type(problem).__name__}: {text}"
            )
        shares = group.agree(must_agree, local, error)
        assert local_batch is not None
        sizes, extra_sizes, widths, differentiated = (
            [described[name] for described in shares]
            for name in ("anchors", "extra negatives", "own negatives", "gradient")
        )
        few = sum(sizes) * options["in_batch_negatives"] < 2 and local_batch.own_negatives is None
        if few and not sum(extra_sizes):
            raise GradlabError(
                "the batch of all processes leaves no negatives; give extra_negatives"
            )
        owned = any(described["owners"] for described in shares)
        whole = gathered_batch(local_batch, group, sizes, extra_sizes, widths, owned)
        value = self._value(
            local_batch,
            whole,
            group,
            (sizes, extra_sizes),
            reduction,
            any(differentiated),
            rows[0].dtype,
            not all(differentiated),
            self.way or "blocks",
        )
        return value + (group.count - 1) * (value - value.detach()) if self.average else value

    def _must_agree(
        self, local_batch: Batch, reduction: str, gradient: bool, options: Mapping[str, bool]
    ) -> dict[str, Any]:
        """Return what all processes must have in common, beside what is known of their rows."""
        return {
            "loss": repr(self.loss),
            "reduction": reduction,
            **options,
            "average": self.average,
            "way": self.way,
            **batch_properties(local_batch),
            # The backward pass makes the gradient of each row; all processes must take part.
            "gradient": gradient if reduction == "none" else None,
        }

    def _value(
        self,
        local_batch: Batch,
        whole: Batch,
        processes: Processes,
        sizes: tuple[list[int], list[int]],
        reduction: str,
        differentiated: bool,
        dtype: Any,
        stored: bool = False,
        way: str = "blocks",
    ) -> Tensor:
        """Return the value of this process's rows; ``stored`` gradients outlive a first pass."""
        settings, learned = {}, {}
        if self._settings:
            self._numbers()  # raises if training has moved a setting out of its range
            settings = self._tensors()
            learned = {
                path: tensor.detach().clone().requires_grad_() for path, tensor in settings.items()
            }
        evaluation = self._evaluation(whole, processes, sizes, dtype, way, learned)
        rows = local_batch.embeddings
        if not differentiated:
            values = evaluation.values()
            if reduction == "none":
                return reduce(values, "none", self.loss.name)
            return evaluation.reduced(values, reduction)
        tensors = list(settings.values())
        if self.average:  # settings receive the whole gradient, whatever the number of processes
            fractions = [tensor / processes.count for tensor in tensors]
            tensors = [
                fraction + (tensor - fraction).detach()
                for tensor, fraction in zip(tensors, fractions, strict=True)
            ]
        if reduction == "none":
            losses: Tensor = _EachLoss.apply(evaluation, *rows, *tensors)
            return losses
        total: Tensor = _TotalLoss.apply(evaluation, reduction, stored, *rows, *tensors)
        return total


def _autocast_to_bfloat16(device: str) -> bool:
    return torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16


class _TotalLoss(torch.autograd.Function):
    """The mean or sum of a loss; its gradient comes with the value, and ``backward`` scales it."""

    @staticmethod
    def forward(
        ctx: Any, evaluation: Evaluation, reduction: str, stored: bool, *inputs: Tensor | None
    ) -> Tensor:
        share = 1 / evaluation.batch.count if reduction == "mean" else 1.0
        anchors = inputs[0]
        assert anchors is not None
        ctx.scale = anchors.new_full((len(anchors),), share)
        ctx.needed = tuple(ctx.needs_input_grad[3:7])
        values, gradients = evaluation.differentiate(ctx.scale, ctx.needed)
        ctx.evaluation, ctx.gradients = evaluation, None if stored else gradients
        ctx.stored = len(gradients) if stored else 0
        ctx.save_for_backward(*inputs[:4], *evaluation.uncopied, *(gradients if stored else ()))
        return evaluation.reduced(values, reduction)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        # Give up the only reference, so that torch keeps these tensors as gradients without a copy.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            # A second pass through a retained graph, or some process wants no gradient.
            # Raises if the graph was not retained, or if a tensor has been changed in place.
            saved = ctx.saved_tensors
            stored = saved[len(saved) - ctx.stored :]
            gradients = [
                None if gradient is None else gradient.clone() for gradient in stored
            ] or ctx.evaluation.differentiate(ctx.scale, ctx.needed)[1]
        # Usually 1; reading it is free only on a CPU.
        if not (reading_is_free(upstream) and upstream == 1):
            for gradient in gradients:
                if gradient is not None:
                    gradient *= upstream
        return None, None, None, *gradients


class _EachLoss(torch.autograd.Function):
    """The loss of each anchor, (N,); the backward pass computes its gradient."""

    @staticmethod
    def forward(ctx: Any, evaluation: Evaluation, *inputs: Tensor | None) -> Tensor:
        ctx.evaluation = evaluation
        ctx.save_for_backward(*inputs[:4], *evaluation.uncopied)
        return reduce(evaluation.values(), "none", evaluation.loss.name)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        _ = ctx.saved_tensors  # raises if a tensor has been changed in place
        needed = tuple(ctx.needs_input_grad[1:5])
        return None, *ctx.evaluation.differentiate(upstream.contiguous(), needed)[1]

"""The loss of a batch: the trainable part of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.errors import Diverged, GradlabError
from gradlab.gradient.learnable import LearnableLoss, learned_settings
from gradlab.large_batch.gradient_cache import GradientCache
from gradlab.large_batch.loss import BlockwiseLoss
from gradlab.losses.base import Loss
from gradlab.train.augment import SentenceAugmentation
from gradlab.train.batches import Embedded, Packed, augment, look_up
from gradlab.train.branches import Branches, Sequences
from gradlab.train.distributed import Processes
from gradlab.train.fgsm import FGSM, PreviousFGSM
from gradlab.train.outputs import Batch, Output
from gradlab.train.parts import Parts
from gradlab.train.queue import age_statistics


class Objective(Branches):
    """Encoder, heads, views, branches and loss. What is registered here is in the checkpoints.

    By default both views are the sentence itself, encoded with independent dropout (SimCSE, Gao et al. 2021). The
    `Parts` of a configuration add a queue of negatives, a momentum branch, heads, augmentations and FGSM; what they do
    not offer is a matter of overriding a method.

    Attributes:
        encoder: what is trained, and saved in the end.
        head: applied to its embeddings in training only.
        loss: the registered loss; of one that learns hyper-parameters, with their values of now.
        parts: what there is beside them.
    """

    def __init__(
        self,
        encoder: Encoder,
        loss: Loss,
        *,
        head: nn.Module | None = None,
        processes: Processes | None = None,
        groups: int = 2,
        precision: str = "float32",
        compiled: bool = False,
        parts: Parts | None = None,
        chunk_size: int | None = None,
    ) -> None:
        processes = processes or Processes(0, 1, encoder.device)
        super().__init__(
            encoder,
            head if head is not None else nn.Identity(),
            _criterion(loss, processes, chunk_size),
            parts or Parts(),
            processes,
            groups=groups,
            precision=precision,
            compiled=compiled,
            chunk_size=chunk_size,
        )
        self._loss = loss
        self._ring = self._shared(loss)
        self._together = False
        self._pending: list[Tensor] = []
        self._pending_sentences: list[Tensor] = []
        self._context: dict[str, Any] = {}

    @property
    def loss(self) -> Loss:
        """The loss, for diagnostics."""
        return self._criterion.current if isinstance(self._criterion, LearnableLoss) else self._loss

    def views(self, sequences: Sequences, others: Sequences | None = None) -> tuple[Sequences, Sequences]:
        """Token ids of the two views of a batch.

        Args:
            sequences: the sentences.
            others: their second views, where a column of the training file holds them.
        """
        augmentation = self.parts.augmentation
        second = sequences if others is None else others
        if isinstance(augmentation, SentenceAugmentation):
            # From torch's generator, whose state is in the checkpoints.
            generator = np.random.default_rng(int(torch.randint(2**63 - 1, ())))
            if self.parts.both_views:
                sequences = augmentation.batch(sequences, generator)
            second = augmentation.batch(second, generator)
        return sequences, second

    def prepare(
        self,
        sequences: Sequences,
        others: Sequences | None = None,
        *,
        sentences: NDArray[np.int64] | None = None,
    ) -> Batch:
        """Both views of a batch, laid out on the device for the branches that encode them; see :meth:`views`.

        Args:
            sequences, others: of this process.
            sentences: rows of the training file that the whole batch, of all processes, comes from.
        """
        first, second = self.views(sequences) if others is None else self.views(sequences, others)
        target = self.pack(second) if self.momentum is not None else None
        alone = target is not None and self.parts.keys_are_positives
        online = self.pack(first if alone else [*first, *second])
        rows = None if sentences is None else torch.from_numpy(sentences).to(self.processes.device)
        return Batch(online, target, self._changed(online, len(first)), rows)

    def forward(self, batch: Batch) -> Output:
        """The loss of what :meth:`prepare` laid out, over the batches of all processes."""
        return self.evaluate(batch, self.processes.gather)

    def accumulate(self, batch: Batch, factor: float) -> Output:
        """:meth:`forward`, and the gradient of ``factor`` times the loss, added to that of the parameters.

        Chunk by chunk, so that no more than one chunk's activations are held; see `gradlab.large_batch.gradient_cache`.
        """
        cache = GradientCache(self.processes.device)
        output = self.evaluate(batch, self.processes.gather, cache)
        (output.loss * factor).backward()
        output = replace(output, loss=output.loss.detach())  # whose graph holds rows
        self._in_place = True
        try:
            cache.backward()
        finally:
            self._in_place = False
        return output

    def evaluate(
        self,
        batch: Batch,
        gather: Callable[[Tensor], Tensor] | None = None,
        cache: GradientCache | None = None,
    ) -> Output:
        """The same, for the batch of this process alone unless ``gather`` collects those of the others.

        Args:
            batch: see :meth:`prepare`.
            gather: collects rows.
            cache: encodes chunks without their activations.
        """
        self._together = gather is not None
        gather = gather or _as_it_is
        # Of the losses only combinators ask for more than embeddings.
        asked = self.loss.is_combinator
        self._context = {"sentences": batch.sentences} if asked and batch.sentences is not None else {}
        if self._context and self.parts.guide is not None:
            self._context["guide"] = self.parts.guide(self._context["sentences"])
        keys = None if batch.target is None else gather(self._target_rows(batch.target, cache))
        if self._chunk_size is not None:
            rows, *encoded = self._chunks(self._chunk, batch.online, batch.changed, cache)
            self._encoded = encoded[0] if encoded else None
            return self._with_keys(self._compare(rows, keys, gather), keys)
        perturbed = self.fgsm is not None and torch.is_grad_enabled()
        embedded = None
        if perturbed or batch.changed is not None:
            embedded = look_up(self.encoder, batch.online)
        if embedded is not None and batch.changed is not None and self._embedding_view is not None:
            embedded = augment(embedded, batch.online, batch.changed, self._embedding_view)
        if self.fgsm is not None and perturbed:
            fixed = None if keys is None else keys.detach()
            embedded = self._perturb(self.fgsm, batch.online, embedded, fixed, gather)
        output = self._output(batch.online, embedded, keys, gather)
        return self._with_keys(output, keys)

    def _with_keys(self, output: Output, keys: Tensor | None) -> Output:
        """What the queue, if there is one, is to take in."""
        if self.queue is None:
            return output
        return replace(output, keys=(output.positives if keys is None else keys).detach())

    def compare(self, anchors: Tensor, positives: Tensor, extra_negatives: Tensor | None = None) -> Output:
        """The loss on embeddings (N, D), with the queue's negatives behind the extra ones.

        Raises:
            Diverged: embeddings that are not finite.
        """
        extra, ages, context = extra_negatives, None, self._context
        if self.queue is not None:
            queued, ages = self.queue.negatives()
            if len(queued):
                queued = queued.to(anchors.dtype)
                if "sentences" in context:
                    given = torch.full((0 if extra is None else len(extra),), -1).to(ages)
                    numbers = [context["sentences"][: len(anchors)], given, self.queue.numbers()]
                    context = {**context, "sentences": torch.cat(numbers)}
                extra = queued if extra is None else torch.cat([extra, queued])
        in_batch = self.parts.in_batch_negatives
        if extra is None and not in_batch and self.queue is not None:
            # Nothing pushes yet: the step leaves the weights as they are.
            loss = 0 * (anchors.sum() + positives.sum())
        else:
            gated = self.open_share is not None and torch.is_grad_enabled()
            rows, criterion, told = (anchors, positives, extra), self._criterion, context
            if self._ring is not None and self._together and not gated:
                rows, criterion = self._own(*rows), self._ring
                told = {name: self._own_numbers(value, len(anchors)) for name, value in context.items()}
            reduction = "none" if gated else "mean"
            try:
                loss = criterion(*rows, reduction, normalize=True, in_batch_negatives=in_batch, **told)
            except GradlabError as error:
                if anchors.isfinite().all() and positives.isfinite().all():
                    raise
                raise Diverged("the embeddings are not finite; lower the learning rate") from error
            if self.open_share is not None and gated:
                loss = (loss * self.open_share.factors(len(anchors)).to(loss)).mean()
        return Output(loss, anchors, positives, extra, in_batch, ages, context=context)

    def _shared(self, loss: Loss) -> BlockwiseLoss | None:
        """The loss of rows that are spread over the processes; None where each computes the whole."""
        if self.processes.count == 1 or learned_settings(loss):
            return None
        try:
            return BlockwiseLoss(loss, group="world")
        except GradlabError:  # one that needs more of the batch than a ring tells
            return None

    def _own(
        self, anchors: Tensor, positives: Tensor, extra: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """This process's rows among those of all, and its share of the extra negatives, which all have."""
        rank, count = self.processes.rank, self.processes.count
        others = None if extra is None else extra[rank::count]
        return self._mine(anchors), self._mine(positives), others

    def _own_numbers(self, numbers: Tensor, count: int) -> Tensor:
        """Of `_own`'s sentences and extra negatives."""
        others = numbers[count:][self.processes.rank :: self.processes.count]
        return torch.cat([self._mine(numbers[:count]), others])

    def _mine(self, rows: Tensor) -> Tensor:
        """This process's part of what there is one of for each sentence."""
        size = len(rows) // self.processes.count
        return rows[self.processes.rank * size : (self.processes.rank + 1) * size]

    def after_batch(self, output: Output) -> None:
        """Called after the backward pass of each batch, of which a step may have several."""
        if output.keys is not None:
            self._pending.append(output.keys)
            if "sentences" in output.context:
                self._pending_sentences.append(output.context["sentences"][: len(output.keys)])

    def loss_parameters(self) -> list[nn.Parameter]:
        """Hyper-parameters that the loss learns."""
        return list(self._criterion.parameters()) if isinstance(self._criterion, nn.Module) else []

    def before_step(self) -> None:
        """Called when the gradients of a step are complete."""
        if self.momentum is not None:
            self.momentum.hand_over_gradients()
        if isinstance(self.fgsm, PreviousFGSM):
            self.fgsm.remember(self.encoder.model.get_input_embeddings())

    def after_step(self, output: Output) -> None:
        """Called after each optimiser step with the last batch's output: the averages follow, keys are queued."""
        if self.momentum is not None:
            self.momentum.update()
        if self.open_share is not None:
            self.open_share.step += 1
        if self.queue is not None and self._pending:
            numbers = torch.cat(self._pending_sentences) if self._pending_sentences else None
            self.queue.enqueue(torch.cat(self._pending), numbers)
        self._pending.clear()
        self._pending_sentences.clear()

    def statistics(self, output: Output) -> dict[str, float]:
        """What the parts tell of the last step: ages of the negatives it saw, its decay, what FGSM changed, what the loss learned."""
        found: dict[str, float] = {}
        if output.negative_ages is not None:
            found |= age_statistics(output.negative_ages)
        if self.momentum is not None:
            found["momentum_decay"] = self.momentum.last_decay
        if self.fgsm is not None:
            found["fgsm_changed"] = float(self.fgsm.changed)
        if isinstance(self._criterion, LearnableLoss):
            found |= {f"learned_{name}": value for name, value in self._criterion.statistics().items()}
        return found

    def _output(
        self,
        packed: Packed,
        embedded: Embedded | None,
        keys: Tensor | None,
        gather: Callable[[Tensor], Tensor],
    ) -> Output:
        rows = self.embed(packed) if embedded is None else self.embed(packed, embedded)
        return self._compare(rows, keys, gather)

    def _compare(self, rows: Tensor, keys: Tensor | None, gather: Callable[[Tensor], Tensor]) -> Output:
        """The loss of the rows of the trained branch, anchors first, and of the momentum branch's keys."""
        count = len(rows)
        if keys is not None and self.parts.keys_are_positives:
            output = self.compare(gather(self.predict(rows)), keys)
        else:
            count //= 2
            output = self.compare(gather(self.predict(rows[:count])), gather(rows[count:]))
        if self._encoded is None:
            return output
        return replace(output, encoded=self._encoded[:count])

    def _perturb(
        self,
        fgsm: FGSM,
        packed: Packed,
        embedded: Embedded | None,
        keys: Tensor | None,
        gather: Callable[[Tensor], Tensor],
    ) -> Embedded:
        """The looked-up embeddings, moved by FGSM; both passes draw the same dropout."""
        assert embedded is not None
        if isinstance(fgsm, PreviousFGSM):
            return fgsm.perturb(embedded, fgsm.gradients(packed.groups), packed.groups)
        leaves = [rows.detach().requires_grad_() for rows in embedded]
        device = self.processes.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            loss = self._output(packed, leaves, keys, gather).loss
        return fgsm.perturb(embedded, torch.autograd.grad(loss, leaves), packed.groups)


def _criterion(
    loss: Loss, processes: Processes, chunk_size: int | None
) -> LearnableLoss | BlockwiseLoss | Loss:
    """What evaluates the loss: itself, block by block where the batch comes in chunks, or with what it learns."""
    learns = learned_settings(loss)
    if chunk_size is not None and learns:
        raise GradlabError(
            f"chunk_size does not differentiate by what {loss.name} learns; set learnable=false"
        )
    if chunk_size is not None:  # a batch that needs chunks has too many similarities as well
        return BlockwiseLoss(loss)
    if learns:
        # Each process computes the whole loss; gradients are summed over them.
        return LearnableLoss(loss, share=1 / processes.count).to(processes.device)
    return loss


def freeze_unused(objective: Objective) -> None:
    """Take parameters that no gradient reaches out of training; DistributedDataParallel waits for the others."""
    objective.zero_grad()
    ids = np.array(objective.encoder.tokenizer("a probe")["input_ids"])
    objective.predict(objective.embed(objective.pack([ids, ids]))).sum().backward()
    of_loss = {id(one) for one in objective.loss_parameters()}
    for parameter in objective.trained_parameters():
        parameter.requires_grad_(parameter.grad is not None or id(parameter) in of_loss)
    objective.zero_grad(set_to_none=True)


def _as_it_is(rows: Tensor) -> Tensor:
    return rows

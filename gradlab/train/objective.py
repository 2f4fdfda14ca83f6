"""`Objective`: the trainable part of a run, from the sentences of a batch to its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.encoder.model import Encoder
from gradlab.errors import Diverged, GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.hardness import Hardness
from gradlab.losses.mask import pairs_files
from gradlab.scale.blockwise import BlockwiseLoss
from gradlab.scale.gradient_cache import GradientCache
from gradlab.settings.module import LEARNED, LossModule, learned_numbers, learned_settings
from gradlab.train.augment import (
    Augmentation,
    EmbeddingAugmentation,
    SentenceAugmentation,
    get_augmentation,
)
from gradlab.train.batches import Packed
from gradlab.train.branch import (
    Branch,
    Embedded,
    Sequences,
    takes_broadcast_masks,
    takes_embeddings,
    tokens_in,
)
from gradlab.train.config import TrainConfig
from gradlab.train.cpu_speed import attention_for
from gradlab.train.distributed import RunProcesses, Views, share_batch, shared_loss
from gradlab.train.fgsm import FGSM, PreviousFGSM
from gradlab.train.heads import heads
from gradlab.train.momentum import Momentum
from gradlab.train.objective_parts import Component, Output, TokenBatch
from gradlab.train.queue import Queue

Gather = Callable[[Tensor], Tensor]


class Objective(nn.Module):
    """Encoder, heads, views, branches and loss; modules registered here are in the checkpoints.

    By default both views are the sentence itself, encoded with independent dropout (SimCSE, Gao et
    al. 2021). The configuration adds other views, heads, a queue of negatives and a momentum
    branch. For anything else, override a method, or write a `Component`.

    Attributes:
        encoder: the trained encoder, which is saved in the end.
        head: applied to its embeddings in training only.
        projection, predictor: behind the head, in both branches and for anchors only, respectively.
        momentum, queue, fgsm: components; None without such a part.
        augmentation: makes the second view, or both; None leaves it to dropout.
        loss_inputs: arguments of the loss about the sentences, such as "guide" or "labels", by
            name: functions of their rows in the training file, (N,). The trainer sets them.
        config: the configuration.
        processes: the processes that train.
    """

    def __init__(
        self,
        encoder: Encoder,
        loss: Loss,
        config: TrainConfig | None = None,
        *,
        processes: RunProcesses | None = None,
        steps: int = 1,
    ) -> None:
        """Put together what ``config`` asks for; None adds nothing to encoder and loss.

        The momentum branch begins as a copy of encoder and heads; its schedule has ``steps`` steps.
        """
        super().__init__()
        config = config or TrainConfig(model="-", train_file="-", output="-", length_groups=2)
        self.config, self.processes = config, processes or RunProcesses(0, 1, encoder.device)
        self.loss_inputs: dict[str, Callable[[Tensor], Any]] = {}
        device = encoder.device
        head, projection, predictor = (layers.to(device) for layers in heads(config, encoder))
        # In this order, which is that of the optimiser's state.
        self.encoder, self.head = encoder, head
        self._criterion = _criterion(loss, self.processes, config.chunked).to(device)
        # A loss that learns nothing and sees the whole batch is called as it is.
        is_plain = not (config.chunked or self._criterion.values)
        self._plain_loss = loss if is_plain else None
        self.projection, self.predictor = projection, predictor
        self._shared_loss = shared_loss(loss, self.processes)
        # Gradients of the loss's parameters in the last step.
        self._gradients: list[Tensor | None] = []
        self._asks_for_owners = any(
            isinstance(nested, Hardness) and nested.on in ("hard", "in_batch")
            for nested in loss.within
        )
        self._asks_for_sentences = "sentences" in loss.looks_at
        self.momentum = None
        if config.momentum is not None:
            copied = {"encoder": encoder, "head": head, "projection": projection}
            self.momentum = Momentum(copied, config, steps)
        self.queue = _queue(config, encoder, numbered=bool(pairs_files(loss)))
        self.fgsm = _fgsm(config, encoder)
        self.augmentation: Augmentation | None = None
        if config.augment is not None:
            limits = {"tokenizer": encoder.tokenizer, "longest": encoder.max_length}
            self.augmentation = get_augmentation(config.augment, **limits)
        self._trained_branch = self._branch()
        if self.momentum is not None:
            self._momentum_branch = replace(
                self._trained_branch, **self.momentum.copies, keep_encoded=False
            )

    @property
    def loss(self) -> Loss:
        """The loss with the current values of its learned hyper-parameters."""
        loss: Loss = self._plain_loss or self._criterion.current
        return loss

    @property
    def components(self) -> list[Component]:
        """The parts that act at several moments of a step."""
        return [module for module in self.children() if isinstance(module, Component)]

    def trained_parameters(self) -> list[nn.Parameter]:
        """Return all parameters except those of the momentum branch, which follow the others."""
        following = set(map(id, () if self.momentum is None else self.momentum.parameters()))
        return [parameter for parameter in self.parameters() if id(parameter) not in following]

    def loss_parameters(self) -> list[nn.Parameter]:
        """Return the loss's parameters: learned hyper-parameters, or those of a user's module."""
        return list(self._criterion.parameters())

    def compile_encoders(self) -> None:
        """Compile the encoders of all branches with torch.compile, in place."""
        self.encoder.model.compile(dynamic=True)
        if self.momentum is not None:
            self._momentum_branch.encoder.model.compile(dynamic=True)

    def views(
        self, sequences: Sequences, second_views: Sequences | None = None
    ) -> tuple[Sequences, Sequences]:
        """Return both views of a batch as ids; ``second_views`` are of the training file."""
        first, second = sequences, sequences if second_views is None else second_views
        if isinstance(augmentation := self.augmentation, SentenceAugmentation):
            # Seeded from torch's generator, whose state is in the checkpoints.
            generator = np.random.default_rng(int(torch.randint(2**63 - 1, ())))
            if self.config.augment_views == "both":
                first = augmentation.batch(first, generator)
            second = augmentation.batch(second, generator)
        return first, second

    def pack(self, sequences: Sequences) -> Packed:
        """Lay out sequences on the device without needless padding."""
        return self._trained_branch.pack(sequences)

    def embed(self, packed: Packed) -> Tensor:
        """Return the trained branch's rows (sequences, D) for the loss, at least in float32."""
        return self._trained_branch(packed)[0]

    def predict(self, rows: Tensor) -> Tensor:
        """Return anchors (N, D) after the predictor, if there is one."""
        if isinstance(self.predictor, nn.Identity):
            return rows
        with self._trained_branch.computing():
            return self.predictor(rows).to(rows.dtype)

    def prepare(
        self,
        sequences: Sequences,
        second_views: Sequences | None = None,
        *hard: Sequences,
        row_numbers: NDArray[np.int64] | None = None,
    ) -> TokenBatch:
        """Lay out both views of a batch, and its hard negatives column by column, on the device.

        ``row_numbers`` are the rows of the training file in the whole batch, of all processes.
        """
        # A subclass may accept one argument only.
        first, second = self.views(sequences, *([] if second_views is None else [second_views]))
        momentum = self.pack(second) if self.momentum is not None else None
        alone = self.momentum is not None and self.config.momentum_use == "positives"
        columns = [first] if alone else [first, second, *hard]
        trained = self.pack([sequence for column in columns for sequence in column])
        changed = None
        if self._trained_branch.view is not None:
            changed = torch.ones_like(trained.order, dtype=torch.bool)
            if self.config.augment_views != "both":
                changed[trained.order[: len(first)]] = False
        rows = None
        if row_numbers is not None:
            rows = torch.from_numpy(row_numbers).to(self.processes.device)
        return TokenBatch(trained, momentum, changed, rows, len(columns))

    def forward(self, batch: TokenBatch) -> Output:
        """Return the loss of a batch from :meth:`prepare`, over the batches of all processes."""
        return self.evaluate(batch, self.processes.gather if self.processes.count > 1 else None)

    def backward_in_chunks(self, batch: TokenBatch, factor: float) -> Output:
        """As :meth:`forward`; adds ``factor`` times the loss's gradient to that of the parameters.

        Activations of one chunk are held at a time; see `gradlab.scale.gradient_cache`.
        """
        cache = GradientCache(self.processes.device)
        output = self.evaluate(batch, self.processes.gather, cache)
        (output.loss * factor).backward()
        output = replace(output, loss=output.loss.detach())  # the graph of the loss holds rows
        cache.backward()
        return output

    def evaluate(
        self, batch: TokenBatch, gather: Gather | None = None, cache: GradientCache | None = None
    ) -> Output:
        """Return the loss of this process's batch or, if ``gather`` joins rows, of all processes.

        ``cache`` encodes chunks without keeping their activations.
        """
        gathered = gather or (lambda rows: rows)
        context: dict[str, Any] = {}
        if batch.sentences is not None:
            context = {name: reader(batch.sentences) for name, reader in self.loss_inputs.items()}
            if self._asks_for_sentences:
                context["sentences"] = batch.sentences
        keys = None if batch.momentum is None else gathered(self._keys(batch.momentum, cache))

        def compare(rows: Tensor, keys: Tensor | None) -> Output:
            """Return the loss of trained-branch rows; for anchors only, ``keys`` are positives."""
            first, *columns = rows.split(len(rows) // batch.columns)
            anchors = gathered(self.predict(first))
            positives, *hard = map(gathered, columns) if columns or keys is None else [keys]
            inputs: dict[str, Any] = {
                "hard": hard,
                "context": context,
                "gathered": gather is not None,
            }
            return self.compare(anchors, positives, **inputs)

        embedded = None
        if self.fgsm is not None and torch.is_grad_enabled():
            fixed = None if keys is None else keys.detach()

            def loss_of(moved: Embedded) -> Tensor:
                return compare(self._trained_branch(batch.trained, embedded=moved)[0], fixed).loss

            embedded = self._trained_branch.look_up(batch.trained, batch.changed)
            assert embedded is not None
            embedded = self.fgsm(embedded, batch.trained.groups, loss_of)
        rows, *encoded = self._trained_branch(batch.trained, batch.changed, embedded, cache)
        output = compare(rows, keys)
        if encoded:
            output = replace(output, encoded=encoded[0][: len(rows) // batch.columns])
        if self.queue is not None:
            output = replace(output, keys=(output.positives if keys is None else keys).detach())
        return output

    def compare(
        self,
        anchors: Tensor,
        positives: Tensor,
        extra_negatives: Tensor | None = None,
        *,
        hard: Sequence[Tensor] = (),
        context: Mapping[str, Any] | None = None,
        gathered: bool = False,
    ) -> Output:
        """Return the loss of embeddings (N, D), with the queue's negatives behind the extra ones.

        Args:
            anchors, positives: the two views.
            extra_negatives: (M, D), negatives of every anchor, or None.
            hard: columns of hard negatives, (N, D) each: own, or shared, put before the extra ones.
            context: further arguments of the loss, such as labels; see :attr:`loss_inputs`.
            gathered: whether the rows are those of all processes.

        Raises:
            Diverged: the embeddings are not finite.
        """
        context, ages = dict(context or {}), None
        in_batch = self.config.in_batch_negatives
        has_own_hard = len(hard) > 0 and self.config.hard_negatives == "own"
        shared_columns = 0 if has_own_hard else len(hard)
        if has_own_hard:
            context["own_negatives"] = torch.stack(list(hard), dim=1)
        extra_parts = list(hard[:shared_columns])
        extra_parts += [] if extra_negatives is None else [extra_negatives]
        if self.queue is not None:
            queued, ages, sentence_numbers = self.queue.contents()
            if "sentences" in context:
                unknown = ages.new_full((sum(map(len, extra_parts)),), -1)
                context["sentences"] = torch.cat([context["sentences"], unknown, sentence_numbers])
            extra_parts += [queued.to(anchors.dtype)] if len(queued) else []
        extra = torch.cat(extra_parts) if extra_parts else None
        # Only combinators, such as hardness(), ask which negatives belong to which anchor.
        asks_for_owners = self.loss.is_combinator and (shared_columns or self._asks_for_owners)
        if extra is not None and asks_for_owners:
            # A column has one row per anchor; the other extra negatives have no owner.
            rows = torch.arange(len(extra), device=anchors.device)
            owned = rows < shared_columns * len(anchors)
            context["owners"] = torch.where(owned, rows % len(anchors), -1)
        views = anchors, positives, extra
        if extra is None and not (in_batch or has_own_hard) and self.queue is not None:
            # The queue is still empty: without negatives, the gradient is zero.
            loss = 0 * (anchors.sum() + positives.sum())
        else:
            loss = self._value(views, context, shared_columns, gathered)
        learned_loss = self.loss if self._criterion.values else None
        return Output(loss, *views, in_batch, ages, context=context, learned=learned_loss)

    def after_batch(self, output: Output) -> None:
        """Called after the backward pass of each batch; a step may have several batches."""
        for component in self.components:
            component.after_batch(output)

    def before_step(self) -> None:
        """Called when the gradients of a step are complete."""
        for component in self.components:
            component.before_step()
        self._gradients = [
            p.grad if p.grad is None else p.grad.clone() for p in self.loss_parameters()
        ]

    def after_step(self, output: Output) -> None:
        """Called after each optimiser step with the last batch's output."""
        for component in self.components:
            component.after_step()

    def statistics(self, output: Output) -> dict[str, float]:
        """Return numbers of the components, and learned values and gradients of the loss."""
        statistics: dict[str, float] = {}
        for component in self.components:
            statistics |= component.statistics(output)
        criterion = self._criterion
        learns = criterion if criterion.original is None else criterion.original
        numbers = learned_numbers(learns.named_parameters(), self._gradients)
        if criterion.values:  # their values are those of settings, not of the trained numbers
            numbers = {
                name: number for name, number in numbers.items() if name.endswith("_gradient")
            }
            current = criterion.statistics().items()
            numbers |= {f"{LEARNED}{name}": number for name, number in current}
        return statistics | numbers

    def _branch(self) -> Branch:
        """Return the trained branch.

        Raises:
            GradlabError: the encoder cannot take the embeddings that the configuration changes.
        """
        encoder, config, device = self.encoder, self.config, self.encoder.device
        view = self.augmentation if isinstance(self.augmentation, EmbeddingAugmentation) else None
        modules = self.head, self.projection, self.predictor
        headed = any(not isinstance(module, nn.Identity) for module in modules)
        shares_lookup = takes_embeddings(encoder)
        if not shares_lookup and (self.fgsm or view):
            raise GradlabError(
                "this encoder does not compute the same from looked-up embeddings as from token "
                "ids; it cannot be trained with FGSM or an augmentation of embeddings"
            )
        branch = Branch(
            encoder, self.head, self.projection, config, device, shares_lookup, view, headed
        )
        if device.type == "cuda" and takes_broadcast_masks(encoder):
            branch = replace(branch, broadcasts_masks=True)
        if config.chunk_memory is not None:
            branch = replace(branch, chunk_tokens=tokens_in(config.chunk_memory, branch))
        return branch

    def _value(self, views: Views, context: dict[str, Any], shared: int, gathered: bool) -> Tensor:
        """Return the loss of views, whose extra negatives begin with ``shared`` hard columns."""
        criterion, (anchors, positives, _) = self._plain_loss or self._criterion, views
        # Owners are rows of the whole batch, while each process evaluates its own rows.
        if self._shared_loss and gathered and "owners" not in context:
            criterion = self._shared_loss
            views, context = share_batch(self.processes, views, context, hard=shared)
        options: dict[str, Any] = {"normalize": True} | context
        options["in_batch_negatives"] = self.config.in_batch_negatives
        try:
            loss: Tensor = criterion(*views, "mean", **options)
        except GradlabError as error:
            if anchors.isfinite().all() and positives.isfinite().all():
                raise
            raise Diverged("the embeddings are not finite; lower the learning rate") from error
        return loss

    def _keys(self, packed: Packed, cache: GradientCache | None) -> Tensor:
        """Return the momentum branch's second views (N, D), detached without ``keys_gradient``."""
        flows = self.config.keys_gradient
        all_rows = torch.ones_like(packed.order, dtype=torch.bool)
        with torch.set_grad_enabled(torch.is_grad_enabled() and flows):
            return self._momentum_branch(packed, all_rows, cache=cache if flows else None)[0]


def load_encoder(config: TrainConfig, device: torch.device) -> Encoder:
    """Load the encoder to train; the projection heads of ``cls_mlp`` are the objective's."""
    pooler = "cls" if config.pooler == "cls_mlp" else config.pooler
    options: dict[str, Any] = {"attention": attention_for(device), "device": device}
    return Encoder.load(config.model, pooler, dropout=config.dropout, **options)


def freeze_unused(objective: Objective) -> None:
    """Freeze parameters that no gradient reaches, for which DistributedDataParallel would wait."""
    objective.zero_grad()
    ids = np.array(objective.encoder.tokenizer("a probe")["input_ids"])
    objective.predict(objective.embed(objective.pack([ids, ids]))).sum().backward()
    of_loss = {id(parameter) for parameter in objective.loss_parameters()}
    for parameter in objective.trained_parameters():
        parameter.requires_grad_(parameter.grad is not None or id(parameter) in of_loss)
    objective.zero_grad(set_to_none=True)


def _queue(config: TrainConfig, encoder: Encoder, numbered: bool) -> Queue | None:
    """Return the queue of negatives that the configuration asks for, if any."""
    if not config.queue_size:
        return None
    width = config.projection_width if config.projection_layers else None
    return Queue(
        config.queue_size,
        width or encoder.dimension,
        initial=config.queue_initial,
        positions=config.queue_ages,
        numbered=numbered,
    ).to(encoder.device)


def _fgsm(config: TrainConfig, encoder: Encoder) -> FGSM | None:
    """Return the perturbation of embeddings that the configuration asks for, if any."""
    if not config.fgsm:
        return None
    if config.fgsm_gradient == "previous":
        inputs = encoder.model.get_input_embeddings()
        return PreviousFGSM(config.fgsm, inputs).to(encoder.device)
    return FGSM(config.fgsm)


def _criterion(loss: Loss, processes: RunProcesses, chunked: bool) -> LossModule:
    """Return the loss as a module, which trains what it learns; block by block for chunks."""
    learns = bool(learned_settings(loss))
    if chunked and learns:
        raise GradlabError(
            f"chunks leave no gradient for what {loss.name} learns; set learnable=false"
        )
    if chunked:  # a batch that needs chunks also has too many similarities
        return BlockwiseLoss(loss)
    # Each process computes the whole loss; gradients are summed over them.
    return LossModule(loss, learnable=learns or None, share=1 / processes.count)

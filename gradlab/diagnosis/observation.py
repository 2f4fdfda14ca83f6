"""Observation of a trainer's first batches: loss, gradients and embeddings, without an update."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.decomposition.two_view_losses import gathers, name_of
from gradlab.diagnosis import column_trials, noise_trials, pairing_trials, trials, weight_trials
from gradlab.diagnosis.cache_trials import beside_plain, replay
from gradlab.diagnosis.trial_step import by_column, norm_of, size_of, trial_step
from gradlab.errors import GradlabError, first_line
from gradlab.losses.base import Loss
from gradlab.monitor.batch_measurement import Snapshot, in_double
from gradlab.monitor.captured_views import (
    Capture,
    Views,
    capture_of,
    columns_of,
    loss_of,
)
from gradlab.monitor.library_losses import recognise
from gradlab.progress_bars import progress_bar
from gradlab.scale.audit import audit
from gradlab.scale.audit.worker import GivenModel
from gradlab.seeds import random_state_kept

# Largest number of batches drawn to find some of every data set.
MOST_DRAWN = 64
TEXTS = 100_000  # rows of a data set that are searched for duplicates and empty texts
NAME_OF_SET = "dataset_name"  # column that a trainer of several data sets adds


@dataclasses.dataclass(frozen=True)
class ObservedBatch:
    """A batch of a trainer with its loss and gradients."""

    dataset: str  # name of the data set; empty if there is only one
    loss: Any  # loss of this data set
    # Tokenised; empty unless the trainer is of sentence-transformers.
    columns: list[Mapping[str, Any]]
    labelled: bool  # with labels that the loss depends on
    value: float
    snapshot: Snapshot | None  # None if the embeddings were not found
    problem: str  # why the embeddings were not found
    # Largest absolute entry for every trained tensor; 0 without gradient.
    gradients: dict[str, float]
    # For a gradient cache, the relative difference of its second embeddings from the first, and of
    # its gradients from those of plain training; None if unknown.
    replay: float | None = None
    plain: float | None = None
    # Embeddings of the columns; in the order of the passes through the model if those do not tell.
    embedded: Sequence[Tensor] = ()
    labels: Tensor | None = None
    norm: float = math.nan  # of the gradient of all trained tensors
    # Whether the loss has labels and stays the same when rows exchange them, and the trainer's loss
    # over the loss; None if unknown.
    ignores_labels: bool | None = None
    broadcasts_labels: bool = False  # whether the loss compares each pair with the labels of all
    factor: float | None = None
    # The loss over its mean where rows exchange labels, without dropout; None if unknown.
    met: float | None = None
    # Share of the gradient that depends on which texts belong together; None if unknown.
    pairing: float | None = None
    unread: tuple[int, ...] = ()  # columns without which the loss stays the same
    new_layers: tuple[str, ...] = ()  # classes of layers that the loss makes as it is computed
    # Columns that the loss is not given and those that it is given in place of them.
    replaced: tuple[tuple[int, int], ...] = ()

    @property
    def half(self) -> bool:
        return self.snapshot is not None and self.snapshot.low_precision

    @property
    def is_own(self) -> bool:
        """Whether the loss is one of the user's own, and of no library."""
        libraries = ("sentence_transformers.", "gradlab.")
        return not type(self.loss).__module__.startswith(libraries)

    @functools.cached_property
    def registered(self) -> Loss | None:
        """The gradlab loss with the same formula, or None."""
        with contextlib.suppress(GradlabError):
            loss = recognise(self.loss, len(self.columns) or 2)
            return loss if isinstance(loss, Loss) else None
        return None

    @property
    def candidates(self) -> int:
        """Number of candidates of an anchor: all positives and hard negatives."""
        assert self.snapshot is not None
        extra, own = self.snapshot.extra_negatives, self.snapshot.context.get("own_negatives")
        further = (0 if extra is None else len(extra)) + (0 if own is None else own.shape[1])
        return len(self.snapshot.anchors) + further

    @functools.cached_property
    def cosines(self) -> Tensor | None:
        """Cosines of anchors to positives and hard negatives, (N, N + M), float64.

        None if they are not finite.
        """
        if self.snapshot is None or not self.snapshot.fits or self.labelled:
            return None
        columns = [self.snapshot.anchors, self.snapshot.positives, self.snapshot.extra_negatives]
        rows = in_double([column for column in columns if column is not None], torch.device("cpu"))
        anchors, *candidates = (nn.functional.normalize(column, dim=1) for column in rows)
        cosines = anchors @ torch.cat(candidates).T
        return cosines if bool(cosines.isfinite().all()) else None


@dataclasses.dataclass(frozen=True)
class Observation:
    """Data on a trainer that the checks use."""

    trainer: Any
    title: str
    batches: list[ObservedBatch]
    trained: dict[str, Tensor]  # parameters of the model that require gradients
    frozen: list[str]
    silent: list[str]  # dropout layers that stay off in training
    # Name of the loss -> audit of several processes, why there is none, or None without gathering.
    audits: dict[str, Any]
    # Rows of each data set that the loader draws; see `gradlab.diagnosis.trials.draws`.
    draws: dict[str, dict[str, Any]]
    # Numbers of checks of the trainer that `gradlab.diagnosis.trials` measures, by check.
    trials: dict[str, Any]
    most_rows: int = TEXTS

    @property
    def args(self) -> Any:
        return self.trainer.args

    @functools.cached_property
    def tables(self) -> dict[str, dict[str, list[str]]]:
        """Columns of texts by name, of the first rows of each data set; of one, by ``""``."""
        return {
            name: {
                column: list(cells)
                for column, cells in rows[: self.most_rows].items()
                if column != NAME_OF_SET and cells and all(isinstance(cell, str) for cell in cells)
            }
            for name, rows in _datasets(self.trainer).items()
        }

    def table_of(self, dataset: str) -> dict[str, list[str]]:
        """Return the columns of texts of a data set; empty if they are unknown."""
        return self.tables.get(dataset) or self.tables.get("", {})

    def rows_of(self, dataset: str) -> Any:
        """Return a data set with a length, or None."""
        datasets = _datasets(self.trainer)
        return datasets.get(dataset, datasets.get(""))

    def of_losses(self) -> dict[str, list[ObservedBatch]]:
        """Return the batches of each loss, by the name of its data set."""
        batches: dict[str, list[ObservedBatch]] = {}
        for batch in self.batches:
            batches.setdefault(batch.dataset, []).append(batch)
        return batches


def observe(
    trainer: Any, views: Views, batches: int, processes: int, progress: bool | None
) -> Observation:
    """Run a trainer's first batches and restore its state; see `gradlab.doctor`.

    Raises:
        GradlabError: there are no data, or the loss cannot be computed.
    """
    capture = capture_of(trainer, views)
    if trainer.train_dataset is None:
        raise GradlabError("the trainer has no train_dataset; give it one before asking the doctor")
    model = trainer.model
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    frozen = [name for name, weight in model.named_parameters() if not weight.requires_grad]
    with random_state_kept(), _unchanged(trainer):
        model.train()
        off = {name: module for name, module in model.named_modules() if not module.training}
        dropout = nn.modules.dropout._DropoutNd
        silent = [
            name for name, module in off.items() if isinstance(module, dropout) and module.p > 0
        ]
        bar = progress_bar(_draw(trainer, batches), progress, desc="doctor")
        observed = [_try(trainer, inputs, capture, trained) for inputs in bar]
        drawn, tried = _trials(trainer, capture, views)
    losses = {name_of(batch.loss): batch for batch in observed if batch.loss is not None}
    audited = losses if processes > 1 else {}
    audits = {name: _audit(trainer, batch, processes) for name, batch in audited.items()}
    title = type(trainer).__name__ + (f" with {', '.join(losses)}" if losses else "")
    return Observation(trainer, title, observed, trained, frozen, silent, audits, drawn, tried)


def _datasets(trainer: Any) -> dict[str, Any]:
    """Return the data sets with columns and a length by name; only one is called ``""``."""
    rows = trainer.train_dataset
    datasets = dict(rows) if isinstance(rows, Mapping) else {"": rows}
    return {
        name: rows
        for name, rows in datasets.items()
        if hasattr(rows, "column_names") and hasattr(rows, "__len__")
    }


@contextlib.contextmanager
def _unchanged(trainer: Any) -> Iterator[None]:
    """Restore modes, gradients and buffers on exit; meanwhile, use a copy of the loss.

    The copy has the same model.
    """
    model, loss = trainer.model, getattr(trainer, "loss", None)
    modes = [(module, module.training) for module in model.modules()]
    gradients = [(tensor, tensor.grad) for tensor in model.parameters()]
    buffers = [(tensor, tensor.clone()) for tensor in model.buffers()]
    attributes = {
        "_train_dataloader": vars(trainer).get("_train_dataloader"),
        "accum_loss_components": copy.deepcopy(vars(trainer).get("accum_loss_components")),
    }
    loaders = list(trainer.accelerator._dataloaders)
    if loss is not None:
        with contextlib.suppress(Exception):  # a loss that cannot be copied is used itself
            trainer.loss = copy.deepcopy(loss, {id(model): model})
    try:
        yield
    finally:
        if loss is not None:
            trainer.loss = loss
        trainer.accelerator._dataloaders[:] = loaders
        for name, value in attributes.items():
            if value is not None:
                setattr(trainer, name, value)
        for tensor, gradient in gradients:
            # A gradient that is older than a change of the vocabulary has another shape.
            fits = gradient is None or gradient.shape == tensor.shape
            tensor.grad = gradient if fits else None
        with torch.no_grad():
            for tensor, value in buffers:
                tensor.copy_(value)
        for module, mode in modes:
            module.training = mode


def _draw(trainer: Any, count: int) -> list[dict[str, Any]]:
    """Return up to ``count`` batches of every data set that has its own loss."""
    names = len(trainer.loss) if isinstance(getattr(trainer, "loss", None), dict) else 1
    drawn: Counter[str] = Counter()
    drawn_inputs = []
    for _, inputs in zip(range(MOST_DRAWN), trainer.get_train_dataloader(), strict=False):
        name = str(inputs.get("dataset_name", "")) if names > 1 else ""
        if drawn[name] < count:
            drawn[name] += 1
            drawn_inputs.append(trainer._prepare_inputs(inputs))
        if len(drawn) == names and min(drawn.values()) == count:
            break
    if not drawn_inputs:
        raise GradlabError(
            "the trainer's data give no batch; is the data set empty, or smaller than a batch?"
        )
    return drawn_inputs


def _trials(trainer: Any, capture: Capture, views: Views) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows that the loader draws, and the numbers of trials of the trainer."""
    from transformers.trainer_utils import has_length

    loader = trainer.get_train_dataloader()
    sizes = {name: len(rows) for name, rows in _datasets(trainer).items()}
    whole = len(sizes) == (len(trainer.train_dataset) if len(sizes) > 1 else 1)
    drawn = trials.draws(loader, sizes) if whole else {}
    batches = len(loader) if has_length(loader) else None
    texts = [
        text
        for rows in _datasets(trainer).values()
        for cells in rows[: trials.TEXTS_TRIED].values()
        for text in cells
        if isinstance(text, str)
    ]
    inputs = next(iter(_draw(trainer, 1)))
    tried = {
        "accumulation": trials.accumulation(trainer, inputs),
        "apart": trials.embedding_in_half_a_batch(trainer, inputs, capture, views),
        "tokens": trials.tokens(trainer.model, columns_of(trainer, inputs)[0]),
        "beside": trials.batch_dependence(trainer.model, texts),
        "schedule": trials.schedule(trainer, batches),
        "noise": noise_trials.training_mode(trainer, columns_of(trainer, inputs)[0]),
        "aside": weight_trials.penalty(trainer, inputs, float(trainer.args.learning_rate)),
    }
    return drawn, {name: numbers for name, numbers in tried.items() if numbers is not None}


def _try(
    trainer: Any, inputs: dict[str, Any], capture: Capture, trained: dict[str, Tensor]
) -> ObservedBatch:
    dataset, (_, loss) = str(inputs.get("dataset_name", "")), loss_of(trainer, inputs)
    own = {id(tensor) for tensor in trainer.model.parameters()}
    parameters = dict(loss.named_parameters()) if isinstance(loss, nn.Module) else {}
    learned = {name: tensor for name, tensor in parameters.items() if id(tensor) not in own}
    tensors = trained | {
        f"loss.{n}": tensor for n, tensor in learned.items() if tensor.requires_grad
    }
    columns, labels = columns_of(trainer, inputs)
    value, forward, backward = trial_step(trainer, inputs, tensors)
    snapshot, problem = None, ""
    try:
        snapshot = capture(trainer, inputs, [call.output for call in forward], value)
    except (GradlabError, RuntimeError, ValueError, IndexError) as error:
        problem = first_line(error)
    gradients = {name: size_of(tensor) for name, tensor in tensors.items()}
    norm = math.sqrt(sum(norm_of(tensor) ** 2 for tensor in trained.values()))
    depends = trials.dependence(trainer, inputs, loss, columns, labels)
    labelled = labels is not None and not depends["ignores"]
    embedded = by_column(forward, columns)
    unread: tuple[int, ...] = ()
    pairing = None
    if labels is None and len(embedded) >= len(columns):
        pairing = pairing_trials.share_of_pairing(trainer, inputs, columns, tensors)
    if loss is not None and embedded and len(embedded) < len(columns):
        unread = trials.unread(trainer, loss, columns, labels)
    batch = ObservedBatch(
        dataset, loss, columns, labelled, float(value), snapshot, problem, gradients,
        embedded=embedded, ignores_labels=depends["ignores"], unread=unread, pairing=pairing,
        broadcasts_labels=depends["broadcasts"],
        factor=depends["factor"], met=depends["met"], norm=norm,
        new_layers=depends["new_layers"],
        replaced=column_trials.replaced(trainer, inputs, loss, columns, labels),
        labels=labels if isinstance(labels, Tensor) else None,
    )  # fmt: skip
    if backward and not any(call.with_gradient for call in forward):
        plain = beside_plain(trainer, batch, inputs, trained)
        return dataclasses.replace(batch, replay=replay(forward, backward), plain=plain)
    return batch


def _audit(trainer: Any, batch: ObservedBatch, processes: int) -> Any:
    """Return an audit of a loss on given embeddings, or why it failed; None without gathering."""
    if not (gathers(batch.loss) or _mentions_gathering(batch.loss)):
        return None
    columns, args = max(2, len(batch.columns)), trainer.args
    # The trainer's loader gives each process as many rows, unless it is told not to.
    uneven = not (args.dataloader_drop_last or getattr(trainer.accelerator, "even_batches", False))
    try:
        with random_state_kept():
            alone = copy.deepcopy(batch.loss, {id(trainer.model): GivenModel()})
            return audit(alone, processes=processes, columns=columns, uneven=uneven)
    except Exception as error:
        return first_line(error)


def _mentions_gathering(loss: Any) -> bool:
    """Return whether the source of a user's loss mentions gathering or ``torch.distributed``."""
    if type(loss).__module__.startswith(("sentence_transformers.", "gradlab.")):
        return False
    libraries = "torch.", "builtins"
    own = [cls for cls in type(loss).__mro__ if not cls.__module__.startswith(libraries)]
    source = ""
    with contextlib.suppress(OSError, TypeError):
        source = "".join(map(inspect.getsource, own if isinstance(loss, nn.Module) else [loss]))
    return "gather" in source or "torch.distributed" in source

"""A process of an audit: evaluates the loss on its share of every case."""

from __future__ import annotations

import copy
import datetime
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradlab.arrays import dtype_name
from gradlab.errors import GradlabError
from gradlab.scale.audit.cases import Case

# Attributes in which losses of sentence-transformers store their model.
MODEL = ("model", "sentence_embedder")
# Their classes whose labels are 1 for a matching pair and 0 for others, instead of scores.
OF_TWO_LABELS = {"ContrastiveLoss", "OnlineContrastiveLoss"}


class GivenModel(nn.Module):
    """Replaces a sentence-transformers model: token id i has embedding i of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Tensor | None = None

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add the embeddings of token ids (N, 1) as ``sentence_embedding``."""
        assert self.rows is not None
        features["sentence_embedding"] = self.rows[features["input_ids"][:, 0]]
        return features

    def __getitem__(self, index: int) -> nn.Module:
        return self


class ProcessBatch:
    """The sentences that one process holds, or the whole batch for rank -1.

    Attributes:
        columns, along, guide: embeddings, direction of derivatives, guide's rows, (columns, n, D).
        scores: labels of pairs, (n,).
        numbers: indices of the sentences, which serve as class labels, (n,).
        owners: process that holds each sentence in the case, (n,).
        own: number of columns, counted from the last, that are each anchor's own negatives.
    """

    def __init__(self, job: dict[str, Any], case: Case, rank: int) -> None:
        sentences = case.sentences if rank < 0 else list(case.shares[rank])
        self.columns, self.along, self.guide = (
            torch.from_numpy(job[name][:, sentences].copy()) for name in ("rows", "along", "guide")
        )
        self.scores = torch.from_numpy(job["scores"][sentences])
        self.numbers, self.own = torch.tensor(sentences), job.get("own", 0)
        self.owners = (
            torch.from_numpy(case.owners) if rank < 0 else torch.full_like(self.numbers, rank)
        )


def measure(
    build: Callable[[], Any], job: dict[str, Any], rank: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the results of a process by case; ``build`` makes the loss.

    Each result has a value, gradients, and contributions and slopes as in
    `gradlab.scale.audit.gradient_error.Outcome`. Rank -1 evaluates the whole batch, each share by
    itself instead of contributions, and the first batch once more with other random numbers
    (``"again"``).

    Raises:
        GradlabError: the loss cannot be called, or is not a scalar with a gradient.
    """
    loss, count = build(), job["processes"]

    def on(batch: ProcessBatch, **options: Any) -> dict[str, Any]:
        try:
            fresh = copy.deepcopy(loss)
        except Exception:  # some losses cannot be copied
            fresh = build()
        return evaluate(fresh, batch, **options)

    for case in job["cases"]:
        batch = ProcessBatch(job, case, rank)
        measured = on(batch)
        # The cube root of the rounding error balances it with the error of a central difference.
        step = torch.finfo(getattr(torch, measured["dtype"])).eps ** (1 / 3)
        measured["slopes"] = np.zeros((count, len(batch.columns)))
        for owner, column in np.ndindex(measured["slopes"].shape):
            change = torch.zeros_like(batch.columns)
            own = batch.owners == owner
            change[column, own] = step * batch.along[column, own]
            up, down = (
                on(batch, change=sign * change, backward=False)["value"] for sign in (1, -1)
            )
            measured["slopes"][owner, column] = (up - down) / (2 * step)
        if rank < 0:
            alone = [on(ProcessBatch(job, case, process))["gradient"] for process in range(count)]
            measured["separate"] = np.concatenate(alone, axis=1)
        else:
            measured["contributions"] = np.stack(
                [on(batch, weight=float(rank == p))["gradient"] for p in range(count)]
            )
        yield case.name, measured
    if rank < 0:
        yield "again", on(ProcessBatch(job, job["cases"][0], rank), seed=1)


def evaluate(
    loss: Any,
    batch: ProcessBatch,
    *,
    change: Tensor | float = 0.0,
    weight: float = 1.0,
    seed: int = 0,
    backward: bool = True,
) -> dict[str, Any]:
    """Return value and gradients of ``weight`` times the loss on the batch of a process.

    ``change`` is added to the columns of the batch.

    Raises:
        GradlabError: the loss cannot be called, or is not a scalar with a gradient.
    """
    torch.manual_seed(seed)
    criterion = _criterion(loss, batch)
    leaves = [rows.clone().requires_grad_() for rows in batch.columns + change]
    value = criterion(leaves)
    if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise GradlabError(f"the loss must return a scalar that gradient flows from, not {shape}")
    measured = {"value": float(value.detach()), "dtype": dtype_name(value)}
    if not backward:
        return measured
    parameters = dict(loss.named_parameters()) if isinstance(loss, nn.Module) else {}
    for parameter in parameters.values():
        parameter.grad = None
    (value * weight).backward()
    return measured | {
        "gradient": torch.stack([_gradient(rows) for rows in leaves]).numpy(),
        "parameters": {
            name: _gradient(parameter).numpy()
            for name, parameter in parameters.items()
            if parameter.requires_grad
        },
    }


def work(rank: int, job: dict[str, Any]) -> None:
    """Run one process, and write each case's result or the error to a file in the job's folder."""
    folder = Path(job["folder"])
    log = os.open(folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        join(folder, rank, job["processes"], job["timeout"])
        for name, measured in measure(pickle.loads(job["build"]), job, rank):
            (folder / f"{rank}.{name}").write_bytes(pickle.dumps(measured))
        if rank >= 0:
            torch.distributed.barrier()  # no process leaves while another still sends
        torch.distributed.destroy_process_group()
    except Exception as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else ""
        says = "says" if isinstance(error, GradlabError) else f"raises {type(error).__name__}"
        traceback.print_exc()
        (folder / f"{rank}.error").write_text(f"{says}: {text}")
        sys.exit(1)


def join(folder: Path, rank: int, count: int, timeout: float) -> None:
    """Join the process group; rank -1 forms a group by itself."""
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/{'alone' if rank < 0 else 'together'}",
        rank=max(rank, 0),
        world_size=1 if rank < 0 else count,
        timeout=datetime.timedelta(seconds=timeout),
    )


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.clone()


def _criterion(loss: Any, batch: ProcessBatch) -> Callable[[list[Tensor]], Tensor]:
    """Wrap a loss of any kind as a function of columns of embeddings."""
    if any(isinstance(getattr(loss, name, None), nn.Module) for name in MODEL):
        if batch.own:
            raise GradlabError(
                "a loss of sentence-transformers has its own negatives in columns; "
                "give columns instead"
            )
        return _on_sentences(loss, batch)
    if not callable(loss):
        raise GradlabError(
            f"the loss must be callable on columns of embeddings, not {type(loss).__name__}"
        )
    if not batch.own:
        return lambda columns: loss(*columns)
    return lambda columns: loss(
        *columns[: -batch.own], own_negatives=torch.stack(columns[-batch.own :], dim=1)
    )


def _on_sentences(loss: Any, batch: ProcessBatch) -> Callable[[list[Tensor]], Tensor]:
    table, guide = GivenModel(), GivenModel()
    guide.rows = batch.guide.flatten(0, 1)
    for module in loss.modules():
        for names, model in ((MODEL, table), (("guide",), guide)):
            for name in names:
                if isinstance(getattr(module, name, None), nn.Module):
                    setattr(module, name, model)
    of_classes = hasattr(loss, "sentence_embedder")  # all sentences are in one column
    two = {
        base.__name__ for module in loss.modules() for base in type(module).__mro__
    } & OF_TWO_LABELS
    labels = batch.numbers.repeat(len(batch.guide)) if of_classes else batch.scores
    labels = (labels > 0.5).long() if two else labels

    def criterion(columns: list[Tensor]) -> Tensor:
        table.rows = torch.cat(columns)
        ids = torch.arange(len(table.rows))[:, None].split(
            len(table.rows if of_classes else columns[0])
        )
        features = [
            {"input_ids": column, "attention_mask": torch.ones_like(column)} for column in ids
        ]
        value = loss(features, labels)
        return sum(value.values()) if isinstance(value, dict) else value  # type: ignore[return-value]  # a sum of tensors

    return criterion

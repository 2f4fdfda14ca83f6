"""What each process of an audit does: call the loss on its share, and hand back value and gradients."""

from __future__ import annotations

import datetime
import os
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.large_batch.audit.cases import Case

# Value, gradient and slope of a loss on some rows.
Evaluation = dict[str, Any]


class Table(nn.Module):
    """A model of sentence-transformers' kind whose embeddings are given: token id i stands for row i."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Tensor | None = None

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """The rows of the token ids, (N, 1), as sentence embeddings."""
        assert self.rows is not None
        features["sentence_embedding"] = self.rows[features["input_ids"][:, 0]]
        return features

    def __getitem__(self, index: int) -> nn.Module:
        return self


def criterion_of(loss: Any) -> Callable[[list[Tensor]], Tensor]:
    """A loss of any kind as a function of columns of embeddings.

    Raises:
        GradlabError: it cannot be called.
    """
    if isinstance(getattr(loss, "model", None), nn.Module):
        return _on_sentences(loss)
    if not callable(loss):
        raise GradlabError(f"the loss must be callable on columns of embeddings, not {type(loss).__name__}")
    return lambda columns: loss(*columns)


def _on_sentences(loss: Any) -> Callable[[list[Tensor]], Tensor]:
    table = Table()
    for part in loss.modules():
        if isinstance(getattr(part, "model", None), nn.Module):
            part.model = table

    def criterion(columns: list[Tensor]) -> Tensor:
        count = len(columns[0])
        table.rows = torch.cat(columns)
        ids = torch.arange(len(table.rows))[:, None].split(count)
        features = [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in ids]
        value = loss(features, None)
        return sum(value.values()) if isinstance(value, dict) else value  # type: ignore[return-value]  # the sum of tensors is one

    return criterion


def evaluate(loss: Any, columns: Tensor, slope_along: Tensor | None = None) -> Evaluation:
    """Value and gradient of a loss on this process's rows (columns, n, D), and its slope by differences.

    Raises:
        GradlabError: what it returns is no scalar that gradient flows from.
    """
    criterion = criterion_of(loss)
    leaves = [rows.clone().requires_grad_() for rows in columns]
    parameters = dict(loss.named_parameters()) if isinstance(loss, nn.Module) else {}
    for parameter in parameters.values():
        parameter.grad = None
    value = criterion(leaves)
    if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise GradlabError(f"the loss must return a scalar that gradient flows from, not {shape}")
    value.backward()
    found: Evaluation = {  # of numpy, which is sent without shared memory
        "value": float(value.detach()),
        "dtype": str(value.dtype).removeprefix("torch."),
        "gradient": torch.stack([_gradient(rows) for rows in leaves]).numpy(),
        "parameters": {name: _gradient(one).numpy() for name, one in parameters.items() if one.requires_grad},
    }
    if slope_along is not None:
        # The cube root of the rounding balances it with the error of a central difference.
        step = torch.finfo(value.dtype).eps ** (1 / 3)
        ends = [
            float(criterion([rows.requires_grad_() for rows in columns + sign * step * slope_along]).detach())
            for sign in (1, -1)
        ]
        found["slope"] = (ends[0] - ends[1]) / (2 * step)
    return found


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.clone()


def work(rank: int, job: dict[str, Any], connection: Any) -> None:
    """Evaluate all cases and send what came of each; the process of rank -1 does them alone, as the measure."""
    log = os.open(job["log"].format(rank), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        build = pickle.loads(job["build"])
        # A process of its own: torch.distributed's functions keep the first group that they see.
        alone = rank < 0
        _join(job, "alone" if alone else "together", max(rank, 0), 1 if alone else job["processes"])
        if alone:
            for name, found in _alone(build, job):
                connection.send((name, found))
        else:
            for case in job["cases"]:
                connection.send((case.name, _share(build, job, case, rank)))
            torch.distributed.barrier()  # none leaves while another still sends
        connection.send(("end", None))
        torch.distributed.destroy_process_group()
    except Exception as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else ""
        own = isinstance(error, GradlabError)
        traceback.print_exc()
        connection.send(("error", f"says: {text}" if own else f"raises {type(error).__name__}: {text}"))


def _join(job: dict[str, Any], place: str, rank: int, count: int) -> None:
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{job['folder']}/{place}",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=job["timeout"]),
    )


def _alone(build: Callable[[], Any], job: dict[str, Any]) -> Iterator[tuple[str, Evaluation]]:
    """Every case in one process, and the first of them once more with other random numbers."""
    for case in job["cases"]:
        yield case.name, _on(build, job, case, case.sentences)
    yield "again", _on(build, job, job["cases"][0], job["cases"][0].sentences, seed=1)


def _share(build: Callable[[], Any], job: dict[str, Any], case: Case, rank: int) -> Evaluation:
    return _on(build, job, case, list(case.shares[rank]))


def _on(
    build: Callable[[], Any], job: dict[str, Any], case: Case, sentences: list[int], seed: int = 0
) -> Evaluation:
    torch.manual_seed(seed)
    rows, along = (torch.from_numpy(job[name][:, sentences]) for name in ("rows", "along"))
    return evaluate(build(), rows, along if case.name == "even" else None)

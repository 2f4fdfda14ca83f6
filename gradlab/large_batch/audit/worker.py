"""What each process of an audit does: call the loss on its share, and hand back value and gradients."""

from __future__ import annotations

import dataclasses
import datetime
import os
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.large_batch.audit.cases import Case

# Value, gradient and slope of a loss on some rows.
Evaluation = dict[str, Any]
# What losses of sentence-transformers call their model.
MODEL = ("model", "sentence_embedder")
# Those whose labels are not scores but 1 for alike and 0 for not, by the names of their classes.
OF_TWO_LABELS = {"ContrastiveLoss", "OnlineContrastiveLoss"}


class GivenModel(nn.Module):
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


@dataclasses.dataclass(frozen=True)
class SentenceFacts:
    """What losses of sentence-transformers are told of some sentences besides their embeddings.

    Attributes:
        guide: the embeddings of a guide, (columns, n, D).
        scores: (n,), labels of pairs.
        numbers: (n,) of the sentences, labels of losses that take sentences of several classes.
    """

    guide: Tensor
    scores: Tensor
    numbers: Tensor


def criterion_of(loss: Any, told: SentenceFacts) -> Callable[[list[Tensor]], Tensor]:
    """A loss of any kind as a function of columns of embeddings.

    Raises:
        GradlabError: it cannot be called.
    """
    if any(isinstance(getattr(loss, name, None), nn.Module) for name in MODEL):
        return _on_sentences(loss, told)
    if not callable(loss):
        raise GradlabError(f"the loss must be callable on columns of embeddings, not {type(loss).__name__}")
    return lambda columns: loss(*columns)


def _on_sentences(loss: Any, told: SentenceFacts) -> Callable[[list[Tensor]], Tensor]:
    table, guide = GivenModel(), GivenModel()
    guide.rows = told.guide.flatten(0, 1)
    for part in loss.modules():
        for names, given in ((MODEL, table), (("guide",), guide)):
            for name in names:
                if isinstance(getattr(part, name, None), nn.Module):
                    setattr(part, name, given)
    of_classes = hasattr(loss, "sentence_embedder")  # whose sentences are one column
    two = {base.__name__ for part in loss.modules() for base in type(part).__mro__} & OF_TWO_LABELS
    labels = told.numbers.repeat(len(told.guide)) if of_classes else told.scores
    labels = (labels > 0.5).long() if two else labels

    def criterion(columns: list[Tensor]) -> Tensor:
        table.rows = torch.cat(columns)
        ids = torch.arange(len(table.rows))[:, None].split(len(table.rows if of_classes else columns[0]))
        features = [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in ids]
        value = loss(features, labels)
        return sum(value.values()) if isinstance(value, dict) else value  # type: ignore[return-value]  # the sum of tensors is one

    return criterion


def evaluate(loss: Any, columns: Tensor, slope_along: Tensor | None, told: SentenceFacts) -> Evaluation:
    """Value and gradient of a loss on this process's rows (columns, n, D), and its slope by differences.

    Args:
        loss: the loss.
        columns: the rows.
        slope_along: in which direction, or None for no slope.
        told: what losses of sentence-transformers are told besides.

    Raises:
        GradlabError: what it returns is no scalar that gradient flows from.
    """
    criterion = criterion_of(loss, told)
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


def _alone(build: Callable[[], Any], job: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every case in one process; the shares of the first one by one; and that once more with other random numbers."""
    for case in job["cases"]:
        yield case.name, _on(build, job, case, case.sentences)
    first = job["cases"][0]
    shares = [_on(build, job, first, list(share), slope=False)["gradient"] for share in first.shares]
    yield "separate", np.concatenate(shares, axis=1)
    yield "again", _on(build, job, job["cases"][0], job["cases"][0].sentences, seed=1)


def _share(build: Callable[[], Any], job: dict[str, Any], case: Case, rank: int) -> Evaluation:
    return _on(build, job, case, list(case.shares[rank]))


def _on(
    build: Callable[[], Any],
    job: dict[str, Any],
    case: Case,
    sentences: list[int],
    *,
    seed: int = 0,
    slope: bool = True,
) -> Evaluation:
    torch.manual_seed(seed)
    names = ("rows", "along", "guide")
    rows, along, guide = (torch.from_numpy(np.ascontiguousarray(job[name][:, sentences])) for name in names)
    told = SentenceFacts(guide, torch.from_numpy(job["scores"][sentences]), torch.tensor(sentences))
    return evaluate(build(), rows, along if slope and case.name == "even" else None, told)

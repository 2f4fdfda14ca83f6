"""Run in several processes: the gradient of one batch for several losses, saved by the main process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import gradlab
from gradlab.encoder.model import Encoder
from gradlab.seeds import seed_everything
from gradlab.train.distributed import Processes
from gradlab.train.heads import MLP
from gradlab.train.objective import Objective, freeze_unused
from gradlab.train.parts import Parts
from tests.train_helpers import sequences_of


def gradient(
    model: str, loss: str, sequences: list[np.ndarray], processes: Processes
) -> dict[str, torch.Tensor]:
    """The gradient of one batch over all processes, dropout off, in float64.

    ``"infonce:5"`` is in chunks of 5, ``"infonce; own"`` or ``"infonce; shared"`` has such hard negatives in two columns, and
    ``"kl; teacher"`` tells the loss such things.
    """
    loss, _, chunk = loss.partition(":")
    loss, _, with_ = loss.partition("; ")
    hard = "own" in with_ or "shared" in with_
    every = np.arange(len(sequences))
    tables = torch.randn(4, len(sequences), 7, generator=torch.Generator().manual_seed(1)).double()

    def taught(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second, *more = (table[rows] for table in tables[: 4 if hard else 2])
        more = [torch.stack(more, 1) if "own" in with_ else torch.cat(more)] if hard else []
        return first, second, *more

    told = {
        "labels": lambda rows: rows % 3,
        "scores": lambda rows: tables[0, rows, 0],
        "teacher": taught,
        "guide": taught,
    }
    seed_everything(0)
    encoder = Encoder.load(model, "mean", dropout=0.0).double()
    objective = Objective(
        encoder,
        gradlab.get_loss(loss),
        head=MLP(encoder.dimension).double(),
        processes=processes,
        chunk_size=int(chunk) if chunk else None,
        parts=Parts(
            own_negatives="own" in with_, told={name: tell for name, tell in told.items() if name in with_}
        ),
    )
    objective.train()
    freeze_unused(objective)
    rows = processes.share(every)
    shifts = (0, 3, 5, 7) if hard else (0,)
    columns = [[sequences[(row + shift) % len(sequences)] for row in rows] for shift in shifts]
    batch = objective.prepare(*columns, sentences=every)
    if chunk:
        output = objective.accumulate(batch, processes.count)
        processes.average(objective.parameters())
    else:
        parallel = processes.parallel(objective)  # which averages as long as it lives
        output = parallel(batch)
        (output.loss * processes.count).backward()
    found = {
        name: parameter.grad for name, parameter in objective.named_parameters() if parameter.grad is not None
    }
    return found | {"loss": output.loss.detach(), "processes": torch.tensor([processes.count, len(rows)])}


def work(model: str, sentences: list[str], output: str, losses: list[str]) -> None:
    processes = Processes.start("cpu")
    sequences = sequences_of(model, sentences)
    for loss in losses:
        found = gradient(model, loss, sequences, processes)
        if processes.is_main:
            save_file(found, Path(output) / f"{loss}.safetensors")
    processes.wait()

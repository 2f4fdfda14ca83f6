"""Run in several processes, each of which saves what it computes.

That is the gradients of one batch for several losses, and two steps with queue and momentum branch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import gradlab
from gradlab.encoder.model import Encoder
from gradlab.seeds import seed_everything
from gradlab.train.config import TrainConfig
from gradlab.train.distributed import RunProcesses
from gradlab.train.objective import Objective, freeze_unused
from tests.train_helpers import ESIMCSE, MOCOSE, gradients, make_objective, sequences_of

# As MoCoSE, as ESimCSE, and both kinds of negatives with the gradient of the step before.
SETTINGS = {
    "mocose": MOCOSE | {"fgsm": 1e-3},
    "esimcse": ESIMCSE | {"augment": None, "pooler": "mean"},
    "previous": {
        "queue_size": 7, "queue_ages": "0:2,4:7", "fgsm": 1e-3, "fgsm_gradient": "previous",
        "loss": "arccon",
    },
}  # fmt: skip


class Scaled(torch.nn.Module):
    """A loss of one's own that learns a scale, in float32: in float64, a copy would be trained."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(10.0))

    def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        cosines = (
            torch.nn.functional.normalize(anchors) @ torch.nn.functional.normalize(positives).T
        )
        return torch.nn.functional.cross_entropy(self.scale * cosines, torch.arange(len(anchors)))


def gradient(
    model: str, loss: str, sequences: list[np.ndarray], processes: RunProcesses
) -> dict[str, torch.Tensor]:
    """The gradient of one batch over all processes, dropout off, in float64 unless said otherwise.

    ``"infonce:5"`` is in chunks of 5, ``"infonce; own"`` or ``"infonce; shared"`` has such hard
    negatives in two columns, and ``"kl; teacher"`` tells the loss such things.
    """
    loss, _, chunk = loss.partition(":")
    loss, _, with_ = loss.partition("; ")
    hard = "own" in with_ or "shared" in with_
    all_rows = np.arange(len(sequences))
    tables = torch.randn(4, len(sequences), 7, generator=torch.Generator().manual_seed(1)).double()

    def taught(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second, *hard_columns = (table[rows] for table in tables[: 4 if hard else 2])
        if hard_columns and "own" in with_:
            return first, second, torch.stack(hard_columns, 1)
        return first, second, *([torch.cat(hard_columns)] if hard_columns else [])

    inputs = {
        "labels": lambda rows: rows % 3,
        "scores": lambda rows: tables[0, rows, 0],
        "teacher": taught,
        "guide": taught,
    }
    inputs = {name: tell for name, tell in inputs.items() if name in with_}
    seed_everything(0)
    dtype = torch.float32 if loss == "own module" else torch.float64
    encoder = Encoder.load(model, "mean", dropout=0.0).to(dtype)
    settings = {
        "pooler": "cls_mlp",
        "chunk_size": int(chunk) if chunk else None,
        "length_groups": 2,
    }
    settings |= {"hard_negatives": "own" if "own" in with_ else "shared"}
    config = TrainConfig(model=model, train_file="-", output="-", **settings)
    criterion = gradlab.get_loss(Scaled() if loss == "own module" else loss)
    objective = Objective(encoder, criterion, config, processes=processes).to(dtype)
    objective.loss_inputs.update(inputs)
    freeze_unused(objective.train())
    rows = processes.share(all_rows)
    assert len(rows) * processes.count == len(sequences)
    shifts = (0, 3, 5, 7) if hard else (0,)
    columns = [[sequences[(row + shift) % len(sequences)] for row in rows] for shift in shifts]
    batch = objective.prepare(*columns, row_numbers=all_rows)
    if chunk:
        output = objective.backward_in_chunks(batch, processes.count)
        processes.average(objective.parameters())
    else:
        parallel = processes.parallel(objective)  # which averages as long as it lives
        output = parallel(batch)
        (output.loss * processes.count).backward()
    return gradients(objective) | {"loss": output.loss.detach()}


def two_steps(
    model: str, name: str, sequences: list[np.ndarray], processes: RunProcesses
) -> dict[str, torch.Tensor]:
    """The gradient of the second step (float64, no dropout), and what the branches then hold."""
    seed_everything(0)
    objective = make_objective(model, processes=processes, **{"pooler": "mean"} | SETTINGS[name])
    freeze_unused(objective)
    parallel = processes.parallel(objective)
    optimiser = torch.optim.SGD([p for p in objective.parameters() if p.requires_grad], lr=0.1)
    for half in np.split(np.arange(len(sequences)), 2):
        optimiser.zero_grad()
        output = parallel(objective.prepare([sequences[row] for row in processes.share(half)]))
        (output.loss * processes.count).backward()
        objective.after_batch(output)
        objective.before_step()
        optimiser.step()
        objective.after_step(output)
    state = {f"state {key}": value.clone() for key, value in objective.state_dict().items()}
    return gradients(objective) | state | {"loss": output.loss.detach()}


def work(model: str, sentences: list[str], output: str, names: list[str]) -> None:
    processes = RunProcesses.start("cpu")
    sequences = sequences_of(model, sentences)
    for name in names:
        tensors = (two_steps if name in SETTINGS else gradient)(model, name, sequences, processes)
        save_file(tensors, Path(output) / f"{name}-{processes.rank}.safetensors")
    processes.wait()

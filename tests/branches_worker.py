"""Run in several processes: two steps with queue, momentum branch and heads; saved by every process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from gradlab.seeds import seed_everything
from gradlab.train.distributed import Processes
from gradlab.train.objective import freeze_unused
from tests.train_helpers import make_objective, sequences_of

# As MoCoSE, as ESimCSE, and both kinds of negatives with the gradient of the step before.
SETTINGS = {
    "mocose": {
        "queue_size": 10, "queue_initial": 3, "in_batch_negatives": False, "momentum": 0.5, "projection_layers": 1,
        "predictor_layers": 2, "fgsm": 1e-3, "momentum_modules": "encoder,head,projection", "pooler": "cls_mlp",
    },
    "esimcse": {"queue_size": 20, "momentum": 0.9, "momentum_use": "queue", "momentum_dropout": False},
    "previous": {"queue_size": 7, "queue_ages": "0:2,4:7", "fgsm": 1e-3, "fgsm_gradient": "previous", "loss": "arccon"},
}  # fmt: skip


def two_steps(
    model: str, name: str, sequences: list[np.ndarray], processes: Processes
) -> dict[str, torch.Tensor]:
    """The gradient of the second step, in float64 without dropout, and what the branches hold after it."""
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
    gradients = {name: one.grad for name, one in objective.named_parameters() if one.grad is not None}
    state = {f"state {key}": value.clone() for key, value in objective.state_dict().items()}
    return gradients | state | {"loss": output.loss.detach()}


def work(model: str, sentences: list[str], output: str) -> None:
    processes = Processes.start("cpu")
    sequences = sequences_of(model, sentences)
    for name in SETTINGS:
        found = two_steps(model, name, sequences, processes)
        save_file(found, Path(output) / f"{name}-{processes.rank}.safetensors")
    processes.wait()

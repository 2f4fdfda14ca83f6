"""λ of Lemma 1, taken from the angle by which a training step turns an anchor.

The lemma moves an anchor `h` by `λ` times its gradient and projects it back. A training step moves
parameters instead, and all sentences with them. What is measured is the anchor before and after the
step under the same dropout masks: it turned by an angle `φ`, and the λ that turns it as far along
the gradient is `tan φ / |t|`, with `t` the gradient's tangential part in the unit gauge (weights
that sum to 1). How much of the way went along the gradient is the cosine between both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab import GradlabError, Loss, components, get_loss
from gradlab.batch import unit_rows
from gradlab.encoder import Encoder
from gradlab.seeds import seed_everything
from gradlab.train import say
from studies.conjectures.conjecture3 import batch_triples, closer_shares
from studies.runs import training_step, views

LOSSES = ("infonce", "arccon", "met")
# Steps, counted from 1; the last of 150 has a learning rate of 0.
MEASURED = (1, 2, 5, 10, *range(20, 141, 20))


def measure_steps(
    model: str, sentences: Sequence[str], names: Sequence[str] = LOSSES, *,
    seeds: Sequence[int] = (1,), steps: int = 150, batch_size: int = 64, max_length: int = 24,
    learning_rate: float = 1e-4, measured: Sequence[int] = MEASURED,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Train with each loss and give a row per measured step: quantiles over the batch's anchors.

    Views are the encoder's [CLS] under two dropout masks, trained on with AdamW and a linear decay
    of the learning rate, without clipping; the order is the seed's. ``measured`` are steps after
    which anchors are encoded again.

    Raises:
        GradlabError: too few sentences.
    """
    needed = steps * batch_size
    if len(sentences) < needed:
        raise GradlabError(
            f"{len(sentences)} sentences; {steps} steps of {batch_size} need {needed}"
        )
    for seed, name in itertools.product(seeds, names):
        say(f"Step size: {name}, seed {seed}")
        loss = get_loss(name)
        encoder = Encoder.load(model, "cls", max_length=max_length)
        optimiser = torch.optim.AdamW(encoder.parameters(), lr=learning_rate, weight_decay=0.0)
        seed_everything(seed)
        order = torch.randperm(len(sentences))[:needed].reshape(steps, batch_size).tolist()
        for step, rows in enumerate(order, start=1):
            batch = [sentences[row] for row in rows]
            state = torch.get_rng_state()
            optimiser.param_groups[0]["lr"] = learning_rate * (1 - (step - 1) / steps)
            before = training_step(encoder, loss, optimiser, batch, max_length)
            if step in measured:
                torch.set_rng_state(state)
                with torch.no_grad():
                    after = [unit_rows(one.double()) for one in views(encoder, batch, max_length)]
                yield {"loss": name, "seed": seed, "step": step} | turned(loss, *before, *after)


def turned(
    loss: Loss, anchors: Tensor, positives: Tensor, after: Tensor, positives_after: Tensor
) -> dict[str, float]:
    """How one step turned a batch of unit rows (N, D), before and after.

    Returns:
        Over anchors whose weights are not all 0: quartiles of the angle (degrees) and of λ; the
        median cosine between the way an anchor went and its negative gradient; the share of anchors
        that ended closer to their positives, when only the anchor is moved and when both are; and,
        at the median λ, the shares of triples that a step with the loss's own ratio and with ratio
        1 would bring closer, exactly and by the lemma.
    """
    parts = components(loss, anchors, positives)
    size = parts.weight.abs().sum(-1)
    used = size > 0
    if not bool(used.any()):
        return {}
    # In the unit gauge: Σ_j W_ij (h_j' − R_i h_i') / Σ_j W_ij, whose negative tangential part is
    # the way of a step.
    pull = parts.positive_weight
    if pull.ndim == 1:
        pull = pull[:, None]
    way = (pull * positives - parts.weight @ positives)[used] / size[used, None]
    start, end = anchors[used], after[used]
    tangent = way - (way * start).sum(-1, keepdim=True) * start
    cosine = (start * end).sum(-1)
    moved = end - cosine[:, None] * start
    length = moved.norm(dim=-1)
    # From sine and cosine: the angle is small, and arccos would lose half of its digits.
    angle = torch.atan2(length, cosine)
    steps = torch.tan(angle) / tangent.norm(dim=-1)
    along = (moved * tangent).sum(-1) / (length * tangent.norm(dim=-1))
    own = positives[used]
    before = (start * own).sum(-1)
    found: dict[str, float] = {}
    for name, values in (("degrees", torch.rad2deg(angle)), ("lambda", steps)):
        quartiles = np.quantile(values.numpy(), (0.25, 0.5, 0.75))
        found |= dict(zip((f"{name}_q25", name, f"{name}_q75"), map(float, quartiles), strict=True))
    found["along_gradient"] = float(along.median())
    found["closer_anchor"] = float(((end * own).sum(-1) > before).double().mean())
    found["closer_both"] = float(((end * positives_after[used]).sum(-1) > before).double().mean())
    triple = batch_triples(anchors.numpy(), positives.numpy())
    ratio = np.broadcast_to(parts.scalar_ratio.numpy()[:, None], triple.radial.shape)
    return found | closer_shares(triple, ratio, found["lambda"])

"""The declared feature of a loss: does its next step move cosines of graded pairs the right way?

On held-out pairs with gold scores (STS-B train) the loss is differentiated as in training, under
two dropout masks. Its gradient passes through Adam, whose moments are those of the run, and through
the encoder's Jacobian to the derivative of each pair's cosine. The feature is Spearman's
correlation of these derivatives with the difference of two ranks: the rank of the gold score minus
the rank of the present cosine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from gradlab import Loss
from gradlab.batch import unit_rows
from gradlab.encoder import Encoder
from gradlab.evaluate import ScoredPairs, load_stsb_dev, spearman, stsb_dev
from gradlab.gradient import alignment, uniformity
from gradlab.seeds import undisturbed
from gradlab.sweep import Point
from gradlab.train import Callback, Output, TrainConfig, Trainer, say
from studies.runs import RowFile, Stopped, tokens, train_until_stopped, views

TRAIN = "STS/STSBenchmark/sts-train.csv"
# The steps after which a run is measured; 0 is the untrained encoder.
STEPS = (0, 10)
# Graded pairs whose cosines count, and batches of their sentences whose gradients are averaged.
PAIRS, BATCHES = 512, 4
# Sentences of one forward pass while cosines are differentiated.
CHUNK = 64


def measure_features(
    points: Sequence[Point], part: str, table: RowFile, seed: int | None, pairs: ScoredPairs
) -> None:
    """Add a row for each point that has none: the feature and its rivals, on `PAIRS` of the pairs.

    No ``seed`` is the first one of each point, of a run whose score is predicted.
    """
    for point in points:
        own = point.seeds[0] if seed is None else seed
        if table.has(part=part, label=point.title(), seed=own):
            continue
        say(f"Feature: {point.title()}, seed {own}")
        measured = _Measured(drawn(pairs, PAIRS))
        rate = train_until_stopped(point, own, measured).learning_rate
        about = {"part": part, "label": point.title(), "learning_rate": rate, "seed": own}
        table.add(about, measured.found)


def graded_pairs(sts: Path) -> ScoredPairs:
    """The training pairs of STS-B, from SentEval's ``data/downstream``."""
    return load_stsb_dev(sts / TRAIN)


def drawn(pairs: ScoredPairs, count: int) -> ScoredPairs:
    """As many of the pairs, always the same ones; all of them if there are fewer."""
    rows = np.random.default_rng(0).permutation(len(pairs.gold))[:count]
    first, second = ([texts[row] for row in rows] for texts in (pairs.first, pairs.second))
    return ScoredPairs(pairs.name, first, second, [pairs.gold[row] for row in rows])


class _Measured(Callback):
    """Measures a run after some of its steps, and ends it.

    Attributes:
        found: ``feature_STEP`` after each of the steps and their mean ``feature``; after the last
            one, ``alignment``, ``uniformity`` and ``stsb_dev``.
    """

    def __init__(self, pairs: ScoredPairs) -> None:
        self.pairs, self.found = pairs, dict[str, float]()

    def on_start(self, trainer: Trainer) -> None:
        """Measure the encoder as it is."""
        self._measure(trainer)

    def on_step(self, trainer: Trainer, output: Output) -> None:
        """Measure the encoder after this step, and end after the last of `STEPS`."""
        self._measure(trainer)
        if trainer.step == STEPS[-1]:
            each = [self.found[f"feature_{step}"] for step in STEPS]
            self.found["feature"] = float(np.mean(each))
            raise Stopped

    def _measure(self, trainer: Trainer) -> None:
        encoder, config, step = trainer.objective.encoder, trainer.config, trainer.step
        if step not in STEPS:
            return
        with undisturbed():
            torch.manual_seed(step)
            seen, gradient = _gradient(encoder, trainer.objective.loss, self.pairs, config)
            parameters = dict(encoder.named_parameters())
            direction = adam_direction(trainer.optimiser, parameters, gradient)
            cosine, change = cosine_changes(encoder, direction, self.pairs, config.max_length)
            self.found[f"feature_{step}"] = agreement(change, cosine, self.pairs.gold)
            if step == STEPS[-1]:
                self.found["alignment"] = alignment(*seen)
                self.found["uniformity"] = uniformity(seen[0])
                assert config.sts is not None
                self.found["stsb_dev"] = stsb_dev(encoder, config.sts)
        trainer.objective.train()


def agreement(change: np.ndarray, cosine: np.ndarray, gold: Sequence[float]) -> float:
    """Spearman's correlation of changes of cosines (n,) with rank of gold minus rank of cosine."""
    return spearman(change, rankdata(gold) - rankdata(cosine))


def adam_direction(
    optimiser: torch.optim.AdamW, parameters: Mapping[str, Tensor], gradient: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What Adam's next step would add to each parameter, at a learning rate of 1 without decay.

    The optimiser has the moments of the steps so far. Parameters that it does not optimise, or that
    have no gradient, have no direction.
    """
    groups = {id(one): group for group in optimiser.param_groups for one in group["params"]}
    found = {}
    for name, parameter in parameters.items():
        if id(parameter) not in groups or name not in gradient:
            continue
        group, state = groups[id(parameter)], optimiser.state.get(parameter, {})
        step = int(state.get("step", 0)) + 1
        moments = []
        for kind, power, beta in zip(
            ("exp_avg", "exp_avg_sq"), (1, 2), group["betas"], strict=True
        ):
            new = (1 - beta) * gradient[name] ** power
            moments.append((new + beta * state[kind] if state else new) / (1 - beta**step))
        found[name] = -group.get("factor", 1.0) * moments[0] / (moments[1].sqrt() + group["eps"])
    return found


def cosine_changes(
    encoder: Encoder, direction: Mapping[str, Tensor], pairs: ScoredPairs, max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """The cosine of each pair without dropout, (n,), and its derivative along a direction, (n,)."""
    encoder.eval()
    parameters = {name: one.detach() for name, one in encoder.named_parameters()}
    tangents = {name: torch.zeros_like(one) for name, one in parameters.items()} | dict(direction)
    # Pairs of like length together, which need little padding.
    lengths = [max(map(len, pair)) for pair in zip(pairs.first, pairs.second, strict=True)]
    order, found = np.argsort(lengths, kind="stable"), []
    for start in range(0, len(order), CHUNK // 2):
        some = order[start : start + CHUNK // 2]
        texts = [side[row] for side in (pairs.first, pairs.second) for row in some]
        batch = tokens(encoder, texts, max_length)

        def cosines(changed: Mapping[str, Tensor], batch: tuple[Tensor, Tensor] = batch) -> Tensor:
            rows = torch.func.functional_call(encoder, dict(changed), batch)
            first, second = unit_rows(rows.double()).chunk(2)
            return (first * second).sum(-1)

        # Of the fused kernels of attention none has forward derivatives.
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), torch.no_grad():
            found.append(torch.func.jvp(cosines, (parameters,), (tangents,)))
    back = np.argsort(order)
    cosine, change = (torch.cat(parts).numpy()[back] for parts in zip(*found, strict=True))
    return cosine, change


def _gradient(
    encoder: Encoder, loss: Loss, pairs: ScoredPairs, config: TrainConfig
) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """Unit rows of both views of the pairs' sentences, and the mean gradient by parameter."""
    sentences, batch_size = list(dict.fromkeys(pairs.sentences)), config.batch_size
    order = torch.randperm(len(sentences))[: BATCHES * batch_size].tolist()
    encoder.train()
    parameters = {name: one for name, one in encoder.named_parameters() if one.requires_grad}
    total = {name: torch.zeros_like(one) for name, one in parameters.items()}
    seen = []
    for start in range(0, len(order) - batch_size + 1, batch_size):
        rows = order[start : start + batch_size]
        anchors, positives = views(encoder, [sentences[row] for row in rows], config.max_length)
        value = loss(anchors, positives, normalize=True)
        found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
        for name, part in zip(parameters, found, strict=True):
            if part is not None:
                total[name] += part / BATCHES
        seen.append([unit_rows(one.detach().double()) for one in (anchors, positives)])
    first, second = (torch.cat(one) for one in zip(*seen, strict=True))
    return (first, second), total

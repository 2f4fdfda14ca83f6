"""A random search: losses, combinators, settings, dtypes, degenerate rows against own definitions.

Everything a loss is made of is written here or in `tests/losses` a second time, in float64, from
the formulas of the papers: nothing but `Case` calls gradlab. In the test suite it runs for a fixed
number of cases, and for longer by

    python tests/test_random_losses.py --minutes 60 --seed 1
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

import gradlab
from tests.losses import naive_losses
from tests.losses.naive_losses import tangent

EPS = {"float64": 2.3e-16, "float32": 1.2e-7}


# --- similarities of pairs, whose derivatives are taken by their cosine ---------------------------


class Pair:
    """A pair of rows: cosine, chords and angle, all functions of one increment of the cosine."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.change = torch.zeros(first.shape[:-1], dtype=torch.float64, requires_grad=True)
        apart, together = (first - second).norm(dim=-1), (first + second).norm(dim=-1)
        sine = apart * together / 2
        safe = lambda x: torch.where(x > 0, x, torch.ones_like(x))  # noqa: E731
        moved = lambda x, slope: torch.where(  # noqa: E731
            x > 0, x + slope * self.change / safe(x), x
        )
        self.cos = (first * second).sum(-1) + self.change
        self.chord = moved(apart, -1)
        self.gap = apart**2 / 2 - self.change
        self.sum = together**2 / 2 + self.change
        self.sine = moved(sine, -self.cos.detach())
        self.angle = 2 * torch.atan2(apart, together) - torch.where(
            sine > 0, self.change / safe(sine), torch.zeros_like(sine)
        )


# --- losses of pairs: of the positive and the list of negatives, one value ------------------------


def softmax_value(own: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """``log(1 + Σ_k e^{l_k - own})``."""
    return torch.logsumexp(torch.cat([own.reshape(1) * 0, logits - own]), 0)


def softplus(x: torch.Tensor) -> torch.Tensor:
    """``log(1 + e^x)``; torch's own is linear from 20 on."""
    return torch.logaddexp(x, torch.zeros_like(x))


def tempered(own: Callable[[Pair, dict], torch.Tensor]) -> Callable:
    """A softmax of cosines, of which the positive's is replaced."""

    def value(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
        return softmax_value(own(p, s) / s["temperature"], n.cos / s["temperature"] + harder)

    return value


def dcl(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(n.cos / s["temperature"] + harder, 0) - p.cos / s["temperature"]


def hcl(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
    t, beta, count = s["temperature"], s["beta"], len(n.cos)
    log_mean = torch.logsumexp(beta * n.cos / t, 0) - math.log(count)
    return softmax_value(
        p.cos / t, torch.logsumexp((1 + beta) * n.cos / t, 0).reshape(1) - log_mean
    )


def siglip(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
    t, b = s["temperature"], s["bias"]
    return softplus(-(p.cos / t + b)) + softplus(n.cos / t + b).sum()


def circle(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
    g, m = s["scale"], s["margin"]
    own = g * torch.relu(m + p.gap).detach() * (m - p.gap)
    return softmax_value(own, g * torch.relu(n.cos + m).detach() * (n.cos - m))


def arctanh(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
    return softmax_value(torch.log(p.sum) - torch.log(p.gap), torch.log(n.sum) - torch.log(n.gap))


def triplet(distance: Callable[[Pair], torch.Tensor]) -> Callable:
    def value(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
        return torch.relu(distance(p) - distance(n)[int(n.cos.argmax())] + s["margin"])

    return value


def baseline(p: Pair, n: Pair, s: dict, harder: torch.Tensor) -> torch.Tensor:
    is_open = float(p.gap - n.gap.min() + s["margin"] > 0)
    weight = torch.softmax(n.cos.detach() / s["temperature"], 0)
    return is_open * ((weight * n.cos).sum() - s["static_ratio"] * p.cos)


@dataclasses.dataclass(frozen=True)
class Definition:
    """A loss of pairs: the value of one anchor, and what draws its settings.

    Attributes:
        gated: distance of the positive less that of the hardest negative plus the margin, where the
            loss has a hard gate.
        one_hot: whether the hardest negative has all the weight, so that ties matter.
        doubtful: whether the value or its derivative is none that a few digits could give.
        steep: how much logits change with the cosine.
    """

    value: Callable
    settings: Callable[[np.random.Generator], dict]
    pulls_alone: bool = False
    gated: Callable[[Pair, Pair, dict], float] | None = None
    one_hot: bool = False
    doubtful: Callable[[Pair, Pair, dict], bool] | None = None
    steep: Callable[[dict], float] = lambda s: 1 / s.get("temperature", 1.0)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(f"{rng.uniform(low, high):.3g}")


def with_temperature(low: float = 0.01, **further: tuple[float, float]) -> Callable:
    return lambda rng: {
        "temperature": log_uniform(rng, low, 1.0),
        **{name: between(rng, *limits) for name, limits in further.items()},
    }


def gate_of(distance: Callable[[Pair], torch.Tensor]) -> Callable[[Pair, Pair, dict], float]:
    return lambda p, n, s: float((distance(p) - distance(n).min()).detach() + s["margin"])


DISTANCES = {"mpt": lambda x: x.gap, "met": lambda x: x.chord, "mat": lambda x: x.angle}
PAIRS = {
    "infonce": Definition(tempered(lambda p, s: p.cos), with_temperature()),
    "arccon": Definition(
        tempered(lambda p, s: p.cos * math.cos(s["margin"]) - p.sine * math.sin(s["margin"])),
        with_temperature(margin=(0, 1)),
    ),
    "cosface": Definition(
        tempered(lambda p, s: p.cos - s["margin"]), with_temperature(margin=(-0.2, 0.5))
    ),
    "dcl": Definition(dcl, with_temperature()),
    "hcl": Definition(
        hcl,
        with_temperature(0.05, beta=(0.1, 3)),
        steep=lambda s: (1 + s["beta"]) / s["temperature"],
    ),
    "siglip": Definition(siglip, with_temperature(bias=(-10, 2)), pulls_alone=True),
    "circle": Definition(
        circle,
        lambda rng: {"scale": log_uniform(rng, 1, 256), "margin": between(rng, 0.05, 0.6)},
        steep=lambda s: 3 * s["scale"],
    ),
    "arctanh": Definition(
        arctanh,
        lambda rng: {},
        doubtful=lambda p, n, s: (
            min(float(x.detach().min()) for x in (p.gap, p.sum, n.gap, n.sum)) <= 1e-12
        ),
    ),
    **{
        name: Definition(
            triplet(distance),
            lambda rng: {"margin": between(rng, -0.1, 0.8)},
            gated=gate_of(distance),
            one_hot=True,
        )
        for name, distance in DISTANCES.items()
    },
    "baseline": Definition(
        baseline,
        lambda rng: {
            "margin": between(rng, 0, 0.6),
            "temperature": log_uniform(rng, 0.01, 1),
            "static_ratio": between(rng, 0.5, 2),
            "effective_ratio": str(rng.choice(["r", "2r"])),
        },
        gated=gate_of(DISTANCES["mpt"]),
    ),
}


# --- losses of the batch --------------------------------------------------------------------------
# Of whole views, by autograd of what is printed; most definitions are those of their tests.


def cosent(s: dict) -> Callable:
    def value(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        n, cosines = len(a), a @ b.T
        off_diagonal = cosines[~torch.eye(n, dtype=torch.bool)]
        gaps = (off_diagonal - cosines.diagonal()[:, None]).ravel() / s["temperature"]
        return torch.logsumexp(torch.cat([gaps, gaps[:1] * 0]), 0)

    return value


def dhel(s: dict, rows: int) -> Callable:
    """One value an anchor; a queued sentence has none."""

    def value(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        alone = torch.eye(len(a), dtype=torch.bool)
        views = [a, b] if s["terms"] == "both" else [a]
        energy = sum(
            torch.logsumexp((v @ v.T / s["temperature"]).masked_fill(alone, -math.inf), 1)
            for v in views
        )
        return (energy - s["positives"] * (a * b).sum(1) / s["temperature"])[:rows]

    return value


WHOLE = {
    "mhe": (
        lambda s, rows: naive_losses.mhe(s["nu"], 1 / (2 * s["temperature"])),
        lambda rng: {"nu": log_uniform(rng, 0.1, 10), "temperature": log_uniform(rng, 0.05, 2)},
    ),
    "mhs": (
        lambda s, rows: naive_losses.mhs(s["nu"]),
        lambda rng: {"nu": log_uniform(rng, 0.1, 10)},
    ),
    "cosent": (lambda s, rows: cosent(s), with_temperature(0.02)),
    "vicreg": (
        lambda s, rows: naive_losses.vicreg(s["nu1"], s["nu2"], s["gamma"]),
        lambda rng: {
            "nu1": log_uniform(rng, 0.01, 10),
            "nu2": log_uniform(rng, 0.1, 3),
            "gamma": between(rng, 0.05, 1.5),
        },
    ),
    "barlow_twins": (
        lambda s, rows: naive_losses.barlow_twins(s["nu"]),
        lambda rng: {"nu": log_uniform(rng, 0.005, 30)},
    ),
    "dhel": (
        dhel,
        lambda rng: {
            "temperature": log_uniform(rng, 0.05, 1),
            "terms": str(rng.choice(["anchors", "both"])),
            "positives": between(rng, 0.5, 2),
        },
    ),
}


# --- what combinators make of them ----------------------------------------------------------------


@dataclasses.dataclass
class Result:
    """A value, (N,) or scalar, its sum's gradient by both views' rows, and the largest coefficient.

    Attributes:
        steep: how much rounding of a cosine matters to a logit.
        unsure: whether rounding decides about the gradient: which of two negatives is the hardest,
            whether a gate is open.
        unsure_value: whether it decides about the value, too.
    """

    value: np.ndarray
    by_anchors: np.ndarray
    by_positives: np.ndarray
    scale: float
    steep: float = 1.0
    unsure: bool = False
    unsure_value: bool = False


@dataclasses.dataclass
class Batch:
    """Rows in float64 and what is known of them."""

    anchors: torch.Tensor
    positives: torch.Tensor
    extra: torch.Tensor
    pools: tuple[str, ...] = ("other",)
    twice: bool = False
    extra_for_positives: bool = True
    above: tuple[float, ...] = ()
    alpha: float = 0.0
    doubt: float = 0.0  # how near to a threshold is too near to tell

    def exchanged(self) -> Batch:
        return dataclasses.replace(
            self, anchors=self.positives, positives=self.anchors, extra=self.extra[:0]
        )

    def prefix(self, d: int) -> Batch:
        cut = lambda rows: rows[:, :d] / rows[:, :d].norm(dim=1, keepdim=True)  # noqa: E731
        return dataclasses.replace(
            self, anchors=cut(self.anchors), positives=cut(self.positives), extra=cut(self.extra)
        )

    @property
    def blur(self) -> float:
        """What rounding unit rows does to the smallest angle: relative, in units of rounding."""
        rows = torch.cat([self.anchors, self.positives, self.extra])
        distances = torch.cat([(rows[:, None] - sign * rows).norm(dim=-1) for sign in (1, -1)])
        return 1 + 1 / float(distances[distances > 0].min())

    def candidates(self, i: int) -> list[tuple[str, int, str, int]]:
        """The negatives of anchor i: which row is compared with which, by view and number."""
        n, candidates = len(self.anchors), []
        indices = [j for j in range(n) if j != i]
        if "other" in self.pools:
            candidates += [("a", i, "b", j) for j in indices]
        if "same" in self.pools:
            candidates += [("a", i, "a", j) for j in indices]
        if "positive_other" in self.pools:
            candidates += [("b", i, "a", j) for j in (range(n) if self.twice else indices)]
        if "positive_same" in self.pools:
            candidates += [("b", i, "b", j) for j in indices]
        if {"other", "same"} & set(self.pools):
            candidates += [("a", i, "e", k) for k in range(len(self.extra))]
        if "positive_same" in self.pools and self.extra_for_positives:
            candidates += [("b", i, "e", k) for k in range(len(self.extra))]
        return candidates


def of_pairs(definition: Definition, settings: dict, batch: Batch) -> Result:
    rows = {"a": batch.anchors, "b": batch.positives, "e": batch.extra}
    gradients = {name: torch.zeros_like(tensor) for name, tensor in rows.items()}
    fixed = settings.get("effective_ratio") == "2r"
    values, scale, unsure, unsure_value = [], 1.0, False, False
    for i in range(len(batch.anchors)):
        candidates = batch.candidates(i)
        rows_kept = []
        for u, x, v, y in candidates:
            cosine = float(rows[u][x] @ rows[v][y])
            is_self = batch.twice and u == "b" and v == "a" and x == y
            unsure_value |= (
                any(abs(cosine - at) < batch.doubt for at in batch.above) and not is_self
            )
            if is_self or not any(cosine > at for at in batch.above):
                rows_kept.append((u, x, v, y))
        if not rows_kept and not definition.pulls_alone:
            values.append(0.0)
            continue
        positive = Pair(batch.anchors[i], batch.positives[i])
        first = (
            torch.stack([rows[u][x] for u, x, _, _ in rows_kept])
            if rows_kept
            else batch.anchors[:0]
        )
        second = (
            torch.stack([rows[v][y] for _, _, v, y in rows_kept])
            if rows_kept
            else batch.anchors[:0]
        )
        negatives = Pair(first, second)
        harder = batch.alpha * (first * second).sum(-1)
        if definition.gated is not None and rows_kept:
            at_gate = abs(definition.gated(positive, negatives, settings)) < math.sqrt(batch.doubt)
            unsure |= at_gate
            unsure_value |= at_gate and definition.value is baseline
        if definition.doubtful is not None and rows_kept:
            unsure_value |= definition.doubtful(positive, negatives, settings)
        if definition.one_hot and len(rows_kept) > 1:
            two = torch.topk(negatives.cos.detach(), 2).values
            unsure |= float(two[0] - two[1]) < batch.doubt
        value = definition.value(positive, negatives, settings, harder)
        by_positive, by_negatives = torch.autograd.grad(
            value, (positive.change, negatives.change), allow_unused=True
        )
        pull = torch.zeros(()) if by_positive is None else by_positive
        push = torch.zeros(len(rows_kept)) if by_negatives is None else by_negatives
        pull = torch.where(torch.isfinite(pull), pull, torch.zeros_like(pull))
        push = torch.where(torch.isfinite(push), push, torch.zeros_like(push))
        scale = max(scale, float(abs(pull)), float(push.abs().max()) if len(push) else 0.0)
        gradients["a"][i] += pull * batch.positives[i]
        gradients["b"][i] += pull * batch.anchors[i]
        for coefficient, (u, x, v, y) in zip(push, rows_kept, strict=True):
            gradients[u][x] += coefficient * rows[v][y]
            if not fixed:
                gradients[v][y] += coefficient * rows[u][x]
        values.append(float(value.detach()))
    return Result(
        np.array(values),
        tangent(gradients["a"], rows["a"]).numpy(),
        tangent(gradients["b"], rows["b"]).numpy(),
        scale,
        definition.steep(settings) + batch.alpha,
        unsure or unsure_value,
        unsure_value,
    )


def of_whole(name: str, settings: dict, batch: Batch) -> Result:
    n, m = len(batch.anchors), len(batch.extra)
    leaves = [batch.anchors.clone().requires_grad_(), batch.positives.clone().requires_grad_()]
    zero = torch.zeros_like(batch.anchors).numpy()
    if n + m == 1:
        return Result(np.array(0.0), zero, zero, 1.0)
    value = WHOLE[name][0](settings, n)(*(torch.cat([leaf, batch.extra]) for leaf in leaves))
    gradients = torch.autograd.grad(value.sum(), leaves, allow_unused=True, materialize_grads=True)
    stacked = torch.cat([batch.anchors, batch.extra])
    distances = (stacked[:, None] - stacked).norm(dim=-1)
    scale, unsure = 1 / settings.get("temperature", 1.0) + settings.get("nu", 1.0), False
    if name == "mhs":
        nearest = torch.topk(distances + 10 * torch.eye(n + m), min(2, n + m), largest=False).values
        scale = settings["nu"] / max(float(nearest[:, 0].min()), math.sqrt(batch.doubt))
        unsure = bool((nearest[:, 1:] ** 2 - nearest[:, :1] ** 2 < 2 * batch.doubt).any())
        unsure |= float(nearest.min()) < math.sqrt(batch.doubt)
    if name == "vicreg":
        spreads = torch.cat([torch.cat([leaf.detach(), batch.extra]).std(0) for leaf in leaves])
        scale = settings["nu1"] + settings["nu2"] / max(
            float(spreads.min()), math.sqrt(batch.doubt)
        )
        unsure = (
            bool(((spreads - settings["gamma"]).abs() < batch.doubt).any())
            or float(spreads.min()) < batch.doubt
        )
    return Result(
        value.detach().numpy(),
        tangent(gradients[0], batch.anchors).numpy(),
        tangent(gradients[1], batch.positives).numpy(),
        max(1.0, scale, float(max(g.abs().max() for g in gradients))),
        1 / settings.get("temperature", 1.0),
        unsure,
    )


def averaged(first: Result, second: Result, n: int) -> Result:
    """The mean of both directions; the second one's views are exchanged.

    A scalar stands in every row, where there are rows.
    """
    reverse = dataclasses.replace(
        second, by_anchors=second.by_positives, by_positives=second.by_anchors
    )
    rows = first.value.ndim or second.value.ndim
    counts = [n if rows and not direction.value.ndim else 1 for direction in (first, reverse)]
    mean = added(
        [(count / 2, direction) for count, direction in zip(counts, (first, reverse), strict=True)]
    )
    return dataclasses.replace(mean, value=(first.value + second.value) / 2, scale=2 * mean.scale)


def added(weighted: list[tuple[float, Result]]) -> Result:
    """A weighted sum."""
    return Result(
        sum(w * term.value for w, term in weighted),
        sum(w * term.by_anchors for w, term in weighted),
        sum(w * term.by_positives for w, term in weighted),
        sum(w * term.scale for w, term in weighted),
        max(term.steep for _, term in weighted),
        any(term.unsure for _, term in weighted),
        any(term.unsure_value for _, term in weighted),
    )


# --- random losses, each a text and a function of a batch -----------------------------------------

Loss = tuple[str, Callable[[Batch], Result]]
POOLS = ("other", "same", "positive_other", "positive_same")


def call(name: str, settings: dict) -> str:
    return (
        f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})"
        if settings
        else name
    )


def random_pairs(
    rng: np.random.Generator, names: tuple[str, ...] = tuple(PAIRS)
) -> tuple[Loss, dict]:
    name = str(rng.choice(names))
    settings = PAIRS[name].settings(rng)
    return (call(name, settings), lambda batch: of_pairs(PAIRS[name], settings, batch)), settings


def random_whole(rng: np.random.Generator) -> Loss:
    name = str(rng.choice(list(WHOLE)))
    settings = WHOLE[name][1](rng)
    return call(name, settings), lambda batch: of_whole(name, settings, batch)


def masked(rng: np.random.Generator, loss: Loss) -> Loss:
    above = between(rng, -0.5, 0.99)
    return f"mask({loss[0]}, above={above})", lambda b: loss[1](
        dataclasses.replace(b, above=(*b.above, above))
    )


def pooled(rng: np.random.Generator, loss: Loss) -> Loss:
    pools = tuple(str(name) for name in rng.permutation(POOLS)[: rng.integers(1, 5)])
    twice = "positive_other" in pools and rng.random() < 0.4
    anchors_only, separate = rng.random() < 0.3, rng.random() < 0.4
    text = f"pool({loss[0]}, negatives={'+'.join(pools)}" + ", positive=twice" * twice
    text += ", extra_negatives=anchors" * anchors_only + ", denominators=separate" * separate + ")"

    def value(batch: Batch) -> Result:
        batch = dataclasses.replace(batch, twice=twice, extra_for_positives=not anchors_only)
        if not separate:
            return loss[1](dataclasses.replace(batch, pools=pools))
        return added(
            [
                (1 / len(pools), loss[1](dataclasses.replace(batch, pools=(candidate_pool,))))
                for candidate_pool in pools
            ]
        )

    return text, value


def both_ways(first: Loss, second: Loss | None = None) -> Loss:
    text = (
        f"symmetric({first[0]})"
        if second is None
        else f"symmetric({first[0]}, reverse={second[0]})"
    )
    reverse = second or first
    return text, lambda b: averaged(first[1](b), reverse[1](b.exchanged()), len(b.anchors))


def by_prefix(rng: np.random.Generator, loss: Loss, dim: int) -> Loss:
    dims = sorted({int(d) for d in rng.integers(2, dim + 1, rng.integers(1, 4))})
    weights = [between(rng, 0.2, 2) for _ in dims]
    text = (
        f"per_prefix({loss[0]}, dims={'+'.join(map(str, dims))}, "
        f"weights={'+'.join(map(str, weights))})"
    )

    def value(batch: Batch) -> Result:
        terms = []
        for d, weight in zip(dims, weights, strict=True):
            cut = batch.prefix(d)
            term = loss[1](cut)
            for name, rows in (("by_anchors", batch.anchors), ("by_positives", batch.positives)):
                gradient = np.zeros_like(rows.numpy())
                gradient[:, :d] = (
                    getattr(term, name) / rows[:, :d].norm(dim=1, keepdim=True).numpy()
                )
                term = dataclasses.replace(term, **{name: gradient})
            shortest = float(
                torch.cat([batch.anchors, batch.positives, batch.extra])[:, :d].norm(dim=1).min()
            )
            steep = term.steep * cut.blur / shortest
            terms.append(
                (weight, dataclasses.replace(term, scale=term.scale / shortest, steep=steep))
            )
        return added(terms)

    return text, value


def random_loss(rng: np.random.Generator, dim: int) -> Loss:
    """A loss of pairs, or of the batch, in combinators."""
    if rng.random() < 0.25:
        loss = random_whole(rng)
        form = rng.choice(["plain", "symmetric", "mixed"])
        if form == "symmetric":
            loss = both_ways(loss)
        if form == "mixed":
            partner = random_pairs(rng)[0] if rng.random() < 0.7 else random_whole(rng)
            loss = both_ways(loss, partner) if rng.random() < 0.5 else both_ways(partner, loss)
    else:
        form = rng.choice(["plain", "mask", "pool", "pool of mask", "hardness"])
        names = ("infonce", "arccon", "cosface", "dcl") if form == "hardness" else tuple(PAIRS)
        loss, settings = random_pairs(rng, names)
        if settings.get("effective_ratio") == "2r":
            form = "plain"
        if form == "hardness":
            alpha, inner = between(rng, 0.1, 9), loss
            loss = (
                f"hardness({loss[0]}, alpha={alpha})",
                lambda b: inner[1](dataclasses.replace(b, alpha=alpha)),
            )
        if "mask" in form or (form == "hardness" and rng.random() < 0.4):
            loss = masked(rng, loss)
        if "pool" in form or (form == "hardness" and rng.random() < 0.4):
            loss = pooled(rng, loss)
        if rng.random() < 0.4:
            loss = both_ways(loss, random_pairs(rng)[0] if rng.random() < 0.3 else None)
    return by_prefix(rng, loss, dim) if rng.random() < 0.15 else loss


# --- random batches -------------------------------------------------------------------------------


def random_rows(rng: np.random.Generator, n: int, m: int, dim: int) -> list[np.ndarray]:
    """Two views and extra negatives.

    Some rows nearly coincide with others, or are their opposites, or all are nearly one.
    """
    rows = rng.normal(size=(2 * n + m, dim))
    rows[n : 2 * n] = rows[:n] + 10 ** rng.uniform(-2, 1) * rows[n : 2 * n]
    kind = rng.choice(["usual", "copies", "collapsed", "pairs"])
    if kind == "copies":
        for _ in range(rng.integers(1, 2 * n + m + 1)):
            target, source = rng.integers(2 * n + m, size=2)
            noise = 0.0 if rng.random() < 0.3 else 10 ** rng.uniform(-7, -1)
            rows[target] = rng.choice([1, -1]) * rows[source] + noise * rng.normal(size=dim)
    if kind == "collapsed":
        noise = 0.0 if rng.random() < 0.2 else 10 ** rng.uniform(-7, -1)
        rows = rows[0] + noise * rows
    if kind == "pairs":
        noise = 0.0 if rng.random() < 0.2 else 10 ** rng.uniform(-7, -1)
        rows[n : 2 * n] = rng.choice([1, -1]) * rows[:n] + noise * rng.normal(size=(n, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [rows[:n], rows[n : 2 * n], rows[2 * n :]]


@dataclasses.dataclass
class Case:
    """One loss on one batch in one dtype."""

    loss: Loss
    rows: list
    dtype: str

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Case:
        n = int(rng.integers(1, 41) if rng.random() < 0.25 else rng.integers(1, 8))
        m = int(rng.choice([0, 1, 3]))
        n, dim = (max(n, 2) if m == 0 else n), int(rng.integers(2, 17))
        dtype = str(rng.choice(["float64", "float64", "float32", "float16", "bfloat16"]))
        library = "torch" if dtype == "bfloat16" else rng.choice(["numpy", "torch"])
        rows = random_rows(rng, n, m, dim)
        loss = random_loss(rng, dim)
        drawn = [torch.from_numpy(tensor).to(getattr(torch, dtype)) for tensor in rows]
        if library == "numpy":
            drawn = [tensor.numpy() for tensor in drawn]
        return cls(loss, drawn, dtype)

    def check(self, blockwise: bool) -> list[str]:
        """What is wrong, in words; empty if nothing is."""
        rows = [torch.as_tensor(side).double() for side in self.rows]
        loss = gradlab.get_loss(self.loss[0])
        half, options = self.dtype in ("float16", "bfloat16"), {}
        if half:  # no unit vectors to more than three digits
            rows, options = (
                [side / side.norm(dim=1, keepdim=True) for side in rows],
                {"normalize": True},
            )
        eps = EPS["float32" if half else self.dtype]
        expected = self.loss[1](Batch(*rows, doubt=100 * eps))
        if half:
            expected.steep *= Batch(*rows).blur
        tensors = [self.rows[0], self.rows[1], self.rows[2] if len(rows[2]) else None]
        # ArcTanh measures gaps from 1e-5 on (float64) by their difference, and may be infinite.
        infinite = "arctanh" in self.loss[0]
        digits, n = eps ** (2 / 3) if infinite else eps, len(rows[0])
        loosely = math.sqrt(eps) if expected.unsure else 0.0
        size = 1 + float(np.abs(expected.value).max(initial=0))
        value_tolerance = 100 * (digits * expected.steep * size + loosely) * math.sqrt(n)
        tolerance = 100 * digits * expected.steep * expected.scale * math.sqrt(n)
        # what is found, what it is, what it should be if that is sure, and to what tolerance
        results = []
        values = [
            ("mean", expected.value.mean(), 1),
            ("sum", expected.value.sum(), n),
            ("none", expected.value, 1),
        ]
        for reduction, expected_values, times in values[: 3 if expected.value.ndim else 2]:
            computed = loss(*tensors, reduction=reduction, **options)
            expected_values = None if expected.unsure_value else expected_values
            results.append((reduction, computed, expected_values, times * value_tolerance))
        sides = gradlab.components(loss, *tensors, side="both", **options)
        gradients = {
            "components": [side.gradient(exact=True) for side in sides],
            "autograd": gradlab.autograd_gradient(loss, *tensors, side="both", **options),
            "blockwise": self.in_blocks(loss, rows) if blockwise else [],
        }
        for way, gradient_pair in gradients.items():
            for computed, expected_values in zip(
                gradient_pair, (expected.by_anchors, expected.by_positives), strict=False
            ):
                expected_values = None if expected.unsure else expected_values
                results.append((f"gradient by {way}", computed, expected_values, tolerance))
        for side in sides:
            for name in ("gradient_dissipation", "weight", "pull"):
                results.append((f"{name} of the {side.side}", getattr(side, name), None, 0.0))
        wrong = []
        for title, computed, expected_values, allowed in results:
            computed = np.asarray(computed, dtype=np.float64)
            if not np.isfinite(computed).all() and not (infinite and "gradient by" not in title):
                wrong.append(f"{title} is not finite")
            elif expected_values is not None and not np.allclose(
                computed, expected_values, rtol=0, atol=allowed
            ):
                worst = np.abs(computed - expected_values).max()
                wrong.append(f"{title} is off by {worst:.3g}, where {allowed:.3g} is allowed")
        return wrong

    def in_blocks(self, loss: gradlab.Loss, rows: list) -> list[torch.Tensor]:
        """Tangent gradients of the blockwise loss, in float64."""
        leaves = [tensor.clone().requires_grad_() for tensor in rows]
        extra = leaves[2] if len(rows[2]) else None
        try:
            gradlab.blockwise(loss, block_size=3)(*leaves[:2], extra, reduction="sum").backward()
        except gradlab.GradlabError as error:
            if "look whether" in str(error) or "need" in str(error) or "not finite" in str(error):
                return []
            raise
        return [tangent(leaf.grad, leaf.detach()) for leaf in leaves[:2]]


def search(seed: int, cases: int | None = None, seconds: float = math.inf) -> tuple[int, list[str]]:
    """Cases tried, and what was wrong with which."""
    started, tried, wrong = time.monotonic(), 0, []
    while (cases is None or tried < cases) and time.monotonic() - started < seconds:
        case = Case.draw(np.random.default_rng([seed, tried]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                failures = case.check(blockwise=case.dtype == "float64" and tried % 3 == 0)
            except Exception as error:  # whatever it is, it is wrong
                failures = [f"{type(error).__name__}: {error}"]
        shape = [tuple(tensor.shape) for tensor in case.rows]
        wrong += [
            f"case {tried} of seed {seed}: {case.loss[0]} in {case.dtype} {shape}: {failure}"
            for failure in failures
        ]
        tried += 1
    return tried, wrong


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_wrong(seed: int) -> None:
    tried, wrong = search(seed, cases=35)
    assert tried == 35
    assert not wrong, "\n".join(wrong)


def main() -> int:
    """Search for some minutes and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument(
        "--seed", type=int, default=1000, help="the first one; each seed is 500 cases"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    end, seed, tried, mismatches = time.monotonic() + 60 * options.minutes, options.seed, 0, 0
    while time.monotonic() < end:
        count, wrong = search(seed, cases=500, seconds=end - time.monotonic())
        tried, seed = tried + count, seed + 1
        mismatches += len({line.split(":")[0] for line in wrong})
        print(*wrong, f"{tried} cases, {mismatches} wrong", sep="\n", flush=True)
    return int(mismatches > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Measures the plan of a run: steps, optimizer, how far it can move, and evaluations, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.plan_verdicts` or `gradlab.diagnosis.optimizer_verdicts`, or None where there is
nothing to measure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from gradlab.diagnosis.label_measurements import label_cells
from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.diagnosis.optimizer_measurements import given_rate, sets_rates
from gradlab.diagnosis.planned_rates import finds_rates, groups_of, rate_of
from gradlab.diagnosis.trials import NO_RATE

Numbers = dict[str, Any]


def steps(observation: Observation) -> Numbers | None:
    """Return the planned steps, the batches of an epoch, and how many of them make a step."""
    plan, args = observation.trials.get("schedule"), observation.args
    sizes = [len(next(iter(table.values()))) for table in observation.tables.values() if table]
    rows = sum(sizes) if sizes and max(sizes) < observation.most_rows else 0
    if not plan:
        return None
    return {
        "steps": int(plan["steps"]),
        "rows": rows,
        "batch": int(args.train_batch_size),
        "batches": math.ceil(rows / (args.train_batch_size * max(1, args.world_size))),
        "accumulation": int(args.gradient_accumulation_steps),
    }


def settings(observation: Observation) -> Numbers | None:
    """Return the numbers of an optimizer like Adam, and the share of weights without a rate."""
    args, existing = observation.args, getattr(observation.trainer, "optimizer", None)
    groups = groups_of(existing)
    kind = type(existing).__name__ if existing is not None else str(
        getattr(args.optim, "value", args.optim)
    )  # fmt: skip
    epsilon, decay = float(args.adam_epsilon), float(args.weight_decay)
    sizes = [sum(tensor.numel() for tensor in group["params"]) for group in groups]
    rates = [rate_of(group) for group in groups]
    if groups:
        epsilons = [float(g["eps"]) for g in groups if isinstance(g.get("eps"), float)]
        epsilon = max(epsilons, default=0.0)
        decay = max(float(group.get("weight_decay") or 0.0) for group in groups)
    gradient, clip = _usual_gradient(observation)
    most = NO_RATE * max(rates, default=0.0)
    still = sum(size for size, rate in zip(sizes, rates, strict=True) if rate <= most) * (most > 0)
    return {
        "optimizer": kind,
        "epsilon": epsilon if "adam" in kind.lower() else 0.0,
        "decay": decay,
        "without_rate": still / max(1, sum(sizes)),
        "gradient": gradient,
        "maximize": any(bool(group.get("maximize")) for group in groups),
        "clip": clip,
    }


def passes(observation: Observation) -> Numbers | None:
    """Return how often the planned run sees each row; None without a length."""
    plan, args = observation.trials.get("schedule"), observation.args
    sizes = [len(next(iter(table.values()))) for table in observation.tables.values() if table]
    if not plan or not sizes or sum(sizes) >= observation.most_rows:
        return None
    rows = plan["steps"] * args.train_batch_size * args.gradient_accumulation_steps
    rows *= max(1, args.world_size)
    return {"rows": sum(sizes), "batch": int(args.train_batch_size), "passes": rows / sum(sizes)}


def reach(observation: Observation) -> Numbers | None:
    """Return how far the plan can move the trained weights, relative to their size.

    Adam moves a weight by the rate at most; SGD by the rate times its gradient.
    """
    plan, args = observation.trials.get("schedule"), observation.args
    weights = [w for w in observation.trained.values() if w.numel()]
    norms = [batch.norm for batch in observation.batches if math.isfinite(batch.norm)]
    existing = getattr(observation.trainer, "optimizer", None)
    if not plan or "mean" not in plan or not weights or not norms or not max(norms):
        return None
    if finds_rates(existing) or (existing is not None and not groups_of(existing)):
        return None
    kind = type(existing).__name__ if existing is not None else str(
        getattr(args.optim, "value", args.optim)
    )  # fmt: skip
    rate = float(args.learning_rate)
    if existing is not None:
        rate = max(map(rate_of, groups_of(existing))) or given_rate(observation)
    if not rate and sets_rates(observation.trainer):
        return None
    size = math.sqrt(sum(float(w.detach().double().square().sum()) for w in weights))
    norm, clip = sum(norms) / len(norms), float(args.max_grad_norm or 0)
    plain = kind.lower() == "sgd"
    step = min(norm, clip) if plain and clip else norm
    step = step if plain else math.sqrt(sum(w.numel() for w in weights))
    adapter, scaling = _reach_of_adapter(
        observation.trainer.model, rate * plan["steps"] * plan["mean"]
    )
    return {
        "optimizer": kind, "rate": rate, "steps": plan["steps"], "norm": norm, "clip": clip,
        "moved": rate * plan["steps"] * plan["mean"] * step / size if size else math.nan,
        "adapter": adapter, "scaling": scaling, "static": not any(
            isinstance(module, nn.Linear) for module in observation.trainer.model.modules()
        ),
    }  # fmt: skip


def evaluations(observation: Observation) -> Numbers | None:
    """Return what is there to evaluate, and the steps between evaluations; 0 for none."""
    trainer, args = observation.trainer, observation.args
    attached = [
        name
        for name, held in (
            ("an evaluator", getattr(trainer, "evaluator", None)),
            ("an eval_dataset", getattr(trainer, "eval_dataset", None)),
        )
        if held is not None
    ]
    if not attached:
        return None
    plan = observation.trials.get("schedule") or {}
    return {
        "attached": attached[0],
        "strategy": _strategy(args),
        "interval": _steps_between(observation),
        "steps": int(plan.get("steps", 0)),
    }


def stopping(observation: Observation) -> Numbers | None:
    """Return after how many steps without a better score the run stops; None if it does not."""
    callbacks = getattr(getattr(observation.trainer, "callback_handler", None), "callbacks", [])
    stops = [callback for callback in callbacks if hasattr(callback, "early_stopping_patience")]
    plan, interval = observation.trials.get("schedule"), _steps_between(observation)
    if not stops or not plan or not interval:
        return None
    return {
        "patience": int(stops[0].early_stopping_patience),
        "threshold": float(getattr(stops[0], "early_stopping_threshold", None) or 0.0),
        "interval": interval,
        "warmup": int(plan["warmup"]),
        "steps": int(plan["steps"]),
    }


def last_batch(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the share of batches of one row, where a loss compares the rows of a batch."""
    drawn, first = observation.draws.get(dataset), batches[0]
    if not drawn or not drawn["batches"] or first.labelled or len(first.columns) < 2:
        return None
    if label_cells(observation, dataset) or "negatives" in vars(first.loss):
        return None
    sizes = [len(batch) for batch in drawn["batches"]]
    single = sum(size == 1 for size in sizes) / len(sizes)
    return {"batches": len(sizes), "single": single, "largest": max(sizes)}


def routes(observation: Observation) -> Numbers | None:
    """Return the route of each column through a router's modules; None without a router.

    A column without a route takes the default one. A route that no column takes is left out where
    it has no trained weights of its own, as a frozen one.
    """
    routers = [m for m in observation.trainer.model.modules() if hasattr(m, "sub_modules")]
    if not routers or getattr(routers[0], "route_mappings", None):
        return None
    router: Any = routers[0]
    names = [str(name) for name in getattr(router.sub_modules, "keys", list)()]
    mapping = getattr(observation.args, "router_mapping", None) or {}
    flat: dict[str, str] = {}
    for column, route in mapping.items():
        flat |= {str(c): str(r) for c, r in route.items()} if isinstance(route, Mapping) else {
            str(column): str(route)
        }  # fmt: skip
    columns = list(dict.fromkeys(name for table in observation.tables.values() for name in table))
    default = getattr(router, "default_route", None)
    if default is not None and flat:
        flat |= {name: str(default) for name in columns if flat.get(name) not in names}
    taken = {flat[name] for name in columns if name in flat}
    weights = {
        name: {id(weight) for weight in router.sub_modules[name].parameters()
               if weight.requires_grad}
        for name in names
    }  # fmt: skip
    trained = set().union(*(weights.get(name, set()) for name in taken))
    names = [name for name in names if name in taken or weights[name] - trained]
    return {"routes": names, "mapping": flat, "columns": columns} if names else None


def _usual_gradient(observation: Observation) -> tuple[float, float]:
    """Return the root mean square of the first gradient over all trained weights; 0 if unknown.

    The second number is the norm to which it is clipped, or 0 where it is smaller.
    """
    count = sum(weight.numel() for weight in observation.trained.values())
    norms = [batch.norm for batch in observation.batches if math.isfinite(batch.norm)]
    norm, clip = max(norms, default=0.0), float(observation.args.max_grad_norm or 0)
    clip = clip if clip < norm else 0.0
    return (clip or norm) / math.sqrt(count) if count else 0.0, clip


def _strategy(args: Any) -> str:
    return str(getattr(args.eval_strategy, "value", args.eval_strategy))


def _steps_between(observation: Observation) -> int:
    """Return the steps between evaluations; 0 if there are none, or their number is unknown."""
    args, numbers = observation.args, steps(observation)
    if numbers is None or _strategy(args) == "no":
        return 0
    if _strategy(args) == "epoch":
        return max(1, numbers["batches"] // numbers["accumulation"]) if numbers["batches"] else 0
    interval = float(args.eval_steps or args.logging_steps or 0)
    return math.ceil(interval * numbers["steps"]) if interval < 1 else int(interval)


def _reach_of_adapter(model: Any, sum_of_rates: float) -> tuple[float | None, float]:
    """Return how far a low-rank adapter that starts at 0 can move its weight, and its factor.

    The first is relative to the weight, and None without adapters.
    """
    shares, largest = list[float](), 0.0
    for module in model.modules() if isinstance(model, nn.Module) else ():
        factors, scaling = getattr(module, "lora_A", None), getattr(module, "scaling", None)
        layer: Any = module
        base = layer.get_base_layer() if hasattr(layer, "get_base_layer") else layer
        weight: Any = getattr(base, "weight", None)
        if not isinstance(factors, nn.ModuleDict) or not isinstance(scaling, Mapping):
            continue
        for name in factors.keys() if isinstance(weight, torch.Tensor) else ():
            size = float(layer.lora_A[name].weight.detach().double().norm())
            largest = max(largest, float(scaling.get(name, 1.0)))
            change = float(scaling.get(name, 1.0)) * sum_of_rates * math.sqrt(len(weight)) * size
            shares.append(change / float(weight.detach().double().norm() or 1.0))
    return max(shares, default=None), largest


OF_TRAINER = (passes, reach, steps, settings, evaluations, stopping, routes)
OF_LOSS = (last_batch,)

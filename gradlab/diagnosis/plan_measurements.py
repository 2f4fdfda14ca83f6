"""Measures the plan of a run: its steps, its optimizer, and when it evaluates and stops, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.plan_verdicts` or `gradlab.diagnosis.optimizer_verdicts`, or None where there is
nothing to measure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradlab.diagnosis.label_measurements import label_cells
from gradlab.diagnosis.observation import Observation, ObservedBatch
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
    groups = existing.param_groups if existing is not None else []
    kind = type(existing).__name__ if existing is not None else str(
        getattr(args.optim, "value", args.optim)
    )  # fmt: skip
    epsilon, decay = float(args.adam_epsilon), float(args.weight_decay)
    sizes = [sum(tensor.numel() for tensor in group["params"]) for group in groups]
    rates = [float(group.get("initial_lr", group["lr"])) for group in groups]
    if groups:
        epsilons = [float(g["eps"]) for g in groups if isinstance(g.get("eps"), float)]
        epsilon = max(epsilons, default=0.0)
        decay = max(float(group.get("weight_decay") or 0.0) for group in groups)
    most = NO_RATE * max(rates, default=0.0)
    still = sum(size for size, rate in zip(sizes, rates, strict=True) if rate <= most)
    return {
        "optimizer": kind,
        "epsilon": epsilon if "adam" in kind.lower() else 0.0,
        "decay": decay,
        "without_rate": still / max(1, sum(sizes)),
        "gradient": _usual_gradient(observation),
    }


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
    """Return the route of each column through a router's modules; None without a router."""
    routers = [m for m in observation.trainer.model.modules() if hasattr(m, "sub_modules")]
    if not routers:
        return None
    names = [str(name) for name in getattr(routers[0].sub_modules, "keys", list)()]
    mapping = getattr(observation.args, "router_mapping", None) or {}
    flat: dict[str, str] = {}
    for column, route in mapping.items():
        flat |= {str(c): str(r) for c, r in route.items()} if isinstance(route, Mapping) else {
            str(column): str(route)
        }  # fmt: skip
    columns = list(dict.fromkeys(name for table in observation.tables.values() for name in table))
    return {"routes": names, "mapping": flat, "columns": columns} if names else None


def _usual_gradient(observation: Observation) -> float:
    """Return the root mean square of the first gradient over all trained weights; 0 if unknown."""
    count = sum(weight.numel() for weight in observation.trained.values())
    norms = [batch.norm for batch in observation.batches if math.isfinite(batch.norm)]
    return max(norms, default=0.0) / math.sqrt(count) if count else 0.0


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


OF_TRAINER = (steps, settings, evaluations, stopping, routes)
OF_LOSS = (last_batch,)

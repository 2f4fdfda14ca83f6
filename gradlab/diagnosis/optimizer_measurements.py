"""Measures the optimizer: its rate, what it trains and in which precision, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.optimizer_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import inspect
import re
import statistics
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.diagnosis.observation import Observation
from gradlab.diagnosis.planned_rates import finds_rates, groups_of, rate_of
from gradlab.diagnosis.word_tables import embeds_words_alone

ADAPTER = re.compile(r"lora_|adapter|ia3_|vera_|prompt_encoder")
HALF_WEIGHTS = 4096  # weights of each half-precision tensor for which an update is tried
HALF = (torch.float16, torch.bfloat16)
# Optimizers that keep what rounding takes from a step, by their names and settings.
EXACT = re.compile(r"kahan|stochastic|anyprecision|master", re.IGNORECASE)
LIBRARIES = ("transformers.", "sentence_transformers.", "gradlab.", "accelerate.")
# A rate for Adam that no encoder has: the factors of its schedule are rates themselves.
NO_RATE_OF_ADAM = 0.5
# Relative difference of singular values up to which they are equal, as of orthonormal rows; they
# are no 0 above a share of the largest.
EQUAL, NO_ZERO = 0.05, 1e-3
# What is added to the states of tokens, or scales them: prompts that are learned, and IA3.
ADDED = re.compile(r"prompt|ia3_")
Numbers = dict[str, Any]


def rates_of(observation: Observation) -> float:
    """Return the sum of the learning rates of Adam over the planned run; 0 if it is unknown."""
    plan, numbers = observation.trials.get("schedule"), learning_rate(observation)
    if not plan or not numbers or "adam" not in numbers["optimizer"].lower():
        return 0.0
    return float(given_rate(observation) * plan["steps"] * plan.get("mean", 1.0))


def optimizer(observation: Observation) -> Numbers | None:
    """Count trained tensors that an existing optimizer lacks, and frozen tensors of the loss."""
    existing = getattr(observation.trainer, "optimizer", None)
    own = _of_loss(observation)
    frozen = {name: tensor for name, tensor in own.items() if not tensor.requires_grad}
    # Vectors, such as a temperature, and a table that was made, such as of a PCA, are not learned.
    frozen = frozen if any(map(_is_drawn, frozen.values())) else {}
    trained = dict(observation.trained) if existing is not None else {}
    trained |= {name: tensor for name, tensor in own.items() if tensor.requires_grad}
    hidden = _hidden(observation)
    if existing is None and not frozen and not hidden:
        return None
    managed = _managed(existing)
    # A tensor without a gradient, such as a pooler that no loss reads, would not change anyway.
    reached = {n for batch in observation.batches for n, size in batch.gradients.items() if size}
    missing = [
        n for n, w in trained.items() if id(w) not in managed and (n in reached or not reached)
    ]
    missing = missing if existing is not None and not _are_copies(existing, trained) else []
    return {
        "missing": len(missing),
        "trained": len(trained),
        "missing_name": missing[0] if missing else "",
        "missing_of_loss": sum(name in own for name in missing),
        "frozen_of_loss": len(frozen),
        "frozen_name": next(iter(frozen), ""),
        "hidden": len(hidden),
        "hidden_name": hidden[0] if hidden else "",
        "whole": _are_modules(observation, missing, managed),
        "scalars": bool(missing) and all(trained[name].numel() == 1 for name in missing),
    }


def learning_rate(observation: Observation) -> Numbers | None:
    """Return the learning rate and the kind of optimizer and of model.

    A body is frozen if no weight is trained of the modules with word embeddings: what is trained
    are new modules above them, at a rate of their own. None for an optimizer that finds its rates
    itself, and where a callback sets them.
    """
    trainer = observation.trainer
    existing, kind = getattr(trainer, "optimizer", None), observation.args.optim
    groups, plan = groups_of(existing), observation.trials.get("schedule") or {}
    kind = type(existing).__name__ if existing is not None else str(getattr(kind, "value", kind))
    if finds_rates(existing) or (existing is not None and not groups):
        return None
    inputs = {
        name: module.in_features for name, module in trainer.model.named_modules()
        if isinstance(module, nn.Linear)
    }  # fmt: skip
    of_encoder = [count for name, count in inputs.items() if not ADAPTER.search(name)]
    managed = _managed(existing)
    trained = {n: w for n, w in observation.trained.items() if id(w) in managed or not groups}
    trained = trained or observation.trained
    count = sum(weight.numel() for weight in trained.values())
    whole = sum(weight.numel() for weight in trainer.model.parameters())
    of_body = _weights_of_bodies(trainer.model)
    frozen_body = bool(of_body) and of_body.isdisjoint(map(id, trained.values()))
    ruled = [group for group in groups if not group.get("use_muon")]  # the others as by SGD
    if "muon" in kind.lower() and len(ruled) == len(groups):
        return None
    of_bodies = [g for g in ruled if any(id(w) in of_body for w in g["params"])]
    places = set(map(id, of_bodies or ruled))
    above = [group for group in ruled if id(group) not in places]
    heads = [group for group in above if any(weight.ndim > 1 for weight in group["params"])]
    rate = given_rate(observation, of_bodies or ruled or groups)
    if rate >= NO_RATE_OF_ADAM:
        rate = min(rate, float(plan.get("largest") or rate))
    if rate <= 0 and sets_rates(trainer):
        return None
    return {
        "rate": rate,
        "optimizer": kind,
        "adapters": any(ADAPTER.search(name) for name in trained),
        "share": count / max(1, whole),
        "frozen_body": frozen_body,
        # Models without a transformer, such as of word embeddings, are trained at larger rates.
        "dense": bool(inputs) and not embeds_words_alone(trainer.model),
        "width": statistics.median_low(of_encoder) if of_encoder else 0,
        "above": max((rate_of(group) for group in heads), default=0.0),
        "multiplies": any(_multiplies(name, weight) for name, weight in trained.items()),
    }


def precision(observation: Observation) -> Numbers:
    """Count tensors in half precision, and the share of weights that a step leaves unchanged."""
    trainer = observation.trainer
    existing = getattr(trainer, "optimizer", None)
    tensors, rate = observation.trained.values(), given_rate(observation)
    half = [tensor for tensor in tensors if tensor.dtype in HALF]
    kind = type(existing).__name__ if existing is not None else str(observation.args.optim)
    words = " ".join([kind, *(n for group in groups_of(existing) for n, v in group.items() if v)])
    if EXACT.search(words) or _are_copies(existing, observation.trained):
        half = []
    unchanged = 0.0
    if half:  # the rate is about the change of a weight in a step of Adam
        entries = torch.cat([tensor.detach().flatten()[:HALF_WEIGHTS] for tensor in half])
        is_same = (entries + rate == entries) & (entries - rate == entries)
        unchanged = float(is_same.double().mean())
    float16 = sum(tensor.dtype == torch.float16 for tensor in half)
    epsilons = [float(g["eps"]) for g in groups_of(existing) if isinstance(g.get("eps"), float)]
    epsilon = max(epsilons, default=float(observation.args.adam_epsilon))
    # Adam divides by the square root of squares of gradients, and by epsilon where these are 0.
    numbers = torch.finfo(torch.float16)
    divides = "adam" in kind.lower() and epsilon < numbers.smallest_normal * numbers.eps
    return {
        "trained": len(observation.trained),
        "float16": float16,
        "bfloat16": len(half) - float16,
        "rate": rate,
        "unchanged": 0.0 if existing is not None and kind.lower() in ("sgd", "asgd") else unchanged,
        "divides": divides,
    }


def given_rate(observation: Observation, groups: list[dict[str, Any]] | None = None) -> float:
    """Return the largest rate that an optimizer is given, before a schedule that has not begun."""
    trainer = observation.trainer
    existing = getattr(trainer, "optimizer", None)
    groups = groups_of(existing) if groups is None else groups
    if existing is None or not groups:
        return float(observation.args.learning_rate)
    # A schedule that has not begun, or that a trainer makes anew, leads to the first rate.
    scheduler = getattr(trainer, "lr_scheduler", None)
    begins = getattr(trainer, "_created_lr_scheduler", False)
    begins |= scheduler is not None and getattr(scheduler, "last_epoch", 1) <= 0
    rate = max(rate_of(group, first=begins) for group in groups)
    plan = observation.trials.get("schedule") or {}
    return rate or float(plan.get("largest", 0.0)) / (plan.get("peak") or 1.0)


def sets_rates(trainer: Any) -> bool:
    """Return whether a callback of a user's own may set the learning rates."""
    callbacks = getattr(getattr(trainer, "callback_handler", None), "callbacks", [])
    kinds = {type(callback) for callback in callbacks}
    for kind in (kind for kind in kinds if not kind.__module__.startswith(LIBRARIES)):
        try:
            source = inspect.getsource(kind)
        except (OSError, TypeError):  # typed in
            return True
        if "param_groups" in source:
            return True
    return False


def _managed(existing: Any) -> set[int]:
    """Return the identities of the weights in an optimizer."""
    return {id(tensor) for group in groups_of(existing) for tensor in group["params"]}


def _are_copies(existing: Any, trained: dict[str, Tensor]) -> bool:
    """Return whether an optimizer trains float32 copies of weights in half precision."""
    managed = [tensor for group in groups_of(existing) for tensor in group["params"]]
    own = {id(tensor) for tensor in trained.values()}
    half = sorted(tuple(w.shape) for w in trained.values() if w.dtype in HALF)
    copies = sorted(
        tuple(w.shape) for w in managed if id(w) not in own and w.dtype == torch.float32
    )  # fmt: skip
    return bool(half) and half == copies


def _are_modules(observation: Observation, missing: list[str], managed: set[int]) -> bool:
    """Return whether an optimizer lacks all weights of the modules that it lacks weights of.

    These are the modules of a model of sentence-transformers, such as the encoder below a head.
    """
    modules = {name.split(".")[0] for name in missing}
    remainder = [name for name, weight in observation.trained.items() if id(weight) in managed]
    if "loss" in modules:
        return False
    return bool(remainder) and not any(name.split(".")[0] in modules for name in remainder)


def _is_drawn(weight: Tensor) -> bool:
    """Return whether a table is none of equal singular values, as orthonormal and simplex ones."""
    if weight.ndim < 2 or not weight.is_floating_point():
        return False
    values = torch.linalg.svdvals(weight.detach().double().flatten(1))
    values = values[values > NO_ZERO * values.max()]
    return len(values) > 1 and float(values.max() / values.min()) > 1 + EQUAL


def _multiplies(name: str, weight: Tensor) -> bool:
    """Return whether a weight is a matrix: biases, scales and prompts move an output by less."""
    return weight.numel() > max(weight.shape, default=1) and not ADDED.search(name)


def _weights_of_bodies(model: nn.Module) -> set[int]:
    """Return the identities of the weights of the modules that have word embeddings."""
    bodies = [
        child for child in model.children()
        if any(isinstance(module, nn.Embedding) for module in child.modules())
    ]  # fmt: skip
    return {id(weight) for body in bodies for weight in body.parameters()}


def _of_loss(observation: Observation) -> dict[str, Tensor]:
    """Return weights of the loss itself, without those of the model and of guides and teachers."""
    loss_or_losses = getattr(observation.trainer, "loss", None)
    losses = loss_or_losses.values() if isinstance(loss_or_losses, dict) else [loss_or_losses]
    encoders = {id(tensor) for tensor in observation.trainer.model.parameters()}
    own: dict[str, Tensor] = {}
    for loss in (loss for loss in losses if isinstance(loss, nn.Module)):
        for module in loss.modules():
            if hasattr(module, "encode") or hasattr(module, "get_input_embeddings"):
                encoders.update(map(id, module.parameters()))
        named = loss.named_parameters()
        own |= {f"loss.{name}": tensor for name, tensor in named if id(tensor) not in encoders}
    return own


def _hidden(observation: Observation) -> list[str]:
    """Return attributes of the loss and the model with weights that are no parameters of them.

    Such are tensors that require a gradient, and modules in a list or dict of Python, but for
    encoders, such as a teacher or an average, which are kept there lest they are trained.
    """
    loss = getattr(observation.trainer, "loss", None)
    roots = [*(loss.values() if isinstance(loss, dict) else [loss]), observation.trainer.model]
    modules = [module for root in roots if isinstance(root, nn.Module) for module in root.modules()]
    registered = {id(weight) for module in modules for weight in module.parameters(recurse=False)}
    trainer = observation.trainer
    callbacks = getattr(getattr(trainer, "callback_handler", None), "callbacks", [])
    for holder in (trainer, *modules, *callbacks):  # a loss may train weights of its own
        for value in list(vars(holder).values()):
            registered.update(_managed(value) if isinstance(value, torch.optim.Optimizer) else ())
    names = []
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            items = list(value.values()) if isinstance(value, dict) else value
            for item in items if isinstance(items, list | tuple) else [items]:
                weights = [item]
                if isinstance(item, nn.Module):
                    weights = [] if _holds_encoder(item) else list(item.parameters())
                if any(
                    isinstance(weight, Tensor) and weight.requires_grad and weight.is_leaf
                    and id(weight) not in registered for weight in weights
                ):  # fmt: skip
                    names.append(f"{type(module).__name__}.{name}")
    return list(dict.fromkeys(names))


def _holds_encoder(module: nn.Module) -> bool:
    """Return whether a module is or holds an encoder of texts."""
    return any(
        hasattr(inner, "encode") or hasattr(inner, "get_input_embeddings")
        for inner in module.modules()
    )

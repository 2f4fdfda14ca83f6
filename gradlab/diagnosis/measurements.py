"""Measures what the doctor's checks ask of a trainer's first batches, as plain values for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from gradlab.diagnosis import (
    answer_measurements,
    evaluation_measurements,
    form_measurements,
    label_agreement_measurements,
    label_measurements,
    label_structure_measurements,
    label_values_measurements,
    module_measurements,
    pairing_measurements,
    plan_measurements,
    serving_measurements,
    shape_measurements,
    shortcut_measurements,
    statistics_measurements,
)
from gradlab.diagnosis.data_measurements import (
    hard_negatives,
    of_texts,
    pairs,
    unrelated_rows,
    views,
    with_strangers,
)
from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.diagnosis.optimizer_measurements import (
    ADAPTER,
    learning_rate,
    optimizer,
    precision,
    rates_of,
)
from gradlab.diagnosis.optimizer_verdicts import LOSS_IS_0
from gradlab.diagnosis.trial_step import positions_of
from gradlab.diagnosis.truncation import longest_text, lost_words
from gradlab.errors import first_line
from gradlab.monitor.library_losses import DOTS
from gradlab.scale.audit import Audit
from gradlab.settings import declarations

SCORED_TEMPERATURE = 0.05  # published one of losses of scores that are no gradlab loss
Numbers = dict[str, Any]


def measure(observation: Observation) -> dict[str, Any]:
    """Return the measurements of a trainer, for `gradlab.diagnosis.verdicts.judge`."""
    failures: dict[str, str] = {}
    checks_of_trainer = (
        *TRAINER_CHECKS,
        *(*label_measurements.OF_TRAINER, *evaluation_measurements.OF_TRAINER),
        *answer_measurements.OF_TRAINER,
        *plan_measurements.OF_TRAINER,
        *serving_measurements.OF_TRAINER,
        *pairing_measurements.OF_TRAINER,
        *statistics_measurements.OF_TRAINER,
        *module_measurements.OF_TRAINER,
    )
    trainer = {c.__name__: _tried(c, failures, observation) for c in checks_of_trainer}
    trainer |= observation.trials
    losses = {}
    for dataset, batches in observation.of_losses().items():
        table = observation.tables.get(dataset) or observation.tables.get("", {})
        checks: dict[str, Numbers | None] = of_texts(observation, table, batches[0])
        checks |= {c.__name__: _tried(c, failures, batches) for c in LOSS_CHECKS}
        checks["pairs"] = _tried(pairs, failures, batches, list(table.values()))
        checks |= {
            check.__name__: _tried(check, failures, observation, dataset, batches)
            for check in OF_LOSS
        }
        checks["unrelated_rows"] = with_strangers(checks)
        losses[dataset] = _measured(checks)
    # Data sets that share a loss have texts of their own.
    for dataset in observation.tables.keys() - losses.keys() - {""}:
        checks = of_texts(observation, observation.tables[dataset], observation.batches[0])
        losses[dataset] = _measured(checks)
    trainer["unmeasured"] = {"failures": failures} if failures else None
    return {"trainer": _measured(trainer), "losses": losses}


def weights(observation: Observation) -> Numbers:
    """Count trained weights, tensors and adapters."""
    trained = observation.trained
    adapters = [name for name in [*trained, *observation.frozen] if ADAPTER.search(name)]
    modules = observation.trainer.model.modules()
    of_norms = {
        id(weight) for module in modules if "norm" in type(module).__name__.lower()
        for weight in module.parameters(recurse=False)
    }  # fmt: skip
    return {
        "numbers": sum(tensor.numel() for tensor in trained.values()),
        "trained": len(trained),
        "tensors": len(trained) + len(observation.frozen),
        "adapters": len(adapters),
        "trained_adapters": len(trained.keys() & set(adapters)),
        "adapter": adapters[0] if adapters else "",
        "norms": sum(id(tensor) in of_norms for tensor in trained.values()),
        "vectors": sum(tensor.ndim < 2 for tensor in trained.values()),
        "example": next(iter(trained), ""),
        "rates": rates_of(observation),
    }


def gradient(observation: Observation) -> Numbers:
    """Count tensors that a gradient reaches in some batch."""
    batches = observation.batches
    sizes = [(name, size) for batch in batches for name, size in batch.gradients.items()]
    broken = list(dict.fromkeys(name for name, size in sizes if not math.isfinite(size)))
    reached = {name for name, size in sizes if size}
    # lora_A of a low-rank adapter has no gradient until lora_B, which starts at 0, has changed.
    due = [name for name in observation.trained if "lora_A" not in name]
    due = due or list(observation.trained)  # lora_B is frozen
    missed = [name for name in due if name not in reached]
    adapters = [name for name in due if ADAPTER.search(name)]
    is_zero = "" if any(batch.value for batch in batches) else LOSS_IS_0
    return {
        "due": len(due),
        "reached": len(due) - len(missed),
        "missed": missed[0] if missed else "",
        "adapters": len(adapters),
        "reached_adapters": len(reached.intersection(adapters)),
        "broken": len(broken),
        "broken_name": broken[0] if broken else "",
        "reason": next((batch.problem for batch in batches if batch.problem), is_zero),
        "idle": _idle(observation, reached),
    }


def dropout(observation: Observation) -> Numbers:
    """Count dropout layers that stay off in training; return the largest share that one drops."""
    silent, model = observation.silent, observation.trainer.model
    layers = [m for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    return {
        "silent": len(silent),
        "name": silent[0] if silent else "",
        "largest": max((float(layer.p) for layer in layers), default=0.0),
    }


def length(observation: Observation) -> Numbers | None:
    """Return the share of texts that reach the longest length, and of common words cut off."""
    limit = getattr(observation.trainer.model, "max_seq_length", None)
    tokenised = [column for batch in observation.batches for column in batch.columns]
    masks = [column["attention_mask"] for column in tokenised if "attention_mask" in column]
    if not limit or math.isinf(limit) or not masks or any(mask.ndim != 2 for mask in masks):
        return None
    reach, lost = sum(int((mask.sum(1) >= limit).sum()) for mask in masks), None
    positions, longest = positions_of(observation.trainer.model), None
    with contextlib.suppress(Exception):  # a tokenizer of one's own
        lost = lost_words(observation, int(limit))
    with contextlib.suppress(Exception):
        longest = longest_text(observation) if 0 < positions < limit else None
    return {
        "truncated": reach / sum(map(len, masks)),
        "limit": int(limit),
        "positions": positions,
        "side": str(
            getattr(
                getattr(observation.trainer.model, "tokenizer", None), "truncation_side", "right"
            )
        ),
        "lost": lost,
        "longest": longest,
    }


def processes(observation: Observation) -> Numbers:
    """Return what audits of several processes say of losses that gather."""
    audits: dict[str, Any] = {}
    for name, audit in observation.audits.items():
        if isinstance(audit, str):
            audits[name] = {"error": audit}
        elif isinstance(audit, Audit):
            faults = [{"finding": fault.finding, "change": fault.change} for fault in audit.faults]
            audits[name] = {
                "processes": audit.processes,
                "faults": faults,
                "passed": bool(audit.passed),
            }
    return {
        "audits": audits,
        "count": int(observation.args.world_size),
        "gathers": any(observation.audits.values()),
        "is_registered": any(batch.registered is not None for batch in observation.batches),
    }


def loss(batches: list[ObservedBatch]) -> Numbers:
    """Return the loss of each batch, and the number of candidates of InfoNCE."""
    first = batches[0]
    is_infonce = first.registered is not None and first.registered.name == "infonce"
    return {
        "values": [batch.value for batch in batches],
        "candidates": first.candidates if is_infonce and first.snapshot is not None else 0,
        "guided": hasattr(first.loss, "guide"),
        "half": first.half,
    }


def temperature(batches: list[ObservedBatch]) -> Numbers | None:
    """Return the temperature and the published one.

    None is published for losses with a teacher: it differs with the teacher's scores.
    """
    loss = batches[0].loss
    if label_measurements.name_of_loss(loss) == "AnglELoss":
        scale = float(getattr(loss, "loss", loss).scale)
        return {"temperature": 1 / scale, "published": SCORED_TEMPERATURE} if scale > 0 else None
    bases = batches[0].registered.bases if batches[0].registered else ()
    base = next((loss for loss in bases if hasattr(loss, "temperature")), None)
    published = declarations(type(base))["temperature"].default if base else None
    if base is None or "teacher" in base.looks_at or not isinstance(published, float):
        return None
    return {"temperature": float(base.temperature), "published": published}


def logits(batches: list[ObservedBatch]) -> Numbers | None:
    """Return the mean length of embeddings whose dot products are scaled as if they were cosines.

    None where the loss compares by something else, or a temperature is known.
    """
    batch = batches[0]
    scale = getattr(batch.loss, "scale", None)
    function = getattr(batch.loss, "similarity_fct", None)
    if getattr(function, "__name__", "") not in DOTS or not scale or temperature(batches):
        return None
    if not batch.embedded:
        return None
    lengths = torch.cat([rows.double().norm(dim=1) for rows in batch.embedded])
    return {"scale": float(scale), "length": float(lengths.mean())}


def gradient_cache(batches: list[ObservedBatch]) -> Numbers | None:
    """Return the largest differences of a gradient cache from plain training."""
    cached = [batch for batch in batches if batch.replay is not None or batch.plain is not None]
    if not cached:
        return None
    has_plain = cached[0].plain is not None
    return {
        "replay": max(batch.replay or 0.0 for batch in cached),
        "plain": max(batch.plain or 0.0 for batch in cached) if has_plain else None,
        "batches": len(cached),
        "half": cached[0].half,
    }


def _tried(check: Callable[..., Numbers | None], failures: dict[str, str], *of: Any) -> Any:
    """Return the numbers of a check; None, with its error in ``failures``, where it fails.

    Evaluators, data sets and losses of a user's own may hold anything.
    """
    try:
        return check(*of)
    except Exception as error:
        failures[check.__name__] = f"{type(error).__name__}: {first_line(error)}"
        return None


def _measured(checks: Mapping[str, Numbers | None]) -> dict[str, Numbers]:
    return {name: numbers for name, numbers in checks.items() if numbers is not None}


def _idle(observation: Observation, reached: set[str]) -> str:
    """Return the first part of the encoder that is trained, and no tensor of it has a gradient."""
    modules: dict[str, list[str]] = {}
    for name in observation.trained:
        path = name.split(".")
        place = path.index("sub_modules") + 2 if "sub_modules" in path else 0
        modules.setdefault(".".join(path[: place + 1]), []).append(name)
    return next(
        (module for module, names in modules.items() if not reached.intersection(names)), ""
    )


# Measurements of a trainer, and of the batches of each of its losses.
TRAINER_CHECKS = (
    *(weights, gradient, optimizer, learning_rate, precision, dropout, length, processes),
)
LOSS_CHECKS = (views, loss, unrelated_rows, hard_negatives, temperature, logits, gradient_cache)
OF_LOSS = (
    *label_measurements.OF_LOSS,
    *label_agreement_measurements.OF_LOSS,
    *label_values_measurements.OF_LOSS,
    *plan_measurements.OF_LOSS,
    *shape_measurements.OF_LOSS,
    *shortcut_measurements.OF_LOSS,
    *form_measurements.OF_LOSS,
    *label_structure_measurements.OF_LOSS,
    *pairing_measurements.OF_LOSS,
    *serving_measurements.OF_LOSS,
)

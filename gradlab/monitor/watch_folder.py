"""What a watch keeps in its folder beside the numbers, and which numbers a continued run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.files import versions
from gradlab.monitor.batch_measurement import SIGNS, Probe
from gradlab.monitor.label_signs import LABEL_SIGNS
from gradlab.monitor.metrics import BATCH_LOSS, DIAGNOSTICS, HISTOGRAM, TRAIN, Row
from gradlab.monitor.run_reader import KIND
from gradlab.monitor.weights_watch import NUMBERS_OF_WEIGHTS
from gradlab.settings.module import LEARNED

# Group of the cost of recording.
COST = "watch"
PACKAGES = ("torch", "transformers", "sentence-transformers", "accelerate", "numpy")


def notes_of(probes: Mapping[str, Probe]) -> list[str]:
    """Return what the probes say of their components, without empty notes."""
    return [probe.note for probe in probes.values() if probe.note]


def manifest_of(
    probes: Mapping[str, Probe],
    settings: Mapping[str, Any],
    schedule: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what a recording's manifest says of its losses, as JSON values.

    Args:
        probes: the probe of each dataset, or of ``""``.
        settings: settings of the run, for the report.
        schedule: when records are due.
        facts: what is known of the evaluator, of the first step and of the doctor's problems.
    """
    texts = {name: probe.loss_text() for name, probe in probes.items()}
    return {
        "kind": KIND,
        "config": {"loss": texts.get("", texts), **settings},
        "watch": {
            **schedule,
            "components": {name or "loss": probe.method for name, probe in probes.items()},
            "sentences": {name: probe.first_batch_size for name, probe in probes.items()},
            "known": {name: probe.loss is not None for name, probe in probes.items()},
            "settings": {name: probe.in_use.settings for name, probe in probes.items()},
            "arguments": {n: sorted(p.arguments) for n, p in probes.items() if p.arguments},
            "notes": notes_of(probes),
            **facts,
            "trials": {n: probe.trial for n, probe in probes.items() if probe.trial},
            "departures": {n: probe.departure for n, probe in probes.items()},
        },
        "versions": versions(*PACKAGES),
    }


def comes_before(row: Row, step: int) -> bool:
    """Return whether a row belongs to the part of a run before it went on from ``step``.

    A watch measures the batch after ``step`` updates; a trainer's logs at ``step`` are about them.
    """
    at, group, name, _ = row
    measured = group.startswith(DIAGNOSTICS) or group in (HISTOGRAM, COST)
    measured |= group == TRAIN and name.startswith(
        (BATCH_LOSS, LEARNED, *SIGNS, *LABEL_SIGNS, *NUMBERS_OF_WEIGHTS)
    )
    return at < step if measured else at <= step

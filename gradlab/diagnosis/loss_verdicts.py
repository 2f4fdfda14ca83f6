"""Is the first loss usual, and are its temperature, gradient cache and gathered rows right?

Arguments are measured by the functions of the same names in `gradlab.diagnosis.measurements`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradlab.monitor.batch_measurement import HALF_ROUNDING, ROUNDING
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# The first loss is worse than guessing above this multiple of log(candidates): an encoder that does
# not know the pairs yet, with cosines that differ widely, begins at up to 3.3 times as much. A
# batch with fewer candidates teaches little.
WORSE_THAN_CHANCE, FEW_CANDIDATES = 3.5, 4


def loss(
    values: Sequence[float], candidates: int, half: bool, guided: bool = False
) -> Iterator[Verdict]:
    """Judge whether the loss is finite, is not 0, and is not much worse than guessing.

    Args:
        values: the loss of each batch.
        candidates: candidates of an anchor of InfoNCE; 0 for other losses.
        half: whether it is computed in half precision.
        guided: whether a guide masks negatives.
    """
    finding = f"In the first batches it is {', '.join(f'{value:.3g}' for value in values)}."
    chance = math.log(candidates) if candidates else math.inf
    if 0 < chance < math.inf:
        finding += f" Guessing among {candidates} candidates gives {chance:.3g}."
    evidence = {"loss": values[0], "guessing": chance}
    if not all(map(math.isfinite, values)):
        change = (
            "Load the weights in float32; look for damaged weights and for texts without tokens."
        )
        finding, name = f"{finding} It is not finite.", "loss not finite"
        yield Verdict("loss", BAD, finding, change, name, "loss-nan", evidence)
    elif chance == 0:
        finding += " A batch of one sentence has nothing to compare it with."
        change = "Raise per_device_train_batch_size, or add hard negatives."
        yield Verdict("loss", BAD, finding, change, "batch of one", "loss-zero", evidence)
    elif not any(values) and guided:
        finding += " The guide masks every negative."
        change = "Lower the margin of the guide, or use a guide that tells these texts apart."
        yield Verdict("loss", BAD, finding, change, "guide masks all", "loss-zero", evidence)
    elif not any(values):
        yield _zero_loss(f"{finding} There is nothing to learn.", half, evidence)
    elif values[0] > WORSE_THAN_CHANCE * chance:
        finding += " It is worse than guessing."
        change = (
            "Check that the columns belong together. A temperature that is too low has the same "
            "effect."
        )
        name = "worse than chance"
        yield Verdict("loss", WATCH, finding, change, name, "loss-at-chance", evidence)
    elif 0 < candidates < FEW_CANDIDATES:
        finding += f" {candidates} candidates for each anchor are few."
        change = (
            "Raise per_device_train_batch_size (gradient accumulation adds no negatives), or use a "
            "Cached loss."
        )
        name, symptom = "few candidates", "accumulation-adds-no-negatives"
        yield Verdict("loss", WATCH, finding, change, name, symptom, evidence)
    else:
        yield Verdict("loss", GOOD, finding, name="loss usual", evidence=evidence)


# Factors between a temperature and the published one that are of the wrong order, and unusual: 0.5
# is published as well.
WRONG_ORDER, UNUSUAL = 15, 6


def temperature(temperature: float, published: float) -> Iterator[Verdict]:
    """Judge a temperature by the order of published ones."""
    ratio = max(temperature / published, published / temperature)
    finding = (
        f"It is {temperature:g} (scale {1 / temperature:g}). Published settings use about "
        f"{published:g}."
    )
    evidence = {"temperature": temperature, "published": published}
    if ratio <= UNUSUAL:
        yield Verdict("temperature", GOOD, finding, name="temperature usual", evidence=evidence)
        return
    grade = BAD if ratio >= WRONG_ORDER else WATCH
    name = "temperature too high" if temperature > published else "temperature too low"
    high = temperature > published
    finding += " All negatives weigh the same." if high else " One negative has all the weight."
    change = (
        f"Set a temperature near {published:g}; sentence-transformers' scale is its reciprocal, "
        f"about {1 / published:g}."
    )
    yield Verdict("temperature", grade, finding, change, name, "temperature", evidence)


# A scale of cosines, which multiplies the square of the length of embeddings in dot products.
SCALE_OF_COSINES = 20.0
# Scale up to which dot products are plain ones.
PLAIN = 1.5


def logits(scale: float, length: float) -> Iterator[Verdict]:
    """Judge dot products of embeddings that are not normalised, times a scale for cosines.

    ``length`` is the mean length of the embeddings.
    """
    of_cosines = scale * length**2
    evidence = {"scale": scale, "length": length}
    # Plain dot products are usual: the encoder learns how long its embeddings are.
    if scale > PLAIN and of_cosines > UNUSUAL * SCALE_OF_COSINES:
        finding = (
            f"Scale {scale:g} multiplies dot products of embeddings of length {length:.3g}: for "
            f"cosines that is a scale of {of_cosines:.3g}, a temperature of {1 / of_cosines:.2g}."
        )
        change = "Add models.Normalize() to the encoder, use cos_sim, or set scale=1."
        name = "logits too large"
        yield Verdict("temperature", WATCH, finding, change, name, "temperature", evidence)


def gradient_cache(
    replay: float | None, plain: float | None, batches: int, half: bool
) -> Iterator[Verdict]:
    """Judge whether a gradient cache repeats embeddings and has the gradients of plain training.

    ``replay`` and ``plain`` are relative differences of embeddings and gradients; None if unknown.
    """
    subject, symptom = "gradient cache", "gradient-cache-differs"
    limit, off, differ = HALF_ROUNDING if half else ROUNDING, replay or 0.0, plain or 0.0
    finding = f"With dropout, embeddings of the second pass are off by {off:.1g}"
    if plain is not None:
        finding += f"; without, gradients differ by {differ:.1g} from those of plain training"
    finding += f". ({batches} {'batch' if batches == 1 else 'batches'})"
    if off > limit:
        finding += " Dropout is not replayed."
        change = (
            "Save the random state before each piece and restore it before the piece is encoded "
            "again."
        )
        yield Verdict(subject, BAD, finding, change, "dropout not replayed", symptom)
    elif differ > limit:
        change = (
            "Check that each piece gets the gradients of its own rows, and that no piece is "
            "missing."
        )
        yield Verdict(subject, BAD, finding, change, "cached gradients differ", symptom)
    else:
        yield Verdict(subject, GOOD, finding, name="cache exact")


def processes(
    audits: Mapping[str, Mapping[str, Any]], count: int, gathers: bool, is_registered: bool
) -> Iterator[Verdict]:
    """Judge whether losses that gather have one process's gradients, and whether they gather.

    Args:
        audits: for each loss that gathers, ``error`` or ``processes`` and ``faults``, each with
            ``finding`` and ``change``.
        count: processes that train.
        gathers: whether some loss gathers the rows of all processes.
        is_registered: whether gradlab has the formula of some loss.
    """
    subject, symptom = "several processes", "several-gpus-worse"
    for loss, audit in audits.items():
        if "error" in audit:
            finding = f"The audit of {loss} did not run: {audit['error']}."
            change = "Run `gradlab audit` on it by its name."
            yield Verdict(subject, NOT_JUDGED, finding, change, "not audited", symptom)
            continue
        for fault in audit["faults"]:
            finding = f"{loss} on {audit['processes']} processes: {fault['finding']}"
            yield Verdict(subject, BAD, finding, fault["change"], "gathered wrongly", symptom)
        if audit["passed"]:
            finding = f"{loss} has the gradients of one process."
            yield Verdict(subject, GOOD, finding, name="gathered rightly")
    if count > 1 and is_registered and not gathers:
        finding = f"Each of {count} processes compares its own sentences only."
        change = "Set gather_across_devices=True in the loss."
        yield Verdict(subject, WATCH, finding, change, "not gathered", symptom)


def _zero_loss(finding: str, half: bool, evidence: Mapping[str, float]) -> Verdict:
    if half:
        change, name = "Compute the loss in float32.", "loss zero in half precision"
        return Verdict("loss", BAD, finding, change, name, "loss-zero-fp16", evidence)
    change = "Use harder negatives, larger batches or views that differ more."
    return Verdict("loss", BAD, finding, change, "loss zero", "loss-zero", evidence)

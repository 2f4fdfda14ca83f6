"""Does the encoder train as it should: with dropout, whole texts, and the rows of all processes?

Arguments are measured by the functions of the same names in `gradlab.diagnosis.measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Share of activations that dropout may set to 0.
TOO_MUCH_DROPOUT = 0.5


def dropout(silent: int, name: str, largest: float = 0.0) -> Iterator[Verdict]:
    """Judge whether dropout is on in training, and not too much.

    Args:
        silent: dropout layers that stay off in training.
        name: name of the first of them.
        largest: largest share that a layer drops.
    """
    if largest > TOO_MUCH_DROPOUT:
        finding = f"Dropout sets {largest:.0%} of the activations of a layer to 0."
        change = "Lower dropout to 0.1, or 0.3 at most."
        evidence = {"dropout": largest}
        yield Verdict("dropout", WATCH, finding, change, "dropout too high", "score-does-not-rise",
                      evidence)  # fmt: skip
    if silent:
        finding = f"{silent} dropout layers stay off in training, such as {name}."
        change = (
            "Do not override train(). Where dropout makes the views, nothing is learnt without it."
        )
        yield Verdict("training mode", WATCH, finding, change, "dropout off", "loss-zero")


# Share of truncated texts that is worth a remark; share and length from which on it is bad.
SOME_CUT, MOST_CUT, VERY_SHORT = 0.25, 0.75, 16


def length(truncated: float, limit: int, positions: int = 0) -> Iterator[Verdict]:
    """Judge how many texts are truncated at ``limit`` tokens.

    ``positions`` are the tokens for which the encoder has learned positions; 0 if unlimited.
    """
    if 0 < positions < limit:
        finding = (
            f"max_seq_length is {limit}, and the encoder has {positions} positions: a longer text "
            "ends training with an error."
        )
        change = f"Set model.max_seq_length = {positions}."
        yield Verdict("length", BAD, finding, change, "beyond positions", "score-does-not-rise")
        return
    finding = (
        f"{truncated:.0%} of the texts reach max_seq_length ({limit} tokens), where they are "
        "truncated."
    )
    if truncated < SOME_CUT:
        yield Verdict("length", GOOD, finding, name="length fits")
        return
    grade = BAD if truncated > MOST_CUT and limit <= VERY_SHORT else WATCH
    change = "Raise model.max_seq_length if the rest of a text matters."
    yield Verdict("length", grade, finding, change, "cut off", "score-does-not-rise")


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

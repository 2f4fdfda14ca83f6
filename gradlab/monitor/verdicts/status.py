"""How far did the run get, and was it recorded often enough to be judged?"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from gradlab.errors import counted
from gradlab.monitor.metrics import History
from gradlab.monitor.run_reader import (
    CRASHED,
    ENDED,
    FINISHED,
    NAME_VIEWS,
    RUNNING,
    STOPPED,
    Recording,
)
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, Records
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# A run is silent after so many usual pauses between records, and at least so many seconds.
SILENT, SILENT_SECONDS = 20, 300.0
# Fewest steps of a finished run that train an encoder; share of the planned steps before which a
# run that stops has hardly begun.
FEWEST_STEPS, HARDLY_BEGUN = 10, 0.2
# Share of the planned steps before which a run that stops without any evaluation stops early. It
# was a fifth where a callback stopped at the first noise of the loss.
STOPPED_UNEVALUATED = 0.4
# A part of an error's text, its usual cause, and what to change.
ERRORS = (
    (
        r"expanded size of the tensor|index out of range in self|position",
        "A text is longer than the positions of the encoder, or a token has no row in its "
        "embedding table.",
        "Lower model.max_seq_length to the encoder's max_position_embeddings; after adding tokens, "
        "call resize_token_embeddings(len(tokenizer)).",
    ),
    (
        r"(?i)out of memory",
        "The batch does not fit into memory.",
        "Use a Cached loss with a mini_batch_size, or gradlab's blockwise; accumulation adds no "
        "negatives.",
    ),
    (
        r"Target -?\d+ is out of bounds|device-side assert",
        "A label is no class of the loss.",
        "Count labels from 0, and set num_labels to their number.",
    ),
    (
        r"does not require grad",
        "No gradient reaches the weights.",
        "Let the loss call the model that is trained, without torch.no_grad; with gradient "
        "checkpointing and adapters call model.enable_input_require_grads().",
    ),
    (
        r"mat1 and mat2|shapes cannot be multiplied|size mismatch",
        "Embeddings, labels or a teacher have other dimensions than the loss expects.",
        "Compare model.get_sentence_embedding_dimension() with the loss's own sizes.",
    ),
)


def judge_status(run: Recording, records: int, silence: float) -> Verdict:
    """Judge how far a run got.

    Args:
        records: number of records of its embeddings.
        silence: seconds since the last record.
    """
    step, total = run.history.last_step(), run.history.total_steps
    pause_steps, pause_seconds = _usual_pause(run.history)
    unfinished = total is not None and step + pause_steps < total
    place = f"step {step}" + (f" of {total}" if total else "")
    why = str(run.manifest.get("why", ""))
    silent = silence > max(SILENT_SECONDS, SILENT * pause_seconds)
    if run.status == CRASHED:
        return _crashed(place, why)
    if run.status == STOPPED:
        finding = (
            f"Recording stopped at {place} while training went on: {why}. What came after is not "
            "judged."
        )
        change = "Fix what the error names, and watch again."
        if NAME_VIEWS in why:
            finding = f"The embeddings were not found: {why}."
            change = "Give gradlab.watch that function as views=."
            return Verdict("Run", NOT_JUDGED, finding, change, "views not named")
        if "row of zeros" in why:
            change = (
                "An embedding is zero where the token that is pooled has a vector of zeros, as "
                "padding has, or where none is pooled: pool real tokens of the last layer."
            )
        return Verdict("Run", WATCH, finding, change, "recording stopped")
    if run.status == ENDED and unfinished:
        finding = f"The process ended at {place} without an error."
        change = "Find out why it ended, and resume from a checkpoint."
        return Verdict("Run", WATCH, finding, change, "ended early")
    if run.status == RUNNING and unfinished and silent:
        finding = (
            f"Nothing has been recorded for {_duration(silence)}, since {place}: the run was "
            "probably aborted."
        )
        change = "Check whether it still runs. If not, resume from a checkpoint."
        return Verdict("Run", WATCH, finding, change, "silent")
    resumed = run.watch.get("resumed", 0)
    if total is not None and resumed >= total > 0:
        finding = (
            f"The run resumed at step {resumed} of {total}: no step was left, and nothing was "
            "trained since."
        )
        change = "Raise max_steps or num_train_epochs beyond the checkpoint, or start anew."
        return Verdict("Run", WATCH, finding, change, "nothing left")
    if (
        run.status == FINISHED and run.watched and total
        and step + pause_steps < STOPPED_UNEVALUATED * total and not run.history.scores()
    ):  # fmt: skip
        finding = (
            f"The run stopped at {place}, and nothing was evaluated until then: that is not early "
            "stopping by a score. Something else ended it, such as a callback that set "
            "should_training_stop, a limit of time, or a break in a loop."
        )
        change = (
            "Look for what ends the run. If that is the loss of batches, which is noisy, stop by a "
            "score of held-out texts, with some patience."
        )
        name = "stopped without evaluation"
        return Verdict("Run", WATCH, finding, change, name, "score-does-not-rise")
    if run.status == FINISHED and total and step + pause_steps < HARDLY_BEGUN * total:
        finding = f"The run stopped at {place}, as early stopping does: it had hardly begun."
        change = (
            "Raise early_stopping_patience or eval_steps beyond the warm-up, and check the sign of "
            "greater_is_better."
        )
        return Verdict("Run", WATCH, finding, change, "stopped early", "score-does-not-rise")
    if run.status in (FINISHED, ENDED):
        end = total if total is not None and not unfinished else step
        if 0 < end < FEWEST_STEPS and not Records(run.history).score_rises():
            return _too_short(end, run.manifest.get("config", {}).get("max_steps"))
    return _sound_status(run.status, place, step, total if not unfinished else None, records)


def _crashed(place: str, why: str) -> Verdict:
    """Return the verdict on a run that ended with an error, with its usual cause if it is known."""
    reason, change = next(
        (reason for pattern, *reason in ERRORS if re.search(pattern, why)),
        ["", "Fix the error, and resume from a checkpoint."],
    )
    finding = f"The run ended at {place} with an error: {why}. {reason}".strip()
    return Verdict("Run", BAD, finding, change, "crashed")


def _too_short(steps: int, max_steps: Any) -> Verdict:
    """Return the verdict on a run of few steps, with the setting that ended it."""
    finding = (
        f"The run is too short to train an encoder: it has finished after {counted(steps, 'step')}"
    )
    change = "Train for more epochs, and check gradient_accumulation_steps."
    if max_steps == steps:
        finding += f", which is max_steps={max_steps}"
        change = "Raise max_steps, or leave it out, so that num_train_epochs decides."
    return Verdict("Run", WATCH, f"{finding}.", change, "few steps")


def _sound_status(status: str, place: str, step: int, total: int | None, records: int) -> Verdict:
    if 0 < records < ENOUGH_RECORDS and status != RUNNING:
        times = {1: "once", 2: "twice"}.get(records, f"{records} times")
        finding = f"The embeddings were measured {times}, which is too little to judge."
        change = "Record more often: every=, or --diagnostics-every."
        return Verdict("Run", NOT_JUDGED, finding, change, "few records")
    if status == RUNNING:
        return Verdict("Run", NOT_JUDGED, f"The run is at {place}.", name="running")
    if status not in (FINISHED, ENDED):
        finding = f"The recording goes to {place}; it does not say whether the run has finished."
        return Verdict("Run", NOT_JUDGED, finding, name="status unknown")
    if total is None:
        return Verdict("Run", GOOD, f"The run has finished, at {place}.", name="finished")
    finding = (
        f"The run has finished after {counted(total, 'step')}; the last record is of step {step}."
    )
    return Verdict("Run", GOOD, finding, name="finished all steps")


def _usual_pause(history: History) -> tuple[int, float]:
    """Return the largest step and median time (seconds) between records; (0, 0.0) without two."""
    steps, seconds = history.series("watch", "run_seconds")
    if len(steps) < 2:
        return 0, 0.0
    # If datasets take turns, records of different datasets lie close together.
    return int(np.diff(steps).max()), float(np.median(np.diff(seconds)))


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"

"""How far did the run get, and was it recorded often enough to be judged?"""

from __future__ import annotations

import numpy as np

from gradlab.errors import counted
from gradlab.monitor.history import History
from gradlab.monitor.run_reader import CRASHED, ENDED, FINISHED, RUNNING, STOPPED, Recording
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# A run is silent after so many usual pauses between records, and at least so many seconds.
SILENT, SILENT_SECONDS = 20, 300.0


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
    why = run.manifest.get("why", "")
    silent = silence > max(SILENT_SECONDS, SILENT * pause_seconds)
    if run.status == CRASHED:
        finding = f"The run ended at {place} with an error: {why}."
        change = "Fix the error, and resume from a checkpoint."
        return Verdict("Run", BAD, finding, change, "crashed")
    if run.status == STOPPED:
        finding = (
            f"Recording stopped at {place} while training went on: {why}. What came after is not "
            "judged."
        )
        change = "Fix what the error names, and watch again."
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
    return _sound_status(run.status, place, step, total if not unfinished else None, records)


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

"""Does the training loss fall, and is it below the loss of guessing?"""

from __future__ import annotations

import itertools
import math
import statistics

from gradlab.monitor.metrics import BATCH_LOSS, TRAIN, of_dataset
from gradlab.monitor.movement import WEIGHTS_MOVED
from gradlab.monitor.run_reader import Recording
from gradlab.monitor.setting_advice import LEARNING, LossInUse, setting_change
from gradlab.monitor.verdicts.embeddings import PAIRS_MAY_NOT_FIT
from gradlab.monitor.verdicts.records import PERSISTENT, Records, ends_of, values_of
from gradlab.numbers import short
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Share of the loss of guessing at which nothing is learned; factor by which a loss gets worse.
GUESSING, WORSE = 0.97, 1.1
# Factor by which the loss jumps where a run is resumed, and the values on both sides that show it.
JUMP, BESIDE = 1.5, 5
# Fewest values of the loss that are compared with guessing.
COMPARED = 9
# Share of its first value, or of guessing, to which a loss must have fallen before it came back,
# and share from which on it has come back.
FALLEN, RISEN = 0.8, 0.95
# Movement of the weights, relative to their size, that a loss of 0 does not bring about.
MOVES = 1e-3
# Share of its largest fall that a loss must keep.
LEAST_OF_FALL = 0.5


def judge_loss(run: Recording, dataset: str) -> Verdict:
    """Judge the loss of a data set, or the only loss, by its course and the loss of guessing."""
    names = [of_dataset(BATCH_LOSS, dataset)] if dataset else [BATCH_LOSS, "loss"]
    series = (run.history.series(TRAIN, name)[1] for name in names)
    losses = [value for value in next(filter(None, series), []) if math.isfinite(value)]
    ends, used = ends_of(losses), run.losses[dataset]
    if ends is None:
        finding = "No finite loss was recorded."
        return Verdict("Loss", NOT_JUDGED, finding, name="no loss")
    first, last = ends
    evidence = {"first": first, "median of the last three": last}
    if len(losses) >= PERSISTENT and not any(losses[-PERSISTENT:]):
        moved = max(values_of(run.history, WEIGHTS_MOVED), default=0.0)
        return _at_zero(losses, used, evidence, moved)
    if used.loss is not None and used.loss.surrogate:
        finding = "The value of this loss is only a surrogate: its course says nothing."
        return Verdict("Loss", NOT_JUDGED, finding, name="surrogate", evidence=evidence)
    course = course_of(ends)
    if jumped := _jumps(run, names, evidence):
        return jumped
    if rises(losses) and not _may_rise(run, dataset):
        finding = f"The loss rises: it {course}."
        change = "Lower the learning rate. A loss that rises from the start may have a wrong sign."
        return Verdict("Loss", WATCH, finding, change, "loss rises", "score-falls", evidence)
    guessing = run.guessing(dataset)
    if guessing is not None:
        evidence["guessing"] = guessing
    # A loss at the end of a run is noisy, and a score that has risen says what is learned.
    returned = _came_back(losses, guessing, evidence)
    if returned and not Records(run.history).score_rises():
        return returned
    # A few small batches may be hard at the end: the last third must be at guessing as well.
    late = statistics.median(losses[-max(PERSISTENT, len(losses) // 3) :])
    if guessing and min(last, late) >= GUESSING * guessing:
        records = Records(run.history, dataset)
        if records.positives_rank_first or records.nearer_in_a_cone or records.told_in_use:
            return _above_order(last, guessing, evidence)
        return _of_guessing(len(losses), last, guessing, evidence)
    if last >= first:
        return _does_not_fall(run, dataset, ends, evidence)
    if doubtful := _hardly_fell(losses, ends, evidence):
        return doubtful
    below = f"; guessing would give {short(guessing)}" if guessing and guessing > last else ""
    finding = f"The loss fell: it {course}{below}."
    return Verdict("Loss", GOOD, finding, name="loss falls", evidence=evidence)


def course_of(ends: tuple[float, float]) -> str:
    """Return the course of a series in words; its end is the median of the last three values."""
    first, last = short(ends[0]), short(ends[1])
    if first == last:
        return f"stayed at {first}"
    return f"went from {first} in the first record to {last} (median of the last three)"


def rises(losses: list[float]) -> bool:
    """Return whether all losses of the last third are clearly above all of the first third."""
    third = len(losses) // 3
    return third >= PERSISTENT and min(losses[-third:]) > WORSE * max(losses[:third]) > 0


def _of_guessing(count: int, last: float, guessing: float, evidence: dict[str, float]) -> Verdict:
    """Judge a loss that ends at that of guessing, by its number of records."""
    finding = (
        f"The loss is that of guessing: it is {short(last)}, and {short(guessing)} if nothing "
        "is told apart."
    )
    if count < COMPARED:
        finding += f" It was recorded {count} times, too few to judge."
        return Verdict("Loss", NOT_JUDGED, finding, name="guessing so far", evidence=evidence)
    change = (
        "Check that the gradient of the loss reaches the encoder, and raise the learning rate "
        f"if the weights hardly move. {PAIRS_MAY_NOT_FIT}"
    )
    return Verdict("Loss", WATCH, finding, change, "loss of guessing", "loss-at-chance", evidence)


def _above_order(last: float, guessing: float, evidence: dict[str, float]) -> Verdict:
    """Judge a loss at that of guessing while positives are nearer than others."""
    finding = (
        f"The loss is near that of guessing ({short(last)}, and {short(guessing)} if nothing is "
        "told apart), but positives are nearer than others: cosines differ by little as yet."
    )
    return Verdict("Loss", NOT_JUDGED, finding, name="guessing in order", evidence=evidence)


def _does_not_fall(
    run: Recording, dataset: str, ends: tuple[float, float], evidence: dict[str, float]
) -> Verdict:
    """Judge a loss that ends where it began or above, by the score of the run."""
    first, last = ends
    risen = last > WORSE * first > 0 and not _may_rise(run, dataset)
    if risen and Records(run.history).score_falls():
        finding = f"The loss has risen, and the score has fallen: it {course_of(ends)}."
        change = "Lower the learning rate, and check the sign of the loss."
        name = "loss does not fall"
        return Verdict("Loss", WATCH, finding, change, name, "score-falls", evidence)
    finding = f"The loss has not fallen: it {course_of(ends)}."
    return Verdict("Loss", NOT_JUDGED, finding, name="loss does not fall", evidence=evidence)


def _at_zero(
    losses: list[float], used: LossInUse, evidence: dict[str, float], moved: float
) -> Verdict:
    """Judge a loss that is 0 in the end: by learning, or from the start.

    ``moved`` is how far the weights have moved, relative to their size.
    """
    if sum(loss > 0 for loss in losses) >= PERSISTENT:
        finding = (
            f"The loss has fallen from {short(evidence['first'])} to exactly 0: the training data "
            "are learned, and training longer teaches no more."
        )
        return Verdict("Loss", NOT_JUDGED, finding, name="loss fell to 0", evidence=evidence)
    settings = setting_change(used, LEARNING, raises=True)
    finding = "The loss is exactly 0: nothing is learned."
    easier = f", or {settings}" if settings else ""
    harder = "look at the labels" if used.has_labels else f"make the task harder{easier}"
    change = f"In fp16, compute the loss in fp32; otherwise {harder}."
    # A margin that is met early leaves a few losses above 0, in records or between them.
    grade = WATCH if any(losses) or moved > MOVES else BAD
    if grade == WATCH:
        finding = "The loss is exactly 0 in nearly all records: hardly anything is learned."
    return Verdict("Loss", grade, finding, change, "loss is 0", "loss-zero", evidence)


def _hardly_fell(
    losses: list[float], ends: tuple[float, float], evidence: dict[str, float]
) -> Verdict | None:
    """Judge whether a loss fell by less than a usual swing, or has risen again since."""
    first, last = ends
    swing = statistics.median([abs(b - a) for a, b in itertools.pairwise(losses)])
    if first - last < swing:
        finding = (
            f"The loss has not clearly fallen: it {course_of(ends)}, and usually changes by "
            f"{short(swing)} from one record to the next."
        )
        return Verdict("Loss", NOT_JUDGED, finding, name="fall within swing", evidence=evidence)
    if len(losses) < COMPARED:
        return None
    windows, smooth = _smoothed(losses)
    lowest, late = min(smooth), smooth[-1]
    is_apart = min(map(max, windows)) < min(windows[-1])
    if not is_apart or first - late >= LEAST_OF_FALL * (first - lowest):
        return None
    finding = (
        f"The loss fell from {short(first)} to {short(lowest)}, and has risen to {short(late)} "
        "since (medians of neighbouring records)."
    )
    return Verdict("Loss", NOT_JUDGED, finding, name="loss rose again",
                   evidence=evidence | {"lowest": lowest})  # fmt: skip


def _smoothed(losses: list[float]) -> tuple[list[list[float]], list[float]]:
    """Return the windows of a quarter of the records, and their medians."""
    width = max(PERSISTENT, len(losses) // 4)
    windows = [losses[at : at + width] for at in range(len(losses) - width + 1)]
    return windows, [statistics.median(window) for window in windows]


def _came_back(
    losses: list[float], guessing: float | None, evidence: dict[str, float]
) -> Verdict | None:
    """Judge whether the loss fell and has come back to where it began, or to guessing."""
    if len(losses) < COMPARED or min(losses) <= 0:
        return None
    windows, smooth = _smoothed(losses)
    lowest, last = min(smooth), smooth[-1]
    level = min(smooth[0], guessing) if guessing else losses[0]
    # Noise has no gap between the values there and at the end.
    is_apart = max(windows[smooth.index(lowest)]) < min(windows[-1])
    if lowest > FALLEN * level or last < RISEN * level or not is_apart:
        return None
    place = smooth.index(lowest) / len(smooth)
    finding = (
        f"The loss fell to {short(lowest)} and has come back to {short(last)}, where it began"
        f"{' or guessing is' if guessing else ''}: what was learned is lost. It was lowest after "
        f"{place:.0%} of the records."
    )
    change = (
        "Lower the learning rate, or clip gradients, and use an encoder from before; look at what "
        "happens there: a rate that rises, other data, weights that are loaded anew."
    )
    return Verdict("Loss", WATCH, finding, change, "loss came back", "score-falls",
                   evidence | {"lowest": lowest})  # fmt: skip


def _jumps(run: Recording, names: list[str], evidence: dict[str, float]) -> Verdict | None:
    """Judge whether the loss jumps where the run was resumed."""
    resumed = run.watch.get("resumed", 0)
    series = (run.history.points(TRAIN, name) for name in names)
    points = next(filter(None, series), {})
    before = [v for step, v in points.items() if step < resumed and math.isfinite(v)][-BESIDE:]
    after = [v for step, v in points.items() if step >= resumed and math.isfinite(v)][:BESIDE]
    if not resumed or min(len(before), len(after)) < PERSISTENT:
        return None
    was, became = statistics.median(before), statistics.median(after)
    if not (became > JUMP * was > 0 and min(after[:PERSISTENT]) > max(before)):
        return None
    finding = (
        f"The loss jumps where the run was resumed, at step {resumed}: from {short(was)} to "
        f"{short(became)}. Something was not in the checkpoint."
    )
    change = (
        "Save and load the weights of the loss itself, such as its classifier: a checkpoint of "
        "sentence-transformers has those of the model only. Check the optimizer's state as well."
    )
    evidence |= {"before": was, "after": became}
    return Verdict("Loss", WATCH, finding, change, "jump on resuming", "", evidence)


def _may_rise(run: Recording, dataset: str) -> bool:
    """Whether the loss may rise: a queue fills, or it averages unsolved triplets only."""
    bases = run.losses[dataset].bases
    unsolved = any(getattr(base, "mean_over", "") == "active" for base in bases)
    return unsolved or bool((run.config or {}).get("queue_size"))

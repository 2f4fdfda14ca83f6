"""Do the scores rise above those from before training, and do they hold?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from gradlab.monitor.metrics import DIAGNOSTICS, TRAIN, History
from gradlab.monitor.score import Score
from gradlab.monitor.setting_advice import USUAL_RATES
from gradlab.monitor.verdicts.embeddings import ONE_POINT, PAIRS_AT_CHANCE
from gradlab.monitor.verdicts.records import (
    PERSISTENT,
    SCORE_CHANGE,
    fall_by_chance,
    lost_half,
    margin_below,
)
from gradlab.numbers import score as number
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# A held-out loss rises if the last three values exceed the best by this factor, and by this share
# of its fall: near 0, a loss varies by more than its own size.
WORSE, GIVEN_BACK = 1.1, 0.03
# Where a score was before training, and how to have it measured.
EVALUATE = (
    "Give the trainer an evaluator and eval_strategy='steps'; gradlab.watch then also evaluates "
    "before training. In a loop, watched.watch.log(step, 'evaluation', {'eval_ndcg@10': score}) "
    "records a score, at step 0 too. A run of gradlab train takes --eval-data."
)


class Background(NamedTuple):
    """What advice on scores depends on."""

    queue_advice: str = ""  # see `embeddings.queue_advice`
    keeps_best: bool = False  # whether the run keeps its best encoder, as `gradlab train` does
    has_negatives: bool = False  # whether a loss is known to push sentences from negatives
    at_chance: bool = False  # whether positives were no nearer than other sentences at first
    gap: float = 0.0  # by how much cosines of positives exceed those of other sentences at the end
    ranks_first: bool = False  # whether positives have come to rank first in training


NOTHING_KNOWN = Background()


def judge_scores(
    history: History, running: bool, background: Background = NOTHING_KNOWN
) -> Verdict:
    """Judge all scores: the worst verdict if one is a problem, else all in one."""
    of_scores = {
        score.name: _one_score(score, history, running, background) for score in history.scores()
    }
    # Spearman's correlation speaks for Pearson's as well where this is no problem, or only stays
    # while Spearman's rises, as with a loss of the order of pairs.
    by_spearman = {
        name: spearman for name in of_scores
        if "pearson" in name and (spearman := name.replace("pearson", "spearman")) in of_scores
    }  # fmt: skip
    problems = [
        verdict for name, verdict in of_scores.items()
        if verdict.is_problem and not (
            verdict.name == "score does not improve"
            and name in by_spearman and of_scores[by_spearman[name]].grade == GOOD
        )
    ]  # fmt: skip
    if problems:
        return min(problems, key=lambda verdict: verdict.grade != BAD)
    verdicts = [verdict for name, verdict in of_scores.items() if name not in by_spearman]
    judged = [verdict for verdict in verdicts if verdict.grade == GOOD]
    if judged:
        finding = " ".join(verdict.finding for verdict in [*judged, *_open(verdicts)])
        return Verdict("Scores", GOOD, finding, name=judged[0].name, evidence=judged[0].evidence)
    if verdicts:
        return verdicts[0]
    return Verdict("Scores", NOT_JUDGED, "No score was recorded.", EVALUATE, name="no score")


# A score from which on there is no room above; fewest evaluations that all have the same value.
PERFECT, SAME_VALUES = 0.999, 3
# A score before training that leaves no room to improve: sound runs begin up to .975.
CEILING = 0.98
HARDER = "Evaluate on harder data: more documents, or negatives that are nearer."
# Differences by chance up to which there is hardly room above a score to show that it has improved.
ROOM = 2.0
# Shares of its value before training that a score must have lost while the run goes on, and from
# which on what is lost is bad.
LOST_SO_FAR, LOST_MUCH = 0.25, 0.2
# Accuracy among triplets, of which chance gives a half, and correlation, of which it gives 0, that
# no harm brings about but only an order that is reversed; cosine by which training tells apart.
FAR_BELOW_HALF, FAR_BELOW_0, TOLD_APART = 0.2, -0.3, 0.1
AGAINST_TRAINING = (
    "Look first whether the score asks for the same as training: a mean rank, a distance or a loss "
    "is better when it falls (greater_is_better=False), results are sorted from the highest "
    "cosine down, a mean cosine of pairs falls as texts come apart, and the evaluator's texts, "
    "prompts and right answers must be those of training."
)
EXCHANGED = (
    "Look first whether the evaluator and training ask for the opposite: positives and negatives "
    "of the evaluator may be exchanged, or its scores may be distances (reversed)."
)


def training_hurts(
    score: Score, history: History, running: bool, background: Background
) -> Verdict | None:
    """Judge whether a score ends below its value before training.

    While the run goes on, two evaluations in a row must show it, and by more (as in MoCoSE, A.2).
    """
    before, trained = score.before, [value for step, value in score.points if step > 0]
    if not score.is_quality or before is None or not trained:
        return None
    late = trained[-2:] if running else trained[-1:]
    least = LOST_SO_FAR * before if running else 0.0
    margins = [max(least, fall_by_chance(score, before, value)) for value in late]
    if (running and len(late) < 2) or any(
        before - value <= margin for value, margin in zip(late, margins, strict=True)
    ):
        return None
    if running and not before > 0:
        return None
    slower, data = _slower(history), "train on data nearer to what the score measures"
    if background.has_negatives:
        data = "look for false negatives (gradlab inspect)"
    change, peak = f"{slower}.", _peak(history)
    if peak <= ENCODER_RATE:
        change = (
            f"{data[:1].upper()}{data[1:]}. The learning rate is usual (its peak was {peak:.1g}): "
            "lower it only if this does not help."
        )
    elif not peak > HIGH:
        change += f" If it is low already, {data}."
    if background.at_chance:
        change = _of_pairs_first(f"{slower}.")
    finding = (
        f"{score.title} was {before:.3f} before training and is {late[-1]:.3f}: training hurts the "
        "encoder."
    )
    if background.gap >= TOLD_APART and _is_opposite(score.name, late[-1]):
        finding += (
            " That is far below what chance gives, while training tells positives from other "
            f"sentences, by {background.gap:.2f} in cosine."
        )
        change = EXCHANGED
    elif background.ranks_first:
        finding += " Yet in the batches of training, positives have come to rank first."
        change = f"{AGAINST_TRAINING} Else: {change[:1].lower()}{change[1:]}"
    return Verdict(
        "Scores",
        BAD if before - late[-1] >= LOST_MUCH * before else WATCH,
        finding,
        background.queue_advice or change,
        name="training hurts",
        symptom="score-falls",
        evidence={"before": before, "last": late[-1]},
    )


def score_fell(score: Score, history: History, background: Background) -> Verdict | None:
    """Judge whether a correlation or nDCG is below its best at the end of the run.

    If the planned length is unknown, several evaluations in a row must show the fall instead.
    """
    best, last, total = score.best, score.last, history.total_steps
    if not score.is_quality or best is None or last is None:
        return None
    margin = margin_below(best[1], score)
    if last[1] >= best[1] - max(margin, _swing(score)[0]):
        return None
    steps = [step for step, _ in score.points]
    to_come = len(steps) > 1 and last[0] + (last[0] - steps[-2]) <= (total or 0)
    low = [not value >= best[1] - margin for _, value in score.points[-PERSISTENT:]]
    if to_come or (total is None and sum(low) < PERSISTENT):
        return None
    then = "; the embeddings have become constant since"
    if math.isfinite(last[1]):
        then = f" and has fallen since, to {last[1]:.3f}"
    encoder = f"Use the encoder of about step {best[0]}"
    if background.keeps_best:
        encoder = f"The encoder of step {best[0]} is in the folder best"
    change = f"{encoder}; to end there, train for fewer steps or at a lower learning rate."
    if _one_point_at(history, best[0]):
        change = (
            "Train at a lower learning rate: even at its best, the encoder gave different "
            "sentences nearly one embedding."
        )
    if background.at_chance:
        change = _of_pairs_first(change)
    return Verdict(
        "Scores",
        BAD if lost_half(score) or not math.isfinite(last[1]) else WATCH,
        f"{score.title} was best at step {best[0]} ({best[1]:.3f}){then}.",
        change,
        name="score fell",
        symptom="score-falls",
        evidence={"best": best[1], "last": last[1]},
    )


def _is_opposite(name: str, value: float) -> bool:
    """Return whether a score is as far below chance as if its right answers were the wrong ones."""
    if name.endswith("accuracy"):
        return value <= FAR_BELOW_HALF
    return ("spearman" in name or "pearson" in name) and value <= FAR_BELOW_0


def _swing(score: Score) -> tuple[float, float]:
    """Return the largest fall between two evaluations that was made good, and the rise after it."""
    values = [value for _, value in score.points]
    made_good = [
        (values[at - 1] - values[at], values[at + 1] - values[at])
        for at in range(1, len(values) - 1)
        if values[at] < values[at - 1] <= max(values[at + 1 :])
    ]
    return max(made_good, default=(0.0, 0.0))


def _within_swing(score: Score, evidence: Mapping[str, float]) -> Verdict | None:
    """Judge whether what a score has gained is less than half of a swing of its evaluations."""
    gain, (fall, rise) = evidence["last"] - evidence["before"], _swing(score)
    if not score.is_quality or fall <= SCORE_CHANGE or not 0 < gain < rise / 2:
        return None
    finding = (
        f"{score.title} ends barely above that before training: {evidence['before']:.3f} before, "
        f"best {evidence['best']:.3f}, last {evidence['last']:.3f}. From one evaluation to the "
        f"next it has fallen by {fall:.3f} and risen by {rise:.3f}, so the gain may be chance."
    )
    change = "Evaluate on more data, or train with another seed, before you trust this gain."
    return Verdict(
        "Scores", NOT_JUDGED, finding, change, name="gain within swing", evidence=evidence
    )


def _one_point_at(history: History, step: int) -> bool:
    """Return whether embeddings were nearly one point in the last record up to a step."""
    for group in history.groups():
        if group.startswith(DIAGNOSTICS):
            cosines = history.points(group, "negative_cosine")
            earlier = [cosine for at, cosine in cosines.items() if at <= step]
            if earlier and earlier[-1] > ONE_POINT:
                return True
    return False


def _of_pairs_first(change: str) -> str:
    return f"{PAIRS_AT_CHANCE} If they do, {change[:1].lower()}{change[1:]}"


# Learning rates up to which encoders are tuned, and above which adapters are not either: see
# `USUAL_RATES`.
ENCODER_RATE, HIGH = 1e-4, 1e-3


def _peak(history: History) -> float:
    """Return the largest learning rate that was logged; NaN without any."""
    rates = history.series(TRAIN, "learning_rate")[1]
    return max((rate for rate in rates if math.isfinite(rate)), default=math.nan)


def _slower(history: History) -> str:
    """Return the advice to lower the learning rate, with the largest one that was logged."""
    peak = _peak(history)
    if math.isnan(peak):
        return "Lower the learning rate"
    return f"Lower the learning rate: its peak was {peak:.1g}; {USUAL_RATES}"


def _open(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.grade == NOT_JUDGED]


def _one_score(
    score: Score,
    history: History,
    running: bool,
    background: Background,
) -> Verdict:
    last, best = score.last, score.best
    if last is None:
        finding = f"{score.title} was evaluated only before training."
        return Verdict("Scores", NOT_JUDGED, finding, EVALUATE, name="no score")
    if score.is_loss:
        return _held_out_loss(score)
    if not math.isfinite(last[1]):
        before = score.before
        was = f", and was {before:.3f} before training" if before is not None else ""
        finding = (
            f"{score.title} cannot be computed at step {last[0]}: the embeddings are constant{was}."
        )
        change = background.queue_advice or "Lower the learning rate, and use an earlier encoder."
        name, symptom = "score is undefined", "cosines-above-0-9"
        return Verdict("Scores", BAD, finding, change, name, symptom)
    fallen = training_hurts(score, history, running, background)
    fallen = fallen or score_fell(score, history, background)
    if fallen:
        return fallen
    before = score.before
    assert best is not None
    end = f", last {number(last[1])}" if last != best else ""
    course = f"best {number(best[1])} at step {best[0]}{end}"
    evidence = {"last": last[1], "best": best[1]}
    if before is None:
        finding = f"{score.title}: {course}. Without a score from before training it is not judged."
        return Verdict(
            "Scores", NOT_JUDGED, finding, EVALUATE, name="no baseline", evidence=evidence
        )
    evidence["before"] = before
    if unchanged := _unchanged(score, before):
        return unchanged
    if within := _within_swing(score, evidence):
        return within
    if score.is_quality and best[1] <= before:
        return _not_improved(score, running, evidence)
    if score.is_quality and before >= CEILING:
        finding = (
            f"{score.title} was {before:.3f} before training, which leaves no room to improve."
        )
        return Verdict("Scores", WATCH, finding, HARDER, "score near its ceiling", "score-too-good",
                       evidence)  # fmt: skip
    finding = f"{score.title}: {number(before)} before training, {course}."
    return Verdict("Scores", GOOD, finding, name="score", evidence=evidence)


def _not_improved(score: Score, running: bool, evidence: Mapping[str, float]) -> Verdict:
    before, best, last = evidence["before"], score.best, evidence["last"]
    assert best is not None
    finding = (
        f"{score.title} has not improved{' so far' if running else ''}: {number(before)} before "
        f"training, at best {number(best[1])} (step {best[0]})."
    )
    margin = fall_by_chance(score, before, best[1])
    if margin > SCORE_CHANGE and before - best[1] <= margin:
        finding += (
            f" Of {score.count} queries, pairs or triplets, {margin:.2f} less may be chance: "
            "evaluate on more."
        )
        if 1 - before < ROOM * margin:
            return Verdict("Scores", NOT_JUDGED, finding, HARDER, "no better by chance",
                           evidence=evidence)  # fmt: skip
    if running:
        return Verdict("Scores", NOT_JUDGED, finding, name="no better yet", evidence=evidence)
    change = (
        "Check that the evaluator asks for what is trained: its right answers, its prompts and its "
        "kind of texts. If it does, use data nearer to it."
    )
    if last < before - SCORE_CHANGE / 2:
        change = "Lower the learning rate, or use data nearer to what the score measures."
    name, symptom = "score does not improve", "score-does-not-rise"
    return Verdict("Scores", WATCH, finding, change, name, symptom, evidence)


def _unchanged(score: Score, before: float) -> Verdict | None:
    """Judge whether a score cannot tell encoders apart: it is the same, whatever is trained."""
    values = [value for _, value in score.points]
    if not score.is_quality or len(values) < SAME_VALUES or any(v != before for v in values):
        return None
    finding = f"{score.title} has been exactly {number(before)} in all {len(values)} evaluations."
    change = "Let the evaluator embed with the model that it is given, the one that is trained."
    name = "score never changes"
    if before >= PERFECT:
        finding += " It was perfect before training, which leaves no room to improve."
        change = HARDER
        name = "score perfect before"
    else:
        finding += " It may be that of another model, or of one from before training."
    evidence = {"before": before}
    return Verdict("Scores", WATCH, finding, change, name, "score-does-not-rise", evidence)


def _held_out_loss(score: Score) -> Verdict:
    best, last = score.best, score.last
    assert last is not None
    if best is None:
        finding = f"{score.title} is not finite."
        return Verdict("Scores", BAD, finding, "See the card on numbers.", "held-out loss is NaN")
    late = [value for _, value in score.points[-PERSISTENT:]]
    evidence = {"best": best[1], "last": last[1]}
    rise, fall = min(late) - best[1], score.points[0][1] - best[1]
    is_rising = min(late) > WORSE * best[1] > 0 and not rise < GIVEN_BACK * fall
    if len(score.points) > PERSISTENT and is_rising:
        return Verdict(
            "Scores",
            WATCH,
            f"{score.title} rises since step {best[0]}: it was {number(best[1])} and is "
            f"{number(last[1])}. The encoder learns its training data by heart.",
            f"Use the encoder from about step {best[0]}; train for fewer steps, or on more data.",
            name="held-out loss rises",
            symptom="score-falls",
            evidence=evidence,
        )
    finding = f"{score.title}: best {number(best[1])} at step {best[0]}, last {number(last[1])}."
    if len(score.points) < 2:
        return Verdict("Scores", NOT_JUDGED, finding, EVALUATE, "one held-out loss", "", evidence)
    first = score.points[0][1]
    if not last[1] < first:
        finding += " It has not fallen."
        return Verdict("Scores", NOT_JUDGED, finding, name="held-out loss", evidence=evidence)
    return Verdict("Scores", GOOD, finding, name="held-out loss", evidence=evidence)

"""What was right or wrong with a recorded run: a `Verdict` on each question, and a headline.

`judge` is a pure function of measurements that can be kept as JSON. Each module answers the
questions in its first line; the limits stand with the verdicts that use them.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradlab.errors import counted
from gradlab.monitor.doctor_problems import setup
from gradlab.monitor.formula_trials import OWN_NOISE
from gradlab.monitor.label_trials import TARGETS
from gradlab.monitor.run_reader import RUNNING, Recording, recording_of
from gradlab.monitor.verdicts import (
    arriving_gradients,
    batches,
    embeddings,
    formula,
    gradient,
    order,
    pairing,
    partners,
    rows,
    small_steps,
    step_effects,
    steps,
    tokens,
    weights,
)
from gradlab.monitor.verdicts.cones import HIDDEN
from gradlab.monitor.verdicts.effects import EFFECTS, TRENDS
from gradlab.monitor.verdicts.failures import FailureWatch
from gradlab.monitor.verdicts.headline import headline_of
from gradlab.monitor.verdicts.maximised import signs_agree
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, PERSISTENT, Records
from gradlab.monitor.verdicts.scores import judge_scores
from gradlab.monitor.verdicts.status import judge_status
from gradlab.monitor.verdicts.training_loss import judge_loss
from gradlab.verdict import (
    BAD,
    GOOD,
    NOT_JUDGED,
    WATCH,
    Grade,
    Verdict,
    graded,
    with_causes,
    with_second_signs,
    worst_first,
)

__all__ = ["EFFECTS", "Judgement", "failures_of", "judge", "judge_run", "measurements_of"]

# Subjects that must be judged good before a run is called good.
IMPORTANT = ("Spread", "Scores")
# Subjects that say how a loss moves sentences, and not whether it moves them to the right place,
# and subjects of problems beside which they say nothing even if these are only to be watched.
OF_GRADIENT = ("Learning", "Hard negatives", "Pull and push", "Loss")
OF_OUTCOME = ("Spread", "Order", "Loss")
# Names of verdicts by which a run has come to nothing or to worse, or may have.
SUFFERING = ("collapse", "hardly told apart", "training hurts", "score fell", "loss of guessing",
             "loss rises", "loss came back", HIDDEN)  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """Assessment of a whole run."""

    # The worst grade of the verdicts. `GOOD` only for a run that has finished, without a problem,
    # and with the important questions judged.
    grade: Grade
    headline: str  # the change most likely to help, and what was judged, in a few sentences
    verdicts: tuple[Verdict, ...]  # from the worst to the best, causes before effects


def judge(measurements: Mapping[str, Any]) -> Judgement:
    """Judge a run by measurements that can be kept as JSON.

    Args:
        measurements: ``rows``, a list of [step, group, name, value] as in a metrics file;
            ``manifest``, the manifest of the run (optional); ``silence``, seconds since the last
            record (optional). `measurements_of` makes them from a recorded run.

    Raises:
        GradlabError: a manifest that is not the manifest of a run.
    """
    return judge_run(recording_of(measurements), silence=measurements.get("silence", 0.0))


def measurements_of(run: Recording) -> dict[str, Any]:
    """Return the measurements of a recorded run, for `judge`, as plain values for JSON."""
    rows = [list(row) for row in run.history.rows()]
    return {"rows": rows, "manifest": dict(run.manifest), "silence": 0.0}


def judge_run(run: Recording, silence: float | None = None) -> Judgement:
    """Judge a run by all of its records.

    ``silence`` is the time since the last record in seconds; None takes the clock.
    """
    if silence is None:
        silence = max(0.0, time.time() - run.written)
    failures = failures_of(run)
    courses = failures.records
    records = max((course.count for course in courses.values()), default=0)
    standing = judge_status(run, records, silence)
    verdicts = signs_agree([standing, *_verdicts(run, failures)])
    if records < ENOUGH_RECORDS:
        verdicts = [_too_early(verdict, records) for verdict in verdicts]
    if standing.name == "few steps":
        verdicts = [_of_few_steps(verdict) for verdict in verdicts]
    verdicts = with_second_signs(verdicts, TRENDS)
    verdicts = [_beside_problems(verdict, verdicts) for verdict in verdicts]
    names = [*EFFECTS, *(verdict.name for verdict in verdicts)]
    verdicts.sort(key=lambda verdict: names.index(verdict.name))
    verdicts = worst_first(with_causes(verdicts, EFFECTS))
    running = run.status == RUNNING and not standing.is_problem
    grade = _grade(verdicts, running)
    return Judgement(grade, headline_of(verdicts, running), tuple(verdicts))


def failures_of(run: Recording) -> FailureWatch:
    """Return the failures that a watch of the run's records names, in the order of steps."""
    return FailureWatch(None, run.config, run.losses).restart(run.history)


def _verdicts(run: Recording, failures: FailureWatch) -> Iterator[Verdict]:
    running = run.status == RUNNING
    problems = [entry for entry in run.watch.get("doctor", []) if isinstance(entry, Mapping)]
    if (of_setup := setup(problems)) is not None:
        yield of_setup
    for failure in failures.failures:
        if failure.subject == "Numbers":
            finding = f"{failure.finding} This was at step {failure.step}."
            yield dataclasses.replace(failure, finding=finding)
    unmeasured = _why_unmeasured(run)
    if not failures.records:
        finding = "No embeddings were recorded."
        yield Verdict("Spread", NOT_JUDGED, finding, name="no embeddings")
    spread_out: dict[str, bool] = {}
    of_outcome = list[Verdict]()
    for dataset, records in failures.records.items():
        trial = run.watch.get("trials", {}).get(dataset, {})
        records.rows_have_labels = bool(trial.get("rows_have_labels"))
        records.classes_have_places = bool(trial.get("classes_have_places"))
        records.has_no_negatives = trial.get("nearer") == 0 == trial.get("all_nearer")
        records.has_targets = bool(trial.get(TARGETS))
        records.asks_for_pairs = pairing.asks_for_pairs(trial)
        records.makes_views = bool(trial.get(OWN_NOISE)) or pairing.asks_for_other_rows(trial)
        records.compares_structures = pairing.compares_structures(trial)
        of_records = _of_records(records, unmeasured, running)
        of_records += filter(None, [partners.scores(records, trial)])
        spread_out |= {dataset: any(v.subject == "Spread" and v.grade == GOOD for v in of_records)}
        of_outcome += of_records
        for verdict in of_records:
            numbers = verdict.evidence.items()
            evidence = {records.recorded_as(name): number for name, number in numbers}
            yield dataclasses.replace(verdict.of(dataset), evidence=evidence)
    for dataset in run.losses:
        yield from _of_formula(run, dataset, spread_out.get(dataset, False))
        of_outcome.append(judge_loss(run, dataset))
        yield of_outcome[-1].of(dataset)
    of_weights = _of_weights(run, running)
    yield from of_weights
    of_scores = judge_scores(run.history, running, failures.background)
    yield of_scores
    of_outcome.append(of_scores)
    suffers = any(verdict.name in SUFFERING for verdict in of_outcome)
    is_explained = any(verdict.symptom == small_steps.STILL for verdict in of_weights)
    yield from _of_suffering(run, suffers, is_explained)
    if of_scores.name in ("training hurts", "score fell"):
        for dataset, records in failures.records.items():
            at_chance = None if batches.unrelated(records) else embeddings.pairs_at_chance(records)
            if at_chance is not None:
                yield at_chance.of(dataset)


def _of_formula(run: Recording, dataset: str, is_spread_out: bool) -> list[Verdict]:
    """Return the verdicts on what the loss of one dataset computes."""
    trial = run.watch.get("trials", {}).get(dataset, {})
    departure = str(run.watch.get("departures", {}).get(dataset, ""))
    records = Records(run.history, dataset)
    losses, share = records.losses, records.end("uniform_share")
    # The other rows of a batch, where the components of the loss are not known.
    size: Any = run.watch.get("sentences", {}).get(dataset)
    other_rows = size - 1 if isinstance(size, int) else math.nan
    negatives = 1 / share if share > 0 else other_rows
    questions = (
        formula.departure(departure, str(run.losses[dataset].loss or "")),
        formula.formula(trial, losses[1] if losses else math.inf, negatives),
        formula.labels(trial),
        formula.scores(trial),
        formula.reaction(trial, is_spread_out),
        pairing.place(trial),
        pairing.zero(trial, records.batch_losses),
    )
    return [verdict.of(dataset) for verdict in questions if verdict is not None]


def _of_weights(run: Recording, running: bool) -> list[Verdict]:
    """Return the verdicts on weights, their gradient and the steps of the optimizer."""
    questions = (
        weights.progress(run.history, run.manifest.get("config", {})),
        weights.schedule(run.history),
        None if running else weights.warm_up(run.history),
        weights.stops(run.history),
        weights.stale_gradient(run.history),
        weights.leap(run.history),
        weights.of_the_loss(run.history),
        weights.learned_temperature(run.history),
        weights.learned_margin(run.history),
        batches.set_back(run.history),
        steps.own_gradient(run.history),
        steps.second_view(run.history),
        steps.arriving(run.history),
        arriving_gradients.infinite(run.history),
        arriving_gradients.first_dimensions(run.history),
        steps.replayed(run.history),
        steps.empty_steps(run.history),
        steps.blown_up(run.history),
        steps.still(run.history),
        steps.made_anew(run.history),
        steps.undone(run.history),
        steps.by_layer(run.history),
        steps.shrinking(run.history),
        steps.settings(run.history),
        tokens.padding(run.history),
        tokens.one_token(run.history),
        step_effects.uphill(run.history),
        step_effects.rate_of_0(run.history),
        step_effects.without_rate(run.history),
        step_effects.rounded(run.history),
        step_effects.below_epsilon(run.history),
        step_effects.divided(run.history),
        step_effects.unreached(run.history),
        step_effects.goes_back(run.history, int(run.watch.get("resumed", 0))),
        step_effects.dropped_batches(run.history),
        step_effects.few_updates(run.history),
        step_effects.frozen_later(run.history),
        step_effects.moved_by_hand(run.history),
        step_effects.cut_shorter(run.history),
    )
    return [verdict for verdict in questions if verdict is not None]


def _of_suffering(run: Recording, suffers: bool, is_explained: bool) -> list[Verdict]:
    """Return causes of a bad outcome, most of which are no alarm by themselves.

    ``is_explained`` says whether another verdict says why weights do not move.
    """
    questions = [step_effects.too_fast(run.history, suffers)]
    if not is_explained:
        questions += [
            small_steps.few_trained(run.history, suffers),
            small_steps.too_slow(run.history, run.manifest.get("config", {}), suffers),
        ]
    return [verdict for verdict in questions if verdict is not None]


def _of_records(records: Records, unmeasured: str, running: bool) -> list[Verdict]:
    """Return the verdicts on the records of one dataset."""
    questions = (
        gradient.learning(records, unmeasured),
        gradient.hard_negatives(records, unmeasured),
        gradient.pull_and_push(records, unmeasured),
        embeddings.identical_views(records),
        embeddings.spread(records, running),
        order.order(records),
        weights.standstill(records),
        embeddings.duplicates(records),
        batches.repeated(records),
        batches.of_one_class(records),
        batches.relabelled(records),
        batches.counted_anew(records),
        rows.places(records),
        rows.wrong_rows(records),
        rows.alone_in_class(records),
        rows.texts(records),
        batches.alternating(records),
        batches.unrelated(records) or tokens.unrelated(records) or partners.unrelated(records),
        batches.opposed(records),
        batches.constant(records),
        batches.detached(records),
        tokens.repeated_texts(records),
        tokens.joined_texts(records),
    )
    return [verdict for verdict in questions if verdict is not None]


def _why_unmeasured(run: Recording) -> str:
    """Return why there are no components of the loss: the first note of the watch, if any."""
    notes = run.watch.get("notes") or ["The components of the loss were not recorded."]
    return str(notes[0])


def _too_early(verdict: Verdict, records: int) -> Verdict:
    """Return a verdict without *good* on few records; facts about the run itself stay.

    Sentences that are hardly told apart in a few records may come apart after them.
    """
    is_trend = verdict.name == "hardly told apart" and records <= PERSISTENT
    if not is_trend and (verdict.grade != GOOD or verdict.subject == "Scores"):
        return verdict
    few = f"{counted(records, 'record')} {'is' if records == 1 else 'are'}"
    finding = f"{verdict.finding} {few} too few to judge this."
    change, symptom = ("", "") if is_trend else (verdict.change, verdict.symptom)
    return dataclasses.replace(
        verdict, grade=NOT_JUDGED, finding=finding, change=change, symptom=symptom
    )


def _of_few_steps(verdict: Verdict) -> Verdict:
    """Return a verdict without a problem of the scores, which rise and fall in the first steps."""
    if verdict.subject != "Scores" or not verdict.is_problem:
        return verdict
    finding = f"{verdict.finding} So few steps do not judge an encoder."
    return dataclasses.replace(verdict, grade=NOT_JUDGED, finding=finding, change="", symptom="")


def _beside_problems(verdict: Verdict, verdicts: Sequence[Verdict]) -> Verdict:
    """Return a verdict without *good* on a gradient or embeddings, and a problem in the same run.

    A gradient may lead to what is wrong, and embeddings are not where they should be.
    """
    of_gradient = verdict.subject in OF_GRADIENT
    if verdict.grade != GOOD or not (of_gradient or verdict.subject in OF_OUTCOME):
        return verdict
    for problem in graded(verdicts, BAD) + graded(verdicts, WATCH):
        is_grave = problem.grade == BAD or problem.name in TRENDS
        of_outcome = is_grave or (of_gradient and problem.subject in OF_OUTCOME)
        if of_outcome and problem.subject != "Run" and problem.dataset in ("", verdict.dataset):
            state = "is bad" if problem.grade == BAD else "needs watching"
            finding = f"{verdict.finding} This cannot be trusted while “{problem.title}” {state}."
            return dataclasses.replace(verdict, grade=NOT_JUDGED, finding=finding)
    return verdict


def _grade(verdicts: Sequence[Verdict], running: bool) -> Grade:
    if problems := graded(verdicts, BAD, WATCH):
        return BAD if graded(problems, BAD) else WATCH
    sound = {verdict.subject for verdict in verdicts if verdict.grade == GOOD}
    unfinished = running or "Run" not in sound
    return NOT_JUDGED if unfinished or not sound.issuperset(IMPORTANT) else GOOD

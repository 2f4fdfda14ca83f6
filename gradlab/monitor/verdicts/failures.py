"""`FailureWatch` names known failures of a run as its records come in, each once."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gradlab.monitor.metrics import (
    BATCH_LOSS,
    DIAGNOSTICS,
    EVALUATION,
    HISTOGRAM,
    History,
)
from gradlab.monitor.setting_advice import LossInUse
from gradlab.monitor.verdicts import embeddings, gradient, scores
from gradlab.monitor.verdicts.records import Records
from gradlab.seeds import random_state_kept
from gradlab.verdict import BAD, Verdict

LOSSES = ("loss", BATCH_LOSS, "eval_loss")
# Groups of numbers of which none is judged: shares of bins, and the cost of recording.
UNJUDGED = (HISTOGRAM, "watch")


class Alarm(NamedTuple):
    """A judgement that warns during training.

    It holds only where the latest record shows its sign, and is asked of no other records.
    """

    judge: Callable[[Records], Verdict | None]
    is_shown: Callable[[Mapping[str, float]], bool]  # by a record's numbers; NaN if one is absent
    of_train: bool = False  # whether it is about runs of `gradlab train` only


ALARMS = (
    Alarm(
        gradient.nothing_to_learn, lambda record: record["gradient_dissipation"] < gradient.NOTHING
    ),
    Alarm(
        gradient.temperature_too_high,
        lambda record: record["hardest_share"] < gradient.NEAR_UNIFORM * record["uniform_share"],
    ),
    Alarm(gradient.ratio_too_low, lambda record: record["lemma_share"] < gradient.MOST),
    Alarm(embeddings.identical_views, lambda record: record["positive_cosine"] > embeddings.SAME),
    Alarm(
        embeddings.collapse,
        lambda record: (
            record["negative_cosine"] > embeddings.ONE_POINT
            or record["encoder_cosine"] > embeddings.ONE_POINT
        ),
    ),
    Alarm(
        embeddings.views_indistinct,
        lambda record: embeddings.is_indistinct(
            record["positive_cosine"], record["negative_cosine"]
        ),
        of_train=True,
    ),
)


class FailureWatch:
    """Names known failures of a run, each once; its history is added to in the order of steps."""

    def __init__(
        self,
        total_steps: int | None = None,
        config: Mapping[str, Any] | None = None,
        losses: Mapping[str, LossInUse] | None = None,
    ) -> None:
        """Prepare for a run of ``total_steps`` steps.

        Args:
            config: settings by name of a run of `gradlab train`; None for other runs. They help to
                explain a collapse. Only in such a run is it a failure if the views of a sentence
                are no closer than different sentences; other pairs may be that far apart before
                they are learned.
            losses: the loss in use by dataset, or by ``""`` if there is only one; advice names its
                settings.
        """
        self.history = History(total_steps)
        # In order of appearance; the first of each name and dataset.
        self.failures: list[Verdict] = []
        self.records: dict[str, Records] = {}
        self._config, self._losses = config, losses or {}
        self._alarms = [alarm for alarm in ALARMS if config is not None or not alarm.of_train]
        self._names: set[tuple[str, str]] = set()

    def look_for_failures(self, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        """Name the failures that numbers of one step confirm, which are now in the history."""
        for group, values in groups.items():
            if group in UNJUDGED:
                continue
            if (broken := not_finite(values)) is not None:
                self._name(broken, step, "")
            if group.startswith(DIAGNOSTICS):
                self._judge_record(group.removeprefix(DIAGNOSTICS).strip(), values, step)
            elif group == EVALUATION:
                for name in values:
                    self._judge_score(name, step)

    @property
    def background(self) -> scores.Background:
        """What advice on scores depends on."""
        return scores.Background(
            embeddings.queue_advice(self._config),
            self._config is not None,
            any(records.has_negatives for records in self.records.values()),
            any(records.begins_at_chance for records in self.records.values()),
            max((records.gap for records in self.records.values() if records.gap > 0), default=0.0),
            any(records.positives_rank_first for records in self.records.values()),
        )

    def restart(self, history: History) -> FailureWatch:
        """Return one for the same losses that was given a whole history."""
        fresh = FailureWatch(history.total_steps, self._config, self._losses)
        fresh.history.primary, fresh.history.evaluated = history.primary, history.evaluated
        for step, group, values in history.records():
            fresh.history.add(step, group, values)
            fresh.look_for_failures(step, {group: values})
        return fresh

    def _begin(self, dataset: str) -> Records:
        used = self._losses.get(dataset, LossInUse())
        records = Records(self.history, dataset, used, self._config)
        return self.records.setdefault(dataset, records)

    def _judge_record(self, dataset: str, values: Mapping[str, float], step: int) -> None:
        records = self.records.get(dataset) or self._begin(dataset)
        record = collections.defaultdict(lambda: math.nan, values)
        suspected = [alarm for alarm in self._alarms if alarm.is_shown(record)]
        if not suspected:
            return
        with random_state_kept():  # advice tries settings of the loss
            verdicts = [alarm.judge(records) for alarm in suspected]
        for verdict in verdicts:
            if verdict is not None and verdict.is_problem:
                self._name(verdict, step, dataset)

    def _judge_score(self, name: str, step: int) -> None:
        score, background = self.history.score(name), self.background
        hurts = scores.training_hurts(score, self.history, True, background)
        if hurts is None and ("training hurts", "") not in self._names:
            hurts = scores.score_fell(score, self.history, background)
        if hurts is not None:
            self._name(hurts, step, "")

    def _name(self, verdict: Verdict, step: int, dataset: str) -> None:
        if (verdict.name, dataset) not in self._names:
            self._names.add((verdict.name, dataset))
            self.failures.append(dataclasses.replace(verdict, step=step, dataset=dataset))


def not_finite(values: Mapping[str, float]) -> Verdict | None:
    """Judge whether the loss or an embedding is NaN or infinite."""
    share = values.get("not_finite", 0.0)
    losses = {n: v for n, v in values.items() if n in LOSSES or n.startswith(f"{BATCH_LOSS} ")}
    lost = next((name for name, value in losses.items() if not math.isfinite(value)), None)
    if lost is None and not share:
        return None
    finding = f"{share:.0%} of the embeddings are NaN or infinite."
    if lost is not None:
        where = " on held-out data" if lost == "eval_loss" else ""
        kind = "NaN" if math.isnan(losses[lost]) else "infinite"
        finding = f"The loss{where} has become {kind}."
    change = (
        "Go back to a checkpoint from before that step. Lower the learning rate, or clip "
        "gradients; in fp16, train in bf16 or fp32; look for empty texts."
    )
    return Verdict("Numbers", BAD, finding, change, "not finite", "loss-nan")


def warning_text(failure: Verdict) -> str:
    """Return a failure in a line: step, finding, and what to change."""
    where = f" ({failure.dataset})" if failure.dataset else ""
    return f"Step {failure.step}{where}: {failure.finding} {failure.change}"

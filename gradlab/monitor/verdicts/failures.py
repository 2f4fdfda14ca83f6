"""`FailureWatch` names known failures of a run as its records come in, each once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from gradlab.monitor.history import BATCH_LOSS, DIAGNOSTICS, EVALUATION, History
from gradlab.monitor.setting_advice import LossInUse
from gradlab.monitor.verdicts import embeddings, gradient, scores
from gradlab.monitor.verdicts.records import Records
from gradlab.verdict import BAD, Verdict

LOSSES = ("loss", BATCH_LOSS, "eval_loss")
# Judgements that warn during training, and a quantity without which they need not be asked.
WARNINGS = {
    gradient.nothing_to_learn: "gradient_dissipation",
    gradient.temperature_too_high: "hardest_share",
    gradient.ratio_too_low: "lemma_share",
    embeddings.identical_views: "positive_cosine",
    embeddings.collapse: "negative_cosine",
    embeddings.views_indistinct: "negative_cosine",
}


class FailureWatch:
    """Names known failures of a run, each once; it is given its records in the order of steps."""

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
        self._names: set[tuple[str, str]] = set()

    def add(self, step: int, group: str, values: Mapping[str, float]) -> None:
        """Add numbers of one step, and name the failures that they confirm."""
        self.history.add(step, group, values)
        if (broken := not_finite(values)) is not None:
            self._name(broken, step, "")
        if group.startswith(DIAGNOSTICS):
            dataset = group.removeprefix(DIAGNOSTICS).strip()
            records = self.records.get(dataset) or self._begin(dataset)
            for judge, quantity in WARNINGS.items():
                if quantity in values and (verdict := judge(records)) is not None:
                    self._name(verdict, step, dataset)
        elif group == EVALUATION:
            for name in values:
                self._judge_score(name, step)

    @property
    def has_negatives(self) -> bool:
        """Whether one of the losses is known to push sentences from negatives."""
        return any(records.has_negatives for records in self.records.values())

    def restart(self, history: History) -> FailureWatch:
        """Return one for the same losses that was given a whole history."""
        fresh = FailureWatch(history.total_steps, self._config, self._losses)
        fresh.history.primary = history.primary
        for step, group, values in history.records():
            fresh.add(step, group, values)
        return fresh

    def _begin(self, dataset: str) -> Records:
        used = self._losses.get(dataset, LossInUse())
        records = Records(self.history, dataset, used, self._config)
        return self.records.setdefault(dataset, records)

    def _judge_score(self, name: str, step: int) -> None:
        score, advice = self.history.score(name), embeddings.queue_advice(self._config)
        hurts = scores.training_hurts(score, True, advice, self.has_negatives)
        if hurts is None and ("training hurts", "") not in self._names:
            keeps_best = self._config is not None
            hurts = scores.score_fell(score, self.history, keeps_best)
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

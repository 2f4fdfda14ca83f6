"""Runs with a fault planted, and sound ones: what the report says of each."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import gradlab
from gradlab.diagnosis.symptoms import symptoms
from gradlab.monitor.run_reader import read_recording
from gradlab.monitor.verdicts import judge_run
from gradlab.monitor.watch import TrainingWarning
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH


@dataclass
class Plan:
    """A small run: a linear encoder learns to tell vectors apart by two noisy views of each."""

    loss: Any = "infonce"
    steps: int = 80
    batch: int = 64
    interval: int = 4
    rate: float = 0.003
    noise: float = 0.5
    hard: bool = False
    scores: dict[str, list[float]] = field(default_factory=dict)
    # Faults.
    overflow_from: int | None = None
    frozen: bool = False
    detached: bool = False
    ascent: bool = False
    same_views: bool = False
    dead: bool = False
    ends_at: int | None = None
    finishes: bool = True


def run(plan, folder):
    """Train, watch and judge."""
    torch.manual_seed(0)
    sentences = torch.randn(32, 64).repeat_interleave(32, dim=0) + torch.randn(1024, 64) + 1.0
    encoder = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU() if plan.dead else torch.nn.Identity()
    )
    if plan.dead:
        with torch.no_grad():
            encoder[0].weight.zero_()
            encoder[0].bias.fill_(1.0)
            encoder[0].weight += 1e-3 * torch.randn_like(encoder[0].weight)
    held = torch.nn.Linear(2, 2).parameters() if plan.frozen else encoder.parameters()
    optimiser = torch.optim.Adam(held, lr=plan.rate)
    loss = gradlab.get_loss(plan.loss) if isinstance(plan.loss, str) else plan.loss

    def compute(anchors, positives, extra=None):
        if callable(plan.loss):
            return plan.loss(anchors, positives)
        return loss(anchors, positives, extra, normalize=True)

    named = plan.loss if isinstance(plan.loss, str) else None
    criterion = gradlab.watch(
        compute, loss=named, output=folder, total_steps=plan.steps, every=plan.interval
    )
    for step in range(plan.steps):
        if step == plan.ends_at:
            break
        chosen = torch.randperm(1024)[: plan.batch]
        first = sentences[chosen] + (
            0 if plan.same_views else plan.noise * torch.randn(plan.batch, 64)
        )
        second = (
            first
            if plan.same_views
            else sentences[chosen] + plan.noise * torch.randn(plan.batch, 64)
        )
        anchors, positives = encoder(first), encoder(second)
        if plan.detached:
            anchors, positives = anchors.detach().requires_grad_(), positives.detach()
        if plan.overflow_from is not None and step >= plan.overflow_from:
            anchors = anchors * math.inf
        extra = encoder(sentences[torch.randperm(1024)[: plan.batch]]) if plan.hard else None
        value = (
            criterion(anchors, positives) if extra is None else criterion(anchors, positives, extra)
        )
        optimiser.zero_grad()
        (-value if plan.ascent else value).backward()
        optimiser.step()
    for name, values in plan.scores.items():
        for number, value in enumerate(values):
            criterion.watch.log(
                number * plan.steps // (len(values) - 1), "evaluation", {name: value}
            )
    if plan.finishes:
        criterion.finish()
    return judge_run(read_recording(folder))


def triplet(anchors, positives):
    """A loss that gradlab does not know, with the next sentence as negative."""
    anchors, positives = (F.normalize(rows, dim=1) for rows in (anchors, positives))
    near = (anchors * positives).sum(dim=1)
    far = (anchors @ positives.T - 2 * torch.eye(len(anchors))).max(dim=1).values
    return F.relu(far - near + 0.3).mean()


UP = [0.40, 0.55, 0.60, 0.62, 0.62]
SOUND = {
    "InfoNCE, τ = 0.1, with a score": Plan("infonce(temperature=0.1)", scores={"stsb_dev": UP}),
    "InfoNCE with hard negatives": Plan(hard=True),
    "InfoNCE over both pools": Plan("symmetric(pool(infonce, negatives=other+same))", interval=8),
    "MET": Plan("met"),
    "SigLIP": Plan("siglip", steps=160, interval=8),
    "a triplet loss of one's own": Plan(triplet),
    "InfoNCE, weak views": Plan(noise=1.0, scores={"eval_loss": [2.0, 1.5, 1.3, 1.2, 1.2]}),
}
FAULTS = {
    "embeddings overflow from step 40 on": (Plan(triplet, overflow_from=40), BAD, "Numbers"),
    "the process ended early": (Plan(ends_at=40, finishes=False), NOT_JUDGED, "Run"),
    "τ = 0.001": (Plan("infonce(temperature=0.001)", noise=0.2), BAD, "Learning"),
    "τ = 2": (Plan("infonce(temperature=2)"), BAD, "Hard negatives"),
    "ratio 0.1": (Plan("baseline(static_ratio=0.1)"), BAD, "Pull and push"),
    "optimiser of other weights": (Plan(frozen=True), WATCH, "Progress"),
    "embeddings are detached": (Plan(detached=True), WATCH, "Progress"),
    "both views are the same": (Plan(same_views=True), BAD, "Batch"),
    "the loss is maximised": (Plan(ascent=True), WATCH, "Loss"),
    "all outputs are one point": (Plan(dead=True, rate=0.0), BAD, "Spread"),
    "margin of which all are clear": (Plan("mpt(margin=-1.5)"), BAD, "Loss"),
    "the score falls": (Plan(scores={"stsb_dev": [0.4, 0.6, 0.55, 0.5, 0.45]}), BAD, "Scores"),
    "the score is constant embeddings'": (
        Plan(scores={"stsb_dev": [0.3, math.nan, math.nan]}),
        BAD,
        "Scores",
    ),
    "held-out loss rises": (Plan(scores={"eval_loss": [3.0, 1.0, 1.3, 1.5, 1.8]}), WATCH, "Scores"),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_is_not_accused(tmp_path, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        judgement = run(SOUND[name], tmp_path)
    assert [verdict for verdict in judgement.verdicts if verdict.is_problem] == []
    # Without a score it is not known whether the embeddings have become better.
    assert judgement.grade == (GOOD if SOUND[name].scores else NOT_JUDGED)


@pytest.mark.filterwarnings("ignore::gradlab.monitor.watch.TrainingWarning")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(tmp_path, name):
    plan, grade, subject = FAULTS[name]
    judgement = run(plan, tmp_path)
    assert (grade, subject) in [(verdict.grade, verdict.subject) for verdict in judgement.verdicts]
    assert judgement.grade != GOOD
    assert {verdict.symptom for verdict in judgement.verdicts if verdict.symptom} <= set(symptoms())

"""Sound tables to inspect, rightly gathered losses, and trainers on two processes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

from tests.judgement.case import sound
from tests.judgement.first.further_sound_tables import (
    FAST,
    embedded,
    graded,
    identifiers,
    library,
    ranking,
    teacher,
    titled,
)
from tests.judgement.stage import Stage, facts, pairs, passage, question
from tests.judgement.truth import among_alike, correlation, keep, truth


@sound("table of titles and bodies")
def titles_and_bodies_of_a_magazine(stage: Stage) -> None:
    stage.inspect(titled(200))


@sound("table of code with descriptions")
def identifiers_with_their_descriptions(stage: Stage) -> None:
    stage.inspect(identifiers(160))


@sound("table of questions with mined negatives of middle rank")
def negatives_of_the_tenth_to_twentieth_rank(stage: Stage) -> None:
    knows, table = teacher(stage), pairs(160)
    asked, answers = (
        functional.normalize(torch.tensor(embedded(knows, texts)), dim=1)
        for texts in table.values()
    )
    order = (asked @ answers.T).fill_diagonal_(-2).argsort(dim=1, descending=True)
    ranked = order[:, 10:20].tolist()
    table["negative"] = [table["positive"][row[at % 10]] for at, row in enumerate(ranked)]
    stage.inspect(table, knows)


@sound("table of questions and answers of a help page")
def help_page_with_long_and_short_answers(stage: Stage) -> None:
    asked = facts(180, seed=3)
    answers = [passage(fact, 1 + 3 * (at % 5)) for at, fact in enumerate(asked)]
    stage.inspect({"question": [*map(question, asked)], "answer": answers}, teacher(stage))


def gathered(rows: torch.Tensor) -> torch.Tensor:
    """The rows of all processes in the order of their ranks, with their gradient."""
    from torch.distributed import is_initialized
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(rows.contiguous())) if is_initialized() else rows


def own_anchors_against_gathered_positives(
    anchors: torch.Tensor, positives: torch.Tensor
) -> torch.Tensor:
    """InfoNCE of the own anchors with the positives of all processes."""
    from torch.distributed import get_rank, is_initialized

    anchors, positives = (functional.normalize(rows, dim=1) for rows in (anchors, positives))
    first = get_rank() * len(anchors) if is_initialized() else 0
    logits = anchors @ gathered(positives).T / 0.05
    return functional.cross_entropy(logits, torch.arange(len(anchors)) + first)


@sound("own anchors with the positives of all processes")
def positives_of_all_processes_gathered(stage: Stage) -> None:
    stage.audit(own_anchors_against_gathered_positives, uneven=False)


def sigmoids_of_all_pairs(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Logistic loss of the own anchors with all passages, averaged over own anchors."""
    from torch.distributed import get_rank, is_initialized

    anchors, positives = (functional.normalize(rows, dim=1) for rows in (anchors, positives))
    first = get_rank() * len(anchors) if is_initialized() else 0
    logits = 10 * anchors @ gathered(positives).T - 5
    signs = -torch.ones_like(logits)
    own = torch.arange(len(anchors))
    signs[own, own + first] = 1.0
    return -functional.logsigmoid(signs * logits).sum() / len(anchors)


@sound("logistic loss with the passages of all processes")
def logistic_loss_of_gathered_passages(stage: Stage) -> None:
    stage.audit(sigmoids_of_all_pairs, uneven=False)


@sound("the library's gathered ranking with a hard negative")
def gathered_ranking_with_hard_negatives(stage: Stage) -> None:
    loss = library("MultipleNegativesRankingLoss", gather_across_devices=True)
    stage.audit(loss(stage.model()), columns=3, uneven=False)


def on_two_processes(stage: Stage, make: Callable[[], Any], score: Callable[[Any], float]) -> None:
    """Ask the doctor of a trainer on two processes; a training of it raises its score."""
    stage.doctor(make(), processes=2)
    trainer = make()
    before = score(trainer.model)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train()
    keep(stage, before=before, after=score(trainer.model))
    assert truth(stage)["after"] >= before + 0.03, truth(stage)


@sound("a gathered ranking loss on two processes")
def gathered_candidates_on_two_processes(stage: Stage) -> None:
    loss = library("MultipleNegativesRankingLoss", gather_across_devices=True)
    settings = {"batch_sampler": "no_duplicates", **FAST}
    on_two_processes(stage, lambda: stage.trainer(loss, pairs(320), **settings), among_alike)


@sound("scored pairs on two processes")
def scored_pairs_on_two_processes(stage: Stage) -> None:
    loss = library("CosineSimilarityLoss")
    settings = {"learning_rate": 3e-3, "max_steps": 60}
    on_two_processes(
        stage,
        lambda: stage.trainer(loss, graded(320), **settings),
        lambda model: correlation(model, graded(200, seed=11)),
    )


@sound("two processes that each rank their own batch")
def own_batches_of_two_processes(stage: Stage) -> None:
    settings = {"per_device_train_batch_size": 32, **FAST}
    on_two_processes(stage, lambda: stage.trainer(ranking, titled(320), **settings), among_alike)

"""Faults of what there is to learn: negatives, positives and labels that teach little or astray."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as functional

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.damaged_texts import with_column
from tests.judgement.first.materials import (
    ANYWHERE,
    FALSE_NEGATIVE,
    LONGER,
    TOKENS,
    UNRELATED,
    inspected,
    mistaught,
    ranking,
)
from tests.judgement.first.modules_and_loops import batches, embed, loop_scores, sound_scores
from tests.judgement.stage import (
    Stage,
    facts,
    lookalike,
    pairs,
    passage,
)
from tests.judgement.truth import falls_short, in_one_place, retrieval, suffers


@faulty(
    "positives found by a search",
    "The positives are the first hits of a search by words, and two of three are about something "
    "else in the same place.",
    [
        r"positives?.{0,120}(wrong|unrelated|nois|mismatch|false|another|belong)",
        UNRELATED,
        FALSE_NEGATIVE,
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def first_hits_as_positives(stage: Stage) -> None:
    """Common with pseudo-labels: pairs made by BM25 without a person or a cross-encoder."""
    asked, draw = facts(160), random.Random(2)
    hits = [passage(fact) if draw.random() < 0.33 else lookalike(fact) for fact in asked]
    table = pairs()
    settings = {"learning_rate": 1e-3, "max_steps": 60, "share": None}
    mistaught(stage, table | {"positive": hits}, table, in_one_place, **settings)


@faulty(
    "errors of character recognition",
    "Passages were scanned badly, and two letters in five were recognised as another.",
    [TOKENS, UNRELATED],
    tools=(INSPECT,),
    never=[LONGER],
)
def scanned_passages(stage: Stage) -> None:
    """Common with scanned documents."""
    draw = random.Random(3)

    def scanned(text: str) -> str:
        return "".join(
            draw.choice("qxjwyhc") if sign.isalpha() and draw.random() < 0.4 else sign
            for sign in text
        )

    inspected(stage, with_column(scanned), pairs(), share=None)


@faulty(
    "no batch is whole",
    "The data have fewer rows than a batch, and incomplete batches are dropped: there is none, and "
    "training ends before its first step.",
    [
        r"drop_last|incomplete|whole batch|batch size|no batch|(few|less|fewer).{0,30}(row|batch)",
        r"(0|no|zero|not a single) (steps?|updates?|batch)|step 0",
    ],
    tools=(DOCTOR, REPORT),
    never=[],
)
def fewer_rows_than_a_batch(stage: Stage) -> None:
    """https://github.com/RUC-GSAI/YuLan-IR/issues/5: not a single sample in the iterator."""
    table = pairs(48)
    settings = {"per_device_train_batch_size": 64, "max_steps": 30}
    suffers(
        stage,
        stage.trainer(ranking, table, dataloader_drop_last=True, **settings),
        lambda: stage.trainer(ranking, table, **settings),
        retrieval,
    )


class StaleQueue:
    """Negatives come from a queue that is filled by the first batches and never renewed."""

    def __init__(self, size: int = 32) -> None:
        self.rows, self._size = torch.empty(0, 32), size

    def __call__(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        anchors, positives = functional.normalize(anchors), functional.normalize(positives)
        if len(self.rows) < self._size:
            self.rows = torch.cat([self.rows, positives.detach()])
        own = (anchors * positives).sum(1, keepdim=True)
        cosines = torch.cat([own, anchors @ self.rows.T], dim=1) / 0.05
        return functional.cross_entropy(cosines, torch.zeros(len(anchors), dtype=torch.long))


@faulty(
    "queue of negatives that is never renewed",
    "The negatives of all steps are embeddings of the first two batches: the encoder turns away "
    "from them, and its texts collapse.",
    [
        r"queue|memory|stale|old (negatives|embeddings)|never (renewed|refreshed|updated)",
        r"negatives?.{0,80}(fixed|constant|same|old|easy|apart)",
    ],
    tools=(REPORT,),
    never=[LONGER],
)
def queue_filled_once(stage: Stage) -> None:
    """https://github.com/KevinMusgrave/pytorch-metric-learning/issues/54: a queue's pointer."""
    model = stage.model()
    draw = batches(model)
    scores = loop_scores(
        stage, model, StaleQueue(), lambda: tuple(embed(model, column) for column in draw())
    )
    falls_short(stage, scores, sound_scores(stage), share=None)

"""Slips in losses and callbacks of one's own for the trainer of sentence-transformers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import TrainerCallback

from tests.judgement.case import faulty
from tests.judgement.first.loop_losses import cosines
from tests.judgement.first.reported_encoders import LONGER, STILL, ranking
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers

QUICK = {"learning_rate": 1e-3}


class Compared(nn.Module):
    """A ranking loss of the first column with one of the columns."""

    def __init__(self, model: Any, column: int) -> None:
        super().__init__()
        self.model, self.column = model, column

    def forward(self, features: Any, labels: torch.Tensor | None = None) -> torch.Tensor:
        rows = [self.model(column)["sentence_embedding"] for column in features]
        logits = 20 * cosines(rows[0], rows[self.column])
        return F.cross_entropy(logits, torch.arange(len(logits)))


@faulty(
    "column compared with itself",
    "A loss of one's own compares the anchors with the anchors: each is its own positive, and the "
    "second column is never used.",
    [
        r"(itself|themselves|same (embedding|column|view|text|row)s?|identical|own (cop|positive))",
        r"(second|positive|column).{0,80}(not used|unused|ignored|no (gradient|part|influence)|"
        r"never)",
        r"(positives?|pairs?|cosines?|similarit).{0,60}(exactly|equal|all|are|is|of|at) (1\b|one)",
        r"equal views|views? (are|is) (equal|the same|identical)",
        r"(task|too) (is )?(too )?easy|nothing to learn|no gradient from",
        *STILL,
    ],
    never=[LONGER],
)
def anchors_compared_with_anchors(stage: Stage) -> None:
    """Common slip in a loss of one's own: `cos_sim(reps[0], reps[0])`."""
    suffers(
        stage,
        stage.trainer(lambda model: Compared(model, 0), pairs()),
        lambda: stage.trainer(lambda model: Compared(model, 1), pairs()),
        among_alike,
        share=None,
    )


class Averaging(TrainerCallback):
    """A moving average of the weights; with ``copies`` it is copied over them after each step."""

    def __init__(self, copies: bool) -> None:
        self.copies, self.averages = copies, list[torch.Tensor]()

    def on_train_begin(self, *_: Any, model: Any, **options: Any) -> None:
        self.averages = [row.detach().clone() for row in model.parameters()]

    def on_step_end(self, *_: Any, model: Any, **options: Any) -> None:
        with torch.no_grad():
            for average, row in zip(self.averages, model.parameters(), strict=True):
                average.lerp_(row, 0.01)
                if self.copies:
                    row.copy_(average)


@faulty(
    "average copied over the weights after each step",
    "The moving average of the weights is copied over them after each step and not only for the "
    "evaluation: they move at a hundredth of the rate.",
    [*STILL, r"averag|\bEMA\b|overwrit|copied|reset|restor|pulled back"],
)
def average_copied_back_after_each_step(stage: Stage) -> None:
    """Common with averages for evaluation, whose weights are not put back afterwards."""
    suffers(
        stage,
        stage.trainer(ranking, pairs(), callbacks=[Averaging(True)], **QUICK),
        lambda: stage.trainer(ranking, pairs(), callbacks=[Averaging(False)], **QUICK),
        among_alike,
    )


class OfTokens(nn.Module):
    """A ranking loss of the mean of all token embeddings, whatever the encoder pools."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Any, labels: torch.Tensor | None = None) -> torch.Tensor:
        first, second = (rows["token_embeddings"].mean(1) for rows in map(self.model, features))
        return F.cross_entropy(20 * cosines(first, second), torch.arange(len(first)))


@faulty(
    "trained by another pooling than used",
    "The loss is of the mean of the tokens, and the encoder that is kept pools their maximum.",
    [
        r"pool|mean of (the|all) tokens|token embeddings?|sentence_embedding",
        r"(other|another|different) (embedding|vector|output)s?",
        r"embeddings?.{0,60}(loss|train).{0,60}(not|other|differ|another)",
    ],
    never=[LONGER],
)
def mean_in_the_loss_and_maximum_in_use(stage: Stage) -> None:
    """Common: `last_hidden_state.mean(1)` in training, another pooling in the saved modules."""
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(OfTokens, pairs(), stage.model("max"), **settings),
        lambda: stage.trainer(ranking, pairs(), stage.model("max"), **settings),
        among_alike,
    )

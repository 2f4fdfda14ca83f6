"""Loops of one's own that hand their loss or encoder something else than they mean to."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.fields import CODE, HELPDESK, SHOP
from tests.judgement.first.loop_targets import OfClasses
from tests.judgement.first.opposed import Loop, encoder_of, hampered
from tests.judgement.first.turns import cosines, embed
from tests.judgement.stage import Stage, classes, pairs
from tests.judgement.truth import among_alike


class Stale(Loop):
    """A list of answers built in a loop; the faulty one has the last row's for all."""

    def __init__(self, model: Any, table: Any, is_faulty: bool) -> None:
        super().__init__(model, table)
        self.is_faulty = is_faulty

    def inputs(self) -> list[Tensor]:
        questions, answers = self.rows()
        if self.is_faulty:
            answers = [answers[-1] for _ in answers]
        return [embed(self.model, questions), embed(self.model, answers)]


@faulty(
    "variable left over from an inner loop",
    "The list of answers is filled from a variable that keeps the last row: all questions of a "
    "batch have the same answer.",
    (
        r"(?i)(same|equal|identical|repeat|duplicat|copies|distinct|one).{0,30}(text|answer|point|"
        r"passage|positive|embedding|row|vector)",
        r"(?i)false negative|collaps|chance level|log ?\(?(16|batch)",
    ),
)
def answer_of_the_last_row_for_all(stage: Stage) -> None:
    """A name reused in a nested loop of a collator."""
    hampered(
        stage,
        lambda is_faulty: Stale(encoder_of(stage, HELPDESK), HELPDESK.table(160), is_faulty),
        HELPDESK.sought,
    )


class Placed(Loop):
    """Texts of classes; faulty, with classes by their places, as if rows came in groups of two."""

    def __init__(self, model: Any, is_faulty: bool) -> None:
        super().__init__(model, classes(240, 6), OfClasses(False), size=32)
        self.is_faulty = is_faulty

    def inputs(self) -> list[Tensor]:
        rows, labels = super().inputs()
        return [rows, torch.arange(len(rows)) // 2 if self.is_faulty else labels]


@faulty(
    "classes by place in a batch that is shuffled",
    "Each two neighbours of a batch count as a class, as a sampler of groups would draw them, but "
    "the rows are shuffled: unlike texts are pulled together.",
    (
        r"(?i)(label|class)\w*.{0,80}(unrelated|unlike|not (alike|fit|agree|belong)|wrong|order|"
        r"place)|shuffl",
        r"(?i)positives?.{0,80}(no nearer|not nearer|unrelated|chance|random|wrong|apart|as far)",
    ),
)
def classes_by_place_in_the_batch(stage: Stage) -> None:
    """`labels = arange(n) // 2` kept when the sampler was replaced by `shuffle=True`."""
    hampered(stage, lambda is_faulty: Placed(stage.model(), is_faulty), among_alike)


class Noisy(Loop):
    """Noise on the embeddings in training, of a size for each feature."""

    def __init__(self, model: Any, table: Any, noise: float) -> None:
        super().__init__(model, table)
        self.noise = noise

    def inputs(self) -> list[Tensor]:
        return [rows + self.noise * torch.randn_like(rows) for rows in super().inputs()]


@faulty(
    "noise far larger than the embeddings",
    "The noise for robustness was not divided by the embeddings' size and drowns them.",
    (
        r"(?i)nois|drown|stochastic",
        r"(?i)positives?.{0,80}(no nearer|not nearer|chance|apart)|chance level|does not fall",
    ),
)
def noise_that_drowns_the_embeddings(stage: Stage) -> None:
    """The noise of NEFTune without the division by the root of length times width."""
    hampered(
        stage,
        lambda is_faulty: Noisy(
            encoder_of(stage, SHOP), SHOP.table(160), 30.0 if is_faulty else 0.05
        ),
        SHOP.sought,
    )


class Bare(Loop):
    """The network called by hand, with or without its mask, and the mean of its states."""

    def __init__(self, model: Any, table: Any, is_faulty: bool) -> None:
        super().__init__(model, table)
        self.is_faulty = is_faulty

    def inputs(self) -> list[Tensor]:
        return [self._mean(column) for column in self.rows()]

    def _mean(self, texts: list[str]) -> Tensor:
        fast = self.model.tokenizer
        tokens = fast(texts, padding="max_length", max_length=90, return_tensors="pt")
        network, mask = self.model[0].auto_model, tokens["attention_mask"]
        if self.is_faulty:
            return network(tokens["input_ids"]).last_hidden_state.mean(1)
        states = network(tokens["input_ids"], attention_mask=mask).last_hidden_state
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@faulty(
    "network called without its mask",
    "The network is called with the ids alone and its states are averaged: most of what it reads "
    "and averages in training is padding.",
    (r"(?i)padd|\bpads?\b|mask", r"(?i)(other|another|different) (embedding|pooling|vector)s?"),
)
def network_called_without_its_mask(stage: Stage) -> None:
    """`model(input_ids)` with texts padded to a full length."""
    hampered(
        stage,
        lambda is_faulty: Bare(encoder_of(stage, CODE), CODE.table(160), is_faulty),
        CODE.sought,
        steps=16,
    )


def squeezed(first: Tensor, second: Tensor) -> Tensor:
    """A sigmoid of each pair's own cosine, target 1: there is no other pair in it."""
    own = (F.normalize(first) * F.normalize(second)).sum(1)
    return F.binary_cross_entropy_with_logits(20 * own, torch.ones(len(own)))


def against_others(first: Tensor, second: Tensor) -> Tensor:
    table = cosines(first, second)
    return F.binary_cross_entropy_with_logits(20 * table - 10, torch.eye(len(table)))


@faulty(
    "logistic loss with fitting pairs alone",
    "The logistic loss sees the fitting pairs and no others: one point for all texts solves it.",
    (
        r"(?i)collaps|(one|same|single) (point|vector|direction)|no (push|negative)s?|"
        r"without (a )?(push|negative)",
        r"(?i)only (pull|positive)s?|pull.{0,40}(without|no|outweigh|alone)|all (texts|embeddings)",
    ),
)
def logistic_loss_of_fitting_pairs(stage: Stage) -> None:
    """The negatives' term was lost when the loss was rewritten for rows."""
    hampered(
        stage,
        lambda is_faulty: Loop(
            stage.model(), pairs(), squeezed if is_faulty else against_others, rate=2e-3
        ),
        among_alike,
        steps=60,
    )

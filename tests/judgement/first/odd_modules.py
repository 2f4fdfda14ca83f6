"""Modules of one's own behind the encoder that spoil its embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.fields import CLINIC, HELPDESK, KITCHEN, PAPERS, SHOP, Field
from tests.judgement.first.opposed import encoder_of, ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import SHARE, suffers

STILL = (
    r"(?i)no gradient|gradients? (is|are|of) (zero|0)|vanish",
    r"(?i)(weights?|parameters?|embeddings?|encoder|adapter).{0,60}(not move|hardly|barely|"
    r"not change|"
    r"stand still|unchanged)|does not (learn|move)|nothing (moves|is learn)",
)


class Behind(nn.Module):
    """A module that changes the sentence embedding."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features | {"sentence_embedding": self.changed(features["sentence_embedding"])}

    def changed(self, rows: Tensor) -> Tensor:
        return rows


def behind(
    stage: Stage, field: Field, module: Any, mended: Any, *, share: float | None = SHARE,
    is_frozen: bool = False, **settings: Any,
) -> None:  # fmt: skip
    """Train with a module behind the encoder, beside its mended counterpart."""
    settings = {"learning_rate": 1e-3, "max_steps": 50, **settings}

    def trainer(last: Any) -> Any:
        torch.manual_seed(2)
        model = encoder_of(stage, field, spread=0.05)
        model[0].requires_grad_(not is_frozen)
        model.append(last())
        return stage.trainer(ranking, field.table(140), model, **settings)

    suffers(stage, trainer(module), lambda: trainer(mended), field.sought, share=share)


class Attending(Behind):
    """Attention of heads over what is taken for a row's parts; one by one, or over the batch."""

    def __init__(self, over_batch: bool) -> None:
        super().__init__()
        self.attention, self.over_batch = nn.MultiheadAttention(48, 4, batch_first=True), over_batch

    def changed(self, rows: Tensor) -> Tensor:
        sequences = rows if self.over_batch else rows[:, None]
        mixed = self.attention(sequences, sequences, sequences, need_weights=False)[0]
        return mixed if self.over_batch else mixed[:, 0]


@faulty(
    "attention over the rows of a batch",
    "A table of embeddings is handed to an attention, which takes its rows for the parts of one "
    "text: each embedding is mixed from all of the batch.",
    (
        r"(?i)(depend|mix).{0,80}(batch|other (row|text)|neighbour)|batch.{0,80}(depend|mix|"
        r"other|alone)",
    ),
)
def attention_over_the_batch(stage: Stage) -> None:
    """`nn.MultiheadAttention` takes two axes as one sequence without a batch."""
    behind(stage, HELPDESK, lambda: Attending(True), lambda: Attending(False))


class Reversal(torch.autograd.Function):
    """Passes rows on, and their gradient with the sign changed."""

    @staticmethod
    def forward(_: Any, rows: Tensor) -> Tensor:
        return rows.view_as(rows)

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return -gradient


class Reversed(Behind):
    def changed(self, rows: Tensor) -> Tensor:
        return Reversal.apply(rows)


@faulty(
    "gradient reversal between encoder and loss",
    "A layer for adversarial training turns the gradient's sign before it reaches the encoder, "
    "which climbs the loss.",
    (
        r"(?i)\bsigns?\b|revers|opposite|uphill|climb|maximi|\bascen|wrong (way|direction)",
        r"(?i)loss.{0,40}(rises|grows|increas)",
    ),
)
def gradient_reversal_left_in(stage: Stage) -> None:
    """Left in from training against domains."""
    behind(stage, KITCHEN, Reversed, Behind)


class Ranged(Behind):
    """Scales each feature between its least and greatest over the batch."""

    def changed(self, rows: Tensor) -> Tensor:
        least, most = rows.min(0).values, rows.max(0).values
        return (rows - least) / (most - least + 1e-6)


@faulty(
    "scaled between the batch's least and greatest",
    "Features are scaled by their least and greatest in the batch: embeddings depend on the other "
    "texts, and one alone is all zeros.",
    (
        r"(?i)(depend|mix).{0,80}(batch|other (row|text)|neighbour)|batch.{0,80}(depend|mix|"
        r"other|alone)",
    ),
)
def scaled_by_the_batch(stage: Stage) -> None:
    """Scaling of features kept from tables, applied to each batch."""

    def by_one(model: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        columns = list(CLINIC.table(40, seed=11).values())[:2]
        rows = [model.encode(texts, batch_size=4, show_progress_bar=False) for texts in columns]
        return reciprocal_rank(*rows)

    def trainer(last: Any) -> Any:
        model = encoder_of(stage, CLINIC, spread=0.05)
        model.append(last())
        return stage.trainer(ranking, CLINIC.table(140), model, learning_rate=1e-3, max_steps=50)

    suffers(stage, trainer(Ranged), lambda: trainer(Behind), by_one)


class Adapter(Behind):
    """A low-rank adapter of embeddings; ``spread`` of its first factor, the second is zero."""

    def __init__(self, spread: float) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(48, 16, bias=False), nn.Linear(16, 48, bias=False)
        nn.init.normal_(self.down.weight, std=spread) if spread else nn.init.zeros_(
            self.down.weight
        )
        nn.init.zeros_(self.up.weight)

    def changed(self, rows: Tensor) -> Tensor:
        return rows + self.up(self.down(rows))


@faulty(
    "both factors of an adapter begin at zero",
    "Both factors begin at zero, so that neither has a gradient, and the encoder is frozen.",
    (*STILL, r"(?i)adapter|factors?\b|\blora\b"),
)
def adapter_of_zeros(stage: Stage) -> None:
    """A low-rank adapter by hand, `zeros` for both factors."""
    behind(
        stage, PAPERS, lambda: Adapter(0), lambda: Adapter(0.3),
        is_frozen=True, learning_rate=2e-2, max_steps=60,
    )  # fmt: skip


class Rectified(Behind):
    """A layer with a rectifier and a start of its bias."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.linear = nn.Linear(48, 48)
        nn.init.constant_(self.linear.bias, start)

    def changed(self, rows: Tensor) -> Tensor:
        return torch.relu(self.linear(rows))


@faulty(
    "rectifier that is never active",
    "The head's bias begins far below 0, so that its rectifier returns zeros for all texts and has "
    "no gradient.",
    (
        *STILL,
        r"(?i)relu|rectif|dead|inactive|zeros?\b|collaps",
        r"(?i)(same|equal|identical|one) (point|embedding|vector)",
    ),
)
def rectifier_never_active(stage: Stage) -> None:
    """A bias of a classifier for rare classes, kept for a head of embeddings."""
    behind(stage, SHOP, lambda: Rectified(-10.0), lambda: Rectified(0.1))

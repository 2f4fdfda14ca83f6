"""Losses of the library with options that cannot work: scales, margins, guides, partners."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.fault_subjects import (
    BANK,
    MATCHES,
    NO_NEGATIVES,
    PARTS,
    SWIFT,
    UNMOVED,
    reader,
    sought_of,
    tuned,
)
from tests.judgement.first.fields import HELPDESK
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.sentence_training import losses


@faulty(
    "guide's margin that drops every negative",
    "The margin of the guided loss is 2, so that the guide takes every other row for a false "
    "negative, and none is left.",
    [r"(?i)margin|guide", *NO_NEGATIVES, *UNMOVED],
)
def guide_that_drops_every_negative(stage: Stage) -> None:
    """`GISTEmbedLoss(..., margin=2)`, a margin for distances."""

    def of_margin(margin: float) -> Any:
        guide = tuned(stage, MATCHES, 10)
        return lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05, margin=margin)

    table = MATCHES.table(160)
    suffers(
        stage,
        stage.trainer(of_margin(2.0), table, reader(stage, MATCHES), **SWIFT),
        lambda: stage.trainer(of_margin(0.0), table, reader(stage, MATCHES), **SWIFT),
        sought_of(MATCHES),
    )


@faulty(
    "margins of positives and negatives exchanged",
    "The positives need to reach a cosine of 0.1 only, and negatives are pushed apart from 0.9 on: "
    "the two margins were handed over in the wrong order.",
    [r"(?i)margins?", *UNMOVED, r"(?i)loss .{0,40}(zero|0\b|vanish)|satisfied|no gradient"],
)
def margins_of_mega_batches_exchanged(stage: Stage) -> None:
    """`MegaBatchMarginLoss(model, 0.1, 0.9)`."""

    def of_margins(first: float, second: float) -> Any:
        return lambda model: losses.MegaBatchMarginLoss(
            model, first, second, use_mini_batched_version=False
        )

    table = BANK.table(160)
    settings = {"max_steps": 60, "learning_rate": 1e-3}
    suffers(
        stage,
        stage.trainer(of_margins(0.1, 0.9), table, tuned(stage, BANK, 4), **settings),
        lambda: stage.trainer(of_margins(0.9, 0.1), table, tuned(stage, BANK, 4), **settings),
        sought_of(BANK),
    )


@faulty(
    "dot products at the scale of cosines",
    "Cosines were replaced by dot products of long vectors, and the scale of 20 was kept: the "
    "softmax has one candidate only, and the gradients are noise.",
    [
        r"(?i)dot|norms?\b|normali[sz]|length of the (embeddings?|vectors?)",
        r"(?i)scale|temperature|sharp|satur|logits?|one-hot|peaked",
    ],
)
def dot_products_scaled_by_twenty(stage: Stage) -> None:
    """`MultipleNegativesRankingLoss(model, similarity_fct=dot_score)`."""
    from sentence_transformers.util import cos_sim, dot_score

    def of_similarity(similarity: Any) -> Any:
        return lambda model: losses.MultipleNegativesRankingLoss(model, similarity_fct=similarity)

    table = PARTS.table(160)
    settings = {"max_steps": 30, "learning_rate": 1e-3}
    suffers(
        stage,
        stage.trainer(of_similarity(dot_score), table, reader(stage, PARTS), **settings),
        lambda: stage.trainer(of_similarity(cos_sim), table, reader(stage, PARTS), **settings),
        sought_of(PARTS),
    )


@faulty(
    "nested loss without the full width",
    "The nested loss names the smallest width only: the first four features are trained, and in "
    "use all 48 are compared.",
    [r"(?i)matryoshka|nested|dimension|width|truncat"],
)
def nested_loss_of_four_features_only(stage: Stage) -> None:
    """`matryoshka_dims=[4]`."""

    def of_widths(*widths: int) -> Any:
        return lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), matryoshka_dims=list(widths)
        )

    table = HELPDESK.table(160)
    suffers(
        stage,
        stage.trainer(of_widths(4), table, reader(stage, HELPDESK), **SWIFT),
        lambda: stage.trainer(of_widths(48, 4), table, reader(stage, HELPDESK), **SWIFT),
        sought_of(HELPDESK),
    )

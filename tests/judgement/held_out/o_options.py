"""Options of the trainer and of sentence-transformers' losses that undo a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentence_transformers import util
from sentence_transformers.sentence_transformer.losses import (
    BatchAllTripletLoss,
    GISTEmbedLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    TripletDistanceMetric,
    TripletLoss,
)

from tests.judgement.case import faulty
from tests.judgement.first.fields import Field
from tests.judgement.held_out.o_fields import (
    BAKERY,
    CLAIMS,
    COLLAPSE,
    GARDEN,
    HARBOUR,
    HOTEL,
    OBSERVATORY,
    STATION,
    STILL,
    TEMPERATURE,
    ranking,
    score_of,
    trainees,
    with_near,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

BRISK = {"learning_rate": 2e-3, "max_steps": 60}


def compared(
    stage: Stage, field: Field, slip: Mapping[str, Any], mended: Mapping[str, Any], *,
    losses: Sequence[Any] = (ranking, ranking), table: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:  # fmt: skip
    """Play a trainer with the faulty arguments, or the first loss, beside the mended ones."""
    fresh, rows = trainees(stage, field, **options), table or field.table(240)
    suffers(
        stage,
        stage.trainer(losses[0], rows, fresh(), **{**BRISK, **slip}),
        lambda: stage.trainer(losses[1], rows, fresh(), **{**BRISK, **mended}),
        score_of(field),
    )


@faulty(
    "learning rate far too high",
    "The rate of 0.3 is meant for plain SGD and is used with AdamW: weights are thrown about.",
    [
        r"(?i)(learning rate|\brate\b|\blr\b|steps?|updates?).{0,80}(high|large|big|great|lower)",
        r"(?i)diverg|unstable|overshoot|explod|thrown|jump",
        r"(?i)(lower|reduce|smaller|decrease).{0,40}(rate|lr)",
    ],
)
def adamw_at_a_rate_of_sgd(stage: Stage) -> None:
    """Everyday: the optimiser is changed and the rate stays."""
    compared(stage, GARDEN, {"learning_rate": 0.3}, {})


@faulty(
    "learning rate far too low",
    "The rate is 2e-7, a slip for 2e-5 or more: the weights do not move in the steps there are.",
    [*STILL, r"(?i)(raise|higher|increase|larger).{0,40}(rate|lr)"],
)
def rate_with_two_zeros_in_excess(stage: Stage) -> None:
    """Everyday: a slip in the exponent."""
    compared(stage, STATION, {"learning_rate": 2e-7}, {})


@faulty(
    "warm-up longer than the training",
    "The rate warms up over 5000 steps, of which the run has 60: it never comes near its value.",
    [*STILL, r"(?i)warm-?\s?up|schedul"],
)
def warm_up_of_five_thousand_steps(stage: Stage) -> None:
    """Common: settings of a large run are taken over for a small one."""
    compared(stage, HARBOUR, {"warmup_steps": 5000, "learning_rate": 1e-3}, {})


@faulty(
    "no negatives in a batch",
    "The batch has one pair, so that the ranking loss has no negatives and is always zero; "
    "accumulation does not add any.",
    [
        r"(?i)batch.{0,60}(size|one|\b1\b|single|small)|(size|pair|row).{0,40}batch",
        *COLLAPSE,
        r"(?i)loss.{0,60}(zero|\b0\b)",
    ],
)
def batches_of_one_pair_accumulated(stage: Stage) -> None:
    """Everyday where memory is short: batch 1 and accumulation 16, with in-batch negatives."""
    slip = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8}
    compared(stage, CLAIMS, {**slip, "max_steps": 30}, {"max_steps": 50}, layers=1)


@faulty(
    "scale that is a temperature",
    "The loss multiplies cosines by its scale, and is handed a temperature of 0.01: logits "
    "are all within 0.01 of zero.",
    TEMPERATURE,
)
def scale_of_a_hundredth(stage: Stage) -> None:
    """Everyday: `MultipleNegativesRankingLoss(model, scale=0.01)`."""

    def damped(model: Any) -> Any:
        return MultipleNegativesRankingLoss(model, scale=0.01)

    settings = {"optim": "sgd", "learning_rate": 0.3, "max_steps": 80}
    compared(stage, BAKERY, settings, settings, losses=(damped, ranking))


@faulty(
    "dot products with the scale of cosines",
    "Dot products of embeddings that are not normalised are multiplied by 100, a scale meant "
    "for cosines: the softmax is saturated from the start.",
    [*TEMPERATURE, r"(?i)dot|normali[sz]|cosine|similarity_fct|\bnorms?\b"],
)
def dot_products_times_a_hundred(stage: Stage) -> None:
    """Common: `similarity_fct=util.dot_score` with a scale of cosines, where 1 is advised."""

    def dots(model: Any) -> Any:
        return MultipleNegativesRankingLoss(model, scale=100.0, similarity_fct=util.dot_score)

    compared(stage, OBSERVATORY, {"max_steps": 40}, {"max_steps": 40}, losses=(dots, ranking))


@faulty(
    "margin of zero",
    "The margin of the triplet loss by cosine is 0: it is content as soon as a positive is "
    "nearer than its hard negative by anything at all.",
    [r"(?i)margin", *STILL, r"(?i)loss.{0,60}(zero|\b0\b)|satisf|content|easy"],
)
def cosine_triplets_without_a_margin(stage: Stage) -> None:
    """Common: a margin of 0 or 0.01 after a look at distances of untrained texts."""

    def margin(size: float) -> Any:
        return lambda model: TripletLoss(
            model, distance_metric=TripletDistanceMetric.COSINE, triplet_margin=size
        )

    compared(stage, HOTEL, {}, {}, losses=(margin(0.0), margin(0.4)), table=with_near(HOTEL))


@faulty(
    "guide and margin that exclude all negatives",
    "The guide is an untrained encoder for which all texts are alike, and all candidates within "
    "a margin of 1 of the positive are excluded: no negatives stay.",
    [
        r"(?i)guide|margin|mask|exclud|filter",
        *COLLAPSE,
        r"(?i)loss.{0,60}(zero|\b0\b)",
        *STILL,
    ],
)
def guide_that_excludes_all_candidates(stage: Stage) -> None:
    """Common with GISTEmbedLoss: a margin of the wrong size or sign, or a guide that collapsed.

    Mended without a guide.
    """
    guide = trainees(stage, GARDEN)()

    def guided(model: Any) -> Any:
        return GISTEmbedLoss(model, guide, margin_strategy="absolute", margin=1.0)

    compared(stage, GARDEN, {}, {}, losses=(guided, ranking))


@faulty(
    "truncated dimensions only",
    "The full width is not among the lengths of the Matryoshka loss: of 48 dimensions only the "
    "first two and four are trained, and all are in use.",
    [
        r"(?i)matryoshka|dimension|truncat|\bdims?\b|prefix",
        r"(?i)rank|spread|variance|full (width|length|size)",
    ],
)
def matryoshka_without_the_full_width(stage: Stage) -> None:
    """Common: `matryoshka_dims` lists the small lengths that are wanted and not the model's."""

    def nested(*widths: int) -> Any:
        return lambda model: MatryoshkaLoss(model, ranking(model), matryoshka_dims=list(widths))

    compared(stage, STATION, {}, {}, losses=(nested(4, 2), nested(48, 4, 2)))


@faulty(
    "classes without two of a kind in a batch",
    "Labels number rows, where they should number classes, so that each class has one text: there "
    "are no triplets in any batch and the loss is 0.",
    [
        r"(?i)(label|class)\w*.{0,80}(unique|one text|single|once|distinct|different|row|"
        r"no (pair|triplet|positive)|own)",
        r"(?i)(no|without|lacks?).{0,30}(triplet|positive|pairs?)|sampler",
        r"(?i)loss.{0,60}(zero|\b0\b)",
        *STILL,
    ],
)
def batch_triplets_of_rows_numbered_as_classes(stage: Stage) -> None:
    """Common: ids of rows are taken for the label column of a batch-triplet loss."""
    columns = list(BAKERY.table(120).values())
    texts = [text for row in zip(*columns, strict=True) for text in row]
    fresh, settings = trainees(stage, BAKERY), {**BRISK, "max_steps": 80}

    def table(of_each: int) -> dict[str, list[Any]]:
        return {"text": texts, "label": [at // of_each for at in range(len(texts))]}

    def trainer(of_each: int, **options: Any) -> Any:
        return stage.trainer(BatchAllTripletLoss, table(of_each), fresh(), **settings, **options)

    suffers(stage, trainer(1), lambda: trainer(2, batch_sampler="group_by_label"), score_of(BAKERY))


@faulty(
    "schedule for a fraction of the steps",
    "The schedule was made for 5 steps (epochs, or batches over processes) and has decayed to 0 "
    "when the training has hardly begun.",
    [*STILL, r"(?i)schedul|decay|lr_lambda|total steps|num_training_steps"],
)
def schedule_that_ends_after_five_steps(stage: Stage) -> None:
    """Common: `num_training_steps` is the number of epochs, or divided once too often."""

    def trainer(total: int) -> Any:
        model = trainees(stage, CLAIMS)()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: max(0.0, 1 - step / total)
        )
        table = CLAIMS.table(240)
        return stage.trainer(ranking, table, model, optimizers=(optimizer, schedule), **BRISK)

    suffers(stage, trainer(5), lambda: trainer(60), score_of(CLAIMS))


@faulty(
    "clipping of gradients to almost nothing",
    "max_grad_norm is 1e-5, and the optimiser is plain SGD: each step is as long as the rate "
    "times 1e-5.",
    [*STILL, r"(?i)clip|max_grad_norm|gradients?.{0,60}(small|tiny|cut|limit)"],
)
def norm_of_gradients_at_most_a_hundred_thousandth(stage: Stage) -> None:
    """Common: an epsilon or a rate stands in the place of the norm."""
    settings = {"optim": "sgd", "learning_rate": 0.5, "max_steps": 80}
    compared(stage, HARBOUR, {**settings, "max_grad_norm": 1e-5}, settings)


@faulty(
    "epsilon of Adam far above the gradients",
    "Adam's epsilon is 10 and not 1e-8: gradients are divided by it and not by their own size.",
    [*STILL, r"(?i)epsilon|\beps\b|adam"],
)
def adam_with_an_epsilon_of_ten(stage: Stage) -> None:
    """Seen where epsilon is raised against instability of half precision, or typed as 1e1."""
    compared(stage, HOTEL, {"adam_epsilon": 10.0}, {}, kind="distilbert")

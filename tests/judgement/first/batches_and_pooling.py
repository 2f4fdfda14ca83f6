"""Faults of batches, and of embeddings that depend on the texts beside them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    Batches,
    cosine_scores,
    embed,
    infonce,
    looped,
    ordinary_loop,
    plain_update,
    ranking,
    uneven,
)
from tests.judgement.stage import Stage, classes, facts, pairs, passage, question
from tests.judgement.truth import among_alike, falls_short, reciprocal_rank, suffers
from tests.sentence_training import losses

BESIDE = [
    r"(embedding|text)s?.{0,120}(depend|differ|chang)\w*.{0,80}(batch|other|beside|alone|padd|next)",
    r"(batch|beside|alone|one by one|padding).{0,100}(depend|differ|chang|another|other embedding)",
    r"batch.?(statistic|normali[sz]|norm)|statistics of (the|each|its) batch",
]


def in_batches(model: Any) -> float:
    """The reciprocal rank where short texts stand beside long ones, in the order of a file."""
    with torch.no_grad():
        model.eval()
        embeddings = [embed(model, column) for column in Batches(model, uneven(96, 11))(range(96))]
    return reciprocal_rank(*(rows.numpy() for rows in embeddings))


class MeanOverPadding(torch.nn.Module):
    """A mean over all tokens that forgets the attention mask."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        features["sentence_embedding"] = features["token_embeddings"].mean(1)
        return features

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save nothing: there are no weights."""


def with_module(base: Any, module: torch.nn.Module, *, instead: bool = False) -> Any:
    """The encoder with a module behind its pooling, or in its place."""
    from sentence_transformers import SentenceTransformer

    modules = [base[0]] if instead else [*base]
    return SentenceTransformer(modules=[*modules, module], device="cpu")


@faulty(
    "mean over padding",
    "A pooling module of one's own takes the mean over all tokens, padding included: a short text "
    "beside a long one has another embedding than alone.",
    [*BESIDE, r"padd|attention.?mask"],
    never=[MORE_OF_THE_SAME],
)
def mean_that_forgets_the_mask(stage: Stage) -> None:
    table = uneven()
    suffers(
        stage,
        stage.trainer(
            ranking, table, with_module(stage.model(), MeanOverPadding(), instead=True), **FAST
        ),
        lambda: stage.trainer(ranking, table, **FAST),
        in_batches,
        share=None,
    )


def one_by_one(model: Any) -> float:
    """The reciprocal rank where each text is embedded in a batch of its own."""
    questions, passages = uneven(60, seed=11).values()
    return reciprocal_rank(
        model.encode(questions, batch_size=1, show_progress_bar=False),
        model.encode(passages, batch_size=1, show_progress_bar=False),
    )


class LessItsBatch(MeanOverPadding):
    """Subtracts the mean embedding of the batch, in use as well as in training."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        rows = features["sentence_embedding"]
        features["sentence_embedding"] = rows - rows.mean(0)
        return features


@faulty(
    "embeddings less the mean of their batch",
    "A module centres the embeddings by the mean of the batch, also in use: a text that is "
    "embedded on its own is the zero vector.",
    BESIDE,
    never=[MORE_OF_THE_SAME],
)
def centred_by_the_batch(stage: Stage) -> None:
    table = pairs()
    suffers(
        stage,
        stage.trainer(ranking, table, with_module(stage.model(), LessItsBatch()), **FAST),
        lambda: stage.trainer(ranking, table, **FAST),
        one_by_one,
    )


class NormOfBatch(MeanOverPadding):
    """A batch normalisation that uses the statistics of each batch, also in use."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(32, track_running_stats=False)

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        features["sentence_embedding"] = self.norm(features["sentence_embedding"])
        return features


@faulty(
    "batch normalisation without running statistics",
    "A layer of batch normalisation behind the pooling keeps no running statistics: in use, too, "
    "an embedding depends on the texts beside it.",
    BESIDE,
    never=[MORE_OF_THE_SAME],
)
def batch_norm_behind_the_pooling(stage: Stage) -> None:
    """A fault that shows in use: the score embeds the questions in batches of two."""

    def in_twos(model: Any) -> float:
        questions, passages = pairs(60, seed=11).values()
        return reciprocal_rank(
            model.encode(questions, batch_size=2, show_progress_bar=False),
            model.encode(passages, batch_size=2, show_progress_bar=False),
        )

    suffers(
        stage,
        stage.trainer(ranking, pairs(), with_module(stage.model(), NormOfBatch()), **FAST),
        lambda: stage.trainer(ranking, pairs(), **FAST),
        in_twos,
    )


ONE_IN_BATCH = [
    r"batch.{0,80}(\bone\b|single|\b1\b|small)",
    r"(no|without|0|zero|lacks?) (in-batch )?negative|loss.{0,60}(\b0\b|zero)",
]


@faulty(
    "batches of a single pair",
    "For want of memory a batch has one pair, and sixteen are accumulated: the loss, whose "
    "negatives are the rest of its batch, is always 0.",
    ONE_IN_BATCH,
    never=[MORE_OF_THE_SAME],
)
def one_pair_at_a_time(stage: Stage) -> None:
    single = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), max_steps=20, **single, **FAST),
        lambda: stage.trainer(ranking, pairs(), max_steps=20, **FAST),
        among_alike,
    )


FALSE_NEGATIVES = [
    r"false negative|(same|repeat|duplicat|equal|identical).{0,100}(text|positive|answer|passage)",
    r"(text|positive|answer|passage)s?.{0,100}(repeat|duplicat|same|equal|identical|often|times)",
    r"no_duplicates",
]


@faulty(
    "answers shared within a batch",
    "A help desk has five answers for all its questions: in each batch the answer to a question "
    "is also the answer to several others, and counts as their negative.",
    FALSE_NEGATIVES,
    tools=(DOCTOR, REPORT, INSPECT),
    never=[MORE_OF_THE_SAME],
)
def five_answers_for_all_questions(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2423: several positives."""
    asked = facts(160)
    few = {
        "anchor": [*map(question, asked)],
        "positive": [passage(asked[row % 5]) for row in range(160)],
    }
    stage.inspect(few)
    suffers(
        stage,
        stage.trainer(ranking, few, **FAST),
        lambda: stage.trainer(ranking, pairs(), **FAST),
        among_alike,
    )


@faulty(
    "no two rows of a class in a batch",
    "A triplet loss over classes draws small batches at random from many classes: they hold "
    "almost no two texts of a class, and the loss has nothing to draw together.",
    [
        r"class.{0,120}(batch|two|pair|once|single|alone|positive)",
        r"(no|few|without) (positive|pair|triplet)|group_by_label|same (class|label)",
    ],
    never=[MORE_OF_THE_SAME],
)
def forty_classes_in_batches_of_four(stage: Stage) -> None:
    table = classes(320, of_each=4)

    def soft(model: Any) -> Any:
        return losses.BatchHardSoftMarginTripletLoss(model)

    small = {"per_device_train_batch_size": 4, **FAST}
    suffers(
        stage,
        stage.trainer(soft, table, **small),
        lambda: stage.trainer(soft, table, batch_sampler="group_by_label", **FAST),
        among_alike,
    )


@faulty(
    "the first batch again and again",
    "The loop takes next(iter(loader)) at each step, of a loader that does not shuffle: all steps "
    "see the first sixteen rows.",
    [
        r"(same|first|one) (\d+ )?(batch|row|text|pair|sentence)s?|repeat|memori[sz]|overfit|"
        r"few (text|pair|row|sentence)s",
    ],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def first_batch_at_each_step(stage: Stage) -> None:
    model = stage.model()
    draw = Batches(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scores = looped(stage, model, infonce, plain_update(model, lambda: draw(range(16)), optimizer))
    falls_short(stage, scores, ordinary_loop(stage))


@faulty(
    "only pairs that fit",
    "CosineSimilarityLoss is given paraphrases only, all with the score 1: one embedding for all "
    "texts has the loss 0.",
    [
        r"(label|score)s?.{0,80}(same|all|equal|constant|one value|identical|1\b)",
        r"(no|only|without) (negative|positive|pairs? that)|collaps|same (direction|point)",
    ],
    never=[MORE_OF_THE_SAME],
)
def cosine_loss_on_paraphrases_only(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/2365: all texts alike."""
    table = pairs()
    suffers(
        stage,
        stage.trainer(cosine_scores, table | {"score": [1.0] * 160}, **FAST),
        lambda: stage.trainer(ranking, table, **FAST),
        among_alike,
    )

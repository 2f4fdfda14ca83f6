"""Batches: one row, the first batch again and again, classes too rare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.hand_loops import batches, compare, fit, infonce
from tests.judgement.stage import Stage, classes, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
LONE = (
    r"(no|without|lacks?|zero|not one) .{0,20}(in-batch )?negatives?", r"batch.{0,40}\b(1|one)\b",
    r"(larger|bigger|greater|raise|increase).{0,30}batch", r"accumulat",
    r"(one|1|single) (row|pair)",
    r"(loss|gradient)s?.{0,60}(zero|\b0\b|none|nothing)", r"fewer? negatives",
)  # fmt: skip
AGAIN = (
    r"same (batch|texts|rows|pairs|data)", r"repeat", r"again", r"first batch", r"shuffl",
    r"\d+ (different|distinct) (rows|texts)", r"memori[sz]", r"overfit", r"learn\w* by heart",
    r"(loss|gradient).{0,80}(\b0\b|zero|vanish|near 0|tiny|sudden|fast|quick)", r"iter\(",
    r"solved",
    r"few (rows|texts|batches)",
)  # fmt: skip
RARE = (
    r"(no|few|without|lack\w*|hardly any) (positive|pair|partner|triplet)s?", r"group_by_label",
    r"(class|label)(es|s)?.{0,80}(once|one|single|1|rare|few|alone|batch)",
    r"batch.{0,80}(class|label|positive)", r"(no|zero) (loss|gradient)", r"sampler",
    r"(loss|gradient).{0,60}(\b0\b|zero|nothing)", r"triplets?.{0,60}(none|few|no\b)",
)  # fmt: skip


@faulty(
    "batch of one row with accumulation",
    "To save memory a batch is one row and gradients are accumulated over eight: accumulation "
    "makes no negatives, and the loss of one row is 0.",
    LONE,
)
def one_row_and_accumulation(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, pairs(), per_device_train_batch_size=1, max_steps=12,
                      gradient_accumulation_steps=8, logging_steps=1),
        lambda: stage.trainer(ranking, pairs()),
    )  # fmt: skip


@faulty(
    "first batch of the loader in each step",
    "The step takes next(iter(loader)) of a loader that does not shuffle: each step sees the first "
    "eight pairs.",
    AGAIN,
    tools=(REPORT,),
)
def first_batch_in_each_step(stage: Stage) -> None:
    def training(model: Any, watch: Callable[[Any], Any], is_faulty: bool) -> None:
        rows = list(batches(pairs(), 50, size=8))
        fit(model, watch(infonce), rows=[rows[0]] * 50 if is_faulty else rows)

    compare(stage, training, among_alike, steps=50)


@faulty(
    "pairs of a class scattered over batches",
    "Each of 160 classes has two texts, and batches are drawn at random: hardly any batch has "
    "two texts of a class, so that no triplet can be made.",
    RARE,
)
def two_texts_of_a_class(stage: Stage) -> None:
    def of(sampler: str) -> Any:
        return stage.trainer(
            losses.BatchAllTripletLoss,
            classes(320, of_each=2),
            batch_sampler=sampler,
            learning_rate=1e-3,
        )

    suffers(stage, of("batch_sampler"), lambda: of("group_by_label"))

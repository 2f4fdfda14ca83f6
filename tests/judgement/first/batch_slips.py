"""Batches: what a loader or a sampler puts together."""

from __future__ import annotations

from collections.abc import Iterator

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.scenes import (
    Batch,
    across,
    bilingual,
    by_hand,
    drawn,
    inspect_tuned,
    loop_suffers,
)
from tests.judgement.stage import FILLERS, Stage
from tests.judgement.truth import suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 80}


def answered_alike(count: int = 40, of_each: int = 16) -> dict[str, list[str]]:
    """Several questions in a row for each passage."""
    table = bilingual(count)
    return {
        "anchor": [f"{text} {FILLERS[at]}" for text in table["anchor"] for at in range(of_each)],
        "positive": [text for text in table["positive"] for _ in range(of_each)],
    }


@faulty(
    "repeated answers side by side",
    "The rows of an answer stand side by side and are read in order: a batch holds one answer, "
    "which is also its negative.",
    (
        r"duplicat",
        r"repeat",
        r"same (text|positive|passage|answer)",
        r"identical",
        r"false negative",
        r"distinct",
        r"(order|sort|shuffl)",
        r"sequential",
        r"share a (text|positive)",
    ),
    tools=(DOCTOR, REPORT, INSPECT),
)
def questions_of_one_answer_in_order(stage: Stage) -> None:
    from torch.utils.data import BatchSampler, SequentialSampler

    table = answered_alike()
    trainer = stage.trainer(ranking, table, **PLAN)
    trainer.get_batch_sampler = lambda dataset, batch_size, drop_last, **_: BatchSampler(
        SequentialSampler(dataset), batch_size, drop_last
    )
    suffers(
        stage,
        trainer,
        lambda: stage.trainer(ranking, table, batch_sampler="no_duplicates", **PLAN),
        across,
    )
    inspect_tuned(stage, table)


@faulty(
    "batches of one row",
    "The batch was cut to one row to save memory; a ranking loss then has no negative at all.",
    (
        r"batch.{0,40}\b(1|one|single)\b",
        r"\b(1|one|single)\b.{0,40}batch",
        r"no (in-batch )?negatives?",
        r"without (any )?negatives?",
        r"(loss|gradient) .{0,60}(\b0\b|zero|none)",
        r"no gradient",
        r"(too )?(few|small).{0,30}(negative|batch)",
    ),
)
def one_row_in_a_batch(stage: Stage) -> None:
    single = {**PLAN, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), **single),
        lambda: stage.trainer(ranking, bilingual(640), **PLAN),
        across,
    )


def _apart() -> Iterator[Batch]:
    """Questions and passages from two loaders, each of which shuffles on its own."""
    table = bilingual(640)
    loaders = drawn(table, seed=1), drawn(table, seed=2)
    while True:
        yield next(loaders[0])[0], next(loaders[1])[1]


@faulty(
    "columns shuffled apart",
    "Questions and passages come from two loaders that both shuffle: the rows of a batch do not "
    "belong together.",
    (
        r"shuffl",
        r"unrelated",
        r"(not|n.t) (belong|match|fit|correspond)",
        r"(chance|random)",
        r"align",
        r"(positive|pair)s? .{0,80}(no|not) (nearer|closer|more alike|above)",
        r"(does not|never|n.t) (fall|decrease|learn|improve)",
        r"no progress",
        r"wrong (row|pair)",
    ),
    tools=(REPORT,),
)
def two_loaders_that_both_shuffle(stage: Stage) -> None:
    loop_suffers(
        stage,
        lambda criterion: by_hand(stage.model(), criterion, _apart()),
        lambda criterion: by_hand(stage.model(), criterion),
    )


def _first_again() -> Iterator[Batch]:
    """The first batch of a loader that is made anew for each step."""
    while True:
        yield next(drawn(bilingual(640)))


@faulty(
    "first batch over and over",
    "The loop asks a new iterator for its first batch in each step, and learns one batch by heart.",
    (
        r"same (batch|row|text|example|embedding)",
        r"(one|first|single) batch",
        r"repeat",
        r"over and over",
        r"by heart",
        r"memori[sz]",
        r"overfit",
        r"(loss|task) .{0,60}(solved|near(ly)? (0|zero)|\b0\b|too easy|nothing left)",
        r"(loss|gradient) .{0,40}(zero|vanish)",
        r"nothing (left|more) to learn",
    ),
    tools=(REPORT,),
)
def iterator_made_in_each_step(stage: Stage) -> None:
    loop_suffers(
        stage,
        lambda criterion: by_hand(stage.model(), criterion, _first_again()),
        lambda criterion: by_hand(stage.model(), criterion),
    )

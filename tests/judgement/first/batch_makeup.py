"""Batches that lack what the loss needs of them."""

from __future__ import annotations

import random
from typing import Any

from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses
from torch.utils.data import DataLoader

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    adamw,
    embed,
    info_nce,
    offer,
    on_shelf,
    products,
    rivalled,
    sales,
    search,
    slips,
    sorts,
    tickets,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

ranking = losses.MultipleNegativesRankingLoss


@faulty(
    "an iterator over the loader at each step",
    "next(iter(loader)) in the loop begins a new pass at each step, and the loader does not "
    "shuffle: 16 rows are all that is trained.",
    (
        r"(same|first|few|only|single|one).{0,40}(batch|rows?|texts?|data)",
        r"(repeat|again|each step|every step|seen|over and over).{0,60}(batch|row|text|rows)?",
        r"memori[sz]|overfit|generali",
        r"(rows|data|table).{0,60}(left out|never|not (used|read|drawn)|share)",
    ),
)
def new_iterator_at_each_step(stage: Stage) -> None:
    """The loop takes a batch by next(iter(loader)), with shuffle left at False."""

    def setting(repetitions: bool) -> Setting:
        model = stage.model()
        loader = DataLoader(list(zip(*sales().values(), strict=True)), batch_size=16)
        optimizer, rows = adamw(model), iter(loader)

        def update(criterion: Any, step: int) -> None:
            nonlocal rows
            if repetitions or step % len(loader) == 0:
                rows = iter(loader)
            queries, offers = next(rows)
            optimizer.zero_grad()
            criterion(embed(model, queries), embed(model, offers)).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(True), lambda: setting(False), share=0.8)


def _joint(stage: Stage, sampler: str) -> Any:
    """A trainer of a large set of pairs and a small set of rated ones, for two passes."""
    model = stage.model()
    sets = {
        "sales": Dataset.from_dict(sales(640)),
        "extra": Dataset.from_dict(sales(16, seed=88)),
    }
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / f"run-{sampler}"),
        num_train_epochs=2,
        per_device_train_batch_size=16,
        learning_rate=1e-3,
        multi_dataset_batch_sampler=sampler,
        seed=7,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
    )
    return SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=sets, loss=ranking(model)
    )


@faulty(
    "a round robin that ends with its smallest set",
    "ROUND_ROBIN stops when the smallest set is used up: of 640 pairs 16 are trained in a pass.",
    (
        r"round.?robin|proportional|smallest|runs? (dry|out)|used up|exhaust",
        r"(rows|data|set|pairs)\w*.{0,80}(never|left out|not (drawn|used|read|trained)|of 640)",
        r"(few|only|4|short).{0,30}steps",
    ),
)
def round_robin_over_a_tiny_second_set(stage: Stage) -> None:
    """A set of 16 pairs beside one of 640 in a round robin over whole passes."""
    suffers(stage, _joint(stage, "round_robin"), lambda: _joint(stage, "proportional"), on_shelf)


class InOrder(SentenceTransformerTrainer):
    """A trainer that draws rows in the order of the table."""

    def get_batch_sampler(self, dataset: Any, batch_size: int, **options: Any) -> Any:
        from torch.utils.data import BatchSampler, SequentialSampler

        return BatchSampler(SequentialSampler(dataset), batch_size, drop_last=False)


@faulty(
    "classes in order",
    "Rows are sorted by class and not shuffled: a batch holds one class, and the loss no negative.",
    (
        r"(one|single|1|same) class|no negative|without (a )?negative|sorted|in order|shuffl",
        r"class(es)?.{0,60}(batch|alone|single|one)",
        r"collaps|alike|spread",
        r"(loss|gradient)s?.{0,60}(zero|0\b|constant)",
    ),
)
def tickets_sorted_by_class(stage: Stage) -> None:
    """Tickets come sorted from the database, and the trainer was told not to shuffle."""
    table = tickets(24, 16, shuffled=False)

    def loss(model: Any) -> Any:
        return losses.BatchHardSoftMarginTripletLoss(model)

    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(loss, table, kind=InOrder, **settings),
        lambda: stage.trainer(loss, table, batch_sampler="group_by_label", **settings),
        sorts,
    )


@faulty(
    "batches of a single product kind",
    "A sampler fills batches with copies of a query's neighbours: 15 of 16 positives in a batch "
    "answer each query as well.",
    (
        r"false negative|duplicat|copies|repeat|alike|near",
        r"(text|positive|quer|row)\w*.{0,60}(times|more than once|several|distinct|equal|similar)",
    ),
)
def paraphrases_side_by_side_in_batches(stage: Stage) -> None:
    """Sixteen paraphrases of each search stand side by side and are not shuffled."""
    draw = random.Random(2)
    rows = [(" ".join(draw.sample(search(row).split(), 6)), offer(row)) for row in products(40)
            for _ in range(16)]  # fmt: skip
    table = {"query": [row[0] for row in rows], "offer": [row[1] for row in rows]}
    settings = {"learning_rate": 1e-3, "max_steps": 40}
    suffers(
        stage,
        stage.trainer(ranking, table, kind=InOrder, **settings),
        lambda: stage.trainer(ranking, table, batch_sampler="no_duplicates", **settings),
        rivalled,
    )

"""Samplers, collators and mixtures of datasets that make batches which teach little."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.bodies import encoder
from tests.judgement.held_out import n_fields as fields
from tests.judgement.held_out.n_fields import among_near, harms, mixture, rated, strict, vocabulary
from tests.judgement.held_out.n_labels import CONSTANT, LONG, PARTNERLESS, grouped, mates
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.sentence_training import losses

SORTED = (
    r"sort|shuffl|order of (the )?(rows|table|dataset)|sequential|in order|consecutive|neighbo",
    r"(one|same|single|only) (class|label|topic|question|score|text|answer)|batch.{0,60}alike",
)
REPEATED = (
    r"duplicat|repeat|identical|same (text|row|pair|passage|positive|answer|batch)|distinct|"
    r"unique|over and over|false negative|again",
    r"NO_DUPLICATES|no.duplicates",
)
APART = (
    r"(pairs?|rows|views|positives?|columns?).{0,80}(mis-?match|mis-?align|not belong|shuffl|"
    r"unrelated|nothing in common|chance|no more alike|sort|wrong|permut)",
    r"(mis-?match|mis-?align|unrelated|shuffl|sort|permut)\w*.{0,60}(pair|row|view|positive|column)",
    r"collat",
)


def in_order(dataset: Any, **options: Any) -> Any:
    """A batch sampler that takes rows as they stand."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from torch.utils.data import SequentialSampler

    return DefaultBatchSampler(SequentialSampler(dataset), **options)


@faulty(
    "rows sorted by class and not shuffled",
    "The table is sorted by class and read in order: a batch has texts of one class only, so that "
    "no triplets with a negative exist.",
    (*SORTED, *CONSTANT, *PARTNERLESS, r"(no|few|without) (negative|triplet)s?"),
)
def classes_read_in_sorted_order(stage: Stage) -> None:
    """Everyday: a file sorted by label and a sampler of one's own without shuffling."""
    field = fields.GARDEN
    table = grouped(field, 440)
    order = sorted(range(440), key=lambda at: table["label"][at])
    table = {name: [cells[at] for at in order] for name, cells in table.items()}
    harms(stage, field, table, table, loss=losses.BatchHardSoftMarginTripletLoss,
          score=mates(field), faulty_settings={"batch_sampler": in_order},
          settings={"learning_rate": 1e-3, "per_device_train_batch_size": 24,
                    "max_steps": 60})  # fmt: skip


@faulty(
    "augmented copies next to each other in a batch",
    "Each pair stands in the table in eight rephrasings, one after the other, and is read in "
    "order: nearly all negatives in a batch are rephrased positives.",
    (*SORTED, *REPEATED, r"near.duplicate|augment|paraphras|rephras|too (similar|alike)"),
)
def rephrasings_side_by_side(stage: Stage) -> None:
    """Augmentation that writes the copies of a row below it, without shuffling afterwards."""
    field = fields.PHRASES
    openings = ("look :", "yes ,", "well ,", "so", "indeed", "i say", "today", "hm ,")
    table = field.table(160)
    copies = {name: [f"{opening} {text}" for text in table[name] for opening in openings]
              for name in ("english", "german")}  # fmt: skip
    harms(stage, field, copies, copies, faulty_settings={"batch_sampler": in_order},
          settings={"per_device_train_batch_size": 8, "max_steps": 60,
                    "learning_rate": 1e-3}, score=partial(among_near, field))  # fmt: skip


@faulty(
    "scores sorted and not shuffled",
    "The pairs are sorted by score and read in order: scores in a batch are equal, and CoSENTLoss "
    "orders nothing.",
    (*SORTED, *CONSTANT),
)
def scores_read_in_sorted_order(stage: Stage) -> None:
    """Common where a table was sorted for inspection before training."""
    field = fields.PHRASES
    table = rated(field, 288)
    order = sorted(range(288), key=lambda at: table["score"][at])
    table = {name: [cells[at] for at in order] for name, cells in table.items()}
    harms(stage, field, table, table, loss=losses.CoSENTLoss,
          faulty_settings={"batch_sampler": in_order},
          settings=LONG)  # fmt: skip


@faulty(
    "columns sorted by length in the collator",
    "The collator sorts each column by the length of its texts to save padding, so that rows of "
    "the columns no longer belong together.",
    APART,
)
def collator_sorts_each_column(stage: Stage) -> None:
    """Subtle: sorting for equal lengths inside a collator of one's own."""
    field = fields.GARDEN
    table = field.table(160)

    def sorts(trainer: Any) -> None:
        collator = trainer.data_collator

        def collated(rows: list[dict[str, Any]]) -> Any:
            columns = {name: sorted((row[name] for row in rows), key=len) for name in rows[0]}
            return collator([dict(zip(columns, cells, strict=True))
                             for cells in zip(*columns.values(), strict=True)])  # fmt: skip

        collated.valid_label_columns = collator.valid_label_columns  # type: ignore[attr-defined]
        trainer.data_collator = collated

    harms(stage, field, table, table, adjust=sorts)


@faulty(
    "a sampler that yields the same rows",
    "The batch sampler of one's own always takes the first rows of the table: the other rows are "
    "never trained on.",
    (*REPEATED, r"overfit|memori[sz]|(few|small|tiny|never|only).{0,40}(rows|texts|examples|data)|"
     r"sampler|loss.{0,40}(to|at|near|is) (zero|0\b)"),
)  # fmt: skip
def first_rows_in_every_batch(stage: Stage) -> None:
    """A sampler whose position is not moved forward."""
    from sentence_transformers.base.sampler import DefaultBatchSampler

    class First(DefaultBatchSampler):
        def __iter__(self) -> Any:
            for _ in range(len(self)):
                yield list(range(self.batch_size))

    field = fields.CHESS
    table = field.table(160)
    harms(stage, field, table, table, faulty_settings={"batch_sampler": First},
          settings={"per_device_train_batch_size": 6, "max_steps": 60},
          score=partial(strict, field), width=64)  # fmt: skip


@faulty(
    "a batch sampler without duplicates on a constant column",
    "Every row has the same third text (the name of the source), so that the sampler without "
    "duplicates cannot put two rows into a batch: no negatives are there.",
    (*REPEATED, r"constant|batch(es)? (size )?(of|has|have|is|are|with) .{0,20}(1\b|one|single|"
     r"small)|(one|1|single) (row|pair|text)s?|(no|without|any) negatives?|(third|last|extra|"
     r"surplus|additional) column|source"),
)  # fmt: skip
def source_column_in_a_sampler_without_duplicates(stage: Stage) -> None:
    """A column of metadata left in a table, with NO_DUPLICATES."""
    field = fields.MUSEUM
    table = field.table(160)
    sourced = table | {"source": ["louvre"] * 160}
    harms(stage, field, sourced, table, settings={"batch_sampler": "no_duplicates"},
          texts=["louvre"])  # fmt: skip


@faulty(
    "a dataset of the mixture with other column order",
    "Of two datasets in the mixture, the larger has its hard negatives in the second column and "
    "works against the other.",
    [
        r"(column|field)s?.{0,80}(order|swap|exchang|position|revers)|order of (the )?columns?",
        r"(swap|exchang|revers)\w*.{0,60}(column|positive|negative)",
        r"negatives?.{0,80}(closer|nearer|more (alike|similar)|higher|above|exceed).{0,60}"
        r"positive",
        r"positives?.{0,80}(farther|further|less (alike|similar)|lower|below).{0,60}negative",
        r"datasets? .{0,60}(contradict|disagree|against|conflict)",
    ],
)
def swapped_columns_in_a_dataset_of_the_mixture(stage: Stage) -> None:
    """Common: datasets of different makers, trained together."""
    field = fields.GARDEN
    table = fields.triplets(field, 240)
    names = ("ask", "negative", "advice")
    mine = {name: cells[:48] for name, cells in table.items()}
    bought = {name: table[name][48:] for name in names}
    mended = {name: bought[name] for name in table}
    words = vocabulary(field, table)

    def trainer(second: Any) -> Any:
        model = encoder(stage, words)
        return mixture(stage, model, {"mine": mine, "bought": second}, fields.ranking(model))

    suffers(stage, trainer(bought), lambda: trainer(mended), partial(among_near, field))


@faulty(
    "a small dataset drowned in a large one",
    "Batches are drawn in proportion to size, and the dataset of the wanted task has one row in "
    "forty: training hardly meets it.",
    [
        r"proportion|drown|dominat|imbalanc|unbalanc|share of|rarely|seldom|outweigh|minority",
        r"(small|large|big|one|first|second)\w* dataset.{0,80}(most|nearly all|few|share|%|batch)",
        r"ROUND_ROBIN|round.robin|(over|up|down|re)-?sampl|datasets? sizes?",
        r"(few|never|hardly|only \d+|no) .{0,40}(batch|step|row)s?.{0,40}(dataset|of|from)",
    ],
)
def wanted_dataset_drowned_in_another(stage: Stage) -> None:
    """Everyday: a small set of one's own beside a large public one."""
    field, public = fields.KANJI, fields.HOTEL
    small, large = field.table(160), public.table(1000)
    large = {name: cells * 5 for name, cells in large.items()}
    words = vocabulary(field, small, large)

    def trainer(sampler: str) -> Any:
        model = encoder(stage, words, width=32)
        return mixture(stage, model, {"own": small, "public": large}, fields.ranking(model),
                       multi_dataset_batch_sampler=sampler)  # fmt: skip

    suffers(stage, trainer("proportional"), lambda: trainer("round_robin"), field.sought)


@faulty(
    "round robin ends with the smallest dataset",
    "Round robin stops as soon as the smallest dataset is used up, so that an epoch has two steps "
    "and nearly all rows are never seen.",
    [
        r"round.?robin|proportional|smallest|exhaust|used up|runs? out",
        r"(few|only \d+|\d+|too (few|short)|total|number of).{0,30}(steps|batches|updates)",
        r"(rows|texts|dataset|most of).{0,60}(never|not|unused|unseen)",
        r"(weights?|model|encoder).{0,60}(hardly|barely|little|not) (mov|chang|learn)",
        r"too (short|few)|warm-?up",
    ],
)
def round_robin_over_a_tiny_dataset(stage: Stage) -> None:
    """Subtle: one tiny dataset in the mixture shortens training to a few steps."""
    field, public = fields.NOVOSTI, fields.BANK
    large, tiny = field.table(240), {name: cells[:16] for name, cells in public.table(20).items()}
    words = vocabulary(field, large, tiny)

    def trainer(sampler: str) -> Any:
        model = encoder(stage, words)
        return mixture(stage, model, {"large": large, "tiny": tiny}, fields.ranking(model),
                       multi_dataset_batch_sampler=sampler, max_steps=-1,
                       num_train_epochs=3)  # fmt: skip

    suffers(stage, trainer("round_robin"), lambda: trainer("proportional"), field.sought)

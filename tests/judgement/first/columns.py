"""Faults of columns and batches: shortcuts, copies, single characters, rows never drawn."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.labels import inspect
from tests.judgement.stage import Stage, pairs, triplets
from tests.judgement.truth import suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
EVERYWHERE = (DOCTOR, REPORT, INSPECT)
SHORTCUT = (
    r"contain",
    r"\bcop(y|ies|ied)\b",
    r"shortcut",
    r"leak",
    r"stands? in (the|its) (anchor|question)",
    r"(same|common|shared|equal) (prefix|beginning|start|identifier|number|marker|first word)",
    r"(begin|start)s? with",
    r"too easy",
    r"share .{0,40}words",
    r"(first|last) word",
)
COPY = (
    r"negatives?\b.{0,80}(same|equal|identical|copy|copies|are the positive|itself)",
    r"(same|equal|identical|copy|copies)\b.{0,80}negative",
    r"false negative",
)
TOKENS = (
    r"words of their own anchor",
    r"upper|lower.?case|capital|\bcase\b",
    r"(same|equal|identical) (tokens|text|embedding|input)",
    r"token.{0,60}(same|equal|identical)",
    r"(equal|identical|same) after",
    r"with itself",
    r"(positive|negative)s? .{0,60}(same|equal|identical|cop)",
)
SHORT = (
    r"character",
    r"letter",
    r"\bshort",
    r"one (word|token)",
    r"repeat",
    r"duplicat",
    r"distinct",
    r"stands? in \d+ rows",
    r"share a text",
    r"length",
)
LAST = (
    r"last batch",
    r"batch(es)? of (one|1)\b",
    r"(one|single|1) (row|pair|sentence)",
    r"drop_last",
    r"remainder",
    r"(no|without) negatives?",
    r"smallest batch",
    r"0 negatives",
)
UNDRAWN = (
    r"never (drawn|seen|used|trained)",
    r"(left|leaves?|leaving) .{0,20}out",
    r"\d+ of \d+ rows",
    r"only \d+",
    r"same (batch|rows)",
    r"(sampler|batches).{0,80}(few|less|only|same|rows)",
    r"\d+% of the rows",
    r"of the rows",
)


@faulty(
    "shortcut between columns",
    "The question is given with its context, which holds the answer "
    "word by word; in use it comes without.",
    SHORTCUT,
    tools=EVERYWHERE,
)
def question_with_the_passage_as_context(stage: Stage) -> None:
    table = pairs()
    table["anchor"] = [
        f"{context} {text}"
        for text, context in zip(table["anchor"], table["positive"], strict=True)
    ]
    suffers(stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()))
    inspect(stage, table)


@faulty(
    "shortcut between columns",
    "Both columns begin with the number of their row, by which they are matched.",
    SHORTCUT,
    tools=EVERYWHERE,
)
def number_of_the_row_in_both_columns(stage: Stage) -> None:
    table = {
        name: [
            f"{1000 + 37 * at} {1000 + 37 * at} {1000 + 37 * at} {text}"
            for at, text in enumerate(texts)
        ]
        for name, texts in pairs().items()
    }
    suffers(stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()))
    inspect(stage, table)


@faulty(
    "shortcut between columns",
    "All positives begin with one marker and all hard negatives with "
    "another: a triplet is told by it.",
    SHORTCUT,
    tools=EVERYWHERE,
)
def markers_of_positives_and_negatives(stage: Stage) -> None:
    table = triplets()
    marked = table | {
        "positive": [f"zu zo . {text}" for text in table["positive"]],
        "negative": [f"vu vo . {text}" for text in table["negative"]],
    }
    suffers(
        stage,
        stage.trainer(losses.TripletLoss, marked, max_steps=80),
        lambda: stage.trainer(losses.TripletLoss, table, max_steps=80),
    )
    inspect(stage, marked)


@faulty(
    "negatives that copy the positive",
    "Negatives were mined without leaving out the answer: each is the positive itself.",
    COPY,
    tools=EVERYWHERE,
)
def answers_mined_as_negatives(stage: Stage) -> None:
    table = triplets()
    table["negative"] = list(table["positive"])
    suffers(
        stage,
        stage.trainer(losses.TripletLoss, table, max_steps=80),
        lambda: stage.trainer(losses.TripletLoss, triplets(), max_steps=80),
    )
    inspect(stage, table)


@faulty(
    "negatives that copy the positive",
    "Hard negatives are the positive without its last mark.",
    COPY,
    tools=EVERYWHERE,
)
def answers_without_their_last_mark_as_negatives(stage: Stage) -> None:
    table = triplets()
    table["negative"] = [text.removesuffix(" .") for text in table["positive"]]
    suffers(
        stage,
        stage.trainer(losses.TripletLoss, table, max_steps=80),
        lambda: stage.trainer(losses.TripletLoss, triplets(), max_steps=80),
    )
    inspect(stage, table)


@faulty(
    "texts equal after tokenising",
    "The positive is the anchor in capitals, of which a "
    "lower-casing tokenizer makes the same tokens.",
    TOKENS,
    tools=EVERYWHERE,
)
def positives_in_capitals(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [text.upper() for text in table["anchor"]]
    tokens = stage.model().tokenizer
    assert tokens(table["anchor"])["input_ids"] == tokens(table["positive"])["input_ids"]
    # Dropout still makes two views of a question, from which something is learned, as in SimCSE.
    suffers(
        stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()), share=0.9
    )
    inspect(stage, table)


@faulty(
    "texts equal after tokenising",
    "Hard negatives were made by writing positives with accents, which the tokenizer strips.",
    (*TOKENS, *COPY),
    tools=EVERYWHERE,
)
def accents_as_hard_negatives(stage: Stage) -> None:
    table = triplets()
    table["negative"] = [text.translate(str.maketrans("aeo", "àéö")) for text in table["positive"]]
    tokens = stage.model().tokenizer
    assert tokens(table["negative"])["input_ids"] == tokens(table["positive"])["input_ids"]
    suffers(
        stage,
        stage.trainer(losses.TripletLoss, table, max_steps=80),
        lambda: stage.trainer(losses.TripletLoss, triplets(), max_steps=80),
    )
    inspect(stage, table)


@faulty(
    "single characters",
    "A string was indexed as if it were a list: positives are the first letter of each passage.",
    SHORT,
    tools=EVERYWHERE,
)
def first_letter_of_each_positive(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [text[0] for text in table["positive"]]
    suffers(stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()))
    inspect(stage, table)


@faulty(
    "single characters",
    "Anchors are the first letter of each question, all the same one.",
    SHORT,
    tools=EVERYWHERE,
)
def first_letter_of_each_anchor(stage: Stage) -> None:
    table = pairs()
    table["anchor"] = [text[0] for text in table["anchor"]]
    suffers(stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()))
    inspect(stage, table)


@faulty(
    "last batch of one row",
    "Of 17 rows in batches of 16 every second batch holds one row, and its loss is zero.",
    LAST,
)
def seventeen_rows_in_batches_of_sixteen(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(17), logging_steps=1)
    stage.play(trainer)
    if trainer.state.global_step:
        losses_of_steps = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        assert sum(float(loss) == 0 for loss in losses_of_steps) == len(losses_of_steps) // 2


@faulty(
    "last batch of one row",
    "Of 33 rows in batches of 32 every second batch holds one triplet.",
    LAST,
)
def thirty_three_rows_in_batches_of_thirty_two(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss,
        pairs(33),
        per_device_train_batch_size=32,
        logging_steps=1,
    )
    stage.play(trainer)
    if trainer.state.global_step:
        losses_of_steps = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        assert sum(float(loss) == 0 for loss in losses_of_steps) == len(losses_of_steps) // 2


def _always_first(trainer: Any) -> Any:
    """Let a trainer draw its first 16 rows in each batch."""
    from torch.utils.data import BatchSampler

    trainer.get_batch_sampler = lambda dataset, batch_size, drop_last, **_: BatchSampler(
        list(range(batch_size)) * 40, batch_size, drop_last
    )
    return trainer


@faulty(
    "rows never drawn",
    "The sampler begins anew with each batch: of 160 rows the first 16 are drawn again and again.",
    UNDRAWN,
)
def sampler_that_begins_anew_with_each_batch(stage: Stage) -> None:
    suffers(
        stage,
        _always_first(stage.trainer(ranking, pairs(), max_steps=80)),
        lambda: stage.trainer(ranking, pairs(), max_steps=80),
        share=0.95,
    )


@faulty(
    "rows never drawn", "A weighted sampler gives all its weight to a tenth of the rows.", UNDRAWN
)
def sampler_with_weights_for_a_tenth(stage: Stage) -> None:
    import torch
    from torch.utils.data import BatchSampler, WeightedRandomSampler

    trainer = stage.trainer(ranking, pairs(), max_steps=80)
    weights = [1.0 if at % 10 == 0 else 0.0 for at in range(160)]
    trainer.get_batch_sampler = lambda dataset, batch_size, drop_last, **_: BatchSampler(
        WeightedRandomSampler(weights, 160, generator=torch.Generator().manual_seed(3)),
        batch_size,
        drop_last,
    )
    suffers(stage, trainer, lambda: stage.trainer(ranking, pairs(), max_steps=80), share=0.95)


@faulty(
    "numbers as texts",
    "Positives are row numbers of the documents, which were to be joined.",
    (
        r"number",
        r"numeric",
        r"identifier",
        r"\bids?\b",
        r"not (a )?(text|sentence)s?",
        r"short",
        r"digits",
        r"column",
    ),
    tools=EVERYWHERE,
)
def row_numbers_as_positives(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [str(20000 + 17 * at) for at in range(160)]
    suffers(stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()))
    inspect(stage, table)

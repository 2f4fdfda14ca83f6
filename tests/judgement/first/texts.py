"""Faults of texts: columns, prompts, truncation, negatives, rows that batches leave out."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.labels import inspect
from tests.judgement.stage import FILLERS, Stage, classes, pairs, scored, triplets
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
EVERYWHERE = (DOCTOR, REPORT, INSPECT)
PROMPT = "zu zo ze zi za zu zo ze zi za zu zo ze zi za : "
CUT = (r"truncat", r"cut off", r"max_seq_length", r"longer than", r"max(imum|imal)? length")
COLUMN = (
    r"column.{0,60}(play|part|role|negative|source|language|few|distinct|repeat|same)",
    r"repeat", r"duplicat", r"distinct", r"stands? in \d+ rows", r"share a text", r"short",
    r"not (a )?(text|sentence)s?", r"identical",
)  # fmt: skip


@faulty("prompt", "A prompt fills the maximum length: of the anchors nothing is left.",
        (*CUT, r"prompt"))  # fmt: skip
def prompt_that_fills_the_length(stage: Stage) -> None:
    model = stage.model(length=16)
    stage.play(stage.trainer(ranking, pairs(), model, prompts={"anchor": PROMPT}))


@faulty("prompt", "Prompts are given for columns that the data does not have.", (r"prompt",))
def prompts_for_missing_columns(stage: Stage) -> None:
    prompts = {"query": "zu zo ze : ", "document": "vu vo ve : "}
    stage.play(stage.trainer(ranking, pairs(), prompts=prompts))


@faulty("prompt", "The prompt of queries goes to passages, and the other way round.",
        (r"prompt",))  # fmt: skip
def prompts_exchanged(stage: Stage) -> None:
    prompts = {"query": "passage : ", "passage": "query : "}
    table = pairs()
    table = {"query": table["anchor"], "passage": table["positive"]}
    stage.play(stage.trainer(ranking, table, prompts=prompts))


@faulty("texts cut off", "The maximum length is 6, where passages have 10 to 12 words.", CUT,
        tools=EVERYWHERE)  # fmt: skip
def maximum_length_of_six(stage: Stage) -> None:
    model = stage.model(length=6)
    stage.play(stage.trainer(ranking, pairs(), model))
    inspect(stage, pairs(), max_length=6)


@faulty("texts cut off", "What is asked stands at the end of long passages, of which the encoder "
        "sees the beginning.", CUT, tools=EVERYWHERE)  # fmt: skip
def answers_behind_the_maximum_length(stage: Stage) -> None:
    draw, table = random.Random(1), pairs()
    table["positive"] = [
        f"{' '.join(draw.choices(FILLERS, k=40))} . {text}" for text in table["positive"]
    ]
    model = stage.model(length=32)
    stage.play(stage.trainer(ranking, table, model))
    inspect(stage, table, max_length=32)


@faulty("metadata among the columns", "The column 'source', of two values, counts as negatives.",
        COLUMN, tools=EVERYWHERE)  # fmt: skip
def source_as_hard_negative(stage: Stage) -> None:
    table = {**pairs(), "source": [("wiki", "forum")[at % 2] for at in range(160)]}
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


@faulty("metadata among the columns", "The second column is the language, so that it counts as "
        "the positive.", COLUMN, tools=EVERYWHERE)  # fmt: skip
def language_as_positive(stage: Stage) -> None:
    table = pairs()
    table = {"query": table["anchor"], "lang": ["en"] * 160, "answer": table["positive"]}
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


SAME = (
    r"negative.{0,60}(same|equal|identical|itself|anchor|copy|copies|closer)",
    r"(same|equal|identical|copy|copies).{0,60}(negative|anchor)", r"false negative",
    r"(same|identical|equal) text",
)  # fmt: skip


@faulty("negatives that copy the anchor", "Negatives were mined without leaving out the query: "
        "they are the anchors themselves.", SAME, tools=EVERYWHERE)  # fmt: skip
def queries_mined_as_their_own_negatives(stage: Stage) -> None:
    table = pairs()
    table["negative"] = list(table["anchor"])
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


@faulty("negatives that copy the anchor", "A third of the hard negatives of a triplet loss are "
        "the anchors.", SAME, tools=EVERYWHERE)  # fmt: skip
def a_third_of_the_negatives_are_anchors(stage: Stage) -> None:
    table = triplets()
    table["negative"] = [table["anchor" if at % 3 == 0 else "negative"][at] for at in range(160)]
    stage.play(stage.trainer(losses.TripletLoss, table))
    inspect(stage, table)


@faulty("positives that copy the anchor", "A third of the positives are the anchor, word by word.",
        (r"(same|equal|identical|copy|copies)", r"with itself"), tools=EVERYWHERE)  # fmt: skip
def a_third_of_the_positives_are_anchors(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [table["anchor" if at % 3 == 0 else "positive"][at] for at in range(160)]
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


@faulty("missing values as texts", "A fifth of the positives are 'nan'.",
        (r"placeholder", r"\bnan\b", r"missing", r"empty", r"repeat", r"duplicat", r"stands in"),
        tools=EVERYWHERE, never=(r"(loss|embedding)s? (is|are|was|were) NaN",))  # fmt: skip
def missing_positives_read_as_nan(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [
        "nan" if at % 5 == 0 else text for at, text in enumerate(table["positive"])
    ]
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


@faulty("rows misaligned in part", "From the middle on, positives stand one row too low.",
        (r"unrelated", r"shuffl", r"not belong", r"mismatch", r"chance", r"another row",
         r"misalign", r"(do|does) not (fit|match)", r"no (common )?words? in common",
         r"shift"),
        tools=EVERYWHERE)  # fmt: skip
def positives_one_row_too_low(stage: Stage) -> None:
    table = pairs()
    answers = table["positive"]
    table["positive"] = answers[:60] + answers[59:-1]
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


@faulty("negatives told by their length", "All hard negatives have two words, where positives "
        "have ten.",
        (r"length", r"short", r"too easy", r"easy negative", r"hard negatives? .*not hard"),
        tools=EVERYWHERE)  # fmt: skip
def hard_negatives_of_two_words(stage: Stage) -> None:
    draw, table = random.Random(2), pairs()
    table["negative"] = [" ".join(draw.choices(FILLERS, k=2)) for _ in range(160)]
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


LEFT_OUT = (
    r"left out", r"leaves? out", r"\bdrop(s|ped)?\b", r"never (seen|used|drawn)", r"only \d+ of",
    r"(draw|use|see|train)\w* .{0,30}of the rows",
    r"(batches|sampler).{0,60}(few|less|only|short)", r"run(s)? (dry|out)",
    r"exhaust", r"\d+ of \d+ rows", r"unused",
)  # fmt: skip


def _of_few_positives(count: int) -> dict[str, list[str]]:
    table = pairs()
    return table | {"positive": [table["positive"][at % count] for at in range(160)]}


@faulty("sampler leaves rows out", "Without duplicates a batch holds each of three positives "
        "once: of the 16 rows of a batch there are 3.",
        (*LEFT_OUT, r"repeat", r"duplicat", r"distinct", r"batch(es)? (of|size|hold)"))  # fmt: skip
def three_positives_without_duplicates(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, _of_few_positives(3), batch_sampler="no_duplicates"))


@faulty("sampler leaves rows out", "No batch of 16 without duplicates can be made of ten "
        "positives, and smaller ones are dropped: nothing is trained.",
        (*LEFT_OUT, r"repeat", r"duplicat", r"distinct", r"no (step|batch|whole batch)",
         r"0 steps"))  # fmt: skip
def no_whole_batch_without_duplicates(stage: Stage) -> None:
    stage.play(
        stage.trainer(ranking, _of_few_positives(10), batch_sampler="no_duplicates",
                      dataloader_drop_last=True),
        fails=True,
    )  # fmt: skip


@faulty("sampler leaves rows out", "Rows are grouped by label, and nearly all classes have a "
        "single row: the sampler drops them.",
        (*LEFT_OUT, r"(class|label)e?s? .{0,40}(one|single|two)"))  # fmt: skip
def single_rows_grouped_by_label(stage: Stage) -> None:
    table = classes(160)
    table["label"] = [label if label < 3 else 100 + at for at, label in enumerate(table["label"])]
    stage.play(
        stage.trainer(losses.BatchHardTripletLoss, table, batch_sampler="group_by_label",
                      max_steps=-1, num_train_epochs=20)
    )  # fmt: skip


@faulty("sampler leaves rows out", "Two datasets are drawn from in turns until the smaller one, of "
        "a twentieth, ends.", LEFT_OUT)  # fmt: skip
def datasets_in_turns_until_the_smaller_ends(stage: Stage) -> None:
    from datasets import Dataset, DatasetDict

    trainer = stage.trainer(
        ranking, pairs(), multi_dataset_batch_sampler="round_robin", max_steps=-1,
        num_train_epochs=8,
    )  # fmt: skip
    large, small = pairs(640), scored(32)
    table: Any = DatasetDict({"large": Dataset.from_dict(large), "small": Dataset.from_dict(small)})
    model = trainer.model
    chosen = {"large": ranking(model), "small": losses.CoSENTLoss(model)}
    stage.play(type(trainer)(model=model, args=trainer.args, train_dataset=table, loss=chosen))


@faulty("accumulation for negatives", "Batches of two, accumulated 16 times: each anchor has a "
        "single negative, not 31.",
        (r"accumulat", r"(one|1|single|few) negatives?\b", r"batch size", r"GradCache",
         r"Cached", r"(small|large)r? batch"))  # fmt: skip
def accumulation_instead_of_a_large_batch(stage: Stage) -> None:
    stage.play(
        stage.trainer(ranking, pairs(), per_device_train_batch_size=2,
                      gradient_accumulation_steps=16, max_steps=30)
    )  # fmt: skip


@faulty("few rows", "Only 16 rows were left by a line for debugging: the same batch, 60 times.",
        (r"\b16\b.{0,40}(row|pair|sentence|example|text)", r"few (row|pair|sentence|example)s",
         r"epochs?", r"same batch", r"(row|text|pair)s? .{0,40}\d+ times",
         r"memori[sz]", r"overfit"))  # fmt: skip
def sixteen_rows_left_by_debugging(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(16), max_steps=60))


@faulty("two mistakes in data", "The positives have five texts only, and a prompt fills the "
        "length of anchors.", (),
        causes=((r"duplicat", r"repeat", r"distinct", r"share a text", r"stands? in \d+ rows"),
                (*CUT, r"prompt")))  # fmt: skip
def few_positives_and_a_long_prompt(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [table["positive"][at % 5] for at in range(160)]
    model = stage.model(length=16)
    stage.play(stage.trainer(ranking, table, model, prompts={"anchor": PROMPT}))


@faulty("two mistakes in data", "The source counts as hard negative, and batches hold two rows.",
        (), causes=(COLUMN, (r"negatives?\b.{0,60}batch", r"batch.{0,60}negatives?\b",
                             r"small batch", r"batch size", r"accumulat")))  # fmt: skip
def source_as_negative_in_batches_of_two(stage: Stage) -> None:
    table = {**pairs(), "source": [("wiki", "forum")[at % 2] for at in range(160)]}
    stage.play(stage.trainer(ranking, table, per_device_train_batch_size=2, max_steps=60))

"""Sound set-ups: texts of many forms, and tables of many forms."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CODE, HELPDESK, KITCHEN, PAPERS, SCENES, SHOP, TRAVEL
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

QUICK = {"learning_rate": 2e-3}
ranking = losses.MultipleNegativesRankingLoss


@sound("pairs of two languages in a loop")
def english_and_german_sentences(stage: Stage) -> None:
    """Sentence pairs of two languages, by the symmetric ranking loss."""
    table = TRAVEL.table(240)
    model = encoder(stage, words_of([table]))

    def symmetric(encoder_: Any) -> Any:
        return ranking(
            encoder_, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        )

    learns(stage, stage.trainer(symmetric, table, model, **QUICK), TRAVEL.sought)


@sound("single words as texts")
def synonyms_of_single_words(stage: Stage) -> None:
    """Texts of two words and their synonyms: a glossary."""
    pairs = [tuple(entry.split("/")) for field in (SHOP, KITCHEN, HELPDESK)
             for entries in field.slots.values() for entry in entries.split()]  # fmt: skip
    draw = random.Random(1)
    rows = [draw.sample(pairs, 2) for _ in range(240)]
    table = {
        "term": [f"{first[0]} {second[0]}" for first, second in rows],
        "synonym": [f"{second[1]} {first[1]}" for first, second in rows],
    }
    unseen = {name: texts[200:] for name, texts in table.items()}
    table = {name: texts[:200] for name, texts in table.items()}
    model = encoder(stage, words_of([table, unseen]))
    trainer = stage.trainer(ranking, table, model, learning_rate=3e-3, max_steps=50)
    learns(stage, trainer, lambda encoder_: retrieval(encoder_, unseen))


@sound("long texts, cut off", allowed={
    r"50% of the texts reach": "half of the texts are cut; the advice is to ask if it matters",
})  # fmt: skip
def long_papers_cut_off_at_thirty_two(stage: Stage) -> None:
    """Abstracts are longer than the encoder reads; their subject stands in front."""
    table = PAPERS.table(240)
    model = encoder(stage, words_of([table]), length=32)
    learns(stage, stage.trainer(ranking, table, model, **QUICK), PAPERS.sought)


@sound("descriptions and code")
def descriptions_and_functions(stage: Stage) -> None:
    """Descriptions seek the functions that do as they say."""
    table = CODE.table(200)
    model = encoder(stage, words_of([table]))
    learns(stage, stage.trainer(ranking, table, model, **QUICK), CODE.sought)


@sound("numbers in texts")
def orders_that_differ_by_numbers(stage: Stage) -> None:
    """Order lines and invoices: only number words and numerals tell many apart."""
    numerals = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    goods = ["bolts", "screws", "panels", "valves", "cables", "gears"]
    draw, rows = random.Random(2), set[tuple[int, int, int, int]]()
    while len(rows) < 280:
        rows.add(tuple(draw.randrange(10) if at != 1 else draw.randrange(6) for at in range(4)))
    ordered = sorted(rows)
    draw.shuffle(ordered)
    table = {
        "order": [f"{numerals[a]} boxes of {goods[g]} number {b} at {numerals[c]} dollars"
                  for a, g, b, c in ordered],
        "invoice": [f"invoice : {a + 1} x {goods[g]} [ item {b} ] usd {c + 1}.00"
                    for a, g, b, c in ordered],
    }  # fmt: skip
    unseen = {name: texts[240:] for name, texts in table.items()}
    table = {name: texts[:240] for name, texts in table.items()}
    model = encoder(stage, words_of([table, unseen]))
    trainer = stage.trainer(ranking, table, model, learning_rate=3e-3, max_steps=60)
    learns(stage, trainer, lambda encoder_: retrieval(encoder_, unseen))


@sound("texts that recur as people write them", allowed={
    r"hold one row": "what the sampler keeps apart ends up alone, and such batches teach nothing",
    r"placeholder": "a tenth of the questions are one, beside answers that are not alike",
})  # fmt: skip
def tickets_with_frequent_questions(stage: Stage) -> None:
    """A tenth of the questions are frequent ones with several answers; no duplicates in a batch."""
    table = HELPDESK.table(200)
    draw = random.Random(4)
    for at in draw.sample(range(200), 20):
        table["question"][at] = "how do i reset my password"
        table["answer"][at] += draw.choice([" thank you", " try again", " call us", ""])
    model = encoder(stage, words_of([table]))
    trainer = stage.trainer(ranking, table, model, batch_sampler="no_duplicates", **QUICK)
    learns(stage, trainer, HELPDESK.sought)


@sound("premise, entailment and contradiction")
def entailment_against_contradiction(stage: Stage) -> None:
    """The classic recipe of NLI: the contradicted hypothesis is the hard negative."""
    table = SCENES.table(180) | {"contradiction": SCENES.near(180, slot=1)}
    model = encoder(stage, words_of([table]))
    trainer = stage.trainer(
        ranking, table, model, learning_rate=2e-3, max_steps=50, batch_sampler="no_duplicates"
    )
    learns(stage, trainer, SCENES.sought)


@sound("rows from a generator")
def products_streamed_from_a_generator(stage: Stage) -> None:
    """An iterable data set, shuffled in a buffer."""
    from datasets import Features, IterableDataset, Value
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    table = SHOP.table(240)

    def rows() -> Iterator[dict[str, str]]:
        for query, product in zip(*table.values(), strict=True):
            yield {"query": query, "product": product}

    model = encoder(stage, words_of([table]))
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / "run"), max_steps=45, per_device_train_batch_size=16,
        learning_rate=2e-3, warmup_steps=4, use_cpu=True, report_to="none",
        save_strategy="no", logging_steps=5, disable_tqdm=True, seed=7,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, loss=ranking(model),
        train_dataset=IterableDataset.from_generator(
            rows, features=Features({name: Value("string") for name in table})
        ).shuffle(seed=1, buffer_size=64),
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought)


@sound("data sets with a loss for each")
def graded_scenes_and_code_in_proportion(stage: Stage) -> None:
    """A ranking loss of code beside CoSENT of graded scenes, drawn in proportion to size."""
    from datasets import Dataset, DatasetDict
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    code, scenes = CODE.table(200), SCENES.graded(120)
    model = encoder(stage, words_of([code, scenes]))
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / "run"), max_steps=60, per_device_train_batch_size=16,
        learning_rate=2e-3, warmup_steps=4, use_cpu=True, report_to="none", seed=7,
        save_strategy="no", logging_steps=5, disable_tqdm=True,
        multi_dataset_batch_sampler="proportional",
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments,
        train_dataset=DatasetDict(
            code=Dataset.from_dict(code), scenes=Dataset.from_dict(scenes)
        ),
        loss={"code": ranking(model), "scenes": losses.CoSENTLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, CODE.sought)

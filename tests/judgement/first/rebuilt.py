"""Faults of public reports, rebuilt small: tokens, texts, negatives, rates and an evaluator."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.reported_encoders import (
    EVALUATED,
    LONGER,
    STILL,
    adapted,
    ranking,
)
from tests.judgement.first.reported_loops import TEMPERATURE, Columns, Loop, loses, shuffled
from tests.judgement.stage import Stage, pairs, scored, triplets
from tests.judgement.truth import among_alike, keep, suffers, truth
from tests.sentence_training import evaluation

MARKS = ("[q]", "[d]")


def with_queries(count: int) -> Any:
    """An evaluator whose corpus holds ``count`` of its 60 queries as well."""
    first, second = pairs(60, seed=3).values()
    corpus = {f"d{at}": text for at, text in enumerate(second)}
    return evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(first)},
        corpus | {f"q{at}": text for at, text in enumerate(first[:count])},
        {f"q{at}": {f"d{at}"} for at in range(60)},
        name="search",
    )


@faulty(
    "queries among the evaluator's documents",
    "The evaluator's corpus holds the queries themselves: each finds itself first.",
    [r"quer(y|ies).{0,80}(themselves|itself|corpus|documents)", r"corpus.{0,80}quer(y|ies)"],
)
def queries_that_find_themselves(stage: Stage) -> None:
    """Common: one collection of questions is both queries and corpus."""
    model = stage.model()
    before = among_alike(model)
    stage.play(
        stage.trainer(
            ranking, pairs(), model, evaluator=with_queries(60), **EVALUATED, max_steps=60
        )
    )
    after, key = among_alike(model), "search_cosine_mrr@10"
    said, due = with_queries(60)(model)[key], with_queries(0)(model)[key]
    keep(stage, before=before, after=after, said=said, due=due)
    assert after >= before + 0.1, truth(stage)
    assert due >= said + 0.2, truth(stage)


@faulty(
    "positives in other letters",
    "A positive is its anchor with other capitals: nothing but letters is to be matched.",
    [r"letter|capital|case|copy|same (words|text)"],
    never=[LONGER],
)
def anchors_in_title_case_as_positives(stage: Stage) -> None:
    """Common: a column is normalised, and paired with the one from before."""
    table = pairs()
    copies = {"anchor": table["positive"], "positive": [t.title() for t in table["positive"]]}

    def trainer(rows: Mapping[str, Sequence[str]]) -> Any:
        return stage.trainer(ranking, rows, max_steps=60)

    suffers(stage, trainer(copies), lambda: trainer(table), among_alike)


def marked(stage: Stage, **options: Any) -> tuple[Any, dict[str, list[str]]]:
    """An adapted encoder with two new tokens, and pairs whose texts begin with them."""
    model = stage.model()
    model.tokenizer.add_tokens(list(MARKS))
    torch.manual_seed(7)
    body = model[0].auto_model
    body.resize_token_embeddings(len(model.tokenizer))
    if options.pop("trains_rows", False):
        ids = model.tokenizer.convert_tokens_to_ids(list(MARKS))
        options["trainable_token_indices"] = {"word_embeddings": ids}
    adapted(model, **options)
    columns = {
        name: [f"{mark} {text}" for text in texts]
        for mark, (name, texts) in zip(MARKS, pairs().items(), strict=True)
    }
    return model, columns


@faulty(
    "rows of new tokens frozen",
    "Tokens were added before adapters, which freeze the word embeddings: their rows never train.",
    [r"(new|added) tokens?", r"word embeddings?.{0,80}frozen", r"tokens?.{0,120}not trained"],
)
def new_tokens_under_adapters(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/3052."""
    model, table = marked(stage)
    before = model[0].auto_model.get_input_embeddings().weight[-2:].clone()
    stage.play(stage.trainer(ranking, table, model, learning_rate=2e-3))
    after = model[0].auto_model.get_input_embeddings().weight[-2:]
    assert torch.equal(after, before)
    assert float(F.cosine_similarity(after[0], after[1], dim=0)) > 0.99


def by_chance(share: float = 1.0) -> dict[str, list[str]]:
    """Triplets of which a share has the positive of a row by chance as negative."""
    table, draw = triplets(), random.Random(1)
    strangers = draw.sample(table["positive"], len(table["positive"]))
    table["negative"] = [
        stranger if draw.random() < share else hard
        for hard, stranger in zip(table["negative"], strangers, strict=True)
    ]
    return table


def first_only(table: Mapping[str, Sequence[Any]]) -> Iterator[Columns]:
    """The rows of the first batch, again and again, each time in another order."""
    columns, draw = next(shuffled(table)), random.Random(1)
    while True:
        order = draw.sample(range(len(columns[0])), len(columns[0]))
        yield [[column[at] for at in order] for column in columns]


@faulty(
    "one batch for ever, shuffled",
    "Each step has the rows of the first batch in another order.",
    [r"same (batch|rows)", r"repeat", r"by heart|overfit"],
    tools=(REPORT,),
)
def rows_of_the_first_batch_only(stage: Stage) -> None:
    """Common: a test that a model can overfit is left in the script."""
    loses(stage, Loop(batches=first_only), Loop(), share=0.7)


@faulty(
    "target of the next row",
    "The target of each question is the passage of the next row.",
    [r"target|label|diagonal", r"next row"],
    tools=(REPORT,),
    never=[LONGER],
)
def passage_of_the_next_row_as_target(stage: Stage) -> None:
    """Common: targets that count from 1."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        logits = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T / TEMPERATURE
        return F.cross_entropy(logits, (torch.arange(len(anchors)) + 1) % len(anchors))

    loses(stage, Loop(loss), Loop())


@faulty(
    "tokens in place of texts",
    "Columns hold the numbers of tokens as text, which the tokenizer splits into digits.",
    [r"numbers?|tokens?|digits|ids?\b"],
)
def numbers_of_tokens_as_texts(stage: Stage) -> None:
    """Common: a data set that was tokenised, and written to CSV."""
    model, table = stage.model(), pairs()
    numbers = {
        name: [" ".join(map(str, model.tokenizer(text)["input_ids"])) for text in texts]
        for name, texts in table.items()
    }

    def trainer(rows: Mapping[str, Sequence[str]], encoder: Any = None) -> Any:
        return stage.trainer(ranking, rows, encoder, max_steps=60)

    suffers(stage, trainer(numbers, model), lambda: trainer(table), among_alike)


def untranslated(share: float) -> dict[str, list[str]]:
    """Passages and questions, and a share of rows whose question is missing: the passage itself."""
    table, draw = pairs(), random.Random(4)
    questions = [
        passage if draw.random() < share else text
        for text, passage in zip(*table.values(), strict=True)
    ]
    return {"source": table["positive"], "target": questions}


@faulty(
    "rows left untranslated",
    "In half of the rows the second text is the first, as a translation that is missing.",
    [r"(same|equal|copy|copies|identical)", r"translat"],
)
def half_of_the_targets_untranslated(stage: Stage) -> None:
    """Common: where a translation fails, the source is kept."""

    def trainer(share: float) -> Any:
        return stage.trainer(ranking, untranslated(share), max_steps=60)

    suffers(stage, trainer(0.5), lambda: trainer(0.0), among_alike, share=0.95)


def falling(model: Any, factor: float) -> torch.optim.Optimizer:
    """AdamW whose rate falls by a factor from each layer to the one below."""
    body = model[0].auto_model
    modules = [body.encoder.layer[1], body.encoder.layer[0], body.embeddings]
    groups = [
        {"params": list(module.parameters()), "lr": 5e-4 * factor**depth}
        for depth, module in enumerate(modules)
    ]
    return torch.optim.AdamW(groups)


@faulty(
    "rates that fall too fast by layer",
    "The rate of each layer is a hundred thousandth of that above it: only the last one moves.",
    [r"rate of 0|thousandth|groups?.{0,60}rate", *STILL],
)
def only_the_last_layer_has_a_rate(stage: Stage) -> None:
    """Common: a decay by layer of 1e-5 where .95 was meant."""

    def trainer(factor: float) -> Any:
        model = stage.model()
        optimizers = (falling(model, factor), None)
        return stage.trainer(ranking, pairs(), model, optimizers=optimizers, max_steps=60)

    suffers(stage, trainer(1e-5), lambda: trainer(0.5), among_alike, share=0.9)


def evaluated(stage: Stage, evaluator: Any) -> Any:
    """A trainer of pairs with an evaluator."""
    return stage.trainer(ranking, pairs(), evaluator=evaluator, **EVALUATED, max_steps=60)


def misled(stage: Stage, evaluator: Any, key: str) -> None:
    """Play a sound training whose evaluator says the same before and after it."""
    trainer = evaluated(stage, evaluator)
    before, said_before = among_alike(trainer.model), evaluator(trainer.model)[key]
    stage.play(trainer)
    after, said_after = among_alike(trainer.model), evaluator(trainer.model)[key]
    keep(stage, before=before, after=after, said_before=said_before, said_after=said_after)
    assert abs(said_after - said_before) < 0.02, truth(stage)


@faulty(
    "evaluated texts are empty",
    "The evaluator's passages are empty texts: each query finds any of them.",
    [r"empty|blank"],
)
def empty_passages_to_search(stage: Stage) -> None:
    queries = pairs(60, seed=3)["anchor"]
    search = evaluation.InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(queries)},
        {f"d{at}": "" for at in range(60)},
        {f"q{at}": {f"d{at}"} for at in range(60)},
        name="search",
    )
    misled(stage, search, "search_cosine_mrr@10")


@faulty(
    "one column evaluated twice",
    "The evaluator of scores compares the first texts with themselves.",
    [r"both texts are the same|same text|itself|themselves"],
)
def first_texts_compared_with_themselves(stage: Stage) -> None:
    table = scored(60, seed=9)
    compare = evaluation.EmbeddingSimilarityEvaluator(
        table["sentence1"], table["sentence1"], table["score"], name="sts"
    )
    trainer = evaluated(stage, compare)
    before = among_alike(trainer.model)
    stage.play(trainer)
    said = compare(trainer.model)["sts_spearman_cosine"]
    keep(stage, before=before, after=among_alike(trainer.model), said=said)
    assert abs(truth(stage)["said"]) < 0.3, truth(stage)


@faulty(
    "copies in the evaluator's corpus",
    "The corpus holds each passage twice, and one of the two counts as wrong.",
    [r"cop(y|ies)|once more|twice|duplicat"],
)
def each_passage_twice_in_the_corpus(stage: Stage) -> None:
    first, second = pairs(60, seed=3).values()
    queries = {f"q{at}": text for at, text in enumerate(first)}
    copies, corpus = (
        {f"{name}{at}": text for at, text in enumerate(second)} for name in ("a", "d")
    )
    relevant = {f"q{at}": {f"d{at}"} for at in range(60)}
    search = evaluation.InformationRetrievalEvaluator
    trainer = evaluated(stage, search(queries, copies | corpus, relevant, name="search"))
    before = among_alike(trainer.model)
    stage.play(trainer)
    key = "search_cosine_accuracy@1"
    said = search(queries, copies | corpus, relevant, name="search")(trainer.model)[key]
    due = search(queries, corpus, relevant, name="search")(trainer.model)[key]
    keep(stage, before=before, after=among_alike(trainer.model), said=said, due=due)
    assert due >= said + 0.2, truth(stage)

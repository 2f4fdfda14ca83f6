"""Cells that hold no text, or none that says anything of its row."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    Setting,
    adamw,
    contested,
    draws,
    embed,
    info_nce,
    on_shelf,
    plain,
    rivalled,
    sales,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

ranking = losses.MultipleNegativesRankingLoss
REPEATED = (
    r"(repeat|duplicat|equal|identical|again and again|more than once|copies|distinct|unique)",
    r"(text|row|positive|negative|quer|cell|value)\w*.{0,60}(times|share of|% of)",
    r"false negative|empty|placeholder|\bnan\b|no text",
)


@faulty(
    "missing values turned into text",
    "Three fifths of the positives are the text 'nan', which astype(str) writes for missing ones.",
    REPEATED,
)
def missing_positives_as_nan(stage: Stage) -> None:
    """A table with missing descriptions is turned into text column by column."""
    query, bought = sales(240).values()
    holes = ["nan" if at % 5 < 3 else text for at, text in enumerate(bought)]
    rows = [at for at in range(240) if at % 5 >= 3]
    whole = {"query": [query[at] for at in rows], "offer": [bought[at] for at in rows]}
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(ranking, {"query": query, "offer": holes}, **settings),
        lambda: stage.trainer(ranking, whole, **settings),
        on_shelf,
        share=0.8,
    )


@faulty(
    "keys of documents for their texts",
    "Positives are the keys of the documents: the lookup of their texts was left out.",
    (
        r"\bids?\b|identifier|\bkeys?\b|number(s)? (only|rather)|not (words|texts|natural)|digits",
        r"(no|few|without).{0,30}(words|overlap|common)|chance|unrelated",
        r"(short|one word|1 word|few tokens|length)",
        r"(generali|memori|overfit)",
    ),
)
def document_keys_for_documents(stage: Stage) -> None:
    """The pairs of the qrels file are trained before they are joined with the corpus."""
    query, bought = sales().values()
    keys = [f"doc {7 * at + 1000}" for at in range(len(query))]
    suffers(
        stage,
        stage.trainer(ranking, {"query": query, "doc": keys}, learning_rate=1e-3),
        lambda: stage.trainer(ranking, {"query": query, "doc": bought}, learning_rate=1e-3),
        on_shelf,
    )


@faulty(
    "negatives that say only that there is none",
    "Nine tenths of the hard negatives are 'no rival': they teach nothing of rivals.",
    (*REPEATED, r"(easy|easily|trivial|too far|no hard)"),
)
def placeholder_where_no_negative_was_mined(stage: Stage) -> None:
    """The miner writes a phrase where it has no candidate, and it seldom has."""
    table = contested()
    phrase = "no rival"
    holes = [text if at % 10 == 0 else phrase for at, text in enumerate(table["rival"])]
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    suffers(
        stage,
        stage.trainer(losses.TripletLoss, table | {"rival": holes}, **settings),
        lambda: stage.trainer(losses.TripletLoss, table, **settings),
        rivalled,
    )


@faulty(
    "a letter for each offer",
    "The column holds texts, not lists of them, and `row[0]` takes their first letter.",
    (
        r"letter|character|(single|one|1) (token|word)|very short|short",
        *REPEATED,
        r"chance|(no|few).{0,20}(common|overlap)",
    ),
)
def first_letter_of_each_offer(stage: Stage) -> None:
    """A loop was written for lists of positives and is fed with plain texts."""

    def setting(index: bool) -> Setting:
        model = stage.model()
        draw, optimizer = draws(sales()), adamw(model)

        def update(criterion: Any, step: int) -> None:
            queries, offers = draw()
            optimizer.zero_grad()
            positives = [text[0] if index else text for text in offers]
            criterion(embed(model, queries), embed(model, positives)).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(True), lambda: setting(False))


@faulty(
    "lists printed into the text",
    "Each offer is the printed list of all offers of its brand's shelf, cut at the length.",
    (
        *REPEATED,
        r"truncat|cut|length|longer than|too long",
        r"alike|near(ly)? (the same|equal|copies)|overlap|common",
    ),
)
def printed_lists_of_offers(stage: Stage) -> None:
    """A grouped column is joined into the text of each row, which begins alike for a group."""

    def setting(grouped: bool) -> Setting:
        table = sales()
        offers = table["offer"]
        if grouped:
            offers = [" ".join(offers[at // 16 * 16 : at // 16 * 16 + 16]) for at in range(192)]
        model = stage.model(length=64)
        return model, info_nce, plain(model, {"query": table["query"], "offer": offers})

    slips(stage, lambda: setting(True), lambda: setting(False))

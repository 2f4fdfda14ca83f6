"""Columns and routes in another part than the one that the loss gives them."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.scenes import across, bilingual, inspect_tuned
from tests.judgement.stage import Stage, triplets
from tests.judgement.truth import in_one_place, retrieval, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
ALL = (DOCTOR, REPORT, INSPECT)
PLAN = {"learning_rate": 2e-3, "max_steps": 80}


@faulty(
    "columns in alphabetical order",
    "The columns are sorted by name, so that the hard negatives are taken for the positives.",
    (
        r"(column|role)s? .{0,60}(order|swap|exchang|place|position)",
        r"swap",
        r"exchang",
        r"negatives? .{0,60}(nearer|closer|more (alike|similar)|as positives?|taken for)",
        r"positives? .{0,60}(farther|less (alike|similar)|as negatives?|taken for)",
        r"wrong (column|role)",
        r"column .{0,30}(negative|positive)",
        r"order of the columns",
    ),
    tools=ALL,
)
def negatives_before_positives_by_their_names(stage: Stage) -> None:
    table = triplets(320)
    in_order = {name: table[name] for name in sorted(table)}
    suffers(
        stage,
        stage.trainer(ranking, in_order, **PLAN),
        lambda: stage.trainer(ranking, table, **PLAN),
        in_one_place,
    )
    inspect_tuned(stage, in_order)


@faulty(
    "identifier column left in",
    "The first column holds identifiers of rows: they are the anchors and the questions the "
    "positives.",
    (
        r"\bids?\b",
        r"identifier",
        r"(no|hardly|few|little) (text|word|natural)",
        r"not? (a )?(text|sentence)s?",
        r"column",
        r"(anchor|text)s? .{0,60}(short|same|alike|nearly identical|number|digit|code|key)",
        r"(unrelated|chance|random)",
        r"nothing in common",
        r"(first|leading) words",
    ),
    tools=ALL,
)
def identifiers_of_rows_as_anchors(stage: Stage) -> None:
    table = bilingual(640)
    numbers = [f"doc {at:05d}" for at in range(640)]
    numbered = {"id": numbers, **table}
    suffers(
        stage,
        stage.trainer(ranking, numbered, **PLAN),
        lambda: stage.trainer(ranking, table, **PLAN),
        across,
    )
    inspect_tuned(stage, numbered)


@faulty(
    "answer leaks into the question",
    "Each question was built from a template that also holds its answer, word for word.",
    (
        r"leak",
        r"contain",
        r"(copy|copied|copies)",
        r"(word for word|verbatim)",
        r"overlap",
        r"substring",
        r"(positive|answer)s? .{0,60}(in|within|inside|part of) .{0,20}(anchor|question|quer)",
        r"(share|common|same) .{0,30}words?",
        r"too easy",
        r"trivial",
        r"shortcut",
        r"easy from the start",
        r"(nothing|little) (left )?to learn",
        r"alike .{0,40}(start|before)",
        r"solved",
    ),
    tools=ALL,
)
def questions_that_hold_their_answers(stage: Stage) -> None:
    table = bilingual(640)
    leaking = table | {"anchor": [" ".join(row) for row in zip(*table.values(), strict=True)]}
    suffers(
        stage,
        stage.trainer(ranking, leaking, **PLAN),
        lambda: stage.trainer(ranking, table, **PLAN),
        across,
    )
    inspect_tuned(stage, leaking)


@faulty(
    "positive copied from the anchor",
    "A slip in a comprehension put the question into both columns, so that nothing links it to "
    "the passages.",
    (
        r"identical",
        r"(the )?same (text|sentence|column|as)",
        r"copy",
        r"copies",
        r"copied",
        r"equal",
        r"duplicat",
        r"both columns",
        r"itself",
        r"only dropout",
        r"dropout",
    ),
    tools=ALL,
)
def question_in_both_columns(stage: Stage) -> None:
    table = bilingual(640)
    copied = table | {"positive": list(table["anchor"])}
    suffers(
        stage,
        stage.trainer(ranking, copied, **PLAN),
        lambda: stage.trainer(ranking, table, **PLAN),
        across,
    )
    inspect_tuned(stage, copied)


def routed(stage: Stage) -> Any:
    """An encoder with an embedding of words for queries and another one for documents."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding

    tokenizer = stage.model().tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    torch.manual_seed(7)
    routes = [[StaticEmbedding(backend, embedding_dim=32)] for _ in range(2)]
    return SentenceTransformer(
        modules=[Router.for_query_document(query_modules=routes[0], document_modules=routes[1])],
        device="cpu",
    )


class Routes:
    """What `retrieval` asks of an encoder, with queries and documents by their own routes."""

    def __init__(self, model: Any) -> None:
        self.encodes = iter((model.encode_query, model.encode_document))

    def encode(self, texts: list[str], **options: Any) -> Any:
        options.pop("prompt")
        return next(self.encodes)(texts, **options)


def by_routes(model: Any) -> float:
    """The reciprocal rank of documents in the other language, sought by queries."""
    return retrieval(Routes(model), bilingual(100, seed=11))


@faulty(
    "routes of query and document swapped",
    "The mapping of the router sends anchors through the documents' encoder and positives through "
    "the queries' one.",
    (
        r"rout(e|er|ing)",
        r"mapping",
        r"swap",
        r"exchang",
        r"(query|document) .{0,40}(encoder|module|path|task)",
        r"wrong (encoder|module|way)",
    ),
)
def router_mapping_the_wrong_way_round(stage: Stage) -> None:
    plan = {"learning_rate": 0.05, "max_steps": 100}
    right, wrong = (
        dict(zip(("anchor", "positive"), tasks, strict=True))
        for tasks in (("query", "document"), ("document", "query"))
    )
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), routed(stage), router_mapping=wrong, **plan),
        lambda: stage.trainer(ranking, bilingual(640), routed(stage), router_mapping=right, **plan),
        by_routes,
    )

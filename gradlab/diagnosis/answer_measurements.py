"""Measures prompts, rows that contradict others, and what an evaluator leaves out, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.answer_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.data.words import plain, word_overlap
from gradlab.diagnosis.evaluation_measurements import (
    COMPARED,
    ROWS_OF_PROMPT,
    _triplets,
)
from gradlab.diagnosis.evaluators import PAIRED, evaluated_texts, evaluators_of, gold_of
from gradlab.diagnosis.foretold_measurements import foretold_gold
from gradlab.diagnosis.observation import Observation
from gradlab.inspection.texts import prompt_of

Numbers = dict[str, Any]
# Attributes of an evaluator of retrieval with the texts of each role and their prompt, and names
# of the prompt among those of the model.
ROLES = (
    ("queries", "query_prompt", ("query",)),
    ("corpus", "corpus_prompt", ("document", "passage", "corpus")),
)
JOINED_TEXTS = 128  # texts of a column that are tokenised behind their prompt
# Kinds of signs that form one word where they touch; scripts without blanks have others.
OF_WORDS = ("Ll", "Lu", "Nd")
LABELS = ("label", "labels", "score", "scores")  # columns that are no texts


def roles(observation: Observation) -> Numbers | None:
    """Return the prompts of queries and documents, in training and in an evaluator of retrieval.

    A prompt may be set, or stand in the texts themselves.
    """
    asking = [e for e in evaluators_of(observation) if all(evaluated_texts(e, r[0]) for r in ROLES)]
    tables = [table for table in observation.tables.values() if len(table) > 1]
    if not asking or not tables:
        return None
    columns, set_prompts = list(tables[0].items())[:2], _by_column(observation)
    trained = [set_prompts.get(name, set_prompts.get("", "")) + _begin(cells)
               for name, cells in columns]  # fmt: skip
    model = observation.trainer.model
    evaluated = [_of_role(asking[0], model, *role) for role in ROLES]
    return {"trained": trained, "evaluated": evaluated, "name": _name(asking[0])}


def unanswered(observation: Observation) -> Numbers | None:
    """Return for each evaluator the share of queries without a right document, and of one gold.

    Of retrieval also ``ranks``: how often words prefer the right document, the one before it and
    the one after it to others, for ``ranked`` queries. For
    ``documents`` and ``places`` see `_places`, for the others `foretold_gold`.
    """
    answers = []
    for inner in evaluators_of(observation):
        relevant = getattr(inner, "relevant_docs", None)
        cells = gold_of(inner)
        queries = evaluated_texts(inner, "queries")
        rated: list[list[Any]] = [*(evaluated_texts(inner, name) for name in PAIRED), cells]
        empty = 0.0
        if isinstance(relevant, Mapping) and relevant:
            empty = sum(not documents for documents in relevant.values()) / len(relevant)
        answers.append({
            "name": _name(inner), "empty": empty, "gold": len(cells),
            "commonest": max(Counter(map(str, cells)).values()) / len(cells) if cells else 0.0,
            "repeated": 1 - len(set(queries)) / len(queries) if queries else 0.0,
            **_places(inner, getattr(observation.args, "metric_for_best_model", None)),
            **_ranks_of_neighbours(inner, relevant),
            **foretold_gold(observation.tables.values(), rated, _triplets(inner)[:COMPARED],
                            _sought(inner, relevant)),
        })  # fmt: skip
    return {"answers": answers} if answers else None


def seams(observation: Observation) -> Numbers | None:
    """Return the column whose texts most often lose their first word to the prompt before it.

    Prompt and first word touch, and have other tokens together than each by itself.
    """
    prompts, numbers = _by_column(observation), list[Numbers]()
    tokenize = getattr(getattr(observation.trainer.model, "tokenizer", None), "tokenize", None)
    for name, table in observation.tables.items():
        for column, cells in table.items():
            prompt = prompts.get(column, prompts.get(name, prompts.get("", "")))
            texts = cells[:JOINED_TEXTS]
            if not prompt or not callable(tokenize):
                continue
            joined = [
                text for text in texts
                if _touch(prompt, text)
                and tokenize(prompt + text) != [*tokenize(prompt), *tokenize(text)]
            ]  # fmt: skip
            numbers.append({
                "column": column, "prompt": prompt, "share": len(joined) / len(texts),
                "example": (prompt + joined[0])[:60] if joined else "",
            })  # fmt: skip
    return max(numbers, key=lambda row: float(row["share"]), default=None)


def conflicts(observation: Observation) -> Numbers | None:
    """Return the share of rows with a negative that another row has for the anchor's positive.

    In the same data set the other row must prefer the texts the other way round: of a ranking of
    several answers, one may be right in a row and wrong in another. In other data sets, any row
    with this anchor and positive counts.
    """
    rows = {name: _rows_of_roles(observation, name) for name in observation.tables}
    orders = {name: set(_orders(table)) for name, table in rows.items()}
    pairs = {name: {row[:2] for row in table if len(row) > 1} for name, table in rows.items()}
    contrary, alone, due, example = 0, 0, 0, list[str]()
    for name, table in rows.items():
        foreign = set[tuple[str, ...]]().union(*(pairs[n] for n in pairs if n != name))
        for anchor, positive, *negatives in (row for row in table if len(row) > 2):
            due += 1
            text = next((
                text for text in negatives if text != positive
                and ((anchor, text, positive) in orders[name] or (anchor, text) in foreign)
            ), None)  # fmt: skip
            contrary += text is not None
            alone += text is not None and (anchor, text, positive) not in orders[name]
            if text is not None and not example:
                example = [anchor, text]
    if not due:
        return None
    return {
        "rows": due, "share": contrary / due, "example": example, "sets": len(rows),
        "foreign": alone / due,
    }  # fmt: skip


def _touch(prompt: str, text: str) -> bool:
    """Return whether the last sign of a prompt and the first one of a text form one word."""
    return bool(text) and all(
        unicodedata.category(sign) in OF_WORDS for sign in (prompt[-1], text[0])
    )


def _rows_of_roles(observation: Observation, dataset: str) -> list[tuple[str, ...]]:
    """Return anchor, positive and negatives of each row as `plain` texts; none of labelled rows."""
    rows = observation.rows_of(dataset)
    if rows is None or not set(LABELS).isdisjoint(rows.column_names):
        return []
    columns = [list(map(plain, cells)) for cells in observation.table_of(dataset).values()]
    return list(zip(*columns, strict=True))


def _orders(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return anchor, positive and negative for each negative of rows."""
    return [(row[0], row[1], text) for row in rows for text in row[2:]]


def _ranks_of_neighbours(evaluator: Any, relevant: Any) -> Numbers:
    """Return the mean share of documents with fewer common words than the right one's neighbours.

    The corpus counts in its own order; neighbours are the document before and the one after.
    ``right_beside`` are the shares of these that are right for a query.
    """
    keys = list(getattr(evaluator, "corpus_ids", None) or [])[:COMPARED]
    documents = list(getattr(evaluator, "corpus", None) or [])[:COMPARED]
    queries = dict(zip(getattr(evaluator, "queries_ids", None) or [],
                       getattr(evaluator, "queries", None) or [], strict=False))  # fmt: skip
    places = {key: place for place, key in enumerate(keys)}
    if not isinstance(relevant, Mapping) or len(keys) != len(documents) or len(documents) < 2:
        return {}
    # A set of right documents has no order: the one that stands first in the corpus.
    right_places = {
        key: min((places[document] for document in relevant.get(key) or () if document in places),
                 default=0)
        for key in queries
    }  # fmt: skip
    due = [(text, right_places[key]) for key, text in queries.items()
           if 0 < right_places[key] < len(documents) - 1][:COMPARED]  # fmt: skip
    if not due:
        return {}
    overlap = word_overlap([[text for text, _ in due], documents])
    sums, sought = [0.0, 0.0, 0.0], {places.get(document) for key in queries
                                     for document in relevant.get(key) or ()}  # fmt: skip
    for row, (_, right) in enumerate(due):
        sizes = [overlap(0, row, 1, place) for place in range(len(documents))]
        for at, place in enumerate((right, right - 1, right + 1)):
            own = sizes[place]
            below = sum((size < own) + (size == own) / 2 for size in sizes) - 0.5
            sums[at] += below / (len(sizes) - 1)
    beside = [sum(right + step in sought for _, right in due) / len(due) for step in (-1, 1)]
    return {
        "ranked": len(due), "ranks": [total / len(due) for total in sums], "right_beside": beside,
    }  # fmt: skip


def _places(evaluator: Any, metric: str | None) -> Numbers:
    """Return the documents of a corpus, and among how many places they are looked for at least.

    The places are those of the measure that chooses the best checkpoint, if it says so.
    """
    documents = evaluated_texts(evaluator, "corpus")
    settings = (
        getattr(evaluator, name, None) for name in ("accuracy_at_k", "precision_recall_at_k")
    )
    places = [int(place) for setting in settings for place in setting or ()]
    if not documents or not places:
        return {}
    chosen = re.search(r"(recall|accuracy)@(\d+)$", str(metric or ""))
    return {
        "documents": len(documents), "places": int(chosen[2]) if chosen else min(places),
        "measure": chosen[1] if chosen else "recall", "chosen": chosen is not None,
    }  # fmt: skip


def _sought(
    evaluator: Any, relevant: Any
) -> tuple[Sequence[str], Sequence[str], Sequence[set[int]]]:
    """Return queries, documents and the places of each query's right ones; of translations too."""
    translations = evaluated_texts(evaluator, "target_sentences")
    if translations:
        sources = evaluated_texts(evaluator, "source_sentences")
        return sources, translations, [{row} for row in range(len(sources))]
    queries, documents = (evaluated_texts(evaluator, name) for name in ("queries", "corpus"))
    keys = list(getattr(evaluator, "queries_ids", None) or [])
    places = {key: at for at, key in enumerate(getattr(evaluator, "corpus_ids", None) or [])}
    if not isinstance(relevant, Mapping) or len(keys) != len(queries):
        return (), (), ()
    return queries, documents, [
        {places[document] for document in relevant.get(key) or () if document in places}
        for key in keys
    ]  # fmt: skip


def _name(evaluator: Any) -> str:
    return str(getattr(evaluator, "name", "") or type(evaluator).__name__)


def _by_column(observation: Observation) -> dict[str, str]:
    """Return the prompts of training by column, or one for all columns by ``""``."""
    prompts = getattr(observation.args, "prompts", None)
    if isinstance(prompts, str):
        return {"": prompts}
    flat: dict[str, str] = {}
    for name, prompt in prompts.items() if isinstance(prompts, Mapping) else ():
        flat |= {str(k): str(p) for k, p in prompt.items()} if isinstance(prompt, Mapping) else {
            str(name): str(prompt)
        }  # fmt: skip
    return flat


def _begin(texts: Sequence[str]) -> str:
    """Return a prompt, such as ``query:``, with which all texts begin; else empty."""
    prompt = prompt_of(texts) if len(texts) >= ROWS_OF_PROMPT else ""
    return f"{prompt} " if prompt.endswith(":") else ""


def _of_role(evaluator: Any, model: Any, attribute: str, setting: str, names: Sequence[str]) -> str:
    """Return the prompt that an evaluator puts before the texts of a role."""
    held = getattr(model, "prompts", None) or {}
    prompt, name = getattr(evaluator, setting, None), getattr(evaluator, f"{setting}_name", None)
    if prompt is None and name is not None:
        prompt = held.get(name)
    elif prompt is None:
        prompt = next((held[name] for name in names if held.get(name)), "")
    return str(prompt or "") + _begin(evaluated_texts(evaluator, attribute))


OF_TRAINER = (roles, unanswered, seams, conflicts)

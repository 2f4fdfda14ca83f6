"""Measures the prompts of both roles, and what an evaluator leaves out, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.answer_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.data.words import word_overlap
from gradlab.diagnosis.evaluation_measurements import (
    COMPARED,
    GOLD,
    ROWS_OF_PROMPT,
    evaluated_texts,
    evaluators_of,
)
from gradlab.diagnosis.observation import Observation
from gradlab.inspection.texts import prompt_of

Numbers = dict[str, Any]
# Attributes of an evaluator of retrieval with the texts of each role and their prompt, and names
# of the prompt among those of the model.
ROLES = (
    ("queries", "query_prompt", ("query",)),
    ("corpus", "corpus_prompt", ("document", "passage", "corpus")),
)


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
    the one after it to others, for ``ranked`` queries.
    """
    answers = []
    for inner in evaluators_of(observation):
        relevant = getattr(inner, "relevant_docs", None)
        cells = next((v for n in GOLD if isinstance(v := getattr(inner, n, None), list)), [])
        queries = evaluated_texts(inner, "queries")
        empty = 0.0
        if isinstance(relevant, Mapping) and relevant:
            empty = sum(not documents for documents in relevant.values()) / len(relevant)
        answers.append({
            "name": _name(inner), "empty": empty, "gold": len(cells),
            "commonest": max(Counter(map(str, cells)).values()) / len(cells) if cells else 0.0,
            "repeated": 1 - len(set(queries)) / len(queries) if queries else 0.0,
            **_ranks_of_neighbours(inner, relevant),
        })  # fmt: skip
    return {"answers": answers} if answers else None


def _ranks_of_neighbours(evaluator: Any, relevant: Any) -> Numbers:
    """Return the mean share of documents with fewer common words than the right one's neighbours.

    The corpus counts in its own order; neighbours are the document before and the one after.
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
    sums = [0.0, 0.0, 0.0]
    for row, (_, right) in enumerate(due):
        sizes = [overlap(0, row, 1, place) for place in range(len(documents))]
        for at, place in enumerate((right, right - 1, right + 1)):
            own = sizes[place]
            below = sum((size < own) + (size == own) / 2 for size in sizes) - 0.5
            sums[at] += below / (len(sizes) - 1)
    return {"ranked": len(due), "ranks": [total / len(due) for total in sums]}


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


OF_TRAINER = (roles, unanswered)

"""The evaluators of a trainer, with their texts, gold and ids.

Evaluators of the user's own may have attributes of the same names that hold something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.diagnosis.observation import Observation

LIBRARIES = ("sentence_transformers.", "gradlab.")
# Attributes of evaluators that hold the texts to be found or compared, and gold scores or labels.
EVALUATED = ("sentences1", "anchors", "queries", "source_sentences")
PAIRED = ("sentences1", "sentences2")
EVERY_TEXT = (*EVALUATED, "sentences2", "positives", "negatives", "corpus", "target_sentences")
GOLD = ("scores", "labels")


def evaluators_of(observation: Observation) -> list[Any]:
    """Return the evaluators of a trainer, and not those that hold them."""
    attached = getattr(observation.trainer, "evaluator", None)
    listed = [*attached] if isinstance(attached, list | tuple) else [attached]
    return [
        inner
        for outer in listed
        if outer is not None
        for inner in getattr(outer, "evaluators", [outer])
    ]


def evaluated_texts(evaluator: Any, name: str) -> list[str]:
    """Return the texts of an evaluator by the name of its attribute."""
    texts = getattr(evaluator, name, None)
    cells = list(texts.values()) if isinstance(texts, Mapping) else texts
    return [cell for cell in cells if isinstance(cell, str)] if isinstance(cells, list) else []


def are_of_libraries(observation: Observation) -> bool:
    """Return whether all evaluators and the trainer's way to evaluate are of libraries."""
    kinds = [type(inner) for inner in evaluators_of(observation)]
    kinds += [kind for kind in type(observation.trainer).__mro__ if "evaluate" in vars(kind)][:1]
    return all(kind.__module__.startswith((*LIBRARIES, "transformers.")) for kind in kinds)


def gold_of(evaluator: Any) -> list[float]:
    """Return the gold scores or labels of an evaluator's texts; empty for none.

    A list of numbers of another length than its texts is something else, such as former scores.
    """
    lengths = {len(evaluated_texts(evaluator, name)) for name in EVERY_TEXT}
    for name in GOLD:
        cells: Any = getattr(evaluator, name, None)
        if _are_numbers(cells) and len(cells) in lengths:
            return list(cells)
    return []


def ids_of(evaluator: Any, name: str) -> list[Any] | None:
    """Return the ids of an evaluator's texts; None where it has a list of texts without ids."""
    ids, texts = getattr(evaluator, f"{name}_ids", None), getattr(evaluator, name, None)
    if ids is not None:
        return list(ids)
    return list(texts) if isinstance(texts, Mapping) else None


def relevant_documents(evaluator: Any) -> Mapping[Any, Any] | None:
    """Return the right documents by the ids of queries; None without such ids.

    Those of queries that the evaluator does not ask are left out, unless it asks none.
    """
    relevant, queries = getattr(evaluator, "relevant_docs", None), ids_of(evaluator, "queries")
    if not isinstance(relevant, Mapping) or queries is None:
        return None
    asked = set(queries)
    return {key: cells for key, cells in relevant.items() if key in asked} or relevant


def _are_numbers(cells: Any) -> bool:
    return isinstance(cells, list) and bool(cells) and all(
        isinstance(cell, int | float) for cell in cells
    )  # fmt: skip

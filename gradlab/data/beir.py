"""Folders in BEIR's layout: queries, documents, and which of them are relevant to each other.

A folder holds ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``. As training data a row
is a query with its relevant documents. Only the split ``train`` is taken without being named.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gradlab.data.table import Table, explained
from gradlab.errors import GradlabError, listed

NAMES = ("query", "positives")


def is_beir(path: Path) -> bool:
    """Return whether a folder, or a file ``qrels/SPLIT.tsv`` in it, is in BEIR's layout."""
    try:
        return (_folder(path) / "corpus.jsonl").is_file() and (
            path.is_dir() or (path.is_file() and path.parent.name == "qrels")
        )
    except OSError:
        return False


def open_beir(path: Path) -> Table:
    """Return queries and lists of relevant documents of a folder, or of one of its splits."""
    folder = _folder(path)
    relevances = path if path.is_file() else folder / "qrels" / "train.tsv"
    if not relevances.is_file():
        splits = sorted((folder / "qrels").glob("*.tsv"))
        hint = f"; name another split: {listed([str(split) for split in splits])}" * bool(splits)
        raise GradlabError(f"{folder} has no qrels/train.tsv{hint}")
    return Table(
        path,
        f"BEIR's layout, split {relevances.stem!r}",
        NAMES,
        lambda columns: _rows(folder, relevances, columns),
        (*(folder / f"{name}.jsonl" for name in ("corpus", "queries")), relevances),
    )


def documents_of(file: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of ``corpus.jsonl`` or ``queries.jsonl`` by their ``_id``.

    Raises:
        GradlabError: a file that cannot be read, a row without a text, or an ``_id`` twice.
    """
    hint = "; a retrieval task has corpus.jsonl, queries.jsonl and qrels/test.tsv"
    rows: dict[str, dict[str, Any]] = {}
    if not file.is_file():
        raise GradlabError(f"{file} does not exist{hint}")
    with explained(file), file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            with explained(file, f", line {number}"):
                row = json.loads(line)
                sound = isinstance(row, dict) and isinstance(row.get("text"), str) and "_id" in row
                if not sound or str(row["_id"]) in rows:
                    raise ValueError(
                        f'a row is {{"_id": ..., "text": ...}} with an _id of its own{hint}'
                    )
                rows[str(row["_id"])] = row
    return rows


def document_text(row: dict[str, Any]) -> str:
    """Return the title and the text of a document as one text."""
    title = row.get("title")
    return f"{title} {row['text']}".strip() if isinstance(title, str) and title else row["text"]


def relevances_of(
    file: Path, documents: dict[str, dict[str, Any]], queries: dict[str, dict[str, Any]]
) -> dict[str, dict[str, int]]:
    """Return relevances by query and document, for queries that have a relevant document.

    Raises:
        GradlabError: a file that cannot be read, or a line that is no query, document and score.
    """
    relevances: dict[str, dict[str, int]] = {}
    hint = "; its lines are query, document, relevance"
    if not file.is_file():
        raise GradlabError(f"{file} does not exist{hint}")
    with explained(file), file.open(encoding="utf-8-sig", newline="") as lines:
        table = csv.reader(lines, delimiter="\t")
        header = next(table, [])  # query-id, corpus-id, score
        if header and header[0] in queries and header[-1].lstrip("-").isdecimal():
            raise ValueError(
                "line 1 is a relevance; the first line names the columns: query-id, corpus-id, "
                "score"
            )
        for number, row in enumerate(table, start=2):
            query, document, score = row if len(row) == 3 else ("", "", "")
            if query not in queries or document not in documents:
                raise ValueError(
                    f"line {number}: {row} is not a query and a document of the task, and a score"
                )
            if document in relevances.setdefault(query, {}):
                raise ValueError(
                    f"line {number}: {query!r} and {document!r} are in an earlier line"
                )
            try:
                relevances[query][document] = int(score)
            except ValueError:
                raise ValueError(f"line {number}: {score!r} is no whole number{hint}") from None
    relevances = {query: scores for query, scores in relevances.items() if max(scores.values()) > 0}
    if not relevances:
        raise GradlabError(f"{file} has no query with a relevant document")
    return relevances


def _folder(path: Path) -> Path:
    return path.parents[1] if path.suffix == ".tsv" and len(path.parents) > 1 else path


def _rows(folder: Path, file: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    documents, queries = (documents_of(folder / f"{name}.jsonl") for name in ("corpus", "queries"))
    for query, scores in relevances_of(file, documents, queries).items():
        relevant = sorted(
            (document for document in scores if scores[document] > 0),
            key=lambda document: -scores[document],
        )
        row = {
            "query": queries[query]["text"],
            "positives": [document_text(documents[document]) for document in relevant],
        }
        yield tuple(row[name] for name in columns)

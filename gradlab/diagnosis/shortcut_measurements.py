"""Measures whether something else than its meaning tells which texts match, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.shortcut_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gradlab.diagnosis.observation import Observation, ObservedBatch

# Rows that are read; words that a text has at least for being contained to mean something, and how
# many times as long the other one is: a pair that differs by a word or two is an augmentation.
READ_ROWS, FEWEST_WORDS, LONGER = 2000, 4, 1.4
# Texts that stand for a missing one, and marks of files that were read with the wrong encoding or
# with their markup.
MISSING = {
    "nan", "none", "null", "n/a", "na", "<na>", "nil", "undefined", "unknown", "missing", "todo",
    "[deleted]", "[removed]", "#n/a", "-", "--", "?", "...",
}  # fmt: skip
MARKUP = re.compile(
    r"^\s*[\[{]\s*['\"]|^b(['\"]).*\1$|Ã.|â€|\ufffd|&(amp|lt|gt|quot|nbsp|#\d+);|</?(p|div|br|span|a|li|ul|td|tr|b|i|h\d)\b[^>]*>"
)
Numbers = dict[str, Any]


def markers(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the word that tells positives from negatives best, and the shares that have it."""
    texts = _texts(observation, dataset)
    if len(texts) < 3 or not all(map(_is_filled, texts[1:3])):
        return None
    holders = [Counter(w for text in column for w in set(words_of(text))) for column in texts[1:3]]
    rows = len(texts[1])
    word = max(
        holders[0] | holders[1], key=lambda w: abs(holders[0][w] - holders[1][w]), default=""
    )
    return {
        "rows": rows,
        "word": word,
        "positives": holders[0][word] / rows,
        "negatives": holders[1][word] / rows,
    }


def contained(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return shares of rows whose texts hold each other, share a number, or have the same words."""
    texts = _texts(observation, dataset)
    if len(texts) < 2 or batches[0].labelled:
        return None
    words = [[words_of(text) for text in column] for column in texts[:2]]
    rows = list(zip(*words, strict=True))
    holders = Counter(word for row in rows for word in {w for text in row for w in text})
    marked = [
        next((first[end] for end in (0, -1) if first and second and first[end] == second[end]
              and holders[first[end]] == 1 and re.search(r"\d", first[end])), "")
        for first, second in rows
    ]  # fmt: skip
    return {
        "rows": len(rows),
        "in_anchor": sum(_holds(first, second) for first, second in rows) / len(rows),
        "marked": sum(map(bool, marked)) / len(rows),
        "mark": next(filter(None, marked), ""),
        "alike": sum(
            first == second != [] and len(set(row)) > 1
            for (first, second), row in zip(rows, zip(*texts[:2], strict=True), strict=True)
        ) / len(rows),
        "same": sum(len(set(row)) == 1 for row in zip(*texts[:2], strict=True)) / len(rows),
    }  # fmt: skip


def remains(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the column with most texts that stand for a missing one, or that hold markup."""
    table = observation.table_of(dataset)
    shares = {
        name: (
            sum(text.strip().lower() in MISSING for text in cells) / len(cells),
            sum(bool(MARKUP.search(text)) for text in cells) / len(cells),
            next((text for text in cells if text.strip().lower() in MISSING), ""),
            next((match[0] for text in cells if (match := MARKUP.search(text))), ""),
        )
        for name, cells in ((name, column[:READ_ROWS]) for name, column in table.items())
        if cells
    }
    if not shares:
        return None
    missing = max(shares, key=lambda name: shares[name][0])
    marked = max(shares, key=lambda name: shares[name][1])
    return {
        "missing_column": missing, "missing": shares[missing][0], "text": shares[missing][2],
        "marked_column": marked, "marked": shares[marked][1], "mark": shares[marked][3],
    }  # fmt: skip


def beginning(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how many tokens all texts of a column begin with, where a mean is taken over them.

    None where another pooling is used, or the tokens of prompts are left out.
    """
    modules = list(getattr(observation.trainer.model, "modules", list)())
    poolings = [module for module in modules if hasattr(module, "pooling_mode")]
    if not poolings or "mean" not in str(poolings[0].pooling_mode):
        return None
    leaves_out = not getattr(poolings[0], "include_prompt", True)
    most: Numbers = {"prefix": 0, "length": 1.0, "column": ""}
    names = list(observation.table_of(dataset))
    for place, column in enumerate(batches[0].columns):
        if not {"input_ids", "attention_mask"} <= set(column):
            continue
        if leaves_out and "prompt_length" in column:
            continue
        rows = [ids[mask.bool()].tolist() for ids, mask in zip(
            column["input_ids"], column["attention_mask"], strict=True
        )]  # fmt: skip
        prefix = 0
        for tokens in zip(*rows, strict=False):
            if len(set(tokens)) > 1:
                break
            prefix += 1
        length = sum(map(len, rows)) / len(rows)
        if len(rows) > 3 and prefix / length > most["prefix"] / most["length"]:
            name = names[place] if place < len(names) else str(place)
            most = {"prefix": prefix, "length": length, "column": name}
    return most


def brevity(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the median number of words of the anchors and of the positives, by column."""
    table = observation.table_of(dataset)
    counts = {
        name: float(statistics.median(len(words_of(text)) for text in cells[:READ_ROWS]))
        for name, cells in list(table.items())[:2] if cells
    }  # fmt: skip
    return {"words": counts} if len(counts) == 2 else None


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def _is_filled(column: Sequence[str]) -> bool:
    """Return whether most texts of a column are not empty: an empty column lacks every word."""
    return sum(bool(text.strip()) for text in column) > len(column) / 2


def _holds(text: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether a clearly longer text contains another one of several words, word by word."""
    if len(phrase) < FEWEST_WORDS or len(text) < LONGER * len(phrase):
        return False
    return f" {' '.join(phrase)} " in f" {' '.join(text)} "


def _texts(observation: Observation, dataset: str) -> list[Sequence[str]]:
    columns = observation.table_of(dataset).values()
    return [column[:READ_ROWS] for column in columns if column]


OF_LOSS = (markers, contained, remains, beginning, brevity)

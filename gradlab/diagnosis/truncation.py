"""Measures whether what truncation cuts off is what the texts of a row have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.data.words import words_of
from gradlab.diagnosis.observation import Observation, ObservedBatch

# Words by which a text is matched; share of the truncated texts that must be matched; share of the
# words of a text that is its own view which must be kept.
FIRST_WORDS, MOST_MATCHED, MUCH_KEPT = 6, 0.5, 0.5
LONGEST_TEXTS = 16  # of a column, by letters, whose tokens are counted


def lost_words(observation: Observation, limit: int) -> float | None:
    """Return the share of the words common to both texts of a row that are cut off in its batch.

    Rare words count more. None where texts are not matched, or have no words in common.
    """
    tokenizer: Any = getattr(observation.trainer.model, "tokenizer", None)
    whole, lost, truncated, matched = 0.0, 0.0, 0, 0
    for batch in observation.batches:
        columns = [column for column in observation.table_of(batch.dataset).values() if column][:2]
        if len(columns) < 2 or not hasattr(tokenizer, "decode"):
            return None
        weight = _weights(columns)
        rows = [
            [_matched(words, texts) for words in _kept(tokenizer, tokens)]
            for texts, tokens in zip(map(_by_beginning, columns), batch.columns, strict=False)
        ]
        reach = zip(*(_reach(batch, place, limit) for place in range(2)), strict=True)
        for row, reaches in zip(zip(*rows, strict=True), reach, strict=True):
            if not any(reaches):
                continue
            truncated += 1
            if None in row:
                continue
            matched += 1
            (first, kept_first), (second, kept_second) = row
            whole += sum(map(weight.__getitem__, first & second))
            # One text twice, with dropout, is cut alike: what is left of it is still its view.
            is_one_text = first == second and kept_first == kept_second
            if is_one_text and len(kept_first) >= MUCH_KEPT * len(first):
                continue
            lost += sum(map(weight.__getitem__, (first & second) - (kept_first & kept_second)))
    return lost / whole if whole and matched >= MOST_MATCHED * truncated else None


def longest_text(observation: Observation) -> int | None:
    """Return the tokens of the longest of the longest texts of each column; None without texts."""
    tokenizer: Any = getattr(observation.trainer.model, "tokenizer", None)
    columns = [column for table in observation.tables.values() for column in table.values()]
    texts = [text for column in columns for text in sorted(column, key=len)[-LONGEST_TEXTS:]]
    prompts = getattr(observation.trainer.args, "prompts", None)
    if not texts or prompts:
        return None
    return max(map(len, tokenizer(texts, truncation=False)["input_ids"]))


def _reach(batch: ObservedBatch, place: int, limit: int) -> list[bool]:
    """Return which rows of a column reach the longest length."""
    return (batch.columns[place]["attention_mask"].sum(1) >= limit).tolist()


def _weights(columns: Sequence[Sequence[str]]) -> Mapping[str, float]:
    """Return the weight of each word, larger for rare ones."""
    counts = Counter(word for texts in columns for text in texts for word in set(words_of(text)))
    texts = sum(map(len, columns))
    return {word: math.log(1 + texts / count) for word, count in counts.items()}


def _by_beginning(texts: Sequence[str]) -> Mapping[tuple[str, ...], list[str] | None]:
    """Return the words of each text by its first words; None where several begin alike."""
    beginnings: dict[tuple[str, ...], list[str] | None] = {}
    for words in map(words_of, dict.fromkeys(texts)):
        key = tuple(words[:FIRST_WORDS])
        beginnings[key] = None if key in beginnings else words
    return beginnings


def _kept(tokenizer: Any, tokens: Mapping[str, Any]) -> list[list[str]]:
    """Return the words that each text of a batch keeps."""
    return [
        words_of(tokenizer.decode(ids, skip_special_tokens=True)) for ids in tokens["input_ids"]
    ]


def _matched(
    kept: Sequence[str], texts: Mapping[tuple[str, ...], list[str] | None]
) -> tuple[set[str], set[str]] | None:
    """Return the words of the text that begins with kept words, and of these; None if unknown."""
    words = texts.get(tuple(kept[:FIRST_WORDS]))
    return None if words is None else (set(words), set(words[: len(kept)]))

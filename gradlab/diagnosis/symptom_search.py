"""Which symptom do words describe? Ridge regression on TF-IDF of words, their parts and notions."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradlab.files import read_packaged

# Words that do not distinguish symptoms.
LISTED = """
    a all am an and any are as at be by can could do does did for from get gets got had has
    have how i if in is it its just may me my no not of on one or our should so than that the
    their them then there these they this to too use using very was we were what when which
    while why will with would you your
"""
SKIPPED = frozenset(LISTED.split())
TOKEN = re.compile(r"n't|[a-z][a-z0-9_]*|\d+(?:\.\d+)?(?:e[+-]?\d+)?|±")
# Letters in a part of a word; words between two that make a pair.
PART, WINDOW = 4, 2
# Weight of words and pairs of words, of their parts, and of notions and pairs of notions.
WEIGHTS = (1.0, 1.0, 0.6)
# Losses of guessing among 2, 4, 8, ... candidates, and how near a number is to one of them.
GUESSING, NEAR = tuple(math.log(2**power) for power in range(1, 17)), 0.006
# Penalty of the regression; the residual at which the conjugate gradients stop.
PENALTY, RESIDUAL = 0.3, 1e-3

Counts = tuple[Counter[str], Counter[str], Counter[str]]


class Index:
    """Symptoms by their phrases, to find the one that words describe."""

    def __init__(self, phrases: Sequence[tuple[str, Sequence[str], float]]) -> None:
        """Take phrases, the symptoms that each of them describes, and their weights."""
        self._names = list(dict.fromkeys(name for _, names, _ in phrases for name in names))
        self._targets = np.array(
            [[float(name in names) for name in self._names] for _, names, _ in phrases]
        )
        self._penalties = PENALTY / np.array([weight for _, _, weight in phrases])
        self._columns = dict[str, int]()
        families = [family for text, _, _ in phrases for family in features(text)]
        columns = self._columns
        self._cells = np.array(
            [columns.setdefault(word, len(columns)) for family in families for word in family]
        )
        total = 1 + len(phrases)
        self._rarity = 1 + np.log(total / (1 + np.bincount(self._cells)))
        self._unknown = 1 + math.log(total)
        owners = np.repeat(np.arange(len(families)), [len(family) for family in families])
        times = np.array([n for family in families for n in family.values()])
        self._rows = owners // len(WEIGHTS)
        sizes = (1 + np.log(times)) * self._rarity[self._cells]
        squares = np.bincount(owners, sizes * sizes)
        shares = np.array(WEIGHTS)[owners % len(WEIGHTS)] / sum(WEIGHTS)
        self._values = sizes * np.sqrt(shares / squares[owners])

    def scores(self, words: str) -> list[tuple[str, float]]:
        """Return the names of symptoms with their scores, from the likeliest on.

        A phrase of a symptom scores about 1 for it, and words that share nothing with any score 0.
        """
        question = np.zeros(len(self._columns))
        for weight, family in zip(WEIGHTS, features(words), strict=True):
            cells = [self._columns.get(word, -1) for word in family]
            rarity = np.array(
                [self._rarity[cell] if cell >= 0 else self._unknown for cell in cells]
            )
            sizes = (1 + np.log(list(family.values()))) * rarity
            scale = math.sqrt(weight / sum(WEIGHTS)) / (np.linalg.norm(sizes) or 1.0)
            for cell, size in zip(cells, sizes, strict=True):
                if cell >= 0:
                    question[cell] = scale * size
        scores = self._solve(self._products(question)) @ self._targets
        pairs = zip(self._names, scores.tolist(), strict=True)
        return sorted(pairs, key=lambda pair: -pair[1])

    def _products(self, vector: np.ndarray) -> np.ndarray:
        """Return the products of a vector with those of the phrases."""
        terms = self._values * vector[self._cells]
        return np.bincount(self._rows, terms, len(self._penalties))

    def _solve(self, products: np.ndarray) -> np.ndarray:
        """Return the weights of the phrases in an answer, by conjugate gradients."""
        weights, residual = np.zeros_like(products), products.copy()
        direction, size = residual, residual @ residual
        limit = RESIDUAL**2 * size
        while size > limit:
            mixed = np.bincount(
                self._cells, self._values * direction[self._rows], len(self._columns)
            )
            image = self._products(mixed) + self._penalties * direction
            step = size / (direction @ image)
            weights, residual = weights + step * direction, residual - step * image
            size, former = residual @ residual, size
            direction = residual + size / former * direction
        return weights


@functools.cache
def features(text: str) -> Counts:
    """Return the words and pairs of words of a text, parts of words, notions and their pairs."""
    tokens = _tokens(text)
    words = [_stem(token) for token in tokens if token not in SKIPPED]
    pairs = [
        f"={word} {near}"
        for at, word in enumerate(words)
        for near in words[at + 1 : at + 1 + WINDOW]
    ]
    parts = [part for token in tokens for part in _parts(token)]
    notions = [f"#{notion}" for notion in sorted(_notions(tokens))]
    notion_pairs = [f"{a}{b}" for at, a in enumerate(notions) for b in notions[at + 1 :]]
    return (
        Counter([f"={word}" for word in words] + pairs),
        Counter(parts),
        Counter(notions + notion_pairs),
    )


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(text.lower().replace("’", "'").replace("n't", " n't"))


@functools.cache
def _parts(token: str) -> tuple[str, ...]:
    padded = f" {token} "
    return tuple(f"~{padded[at : at + PART]}" for at in range(len(padded) - PART + 1))


@functools.cache
def _stem(word: str) -> str:
    for ending in ("ings", "ing", "ies", "es", "ed", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def _notions(tokens: Sequence[str]) -> set[str]:
    """Return the notions of the words and phrases among tokens, and the kinds of their numbers."""
    notions = set[str]()
    for at, token in enumerate(tokens):
        notions.update(_number(token))
        for notion, phrase in _starting(token):
            near = tokens[at : at + len(phrase)]
            if len(near) == len(phrase) and all(map(_fits, near, phrase)):
                notions.add(notion)
    return notions


@functools.cache
def _starting(token: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the notions, each with the words of a phrase, whose first word a token fits."""
    ends = range(1, len(token) + 1)
    patterns = (token, *(f"{token[:end]}*" for end in ends))
    return tuple(pair for pattern in patterns for pair in _phrases().get(pattern, ()))


@functools.cache
def _phrases() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return the phrases of all notions by their first word."""
    by_word = dict[str, list[tuple[str, tuple[str, ...]]]]()
    lists: Mapping[str, str] = read_packaged("gradlab.diagnosis", "symptom_words.toml")
    for notion, listed in lists.items():
        for text in listed.split(","):
            phrase = tuple(_patterns(text))
            by_word.setdefault(phrase[0], []).append((notion, phrase))
    return by_word


def _patterns(text: str) -> Iterator[str]:
    """Yield the tokens of a phrase; one before a star has the star."""
    for word in text.split():
        *tokens, last = _tokens(word)
        yield from tokens
        yield f"{last}*" if word.endswith("*") else last


def _fits(token: str, pattern: str) -> bool:
    return token.startswith(pattern[:-1]) if pattern.endswith("*") else token == pattern


@functools.cache
def _number(token: str) -> tuple[str, ...]:
    """Return the kind of a number, or nothing for a word."""
    if not token[0].isdigit():
        return ()
    value = float(token)
    if "." in token and any(abs(value - loss) < NEAR for loss in GUESSING):
        return ("chance",)
    if value < 0.05:
        return ("tiny",) if value else ("zero",)
    if 0.6 <= value < 1:
        return ("high",)
    return ("decimal",) if "." in token else ("count",)

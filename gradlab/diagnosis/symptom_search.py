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
SKIPPED = """
    a all am an and any are as at be by can could do does did for from get gets got had has
    have how i if in is it its just may me my no not of on one or our should so than that the
    their them then there these they this to too use using very was we were what when which
    while why will with would you your
"""
TOKEN = re.compile(r"n't|[a-z][a-z0-9_]*|\d+(?:\.\d+)?(?:e[+-]?\d+)?|±")
# Letters in a part of a word; words between two that make a pair.
PART, WINDOW = 4, 2
# Weight of words and pairs of words, of their parts, and of notions and pairs of notions.
WEIGHTS = (1.0, 1.0, 0.6)
# Losses of guessing among 2, 4, 8, ... candidates, and how near a number is to one of them.
GUESSING, NEAR = tuple(math.log(2**power) for power in range(1, 17)), 0.006
# Penalty of the regression; the residual at which the conjugate gradients stop.
PENALTY, RESIDUAL = 0.3, 1e-4

Counts = tuple[Counter[str], Counter[str], Counter[str]]


class Index:
    """Symptoms by their phrases, to find the one that words describe."""

    def __init__(self, phrases: Sequence[tuple[str, Sequence[str], float]]) -> None:
        """Take phrases, the symptoms that each of them describes, and their weights."""
        counts = [features(text) for text, _, _ in phrases]
        holders = Counter(word for of_text in counts for family in of_text for word in family)
        total = 1 + len(phrases)
        self._rarity = {word: 1 + math.log(total / (1 + n)) for word, n in holders.items()}
        self._unknown = 1 + math.log(total)
        self._columns = {word: column for column, word in enumerate(holders)}
        vectors = [self._vector(of_text) for of_text in counts]
        self._rows = np.repeat(np.arange(len(vectors)), [len(vector) for vector in vectors])
        self._cells = np.array([self._columns[word] for vector in vectors for word in vector])
        self._values = np.array([value for vector in vectors for value in vector.values()])
        self._penalties = PENALTY / np.array([weight for _, _, weight in phrases])
        self._names = list(dict.fromkeys(name for _, names, _ in phrases for name in names))
        self._targets = np.array(
            [[float(name in names) for name in self._names] for _, names, _ in phrases]
        )

    def scores(self, words: str) -> list[tuple[str, float]]:
        """Return the names of symptoms with their scores, from the likeliest on.

        A phrase of a symptom scores about 1 for it, and words that share nothing with any score 0.
        """
        question = np.zeros(len(self._columns))
        for word, value in self._vector(features(words)).items():
            if word in self._columns:
                question[self._columns[word]] = value
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

    def _vector(self, counts: Counts) -> dict[str, float]:
        """Return the TF-IDF weights of the features of a text, each family of length 1."""
        vector = dict[str, float]()
        for weight, family in zip(WEIGHTS, counts, strict=True):
            sizes = {
                word: (1 + math.log(n)) * self._rarity.get(word, self._unknown)
                for word, n in family.items()
            }
            length = math.sqrt(sum(size * size for size in sizes.values()))
            scale = math.sqrt(weight / sum(WEIGHTS)) / (length or 1.0)
            vector.update((word, scale * size) for word, size in sizes.items())
        return vector


def features(text: str) -> Counts:
    """Return the words and pairs of words of a text, parts of words, notions and their pairs."""
    tokens = _tokens(text)
    skipped = set(SKIPPED.split())
    words = [_stem(token) for token in tokens if token not in skipped]
    counts = Counter(f"={word}" for word in words)
    for at, word in enumerate(words):
        counts.update(f"={word} {near}" for near in words[at + 1 : at + 1 + WINDOW])
    parts = Counter(part for token in tokens for part in _parts(token))
    notions = sorted(_notions(tokens))
    pairs = (f"#{a}#{b}" for at, a in enumerate(notions) for b in notions[at + 1 :])
    return counts, parts, Counter([f"#{notion}" for notion in notions] + list(pairs))


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

"""Which symptom do words describe? Ridge regression on TF-IDF of words, their parts and notions."""

from __future__ import annotations

import functools
import itertools
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

NEGATIONS = frozenset(["n't", "not", "no", "without", "never", "non"])
# Quantities whose numbers are followed through a text, and settings whose numbers are not theirs.
QUANTITIES = (
    ("gradient", re.compile("grad")),
    ("score", re.compile("spearman|pearson|ndcg|mrr|^map|recall|acc|auc|score|metric|^f1")),
    ("validation", re.compile("^val|^eval|^dev|^test")),
    ("positive", re.compile("^pos")),
    ("negative", re.compile("^neg")),
    ("loss", re.compile("loss|train")),
)
SETTINGS = frozenset(
    ["epoch", "lr", "learning_rate", "temperature", "scale", "margin", "dropout", "at", "rate"]
)

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

    def scores(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """Return, for each text, the names of symptoms with their scores, from the likeliest on.

        A phrase of a symptom scores about 1 for it, and words that share nothing with any score 0.
        """
        questions = np.array([self._vector(text) for text in texts])
        if len(texts) < len(self._names):
            weights = np.array([self._solve(self._products(vector)) for vector in questions])
            table = weights @ self._targets
        else:
            learnt = [self._mixture(self._solve(target)) for target in self._targets.T]
            table = questions @ np.array(learnt).T
        return [
            sorted(zip(self._names, row, strict=True), key=lambda pair: -pair[1])
            for row in table.tolist()
        ]

    def _vector(self, text: str) -> np.ndarray:
        """Return the sizes of the columns in a text."""
        vector = np.zeros(len(self._columns))
        for weight, family in zip(WEIGHTS, features(text), strict=True):
            cells = [self._columns.get(word, -1) for word in family]
            rarity = np.array(
                [self._rarity[cell] if cell >= 0 else self._unknown for cell in cells]
            )
            sizes = (1 + np.log(list(family.values()))) * rarity
            scale = math.sqrt(weight / sum(WEIGHTS)) / (np.linalg.norm(sizes) or 1.0)
            for cell, size in zip(cells, sizes, strict=True):
                if cell >= 0:
                    vector[cell] = scale * size
        return vector

    def _products(self, vector: np.ndarray) -> np.ndarray:
        """Return the products of a vector with those of the phrases."""
        terms = self._values * vector[self._cells]
        return np.bincount(self._rows, terms, len(self._penalties))

    def _mixture(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum of the phrases with weights."""
        return np.bincount(self._cells, self._values * weights[self._rows], len(self._columns))

    def _solve(self, products: np.ndarray) -> np.ndarray:
        """Return the weights of the phrases that give products, by conjugate gradients."""
        weights, residual = np.zeros_like(products), products.copy()
        direction, size = residual, residual @ residual
        limit = RESIDUAL**2 * size
        while size > limit:
            image = self._products(self._mixture(direction)) + self._penalties * direction
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
    kinds = {*_notions(tokens), *_trends(tokens), *_repeats(tokens)}
    notions = [f"#{notion}" for notion in sorted(kinds)]
    notion_pairs = [f"{a}{b}" for at, a in enumerate(notions) for b in notions[at + 1 :]]
    return (
        Counter([f"={word}" for word in words] + pairs),
        Counter(itertools.chain.from_iterable(map(_parts, tokens))),
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


def _notions(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the notions of the words and phrases among tokens, and the kinds of their numbers."""
    for at, token in enumerate(tokens):
        alone, phrases = _starting(token)
        yield from alone
        for notion, following in phrases:
            near = tokens[at + 1 : at + 1 + len(following)]
            if len(near) == len(following) and all(map(_fits, near, following)):
                yield notion


def _repeats(tokens: Sequence[str]) -> Iterator[str]:
    """Yield whether several words come twice, as in a sentence and its negation."""
    times = Counter(token for token in tokens if token not in SKIPPED and token.isalpha())
    if sum(n > 1 for n in times.values()) > 1:
        yield "twice"
        if NEGATIONS & set(tokens):
            yield "twice negated"


def _trends(tokens: Sequence[str]) -> Iterator[str]:
    """Yield how the numbers behind each quantity change, as in a log."""
    if sum("." in token for token in tokens) < 2:
        return
    series = dict[str, list[float]]()
    quantity = "number"
    for former, token in zip(["", *tokens], tokens, strict=False):
        if "." in token:
            if former not in SETTINGS:
                series.setdefault(quantity, []).append(float(token))
        else:
            quantity = next((key for key, word in QUANTITIES if word.search(token)), quantity)
    for key, values in series.items():
        first, last = values[0], values[-1]
        if len(values) > 1:
            change = "up" if last > 1.03 * first else "down" if last < 0.97 * first else "level"
            yield f"{key} {change}"
            if last > 3 * min(values):
                yield f"{key} soars"


@functools.cache
def _starting(token: str) -> tuple[Sequence[str], Sequence[tuple[str, Sequence[str]]]]:
    """Return the notions of a token, and those of phrases that it starts, each with the rest."""
    ends = range(1, len(token) + 1)
    patterns = (token, *(f"{token[:end]}*" for end in ends))
    fitting = [pair for pattern in patterns for pair in _phrases().get(pattern, ())]
    alone = [notion for notion, phrase in fitting if len(phrase) == 1]
    return [*_number(token), *alone], [
        (notion, phrase[1:]) for notion, phrase in fitting if len(phrase) > 1
    ]


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

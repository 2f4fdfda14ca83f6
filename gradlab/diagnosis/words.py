"""The words of texts, and what texts have in common by them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

# Letters of Chinese, Japanese, Thai, Lao, Khmer and Burmese, which do not separate words by spaces:
# each is taken for a word.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff"
)
WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
Overlap = Callable[[int, int, int, int], float]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; of a script without spaces, its letters."""
    return WORD.findall(text.lower())


def plain(text: str) -> str:
    """Return the words of a text in lower case, without punctuation; the text if it has none."""
    return " ".join(words_of(text)) or text


def word_overlap(columns: Sequence[Sequence[str]]) -> Overlap:
    """Return a function (column, row, column, row) -> share of common words, rare ones more."""
    words = [[set(words_of(text)) for text in column] for column in columns]
    frequency = Counter(word for column in words for of_text in column for word in of_text)
    texts = sum(map(len, words))
    weight = {word: math.log(1 + texts / times) for word, times in frequency.items()}

    def overlap(column: int, row: int, partner_column: int, partner: int) -> float:
        first, second = words[column][row], words[partner_column][partner]
        union = sum(map(weight.__getitem__, first | second))
        return sum(map(weight.__getitem__, first & second)) / union if union else 0.0

    return overlap

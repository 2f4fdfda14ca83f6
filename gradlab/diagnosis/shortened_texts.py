"""Were the texts of a column shortened: at one length, or with an ellipsis at the end?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from gradlab.data.words import words_of

# Characters of a text below which its length says nothing; fewest words of it; fewest such texts of
# a column.
SHORT, FEWEST_WORDS, FEWEST_DIFFERENT = 10, 3, 24
# Kinds of signs that close a text, and signs among them that do not.
CLOSING, WITHIN_SENTENCES = ("Po", "Pe", "Pf"), ",،、，፣၊/\\&@#*%"
# What says that a text was shortened, and an ellipsis, which people write as well.
MARK = re.compile(r"(\[\.\.\.\]|\[truncated\]|\[?(read|show) more\]?)\W*$", re.IGNORECASE)
ELLIPSIS = re.compile(r"(\.\.\.|…)\W*$")
# Share of texts with an ellipsis that are as long as the longest of them, or have as many words,
# where all were shortened; share of last words that stand within other texts, as where a text ends
# in the midst of a sentence; share of last words that stand elsewhere, where texts are whole.
MOSTLY_AS_LONG, WITHIN, WHOLE = 0.8, 0.5, 0.5


def with_ellipsis(texts: Sequence[str]) -> tuple[float, str]:
    """Return the share of texts that were shortened with an ellipsis or a mark, and one of them.

    People end sentences with an ellipsis too. It shortens texts that have one length in characters,
    or in words with any word at the end, and that no text without it exceeds.
    """
    marked = [text for text in texts if MARK.search(text)]
    # Without a word, as in Morse, dots are no ellipsis.
    ending = [text for text in texts if ELLIPSIS.search(text) and not MARK.search(text)]
    ending = [text for text in ending if words_of(text)]
    if not _have_one_length(ending, texts):
        ending = []
    shortened = marked + ending
    return len(shortened) / max(1, len(texts)), shortened[0][:60] if shortened else ""


def at_the_longest(texts: Sequence[str]) -> tuple[float, int]:
    """Return the share of different texts as long as the longest that do not end, and its length.

    Texts have three words or more, as half of a column has. A text that ends has a full stop or
    another closing mark. Where it is cut behind a word, the space behind that may be missing; where
    it is cut within one, the rest of that stands nowhere else.
    """
    different = [text for text in set(texts) if len(text.split()) >= FEWEST_WORDS]
    longest = max(map(len, different), default=0)
    few = len(different) < max(FEWEST_DIFFERENT, len(set(texts)) / 2)
    if longest < SHORT or few:
        return 0.0, longest
    cut = [text for text in different if len(text) >= longest - 1 and not _ends(text)]
    # Texts of one number of words, such as keywords, are that long by themselves, and so are those
    # of a form whose last words are whole.
    whole = len({len(text.split()) for text in cut}) < 2 or _end_in_words(cut, different)
    return 0.0 if whole else len(cut) / len(different), longest


def _have_one_length(ending: Sequence[str], texts: Sequence[str]) -> bool:
    """Return whether texts that end with an ellipsis were cut at a length."""
    bare = [ELLIPSIS.sub("", text) for text in ending]
    unmarked = [text for text in texts if not ELLIPSIS.search(text)]
    if not bare:
        return False
    for length, slack in ((len, 1), (lambda text: len(text.split()), 0)):
        most = max(map(length, bare))
        as_long = sum(length(text) >= most - slack for text in bare)
        longer = sum(length(text) > most + len("...") for text in unmarked)
        is_cut = as_long >= MOSTLY_AS_LONG * len(bare) and 2 * longer <= len(bare)
        if is_cut and (slack or _stand_within(bare)):
            return True
    return False


def _stand_within(texts: Sequence[str]) -> bool:
    """Return whether last words of texts stand within texts as well."""
    split = [words for text in texts if (words := words_of(text))]
    within = {word for words in split for word in words[:-1]}
    return sum(words[-1] in within for words in split) >= WITHIN * max(1, len(split))


def _end_in_words(cut: Sequence[str], texts: Sequence[str]) -> bool:
    """Return whether the last words of texts that may be cut are whole: numbers, or known words."""
    apart = set(cut)
    elsewhere = {word for text in texts for word in words_of(text)[: -1 if text in apart else None]}
    last = [words[-1] for text in cut if (words := words_of(text))]
    whole = sum(any(map(str.isdigit, word)) or word in elsewhere for word in last)
    return whole > WHOLE * max(1, len(last))


def _ends(text: str) -> bool:
    """Return whether a text has a full stop, or another closing mark of its script, at its end."""
    last = text.rstrip()[-1:]
    if last in WITHIN_SENTENCES:
        return False
    return last == ">" or unicodedata.category(last) in CLOSING

"""Do two texts say the same by their words, or do they state other facts?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gradlab.inspection.texts import Texts, normalize, words_of
from gradlab.inspection.word_index import WordIndex
from gradlab.progress_bars import progress_bar

# A word fills a slot if it changes in more than SHARE of the pairs with it, in at least PAIRS, and
# against at least COUNTERPARTS other words: two spellings of a word replace only each other.
PAIRS, COUNTERPARTS, SHARE = 5, 3, 0.5
# Share of common words from which on pairs reveal slots, and largest number of pairs to look at.
ALIKE, ASKED = 0.5, 50_000
ARTICLE = 3  # letters of articles and short prepositions
# Words that turn a statement into its opposite; "t" is what remains of "don't".
NEGATIONS = frozenset((
    "not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without",
    "cannot", "t", "nicht", "nie", "kein", "keine", "keinen", "keiner", "niet", "geen", "inte",
    "ne", "pas", "non", "nunca", "sin", "não", "senza",
    "ikke", "ikkje", "ekki", "utan", "uden", "uten", "zonder", "ohne", "sans", "sem", "nu", "fără",
    "nie", "bez", "není", "nem", "nincs", "nélkül", "ei", "emme", "ette", "eivät",
    "ilman", "ilma", "nav", "nėra", "не", "нет", "ни", "без", "ні", "немає", "няма",
    "нема", "жоқ", "емес", "биш", "үгүй", "δεν", "δε", "μην", "όχι", "χωρίς", "değil", "yok",
    "deyil", "nuk", "gabe", "ddim", "ní", "gan", "hapana", "bila", "tidak", "bukan",
    "tanpa", "hindi", "wala", "không", "chưa", "kò", "babu", "לא", "אין", "בלי", "לֹא",
    "لا", "ليس", "ليست", "لم", "لن", "بدون", "نه", "بی", "نہیں", "نہ", "بغیر", "नहीं", "न", "मत",
    "बिना", "नाही", "नको", "না", "নেই", "নয়", "ਨਹੀਂ", "નથી", "નહીં", "இல்லை", "లేదు", "కాదు",
    "ಇಲ್ಲ", "ಅಲ್ಲ", "ഇല്ല", "അല്ല", "නැහැ", "නැත", "안", "못", "არ", "არა", "չէ", "ոչ",
    "የለም", "አይደለም",
))  # fmt: skip


def say_the_same(first: str, second: str) -> bool:
    """Return whether the longer text has all words of the shorter, and at most half as many more.

    Words may be moved and, beside at least four, added. An *exchanged* word states another fact, as
    do a negation in one text and distant words that swap ("Rome beat Ghent", "Ghent beat Rome").
    """
    short, long = sorted((normalize(first).split(), normalize(second).split()), key=len)
    if 2 * len(long) > 3 * len(short) or (len(short) < 4 and len(short) < len(long)):
        return False
    added = Counter(long)
    added.subtract(short)
    if min(added.values()) < 0 or any(added[word] for word in NEGATIONS):
        return False
    moved = [place for place in range(len(short)) if short[place] != long[place]]
    return (
        len(short) < len(long)
        or not moved
        or moved[-1] - moved[0] == 1
        or 2 * len(moved) > len(long)
    )


def looks_like_a_positive(text: str, anchor: str, positive: str) -> bool:
    """Return whether a hard negative says the same as its anchor or positive.

    It is compared with whichever shares more words.
    """
    counts, *references = (
        Counter(normalize(sentence).split()) for sentence in (text, anchor, positive)
    )
    common = [(counts & words).total() for words in references]
    return any(
        count == max(common) and say_the_same(text, reference)
        for count, reference in zip(common, (anchor, positive), strict=True)
    )


def slot_words(pairs: NDArray[np.int64], texts: Texts | Sequence[str]) -> frozenset[str]:
    """Return words, such as north and south, that alternate in a sample of similar pairs (P, 2)."""
    frequency: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    against: defaultdict[str, set[str]] = defaultdict(set)
    for first, second in pairs[:: max(1, len(pairs) // ASKED)].tolist():
        first_words, second_words = _word_counts(texts[first]), _word_counts(texts[second])
        only_first, only_second = first_words - second_words, second_words - first_words
        frequency.update(first_words.keys() | second_words.keys())
        changes.update(only_first.keys() | only_second.keys())
        for words, counterparts in ((only_first, only_second), (only_second, only_first)):
            for word in words:
                if len(against[word]) < COUNTERPARTS:
                    against[word].update(counterparts)
    return frozenset(
        word
        for word, count in changes.items()
        if count >= PAIRS and count > SHARE * frequency[word] and len(against[word]) >= COUNTERPARTS
    )


def state_other_facts(
    pairs: NDArray[np.int64], words: WordIndex, slots: frozenset[str], progress: bool = False
) -> NDArray[np.bool_]:
    """Return which pairs of texts with most words in common are about different things, (P,).

    Each text has a name that the other lacks, they differ in a word that fills one of ``slots``, or
    distant words of them swap; see `say_the_same`.
    """
    differs = np.zeros(len(pairs), dtype=bool)
    compared_pairs = progress_bar(pairs.tolist(), progress, desc="Comparing what differs")
    for place, pair in enumerate(compared_pairs):
        texts = [words.texts[number] for number in pair]
        first_words, second_words = map(_word_counts, texts)
        has_own_name = [
            any(
                words.is_name(word) and word.casefold() not in counterpart
                for word in words_of(text)
            )
            for text, counterpart in zip(texts, (second_words, first_words), strict=True)
        ]
        exchanged = (first_words - second_words) | (second_words - first_words)
        differs[place] = all(has_own_name) or not slots.isdisjoint(exchanged.keys())
        differs[place] |= first_words == second_words and _swap_words(*texts)
    return differs


def _swap_words(first: str, second: str) -> bool:
    """Return whether distant words of two texts with the same words swap, beside articles."""
    pairs = zip(normalize(first).split(), normalize(second).split(), strict=False)
    moved = [word for word, counterpart in pairs if word != counterpart]
    says = any(len(word) > ARTICLE or word.isnumeric() for word in moved)
    return says and not say_the_same(first, second)


def _word_counts(text: str) -> Counter[str]:
    return Counter(word.casefold() for word in words_of(text))

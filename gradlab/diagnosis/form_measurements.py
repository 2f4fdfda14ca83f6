"""Measures whether texts have the form of something else than a text, as plain values for JSON."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gradlab.data.letters import SPELT, UNSPACED, sounds_of
from gradlab.data.words import blanks, is_code, shares_of_identifiers, words_of
from gradlab.diagnosis.observation import Observation, ObservedBatch

READ_ROWS = 2000
# Characters of a text below which its length says nothing; fewest words of it; fewest such texts of
# a column; the end of a text that is whole.
SHORT, FEWEST_WORDS, FEWEST_DIFFERENT = 10, 3, 24
SPELLED_WORDS = 256  # of a column that are tokenised
# Kinds of signs that close a text, and signs among them that do not.
CLOSING, WITHIN_SENTENCES = ("Po", "Pe", "Pf"), ",،、，፣၊/\\&@#*%"
OBJECT = re.compile(
    r"<[\w.]+( object)? at 0x[0-9a-fA-F]+>|<(function|generator|class|module|bound method)\b"
    r"|\bdtype: \w+|^(Timestamp|Document|Row|Dataset)\("
)
ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}\S*%[0-9A-Fa-f]{2}|\\u[0-9a-fA-F]{4}|=[0-9A-F]{2}=[0-9A-F]{2}")
JOINED = re.compile("|".join(rf"[^\W_]+(?:{sign}[^\W_]+){{2,}}\W*" for sign in (r"\+", "_", "-")))
PIECE = re.compile(r"(^|\s)##\w|\w▁\w")
# A piece at the beginning of a word, and the share of such words: Maltese has some with Ġ and Ċ.
BEGINNING, MANY_BEGINNINGS = re.compile(r"(?<!\S)[ĠĊ▁](?=\w)"), 0.5
# What stands in place of the rest of a text; an ellipsis ends sentences as well.
CUT_OFF = re.compile(r"(\[\.\.\.\]|\[truncated\]|\[?(read|show) more\]?)\W*$", re.IGNORECASE)
ELLIPSIS = re.compile(r"(?s)\w.*(\.\.\.|…)\W*$")
# Share of the texts that are whole and longer than those with an ellipsis, and share of the length
# of long ones of these that short ones have: texts that were cut at a width are all as long as
# that, but for a word, and no whole one is longer. Share of texts with one that needs no width.
SOME_LONGER, SHORTER, MOST_CUT = 0.02, 0.85, 0.9
LOST = re.compile(rf"[^\W\d_{UNSPACED}]\?[^\W\d_{UNSPACED}]")
Numbers = dict[str, Any]


def forms(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return for each form of something else the column with most of it, its share, and a text.

    ``length`` has the column with the largest share of texts that are as long as its longest one,
    and that length in characters; ``filler`` the word that stands most in a column, its share of
    the column's words, how often a text holds it, and the share of its places with one neighbour.
    """
    table = {name: cells[:READ_ROWS] for name, cells in observation.table_of(dataset).items()}
    table = {name: cells for name, cells in table.items() if cells}
    if not table:
        return None
    numbers: Numbers = {"rows": max(map(len, table.values()))}
    kinds = {}
    for kind, share_of in KINDS.items():
        shares = {name: share_of(cells) for name, cells in table.items()}
        column = max(shares, key=lambda name: shares[name][0])
        if shares[column][0]:
            kinds[kind] = [column, *shares[column]]
    identifiers = shares_of_identifiers(table)
    column = max(identifiers, key=lambda name: identifiers[name])
    if identifiers[column]:
        kinds["identifier"] = [column, identifiers[column], ""]
    cut = {name: _at_the_longest(cells) for name, cells in table.items()}
    column = max(cut, key=lambda name: cut[name][0])
    fillers = {name: _filler(cells) for name, cells in table.items()}
    filled = max(fillers, key=lambda name: fillers[name][1])
    return numbers | {
        "kinds": kinds, "length": [column, *cut[column]], "filler": [filled, *fillers[filled]],
    }  # fmt: skip


def spelling(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the column whose words the tokenizer spells most, and its tokens per letter.

    Also, as ``whole``, the share of its vocabulary that has several letters.

    Words of letters only count, and those of scripts without spaces do not. A sign of a syllable is
    two letters.
    """
    tokenizer: Any = getattr(observation.trainer.model, "tokenizer", None)
    most: Numbers = {"column": "", "share": 0.0, "word": "", "pieces": 0}
    if not hasattr(tokenizer, "tokenize"):
        return None
    for name, cells in observation.table_of(dataset).items():
        words = sorted(
            {word for text in cells[:READ_ROWS] for word in SPELT.findall(text)}, key=str.lower
        )
        words = words[:: max(1, len(words) // SPELLED_WORDS)]
        letters = sum(map(sounds_of, words))
        if len(words) < FEWEST_DIFFERENT:
            continue
        pieces = [tokenizer.tokenize(word) for word in words]
        share = sum(map(len, pieces)) / letters
        if share > most["share"]:
            longest = max(range(len(words)), key=lambda at: len(pieces[at]))
            most = {"column": name, "share": share, "word": words[longest],
                    "pieces": len(pieces[longest])}  # fmt: skip
    if not most["column"]:
        return None
    special = {*getattr(tokenizer, "all_special_tokens", ())}
    tokens = [token.lstrip("#▁Ġ") for token in tokenizer.get_vocab() if token not in special]
    return most | {"whole": sum(len(token) > 1 for token in tokens) / max(1, len(tokens))}


def _texts_with(matches: Callable[[str], Any]) -> Callable[[Sequence[str]], tuple[float, str]]:
    """Return a function of texts: the share of a kind, and the first of them, shortened."""

    def share(texts: Sequence[str]) -> tuple[float, str]:
        of_kind = [text for text in texts if matches(text)]
        return len(of_kind) / len(texts), of_kind[0][:60] if of_kind else ""

    return share


def _is_pieces(text: str) -> bool:
    """Return whether a text is the pieces of a tokenizer."""
    words = len(text.split())
    beginnings = len(BEGINNING.findall(text))
    return bool(PIECE.search(text)) or (words > 1 and beginnings >= MANY_BEGINNINGS * words)


def _shortened(texts: Sequence[str]) -> tuple[float, str]:
    """Return the share of texts that were shortened to a width, and one of them."""
    marked = [text for text in texts if CUT_OFF.search(text)]
    ending = [text for text in texts if ELLIPSIS.search(text) and text not in marked]
    lengths = sorted(map(len, ending))
    short, long = (lengths[at * (len(lengths) - 1) // 10] if lengths else 0 for at in (1, 9))
    whole = [text for text in texts if not ELLIPSIS.search(text) and not CUT_OFF.search(text)]
    longer = sum(len(text) > long for text in whole)
    at_a_width = short >= SHORTER * long and longer <= SOME_LONGER * len(texts)
    if at_a_width or len(ending) >= MOST_CUT * len(texts):
        marked += ending
    return len(marked) / len(texts), marked[0][:60] if marked else ""


def _ends(text: str) -> bool:
    """Return whether a text has a full stop, or another closing mark of its script, at its end."""
    last = text.rstrip()[-1:]
    if last in WITHIN_SENTENCES:
        return False
    return last == ">" or unicodedata.category(last) in CLOSING


def _at_the_longest(texts: Sequence[str]) -> tuple[float, int]:
    """Return the share of different texts as long as the longest that do not end, and its length.

    Texts have three words or more, as half of a column has. A text that ends has a full stop or
    another closing mark. Where it is cut behind a word, the space behind that may be missing.
    """
    different = [text for text in set(texts) if len(text.split()) >= FEWEST_WORDS]
    longest = max(map(len, different), default=0)
    few = len(different) < max(FEWEST_DIFFERENT, len(set(texts)) / 2)
    if longest < SHORT or few:
        return 0.0, longest
    cut = [text for text in different if len(text) >= longest - 1 and not _ends(text)]
    # Texts of one number of words, such as keywords, are that long by themselves.
    whole = len({len(text.split()) for text in cut}) < 2
    return 0.0 if whole else len(cut) / len(different), longest


def _filler(texts: Sequence[str]) -> tuple[str, float, float, float]:
    """Return the commonest word, its share of all words, its times in a text, and how fixed it is.

    It is as fixed as the share of its places with the same word on the same side, or most with an
    end of the text: a word of a template has, and one that replaces others stands among many words.
    Of code there is none: names such as ``x`` and ``self`` repeat there.
    """
    if sum(map(is_code, texts)) > len(texts) / 2:
        return "", 0.0, 0.0, 0.0
    split = [["", *words_of(text), ""] for text in texts]
    counts = Counter(word for words in split for word in words[1:-1])
    if not counts:
        return "", 0.0, 0.0, 0.0
    word, places = counts.most_common(1)[0]
    sides: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for words in split:
        for before, middle, after in zip(words, words[1:], words[2:], strict=False):
            if middle == word:
                sides[0][before] += 1
                sides[1][after] += 1
    # Masks may stand in a row, and at an end of many texts.
    fixed = max(
        (count for side in sides for near, count in side.items()
         if near != word and (near or 2 * count > places)), default=0,
    )  # fmt: skip
    return word, places / counts.total(), places / len(texts), fixed / places


KINDS: dict[str, Callable[[Sequence[str]], tuple[float, str]]] = {
    "object": _texts_with(OBJECT.search),
    "escape": _texts_with(ESCAPE.search),
    "joined": _texts_with(lambda text: JOINED.fullmatch(text.strip())),
    "piece": _texts_with(_is_pieces),
    "ellipsis": _shortened,
    "blank": blanks,
    "lost": _texts_with(lambda text: LOST.search(text) and "://" not in text),
}
OF_LOSS = (forms, spelling)

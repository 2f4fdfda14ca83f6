"""Measures whether texts have the form of something else than a text, as plain values for JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradlab.data.letters import SPELT, UNSPACED, sounds_of
from gradlab.data.words import blanks, is_code, shares_of_identifiers, words_of
from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.diagnosis.shortened_texts import FEWEST_DIFFERENT, at_the_longest, with_ellipsis

READ_ROWS = 2000
SPELLED_WORDS = 256  # of a column that are tokenised
OBJECT = re.compile(
    r"<[\w.]+( object)? at 0x[0-9a-fA-F]+>|<(function|generator|class|module|bound method)\b"
    r"|\bdtype: \w+|^(Timestamp|Document|Row|Dataset)\("
)
ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}\S*%[0-9A-Fa-f]{2}|\\u[0-9a-fA-F]{4}|=[0-9A-F]{2}=[0-9A-F]{2}")
JOINED = re.compile("|".join(rf"[^\W_]+(?:{sign}[^\W_]+){{2,}}\W*" for sign in (r"\+", "_", "-")))
PART, NUMBERED = re.compile(r"[^\W_]+"), re.compile(r"\d")
FEWEST_EXPLAINED = 2  # words of such a name that another text of its row has
PIECE = re.compile(r"(^|\s)##\w|\w▁\w")
# A piece at the beginning of a word, and the share of such words: Maltese has some with Ġ and Ċ.
BEGINNING, MANY_BEGINNINGS = re.compile(r"(?<!\S)[ĠĊ▁](?=\w)"), 0.5
LOST = re.compile(rf"[^\W\d_{UNSPACED}]\?[^\W\d_{UNSPACED}]")
FRAMED = 0.9  # share of the texts that repeat a word at their ends equally often
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
    measured = {
        kind: {name: share_of(cells) for name, cells in table.items()}
        for kind, share_of in KINDS.items()
    } | {"joined": {name: _joined(name, table) for name in table}}
    for kind, shares in measured.items():
        column = max(shares, key=lambda name: shares[name][0])
        if shares[column][0]:
            kinds[kind] = [column, *shares[column]]
    identifiers = shares_of_identifiers(table)
    column = max(identifiers, key=lambda name: identifiers[name])
    if identifiers[column]:
        kinds["identifier"] = [column, identifiers[column], ""]
    cut = {name: at_the_longest(cells) for name, cells in table.items()}
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


def _joined(name: str, table: Mapping[str, Sequence[str]]) -> tuple[float, str]:
    """Return the share of a column's texts whose words are joined by signs, and one of them.

    Names of substances have a number for each word, and the words of a name that is looked for, as
    of a function, stand in another text of its row.
    """
    further = [cells for column, cells in table.items() if column != name]
    joined = list[str]()
    for text, *row in zip(table[name], *further, strict=False):
        pieces = PART.findall(text.lower()) if JOINED.fullmatch(text.strip()) else []
        letters = {piece for piece in pieces if not NUMBERED.search(piece)}
        explained = max(
            (len(letters & {*words_of(cell)}) for cell in row if cell != text), default=0
        )
        if 2 * len(letters) > len(pieces) and explained < FEWEST_EXPLAINED:
            joined.append(text)
    return len(joined) / len(table[name]), joined[0][:60] if joined else ""


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
    # A cheer repeats it at the ends of each text, where masks stand in some of them.
    frames = Counter(_frame(words[1:-1], word) for words in split)
    frame, times = frames.most_common(1)[0]
    if any(frame) and times >= FRAMED * len(texts):
        fixed = places
    return word, places / counts.total(), places / len(texts), fixed / places


def _frame(words: Sequence[str], word: str) -> tuple[int, int]:
    """Return how often a word is repeated at both ends of a text; 0 if it stands elsewhere too."""
    runs = [
        next((at for at, near in enumerate(row) if near != word), 0) for row in (words, words[::-1])
    ]
    return (runs[0], runs[1]) if sum(runs) == list(words).count(word) else (0, 0)


KINDS: dict[str, Callable[[Sequence[str]], tuple[float, str]]] = {
    "object": _texts_with(OBJECT.search),
    "escape": _texts_with(ESCAPE.search),
    "piece": _texts_with(_is_pieces),
    "ellipsis": with_ellipsis,
    "blank": blanks,
    "lost": _texts_with(lambda text: LOST.search(text) and "://" not in text),
}
OF_LOSS = (forms, spelling)

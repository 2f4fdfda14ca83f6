"""What words are made of in the scripts of the world: letters, marks, and signs without spaces."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

# Scripts that do not separate words by spaces. Chinese signs stand for half a word or more each.
IDEOGRAPHS = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai and Lao, Burmese, Khmer, Tai, Balinese, Kana and Bopomofo, Yi, Javanese, Cham.
OTHER_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3040-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\ua000-\ua48f\ua980-\ua9ff\uaa00-\uaa7f\uff66-\uff9f"
)
UNSPACED = IDEOGRAPHS + OTHER_UNSPACED
MARKED = range(0x300, 0x1F000)  # where marks and joiners stand
JOINERS = "\u180e\u200c\u200d"
# Letters that Python takes for pictures: Braille without its blank.
BRAILLE = "\u2801-\u28ff"
# Tenths of a word that a sign is worth.
WHOLE, OF_IDEOGRAPH, OF_UNSPACED = 10, 6, 3


def _marks() -> str:
    """Return ranges of the marks within words that Python does not count among their letters.

    These are accents, vowels of Hebrew and Arabic, signs of the scripts of India and Tibet, and
    joiners.
    """
    marks = [
        code for code in MARKED
        if unicodedata.category(chr(code))[0] == "M" or chr(code) in JOINERS
    ]  # fmt: skip
    runs = itertools.groupby(enumerate(marks), lambda entry: entry[1] - entry[0])
    ends = [[code for _, code in run] for _, run in runs]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in ends)


MARKS = _marks()
MARK = re.compile(f"[{MARKS}]")
# A letter or digit of a script with spaces; a word; and a run of letters of any script.
LETTER = rf"(?:[^\W{UNSPACED}]|[{BRAILLE}])"
WORD = re.compile(rf"(?=\w)[{UNSPACED}][{MARKS}]*|{LETTER}(?:{LETTER}|[{MARKS}])*")
RUN = rf"(?:\w|[{BRAILLE}])(?:\w|[{BRAILLE}{MARKS}])*"
WORDS_WITH_HYPHENS = re.compile(rf"{RUN}(?:-{RUN})*")
RUN_OF_LETTERS = re.compile(RUN)
# Letters, and not marks or digits, of a word of a script with spaces.
SPELT = re.compile(
    rf"(?<![^\W_])(?<![{MARKS}])(?:(?![{UNSPACED}])[^\W\d_][{MARKS}]*){{3,}}(?![^\W_]|[{MARKS}])"
)
# Names of signs that stand for a syllable of two letters or so.
SYLLABLE = re.compile("SYLLAB|CHEROKEE")


def letters_of(word: str) -> int:
    """Return the number of letters of a word, without its marks."""
    return len(MARK.sub("", word))


def sounds_of(word: str) -> int:
    """Return the number of letters of a word as an alphabet would spell it.

    Korean syllables are spelt out, and signs of other syllables count as two.
    """
    letters = MARK.sub("", unicodedata.normalize("NFD", word))
    return len(letters) + sum(
        bool(SYLLABLE.search(unicodedata.name(letter, ""))) for letter in letters
    )


def size_of(words: Sequence[str]) -> int:
    """Return the length of a text in tenths of a word; signs without spaces are parts of one."""
    return sum(map(_size, words))


def _size(word: str) -> int:
    if re.match(f"[{IDEOGRAPHS}]", word):
        return OF_IDEOGRAPH
    return OF_UNSPACED if re.match(f"[{OTHER_UNSPACED}]", word) else WHOLE

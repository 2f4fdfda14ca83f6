"""The words of texts, what texts have in common by them, and texts that hold none."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from unicodedata import category

from gradlab.data.letters import UNSPACED, WORD, letters_of

# An address, a path of a file, a hash, digits of base 64, or a word with digits behind a mark or
# letters, such as doc_017 or q17.
IDENTIFIER = re.compile(
    r"(https?://|www\.)\S+|\S*[/\\]\S+\.\w{1,5}|[A-Za-z]+[-_/:.#]?\d+(\.\w+)?"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}|(?=\w*\d)[0-9a-fA-F]{16,}"
    r"|(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+/_-]{20,}={0,2}"
)
# A date, a time, a price, or the numbers of a list.
NUMBERS = re.compile(r"[\d\s.,:/+%€$£()\[\]TZ-]+")
# Numbers of a date, at least, that another text holds, and their share.
FEWEST_HELD, HALF_HELD = 2, 0.5
# Letters of a word, on average, from which on words have lost the spaces between them, which few
# compounds reach; letters of words, and number of words, at which spaces stand between
# letters.
LONG_WORDS, SHORT_WORDS, MANY_WORDS = 24, 1.5, 8
# A letter of UTF-8 that was read as Latin-1 or Windows-1252 is two; "SÃO" is Portuguese.
SECOND_HALF = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
MISREAD = re.compile(rf"\S{{0,20}}(?:[ÃÂÐÑ][{SECOND_HALF}]|â€|\ufffd)\S{{0,20}}")
# A word that is broken by a hyphen at the end of a line; in "two- or threefold" none is.
BROKEN = re.compile(
    r"[^\W\d_]{2,}(?:-\s+|\u00ad\s*)(?!(?:and|or|to|nor|but|und|oder|bis|et|ou|e|o|y|u|en|of)\b)"
    r"([^\W\d_]{2,})"
)
# Letters of a word behind a hyphen that joins two words, as "ja" in Finnish "liha- ja kalatiski",
# and the share of all hyphens that it stands behind: the rests of broken words differ. Share of the
# texts with hyphens up to which it may do so.
SHORT_CONJUNCTION, OFTEN_BEHIND, SOME_HYPHENED = 4, 1 / 3, 0.75
# A tag before the subject of a mail, also of an answer.
TAG = re.compile(r"^\s*((?i:re|fwd?|aw|wg)\s*:\s*)*\[[a-z][a-z0-9 -]*\]")
# Signs of code, and how many of them a text of code holds at least: its names repeat.
CODE, FEWEST_SIGNS = re.compile(r"[(){}=;]"), 3
QUERY = re.compile(r"(?is)\s*(select\b.*\bfrom|insert\s+into|update\b.*\bset|delete\s+from)\b")
# Placeholders and masks of words, and the share of the words of a text that they must be for its
# words to be replaced. Braces behind a word, as in LaTeX, or behind a closing one are no blank; nor
# is a mark that a later one closes, as around the entities of a sentence.
BLANK = re.compile(
    r"\[(MASK|UNK)\]|<(mask|unk)>|(?<![\w)}\]^\\])(?<!\)\s)\{\w*\}|\{\{.*?\}\}|\b[xX]{3,}\b|\*{3,}"
    r"|█+|<[A-Z_]{3,}>(?!.*</)|\[([A-Z_]{3,}|[a-z_]{3,})\](?!.*\[/)"
)
MANY_BLANKS = 0.15
# Different placeholders of a column from which on they may be words in brackets.
MANY_SIGNS = 12
# Signs among which some say something: a minus before a number, operators, and categories of signs
# of mathematics, of currencies, and of pictures.
SIGN = re.compile(r"(?<!\w)-(?=\s?\d)|[^\w\s-]")
OPERATORS, SYMBOLS = "-*/%&#@\\^", ("Sm", "Sc", "So")
Overlap = Callable[[int, int, int, int], float]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; of a script without spaces, its letters."""
    return WORD.findall(text.lower())


def plain(text: str) -> str:
    """Return the words of a text in lower case, without punctuation; the text if it has none."""
    return " ".join(words_of(text)) or text


def signed(text: str) -> str:
    """Return the words of `plain`, and the signs that tell texts of such words apart.

    Those are signs of mathematics and of currencies, operators of code, and pictures: ``x + 1`` and
    ``x - 1`` differ, and ``x`` and ``x!`` do not.
    """
    signs = [sign for sign in SIGN.findall(text) if sign in OPERATORS or category(sign) in SYMBOLS]
    return f"{plain(text)}\n{''.join(signs)}"


def is_identifier(text: str) -> bool:
    """Return whether a text is numbers, such as ids of tokens or a date, or one identifier."""
    bare = re.sub(r"^(tensor|array)\(", "", text.strip()).strip("[]() \n")
    if IDENTIFIER.fullmatch(bare):
        return True
    return any(map(str.isdigit, bare)) and bool(NUMBERS.fullmatch(bare))


def shares_of_identifiers(columns: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return for each column the share of identifiers that no other text of their row holds.

    One that another text holds, such as the number of a spare part, is what is looked for; so is a
    date whose numbers stand there in another form.
    """
    shares = {}
    for name, column in columns.items():
        others = [cells for column_name, cells in columns.items() if column_name != name]
        alone = 0
        for text, *row in zip(column, *others, strict=False):
            if is_identifier(text):
                alone += not any(_is_held(text, cell) for cell in row if cell != text)
        shares[name] = alone / max(1, len(column))
    return shares


# Share of vowels among the letters of a text; those of proteins have .2, of European languages .35
# and more.
FEWEST_VOWELS = 0.28


def is_spaced_wrongly(text: str) -> bool:
    """Return whether a text has lost the spaces between its words, or has some between letters.

    Sequences of capitals, such as those of a genome, are left out, and of letters with few vowels,
    such as those of a protein.
    """
    words = WORD.findall(text)
    if not words or text.isupper() or re.search(f"[{UNSPACED}]", text):
        return False
    length = sum(map(letters_of, words)) / len(words)
    if length < SHORT_WORDS:
        letters = re.findall("[a-z]", text.lower())
        vowels = sum(letter in "aeiou" for letter in letters)
        return len(words) >= MANY_WORDS and not vowels < FEWEST_VOWELS * len(letters)
    return length >= LONG_WORDS


def spaced_wrongly(texts: Sequence[str]) -> tuple[float, str]:
    """Return the share of texts whose spaces are wrong, and one of them; empty without any."""
    wrong = [text for text in texts if is_spaced_wrongly(text) and not is_identifier(text)]
    return len(wrong) / max(1, len(texts)), wrong[0] if wrong else ""


def misread(texts: Sequence[str]) -> tuple[float, str]:
    """Return the share of texts with letters of a wrong encoding, and a word of one."""
    return _share_of(MISREAD, texts)


def broken(texts: Sequence[str]) -> tuple[float, str]:
    """Return the share of texts with words that are broken by hyphens, and a word of one.

    A short word behind many of the hyphens is a conjunction, in whatever language.
    """
    matches = [[*BROKEN.finditer(text)] for text in texts]
    behind = Counter(match[1].lower() for row in matches for match in row)
    least = max(2, OFTEN_BEHIND * behind.total())
    if sum(map(bool, matches)) > SOME_HYPHENED * len(texts):
        least = math.inf
    conjunctions = {
        word for word, count in behind.items() if len(word) <= SHORT_CONJUNCTION and count >= least
    }
    words = [[match[0] for match in row if match[1].lower() not in conjunctions] for row in matches]
    texts_with = [*filter(None, words)]
    return len(texts_with) / max(1, len(texts)), texts_with[0][0] if texts_with else ""


def is_code(text: str) -> bool:
    """Return whether a text has the signs of code, or is a query of a database."""
    return len(CODE.findall(text)) >= FEWEST_SIGNS or bool(QUERY.match(text))


def has_blanks(text: str) -> bool:
    """Return whether placeholders or masks stand in place of words; in code they are names."""
    text = TAG.sub("", text)
    signs = len(BLANK.findall(text))
    many = signs >= MANY_BLANKS * max(1, len(text.split()))
    return many and not is_code(BLANK.sub(" ", text))


def blanks(texts: Sequence[str]) -> tuple[float, str]:
    """Return the share of texts with words replaced by placeholders, and one of them.

    A placeholder stands for many words: what differs from text to text is none, as a word in
    phonetic letters within brackets.
    """
    replaced = [*filter(has_blanks, texts)]
    signs = {match[0] for text in replaced for match in BLANK.finditer(text)}
    if len(signs) > MANY_SIGNS and len(signs) > len(replaced) / 2:
        replaced = []
    return len(replaced) / max(len(texts), 1), replaced[0] if replaced else ""


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


def _share_of(pattern: re.Pattern[str], texts: Sequence[str]) -> tuple[float, str]:
    matches = [match[0] for text in texts if (match := pattern.search(text))]
    return len(matches) / max(1, len(texts)), matches[0] if matches else ""


def _is_held(identifier: str, text: str) -> bool:
    """Return whether a text holds an identifier, or half of its numbers in any order."""
    if f" {plain(identifier)} " in f" {plain(text)} ":
        return True
    numbers = {word.lstrip("0") for word in words_of(identifier)}
    held = numbers & {word.lstrip("0") for word in words_of(text)}
    return len(held) >= FEWEST_HELD and len(held) >= HALF_HELD * len(numbers)

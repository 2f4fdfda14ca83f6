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
# Numbers of a date, at least, that another text holds, and their share; words of an address or a
# path that other texts hold; words that addresses have whatever they are of.
FEWEST_HELD, HALF_HELD, FEWEST_READ = 2, 0.5, 2
# Rows from which it is learnt which words go together, and mean rank of partners where they do.
TAUGHT_ROWS, FORETOLD = 512, 0.85
NUMBERS_OF_DATE = 6  # with its time
SOUGHT = 0.25  # share of a column's identifiers that rows hold, where they are what is looked for
OF_ADDRESSES = {"http", "https", "www", "com", "org", "net", "html", "php", "index", "home", "txt"}
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
    r"\[(MASK|UNK)\]|<(mask|unk)>|(?<![\w)}\]^\\])(?<!\)\s)\{\w*\}|\{\{.*?\}\}|\b[xX]{3,}\b"
    r"|(?<!\S)\*{3,}(?![^\s.,;:!?])|█+|<[A-Z_]{3,}>(?!.*</)"
    r"|(?<!\[)\[([A-Z_]{3,}|[a-z_]{3,})\](?![\]{])(?!.*\[/)"
)
MANY_BLANKS = 0.15
# A first tag behind prompts, whatever it is; and share of the words of a column's texts that
# placeholders are where what tells the texts apart is gone: .4 and more where names were replaced
# on the way, up to .3 in notes and logs that are made anonymous on purpose.
FIRST_TAG, GONE = re.compile(r"^\s*(\w+\s*:\s*)*[\[<][\w -]+[\]>]"), 0.33
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
    return f"{plain(text)}\n{''.join(signs_of(text))}"


def signs_of(text: str) -> list[str]:
    """Return the signs of a text that say something beside its words; see `signed`."""
    return [sign for sign in SIGN.findall(text) if sign in OPERATORS or category(sign) in SYMBOLS]


def is_identifier(text: str) -> bool:
    """Return whether a text is numbers, such as ids of tokens or a date, or one identifier."""
    bare = re.sub(r"^(tensor|array)\(", "", text.strip()).strip("[]() \n")
    if IDENTIFIER.fullmatch(bare):
        return True
    return any(map(str.isdigit, bare)) and bool(NUMBERS.fullmatch(bare))


def shares_of_identifiers(columns: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return for each column the share of identifiers that no other text of their row holds.

    One that another text holds, such as the number of a spare part, is what is looked for; so is a
    date whose numbers stand there in another form. An address whose words stand in other texts of
    the table is a text itself, and so are numbers that words foretell, as of sums.
    """
    shares = _shares_not_held(columns)
    if len(columns) > 1 and any(shares.values()):
        from gradlab.data.cooccurrence import foretold_rank  # loads torch

        texts = [[words_of(text) for text in cells[:TAUGHT_ROWS]] for cells in columns.values()]
        words = [[{*row} for row in column] for column in texts[:2]]
        # Words foretell the numbers of tokens as well, of which texts have more.
        few = {
            name for name, column in zip([*columns][:2], texts, strict=False)
            if sum(map(len, column)) <= NUMBERS_OF_DATE * len(column)
        }  # fmt: skip
        if few and foretold_rank(*words) >= FORETOLD:
            shares |= dict.fromkeys(few, 0.0)
    return shares


# Share of vowels among the letters of a text; those of proteins have .2, of European languages .35
# and more. Share of words of one letter, which signs of sounds such as "k ae t" do not reach.
FEWEST_VOWELS, MOSTLY_LETTERS = 0.28, 0.8


def is_spaced_wrongly(text: str) -> bool:
    """Return whether a text has lost the spaces between its words, or has some between letters.

    Sequences of capitals, such as those of a genome, are left out, and of letters with few vowels,
    such as those of a protein.
    """
    words = WORD.findall(text)
    single = [word for word in words if len(word) == 1]
    are_capitals = text.isupper() or (2 * len(single) > len(words) and "".join(single).isupper())
    if not words or are_capitals or re.search(f"[{UNSPACED}]", text):
        return False
    length = sum(map(letters_of, words)) / len(words)
    if length < SHORT_WORDS:
        if len(single) < MOSTLY_LETTERS * len(words):
            return False
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

    It is 0 where these are few of their words, or are many different ones, as words in phonetic
    letters within brackets are. A tag at the beginning alone counts for none.
    """
    replaced = [
        text for text in texts if has_blanks(text) and BLANK.search(FIRST_TAG.sub("", text))
    ]
    signs = [match[0] for text in replaced for match in BLANK.finditer(text)]
    are_words = len(set(signs)) > max(MANY_SIGNS, len(replaced) / 2)
    if are_words or not signs or len(signs) < GONE * sum(len(text.split()) for text in replaced):
        return 0.0, ""
    return len(replaced) / len(texts), replaced[0]


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


def _words_of_texts(columns: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the words of the texts of a table that are no identifiers."""
    texts = (text for column in columns.values() for text in column if not is_identifier(text))
    return {word for text in texts for word in words_of(text)}


def _read(identifier: str) -> set[str]:
    """Return the words of letters that an address or a path holds."""
    return {*re.findall(r"[a-z]{3,}", identifier.lower())} - OF_ADDRESSES


def _shares_not_held(columns: Mapping[str, Sequence[str]]) -> dict[str, float]:
    shares, are_sought = dict[str, float](), False
    vocabulary: set[str] | None = None
    for place, (name, column) in enumerate(columns.items()):
        others = [cells for column_name, cells in columns.items() if column_name != name]
        alone, held = 0, 0
        for text, *row in zip(column, *others, strict=False):
            if is_identifier(text):
                vocabulary = _words_of_texts(columns) if vocabulary is None else vocabulary
                held += any(_is_held(text, cell) for cell in row if cell != text) or (
                    len(_read(text) & vocabulary) >= FEWEST_READ
                )
                alone += 1
        # Of pairs with labels, and of negatives, the row need not hold them.
        are_sought = alone > 0 and (held >= SOUGHT * alone or (place > 1 and are_sought))
        shares[name] = 0.0 if are_sought else (alone - held) / max(1, len(column))
    return shares


def _is_held(identifier: str, text: str) -> bool:
    """Return whether a text holds an identifier, or half of its numbers in any order."""
    if f" {plain(identifier)} " in f" {plain(text)} ":
        return True
    numbers = {word.lstrip("0") for word in words_of(identifier)}
    if len(numbers) > NUMBERS_OF_DATE and is_identifier(text):  # numbers of tokens on both sides
        return False
    held = numbers & {word.lstrip("0") for word in words_of(text)}
    return len(held) >= FEWEST_HELD and len(held) >= HALF_HELD * len(numbers)

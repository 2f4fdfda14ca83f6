"""What is worth saying about columns whose texts are no texts, or were read wrongly from a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Grade, Verdict

# Shares of numbers or identifiers, and of texts whose spaces are wrong, from which on a column is
# not one of texts.
MOSTLY_NUMBERS, MOSTLY_SPACED = 0.9, 0.3
# Names of columns that say that they hold no texts.
NAME_OF_NUMBERS = re.compile(
    r"(?i)(?:^|[\W_])(?:(?:q|p|d|doc|row|user|item|pair)?ids?|idx|index|uuid|guid|scores?|labels?"
    r"|similarity|rank|timestamps?)\d*$"
)
# Shares of texts with letters of a wrong encoding, and with words broken by hyphens, that remain of
# files and are no quotation.
MANY_MISREAD, MANY_BROKEN = 0.1, 0.25
# Share of texts with placeholders that no quotation of a template explains; what they are, and what
# to do.
MANY_BLANK = 0.08
BLANK = (
    "have placeholders or masks in place of words: what tells the texts apart is gone",
    "Fill the template, and take the texts before words were masked or made anonymous.",
)


def without_words(column: str, share: float) -> Verdict | None:
    """Return a verdict on a column of numbers or identifiers; ``share`` is that of such texts."""
    if share < MOSTLY_NUMBERS:
        return None
    part = "numbers only" if share == 1 else f"numbers in {percent(share)} of its rows"
    finding = (
        f"Column {column!r} holds {part}, or identifiers: ids, dates, addresses (links), paths, "
        "scores or tokens, and no text."
    )
    change = "Remove the column, give a score as the column label, and texts as words."
    # Figures may be what is learnt; a name that says otherwise is a second sign.
    name = "column of identifiers" if NAME_OF_NUMBERS.search(column) else "column of numbers"
    grade: Grade = WATCH if name == "column of numbers" else BAD
    return Verdict("texts", grade, finding, change, name, "loss-at-chance", {"numbers": share})


def spaced_wrongly(column: str, share: float, text: str) -> Verdict | None:
    """Return a verdict on a column whose texts lack spaces, or have some between letters.

    Args:
        column: name of the column.
        share: share of such texts.
        text: one of them.
    """
    if share < MOSTLY_SPACED:
        return None
    words = text.split()
    further_letters = len("".join(words)) - len(words)
    fault = "have lost their spaces"
    if len(words) > further_letters:
        fault = "have spaces between letters"
    finding = (
        f"{percent(share)} of the texts of column {column!r} {fault}, such as {text[:40]!r}: the "
        "tokenizer reads other words than people do."
    )
    change = "Extract the texts again: some tools that read PDF files lose spaces."
    return Verdict("texts", WATCH, finding, change, "spaces lost", "score-does-not-rise",
                   {"spaced wrongly": share})  # fmt: skip


def letters_misread(column: str, share: float, word: str) -> Verdict | None:
    """Return a verdict on a column with letters of a wrong encoding.

    Args:
        column: name of the column.
        share: share of its texts with such letters.
        word: a word with one.
    """
    if share < MANY_MISREAD:
        return None
    finding = (
        f"{percent(share)} of the texts of column {column!r} hold letters that were read in a "
        f"wrong encoding, such as {word[:40]!r}: the tokenizer reads other words than people do."
    )
    change = "Read the file again as UTF-8 (encoding='utf-8'), or repair the texts (ftfy)."
    return Verdict("texts", WATCH, finding, change, "letters misread", "score-does-not-rise",
                   {"misread": share})  # fmt: skip


def words_broken(column: str, share: float, word: str) -> Verdict | None:
    """Return a verdict on a column with words that are broken by hyphens; arguments as above."""
    if share < MANY_BROKEN:
        return None
    finding = (
        f"{percent(share)} of the texts of column {column!r} hold words that a hyphen breaks, as "
        f"at the end of a line, such as {word[:40]!r}: the tokenizer reads two pieces in place of "
        "the word."
    )
    change = "Join broken words: re.sub(r'(\\w)-\\s+(\\w)', r'\\1\\2', text)."
    return Verdict("texts", WATCH, finding, change, "words broken", "score-does-not-rise",
                   {"broken": share})  # fmt: skip


def words_replaced(columns: Mapping[str, tuple[float, str]]) -> Verdict | None:
    """Return a verdict on texts with placeholders; by column, their share and one of them."""
    column, (share, text) = max(
        columns.items(), key=lambda entry: entry[1][0], default=("", (0.0, ""))
    )
    if share < MANY_BLANK:
        return None
    fault, change = BLANK
    finding = f"{percent(share)} of the texts of column {column!r} {fault}, such as {text[:40]!r}."
    return Verdict("texts", WATCH, finding, change, "texts: blank", "score-does-not-rise",
                   {"blank": share})  # fmt: skip


def unreadable(numbers: Mapping[str, Any]) -> Verdict | None:
    """Return a verdict on the first column without texts, or with texts that were read wrongly."""
    for column, (without, spaced, text) in numbers.get("unreadable", {}).items():
        verdict = without_words(column, without) or spaced_wrongly(column, spaced, text)
        if verdict is not None:
            return verdict
    for column, (share, letters, broken, word) in numbers.get("damaged", {}).items():
        verdict = letters_misread(column, share, letters) or words_broken(column, broken, word)
        if verdict is not None:
            return verdict
    return words_replaced(numbers.get("blanks", {}))

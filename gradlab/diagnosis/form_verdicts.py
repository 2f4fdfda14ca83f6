"""Do the cells of columns have the form of texts?

Arguments are measured by the function of the same name in `gradlab.diagnosis.form_measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradlab.inspection.text_findings import BLANK
from gradlab.numbers import percent
from gradlab.verdict import WATCH, Verdict

# Share of the texts of a column that have the form of something else; fewest rows that say so.
MANY, ENOUGH_ROWS = 0.08, 24
# Share of texts whose words are joined, which names of one word are; shares of texts as long as the
# longest one, and of the words of a column that one word is, and its times in a text.
MANY_JOINED, MANY_LONGEST, FILLS, TIMES = 0.3, 0.25, 0.25, 1.5
# Share of its places with the same word beside it from which on a word is of a template: .3 or more
# there, and .1 of a mask for words of all kinds.
FIXED = 0.2
# Words of grammar, of which short sentences are full, and sounds of speech and songs: nobody masks
# a word by them, nor by an amount such as 200g, nor by another letter than x.
GRAMMAR = {
    *("a", "an", "and", "as", "at", "by", "for", "from", "in", "is", "of", "on", "or", "that"),
    *("the", "to", "was", "with", "de", "der", "die", "do", "el", "en", "et", "il", "la", "le"),
    *("les", "und", "be", "he", "her", "his", "i", "it", "its", "my", "our", "she", "they", "this"),
    *("then", "uh", "um", "er", "erm", "hm", "mm", "ah", "oh", "na", "yeah", "hey", "ok", "like"),
    *("we", "you", "your", "are", "has", "have", "not", "ich", "je", "wir"),
}
# What texts of a kind are, and what to do.
KINDS = {
    "object": (
        "are the printed form (repr) of an object of Python, and not its text",
        "Take the text out of the object, by its attribute or key, before the column is made.",
    ),
    "identifier": (
        "are identifiers, numbers or links in place of texts",
        "Join the texts by these identifiers, or leave these rows out.",
    ),
    "escape": (
        "hold escaped characters, as of a URL or of JSON, which the tokenizer reads as letters",
        "Decode them: urllib.parse.unquote_plus, json.loads, or quopri.",
    ),
    "joined": (
        "have their words joined by signs in place of spaces, as names of files and links have",
        "Put spaces between the words.",
    ),
    "piece": (
        "hold the pieces of a tokenizer, and not words: the tokenizer splits them again",
        "Give the texts as they were before tokenising, or tokenizer.decode(ids).",
    ),
    "ellipsis": (
        "end with an ellipsis, as where a text was shortened for display: what follows is cut off",
        "Read the whole texts again: a preview or a printed table was taken.",
    ),
    "blank": BLANK,
    "lost": (
        "have question marks within words, where letters were lost by a wrong encoding",
        "Read the source again as UTF-8, without errors='replace'.",
    ),
}


def forms(
    rows: int, kinds: Mapping[str, Sequence[Any]], length: Sequence[Any], filler: Sequence[Any]
) -> Iterator[Verdict]:
    """Judge whether cells are texts by their form.

    Args:
        rows: rows that were read.
        kinds: for each kind of `KINDS` the column with most such texts, their share, and one.
        length: the column with the largest share of texts as long as its longest one, this share,
            and the length in characters.
        filler: the column with the commonest word, this word, its share of all words, how often a
            text holds it, and the share of its places with the same word beside it.
    """
    if rows < ENOUGH_ROWS:
        return
    for kind, (fault, change) in KINDS.items():
        column, share, text = kinds.get(kind, ("", 0.0, ""))
        if share >= (MANY_JOINED if kind == "joined" else MANY):
            example = f", such as {text!r}" if text else ""
            finding = f"{percent(share)} of the texts of column {column!r} {fault}{example}."
            yield _verdict(finding, change, f"texts: {kind}", share)
            return
    column, word, share, times, *fixed = filler
    is_other = any(map(str.isdigit, word)) or (len(word) == 1 and word.casefold() != "x")
    masks = word.casefold() not in GRAMMAR and not ((fixed and fixed[0] >= FIXED) or is_other)
    if share >= FILLS and times >= TIMES and masks:
        finding = (
            f"The word {word!r} is {percent(share)} of all words of column {column!r} and stands "
            f"{times:.1f} times in a text: it seems to replace words that were masked, made "
            "anonymous or not known."
        )
        change = "Take the texts before words were replaced, or leave such rows out."
        yield _verdict(finding, change, "texts: filler", share)
        return
    column, share, most = length
    if share >= MANY_LONGEST:
        finding = (
            f"The texts of column {column!r} have at most {most} characters, and {percent(share)} "
            "of them as many, without an end: they are cut off (truncated) there."
        )
        change = "Look for a limit of characters, such as text[:n] or a column of a database."
        yield _verdict(finding, change, "texts cut at a length", share)


# Tokens per letter from which on words are spelt letter by letter: .25 in English, .4 in Finnish.
# Share of tokens of several letters below which a vocabulary is one of letters on purpose.
SPELT, OF_LETTERS = 0.7, 0.1


def spelling(
    column: str, share: float, word: str, pieces: int, whole: float = 1.0
) -> Iterator[Verdict]:
    """Judge whether the tokenizer knows the words of a column.

    Args:
        column: the column whose words it spells most.
        share: tokens per letter of its words.
        word: the word with most tokens.
        pieces: their number.
        whole: share of the tokens of the vocabulary that have several letters.
    """
    if share < SPELT or whole < OF_LETTERS:
        return
    finding = (
        f"The tokenizer needs {share:.2f} tokens for a letter of the words of column {column!r}, "
        f"such as {pieces} for {word[:40]!r}: its vocabulary does not know these words, and spells "
        "them letter by letter."
    )
    change = "Use an encoder whose vocabulary has the language and script of these texts."
    yield Verdict("vocabulary", WATCH, finding, change, "words spelt", "score-does-not-rise",
                  {"tokens per letter": share})  # fmt: skip


def _verdict(finding: str, change: str, name: str, share: float) -> Verdict:
    return Verdict("texts", WATCH, finding, change, name, "score-does-not-rise", {"share": share})

"""Does something else than its meaning tell which texts match, and are there remains of files?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.shortcut_measurements`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gradlab.diagnosis.data_verdicts import is_above_chance
from gradlab.numbers import percent
from gradlab.verdict import WATCH, Verdict

# Difference of the shares of positives and negatives that have a word which tells them apart;
# fewest rows.
TELLING, ENOUGH_ROWS = 0.8, 32
SHORTCUT = "score-does-not-rise"


def markers(rows: int, word: str, positives: float, negatives: float) -> Iterator[Verdict]:
    """Judge whether a single word tells positives from hard negatives.

    Args:
        rows: rows that were read.
        word: the word whose shares differ most.
        positives: share of the positives that have it.
        negatives: share of the hard negatives that have it.
    """
    if rows < ENOUGH_ROWS or abs(positives - negatives) < TELLING:
        return
    finding = (
        f"The word {word!r} stands in {percent(positives)} of the positives and "
        f"{percent(negatives)} of the hard negatives: it tells them apart, and "
        "the loss learns this shortcut in place of their meaning."
    )
    change = "Remove markers, titles and templates that only one of the columns has."
    evidence = {"positives": positives, "negatives": negatives}
    yield Verdict("shortcut", WATCH, finding, change, "marker", SHORTCUT, evidence)


# Share of the rows whose negative stands in the positive, or holds it, that is no accident.
MANY_PARTS = 0.3


def parts(rows: int, column: str, share: float, text: str) -> Iterator[Verdict]:
    """Judge whether negatives are parts of positives, or hold them.

    Args:
        rows: rows that were read.
        column: the column of negatives that does so most often.
        share: share of its rows.
        text: its first text.
    """
    if rows < ENOUGH_ROWS or share < MANY_PARTS:
        return
    finding = (
        f"By its place column {column!r} holds hard negatives, and in {percent(share)} of the rows "
        f"its text stands in the positive word by word, or holds it, such as {text[:40]!r}: the "
        "loss pushes away what belongs to the positive, as its title or its whole page."
    )
    change = f"Remove column {column!r} (remove_columns), or join it to the positive."
    yield Verdict("hard negatives", WATCH, finding, change, "negatives hold positives",
                  "false-negatives", {"share": share})  # fmt: skip


# Share of rows with a shortcut that is worth a remark.
MANY_ROWS = 0.5
# Shares of rows with equal texts between which these are no views by dropout, which all rows are.
SOME_SAME, MOST_SAME = 0.25, 0.9
# Share of rows whose anchor was cut out of its positive: of 600 sound tables none has one in seven.
MOSTLY_CUT = 0.9
ROLES = ("anchor", "positive")
# Names of columns by the kind of their texts: two texts of different kinds are never the same.
KINDS = [re.compile(rf"({names})([-_ ]?(text|sentence|column))?s?") for names in (
    "question|query|querie|ask|request|headline|title", "answer|reply|replie|response|solution",
    "passage|document|doc|article|abstract|body|context", "code", "summary|summarie",
    "source|src", "target|translation|tgt", "english|eng?", "german|deu?|ger", "french|fra?",
    "spanish|spa|es", "italian|ita?", "dutch|nld?", "portuguese|por|pt", "polish|pol|pl",
    "russian|rus?", "chinese|zh", "japanese|jpn|ja", "korean|kor?", "arabic|ara?", "turkish|tur|tr",
    "swedish|swe|sv", "czech|ces|cs", "greek|ell|el", "hindi|hin|hi", "finnish|fin?",
)]  # fmt: skip


def contained(
    rows: int, in_anchor: float, marked: float, mark: str, alike: float = 0.0, same: float = 0.0,
    cut: float = 0.0, names: Sequence[str] = (),
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether rows can be matched without their meaning.

    Args:
        rows: rows that were read.
        in_anchor: share of rows whose anchor contains the positive word by word.
        marked: share of rows whose texts begin or end with a number that no other row has.
        mark: one of these numbers.
        alike: share of rows whose texts differ by letter case and punctuation only.
        same: share of rows whose texts are equal.
        cut: share of rows whose anchor stands in a longer positive word by word.
        names: names of both columns.
    """
    if rows < ENOUGH_ROWS:
        return
    subject = "shortcut"
    if marked > MANY_ROWS:
        finding = (
            f"In {percent(marked)} of the rows both texts begin or end with the same number, which "
            f"no other row has, such as {mark!r}: rows are matched by this identifier."
        )
        change = "Remove identifiers from the texts."
        yield Verdict(subject, WATCH, finding, change, "same identifier", SHORTCUT,
                      {"marked": marked})  # fmt: skip
    elif alike > MANY_ROWS:
        finding = (
            f"In {percent(alike)} of the rows the two texts have the same words in the same order, "
            "and differ by letter case or punctuation only: they match by copying."
        )
        change = "Give positives in other words, or the same text twice for views by dropout."
        yield Verdict(subject, WATCH, finding, change, "same words", SHORTCUT,
                      {"share": alike})  # fmt: skip
    elif SOME_SAME < same < MOST_SAME:
        finding = (
            f"In {percent(same)} of the rows both texts are the same, and in the others they "
            "differ: the positive is a copy of its anchor, as where a translation or an answer is "
            "missing."
        )
        change = "Leave these rows out."
        yield Verdict(subject, WATCH, finding, change, "part of the rows equal", SHORTCUT,
                      {"share": same})  # fmt: skip
    elif same >= MOST_SAME and len({*map(_kind_of, names)} - {-1}) == len(ROLES):
        finding = (
            f"Columns {names[0]!r} and {names[1]!r} hold the same text in {percent(same)} of the "
            "rows, where their names say that they are different ones: one column was written over "
            "the other, or handed back as it was, and nothing but dropout tells two views apart."
        )
        change = "Fill the second column with its own texts: look at the function that made it."
        yield Verdict(subject, WATCH, finding, change, "columns equal", SHORTCUT,
                      {"share": same})  # fmt: skip
    elif in_anchor > MANY_ROWS:
        finding = (
            f"In {percent(in_anchor)} of the rows the anchor contains the positive word by word: "
            "they match by copying, which will not help where texts come without it."
        )
        change = "Leave the positive out of the anchor, as it will be in use."
        yield Verdict(subject, WATCH, finding, change, "anchor contains positive", SHORTCUT,
                      {"share": in_anchor})  # fmt: skip
    elif cut >= MOSTLY_CUT:
        finding = (
            f"In {percent(cut)} of the rows the anchor stands in its positive word by word, as if "
            "it was cut out of it: the loss learns to find a copy, and not what a question in "
            "other words asks for."
        )
        change = (
            "Ask in other words, as in use, or take the sentence that is the anchor out of its "
            "passage, as the inverse cloze task does."
        )
        yield Verdict(subject, WATCH, finding, change, "anchor cut out of positive", SHORTCUT,
                      {"share": cut})  # fmt: skip


# Share of different texts of a column that begin with the same words from which on they are no
# coincidence, and up to which these are no prompt; share of the other openings that differ.
SOME_OPENED, MOST_OPENED, MOST_APART = 0.1, 0.7, 0.8


def template(
    texts: int, column: str, share: float, opening: str, apart: float,
    fitting: float = 0.0, opened: int = 0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether a part of a column's texts was made by a template, as refusals are.

    Args:
        texts: different texts of the column.
        column: its name.
        share: share of them that begin with the same words.
        opening: these words.
        apart: share of the openings of the others that differ.
        fitting: mean share of other rows whose texts have fewer words in common than those of a
            row that begins so; such rows belong together behind the same greeting.
        opened: rows that begin so, and that were compared.
    """
    if is_above_chance(fitting, opened):
        return
    if texts < ENOUGH_ROWS or not SOME_OPENED <= share <= MOST_OPENED or apart < MOST_APART:
        return
    finding = (
        f"{percent(share)} of the texts of column {column!r} begin with the same words, "
        f"{opening!r}, and the others do not: they repeat as refusals of a language model, error "
        "pages or templates do."
    )
    change = "Read some of them; leave these rows out if they answer nothing."
    yield Verdict("texts", WATCH, finding, change, "texts of a template", "false-negatives",
                  {"share": share, "apart": apart})  # fmt: skip


# Share of missing texts that is worth a remark; share of texts with markup, and share
# above which tags are the format of a column, such as of answers in HTML, and no remains.
SOME_MISSING, MUCH_MARKUP, A_FORMAT = 0.01, 0.1, 0.9


def remains(
    missing_column: str, missing: float, text: str, marked_column: str, marked: float, mark: str
) -> Iterator[Verdict]:
    """Judge whether texts stand for missing ones, or hold markup or broken characters.

    Args:
        missing_column: the column with most texts that stand for a missing one.
        missing: their share.
        text: one of them.
        marked_column: the column with most markup or characters of a wrong encoding.
        marked: share of its texts.
        mark: an example.
    """
    if missing >= SOME_MISSING:
        finding = (
            f"{percent(missing)} of the texts in column {missing_column!r} stand for a missing "
            f"text, such as {text!r}."
        )
        change = "Leave these rows out: an empty cell was read as text."
        yield Verdict("texts", WATCH, finding, change, "texts missing", "false-negatives",
                      {"missing": missing})  # fmt: skip
    if marked >= MUCH_MARKUP and not (mark.startswith("<") and marked > A_FORMAT):
        finding = (
            f"{percent(marked)} of the texts in column {marked_column!r} hold markup, JSON or "
            f"a list in place of a text, or characters of a wrong encoding, such as {mark!r}."
        )
        change = "Read files as UTF-8, take the text out of JSON and lists, and remove tags."
        yield Verdict("texts", WATCH, finding, change, "markup", SHORTCUT,
                      {"marked": marked})  # fmt: skip


# Share of the tokens, and number of tokens, that all texts of a column begin with; instructions of
# E5 and BGE take up to three quarters of a short query.
MOSTLY_PROMPT, LONG_PROMPT = 0.75, 8


def beginning(prefix: int, length: float, column: str) -> Iterator[Verdict]:
    """Judge whether a mean is taken over a long prompt that all texts share.

    Args:
        prefix: tokens that all texts of a batch begin with.
        length: mean number of tokens of a text.
        column: name of the column.
    """
    if prefix < MOSTLY_PROMPT * length or prefix < LONG_PROMPT:
        return
    finding = (
        f"All texts of column {column!r} begin with the same {prefix} of {length:.0f} tokens on "
        "average, and the embedding is the mean over all of them: the prompt outweighs the text."
    )
    change = "Leave the prompt out of the mean: model[1].include_prompt = False. Or shorten it."
    yield Verdict("prompts", WATCH, finding, change, "prompt pooled", SHORTCUT,
                  {"prefix": float(prefix), "length": length})  # fmt: skip


# Median number of words of a text that leaves nothing to compare; share of texts that repeat, which
# remains of texts do, and names of things do not.
HARDLY_WORDS, MANY_REPEATED = 2.5, 0.3


def brevity(words: Mapping[str, float], repeated: float = 1.0) -> Iterator[Verdict]:
    """Judge whether texts have words to compare.

    Args:
        words: median number of words by column.
        repeated: share of texts that stand in several rows of their column.
    """
    if max(words.values()) > HARDLY_WORDS or repeated < MANY_REPEATED:
        return
    lengths = " and ".join(f"{count:g} in column {name!r}" for name, count in words.items())
    finding = (
        f"Half of the texts have no more words than {lengths}: short texts of one or two words "
        "leave the two views of a row nothing in common."
    )
    change = (
        "Look at rows as they are trained: an augmentation that deletes most words, a column that "
        "was cut or split, a key in place of its text."
    )
    yield Verdict("texts", WATCH, finding, change, "hardly any words", SHORTCUT,
                  {"words": max(words.values())})  # fmt: skip


def _kind_of(name: str) -> int:
    """Return the number of the kind of text that a column's name says; -1 for none."""
    lower = name.strip().lower()
    return next((at for at, kind in enumerate(KINDS) if kind.fullmatch(lower)), -1)

"""Measures whether something else than its meaning tells which texts match, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.shortcut_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlab.data.cooccurrence import FEWEST_ROWS, foretold_ranks
from gradlab.data.letters import WHOLE, letters_of, size_of
from gradlab.data.words import MISREAD, words_of
from gradlab.diagnosis.data_measurements import word_ranks
from gradlab.diagnosis.label_measurements import OF_ENTRIES, name_of_loss
from gradlab.diagnosis.observation import Observation, ObservedBatch

# Rows that are read; words that a text has at least for being contained to mean something, and how
# many times as long the other one is: a pair that differs by a word or two is an augmentation, and
# of a much longer text a title or a phrase is in question.
READ_ROWS, FEWEST_WORDS, LONGER, MUCH_LONGER = 2000, 4, 1.4, 2.2
# Letters of a word that is no longer than usual ones in many languages.
USUAL_LETTERS = 10
# Words of an anchor at least for standing in its positive to mean something.
FEWEST_CUT = 3
# Words of a text that are its opening; rows whose words are asked whether they foretell those
# behind it, and the mean rank from which on they do.
OPENING, FORETOLD_ROWS, TOLD = 7, 512, 0.75
# Texts that stand for a missing one, and marks of files that were read with the wrong encoding or
# with their markup.
MISSING = {
    "nan", "none", "null", "n/a", "na", "<na>", "nil", "undefined", "unknown", "missing", "todo",
    "[deleted]", "[removed]", "#n/a", "-", "--", "?", "...",
}  # fmt: skip
MARKUP = re.compile(
    rf"^\s*[\[{{]\s*['\"]|^b(['\"]).*\1$|{MISREAD.pattern}|&(amp|lt|gt|quot|nbsp|#\d+);|</?(p|div|br|span|a|li|ul|td|tr|b|i|h\d)\b[^>]*>"
)
# How many times as often as other single words one that stands for a missing text repeats.
MANY_TIMES = 4
TAG = re.compile(r"<[^<>]*>")
NUMBERED = re.compile(r"\d")  # in a word of an identifier
# Entries of a list or of JSON that hold code or data, and not a text that was wrapped; share of the
# letters of fewer entries that the wrapped text has.
FEWEST_HELD, MOSTLY_ONE = 3, 0.8
# Share of the words of the longer of two texts that views of one text have in common.
MOSTLY_SHARED = 0.7
Numbers = dict[str, Any]


def markers(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the word that tells positives from all negatives best, and the shares that have it.

    Further columns of a loss of a teacher's embeddings are translations, and no negatives.
    """
    texts, loss = _texts(observation, dataset), name_of_loss(batches[0].loss)
    if len(texts) < 3 or not all(map(_is_filled, texts[1:3])) or loss in OF_ENTRIES:
        return None
    positives, negatives = texts[1], [text for column in texts[2:] for text in column]
    shares = [
        {word: count / len(cells) for word, count in holders.items()}
        for cells in (positives, negatives)
        for holders in (Counter(w for text in cells for w in set(words_of(text))),)
    ]
    of_positives, of_negatives = shares
    word = max(
        of_positives | of_negatives,
        key=lambda w: abs(of_positives.get(w, 0.0) - of_negatives.get(w, 0.0)),
        default="",
    )
    return {
        "rows": len(positives),
        "word": word,
        "positives": of_positives.get(word, 0.0),
        "negatives": of_negatives.get(word, 0.0),
    }


def contained(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return shares of rows whose texts hold each other, share a number, or have the same words.

    ``cut`` is the share whose anchor stands in a longer positive, behind its beginning.
    """
    texts, names = _texts(observation, dataset), list(observation.table_of(dataset))
    if len(texts) < 2 or batches[0].labelled:
        return None
    words = [[words_of(text) for text in column] for column in texts[:2]]
    rows = list(zip(*words, strict=True))
    runs = [
        [(), ()] if _are_views(first, second)
        else [_common_numbers(first, second, end) for end in (1, -1)]
        for first, second in rows
    ]  # fmt: skip
    marked = [opening or ending for opening, ending in zip(
        *(_marks([run[at] for run in runs]) for at in range(2)), strict=True
    )]  # fmt: skip
    return {
        "rows": len(rows),
        "in_anchor": sum(_holds(first, second) for first, second in rows) / len(rows),
        "cut": sum(_is_cut(first, second) for first, second in rows) / len(rows),
        "marked": sum(map(bool, marked)) / len(rows),
        "mark": next(filter(None, marked), ""),
        "alike": sum(
            first == second != [] and len(set(row)) > 1
            for (first, second), row in zip(rows, zip(*texts[:2], strict=True), strict=True)
        ) / len(rows),
        "same": sum(len(set(row)) == 1 for row in zip(*texts[:2], strict=True)) / len(rows),
        "names": names[:2],
    }  # fmt: skip


def parts(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the column of negatives that most often holds the positive, or stands in it."""
    table = observation.table_of(dataset)
    names = list(table)
    texts = [
        [f" {' '.join(words_of(text))} " for text in table[name][:READ_ROWS]] for name in names
    ]
    if len(texts) < 3 or batches[0].labelled:
        return None
    shares = {
        name: sum(
            first != second and first.strip() != "" and (first in second or second in first)
            and bool(second.strip()) for first, second in zip(column, texts[1], strict=True)
        ) / len(column)
        for name, column in zip(names[2:], texts[2:], strict=True) if column
    }  # fmt: skip
    if not shares:
        return None
    column = max(shares, key=lambda name: shares[name])
    row = table[column][0]
    return {"rows": len(texts[1]), "column": column, "share": shares[column], "text": row}


def template(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the column of which most texts begin with the same words, and how others begin.

    Anchors are left out: refusals stand in the place of answers. ``fitting`` is the mean share of
    other rows whose texts have fewer words in common than those of a row that begins so, or whose
    words foretell it less: greetings stand before answers, and refusals in place of them.
    """
    best: Numbers | None = None
    table = observation.table_of(dataset)
    columns = [column[:READ_ROWS] for column in list(table.values())[:2] if column]
    ranks = list(word_ranks(columns)) if len(columns) > 1 else []
    for name, cells in list(table.items())[1:]:
        texts = set(cells[:READ_ROWS])
        openings = [opening for text in texts if (opening := _opening(text))]
        if not openings:
            continue
        counts = Counter(openings)
        opening, times = counts.most_common(1)[0]
        others = len(openings) - times
        of_opening = [
            rank for text, rank in zip(cells, ranks, strict=False) if _opening(text) == opening
        ]  # fmt: skip
        numbers = {
            "texts": len(texts), "column": name, "share": times / len(texts),
            "opening": " ".join(opening), "apart": (len(counts) - 1) / max(1, others),
            "fitting": max(sum(of_opening) / max(1, len(of_opening)),
                           _foretold_behind(opening, columns[0], cells)),
            "opened": len(of_opening),
        }  # fmt: skip
        if best is None or numbers["share"] > best["share"]:
            best = numbers
    return best


def remains(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the column with most texts that stand for a missing one, or that hold markup."""
    table = observation.table_of(dataset)
    shares = {
        name: (
            len(missing) / len(cells),
            sum(map(bool, marks)) / len(cells),
            next(iter(missing), ""),
            next(filter(None, marks), ""),
        )
        for name, cells in ((name, column[:READ_ROWS]) for name, column in table.items())
        if cells
        for marks in (list(map(_mark_of, cells)),)
        for missing in (_missing(cells),)
    }
    if not shares:
        return None
    missing = max(shares, key=lambda name: shares[name][0])
    marked = max(shares, key=lambda name: shares[name][1])
    return {
        "missing_column": missing, "missing": shares[missing][0], "text": shares[missing][2],
        "marked_column": marked, "marked": shares[marked][1], "mark": shares[marked][3],
    }  # fmt: skip


def beginning(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return how many tokens all texts of a column begin with, where a mean is taken over them.

    None where another pooling is used, or the tokens of prompts are left out.
    """
    modules = list(getattr(observation.trainer.model, "modules", list)())
    poolings = [module for module in modules if hasattr(module, "pooling_mode")]
    if not poolings or "mean" not in str(poolings[0].pooling_mode):
        return None
    leaves_out = not getattr(poolings[0], "include_prompt", True)
    most: Numbers = {"prefix": 0, "length": 1.0, "column": ""}
    names = list(observation.table_of(dataset))
    for place, column in enumerate(batches[0].columns):
        if not {"input_ids", "attention_mask"} <= set(column):
            continue
        if leaves_out and "prompt_length" in column:
            continue
        rows = [ids[mask.bool()].tolist() for ids, mask in zip(
            column["input_ids"], column["attention_mask"], strict=True
        )]  # fmt: skip
        prefix = 0
        for tokens in zip(*rows, strict=False):
            if len(set(tokens)) > 1:
                break
            prefix += 1
        length = sum(map(len, rows)) / len(rows)
        if len(rows) > 3 and prefix / length > most["prefix"] / most["length"]:
            name = names[place] if place < len(names) else str(place)
            most = {"prefix": prefix, "length": length, "column": name}
    return most


def brevity(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the median number of words of two columns, and the share of repeated texts.

    Long words count as several, as where a language puts a sentence into one.
    """
    table = observation.table_of(dataset)
    counts = {
        name: float(statistics.median(map(_length, cells[:READ_ROWS])))
        for name, cells in list(table.items())[:2] if cells
    }  # fmt: skip
    single = [
        count == 1 for cells in list(table.values())[:2] if cells
        for count in map(Counter(cells[:READ_ROWS]).__getitem__, cells[:READ_ROWS])
    ]  # fmt: skip
    repeated = 1 - sum(single) / max(1, len(single))
    return {"words": counts, "repeated": repeated} if len(counts) == 2 else None


def _length(text: str) -> int:
    """Return the number of words of a text, or of usual words with as many letters."""
    words = words_of(text)
    return max(len(words), sum(map(letters_of, words)) // USUAL_LETTERS)


def _missing(texts: Sequence[str]) -> list[str]:
    """Return texts that stand for a missing one.

    Among single words, such as keywords, they are words themselves, unless they repeat far more.
    """
    marks = [text for text in texts if text.strip().lower() in MISSING]
    counts = Counter(texts)
    mean = (len(texts) - len(marks)) / max(1, len(counts.keys() - set(marks)))
    single = statistics.median(len(text.split()) for text in texts) < 2
    return [text for text in marks if not single or counts[text] > MANY_TIMES * mean]


def _mark_of(text: str) -> str:
    """Return a mark of a text that was read with its markup; empty for none, and for code.

    Code is a text of which tags are the larger part, or that holds more than one text in brackets.
    """
    match = MARKUP.search(text)
    if not match:
        return ""
    tags = sum(len(tag[0]) for tag in TAG.finditer(text))
    if 2 * tags > len(text):
        return ""
    if text.lstrip()[:1] in "[{":
        with contextlib.suppress(ValueError, SyntaxError):
            held = ast.literal_eval(text.strip())
            values = [str(value) for value in held.values()] if isinstance(held, dict) else []
            # Of a record, no entry is nearly all of it.
            most = max(map(len, values), default=1)
            is_record = most < MOSTLY_ONE * sum(map(len, values))
            return match[0] if len(held) < FEWEST_HELD and not is_record else ""
        return ""
    return match[0]


def _opening(text: str) -> tuple[str, ...]:
    """Return the first words of a text, or as many signs as they have; empty of a short text."""
    words = words_of(text)
    sizes = itertools.accumulate(size_of([word]) for word in words)
    count = next((at for at, size in enumerate(sizes, 1) if size >= OPENING * WHOLE), 0)
    return tuple(words[:count])


def _is_filled(column: Sequence[str]) -> bool:
    """Return whether most texts of a column are not empty: an empty column lacks every word."""
    return sum(bool(text.strip()) for text in column) > len(column) / 2


def _holds(text: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether a longer text holds another one, word by word, as a good part of it."""
    length, is_short = len(phrase), size_of(phrase) < FEWEST_WORDS * WHOLE
    if is_short or not LONGER * length <= len(text) <= MUCH_LONGER * length:
        return False
    return f" {' '.join(phrase)} " in f" {' '.join(text)} "


def _is_cut(phrase: Sequence[str], text: Sequence[str]) -> bool:
    """Return whether a phrase stands within a longer text, word by word.

    At its beginning it is a question that its answer repeats, or a name; and numbers, such as that
    of a telephone, are what is looked for.
    """
    is_short = size_of(phrase) < FEWEST_CUT * WHOLE or len(phrase) >= len(text)
    if is_short or "".join(phrase).isdigit():
        return False
    return f" {' '.join(text)} ".find(f" {' '.join(phrase)} ") > 0


def _are_views(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two texts share most words, as views of one text by deletion do."""
    words, second_words = set(first), set(second)
    return len(words & second_words) >= MOSTLY_SHARED * max(len(words), len(second_words))


def _texts(observation: Observation, dataset: str) -> list[Sequence[str]]:
    columns = observation.table_of(dataset).values()
    return [column[:READ_ROWS] for column in columns if column]


OF_LOSS = (markers, parts, contained, template, remains, beginning, brevity)


def _common_numbers(first: Sequence[str], second: Sequence[str], step: int) -> tuple[str, ...]:
    """Return the words with which both texts begin, or end (``step`` of -1), up to a number.

    Words between numbers, as in "case 4711 :", belong to them.
    """
    pairs = zip(first[::step], second[::step], strict=False)
    words = [word for word, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
    while words and not NUMBERED.search(words[-1]):
        words.pop()
    return tuple(words) if len(words) < min(len(first), len(second)) else ()


def _marks(runs: Sequence[tuple[str, ...]]) -> list[str]:
    """Return for each row its numbers with the words around them, which stand around most numbers.

    Empty where another row has the numbers as well: words that differ from row to row are of the
    texts themselves, as names of a product with its number are.
    """
    forms = [tuple("" if NUMBERED.search(word) else word for word in run) for run in runs]
    times, holders = Counter(map(frozenset, filter(None, forms))), Counter(runs)
    usual = times.most_common(1)[0][0] if times else frozenset()
    return [
        " ".join(run) if run and holders[run] == 1 and frozenset(form) <= usual | {""} else ""
        for run, form in zip(runs, forms, strict=True)
    ]


def _foretold_behind(
    opening: tuple[str, ...], first: Sequence[str], second: Sequence[str]
) -> float:
    """Return the mean of `foretold_ranks` of rows whose second text begins so; 0 if it is small.

    These ranks depend on each other, so that those near chance say nothing.
    """
    words = [[words_of(text) for text in column[:FORETOLD_ROWS]] for column in (first, second)]
    if len(words[0]) < FEWEST_ROWS:
        return 0.0
    texts, partners = ([set(text) for text in column] for column in words)
    ranks = foretold_ranks(texts, partners)
    begin = np.array([tuple(text[:OPENING]) == opening for text in words[1]])
    mean = float(ranks[begin].mean()) if begin.any() else 0.0
    return mean if mean >= TOLD else 0.0

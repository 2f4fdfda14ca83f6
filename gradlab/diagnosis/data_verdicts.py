"""Do the texts of a row belong together, do views differ, and are there copies?

Arguments are measured by the functions of the same names in `gradlab.diagnosis.data_measurements`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradlab.errors import counted
from gradlab.inspection.text_findings import spaced_wrongly, without_words, words_broken
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Words of column names that say which part a column plays, wherever they stand: of a
# "response_rejected", the last one. Names that begin with a word of texts that usually play a part
# say less: an "answer" may be sought by its question or the other way round.
PARTS = {
    "negative": "negatives? negs? rejected irrelevant contradictions? distractors? wrong bad",
    "positive": "positives? pos chosen relevant entailments?",
    "anchor": "anchors?",
}
USUAL_PARTS = {
    "anchor": "query queries questions? prompts? instructions? premises?",
    "positive": "answers? responses? completions?",
    "negative": "hard",
}


def columns(names: Sequence[str], row: Sequence[str], own: bool = False) -> Iterator[Verdict]:
    """Judge whether the columns play the parts that their names say.

    Args:
        names: names of the columns.
        row: an example.
        own: whether the loss is one of the user's own, which may take columns otherwise.
    """
    roles = ["anchor", "positive", *("negative" for _ in names[2:])][: len(names)]
    by_order = ", ".join(
        f"{role} = column {name!r}" for role, name in zip(roles, names, strict=True)
    )
    example = " | ".join(_shortened(text) for text in row)
    finding = f"By their order, {by_order}. For example: {example}."
    said = [role_of(name) for name in names]
    astray = [place for place, role in enumerate(roles) if said[place] not in ("", role)]
    exact = [place for place in astray if part_of(names[place], PARTS)]
    # Two questions, such as those of duplicates, are a pair, and a third one its negative.
    is_twin = said[:2] == ["anchor", "anchor"] and "positive" not in said
    # One name of two, such as that of SQL queries, may be of what is looked for; so may texts that
    # usually play a part, if what stands before them has no such name, or is exchanged with them.
    is_alone = not names[2:] and ("" in said or not exact)
    if is_twin or is_alone or (not exact and _is_sought(names, said)):
        astray = [place for place in exact if not is_alone and not (is_twin and place == 1)]
    # Both a query in the place of positives and an answer in that of negatives are one too far.
    is_shifted = said[1:2] == ["anchor"] and "positive" in said[2:]
    if own:  # several positives of a row
        astray = [place for place in astray if not said[1] == said[place] == "positive"]
    if not astray:
        yield Verdict("columns", GOOD, finding, name="columns in order")
        return
    place = astray[0]
    finding += f" The name {names[place]!r} says {said[place]}."
    change = "Order the columns: anchor, positive, then negatives (select_columns)."
    grade = BAD if (exact or is_shifted) and not own else WATCH
    yield Verdict("columns", grade, finding, change, "columns in another order", "loss-at-chance")


# Share of empty texts that is bad; share of one text in a column that is worth a remark, among
# enough rows. Where the other texts repeat as well, as queries beside many documents or names
# of classes do, how many times as often as these a placeholder stands: 4 if most are single; and
# the share from which on a column has too few different texts for negatives.
MANY_EMPTY, REPEATED, ENOUGH_ROWS = 0.01, 0.1, 32
OFTEN, OFTEN_AMONG_REPEATED, SINGLE, FEW_DIFFERENT = 4, 10, 2, 0.3


def texts(
    empty: Mapping[str, float],
    numbers: Mapping[str, float],
    repeated: Mapping[str, Sequence[Any]] | None = None,
    spaced: Mapping[str, Sequence[Any]] | None = None,
    broken: Mapping[str, Sequence[Any]] | None = None,
    in_batch: bool = True,
) -> Iterator[Verdict]:
    """Judge whether columns hold texts.

    Args:
        empty: share of empty cells by column.
        numbers: share of bare numbers by column.
        repeated: for each column the commonest text, its rows, the number of rows, and that of
            different texts.
        spaced: for each column the share of texts without spaces between words, or with some
            between letters, and one of them.
        broken: for each column the share of texts with words broken by hyphens, and such a word.
        in_batch: whether texts of other rows are negatives, of which few different ones are few.
    """
    for column, share in sorted(empty.items(), key=lambda entry: -entry[1]):
        if share > 0:
            grade = BAD if share >= MANY_EMPTY else WATCH
            finding = f"{percent(share)} of the texts in column {column!r} are empty."
            change = "Leave these rows out, or leave the column out if all are empty."
            yield Verdict("texts", grade, finding, change, "empty texts", "false-negatives")
            return
    for column, share in numbers.items():
        if verdict := without_words(column, share):
            yield verdict
            return
    for column, (share, text) in (spaced or {}).items():
        if verdict := spaced_wrongly(column, share, text):
            yield verdict
            return
    for column, (share, word) in (broken or {}).items():
        if verdict := words_broken(column, share, word):
            yield verdict
            return
    for column, (text, times, rows, *distinct) in (repeated or {}).items():
        # How often the column's other texts stand there, in the mean.
        mean = (rows - times) / (distinct[0] - 1) if distinct and distinct[0] > 1 else 0.0
        often = times >= (OFTEN if mean < SINGLE else OFTEN_AMONG_REPEATED) * mean
        often = often or (in_batch and times >= FEW_DIFFERENT * rows)
        if rows >= ENOUGH_ROWS and times >= REPEATED * rows and often:
            finding = (
                f"{_shortened(text)} stands in {times:,} of {rows:,} rows of column {column!r}: it "
                "repeats as a placeholder does."
            )
            change = "Leave these rows out, or leave the column out if all are like that."
            yield Verdict("texts", WATCH, finding, change, "placeholders", "false-negatives")
            return


# Copies of itself that a row meets in its batch on average, whatever the size of the batch. Four
# questions to each of 75 passages, .15 in batches of 16, gain as much as if they were kept apart:
# only of rows that are alike as a whole are many copies bad.
MANY_DUPLICATES, SOME_DUPLICATES = 0.2, 0.04


def duplicates(
    pairs: int, rows: int, batch: int, kept_apart: bool, most_repeated: str, repeats: int,
    fewest: Sequence[Any] = (), whole: int = 0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge how often a batch contains a text twice, so that the text is its own negative.

    Args:
        pairs: pairs of rows that share a text.
        rows: rows that were searched.
        batch: rows of a batch.
        kept_apart: whether the sampler keeps such rows apart.
        most_repeated: the text that repeats most.
        repeats: number of rows that hold it.
        fewest: number of different texts of the column that has fewest of them, and its name.
        whole: pairs of rows that share all texts.
    """
    met = batch * (batch - 1) / max(1, rows * (rows - 1))
    expected = pairs * met
    finding = (
        f"{counted(pairs, 'pair')} of {rows:,} rows {'shares' if pairs == 1 else 'share'} a text. "
        f"In a batch of {batch}, {expected:.2g} such pairs meet on average."
    )
    if repeats > 1:
        finding += f" {_shortened(most_repeated)} stands in {repeats:,} rows."
    copies = 2 * expected / max(1, batch)
    evidence = {"copies met by a row": copies}
    if kept_apart or copies <= SOME_DUPLICATES:
        finding += " The batch sampler keeps them apart." if kept_apart else ""
        yield Verdict("duplicates", GOOD, finding, name="few duplicates", evidence=evidence)
        return
    grade = BAD if 2 * whole * met / max(1, batch) > MANY_DUPLICATES else WATCH
    change = "Set batch_sampler=BatchSamplers.NO_DUPLICATES, and look at `gradlab inspect`."
    if fewest and fewest[0] < batch:  # which no sampler keeps apart
        finding += f" Column {fewest[1]!r} has {counted(fewest[0], 'different text')}, fewer than "
        finding += "a batch has rows: it seems to hold titles or classes, not the text of each row."
        change = "Give the column whose texts belong to one row each, or a loss of classes."
    yield Verdict("duplicates", grade, finding, change, "duplicates", "false-negatives", evidence)


# Rounding error of cosines that are 1; share of equal views that makes a fault of them.
EQUAL, MOST_EQUAL = 1e-6, 0.5


def views(
    positive: float, candidate: float, lowest: float, equal: float, same_texts: bool
) -> Iterator[Verdict]:
    """Judge whether the two views of a sentence differ, and whether sentences differ.

    Args:
        positive: mean cosine of anchors and positives.
        candidate: mean cosine of anchors and other candidates; NaN without any.
        lowest: lowest cosine of an anchor and another candidate; NaN without any.
        equal: share of views that are equal.
        same_texts: whether the two columns hold the same texts.
    """
    subject, mean = "two views", f"{candidate:.2f}" if candidate == candidate else "–"
    finding = (
        f"The cosine is {positive:.3f} to the positive and {mean} to other sentences, on average."
    )
    evidence = {"positive": positive, "candidate": candidate, "equal": equal}
    if lowest > 1 - EQUAL:
        finding += " All texts have the same embedding."
        change = (
            "Take an earlier checkpoint or the untuned encoder; check max_seq_length and that the "
            "weights were loaded."
        )
        yield Verdict(subject, BAD, finding, change, "collapsed", "cosines-above-0-9", evidence)
    elif equal > MOST_EQUAL and same_texts:
        finding += (
            " The two views of a sentence are equal: both columns hold the same text, and dropout "
            "does nothing."
        )
        change = (
            "Give the encoder dropout (0.1) and leave it in training mode, or pair each text with "
            "a different one."
        )
        yield Verdict(subject, BAD, finding, change, "views equal", "loss-zero", evidence)
    elif equal > MOST_EQUAL:
        finding += " Anchors and positives have the same embeddings although their texts differ."
        change = "Check max_seq_length and prompts: the part that differs may be cut off."
        yield Verdict(subject, BAD, finding, change, "texts embed alike", "loss-zero", evidence)
    else:
        yield Verdict(subject, GOOD, finding, name="views differ", evidence=evidence)


# Standard deviations above chance from which on positives are told from other candidates, and
# fewest anchors that say so; share of the words of an anchor that the nearest of all positives has
# below which words tell nothing: translations and synonyms share hardly any, whatever their order.
ABOVE_CHANCE, FEWEST_ANCHORS, WORDS_TELL = 2.5, 16, 0.1


def pairs(
    anchors: int,
    share: float,
    rows: int,
    word_share: float,
    nearest: float = 1.0,
    foretold: float = 0.5,
) -> Iterator[Verdict]:
    """Judge whether positives are nearer to anchors than other candidates.

    Both the embeddings and the words must say no before the pairs are blamed: an untuned encoder
    cannot tell.

    Args:
        anchors: number of anchors.
        share: mean share of the other candidates that are farther than the positive.
        rows: rows whose words were compared; 0 if none were.
        word_share: mean share of other rows' positives that have fewer words in common with the
            anchor than its own positive.
        nearest: mean share of an anchor's words that the nearest of all positives has.
        foretold: mean share of other rows' positives whose words are foretold less by those of
            the anchor than the words of its own positive, as learnt from the other rows.
    """
    if anchors < FEWEST_ANCHORS:
        finding = f"{anchors} anchors are too few to compare positives with other candidates."
        yield Verdict("pairs", NOT_JUDGED, finding, name="few anchors")
        return
    finding = (
        f"A positive is nearer to its anchor than {share:.0%} of the other candidates, over "
        f"{anchors} anchors."
    )
    evidence = {"share": share, "anchors": anchors}
    if is_above_chance(share, anchors):
        yield Verdict("pairs", GOOD, finding, name="pairs belong together", evidence=evidence)
        return
    finding += " Chance gives 50%."
    if rows < FEWEST_ANCHORS:
        finding += " Whether the words of a row belong together was not measured."
        yield Verdict("pairs", NOT_JUDGED, finding, name="pairs unclear", evidence=evidence)
        return
    evidence |= {"word share": word_share, "rows": rows}
    yield _by_words(finding, evidence, nearest, foretold)


def is_above_chance(share: float, count: int) -> bool:
    """Return whether a mean of uniform ranks is above 1/2 by more than chance."""
    return (share - 0.5) * math.sqrt(12 * count) >= ABOVE_CHANCE


# Shares of hard negatives that are the positive's text, and that are nearer than the positive. The
# latter is never bad: contradictions differ from their premise by a word, and an encoder that is
# not tuned finds them nearer than what follows from it.
MANY_SAME, MANY_NEARER = 0.05, 0.5
# Deviations of a share of a half, whose anchors are counted once, up to which chance explains that
# negatives are nearer; and share of them with more words in common with the anchor than the
# positive has, up to which words do not say so: a third, where a third of the rows are exchanged.
BY_CHANCE, SOME_BY_WORDS = 2.5, 0.2


def hard_negatives(
    same: float, nearer: float, anchors: int = 0, words: float = 1.0
) -> Iterator[Verdict]:
    """Judge hard negatives that are the positive's own text, or nearer to the anchor than it.

    Embeddings of an encoder that is not tuned for them are as near to either by chance.

    Args:
        same: share of hard negatives that are the positive's own text.
        nearer: share of them that are nearer to the anchor than the positive.
        anchors: anchors that were compared; 0 if unknown.
        words: share of hard negatives with more rare words in common with the anchor than the
            positive has.
    """
    subject, symptom = "hard negatives", "false-negatives"
    if same > 0:
        grade = BAD if same >= MANY_SAME else WATCH
        finding = (
            f"{same:.1%} of the hard negatives in a column are the same text as their positive."
        )
        change = "Drop such rows, or mine again with mine_hard_negatives(relative_margin=0.05)."
        yield Verdict(subject, grade, finding, change, "negatives are positives", symptom)
        return
    finding = f"{nearer:.0%} of the hard negatives are nearer to their anchor than its positive."
    evidence = {"nearer": nearer}
    if nearer <= MANY_NEARER:
        yield Verdict(subject, GOOD, finding, name="negatives farther", evidence=evidence)
        return
    by_chance = (nearer - 0.5) * 2 * math.sqrt(anchors) < BY_CHANCE
    if anchors and by_chance and words <= SOME_BY_WORDS:
        finding += (
            " Chance gives 50%, and few have more words in common with the anchor than the "
            "positive has: the encoder is not tuned for them yet."
        )
        yield Verdict(subject, NOT_JUDGED, finding, name="negatives at chance", evidence=evidence)
        return
    finding += " The columns of positives and negatives may be exchanged."
    change = (
        "Read some rows. Mine negatives that are less similar than the positive: "
        "mine_hard_negatives(relative_margin=0.05)."
    )
    yield Verdict(subject, WATCH, finding, change, "negatives nearer", symptom, evidence)


# Shares of rows without a common word between which the others can be compared with them; mean
# share of other candidates that must be farther than the positive of these; fewest rows; share of
# strangers by the words of the whole table below which there are none: rows whose words are those
# of many others have no rare word in common.
SOME_WITHOUT, MOST_WITHOUT, TOLD_APART, FEWEST_ROWS, FEW_STRANGERS = 0.2, 0.8, 0.8, 24, 0.12


def unrelated_rows(
    rows: int, without: float, rank_without: float, rank_with: float, strangers: float = 1.0
) -> Iterator[Verdict]:
    """Judge whether a part of the pairs does not belong together, while the others do.

    Args:
        rows: rows that were compared.
        without: share of them whose texts have no rare word in common.
        rank_without: mean share of other candidates that are farther than the positive of these.
        rank_with: the same of the others.
        strangers: share of the rows of the table whose texts do not go together by their words; 1
            if unknown.
    """
    if strangers < FEW_STRANGERS or rows < FEWEST_ROWS:
        return
    if not SOME_WITHOUT < without < MOST_WITHOUT or rank_with < TOLD_APART:
        return
    if is_above_chance(rank_without, max(1, round(without * rows))):
        return
    finding = (
        f"In {percent(without)} of {rows} rows the two texts have no rare word in common, and the "
        f"positive is nearer than {rank_without:.0%} of the other candidates, which is chance; in "
        f"the others it is nearer than {rank_with:.0%}. These pairs seem unrelated: negatives "
        "without a label, or rows that were mixed."
    )
    change = "Read some of these rows; keep pairs that match, or use a loss with labels."
    yield Verdict("pairs", WATCH, finding, change, "pairs at chance in part",
                  "loss-at-chance", {"without": without, "rank": rank_without})  # fmt: skip


def role_of(name: str) -> str:
    """Return the part that the name of a column says; empty for none."""
    return part_of(name, PARTS) or part_of(" ".join(_words_of_name(name)[:1]), USUAL_PARTS)


def part_of(name: str, roles: Mapping[str, str]) -> str:
    """Return the first part one of whose words stands in a name; empty for none."""
    words = _words_of_name(name)
    return next(
        (role for role, patterns in roles.items() for pattern in patterns.split()
         if any(re.fullmatch(pattern, word) for word in words)), "",
    )  # fmt: skip


def _words_of_name(name: str) -> list[str]:
    """Return the words of a name of a column, such as those of ``hardNegative_1``."""
    return [word.lower() for word in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+", name)]


def _is_sought(names: Sequence[str], said: Sequence[str]) -> bool:
    """Return whether texts that usually are anchors are looked for by those before them.

    Nothing says that these are positives; or the negatives have the same word in their name.
    """
    words = [{*_words_of_name(name)} for name in names]
    alike = all(words[1] & further for further in words[2:])
    return said[1] == "anchor" and "positive" not in said[2:] and (not said[0] or alike)


def _shortened(text: str, most: int = 40) -> str:
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def _by_words(finding: str, evidence: dict[str, float], nearest: float, foretold: float) -> Verdict:
    """Judge pairs that embeddings do not tell from others: do words?

    Arguments as of `pairs`; ``finding`` and ``evidence`` are of the embeddings.
    """
    word_share, rows = evidence["word share"], int(evidence["rows"])
    words = f"the words of a row agree more than those of {word_share:.0%} of other rows"
    if is_above_chance(word_share, rows):
        finding += f" But {words}: the pairs fit, and the encoder is not tuned for them yet."
        return Verdict("pairs", NOT_JUDGED, finding, name="encoder untuned", evidence=evidence)
    if nearest < WORDS_TELL:
        finding += (
            " And words cannot tell: texts of the two columns have hardly any in common, as in "
            "translations. The encoder may not be tuned for them yet."
        )
        return Verdict("pairs", NOT_JUDGED, finding, name="no common words", evidence=evidence)
    # Rows of a half have learnt the same words, so that their ranks are not independent.
    if is_above_chance(foretold, rows // 4):
        finding += (
            " But words of an anchor foretell those of its positive, as in translations: better "
            f"than those of {foretold:.0%} of other rows. The encoder is not tuned for them yet."
        )
        return Verdict("pairs", NOT_JUDGED, finding, name="words foretold", evidence=evidence)
    finding += f" Nor do the texts show it: {words}, over {rows} rows."
    change = (
        "Check that the texts of a row belong together. They do not if one column was sorted or "
        "shuffled without the other."
    )
    return Verdict("pairs", BAD, finding, change, "pairs at chance", "loss-at-chance", evidence)

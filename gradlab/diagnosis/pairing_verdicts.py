"""Does a row hold texts of another one, and do real batches hold the rows that they should?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.pairing_measurements`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.data.partner_verdicts import partners as of_partners
from gradlab.diagnosis.data_verdicts import is_above_chance, role_of
from gradlab.diagnosis.foretold_verdicts import REPEATS, are_edited
from gradlab.numbers import percent
from gradlab.verdict import BAD, NOT_JUDGED, WATCH, Verdict

# Share of rows whose text fits another row that is worth a remark; fewest rows; rank of their own
# row from which on these belong together as well; median share of common words of tables whose rows
# are told by words: .41 where some are shifted, .19 where two texts of a category are a pair, and
# .02 where pairs are put in other words.
SOME_STRAY, ENOUGH_ROWS, OWN_FITS, TOLD_BY_WORDS = 0.08, 32, 0.9, 0.3
# Strangers by words that go together, for each row that seems to belong elsewhere, below which it
# does not: 1.2 where rows were shifted, and none where a text has the template of another row.
FEW_STRANGERS = 0.25


def strays(
    rows: int, share: float, median: float, own_rank: float = 0.0,
    partners: Mapping[str, Any] | None = None,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether the second texts of some rows belong to other rows.

    Args:
        rows: rows that were compared.
        share: share of them whose second text fits the first text of another row, which has lost
            its own.
        median: median share of common words of a row.
        partners: see `gradlab.data.partners.partner_numbers`.
        own_rank: mean share of other rows that fit such a text less than its own row.
    """
    fit = partners is not None and partners.get("strangers", 1.0) < FEW_STRANGERS * share
    fit |= own_rank >= OWN_FITS or median < TOLD_BY_WORDS
    if rows < ENOUGH_ROWS or share < SOME_STRAY or fit:
        verdict = of_partners(**partners) if partners else None
        yield from [] if verdict is None else [verdict]
        return
    finding = (
        f"In {percent(share)} of {rows:,} rows the second text has at least twice as many words of "
        "the first text of another row as of its own: it belongs to that row, and these pairs are "
        "misaligned (shifted, or shuffled in part)."
    )
    change = "Join columns by an id in place of their order, and look at where rows were dropped."
    yield Verdict("pairs", WATCH, finding, change, "texts of other rows", "loss-at-chance",
                  {"share": share, "median": median})  # fmt: skip


# Share of rows in which negatives have more words of the anchor, and embeddings agree; share up to
# which words say that they do not.
MOSTLY_EXCHANGED, AGREED, HARDLY_EXCHANGED = 0.8, 0.5, 0.25
CONTRADICTS = re.compile("contradict", re.IGNORECASE)
# Rank of the positives from which on they belong to their anchors.
BELONG = 0.8


def exchanged(
    rows: int, words: float, embedded: int, embeddings: float, column: str,
    repetition: float = 0.0, own_rank: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether the columns of positives and negatives are exchanged.

    Args:
        rows: rows whose words were compared.
        words: share of them in which the negative has more words of the anchor.
        embedded: rows whose embeddings were compared.
        embeddings: share of them in which the negative is nearer to the anchor.
        column: name of the column of negatives.
        repetition: share of common words of anchor and negative, of rows in which these are more.
        own_rank: of these rows, share of other positives that go less with the anchor than its own.
    """
    if rows < ENOUGH_ROWS or embeddings <= AGREED:
        return
    is_named = role_of(column) == "negative" and words >= MOSTLY_EXCHANGED
    if is_named:  # then they need not repeat so much
        repetition = max(repetition, REPEATS)
    if are_edited({"repetition": repetition, "own_rank": own_rank}, BELONG):
        finding = (
            f"In {percent(words)} of {rows:,} rows the text of column {column!r} has more words of "
            "the anchor than the positive, which belongs to the anchor nevertheless: texts that "
            "repeat the anchor but for some words are hard negatives."
        )
        yield Verdict("hard negatives", NOT_JUDGED, finding, name="negatives contradict")
        return
    if CONTRADICTS.match(column):
        finding = (
            f"The texts of column {column!r} are contradictions by its name, which differ from the "
            "anchor by few words, so that they may be nearer than the positive."
        )
        yield Verdict("hard negatives", NOT_JUDGED, finding, name="negatives contradict")
        return
    if words <= HARDLY_EXCHANGED:
        finding = (
            f"In {percent(1 - words)} of {rows:,} rows the positive has more words of the anchor "
            f"than the text of column {column!r}, though the encoder finds the latter nearer in "
            f"{percent(embeddings)}: it is not tuned for them yet."
        )
        yield Verdict("hard negatives", NOT_JUDGED, finding, name="negatives farther by words")
    if words < MOSTLY_EXCHANGED:
        return
    finding = (
        f"In {percent(words)} of {rows:,} rows the text of the third column, {column!r}, has more "
        f"words of the anchor than that of the second, and in {percent(embeddings)} of {embedded} "
        "it is nearer: the columns of positives and negatives seem to be exchanged."
    )
    change = "Order the columns: anchor, positive, then negatives (select_columns)."
    yield Verdict("columns", WATCH, finding, change, "negatives share the words",
                  "false-negatives", {"words": words, "embeddings": embeddings})  # fmt: skip


# Share of the rows of a batch that stand in it again, where the data set does not repeat them; and
# part of the rows that a batch should have.
MANY_AGAIN, FEW_OF_MEANT = 0.1, 0.6


def copies(rows: int, share: float, in_data: float, meant: int, size: int) -> Iterator[Verdict]:
    """Judge whether real batches hold rows once, and as many as they should.

    Args:
        rows: rows of the batches.
        share: share of them that stand in their batch again.
        in_data: share of rows of the data set that repeat.
        meant: rows that a batch should have.
        size: rows that the largest batch has.
    """
    if share >= MANY_AGAIN > in_data:
        finding = (
            f"{percent(share)} of the {rows} rows of the first batches stand in their batch again, "
            f"and {percent(in_data)} of the data set repeat: the sampler or the collator repeats "
            "rows, which are then each other's negatives (duplicates)."
        )
        change = "Draw rows without replacement, and do not fill batches by repeating rows."
        yield Verdict("batches", WATCH, finding, change, "rows repeated in batches",
                      "false-negatives", {"share": share})  # fmt: skip
    if size < FEW_OF_MEANT * meant:
        finding = (
            f"Batches have {size} rows, where per_device_train_batch_size asks for {meant}: the "
            "sampler or the collator leaves rows out, and with them negatives."
        )
        change = "Look at the batch sampler and the data collator: they must keep all rows."
        yield Verdict("batches", WATCH, finding, change, "batches too small",
                      "accumulation-adds-no-negatives", {"size": float(size)})  # fmt: skip


def stream(pairs: int, alike: float) -> Iterator[Verdict]:
    """Judge whether rows that follow each other in a stream are alike.

    Args:
        pairs: neighbours in batches.
        alike: mean share of rows of other batches with fewer words in common with a row than its
            neighbour.
    """
    if pairs < FEWEST_PAIRS or alike < SORTED or not is_above_chance(alike, pairs):
        return
    finding = (
        "The data are a stream, whose rows are not shuffled: neighbours in a batch have more words "
        f"in common than {alike:.0%} of the rows of other batches, so that rows are sorted."
    )
    change = "Shuffle the stream: train_dataset.shuffle(buffer_size=10_000, seed=0)."
    yield Verdict("order of rows", WATCH, finding, change, "sorted stream", "false-negatives",
                  {"alike": alike})  # fmt: skip


# Neighbours that say so, and how much more alike these are: .87 in a sorted stream, and up to .68
# by chance, since all neighbours of a batch are compared with the same few rows; learning rate,
# relative to the encoder's, that is none.
FEWEST_PAIRS, SORTED, NO_RATE = 16, 0.75, 1e-3


def head(weights: int, missed: int, name: str, layer: str, rate: float | None) -> Iterator[Verdict]:
    """Judge whether the weights of the loss itself are trained.

    Args:
        weights: tensors of the loss that require a gradient.
        missed: those that get none, though the encoder does.
        name: the first of them.
        layer: class of a layer that the loss makes as it is computed; empty for none.
        rate: their lowest learning rate relative to the encoder's; None if unknown.
    """
    subject, symptom = "weights of the loss", "weights-do-not-move"
    if layer:
        finding = (
            f"The loss makes a layer ({layer}) each time that it is computed: its weights are "
            "drawn anew at random with each step, and are never trained."
        )
        change = "Make the layer once, in __init__, and use it in forward."
        yield Verdict(subject, BAD, finding, change, "layer made anew", symptom)
    if missed:
        finding = (
            f"{missed} of {weights} weights of the loss, such as {name}, get no gradient, though "
            "the encoder does: its classifier or centres stay as they were drawn."
        )
        change = "Look for .detach(), .data or torch.no_grad() in the loss."
        yield Verdict(subject, WATCH, finding, change, "loss weights without gradient", symptom)
    elif rate is not None and rate < NO_RATE:
        finding = (
            f"The learning rate of the loss's own weights is {rate:.1g} times the encoder's: its "
            "classifier or centres stay as they were drawn."
        )
        change = "Give their group of parameters a learning rate, usually above the encoder's."
        yield Verdict(subject, WATCH, finding, change, "loss weights without rate", symptom)


# Tokens of the longest text in batches, relative to the median in use, that are too few.
TOO_FEW_TOKENS = 0.65


def lengths_in_batches(column: str, share: float, tokens: float) -> Iterator[Verdict]:
    """Judge whether texts keep their tokens in batches.

    Args:
        column: the column with fewest tokens.
        share: tokens of its longest text in batches relative to the median in use.
        tokens: these tokens.
    """
    if share >= TOO_FEW_TOKENS:
        return
    finding = (
        f"In batches the texts of column {column!r} have {tokens:g} tokens at most, "
        f"{percent(share)} of what the model reads of half of them in use: they are truncated "
        "before training."
    )
    change = "Look at the data collator and its max_length: train on as much as is used."
    yield Verdict("tokens", WATCH, finding, change, "truncated in batches", "score-does-not-rise",
                  {"share": share})  # fmt: skip


# Share of the gradient that depends on pairs, times the rows of a batch, below which pairs do not
# matter. That no anchor is compared with its own row as a negative makes .3 and more: it was so for
# margins that all pairs of a batch met. Terms that outweighed the comparison had .01 to .06.
LEAST_OF_PAIRS = 0.1
# Share that is rounding: the loss compares no pairs, as that of a student with its teacher.
NO_PAIRS = 1e-5


def outweighed(share: float, rows: int) -> Iterator[Verdict]:
    """Judge whether what is trained depends on which texts belong together.

    Args:
        share: share of the embeddings' gradient that depends on it.
        rows: rows of a batch.
    """
    if is_outweighed(share, rows):
        finding = (
            f"If the second texts of the {rows} rows of a batch change places, only "
            f"{100 * share:.2g}% of the gradient of the embeddings changes: what is trained hardly "
            "depends on which texts belong together. A further term of the loss outweighs the "
            "comparison by its weight."
        )
        change = (
            "Lower the weight of the further term (a regulariser, a penalty, a divergence) until "
            "its gradient is smaller than that of the comparison; log the terms apart."
        )
        yield Verdict("terms of the loss", WATCH, finding, change, "comparison outweighed",
                      "score-does-not-rise", {"share": share})  # fmt: skip


def is_outweighed(share: float | None, rows: int) -> bool:
    """Return whether hardly any of a gradient depends on pairs; see `outweighed`."""
    return share is not None and share > NO_PAIRS and share * rows < LEAST_OF_PAIRS

"""Does an embedding depend on padding, and do the texts of a loop's batches belong together?"""

from __future__ import annotations

import math
import statistics

from gradlab.monitor.metrics import History
from gradlab.monitor.token_signs import COMMONEST_TOKEN, PADDING_GRADIENT
from gradlab.monitor.verdicts.records import PERSISTENT, Records, values_of
from gradlab.monitor.view_texts import EQUAL_TEXTS, FORETOLD_RANK, JOINED_TEXTS, OVERLAP_RANK
from gradlab.numbers import percent
from gradlab.verdict import WATCH, Verdict

# Share of the gradient at padding, of which a mask leaves none. Share of the tokens that one of
# them makes up: marks at both ends of texts of four tokens are a quarter each.
AT_PADDING, ONE_TOKEN = 0.005, 0.5
# Share of the rows whose text stands in their batch twice, and of those that end with the whole
# text of the other view. Rows of 16 out of 192 different ones are never equal; of 12, 7 in 10 are.
REPEATED_ROWS, JOINED_ROWS = 0.4, 0.5
# Distance from a half of the share of others that have fewer words in common than a row's partner,
# and ranking accuracy in the first three records, of pairs that do not belong together. Pairs that
# were sorted apart have .44 and .52; learned by heart, their accuracy ends at .97.
AT_HALF, FIRST_RANKED = 0.08, 0.6
# Ranking accuracy in the second quarter of a run whose pairs belong together, though they have no
# words in common: .88 and more, and at most .71 where they were mixed.
SOON_RANKED = 0.8
# Share of other partners whose tokens are foretold less, from which on tokens go together.
FORETOLD = 0.6


def padding(history: History) -> Verdict | None:
    """Judge whether the gradient of a loop's loss goes to padding."""
    share = _median_of_records(history, PADDING_GRADIENT)
    if not share >= AT_PADDING:
        return None
    return Verdict(
        "Padding",
        WATCH,
        f"{percent(share)} of the gradient at the tokens goes to padding: an embedding depends on "
        "how long the longest text of its batch is, and a text alone has another one.",
        "Hand the attention mask to the encoder, and pool with it: a mean over real tokens only, "
        "the last real token of each row, or padding_side='left' for the last position.",
        name="gradient at padding",
        symptom="embedding-depends-on-its-batch",
        evidence={"share": share},
    )


def one_token(history: History) -> Verdict | None:
    """Judge whether most tokens of a loop's texts are the same one, such as the unknown one."""
    share = _median_of_records(history, COMMONEST_TOKEN)
    if not share >= ONE_TOKEN:
        return None
    return Verdict(
        "Tokens",
        WATCH,
        f"{percent(share)} of the tokens of a batch, without padding, are the same one, as where "
        "the vocabulary does not know the words (the unknown token), or where most are masked.",
        "Print some texts beside their tokens: take the tokenizer of the encoder, and check its "
        "language, letters and lower case, and the share of tokens that a collator masks.",
        name="one token everywhere",
        symptom="loss-at-chance",
        evidence={"share": share},
    )


def repeated_texts(records: Records) -> Verdict | None:
    """Judge whether most texts of a loop's batches stand in them more than once.

    With labels or scores, a text may be part of several rows.
    """
    share = _median_of_records(records.history, EQUAL_TEXTS)
    if records.used.is_rated or records.rows_have_labels or records.has_no_negatives:
        return None
    if not share >= REPEATED_ROWS:
        return None
    return Verdict(
        "Texts",
        WATCH,
        f"{percent(share)} of the rows of a batch have a text that another row has as well, to the "
        "last token that is read. The loss pushes equal texts apart, or they say nothing of their "
        "row.",
        "Print a batch as it reaches the tokenizer: text[0] is the first letter of a text, texts "
        "with one long beginning are equal where they are cut, and rows with one text in common "
        "belong in different batches.",
        name="texts repeated",
        symptom="false-negatives",
        evidence={"share": share},
    )


def joined_texts(records: Records) -> Verdict | None:
    """Judge whether the text of one view holds that of the other, behind an end mark."""
    share = _median_of_records(records.history, JOINED_TEXTS)
    if not share >= JOINED_ROWS:
        return None
    return Verdict(
        "Texts",
        WATCH,
        f"In {percent(share)} of the rows, the text of one view ends with the whole text of the "
        "other, behind a mark of its own: both were tokenised as one, as for a cross-encoder, and "
        "the pair is found by what it shares.",
        "Tokenise each column by itself: tokenizer(queries) and tokenizer(documents), not "
        "tokenizer(queries, documents).",
        name="texts joined",
        symptom="score-does-not-rise",
        evidence={"share": share},
    )


def unrelated(records: Records) -> Verdict | None:
    """Judge whether the texts of a row have no more words in common than those of two rows.

    Words and the first embeddings must agree. Pairs that were learned by heart rank first later on.
    """
    ranks = values_of(records.history, OVERLAP_RANK)
    first = list(records.points("ranking_accuracy").values())[:PERSISTENT]
    accuracy = min(first[0], statistics.fmean(first)) if first else math.nan
    if records.used.is_rated or records.rows_have_labels:
        return None
    if len(ranks) < PERSISTENT or abs(statistics.fmean(ranks) - 0.5) >= AT_HALF:
        return None
    if not accuracy < FIRST_RANKED:
        return None
    accuracies = list(records.points("ranking_accuracy").values())
    quarter = accuracies[len(accuracies) // 4 : len(accuracies) // 2]
    if quarter and statistics.fmean(quarter) >= SOON_RANKED:
        return None  # an encoder made anew, which soon finds new pairs by other words
    if max(values_of(records.history, FORETOLD_RANK)[-1:], default=0.0) >= FORETOLD:
        return None
    rank = statistics.fmean(ranks)
    return Verdict(
        "Pairs",
        WATCH,
        f"The texts of a row have no more words in common than those of two rows ({percent(rank)} "
        "of the other texts have fewer; chance gives 50%), and in the first records positives were "
        f"no nearer than others (ranking accuracy {accuracy:.2f}): they seem mixed, sorted or "
        "shuffled apart, and are learned by heart.",
        "Print some pairs as they reach the loss: columns must come from one loader, in one order, "
        "also after sorting, collating and reshaping.",
        name="pairs unrelated",
        symptom="loss-at-chance",
        evidence={"rank": rank, "ranking accuracy": accuracy},
    )


def _median_of_records(history: History, name: str) -> float:
    """Return the median of a recorded number; NaN of fewer than `PERSISTENT` records."""
    numbers = values_of(history, name)
    return statistics.median(numbers) if len(numbers) >= PERSISTENT else math.nan

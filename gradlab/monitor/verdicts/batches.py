"""Are batches new, are their rows pairs, and do both views follow the encoder?"""

from __future__ import annotations

import math
import statistics

from gradlab.monitor.batch_measurement import (
    ALTERNATING,
    ANCHOR_DRIFT,
    OPPOSED,
    REPEATED,
    STALE_DRIFT,
    WITHOUT_GRADIENT,
)
from gradlab.monitor.label_signs import CLASS_CHANCE, CLASS_SHARE, COUNTED, RELABELLED
from gradlab.monitor.metrics import TRAIN, History, of_dataset
from gradlab.monitor.movement import WEIGHTS_LEFT, WEIGHTS_MOVED
from gradlab.monitor.verdicts.records import PERSISTENT, Records
from gradlab.monitor.view_texts import EQUAL_TEXTS, OVERLAP_RANK, PARTNERS
from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

# Share of the records that repeat the batch before; share of late records with pairs in opposite
# directions, and share of such pairs; how many times as far as a constant view an encoder's has
# moved; by how much a slow encoder's drift grows from the first to the last third of the records,
# where that of constant rows is the chance of their batch: they have 0.94 to 0.98, slow encoders of
# a momentum up to 0.99 have 2 and more.
MOSTLY, MANY_OPPOSED, FARTHER, FOLLOWS = 0.8, 0.1, 3.0, 1.5
# Share of the records in which most rows of the batch are of one class, and how many times as many
# as among all rows: sorted files have nearly all, samplers of a few classes a batch at most half.
OFTEN, TIMES_CHANCE = 0.5, 2.0
# Share of the texts that have another label than before. Texts with several labels have some.
MANY_RELABELLED = 0.15
# How far positives are nearer than other rows, on the way to a cosine of 1, in the first record and
# in late ones, if they have nothing to do with their anchors.
NO_NEARER, HARDLY_NEARER = 0.05, 0.1
# Share of other texts with fewer words in common than a row's partner, from which on the texts of a
# row belong together: pairs have .95 and more, shuffled ones a half.
BELONGING = 0.75


def repeated(records: Records) -> Verdict | None:
    """Judge whether each recorded batch holds the rows of the one before.

    Rows that are known by their tokens must not be new time and again: rows of one topic may have
    the same place in all batches.
    """
    same, count = _points(records, REPEATED), records.count
    if count < 2 * PERSISTENT or len(same) < MOSTLY * (count - 1):
        return None
    if len(_points(records, PARTNERS["rows"])) > 1:
        return None
    return Verdict(
        "Batch",
        WATCH,
        f"In {len(same)} of {count - 1} records the batch holds the same rows as in the record "
        "before: the same batch is repeated at each step, and learned by heart.",
        "Make the iterator once per epoch, not in each step; shuffle, and do not set the seed "
        "again in the loop.",
        name="same batch",
        symptom="score-does-not-rise",
        evidence={"share": len(same) / (count - 1)},
    )


def of_one_class(records: Records) -> Verdict | None:
    """Judge whether batches hold rows of one class, though the records hold several."""
    shares, count = _points(records, CLASS_SHARE), len(records.points("effective_rank"))
    if count < 2 * PERSISTENT or len(shares) < OFTEN * count:
        return None
    share = statistics.fmean(shares.values())
    chance = next(reversed(_points(records, CLASS_CHANCE).values()))
    if share < TIMES_CHANCE * chance:
        return None
    return Verdict(
        "Batch",
        WATCH,
        f"In {len(shares)} of {count} records nearly all rows of the batch are of one class: "
        f"{percent(share)} of the other rows share a row's class, where batches in random order "
        f"would have {percent(chance)}. There are hardly any negatives of other classes.",
        "Shuffle the rows, with a buffer larger than a class if they are streamed, or draw a few "
        "rows of each of several classes.",
        name="one class in a batch",
        symptom="score-does-not-rise",
        evidence={"share": share, "chance": chance},
    )


def counted_anew(records: Records) -> Verdict | None:
    """Judge whether the classes of each batch are counted from 0, before a loss with proxies."""
    counts, count = [*_points(records, COUNTED).values()], len(records.points("effective_rank"))
    is_each = len(counts) == count >= 2 * PERSISTENT
    if not records.classes_have_places or not is_each or min(counts) == max(counts):
        return None
    return Verdict(
        "Labels",
        WATCH,
        f"The classes of every batch are 0, 1, 2 ... without a gap, {min(counts):.0f} of them in "
        f"one and {max(counts):.0f} in another: they seem to be numbered anew in each batch "
        "(torch.unique with return_inverse), while the loss has a weight or proxy for each number.",
        "Number the classes once for the whole data set.",
        name="classes counted anew",
        symptom="labels-do-not-fit",
        evidence={"fewest": min(counts), "most": max(counts)},
    )


def relabelled(records: Records) -> Verdict | None:
    """Judge whether texts that come again have another label or score than before."""
    shares = [*_points(records, RELABELLED).values()]
    if len(shares) < PERSISTENT or statistics.fmean(shares) < MANY_RELABELLED:
        return None
    share = statistics.fmean(shares)
    return Verdict(
        "Labels",
        WATCH,
        f"{percent(share)} of the texts that come again have another label or score than before: "
        "labels do not belong to the texts beside them, or change from epoch to epoch.",
        "Let texts and labels come from one loader, in one order; number classes once for the "
        "whole data set, and keep the numbers of clusters while a classifier is trained on them.",
        name="labels change",
        symptom="labels-do-not-fit",
        evidence={"share": share},
    )


def alternating(records: Records) -> Verdict | None:
    """Judge whether neighbouring rows of a view are the pairs, as in an untrained encoder."""
    shares = _points(records, ALTERNATING)
    early = list(records.points("positive_cosine"))[:PERSISTENT]
    if len(early) < PERSISTENT or not all(step in shares for step in early):
        return None
    # A text that stands in neighbouring rows, with a partner each, is nearest to itself.
    equal = [*records.history.points(TRAIN, EQUAL_TEXTS).values()]
    if equal and statistics.median(equal) >= MOSTLY:
        return None
    share = statistics.fmean(shares[step] for step in early)
    return Verdict(
        "Batch",
        BAD,
        "The two views of a row do not seem to belong together: within one view, rows 0 and 1, 2 "
        f"and 3 ... are nearer to each other than {percent(share)} of other rows. Texts alternate, "
        "and the batch was reshaped or cut in the wrong order.",
        "Take rows[0::2] and rows[1::2] of alternating texts, or view(N, 2, D) instead of "
        "view(2, N, D).",
        name="views interleaved",
        symptom="loss-at-chance",
        evidence={"share": share},
    )


def unrelated(records: Records) -> Verdict | None:
    """Judge whether positives are no nearer than other rows, from the first record to the last.

    With labels or scores, the texts of a row need not be alike, and a loss that falls is learned. A
    loss that is met compares a row with its own negatives only.
    """
    if records.rows_have_labels and (records.loss_falls or records.cosines_follow_labels):
        return None
    if records.compares_structures or records.loss_is_met:
        return None
    if records.used.is_rated or records.positives_rank_first or records.positives_stay_nearer:
        return None
    if records.nearer_in_a_cone or records.told_in_use or records.hidden_by_dropout:
        return None
    first = _nearness(records.first("positive_cosine"), records.first("negative_cosine"))
    late = [_nearness(*row) for row in records.recent("positive_cosine", "negative_cosine")]
    if not late or not first < NO_NEARER or not max(late) < HARDLY_NEARER:
        return None
    positive, negative = records.latest("positive_cosine"), records.latest("negative_cosine")
    ranks = _points(records, OVERLAP_RANK).values()
    if ranks and statistics.fmean(ranks) > BELONGING:
        seem = (
            f"By their words the texts of a row belong together ({percent(statistics.fmean(ranks))}"
            " of the texts of other rows have fewer in common), so the loss does not draw them "
            "together."
        )
        change = (
            "Check the targets and axes (dim) of the loss, that its gradient reaches the encoder, "
            "the learning rate, and pooling."
        )
    else:
        seem = (
            "The two views of a row seem unrelated, as pairs are that were mixed, sorted or "
            "shuffled apart."
        )
        change = (
            "Print some pairs as they reach the loss: columns must come from one loader, in one "
            "order, also after collating and reshaping. Or the encoder sees nothing of what they "
            "share: check truncation, unknown tokens and pooling. Or the loss compares other rows: "
            "check its targets and axes."
        )
    return Verdict(
        "Pairs",
        WATCH,
        "From the first record to the last, positives are no more alike than other rows: their "
        f"mean cosine is {positive:.3f}, that of different rows {negative:.3f}. {seem}",
        change,
        name="pairs unrelated",
        symptom="loss-at-chance",
        evidence={"first": first, "last": late[-1]},
    )


def opposed(records: Records) -> Verdict | None:
    """Judge whether pairs are driven to opposite directions."""
    shares = _points(records, OPPOSED)
    steps = list(records.points("positive_cosine"))[-2 * PERSISTENT :]
    late = [shares.get(step, 0.0) for step in steps]
    if len(late) < 2 * PERSISTENT or statistics.median(late) < MANY_OPPOSED:
        return None
    share = statistics.median(late)
    return Verdict(
        "Pairs",
        WATCH,
        f"{percent(share)} of the pairs have a cosine below -0.5: texts that differ are driven to "
        "opposite directions, and the push never ends, where unrelated texts should have a cosine "
        "near 0.",
        "Give the push a margin at which it ends, such as cosine.clamp(min=0), or the label 0 "
        "instead of -1 (opposite).",
        name="opposite directions",
        symptom="labels-do-not-fit",
        evidence={"share": share},
    )


def constant(records: Records) -> Verdict | None:
    """Judge whether one view stays where it was while the encoder moves.

    A teacher's embeddings, from which a loss takes each row's distance, are to stay. A moving
    average of the encoder (MoCo) is far behind it, and farther from its beginning with each step.
    """
    if records.has_no_negatives or records.compares_structures:
        return None
    moved, stale = (_points(records, name) for name in (ANCHOR_DRIFT, STALE_DRIFT))
    late = sorted(moved.keys() & stale.keys())[-2 * PERSISTENT :]
    if len(late) < 2 * PERSISTENT:
        return None
    ends = [statistics.median(points[step] for step in late) for points in (moved, stale)]
    if ends[0] <= FARTHER * ends[1] or _follows(list(stale.values())):
        return None
    return Verdict(
        "Views",
        WATCH,
        "The second view carries no gradient and does not follow the encoder: its mean has moved "
        f"by {ends[1]:.2g} since the beginning, that of the anchors by {ends[0]:.2g}. Its "
        "embeddings seem to be precomputed (an index, a cache) or of a frozen encoder, which will "
        "not be the trained one.",
        "Embed both views with the encoder that is trained; refresh an index as training goes on. "
        "If the second encoder is frozen on purpose, use it for these texts later as well.",
        name="constant view",
        symptom="score-does-not-rise",
        evidence={"anchors": ends[0], "constant": ends[1]},
    )


def detached(records: Records) -> Verdict | None:
    """Judge whether a gradient reaches the embeddings, or weights of the loss itself only."""
    marked = _points(records, WITHOUT_GRADIENT)
    if len(marked) < PERSISTENT or len(marked) < MOSTLY * records.count:
        return None
    return Verdict(
        "Gradient",
        WATCH,
        "The embeddings reach the loss without a gradient: only weights of the loss itself, such "
        "as a layer, are trained, and the encoder stays as it was.",
        "Embed with model(tokens), outside of torch.no_grad(): model.encode keeps no gradient. If "
        "the encoder is frozen on purpose, keep the weights of the loss beside it.",
        name="embeddings without gradient",
        symptom="weights-do-not-move",
        evidence={"share": len(marked) / records.count},
    )


# Share of the movement of the weights that is left once training has ended.
LEFT = 0.3


def set_back(history: History) -> Verdict | None:
    """Judge whether what was kept after training is what was trained."""
    points = list(history.points(TRAIN, WEIGHTS_LEFT).values())
    moved = [
        value for name in history.names(TRAIN) if name.startswith(WEIGHTS_MOVED)
        for value in list(history.points(TRAIN, name).values())[-1:]
    ]  # fmt: skip
    if not points or not moved or not max(moved) > 0 or points[-1] >= LEFT * max(moved):
        return None
    return Verdict(
        "Weights",
        WATCH,
        f"Training moved the weights by {max(moved):.2g} of their size, and after its end only "
        f"{points[-1]:.2g} is left: a callback has set them back, as a moving average (EMA) does "
        "whose decay is too long for the run, or load_best_model_at_end with an early checkpoint.",
        "Lower the decay, so that the average reaches back a tenth of the run: 1 - 10 / steps; or "
        "begin it with the trained weights. Look which checkpoint was loaded, by which metric.",
        name="weights set back",
        symptom="score-does-not-rise",
        evidence={"moved": max(moved), "kept": points[-1]},
    )


def _follows(drift: list[float]) -> bool:
    """Return whether a view leaves its first place steadily; the first record has no distance."""
    third = (len(drift) - 1) // 3
    early, late = drift[1 : third + 1], drift[len(drift) - third :]
    return statistics.median(late) > FOLLOWS * statistics.median(early)


def _nearness(positive: float, negative: float) -> float:
    """Return how far the mean cosine of positives is on the way from that of others to 1."""
    return abs(positive - negative) / (1 - negative) if negative < 1 else math.inf


def _points(records: Records, name: str) -> dict[int, float]:
    return records.history.points(TRAIN, of_dataset(name, records.dataset))

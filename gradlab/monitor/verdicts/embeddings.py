"""Do the two views differ, do sentences stay apart, and are there copies among negatives?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradlab.monitor.metrics import TRAIN
from gradlab.monitor.setting_advice import PULL, WITH_OWN_NEGATIVES, alternative
from gradlab.monitor.verdicts.cones import close_in_training, told_in_a_cone
from gradlab.monitor.verdicts.order import IN_ORDER
from gradlab.monitor.verdicts.records import NARROW, PERSISTENT, Records
from gradlab.monitor.view_texts import EQUAL_TEXTS
from gradlab.numbers import score, short
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Mean cosine below which different sentences are apart, while the two views of each are the same;
# cosine of two views that are the same text without dropout.
APART, SAME, NEARLY_SAME = 0.9, 1 - 1e-6, 0.9995
# Mean cosine of different sentences that form one point; records after which embeddings that began
# as one point should have spread. An untuned BERT begins near .92.
ONE_POINT, PATIENCE = 0.98, 10
# A collapse needs a second sign: a score that suffers or, without one, an effective rank below this
# share of the first, or below FEW_DIMENSIONS for embeddings that began as one point.
RANK_LOST, FEW_DIMENSIONS = 0.5, 3.0
# Ranking accuracy at which embeddings that lie this close are told apart all the same: runs whose
# score rose have .94 to .99, those whose score did not at most .92.
FIRST_OF_NEARLY_ALL = 0.94
# Squared distance between a sentence's views, relative to that between different sentences. With
# dropout alone, a healthy run begins near .75 and falls. Failing runs oscillate, so records over
# the limit need not be consecutive. New heads, which may begin above it, get more records.
INDISTINCT, RECORDS_OF_NEW_HEADS = 0.9, 6
# Differences between the cosines of positives and negatives: not by much, clearly apart.
CLOSE, WIDE = 0.15, 0.3
# Share of the first difference that must be left; below it, training has made things worse.
# Multiple of it by which sentences are told apart, if different ones are farther apart too.
REMAINDER, GROWN = 0.5, 2.0
# The same where all are drawn together: views' share of the distance of others, and of the first.
NEARER, NEARER_THAN_FIRST = 2 / 3, 0.75
# Copies of itself among a sentence's negatives that are worth a remark.
MANY_COPIES = 0.02
PUSH = "check that negatives, or pairs with low labels, push sentences apart"
PAIRS_AT_CHANCE = (
    "Look with gradlab doctor whether the texts of a row belong together: in the first record, "
    "positives were no nearer than other sentences."
)
PAIRS_MAY_NOT_FIT = (
    "If gradlab doctor finds that the words of a row do not belong together either, mend the pairs."
)


def pairs_at_chance(records: Records) -> Verdict | None:
    """Judge whether positives were no nearer than others at first; of use beside a bad outcome."""
    if not records.begins_at_chance:
        return None
    positive, negative = records.first("positive_cosine"), records.first("negative_cosine")
    return Verdict(
        "Pairs",
        WATCH,
        "In the first record, positives were no nearer than other sentences: their mean cosine was "
        f"{score(positive)}, that of other sentences {score(negative)}.",
        _columns_first(records)
        or "Look with gradlab doctor whether the texts of a row belong together.",
        name="pairs at chance",
        symptom="loss-at-chance",
        evidence={"positive_cosine": positive, "negative_cosine": negative},
    )


def identical_views(records: Records) -> Verdict | None:
    """Judge whether both views of every sentence have been the same from the beginning.

    Rows with labels may have their positives among other rows, and so may those of a loss that does
    not ask for the row's own; a loss may also make its two views itself, by noise.
    """
    if records.rows_have_labels or records.makes_views:
        return None
    rows = records.recent("positive_cosine", "negative_cosine")
    same = [positive > SAME and not negative >= APART for positive, negative in rows]
    if not rows or not all(same) or not records.first("positive_cosine") > SAME:
        return None
    return Verdict(
        "Batch",
        BAD,
        "Both views of every sentence are identical, so there is no positive to learn from.",
        "Give two different texts, or one text twice with dropout on (model.train(); dropout above "
        "0).",
        name="identical views",
        symptom="loss-zero",
        evidence={"positive_cosine": rows[-1][0]},
    )


def collapse(records: Records) -> Verdict | None:
    """Judge whether different sentences have nearly the same embedding now, before any head."""
    name, rank = "negative_cosine", "effective_rank"
    if records.points("encoder_cosine"):
        name, rank = "encoder_cosine", "encoder_rank"
    rows = records.recent(name, rank)
    if not rows or not all(cosine > ONE_POINT for cosine, _ in rows):
        return None
    widest = (1 - records.first(name)) / 2
    narrower = all(1 - cosine < widest for cosine, _ in rows)
    long_since = [cosine > ONE_POINT for (cosine,) in records.recent(name, count=PATIENCE)]
    if not (narrower or (long_since and all(long_since))):
        return None
    cosine, dimensions = rows[-1]
    fewer = dimensions < (RANK_LOST * records.first(rank) if narrower else FEW_DIMENSIONS)
    score_suffers = records.score_suffers()
    if not (fewer if score_suffers is None else score_suffers):
        return None
    rank_text = f" and an effective rank of {dimensions:.1f}" if dimensions == dimensions else ""
    ranks_first = records.positives_remain_first if narrower else records.positives_rank_first
    if ranks_first and records.end("ranking_accuracy") >= FIRST_OF_NEARLY_ALL:
        finding = (
            f"The embeddings lie in a narrow cone (mean cosine {cosine:.3f}{rank_text}), in which "
            "positives rank first nearly everywhere: by cosine, they are found all the same."
        )
        evidence = {name: cosine, rank: dimensions}
        return Verdict("Spread", NOT_JUDGED, finding, name="narrow cone", evidence=evidence)
    if score_suffers is None and narrower and (reason := told_in_a_cone(records)):
        cone = f"The embeddings lie in a narrow cone (mean cosine {cosine:.3f}{rank_text})"
        return close_in_training(*reason, cone, {name: cosine, rank: dimensions})
    apart = alternative(records.used, PULL, raises=False, unusual_only=True)
    remedy = "use more negatives" if records.has_negatives else PUSH
    lower = f"Lower the learning rate, or {remedy}{apart}. {PAIRS_MAY_NOT_FIT}"
    if records.begins_at_chance:
        lower = f"{_columns_first(records)} {PAIRS_AT_CHANCE} If they do, lower the rate.".lstrip()
    in_order = ""
    if records.cosines_follow_labels:
        in_order = " Cosines follow the labels of their pairs all the same."
    if ranks_first:
        in_order = " Positives rank first all the same."
    # Dropout may hide in training what tells texts apart in use, and encoders may begin as narrow:
    # a score that suffers is proof, and so is one embedding of all, then or since the beginning.
    is_one = cosine > (SAME if narrower else NEARLY_SAME)
    is_proven = records.config is not None or score_suffers is not None or is_one
    if not (is_proven or in_order):
        in_order = " An evaluator would show whether texts are told apart in use."
    return Verdict(
        "Spread",
        WATCH if in_order else BAD,
        f"The embeddings collapse: different sentences have a mean cosine of {cosine:.3f}"
        f"{rank_text}.{in_order}",
        queue_advice(records.config) or lower,
        name="collapse",
        symptom="cosines-above-0-9",
        evidence={name: cosine, rank: dimensions},
    )


def views_indistinct(records: Records) -> Verdict | None:
    """Judge whether a sentence's views are no closer than different sentences (`gradlab train`).

    Other pairs may be that far apart before they are learned.
    """
    if records.config is None or records.dataset:
        return None
    negatives = records.points("negative_cosine")
    ((positive, negative),) = records.recent("positive_cosine", "negative_cosine", count=1) or [
        (math.nan, math.nan)
    ]
    if not is_indistinct(positive, negative) or records.score_suffers() is False:
        return None
    all_records = records.recent("positive_cosine", "negative_cosine", count=len(negatives))
    indistinct = [is_indistinct(*row) for row in all_records]
    # New heads begin like this; once they have told sentences apart, a relapse is a failure.
    begin = indistinct.index(False) if False in indistinct else 0
    steps = list(negatives)
    pause = steps[-1] - steps[-2] if len(steps) > 1 else 0
    is_last = pause > 0 and steps[-1] + pause > (records.history.total_steps or math.inf)
    fewest = PERSISTENT if begin or is_last or not indistinct[0] else RECORDS_OF_NEW_HEADS
    if sum(indistinct[begin:]) < fewest:
        return None
    remedy = "use other negatives" if records.has_negatives else PUSH
    return Verdict(
        "Spread",
        BAD,
        f"The loss's embeddings collapse: a sentence's own view has a cosine of {positive:.3f}, "
        f"the views of others {negative:.3f}.",
        queue_advice(records.config) or f"Lower the learning rate, or {remedy}.",
        name="collapse",
        symptom="cosines-above-0-9",
        evidence={"positive_cosine": positive, "negative_cosine": negative},
    )


def is_indistinct(positive: float, negative: float) -> bool:
    """Return whether a sentence's views are no closer than different sentences, by mean cosines."""
    return 1 - positive > INDISTINCT * (1 - negative)


def spread(records: Records, running: bool) -> Verdict:
    """Judge whether different sentences are told apart."""
    if collapsed := collapse(records) or views_indistinct(records):
        return collapsed
    positive, negative = records.ends("positive_cosine"), records.ends("negative_cosine")
    rank = records.ends("effective_rank")
    if positive is None or negative is None:
        finding = "There are no positives to compare different sentences with."
        finding += f" A batch uses {short(rank[1])} dimensions." if rank else ""
        return Verdict("Spread", NOT_JUDGED, finding, name="no positives")
    cosines = (
        f"anchor and positive have a mean cosine of {score(positive[1])} (in the first record "
        f"{score(positive[0])}), different sentences one of {score(negative[1])} (in the first "
        f"record {score(negative[0])})"
    )
    evidence = {
        "positive_cosine": positive[1],
        "negative_cosine": negative[1],
        "effective_rank": rank[1] if rank else math.nan,
    }
    gap = positive[1] - negative[1]
    if gap > NARROW:
        distance = "clearly told apart" if gap > WIDE else "told apart"
        distance += "" if gap > CLOSE else ", though not by much"
        finding = f"Sentences are {distance}: {cosines}."
        return Verdict("Spread", GOOD, finding, name="told apart", evidence=evidence)
    first_gap = positive[0] - negative[0]
    if explained := _close_for_a_reason(records, cosines, (first_gap, gap), evidence):
        return explained
    change = _apart_by(records, gap < REMAINDER * first_gap)
    return Verdict(
        "Spread",
        NOT_JUDGED if running else WATCH,
        f"Sentences are hardly told apart: {cosines}.",
        change,
        name="hardly told apart",
        symptom="loss-at-chance",
        evidence=evidence,
    )


def duplicates(records: Records) -> Verdict | None:
    """Judge whether some negatives are as close as positives, with a gap below them.

    Texts that stand twice in a batch look like this, and so do the other rows of a class.
    """
    # A loss of own negatives compares no other rows.
    if records.dataset or records.used.groups_rows or records.used.name in WITH_OWN_NEGATIVES:
        return None
    # The tokens of a loop's texts tell copies from texts of one kind, which lie as near.
    texts = records.history.points(TRAIN, EQUAL_TEXTS).values()
    if texts and not any(texts):
        return None
    positives, negatives = (
        records.history.histograms(f"{kind}_cosine") for kind in ("positive", "negative")
    )
    equal = records.end("uniform_share")
    late = sorted(positives.keys() & negatives.keys())[-PERSISTENT * 3 :]
    late = [s for s in late if sum(positives[s].values()) > 0 and sum(negatives[s].values()) > 0]
    if len(late) < PERSISTENT or not equal > 0:
        return None
    near = between = middle = 0.0
    for step in late:
        edge, centre = _median_bin(positives[step]), _median_bin(negatives[step])
        for low, share in negatives[step].items():
            near += share * (low >= edge)
            between += share * (2 * edge - 1 <= low < edge)
        middle += edge - centre
    # Half of the copies lie below the median of the positives.
    copies = 2 * near / len(late) / equal
    if middle / len(late) < WIDE or copies < MANY_COPIES or near <= 2 * between:
        return None
    return Verdict(
        "Duplicates",
        WATCH,
        f"A sentence meets about {copies:.2g} copies of itself among its negatives: some negatives "
        "are as near as positives, and there is a gap below them.",
        "Find them with gradlab inspect --model MODEL --train-file FILE; in sentence-transformers "
        "set batch_sampler=BatchSamplers.NO_DUPLICATES.",
        name="duplicates",
        symptom="false-negatives",
        evidence={"copies for each sentence": copies},
    )


def queue_advice(config: Mapping[str, Any] | None) -> str:
    """Return why the settings of `gradlab train` allow a collapse; empty if they do not."""
    if config is None or not config.get("queue_size") or config.get("in_batch_negatives", True):
        return ""
    words = (
        "All negatives come from earlier steps (in_batch_negatives is off): moving all sentences "
        "together, away from the queue, lowers the loss as well as telling them apart does. "
    )
    at_once = (
        config.get("momentum") == 0
        and config.get("momentum_schedule", "constant") == "constant"
        and config.get("momentum_use", "positives") == "positives"
    )
    if not at_once:
        return words + ("Turn in_batch_negatives on, lower the learning rate, or raise momentum.")
    if config.get("predictor_layers"):
        return words + (
            "The momentum branch has no inertia, since momentum is 0, and the predictor alone need "
            "not suffice (MoCoSE, A.2). Raise momentum, or turn in_batch_negatives on."
        )
    return words + (
        "Both branches are the same, since momentum is 0 and there is no predictor, so that "
        "nothing holds the keys back (MoCoSE, A.2). Raise momentum, add predictor_layers, or turn "
        "in_batch_negatives on."
    )


def _columns_first(records: Records) -> str:
    """Return what to look at first where rows have negatives of their own; else nothing."""
    if not records.used.arguments & {"owners", "own_negatives"}:
        return ""
    return (
        "Check the order of the columns first: it decides, not their names, and must be anchor, "
        "positive, negative; positives and negatives may be exchanged."
    )


def _close_for_a_reason(
    records: Records, cosines: str, gaps: tuple[float, float], evidence: Mapping[str, float]
) -> Verdict | None:
    """Judge cosines that lie close together by what else speaks of order among them.

    ``gaps`` are the differences between positives and negatives in the first and the last records.
    """
    first_gap, gap = gaps
    if records.score_rises():
        finding = f"The score rises although cosines lie close together: {cosines}."
        return Verdict("Spread", GOOD, finding, name="told apart closely", evidence=evidence)
    if records.end("order") > IN_ORDER:
        finding = f"Cosines lie close together, but most stand in the right order: {cosines}."
        return Verdict("Spread", NOT_JUDGED, finding, name="close in order", evidence=evidence)
    if records.used.is_rated and records.points("order"):
        finding = (
            "Cosines lie close together. Labels say how close they should be, and their order is "
            f"what counts (see Order): {cosines}."
        )
        return Verdict("Spread", NOT_JUDGED, finding, name="as labels order", evidence=evidence)
    if records.positives_rank_first:
        finding = f"Cosines lie close together, but positives have come to rank first: {cosines}."
        return Verdict("Spread", NOT_JUDGED, finding, name="close in rank", evidence=evidence)
    reason = None if records.nearer_in_a_cone else told_in_a_cone(records)
    if reason is not None and records.score_suffers() is None:
        return close_in_training(*reason, "Cosines lie close together", evidence, cosines)
    if records.positives_stay_nearer and records.loss_falls:
        finding = (
            "Cosines lie close together, but positives are nearer than most others from the first "
            f"record to the last, and the loss falls: {cosines}."
        )
        return Verdict("Spread", NOT_JUDGED, finding, name="close and nearer", evidence=evidence)
    if records.cosines_follow_labels:
        finding = f"Cosines lie close together, but follow the labels of their pairs: {cosines}."
        return Verdict("Spread", NOT_JUDGED, finding, name="as labels order", evidence=evidence)
    if records.loss_is_met:
        finding = f"The loss is met, which does not compare all rows of a batch: {cosines}."
        return Verdict("Spread", NOT_JUDGED, finding, name="loss met", evidence=evidence)
    if records.compares_structures or any(
        "teacher" in base.looks_at for base in records.used.bases
    ):
        finding = f"A teacher says how close sentences should be. At present {cosines}."
        return Verdict("Spread", NOT_JUDGED, finding, name="as a teacher says", evidence=evidence)
    if records.rows_have_labels and records.loss_falls:
        finding = (
            "Cosines lie close together, but rows have labels: pairs that do not fit are among "
            f"those that are compared here, and the loss falls. At present {cosines}."
        )
        return Verdict("Spread", NOT_JUDGED, finding, name="as labels say", evidence=evidence)
    if _come_apart(records):
        finding = (
            f"Cosines lie close together, but the difference has grown to {short(gap)}, from "
            f"{short(first_gap)} in the first record: {cosines}."
        )
        return Verdict("Spread", NOT_JUDGED, finding, name="coming apart", evidence=evidence)
    return None


# Distance of different sentences, relative to the first, of a run that draws all together.
DRAWN_TOGETHER = 0.5


def _apart_by(records: Records, is_worse: bool) -> str:
    """Return what to change where sentences are hardly told apart; or worse than at first."""
    losses, falls = records.losses, records.loss_falls
    farther = 1 - records.first("negative_cosine")
    is_together = 1 - records.end("negative_cosine") < DRAWN_TOGETHER * farther
    if is_worse and is_together:
        return (
            "All sentences are drawn together, as in a collapse: check that negatives push "
            "(their sign, mask and margins), or that one side is detached where there are none."
        )
    if is_worse and falls:
        return (
            "They were told apart better in the first record, and the loss falls all the same: "
            "check the order of its arguments (anchor, positive, negative may be exchanged), its "
            "sign, margins and labels."
        )
    if is_worse:
        return (
            "They were told apart better in the first record: lower the learning rate, and check "
            "the sign and the margins of the loss."
        )
    if losses is not None and not falls:
        return (
            "The loss does not fall either: check that its gradient reaches the encoder, and the "
            f"learning rate. {PAIRS_MAY_NOT_FIT}"
        )
    if is_together:
        return (
            "Different sentences are drawn together like the views of one: check that texts are "
            "read to the words by which they differ (max_seq_length), and lower the learning rate. "
            f"{PAIRS_MAY_NOT_FIT}"
        )
    if records.begins_at_chance:
        columns = f"{_columns_first(records)} {PAIRS_AT_CHANCE}".lstrip()
        return f"{columns} If they do, raise the learning rate."
    return f"Train longer, or at a higher learning rate. {PAIRS_MAY_NOT_FIT}"


def _come_apart(records: Records) -> bool:
    """Whether sentences are told apart better than at first, in the last three records.

    Where all have been drawn together, views must have come far closer in proportion.
    """
    near, far = (1 - records.first(f"{kind}_cosine") for kind in ("positive", "negative"))
    rows = records.recent("positive_cosine", "negative_cosine")
    return bool(rows) and all(
        _is_apart(1 - positive, 1 - negative, near, far) for positive, negative in rows
    )


def _is_apart(near: float, far: float, first_near: float, first_far: float) -> bool:
    """Whether squared distances of views and of other sentences differ more than first."""
    if far > first_far:
        return far - near > GROWN * (first_far - first_near) and near <= INDISTINCT * far
    in_proportion = near * first_far <= NEARER_THAN_FIRST * first_near * far
    return far - near > first_far - first_near and near <= NEARER * far and in_proportion


def _median_bin(shares: Mapping[float, float]) -> float:
    """Return the lower edge of the bin that holds the median."""
    reached = np.cumsum(list(shares.values()))
    return list(shares)[int(np.searchsorted(reached, reached[-1] / 2))]

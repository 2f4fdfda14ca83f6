"""Runs on either side of a limit of the report, with what is known of them and what it must say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tests.judgement.case import Row
from tests.judgement.run_boundaries import (
    ALIVE,
    APART,
    COLD,
    COUNT,
    DRIFT,
    FALLS,
    FIRST_COSINES,
    LOG_8,
    LOG_16,
    NDCG,
    OUTWEIGHED,
    PUSHED,
    RANKING,
    Series,
    at_once,
    frozen,
    halves,
    own,
    steadily,
    swinging,
)


class Run(NamedTuple):
    """A run with what is known of it, and the words that the verdict on a subject must have."""

    title: str
    series: Series
    subject: str
    grade: str
    words: str = ""
    options: Mapping[str, Any] = MappingProxyType({})


def few(count: int, **values: float) -> Series:
    """Values of a run with ``count`` records."""
    return {name: [value] * count for name, value in values.items()}


def trend(errors: float) -> list[float]:
    """Cosines with a slope of so many standard errors, beside noise of 0.01."""
    noise, steps = np.resize([0.01, -0.01], COUNT), np.arange(COUNT) - (COUNT - 1) / 2
    slope = errors * 0.01 * math.sqrt(COUNT / (COUNT - 2) / (steps**2).sum())
    return [float(value) for value in 0.5 + noise + slope * steps]


def negatives(near: float, between: float = 0.0, centre: float = 0.1, edge: float = 0.75) -> Series:
    """Bins of the cosines of 32 texts: positives at ``edge``, and shares of negatives near it."""
    return APART | {
        "uniform_share": 1 / 31, f"positive_cosine:{edge}": 1.0,
        f"negative_cosine:{centre}": 1 - near - between, f"negative_cosine:{edge + 0.1}": near,
        **({"negative_cosine:0.6": between} if between else {}),
    }  # fmt: skip


def reaction(nearer: float, changed: float = 0.0) -> Series:
    """A loss of 8 rows that so many of an anchor's 7 negatives raise, or change."""
    values = {
        "alike": math.log(nearer + 1),
        "others": 7,
        "nearer": nearer,
        "all_nearer": 7,
        "rest": 1.0,
        "slope": 0.1,
    }
    values["changed"] = changed
    values |= {"random_slope": 0.1, "positive_slope": 0.1}
    return APART | {"watch": {"trials": {"": values}, "known": {"": False}}}


def clipped(norm: float) -> dict[str, Any]:
    return {"config": {"optim": "sgd", "max_grad_norm": norm}}


TRAIN = {"kind": "training run", "total": 400}
GOES_ON = {"status": "running", "total": 100}
NEW_HEAD = {"positive_cosine": 0.52, "negative_cosine": 0.5, "effective_rank": 20.0}
COLLAPSE = {"negative_cosine": steadily(0.2, 0.985, 0.985),
            "effective_rank": steadily(20.0, 5.0, 5.0)}  # fmt: skip
STIFF = {"weights_moved": at_once(0.0, 0.7e-4), "grad_norm": 100.0, "learning_rate": 1e-4}
FALLS_EARLY = APART | {"learning_rate": [1e-4] * 20 + [2e-6] * 20}
FLOODED = PUSHED | {"hardest_share": 0.93}
LATE = ALIVE | {"active": halves(0.5, 0.0)}
CLOSE = APART | {"negative_cosine": 0.77}
LABELLED = {"watch": {"trials": {"": {"rows_have_labels": 1.0}}, "known": {"": False}}}
DISTILLED = {"watch": {"trials": {"": {"nearer": 0, "all_nearer": 0}}, "known": {"": False}}}
SCORED = {"as_scored": 3.0, "at_right_angles": 1.0, "against_scores": 5.0}


def of_scores(**values: float) -> Series:
    return APART | {"watch": {"trials": {"": SCORED | values}, "known": {"": False}}}


def of_classes(share: float, chance: float, times: int = COUNT) -> Series:
    series = {"class_share": [share] * times, "class_chance": [chance] * times}
    return APART | series


def counted(*classes: float, places: float = 1.0) -> Series:
    known = {"trials": {"": {"classes_have_places": places}}, "known": {"": False}}
    return APART | {"classes_counted": [*np.resize(classes, COUNT)], "watch": known}


def replay(cosine: float, share: float) -> Series:
    return APART | {"replayed_cosine": cosine, "replayed_rows": share}


SIXTY = {"watch": {"evaluated": 60}}
TITLED = [
    Run("a loss of guessing at the end alone", FIRST_COSINES
        | {"loss": [*([2.4] * 37), 2.75, 2.75, 2.75]}, "Loss", "not judged", "", RANKING),
    Run("close cosines of graded pairs", CLOSE | {"order": 0.57}, "Spread", "not judged",
        "their order is what counts", RANKING | {"config": {"loss": "cosent"}}),
    Run("classes counted anew in each batch", counted(4, 5), "Labels", "watch", "numbered anew"),
    Run("classes of which each batch has all", counted(4, 4), "Labels", ""),
    Run("classes counted anew where only equality counts", counted(4, 5, places=0.0), "Labels", ""),
    Run("classes counted anew in 5 records", {n: v if n == "watch" else ([v] * 5 if
        isinstance(v, float) else v[:5]) for n, v in counted(4, 5).items()}, "Labels", ""),
    Run("classes counted anew in 7 records", {n: v if n == "watch" else ([v] * 7 if
        isinstance(v, float) else v[:7]) for n, v in counted(4, 5).items()}, "Labels", "watch"),
    Run("a gradient cache", replay(0.95, 1.0), "Gradient", ""),
    Run("a gradient cache of all rows but a few", replay(0.75, 0.93), "Gradient", ""),
    Run("a gradient cache of other rows", replay(0.48, 1.0), "Gradient", "watch", "other rows"),
    Run("a gradient cache of most rows", replay(1.0, 0.85), "Gradient", "watch"),
    Run("a gradient cache of half of the rows", replay(1.0, 0.5), "Gradient", "watch",
        "embeds 50% of the rows"),
    Run("an order of chance", APART | {"order": [0.55, 0.47] * 20}, "Order", "not judged",
        "as by chance"),
    Run("an order of .47", APART | {"order": 0.47}, "Order", "not judged", "as by chance"),
    Run("an order around .43", APART | {"order": swinging(0.43, 0.22)}, "Order", "not judged",
        "as by chance"),
    Run("an order that rises to .4", APART | {"order": steadily(0.2, 0.2, 0.4, 0.4)}, "Order",
        "not judged", "^(?!.*as by chance)"),
    Run("an order that rises by .04", APART | {"order": halves(0.46, 0.5)}, "Order", "not judged",
        "as by chance"),
    Run("an order that rises by .07", APART | {"order": halves(0.43, 0.5)}, "Order", "not judged",
        "^(?!.*as by chance)"),
    Run("an order of .49 and a score that rises", APART | {NDCG: at_once(0.4, 0.5), "order": 0.49},
        "Order", "not judged", "^(?!.*as by chance)"),
    Run("an order of .49 and a score that falls", APART | FALLS | {"order": 0.49}, "Order",
        "watch", "as by chance"),
    Run("an order around .46 and a score that falls",
        APART | FALLS | {"order": swinging(0.46, 0.22)}, "Order", "watch", "as by chance"),
    Run("an order just above chance", APART | {"order": [0.59, 0.51] * 20}, "Order", "not judged",
        "^(?!.*as by chance)"),
    Run("an order above chance that swings", APART | {"order": [0.8, 0.32] * 20}, "Order",
        "not judged", "^(?!.*as by chance)"),
    Run("an order of .52 for certain", APART | {"order": [0.545, 0.495] * 20}, "Order",
        "not judged", "^(?!.*as by chance)"),
    Run("an order of .52 with errors of .01", APART | {"order": [0.56, 0.48] * 20}, "Order",
        "not judged", "as by chance"),
    Run("an order of chance in 10 records", few(10, **APART) | {"order": [0.55, 0.47] * 5}, "Order",
        "not judged", "^(?!.*as by chance)"),
    Run("an order of chance in 14 records", few(14, **APART) | {"order": [0.55, 0.47] * 7}, "Order",
        "not judged", "as by chance"),
    Run("stopped without an evaluation", APART, "Run", "watch", "nothing was evaluated",
        {"steps": 35, "total": 100}),
    Run("stopped in its middle without an evaluation", APART, "Run", "good", "",
        {"steps": 45, "total": 100}),
    Run("a fifth of the labels change", APART | {"relabelled_texts": 0.2}, "Labels", "watch",
        "another label or score"),
    Run("a tenth of the labels change", APART | {"relabelled_texts": 0.1}, "Labels", ""),
    Run("scores in other units", of_scores(), "Formula", "bad", "different units or ranges"),
    Run("scores in nearly other units", of_scores(at_right_angles=1.6), "Formula", ""),
    Run("scores that are distances", of_scores(against_scores=0.5), "Formula", ""),
    Run("batches of one class", of_classes(0.9, 0.3), "Batch", "watch", "one class"),
    Run("batches of one of two classes", of_classes(0.9, 0.5), "Batch", ""),
    Run("two thirds of batches of one class", of_classes(0.9, 0.3, 2 * COUNT // 3), "Batch",
        "watch"),
    Run("a third of batches of one class", of_classes(0.9, 0.3, COUNT // 3), "Batch", ""),
    Run("batches of one class in 5 records", few(5, **APART, class_share=0.9, class_chance=0.3),
        "Batch", ""),
    Run("batches of one class in 7 records", few(7, **APART, class_share=0.9, class_chance=0.3),
        "Batch", "watch"),
    Run("an index that stays, in 4 records", few(4, **DRIFT, constant_drift=0.2), "Views", ""),
    Run("an index that stays, in 7 records", few(7, **DRIFT, constant_drift=0.2), "Views", "watch"),
    Run("4 records of opposite pairs", few(4, **APART, opposed_pairs=0.14), "Pairs", ""),
    Run("7 records of opposite pairs", few(7, **APART, opposed_pairs=0.14), "Pairs", "watch"),
    Run("a new head, in 4 records", few(4, **NEW_HEAD), "Spread", "watch", "hardly", TRAIN),
    Run("close cosines in 2 records", few(2, **CLOSE), "Spread", "not judged", "2 records are too"),
    Run("close cosines in 5 records", few(5, **CLOSE), "Spread", "watch", "hardly told apart"),
    Run("a score that rises in 7 steps", APART | {NDCG: [0.3, 0.5]}, "Run", "good", "",
        {"steps": 7}),
    Run("pairs at chance that hardly come apart", CLOSE
        | {"positive_cosine": at_once(0.775, 0.8)}, "Spread", "watch", "raise the learning rate"),
    Run("Spearman's correlation rises alone", APART | {"eval_a_spearman_cosine": [0.5, 0.6],
        "eval_a_pearson_cosine": [0.5, 0.495]}, "Scores", "good", "Spearman"),
    Run("Spearman's correlation rises, and Pearson's falls", APART | {"eval_a_spearman_cosine":
        [0.5, 0.6], "eval_a_pearson_cosine": [0.5, 0.45]}, "Scores", "watch", "Pearson"),
    Run("a seventh of a score is lost", APART | {"eval_a_spearman_cosine": [0.5, 0.43]},
        "Scores", "watch", "training hurts"),
    Run("three tenths of a score are lost", APART | {"eval_a_spearman_cosine": [0.5, 0.35]},
        "Scores", "bad", "training hurts"),
    Run("neither correlation rises", APART | {"eval_a_spearman_cosine": [0.5, 0.495],
        "eval_a_pearson_cosine": [0.5, 0.495]}, "Scores", "watch", "has not improved"),
    Run("a new head that stays so", few(7, **NEW_HEAD), "Spread", "bad", "own view", TRAIN),
    Run("cosines .1 apart", APART | {"negative_cosine": 0.7}, "Spread", "good", "not by much"),
    Run("cosines .25 apart", APART | {"negative_cosine": 0.55}, "Spread", "good", "told apart: an"),
    Run("cosines .4 apart", APART | {"negative_cosine": 0.4}, "Spread", "good", "clearly told"),
    Run("two thirds of a small gap are left", APART | {"positive_cosine": at_once(0.52, 0.5),
        "negative_cosine": 0.46}, "Spread", "watch", "Train longer"),
    Run("two fifths of a gap are left", APART | {"positive_cosine": at_once(0.56, 0.5),
        "negative_cosine": 0.46}, "Spread", "watch", "told apart better in the first record"),
    Run("1 text in 70 meets a copy", negatives(2.3e-4), "Duplicates", ""),
    Run("1 text in 36 meets a copy", negatives(4.5e-4), "Duplicates", "watch", "0.028 copies"),
    Run("copies, and a few near texts", negatives(1e-3, 3.5e-4), "Duplicates", "watch"),
    Run("near texts of all degrees", negatives(1e-3, 7e-4), "Duplicates", ""),
    Run("copies in an encoder of high cosines", negatives(1e-3, 0.0, 0.4), "Duplicates", "watch"),
    Run("texts that are all alike", negatives(1e-3, 0.0, 0.65, 0.85), "Duplicates", ""),
    Run("a softmax with room to fall", APART | own(8, 0.83, LOG_8, 4.0, 1.3), "Formula", ""),
    Run("wrong pairs cost a fifth more", APART | own(8, 2.0, 2.2, 2.4, 2.1), "Formula", "watch"),
    Run("wrong pairs cost half more", APART | own(8, 2.0, 2.2, 3.0, 2.1), "Formula", ""),
    Run("labels smoothed over a batch", APART | own(8, 3.5, LOG_8, 4.0, 3.6), "Formula", "watch"),
    Run("labels smoothed a little", APART | own(8, 2.6, LOG_8, 4.0, 2.7), "Formula", ""),
    Run("a batch in chunks of 4", reaction(3), "Formula", "watch", "only 3 negatives"),
    Run("a layer that compares rows", reaction(3, 7), "Formula", ""),
    Run("a batch in chunks of 5", reaction(4), "Formula", ""),
    Run("6% learn", ALIVE | {"active": 0.07}, "Learning", "good", "usual for a loss that works"),
    Run("14% learn", ALIVE | {"active": 0.14}, "Learning", "good", r"negatives\. *$"),
    Run("weights of a few that learn", PUSHED | {"active": 0.35}, "Hard negatives", "good",
        "Only 35% of the sentences still learn"),
    Run("weights of most sentences", PUSHED | {"active": 0.7}, "Hard negatives", "good",
        "^(?!.*still learn)"),
    Run("a score that rises beside a problem", FALLS_EARLY | {NDCG: [0.3, 0.5]}, "headline",
        "watch", r"The score rose all the same, from 0\.300 to 0\.500"),
    Run("1 in 700 learns", ALIVE | {"active": 0.0014}, "Learning", "good", r"^\S+ 0\.1% of"),
    Run("1 in 1,400 learns", ALIVE | {"active": 0.0007}, "Learning", "good", r"Fewer than 0\.1%"),
    Run("all but 1 in 140 learn", ALIVE | {"active": 0.993}, "Learning", "good", "99% of"),
    Run("all but 1 in 330 learn", ALIVE | {"active": 0.997}, "Learning", "good", "All sentences"),
    Run("positives with room to come closer", OUTWEIGHED | {"positive_cosine": 0.985},
        "Pull and push", "bad"),
    Run("τ of .004, 3 hard negatives", FLOODED | {"uniform_share": 1 / 3}, "Hard negatives",
        "watch", "only that one", COLD),
    Run("τ of .004, 2 hard negatives", FLOODED | {"uniform_share": 1 / 2}, "Hard negatives",
        "not judged", "too few", COLD),
    Run("pairs at chance that collapse", COLLAPSE | {"positive_cosine": at_once(0.23, 0.99)},
        "Spread", "watch", "positives were no nearer than other"),
    Run("triplets at chance that collapse", COLLAPSE | {"positive_cosine": at_once(0.23, 0.99),
        "watch": {"arguments": {"": ["owners"]}}}, "Spread", "watch", "order of the columns"),
    Run("pairs above chance that collapse", COLLAPSE | {"positive_cosine": at_once(0.25, 0.99)},
        "Spread", "watch", "^Spread.*Lower the learning rate, or"),
    Run("a collapse, evaluated once before it", APART | COLLAPSE | {NDCG: [0.5]}, "Spread", "watch",
        "An evaluator would show"),
    Run("a narrow cone whose score falls", APART | COLLAPSE | {"effective_rank": 14.0,
        NDCG: [0.5, 0.4]}, "Spread", "bad"),
    Run("a frozen score near 1", APART | {NDCG: 0.9985}, "Scores", "watch", "of another model"),
    Run("a perfect score", APART | {NDCG: 0.9993}, "Scores", "watch", "no room to improve"),
    Run("the same score 4 times", APART | {NDCG: [0.5] * 4}, "Scores", "watch", "exactly 0.5"),
    Run("the same score twice", APART | {NDCG: [0.5] * 2}, "Scores", "watch", "has not improved"),
    Run("one held-out loss", {"eval_loss": [0.5]}, "Scores", "not judged", "Give the trainer",
        {"begin": 9}),
    Run("three held-out losses that fall", {"eval_loss": [1.0, 0.8, 0.7]}, "Scores", "good"),
    Run("60 queries, .11 lower", APART | SIXTY | {NDCG: [0.55, 0.44]}, "Scores", "watch",
        r"Of 60 queries, pairs or triplets, 0\.14 less may be chance"),
    Run("60 queries, .02 lower, hardly room above", APART | SIXTY | {NDCG: [0.9, 0.88]}, "Scores",
        "not judged", "may be chance"),
    Run("60 queries, .02 lower, room above", APART | SIXTY | {NDCG: [0.7, 0.68]}, "Scores",
        "watch", "may be chance"),
    Run("60 queries, .16 lower", APART | SIXTY | {NDCG: [0.55, 0.39]}, "Scores", "bad", "hurts"),
    Run("60 pairs, a correlation .05 lower", APART | SIXTY | {"eval_a_spearman_cosine":
        [0.5, 0.45]}, "Scores", "watch", "may be chance"),
    Run("60 pairs, a correlation .3 lower", APART | SIXTY | {"eval_a_spearman_cosine": [0.5, 0.2]},
        "Scores", "bad", "hurts"),
    Run("60 queries, .1 below the best", APART | SIXTY | {NDCG: [0.3, 0.6, 0.5]}, "Scores", "good"),
    Run("60 queries, .2 below the best", APART | SIXTY | {NDCG: [0.3, 0.6, 0.4]}, "Scores", "bad",
        "was best at step"),
    Run("a narrow cone whose score falls by chance", APART | SIXTY | COLLAPSE
        | {"effective_rank": 14.0, NDCG: [0.55, 0.44]}, "Spread", "watch"),
    Run("a score .0035 lower", {NDCG: [0.5, 0.4965]}, "Scores", "watch", "the evaluator asks"),
    Run("a score .007 lower", {NDCG: [0.5, 0.493]}, "Scores", "watch", "Lower the learning rate"),
    Run("a third of a gain is lost", {NDCG: [0.4, 0.5, 0.47]}, "Scores", "watch", "fallen since"),
    Run("3/5 of a gain are lost", {NDCG: [0.4, 0.5, 0.44]}, "Scores", "bad", "fallen since"),
    Run("a fall of a fourteenth of a gain", {NDCG: [0.2, 0.55, 0.525]}, "Scores", "good"),
    Run("a fall of a seventh of a gain", {NDCG: [0.2, 0.55, 0.5]}, "Scores", "watch", "fallen"),
    Run("spread beside a score that halves", APART | {NDCG: [0.5, 0.25]}, "Spread", "not judged"),
    Run("a score that halves at a high rate", {NDCG: [0.5, 0.25], "learning_rate": 5e-3}, "Scores",
        "bad", "its peak was 0.005"),
    Run("a score that halves at a rate for adapters", {NDCG: [0.5, 0.25], "learning_rate": 7e-4},
        "Scores", "bad", "If it is low already"),
    Run("a score that halves at a rate for encoders", {NDCG: [0.5, 0.25], "learning_rate": 0.7e-4},
        "Scores", "bad", "rate is usual"),
    Run("a score that halves above it", {NDCG: [0.5, 0.25], "learning_rate": 1.4e-4}, "Scores",
        "bad", "^(?!.*rate is usual)"),
    Run("a score that halves above the rates for adapters",
        {NDCG: [0.5, 0.25], "learning_rate": 1.4e-3}, "Scores", "bad", "^(?!.*If it is low)"),
    Run("a score that is best at one point", APART | {NDCG: [0.2, 0.5, 0.3]}
        | {"negative_cosine": [0.1] + [0.99] * (COUNT - 11) + [0.1] * 10}, "Scores", "bad",
        "nearly one embedding"),
    Run("a score that is best apart", APART | {NDCG: [0.2, 0.5, 0.3]}, "Scores", "bad",
        "Use the encoder of about step"),
    Run("pairs that begin at chance, and a score that halves", few(COUNT, negative_cosine=0.6)
        | {"positive_cosine": at_once(0.6, 0.9), NDCG: [0.5, 0.25]}, "Scores", "bad",
        "If they do, lower the learning rate"),
    Run("close cosines of rows with labels, and a loss that falls", CLOSE | {"batch_loss":
        steadily(1.0, 0.3)}, "Spread", "not judged", "rows have labels", LABELLED),
    Run("close cosines of rows with labels, and a loss that stays", CLOSE | {"batch_loss":
        steadily(1.0, 0.98)}, "Spread", "watch", "hardly told apart", LABELLED),
    Run("a view that hardly leaves its place", DRIFT | {"constant_drift": steadily(0.15, 0.25)},
        "Views", "watch"),
    Run("a view that follows slowly", DRIFT | {"constant_drift": steadily(0.13, 0.28)}, "Views",
        ""),
    Run("a constant view of a distillation", few(7, **DRIFT, constant_drift=0.2), "Views", "",
        "", DISTILLED),
    Run("a score that keeps a tenth of its gain", APART | {"negative_cosine": 0.77,
        NDCG: [0.3, 0.5, 0.32]}, "Spread", "watch", "hardly told apart"),
    Run("a loss of guessing beside a score that halves", FIRST_COSINES | {"loss":
        at_once(2.8, LOG_16), NDCG: [0.5, 0.25]}, "Loss", "watch", "explains this", RANKING),
    Run("one low score so far", {NDCG: [0.5, 0.3]}, "Scores", "not judged", "", GOES_ON),
    Run("two low scores so far", {NDCG: [0.5, 0.3, 0.3]}, "Scores", "bad", "hurts", GOES_ON),
    Run("a third of a score is lost so far", {NDCG: [0.5, 0.33, 0.33]}, "Scores", "bad", "hurts",
        GOES_ON),
    Run("a fifth of a score is lost so far", {NDCG: [0.5, 0.4, 0.4]}, "Scores", "not judged", "",
        GOES_ON),
    Run("3.5 minutes of silence", APART, "Run", "not judged", "", GOES_ON | {"silence": 210.0}),
    Run("7 minutes of silence", APART, "Run", "watch", "420 seconds|7 minutes",
        GOES_ON | {"silence": 420.0}),
    Run("14 usual pauses of silence", APART, "Run", "not judged", "",
        GOES_ON | {"silence": 840.0, "pause": 60}),
    Run("28 usual pauses of silence", APART, "Run", "watch", "28 minutes",
        GOES_ON | {"silence": 1680.0, "pause": 60}),
    Run("14 pauses like the only two", APART, "Run", "not judged", "",
        GOES_ON | {"silence": 840.0, "pause": 60, "steps": 2}),
    Run("a run that has just begun", APART, "Run", "not judged", "", GOES_ON | {"steps": 0}),
    Run("an hour and a half of silence", APART, "Run", "watch", "90 minutes",
        GOES_ON | {"silence": 5400.0}),
    Run("three hours of silence", APART, "Run", "watch", "3 hours", GOES_ON | {"silence": 10800.0}),
    Run("6 good losses before it was resumed", APART | {"watch": {"resumed": COUNT // 2},
        "loss": [3.0] * 14 + [1.0] * 6 + [2.0] * 20}, "Loss", "watch", "jumps"),
    Run("7 losses of guessing", FIRST_COSINES | {"loss": [2.8] + [0.98 * LOG_16] * 6}, "Loss",
        "not judged", "guessing", RANKING),
    Run("14 losses of guessing", FIRST_COSINES | {"loss": [2.8] + [0.98 * LOG_16] * 13}, "Loss",
        "watch", "guessing", RANKING),
    Run("losses of guessing while positives come to rank first", FIRST_COSINES
        | {"loss": [2.8] + [0.98 * LOG_16] * 39, "ranking_accuracy": [0.5] * 20 + [0.8] * 20},
        "Loss", "not judged", "nearer than others", RANKING),
    Run("losses of guessing while fewer positives rank first", FIRST_COSINES
        | {"loss": [2.8] + [0.98 * LOG_16] * 39, "ranking_accuracy": [0.5] * 20 + [0.6] * 20},
        "Loss", "watch", "guessing", RANKING),
    Run("8 losses, the last higher", {"loss": [1.0, 1.0, 1.1, 1.2, 1.2, 1.3, 1.4, 1.4]},
        "Loss", "not judged", "has not fallen"),
    Run("15 losses, the last higher", {"loss": [1.0] * 5 + [1.2] * 5 + [1.4] * 5},
        "Loss", "watch", "rises"),
    Run("gradients clipped to 1 in 140", STIFF, "Progress", "watch", "are clipped", clipped(0.7)),
    Run("gradients clipped to 1 in 70", STIFF, "Progress", "watch", "SGD multiplies", clipped(1.4)),
    Run("a step of .2 at a high rate", {"weights_moved": [0.0, 0.01, 0.02, 0.22, *[0.23] * 9]},
        "Weights", ""),
    Run("cosines that stay", few(COUNT, negative_cosine=0.1) | {"positive_cosine": trend(2.1)},
        "Progress", "watch", "no measured quantity"),
    Run("cosines that fall slowly", few(COUNT, negative_cosine=0.1)
        | {"positive_cosine": trend(4.2)}, "Progress", ""),
    Run("10 records of cosines that stay", few(10, **APART), "Progress", ""),
    Run("16 records of cosines that stay", few(16, **APART), "Progress", "watch", "as they did"),
    # Sentences of other runs.
    Run("a batch too large for the memory", APART, "Run", "bad", "does not fit into memory",
        {"status": "crashed", "why": "CUDA out of memory"}),
    Run("a full disk", APART, "Run", "watch", "What came after is not judged",
        {"status": "stopped", "why": "No space left on device"}),
    Run("embeddings that are not found", APART, "Run", "not judged", "were not found",
        {"status": "stopped", "why": "no rows; name them with views=, a function"}),
    Run("resumed at its end", APART | {"watch": {"resumed": COUNT - 1}}, "Run", "watch",
        "no step was left"),
    Run("a loss that reaches 0", {"loss": [1.0, 0.5, 0.2] + [0.0] * 9}, "Loss", "not judged",
        "has fallen from 1 to exactly 0"),
    Run("a surrogate", APART | {"loss": at_once(1.0, 0.8)}, "Loss", "not judged", "surrogate",
        {"config": {"loss": "baseline"}}),
    Run("a sign exchanged", APART | own(8, 4.0, 2.0, 1.0, 3.0), "Formula", "bad", "is reversed"),
    Run("a softmax of a softmax", APART | {"watch": {"departures": {"": "softmax twice"}}},
        "Formula", "bad", "not infonce.*softmax again", RANKING),
    Run("a gradient that vanishes half-way", LATE | {"gradient_dissipation": halves(0.1, 0.7e-8)},
        "Learning", "bad", "has vanished"),
    Run("a margin that is met in the end", LATE | {"gradient_dissipation": halves(0.1, 0.0),
        "batch_loss": halves(1.0, 0.0), "positive_cosine": steadily(0.5, 0.8)}, "Learning",
        "not judged", "harder negatives"),
    Run("a loss of 0 that tells texts apart no better", LATE | {"batch_loss": halves(1.0, 0.0),
        "gradient_dissipation": halves(0.1, 0.0), "negative_cosine": 0.6}, "Learning", "bad",
        "has vanished"),
    Run("a margin that was met from the beginning on", LATE | {"batch_loss": halves(1.0, 0.0),
        "gradient_dissipation": halves(0.1, 0.0), "negative_cosine": 0.4}, "Learning",
        "not judged", "harder negatives"),
    Run("a gradient that nearly vanishes", LATE | {"gradient_dissipation": halves(0.1, 1.4e-8)},
        "Learning", "good", "are learned"),
    Run("a teacher who says that texts are alike", CLOSE, "Spread", "not judged", "A teacher says",
        {"config": {"loss": "kl"}}),
    Run("close cosines in the order of labels", CLOSE | {"order": 0.8}, "Spread", "not judged",
        "in the right order"),
    Run("a rank that stays, alone", few(COUNT, effective_rank=9.0), "Progress", ""),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in TITLED
    ]  # fmt: skip

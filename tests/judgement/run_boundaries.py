"""Runs on either side of a limit of the report, nearer than its half and its double.

Each row holds series by the name of a quantity, a manifest, and the grade that a subject must get;
an empty grade means that the subject is not on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from gradlab.monitor.arriving_gradient import GRADIENT_NUMBERS
from gradlab.monitor.label_signs import LABEL_SIGNS
from gradlab.monitor.movement import FOLLOWING_STALE, FROZEN, WEIGHTS_NORM
from gradlab.monitor.optimizer_step import STEP_NUMBERS
from gradlab.monitor.replayed_gradient import REPLAY_NUMBERS
from gradlab.monitor.row_gradients import ROW_NUMBERS
from gradlab.monitor.step_effect import EFFECT_NUMBERS
from gradlab.monitor.token_signs import TOKEN_NUMBERS
from gradlab.monitor.trained_part import PART_NUMBERS
from gradlab.monitor.verdicts.records import RANKED_IN_USE
from gradlab.monitor.view_texts import TEXT_NUMBERS
from gradlab.monitor.weights_watch import LENGTH_LEFT
from tests.judgement.case import Row

Series = dict[str, Any]
COUNT = 40  # records of a run
GROUPS = {"loss": "train", "learning_rate": "train", "weights_moved": "train", "stale": "train",
          "eval_a_cosine_ndcg@10": "evaluation", "eval_loss": "evaluation",
          "eval_a_cosine_accuracy": "evaluation",
          "eval_a_pearson_cosine": "evaluation", "eval_a_spearman_cosine": "evaluation",
          "repeated_rows": "train", "alternating_rows": "train", "opposed_pairs": "train",
          "anchor_drift": "train", "constant_drift": "train", "weights_left": "train",
          "rows_without_gradient": "train", "grad_norm": "train", LENGTH_LEFT: "train",
          "learned_weight": "train", "learned_weight_gradient": "train",
          "learned_temperature": "train", "learned_logit_scale": "train", "learned_scale": "train",
          **dict.fromkeys(("batch_loss", "new_weights", FROZEN, FOLLOWING_STALE, *GRADIENT_NUMBERS,
                           WEIGHTS_NORM, *STEP_NUMBERS, *EFFECT_NUMBERS, *TOKEN_NUMBERS,
                           *TEXT_NUMBERS, *LABEL_SIGNS, *REPLAY_NUMBERS, *ROW_NUMBERS,
                           *PART_NUMBERS, "learned_margin", RANKED_IN_USE), "train"),
          }  # fmt: skip
NAMES = {"stale": "stale_gradient"}
APART = {"positive_cosine": 0.8, "negative_cosine": 0.1, "effective_rank": 20.0}
RANKING = {"config": {"loss": "infonce"}, "watch": {"known": {"": True}}}
FIRST_COSINES = {"negative_cosine": 0.0, "positive_cosine": 0.9, "uniform_share": 1 / 15}
LOG_16 = 2.7726
NDCG = "eval_a_cosine_ndcg@10"


def steadily(*ends: float) -> list[float]:
    """Values that go from one to the next in equal parts of a run."""
    return [
        float(v) for v in np.interp(np.linspace(0, len(ends) - 1, COUNT), range(len(ends)), ends)
    ]


def at_once(first: float, last: float) -> list[float]:
    """Values of which the first one differs."""
    return [first, *[last] * (COUNT - 1)]


def alternately(even: float, odd: float) -> list[float]:
    """Values that take turns, and end with the larger one, twice."""
    return [even, odd] * (COUNT // 2 - 1) + [even, even]


def halves(first: float, last: float) -> list[float]:
    """Values that change in the middle."""
    return [first] * (COUNT // 2) + [last] * (COUNT // 2)


def stops(share: float, count: int = COUNT) -> list[float]:
    """Movement of weights that ends a share of the records before the end."""
    still = round(share * count)
    moving = [0.01 * at for at in range(count - still + 1)]
    return moving + [moving[-1]] * (still - 1)


def rates(share: float) -> list[float]:
    """Rates of which a share at the end is none."""
    still = round(share * COUNT)
    return [1e-4] * (COUNT - still) + [0.0] * still


def point(count: int) -> Series:
    """Embeddings that are one point in ``count`` records."""
    values = {"negative_cosine": 0.985, "positive_cosine": 0.99, "effective_rank": 2.2}
    return {name: [value] * count for name, value in values.items()}


CONE = {"negative_cosine": at_once(0.8, 0.985), "positive_cosine": 0.99,
        "effective_rank": at_once(8.0, 2.2)}  # fmt: skip


def resumed(after: float) -> dict[str, Any]:
    return {"watch": {"resumed": COUNT // 2}, "loss": [3.0] * 10 + [1.0] * 10 + [after] * 20}


def cosines(first: tuple[float, float], last: tuple[float, float]) -> Series:
    """Mean cosines of positives and of negatives that all rise after the first record."""
    names = ("positive_cosine", "negative_cosine")
    return {name: at_once(*ends) for name, *ends in zip(names, first, last, strict=True)}


def unsteady(first: float, mean: float) -> list[float]:
    """Values that go up and down about a mean after the middle, by 0.1."""
    return [first] * (COUNT // 2) + [mean - 0.1, mean + 0.1] * (COUNT // 4)


# Positives that go away from their anchors, by a tenth.
PARTED = {"positive_cosine": at_once(0.9, 0.8)}
# Positives that are hardly nearer than other sentences, and such that never are.
CLOSE = APART | {"positive_cosine": 0.9, "negative_cosine": 0.87}
UNRELATED = APART | {"positive_cosine": 0.9, "negative_cosine": 0.9}
MIXED, FALLEN = {"negative_cosine": at_once(0.85, 0.1)}, {NDCG: [0.3, 0.6, 0.35]}
# Different sentences come apart, though not by much.
COMING = {"negative_cosine": at_once(0.89, 0.875), "effective_rank": at_once(8.0, 9.0)}
RUNS: list[tuple[Series, dict[str, Any], str, str]] = [
    (APART | {"positive_cosine": 1.0, "negative_cosine": 0.85}, {}, "Batch", "bad"),
    (APART | {"positive_cosine": 1.0, "negative_cosine": 0.93}, {}, "Batch", ""),
    (APART | {"positive_cosine": 1 - 0.7e-6}, {}, "Batch", "bad"),
    (APART | {"positive_cosine": 1 - 1.4e-6}, {}, "Batch", ""),
    (APART | {"negative_cosine": 0.73}, {}, "Spread", "good"),
    (APART | {"negative_cosine": 0.765}, {}, "Spread", "watch"),
    (APART | {"negative_cosine": steadily(0.2, 0.985, 0.985), "positive_cosine": 0.99,
              "effective_rank": steadily(20, 5, 5)}, {}, "Spread", "watch", "embeddings collapse"),
    (APART | {"negative_cosine": steadily(0.2, 0.97, 0.97), "positive_cosine": 0.99,
              "effective_rank": steadily(20, 5, 5)}, {}, "Spread", "watch", "hardly told apart"),
    (APART | {"negative_cosine": steadily(0.2, 0.985, 0.985), "positive_cosine": 0.99,
              "effective_rank": steadily(20, 7, 7)}, {}, "Spread", "watch", "embeddings collapse"),
    (APART | {"negative_cosine": steadily(0.2, 0.985, 0.985), "positive_cosine": 0.99,
              "effective_rank": steadily(20, 14, 14)}, {}, "Spread", "watch", "hardly told apart"),
    (APART | {"negative_cosine": 0.985, "positive_cosine": 0.99, "effective_rank": 2.2}, {},
     "Spread", "watch", "embeddings collapse"),
    (APART | {"negative_cosine": 0.9992, "positive_cosine": 0.9995, "effective_rank": 2.2}, {},
     "Spread", "watch", "An evaluator"),
    (APART | {"negative_cosine": 0.9996, "positive_cosine": 0.9998, "effective_rank": 2.2}, {},
     "Spread", "bad"),
    (APART | {"negative_cosine": 0.985, "positive_cosine": 0.99, "effective_rank": 4.2}, {},
     "Spread", "watch", "hardly told apart"),
    (COMING | {"positive_cosine": at_once(0.901, 0.902)}, {}, "Spread", "not judged"),
    (COMING | {"positive_cosine": at_once(0.901, 0.893)}, {}, "Spread", "watch"),
    (COMING | {"positive_cosine": at_once(0.899, 0.902)}, {}, "Spread", "not judged"),
    (COMING | {"positive_cosine": at_once(0.92, 0.92)}, {}, "Spread", "watch"),
    (COMING | {"positive_cosine": at_once(0.893, 0.894)}, {}, "Spread", "not judged"),
    (COMING | {"positive_cosine": at_once(0.893, 0.8855)}, {}, "Spread", "watch"),
    (COMING | {"negative_cosine": at_once(0.89, 0.893), "positive_cosine": at_once(0.901, 0.92)},
     {}, "Spread", "watch"),
    (cosines((0.84, 0.81), (0.942, 0.9)), {}, "Spread", "not judged"),
    (cosines((0.84, 0.81), (0.934, 0.9)), {}, "Spread", "watch"),
    (cosines((0.8195, 0.81), (0.936, 0.9)), {}, "Spread", "not judged"),
    (cosines((0.8195, 0.81), (0.93, 0.9)), {}, "Spread", "watch"),
    (cosines((0.873, 0.81), (0.967, 0.93)), {}, "Spread", "watch"),
    (CLOSE | {"ranking_accuracy": halves(0.5, 0.73)}, {}, "Spread", "not judged"),
    (CLOSE | {"ranking_accuracy": halves(0.5, 0.66)}, {}, "Spread", "watch"),
    (CLOSE | {"ranking_accuracy": halves(0.72, 0.73)}, {}, "Spread", "not judged"),
    (CLOSE | {"ranking_accuracy": unsteady(0.68, 0.74)}, {}, "Spread", "watch"),
    (CLOSE | {"ranking_accuracy": unsteady(0.6, 0.74)}, {}, "Spread", "not judged"),
    (UNRELATED | {"ranking_accuracy": halves(0.5, 0.73)}, {}, "Pairs", ""),
    (UNRELATED | {"ranking_accuracy": halves(0.5, 0.66)}, {}, "Pairs", "watch"),
    (point(14), {}, "Spread", "watch", "embeddings collapse"),
    (point(7), {}, "Spread", "watch", "hardly told apart"),
    (point(14) | {"ranking_accuracy": halves(0.5, 0.9)}, {}, "Spread", "watch"),
    (CONE | {"ranking_accuracy": halves(0.99, 0.95)}, {}, "Spread", "not judged"),
    (CONE | {"ranking_accuracy": halves(0.99, 0.93)}, {}, "Spread", "watch", "rank first"),
    (CONE | {"ranking_accuracy": halves(0.99, 0.84)}, {}, "Spread", "watch", "An evaluator"),
    (point(14) | {"ranking_accuracy": halves(0.99, 0.93)}, {}, "Spread", "watch",
     "embeddings collapse"),
    (APART | {"order": at_once(0.5, 0.57)}, {}, "Order", "not judged"),
    (APART | {"order": at_once(0.5, 0.7)}, {}, "Order", "good"),
    (APART | {"order": at_once(0.5, 0.3)}, {}, "Order", "bad"),
    (APART | {"order": at_once(0.9, 0.7)}, {}, "Order", "not judged"),
    (APART | {"order": halves(0.8, 0.7)}, {}, "Order", "watch"),
    (APART | {"order": halves(0.785, 0.74)}, {}, "Order", "good"),
    (APART | {"order": [0.8] * 3 + [0.6] * 4}, {}, "Order", "not judged"),
    (APART | {"order": alternately(0.69, 0.57)}, {}, "Order", "good"),
    (APART | {"order": alternately(0.65, 0.54)}, {}, "Order", "not judged"),
    (APART | {"order": alternately(0.77, 0.49)}, {}, "Order", "good"),
    (APART | {"order": alternately(0.97, 0.29)}, {}, "Order", "not judged"),
    (APART | {NDCG: [0.185, 0.151, 0.244, 0.221]}, {}, "Scores", "not judged"),
    (APART | {NDCG: [0.185, 0.151, 0.244, 0.205]}, {}, "Scores", "bad"),
    (APART | {NDCG: [0.185, 0.151, 0.30, 0.28]}, {}, "Scores", "good"),
    (APART | {NDCG: [0.185, 0.18, 0.244, 0.221]}, {}, "Scores", "watch"),
    ({NDCG: at_once(0.5, 0.4), "loss": at_once(1.0, 1.2)}, {}, "Loss", "watch"),
    ({NDCG: at_once(0.5, 0.4), "loss": at_once(1.0, 1.05)}, {}, "Loss", "not judged"),
    ({NDCG: at_once(0.4, 0.5), "loss": at_once(1.0, 1.2)}, {}, "Loss", "not judged"),
    (APART | MIXED | FALLEN, {}, "Pairs", "watch"),
    (APART | MIXED | {NDCG: [0.2, 0.4, 0.5]}, {}, "Pairs", ""),
    (APART | {"negative_cosine": at_once(0.75, 0.1)} | FALLEN, {}, "Pairs", ""),
    (FIRST_COSINES | {"loss": at_once(2.8, 0.98 * LOG_16)}, RANKING, "Loss", "watch"),
    (FIRST_COSINES | {"loss": at_once(2.8, 0.95 * LOG_16)}, RANKING, "Loss", "good"),
    (APART | {"loss": at_once(1.0, 0.8)}, {}, "Loss", "good"),
    ({"loss": steadily(1.0, 1.0, 1.05, 1.08, 1.08)}, {}, "Loss", "not judged"),
    ({"loss": steadily(1.0, 1.0, 1.2, 1.25, 1.25)}, {}, "Loss", "watch"),
    ({"loss": steadily(1.0, 1.0, 0.72, 0.72, 0.97, 0.97, 0.97)}, {}, "Loss", "watch"),
    ({NDCG: at_once(0.4, 0.5), "loss": steadily(1.0, 1.0, 0.72, 0.72, 0.97, 0.97, 0.97)}, {},
     "Loss", "not judged"),
    (APART | {"loss": steadily(1.0, 1.0, 0.85, 0.85, 0.97, 0.97, 0.97)}, {}, "Loss", "not judged"),
    (APART | {"loss": steadily(1.0, 1.0, 0.72, 0.72, 0.93, 0.93, 0.93)}, {}, "Loss", "not judged"),
    (APART | {"loss": steadily(1.0, 1.0, 0.5, 0.5, 0.8, 0.8, 0.8)}, {}, "Loss", "not judged"),
    (APART | {"loss": steadily(1.0, 1.0, 0.5, 0.5, 0.67, 0.67, 0.67)}, {}, "Loss", "good"),
    (APART | {"loss": [1.25, *([1.2, 1.1] * COUNT)[: COUNT - 1]]}, {}, "Loss", "not judged"),
    (APART | {"loss": [1.5, *([1.2, 1.1] * COUNT)[: COUNT - 1]]}, {}, "Loss", "good"),
    (APART | resumed(1.3), {}, "Loss", "good"),
    (resumed(2.0), {}, "Loss", "watch"),
    ({"weights_moved": at_once(0.0, 0.7e-4)}, {}, "Progress", "watch"),
    ({"weights_moved": at_once(0.0, 1.4e-4)}, {}, "Progress", ""),
    ({"weights_moved": [0.0, 0.05, 0.1, 0.5, *[0.5] * 9]}, {}, "Weights", "watch"),
    ({"weights_moved": [0.0, 0.05, 0.1, 0.32, *[0.32] * 9]}, {}, "Weights", ""),
    ({"weights_moved": [0.0, 0.1, 0.2, 0.6, *[0.6] * 9]}, {}, "Weights", ""),
    ({"weights_moved": [0.0, 0.1, 0.2, 1.1, *[1.1] * 9]}, {}, "Weights", "watch"),
    ({"learning_rate": rates(0.3)}, {}, "Schedule", ""),
    ({"learning_rate": rates(0.5)}, {}, "Schedule", "watch"),
    ({"learning_rate": [1e-4, 0.0, 0.0]}, {}, "Schedule", ""),
    ({"learning_rate": [1e-4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]}, {}, "Schedule", "watch"),
    ({"learning_rate": [*[1e-4] * 4, *[0.7e-7] * 3]}, {}, "Schedule", "watch"),
    ({"learning_rate": [*[1e-4] * 4, *[1.4e-7] * 3]}, {}, "Schedule", ""),
    ({"weights_moved": stops(0.35), "loss": 0.5}, {}, "Schedule", ""),
    ({"weights_moved": stops(0.45), "loss": 0.5}, {}, "Schedule", "watch"),
    ({"weights_moved": stops(0.45), "loss": 0.0}, {}, "Schedule", ""),
    ({"weights_moved": stops(0.45), "loss": 0.5, "learning_rate": 1e-4}, {}, "Schedule", ""),
    ({"weights_moved": stops(0.5, 8), "loss": 0.5}, {}, "Schedule", ""),
    ({"weights_moved": stops(0.5, 12), "loss": 0.5}, {}, "Schedule", "watch"),
    ({"stale": 6.0}, {}, "Gradient", ""),
    ({"stale": 11.0}, {}, "Gradient", "bad"),
    *[({"stale": [0.9 * (5 * at % size) for at in range(COUNT)]}, {}, "Gradient", "")
      for size in (2, 4, 8, 16)],
    ({NDCG: at_once(0.5, 0.493)}, {}, "Scores", "watch"),
    ({NDCG: at_once(0.5, 0.486)}, {}, "Scores", "watch"),
    ({NDCG: [0.2, *[0.5] * (COUNT - 2), 0.475]}, {}, "Scores", "good"),
    ({NDCG: [0.2, *[0.5] * (COUNT - 2), 0.455]}, {}, "Scores", "watch"),
    ({NDCG: at_once(0.9985, 0.9985)}, {}, "Scores", "watch"),
    ({NDCG: at_once(0.985, 0.99)}, {}, "Scores", "watch"),
    ({NDCG: at_once(0.973, 0.99)}, {}, "Scores", "good"),
    ({"eval_loss": steadily(1.0, 1.05, 1.07, 1.07)}, {}, "Scores", "not judged"),
    ({"eval_loss": steadily(1.0, 1.1, 1.15, 1.15)}, {}, "Scores", "watch"),
    ({"eval_loss": [1.0, 0.01, *[0.03] * 3]}, {}, "Scores", "good"),
    ({"eval_loss": [1.0, 0.01, *[0.055] * 3]}, {}, "Scores", "watch"),
    (APART, {"steps": 7}, "Run", "watch"),
    (APART, {"steps": 14}, "Run", "good"),
    (APART | {NDCG: 0.3}, {"steps": 14, "total": 100}, "Run", "watch"),
    (APART | {NDCG: 0.3}, {"steps": 28, "total": 100}, "Run", "good"),
    (APART | {"positive_cosine": [0.8] * 6, "negative_cosine": [0.1] * 6,
              "effective_rank": [9.0] * 6}, {"total": 100, "steps": 100}, "Run", "not judged"),
    (APART | {"positive_cosine": [0.8] * 11, "negative_cosine": [0.1] * 11,
              "effective_rank": [9.0] * 11}, {"total": 100, "steps": 100}, "Run", "good"),
]  # fmt: skip

ALIVE = APART | {"gradient_dissipation": 0.4, "active": 0.8}
STILL = ALIVE | {"gradient_dissipation": 0.0, "active": 0.0}
PUSHED = ALIVE | {"hardest_share": 0.5, "uniform_share": 1 / 31}
DEAD = {"gradient_dissipation": steadily(0.4, 0.2, 1e-3), "active": steadily(0.5, 0.0, 0.0)}
OUTWEIGHED = ALIVE | {"lemma_share": 0.4, "positive_cosine": 0.8, "ratio_median": 0.5}
COLD = {"config": {"loss": "infonce(temperature=0.004)"}, "watch": {"known": {"": True}}}
RATED = {"config": {"loss": "cosent"}, "watch": {"known": {"": True}}}
COOL = {"config": {"loss": "infonce(temperature=0.007)"}, "watch": {"known": {"": True}}}
RUNS += [
    (ALIVE | {"gradient_dissipation": 0.7e-4}, {}, "Learning", "bad"),
    (ALIVE | {"gradient_dissipation": 1.4e-4}, {}, "Learning", "good"),
    (ALIVE | {"gradient_dissipation": -1.0}, {}, "Learning", "bad"),
    (STILL | {"weights_moved": at_once(0.0, 0.7e-3)}, {}, "Learning", "watch", "sentence learns"),
    (STILL | {"weights_moved": at_once(0.0, 1.4e-3)}, {}, "Learning", "watch", "Nothing pushes"),
    (STILL | {"weights_moved": at_once(0.0, 1.4e-3),
              "gradient_dissipation": at_once(0.1, 0.0)}, {}, "Learning", "watch"),
    (APART | DEAD, {}, "Learning", "good"),
    (APART | DEAD | {"negative_cosine": 0.58}, {}, "Learning", "watch"),
    (APART | DEAD | {"negative_cosine": 0.58}, RATED, "Learning", "not judged"),
    (APART | DEAD | {"negative_cosine": 0.42}, {}, "Learning", "good"),
    (PUSHED, {}, "Hard negatives", "good"),
    (PUSHED | {"hardest_share": 2.1 / 31}, {}, "Hard negatives", "watch"),
    (PUSHED | {"hardest_share": 3.0 / 31}, {}, "Hard negatives", "good"),
    (PUSHED | {"hardest_share": 2.1 / 31, "negative_cosine": 0.75}, {}, "Hard negatives", "watch"),
    (PUSHED | {"hardest_share": 2.1 / 31, "negative_cosine": 0.85}, {}, "Hard negatives",
     "not judged"),
    (PUSHED | {"uniform_share": 1 / 6}, {}, "Hard negatives", "not judged"),
    (PUSHED | {"uniform_share": 1 / 11}, {}, "Hard negatives", "good"),
    (PUSHED | {"hardest_share": 0.93}, COLD, "Hard negatives", "watch"),
    (PUSHED | {"hardest_share": 0.87}, COLD, "Hard negatives", "good"),
    (PUSHED | {"hardest_share": 0.93}, COOL, "Hard negatives", "good"),
    (OUTWEIGHED, {}, "Pull and push", "bad"),
    (OUTWEIGHED | {"ranking_accuracy": halves(0.5, 0.84), "ratio_median": 0.9}, {},
     "Pull and push", "watch"),
    (OUTWEIGHED | {"ranking_accuracy": halves(0.5, 0.94), "ratio_median": 0.9}, {},
     "Pull and push", "not judged"),
    (OUTWEIGHED | {"ranking_accuracy": halves(0.5, 0.9), "ratio_median": 0.3}, {},
     "Pull and push", "bad"),
    (OUTWEIGHED | PARTED | {"negative_cosine": at_once(0.8, 0.45)}, {}, "Pull and push", "bad"),
    (OUTWEIGHED | PARTED | {"negative_cosine": at_once(0.8, 0.35)}, {},
     "Pull and push", "not judged"),
    (OUTWEIGHED | {"lemma_share": 0.6}, {}, "Pull and push", "good"),
    (OUTWEIGHED | {"positive_cosine": 0.993}, {}, "Pull and push", "not judged"),
]  # fmt: skip

NEAR = {"positive_cosine": 0.9, "effective_rank": 9.0}
DRIFT = APART | {"anchor_drift": 0.9}
FIXED = {"weights_moved": at_once(0.0, 0.05), "learned_weight": 1.0}
RUNS += [
    (FIXED | {"learned_weight_gradient": 0.1}, {}, "Weights", "watch"),
    (FIXED | {"learned_weight_gradient": 0.0}, {}, "Weights", ""),
    (FIXED | {"learned_weight_gradient": 0.1, "learned_weight": at_once(1.0, 1.01)}, {},
     "Weights", ""),
    (FIXED | {"learned_weight_gradient": 0.1, "weights_moved": at_once(0.0, 0.7e-4)}, {},
     "Weights", ""),
    ({"learned_temperature": at_once(0.05, 0.0035)}, {}, "Temperature", "watch"),
    ({"learned_temperature": at_once(0.05, 0.007)}, {}, "Temperature", ""),
    ({"learned_temperature": at_once(0.05, -0.1)}, {}, "Temperature", "watch"),
    ({"learned_temperature": at_once(0.05, -0.1), "gradient_dissipation": -0.5}, {},
     "Temperature", "bad"),
    ({"learned_temperature": at_once(0.05, -0.1), "gradient_dissipation": 0.5}, {},
     "Temperature", ""),
    ({"learned_temperature": at_once(-3.0, -5.0)}, {}, "Temperature", ""),
    ({"learned_temperature": at_once(-3.0, -5.6)}, {}, "Temperature", "watch"),
    ({"learned_logit_scale": at_once(2.66, 5.7)}, {}, "Temperature", "watch"),
    ({"learned_logit_scale": at_once(2.66, 4.9)}, {}, "Temperature", ""),
    ({"learned_logit_scale": at_once(3.5, 5.7)}, {}, "Temperature", "watch"),
    ({"learned_logit_scale": at_once(7.0, 8.0)}, {}, "Temperature", ""),
    ({"learned_scale": at_once(20.0, 290.0)}, {}, "Temperature", "watch"),
    ({"learned_scale": at_once(20.0, 140.0)}, {}, "Temperature", ""),
    (APART | {"rows_without_gradient": 1.0}, {}, "Gradient", "watch"),
    (APART | {"rows_without_gradient": [1.0] * 29}, {}, "Gradient", ""),
    (APART | {"rows_without_gradient": [1.0] * 33}, {}, "Gradient", "watch"),
    (APART | {"repeated_rows": [1.0] * 33}, {}, "Batch", "watch"),
    (APART | {"repeated_rows": [1.0] * 29}, {}, "Batch", ""),
    ({name: [value] * 6 for name, value in APART.items()} | {"repeated_rows": [1.0] * 6}, {},
     "Batch", "watch"),
    ({name: [value] * 4 for name, value in APART.items()} | {"repeated_rows": [1.0] * 4}, {},
     "Batch", ""),
    (APART | {"alternating_rows": 0.8}, {}, "Batch", "bad"),
    (APART | {"opposed_pairs": 0.14}, {}, "Pairs", "watch"),
    (APART | {"opposed_pairs": 0.07}, {}, "Pairs", ""),
    (NEAR | {"negative_cosine": 0.897}, {}, "Pairs", "watch"),
    (NEAR | {"negative_cosine": 0.893}, {}, "Pairs", ""),  # .065 of the way
    (NEAR | {"negative_cosine": at_once(0.899, 0.8925)}, {}, "Pairs", "watch"),
    (NEAR | {"negative_cosine": at_once(0.899, 0.885)}, {}, "Pairs", ""),
    (DRIFT | {"constant_drift": 0.2}, {}, "Views", "watch"),
    (DRIFT | {"constant_drift": 0.45}, {}, "Views", ""),
    ({"weights_moved": at_once(0.0, 0.05), "weights_left": [0.011]}, {}, "Weights", "watch"),
    ({"weights_moved": at_once(0.0, 0.05), "weights_left": [0.022]}, {}, "Weights", ""),
]  # fmt: skip


def swinging(mean: float, width: float) -> list[float]:
    """Values by turns above and below a mean."""
    return [mean + width * (-1) ** at for at in range(COUNT)]


def until(record: int) -> Series:
    """Sentences of which none learns from a record on."""
    return ALIVE | {"gradient_dissipation": [0.4] * record + [0.7e-4] * (COUNT - record)}


def own(count: float, solved: float, alike: float, wrong: float, halfway: float) -> dict[str, Any]:
    """A loss of one's own with its values on known batches."""
    values = {"count": count, "solved": solved, "alike": alike, "wrong": wrong, "halfway": halfway}
    return {"watch": {"trials": {"": values}, "known": {"": False}}}


def learned() -> dict[str, Any]:
    """A loss that can hardly fall, with a temperature that is trained."""
    options = own(8, 1.5, LOG_8, 2.5, 1.5 + 0.2 * 0.579)
    options["watch"]["trials"][""] |= {"learned": 1.0}
    return options


def turned(*differences: float) -> dict[str, Any]:
    """A loss that is reversed, and its differences where embeddings are turned."""
    options = own(8, 1.0, 0.9, 0.5, 0.8)
    options["watch"]["trials"][""] |= {"turned": list(differences)}
    return options


def other_target(following: float, first: float) -> dict[str, Any]:
    """A loss of one's own of another target, with its values where that is met."""
    options = own(8, 17.5, 2.08, following, 5.0)
    options["watch"]["trials"][""] |= {"after_next": 17.5, "to_first": first, "to_last": 20.0}
    return options


FALLS = {NDCG: at_once(0.5, 0.4)}
LOG_8 = 2.0794
RUNS += [
    (APART | {"order": 0.43}, {}, "Order", "bad"),
    (APART | {"order": steadily(0.43, 0.43, 0.44, 0.46)}, {}, "Order", "watch"),
    (APART | {"order": swinging(0.43, 0.11)}, {}, "Order", "bad"),
    (APART | {"order": steadily(0.2, 0.2, 0.3, 0.3)}, {}, "Order", "watch"),
    (APART | {"order": steadily(0.2, 0.2, 0.23, 0.23)}, {}, "Order", "bad"),
    (APART | {"order": steadily(0.2, 0.2, 0.28, 0.28)}, {}, "Order", "watch"),
    (APART | FALLS | {"order": 0.47}, {}, "Order", "bad"),
    (APART | FALLS | {"order": swinging(0.46, 0.126)}, {}, "Order", "bad"),
    (until(1), {}, "Learning", "bad"),
    (until(3), {}, "Learning", "good"),
    (until(6), {"total": None}, "Learning", "bad"),
    (until(13), {"total": None}, "Learning", "good"),
    (STILL | {"gradient_dissipation": 0.7e-8, "weights_moved": at_once(0.0, 1.4e-3)}, {},
     "Learning", "watch"),
    (STILL | {"gradient_dissipation": 1.4e-8, "weights_moved": at_once(0.0, 1.4e-3)}, {},
     "Learning", "watch"),
    (APART, turned(0.5, 0.5, 0.4), "Formula", "bad"),
    (APART, turned(0.5, -0.2, 0.4), "Formula", ""),
    (APART, own(8, 0.7, LOG_8 + 0.6931 + 0.007, 5.0, 1.0), "Formula", "bad"),
    (APART, own(8, 0.7, LOG_8 + 0.6931 + 0.014, 5.0, 1.0), "Formula", ""),
    (APART, own(8, 1.5, LOG_8, 2.5, 1.5 + 0.1 * 0.579), "Formula", "bad"),
    (APART, own(8, 1.5, LOG_8, 2.5, 1.5 + 0.2 * 0.579), "Formula", "watch"),
    (APART, learned(), "Formula", ""),
    (FIRST_COSINES | {"batch_loss": at_once(2.7, 2.0)}, own(8, 1.5, LOG_8, 2.5, 1.616),
     "Formula", ""),
    (FIRST_COSINES | {"batch_loss": at_once(2.7, 2.3)}, own(8, 1.5, LOG_8, 2.5, 1.616),
     "Formula", "watch"),
    (APART, own(8, 0.9, LOG_8, 2.5, 0.95), "Formula", ""),
    (APART, own(8, 1.5, LOG_8, 2.7, 1.55), "Formula", "bad"),
    (APART, own(8, 1.5, LOG_8, 2.85, 1.55), "Formula", ""),  # of a smoothed target
    (APART, own(1202604.28, 8.0, 14.0, 19.0, 8.2), "Formula", "bad"),
    (APART, own(1446257064291.48, 15.0, 28.0, 40.0, 15.2), "Formula", ""),
    (APART, other_target(7.0, 20.0), "Formula", "bad"),
    (APART, other_target(17.9, 7.0), "Formula", "bad"),
    (APART, other_target(17.9, 11.0), "Formula", "watch"),
    # Sentences that no case says.
    (APART, {"status": "ended", "total": 100}, "Run", "watch"),
    (APART, {"status": "running", "total": 100}, "Run", "not judged"),
    (APART, {"status": "running", "total": 100, "silence": 900.0}, "Run", "watch"),
    (APART, {"status": ""}, "Run", "not judged"),
    ({"eval_loss": [0.5, float("nan"), float("nan")]}, {}, "Scores", "bad"),
    ({"eval_loss": [0.5]}, {"begin": 9}, "Scores", "not judged"),
    ({NDCG: [0.5, 0.6]}, {"begin": 9}, "Scores", "not judged"),
    (STILL | {"gradient_dissipation": at_once(0.3, 0.0), "negative_cosine": at_once(0.5, 0.99),
              "effective_rank": at_once(20.0, 2.0)}, {}, "Learning", "bad"),
    (APART | {NDCG: at_once(0.5, float("nan"))}, {}, "Scores", "bad"),
    (APART | {"negative_cosine": 0.77, NDCG: at_once(0.4, 0.5)}, {}, "Spread", "good"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(
            f"run {number}: {subject} {grade}",
            "report",
            frozen(series, options),
            subject,
            grade,
            *words,
        )
        for number, (series, options, subject, grade, *words) in enumerate(RUNS)
    ]


def frozen(series: Series, options: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return a frozen run of ``steps`` records, in which a number stands for equal values."""
    count, pause = options.get("steps", COUNT - 1), options.get("pause", 1)
    groups: dict[str, list[Any]] = {}
    watch = {"total_steps": options.get("total", count)} | options.get("watch", {})
    for name, values in series.items():
        if name == "watch":
            watch |= values
            continue
        points: Sequence[float] = values if isinstance(values, list) else [values] * (count + 1)
        begin = options.get("begin", 0)
        steps = [begin + round(at * count / max(1, len(points) - 1)) for at in range(len(points))]
        group = GROUPS.get(name, "histogram" if ":" in name else "diagnostics")
        groups.setdefault(group, []).append([steps, {NAMES.get(name, name): list(points)}])
    seconds = [pause * step for step in range(count + 1)]
    groups["watch"] = [[list(range(count + 1)), {"run_seconds": seconds}]]
    manifest = {"kind": options.get("kind", "watched run")}
    manifest |= {"status": options.get("status", "finished")}
    manifest |= {"config": options.get("config", {}), "watch": watch}
    manifest |= {"why": options["why"]} if "why" in options else {}
    return {"manifest": manifest, "series": groups, "silence": options.get("silence", 0.0)}

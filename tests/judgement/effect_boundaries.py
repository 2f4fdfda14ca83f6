"""Runs and set-ups on either side of limits on what steps change, rates, and evaluated answers."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import Row
from tests.judgement.run_boundaries import (
    APART,
    COUNT,
    LOG_8,
    Series,
    at_once,
    frozen,
    own,
    point,
    steadily,
)
from tests.judgement.step_boundaries import RATE, STEPS
from tests.judgement.titled_runs import Run

ADAM = STEPS | {"step_of_rate": 0.3, "step_gradient": 1e-2}
SGD = STEPS | {"step_size": 1e-5}


def ending_in(count: int, less: float, more: float) -> list[float]:
    """Values of which so many at the beginning are the first one."""
    return [less] * count + [more] * (COUNT - count)


def waiting(count: int, batches: float, **numbers: Any) -> Series:
    """Records of which so many are followed by batches without a step."""
    series = {"stale": 0.0, "following_stale": 0.0} | numbers
    return STEPS | series | {"batches_without_step": [batches] * count}


def shares(*ends: float, set_to: float = RATE) -> Series:
    """A rate of so many shares of the one that was set."""
    values = steadily(*ends)
    return APART | {
        "rate_share": values, "optimizer_rate": [set_to * share for share in values],
    }  # fmt: skip


def returning(before: float, after: float, place: int = 20) -> Series:
    """Weights that go back from one distance to another."""
    first = [before * (at + 1) / place for at in range(place)]
    return APART | {"weights_moved": first + [after] * (COUNT - place)}


def falling(share: float) -> list[float]:
    """Rates that are little in a share of the logs at the end."""
    return [1e-4] * round((1 - share) * COUNT) + [2e-6] * round(share * COUNT)


def stretched(change: float) -> Series:
    """A softmax whose loss changes by so much with the sizes of dimensions."""
    options: dict[str, Any] = own(8, 0.0, LOG_8, 20.0, 0.0)
    options["watch"]["trials"][""] |= {"drawn": 10.0, "stretched": 10.0 + change}
    return APART | options


def followed(updates: int, waits: int) -> Series:
    """Records that a step follows, and such that a batch follows first."""
    return APART | {
        "optimizer_rate": [1e-3] * updates, "batches_without_step": [1.0] * waits,
    }  # fmt: skip


UNRELATED_VIEWS = {"positive_cosine": 0.8, "negative_cosine": 0.8, "effective_rank": 20.0}
# Triplets whose margins are met, of rows that are no nearer to their positives than to others.
MET = {"positive_cosine": 0.4, "negative_cosine": 0.4, "effective_rank": 20.0}


def ranking(first: float, mean: float, width: float = 0.0447) -> list[float]:
    """Ranking accuracies of one mean in the first third, and of another one afterwards."""
    return [first] * (COUNT // 3) + [mean - width, mean + width] * ((COUNT - COUNT // 3 + 1) // 2)


IN_A_CONE = {"positive_cosine": 0.985, "negative_cosine": 0.985, "effective_rank": 20.0}
NO_NEGATIVES = {"watch": {"trials": {"": {"nearer": 0, "all_nearer": 0}}}}
# Ranking accuracy of pairs that are learned by heart in the second half.
LATELY = [*[0.5] * 10, *[0.75] * 10, *[0.97] * 20]
WORDS_AT_CHANCE = APART | {"overlap_rank": 0.5, "ranking_accuracy": LATELY}
TENTH = APART | {"arriving_gradient": 0.1, "step_size": 7e-4}
ACCURACY, SPEARMAN = "eval_a_cosine_accuracy", "eval_a_spearman_cosine"
PRIMARY = {"watch": {"primary": ACCURACY}}
EFFECT_RUNS = [
    Run("steps along the gradient", ADAM | {"step_cosine": -0.03}, "Optimizer", "bad", "maximised"),
    Run("steps hardly along the gradient", ADAM | {"step_cosine": -0.014}, "Optimizer", ""),
    Run("steps along the gradient in 28 records", ADAM | {"step_cosine": ending_in(28, -0.1, 0.1)},
        "Optimizer", ""),
    Run("steps along the gradient in 34 records", ADAM | {"step_cosine": ending_in(34, -0.1, 0.1)},
        "Optimizer", "bad", "85%"),
    Run("40% of the weights unchanged", ADAM | {"step_unchanged": 0.4}, "Precision", ""),
    Run("70% of the weights unchanged", ADAM | {"step_unchanged": 0.7}, "Precision", "watch",
        "float32"),
    Run("70% of half weights unchanged", ADAM | {"step_unchanged": 0.7, "weights_in_half": 1.0},
        "Precision", "watch", "bfloat16"),
    Run("a rate of 0 at all steps", APART | {"optimizer_rate": 0.0, "step_unchanged": 1.0},
        "Schedule", "bad", "is 0 at"),
    Run("a rate of 0 at the first steps", ADAM | {"optimizer_rate": ending_in(1, 0.0, RATE)},
        "Schedule", ""),
    Run("a rate of 0 in 3 records", APART | {"optimizer_rate": [0.0] * 3}, "Schedule", ""),
    Run("40% of the weights without a rate", ADAM | {"weights_without_rate": 0.4}, "Optimizer", ""),
    Run("70% of the weights without a rate", ADAM | {"weights_without_rate": 0.7,
        "step_unchanged": 0.7}, "Optimizer", "watch", "70%"),
    Run("steps of 1.4% of the rate", ADAM | {"step_of_rate": 0.014, "step_gradient": 1e-8},
        "Optimizer", ""),
    Run("steps of 0.7% of the rate", ADAM | {"step_of_rate": 0.007, "step_gradient": 0.7e-7},
        "Optimizer", "watch", "epsilon"),
    Run("small steps by a usual gradient", ADAM | {"step_of_rate": 0.007, "step_gradient": 1.4e-7},
        "Optimizer", ""),
    Run("a loss divided by 500", SGD | {"arriving_gradient": 0.002, "arriving_cosine": 1.0},
        "Gradient", "watch", "fraction"),
    Run("a loss divided by 250", SGD | {"arriving_gradient": 0.004, "arriving_cosine": 1.0},
        "Gradient", "watch", "250 accum"),
    Run("a loss divided by 500 at a large rate", SGD | {"arriving_gradient": 0.002,
        "arriving_cosine": 1.0, "step_size": 1.4e-4}, "Gradient", ""),
    Run("a loss divided by 500 at a small rate", SGD | {"arriving_gradient": 0.002,
        "arriving_cosine": 1.0, "step_size": 0.7e-4}, "Gradient", "watch"),
    Run("a rate that stays at 40%", shares(0.4, 0.4), "Schedule", "watch", "never called"),
    Run("a rate that stays at 60%", shares(0.6, 0.6), "Schedule", ""),
    Run("a rate that rises to 4%", shares(0.038, 0.04), "Schedule", "watch", "far more steps"),
    Run("a rate that falls from 40%", shares(0.4, 0.2), "Schedule", ""),
    Run("a factor of a rate", shares(0.01, 0.01, set_to=0.7), "Schedule", ""),
    Run("a large rate", shares(0.01, 0.01, set_to=0.35), "Schedule", "watch"),
    Run("weights that go back to 40%", returning(0.1, 0.04), "Weights", "watch", "went back"),
    Run("weights that go back to 60%", returning(0.1, 0.06), "Weights", ""),
    Run("weights that go back where others join", returning(0.1, 0.04)
        | {"optimizer_rate": RATE, "new_weights": [0.5] * 3}, "Weights", ""),
    Run("weights near the beginning", returning(0.7e-3, 0.1e-3), "Weights", ""),
    Run("weights a little away from it", returning(1.4e-3, 0.1e-3), "Weights", "watch"),
    Run("a recording that begins anew", returning(0.1, 0.0) | {"watch": {"resumed": 20}},
        "Weights", ""),
    Run("batches without a step", waiting(30, 1.1), "Gradient", "watch", "thrown away"),
    Run("some batches without a step", waiting(30, 0.9), "Gradient", ""),
    Run("few records without a step", waiting(15, 7.0), "Gradient", ""),
    Run("half of the records without a step", waiting(28, 1.4), "Gradient", "watch"),
    Run("gradients that are added up", waiting(40, 2.0, following_stale=0.014), "Gradient", ""),
    Run("gradients that are cleared", waiting(40, 2.0, following_stale=0.007), "Gradient",
        "watch"),
    Run("40% of the weights frozen later", APART | {"frozen_since": [0.4] * 20}, "Weights", ""),
    Run("70% of the weights frozen later", APART | {"frozen_since": [0.7] * 20}, "Weights",
        "watch", "frozen since step"),
    Run("texts cut at 70% of their length", APART | {"length_left": [0.7] * 20}, "Truncation", ""),
    Run("texts cut at 35% of their length", APART | {"length_left": [0.35] * 20}, "Truncation",
        "watch", "max_seq_length"),
    Run("two records of texts cut", APART | {"length_left": [0.35] * 2}, "Truncation", ""),
    Run("a rate of .0035 and a collapse", point(COUNT) | {"step_of_rate": 0.3,
        "optimizer_rate": 3.5e-3}, "Optimizer", ""),
    Run("a rate of .007 and a collapse", point(COUNT) | {"step_of_rate": 0.3,
        "optimizer_rate": 7e-3}, "Optimizer", "watch", "too high"),
    Run("a rate of .007", ADAM | {"optimizer_rate": 7e-3}, "Optimizer", ""),
    Run("9 updates in 40 records", followed(9, 40), "Gradient", "watch", "few updates"),
    Run("14 updates in 40 records", followed(14, 40), "Gradient", ""),
    Run("9 updates in 19 records", followed(9, 16), "Gradient", "watch", "few updates"),
    Run("9 updates in 17 records", followed(9, 10), "Gradient", ""),
    Run("0.7% of the gradient at padding", APART | {"padding_gradient": 0.007}, "Padding", "watch"),
    Run("0.35% of the gradient at padding", APART | {"padding_gradient": 0.0035}, "Padding", ""),
    Run("a token of 60%", APART | {"commonest_token": 0.6}, "Tokens", "watch"),
    Run("a token of 35%", APART | {"commonest_token": 0.35}, "Tokens", ""),
    Run("half of the texts in a batch twice", APART | {"equal_texts": 0.5}, "Texts", "watch",
        "another row has as well"),
    Run("a third of the texts in a batch twice", APART | {"equal_texts": 0.35}, "Texts", ""),
    Run("equal texts of a teacher", APART | {"equal_texts": 0.5} | NO_NEGATIVES, "Texts", ""),
    Run("60% of the texts joined", APART | {"joined_texts": 0.6}, "Texts", "watch", "as one"),
    Run("40% of the texts joined", APART | {"joined_texts": 0.4}, "Texts", ""),
    Run("words and embeddings at chance", WORDS_AT_CHANCE, "Pairs", "watch", "words in common"),
    Run("words below chance", WORDS_AT_CHANCE | {"overlap_rank": 0.4}, "Pairs", ""),
    Run("words at chance of pairs that are soon found", WORDS_AT_CHANCE
        | {"ranking_accuracy": [*[0.5] * 10, *[0.85] * 10, *[0.97] * 20]}, "Pairs", ""),
    Run("words at chance of pairs that are near at first", WORDS_AT_CHANCE
        | {"ranking_accuracy": [*[0.7] * 10, *[0.75] * 10, *[0.97] * 20]}, "Pairs", ""),
    Run("words that foretell those of partners", WORDS_AT_CHANCE | {"foretold_rank": 0.7},
        "Pairs", ""),
    Run("words that hardly foretell those of partners", WORDS_AT_CHANCE | {"foretold_rank": 0.55},
        "Pairs", "watch", "words in common"),
    Run("unrelated views and a loss that is met", MET | {"batch_loss": at_once(1.0, 0.014)},
        "Pairs", ""),
    Run("unrelated views and a loss that is nearly met", MET | {"batch_loss": at_once(1.0, 0.03)},
        "Pairs", "watch"),
    Run("unrelated views close together and a loss that is met", UNRELATED_VIEWS
        | {"batch_loss": at_once(1.0, 0.014), "negative_cosine": 0.7, "positive_cosine": 0.7},
        "Pairs", "watch"),
    Run("views that are surely nearer", IN_A_CONE | {"ranking_accuracy": ranking(0.5, 0.56)},
        "Pairs", ""),
    Run("views that are nearer perhaps", IN_A_CONE | {"ranking_accuracy": ranking(0.5, 0.53)},
        "Pairs", "watch"),
    Run("views that are a little less near", IN_A_CONE
        | {"ranking_accuracy": ranking(0.575, 0.56)}, "Pairs", ""),
    Run("views that are less near", IN_A_CONE | {"ranking_accuracy": ranking(0.59, 0.56)},
        "Pairs", "watch"),
    Run("views that are surely nearer in a wider cone", dict.fromkeys(
        ("positive_cosine", "negative_cosine"), 0.97) | {"effective_rank": 20.0,
        "ranking_accuracy": ranking(0.5, 0.56)}, "Pairs", "watch"),
    Run("views that are surely nearer outside of a cone", UNRELATED_VIEWS
        | {"ranking_accuracy": ranking(0.5, 0.56)}, "Pairs", "watch"),
    Run("words near chance", WORDS_AT_CHANCE | {"overlap_rank": 0.55}, "Pairs", "watch"),
    Run("unrelated views whose words belong together", UNRELATED_VIEWS | {"overlap_rank": 0.8},
        "Pairs", "watch", "does not draw them together"),
    Run("unrelated views", UNRELATED_VIEWS | {"overlap_rank": 0.7}, "Pairs", "watch",
        "seem unrelated"),
    Run("words above chance", WORDS_AT_CHANCE | {"overlap_rank": 0.6}, "Pairs", ""),
    Run("words at chance in two records", WORDS_AT_CHANCE | {"overlap_rank": [0.5] * 2},
        "Pairs", ""),
    Run("words at chance, and an encoder that ranks pairs", WORDS_AT_CHANCE
        | {"ranking_accuracy": at_once(0.7, 0.9)}, "Pairs", ""),
    Run("weights of 40% of their norm", ADAM | {"weights_norm": 0.4}, "Weights", "watch", "zero"),
    Run("weights of 70% of their norm", ADAM | {"weights_norm": 0.7}, "Weights", ""),
    Run("a tenth of the gradient, stepped each time", TENTH, "Gradient", "watch", "10 accum"),
    Run("a fifth of the gradient, stepped each time", TENTH | {"arriving_gradient": 0.2},
        "Gradient", ""),
    Run("a tenth of the gradient, in larger steps", TENTH | {"step_size": 1.4e-3}, "Gradient", ""),
    Run("a tenth of the gradient, after several batches", TENTH | {"batches_without_step": 9.0},
        "Gradient", ""),
    Run("an accuracy far below a half", APART | {ACCURACY: [0.5, 0.15]}, "Scores", "bad",
        "exchanged", PRIMARY),
    Run("an accuracy below a half", APART | {ACCURACY: [0.5, 0.35]}, "Scores", "bad",
        "encoder.$|encoder. Lower|encoder. Look for", PRIMARY),
    Run("a correlation far below 0", APART | {SPEARMAN: [0.0, -0.5]}, "Scores", "bad", "exchanged"),
    Run("a correlation below 0", APART | {SPEARMAN: [0.0, -0.2]}, "Scores", "bad",
        "encoder. L"),
    Run("a correlation far below 0, cosines .15 apart", APART | {SPEARMAN: [0.0, -0.5],
        "negative_cosine": 0.65}, "Scores", "bad", "exchanged"),
    Run("a correlation far below 0, cosines .07 apart", APART | {SPEARMAN: [0.0, -0.5],
        "negative_cosine": 0.73}, "Scores", "bad", "encoder. L"),
    Run("a rate that is little in 40% of the logs", APART | {"learning_rate": falling(0.4)},
        "Schedule", ""),
    Run("a rate that is little in 55% of the logs", APART | {"learning_rate": falling(0.55)},
        "Schedule", "watch", "falls too fast"),
    Run("a rate of .07 in 55% of the logs", APART | {"learning_rate": [1e-4] * 18 + [7e-6] * 22},
        "Schedule", ""),
    Run("a rate of .035 in 55% of the logs", APART | {"learning_rate": [1e-4] * 18 + [3.5e-6] * 22},
        "Schedule", "watch"),
    Run("dimensions of any size", stretched(7e-6), "Formula", "bad", "dim=0"),
    Run("dimensions of nearly any size", stretched(1.4e-5), "Formula", ""),
]  # fmt: skip

SCHEDULE = {"steps": 100, "warmup": 0, "peak": 1.0, "mean": 0.2}
TRAINED = {"numbers": 640, "trained": 10, "tensors": 39, "adapters": 0, "trained_adapters": 0,
           "adapter": ""}  # fmt: skip
RUNNING = {"name": "2.norm", "momentum": 1e-5, "kept": 1.0, "cosine": 0.1}
SETTINGS = {"optimizer": "AdamW", "epsilon": 1e-8, "decay": 0.01, "without_rate": 0.0}
ANSWERS = {"name": "a", "empty": 0.0, "gold": 0, "commonest": 0.0, "repeated": 0.0}
RATES = {"adapters": False, "dense": True}
NAMED = {"name": "a"}
OF_OPTIMIZERS: list[tuple[Any, ...]] = [
    ("schedule", SCHEDULE | {"low": 0.35}, "good"),
    ("schedule", SCHEDULE | {"low": 0.6}, "watch", "falls too fast"),
    ("weights", TRAINED | {"norms": 10}, "watch", "normalisation layers only"),
    ("weights", TRAINED | {"norms": 9}, "good"),
    ("running", RUNNING | {"kept": 0.6}, "bad", "batch norm"),
    ("running", RUNNING | {"kept": 0.35}, ""),
    ("running", RUNNING | {"cosine": 0.85}, "bad"),
    ("running", RUNNING | {"cosine": 0.92}, ""),
    ("settings", SETTINGS | {"maximize": True}, "bad", "uphill"),
    ("settings", SETTINGS | {"gradient": 7e-10, "clip": 1e-7}, "watch", "max_grad_norm"),
    ("learning_rate", RATES | {"rate": 0.035, "optimizer": "Adadelta"}, "watch", "default"),
    ("learning_rate", RATES | {"rate": 0.07, "optimizer": "Adadelta"}, "good"),
    ("learning_rate", RATES | {"rate": 3.5e-4, "optimizer": "adagrad"}, "watch", "needs 0.0005"),
    ("learning_rate", RATES | {"rate": 7e-4, "optimizer": "adagrad"}, "good"),
    ("learning_rate", RATES | {"rate": 0.03, "optimizer": "rmsprop"}, "bad", "ruins"),
    ("roles", NAMED | {"trained": ["q: ", "d: "], "evaluated": ["d: ", "q: "]}, "watch",
     "exchanged"),
    ("roles", NAMED | {"trained": ["q: ", "d: "], "evaluated": ["q: ", "d: "]}, ""),
    ("roles", NAMED | {"trained": ["q: ", "d: "], "evaluated": ["q: ", ""]}, "watch",
     "no prompt before documents"),
    ("roles", NAMED | {"trained": ["q: ", ""], "evaluated": ["question: ", ""]}, "watch",
     "before queries"),
    ("roles", NAMED | {"trained": ["", ""], "evaluated": ["q: ", ""]}, ""),
    ("unanswered", {"answers": [ANSWERS | {"empty": 0.07}]}, ""),
    ("unanswered", {"answers": [ANSWERS | {"empty": 0.14}]}, "watch", "no right document"),
    ("unanswered", {"answers": [ANSWERS | {"gold": 28, "commonest": 0.965}]}, "watch", "the same"),
    ("unanswered", {"answers": [ANSWERS | {"gold": 28, "commonest": 0.93}]}, ""),
    ("unanswered", {"answers": [ANSWERS | {"gold": 14, "commonest": 0.965}]}, ""),
    ("unanswered", {"answers": [ANSWERS | {"repeated": 0.4}]}, ""),
    ("unanswered", {"answers": [ANSWERS | {"ranked": 90, "ranks": [0.5, 0.85, 0.5]}]}, "watch",
     "before the right ones"),
    ("unanswered", {"answers": [ANSWERS | {"ranked": 90, "ranks": [0.5, 0.5, 0.85]}]}, "watch",
     "after the right ones"),
    ("unanswered", {"answers": [ANSWERS | {"ranked": 90, "ranks": [0.5, 0.7, 0.5]}]}, ""),
    ("unanswered", {"answers": [ANSWERS | {"ranked": 90, "ranks": [0.9, 0.9, 0.5]}]}, ""),
    ("unanswered", {"answers": [ANSWERS | {"repeated": 0.7}]}, "watch", "word by word"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in EFFECT_RUNS
    ]  # fmt: skip


def doctor_rows() -> list[Row]:
    """Return each row of the doctor."""
    return [
        Row(f"{check} {numbers}", "doctor", {"trainer": {check: numbers}}, "", *said)
        for check, numbers, *said in OF_OPTIMIZERS
    ]

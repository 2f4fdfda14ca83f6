"""Measurements on either side of limits on signs that are bad only beside a second one.

Rows are as in `tests.judgement.boundaries`.
"""

from __future__ import annotations

from typing import Any

from tests.judgement.effect_boundaries import ANSWERS
from tests.judgement.form_boundaries import BY_CHANCE_ALONE, CONFLICTS, SOUGHT, STRAYS
from tests.judgement.loss_boundaries import (
    AGREEMENT,
    BALANCE,
    CONTRADICTIONS,
    LABELS,
    RELATION,
    SOUND_TEXTS,
)

PROMPTS: dict[str, Any] = {"outer": [], "columns": ["query", "positive"], "sets": []}
SHIFTED = ANSWERS | {"ranked": 90, "ranks": [0.5, 0.5, 0.85]}
REACHES_ALL = ANSWERS | {"documents": 10, "places": 10, "measure": "recall"}
MISSING = BALANCE | {"gap": 0.7}
REVERSED = AGREEMENT | {"words": -0.4, "embeddings": -0.1}
IGNORED = LABELS | {"loss": "MultipleNegativesRankingLoss", "ignored": True, "ranked": 150}
UNITS = {"largest": 8.0, "reach": 2.0, "bounded": True}
DIRECTION = {"solved": 0.0, "wrong": 1.0, "close": 0.0}
THIRD = {"told": 0.5, "third": 0.95}


def _named(*names: str, **own: bool) -> dict[str, Any]:
    return {"names": list(names), "row": list(names), **own}


OF_TRAINERS: list[tuple[Any, ...]] = [
    ("best", {"metric": "eval_mse_loss_map", "greater": True}, ""),
    ("best", {"metric": "eval_negative_mse", "greater": True}, ""),
    ("best", {"metric": "eval_negative_mse", "greater": False}, "bad"),
    ("best", {"metric": "eval_loss_map", "greater": True, "measure": "eval_map"}, ""),
    ("prompts", PROMPTS | {"prompts": {"query": "a: ", "negative": "b: ", "positive": "b: "}},
     "good"),
    ("prompts", PROMPTS | {"prompts": {"query": "a: ", "document": "b: "}}, "watch", "never used"),
    ("prompts", PROMPTS | {"prompts": {"query": "a: ", "document": ""}}, "good"),
    ("prompts", PROMPTS | {"columns": ["answer", "question"], "prompts": {
        "answer": "query: ", "question": "passage: "}}, "good"),
    ("unanswered", {"answers": [SHIFTED]}, "watch"),
    ("unanswered", {"answers": [SHIFTED | {"right_beside": [1.0, 0.35]}]}, ""),
    ("unanswered", {"answers": [SHIFTED | {"right_beside": [0.0, 0.7]}]}, "watch"),
    ("unanswered", {"answers": [SOUGHT | {"of_others": 0.35}]}, "watch"),
    ("unanswered", {"answers": [SOUGHT | {"of_others": 0.7}]}, "watch"),
    ("unanswered", {"answers": [REACHES_ALL | {"chosen": True}]}, "bad"),
    ("unanswered", {"answers": [REACHES_ALL | {"chosen": False}]}, "watch"),
    ("conflicts", CONFLICTS | {"share": 0.7, "sets": 2, "foreign": 0.1}, "bad"),
    ("conflicts", CONFLICTS | {"share": 0.7, "sets": 2, "foreign": 0.4}, "watch"),
    ("gold", {"answers": [{"name": "a", "kind": "triplets", "count": 96, "distinct": 1}]}, ""),
    ("gold", {"answers": [{"name": "a", "kind": "triplets", "count": 1, "distinct": 1}]}, "watch"),
]  # fmt: skip
OF_LOSSES: list[tuple[Any, ...]] = [
    ("columns", _named("wish", "query", "negative"), "good"),
    ("columns", _named("prompt", "response_chosen", "response_rejected"), "good"),
    ("columns", _named("answer", "question", "wrong_question"), "good"),
    ("columns", _named("answer", "question"), "good"),
    ("columns", _named("question_a", "question_b", "question_c"), "good"),
    ("columns", _named("answer", "question", "negative"), "watch"),
    ("columns", _named("question", "context", "answer"), "watch"),
    ("columns", _named("query", "hardNegative", "answer"), "bad", "says negative"),
    ("columns", _named("query", "hardNegative", "answer", own=True), "watch"),
    ("columns", _named("anchor", "positive", "positive_2"), "bad"),
    ("columns", _named("anchor", "positive", "positive_2", own=True), "good"),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 80, 160, 2]}, "in_batch": True}, "watch"),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 80, 160, 2]}, "in_batch": False}, ""),
    ("direction", DIRECTION | {"below": 0.0}, "watch", "allow that"),
    ("direction", DIRECTION | {"below": 0.7e-3}, "watch", "allow that"),
    ("direction", DIRECTION | {"below": 1.4e-3}, ""),
    ("direction", DIRECTION | {"wrong": 0.0, "below": 0.3}, ""),
    ("direction", DIRECTION | {"wrong": 0.0, "below": 0.0}, "bad", "nothing is asked"),
    ("direction", {"solved": 3.0, "wrong": 2.0, "close": 2.5, "united": 0.1}, ""),
    ("direction", {"solved": 3.0, "wrong": 2.0, "close": 2.5, "united": 2.5}, "bad", "reversed"),
    ("balance", MISSING, "watch", "missing label"),
    ("balance", MISSING | {"place": 0.3, "placed": 12}, "watch"),
    ("balance", MISSING | {"place": 0.3, "placed": 20}, ""),
    ("balance", MISSING | {"edge": 9.0, "place": 0.7, "placed": 20}, ""),
    ("balance", MISSING | {"place": 0.5, "placed": 99}, "watch"),
    ("balance", MISSING | {"label": -1.0, "place": 0.3, "placed": 20}, ""),
    ("contradictions", CONTRADICTIONS | {"share": 0.35, "within": 0.8}, "bad"),
    ("contradictions", CONTRADICTIONS | {"share": 0.35, "within": 0.5}, "watch"),
    ("relation", RELATION | {"before": 0.7, "explained": 0.3}, "watch", "shifted"),
    ("relation", RELATION | {"before": 0.7, "explained": 0.4}, ""),
    ("relation", RELATION | {"explained": 0.22}, "watch"),
    ("relation", RELATION | {"explained": 0.4}, ""),
    ("agreement", REVERSED | {"highest": 0.7}, "bad"),
    ("agreement", REVERSED | {"highest": 0.85}, "watch"),
    ("preference", {"rows": 60, "teacher": 0.65, "words": 0.3}, "bad"),
    ("preference", {"rows": 30, "teacher": 0.65, "words": 0.3}, ""),
    ("preference", {"rows": 36, "teacher": 0.62, "words": 0.3}, "watch"),
    ("labels", LABELS | {"high": 1.0007}, "good"),
    ("labels", LABELS | {"high": 1.0014}, "bad"),
    ("labels", LABELS | {"high": 5.0, "scaled": True}, "good"),
    ("labels", LABELS | {"loss": "ContrastiveLoss", "low": 1.0, "distinct": 1, "of_sets": 2},
     "good"),
    ("labels", LABELS | {"loss": "ContrastiveLoss", "low": 1.0, "distinct": 1, "of_sets": 1},
     "bad"),
    ("labels", IGNORED | {"telling": 0.35}, "bad"),
    ("labels", IGNORED | {"telling": 0.25, "ranked": 300}, "watch"),
    ("labels", IGNORED | {"telling": 0.0, "distinct": 3}, "watch"),
    ("labels", IGNORED | {"telling": 0.35, "ranked": 90}, "watch"),
    ("labels", IGNORED | {"telling": 0.35, "low": 0.7}, "watch"),
    ("labels", IGNORED | {"telling": 0.35, "low": 0.35}, "bad"),
    ("labels", IGNORED | {"telling": 0.0, "distinct": 2}, "bad"),
    ("classes", {"rows": 512, "with_mate": 0.2, "single_class": 0.0, "own": True}, "watch"),
    ("teacher", UNITS | {"beyond": 0.035}, "good"),
    ("teacher", UNITS | {"beyond": 0.07}, "watch"),
    ("teacher", UNITS | {"beyond": 0.2}, "watch"),
    ("teacher", UNITS | {"beyond": 0.43}, "watch"),
    ("strays", STRAYS | {"share": 0.0, "partners": BY_CHANCE_ALONE | THIRD | {"repetition": 0.35}},
     "watch", "exchanged"),
    ("strays", STRAYS | {"share": 0.0, "partners": BY_CHANCE_ALONE | THIRD | {"repetition": 0.7}},
     "watch", "exchanged"),
]  # fmt: skip

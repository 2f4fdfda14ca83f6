"""Measurements on either side of a limit of the doctor, nearer than its half and its double.

Each row holds a check, its numbers, and the grade that they must get. So a limit that moves by half
is noticed, whatever the cases of the set measure.
"""

from __future__ import annotations

from typing import Any

from tests.judgement.loss_boundaries import OF_LOSSES

RATE = {"optimizer": "adamw_torch", "adapters": False, "dense": True}
HALF = {"trained": 9, "float16": 0, "bfloat16": 9, "rate": 1e-5}
REACHED = {
    "due": 12, "missed": "a", "adapters": 0, "reached_adapters": 0, "broken": 0, "broken_name": "",
    "reason": "",
}  # fmt: skip
ENDS = {"end": "</s>", "end_is_padding": False}
EVALUATOR = {"prompt": "", "has_prompt": False, "texts": 50, "in_training": 0.0}
REACH = {
    "optimizer": "adamw_torch", "rate": 1e-4, "steps": 100, "norm": 5.0, "clip": 1.0,
    "moved": 0.1, "adapter": None,
}  # fmt: skip
USE = {
    "trained": "cosine", "compared": "cosine", "unit": False, "cut": 0, "width": 32, "widths": [],
}  # fmt: skip
COLUMNS = {"outer": [], "columns": ["query", "passage"], "sets": []}
GOLD = {"name": "a", "kind": "scores", "count": 80, "distinct": 9, "words": 0.8}
STEPS = {"rows": 160, "batch": 16, "batches": 10, "accumulation": 1}
SETTINGS = {"optimizer": "adamw_torch", "epsilon": 1e-8, "decay": 0.01, "without_rate": 0.0}
EVALUATIONS = {"attached": "an evaluator", "strategy": "steps", "interval": 10, "steps": 100}
STOPPING = {"patience": 3, "threshold": 0.0, "interval": 10, "warmup": 10, "steps": 100}
ROUTES = {"routes": ["query", "document"], "columns": ["anchor", "positive"]}
STRONG = {"adapter": 0.1, "rate": 1e-4}
RELEVANT = {
    "name": "a", "kind": "documents", "count": 96, "distinct": 96, "missing": 0.0, "nearest": 0.2,
}  # fmt: skip
SAVED = {"cosine": 1.0, "length": 1.0, "half": False, "prompts_kept": True}
FRESH = {"share": 1.0, "layers": 5, "weights": 34112, "rates": 0.01}
PIPELINE = {
    "stored": ["Transformer", "Pooling", "Normalize"],
    "used": ["Transformer", "Pooling", "Normalize"], "stored_pooling": "cls", "used_pooling": "cls",
}  # fmt: skip
PROPORTIONS = {"sets": 2, "name": "own", "rows": 80, "in_turns": False}
FIELD = {"texts": 60, "rows": 160, "halves": 0.7}
OF_TRAINERS: list[tuple[str, dict[str, Any], str]] = [
    ("learning_rate", RATE | {"rate": 1.4e-7}, "good"),
    ("learning_rate", RATE | {"rate": 0.7e-7}, "bad"),
    ("learning_rate", RATE | {"rate": 0.7e-3}, "good"),
    ("learning_rate", RATE | {"rate": 1.4e-3}, "watch"),
    ("learning_rate", RATE | {"rate": 3.5e-3}, "watch"),
    ("learning_rate", RATE | {"rate": 7e-3}, "bad"),
    ("learning_rate", RATE | {"rate": 3.5e-3, "adapters": True}, "good"),
    ("learning_rate", RATE | {"rate": 0.1, "dense": False}, "good"),
    ("learning_rate", RATE | {"rate": 1e-2, "adapters": True, "width": 32}, "good"),
    ("learning_rate", RATE | {"rate": 3e-2, "adapters": True, "width": 32}, "bad"),
    ("learning_rate", RATE | {"rate": 1e-2, "adapters": True, "width": 312}, "bad"),
    ("learning_rate", RATE | {"rate": 1e-3, "width": 32}, "good"),
    ("learning_rate", RATE | {"rate": 1e-3, "width": 312}, "watch"),
    ("learning_rate", RATE | {"rate": 1.4e-2, "width": 32}, "watch"),
    ("precision", HALF | {"unchanged": 0.4}, "watch"),
    ("precision", HALF | {"unchanged": 0.6}, "bad"),
    ("length", {"truncated": 0.2, "limit": 64}, "good"),
    ("length", {"truncated": 0.3, "limit": 64}, "watch"),
    ("length", {"truncated": 0.7, "limit": 12}, "watch"),
    ("length", {"truncated": 0.8, "limit": 12}, "bad"),
    ("length", {"truncated": 0.8, "limit": 24}, "watch"),
    ("gradient", REACHED | {"reached": 7}, "good"),
    ("gradient", REACHED | {"reached": 5}, "watch"),
    ("beside", {"cosine": 1 - 0.7e-3, "half": False}, "good"),
    ("beside", {"cosine": 1 - 1.4e-3, "half": False}, "bad"),
    ("beside", {"cosine": 1 - 2e-2, "half": True}, "good"),
    ("beside", {"cosine": 1 - 4e-2, "half": True}, "bad"),
    ("last_token", ENDS | {"ends": 0.985}, "good"),
    ("last_token", ENDS | {"ends": 0.97}, "watch"),
    ("apart", {"cosine": 1 - 0.7e-3, "half": False}, ""),
    ("apart", {"cosine": 1 - 1.4e-3, "half": False}, "bad"),
    ("tokens", {"share": 0.6, "last": 1.0}, "good"),
    ("tokens", {"share": 0.4, "last": 1.0}, "bad"),
    ("tokens", {"share": 0.9, "last": 0.4}, "watch"),
    ("tokens", {"share": 0.9, "last": 0.6}, "good"),
    ("dropout", {"silent": 0, "name": "", "largest": 0.4}, ""),
    ("dropout", {"silent": 0, "name": "", "largest": 0.6}, "watch"),
    ("dropout", {"silent": 3, "name": "a", "largest": 0.1}, "watch"),
    ("schedule", {"steps": 100, "warmup": 0, "peak": 1.0, "mean": 0.5, "still": 0.3}, "good"),
    ("schedule", {"steps": 100, "warmup": 0, "peak": 1.0, "mean": 0.5, "still": 0.5}, "bad"),
    ("evaluator", EVALUATOR | {"rows": 50, "rows_in_training": 0.07}, "good"),
    ("evaluator", EVALUATOR | {"rows": 50, "rows_in_training": 0.14}, "watch"),
    ("gold", {"answers": [GOLD]}, ""),
    ("gold", {"answers": [GOLD | {"distinct": 1}]}, "bad"),
    ("gold", {"answers": [GOLD | {"words": -0.2}]}, ""),
    ("gold", {"answers": [GOLD | {"words": -0.4}]}, "watch"),
    ("gold", {"answers": [GOLD | {"kind": "documents", "distinct": 1}]}, "bad"),
    ("gold", {"answers": [GOLD | {"kind": "documents", "missing": 0.035}]}, ""),
    ("gold", {"answers": [GOLD | {"kind": "documents", "missing": 0.07}]}, "bad"),
    ("use", USE, ""),
    ("use", USE | {"compared": "dot"}, "watch"),
    ("use", USE | {"trained": "dot"}, "watch"),
    ("use", USE | {"compared": "dot", "unit": True}, ""),
    ("use", USE | {"compared": "euclidean"}, ""),
    ("use", USE | {"cut": 16}, "watch"),
    ("use", USE | {"cut": 16, "widths": [16, 32]}, ""),
    ("best", {"metric": "eval_sts_spearman_cosine", "greater": False}, "bad"),
    ("best", {"metric": "eval_sts_spearman_cosine", "greater": True}, ""),
    ("best", {"metric": "eval_loss", "greater": True}, "bad"),
    ("best", {"metric": "eval_loss", "greater": False}, ""),
    ("best", {"metric": "eval_ir_cosine_ndcg@10", "greater": False}, "bad"),
    ("best", {"metric": "eval_something", "greater": False}, ""),
    ("prompts", COLUMNS | {"prompts": {"query": "query: ", "passage": "passage: "}}, "good"),
    ("prompts", COLUMNS | {"prompts": {"query": "passage: ", "passage": "query: "}}, "bad"),
    ("prompts", COLUMNS | {"prompts": {"query": "passage: "}}, "watch"),
    ("prompts", COLUMNS | {"prompts": {"question": "query: "}}, "bad"),
    ("passes", {"rows": 60, "batch": 16, "passes": 25.0}, "watch"),
    ("passes", {"rows": 60, "batch": 16, "passes": 15.0}, ""),
    ("passes", {"rows": 70, "batch": 16, "passes": 25.0}, ""),
    ("unmeasured", {"failures": {"gold": "TypeError: a"}}, "not judged"),
    ("reach", REACH, ""),
    ("reach", REACH | {"moved": 4e-4}, ""),
    ("reach", REACH | {"moved": 2e-4}, "watch"),
    ("reach", REACH | {"optimizer": "sgd", "moved": 2e-4, "clip": 1e-3}, "watch"),
    ("reach", REACH | {"adapter": 4e-4}, ""),
    ("reach", REACH | {"adapter": 2e-4}, "watch"),
    ("reach", REACH | {"adapter": 0.1, "rate": 7e-5}, ""),
    ("reach", REACH | {"adapter": 0.1, "rate": 4e-5}, "watch"),
    ("accumulation", {"steps": 8, "left_to_loss": True, "divides": False}, "bad"),
    ("accumulation", {"steps": 8, "left_to_loss": True, "divides": True}, ""),
    ("schedule", {"steps": 100, "warmup": 200, "peak": 0.4}, "bad"),
    ("schedule", {"steps": 100, "warmup": 160, "peak": 0.6}, "good"),
    ("evaluator", EVALUATOR | {"in_training": 0.07}, "good"),
    ("evaluator", EVALUATOR | {"in_training": 0.14}, "watch"),
    ("evaluator", EVALUATOR | {"prompt": "query: "}, "watch"),
    ("evaluator", EVALUATOR | {"prompt": "query: ", "has_prompt": True}, "good"),
    ("optimizer", {"missing": 2, "trained": 9, "missing_name": "a", "missing_of_loss": 2}, "bad"),
    ("optimizer", {"missing": 0, "trained": 9, "missing_name": "", "frozen_of_loss": 2}, "bad"),
    ("gradient", REACHED | {"reached": 11, "idle": "1"}, "watch"),
    ("length", {"truncated": 0.1, "limit": 65, "positions": 64}, "bad"),
    ("length", {"truncated": 0.1, "limit": 64, "positions": 64}, "good"),
    ("schedule", {"steps": 100, "warmup": 0, "peak": 2.1, "end": 2.1}, "good"),
    ("schedule", {"steps": 100, "warmup": 0, "peak": 4.3, "end": 4.3}, "bad"),
    ("schedule", {"steps": 100, "warmup": 0, "peak": 4.3, "end": 1.5}, "good"),
    ("schedule", {"steps": 100, "warmup": 0, "peak": 4.3, "end": 3.0}, "bad"),
    ("reach", REACH | STRONG | {"scaling": 11.0}, ""),
    ("reach", REACH | STRONG | {"scaling": 23.0}, "watch"),
    ("reach", REACH | STRONG | {"scaling": 70.0}, "watch"),
    ("reach", REACH | STRONG | {"scaling": 140.0}, "bad"),
    ("gold", {"answers": [GOLD | {"count": 14}]}, "watch"),
    ("gold", {"answers": [GOLD | {"count": 28}]}, ""),
    ("gold", {"answers": [GOLD | {"kind": "triplets", "count": 14}]}, "watch"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.5}]}, "watch"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.5, "nearest": 0.14}]}, "watch"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.5, "nearest": 0.07}]}, ""),
    ("gold", {"answers": [RELEVANT | {"rank": 0.5, "count": 40}]}, ""),
    ("gold", {"answers": [RELEVANT | {"rank": 0.5, "count": 70}]}, "watch"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.7}]}, ""),
    ("gold", {"answers": [GOLD | {"words": 0.155, "low": 0.1, "high": 0.3}]}, "watch"),
    ("gold", {"answers": [GOLD | {"words": 0.31, "low": 0.1, "high": 0.3}]}, ""),
    ("gold", {"answers": [GOLD | {"words": 0.0, "low": 0.1, "high": 0.17}]}, ""),
    ("gold", {"answers": [GOLD | {"words": 0.0, "distinct": 2, "low": 0.07, "high": 0.4}]}, ""),
    ("gold", {"answers": [GOLD | {"words": 0.0, "distinct": 3, "low": 0.1, "high": 0.4}]}, "watch"),
    (
        "gold",
        {"answers": [GOLD | {"words": 0.0, "distinct": 2, "low": 0.03, "high": 0.4}]},
        "watch",
    ),
    ("steps", STEPS | {"steps": 14}, ""),
    ("steps", STEPS | {"steps": 7}, "watch"),
    ("steps", STEPS | {"steps": 3, "accumulation": 64}, "watch"),
    ("settings", SETTINGS, ""),
    ("settings", SETTINGS | {"epsilon": 0.7e-4}, ""),
    ("settings", SETTINGS | {"epsilon": 1.4e-4}, "watch"),
    ("settings", SETTINGS | {"decay": 0.7}, ""),
    ("settings", SETTINGS | {"decay": 1.4}, "watch"),
    ("settings", SETTINGS | {"without_rate": 0.4}, ""),
    ("settings", SETTINGS | {"without_rate": 0.6}, "watch"),
    ("evaluations", EVALUATIONS, ""),
    ("evaluations", EVALUATIONS | {"interval": 101}, "watch"),
    ("evaluations", EVALUATIONS | {"strategy": "no", "interval": 0}, "watch"),
    ("evaluations", EVALUATIONS | {"strategy": "epoch", "interval": 500}, ""),
    ("stopping", STOPPING, ""),
    ("stopping", STOPPING | {"warmup": 31}, "watch"),
    ("stopping", STOPPING | {"steps": 430}, ""),
    ("stopping", STOPPING | {"steps": 860}, "watch"),
    ("stopping", STOPPING | {"threshold": 0.02}, ""),
    ("stopping", STOPPING | {"threshold": 0.04}, "watch"),
    ("routes", ROUTES | {"mapping": {"anchor": "query", "positive": "document"}}, ""),
    ("routes", ROUTES | {"mapping": {"anchor": "query", "positive": "query"}}, "bad"),
    ("routes", ROUTES | {"mapping": {"anchor": "document", "positive": "query"}}, "bad"),
    ("routes", ROUTES | {"mapping": {}}, ""),
    ("held", {"foreign": "", "own_teacher": ""}, ""),
    ("held", {"foreign": "CoSENTLoss", "own_teacher": ""}, "bad"),
    ("held", {"foreign": "", "own_teacher": "guide"}, "watch"),
    ("saved", SAVED, "good"),
    ("saved", SAVED | {"cosine": 1 - 0.7e-3}, "good"),
    ("saved", SAVED | {"cosine": 1 - 1.4e-3}, "watch"),
    ("saved", SAVED | {"cosine": 1 - 2.1e-2, "half": True}, "good"),
    ("saved", SAVED | {"cosine": 1 - 4.2e-2, "half": True}, "watch"),
    ("saved", SAVED | {"length": 1.0014}, "watch"),
    ("saved", SAVED | {"prompts_kept": False}, "watch"),
    ("fresh", FRESH, ""),
    ("fresh", FRESH | {"rates": 1.8e-3}, "watch"),
    ("fresh", FRESH | {"rates": 3.5e-3}, ""),
    ("fresh", FRESH | {"rates": 1e-3, "share": 0.8}, ""),
    ("fresh", FRESH | {"weights": 1_400_000}, "watch"),
    ("fresh", FRESH | {"weights": 700_000}, ""),
    ("pipeline", PIPELINE, ""),
    ("pipeline", PIPELINE | {"used_pooling": "mean"}, "watch"),
    ("pipeline", PIPELINE | {"used": ["Transformer", "Pooling"]}, "watch"),
    ("evaluator", EVALUATOR | {"other_prompt": "query: "}, "watch"),
    ("held_rows", {"rows": 0, "columns": [], "trained": ["a", "b"]}, "bad"),
    ("held_rows", {"rows": 9, "columns": ["b", "a"], "trained": ["a", "b"]}, "watch"),
    ("held_rows", {"rows": 9, "columns": ["a", "b"], "trained": ["a", "b"]}, ""),
    ("held_rows", {"rows": 9, "columns": ["b"], "trained": ["a", "b"]}, ""),
    ("gold", {"answers": [GOLD | {"kind": "triplets", "exchanged": 0.6}]}, ""),
    ("gold", {"answers": [GOLD | {"kind": "triplets", "exchanged": 0.8}]}, "watch"),
    ("best", {"metric": "eval_loss", "greater": False, "computed": False}, "bad"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.9, "itself": 0.14}]}, ""),
    ("gold", {"answers": [RELEVANT | {"rank": 0.9, "beside": 0.14}]}, ""),
    ("gold", {"answers": [RELEVANT | {"rank": 0.9, "beside": 0.3}]}, "watch"),
    ("gold", {"answers": [RELEVANT | {"missing": 1.0, "types": ["int", "str"]}]}, "bad"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.9, "queries": 0}]}, "bad"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.9, "queries": 96}]}, ""),
    ("reach", REACH | {"moved": 0.02, "static": True}, "watch"),
    ("reach", REACH | {"moved": 0.045, "static": True}, ""),
    ("reach", REACH | {"moved": 0.02}, ""),
    ("settings", SETTINGS | {"gradient": 0.7e-9}, "watch"),
    ("settings", SETTINGS | {"gradient": 1.4e-9}, ""),
    ("new_tokens", {"tokens": 2, "example": "[q]", "share": 0.035}, ""),
    ("new_tokens", {"tokens": 2, "example": "[q]", "share": 0.07}, "watch"),
    ("vocabulary_size", {"tokens": 1000, "rows": 1060}, ""),
    ("vocabulary_size", {"tokens": 1000, "rows": 1150}, "watch"),
    ("gold", {"answers": [RELEVANT | {"rank": 0.9, "itself": 0.3}]}, "watch"),
    ("first_token", {"begun": 0.97}, "watch"),
    ("first_token", {"begun": 0.985}, ""),
    ("names", {"kind": "", "name": "", "times": 0}, ""),
    ("names", {"kind": "TripletEvaluator", "name": "a", "times": 2}, "watch"),
    ("plateau", {"mode": "min", "metric": "eval_loss"}, ""),
    ("plateau", {"mode": "max", "metric": "eval_loss"}, "bad"),
    ("plateau", {"mode": "min", "metric": "eval_ir_cosine_ndcg@10"}, "bad"),
    ("plateau", {"mode": "max", "metric": "eval_ir_cosine_ndcg@10"}, ""),
    ("plateau", {"mode": "min", "metric": "eval_something"}, ""),
    ("proportions", PROPORTIONS | {"share": 0.05}, "watch"),
    ("proportions", PROPORTIONS | {"share": 0.08}, ""),
    ("proportions", PROPORTIONS | {"share": 0.05, "in_turns": True}, ""),
    ("field", FIELD | {"common": 0.2}, "watch"),
    ("field", FIELD | {"common": 0.3}, ""),
    ("field", FIELD | {"common": 0.2, "texts": 23}, ""),
    ("field", FIELD | {"common": 0.2, "texts": 45}, "watch"),
    ("field", FIELD | {"common": 0.2, "rows": 45}, ""),
    ("field", FIELD | {"common": 0.2, "rows": 90}, "watch"),
    ("aside", {"value": 2.0, "through": -0.1, "aside": 0.14}, "watch"),
    ("aside", {"value": 2.0, "through": -0.1, "aside": 0.07}, ""),
    ("aside", {"value": 2.0, "through": -0.2, "aside": 0.14}, ""),
    ("aside", {"value": 2.0, "through": -0.2, "aside": 0.28}, "watch"),
]


def measurements() -> list[tuple[str, dict[str, Any], str]]:
    """Return each row as a title, the doctor's measurements, and the grade of the verdict."""
    rows = [(check, {"trainer": {check: numbers}}, numbers, grade)
            for check, numbers, grade in OF_TRAINERS]  # fmt: skip
    rows += [(check, {"losses": {"": {check: numbers}}}, numbers, grade)
             for check, numbers, grade in OF_LOSSES]  # fmt: skip
    return [
        (f"boundary: {check} {numbers}", measured, grade)
        for check, measured, numbers, grade in rows
    ]

"""Measurements on either side of a limit of the doctor, nearer than its half and its double.

Each row holds a check, its numbers, and the grade that they must get. So a limit that moves by half
is noticed, whatever the cases of the set measure.
"""

from __future__ import annotations

from typing import Any

RATE = {"optimizer": "adamw_torch", "adapters": False, "dense": True}
COPIES = {"rows": 1000, "batch": 32, "kept_apart": False, "most_repeated": "a", "repeats": 2}
VIEWS = {"positive": 0.9, "candidate": 0.2, "lowest": 0.0, "equal": 0.0, "same_texts": True}
CACHE = {"batches": 2, "half": False}
HALF = {"trained": 9, "float16": 0, "bfloat16": 9, "rate": 1e-5}
REACHED = {
    "due": 12, "missed": "a", "adapters": 0, "reached_adapters": 0, "broken": 0, "broken_name": "",
    "reason": "",
}  # fmt: skip
LABELS = {
    "loss": "CosineSimilarityLoss", "low": 0.0, "high": 1.0, "distinct": 9, "ignored": False,
    "classes": 0,
}  # fmt: skip
ORDER = {"pairs": 200, "consecutive": 0.0, "alike": 0.5, "rows": 100, "drawn": 100}
SOUND_TEXTS: dict[str, Any] = {"empty": {"a": 0.0}, "numbers": {"a": 0.0}}
ENDS = {"end": "</s>", "end_is_padding": False}
EVALUATOR = {"prompt": "", "has_prompt": False, "texts": 50, "in_training": 0.0}
AGREEMENT: dict[str, Any] = {"rows": 200, "embedded": 32}
REACH = {
    "optimizer": "adamw_torch", "rate": 1e-4, "steps": 100, "norm": 5.0, "clip": 1.0,
    "moved": 0.1, "adapter": None,
}  # fmt: skip
USE = {
    "trained": "cosine", "compared": "cosine", "unit": False, "cut": 0, "width": 32, "widths": [],
}  # fmt: skip
COLUMNS = {"outer": [], "columns": ["query", "passage"], "sets": []}
GOLD = {"name": "a", "kind": "scores", "count": 80, "distinct": 9, "words": 0.8}
OF_TRAINERS: list[tuple[str, dict[str, Any], str]] = [
    ("learning_rate", RATE | {"rate": 1.4e-7}, "good"),
    ("learning_rate", RATE | {"rate": 0.7e-7}, "bad"),
    ("learning_rate", RATE | {"rate": 0.7e-3}, "good"),
    ("learning_rate", RATE | {"rate": 1.4e-3}, "watch"),
    ("learning_rate", RATE | {"rate": 3.5e-3}, "watch"),
    ("learning_rate", RATE | {"rate": 7e-3}, "bad"),
    ("learning_rate", RATE | {"rate": 3.5e-3, "adapters": True}, "good"),
    ("learning_rate", RATE | {"rate": 0.1, "dense": False}, "good"),
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
]
OF_LOSSES: list[tuple[str, dict[str, Any], str]] = [
    ("duplicates", COPIES | {"pairs": 75}, "good"),  # .075 pairs in a batch
    ("duplicates", COPIES | {"pairs": 150}, "watch"),
    ("duplicates", COPIES | {"pairs": 350}, "watch"),
    ("duplicates", COPIES | {"pairs": 750}, "bad"),
    ("duplicates", COPIES | {"pairs": 750, "kept_apart": True}, "good"),
    ("views", VIEWS | {"lowest": 1 - 0.7e-6}, "bad"),
    ("views", VIEWS | {"lowest": 1 - 1.4e-6}, "good"),
    ("views", VIEWS | {"equal": 0.4}, "good"),
    ("views", VIEWS | {"equal": 0.6}, "bad"),
    ("views", VIEWS | {"equal": 0.6, "same_texts": False}, "bad"),
    ("texts", {"empty": {"a": 0.007}, "numbers": {}}, "watch"),
    ("texts", {"empty": {"a": 0.014}, "numbers": {}}, "bad"),
    ("texts", {"empty": {"a": 0.0}, "numbers": {"a": 1.0}}, "bad"),
    # 1.7 and 3.4 standard deviations above chance, by the embeddings and by the words
    ("pairs", {"anchors": 48, "share": 0.57, "rows": 48, "word_share": 0.5}, "bad"),
    ("pairs", {"anchors": 48, "share": 0.64, "rows": 48, "word_share": 0.5}, "good"),
    ("pairs", {"anchors": 48, "share": 0.5, "rows": 48, "word_share": 0.57}, "bad"),
    ("pairs", {"anchors": 48, "share": 0.5, "rows": 48, "word_share": 0.64}, "not judged"),
    ("pairs", {"anchors": 12, "share": 0.5, "rows": 48, "word_share": 0.5}, "not judged"),
    ("pairs", {"anchors": 20, "share": 0.5, "rows": 48, "word_share": 0.5}, "bad"),
    ("pairs", {"anchors": 20, "share": 0.5, "rows": 12, "word_share": 0.5}, "watch"),
    ("hard_negatives", {"same": 0.035, "nearer": 0.2}, "watch"),
    ("hard_negatives", {"same": 0.07, "nearer": 0.2}, "bad"),
    ("hard_negatives", {"same": 0.0, "nearer": 0.4}, "good"),
    ("hard_negatives", {"same": 0.0, "nearer": 0.6}, "watch"),
    ("hard_negatives", {"same": 0.0, "nearer": 0.75}, "watch"),
    ("hard_negatives", {"same": 0.0, "nearer": 0.85}, "bad"),
    ("loss", {"values": [4.0], "candidates": 16, "half": False}, "good"),  # guessing gives 2.77
    ("loss", {"values": [5.0], "candidates": 16, "half": False}, "watch"),
    ("loss", {"values": [1.0], "candidates": 6, "half": False}, "watch"),
    ("loss", {"values": [1.0], "candidates": 12, "half": False}, "good"),
    ("loss", {"values": [0.0], "candidates": 12, "half": True}, "bad"),
    ("loss", {"values": [float("nan")], "candidates": 12, "half": False}, "bad"),
    ("temperature", {"temperature": 0.2, "published": 0.05}, "good"),
    ("temperature", {"temperature": 0.4, "published": 0.05}, "watch"),
    ("temperature", {"temperature": 0.7, "published": 0.05}, "bad"),
    ("temperature", {"temperature": 0.05 / 8, "published": 0.05}, "watch"),
    ("logits", {"scale": 20.0, "length": 2.0}, ""),  # 4 times the scale of cosines
    ("logits", {"scale": 20.0, "length": 2.9}, "watch"),
    ("logits", {"scale": 20.0, "length": 4.0}, "bad"),
    ("labels", LABELS | {"high": 1.0}, "good"),
    ("labels", LABELS | {"high": 1.2}, "bad"),
    ("labels", LABELS | {"low": -0.4}, "good"),
    ("labels", LABELS | {"low": -1.2}, "bad"),
    ("labels", LABELS | {"loss": "ContrastiveLoss", "high": 2.0}, "bad"),
    ("labels", LABELS | {"loss": "OnlineContrastiveLoss", "low": -1.0}, "bad"),
    ("labels", LABELS | {"loss": "SoftmaxLoss", "high": 2.0, "classes": 3}, "good"),
    ("labels", LABELS | {"loss": "SoftmaxLoss", "high": 3.0, "classes": 3}, "bad"),
    ("labels", LABELS | {"loss": "CoSENTLoss", "low": 1.0, "distinct": 1}, "bad"),
    ("labels", LABELS | {"loss": "CoSENTLoss", "high": 5.0}, "good"),
    ("labels", LABELS | {"loss": "MultipleNegativesRankingLoss", "ignored": True}, "bad"),
    ("classes", {"rows": 512, "with_mate": 0.85, "single_class": 0.0}, "good"),
    ("classes", {"rows": 512, "with_mate": 0.6, "single_class": 0.0}, "watch"),
    ("classes", {"rows": 512, "with_mate": 0.35, "single_class": 0.0}, "watch"),
    ("classes", {"rows": 512, "with_mate": 0.2, "single_class": 0.0}, "bad"),
    ("classes", {"rows": 512, "with_mate": 1.0, "single_class": 0.4}, "good"),
    ("classes", {"rows": 512, "with_mate": 1.0, "single_class": 0.6}, "bad"),
    ("order", ORDER | {"consecutive": 0.6, "alike": 0.7}, "watch"),
    ("order", ORDER | {"consecutive": 0.4, "alike": 0.7}, "good"),
    ("order", ORDER | {"consecutive": 0.9, "alike": 0.5}, "good"),
    ("order", ORDER | {"drawn": 85}, "good"),
    ("order", ORDER | {"drawn": 60}, "watch"),
    ("outside", {"factor": 1.0007, "half": False}, ""),
    ("outside", {"factor": 1.0014, "half": False}, "watch"),
    ("outside", {"factor": 1.035, "half": True}, ""),
    ("outside", {"factor": 1.07, "half": True}, "watch"),
    ("margin", {"margin": 2.1, "reach": 2.0, "bounded": True}, "bad"),
    ("margin", {"margin": 2.1, "reach": 2.0, "bounded": False}, "good"),
    ("margin", {"margin": 1.9, "reach": 2.0, "bounded": True}, "good"),
    ("margin", {"margin": -0.1, "reach": 2.0, "bounded": True}, "bad"),
    ("teacher", {"largest": 8.0, "reach": 2.0, "bounded": True}, "bad"),
    ("teacher", {"largest": 0.3, "reach": 2.0, "bounded": True}, "good"),
    ("teacher", {"largest": 1.0, "reach": 15.0, "bounded": False}, "good"),
    ("teacher", {"largest": 1.0, "reach": 30.0, "bounded": False}, "watch"),
    ("vocabulary", {"unknown": {"a": 0.07}}, "good"),
    ("vocabulary", {"unknown": {"a": 0.14}}, "watch"),
    ("vocabulary", {"unknown": {"a": 0.4}}, "watch"),
    ("vocabulary", {"unknown": {"a": 0.6}}, "bad"),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 7, 100]}}, ""),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 14, 100]}}, "watch"),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 30, 100]}}, "watch"),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 60, 100]}}, "bad"),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 10, 20]}}, ""),
    ("texts", SOUND_TEXTS | {"repeated": {"a": ["x", 10, 50]}}, "watch"),
    ("labels", LABELS | {"distinct": 1}, "bad"),
    ("labels", LABELS | {"loss": "ContrastiveLoss", "between": 0.07}, "bad"),
    ("labels", LABELS | {"loss": "ContrastiveLoss", "between": 0.035}, "good"),
    ("loss", {"values": [0.0], "candidates": 12, "half": False, "guided": True}, "bad"),
    ("agreement", AGREEMENT | {"words": -0.4, "embeddings": -0.1}, "bad"),
    ("agreement", AGREEMENT | {"words": -0.4, "embeddings": 0.1}, ""),
    ("agreement", AGREEMENT | {"words": -0.2, "embeddings": -0.4}, ""),
    ("agreement", AGREEMENT | {"words": 0.4, "embeddings": 0.1}, "good"),
    ("agreement", AGREEMENT | {"words": -0.9, "embeddings": -0.9, "rows": 24}, ""),
    ("agreement", AGREEMENT | {"words": -0.9, "embeddings": -0.9, "rows": 48}, "bad"),
    ("preference", {"rows": 100, "teacher": 0.5, "words": 0.1}, "good"),
    ("preference", {"rows": 100, "teacher": 0.7, "words": 0.1}, "bad"),
    ("preference", {"rows": 100, "teacher": 0.7, "words": 0.3}, "bad"),
    ("preference", {"rows": 100, "teacher": 0.7, "words": 0.5}, "watch"),
    ("taught_embeddings", {"pairs": 900, "words": 50, "teacher": 0.07}, "good"),
    ("taught_embeddings", {"pairs": 900, "words": 50, "teacher": 0.035}, "watch"),
    ("taught_embeddings", {"pairs": 900, "words": 6, "teacher": 0.0}, ""),
    ("taught_embeddings", {"pairs": 900, "words": 12, "teacher": 0.0}, "watch"),
    ("shift", {"rows": 100, "before": 0.14, "after": 0.0}, ""),
    ("shift", {"rows": 100, "before": 0.0, "after": 0.3}, "bad"),
    ("gradient_cache", CACHE | {"replay": 0.0, "plain": 1e-2}, "bad"),
    ("gradient_cache", CACHE | {"replay": 1e-2, "plain": None}, "bad"),
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

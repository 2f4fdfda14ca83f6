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
]
OF_LOSSES: list[tuple[str, dict[str, Any], str]] = [
    ("duplicates", COPIES | {"pairs": 35}, "good"),  # .035 pairs in a batch
    ("duplicates", COPIES | {"pairs": 75}, "watch"),
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
    ("logits", {"scale": 20.0, "spread": 70.0}, ""),
    ("logits", {"scale": 20.0, "spread": 140.0}, "bad"),
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

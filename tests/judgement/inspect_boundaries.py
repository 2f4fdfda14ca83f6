"""Numbers of inspections on either side of a limit, nearer than its half and its double.

Each row holds numbers, the grade that a subject must get, and words of its finding; an empty grade
means that there is no finding.
"""

from __future__ import annotations

import math
from typing import Any

Numbers = dict[str, Any]
NAN = math.nan
# An inspection without findings.
SOUND: Numbers = {
    "sentences": 1000, "batch_size": 50, "sampled_from": None, "pairs_seen": 1.0, "duplicates": 0,
    "candidate_lines": 0, "candidate_row_pairs": 0, "candidate_share_of_push": 0.0,
    "candidate_share_error": 0.0, "candidate_share_when_met": NAN, "pair_share_on_average": 0.02,
    "hidden_by_dropout": NAN, "can_mask": True, "mask_above": NAN, "mask_removes": NAN,
    "cosine_levels": [], "positives_that_repeat": 0, "hubs": 1, "hub_share": 0.001,
    "temperatures": [], "negative_cosine": 0.1, "max_length": 64, "cut": 0, "cut_share": 0.0,
    "alike_when_cut": 0, "alike_behind_prompts": 0, "prompts": [], "hard_negatives": {},
    "hard_negatives_false": 0, "hard_negatives_false_share": 0.0,
}  # fmt: skip
COPIES = {"candidate_lines": 9, "candidate_row_pairs": 200}
CUT = {"cut": 9}
HUBS = {"hubs": 10, "hub_share": 0.2}


def _gates(hardest: float = 0.2, closed: float = 0.1, **numbers: float) -> Numbers:
    gates = {"temperature": 0.05, "hardest_share": hardest, "closed": closed}
    return {"temperatures": [gates, gates], **numbers}


def _hard(nearer: int, easy: int) -> Numbers:
    kinds = (0, nearer, 100 - nearer - easy, easy)
    return {"hard_negatives": dict(zip("abcd", kinds, strict=True))}


ROWS: list[tuple[Numbers, str, str, str]] = [
    ({}, "copies", "", ""),
    (COPIES | {"candidate_share_of_push": 0.007}, "copies", "good", ""),
    (COPIES | {"candidate_share_of_push": 0.014}, "copies", "watch", ""),
    (COPIES | {"candidate_share_of_push": 0.07}, "copies", "watch", ""),
    (COPIES | {"candidate_share_of_push": 0.14}, "copies", "bad", ""),
    # .49 and .74 pairs in a batch of 50
    (COPIES, "copies", "good", "One batch of 50 in 2 has such a pair"),
    (COPIES | {"candidate_row_pairs": 300}, "copies", "good", r"A batch of 50 has 0\.736"),
    (COPIES | {"hidden_by_dropout": 0.14}, "copies", "good", "would miss many"),
    (COPIES | {"hidden_by_dropout": 0.07}, "copies", "good", r"of all push\.$"),
    (CUT | {"cut_share": 0.18}, "length", "good", ""),
    (CUT | {"cut_share": 0.35}, "length", "watch", ""),
    (_gates(negative_cosine=0.7), "temperature", "", ""),
    (_gates(negative_cosine=0.86), "temperature", "not judged", ""),
    (_gates(closed=0.4), "temperature", "", ""),
    (_gates(closed=0.6), "temperature", "good", "leaves 60%"),
    (_gates(hardest=0.4), "temperature", "", ""),
    (_gates(hardest=0.6), "temperature", "good", "takes 60%"),
    (_gates(hardest=0.028), "temperature", "watch", ""),
    (_gates(hardest=0.056), "temperature", "", ""),
    (_hard(nearer=0, easy=40), "hard negatives", "", ""),
    (_hard(nearer=0, easy=60), "hard negatives", "watch", "and 60"),
    (_hard(nearer=7, easy=0), "hard negatives", "", ""),
    (_hard(nearer=14, easy=0), "hard negatives", "good", "finds 14"),
    (_hard(nearer=40, easy=0), "hard negatives", "good", "finds 40"),
    (_hard(nearer=60, easy=0), "hard negatives", "watch", "finds 60"),
    ({"positives_that_repeat": 35}, "positives", "good", ""),
    ({"positives_that_repeat": 70}, "positives", "watch", ""),
    (HUBS | {"hub_share": 0.035}, "hubs", "", ""),
    (HUBS | {"hub_share": 0.07}, "hubs", "good", ""),
    (HUBS | {"hub_share": 0.14}, "hubs", "watch", ""),
]  # fmt: skip

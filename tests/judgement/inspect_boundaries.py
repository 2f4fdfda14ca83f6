"""Numbers of inspections on either side of a limit, nearer than its half and its double.

Each row holds numbers, the grade that a subject must get, and words of its finding; an empty grade
means that there is no finding.
"""

from __future__ import annotations

import math
from typing import Any

from tests.judgement.case import Row

Numbers = dict[str, Any]
NAN = math.nan
# An inspection without findings.
SOUND: Numbers = {
    "sentences": 1000, "batch_size": 50, "sampled_from": None, "pairs_seen": 1.0, "duplicates": 0,
    "candidate_lines": 0, "candidate_row_pairs": 0, "candidate_share_of_push": 0.0,
    "candidate_share_error": 0.0, "candidate_share_when_met": NAN, "pair_share_on_average": 0.02,
    "hidden_by_dropout": NAN, "can_mask": True, "mask_above": NAN, "mask_removes": NAN,
    "cosine_levels": [], "positives_that_repeat": 0, "positives_that_are_equal": 0,
    "hubs": 1, "hub_share": 0.001,
    "temperatures": [], "negative_cosine": 0.1, "max_length": 64, "cut": 0, "cut_share": 0.0,
    "alike_when_cut": 0, "alike_behind_prompts": 0, "prompts": [], "hard_negatives": {},
    "hard_negatives_false": 0, "hard_negatives_false_share": 0.0,
}  # fmt: skip
COPIES = {"candidate_lines": 9, "candidate_row_pairs": 200}
SHARED = {
    "candidate_lines": 9, "shared_lines": 9, "shared_share_of_push": 0.5, "unshared_row_pairs": 0,
    "unshared_share_of_push": 0.0,
}  # fmt: skip
ALSO_COPIES = {"candidate_lines": 10, "unshared_row_pairs": 1, "unshared_share_of_push": 0.14}
CUT = {"cut": 9}
EQUAL = {"positives_that_repeat": 950}
FALSE = {"hard_negatives_false": 6}
HUBS = {"hubs": 10, "hub_share": 0.2}
UNRELATED = {
    "rows": 160, "told": 0.54, "strangers": 0.4, "matched": 0.05, "between": 0.2, "recurring": 3.0,
    "sorted_column": 0,
}  # fmt: skip
SAMPLED = {"sampled_from": 63_250, "pairs_seen": 0.00025}


def _gates(hardest: float = 0.2, closed: float = 0.1, **numbers: float) -> Numbers:
    gates = {"temperature": 0.05, "hardest_share": hardest, "closed": closed}
    return {"temperatures": [gates, gates], **numbers}


def _hard(nearer: int, easy: int) -> Numbers:
    kinds = (0, nearer, 100 - nearer - easy, easy)
    return {"hard_negatives": dict(zip("abcd", kinds, strict=True))}


def _unreadable(numbers: float, spaced: float, text: str = "akabi") -> Numbers:
    """Shares of texts that are numbers, and of texts whose spaces are wrong."""
    return {"unreadable": {"positive": [numbers, spaced, text]}}


def _damaged(misread: float = 0.0, broken: float = 0.0) -> Numbers:
    """Shares of texts with letters of a wrong encoding, and with words broken by hyphens."""
    return {"damaged": {"positive": [misread, "sÃ©", broken, "aka- bi"]}}


def _masks(level: float, above: float = NAN, share: float = 0.05) -> Numbers:
    """Numbers of a mask above 0.9, where a share of the pairs are near-duplicates by words."""
    levels = [{"cosine": 0.9, "candidates": level, "share_of_push": share}]
    return {"cosine_levels": levels, "mask_above": above, "mask_removes": 0.02}


def _partners(**numbers: float) -> Numbers:
    """Numbers of partners that go together as by chance."""
    return {"partners": UNRELATED | numbers}


def _grouped(**numbers: float) -> Numbers:
    """Numbers of partners of a few categories."""
    usual = {"told": 0.8, "strangers": 0.0, "between": 0.8, "within": 0.55}
    return {"partners": UNRELATED | usual | numbers}


def _strangers(**numbers: float) -> Numbers:
    """Numbers of partners of which a part are strangers."""
    return {"partners": UNRELATED | {"told": 0.7, "strangers": 0.2, "matched": 0.2} | numbers}


ROWS: list[tuple[Numbers, str, str, str]] = [
    ({}, "copies", "", ""),
    (COPIES | {"candidate_share_of_push": 0.007}, "copies", "good", ""),
    (COPIES | {"candidate_share_of_push": 0.014}, "copies", "watch", ""),
    (COPIES | {"candidate_share_of_push": 0.07, "duplicates": 5}, "copies", "watch", ""),
    (COPIES | {"candidate_share_of_push": 0.14, "duplicates": 5}, "copies", "bad", ""),
    (COPIES | {"candidate_share_of_push": 0.14}, "copies", "watch", ""),
    # Of few batches it is not sure that the share is as large.
    (COPIES | {"candidate_share_of_push": 0.14, "candidate_share_error": 0.08}, "copies", "watch",
     ""),
    (COPIES | {"candidate_share_of_push": 0.014, "candidate_share_error": 0.008}, "copies", "good",
     ""),
    (COPIES | {"candidate_share_of_push": 0.14, "candidate_share_error": 0.06, "duplicates": 5},
     "copies", "bad", ""),
    # .49 and .74 pairs in a batch of 50
    (COPIES, "copies", "good", "One batch of 50 in 2 has such a pair"),
    (COPIES | {"candidate_row_pairs": 300}, "copies", "good", r"A batch of 50 has 0\.736"),
    (COPIES | {"hidden_by_dropout": 0.14}, "copies", "good", "would miss many"),
    (COPIES | {"hidden_by_dropout": 0.07}, "copies", "good", r"of all push\.$"),
    (SHARED, "copies", "", ""),
    (SHARED, "equal texts", "not judged", "^Keep equal texts out .* 50% of all push"),
    (SHARED | ALSO_COPIES, "copies", "watch", "1 pair"),
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
    (_hard(nearer=0, easy=65), "hard negatives", "", ""),
    (_hard(nearer=0, easy=85), "hard negatives", "watch", "and 85"),
    (_hard(0, 85) | {"negative_cosine": 0.86}, "hard negatives", "not judged", "and 85"),
    (_hard(nearer=7, easy=0), "hard negatives", "", ""),
    (_hard(nearer=14, easy=0), "hard negatives", "good", "finds 14"),
    (_hard(nearer=40, easy=0), "hard negatives", "good", "finds 40"),
    (_hard(nearer=60, easy=0), "hard negatives", "watch", "finds 60"),
    (_hard(60, 0) | {"negative_cosine": 0.86}, "hard negatives", "not judged", "finds 60"),
    ({"positives_that_repeat": 35}, "positives", "good", ""),
    ({"positives_that_repeat": 70}, "positives", "watch", ""),
    (EQUAL | {"positives_that_are_equal": 850}, "positives", "watch", ""),
    (EQUAL | {"positives_that_are_equal": 930}, "positives", "good", "views by dropout"),
    (HUBS | {"hub_share": 0.035}, "hubs", "", ""),
    (HUBS | {"hub_share": 0.07}, "hubs", "good", ""),
    (HUBS | {"hub_share": 0.22}, "hubs", "good", ""),
    (HUBS | {"hub_share": 0.45}, "hubs", "watch", ""),
    # Sentences of other inspections.
    (SAMPLED, "sample", "not judged", "copies may well be in the others"),
    (SAMPLED | COPIES | {"candidate_share_of_push": 0.02}, "copies", "watch", "pairs? of texts in"),
    (SAMPLED | COPIES, "sample", "not judged", "stand for about 800,000"),
    (COPIES | _masks(level=0.7, above=0.93), "mask", "good", r"may begin at 0\.9300"),
    (COPIES | _masks(level=0.9), "mask", "good", "by the file of pairs, not by a cosine"),
    (COPIES | _masks(level=0.3), "mask", "good", "Do not mask by a cosine"),
    (COPIES | _masks(level=0.3, share=0.007), "mask", "", ""),
    (COPIES | _masks(level=0.3, share=0.014), "mask", "good", "Do not mask by a cosine"),
    (FALSE | {"hard_negatives_false_share": 0.007}, "hard negatives", "good", "^Remove"),
    (FALSE | {"hard_negatives_false_share": 0.14}, "hard negatives", "watch", "^Remove"),
    ({"blanks": {"positive": [0.06, "[topic]"]}}, "texts", "", ""),
    ({"blanks": {"positive": [0.1, "[topic]"]}}, "texts", "watch", "have placeholders or masks"),
    (_unreadable(0.85, 0.0), "texts", "", ""),
    (_unreadable(0.93, 0.0), "texts", "watch", "numbers in 93% of its rows"),
    (_unreadable(1.0, 0.0), "texts", "watch", "numbers only"),
    (_unreadable(0.0, 0.2), "texts", "", ""),
    (_unreadable(0.0, 0.4), "texts", "watch", "lost their spaces"),
    (_unreadable(0.0, 0.4, "a k a b i"), "texts", "watch", "spaces between letters"),
    (_damaged(misread=0.07), "texts", "", ""),
    (_damaged(misread=0.14), "texts", "watch", "wrong encoding, such as 'sÃ©'"),
    (_damaged(broken=0.17), "texts", "", ""),
    (_damaged(broken=0.35), "texts", "watch", "a hyphen breaks.* such as 'aka- bi'"),
    (_partners(), "pairs", "watch", "pairs seem wrong: mixed, shifted or shuffled"),
    (_partners(rows=70), "pairs", "", ""),
    (_partners(told=0.64), "pairs", "", ""),
    (_partners(told=0.57), "pairs", "watch", "57%"),
    (_partners(recurring=1.5), "pairs", "", ""),
    (_partners(sorted_column=1), "pairs", "watch", "Indeed the first column is sorted"),
    (_partners(sorted_column=2), "pairs", "watch", "Indeed the second column is sorted"),
    (_partners(sorted_column=2, recurring=1.5), "pairs", "", ""),
    (_partners(third=0.8), "pairs", "watch", "mixed"),
    (_partners(third=0.9), "pairs", "bad", "Positives and negatives are exchanged"),
    (_partners(third=0.9, recurring=1.5), "pairs", "bad", "select_columns"),
    (_grouped(), "pairs", "watch", "any row of a group, about 40% of all"),
    (_grouped(told=0.85), "pairs", "watch", "any row of a group"),
    (_grouped(told=0.9), "pairs", "", ""),
    (_grouped(told=0.72), "pairs", "watch", "any row of a group, about 56% of all"),
    (_grouped(told=0.65), "pairs", "", ""),
    (_grouped(within=0.75), "pairs", "", ""),
    (_strangers(), "pairs", "watch", "In about 40% of the rows .* strangers"),
    (_strangers(strangers=0.09, between=0.05), "pairs", "", ""),
    (_strangers(matched=0.09), "pairs", "", ""),
    (_strangers(between=0.32), "pairs", "", ""),
    # Hardly any word of a text stands in other rows as well.
    (_strangers(recurring=0.6), "pairs", "", ""),
    (_strangers(recurring=1.5), "pairs", "watch", "In about 40% of the rows"),
    ({"alike_when_cut": 3}, "length", "watch", "differ only behind the 64 tokens"),
    ({"alike_behind_prompts": 1, "prompts": ["query: "]}, "prompts", "watch", "1 text repeats"),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row; the title says what differs from an inspection without findings."""
    return [
        Row(str(numbers), "inspect", SOUND | numbers, subject, grade, words)
        for numbers, subject, grade, words in ROWS
    ]

"""The test of `gradlab explain`: phrases that people use, and the symptom that should answer."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from tests.judgement.case import ROOT
from tests.judgement.scoring import interval

PHRASES = ROOT / "phrases.toml"
FIRST_SCORE, SCORE = ROOT / "first_retrieval.json", ROOT / "retrieval.json"
RIGHT, NOT_SURE_RIGHT = "right", "right, but not sure"
WRONG, NOT_SURE_WRONG, NO_ANSWER = "wrong", "wrong, and not sure", "no answer"
# Groups of phrases of the entries that the test asks; the others are too many for it.
ASKED = ("untouched", "fresh", "fresh_again")


def phrases(*, everything: bool = False) -> dict[str, dict[str, list[str]]]:
    """Return the right symptoms of each phrase, by group: of the entries, and of the test alone."""
    from gradlab.diagnosis import symptoms

    with PHRASES.open("rb") as file:
        alone = tomllib.load(file)
    learnt = symptoms.phrases()
    return {group: learnt[group] for group in (learnt if everything else ASKED)} | alone


def outcomes(*, everything: bool = False) -> dict[str, Any]:
    """Return the answer to each phrase, and whether it is right, sure, or none.

    The phrases of the test are asked of what is learnt without all of them; of everything, each
    group without its own. No answer is right where no symptom fits.
    """
    from gradlab.diagnosis.symptoms import nearest

    groups = phrases(everything=everything)
    left_out = [[group] for group in groups] if everything else [list(groups)]
    answers = {}
    for names_of_groups in left_out:
        asked = [(group, phrase) for group in names_of_groups for phrase in groups[group]]
        results = nearest([phrase for _, phrase in asked], frozenset(names_of_groups))
        for (group, phrase), (names, _) in zip(asked, results, strict=True):
            answers[phrase] = {
                "group": group,
                "answer": names[0] if names else "",
                "outcome": _outcome(names, groups[group][phrase]),
            }
    return answers


def summary(answers: Mapping[str, Any], group: str) -> str:
    """Say how many answers to the phrases of a group are right, sure, or none."""
    outcomes = [answer["outcome"] for answer in answers.values() if answer["group"] == group]
    count, not_sure = len(outcomes), outcomes.count(NOT_SURE_RIGHT)
    right = outcomes.count(RIGHT) + not_sure
    low, high = interval(right, count)
    return (
        f"{right} of {count} right first ({right / count:.0%}; 95%: {low:.0%} to {high:.0%}; "
        f"{not_sure} not sure), {outcomes.count(WRONG)} wrong and sure, "
        f"{outcomes.count(NOT_SURE_WRONG)} wrong and not sure, "
        f"{outcomes.count(NO_ANSWER)} without an answer"
    )


def of_something_else(
    answers: Mapping[str, Any], groups: Mapping[str, Mapping[str, Sequence[str]]]
) -> str:
    """Say how many of the phrases that no symptom fits get an answer all the same."""
    right = {phrase: names for group in groups.values() for phrase, names in group.items()}
    outcomes = [answers[phrase]["outcome"] for phrase in answers if not right[phrase]]
    return (
        f"Of {len(outcomes)} about something else, {outcomes.count(WRONG)} are answered as sure, "
        f"{outcomes.count(NOT_SURE_WRONG)} as not sure."
    )


def _outcome(names: Sequence[str], right: Sequence[str]) -> str:
    if not names:
        return NO_ANSWER if right else RIGHT
    if names[0] in right:
        return RIGHT if len(names) == 1 else NOT_SURE_RIGHT
    return WRONG if len(names) == 1 else NOT_SURE_WRONG

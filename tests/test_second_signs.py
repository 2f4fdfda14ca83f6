"""A trend is bad only beside a second sign."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gradlab
from gradlab.diagnosis import effects as doctor
from gradlab.monitor.verdicts import effects as report
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict, with_second_signs

SIGNS = {"push reversed": ("collapse", "score fell")}


def verdict(name, grade, dataset=""):
    return Verdict(name, grade, "It is so.", name=name, dataset=dataset)


@pytest.mark.parametrize(
    ("second", "grade"),
    [
        (None, WATCH),
        (verdict("score fell", BAD), BAD),
        (verdict("score fell", WATCH), BAD),
        (verdict("score fell", NOT_JUDGED), WATCH),
        (verdict("score fell", GOOD), WATCH),
        (verdict("loss rises", BAD), WATCH),
        # A score is one of all data sets; what is seen of one of them confirms no other.
        (verdict("collapse", WATCH, "questions"), BAD),
        (verdict("collapse", WATCH, "answers"), WATCH),
    ],
)
def test_a_trend_needs_a_second_sign(second, grade):
    trend = verdict("push reversed", BAD, "questions")
    checked = with_second_signs([trend, *([second] if second else [])], SIGNS)
    assert checked[0].grade == grade
    assert checked[1:] == ([second] if second else [])


def test_facts_and_milder_trends_stay_as_they_are():
    verdicts = [verdict("not finite", BAD), verdict("push reversed", WATCH)]
    assert with_second_signs(verdicts, SIGNS) == verdicts


@pytest.mark.parametrize(
    ("room", "folders"),
    [(doctor, ("data", "diagnosis", "inspection")), (report, ("monitor", "data"))],
)
def test_trends_and_their_signs_are_names_of_verdicts(room, folders):
    root = Path(gradlab.__file__).parent
    code = "".join(
        file.read_text(encoding="utf-8")
        for folder in folders
        for file in sorted((root / folder).rglob("*.py"))
        if file.name != "effects.py"
    )
    names = {name for trend, signs in room.TRENDS.items() for name in (trend, *signs)}
    kinds = {name for name in names if name.startswith("texts: ")}
    assert [name for name in sorted(names - kinds) if f'"{name}"' not in code] == []
    assert [name for name in kinds if not re.search(rf'"{name[7:]}"', code)] == []
    assert all(trend not in signs for trend, signs in room.TRENDS.items())

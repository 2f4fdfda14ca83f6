"""The labelled set of set-ups and runs is judged as its score says, and the score is sound."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")
pytest.importorskip("peft")

from gradlab.diagnosis import installation
from gradlab.diagnosis.effects import SILENCES
from gradlab.diagnosis.verdicts import judge
from gradlab.monitor.library_versions import UnsupportedVersionError
from tests.judgement import retrieval, run_boundaries, scoring, table
from tests.judgement.case import HALVES, TOOLS, Case, cases
from tests.judgement.freeze import BAD, GOOD, NOT_JUDGED, WATCH, Said, judged
from tests.judgement.mutation import ALL_TOOLS, ROOMS, Limit, rows, unnoticed
from tests.judgement.sentences import noting, said_of, sentences

ROOT = Path(__file__).parents[1]
CASES = cases()
ROWS = rows(ALL_TOOLS)
HINT = "read what differs: python -m tests.judgement score; if it is better, add --write"


@pytest.fixture(scope="module")
def score():
    return scoring.read(scoring.SCORE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.half}/{case.name}")
def test_a_case_is_judged_as_its_score_says(case, score):
    """A limit that moves is noticed here: every grade of every verdict counts."""
    assert scoring.outcome(case, scoring.verdicts(case)) == score[f"{case.half}/{case.name}"], HINT


def test_score_has_exactly_the_cases(score):
    assert list(score) == [f"{case.half}/{case.name}" for case in CASES]
    frozen = {
        path for folder in {case.path.parent for case in CASES} for path in folder.glob("*.json")
    }
    assert frozen == {case.path for case in CASES}


@pytest.mark.parametrize("half", HALVES)
def test_the_set_is_large_enough(half):
    of_half = [case for case in CASES if case.half == half]
    faults = [case for case in of_half if not case.is_sound]
    assert len(faults) >= 30
    assert len({case.kind for case in faults}) >= 15
    assert len(of_half) - len(faults) >= 20


def test_each_check_of_the_doctor_could_be_measured():
    for case in CASES:
        assert "unmeasured" not in scoring.frozen(case).get("doctor", {}).get("trainer", {}), case


def test_labels_are_whole():
    for case in CASES:
        assert set(case.tools) <= set(TOOLS)
        assert case.is_sound or case.words or case.causes
        groups = [case.words, *case.causes, case.never, case.allowed]
        for words in (words for group in groups for words in group):
            re.compile(words)
        assert not (case.is_sound and (case.words or case.causes))
        assert all(case.allowed.values())


def test_halves_have_no_kind_of_fault_in_common():
    kinds = {half: {c.kind for c in cases(half) if not c.is_sound} for half in HALVES}
    assert not kinds["first"] & kinds["held_out"]


# Faults of which the evaluator sees a little of the gain: at its ceiling, or by chance.
SEEING_LITTLE = ("negatives-of-the-evaluator-are-fillers", "relevant-documents-numbered-from-one")


def test_truth_of_the_cases_is_measured():
    """A faulty set-up falls short of its mended counterpart; a sound one raises its score."""
    measured = [(case, scoring.frozen(case).get("truth")) for case in CASES]
    truths = [(case, truth) for case, truth in measured if truth]
    for half in HALVES:
        of_half = [case for case, _ in truths if case.half == half]
        assert sum(case.is_sound for case in of_half) >= 30
        assert sum(not case.is_sound for case in of_half) >= 30
    for case, truth in truths:
        if case.is_sound or "mended_after" in truth:
            low, high = ("before", "after") if case.is_sound else ("after", "mended_after")
            assert truth[low] < truth[high], case.name
        elif "evaluated_fresh" in truth:  # an evaluator of texts that are trained on
            assert truth["evaluated_fresh"] < truth["said_after"], case.name
        else:  # an evaluator does not see that the encoder gains, or sees a gain that is none
            gains = {
                prefix: truth.get(f"{prefix}after", math.nan) - truth.get(f"{prefix}before", 0.0)
                for prefix in ("", "said_", "evaluated_")
            }
            if case.name in SEEING_LITTLE:
                assert 0 < gains["said_"] < 0.1 * gains[""], case.name
                continue
            evaluated = gains["said_"] > 0 or gains["evaluated_"] > 0
            assert (not gains[""] <= 0) != evaluated, case.name


@pytest.mark.parametrize("name", ["scale-of-one", "loop-at-a-high-temperature"])
def test_frozen_measurements_are_judged_as_the_live_ones(name):
    (case,) = (case for case in CASES if case.name == name)
    measured, said, _ = scoring.measure(case)
    assert judged(measured) == said
    assert {verdict.grade for verdict in said} <= {BAD, WATCH, GOOD, NOT_JUDGED}


FAULT = Case("a", "kind", "first", print, cause="The scale is 1.", words=["temperature", "scale"])
TWO = Case(
    "b", "kind", "first", print, cause="Two.", causes=[["scale"], ["label"]], never=["sound"]
)
SOUND = Case("c", "kind", "first", print, allowed={"small": "the batch is small"})
ALARM = Said("doctor", "temperature", BAD, "temperature: the scale is 1")
WARNING = Said("doctor", "loss", WATCH, "loss: it rises")


@pytest.mark.parametrize(
    ("case", "said", "expected"),
    [
        (FAULT, [], {"found": False, "named": False, "first": False}),
        (FAULT, [WARNING], {"found": True, "named": False, "first": False}),
        (FAULT, [WARNING, ALARM], {"found": True, "named": True, "first": False}),
        (FAULT, [ALARM, WARNING], {"found": True, "named": True, "first": True}),
        (FAULT, [Said("inspect", "x", BAD, "scale")], {"found": False, "named": False}),
        (FAULT, [Said("doctor", "x", GOOD, "The scale is 20.")], {"found": False}),
        (FAULT, [Said("report", "headline", BAD, "scale")], {"found": False}),
        (TWO, [ALARM], {"found": True, "named": False}),
        (TWO, [ALARM, Said("report", "x", BAD, "labels")], {"named": True, "forbidden": []}),
        (TWO, [Said("report", "headline", GOOD, "Scores look sound.")], {"forbidden": ["sound"]}),
        (SOUND, [ALARM, WARNING], {"false bad": [f"doctor: {ALARM.text}"],
                                 "false watch": [f"doctor: {WARNING.text}"]}),
        (SOUND, [Said("doctor", "batch", WATCH, "small")], {"false bad": [], "false watch": []}),
        (SOUND, [Said("report", "headline", NOT_JUDGED, "?")], {"not judged": ["report"]}),
    ],
)  # fmt: skip
def test_what_verdicts_are_worth(case, said, expected):
    outcome = scoring.outcome(case, said)
    assert {name: outcome[name] for name in expected} == expected


def test_intervals_are_those_of_clopper_and_pearson():
    low, high = scoring.interval(0, 20)
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert scoring.interval(20, 20)[0] == pytest.approx(0.025 ** (1 / 20))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10", ["20", "5"]), ("0.97", [0.94, 0.985]), ("1e-4", [2e-4, 5e-5]), ("0.5", [1.0, 0.25])],
)
def test_limits_are_doubled_and_halved(text, expected):
    limit = Limit(scoring.SCORE, 1, 0, text, "LIMIT", "report")
    assert [float(limit_text) for limit_text in limit.mutants()] == pytest.approx(
        [float(limit_text) for limit_text in expected]
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.tool}: {row.title}")
def test_a_tool_judges_either_side_of_a_limit(row):
    said = row.said()
    assert [verdict.grade for verdict in said] == [row.grade] * bool(row.grade)
    assert all(re.search(row.words, verdict.text) for verdict in said)


@pytest.mark.parametrize("tool", ROOMS.values())
def test_a_limit_that_is_halved_or_doubled_fails_a_row(tool):
    """Half and double of a limit, or of the distance of a probability to 1, are judged by rows."""
    changes = [f"{limit.where}: {limit.text} -> {text}" for limit, text in unnoticed(tool, ROOT)]
    assert not changes


class Embeds:
    """An encoder that embeds three sentences at one cosine to each other."""

    dimension, pooler = 3, "mean"

    def __init__(self, cosine: float) -> None:
        self.cosine = cosine

    def encode(self, _texts, normalize):
        assert normalize
        cosines = np.full((3, 3), self.cosine)
        np.fill_diagonal(cosines, 1.0)
        return np.linalg.cholesky(cosines) if math.isfinite(self.cosine) else cosines


def _loads(cosine):
    return {"gradlab.encoder.model.Encoder.load": lambda _name: Embeds(cosine)}


def _fails(error):
    def fail(*_):
        raise error

    return fail


def _threads(threads, cores):
    return {"torch.get_num_threads": lambda: threads, "os.cpu_count": lambda: cores}


HERE = "gradlab.diagnosis.installation"
GPU = {
    "torch.cuda.is_available": lambda: True, f"{HERE}.device_name": lambda _: "H200",
    f"{HERE}.bfloat16_instructions": lambda _: "bf16",
}  # fmt: skip
DRIVER = {f"{HERE}.Path": lambda _: SimpleNamespace(exists=lambda: True)}
EMULATED = {f"{HERE}.bfloat16_instructions": lambda _: ""}
OLD = UnsupportedVersionError("torch 1.9 is older than 2.4; pip install -U torch")
INSTALLATIONS = [
    ("model", GOOD, ["0.87"], _loads(0.87)),
    ("model", WATCH, ["never tuned"], _loads(0.93)),
    ("model", WATCH, ["never tuned"], _loads(1 - 1.4e-6)),
    ("model", BAD, ["same embedding"], _loads(1 - 0.7e-6)),
    ("model", BAD, ["not finite"], _loads(math.nan)),
    (
        "model",
        BAD,
        ["no config"],
        {"gradlab.encoder.model.Encoder.load": _fails(OSError("no config"))},
    ),
    ("versions", GOOD, ["gradlab"], {}),
    ("versions", BAD, ["is older", "pip install"], {f"{HERE}.require": _fails(OLD)}),
    ("extras", GOOD, ["Installed: "], {}),
    ("GPU", GOOD, ["No GPU"], {"torch.cuda.is_available": lambda: False}),
    ("GPU", GOOD, ["^H200"], GPU),
    ("GPU", BAD, ["CUDA_VISIBLE_DEVICES"], {"torch.cuda.is_available": lambda: False} | DRIVER),
    ("threads", GOOD, ["3 of 8"], _threads(3, 8)),
    ("threads", WATCH, ["2 of 8"], _threads(2, 8)),
    ("threads", WATCH, ["9 of 8", "number of cores"], _threads(9, 8)),
    ("half precision", GOOD, ["in hardware: bf16"], GPU),
    ("half precision", WATCH, ["emulated", "Leave bf16 out"], EMULATED),
]


def _installed(monkeypatch, subject, stand_ins):
    """Return the verdict on an installation with stand-ins for its parts."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(name, stand_in)
    if subject == "model":
        return installation.model("a")
    (verdict,) = (
        v for v in installation.checks(SimpleNamespace(bf16=True)) if v.subject == subject
    )
    return verdict


@pytest.mark.parametrize(("subject", "grade", "words", "stand_ins"), INSTALLATIONS)
def test_the_doctor_judges_an_installation(subject, grade, words, stand_ins, monkeypatch):
    verdict = _installed(monkeypatch, subject, stand_ins)
    assert verdict.grade == grade
    assert all(re.search(pattern, f"{verdict.finding} {verdict.change}") for pattern in words)


def test_every_sentence_is_said_of_a_row():
    said: set[str] = set()
    with noting(said):
        for subject, _, _, stand_ins in INSTALLATIONS:
            with pytest.MonkeyPatch.context() as patches:
                _installed(patches, subject, stand_ins)
    assert not sentences(ROOT) - said - said_of(ROWS)


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ({}, "too easy"),
        ({"gradient_dissipation": -1.0}, "push is reversed"),
        ({"weights_moved": [0.0] + [0.02] * 39}, "Nothing pushes"),
        (
            {"gradient_dissipation": 1e-6, "negative_cosine": 0.995, "effective_rank": 2.0},
            "explains this",
        ),
    ],
)
def test_no_task_is_too_easy_beside_a_collapse_or_a_push_that_is_reversed(series, words):
    run = run_boundaries.frozen(run_boundaries.STILL | series)
    (learning,) = [v for v in judged({"report": run}) if v.subject == "Learning"]
    assert words in learning.text
    assert ("too easy" in learning.text) == (words == "too easy")


def _said_alone() -> dict[str, tuple[bool, dict]]:
    """Whether it is of a trainer, and measurements of one check, by the name of their verdict."""
    alone = {}
    for row in rows("doctor"):
        if row.grade:
            (verdict,) = judge(row.measured)
            checks = row.measured.get("trainer") or row.measured["losses"][""]
            alone.setdefault(verdict.name, ("trainer" in row.measured, checks))
    return alone


@pytest.mark.parametrize("problem", sorted(SILENCES))
def test_a_problem_leaves_good_verdicts_without_a_meaning(problem):
    alone = _said_alone()
    of_trainer, checks = alone[problem]
    for silent in SILENCES[problem]:
        other_of_trainer, other = alone[silent]
        if checks.keys() == other.keys():
            continue  # one check, which says one of them
        for dataset in ("", "another"):
            losses = {"first" if dataset else "": {} if of_trainer else dict(checks)}
            losses.setdefault(dataset, {}).update({} if other_of_trainer else other)
            trainer = (checks if of_trainer else {}) | (other if other_of_trainer else {})
            verdicts = judge({"trainer": trainer, "losses": losses})
            grades = {verdict.name: verdict.grade for verdict in verdicts}
            apart = dataset and not (of_trainer or other_of_trainer)
            assert grades[problem] in (BAD, WATCH)
            assert grades[silent] == (GOOD if apart else NOT_JUDGED), silent


@pytest.mark.parametrize(
    ("name", "subjects"),
    [
        ("shuffled-positives", {"pairs"}),
        ("passages-sorted-without-their-questions", {"pairs"}),
        ("positives-one-row-too-low", {"pairs"}),
        ("collator-that-sorts-each-column", {"pairs"}),
        ("positives-and-negatives-exchanged", {"pairs", "columns"}),
        ("language-as-positive", {"pairs", "columns"}),
        ("relevant-documents-numbered-from-one", {"evaluation"}),
        ("gold-scores-of-an-older-order", {"evaluation"}),
    ],
)
def test_one_cause_that_words_and_cosines_show_gets_advice_once(name, subjects):
    (case,) = [case for case in cases() if case.name == name]
    verdicts = judge(scoring.read(case.path)["doctor"])
    alarms = [v for v in verdicts if v.is_problem and v.subject in subjects]
    assert len(alarms) > 1
    assert [alarm.name for alarm in alarms if not alarm.cause] == [alarms[0].name]


def test_explain_answers_phrases_as_its_score_says():
    assert retrieval.outcomes() == scoring.read(retrieval.SCORE)


def test_explain_names_the_right_symptom_first_and_is_not_sure_of_a_wrong_one():
    outcomes = Counter(answer["outcome"] for answer in scoring.read(retrieval.SCORE).values())
    assert outcomes[retrieval.RIGHT] > 2 * outcomes[retrieval.NOT_SURE_RIGHT]
    right = outcomes[retrieval.RIGHT] + outcomes[retrieval.NOT_SURE_RIGHT]
    assert right > 0.9 * outcomes.total()
    assert outcomes[retrieval.WRONG] < 0.01 * outcomes.total()


def test_phrases_differ():
    groups = retrieval.phrases(everything=True)
    phrases = [phrase for group in groups.values() for phrase in group]
    assert max(Counter(map(str.lower, phrases)).values()) == 1


def test_the_table_of_the_page_is_made_from_the_scores():
    text = table.PAGE.read_text(encoding="utf-8")
    assert text == table.page(text)

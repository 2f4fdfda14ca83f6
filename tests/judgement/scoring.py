"""What verdicts on a case are worth: found, cause named, false alarms; shares with intervals."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.judgement.case import ROOT, Case
from tests.judgement.freeze import BAD, NOT_JUDGED, WATCH, Said, judged

# The first score stays; the present one is what the tests compare with.
FIRST_SCORE, SCORE = ROOT / "first_score.json", ROOT / "score.json"


def measure(case: Case, tools: Sequence[str] = ()) -> tuple[dict[str, Any], list[Said], float]:
    """Play a case; return its measurements, what the tools say at once, and processor seconds.

    With ``tools``, only these are asked.
    """
    from tests.judgement.stage import Stage, seeded

    began = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        seeded()
        stage = Stage(Path(place), tools)
        case.play(stage)
    return stage.frozen, stage.said, time.process_time() - began


def freeze(case: Case, measured: Mapping[str, Any]) -> None:
    """Write the measurements of a case, one tool a line."""
    tight = (",", ":")
    lines = [
        f"{json.dumps(tool)}: {json.dumps(measurements, separators=tight)}"
        for tool, measurements in measured.items()
    ]
    case.path.parent.mkdir(exist_ok=True)
    case.path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def frozen(case: Case) -> dict[str, Any]:
    """Return the frozen measurements of a case."""
    return dict(json.loads(case.path.read_text(encoding="utf-8")))


def verdicts(case: Case) -> list[Said]:
    """Return what the tools say of the frozen measurements of a case."""
    return judged(frozen(case))


def outcome(case: Case, said: Sequence[Said]) -> dict[str, Any]:
    """Return what the verdicts are worth.

    A fault is found if one of the tools that should say it raises an alarm, and its cause is named
    if an alarm has the words. It is named first if that is the first alarm of its tool.
    """
    alarms = [verdict for verdict in said if verdict.is_alarm]
    texts = " ".join(verdict.text for verdict in said)
    grades = sorted(f"{verdict.tool}: {verdict.subject}: {verdict.grade}" for verdict in said)
    forbidden = [words for words in case.never if re.search(words, texts, re.IGNORECASE)]
    result: dict[str, Any] = {"kind": case.kind, "grades": grades}
    if case.is_sound:
        false = [verdict for verdict in alarms if not _allowed(case, verdict)]
        result |= {
            f"false {grade}": [
                f"{verdict.tool}: {verdict.text}" for verdict in false if verdict.grade == grade
            ]
            for grade in (BAD, WATCH)
        }
    else:
        due = [verdict for verdict in alarms if verdict.tool in case.tools]
        groups = case.causes or [case.words]
        naming = [verdict for verdict in due if any(_matches(group, verdict) for group in groups)]
        named = all(any(_matches(group, verdict) for verdict in due) for group in groups)
        firsts = {verdict.tool: verdict for verdict in reversed(due)}.values()
        result |= {
            "found": bool(due),
            "named": named,
            "first": named and any(verdict in naming for verdict in firsts),
        }
    result["forbidden"] = forbidden
    open_ = {
        verdict.tool
        for verdict in said
        if verdict.subject == "headline" and verdict.grade == NOT_JUDGED
    }
    result["not judged"] = sorted(
        open_
        | {
            f"{o.tool}: {o.subject}"
            for o in said
            if o.grade == NOT_JUDGED and o.subject != "headline"
        }
    )
    return result


def _matches(words: Iterable[str], said: Said) -> bool:
    return any(re.search(pattern, said.text, re.IGNORECASE | re.DOTALL) for pattern in words)


def _allowed(case: Case, said: Said) -> bool:
    return any(re.search(words, said.text) for words in case.allowed)


def score(cases: Iterable[Case]) -> dict[str, dict[str, Any]]:
    """Return the outcome of each case, by half and name."""
    return {f"{case.half}/{case.name}": outcome(case, verdicts(case)) for case in cases}


def interval(count: int, of: int) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share, at 95%."""
    from scipy.stats import binomtest

    low, high = binomtest(count, of).proportion_ci(0.95, "exact") if of else (0.0, 1.0)
    return float(low), float(high)


def counts(outcomes: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return how many of how many cases are found, named and so on."""
    faults = [outcome for outcome in outcomes.values() if "found" in outcome]
    good = [outcome for outcome in outcomes.values() if "found" not in outcome]
    return {
        **{
            name: (sum(outcome[name] for outcome in faults), len(faults))
            for name in ("found", "named", "first")
        },
        "forbidden words": (
            sum(bool(outcome["forbidden"]) for outcome in outcomes.values()),
            len(outcomes),
        ),
        "false bad": (sum(bool(outcome["false bad"]) for outcome in good), len(good)),
        "false watch": (sum(bool(outcome["false watch"]) for outcome in good), len(good)),
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a score, one case a line."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(outcome, ensure_ascii=False)}"
        for name, outcome in content.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def write_first(outcomes: Mapping[str, Any]) -> None:
    """Add the outcomes of new cases to the first score; what stands there stays."""
    known = read(FIRST_SCORE)
    new = {name: outcome for name, outcome in outcomes.items() if name not in known}
    write(FIRST_SCORE, known | new)


def read(path: Path) -> dict[str, Any]:
    """Return a score."""
    return dict(json.loads(path.read_text(encoding="utf-8")))

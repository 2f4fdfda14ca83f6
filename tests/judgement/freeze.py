"""The seam between measuring and judging: measurements as plain values, and back.

It is the only module that knows how gradlab holds what it has measured: a `doctor` observation, the
folder of a run, the numbers of an inspection, the faults of an audit. `measured_*` return values
for a JSON file, `judged_*` return what the tools say of such values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BAD, WATCH, GOOD, NOT_JUDGED = "bad", "watch", "good", "not judged"
# Records of histograms that a verdict uses, of which a frozen run keeps no more; digits of numbers.
HISTOGRAMS, DIGITS = 9, 5
TIMES = ("seconds", "run_seconds")
# Numbers of questions that inspections did not ask yet when a case was frozen.
NOT_ASKED = {
    "alike_behind_prompts": 0, "prompts": [], "positives_that_are_equal": 0, "shared_lines": 0,
}  # fmt: skip
# Between a fault of an audit and its cause, which is no measurement.
USUAL_CAUSE = ". Usual cause: "


@dataclass(frozen=True)
class Said:
    """What a tool says of one subject; of the page as a whole, the subject is ``headline``."""

    tool: str
    subject: str
    grade: str
    text: str

    @property
    def is_alarm(self) -> bool:
        return self.grade in (BAD, WATCH) and self.subject != "headline"


def judged(frozen: Mapping[str, Any]) -> list[Said]:
    """Return what all tools say of the measurements of a case."""
    judges = {
        "doctor": judged_doctor,
        "report": judged_run,
        "inspect": judged_inspection,
        "audit": judged_audit,
        "verify": judged_checks,
    }
    said = []
    for tool, judge in judges.items():
        measured = frozen.get(tool)
        if measured is not None:
            refused = "error" in measured
            said += said_by_error(tool, measured["error"]) if refused else judge(measured)
    return said


def said_by_error(tool: str, text: str) -> list[Said]:
    """Return a refusal of a tool as a verdict."""
    return [Said(tool, "error", BAD, text)]


# The doctor.


def measured_doctor(diagnosis: Any) -> dict[str, Any]:
    """Return the measurements of a trainer as the doctor took them."""
    return _rounded(diagnosis.measurements)


def judged_doctor(measurements: Mapping[str, Any]) -> list[Said]:
    """Return the doctor's verdicts on a trainer, worst first."""
    from gradlab.diagnosis.verdicts import judge
    from gradlab.verdict import worst_first

    return [_said("doctor", verdict) for verdict in worst_first(judge(measurements))]


def _said(tool: str, verdict: Any) -> Said:
    text = f"{verdict.title}: {verdict.finding} {verdict.change}".strip()
    return Said(tool, verdict.title, verdict.grade, text)


def _rounded(value: Any) -> Any:
    """Return plain values with few digits; 1 minus a number near 1 keeps as many."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    if isinstance(value, float) and 0.5 < value < 1:
        return round(value, DIGITS - 1 - math.floor(math.log10(1 - value)))
    return _short(value) if isinstance(value, float) else value


# Runs.


def measured_run(folder: Path) -> dict[str, Any]:
    """Return the measurements and the manifest of a recorded run.

    Series with the same steps stand together: ``{group: [[steps, {name: values}], ...]}``.
    """
    from gradlab.monitor.metrics import read_metrics

    rows = read_metrics(folder / "metrics.csv")
    late = sorted({step for step, group, _, _ in rows if group == "histogram"})[-HISTOGRAMS:]
    series: dict[tuple[str, str], dict[int, float]] = {}
    for step, group, name, value in rows:
        if group != "histogram":
            # A clock says nothing of training.
            value = float(step) if name in TIMES else _short(value)
        elif step in late and value:
            value = _short(value, 4)
        else:
            continue
        series.setdefault((group, name), {})[step] = value
    together: dict[str, dict[tuple[int, ...], dict[str, list[float]]]] = {}
    for (group, name), points in series.items():
        together.setdefault(group, {}).setdefault(tuple(points), {})[name] = list(points.values())
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for name in ("versions", "results", "environment", "machine", "hardware"):
        manifest.pop(name, None)
    manifest.get("watch", {}).pop("doctor", None)  # what the doctor says is judged with it
    text = json.dumps(manifest)
    for parent in (folder, folder.parent, folder.parent.parent):
        text = text.replace(str(parent), "folder") if len(str(parent)) > 5 else text
    groups = {group: [[list(steps), names] for steps, names in steps_and_names.items()]
              for group, steps_and_names in together.items()}  # fmt: skip
    return {"manifest": json.loads(text), "series": groups}


def judged_run(frozen: Mapping[str, Any]) -> list[Said]:
    """Return the verdicts of the report on a frozen run, worst first, and its headline."""
    from gradlab.monitor.verdicts import judge

    rows = [
        (step, group, name, value)
        for group, steps_and_names in frozen["series"].items()
        for steps, names in steps_and_names
        for name, values in names.items()
        for step, value in zip(steps, values, strict=True)
    ]
    if not rows:
        return [Said("report", "headline", NOT_JUDGED, "Nothing was recorded.")]
    rows.sort(key=lambda row: row[0])
    silence = frozen.get("silence", 0.0)
    return _said_of(judge({"rows": rows, "manifest": frozen["manifest"], "silence": silence}))


def said_of_run(folder: Path) -> list[Said]:
    """Return the verdicts on a recorded run, worst first, and its headline."""
    from gradlab.errors import GradlabError
    from gradlab.monitor.run_reader import read_recording
    from gradlab.monitor.verdicts import judge_run

    try:
        return _said_of(judge_run(read_recording(folder), silence=0.0))
    except GradlabError as error:
        return [Said("report", "headline", NOT_JUDGED, str(error))]


def _said_of(judgement: Any) -> list[Said]:
    headline = Said("report", "headline", judgement.grade, judgement.headline)
    return [headline, *(_said("report", verdict) for verdict in judgement.verdicts)]


# Inspections, audits and checks.


def measured_inspection(inspection: Any) -> dict[str, Any]:
    """Return the numbers of an inspection."""
    return json.loads(json.dumps(inspection.numbers, default=lambda scalar: scalar.item()),
                      parse_float=lambda text: _short(float(text)))  # fmt: skip


def judged_inspection(numbers: dict[str, Any]) -> list[Said]:
    """Return the advice on frozen numbers."""
    from gradlab.inspection.advice import advise

    return said_by_inspection(advise(NOT_ASKED | numbers))


def said_by_inspection(advice: Iterable[Any]) -> list[Said]:
    """Return advice as verdicts."""
    return [
        Said("inspect", verdict.subject, verdict.grade, f"{verdict.change} {verdict.finding}")
        for verdict in advice
    ]


def measured_audit(audit: Any) -> dict[str, Any]:
    """Return the faults of an audit."""
    faults = [[fault.name, fault.finding.partition(USUAL_CAUSE)[0]] for fault in audit.faults]
    return {"target": audit.target, "processes": audit.processes, "faults": faults}


def judged_audit(frozen: Mapping[str, Any]) -> list[Said]:
    """Return the faults of a frozen audit as verdicts."""
    return said_by_audit(_restored_audit(frozen))


def said_by_audit(audit: Any) -> list[Said]:
    """Return the faults of an audit as verdicts."""
    if audit.passed:
        return [Said("audit", "gradient", GOOD, "The gradients are right.")]
    return [
        Said("audit", fault.name, fault.grade, f"{fault.finding} {fault.change}")
        for fault in audit.faults
    ]


def _restored_audit(frozen: Mapping[str, Any]) -> Any:
    from gradlab.scale.audit import Audit
    from gradlab.scale.audit.faults import fault

    faults = tuple(fault(name, text) for name, text in frozen["faults"])
    return Audit(frozen["target"], frozen["processes"], True, 0.0, {}, {}, faults)


def judged_checks(frozen: Mapping[str, Any]) -> list[Said]:
    """Return the outcome of a verification, of which only that is kept."""
    return [Said("verify", name, grade, text) for name, grade, text in frozen["checks"]]


def _short(value: float, digits: int = DIGITS) -> float:
    """Return a number with few significant digits, exactly if they suffice."""
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value

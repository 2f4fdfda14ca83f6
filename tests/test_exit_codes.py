"""--json and --fail-on: what commands print for programs, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import gradlab
from gradlab.cli.exit_code import LIMITS, end_with, worst
from gradlab.verdict import GRADES
from tests.processes import fork_audits
from tests.tiny_models import make_sentences


@pytest.fixture
def run(shell, monkeypatch, tmp_path: Path):
    """A command in an empty folder: its exit code, and what it printed as JSON."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code, out, _ = shell(*words, "--json")
        return code, json.loads(out)

    return call


@pytest.mark.parametrize(
    ("limit", "failing"),
    [
        ("never", []),
        ("bad", ["bad"]),
        ("watch", ["bad", "watch"]),
        ("not-judged", ["bad", "watch", "not judged"]),
    ],
)
def test_the_limit_and_what_is_worse_fail(limit, failing):
    assert limit in LIMITS
    for grade in GRADES:
        if grade in failing:
            with pytest.raises(SystemExit, match="1"):
                end_with(grade, limit)
        else:
            end_with(grade, limit)


def test_the_worst_grade():
    assert worst(["good", "not judged", "watch"]) == "watch"
    assert worst(["not judged", "good"]) == "not judged"
    assert worst([]) == "good"


def record(folder: str, spread: float) -> None:
    """Record twelve batches in which embeddings move apart, in the end by ``spread``."""
    watch = gradlab.watch(loss="infonce", output=folder, every=1)
    generator = torch.Generator().manual_seed(0)
    for step in range(12):
        common = torch.ones(32, 16) * (12 - step)
        anchors = common + spread * torch.randn(32, 16, generator=generator)
        watch.observe(anchors, anchors + 0.1 * spread * torch.randn(32, 16, generator=generator))
    watch.finish()


def test_report(run):
    record("apart", 5.0)
    code, content = run("report", "apart", "--fail-on", "watch")
    (entry,) = content["runs"]
    judgement = entry["grade"]
    assert judgement == content["grade"] == "not judged"  # no score
    assert code == 0
    assert run("report", "apart", "--fail-on", "not-judged")[0] == 1
    assert entry["status"] == "finished"
    subjects = {verdict["subject"]: verdict["grade"] for verdict in entry["verdicts"]}
    assert subjects["Scores"] == "not judged"
    assert Path(content["page"]).exists()


def test_report_of_several_runs_has_the_worst_grade(run, shell):
    record("runs/apart", 5.0)
    record("runs/lost", float("nan"))
    code, content = run("report", "runs")
    assert code == 0  # unless --fail-on says otherwise
    assert [entry["grade"] for entry in content["runs"]] == ["not judged", "bad"]
    assert content["grade"] == "bad"
    code, out, _ = shell("report", "runs", "--fail-on", "bad")
    assert code == 1
    assert "Wrote" in out


def test_doctor(run, shell):
    code, content = run("doctor")
    grades = {verdict["grade"] for verdict in content["verdicts"]}
    assert content["grade"] == worst(grades)
    assert content["headline"].startswith("this machine:")
    assert code == ("bad" in grades)
    assert shell("doctor", "--fail-on", "never")[0] == 0
    assert shell("doctor", "--fail-on", "mild")[0] == 2


def test_audit(run, monkeypatch, tmp_path):
    fork_audits(monkeypatch)
    (tmp_path / "own.py").write_text(
        "def loss(anchors, positives):\n"
        "    return (anchors @ positives.T / 0.05).logsumexp(1).mean()\n"
    )
    code, content = run("audit", "own.py:loss", "--even", "--fail-on", "never")
    assert (code, content["grade"], content["passed"]) == (0, "bad", False)
    (fault, *_) = content["faults"]
    assert fault["name"] == "separate losses"
    assert fault["change"]
    assert {case["shares"] for case in content["cases"]} == {"even", "shuffled"}


def test_verify(run, monkeypatch):
    from gradlab.losses.arccon import ArcCon

    words = ("verify", "--loss", "arccon", "--batch-size", "8", "--dim", "6")
    code, content = run(*words)
    assert (code, content["grade"]) == (0, "good")
    checks = content["checks"]
    assert {check["loss"] for check in checks} == {"arccon"}
    assert all(check["error"] < 1e-11 for check in checks if check["declared"])
    monkeypatch.setattr(ArcCon, "ratio", lambda self, positive, summary: 1 + 0 * positive.chord)
    code, content = run(*words)
    assert (code, content["grade"]) == (1, "bad")
    assert run(*words, "--fail-on", "never")[0] == 0


def test_inspect(run, shell, bert, tmp_path):
    sentences = make_sentences(8) * 8
    Path("sentences.txt").write_text("\n".join(sentences), encoding="utf-8")
    words = ("inspect", "--model", str(bert), "--train-file", "sentences.txt", "--batch-size", "16")
    code, content = run(*words, "--batches", "10")
    assert code == 0
    copies = next(finding for finding in content["findings"] if finding["subject"] == "copies")
    assert copies["grade"] == content["grade"] == "bad"
    assert copies["evidence"]["share of the push"] > 0.1
    assert copies["steps"][0]["code"]
    assert content["numbers"]["duplicates"] == 56
    assert all(Path(file).exists() for file in content["files"])
    assert shell(*words, "--batches", "10", "--fail-on", "bad")[0] == 1
    assert "as_json" not in json.loads(Path("inspect/inspect.json").read_text())["settings"]


def test_an_inspection_of_embeddings_only_is_not_judged_good(run):
    views = np.random.default_rng(0).normal(size=(2, 64, 16))
    np.savez("views.npz", anchors=views[0], positives=views[0] + 0.1 * views[1])
    words = ("inspect", "--embeddings", "views.npz", "--batch-size", "16", "--batches", "4")
    _, content = run(*words, "--set", "temperature=0.2")
    assert content["grade"] in ("not judged", "watch", "bad")
    assert run(*words, "--set", "temperature=0.2", "--fail-on", "not-judged")[0] == 1

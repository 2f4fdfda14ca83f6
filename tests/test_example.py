"""`gradlab example` makes what it says, and what it prints next works."""

from __future__ import annotations

import shlex


def test_the_example_runs_and_its_duplicates_are_found(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, advice, err = shell("example")
    assert code == 0, err
    for line in advice.splitlines():
        if line.startswith("  gradlab "):
            code, printed, err = shell(*shlex.split(line)[1:])
            assert code == 0, err
    assert (
        "Among 64 sentences, 3 texts repeat an earlier one" in printed
    )  # planted: three anchors occur twice
    assert (tmp_path / "example" / "run" / "report.html").is_file()
    assert "--overwrite" in shell("example")[2]

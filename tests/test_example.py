"""`gradlab example` makes what it says, and what it prints next works."""

from __future__ import annotations

import shlex

from click.testing import CliRunner

from gradlab.cli.commands import cli


def test_the_example_runs_and_its_duplicates_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(cli, ["example"])
    assert made.exit_code == 0, made.output
    for line in made.output.splitlines():
        if line.startswith("  gradlab "):
            done = CliRunner().invoke(cli, shlex.split(line)[1:])
            assert done.exit_code == 0, done.output
            printed = done.output
    assert (
        "Among 64 sentences, 3 texts repeat an earlier one" in printed
    )  # planted: three anchors occur twice
    assert (tmp_path / "example" / "run" / "report.html").is_file()
    again = CliRunner().invoke(cli, ["example"])
    assert "--overwrite" in str(again.exception)

"""Readers of data files: nothing that a file names is imported, damage is refused in a line.

`READERS` lists every reader of records, manifests, sweeps' tables and saved results. Readers of
checkpoints and of model folders have their damage in `test_train_damage` and `test_encoder`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re

import numpy as np
import pytest

import gradlab
from gradlab.files import write_csv
from gradlab.monitor.metrics import History, write_metrics
from gradlab.monitor.run_reader import read_manifest, read_recording, read_recordings
from gradlab.monitor.verdicts import judge, judge_run
from gradlab.report import follow_run, write_report
from gradlab.simulation import SimulationResult, simulate
from gradlab.sweep.flat_settings import content_of_code
from gradlab.train.config import TrainConfig
from gradlab.train.run_folder import resumable_config
from tests.fuzzing import as_json, check_read_or_refused, damaged_files, damaged_objects

LOSS = "evil.py:loss"
NESTED = (
    LOSS, "evil.py", "evil:loss", f"symmetric({LOSS})", f"sum(infonce, {LOSS})",
    f"recombined(gate={LOSS}, weight=infonce, ratio=1)", f"mask(symmetric({LOSS}))",
)  # fmt: skip


def write_run(folder, **manifest):
    """A recorded run with all kinds of numbers."""
    history = History()
    for step in range(0, 100, 10):
        histogram = {"positive_cosine:0.75": 1.0, "negative_cosine:0.1": 0.6}
        diagnostics = {
            "gradient_dissipation": 0.5, "active": 0.9, "hardest_share": 0.3,
            "uniform_share": 1 / 31, "lemma_share": 0.9, "ratio_median": 1.0,
            "positive_cosine": 0.8, "negative_cosine": 0.1 + step / 1000, "effective_rank": 9.0,
        }  # fmt: skip
        history.add(step, "train", {"batch_loss": 3 - step / 100, "learning_rate": 1e-4})
        history.add(step, "diagnostics", diagnostics)
        history.add(step, "histogram", histogram | {"negative_cosine:0.2": 0.4})
        history.add(step, "evaluation", {"eval_sts_spearman_cosine": 0.4 + step / 1000})
        history.add(step, "watch", {"run_seconds": float(step), "seconds": 0.1})
    folder.mkdir(parents=True, exist_ok=True)
    write_metrics(folder / "metrics.csv", history.rows())
    content = {
        "kind": "watched run",
        "config": {"loss": "infonce(temperature=0.1)", "seed": 1},
        "watch": {
            "total_steps": 100,
            "notes": ["a note"],
            "sentences": {"": 32},
            "known": {"": True},
            "settings": {"": {"scale": 20.0}},
        },
        "status": "finished",
        "results": {"seconds": 1.0, "run_seconds": 90.0},
        "versions": {"torch": "2.0"},
    }
    (folder / "manifest.json").write_text(json.dumps(content | manifest), encoding="utf-8")
    return content


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A folder with code that leaves a trace if it is run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(
        "open('code-was-run', 'w').close()\ndef loss(a, p):\n    return (a - p).square().sum(1)\n"
    )
    yield tmp_path
    assert not (tmp_path / "code-was-run").exists()


def _saved_simulation(folder, loss):
    path = simulate("infonce", negatives=2, batches=2, mu_pos=[0.5], mu_neg=[1.0]).save(
        folder / "simulation"
    )
    with np.load(path) as arrays:
        content = dict(arrays)
    manifest = json.loads(str(content["manifest"])) | {"loss": loss}
    np.savez(path, **content | {"manifest": json.dumps(manifest)})
    return path


def _trained(folder, loss):
    config = {"model": "bert", "train_file": "lines.txt", "loss": loss, "output": str(folder)}
    write_run(folder, kind="", config=config)
    return folder


# Each reader of files that name a loss: a function of a folder and the loss that is named.
READERS = {
    "read_recording": lambda f, loss: read_recording(_run(f, loss)).losses,
    "read_recordings": lambda f, loss: read_recordings([_run(f, loss)])[0].losses,
    "read_manifest": lambda f, loss: read_manifest(_run(f, loss)),
    "judge_run": lambda f, loss: judge_run(read_recording(_run(f, loss))),
    "judge": lambda f, loss: judge(
        {"rows": [], "manifest": {"config": {"loss": loss}, "status": "finished"}}
    ),
    "write_report": lambda f, loss: write_report(_run(f, loss)),
    "write_report, Markdown": lambda f, loss: write_report(_run(f, loss), f / "report.md"),
    "write_report, several runs": lambda f, loss: write_report(
        [_run(f / "a", loss), _run(f / "b", "infonce")]
    ),
    "follow_run": lambda f, loss: follow_run(_run(f, loss), every=0, say=lambda line: None),
    "SimulationResult.load": lambda f, loss: SimulationResult.load(_saved_simulation(f, loss)),
    "resumable_config": lambda f, loss: resumable_config(_trained(f / "run", loss)),
    "TrainConfig.of_run": lambda f, loss: TrainConfig.of_run(
        {"model": "bert", "train_file": "lines.txt", "output": str(f), "loss": loss}
    ),
}


def _run(folder, loss):
    write_run(folder, config={"loss": loss, "loss_settings": {}, "seed": 1})
    return folder


@pytest.mark.parametrize("loss", NESTED)
@pytest.mark.parametrize("name", READERS)
def test_no_reader_imports_what_a_file_names(evil, name, loss):
    check_read_or_refused(lambda: READERS[name](evil / "data", loss), name)


def test_a_loss_that_is_not_registered_is_shown_as_text(evil):
    page = write_report(_run(evil / "data", LOSS)).read_text(encoding="utf-8")
    assert f"loss {LOSS}" in page


def test_the_user_may_name_the_code_of_a_saved_simulation(tmp_path):
    path = _saved_simulation(tmp_path, LOSS)
    with pytest.raises(gradlab.GradlabError, match="which reading a file never runs"):
        SimulationResult.load(path)
    assert str(SimulationResult.load(path, loss="arccon").loss) == "arccon"


def read_all(folder):
    """Everything that is read from a run's folder."""
    write_report(folder)
    judge_run(read_recording(folder))


def test_damaged_manifests_are_refused_in_a_line(tmp_path):
    content = write_run(tmp_path)
    path = tmp_path / "manifest.json"
    for name, damaged in damaged_objects(content, count=50):
        path.write_text(as_json(damaged), encoding="utf-8")
        check_read_or_refused(lambda: read_all(tmp_path), name)
    for name, damaged in damaged_files(json.dumps(content).encode(), count=10):
        path.write_bytes(damaged)
        check_read_or_refused(lambda: read_all(tmp_path), name)


def test_damaged_metrics_are_read_or_refused_in_a_line(tmp_path):
    write_run(tmp_path)
    path = tmp_path / "metrics.csv"
    for name, damaged in damaged_files(path.read_bytes(), count=20):
        path.write_bytes(damaged)
        check_read_or_refused(lambda: read_all(tmp_path), name)


ODD = (0.0, -1.0, 1e300, math.nan, math.inf)


@pytest.mark.parametrize("number", ODD)
def test_odd_numbers_in_every_series_are_read_or_refused_in_a_line(tmp_path, number):
    """Such as an equal share of 0, and histograms of zeros."""
    write_run(tmp_path)
    rows = gradlab.monitor.read_metrics(tmp_path / "metrics.csv")
    for changed in dict.fromkeys((group, name.partition(":")[0]) for _, group, name, _ in rows):
        odd = [
            (step, group, name, number if (group, name.partition(":")[0]) == changed else value)
            for step, group, name, value in rows
        ]
        write_metrics(tmp_path / "metrics.csv", odd)
        check_read_or_refused(lambda: read_all(tmp_path), f"{changed} is {number}")


@pytest.mark.parametrize("name", ["n" * 300, "a\0b", ""])
def test_names_that_no_file_can_have_are_refused(name):
    assert check_read_or_refused(lambda: read_recordings([name]), name) or name == ""
    assert check_read_or_refused(lambda: write_report(name), name) or name == ""


def test_what_a_kill_leaves_is_cleared_by_the_next_recording(tmp_path):
    names = (".metrics-0123abcd.csv", ".manifest-0123abcd.json")
    for name in names:
        (tmp_path / name).write_text("")
    (tmp_path / ".report-0123abcd.html").write_text("")
    watch = gradlab.watch(loss="infonce", output=tmp_path, every=1)
    rows = np.random.default_rng(0).standard_normal((8, 4))
    torch = pytest.importorskip("torch")
    watch.observe(torch.tensor(rows), torch.tensor(rows + 0.1))
    watch.finish()
    assert not [name for name in names if (tmp_path / name).exists()]
    write_report(tmp_path)
    assert not list(tmp_path.glob(".*"))


HOSTILE = (
    "<script>alert(1)</script>", "[link](https://evil.example)", "# heading", "![](https://x.y/z)",
    "a|b", "1. list", "- list", "`code`", "https://evil.example", "www.evil.example", "@everyone",
    "**bold**", "line\nbreak\n\n# heading", "&lt;b&gt;", "$x$", "_x_", "\\",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_texts_literally(tmp_path, text):
    """In a parser of Markdown, the report of hostile names is plain text."""
    markdown_it = pytest.importorskip("markdown_it")
    from gradlab.templates import markdown_text

    line = markdown_text(text)
    assert "\n" not in line
    parser = markdown_it.MarkdownIt("gfm-like", {"linkify": False}).enable("table")
    tokens = parser.parse(f"| x |\n|---|\n| {line} |\n")
    (cell,) = [token for token in tokens if token.type == "inline"][1:]
    kinds = {child.type for child in cell.children}
    assert kinds <= {"text", "html_inline", "text_special"}
    inline = [child.content for child in cell.children if child.type == "html_inline"]
    assert set(inline) <= {"<!-- -->"}
    visible = "".join(child.content for child in cell.children if child.type != "html_inline")
    assert visible == " ".join(text.split())
    assert next(token.type for token in parser.parse(line)) == "paragraph_open"
    write_run(tmp_path, config={"loss": text, text: text}, watch={"notes": [text]})
    report = write_report([tmp_path], tmp_path / "report.md").read_text(encoding="utf-8")
    headings = [t for t in parser.parse(report) if t.type == "heading_open"]
    assert [heading.tag for heading in headings] == ["h2"]
    assert "<script" not in report


def test_every_text_of_a_markdown_template_is_escaped():
    from importlib import resources

    for name in ("run.md", "runs.md"):
        template = (resources.files("gradlab.report") / "templates" / name).read_text("utf-8")
        outputs = re.findall(r"{{(.*?)}}", template)
        plain = [text.strip() for text in outputs if "| md" not in text]
        assert set(plain) <= {"rows(groups)", "rows(runs)", '"**" if row.best'}


def test_texts_in_tables_are_no_formulas_of_a_spreadsheet(tmp_path):
    cells = ["=1+1", "+1", "-0.5", "-x", "@x", "\t=1", "plain", 3.5, -2]
    path = write_csv(tmp_path / "table.csv", {"=name": cells})
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines == ["'=name", "'=1+1", "+1", "-0.5", "'-x", "'@x", "'\t=1", "plain", "3.5", "-2"]
    exact = write_csv(tmp_path / "exact.csv", {"text": ["-x"]}, exact=True)
    assert exact.read_text(encoding="utf-8") == "text\n-x\n"


def test_csv_changes_only_texts_that_a_spreadsheet_computes(tmp_path, monkeypatch):
    cells = []
    monkeypatch.setattr("gradlab.files.spreadsheet_text", lambda cell: cells.append(cell) or cell)
    write_csv(tmp_path / "table.csv", {"number": np.arange(-1.0, 2.0), "=text": ["a", 1, "+b"]})
    assert cells == ["=text", "+b"]


def test_the_code_that_a_sweep_names_is_known_by_its_content(tmp_path, monkeypatch):
    """A specification is the user's own program: its code is imported, and hashed to know runs."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sweep_loss.py"
    settings = {"model": "bert", "train_file": "lines.txt", "output": "out"}
    assert content_of_code(settings | {"loss": "infonce"}) == {}
    contents = set()
    for factor in (1, 22):
        path.write_text(
            f"def loss(anchors, positives):\n    return {factor} * (anchors - positives).sum()\n",
            encoding="utf-8",
        )
        (content,) = content_of_code(settings | {"loss": "sweep_loss.py:loss"}).values()
        assert content == hashlib.sha256(path.read_bytes()).hexdigest()
        contents.add(content)
    assert len(contents) == 2

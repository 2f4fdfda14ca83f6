"""The report: its numbers are the run's, its page stands alone, and it says what is wrong."""

from __future__ import annotations

import html.parser
import itertools
import json
import math
import re
import threading
from importlib import resources

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import gradlab
from gradlab import GradlabError
from gradlab.cli.commands import cli
from gradlab.monitor.expected_loss import expected_component, loss_of_guessing
from gradlab.monitor.metrics import (
    History,
    append_metrics,
    histogram_rows,
    read_metrics,
    write_metrics,
)
from gradlab.monitor.run_reader import read_recording
from gradlab.numbers import short
from gradlab.report import follow_run, run_charts, write_report
from gradlab.report.svg_charts import Series, labels, line_chart, ticks
from gradlab.simulation import simulate
from tests.judgement import run_boundaries

torch = pytest.importorskip("torch")


@pytest.fixture
def watched(tmp_path):
    """A recording of a loop of one's own whose two views drift apart from one point."""
    watcher = gradlab.watch(
        loss="arccon", output=tmp_path / "runs" / "a <b>", every=1, total_steps=6
    )
    generator = torch.Generator().manual_seed(0)
    centre = torch.ones(1, 8)
    for step in range(6):
        rows = centre + 0.3 * step * torch.randn(12, 8, generator=generator) + 0.05
        rows = rows + 0.01 * torch.randn(12, 8, generator=generator)
        watcher.observe(rows, rows + 0.1 * torch.randn(12, 8, generator=generator))
    watcher.log(6, "evaluation", {"stsb_dev": 0.7512})
    watcher.finish()
    return watcher


class Page(html.parser.HTMLParser):
    """Checks that tags are balanced and collects what a page refers to."""

    VOID = {"meta", "br", "img", "line", "path", "circle", "link", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.series = [], [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if "data-series" in dict(attrs):
            label = dict(attrs)["aria-label"].split(":")[0]
            self.series[label] = json.loads(dict(attrs)["data-series"])

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"style", "script"}:
            self.words.append(data)


def test_the_page_needs_nothing_but_itself(watched):
    text = write_report(watched.folder).read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"https?://|//\w+\.|@import|url\(|fetch|XMLHttp", text)
    assert not [attrs for _, attrs in page.tags if {"src", "srcset"} & set(attrs)]
    links = {attrs["href"] for _, attrs in page.tags if "href" in attrs}
    assert links  # each to an explanation on the page itself
    assert links <= {f"#{attrs['id']}" for _, attrs in page.tags if "id" in attrs}
    meta = [attrs for tag, attrs in page.tags if tag == "meta"]
    assert any("default-src 'none'" in attrs.get("content", "") for attrs in meta)
    assert "<b>" not in text.split("<h1>")[1].split("</h1>")[0]
    assert "a <b>" in page.words


def test_each_subject_of_a_verdict_is_explained():
    page = resources.files("gradlab.report") / "templates" / "about.html"
    about = page.read_text(encoding="utf-8")
    subjects = {row.subject for row in run_boundaries.rows() if row.grade}
    anchors = {subject.lower().replace(" ", "-") for subject in subjects}
    assert len(anchors) > 15
    assert anchors <= set(re.findall(r'id="([^"]+)"', about))


def test_the_numbers_are_those_of_the_run(watched):
    page = Page(write_report(watched.folder).read_text(encoding="utf-8"))
    frame = watched.to_frame()
    for title, label, column in (
        ("Gradient dissipation", "mean", "gradient_dissipation"),
        ("Cosines", "negatives", "negative_cosine"),
        ("Lemma 1", "satisfied", "lemma_share"),
    ):
        (series,) = [chart for chart in page.series[title] if chart["label"] == label]
        expected = frame[column].dropna()
        assert [point[0] for point in series["points"]] == list(expected.index)
        assert [point[2] for point in series["points"]] == [short(value) for value in expected]
    assert "STS-B dev: best 0.751 at step 6" in " ".join(page.words)


def write_run(folder, scores, seed, temperature):
    """The folder of a run of `gradlab train` with these scores."""
    metrics = folder / "metrics.csv"
    write_metrics(metrics, [])
    for step, value in scores.items():
        measured = {"gradient_dissipation": 1 / (1 + step), "active": 1.0}
        append_metrics(metrics, step, {"evaluation": {"stsb_dev": value}})
        append_metrics(metrics, step, {"diagnostics": measured})
        append_metrics(metrics, step, {"train": {"loss": 1.0 + step}})
    settings = {"temperature": temperature}
    config = {"loss": "infonce", "loss_settings": settings, "seed": seed, "max_steps": 20}
    manifest = {"config": config, "status": "finished"}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.fixture
def sweep(tmp_path):
    """A sweep's folder with two settings, two seeds each, and one run that has measured nothing."""
    scores = {"a": (0.60, 0.60), "b": (0.64, 0.64), "c": (0.70, 0.70), "d": (0.72, 0.50)}
    for place, (name, (best, last)) in enumerate(scores.items()):
        folder = tmp_path / "sweep" / "runs" / name
        write_run(folder, {0: 0.4, 10: best, 20: last}, place % 2, 0.05 if name in "ab" else 0.5)
    (tmp_path / "sweep" / "runs" / "e").mkdir()
    write_metrics(tmp_path / "sweep" / "runs" / "e" / "metrics.csv", [])
    return tmp_path / "sweep"


GOOD = "step,group,name,value\n1,train,loss,0.5\n"


def tables_of(text):
    """The cells of each table, row by row."""
    return [
        [
            re.findall(r"<t[dh]>(?:<i [^>]*></i>)?([^<]*)</t[dh]>", row)
            for row in re.findall(r"<tr.*?</tr>", table, re.S)
        ]
        for table in re.findall(r'<table class="runs">(.*?)</table>', text, re.S)
    ]


def test_several_runs_on_one_page(sweep):
    result = CliRunner().invoke(cli, ["report", str(sweep)], standalone_mode=False)
    assert "d: Scores: STS-B dev was best at step 10 (0.720)" in result.output
    assert f"Wrote {sweep / 'report.html'}" in result.output
    text = (sweep / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    groups, runs = tables_of(text)
    spread = 0.04 / math.sqrt(2), 0.02 / math.sqrt(2)
    assert groups == [
        ["STS-B dev, best", "last", "before training", "runs", "temperature"],
        [f"0.620 ± {spread[0]:.3f}", f"0.620 ± {spread[0]:.3f}", "0.400", "2", "0.05"],
        [f"0.710 ± {spread[1]:.3f}", f"0.600 ± {0.2 / math.sqrt(2):.3f}", "0.400", "2", "0.5"],
    ]
    scores = "0.720 (step 10)", "0.500 (step 20)", "0.400"
    assert runs[4] == ["d", *scores, "0.5", "1", "bad: scores"]
    assert runs[1][-1] == "not judged"  # three records are too few
    lines = page.series["Gradient dissipation"]
    assert [line["label"] for line in lines] == [
        f"temperature {t}, seed {s}" for t in (0.05, 0.5) for s in (0, 1)
    ]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no metrics.csv in it"),
        ({"metrics.csv": "step,group,name,value\n"}, "no measurements yet"),
        ({"metrics.csv": GOOD, "manifest.json": "{"}, "cannot read"),
        ({"metrics.csv": GOOD, "manifest.json": "3"}, "is not a JSON object"),
        ({"metrics.csv": "epoch,loss\n1,0.5\n"}, "not a metrics file"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path, files, words):
    place = tmp_path / "run"
    place.mkdir()
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
    with pytest.raises(GradlabError, match=words):
        write_report(place)
    assert not list(tmp_path.rglob("*.html"))


DAMAGED = """step,group,name,value
1,train,loss,0.5
2,train,loss,0.4x
three,train,loss,0.3
4,train,loss,0.2,0.1
5,train,loss,0.25
6,"train,loss,0.1
7,evaluation,"eval_sts, ""dev""_spearman_cosine",0.75
8,train,l\x80ss,0.1
-5,train,loss,0.1
123456789012345678901234567890,train,loss,0.1
11,train,loss,0.0"""


def test_of_a_damaged_file_the_good_lines_are_read(sweep):
    """A run that was killed, or is being written, does not stop the report of its folder."""
    place = sweep / "runs" / "f"
    place.mkdir()
    (place / "metrics.csv").write_bytes(DAMAGED.encode("latin-1"))
    (sweep / "runs" / "g").mkdir()
    (sweep / "runs" / "g" / "metrics.csv").write_text(
        "step,group,name,value\n1,train,lo", encoding="utf-8"
    )
    run = read_recording(place)
    assert run.history.rows() == [
        (1, "train", "loss", 0.5),
        (5, "train", "loss", 0.25),
        (7, "evaluation", 'eval_sts, "dev"_spearman_cosine', 0.75),
    ]
    said = "Left out of metrics.csv: 8 lines without a whole measurement, from line 3 on."
    assert run.damage == said
    assert said in write_report(place).read_text(encoding="utf-8")
    result = CliRunner().invoke(cli, ["report", str(sweep)], standalone_mode=False)
    assert result.exit_code == 0
    assert f"f: {said}" in result.output
    assert "5 runs" in (sweep / "report.html").read_text(encoding="utf-8")


def test_the_manifest_of_something_else_is_refused(tmp_path):
    write_metrics(tmp_path / "metrics.csv", [(1, "train", "loss", 0.5)])
    (tmp_path / "manifest.json").write_text('{"config": 3}', encoding="utf-8")
    with pytest.raises(GradlabError, match="not the manifest of a run: its 'config' is no JSON"):
        read_recording(tmp_path)


def test_a_first_batch_without_negatives_does_not_stop_the_report(tmp_path):
    """A mask leaves them all out of it; guessing is among the 8 candidates of the next."""
    unit = torch.nn.functional.normalize
    generator = torch.Generator().manual_seed(0)
    watch = gradlab.watch(
        loss="mask(infonce, by=near_duplicates, above=0.99)", output=tmp_path, every=1
    )
    alike, *views = torch.ones(8, 16), *torch.randn(2, 8, 16, generator=generator)
    for anchors, positives in ((alike, alike), views, views):
        watch.observe(unit(anchors, dim=1), unit(positives, dim=1))
    watch.finish()
    assert read_recording(tmp_path).guessing() == pytest.approx(math.log(8))
    write_report(tmp_path)


def test_names_of_any_kind_are_read_back(tmp_path):
    names, metrics = ["a, b", 'sts "dev"', "é – ∞", "'", ";"], tmp_path / "metrics.csv"
    write_metrics(metrics, [])
    append_metrics(metrics, 3, {"evaluation": dict.fromkeys(names, 0.5)})
    assert names == pd.read_csv(metrics)["name"].tolist()
    assert names == [row[2] for row in read_metrics(metrics)]


def test_the_best_settings_are_best_though_their_first_run_crashed(tmp_path):
    for name, scores, seed, temperature in (
        ("a", {}, 0, 0.05), ("b", {0: 0.4, 10: 0.9}, 1, 0.05), ("c", {10: 0.5}, 0, 0.5),
        ("d", {10: 0.6}, 1, 0.5),
    ):  # fmt: skip
        write_run(tmp_path / name, scores, seed, temperature)
    append_metrics(tmp_path / "a" / "metrics.csv", 1, {"train": {"loss": 1.0}})
    text = write_report(tmp_path, tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Best: temperature 0.05, with STS-B dev 0.900 at step 10." in text
    assert "| **0.900** |" in text


def test_runs_in_folders_of_one_name_are_told_apart(tmp_path):
    places = [tmp_path / "first" / "run", tmp_path / "second" / "run", tmp_path / "third"]
    for place in places:
        write_run(place, {0: 0.4, 10: 0.5}, 0, 0.05)
    result = CliRunner().invoke(cli, ["report", *map(str, places)], standalone_mode=False)
    _, runs = tables_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert [row[0] for row in runs[1:]] == ["first/run", "second/run", "third"]
    assert "first/run: STS-B dev" in result.output
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    lines = page.series["Gradient dissipation"]
    assert [line["label"] for line in lines] == ["first/run", "second/run", "third"]
    # One run of a folder keeps its short name, whatever stands beside it on the disk.
    assert "run" in write_report(places[0]).read_text(encoding="utf-8")


def test_curves_and_scores_of_several_runs_are_called_means(tmp_path):
    for temperature in (0.05, 0.5):
        for seed in range(6):
            folder = tmp_path / f"{temperature} {seed}"
            write_run(folder, {0: 0.4, 10: 0.5 + 0.01 * seed}, seed, temperature)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    labels = [line["label"] for line in Page(text).series["Gradient dissipation"]]
    assert labels == [f"temperature {t}, mean of 6 runs" for t in (0.05, 0.5)]
    assert "with a mean STS-B dev of 0.525 ± 0.019 over 6 runs" in text


def test_reports_have_words_where_files_have_names(sweep):
    """But for the table of settings, which are named as a file names them."""
    for place in (sweep, sweep / "runs" / "a"):
        text = write_report(place).read_text(encoding="utf-8")
        text = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
        words = re.sub(r"<[^>]*>", " ", text)
        words = re.split(r"Settings of all|Settings\s+loss ", words)[0]
        assert not re.search(r"\b[a-z]+_[a-z]+", words)
        assert not re.search(r"\b1 (steps|records|runs|batches|rows|questions)\b", words)


def test_runs_of_equal_settings_that_end_without_a_score_are_compared(tmp_path):
    write_run(tmp_path / "a", {0: 0.4, 10: 0.5, 20: math.nan}, 0, 0.05)
    write_run(tmp_path / "b", {0: 0.4, 10: 0.7, 20: 0.6}, 1, 0.05)
    text = write_report(tmp_path, tmp_path / "report.md").read_text(encoding="utf-8")
    assert "0.600 ± 0.141" in text
    assert "– ± –" in text


def test_a_score_has_no_logarithmic_axis_and_a_rate_of_0_no_chart():
    history = History(10)
    for step, value in ((0, 0.2), (5, 0.001), (10, 0.3)):
        measured = {"eval_a_spearman_cosine": value, "eval_samples_per_second": 0.0}
        history.add(step, "evaluation", measured | {"eval_steps_per_second": value})
    assert "logarithmic axis" not in run_charts.training({"run": history})[0].chart
    titles = [card.title for card in run_charts.remaining({"run": history})]
    assert titles == ["Steps per second"]
    assert "logarithmic axis" in run_charts.remaining({"run": history})[0].chart


def test_a_chart_says_that_its_points_are_means():
    values = [float(step % 2) for step in range(500)]
    chart = line_chart("Loss", [Series("loss", range(1, 501), values)])
    assert "means of 3 records" in chart
    assert "from 0 at step 1 to 1 at step 500" in chart  # of the records themselves
    (points,) = [line["points"] for line in Page(chart).series["Loss"]]
    assert [step for step, _, _ in points[:2]] == [3, 6]
    assert [value for _, _, value in points[:2]] == ["0.333", "0.667"]
    assert "means of" not in line_chart("Loss", [Series("loss", range(240), values[:240])])


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e6))
def test_marks_are_round_evenly_spaced_and_inside(low, span):
    high = low + span
    marks = ticks(low, high, 5)
    assert 1 <= len(marks) <= 6
    assert all(low - 1e-6 * span <= mark <= high + 1e-6 * span for mark in marks)
    steps = [after - before for before, after in itertools.pairwise(marks)]
    assert steps == pytest.approx(steps[:1] * len(steps), rel=1e-6)
    assert all(float(f"{step:.1e}") == pytest.approx(step, rel=1e-6) for step in steps)
    assert len(set(labels(marks))) == len(marks)


@pytest.mark.parametrize(("cosine", "extra"), [(0.3, 0), (-0.01, 0), (0.2, 100)])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_the_loss_of_guessing_counts_the_candidates(temperature, cosine, extra):
    loss = gradlab.get_loss("infonce", temperature=temperature)
    assert loss_of_guessing(loss, cosine, 64, extra) == pytest.approx(
        math.log(64 + extra), rel=1e-11
    )
    symmetric = gradlab.get_loss("symmetric", loss=loss)
    expected = (math.log(64 + extra) + math.log(64)) / 2
    assert loss_of_guessing(symmetric, cosine, 64, extra) == pytest.approx(expected, rel=1e-11)


def test_the_loss_of_guessing_is_unknown_without_what_the_loss_needs():
    assert loss_of_guessing(gradlab.get_loss("mpt", margin=0.3), 0.2, 8) == pytest.approx(
        0.3, rel=1e-12
    )
    assert loss_of_guessing(gradlab.get_loss("infonce"), 1.2, 8) is None
    assert loss_of_guessing(gradlab.get_loss("mask(infonce, by=guide)"), 0.2, 8) is None


def test_what_is_usual_is_what_a_batch_of_such_angles_does(tmp_path):
    """Draws angles, measures the loss's components, reads mean and spread back from the record."""
    random = np.random.default_rng(0)
    mu, sigma, count = (0.8, 1.3), (0.15, 0.12), 63
    angles = [
        random.normal(m, s, size) for m, s, size in zip(mu, sigma, (4000, 200_000), strict=True)
    ]
    history = History()
    for kind, drawn in zip(("positive", "negative"), angles, strict=True):
        edges = np.floor(np.cos(drawn) * 20) / 20
        low, counts = np.unique(edges.round(2), return_counts=True)
        shares = dict(zip(low.tolist(), (counts / counts.sum()).tolist(), strict=True))
        history.add(10, "histogram", histogram_rows({f"{kind}_cosine": shares}))
        history.add(10, "diagnostics", {f"{kind}_cosine": float(np.cos(drawn).mean())})
    history.add(10, "diagnostics", {"uniform_share": 1 / count})
    for name, tolerance in (("gradient_dissipation", 0.01), ("hardest_share", 0.03)):
        exact = simulate(
            "infonce", name, mu_pos=mu[:1], mu_neg=mu[1:], sigma_pos=sigma[0], sigma_neg=sigma[1],
            negatives=count, progress=False,
        )  # fmt: skip
        steps, values = expected_component(gradlab.get_loss("infonce"), name, history)
        assert steps == [10]
        assert values[0] == pytest.approx(float(exact.value[0, 0]), abs=tolerance)
    learns = gradlab.get_loss("infonce(temperature=0.5, learnable=true)")
    expected = expected_component(gradlab.get_loss("infonce"), "gradient_dissipation", history)[1]
    for number, value in (("temperature", 0.05), ("log_temperature", math.log(0.05))):
        then = History.of(history.rows())
        then.add(9, "train", {f"learned_{number}": value})
        assert expected_component(learns, "gradient_dissipation", then)[1] == pytest.approx(
            expected
        )
    assert expected_component(gradlab.get_loss("symmetric"), "gradient_dissipation", history) == (
        [],
        [],
    )


def test_a_run_is_followed_to_its_end(tmp_path):
    messages = []
    watch = gradlab.watch(loss="infonce", output=tmp_path / "run", every=1, total_steps=50)
    (tmp_path / "run").mkdir()

    def train():
        for _ in range(4):
            watch.observe(torch.randn(8, 4), torch.randn(8, 4))
            refreshed.wait(10)
        watch.finish()

    refreshed, refreshing = threading.Event(), []

    def say(line):
        messages.append(line)
        if line.startswith("Step"):
            page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
            refreshing.append('http-equiv="refresh"' in page)
            refreshed.set()

    thread = threading.Thread(target=train)
    threading.Timer(0.3, thread.start).start()
    path = follow_run(tmp_path / "run", every=0.05, say=say)
    thread.join()
    assert messages[0] == "Waiting for the first record."
    assert refreshing[0]
    assert 'http-equiv="refresh"' not in path.read_text(encoding="utf-8")


def test_a_run_of_which_nothing_comes_is_not_followed(tmp_path):
    with pytest.raises(GradlabError, match="no folder"):
        follow_run(tmp_path / "nothing")
    (tmp_path / "manifest.json").write_text('{"status": "failed"}')
    with pytest.raises(GradlabError, match="ended before anything was recorded"):
        follow_run(tmp_path)


@pytest.mark.parametrize("name", ["infonce", "mask(infonce, above=0.9)", "symmetric(infonce)"])
def test_a_long_queue_needs_no_memory_by_its_square(name):
    import tracemalloc

    tracemalloc.start()
    guessing = loss_of_guessing(gradlab.get_loss(name), 0.3, 64, 65_536)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 20
    assert guessing == (pytest.approx(math.log(64 + 65_536)) if name == "infonce" else None)


@pytest.mark.parametrize("name", gradlab.loss_names())
def test_the_loss_of_guessing_by_pairs_is_that_of_rows(name):
    from gradlab.monitor.expected_loss import _of_equal_rows

    loss = gradlab.get_loss(name)
    for cosine in (-0.4, 0.0, 0.3, 0.9):
        guessing = loss_of_guessing(loss, cosine, 6, 3)
        if guessing is not None:
            assert guessing == pytest.approx(_of_equal_rows(loss, cosine, 6, 3), rel=1e-6)


def test_marks_of_the_upward_axis_fit_beside_it():
    """A figure takes about 6.2 of a chart's units; small scores have marks such as 0.0675."""
    from gradlab.report.svg_charts import LEFT, Series, line_chart

    chart = line_chart("score", [Series("score", [0, 1], [0.0641, 0.0724])])
    marks = re.findall(r'text-anchor="end">([^<]+)<', chart)
    assert max(map(len, marks)) >= 6
    assert all(6.2 * len(mark) <= LEFT - 5 for mark in marks)

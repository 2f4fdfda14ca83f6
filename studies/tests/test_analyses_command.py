"""`python -m studies.analyses` on tiny runs: it draws and writes what the functions give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from click.testing import CliRunner

from gradlab import GradlabError
from gradlab.encoder import Encoder
from gradlab.monitor import History
from gradlab.plotting import read_table
from gradlab.train import TrainConfig, decay, train
from studies.analyses import figures as draw
from studies.analyses import length_bias
from studies.analyses.__main__ import command
from studies.analyses.runs import (
    FinishedRun,
    branch_distance,
    distances_of,
    find_runs,
    measured_distances,
    path_of,
)
from tests.senteval_folder import make_senteval
from tests.tiny_models import make_bert
from tests.train_helpers import small_config

QUEUE = {
    "queue_size": 20, "queue_initial": 4,
    "momentum": 0.5, "momentum_end": 0.9, "momentum_schedule": "linear",
    "held_out": 0.2, "max_steps": 9, "in_batch_negatives": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    start = make_bert(folder / "bert")
    train(small_config(start, folder, "sweep/runs/queue", **QUEUE))
    make_senteval(folder / "data")
    return folder


@pytest.fixture
def folder(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


def run(*arguments):
    result = CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_distances_of_a_run_against_its_queue(folder):
    """The ages that a queue of 20 with 8 rows a step must have, by hand."""
    (run_of_queue,) = find_runs(["sweep"])
    table = distances_of(run_of_queue)
    # Step t saw rows of at most t steps ago, of at most ceil(20 / 8) = 3 batches; the first saw
    # random ones alone.
    ages = [math.nan, 1, 2, 3, 3, 3, 3, 3, 3]
    np.testing.assert_array_equal(table["oldest"], ages)
    decays = [decay(0.5, 0.9, "linear", step, 9) for step in range(9)]
    ages_of_rows = [-1, *ages[1:]]
    expected = [measured_distances([age], t, decays)[0] for t, age in enumerate(ages_of_rows)]
    np.testing.assert_allclose(table["measured"], expected, rtol=1e-11)
    assert table["formula"][-1] == pytest.approx(1 / (1 - 0.9) + 20 / 8)
    assert "measured" in run("distance", "sweep", "--output", "out")
    written = read_table("out/distance-queue.csv")
    np.testing.assert_allclose(written["measured"], table["measured"])
    formula = ("--momentum", 0.85, "--queue-size", 512, "--batch-size", 64)
    assert run("distance", *formula) == "14.6667\n"


def test_distance_of_an_average_that_ends_at_its_beginning_and_of_accumulated_batches():
    def distance(steps=1, **settings):
        config = TrainConfig(model="m", train_file="f", output="o", queue_size=512, **settings)
        return FinishedRun("run", config, {"steps": steps}, History(steps)).distance_at(steps - 1)

    ends = {"momentum": 0.75, "momentum_schedule": "cosine", "momentum_end": 1.0}
    assert distance(steps=2, **ends) == math.inf
    assert distance(momentum=0.75, batch_size=64) == 4 + 8
    # Four batches a step are queued.
    assert distance(momentum=0.75, batch_size=64, accumulation=4) == 4 + 2


def test_length_bias_edits_and_spectrum(folder):
    encoder = Encoder.load("bert")
    output = run(
        "length-bias", "--model", "start=bert", "--model", "sweep/runs/queue/encoder",
        "--eval-data", "data", "--device", "cpu", "--output", "out",
    )  # fmt: skip
    assert "start\n" in output
    bias = length_bias(encoder, "data")
    written = read_table("out/length-bias-correlations.csv")
    of_start = written["model"] == "start"
    np.testing.assert_allclose(written["near"][of_start], bias.correlations["near"], atol=1e-9)
    assert (folder / "out" / "length-bias.png").stat().st_size > 10_000
    output = run(
        "edits", "--model", "bert", "--sentences", "sentences.txt", "--count", 20,
        "--device", "cpu", "--edit", "word_repetition", "--edit", "random_deletion(rate=0.5)",
        "--output", "out",
    )  # fmt: skip
    assert "20 sentences, 4 versions of each" in output
    edits = ["word_repetition", "random_deletion(rate=0.5)"]
    assert read_table("out/edits.csv")["edit"].tolist() == edits
    places = ("--eval-data", "data", "--device", "cpu", "--output", "out")
    assert "effective rank" in run("spectrum", "--model", "bert", *places)


def test_bad_input(folder):
    with pytest.raises(GradlabError, match="give runs, or --momentum"):
        run("distance")
    with pytest.raises(GradlabError, match="the folder of no run and of no sweep"):
        run("path", "data")


def lines(ax):
    return {line.get_label(): (line.get_xdata(), line.get_ydata()) for line in ax.get_lines()}


def test_figures_draw_the_numbers(folder):
    _, ax = draw.draw_finite_steps((0.5, 0.85), last=10)
    x, y = lines(ax)["η = 0.85"]
    np.testing.assert_array_equal(y, branch_distance(0.85, x))
    (run_of_queue,) = find_runs(["sweep"])
    table = distances_of(run_of_queue)
    figure, ax = draw.draw_distances(table)
    np.testing.assert_array_equal(lines(ax)["measured"][1], table["measured"])
    assert figure is ax.figure
    bias = length_bias(Encoder.load("bert"), "data")
    _, ax = draw.draw_excess({"a": bias})
    np.testing.assert_array_equal(lines(ax)["a"][1], bias.curve["excess"])
    _, ax = draw.draw_correlations({"a": bias})
    np.testing.assert_array_equal(lines(ax)["a"][1], bias.correlations["near"])
    path = path_of(run_of_queue)
    _, ax = draw.draw_paths({"a": path})
    np.testing.assert_array_equal(lines(ax)["a"][0], path["uniformity"])
